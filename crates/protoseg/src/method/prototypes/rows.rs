//! From base prototypes and supports to the rows that a pixel is compared with.
//!
//! A class may have several rows; its score is that of its best. Rows of the background step back where a taught class
//! needs their place: a row of the model that is the nearest of all to pixels of the class in its own supports, and a
//! row from one class's supports that shows another taught class. A base class that has supports of its own gets more
//! rows, made of them like those of a novel class.

use std::collections::{BTreeMap, HashSet};

use burn::tensor::{Tensor, TensorData};
use protoseg_kernels::channels_last::{Panels, best_rows};

use super::{Prototypes, PrototypesWeights};
use crate::method::{
    Rows,
    cosine::unit,
    support_sums::{Mean, Pooled, SupportSums, by_class},
};

/// A row of the model's background steps back if it is the best of all on at least this share of the pixels of a taught
/// class.
const STEP_BACK: f32 = 0.002;
/// About this many background rows of supports are compared with all others at a time.
const CHUNK: usize = 512;

/// The rows of base and novel classes; the error is the index of a novel class without a pixel.
pub(super) fn register(
    settings: &Prototypes,
    weights: &PrototypesWeights,
    n_base: usize,
    n_novel: usize,
    supports: &[SupportSums],
    whitened: bool,
) -> Result<Rows, usize> {
    let device = weights.base.val().device();
    let dim = weights.base.val().dims()[1];
    let space = |rows: Vec<f32>| -> Tensor<2> {
        let count = rows.len() / dim;
        weights.space(Tensor::from_data(TensorData::new(rows, [count, dim]), &device), whitened)
    };
    let of = by_class(supports, n_base + n_novel);
    let (of_base, of_novel) = of.split_at(n_base);

    let mut rows = Builder::default();
    for (index, supports) in of_novel.iter().enumerate() {
        let own = prototypes(settings, supports, dim).ok_or(index)?;
        rows.add(n_base + index, space(own));
    }
    let base = weights.space(weights.base.val(), whitened);
    let beaten: HashSet<u16> = of_novel.iter().flat_map(|supports| beaten(supports)).collect();
    let mut start = 0;
    for (class, (&count, refining)) in settings.base_rows.iter().zip(of_base).enumerate() {
        let own = base.clone().slice_dim(0, start..start + count);
        let kept = if class == 0 && settings.has_background {
            keep(own, |row| !u16::try_from(row).is_ok_and(|row| beaten.contains(&row)))
        } else {
            Some(own)
        };
        if let Some(kept) = kept {
            rows.add(class, kept);
        }
        if let Some(own) = prototypes(settings, refining, dim) {
            rows.add(class, space(own));
        }
        start += count;
    }
    if settings.has_background {
        let rest: Vec<(usize, Vec<f32>)> = (n_base..)
            .zip(of_novel)
            .flat_map(|(class, supports)| {
                let rest = supports.iter().flat_map(|support| &support.clusters.rest);
                rest.map(move |group| (class, mean(group).collect()))
            })
            .collect();
        rows.add_rest(rest, space);
    }
    Ok(rows.finish())
}

/// The prototypes of one novel class: its groups of pixels, or the mean of all.
fn prototypes(settings: &Prototypes, supports: &[&SupportSums], dim: usize) -> Option<Vec<f32>> {
    let supports = supports.iter().copied();
    if settings.own_groups > 0 {
        let groups: Vec<f32> = supports.flat_map(|support| &support.clusters.own).flat_map(mean).collect();
        return (!groups.is_empty()).then_some(groups);
    }
    let mut all = Mean::default();
    supports.filter_map(SupportSums::own).for_each(|own| all.add(&own.sum[..dim], own.count));
    all.get()
}

fn mean(pooled: &Pooled) -> impl Iterator<Item = f32> {
    pooled.sum.iter().map(|sum| sum / pooled.count)
}

/// Rows of the model's background that step back for a class with these supports.
fn beaten(supports: &[&SupportSums]) -> Vec<u16> {
    let all: f32 = supports.iter().filter_map(|support| support.own()).map(|own| own.count).sum();
    let mut lost: BTreeMap<u16, f32> = BTreeMap::new();
    for (row, count) in supports.iter().flat_map(|support| &support.clusters.beaten_by) {
        *lost.entry(*row).or_default() += count;
    }
    lost.retain(|_, lost| *lost > 0.0 && *lost >= STEP_BACK * all);
    lost.into_keys().collect()
}

