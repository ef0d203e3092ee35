//! Encoders trained on ImageNet. Which one a file holds, the table of encoders tells.

use burn::tensor::Device;

use super::{TensorFile, WeightsError, assign::assign};
use crate::encoder::{Encoder, EncoderConfig, Rename, Tensors};

impl Tensors for TensorFile {
    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.names())
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        self.shape(name)
    }

    fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }
}

/// The encoder that a file's tensors are of, at its own output stride.
pub fn read_encoder_config(checkpoint: &TensorFile) -> Result<EncoderConfig, WeightsError> {
    match EncoderConfig::recognise(checkpoint) {
        Some(found) => found.map_err(|reason| checkpoint.layout_error(reason)),
        None => {
            let expected = EncoderConfig::TENSORS.join(", ");
            let reason = format!("no encoder's weights are in it\nhint: expected one of {expected}");
            Err(checkpoint.layout_error(reason))
        }
    }
}

/// The encoder in a file, with its weights. `output_stride` is the caller's to choose: weights fit any.
pub fn load_encoder(
    checkpoint: &TensorFile,
    config: &EncoderConfig,
    device: &Device,
) -> Result<Encoder, WeightsError> {
    let adapted = config.adapt(checkpoint)?;
    let checkpoint = adapted.as_ref().unwrap_or(checkpoint);
    let has_layer4 = !matches!(config, EncoderConfig::ResNet(resnet) if resnet.layers == 3);
    assign(config.init(device), checkpoint, |name| match config.rename(name) {
        Rename::To(ours) if ours.starts_with("layer4.") && !has_layer4 => Rename::Skip,
        rename => rename,
    })
}
