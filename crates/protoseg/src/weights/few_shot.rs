//! Checkpoints of the published systems for episodes. Which one a file holds, its keys tell; each system's own file says
//! how.

use burn::tensor::Device;

use super::{Rename, TensorFile, WeightsError, assign};
use crate::{
    config::NetworkConfig,
    encoder::{ResNetConfig, Stem, Tensors},
    method::{Method, asgnet, canet, capl_few_shot, cwt, hsnet, mining, panet, pfenet, repri, scl},
    network::Network,
};

/// What a published checkpoint holds, and how its names become ours.
pub(crate) struct Published {
    pub network: NetworkConfig,
    pub method: Method,
    pub rename: fn(&str) -> Rename,
}

/// A system's own look at a file: nothing if it is of another system.
type Recognise = fn(&dyn Tensors) -> Option<Result<Published, String>>;

/// Those with more keys than others before them.
const SYSTEMS: &[Recognise] = &[
    panet::published,
    capl_few_shot::published,
    hsnet::published,
    scl::published,
    canet::published,
    asgnet::published,
    pfenet::published,
    repri::published,
    cwt::published,
    mining::published,
];

/// The system that a file's tensors are of.
pub(crate) fn recognise(checkpoint: &TensorFile) -> Option<Result<Published, String>> {
    SYSTEMS.iter().find_map(|system| system(checkpoint))
}

/// The system in a published checkpoint, with its weights; nothing if it is of none.
pub fn import_few_shot(
    checkpoint: &TensorFile,
    device: &Device,
) -> Result<Option<(NetworkConfig, Method, Network)>, WeightsError> {
    let Some(found) = recognise(checkpoint) else { return Ok(None) };
    let Published { network: config, method, rename } =
        found.map_err(|reason| checkpoint.layout_error(reason))?;
    let network = config.init(&method, device).map_err(|error| checkpoint.layout_error(error.to_string()))?;
    Ok(Some((config, method, assign(network, checkpoint, rename)?)))
}

/// The ResNet in a checkpoint of semseg's layout: `layer0` is the stem.
pub(crate) fn semseg_resnet(tensors: &dyn Tensors) -> Result<ResNetConfig, String> {
    let stem = match tensors.shape("layer0.0.weight") {
        Some([_, _, 7, 7]) => Stem::Classic,
        _ => Stem::Deep,
    };
    Ok(ResNetConfig { stem, ..ResNetConfig::read_layers(tensors)? })
}

/// A tensor of semseg's ResNet; unknown if it is none.
pub(crate) fn rename_semseg(name: &str) -> Rename {
    // Convolution, batch-norm, ReLU, three times.
    const STEM: [(&str, &str); 6] = [
        ("layer0.0.", "encoder.stem.0.conv."),
        ("layer0.1.", "encoder.stem.0.bn."),
        ("layer0.3.", "encoder.stem.1.conv."),
        ("layer0.4.", "encoder.stem.1.bn."),
        ("layer0.6.", "encoder.stem.2.conv."),
        ("layer0.7.", "encoder.stem.2.bn."),
    ];
    if let Some(name) = rename_by(&STEM, name) {
        return name;
    }
    in_encoder(ResNetConfig::rename_layer(name))
}

/// A name of the encoder's, as the network has it.
pub(crate) fn in_encoder(name: Rename) -> Rename {
    match name {
        Rename::To(name) => Rename::To(format!("encoder.{name}")),
        other => other,
    }
}

/// By the first prefix of `table` that fits.
pub(crate) fn rename_by(table: &[(&str, &str)], name: &str) -> Option<Rename> {
    table.iter().find_map(|(theirs, ours)| Some(Rename::to(format!("{ours}{}", name.strip_prefix(theirs)?))))
}

/// The tensors whose names begin with a prefix, without it.
pub(crate) struct Under<'a> {
    pub tensors: &'a dyn Tensors,
    pub prefix: &'a str,
}

impl Tensors for Under<'_> {
    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.tensors.names().filter_map(|name| name.strip_prefix(self.prefix)))
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.shape(&format!("{}{name}", self.prefix))
    }

    fn metadata(&self, key: &str) -> Option<&str> {
        self.tensors.metadata(key)
    }
}