/// The rows that `keeps`, if any.
fn keep(rows: Tensor<2>, keeps: impl Fn(usize) -> bool) -> Option<Tensor<2>> {
    let [count, dim] = rows.dims();
    let kept: Vec<usize> = (0..count).filter(|&row| keeps(row)).collect();
    if kept.len() == count {
        return Some(rows);
    }
    let device = rows.device();
    let values: Vec<f32> = rows.try_into_vec_as().expect("prototypes are f32");
    let values: Vec<f32> = kept.iter().flat_map(|row| &values[row * dim..][..dim]).copied().collect();
    (!kept.is_empty()).then(|| Tensor::from_data(TensorData::new(values, [kept.len(), dim]), &device))
}

/// Rows by class, in any order.
#[derive(Default)]
struct Builder {
    parts: Vec<(usize, Tensor<2>)>,
}

impl Builder {
    fn add(&mut self, class: usize, rows: Tensor<2>) {
        self.parts.push((class, unit(rows)));
    }

    /// All rows of the classes that are `wanted`, one class after the other: the classes, where the rows of each end, and
    /// the rows.
    fn of(&self, wanted: impl Fn(usize) -> bool) -> (Vec<usize>, Vec<usize>, Vec<f32>) {
        let mut parts: Vec<&(usize, Tensor<2>)> =
            self.parts.iter().filter(|(class, _)| wanted(*class)).collect();
        parts.sort_by_key(|(class, _)| *class);
        let (mut classes, mut ends, mut values, mut end) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for (class, rows) in parts {
            end += rows.dims()[0];
            match classes.last() == Some(class) {
                true => *ends.last_mut().expect("as many as classes") = end,
                false => {
                    classes.push(*class);
                    ends.push(end);
                }
            }
            values.extend(rows.try_to_vec_as::<f32>().expect("prototypes are f32"));
        }
        (classes, ends, values)
    }

    /// Adds background rows from the supports of novel classes, in the order of the classes. One that is nearer to a row
    /// of another class than to any background so far is that class's and left out.
    fn add_rest(&mut self, rest: Vec<(usize, Vec<f32>)>, space: impl Fn(Vec<f32>) -> Tensor<2>) {
        let Some(dim) = rest.first().map(|(_, row)| row.len()) else { return };
        let (classes, ends, others) = self.of(|class| class != 0);
        let others = panels(&others, dim);
        let background = panels(&self.of(|class| class == 0).2, dim);
        let mut kept: Vec<f32> = Vec::new();
        let mut rest = &rest[..];
        let mut device = None;
        while !rest.is_empty() {
            // Whole classes: one compares with the background of those before it.
            let last = rest[rest.len().min(CHUNK) - 1].0;
            let (chunk, more) = rest.split_at(rest.partition_point(|(class, _)| *class <= last));
            rest = more;
            let rows = unit(space(chunk.iter().flat_map(|(_, row)| row).copied().collect()));
            device.get_or_insert(rows.device());
            let rows: Vec<f32> = rows.try_into_vec_as().expect("prototypes are f32");

            let scores = best_rows(&rows, &others, &ends, 1.0);
            let of_others = |(place, (own, _)): (usize, &(usize, Vec<f32>))| {
                let scores = classes.iter().zip(&scores[place * classes.len()..]);
                scores.filter(|(class, _)| *class != own).map(|(_, &score)| score).reduce(f32::max)
            };
            let of_others: Vec<Option<f32>> = chunk.iter().enumerate().map(of_others).collect();
            let mut nearest = best(&rows, &background, dim);
            let is_open = |place: usize, nearest: f32| of_others[place].is_some_and(|other| other > nearest);
            // Most are decided by the model's own background.
            let open: Vec<usize> = (0..chunk.len()).filter(|&place| is_open(place, nearest[place])).collect();
            let values: Vec<f32> =
                open.iter().flat_map(|place| &rows[place * dim..][..dim]).copied().collect();
            for (&place, score) in open.iter().zip(best(&values, &panels(&kept, dim), dim)) {
                nearest[place] = nearest[place].max(score);
            }
            let within = best_rows(&values, &panels(&rows, dim), &Vec::from_iter(1..=chunk.len()), 1.0);
            let mut line = within.chunks_exact(chunk.len());
            let mut keeps = vec![true; chunk.len()];
            for &place in &open {
                let line = line.next().expect("one for each that is open");
                let before = chunk.partition_point(|(class, _)| *class < chunk[place].0);
                let kept = line[..before].iter().zip(&keeps).filter(|(_, keeps)| **keeps);
                let nearest = kept.map(|(score, _)| *score).fold(nearest[place], f32::max);
                keeps[place] = !is_open(place, nearest);
            }
            let rows = rows.chunks_exact(dim).zip(keeps).filter(|(_, keeps)| *keeps);
            kept.extend(rows.flat_map(|(row, _)| row));
        }
        if let (Some(device), false) = (device, kept.is_empty()) {
            let count = kept.len() / dim;
            self.parts.push((0, Tensor::from_data(TensorData::new(kept, [count, dim]), &device)));
        }
    }

