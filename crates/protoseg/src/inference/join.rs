//! Steps that are carried out together: what one writes and only the next reads is never stored as a whole.

use std::collections::HashMap;

use protoseg_kernels::channels_last::{Between, JoinedConvs, PackedConv, TokenLayers};

use super::program::{Map, Step, Work};

/// The steps, some of them as one: layers of inverted residual blocks on large maps, and layers that take every token by
/// itself.
pub fn join(steps: Vec<Step>, outputs: &[Map]) -> Vec<Step> {
    let mut reads: HashMap<usize, usize> = outputs.iter().map(|output| (output.id, 1)).collect();
    steps.iter().flat_map(|step| &step.from).for_each(|map| *reads.entry(map.id).or_default() += 1);
    let feeds = |before: &Step, after: &Step| {
        before.to == after.from[0]
            && before.offset == 0
            && before.from.len() == 1
            && reads[&before.to.id] == 1
    };
    let mut joined: Vec<Step> = Vec::new();
    for step in steps {
        let count = match &joined[..] {
            [.., first, middle] if feeds(middle, &step) && feeds(first, middle) => 2,
            [.., middle] if feeds(middle, &step) => 1,
            _ => 0,
        };
        let before = &joined[joined.len() - count..];
        let whole = inverted_residual(before, &step)
            .or_else(|| two_products(before, &step))
            .or_else(|| normed_product(before, &step))
            .or_else(|| projected_attention(before, &step));
        match whole {
            Some((count, name, work)) => {
                let first = joined.drain(joined.len() - count..).next().expect("there are steps before");
                let from = first.from.into_iter().chain(step.from.into_iter().skip(1)).collect();
                joined.push(Step { name, work, from, ..step });
            }
            None => joined.push(step),
        }
    }
    joined
}

/// How many of the steps before one are joined with it, and what they are then.
type Whole = Option<(usize, String, Work)>;

/// The convolution of a step that writes a map of its own.
fn conv(step: &Step) -> Option<&PackedConv> {
    match &step.work {
        Work::Conv(conv) if step.offset == 0 && conv.shape().to == step.to.shape[2] => Some(conv),
        _ => None,
    }
}

/// The same, if it takes every token by itself.
fn product(step: &Step) -> Option<&PackedConv> {
    conv(step).filter(|conv| TokenLayers::takes(conv))
}

/// A product after a depthwise convolution, with the layer that widens the map if there is one.
fn inverted_residual(before: &[Step], step: &Step) -> Whole {
    (1..=before.len()).rev().find_map(|count| {
        let before = &before[before.len() - count..];
        let widen = if count == 2 { Some(conv(&before[0])?) } else { None };
        let convs = JoinedConvs::new(widen, conv(&before[count - 1])?, conv(step)?)?;
        let name = step.name.rsplit_once('.').map_or(&step.name[..], |(block, _)| block);
        Some((count, name.to_string(), Work::Joined(Box::new(convs))))
    })
}

/// The network of a transformer's block: a product, a function of every token, and a product.
fn two_products(before: &[Step], step: &Step) -> Whole {
    let [first, function] = before else { return None };
    let between = match function.work {
        Work::Gelu => Between::Gelu,
        Work::Gated => Between::Gated,
        _ => return None,
    };
    let layers = match &first.work {
        Work::PerToken(layers) => layers.as_ref().clone(),
        _ => TokenLayers::plain(product(first)?.clone()),
    };
    let layers = layers.and_then(between, product(step)?.clone())?;
    Some((2, first.name.clone(), Work::PerToken(Box::new(layers))))
}

/// A product of normalised tokens.
fn normed_product(before: &[Step], step: &Step) -> Whole {
    let Work::LayerNorm(norm) = &before.last()?.work else { return None };
    let layers = TokenLayers::normed(norm.clone(), product(step)?.clone());
    Some((1, step.name.clone(), Work::PerToken(Box::new(layers))))
}

/// Attention and the product after it.
fn projected_attention(before: &[Step], step: &Step) -> Whole {
    let attention = before.last()?;
    let Work::Attention(work) = &attention.work else { return None };
    let work = work.and_then(product(step)?)?;
    Some((1, attention.name.clone(), Work::Attention(work)))
}
