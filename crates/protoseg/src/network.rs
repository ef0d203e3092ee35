//! Everything that has weights: encoder, decoder, and what the method adds to them.

use burn::{
    module::Module,
    tensor::{Device, Tensor},
};

pub use crate::graph::cost::Macs;

use crate::{
    config::NetworkConfig,
    decoder::{Decoder, DecoderKind, DecoderShape},
    encoder::Encoder,
    graph::{Graph, Node},
    method::{FeatureShape, Method, MethodWeights},
};

/// A network. `encoder` and `decoder` together are the paper's F.
#[derive(Module, Debug)]
pub struct Network {
    /// Image -> maps of several stages.
    pub encoder: Encoder,
    /// The last map -> features.
    pub decoder: Decoder,
    /// The method's own layers. In files they lie beside `encoder` and `decoder`, without a prefix.
    pub method: MethodWeights,
}

/// A map inside an encoder. Stages of a ResNet are its layers, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tap {
    /// The map of a stage.
    Stage(usize),
    /// The map of a stage before its last activation.
    Signed(usize),
    /// The maps of all blocks of a stage in order, each before its last activation.
    Blocks(usize),
}

/// A part of a network that can be computed by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Section {
    /// From images to F.
    Features,
    /// From images to maps inside the encoder.
    Maps(Vec<Tap>),
    /// From the encoder's last map but one to its last.
    LastLayer,
}

impl Network {
    pub(crate) fn new(config: &NetworkConfig, method: &Method, device: &Device) -> Self {
        let &NetworkConfig { dim, dropout, .. } = config;
        let [before_last, channels] = config.encoder.channels();
        let shape =
            DecoderShape { from: channels, dim, dropout, output_stride: config.encoder.output_stride() };
        let encoder = config.encoder.init(device);
        let (stages, blocks) = encoder.stages();
        Self {
            encoder,
            decoder: config.decoder.init(&shape, device),
            method: method.init(&FeatureShape { dim, before_last, stages, blocks, dropout }, device),
        }
    }

    /// F: `[batch, 3, height, width]` -> `[batch, d, h, w]`.
    pub fn features(&self, images: Tensor<4>) -> Tensor<4> {
        let (graph, Outputs { features, .. }) = self.describe();
        graph.run_to(images, features)
    }

    /// F, and the auxiliary head's embedding `[batch, d / 2, h, w]` if the method has one.
    pub fn features_and_aux(&self, images: Tensor<4>) -> (Tensor<4>, Option<Tensor<4>>) {
        let (graph, Outputs { features, aux }) = self.describe();
        let outputs: Vec<Node> = std::iter::once(features).chain(aux).collect();
        let mut maps = graph.run(images, &outputs).into_iter();
        (maps.next().expect("F is asked for"), maps.next())
    }

    /// The layers of F and of the auxiliary head.
    pub(crate) fn describe(&self) -> (Graph<'_>, Outputs) {
        let (mut graph, image) = Graph::new();
        let stages = self.encoder.describe(&mut graph, image);
        let [.., before, _] = stages[..] else { unreachable!("encoders have two stages or more") };
        let features = self.decoder.describe(&mut graph, &stages);
        let aux = self.method.aux_head().map(|head| head.describe(&mut graph, "aux_head", before));
        (graph, Outputs { features, aux })
    }

    /// The layers of a part, and the nodes that are its result.
    pub(crate) fn section(&self, section: &Section) -> (Graph<'_>, Vec<Node>) {
        match section {
            Section::Features => {
                let (graph, outputs) = self.describe();
                (graph, vec![outputs.features])
            }
            Section::Maps(taps) => {
                let (mut graph, image) = Graph::new();
                let stages = self.encoder.describe(&mut graph, image);
                let nodes = taps.iter().flat_map(|tap| match *tap {
                    Tap::Stage(stage) => vec![stages[stage]],
                    Tap::Signed(stage) => graph.blocks(stage).last().copied().into_iter().collect(),
                    Tap::Blocks(stage) => graph.blocks(stage),
                });
                let nodes = nodes.collect();
                (graph, nodes)
            }
            Section::LastLayer => {
                let (mut graph, before) = Graph::new();
                let last = self.encoder.describe_last(&mut graph, before);
                (graph, vec![last.expect("the method was checked against its encoder")])
            }
        }
    }

    /// The maps that F is joined of, if the decoder does nothing else.
    pub(crate) fn joined_stages(&self) -> Option<Section> {
        let Decoder::Stages(_) = self.decoder else { return None };
        let count = self.encoder.stages().0.len();
        let first = count.saturating_sub(DecoderKind::STAGES);
        Some(Section::Maps((first..count).map(Tap::Stage).collect()))
    }

    /// A part of the network by operations of Burn, with gradients where there are any.
    pub(crate) fn run_section(&self, section: &Section, input: Tensor<4>) -> Vec<Tensor<4>> {
        let (graph, outputs) = self.section(section);
        graph.run(input, &outputs)
    }

