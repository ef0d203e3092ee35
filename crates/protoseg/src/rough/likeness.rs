//! How alike superpixels are: by colour and by what the model sees at their places.

use std::{cmp::Reverse, collections::BinaryHeap};

use burn::tensor::Tensor;

use super::superpixels::Superpixels;

/// One vector per superpixel. Squares of distances count colours and features about the same.
pub struct Points {
    dim: usize,
    values: Vec<f32>,
}

/// How much a distance in Oklab counts. Neighbouring colours of one thing are 0.05 apart.
const COLOR: f32 = 10.0;
/// How much a distance between features of unit length counts.
const FEATURE: f32 = 1.0;
/// Looks that a thing has, and that the rest has.
const LOOKS: usize = 6;
/// Rounds of k-means.
const ROUNDS: usize = 4;

impl Points {
    /// `at` are the positions of the features that the superpixels lie at.
    pub fn new(groups: &Superpixels, features: Tensor<4>, at: &[usize]) -> Self {
        let [_, dim, rows, columns] = features.dims();
        let seen: Vec<f32> = features.try_into_vec_as().expect("features are f32");
        let positions = rows * columns;
        let mut values = Vec::with_capacity(groups.count * (dim + 3));
        for (color, position) in groups.colors.iter().zip(at) {
            values.extend(color.map(|value| COLOR * value));
            let vector = (0..dim).map(|channel| seen[channel * positions + position]);
            let length = vector.clone().map(|value| value * value).sum::<f32>().sqrt().max(1e-9);
            values.extend(vector.map(|value| FEATURE * value / length));
        }
        Self { dim: dim + 3, values }
    }

    fn count(&self) -> usize {
        self.values.len() / self.dim
    }

    fn at(&self, point: usize) -> &[f32] {
        &self.values[point * self.dim..][..self.dim]
    }

    /// The square of the distance between two.
    pub fn distance(&self, a: usize, b: usize) -> f64 {
        square(self.at(a), self.at(b))
    }

    /// The mean over neighbours.
    pub fn mean_distance(&self, borders: &[(usize, usize, u32)]) -> f64 {
        borders.iter().map(|&(a, b, _)| self.distance(a, b)).sum::<f64>() / borders.len().max(1) as f64
    }

    /// The length of the shortest way from each to those that are `start`, from neighbour to neighbour.
    pub fn path_lengths(&self, start: &[bool], borders: &[(usize, usize, u32)]) -> Vec<f64> {
        let mut around = vec![Vec::new(); self.count()];
        for &(a, b, _) in borders {
            let length = self.distance(a, b).sqrt();
            around[a].push((b, length));
            around[b].push((a, length));
        }
        let mut lengths = vec![f64::INFINITY; self.count()];
        let mut heap = BinaryHeap::new();
        for point in (0..self.count()).filter(|point| start[*point]) {
            lengths[point] = 0.0;
            heap.push((Reverse(0u64), point));
        }
        while let Some((Reverse(bits), point)) = heap.pop() {
            // Lengths are not negative, so their bits are ordered as they are.
            if f64::from_bits(bits) > lengths[point] {
                continue;
            }
            for &(other, length) in &around[point] {
                let way = lengths[point] + length;
                if way < lengths[other] {
                    lengths[other] = way;
                    heap.push((Reverse(way.to_bits()), other));
                }
            }
        }
        let most = lengths.iter().copied().filter(|length| length.is_finite()).fold(0.0, f64::max);
        lengths.into_iter().map(|length| if length.is_finite() { length } else { most }).collect()
    }

    /// The square of the distance of each to the nearest look of the `members`.
    pub fn distances(&self, members: &[bool]) -> Vec<f64> {
        let looks = self.looks(members);
        let nearest = |point: usize| {
            looks.iter().map(|look| square(self.at(point), look)).fold(f64::INFINITY, f64::min)
        };
        (0..self.count()).map(|point| nearest(point).min(1e9)).collect()
    }

    /// Means of a few groups of the members: k-means from points that are far apart.
    fn looks(&self, members: &[bool]) -> Vec<Vec<f32>> {
        let members: Vec<usize> = (0..self.count()).filter(|point| members[*point]).collect();
        let Some(&first) = members.first() else { return Vec::new() };
        let mut looks = vec![self.at(first).to_vec()];
        let mut nearest: Vec<f64> = members.iter().map(|&point| square(self.at(point), &looks[0])).collect();
        while looks.len() < LOOKS.min(members.len()) {
            let farthest = (0..members.len()).max_by(|&a, &b| nearest[a].total_cmp(&nearest[b]));
            let Some(farthest) = farthest.filter(|place| nearest[*place] > 0.0) else { break };
            let look = self.at(members[farthest]).to_vec();
            for (least, &point) in nearest.iter_mut().zip(&members) {
                *least = least.min(square(self.at(point), &look));
            }
            looks.push(look);
        }
        for _ in 0..ROUNDS {
            let mut sums = vec![(vec![0f32; self.dim], 0f32); looks.len()];
            for &point in &members {
                let values = self.at(point);
                let best = (0..looks.len())
                    .min_by(|&a, &b| square(values, &looks[a]).total_cmp(&square(values, &looks[b])));
                let (sum, count) = &mut sums[best.unwrap_or(0)];
                sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
                *count += 1.0;
            }
            for (look, (sum, count)) in looks.iter_mut().zip(sums) {
                if count > 0.0 {
                    *look = sum.into_iter().map(|sum| sum / count).collect();
                }
            }
        }
        looks
    }
}

fn square(a: &[f32], b: &[f32]) -> f64 {
    f64::from(a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>())
}
