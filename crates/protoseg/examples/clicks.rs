//! How well a click finds a thing: IoU with the truth, on things of Scenes, or of photos with labels.
//!
//! usage: clicks [SCENES [SEED]], or clicks FOLDER [PHOTOS]. The folder has a `test.txt`, whose lines name a photo and
//! its labels. Run it with `cargo run --release --workspace --example clicks`.
//!
//! Clicks are at random places of a thing, or at the place farthest from its edge. After the first random click, four
//! more are made where a person would: in the middle of the largest mistake.

#![allow(clippy::print_stdout)]

use std::{
    error::Error,
    path::Path,
    time::{Duration, Instant},
};

use protoseg::{
    Image, Model,
    core::IdMap,
    data::{mask::read_index_mask, reader::scenes::draw_scene},
    read_image,
    rough::{Hint, Parts},
};

/// Longer side of the pictures.
const SIDE: usize = 480;
/// Pixels of the smallest thing that is clicked on.
const LEAST: usize = 1000;
/// Radius of a click, in pixels.
const RADIUS: usize = 3;
/// Scenes of their own, which no model was trained on.
const SEED: u64 = 40_961;
const CLICKS: usize = 5;
/// The label of what belongs to no class and to no background.
const UNSURE: u16 = 255;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let model = Model::builtin();
    let (mut deepest, mut random) = (Vec::new(), vec![Vec::new(); CLICKS]);
    let (mut to_see, mut to_cut) = ([Duration::ZERO; 2], 0);
    let cases = cases(&arguments)?;
    let photos = cases.len() as u32;
    for (index, case) in cases.into_iter().enumerate() {
        let (image, labels) = case()?;
        let features = model.features(&image);
        let start = Instant::now();
        let parts = Parts::new(&image, &model, features);
        to_see[0] += start.elapsed();
        let mut cut = |hints: &[Hint]| {
            let start = Instant::now();
            let mask = parts.clean_mask(&model, hints);
            to_see[1] += start.elapsed();
            to_cut += 1;
            mask
        };
        let is_sure: Vec<bool> = labels.data.iter().map(|&label| label != UNSURE).collect();
        for (number, truth) in things(&labels).iter().enumerate() {
            let mut hints = vec![Hint::Unknown; truth.len()];
            click(&mut hints, &image, middle(truth, image.width), Hint::Thing);
            deepest.push(iou(&cut(&hints), truth, &is_sure));
            let mut hints = vec![Hint::Unknown; truth.len()];
            click(&mut hints, &image, any(truth, (index * 16 + number) as u64), Hint::Thing);
            for found in &mut random {
                let mask = cut(&hints);
                found.push(iou(&mask, truth, &is_sure));
                let differs = |way: bool| -> Vec<bool> {
                    (0..mask.len()).map(|at| is_sure[at] && mask[at] == way && truth[at] != way).collect()
                };
                let (missed, wrong) = (differs(false), differs(true));
                let area = |mask: &[bool]| mask.iter().filter(|is| **is).count();
                let (error, hint) =
                    if area(&missed) >= area(&wrong) { (missed, Hint::Thing) } else { (wrong, Hint::Rest) };
                if error.contains(&true) {
                    click(&mut hints, &image, middle(&error, image.width), hint);
                }
            }
        }
    }
    let milliseconds = |time: Duration, count: u32| 1000.0 * time.as_secs_f64() / f64::from(count.max(1));
    println!(
        "{} things in {photos} pictures, {:.0} ms per picture and {:.0} ms per cut",
        deepest.len(),
        milliseconds(to_see[0], photos),
        milliseconds(to_see[1], to_cut)
    );
    print("in the middle", &mut deepest);
    for (clicks, found) in random.iter_mut().enumerate() {
        print(&format!("at random, after click {}", clicks + 1), found);
    }
    Ok(())
}

/// A picture and its labels, read or drawn when it is its turn.
type Case = Box<dyn FnOnce() -> Result<(Image, IdMap), Box<dyn Error>>>;

