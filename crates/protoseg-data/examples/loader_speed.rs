//! How fast training batches are made from files: decoding, the reference's augmentation at 473, batches of 6.
//!
//! usage: loader_speed LIST THREADS. LIST has one `image label` pair per line, relative to its folder. Prints one
//! JSON object. `benches/peers/loader.py` runs it beside a PyTorch DataLoader that does the same work.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use protoseg_core::{Augment, ClassId, ClassTable};
use protoseg_data::reader::list::{self, ListOptions};
use protoseg_data::{DataError, Dataset, Loader, LoaderOptions, MaskKind, OnError, SampleRng, peak_memory};

const CROP: usize = 473;
const BATCH: usize = 6;
/// Number of batches made ahead: the same as a DataLoader with 2 workers.
const PREFETCH: usize = 4;
/// Number of batches before the clock starts.
const WARM_UP: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(list), Some(threads), None) = (args.next(), args.next(), args.next()) else {
        return Err("usage: loader_speed LIST THREADS".into());
    };
    let threads: usize = threads.parse()?;
    let loader = open(Path::new(&list), threads)?;
    for batch in loader.epoch(0, 0).take(WARM_UP) {
        drop(batch?);
    }
    let (start, cpu_start) = (Instant::now(), cpu_seconds());
    let mut images = 0;
    for batch in loader.epoch(1, 0) {
        let Crops { values, labels } = batch?.items;
        assert_eq!(values.len(), 3 * labels.len());
        images += labels.len() / (CROP * CROP);
    }
    let seconds = start.elapsed().as_secs_f64();
    let cpu = cpu_seconds().zip(cpu_start).map(|(end, start)| end - start);
    let report = serde_json::json!({
        "schema": "protoseg.loader-speed.v1",
        "threads": threads,
        "images": images,
        "seconds": seconds,
        "images_per_second": images as f64 / seconds,
        "cpu_ms_per_image": cpu.map(|cpu| 1000.0 * cpu / images as f64),
        "peak_rss_mib": peak_memory().map(|bytes| bytes as f64 / f64::from(1 << 20)),
    });
    print(&report.to_string());
    Ok(())
}

/// Normalised crops, channel by channel, and their labels.
struct Crops {
    values: Vec<f32>,
    labels: Vec<u16>,
}

fn open(list: &Path, threads: usize) -> Result<Loader<usize, Crops, DataError>, Box<dyn Error>> {
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
    let area = CROP * CROP;
    let start = move |n: usize| Crops { values: vec![0.0; n * 3 * area], labels: vec![0; n * area] };
    let fill = move |crops: &mut Crops, place: usize, &index: &usize, rng: &mut SampleRng| {
        let (image, label) = dataset.load(index)?;
        let plan = augment.sample(rng, image.width, image.height);
        let values = &mut crops.values[place * 3 * area..][..3 * area];
        let labels = &mut crops.labels[place * area..][..area];
        augment.apply_into(&plan, &image, &label, values, labels);
        Ok(())
    };
    Ok(Loader::collating(items, options, start, fill)?)
}

/// CPU time of this process so far, from `/proc`: fields 14 and 15 of `stat`, in hundredths of a second. The name
/// before them, in brackets, may contain spaces.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}

#[expect(clippy::print_stdout, reason = "an example's answer")]
fn print(line: &str) {
    println!("{line}");
}
