//! `protoseg data prepare`.

use anyhow::Result;
use protoseg_data::prepare::{prepare_coco, prepare_pascal};
use serde_json::json;

use crate::{
    cli::Prepare,
    output::{self, progress::Bar},
};

pub fn run(args: &Prepare) -> Result<()> {
    let bar = Bar::new("preparing");
    let show = |done: usize, total: usize| bar.show(done, total);
    let (to, prepared) = match args {
        Prepare::Pascal { voc, sbd, to } => (to, prepare_pascal(voc, sbd, &to.output, to.force, &show)?),
        Prepare::Coco { coco, to } => (to, prepare_coco(coco, &to.output, to.force, &show)?),
    };
    drop(bar);
    if to.json {
        return output::json(&json!({ "schema": "protoseg.data-prepare/1", "prepared": prepared }));
    }
    output::line(format_args!(
        "{} images to learn from, {} to evaluate on, {} label maps -> {}",
        prepared.train_images,
        prepared.val_images,
        prepared.labels,
        to.output.display()
    ))?;
    if prepared.overlapped_pixels > 0 {
        output::line(format_args!(
            "{} pixels were claimed by instances of two classes; the smaller has them",
            prepared.overlapped_pixels
        ))?;
    }
    output::line(format_args!("next: protoseg data check {}", output::quoted(&to.output)))
}
