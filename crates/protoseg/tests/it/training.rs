//! Training steps: they learn, and they repeat.

use burn::{
    module::Module,
    tensor::{Tensor, TensorData},
};
use protoseg::{
    config::NetworkConfig,
    core::LabelMap,
    device::cpu,
    network::Network,
    prototype::{method::Method, options::Preset},
    train::{Recipe, StepReport, Trainer, TrainerConfig},
};
use protoseg_testing::stream;

use crate::fixture::{tiny_config, values};

/// The same four images again and again: three classes in stripes, told apart by their colour.
fn run(network: Network, images: Tensor<4>, steps: usize) -> (Vec<StepReport>, Vec<f32>) {
    let recipe = Recipe { lr: 0.005, ..Recipe::reference() };
    let (parts, options) = (Method::Capl.training(), Preset::Reference.options());
    let mut trainer = Trainer::new(network, TrainerConfig::new(3, Some(0), parts, options, recipe, steps, 5));
    let labels: Vec<LabelMap> = (0..4)
        .map(|image| LabelMap::new(41, 41, (0..41 * 41).map(|pixel| label(image, pixel)).collect()))
        .collect();
    let reports = (0..steps).map(|_| trainer.step(images.clone(), &labels)).collect();
    (reports, values(trainer.network().classifier.val()))
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
    // One start for both runs, and no dropout: tests share the device's random numbers.
    let config = NetworkConfig { dropout: 0.0, ..tiny_config(3) };
    let network = config.init(&cpu()).unwrap().materialize();
    let (reports, rows) = run(network.clone(), images(), 25);
    let mean = |part: &[StepReport]| part.iter().map(|step| step.loss).sum::<f32>() / part.len() as f32;
    let (first, last) = (mean(&reports[..5]), mean(&reports[20..]));
    assert!(last < 0.7 * first, "from {first} to {last}");
    assert_eq!(reports[24].rate, 0.0);
    let (again, rows_again) = run(network, images(), 25);
    assert_eq!(reports, again);
    assert_eq!(rows, rows_again);
}