fn cases(arguments: &[String]) -> Result<Vec<Case>, Box<dyn Error>> {
    let number =
        |place: usize, default: u64| arguments.get(place).map_or(Ok(default), |text| text.parse::<u64>());
    let folder = arguments.first().map(Path::new).filter(|folder| folder.is_dir());
    let Some(folder) = folder else {
        let seed = number(1, SEED)?;
        let draw = |index| -> Case { Box::new(move || Ok(draw_scene(seed, SIDE, SIDE * 3 / 4, index))) };
        return Ok((0..number(0, 60)?).map(draw).collect());
    };
    let list = std::fs::read_to_string(folder.join("test.txt"))?;
    let all: Vec<&str> = list.lines().collect();
    // From everywhere in the list, which is sorted.
    let wanted = usize::try_from(number(1, 100)?)?.clamp(1, all.len().max(1));
    let read = |line: &str| -> Case {
        let [image, labels] =
            [0, 1].map(|place| folder.join(line.split_whitespace().nth(place).unwrap_or_default()));
        Box::new(move || Ok((read_image(image)?, read_index_mask(&labels)?)))
    };
    Ok((0..wanted).filter_map(|at| all.get(at * all.len() / wanted)).map(|line| read(line)).collect())
}

fn print(name: &str, ious: &mut [f64]) {
    ious.sort_by(f64::total_cmp);
    let mean = ious.iter().sum::<f64>() / ious.len().max(1) as f64;
    let median = ious.get(ious.len() / 2).copied().unwrap_or(f64::NAN);
    println!("{name}: median IoU {:.1} %, mean {:.1} %", 100.0 * median, 100.0 * mean);
}

/// Connected parts of one class that are not too small.
fn things(labels: &IdMap) -> Vec<Vec<bool>> {
    let mut left: Vec<bool> = labels.data.iter().map(|&label| label != 0 && label != UNSURE).collect();
    let mut found = Vec::new();
    while let Some(start) = left.iter().position(|is| *is) {
        let (mut part, mut stack) = (vec![false; left.len()], vec![start]);
        while let Some(at) = stack.pop() {
            if !left[at] || labels.data[at] != labels.data[start] {
                continue;
            }
            (left[at], part[at]) = (false, true);
            let (x, y) = (at % labels.width, at / labels.width);
            stack.extend((x > 0).then(|| at - 1));
            stack.extend((x + 1 < labels.width).then_some(at + 1));
            stack.extend((y > 0).then(|| at - labels.width));
            stack.extend((y + 1 < labels.height).then_some(at + labels.width));
        }
        if part.iter().filter(|is| **is).count() >= LEAST {
            found.push(part);
        }
    }
    found
}

/// The pixel of a mask that is farthest from its edge: the last that is left when line after line is peeled off.
fn middle(mask: &[bool], width: usize) -> usize {
    let mut inside = mask.to_vec();
    loop {
        let is_kept = |at: usize| {
            let (x, height) = (at % width, inside.len() / width);
            let is_edge = x == 0 || x + 1 == width || at < width || at / width + 1 == height;
            inside[at] && !is_edge && [at - 1, at + 1, at - width, at + width].iter().all(|&at| inside[at])
        };
        let next: Vec<bool> = (0..inside.len()).map(is_kept).collect();
        if !next.contains(&true) {
            return inside.iter().position(|is| *is).unwrap_or(0);
        }
        inside = next;
    }
}

/// Some pixel of a mask, the same for the same number.
fn any(mask: &[bool], number: u64) -> usize {
    let inside: Vec<usize> = (0..mask.len()).filter(|at| mask[*at]).collect();
    let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    inside[mixed as usize % inside.len()]
}

fn click(hints: &mut [Hint], image: &Image, at: usize, hint: Hint) {
    let (x, y) = (at % image.width, at / image.width);
    for row in y.saturating_sub(RADIUS)..(y + RADIUS + 1).min(image.height) {
        let columns = x.saturating_sub(RADIUS)..(x + RADIUS + 1).min(image.width);
        hints[row * image.width..][columns].fill(hint);
    }
}

fn iou(a: &[bool], b: &[bool], is_sure: &[bool]) -> f64 {
    let count = |counts: fn(bool, bool) -> bool| {
        a.iter().zip(b).zip(is_sure).filter(|((a, b), is_sure)| **is_sure && counts(**a, **b)).count()
    };
    count(|a, b| a && b) as f64 / count(|a, b| a || b).max(1) as f64
}
