//! What patches become before the first block, and how blocks know where a patch is.

use burn::{
    module::{Initializer, Module, Param},
    tensor::{Device, Tensor, TensorData},
};
use protoseg_kernels::channels_last::Rotations;

use super::bicubic::bicubic;

/// Tokens that are no patches, and the positions of those that are.
#[derive(Module, Debug)]
pub struct Tokens {
    /// The class token, its position included, then the registers: `[tokens, channels]`.
    pub first: Param<Tensor<2>>,
    /// Position embeddings of a square grid, `[side * side, channels]`; none where heads rotate.
    pub positions: Option<Param<Tensor<2>>>,
    /// Whether positions are smoothed when the grid becomes smaller: as weights with registers were trained.
    smooths: bool,
}

/// [`Tokens`] for one grid.
#[derive(Clone, Debug)]
pub(crate) struct PlacedTokens {
    first: Vec<f32>,
    positions: Vec<f32>,
}

/// Rotary positions (Su et al. 2021), of two axes as in DINOv3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rotary {
    /// Tokens that are no patches.
    pub prefix: usize,
    pub theta: f64,
}

impl Tokens {
    pub(crate) fn new(
        [first, side, channels]: [usize; 3],
        is_learned: bool,
        smooths: bool,
        device: &Device,
    ) -> Self {
        let normal = Initializer::Normal { mean: 0.0, std: 0.02 };
        Self {
            first: normal.init([first, channels], device),
            positions: is_learned.then(|| normal.init([side * side, channels], device)),
            smooths,
        }
    }

    /// Tokens that are no patches.
    pub(crate) fn prefix(&self) -> usize {
        self.first.lazy_shape()[0]
    }

    /// `[batch, channels, height, width]` -> `[batch, channels, 1, tokens]`.
    pub(crate) fn forward(&self, patches: Tensor<4>) -> Tensor<4> {
        let [batch, channels, height, width] = patches.dims();
        let mut patches = patches.reshape([batch, channels, 1, height * width]);
        if let Some(positions) = self.positions([height, width]) {
            patches = patches + positions.swap_dims(0, 1).reshape([1, channels, 1, height * width]);
        }
        let first = self.first.val().swap_dims(0, 1).reshape([1, channels, 1, self.prefix()]);
        Tensor::cat(vec![first.expand([batch, channels, 1, self.prefix()]), patches], 3)
    }

    /// Position embeddings of a grid, `[height * width, channels]`.
    fn positions(&self, [height, width]: [usize; 2]) -> Option<Tensor<2>> {
        let positions = self.positions.as_ref()?.val();
        let [count, channels] = positions.dims();
        let side = count.isqrt();
        if [height, width] == [side; 2] {
            return Some(positions);
        }
        let device = positions.device();
        let shares = |to: usize| {
            let shares = bicubic(side, to, self.smooths);
            Tensor::<2>::from_data(TensorData::new(shares, [to, side]), &device)
        };
        let down = shares(height).matmul(positions.reshape([side, side * channels]));
        // [width, side] x [height, side, channels]
        let across = shares(width).unsqueeze::<3>().expand([height, width, side]);
        Some(across.matmul(down.reshape([height, side, channels])).reshape([height * width, channels]))
    }

    /// The embeddings as they were learned, `[side * side, channels]`.
    pub(crate) fn own_positions(&self) -> Option<Vec<f32>> {
        let positions = self.positions.as_ref()?;
        Some(positions.val().try_into_vec_as().expect("weights are f32"))
    }

    /// Whether positions are smoothed when the grid becomes smaller.
    pub(crate) fn smooths(&self) -> bool {
        self.smooths
    }

    /// For a grid of `[height, width]`.
    pub(crate) fn at(&self, [height, width]: [usize; 2]) -> PlacedTokens {
        let values = |tensor: Tensor<2>| tensor.try_into_vec_as().expect("weights are f32");
        let positions = self.positions([height, width]).map(values).unwrap_or_default();
        PlacedTokens { first: values(self.first.val()), positions }
    }
}

impl PlacedTokens {
    /// Patches, `[patches, channels]`, as tokens.
    pub fn place(&self, patches: &[f32], out: &mut [f32]) {
        let (first, rest) = out.split_at_mut(self.first.len());
        first.copy_from_slice(&self.first);
        rest.copy_from_slice(patches);
        rest.iter_mut().zip(&self.positions).for_each(|(value, position)| *value += position);
    }

    pub fn bytes(&self) -> usize {
        size_of::<f32>() * (self.first.len() + self.positions.len())
    }

    /// The first tokens and the positions, `[tokens, channels]` each; no positions where heads rotate.
    pub fn parts(&self) -> (&[f32], &[f32]) {
        (&self.first, &self.positions)
    }
}

impl Rotary {
    /// How fast each channel of a quarter of a head turns, over half of the grid.
    pub fn speeds(&self, depth: usize) -> Vec<f32> {
        let speed = |at: usize| 2.0 * std::f64::consts::PI / self.theta.powf(4.0 * at as f64 / depth as f64);
        (0..depth / 4).map(|at| speed(at) as f32).collect()
    }

    /// For heads of `depth` channels on a grid: the first quarter of them turns with the row, the second with the column,
    /// and the other half once more.
    pub fn rotations(&self, [height, width]: [usize; 2], depth: usize) -> Rotations {
        let speeds = self.speeds(depth);
        let place = |at: usize, of: usize| 2.0 * (at as f64 + 0.5) / of as f64 - 1.0;
        let mut angles = Vec::with_capacity(height * width * depth);
        for row in 0..height {
            for column in 0..width {
                let half: Vec<f64> = [place(row, height), place(column, width)]
                    .into_iter()
                    .flat_map(|place| speeds.iter().map(move |&speed| place * f64::from(speed)))
                    .collect();
                angles.extend(half.iter().chain(&half).copied());
            }
        }
        let of = |function: fn(f64) -> f64| angles.iter().map(|&angle| function(angle) as f32).collect();
        Rotations { prefix: self.prefix, cos: of(f64::cos), sin: of(f64::sin) }
    }
}
