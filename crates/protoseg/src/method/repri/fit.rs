//! The optimisation of one prototype and one bias for an episode.
//!
//! With unit features f, score s = 20 cos(f, p) and P = sigmoid(s - b), three terms are minimised by plain gradient
//! steps: CE, the cross-entropy of the supports' cells; KL of the query's marginal m (the mean of (1 - P, P)) from the
//! proportion pi, which is the marginal at the start and once more later; H, the mean entropy of the query's cells.
//!
//! Gradients are closed. Each cell gives d/ds of its terms; then with c = cos(f, p)
//!
//! - dL/dp = 20 / |p| (sum g f - (sum g c) p / |p|),  dL/db = - sum g.
//!
//! That of KL has a factor that is known only after all cells have been seen, log(m1 / pi1) - log(m0 / pi0), which is
//! the same for all of them. So it is taken out of the sum, and a step reads every feature once.

use protoseg_core::IGNORE;
use protoseg_kernels::{add_weighted, dots};
use rayon::prelude::*;

use super::Repri;
use crate::method::{
    cells::{Cells, norm},
    mask::FOREGROUND,
};

/// Added to what logarithms are taken of.
const TINY: f64 = 1e-10;
/// Cells that are one part of the work, and those whose features stay in a core's cache between two looks.
const PART: usize = 512;
const BLOCK: usize = 64;

/// What was found for an episode.
#[derive(Clone, Debug)]
pub struct Fit {
    /// p
    pub prototype: Vec<f32>,
    /// b
    pub bias: f64,
    /// What it began with.
    pub start: Start,
    /// pi after its update, if there were as many steps.
    pub updated: Option<[f64; 2]>,
    /// The terms before every step.
    pub trace: Vec<Terms>,
}

/// Where the steps begin.
#[derive(Clone, Debug)]
pub struct Start {
    /// The mean of the supports' foreground.
    pub prototype: Vec<f32>,
    /// The mean score of the query.
    pub bias: f64,
    /// pi, background first.
    pub proportion: [f64; 2],
}

/// What is minimised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Of the supports.
    pub cross_entropy: f64,
    /// Of the query's marginal from pi.
    pub divergence: f64,
    /// Of the query.
    pub entropy: f64,
    /// m, background first.
    pub marginal: [f64; 2],
}

/// Fits prototype and bias. Features are of unit length, labels are one per cell. Of the query's only those that are
/// [`IGNORE`] matter: they are no part of the picture.
pub fn fit(settings: &Repri, supports: (&Cells, &[u16]), query: (&Cells, &[u16]), shots: usize) -> Fit {
    let problem = Problem::new(settings, supports, query);
    let mut prototype = problem.mean_foreground();
    let length = norm(&prototype);
    let mut bias = mean(problem.scores(&prototype, length).iter().map(|&score| f64::from(score)));
    let mut proportion = problem.step(&prototype, bias).marginal();
    let start = Start { prototype: prototype.clone(), bias, proportion };

    let weight = 1.0 / shots as f64;
    let [mut divergence_weight, entropy_weight] = [weight; 2];
    let mut updated = None;
    let mut trace = Vec::with_capacity(settings.steps);
    for step in 1..=settings.steps {
        let sums = problem.step(&prototype, bias);
        trace.push(sums.terms(proportion));
        let gradient = sums.gradient(proportion, [divergence_weight, entropy_weight]);
        let length = norm(&prototype);
        if length > 0.0 {
            let along = gradient.cosines as f32 / length;
            let rate = (settings.lr * settings.temperature) as f32 / length;
            let towards = prototype.iter_mut().zip(&gradient.features);
            towards.for_each(|(value, towards)| *value -= rate * (towards - along * *value));
        }
        bias += settings.lr * gradient.cells;
        if step == settings.update_after {
            proportion = problem.step(&prototype, bias).marginal();
            updated = Some(proportion);
            divergence_weight += 1.0;
        }
    }
    Fit { prototype, bias, start, updated, trace }
}

