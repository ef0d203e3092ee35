//! Kernels for pairs of cells against the reference, on every path.

use super::*;
use crate::{
    Activation,
    channels_last::{Finish, Panels, enlarge, multiply},
    reference,
    simd::{
        LANES,
        pretend::{Path, with},
    },
};

fn values(len: usize, seed: u32) -> Vec<f32> {
    let value = |i: usize| {
        let mut z = (i as u32).wrapping_add(seed << 16).wrapping_mul(0x9e37_79b9);
        z = (z ^ (z >> 15)).wrapping_mul(0x85eb_ca6b);
        (z ^ (z >> 13)) as f32 / (1u64 << 31) as f32 - 1.0
    };
    (0..len).map(value).collect()
}

#[track_caller]
fn assert_near(got: &[f32], expected: &[f64], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}: numbers of values");
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let off = (f64::from(got) - expected).abs();
        assert!(off <= 2e-5, "{what}: {got} instead of {expected} at {i}");
    }
}

/// On the machine's own path and on all that it would not choose.
fn on_every_path(test: impl Fn(&str)) {
    test("own path");
    for path in [Path::Portable, Path::Wide, Path::Avx2] {
        with(path, || test(&format!("{path:?}")));
    }
}

#[test]
fn rows_are_weighed() {
    let all = values(400, 1);
    for (channels, count, vectors) in [(16, 37, 5), (3, 9, 1), (13, 1, 4), (16, 0, 2)] {
        let length = vectors * LANES;
        let starts: Vec<usize> = (0..count).map(|i| i * 97 % (all.len() - length + 1)).collect();
        let (weight, bias) = (values(count * channels, 2), values(channels, 3));
        let expected = reference::weigh_rows(&all, &starts, &weight, &bias, length);
        on_every_path(|path| {
            let mut out = vec![f32::NAN; channels * length];
            weigh_rows(&all, &starts, &weight, &bias, &mut out);
            assert_near(&out, &expected, &format!("{count} rows, {channels} channels, {path}"));
        });
    }
}

#[test]
fn groups_are_normalised_from_both_layouts() {
    let norm = GroupNorm { groups: 2, weight: values(8, 4), bias: values(8, 5), epsilon: 1e-5 };
    let grid = Padded { height: 3, width: 21, padding: 2 };
    // 40 support cells: more pairs than one task takes.
    let pairs: Vec<f32> = values(40 * 63 * 8, 6).iter().map(|value| value * 3.0 + 1.0).collect();
    let expected = reference::group_norm(&norm, &pairs);
    let mut planes = vec![f32::NAN; 40 * 8 * grid.whole_len()];
    for (at, &value) in pairs.iter().enumerate() {
        let (cell, place, channel) = (at / 8 / 63, at / 8 % 63, at % 8);
        let padded = place / grid.width * grid.pitch() + place % grid.width;
        planes[(cell * 8 + channel) * grid.whole_len() + padded] = value;
    }
    on_every_path(|path| {
        let mut last = pairs.clone();
        group_norm(&norm, &mut last);
        assert_near(&last, &expected, path);
        assert_near(&group_norm_planes(&norm, &planes, grid), &expected, path);
    });
}

#[test]
fn cosines_of_units_have_zeros_after_each_row() {
    let (channels, grid) = (37, Padded { height: 4, width: 19, padding: 2 });
    let query = values(channels * 4 * 19, 7);
    let support = values(channels * 6, 8);
    let mask = [1.0, 0.0, 0.25, 1.0, 1e-4, 0.5];
    let expected = reference::cosines(&query, &support, &mask, channels, 1e-5);
    let cells: Vec<(usize, f32)> =
        mask.iter().copied().enumerate().filter(|&(_, weight)| weight > 0.0).collect();
    on_every_path(|path| {
        let right = unit_panels(&query, grid, 1e-5);
        let left = unit_rows(&support, 6, &cells, 1e-5);
        let mut out = vec![f32::NAN; cells.len() * grid.len()];
        let finish = Finish { activation: Activation::Relu, ..Finish::default() };
        multiply(&left, &right, finish, &mut out, grid.len());
        for (&(cell, _), row) in cells.iter().zip(out.chunks(grid.len())) {
            for (y, line) in row.chunks(grid.pitch()).enumerate() {
                let expected = &expected[cell * 4 * 19 + y * 19..][..19];
                assert_near(&line[..19], expected, &format!("cell {cell}, row {y}, {path}"));
                assert_eq!(line[19..], [0.0; 2], "zeros after row {y}, {path}");
            }
        }
    });
}

#[test]
fn products_are_added() {
    let (depth, outer, rows) = (7, 20, 111);
    let right = values(3 * depth * outer, 9);
    let panels = Panels::new(3 * depth, outer, |row, column| right[row * outer + column]);
    let lefts = [values(rows * depth, 10), values(rows * depth, 11)];
    let terms = [(&lefts[0][..], 2 * depth), (&lefts[1][..], 0)];
    let begin = values(rows * outer, 12);
    let expected: Vec<f64> = (0..rows * outer)
        .map(|at| {
            let (row, column) = (at / outer, at % outer);
            let term = |(left, from): &(&[f32], usize)| -> f64 {
                (0..depth)
                    .map(|i| f64::from(left[row * depth + i]) * f64::from(right[(from + i) * outer + column]))
                    .sum()
            };
            f64::from(begin[at]) + terms.iter().map(term).sum::<f64>()
        })
        .collect();
    on_every_path(|path| {
        let mut out = begin.clone();
        add_products(&terms, depth, &panels, &mut out);
        assert_near(&out, &expected, path);
    });
}

#[test]
fn maps_are_enlarged_with_corners_on_corners() {
    let share = |new: usize, old: usize, from: usize, to: usize| {
        let at = new as f64 * (from as f64 - 1.0) / (to.max(2) as f64 - 1.0);
        (1.0 - (at - old as f64).abs()).max(0.0)
    };
    for (from, to) in [([3, 4], [7, 9]), ([1, 2], [4, 4]), ([5, 3], [1, 2]), ([2, 2], [2, 2])] {
        let map = values(from[0] * from[1] * 3, 13);
        let mut expected = Vec::new();
        for (y, x, c) in (0..to[0] * to[1] * 3).map(|at| (at / 3 / to[1], at / 3 % to[1], at % 3)) {
            let mut sum = 0.0;
            for (i, j) in (0..from[0] * from[1]).map(|at| (at / from[1], at % from[1])) {
                let value = f64::from(map[(i * from[1] + j) * 3 + c]);
                sum += share(y, i, from[0], to[0]) * share(x, j, from[1], to[1]) * value;
            }
            expected.push(sum);
        }
        assert_near(&enlarge(&map, from, to), &expected, &format!("{from:?} to {to:?}"));
    }
}
