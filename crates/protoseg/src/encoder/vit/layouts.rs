//! Published files of weights: those of torch.hub and timm, and those of transformers with its old and new names.

use std::collections::BTreeMap;

use burn::tensor::TensorData;

use super::{MOST_BLOCKS, Positions, VitConfig};
use crate::{
    encoder::{Family, Tensors},
    weights::{TensorFile, WeightsError},
};

/// What other programs put before all names.
const WRAPPERS: [&str; 4] = ["dinov2_with_registers.", "dinov2.", "dinov3_vit.", "backbone."];
/// What has no part in features.
const UNUSED: [&str; 9] = [
    "mask_token",
    "head.",
    "classifier.",
    "pooler.",
    "fc_norm.",
    "rope_embed.",
    "rope_embeddings.",
    // Of other tokens than patches, in large members of DINOv3.
    "cls_norm.",
    "local_cls_norm.",
];

/// What a tensor is to the encoder.
#[derive(Debug, PartialEq, Eq)]
enum Role {
    /// The parameter of this name.
    Whole(String),
    /// Rows of the parameter of this name: of queries (0), keys (1) or values (2).
    Third(String, usize),
    /// Says that the part of keys in the bias of this name does not count.
    NoKeys(String),
    Class,
    Registers,
    Positions,
    Unused,
}

/// The role that a name of a file says, if it is one of a vision transformer's.
fn role(name: &str) -> Option<Role> {
    let name = WRAPPERS.iter().find_map(|wrapper| name.strip_prefix(wrapper)).unwrap_or(name);
    let name = name.strip_prefix("embeddings.").unwrap_or(name);
    if UNUSED.iter().any(|unused| name.starts_with(unused)) {
        return Some(Role::Unused);
    }
    match name {
        "cls_token" => return Some(Role::Class),
        "register_tokens" | "reg_token" | "storage_tokens" => return Some(Role::Registers),
        "pos_embed" | "position_embeddings" => return Some(Role::Positions),
        _ => {}
    }
    let whole = |name: String| Some(Role::Whole(name));
    const PATCH: [&str; 3] = ["patch_embed.proj.", "patch_embeddings.projection.", "patch_embeddings."];
    if let Some(rest) = PATCH.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        return whole(format!("patch.{rest}"));
    }
    if let Some(rest) = name.strip_prefix("norm.").or_else(|| name.strip_prefix("layernorm.")) {
        return whole(format!("norm.{rest}"));
    }
    const BLOCKS: [&str; 4] = ["blocks.", "encoder.layer.", "model.layer.", "layer."];
    let (block, layer) = BLOCKS.iter().find_map(|prefix| name.strip_prefix(prefix))?.split_once('.')?;
    block.parse::<usize>().ok()?;
    const THIRDS: [[&str; 3]; 2] = [
        ["attention.attention.query.", "attention.attention.key.", "attention.attention.value."],
        ["attention.q_proj.", "attention.k_proj.", "attention.v_proj."],
    ];
    for (third, prefix) in THIRDS.iter().flat_map(|names| names.iter().enumerate()) {
        if let Some(rest) = layer.strip_prefix(prefix) {
            return Some(Role::Third(format!("blocks.{block}.qkv.{rest}"), third));
        }
    }
    for (third, theirs) in [(0, "attn.q_bias"), (2, "attn.v_bias")] {
        if layer == theirs {
            return Some(Role::Third(format!("blocks.{block}.qkv.bias"), third));
        }
    }
    if layer == "attn.qkv.bias_mask" {
        return Some(Role::NoKeys(format!("blocks.{block}.qkv.bias")));
    }
    const LAYERS: [(&str, &str); 21] = [
        ("norm1.", "norm1."),
        ("norm2.", "norm2."),
        ("attn.qkv.", "qkv."),
        ("attn.proj.", "proj."),
        ("attention.output.dense.", "proj."),
        ("attention.o_proj.", "proj."),
        ("ls1.gamma", "scale1"),
        ("ls2.gamma", "scale2"),
        ("gamma_1", "scale1"),
        ("gamma_2", "scale2"),
        ("layer_scale1.lambda1", "scale1"),
        ("layer_scale2.lambda1", "scale2"),
        ("mlp.fc1.", "fc1."),
        ("mlp.fc2.", "fc2."),
        ("mlp.up_proj.", "fc1."),
        ("mlp.down_proj.", "fc2."),
        ("mlp.w12.", "fc1."),
        ("mlp.w3.", "fc2."),
        ("mlp.weights_in.", "fc1."),
        ("mlp.weights_out.", "fc2."),
        ("mlp.gate_proj.", "gate."),
    ];
    let (theirs, ours) = LAYERS.iter().find(|(theirs, _)| layer.starts_with(theirs))?;
    whole(format!("blocks.{block}.{ours}{}", &layer[theirs.len()..]))
}

