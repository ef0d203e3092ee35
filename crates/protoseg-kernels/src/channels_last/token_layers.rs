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

/// Most tokens of one task: with the 1,536 channels of DINOv2-S they take 288 KiB of the second cache.
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
        can_go_on.then_some(Self { second: Some((between, second)), ..self })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ConvShape,
        channels_last::{Attention, gated, gelu, panels::Products, tokens::tests::values},
        simd::pretend::TURN,
    };

    /// More than one task has, and not a multiple of anything.
    const COUNT: usize = 109;

    /// A product of every token, some tokens side by side.
    fn conv(from: usize, to: usize, products: Products) -> PackedConv {
        let shape = ConvShape {
            batch: 1,
            from,
            to,
            height: 1,
            width: COUNT,
            kernel: 1,
            stride: 1,
            dilation: 1,
            padding: 0,
            padding_after: 0,
            groups: 1,
        };
        let (weight, bias) = (values(shape.weight_len(), 7), values(to, 8));
        PackedConv::with_products(shape, &weight, &bias, Activation::None, products)
    }

    fn run(conv: &PackedConv, input: &[f32], add: Option<&[f32]>) -> Vec<f32> {
        let mut out = vec![0.0; conv.shape.output_len()];
        conv.run(input, add, &mut out, conv.shape.to);
        out
    }

    #[test]
    fn layers_give_the_same_bits_together_as_one_after_the_other() {
        // Other tests change what `fast` is.
        let _turn = TURN.lock();
        let norm = LayerNorm { weight: values(40, 1), bias: values(40, 2), epsilon: 1e-6 };
        let (input, add) = (values(COUNT * 40, 3), values(COUNT * 36, 4));
        let mut normed = vec![0.0; input.len()];
        norm.run(&input, &mut normed);
        for products in [Products::Plain, Products::Pairs, Products::Tiles] {
            let first = conv(40, 96, products);
            let wide = run(&first, &normed, None);
            for (between, width) in [(Between::Gelu, 96), (Between::Gated, 48)] {
                let second = conv(width, 36, products);
                let mut narrow = vec![0.0; COUNT * width];
                match between {
                    Between::Gelu => gelu(&wide, &mut narrow),
                    Between::Gated => gated(&wide, width, &mut narrow),
                }
                let layers = TokenLayers::normed(norm.clone(), first.clone());
                let mut out = vec![0.0; COUNT * 96];
                layers.run(&input, None, &mut out, 96);
                assert!(out == wide, "{products:?}: a normalisation and a product");
                let layers =
                    layers.and_then(between, second.clone()).expect("there is no second product yet");
                let mut out = vec![0.0; COUNT * 36];
                layers.run(&input, Some(&add), &mut out, 36);
                assert!(out == run(&second, &narrow, Some(&add)), "{products:?} {between:?}");
            }
        }
    }

    #[test]
    fn attention_gives_the_same_bits_with_the_product_after_it() {
        let _turn = TURN.lock();
        let (qkv, add) = (values(COUNT * 3 * 48, 5), values(COUNT * 24, 6));
        let attention = Attention::new(3, 48, None);
        let mut attended = vec![0.0; COUNT * 48];
        attention.run(&qkv, None, &mut attended);
        let projection = conv(48, 24, Products::Plain);
        let both = attention.and_then(&projection).expect("it fits");
        let mut out = vec![0.0; COUNT * 24];
        both.run(&qkv, Some(&add), &mut out);
        assert!(out == run(&projection, &attended, Some(&add)));
        assert!(both.and_then(&projection).is_none(), "there is one already");
        assert!(attention.and_then(&conv(40, 24, Products::Plain)).is_none(), "of other channels");
    }
}
