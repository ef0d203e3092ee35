//! `protoseg data prepare`.

use anyhow::Result;
use protoseg::core::count;
use protoseg_data::prepare::{prepare_coco, prepare_pascal};
use serde_json::json;

use crate::{cli::Prepare, output, output::progress::Bar};

pub fn run(args: &Prepare) -> Result<()> {
    let bar = Bar::new("preparing");
    let show = |done: usize, total: usize| bar.show(done, total);
    let (name, to) = match args {
        Prepare::Pascal { to, .. } => ("pascal-5i", to),
        Prepare::Coco { to, .. } => ("coco-20i", to),
    };
    let folder = to.output.clone().unwrap_or_else(|| name.into());
    let prepared = match args {
        Prepare::Pascal { voc, sbd, .. } => prepare_pascal(voc, sbd, &folder, to.force, &show)?,
        Prepare::Coco { coco, .. } => prepare_coco(coco, &folder, to.force, &show)?,
    };
    drop(bar);
    if to.json {
        return output::json(&json!({ "schema": "protoseg.data-prepare/1", "prepared": prepared }));
    }
    output::line(format_args!(
        "{} to learn from, {} to evaluate on, {} -> {}",
        count(prepared.train_images, "image"),
        prepared.val_images,
        count(prepared.labels, "label map"),
        folder.display()
    ))?;
    if prepared.overlapped_pixels > 0 {
        output::line(format_args!(
            "{} pixels were claimed by instances of two classes; the smaller has them",
            prepared.overlapped_pixels
        ))?;
    }
    output::line(format_args!("next: protoseg data check {}", output::quoted(&folder)))
}
