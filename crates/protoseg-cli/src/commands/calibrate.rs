//! `protoseg calibrate`.

use anyhow::Result;
use protoseg::model::Model;
use protoseg_data::Benchmark;
use serde::Serialize;

use crate::{
    cli::Calibrate,
    output::{self, progress::Bar},
};

#[derive(Serialize)]
struct Answer<'a> {
    schema: &'static str,
    model: &'a std::path::Path,
    temperature: f64,
    images: usize,
    ece_percent: f64,
}

pub fn run(args: &Calibrate) -> Result<()> {
    output::refuse_overwrite(&args.output, args.force)?;
    let model = Model::load(&args.model)?;
    let benchmark = Benchmark::open(&args.data, args.root.as_deref())?;
    let bar = Bar::new("images");
    let model = model.calibrated(&benchmark, &|done, total| bar.show(done, total))?;
    drop(bar);
    model.save(&args.output)?;
    let Some(calibration) = &model.manifest().training.calibration else { return Ok(()) };
    let ece_percent = 100.0 * calibration.reliability.ece();
    if args.json {
        return output::json(&Answer {
            schema: "protoseg.calibrate/1",
            model: &args.output,
            temperature: calibration.temperature,
            images: calibration.images,
            ece_percent,
        });
    }
    output::line(format_args!(
        "temperature {:.3}, from {} training images; confidences are off by {ece_percent:.1} % there -> {}",
        calibration.temperature,
        calibration.images,
        args.output.display()
    ))?;
    output::line(format_args!(
        "protoseg predict --model {} IMAGES -o OUT --precision 0.95",
        args.output.display()
    ))
}
