//! The table of encoders. A family is one file and one line of [`families`]: everything that depends on the family goes
//! through its [`Family`].

use std::collections::BTreeSet;

use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use protoseg_core::Preprocess;
use serde::{Deserialize, Serialize};

use super::{
    Stem, StrideOn,
    convnext::{ConvNext, ConvNextConfig},
    efficientnet_lite::EfficientNetLiteConfig,
    inverted_residual::InvertedResiduals,
    mobilenet::MobileNetV2Config,
    mobilenet_v3::{MobileNetV3, MobileNetV3Config},
    resnet::{ResNet, ResNetConfig},
    vgg::{Vgg, VggConfig},
    vit::{Vit, VitConfig},
};
use crate::{
    config::ConfigError,
    graph::{Graph, Node},
    weights::{TensorFile, WeightsError},
};

families! {
    ResNet(ResNetConfig => ResNet),
    Vgg16(VggConfig => Vgg),
    EfficientNetLite(EfficientNetLiteConfig => InvertedResiduals),
    MobileNetV2(MobileNetV2Config => InvertedResiduals),
    MobileNetV3(MobileNetV3Config => MobileNetV3),
    Vit(VitConfig => Vit),
    ConvNext(ConvNextConfig => ConvNext),
}

/// What a family of encoders says of itself. The type is the configuration of one of its members.
pub(crate) trait Family: Sized {
    type Encoder: Describe;

    /// The names of its members.
    const NAMES: &'static [&'static str];
    /// What a file of its weights holds.
    const TENSORS: &'static str;

    /// The member of this name, at the family's own output stride.
    fn parse(name: &str) -> Option<Self>;

    /// The member whose weights these are; nothing if they are of another family, or what is wrong with them.
    fn recognise(tensors: &dyn Tensors) -> Option<Result<Self, String>>;

    /// What a tensor of a file is to the encoder.
    fn rename(name: &str) -> Rename;

    /// A file of its weights in our own layout, where names alone do not make it so.
    fn adapt(&self, _: &TensorFile) -> Result<Option<TensorFile>, WeightsError> {
        Ok(None)
    }

    /// With everything that `settings` say, and what they leave open as in `found`, the weights to start from.
    fn adjust(self, found: Option<&Self>, settings: &Settings) -> Self;

    fn validate(&self) -> Result<(), ConfigError>;

    /// How pictures become the input that published weights expect.
    fn preprocess(&self, size: usize) -> Preprocess {
        Preprocess::imagenet(size)
    }

    fn output_stride(&self) -> usize;

    /// Channels of the last map but one and of the last.
    fn channels(&self) -> [usize; 2];

    /// One of [`Self::NAMES`].
    fn name(&self) -> &'static str;

    /// Name and settings in words.
    fn describe(&self) -> String;

    /// With fresh weights.
    fn init(&self, device: &Device) -> Self::Encoder;
}

/// A module that can describe its layers.
pub(crate) trait Describe {
    /// Adds the layers to a graph; returns the last node of every stage, finest first.
    fn describe<'a>(&'a self, graph: &mut Graph<'a>, image: Node) -> Vec<Node>;
}

/// What can be said about an encoder besides its name. Each family takes what it knows.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub stem: Option<Stem>,
    pub stride_on: Option<StrideOn>,
    pub output_stride: Option<usize>,
    pub width: f64,
}

/// Names and shapes in a file of weights.
pub(crate) trait Tensors {
    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_>;

    fn shape(&self, name: &str) -> Option<&[usize]>;

    /// What the file says beside its tensors.
    fn metadata(&self, key: &str) -> Option<&str>;

    /// How many different numbers follow `prefix` in the names: the blocks of a layer.
    fn count(&self, prefix: &str) -> usize {
        let index = |name: &str| name.strip_prefix(prefix)?.split('.').next()?.parse().ok();
        self.names().filter_map(index).collect::<BTreeSet<usize>>().len()
    }
}

/// What a tensor of a file is to a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rename {
    /// The parameter of this name.
    To(String),
    /// Known, and of no use here (an ImageNet classifier, a step counter).
    Skip,
    /// Not known.
    Unknown,
}

impl Rename {
    /// To this name, unless it is the number of a batch-norm's steps, which PyTorch keeps among its weights.
    pub(crate) fn to(name: impl Into<String>) -> Self {
        let name = name.into();
        if name.ends_with(".num_batches_tracked") { Self::Skip } else { Self::To(name) }
    }
}

impl EncoderConfig {
    /// The encoder of this name, at its own output stride.
    pub fn parse(name: &str) -> Result<Self, ConfigError> {
        Self::find(name).ok_or_else(|| {
            let names = Self::NAMES.concat();
            let (last, others) = names.split_last().expect("the table has families");
            ConfigError::new("encoder", name, format!("{} or {last}", others.join(", ")))
        })
    }

    /// The same encoder at another output stride, where its family has it.
    pub(crate) fn at_stride(self, output_stride: usize) -> Self {
        let own = self.clone();
        let width = match &own {
            Self::ResNet(resnet) => resnet.width,
            _ => 1.0,
        };
        let settings = Settings { stem: None, stride_on: None, output_stride: Some(output_stride), width };
        self.adjust(Some(&own), &settings)
    }