/// Which vision transformer a file holds.
pub(super) fn recognise(tensors: &dyn Tensors) -> Option<Result<VitConfig, String>> {
    let find = |wanted: &Role| tensors.names().find(|name| role(name).as_ref() == Some(wanted));
    let shape_of = |wanted: &Role| find(wanted).and_then(|name| tensors.shape(name));
    let whole = |name: &str| Role::Whole(name.to_string());
    shape_of(&Role::Class)?;
    let &[width, 3, patch, across] = shape_of(&whole("patch.weight"))? else {
        return Some(Err("its patches are not those of colour images".to_string()));
    };
    if patch != across {
        return Some(Err(format!("its patches of {patch} x {across} pixels are not square")));
    }
    // No more than there can be: a file may list any number of names.
    let is_there = |block: &usize| shape_of(&whole(&format!("blocks.{block}.norm1.weight"))).is_some();
    let depth = (0..=MOST_BLOCKS).take_while(is_there).count();
    if shape_of(&whole("blocks.0.gate.weight")).is_some() {
        let hint = "hint: use dinov3-vits16 or dinov3-vitb16";
        return Some(Err(format!("gated networks of DINOv3 are not known\n{hint}")));
    }
    let wide = shape_of(&whole("blocks.0.fc1.weight")).and_then(|shape| shape.first());
    let gated = wide.is_some_and(|&wide| wide != 4 * width);
    // The last axis but one; tokens and positions are rows.
    let rows = |shape: &[usize]| shape.len().checked_sub(2).map_or(0, |axis| shape[axis]);
    let registers = shape_of(&Role::Registers).map_or(0, rows);
    let positions = match shape_of(&Role::Positions).map(rows) {
        // With the class token's or without.
        Some(count) => Positions::Learned(count.isqrt()),
        None => Positions::Rotary,
    };
    let config = VitConfig { width, depth, patch, registers, positions, gated };
    Some(config.validate().map(|()| config).map_err(|error| error.to_string()))
}