/// 20 cos(f, p) of every cell.
pub fn scores(settings: &Repri, cells: &Cells, prototype: &[f32]) -> Vec<f32> {
    scores_of(cells, prototype, norm(prototype), settings.temperature)
}

fn scores_of(cells: &Cells, prototype: &[f32], length: f32, temperature: f64) -> Vec<f32> {
    let mut scores = vec![0.0; cells.len()];
    dots(&cells.rows, prototype, &mut scores);
    let scale = scale(temperature, length) as f32;
    scores.iter_mut().for_each(|score| *score *= scale);
    scores
}

/// What the product of a unit feature and p is multiplied by to be a score. A prototype of zeros scores zero.
fn scale(temperature: f64, length: f32) -> f64 {
    temperature / (f64::from(length) + TINY)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

struct Problem<'a> {
    temperature: f64,
    supports: &'a Cells,
    support_labels: &'a [u16],
    query: &'a Cells,
    query_labels: &'a [u16],
    /// Cells that are part of a picture.
    counts: Counts,
}

#[derive(Clone, Copy)]
struct Counts {
    supports: f64,
    query: f64,
}

impl<'a> Problem<'a> {
    fn new(
        settings: &Repri,
        (supports, support_labels): (&'a Cells, &'a [u16]),
        (query, query_labels): (&'a Cells, &'a [u16]),
    ) -> Self {
        assert_eq!(supports.len(), support_labels.len(), "labels of the supports' cells");
        assert_eq!(query.len(), query_labels.len(), "labels of the query's cells");
        let count = |labels: &[u16]| labels.iter().filter(|&&label| label != IGNORE).count().max(1) as f64;
        let counts = Counts { supports: count(support_labels), query: count(query_labels) };
        Self { temperature: settings.temperature, supports, support_labels, query, query_labels, counts }
    }

    /// The mean feature of the class over all shots; zeros without a cell of it.
    fn mean_foreground(&self) -> Vec<f32> {
        let mask = |&label: &u16| f32::from(u8::from(label == FOREGROUND));
        let weights: Vec<f32> = self.support_labels.iter().map(mask).collect();
        let mut sum = vec![0.0; self.supports.dim];
        add_weighted(&self.supports.rows, &weights, &mut sum);
        let area = weights.iter().sum::<f32>() + TINY as f32;
        sum.iter_mut().for_each(|value| *value /= area);
        sum
    }

    /// Of the query.
    fn scores(&self, prototype: &[f32], length: f32) -> Vec<f32> {
        scores_of(self.query, prototype, length, self.temperature)
    }

    /// Everything that a step needs, from one look at all features.
    fn step(&self, prototype: &[f32], bias: f64) -> Sums {
        let scale = scale(self.temperature, norm(prototype));
        let part = |(rows, labels): (&[f32], &[u16]), cell: fn(u16, f64) -> Cell| {
            let mut sums = PartSums::new(prototype.len());
            let mut products = [0.0; BLOCK];
            let mut weights = [[0.0; BLOCK]; 2];
            for (rows, labels) in rows.chunks(BLOCK * prototype.len()).zip(labels.chunks(BLOCK)) {
                let products = &mut products[..labels.len()];
                dots(rows, prototype, products);
                for (i, (&label, &product)) in labels.iter().zip(&*products).enumerate() {
                    let score = scale * f64::from(product);
                    let cell = if label == IGNORE { Cell::default() } else { cell(label, score - bias) };
                    sums.add(&cell, score / self.temperature);
                    weights[0][i] = cell.slopes[0] as f32;
                    weights[1][i] = cell.slopes[1] as f32;
                }
                for (weights, sum) in weights.iter().zip(&mut sums.sums) {
                    add_weighted(rows, &weights[..labels.len()], &mut sum.features);
                }
            }
            sums
        };
        let parts = |cells: &'a Cells, labels: &'a [u16]| {
            cells.rows.par_chunks(PART * cells.dim).zip(labels.par_chunks(PART))
        };
        // Parts are joined in their order, so the sums are the same with any number of threads.
        let join = |parts: Vec<PartSums>| {
            parts.into_iter().fold(PartSums::new(prototype.len()), |sum, part| sum.join(&part))
        };
        let supports = parts(self.supports, self.support_labels).map(|part_of| part(part_of, support_cell));
        let query = parts(self.query, self.query_labels).map(|part_of| part(part_of, query_cell));
        Sums { supports: join(supports.collect()), query: join(query.collect()), counts: self.counts }
    }
}

