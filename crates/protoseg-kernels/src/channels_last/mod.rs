//! The forward pass with constant weights: what a model in use spends its time on.
//!
//! Maps are `[batch, height, width, channels]` here: the channels of a pixel lie together. A pixel is then a row of
//! a matrix product as it lies, so is a transformed tile of Winograd's algorithm, and nothing is ever packed but
//! weights, which are packed once, and the keys and values of attention. Batch-norm is in the weights and in the bias;
//! bias, shortcut and activation are applied to sums in registers.

mod attention;
mod classes;
mod depthwise;
mod enlarge;
mod gather;
mod joined;
mod lines;
pub(crate) mod panels;
mod pool;
mod stage_rows;
mod stages;
mod taps;
mod token_layers;
mod tokens;
mod transpose;
mod windows;
mod winograd;

pub use attention::{Attention, Rotations};
pub use classes::{best_rows, unit_pixels};
pub use enlarge::enlarge;
pub use joined::JoinedConvs;
pub use panels::{Finish, LANES, Lanes, Panels, busiest, lanes, multiply};
pub use pool::{MaxPool, average_pool, cells, max_pool};
pub use stage_rows::StageRows;
pub use stages::join_stages;
pub use token_layers::{Between, TokenLayers};
pub use tokens::{LayerNorm, gated, gelu};
pub use transpose::transpose;

use crate::{Activation, ConvShape, Precision};
use depthwise::Depthwise;
use panels::Products;
use winograd::Winograd;

/// A convolution whose weights never change and are packed once.
#[derive(Clone, Debug)]
pub struct PackedConv {
    shape: ConvShape,
    kernel: Kernel,
    bias: Vec<Lanes>,
    activation: Activation,
}

#[derive(Clone, Debug)]
enum Kernel {
    /// 1x1 of stride 1: the map is the left side.
    Rows(Panels),
    /// Windows are copied to rows.
    Gather(Panels),
    /// Windows are multiplied by tiles, on the map as it lies.
    Windows(Panels),
    /// Windows of few channels are multiplied as they lie.
    Lines(Panels),
    Winograd(Winograd),
    /// A product for each of the 3x3 taps.
    Taps(Vec<Panels>),
    Depthwise(Depthwise),
}

impl PackedConv {
    /// `weight` is `[to, from / groups, kernel, kernel]`, `bias` one value per output channel.
    pub fn new(shape: ConvShape, weight: &[f32], bias: &[f32], activation: Activation) -> Self {
        Self::with_precision(shape, weight, bias, activation, Precision::Single)
    }

    /// The same with this precision.
    pub fn with_precision(
        shape: ConvShape,
        weight: &[f32],
        bias: &[f32],
        activation: Activation,
        precision: Precision,
    ) -> Self {
        let inner = shape.from * shape.kernel * shape.kernel;
        Self::with_products(shape, weight, bias, activation, Products::of(precision, inner, shape.to))
    }

    /// The same with such products, where it is a product.
    pub(crate) fn with_products(
        shape: ConvShape,
        weight: &[f32],
        bias: &[f32],
        activation: Activation,
        products: Products,
    ) -> Self {
        assert!(shape.is_supported(), "no kernel for the groups of {shape:?}");
        assert_eq!(weight.len(), shape.weight_len(), "weight of {shape:?}");
        assert_eq!(bias.len(), shape.to, "bias of {shape:?}");
        let taps = shape.kernel * shape.kernel;
        let bias = lanes(bias);
        let panels = |inner, value: &(dyn Fn(usize, usize) -> f32 + Sync)| {
            Panels::new(inner, shape.to, value).with_products(products)
        };
        if let Some(point) = shape.middle_tap() {
            let kernel = Kernel::Rows(panels(shape.from, &|c, o| weight[(o * shape.from + c) * 9 + 4]));
            return Self { shape: point, kernel, bias, activation };
        }
        let window = |row: usize, o: usize| {
            let (tap, c) = (row / shape.from, row % shape.from);
            weight[(o * shape.from + c) * taps + tap]
        };
        let kernel = if shape.is_depthwise() {
            Kernel::Depthwise(Depthwise::new(&shape, weight))
        } else if shape.is_pointwise() {
            Kernel::Rows(panels(shape.from, &|c, o| weight[o * shape.from + c]))
        } else if products == Products::Tiles && windows::suits(&shape) {
            Kernel::Windows(panels(taps * shape.from, &window))
        } else if winograd::suits(&shape) {
            Kernel::Winograd(Winograd::new(&shape, weight))
        } else if taps::suits(&shape) {
            let tap = |tap| Panels::new(shape.from, shape.to, |c, o| weight[(o * shape.from + c) * 9 + tap]);
            Kernel::Taps((0..9).map(tap).collect())
        } else {
            let windows = Panels::new(taps * shape.from, shape.to, window);
            if lines::suits(&shape) { Kernel::Lines(windows) } else { Kernel::Gather(windows) }
        };
        Self { shape, kernel, bias, activation }
    }