    fn finish(mut self) -> Rows {
        self.parts.sort_by_key(|(class, _)| *class);
        let owners =
            self.parts.iter().flat_map(|(class, rows)| vec![*class as u16; rows.dims()[0]]).collect();
        let vectors = Tensor::cat(self.parts.into_iter().map(|(_, rows)| rows).collect(), 0);
        Rows::new(vectors, owners)
    }
}

fn panels(rows: &[f32], dim: usize) -> Panels {
    Panels::new(dim, rows.len() / dim, |channel, row| rows[row * dim + channel])
}

/// The cosine of each of these rows with the nearest of others.
fn best(rows: &[f32], others: &Panels, dim: usize) -> Vec<f32> {
    match others.outer {
        0 => vec![f32::NEG_INFINITY; rows.len() / dim],
        count => best_rows(rows, others, &[count], 1.0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::device::cpu;

    const DIM: usize = 16;

    fn row(seed: u64) -> Vec<f32> {
        let value = |at: u64| {
            let mixed = (seed * DIM as u64 + at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            mixed as f32 / (1 << 23) as f32 - 1.0
        };
        (0..DIM as u64).map(value).collect()
    }

    fn tensor(rows: Vec<f32>) -> Tensor<2> {
        let count = rows.len() / DIM;
        Tensor::from_data(TensorData::new(rows, [count, DIM]), &cpu())
    }

    fn unit_row(row: &[f32]) -> Vec<f64> {
        let length = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        row.iter().map(|value| f64::from(*value) / length).collect()
    }

    /// The rule as it is said: one class after the other, one row after the other. None if rounding would decide.
    fn keep_one_by_one(
        parts: &[(usize, Vec<f32>)],
        rest: &[(usize, Vec<f32>)],
    ) -> Option<Vec<(usize, Vec<f32>)>> {
        let cosine =
            |a: &[f32], b: &[f32]| -> f64 { unit_row(a).iter().zip(unit_row(b)).map(|(a, b)| a * b).sum() };
        let mut kept: Vec<(usize, Vec<f32>)> = Vec::new();
        for (own, row) in rest {
            let best = |rows: &[&(usize, Vec<f32>)]| {
                rows.iter().map(|(_, other)| cosine(row, other)).fold(f64::NEG_INFINITY, f64::max)
            };
            let others: Vec<_> = parts.iter().filter(|(class, _)| *class != 0 && class != own).collect();
            let background = parts.iter().filter(|(class, _)| *class == 0);
            let background: Vec<_> = background.chain(kept.iter().filter(|(class, _)| class < own)).collect();
            let (other, nearest) = (best(&others), best(&background));
            if (other - nearest).abs() < 2e-6 {
                return None;
            }
            if other < nearest || others.is_empty() {
                kept.push((*own, row.clone()));
            }
        }
        Some(kept)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn background_rows_that_another_class_claims_are_left_out(
            seed in 0u64..10_000, background in 0u64..40, classes in 1u64..150, groups in 1u64..6,
        ) {
            let mut parts: Vec<(usize, Vec<f32>)> = (0..background).map(|at| (0, row(seed + at))).collect();
            parts.extend((1..=classes).map(|class| (class as usize, row(seed + 1000 * class))));
            let rest: Vec<(usize, Vec<f32>)> = (1..=classes)
                .flat_map(|class| (0..groups).map(move |at| (class as usize, row(seed + 7 * class + 5000 * at))))
                .collect();
            let expected = keep_one_by_one(&parts, &rest);
            prop_assume!(expected.is_some());
            let expected: Vec<f64> =
                expected.into_iter().flatten().flat_map(|(_, row)| unit_row(&row)).collect();
            let mut rows = Builder::default();
            // Novel classes come first, as in `register`.
            for (class, row) in parts.into_iter().rev() {
                rows.add(class, tensor(row));
            }
            let before = rows.parts.len();
            rows.add_rest(rest, tensor);
            let kept: Vec<f32> = rows.parts.get(before).map_or_else(Vec::new, |(class, rows)| {
                assert_eq!(*class, 0);
                rows.try_to_vec_as().unwrap()
            });
            prop_assert_eq!(kept.len(), expected.len());
            prop_assert!(kept.iter().zip(expected).all(|(got, row)| (f64::from(*got) - row).abs() < 1e-5));
        }
    }
}