/// The same tensors in our own layout: one matrix for queries, keys and values, matrices as 1x1 convolutions, and the
/// class token with its position.
pub(super) fn adapt(config: &VitConfig, file: &TensorFile) -> Result<TensorFile, WeightsError> {
    let width = config.width;
    let mut tensors: Vec<(String, TensorData)> = Vec::new();
    let mut thirds: BTreeMap<String, [Option<Vec<f32>>; 3]> = BTreeMap::new();
    let (mut class, mut registers, mut positions) = (Vec::new(), Vec::new(), Vec::new());
    let mut without_keys = Vec::new();
    for name in file.names() {
        let Some(role) = role(name) else {
            return Err(file.layout_error(format!("`{name}` is no tensor of a vision transformer")));
        };
        match role {
            Role::Unused => {}
            Role::Class => class = file.read(name)?,
            Role::Registers => registers = file.read(name)?,
            Role::Positions => positions = file.read(name)?,
            Role::NoKeys(ours) => without_keys.push(ours),
            Role::Third(ours, third) => thirds.entry(ours).or_default()[third] = Some(file.read(name)?),
            Role::Whole(ours) => tensors.push((ours, file.read_as_conv(name)?)),
        }
    }
    for (_, bias) in tensors.iter_mut().filter(|(name, _)| without_keys.contains(name)) {
        let values = bias.as_mut_slice::<f32>().expect("tensors of files are read as f32");
        let third = values.len() / 3;
        values[third..2 * third].fill(0.0);
    }
    for (name, parts) in thirds {
        let len = parts.iter().flatten().map(Vec::len).max().unwrap_or_default();
        // DINOv3 has no bias of keys.
        let joined: Vec<f32> =
            parts.into_iter().flat_map(|part| part.unwrap_or_else(|| vec![0.0; len])).collect();
        let shape = if name.ends_with(".bias") { vec![3 * len] } else { vec![3 * width, len / width, 1, 1] };
        if joined.len() != shape.iter().product::<usize>() {
            return Err(file.layout_error(format!("queries, keys and values of `{name}` differ in size")));
        }
        tensors.push((name, TensorData::new(joined, shape)));
    }
    // Timm leaves them out if all are zero.
    if config.positions == Positions::Rotary && !tensors.iter().any(|(name, _)| name.ends_with(".qkv.bias")) {
        let zeros = || TensorData::new(vec![0f32; 3 * width], [3 * width]);
        tensors.extend((0..config.depth).map(|block| (format!("blocks.{block}.qkv.bias"), zeros())));
    }
    if class.len() != width
        || !registers.len().is_multiple_of(width)
        || !positions.len().is_multiple_of(width)
    {
        return Err(file.layout_error(format!("its tokens do not have {width} channels")));
    }
    if let Positions::Learned(side) = config.positions {
        let patches = side * side * width;
        if positions.len() == patches + width {
            class.iter_mut().zip(&positions).for_each(|(class, position)| *class += position);
            positions.drain(..width);
        }
        if positions.len() != patches {
            return Err(file.layout_error("its position embeddings are of no square grid"));
        }
        tensors.push(("tokens.positions".to_string(), TensorData::new(positions, [side * side, width])));
    }
    class.extend(registers);
    let count = class.len() / width;
    tensors.push(("tokens.first".to_string(), TensorData::new(class, [count, width])));
    file.replaced(tensors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_programs_mean_the_same() {
        let whole = |name: &str| Some(Role::Whole(name.to_string()));
        for name in [
            "blocks.3.attn.proj.weight",
            "encoder.layer.3.attention.output.dense.weight",
            "layer.3.attention.o_proj.weight",
        ] {
            assert_eq!(role(name), whole("blocks.3.proj.weight"), "{name}");
        }
        for name in ["blocks.0.ls2.gamma", "blocks.0.gamma_2", "dinov2.encoder.layer.0.layer_scale2.lambda1"]
        {
            assert_eq!(role(name), whole("blocks.0.scale2"), "{name}");
        }
        for name in ["encoder.layer.7.attention.attention.key.bias", "encoder.layer.7.attention.k_proj.bias"]
        {
            assert_eq!(role(name), Some(Role::Third("blocks.7.qkv.bias".to_string(), 1)), "{name}");
        }
        assert_eq!(role("blocks.7.attn.qkv.bias_mask"), Some(Role::NoKeys("blocks.7.qkv.bias".to_string())));
        assert_eq!(role("storage_tokens"), Some(Role::Registers));
        assert_eq!(role("blocks.7.attn.v_bias"), Some(Role::Third("blocks.7.qkv.bias".to_string(), 2)));
        assert_eq!(role("embeddings.patch_embeddings.projection.bias"), whole("patch.bias"));
        assert_eq!(role("embeddings.mask_token"), Some(Role::Unused));
        assert_eq!(role("layer1.0.conv1.weight"), None);
    }
}
