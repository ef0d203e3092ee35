//! How fast training batches are made from files: decoding, the reference augmentation at 473, batches of 6.
//!
//! usage: loader_speed LIST THREADS, where LIST has one `image label` pair a line, relative to its folder. Prints one
//! JSON object. `benches/peers/loader.py` runs it beside a PyTorch DataLoader that does the same work.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use protoseg_core::{Augment, ClassId, ClassTable};
use protoseg_data::reader::list::{self, ListOptions};
use protoseg_data::{DataError, Dataset, Loader, LoaderOptions, MaskKind, OnError};

const CROP: usize = 473;
const BATCH: usize = 6;
/// Batches made ahead, as many as a DataLoader of 2 workers makes.
const PREFETCH: usize = 4;
/// Batches before the clock starts.
const WARM_UP: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(list), Some(threads), None) = (args.next(), args.next(), args.next()) else {
        return Err("usage: loader_speed LIST THREADS".into());
    };
    let threads: usize = threads.parse()?;
    let loader = open(Path::new(&list), threads)?;
    for batch in loader.epoch(0, 0).take(WARM_UP) {
        collate(batch?.items);
    }
    let start = Instant::now();
    let mut images = 0;
    for batch in loader.epoch(1, 0) {
        let batch = collate(batch?.items);
        images += batch.labels.len() / (CROP * CROP);
    }
    let seconds = start.elapsed().as_secs_f64();
    let report = serde_json::json!({
        "schema": "protoseg.loader-speed.v1",
        "threads": threads,
        "images": images,
        "seconds": seconds,
        "images_per_second": images as f64 / seconds,
        "peak_rss_mib": peak_rss_mib(),
    });
    print(&report.to_string());
    Ok(())
}

/// `BATCH` normalised crops, channel by channel, and the labels below them.
struct Batch {
    values: Vec<f32>,
    labels: Vec<u16>,
}

type Crop = (Vec<f32>, Vec<u16>);

fn collate(crops: Vec<Crop>) -> Batch {
    let mut batch = Batch {
        values: Vec::with_capacity(crops.len() * 3 * CROP * CROP),
        labels: Vec::with_capacity(crops.len() * CROP * CROP),
    };
    for (values, labels) in crops {
        batch.values.extend_from_slice(&values);
        batch.labels.extend_from_slice(&labels);
    }
    batch
}

fn open(list: &Path, threads: usize) -> Result<Loader<usize, Crop, DataError>, Box<dyn Error>> {
    let root = list.parent().unwrap_or(Path::new("")).to_path_buf();
    let classes = (0..255).map(|id| (ClassId(id), format!("class {id}")));
    let dataset = list::open(ListOptions {
        name: "speed".to_string(),
        image_root: root.clone(),
        label_root: root,
        lists: vec![("train".to_string(), list.to_path_buf())],
        classes: ClassTable::new(classes, None, &[255])?,
        masks: MaskKind::Index,
    })?;
    let options = LoaderOptions {
        batch_size: BATCH,
        seed: 0,
        shuffle: true,
        drop_last: true,
        workers: threads,
        prefetch: PREFETCH,
        on_error: OnError::Stop,
    };
    let augment = Augment::reference(CROP);
    let items = dataset.split("train")?.samples.clone();
    Ok(Loader::new(items, options, move |&index, rng| {
        let (image, label) = dataset.load(index)?;
        let plan = augment.sample(rng, image.width, image.height);
        let (values, labels) = augment.apply(&plan, &image, &label);
        Ok((values, labels.data))
    })?)
}

/// The most memory this process ever held, from `/proc`; none where there is no such file.
fn peak_rss_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib / 1024.0)
}

#[expect(clippy::print_stdout, reason = "an example's answer")]
fn print(line: &str) {
    println!("{line}");
}
