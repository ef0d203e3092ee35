//! How well a click finds a thing: IoU with the truth, on things of Scenes.
//!
//! usage: clicks [SCENES]. Run it with `cargo run --release --workspace --example clicks`.
//!
//! Clicks are at random places of a thing, or at the place farthest from its edge. After the first random click, four
//! more are made where a person would: in the middle of the largest mistake.

#![allow(clippy::print_stdout)]

use std::{error::Error, time::Instant};

use protoseg::{
    Image, Model,
    core::IdMap,
    data::reader::scenes::draw_scene,
    rough::{Hint, clean_mask},
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

fn main() -> Result<(), Box<dyn Error>> {
    let scenes = std::env::args().nth(1).map_or(Ok(60), |count| count.parse::<u64>())?;
    let model = Model::builtin();
    let (mut deepest, mut random) = (Vec::new(), vec![Vec::new(); CLICKS]);
    let (mut seconds, mut count) = (0.0, 0);
    for index in 0..scenes {
        let (image, labels) = draw_scene(SEED, SIDE, SIDE * 3 / 4, index);
        let features = model.features(&image);
        let mut cut = |hints: &[Hint]| {
            let start = Instant::now();
            let mask = clean_mask(&image, &model, features.clone(), hints);
            seconds += start.elapsed().as_secs_f64();
            count += 1;
            mask
        };
        for (number, truth) in things(&labels).iter().enumerate() {
            let mut hints = vec![Hint::Unknown; truth.len()];
            click(&mut hints, &image, middle(truth, image.width), Hint::Thing);
            deepest.push(iou(&cut(&hints), truth));
            let mut hints = vec![Hint::Unknown; truth.len()];
            click(&mut hints, &image, any(truth, index * 16 + number as u64), Hint::Thing);
            for found in &mut random {
                let mask = cut(&hints);
                found.push(iou(&mask, truth));
                let missed: Vec<bool> = mask.iter().zip(truth).map(|(is, should)| !is && *should).collect();
                let wrong: Vec<bool> = mask.iter().zip(truth).map(|(is, should)| *is && !should).collect();
                let area = |mask: &[bool]| mask.iter().filter(|is| **is).count();
                let (error, hint) =
                    if area(&missed) >= area(&wrong) { (missed, Hint::Thing) } else { (wrong, Hint::Rest) };
                if error.contains(&true) {
                    click(&mut hints, &image, middle(&error, image.width), hint);
                }
            }
        }
    }
    println!(
        "{} things in {scenes} scenes, {:.0} ms per cut",
        deepest.len(),
        1000.0 * seconds / f64::from(count)
    );
    print("in the middle", &mut deepest);
    for (clicks, found) in random.iter_mut().enumerate() {
        print(&format!("at random, after click {}", clicks + 1), found);
    }
    Ok(())
}

fn print(name: &str, ious: &mut [f64]) {
    ious.sort_by(f64::total_cmp);
    let mean = ious.iter().sum::<f64>() / ious.len().max(1) as f64;
    let median = ious.get(ious.len() / 2).copied().unwrap_or(f64::NAN);
    println!("{name}: median IoU {:.1} %, mean {:.1} %", 100.0 * median, 100.0 * mean);
}

/// Connected parts of one class that are not too small.
fn things(labels: &IdMap) -> Vec<Vec<bool>> {
    let mut left: Vec<bool> = labels.data.iter().map(|&label| label != 0 && label != 255).collect();
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

fn iou(a: &[bool], b: &[bool]) -> f64 {
    let both = a.iter().zip(b).filter(|(a, b)| **a && **b).count();
    let either = a.iter().zip(b).filter(|(a, b)| **a || **b).count();
    both as f64 / either.max(1) as f64
}