    /// What a run starts with: the encoder that was named, else that of the weights `found`, else the reference's.
    pub(crate) fn resolve(named: Option<Self>, found: Option<&Self>, settings: &Settings) -> Self {
        let base = named.or_else(|| found.cloned()).unwrap_or_else(|| Self::ResNet(ResNetConfig::new(50)));
        base.adjust(found, settings)
    }
}

impl Encoder {
    /// `[batch, 3, height, width]` -> the maps of the network's stages, finest first.
    pub fn forward(&self, image: Tensor<4>) -> Vec<Tensor<4>> {
        let (mut graph, input) = Graph::new();
        let stages = self.describe(&mut graph, input);
        graph.run(image, &stages)
    }

    /// The last layer on the map before it, where it can be computed by itself: of a ResNet with four layers.
    pub(crate) fn describe_last<'a>(&'a self, graph: &mut Graph<'a>, before: Node) -> Option<Node> {
        match self {
            Self::ResNet(resnet) => resnet.describe_last(graph, before),
            _ => None,
        }
    }

    /// Channels of each stage, finest first, and its number of blocks.
    pub(crate) fn stages(&self) -> (Vec<usize>, Vec<usize>) {
        let (mut graph, image) = Graph::new();
        let nodes = self.describe(&mut graph, image);
        let shapes = graph.shapes([64, 64, 3]);
        let channels = nodes.iter().map(|&node| shapes[node][2]).collect();
        (channels, (0..nodes.len()).map(|stage| graph.blocks(stage).len()).collect())
    }

    /// `[height, width]` of the last map for images of `[height, width]`.
    pub fn map_size(&self, [height, width]: [usize; 2]) -> [usize; 2] {
        let (mut graph, input) = Graph::new();
        let stages = self.describe(&mut graph, input);
        let last = *stages.last().expect("encoders have stages");
        let [height, width, _] = graph.shapes([height, width, 3])[last];
        [height, width]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// A file of weights that has only names and shapes.
    struct Listed(HashMap<&'static str, Vec<usize>>);

    impl Tensors for Listed {
        fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
            Box::new(self.0.keys().copied())
        }

        fn shape(&self, name: &str) -> Option<&[usize]> {
            self.0.get(name).map(Vec::as_slice)
        }

        fn metadata(&self, _: &str) -> Option<&str> {
            None
        }
    }

    #[test]
    fn every_name_of_the_table_is_an_encoder_that_runs() {
        for name in EncoderConfig::NAMES.concat() {
            let config = EncoderConfig::parse(name).unwrap();
            config.validate().unwrap();
            let encoder = config.init(&crate::device::cpu());
            let (mut graph, input) = Graph::new();
            let stages = encoder.describe(&mut graph, input);
            // About 64 pixels, in whole steps of the encoder.
            let stride = config.output_stride();
            let side = 64 / stride * stride;
            let shapes = graph.shapes([side, side, 3]);
            let [before, last] = config.channels();
            assert_eq!(config.name(), name);
            assert_eq!(stages.len(), 5, "{name}");
            assert_eq!([shapes[stages[3]][2], shapes[stages[4]][2]], [before, last], "{name}");
            assert_eq!(shapes[stages[4]][0] * stride, side, "{name}");
            assert_eq!(encoder.map_size([64, 32]), [64, 32].map(|side| side / stride));
            let json = serde_json::to_string(&config).unwrap();
            assert_eq!(serde_json::from_str::<EncoderConfig>(&json).unwrap(), config, "{json}");
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = EncoderConfig::parse("resnet51").unwrap_err().to_string();
        assert!(error.contains("resnet10, resnet18") && error.contains("vgg16"), "{error}");
    }

    #[test]
    fn configurations_in_model_files_stay_readable() {
        let resnet = r#"{"kind":"resnet","depth":50,"stem":"classic","stride_on":"first-1x1","output_stride":8,"width":1.0}"#;
        let config: EncoderConfig = serde_json::from_str(resnet).unwrap();
        assert_eq!(serde_json::to_string(&config).unwrap(), resnet);
        let vgg: EncoderConfig = serde_json::from_str(r#"{"kind":"vgg16","output_stride":16}"#).unwrap();
        assert_eq!(vgg.output_stride(), 16);
    }

    #[test]
    fn files_say_which_encoder_they_hold() {
        let listed = |tensors: &[(&'static str, &[usize])]| {
            let tensors = tensors.iter().map(|&(name, shape)| (name, shape.to_vec()));
            EncoderConfig::recognise(&Listed(tensors.collect()))
        };
        let vgg = listed(&[("features.0.weight", &[64, 3, 3, 3])]).unwrap().unwrap();
        assert_eq!(vgg, EncoderConfig::parse("vgg16").unwrap());
        let one_block =
            listed(&[("conv1.weight", &[64, 3, 7, 7]), ("layer1.0.conv1.weight", &[64, 64, 3, 3])]);
        assert!(one_block.unwrap().unwrap_err().contains("no ResNet that is known"));
        assert!(listed(&[("head.weight", &[1])]).is_none());
    }
}
