//! How alike superpixels are in one way of looking: by colour, or by what the model sees at their places.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::superpixels::Border;

/// One vector per superpixel, and how far apart neighbours are.
#[derive(Clone, Debug)]
pub struct Looks {
    dim: usize,
    values: Vec<f32>,
    /// The distance across each border, in units of their mean.
    pub steps: Vec<f32>,
    /// For each superpixel its neighbours, and the step to them.
    around: Vec<Vec<(usize, f32)>>,
}

/// No mean is smaller: a photo of one colour has no distances.
const LEAST: f32 = 1e-6;

impl Looks {
    /// Of vectors of `dim` numbers, one after the other.
    pub fn new(dim: usize, values: Vec<f32>, borders: &[Border]) -> Self {
        let count = values.len() / dim.max(1);
        let mut looks = Self { dim, values, steps: Vec::new(), around: vec![Vec::new(); count] };
        let steps: Vec<f32> = borders
            .iter()
            .map(|border| looks.distance(border.between[0], looks.at(border.between[1])))
            .collect();
        let mean = mean(&steps);
        looks.steps = steps.iter().map(|step| step / mean).collect();
        for (&Border { between: [a, b], .. }, &step) in borders.iter().zip(&looks.steps) {
            looks.around[a].push((b, step));
            looks.around[b].push((a, step));
        }
        looks
    }

    fn at(&self, part: usize) -> &[f32] {
        &self.values[part * self.dim..][..self.dim]
    }

    fn distance(&self, part: usize, look: &[f32]) -> f32 {
        // Eight sums, which a vector holds.
        let mut sums = [0f32; 8];
        for (a, b) in self.at(part).chunks(8).zip(look.chunks(8)) {
            sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += (a - b) * (a - b));
        }
        sums.iter().sum::<f32>().sqrt()
    }

    /// The distance of each to the nearest of these, or 0 if there are none.
    fn nearest(&self, others: &[usize]) -> Vec<f32> {
        let nearest = |part: usize| {
            others.iter().map(|&other| self.distance(part, self.at(other))).reduce(f32::min).unwrap_or(0.0)
        };
        (0..self.around.len()).map(nearest).collect()
    }

    /// How far each is from the nearest of `thing`, and from the nearest of `rest`, in units of the mean distance from
    /// `thing`. Nothing is farther from `rest` than one unit.
    pub fn apart(&self, thing: &[usize], rest: &[usize]) -> Vec<[f32; 2]> {
        let near = self.nearest(thing);
        let unit = mean(&near);
        let from_rest = if rest.is_empty() { vec![unit; near.len()] } else { self.nearest(rest) };
        near.iter().zip(from_rest).map(|(near, rest)| [near / unit, (rest / unit).min(1.0)]).collect()
    }

    /// The way from `start` to each, from neighbour to neighbour: the length of the shortest, and the longest step of
    /// the one whose longest step is the shortest.
    pub fn ways(&self, start: &[bool]) -> Vec<[f32; 2]> {
        let length = self.cheapest(start, |so_far, step| so_far + step);
        let barrier = self.cheapest(start, f32::max);
        length.into_iter().zip(barrier).map(|(length, barrier)| [length, barrier]).collect()
    }

    fn cheapest(&self, start: &[bool], and: impl Fn(f32, f32) -> f32) -> Vec<f32> {
        let mut costs = vec![f32::INFINITY; start.len()];
        let mut heap = BinaryHeap::new();
        for part in (0..start.len()).filter(|part| start[*part]) {
            costs[part] = 0.0;
            heap.push((Reverse(0u32), part));
        }
        while let Some((Reverse(bits), part)) = heap.pop() {
            // Costs are not negative, so their bits are ordered as they are.
            let so_far = f32::from_bits(bits);
            if so_far > costs[part] {
                continue;
            }
            for &(other, step) in &self.around[part] {
                let cost = and(so_far, step);
                if cost < costs[other] {
                    costs[other] = cost;
                    heap.push((Reverse(cost.to_bits()), other));
                }
            }
        }
        let most = costs.iter().copied().filter(|cost| cost.is_finite()).fold(0.0, f32::max);
        costs.into_iter().map(|cost| cost.min(most)).collect()
    }
}

fn mean(values: &[f32]) -> f32 {
    (values.iter().sum::<f32>() / values.len().max(1) as f32).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_go_around_what_is_steep() {
        // 0 - 1 - 2 in a row, and 3 - 4 beside them: from 0 to 2 it is 6 across 1, and 1 + 1 + 1 around it.
        let border = |a, b| Border { between: [a, b], length: 1 };
        let borders = [border(0, 1), border(1, 2), border(0, 3), border(3, 4), border(2, 4)];
        let looks = Looks::new(1, vec![0.0, 6.0, 3.0, 1.0, 2.0], &borders);
        let unit = (6.0 + 3.0 + 1.0 + 1.0 + 1.0) / 5.0;
        let ways = looks.ways(&[true, false, false, false, false]);
        let is_near = |got: f32, expected: f32| (got * unit - expected).abs() < 1e-4;
        assert!(is_near(ways[2][0], 3.0) && is_near(ways[2][1], 1.0), "{ways:?}");
        assert!(is_near(ways[1][0], 6.0) && is_near(ways[1][1], 3.0), "{ways:?}");
        let apart = looks.apart(&[0], &[2]);
        let unit = (6.0 + 3.0 + 1.0 + 2.0) / 5.0;
        assert!(
            (apart[1][0] - 6.0 / unit).abs() < 1e-4 && (apart[3][1] - 2.0 / unit).abs() < 1e-4,
            "{apart:?}"
        );
        assert!(looks.apart(&[0], &[]).iter().all(|apart| apart[1] == 1.0));
    }
}
