//! Colours of classes: bright on a photo, and far apart also for people who see fewer colours.
//!
//! The first seven follow the palette of Okabe and Ito (orange, sky blue, purple, green, yellow, blue, vermilion), made
//! brighter and moved apart. Each further colour is the one that is farthest from all before it. Distances are taken in
//! Oklab, for full colour vision and for its three common deficiencies, and the smallest counts.

use std::sync::LazyLock;

/// Number of different colours: as many as the palette of a PNG can hold besides background and "no class".
const COLORS: usize = 254;

const FIRST: [[u8; 3]; 7] = [
    [0xe9, 0xa0, 0x12],
    [0x70, 0xe7, 0xff],
    [0xd0, 0x51, 0xd4],
    [0x06, 0xbe, 0x9f],
    [0xef, 0xff, 0x28],
    [0x04, 0x38, 0xbc],
    [0xc3, 0x25, 0x00],
];

/// Values of a channel from which further colours are chosen.
const LEVELS: [u8; 9] = [0, 32, 64, 96, 128, 160, 192, 224, 255];

/// How linear RGB looks with full colour vision, and without one of the three cones (Machado, Oliveira and Fernandes,
/// 2009, severity 1).
const VISIONS: [[[f64; 3]; 3]; 4] = [
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
];

/// The colour of the class at this place. They repeat after 254 classes.
pub fn class_color(place: usize) -> [u8; 3] {
    static ALL: LazyLock<Vec<[u8; 3]>> = LazyLock::new(choose);
    ALL[place % COLORS]
}

fn choose() -> Vec<[u8; 3]> {
    let grid = LEVELS.iter().flat_map(|&r| LEVELS.iter().flat_map(move |&g| LEVELS.map(|b| [r, g, b])));
    let bright = |color: &[u8; 3]| {
        let [lightness, a, b] = views(*color)[0];
        (0.45..=0.95).contains(&lightness) && a.hypot(b) >= 0.07
    };
    let candidates: Vec<([u8; 3], [[f64; 3]; 4])> =
        grid.filter(bright).map(|color| (color, views(color))).collect();
    let mut nearest = vec![f64::INFINITY; candidates.len()];
    let mut chosen = Vec::with_capacity(COLORS);
    while chosen.len() < COLORS {
        let color = FIRST.get(chosen.len()).copied().unwrap_or_else(|| {
            let farthest = (0..candidates.len()).max_by(|&a, &b| nearest[a].total_cmp(&nearest[b]));
            farthest.map_or([255; 3], |farthest| candidates[farthest].0)
        });
        chosen.push(color);
        let seen = views(color);
        for (least, (_, other)) in nearest.iter_mut().zip(&candidates) {
            *least = least.min(distance(&seen, other));
        }
    }
    chosen
}

/// How far apart two colours are for the vision that tells them apart worst. Full vision counts half: there, colours
/// are farther apart anyway.
fn distance(a: &[[f64; 3]; 4], b: &[[f64; 3]; 4]) -> f64 {
    let apart =
        |(a, b): (&[f64; 3], &[f64; 3])| (0..3).map(|axis| (a[axis] - b[axis]).powi(2)).sum::<f64>().sqrt();
    let all = a.iter().zip(b).map(apart).zip([0.5, 1.0, 1.0, 1.0]);
    all.map(|(apart, weight)| weight * apart).fold(f64::INFINITY, f64::min)
}

/// A colour in Oklab, as each vision sees it.
fn views(color: [u8; 3]) -> [[f64; 3]; 4] {
    let linear = color.map(|value| {
        let value = f64::from(value) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    });
    VISIONS.map(|vision| oklab(product(&vision, linear).map(|value| value.clamp(0.0, 1.0))))
}

/// Oklab (Ottosson, 2020): lightness, and two axes of colour.
fn oklab(linear: [f64; 3]) -> [f64; 3] {
    const CONES: [[f64; 3]; 3] = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ];
    const AXES: [[f64; 3]; 3] = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ];
    product(&AXES, product(&CONES, linear).map(f64::cbrt))
}

fn product(matrix: &[[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest distance among the first colours.
    fn least(count: usize) -> f64 {
        let all: Vec<_> = (0..count).map(|place| views(class_color(place))).collect();
        let pairs = (0..count).flat_map(|a| (0..a).map(move |b| (a, b)));
        pairs.map(|(a, b)| distance(&all[a], &all[b])).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn colours_stay_apart_for_every_kind_of_colour_vision() {
        // 0.02 is about the smallest difference that is seen side by side.
        assert!(least(7) > 0.08, "{}", least(7));
        assert!(least(21) > 0.05, "{}", least(21));
        assert!(least(81) > 0.02, "{}", least(81));
    }

    #[test]
    fn no_colour_is_black_or_white_and_there_is_one_for_every_place() {
        assert!((0..300).all(|place| ![[0; 3], [255; 3]].contains(&class_color(place))));
        assert_eq!(class_color(COLORS), class_color(0));
    }
}