    /// What a part that begins with an image costs for one of this side, and `[height, width, channels]` of its maps.
    pub(crate) fn section_cost(&self, section: &Section, side: usize) -> (u64, Vec<[usize; 3]>) {
        let (graph, outputs) = self.section(section);
        let shapes = graph.shapes([side, side, 3]);
        (graph.plain_macs(&shapes, &outputs), outputs.iter().map(|&node| shapes[node]).collect())
    }

    /// `[height, width]` of F for images of `[height, width]`.
    pub fn map_size(&self, [height, width]: [usize; 2]) -> [usize; 2] {
        let (graph, Outputs { features, .. }) = self.describe();
        let [height, width, _] = graph.shapes([height, width, 3])[features];
        [height, width]
    }

    /// Multiply-accumulates of F at this input size: as the paper states the network, and as computed here, with the
    /// pyramid shortcut.
    pub fn macs(&self, size: [usize; 2]) -> Macs {
        let (graph, Outputs { features, .. }) = self.describe();
        graph.macs(size, features)
    }
}

/// Where the maps of a network are in its graph.
pub(crate) struct Outputs {
    pub features: Node,
    pub aux: Option<Node>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::cpu,
        encoder::{EncoderConfig, ResNetConfig, VggConfig},
        method::capl::Capl,
    };
    use burn::tensor::Distribution;

    fn tiny(encoder: EncoderConfig, decoder: DecoderKind) -> NetworkConfig {
        NetworkConfig { encoder, decoder, dim: 16, ..NetworkConfig::pspnet(10) }
    }

    fn method() -> Method {
        Method::Capl(Capl::reference(4))
    }

    fn resnet(output_stride: usize) -> EncoderConfig {
        EncoderConfig::ResNet(ResNetConfig { width: 0.125, output_stride, ..ResNetConfig::new(10) })
    }

    #[test]
    fn every_head_on_every_stride_gives_a_map_of_the_stride() {
        let decoders = [
            DecoderKind::PspNet,
            DecoderKind::PspBottleneck,
            DecoderKind::DeepLabV3,
            DecoderKind::Fcn,
            DecoderKind::Project,
        ];
        let vgg = |output_stride| EncoderConfig::Vgg16(VggConfig { output_stride });
        for decoder in decoders {
            for (encoder, stride) in
                [(resnet(8), 8), (resnet(16), 16), (resnet(32), 32), (vgg(8), 8), (vgg(16), 16)]
            {
                let network = tiny(encoder, decoder).init(&method(), &cpu()).unwrap();
                let image = Tensor::random([1, 3, 33, 65], Distribution::Normal(0.0, 1.0), &cpu());
                let (features, aux) = network.features_and_aux(image);
                let map = [33usize.div_ceil(stride), 65usize.div_ceil(stride)];
                assert_eq!(features.dims(), [1, 16, map[0], map[1]], "{decoder:?} at stride {stride}");
                assert_eq!(aux.unwrap().dims()[1], 8);
                let least: f32 = features.clone().min().into_scalar();
                match decoder {
                    DecoderKind::PspBottleneck => assert_eq!(least, 0.0, "a ReLU is last"),
                    _ => assert!(least < 0.0, "features must be signed"),
                }
                assert!(features.max().into_scalar::<f32>() > 0.0);
            }
        }
    }

    #[test]
    fn impossible_configs_are_refused_by_name() {
        let refuse = |change: fn(&mut ResNetConfig), key: &str| {
            let mut resnet = ResNetConfig::new(50);
            change(&mut resnet);
            let config = tiny(EncoderConfig::ResNet(resnet), DecoderKind::Fcn);
            let error = config.init(&method(), &cpu()).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        };
        refuse(|resnet| resnet.depth = 51, "`encoder.depth` must be 10, 18, 34, 50, 101 or 152, got `51`");
        refuse(|resnet| resnet.output_stride = 4, "`encoder.output_stride` must be 8, 16 or 32, got `4`");
        refuse(|resnet| resnet.width = f64::NAN, "got `NaN`");
        let odd = NetworkConfig { dim: 15, ..tiny(resnet(8), DecoderKind::Fcn) };
        assert!(odd.validate().unwrap_err().to_string().contains("got `15`"));
    }

    #[test]
    fn cost_of_pspnet_50_at_473_is_the_published_one() {
        let network = NetworkConfig::pspnet(50).init(&method(), &cpu()).unwrap();
        let macs = network.macs([473, 473]);
        let giga = |macs: u64| macs as f64 / 1e9;
        assert!((giga(macs.plain) - 162.5).abs() < 0.1, "{}", giga(macs.plain));
        assert!(giga(macs.plain - macs.computed) > 32.0, "{macs:?}");
    }
}