    /// `input` convolved, plus the bias, plus `add`, then the activation. Rows of `out`, and those of
    /// `add`, are pixels and `stride` apart, the channels first in each: other values between them stay as they are.
    pub fn run(&self, input: &[f32], add: Option<&[f32]>, out: &mut [f32], stride: usize) {
        let shape = &self.shape;
        let pixels = shape.batch * shape.out_plane();
        assert_eq!(input.len(), shape.input_len(), "input of {shape:?}");
        assert!(stride >= shape.to, "pixels of {} channels cannot be {stride} apart", shape.to);
        assert_eq!(out.len().div_ceil(stride), pixels, "output of {shape:?}");
        assert!(out.len() >= (pixels.max(1) - 1) * stride + shape.to, "the last pixel of {shape:?}");
        let finish = Finish { add, ..self.finish() };
        match &self.kernel {
            Kernel::Rows(weight) => multiply(input, weight, finish, out, stride),
            Kernel::Gather(weight) => gather::run(shape, input, weight, finish, out, stride),
            Kernel::Windows(weight) => windows::run(shape, input, weight, finish, out, stride),
            Kernel::Lines(weight) => lines::run(shape, input, weight, finish, out, stride),
            Kernel::Taps(taps) => taps::run(shape, input, taps, finish, out, stride),
            Kernel::Winograd(winograd) => winograd.run(shape, input, finish, out, stride),
            Kernel::Depthwise(depthwise) => depthwise.run(shape, input, finish, out, stride),
        }
    }

    /// Whether [`Self::run_onto`] works.
    pub fn runs_onto(&self) -> bool {
        matches!(&self.kernel, Kernel::Rows(weight) if weight.tiles().is_none())
    }

    /// As [`Self::run`], with what is in `out` as the map that is added: a third less memory is touched.
    pub fn run_onto(&self, input: &[f32], out: &mut [f32], stride: usize) {
        assert!(self.runs_onto(), "nothing that goes onto anything: {:?}", self.shape);
        let Kernel::Rows(weight) = &self.kernel else { panic!("no product: {:?}", self.shape) };
        multiply(input, weight, Finish { onto: true, ..self.finish() }, out, stride);
    }

    fn finish(&self) -> Finish<'_> {
        Finish { bias: Some(&self.bias), activation: self.activation, ..Finish::default() }
    }

    pub fn shape(&self) -> &ConvShape {
        &self.shape
    }

    /// How it is computed, in a word or two.
    pub fn kernel(&self) -> String {
        match &self.kernel {
            Kernel::Rows(_) => "product".to_string(),
            Kernel::Gather(_) | Kernel::Windows(_) => "windows".to_string(),
            Kernel::Lines(_) => "lines".to_string(),
            Kernel::Taps(_) => "taps".to_string(),
            Kernel::Depthwise(_) => "depthwise".to_string(),
            Kernel::Winograd(winograd) => format!("winograd {}", winograd.sides()),
        }
    }

    /// Bytes of the packed weights.
    pub fn weight_bytes(&self) -> usize {
        match &self.kernel {
            Kernel::Rows(weight)
            | Kernel::Gather(weight)
            | Kernel::Windows(weight)
            | Kernel::Lines(weight) => weight.bytes(),
            Kernel::Taps(taps) => taps.iter().map(Panels::bytes).sum(),
            Kernel::Winograd(winograd) => winograd.weight_bytes(),
            Kernel::Depthwise(depthwise) => depthwise.weight_bytes(),
        }
    }

    /// The share of its work that the busiest of so many threads has.
    pub fn busiest(&self, threads: usize) -> f64 {
        let rows = self.shape.batch * self.shape.out_height();
        match &self.kernel {
            Kernel::Rows(_) | Kernel::Gather(_) => busiest(rows * self.shape.out_width(), threads),
            Kernel::Windows(_) | Kernel::Lines(_) | Kernel::Taps(_) | Kernel::Depthwise(_) => {
                busiest(rows, threads)
            }
            Kernel::Winograd(winograd) => winograd.busiest(threads),
        }
    }

    /// Multiply-accumulates that are computed, transforms aside.
    pub fn computed_macs(&self) -> u64 {
        let shape = &self.shape;
        let products = match &self.kernel {
            Kernel::Taps(_) => shape.batch * taps::products(shape),
            Kernel::Winograd(winograd) => winograd.products(),
            _ => shape.batch * shape.out_plane() * shape.kernel * shape.kernel,
        };
        (products * (shape.from / shape.groups) * shape.to) as u64
    }
}