/// The terms of a cell, and how fast each of them grows with its score.
#[derive(Clone, Copy, Default)]
struct Cell {
    terms: [f64; 2],
    slopes: [f64; 2],
}

/// Cross-entropy of a support's cell.
fn support_cell(label: u16, margin: f64) -> Cell {
    let [background, foreground] = probabilities(margin);
    let (own, towards) = if label == FOREGROUND { (foreground, -1.0) } else { (background, 1.0) };
    let slope = towards * background * foreground / (own + TINY);
    Cell { terms: [-(own + TINY).ln(), 0.0], slopes: [slope, 0.0] }
}

/// Entropy and foreground probability of a query's cell.
fn query_cell(_: u16, margin: f64) -> Cell {
    let [background, foreground] = probabilities(margin);
    let logs = [background, foreground].map(|share| (share + TINY).ln());
    let entropy = -(background * logs[0] + foreground * logs[1]);
    let spread = background * foreground;
    let growth = logs[0] + background / (background + TINY) - logs[1] - foreground / (foreground + TINY);
    Cell { terms: [entropy, foreground], slopes: [spread * growth, spread] }
}

/// Of background and foreground.
fn probabilities(margin: f64) -> [f64; 2] {
    [1.0 / (1.0 + margin.exp()), 1.0 / (1.0 + (-margin).exp())]
}

/// Sums over cells of a term and of what its gradient is made of.
#[derive(Clone)]
struct TermSum {
    term: f64,
    /// sum g f
    features: Vec<f32>,
    /// sum g c
    cosines: f64,
    /// sum g
    cells: f64,
}

impl TermSum {
    fn new(dim: usize) -> Self {
        Self { term: 0.0, features: vec![0.0; dim], cosines: 0.0, cells: 0.0 }
    }

    /// `factor` times the gradient part of another is added.
    fn add_gradient(&mut self, other: &Self, factor: f64) {
        let features = self.features.iter_mut().zip(&other.features);
        features.for_each(|(sum, value)| *sum += factor as f32 * value);
        self.cosines += factor * other.cosines;
        self.cells += factor * other.cells;
    }
}

struct PartSums {
    sums: [TermSum; 2],
}

impl PartSums {
    fn new(dim: usize) -> Self {
        Self { sums: [TermSum::new(dim), TermSum::new(dim)] }
    }

    fn add(&mut self, cell: &Cell, cosine: f64) {
        for ((sum, term), slope) in self.sums.iter_mut().zip(cell.terms).zip(cell.slopes) {
            sum.term += term;
            sum.cosines += slope * cosine;
            sum.cells += slope;
        }
    }

    fn join(mut self, other: &Self) -> Self {
        for (sum, other) in self.sums.iter_mut().zip(&other.sums) {
            sum.term += other.term;
            sum.add_gradient(other, 1.0);
        }
        self
    }
}

struct Sums {
    /// Cross-entropy, nothing.
    supports: PartSums,
    /// Entropy, foreground probability.
    query: PartSums,
    counts: Counts,
}

impl Sums {
    /// m
    fn marginal(&self) -> [f64; 2] {
        let foreground = self.query.sums[1].term / self.counts.query;
        [1.0 - foreground, foreground]
    }

    /// log(m / pi) of background and foreground.
    fn log_ratios(&self, proportion: [f64; 2]) -> [f64; 2] {
        let marginal = self.marginal();
        [0, 1].map(|class| (marginal[class].max(TINY) / (proportion[class] + TINY)).ln())
    }

