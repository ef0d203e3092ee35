//! `protoseg segment`.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::Result;
use protoseg::data::{
    Support,
    mask::encode_values_png,
    picture::{read_image, write_image},
    write_atomic,
};
use serde::Serialize;

use super::{support_words::read_support, usage::load_model};
use crate::{cli::Segment, output};

pub fn run(args: &Segment) -> Result<()> {
    let overlay = args.overlay.then(|| overlay_path(&args.output));
    for path in std::iter::once(&args.output).chain(&overlay) {
        output::refuse_overwrite(path, args.force)?;
    }
    let read = |support: &String| -> Result<Support> { Ok(read_support(&args.class, support)?.load(0, 0)?) };
    let supports = args.support.iter().map(read).collect::<Result<Vec<_>>>()?;
    for note in supports.iter().flat_map(Support::notes) {
        output::note(format_args!("note: {note}"));
    }
    let query = read_image(&args.query)?;
    let model = load_model(Some(&args.model), &args.device)?;
    let model = match args.size {
        Some(size) => model.with_canvas(size as usize)?,
        None => model,
    };
    let start = Instant::now();
    let prediction = model.find(&args.class, &query, &supports)?;
    let labels = prediction.labels();
    let seconds = start.elapsed().as_secs_f64();

    let mask: Vec<u8> = labels.data.iter().map(|&label| if label == 1 { 255 } else { 0 }).collect();
    write_atomic(&args.output, &encode_values_png(labels.width, labels.height, &mask))?;
    if let Some(path) = &overlay {
        write_image(path, &prediction.overlay(&query))?;
    }
    let pixels = mask.iter().filter(|&&value| value == 255).count();
    let answer = Answer {
        schema: "protoseg.segment/1",
        model: &args.model,
        method: model.manifest().method.name(),
        query: &args.query,
        class: &args.class,
        shots: supports.len(),
        width: labels.width,
        height: labels.height,
        pixels,
        share: pixels as f64 / mask.len().max(1) as f64,
        seconds,
        mask: &args.output,
        overlay: overlay.as_deref(),
    };
    match args.json {
        true => output::json(&answer),
        false => output::line(format_args!(
            "{} covers {:.1} % of {} ({seconds:.2} s) -> {}",
            args.class,
            100.0 * answer.share,
            args.query.display(),
            args.output.display()
        )),
    }
}

/// What the command found.
#[derive(Serialize)]
struct Answer<'a> {
    schema: &'static str,
    model: &'a Path,
    method: String,
    query: &'a Path,
    class: &'a str,
    shots: usize,
    width: usize,
    height: usize,
    /// Of the class.
    pixels: usize,
    /// Of all pixels, from 0 to 1.
    share: f64,
    /// Of the network.
    seconds: f64,
    mask: &'a Path,
    overlay: Option<&'a Path>,
}

/// `out/lake_overlay.png` beside `out/lake.png`.
fn overlay_path(mask: &Path) -> PathBuf {
    let stem = mask.file_stem().unwrap_or_default().to_string_lossy();
    mask.with_file_name(format!("{stem}_overlay.png"))
}
