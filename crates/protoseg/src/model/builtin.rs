//! The model in the box: an ImageNet encoder and a bank of generic background, part of the program.

use super::{ENCODER, Model, ModelError};
use crate::weights::{TensorFile, assign_fitting};
use burn::tensor::Device;

/// Made by the command in models/README.md.
const BYTES: &[u8] = include_bytes!("../../../../models/box.safetensors");
const SCENES: &[u8] = include_bytes!("../../../../models/scenes.safetensors");

impl Model {
    /// What messages call the model in the box.
    pub const BUILTIN: &str = "the model in the box";

    /// The model that comes with the program, for use on the CPU: EfficientNet-Lite0 with ImageNet weights, no base
    /// class, and a background of generic rows. Classes are taught to it ([`Model::register`]).
    ///
    /// # Panics
    /// Never: a test reads the bytes that are part of the program.
    pub fn builtin() -> Self {
        Self::builtin_on(&crate::device::cpu()).expect("the bytes in the program are a model")
    }

    /// The model of the demo, for use on the CPU: the encoder of the model in the box, with the base classes of Scenes,
    /// fold 0, and a head trained on them.
    ///
    /// # Panics
    /// Never: a test reads the bytes that are part of the program.
    pub fn builtin_scenes() -> Self {
        let read = || -> Result<Self, ModelError> {
            let file = TensorFile::in_memory("the model of the demo", SCENES)?;
            let manifest = Self::manifest_of(&file)?;
            let device = crate::device::cpu();
            let network = manifest.network.init(&manifest.method, &device)?;
            let (mut network, _) = assign_fitting(network, &file, |name| !name.starts_with(ENCODER))?;
            network.encoder = Self::builtin().network().encoder.clone();
            Ok(Self::new(manifest, network, &device))
        };
        read().expect("the bytes in the program are a model")
    }

    /// The same, for use on a device.
    pub fn builtin_on(device: &Device) -> Result<Self, ModelError> {
        Self::of_file(&TensorFile::in_memory(Self::BUILTIN, BYTES)?, device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_box_holds_a_model_without_base_classes() {
        let model = Model::builtin();
        assert_eq!((model.classes().n_base(), model.classes().n_novel()), (1, 0));
        assert!(model.classes().has_background());
        assert_eq!(model.config().dim, 472);
    }

    #[test]
    fn the_demo_s_model_knows_the_base_classes_of_scenes() {
        let model = Model::builtin_scenes();
        assert_eq!((model.classes().n_base(), model.classes().n_novel()), (16, 5));
        assert_eq!(model.usage().unwrap().variant(), "product+prior");
    }
}
