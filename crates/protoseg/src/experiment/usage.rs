//! How a row uses its model, by names.

use super::{CellPlan, ExperimentError};
use crate::{
    method::{
        Usage,
        capl::{Preset, usage::ActiveParts},
        prototypes::PrototypeUsage,
    },
    model::Model,
};

/// The usage that a cell asks for; none for a system for episodes, which has one use only.
pub fn resolve(model: &Model, cell: &CellPlan) -> Result<Option<Usage>, ExperimentError> {
    let (variant, preset) = (cell.usage.variant.as_deref(), cell.usage.preset.as_deref());
    let wanted = [variant, preset].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let refuse =
        |known: String| ExperimentError::Use { row: cell.row.clone(), wanted: wanted.clone(), known };
    if model.manifest().method.episodic().is_some() {
        return match (variant, preset) {
            (None, None) => Ok(None),
            _ => Err(refuse("no `use` and no `preset`: it answers episodes".to_string())),
        };
    }
    let preset = match preset {
        None => None,
        Some(name) => {
            let known = || Preset::ALL.map(Preset::name).join(", ");
            let found = Preset::ALL.into_iter().find(|preset| preset.name() == name);
            Some(found.ok_or_else(|| refuse(known()))?)
        }
    };
    Ok(Some(match model.usage()? {
        Usage::Capl(own) => {
            let parts = || ActiveParts::ALL.map(ActiveParts::name).join(", ");
            let own = match preset {
                None => own,
                Some(preset) => own.with_preset(preset),
            };
            Usage::Capl(match variant {
                None => own,
                Some(name) => own.with_parts(ActiveParts::named(name).ok_or_else(|| refuse(parts()))?),
            })
        }
        Usage::Prototypes(own) => {
            let known = || own.all().iter().map(PrototypeUsage::name).collect::<Vec<_>>().join(", ");
            let usage = match variant {
                None => own,
                Some(name) => own.named(name).ok_or_else(|| refuse(known()))?,
            };
            Usage::Prototypes(match preset {
                None => usage,
                Some(preset) => usage
                    .with_head_preset(preset)
                    .ok_or_else(|| refuse("a `use` without `preset`: there is no head".to_string()))?,
            })
        }
    }))
}
