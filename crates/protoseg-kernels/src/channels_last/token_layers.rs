//! Layers that take every token by itself, computed together, some tokens at a time: what lies between them never leaves
//! the caches.

use rayon::prelude::*;

use super::{
    Kernel, PackedConv,
    joined::product,
    panels::share,
    tokens::{Gated, Gelu, LayerNorm, Normalise},
};
use crate::{Activation, scratch::Scratch, simd::fast, tiles};

/// Most tokens of one task. DINOv2-S: their 1,536 channels take half a megabyte less than the second cache has.
const TOKENS: usize = 48;

/// A product with what stands before or after it: tokens may be normalised first, and a function of the result may go
/// to a second product.
#[derive(Clone, Debug)]
pub struct TokenLayers {
    norm: Option<LayerNorm>,
    first: PackedConv,
    second: Option<(Between, PackedConv)>,
}

/// What is done between two products.
#[derive(Clone, Copy, Debug)]
pub enum Between {
    /// [`super::gelu`]
    Gelu,
    /// [`super::gated`]
    Gated,
}

impl std::fmt::Display for Between {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Gelu => "gelu",
            Self::Gated => "gated unit",
        })
    }
}

impl TokenLayers {
    /// Whether a convolution takes every token by itself.
    pub fn takes(conv: &PackedConv) -> bool {
        matches!(conv.kernel, Kernel::Rows(_)) && conv.shape.batch == 1
    }

    /// A normalisation and the product after it.
    pub fn normed(norm: LayerNorm, first: PackedConv) -> Self {
        assert_eq!(norm.weight.len(), first.shape.from, "the same channels");
        Self { norm: Some(norm), first, second: None }
    }

    /// A product alone.
    pub fn plain(first: PackedConv) -> Self {
        Self { norm: None, first, second: None }
    }

    /// The same with a second product of what `between` makes of the first one's result, if there is none yet and the
    /// first one has no activation.
    pub fn and_then(self, between: Between, second: PackedConv) -> Option<Self> {
        let can_go_on = self.second.is_none() && self.first.activation == Activation::None;
        can_go_on.then(|| Self { second: Some((between, second)), ..self })
    }

    /// Whether tokens are normalised first.
    pub fn is_normed(&self) -> bool {
        self.norm.is_some()
    }

    /// What is done between two products, if there are two.
    pub fn between(&self) -> Option<Between> {
        self.second.as_ref().map(|&(between, _)| between)
    }

    /// The products, in order.
    pub fn products(&self) -> impl Iterator<Item = &PackedConv> {
        std::iter::once(&self.first).chain(self.second.iter().map(|(_, second)| second))
    }

    /// The result of the last product, to which `add` is added. Tokens of `out` and `add` are `stride` apart.
    pub fn run(&self, input: &[f32], add: Option<&[f32]>, out: &mut [f32], stride: usize) {
        let from = self.first.shape.from;
        let tokens = input.len() / from;
        assert_eq!(input.len(), self.first.shape.input_len(), "input of {:?}", self.first.shape);
        assert_eq!(out.len().div_ceil(stride), tokens, "as many tokens as there are");
        let is_tiled = self
            .products()
            .any(|conv| matches!(&conv.kernel, Kernel::Rows(right) if right.tiles().is_some()));
        let block = share(tokens, if is_tiled { tiles::ROWS } else { TOKENS });
        out.par_chunks_mut(block * stride).enumerate().for_each(|(index, out)| {
            let input = input[index * block * from..].chunks(block * from).next().unwrap_or_default();
            let add = add.map(|add| &add[index * block * stride..]);
            self.run_block(input, add, out, stride);
        });
    }

    /// One thread's tokens.
    fn run_block(&self, input: &[f32], add: Option<&[f32]>, out: &mut [f32], stride: usize) {
        let normed = self.norm.as_ref().map(|norm| {
            let mut normed = Scratch::new(input.len());
            fast(Normalise { norm, tokens: input, out: &mut normed });
            normed
        });
        let input = normed.as_deref().unwrap_or(input);
        let Some((between, second)) = &self.second else {
            return product(&self.first, input, add, out, stride);
        };
        let width = self.first.shape.to;
        let mut wide = Scratch::new(input.len() / self.first.shape.from * width);
        product(&self.first, input, None, &mut wide, width);
        match between {
            Between::Gelu => {
                fast(Gelu(&mut wide));
                product(second, &wide, add, out, stride);
            }
            Between::Gated => {
                let mut gated = Scratch::new(wide.len() / 2);
                fast(Gated { values: &wide, channels: width / 2, out: &mut gated });
                product(second, &gated, add, out, stride);
            }
        }
    }
}
