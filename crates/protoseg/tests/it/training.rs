//! Training steps: they learn, and they repeat.

use burn::{
    module::Module,
    tensor::{Tensor, TensorData},
};
use protoseg::{
    config::NetworkConfig,
    core::RowMap,
    decoder::{Decoder, DecoderKind},
    device::cpu,
    encoder::{Block, Encoder, EncoderConfig, Positions, VitConfig},
    method::{
        BaseClasses, Images, Method, TrainingBatch,
        capl::{Ablation, Capl, Preset},
    },
    network::Network,
    train::{NetworkPlan, OptimizerSettings, StepReport, Trainer, TrainerConfig},
};
use protoseg_testing::{assert_close, stream};

use crate::fixture::{tiny_config, values};

/// The same four images again and again: three classes in stripes, told apart by their colour.
fn run(network: Network, config: TrainerConfig) -> (Vec<StepReport>, Network) {
    let steps = config.steps;
    let mut trainer = Trainer::new(network, config);
    let reports = (0..steps).map(|_| step(&mut trainer)).collect();
    (reports, trainer.network())
}

fn step(trainer: &mut Trainer) -> StepReport {
    trainer.step(&TrainingBatch::Images(Images { images: images(), labels: &labels() }))
}

fn method() -> Method {
    Method::Capl(Capl::reference(3))
}

fn config(steps: usize) -> TrainerConfig {
    let optimizer = OptimizerSettings { lr: 0.005, ..OptimizerSettings::reference() };
    let base = BaseClasses { count: 3, has_background: true };
    TrainerConfig::new(method(), base, optimizer, steps, 5)
}

/// Without dropout: tests share the device's random numbers.
fn start() -> Network {
    NetworkConfig { dropout: 0.0, ..tiny_config() }.init(&method(), &cpu()).unwrap().materialize()
}

fn labels() -> Vec<RowMap> {
    let one = |image| RowMap::new(41, 41, (0..41 * 41).map(|pixel| label(image, pixel)).collect());
    (0..4).map(one).collect()
}

fn label(image: usize, pixel: usize) -> u16 {
    ((pixel % 41 / 14 + image) % 3) as u16
}

fn images() -> Tensor<4> {
    let colour = |i: usize| {
        let (image, channel, pixel) = (i / (3 * 41 * 41), i / (41 * 41) % 3, i % (41 * 41));
        if usize::from(label(image, pixel)) == channel { 2.0 } else { -1.0 }
    };
    let noise = stream("noise", 4 * 3 * 41 * 41);
    let pixels: Vec<f32> = noise.iter().enumerate().map(|(i, noise)| colour(i) + 0.5 * noise).collect();
    Tensor::from_data(TensorData::new(pixels, [4, 3, 41, 41]), &cpu())
}

#[test]
fn the_loss_falls_and_a_run_repeats_bit_for_bit() {
    let network = start();
    let (reports, trained) = run(network.clone(), config(25));
    let mean = |part: &[StepReport]| part.iter().map(|step| step.loss).sum::<f32>() / part.len() as f32;
    let (first, last) = (mean(&reports[..5]), mean(&reports[20..]));
    assert!(last < 0.7 * first, "from {first} to {last}");
    assert_eq!(reports[24].rate, 0.0);
    let (again, trained_again) = run(network, config(25));
    assert_eq!(reports, again);
    assert_eq!(
        values(trained.method.capl().classifier.val()),
        values(trained_again.method.capl().classifier.val())
    );
}

#[test]
fn networks_of_depthwise_convolutions_learn() {
    for encoder in ["efficientnet-lite0", "mobilenetv2", "mobilenetv3-small"] {
        let mut plan =
            NetworkPlan { output_stride: Some(8), dim: 16, dropout: 0.0, ..NetworkPlan::default() };
        plan.set_arch(&format!("fcn-{encoder}")).unwrap();
        let network = plan.config(plan.encoder_config(None).unwrap());
        let network = network.init(&method(), &cpu()).unwrap().materialize();
        let (reports, _) = run(network, config(16));
        let mean = |part: &[StepReport]| part.iter().map(|step| step.loss).sum::<f32>() / part.len() as f32;
        let (first, last) = (mean(&reports[..4]), mean(&reports[12..]));
        assert!(last < 0.8 * first, "{encoder}: from {first} to {last}");
    }
}

#[test]
fn a_trainer_goes_on_from_its_weights_and_its_optimisers_memory() {
    let network = start();
    let (reports, trained) = run(network.clone(), config(6));
    let mut first = Trainer::new(network, config(6));
    for _ in 0..3 {
        step(&mut first);
    }
    let memory = first.optimizer_state().unwrap();
    let mut second = Trainer::new(first.network(), config(6)).resume(3, memory).unwrap();
    let rest: Vec<StepReport> = (0..3).map(|_| step(&mut second)).collect();
    assert_eq!(reports[3..], rest);
    assert_eq!(
        values(trained.method.capl().classifier.val()),
        values(second.network().method.capl().classifier.val())
    );
}

#[test]
fn two_devices_learn_what_one_learns_in_two_parts() {
    let network = start();
    let parts = TrainerConfig { accumulate: 2, freeze_batch_norm: true, ..config(3) };
    let devices = TrainerConfig { more_devices: vec![cpu()], freeze_batch_norm: true, ..config(3) };
    let (in_parts, a) = run(network.clone(), parts);
    let (side_by_side, b) = run(network, devices);
    assert_eq!(in_parts, side_by_side);
    assert_eq!(values(a.method.capl().classifier.val()), values(b.method.capl().classifier.val()));
}

