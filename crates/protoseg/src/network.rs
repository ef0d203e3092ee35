//! Everything that has weights: extractor, classifier, auxiliary head, gates.

use burn::{
    module::{Initializer, Module, Param},
    tensor::{Device, Tensor},
};

pub use crate::graph::cost::Macs;

use crate::{
    config::NetworkConfig,
    decoder::{Decoder, DecoderShape, Projector},
    encoder::Encoder,
    graph::{Graph, Node},
    method::capl::{
        gate::{GammaMlp, Gate},
        query::Dqce,
        support::Sce,
    },
};

/// A network. `encoder` and `decoder` together are the paper's F; `classifier` is P_cls.
#[derive(Module, Debug)]
pub struct Network {
    pub encoder: Encoder,
    pub decoder: Decoder,
    pub aux_head: Option<Projector>,
    /// `[rows, d]`
    pub classifier: Param<Tensor<2>>,
    /// `[rows, d / 2]`
    pub aux_classifier: Option<Param<Tensor<2>>>,
    pub gamma_support: Option<GammaMlp>,
    pub gamma_query: Option<GammaMlp>,
}

impl Network {
    pub(crate) fn new(config: &NetworkConfig, device: &Device) -> Self {
        let &NetworkConfig { dim, dropout, rows, .. } = config;
        let [aux_channels, channels] = config.encoder.channels();
        let shape =
            DecoderShape { from: channels, dim, dropout, output_stride: config.encoder.output_stride() };
        let prototypes = |dim| Initializer::Normal { mean: 0.0, std: 1.0 }.init([rows, dim], device);
        Self {
            encoder: config.encoder.init(device),
            decoder: config.decoder.init(&shape, device),
            aux_head: config.aux_head.then(|| Projector::new(aux_channels, dim / 2, dropout, device)),
            classifier: prototypes(dim),
            aux_classifier: config.aux_head.then(|| prototypes(dim / 2)),
            gamma_support: config.support_mlp.then(|| GammaMlp::new(dim, device)),
            gamma_query: config.query_mlp.then(|| GammaMlp::new(dim, device)),
        }
    }

    /// F: `[batch, 3, height, width]` -> `[batch, d, h, w]`.
    pub fn features(&self, images: Tensor<4>) -> Tensor<4> {
        let (graph, Outputs { features, .. }) = self.describe();
        graph.run_to(images, features)
    }

    /// F, and the auxiliary head's embedding `[batch, d / 2, h, w]` if there is one.
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
        let [.., before, last] = stages[..] else { unreachable!("encoders have two stages or more") };
        let features = self.decoder.describe(&mut graph, last);
        let aux = self.aux_head.as_ref().map(|head| head.describe(&mut graph, "aux_head", before));
        (graph, Outputs { features, aux })
    }

    /// The learned rows of the base classes, `[base, d]`.
    pub fn learned_base(&self, n_base: usize) -> Tensor<2> {
        self.classifier.val().slice_dim(0, 0..n_base)
    }

    pub fn sce(&self, gate: Gate) -> Sce<'_> {
        Sce { gate, mlp: self.gamma_support.as_ref() }
    }

    pub fn dqce(&self, gate: Gate) -> Dqce<'_> {
        Dqce { gate, mlp: self.gamma_query.as_ref() }
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
        decoder::DecoderKind,
        device::cpu,
        encoder::{EncoderConfig, ResNetConfig, VggConfig},
    };
    use burn::tensor::Distribution;

    fn tiny(encoder: EncoderConfig, decoder: DecoderKind) -> NetworkConfig {
        NetworkConfig { encoder, decoder, dim: 16, ..NetworkConfig::pspnet(10, 4) }
    }

    fn resnet(output_stride: usize) -> EncoderConfig {
        EncoderConfig::ResNet(ResNetConfig { width: 0.125, output_stride, ..ResNetConfig::new(10) })
    }

    #[test]
    fn every_head_on_every_stride_gives_a_map_of_the_stride() {
        let decoders = [DecoderKind::PspNet, DecoderKind::DeepLabV3, DecoderKind::Fcn, DecoderKind::Project];
        let vgg = |output_stride| EncoderConfig::Vgg16(VggConfig { output_stride });
        for decoder in decoders {
            for (encoder, stride) in
                [(resnet(8), 8), (resnet(16), 16), (resnet(32), 32), (vgg(8), 8), (vgg(16), 16)]
            {
                let network = tiny(encoder, decoder).init(&cpu()).unwrap();
                let image = Tensor::random([1, 3, 33, 65], Distribution::Normal(0.0, 1.0), &cpu());
                let (features, aux) = network.features_and_aux(image);
                let map = [33usize.div_ceil(stride), 65usize.div_ceil(stride)];
                assert_eq!(features.dims(), [1, 16, map[0], map[1]], "{decoder:?} at stride {stride}");
                assert_eq!(aux.unwrap().dims()[1], 8);
                assert!(features.min().into_scalar::<f32>() < 0.0, "features must be signed");
            }
        }
    }

    #[test]
    fn impossible_configs_are_refused_by_name() {
        let refuse = |change: fn(&mut ResNetConfig), key: &str| {
            let mut resnet = ResNetConfig::new(50);
            change(&mut resnet);
            let config = tiny(EncoderConfig::ResNet(resnet), DecoderKind::Fcn);
            let error = config.init(&cpu()).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        };
        refuse(|resnet| resnet.depth = 51, "encoder.depth = 51");
        refuse(|resnet| resnet.output_stride = 4, "encoder.output_stride = 4");
        refuse(|resnet| resnet.width = f64::NAN, "encoder.width = NaN");
        let odd = NetworkConfig { dim: 15, ..tiny(resnet(8), DecoderKind::Fcn) };
        assert!(odd.validate().unwrap_err().to_string().contains("dim = 15"));
    }

    #[test]
    fn cost_of_pspnet_50_at_473_is_the_published_one() {
        let network = NetworkConfig::pspnet(50, 21).init(&cpu()).unwrap();
        let macs = network.macs([473, 473]);
        let giga = |macs: u64| macs as f64 / 1e9;
        assert!((giga(macs.plain) - 162.5).abs() < 0.1, "{}", giga(macs.plain));
        assert!(giga(macs.plain - macs.computed) > 32.0, "{macs:?}");
    }
}
