//! From base prototypes and supports to the rows that a pixel is compared with.
//!
//! A class may have several rows; its score is that of its best. Rows of the background step back where a taught class
//! needs their place: a row of the model that is the nearest of all to pixels of the class in its own supports, and a
//! row from one class's supports that shows another taught class. A base class that has supports of its own gets more
//! rows, made of them like those of a novel class.

use burn::tensor::{Tensor, TensorData};

use super::{Prototypes, PrototypesWeights};
use crate::method::{
    Rows,
    cosine::unit,
    support_sums::{Mean, Pooled, SupportSums},
};

/// A row of the model's background steps back if it is the best of all on at least this share of the pixels of a taught
/// class.
const STEP_BACK: f32 = 0.002;

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
    let of =
        |index: usize| supports.iter().filter(move |support| usize::from(support.novel) == n_base + index);

    let mut rows = Builder::default();
    for index in 0..n_novel {
        let own = prototypes(settings, of(index), dim).ok_or(index)?;
        rows.add(n_base + index, space(own));
    }
    let base = weights.space(weights.base.val(), whitened);
    let mut start = 0;
    for (class, &count) in settings.base_rows.iter().enumerate() {
        let own = base.clone().slice_dim(0, start..start + count);
        let kept = if class == 0 && settings.has_background {
            keep(own, |row| (0..n_novel).all(|index| !is_beaten(row, of(index))))
        } else {
            Some(own)
        };
        if let Some(kept) = kept {
            rows.add(class, kept);
        }
        let refining = supports.iter().filter(|support| usize::from(support.novel) == class);
        if let Some(own) = prototypes(settings, refining, dim) {
            rows.add(class, space(own));
        }
        start += count;
    }
    if settings.has_background {
        for index in 0..n_novel {
            let rest: Vec<f32> =
                of(index).flat_map(|support| &support.clusters.rest).flat_map(mean).collect();
            if !rest.is_empty() {
                let rest = space(rest);
                let claimed = rows.claimed(&rest, n_base + index);
                if let Some(kept) = keep(rest, |row| !claimed[row]) {
                    rows.add(0, kept);
                }
            }
        }
    }
    Ok(rows.finish())
}

/// The prototypes of one novel class: its groups of pixels, or the mean of all.
fn prototypes<'a>(
    settings: &Prototypes,
    supports: impl Iterator<Item = &'a SupportSums> + Clone,
    dim: usize,
) -> Option<Vec<f32>> {
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

fn is_beaten<'a>(row: usize, supports: impl Iterator<Item = &'a SupportSums>) -> bool {
    let (mut lost, mut all) = (0.0f32, 0.0f32);
    for support in supports {
        all += support.own().map_or(0.0, |own| own.count);
        let won = support.clusters.beaten_by.iter().filter(|(by, _)| usize::from(*by) == row);
        lost += won.map(|(_, count)| count).sum::<f32>();
    }
    lost > 0.0 && lost >= STEP_BACK * all
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

    /// Which of these background rows, from the supports of `own`, are nearer to a row of another novel class than to
    /// any other background.
    fn claimed(&self, rest: &Tensor<2>, own: usize) -> Vec<bool> {
        let best = |wanted: &dyn Fn(usize) -> bool| -> Option<Vec<f32>> {
            let parts: Vec<Tensor<2>> =
                self.parts.iter().filter(|(class, _)| wanted(*class)).map(|(_, rows)| rows.clone()).collect();
            let parts = (!parts.is_empty()).then(|| Tensor::cat(parts, 0))?;
            let cosines = unit(rest.clone()).matmul(parts.transpose());
            Some(cosines.max_dim(1).try_into_vec_as().expect("prototypes are f32"))
        };
        let others = best(&|class| class != 0 && class != own);
        let background = best(&|class| class == 0);
        let count = rest.dims()[0];
        match (others, background) {
            (Some(others), Some(background)) => others.iter().zip(&background).map(|(a, b)| a > b).collect(),
            (Some(_), None) => vec![true; count],
            (None, _) => vec![false; count],
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