#[test]
fn parts_of_a_batch_count_as_one_step() {
    // A plain classifier has no roles to draw, so that only batch statistics could tell the two apart; they are frozen.
    let method = Method::Capl(Capl::new(Ablation::Baseline, Preset::Reference.options(), 3, false));
    let plain = TrainerConfig { method: method.clone(), freeze_batch_norm: true, ..config(1) };
    let network = NetworkConfig { dropout: 0.0, decoder: DecoderKind::Project, ..tiny_config() };
    let network = network.init(&method, &cpu()).unwrap().materialize();
    let (whole, a) = run(network.clone(), plain.clone());
    let (parts, b) = run(network, TrainerConfig { accumulate: 2, ..plain });
    assert!((whole[0].loss - parts[0].loss).abs() < 1e-4, "{whole:?} {parts:?}");
    assert_close(
        "classifier",
        &values(b.method.capl().classifier.val()),
        &values(a.method.capl().classifier.val()),
        1e-5,
    );
}

#[test]
fn recomputing_changes_no_loss() {
    let network = start();
    let (kept, a) = run(network.clone(), config(3));
    let (recomputed, b) = run(network, TrainerConfig { gradient_checkpointing: true, ..config(3) });
    assert_eq!(kept, recomputed);
    assert_eq!(values(a.method.capl().classifier.val()), values(b.method.capl().classifier.val()));
}

/// Weights of the first and of the last convolution of a ResNet, and a running mean of the first.
fn ends(network: &Network) -> [Vec<f32>; 3] {
    let Encoder::ResNet(resnet) = &network.encoder else { panic!("a ResNet") };
    let first = &resnet.stem[0];
    let Some(Block::Basic(last)) = resnet.layer4.last() else { panic!("a ResNet-10") };
    [values(first.conv.weight.val()), values(last.conv2.weight.val()), values(first.bn.running_mean.value())]
}

#[test]
fn the_last_layers_can_learn_alone() {
    let network = start();
    let (_, trained) = run(network.clone(), TrainerConfig { train_last: Some(1), ..config(2) });
    let ([first, last, mean], trained) = (ends(&network), ends(&trained));
    assert_eq!((first, mean), (trained[0].clone(), trained[2].clone()));
    assert_ne!(last, trained[1]);
}

#[test]
fn the_last_blocks_of_a_vision_transformer_learn_alone() {
    let positions = Positions::Learned(8);
    let vit = VitConfig { width: 64, depth: 4, patch: 4, registers: 1, positions, gated: false };
    let encoder = EncoderConfig::Vit(vit);
    let network = NetworkConfig { encoder, decoder: DecoderKind::Fcn, dropout: 0.0, ..tiny_config() };
    let network = network.init(&method(), &cpu()).unwrap().materialize();
    let (reports, trained) = run(network.clone(), TrainerConfig { train_last: Some(2), ..config(16) });
    assert!(reports[15].loss < 0.8 * reports[0].loss, "from {} to {}", reports[0].loss, reports[15].loss);
    let blocks = |network: &Network| -> Vec<Vec<f32>> {
        let Encoder::Vit(vit) = &network.encoder else { panic!("a vision transformer") };
        vit.blocks.iter().map(|block| values(block.qkv.weight.val())).collect()
    };
    let (before, after) = (blocks(&network), blocks(&trained));
    assert_eq!(before[..2], after[..2]);
    assert!(before[2] != after[2] && before[3] != after[3]);
}

#[test]
fn rates_can_fall_from_layer_to_layer() {
    let network = start();
    let [first, last, _] = ends(&network);
    let largest_step = |layer_decay: f64| {
        let mut config = config(2);
        config.optimizer.layer_decay = layer_decay;
        let mut trainer = Trainer::new(network.clone(), config);
        step(&mut trainer);
        let [first_now, last_now, _] = ends(&trainer.network());
        let largest = |before: &[f32], now: &[f32]| {
            before.iter().zip(now).map(|(before, now)| (now - before).abs()).fold(0f32, f32::max)
        };
        [largest(&first, &first_now), largest(&last, &last_now)]
    };
    let (even, falling) = (largest_step(1.0), largest_step(0.5));
    assert_eq!(even[1], falling[1], "the last layer has the encoder's own rate");
    let power = (even[0] / falling[0]).log2();
    assert!(power > 5.0 && (power - power.round()).abs() < 0.1, "each layer halves the rate: 2^{power}");
}

#[test]
fn frozen_batch_norm_stays_as_it_was_in_the_encoder_only() {
    let network = start();
    let (_, trained) = run(network.clone(), TrainerConfig { freeze_batch_norm: true, ..config(2) });
    let norms = |network: &Network| {
        let Encoder::ResNet(resnet) = &network.encoder else { panic!("a ResNet") };
        let bn = &resnet.stem[0].bn;
        [values(bn.weight.val()), values(bn.bias.val()), values(bn.running_mean.value())]
    };
    assert_eq!(norms(&network), norms(&trained));
    let Decoder::PspNet(decoder) = &trained.decoder else { panic!("a PSPNet") };
    assert!(values(decoder.projector.conv.bn.running_mean.value()).iter().any(|&mean| mean != 0.0));
}
