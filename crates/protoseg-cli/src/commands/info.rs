//! `protoseg info`.

use std::path::Path;

use anyhow::Result;
use protoseg::{
    class_pack::ClassPack,
    core::{ClassRole, Fit},
    method::{Method, capl::Preset},
    model::{Manifest, Model, ModelError},
};
use serde::Serialize;

use super::classes;
use crate::{cli::Info, output};

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    model: &'a Path,
    architecture: String,
    parameters: usize,
    cost: Cost,
    manifest: &'a Manifest,
}

/// Of the features of one image; comparing them with prototypes comes to less than a thousandth of it.
#[derive(Serialize)]
struct Cost {
    size: usize,
    gmac: f64,
    gmac_with_pyramid_shortcut: f64,
}

pub fn run(args: &Info) -> Result<()> {
    let model = match Model::load(&args.model) {
        Err(ModelError::NoManifest { .. }) if ClassPack::load(&args.model).is_ok() => {
            return classes::list(&args.model, args.json);
        }
        model => model?,
    };
    let manifest = model.manifest();
    let size = args.size.map_or(manifest.preprocess.size, |size| size as usize);
    let macs = model.network().macs([size, size]);
    let giga = |macs: u64| (macs as f64 / 1e7).round() / 100.0;
    let report = Report {
        schema: "protoseg.info/1",
        model: &args.model,
        architecture: manifest.network.describe(),
        parameters: model.parameters(),
        cost: Cost { size, gmac: giga(macs.plain), gmac_with_pyramid_shortcut: giga(macs.computed) },
        manifest,
    };
    if args.json { output::json(&report) } else { print(&report) }
}

fn print(report: &Report<'_>) -> Result<()> {
    let Report { manifest, cost, .. } = report;
    let mut rows: Vec<(&str, String)> = vec![
        ("model", report.model.display().to_string()),
        ("architecture", report.architecture.clone()),
        (
            "features",
            match &manifest.method {
                Method::Capl(capl) => {
                    format!("{} dimensions, {} classifier rows", manifest.network.dim, capl.rows)
                }
                _ => format!("{} dimensions", manifest.network.dim),
            },
        ),
        ("parameters", format!("{:.2} million", report.parameters as f64 / 1e6)),
        ("cost", format!("{:.2} GMAC at {} x {}", cost.gmac, cost.size, cost.size)),
    ];
    if cost.gmac != cost.gmac_with_pyramid_shortcut {
        rows.push(("", format!("{:.2} GMAC computed (pyramid shortcut)", cost.gmac_with_pyramid_shortcut)));
    }
    let options = match &manifest.method {
        Method::Capl(capl) => {
            format!(", options: {}", Preset::of(&capl.options).map_or("custom", Preset::name))
        }
        _ => String::new(),
    };
    rows.push(("method", format!("{}{options}", manifest.method.name())));
    let preprocess = &manifest.preprocess;
    rows.push((
        "preprocessing",
        match preprocess.fit {
            Fit::Letterbox => {
                format!("longer side to {} px, pasted on a black square, normalised", preprocess.size)
            }
            Fit::Squash => format!("squashed to {0} x {0} px, normalised", preprocess.size),
            Fit::Tight => {
                let multiple = preprocess.multiple;
                format!(
                    "longer side to {} px, both sides to multiples of {multiple}, normalised",
                    preprocess.size
                )
            }
        },
    ));
    rows.push(("", format!("mean {:?}, deviation {:?}", preprocess.mean, preprocess.std)));
    let training = &manifest.training;
    rows.push(("training", training.origin.clone()));
    if let Some(data) = &training.data {
        let fold = training.fold.map_or(String::new(), |fold| format!(", fold {fold}"));
        rows.push(("", format!("on {data}{fold}")));
    }
    if let Some(novel) = training.novel_pixels {
        let rule = serde_json::to_value(novel)?;
        rows.push(("", format!("novel pixels in base training: {}", rule.as_str().unwrap_or_default())));
    }
    if let Some(selected) = &training.selected {
        rows.push(("", format!("chosen: {selected}")));
    }
    let classes = &manifest.classes;
    for (title, role) in
        [("background", ClassRole::Background), ("base", ClassRole::Base), ("novel", ClassRole::Novel)]
    {
        let names: Vec<&str> = classes.names(role).collect();
        let text = match names.len() {
            0 => "none".to_string(),
            1 => names[0].to_string(),
            n => format!("{n}: {}", names.join(", ")),
        };
        rows.push((title, text));
    }
    for (key, value) in rows {
        output::line(format_args!("{key:<14} {value}"))?;
    }
    Ok(())
}