    fn terms(&self, proportion: [f64; 2]) -> Terms {
        let (marginal, logs) = (self.marginal(), self.log_ratios(proportion));
        Terms {
            cross_entropy: self.supports.sums[0].term / self.counts.supports,
            divergence: marginal[0] * logs[0] + marginal[1] * logs[1],
            entropy: self.query.sums[0].term / self.counts.query,
            marginal,
        }
    }

    /// Of all terms, those of divergence and entropy by their weights.
    fn gradient(&self, proportion: [f64; 2], [divergence, entropy]: [f64; 2]) -> TermSum {
        let logs = self.log_ratios(proportion);
        let mut sum = TermSum::new(self.supports.sums[0].features.len());
        sum.add_gradient(&self.supports.sums[0], 1.0 / self.counts.supports);
        sum.add_gradient(&self.query.sums[0], entropy / self.counts.query);
        sum.add_gradient(&self.query.sums[1], divergence * (logs[1] - logs[0]) / self.counts.query);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells by a formula, at unit length.
    fn cells(count: usize, dim: usize, seed: u32) -> Cells {
        let value = |i: usize| {
            let bits = (i as u32).wrapping_add(seed).wrapping_mul(2_654_435_761);
            (bits >> 8) as f32 / 8_388_608.0 - 0.7
        };
        Cells { rows: (0..count * dim).map(value).collect(), dim }.unit()
    }

    /// The gradient by which a step moves is that of the terms, by differences.
    #[test]
    fn gradients_are_slopes_of_the_terms() {
        let settings = Repri::default();
        let (supports, query) = (cells(700, 5, 1), cells(600, 5, 9));
        let support_labels: Vec<u16> = (0..700).map(|i| [0, 0, 1, IGNORE, 1][i % 5]).collect();
        let query_labels: Vec<u16> = (0..600).map(|i| [0, IGNORE, 0][i % 3]).collect();
        let problem = Problem::new(&settings, (&supports, &support_labels), (&query, &query_labels));
        let (prototype, bias) = (vec![0.3f32, -0.2, 0.4, 0.1, -0.6], 1.5);
        let (proportion, weights) = ([0.7, 0.3], [0.6, 0.5]);
        let loss = |prototype: &[f32], bias: f64| {
            let terms = problem.step(prototype, bias).terms(proportion);
            terms.cross_entropy + weights[0] * terms.divergence + weights[1] * terms.entropy
        };
        let gradient = problem.step(&prototype, bias).gradient(proportion, weights);
        let length = norm(&prototype);
        for i in 0..prototype.len() {
            let along = gradient.cosines as f32 / length * prototype[i];
            let got = 20.0 / length * (gradient.features[i] - along);
            let moved = |by: f32| {
                let mut prototype = prototype.clone();
                prototype[i] += by;
                loss(&prototype, bias)
            };
            let expected = (moved(4e-3) - moved(-4e-3)) / 8e-3;
            assert!((f64::from(got) - expected).abs() < 2e-3, "of value {i}: {got} {expected}");
        }
        let expected = (loss(&prototype, bias + 1e-4) - loss(&prototype, bias - 1e-4)) / 2e-4;
        assert!((-gradient.cells - expected).abs() < 1e-5, "of the bias: {} {expected}", -gradient.cells);
    }

    #[test]
    fn without_a_cell_of_the_class_nothing_is_foreground() {
        let (supports, query) = (cells(9, 4, 1), cells(9, 4, 2));
        let fit = fit(&Repri::default(), (&supports, &[0; 9]), (&query, &[0; 9]), 1);
        assert!(fit.prototype.iter().all(|&value| value == 0.0));
        let found = scores(&Repri::default(), &query, &fit.prototype);
        assert!(found.iter().all(|&score| f64::from(score) - fit.bias <= 0.0), "{found:?} {}", fit.bias);
    }
}
