//! Encoders trained on ImageNet: torchvision's ResNets and VGG-16, the deep-stem ResNets of semseg, and ResNets with
//! Caffe's and Keras's stride under torchvision's names. What kind it is, the file tells.

use burn::tensor::Device;

use super::{
    TensorFile, WeightsError,
    assign::{Rename, assign, indices},
};
use crate::encoder::{Encoder, EncoderConfig, ResNetConfig, Stem, StrideOn, VggConfig, vgg};

/// The encoder that a file's tensors are of, at output stride 8.
pub fn read_encoder_config(checkpoint: &TensorFile) -> Result<EncoderConfig, WeightsError> {
    if checkpoint.shape("features.0.weight").is_some() {
        return Ok(EncoderConfig::Vgg16(VggConfig { output_stride: 8 }));
    }
    let stem = match checkpoint.shape("conv1.weight") {
        Some([_, _, 7, 7]) => Stem::Classic,
        Some([_, _, 3, 3]) if checkpoint.shape("conv3.weight").is_some() => Stem::Deep,
        _ => return Err(checkpoint.layout_error(NOT_AN_ENCODER)),
    };
    Ok(EncoderConfig::ResNet(ResNetConfig { stem, ..read_resnet(checkpoint)? }))
}

const NOT_AN_ENCODER: &str = "no encoder's weights are in it\n\
    hint: expected ResNet (`conv1.weight`, `layer1.0.conv1.weight`, ..) or VGG-16 (`features.0.weight`, ..)";

/// Depth, width and place of the stride, from the tensors of layer1 to layer4.
pub(super) fn read_resnet(checkpoint: &TensorFile) -> Result<ResNetConfig, WeightsError> {
    let blocks = [1, 2, 3, 4].map(|layer| indices(checkpoint, &format!("layer{layer}.")).len());
    let bottleneck = checkpoint.shape("layer1.0.conv3.weight").is_some();
    let depth = ResNetConfig::depth_of(blocks, bottleneck).ok_or_else(|| {
        checkpoint.layout_error(format!(
            "its layers have {blocks:?} {} blocks, which is no ResNet that is known\n\
             hint: 10, 18, 34, 50, 101 and 152 are",
            if bottleneck { "bottleneck" } else { "basic" }
        ))
    })?;
    // Tensors look the same wherever the stride is; a file can only say so.
    let stride_on = match checkpoint.metadata.get("stride").map(String::as_str) {
        Some("first-1x1") => StrideOn::First1x1,
        _ => StrideOn::Conv3x3,
    };
    Ok(ResNetConfig { stride_on, ..ResNetConfig::new(depth) })
}

/// The encoder in a file, with its weights. `output_stride` is the caller's to choose: weights fit any.
pub fn load_encoder(
    checkpoint: &TensorFile,
    config: &EncoderConfig,
    device: &Device,
) -> Result<Encoder, WeightsError> {
    let encoder = config.init(device);
    match config {
        EncoderConfig::ResNet(_) => assign(encoder, checkpoint, rename_torchvision),
        EncoderConfig::Vgg16(_) => assign(encoder, checkpoint, rename_vgg),
    }
}

/// torchvision and semseg: `conv1`, `bn1` (and `conv2` .. `bn3` of a deep stem), `layer1` .., `fc`.
fn rename_torchvision(name: &str) -> Rename {
    if name.starts_with("fc.") {
        return Rename::Skip;
    }
    for (kind, ours) in [("conv", "conv"), ("bn", "bn")] {
        let stem = name.strip_prefix(kind).and_then(|rest| rest.split_once('.'));
        if let Some((number, rest)) = stem
            && let Ok(number @ 1..=3) = number.parse::<usize>()
        {
            return rename_buffers(&format!("stem.{}.{ours}.{rest}", number - 1));
        }
    }
    rename_layer(name)
}

/// `layer1` .. `layer4`, whose names are ours but for the shortcut's two layers.
pub(super) fn rename_layer(name: &str) -> Rename {
    if !name.starts_with("layer") {
        return Rename::Unknown;
    }
    rename_buffers(
        &name.replace("downsample.0.", "downsample.conv.").replace("downsample.1.", "downsample.bn."),
    )
}

/// PyTorch counts a batch-norm's steps in its weights.
pub(super) fn rename_buffers(name: &str) -> Rename {
    if name.ends_with(".num_batches_tracked") { Rename::Skip } else { Rename::To(name.to_string()) }
}

/// torchvision's VGG-16: convolutions numbered among the ReLUs and poolings between them.
fn rename_vgg(name: &str) -> Rename {
    if name.starts_with("classifier.") {
        return Rename::Skip;
    }
    let layer = name.strip_prefix("features.").and_then(|rest| rest.split_once('.'));
    let Some((Ok(layer), kind)) = layer.map(|(layer, kind)| (layer.parse::<usize>(), kind)) else {
        return Rename::Unknown;
    };
    let mut first = 0;
    for (block, &(convs, _)) in vgg::BLOCKS.iter().enumerate() {
        let conv = layer.wrapping_sub(first) / 2;
        if layer >= first && layer < first + 2 * convs && (layer - first).is_multiple_of(2) {
            return Rename::To(format!("blocks.{block}.convs.{conv}.{kind}"));
        }
        // A convolution and its ReLU each, then a pooling.
        first += 2 * convs + 1;
    }
    Rename::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(name: &str) -> Rename {
        Rename::To(name.to_string())
    }

    #[test]
    fn torchvision_names_become_ours() {
        assert_eq!(rename_torchvision("conv1.weight"), to("stem.0.conv.weight"));
        assert_eq!(rename_torchvision("bn3.running_var"), to("stem.2.bn.running_var"));
        assert_eq!(rename_torchvision("bn1.num_batches_tracked"), Rename::Skip);
        assert_eq!(rename_torchvision("layer2.0.downsample.1.bias"), to("layer2.0.downsample.bn.bias"));
        assert_eq!(rename_torchvision("fc.weight"), Rename::Skip);
        assert_eq!(rename_torchvision("head.weight"), Rename::Unknown);
    }

    #[test]
    fn vgg_layers_are_counted_among_relus_and_poolings() {
        let convs = [0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28];
        let blocks = [
            "0.convs.0",
            "0.convs.1",
            "1.convs.0",
            "1.convs.1",
            "2.convs.0",
            "2.convs.1",
            "2.convs.2",
            "3.convs.0",
            "3.convs.1",
            "3.convs.2",
            "4.convs.0",
            "4.convs.1",
            "4.convs.2",
        ];
        for (layer, block) in convs.into_iter().zip(blocks) {
            assert_eq!(rename_vgg(&format!("features.{layer}.bias")), to(&format!("blocks.{block}.bias")));
        }
        assert_eq!(rename_vgg("features.1.weight"), Rename::Unknown);
        assert_eq!(rename_vgg("features.30.weight"), Rename::Unknown);
        assert_eq!(rename_vgg("classifier.0.weight"), Rename::Skip);
    }
}
