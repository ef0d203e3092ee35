//! Every row of the paper's ablation table, under every preset, trains and predicts.

use burn::tensor::{Distribution, Tensor};
use protoseg::{
    config::NetworkConfig,
    core::{Classes, LabelMap},
    device::cpu,
    predict::Predictor,
    prototype::{
        fake::FakeRoles,
        method::Method,
        options::{Options, Preset},
        support,
    },
    register::Support,
    train::batch_losses,
};
use protoseg_testing::assert_close;

use crate::fixture::{tiny_config, tiny_model, values};

const SIZE: usize = 33;

/// Three base and two novel classes in vertical stripes that shift with the image.
fn labels(image: usize, rows: usize) -> LabelMap {
    let label = |pixel: usize| ((pixel % SIZE / 6 + image) % rows) as u16;
    LabelMap::new(SIZE, SIZE, (0..SIZE * SIZE).map(label).collect())
}

fn options_of(preset: Preset, method: Method) -> (Options, NetworkConfig) {
    let options = preset.options();
    let [support_mlp, query_mlp] = method.has_mlp();
    let rows = if options.novel_rows { 5 } else { 3 };
    (options, NetworkConfig { support_mlp, query_mlp, ..tiny_config(rows) })
}

#[test]
fn every_row_trains_under_every_preset() {
    let device = cpu().autodiff();
    for preset in Preset::ALL {
        for method in Method::ALL {
            let (options, config) = options_of(preset, method);
            device.seed(3);
            let network = config.init(&device).unwrap();
            let images = Tensor::random([4, 3, SIZE, SIZE], Distribution::Normal(0.0, 1.0), &device);
            let labels: Vec<LabelMap> = (0..4).map(|image| labels(image, 3)).collect();
            let roles = FakeRoles { novel: vec![1], context: vec![2, 0] };
            let losses = batch_losses(&network, images, &labels, 3, &roles, method.training(), &options);
            let total: f32 = losses.total.clone().into_scalar();
            assert!(total.is_finite() && total > 0.0, "{method} under {preset:?}: loss {total}");
            assert_eq!(losses.aux.is_some(), options.loss.aux > 0.0);

            let grads = losses.total.backward();
            let moved = |tensor: Tensor<2>| {
                let grad = tensor.grad(&grads).map(values).unwrap_or_default();
                grad.iter().all(|value| value.is_finite()) && grad.iter().any(|&value| value != 0.0)
            };
            assert!(moved(network.classifier.val()), "{method} under {preset:?}: prototypes get no gradient");
            for mlp in network.gamma_support.iter().chain(&network.gamma_query) {
                assert!(moved(mlp.out.val()), "{method} under {preset:?}: the gate gets no gradient");
            }
        }
    }
}

#[test]
fn every_row_registers_and_predicts_under_every_preset() {
    for preset in Preset::ALL {
        for method in Method::ALL {
            let (options, config) = options_of(preset, method);
            let classes = Classes::new(&["background", "cow", "grass"], &["duck", "boat"]).unwrap();
            let model = tiny_model(config, classes, method, &options, SIZE);
            let support = |shot: usize| {
                let data = (0..3 * SIZE * SIZE).map(|i| (i * (7 + shot) % 251) as u8).collect();
                let image = protoseg::core::Image::new(SIZE, SIZE, data);
                Support { novel: 3 + (shot % 2) as u16, image, label: labels(shot, 5) }
            };
            let supports: Vec<Support> = (0..4).map(support).collect();
            let sums: Vec<support::SupportSums> =
                supports.iter().map(|support| model.support_sums(support).unwrap()).collect();
            let parts = model.manifest.inference();
            let bank = model.bank(&["duck", "boat"], &sums, parts, &options).unwrap();
            assert_eq!(bank.rows.dims(), [5, 16]);
            let predictor = Predictor { model: &model, bank, dqce: parts.dqce, options: options.clone() };
            let scores = predictor.canvas_scores(&supports[0].image);
            assert_eq!(scores.dims(), [5, SIZE, SIZE]);
            let scores = values(scores);
            assert!(scores.iter().all(|score| score.abs() <= 10.001), "{method} under {preset:?}");
            assert!(scores.iter().any(|&score| score != 0.0), "{method} under {preset:?}");
        }
    }
}

#[test]
fn the_base_rows_of_a_plain_method_are_as_learned() {
    let (options, config) = options_of(Preset::Reference, Method::Baseline);
    let classes = Classes::new(&["background", "cow", "grass"], &["duck", "boat"]).unwrap();
    let model = tiny_model(config, classes, Method::Baseline, &options, SIZE);
    let sums: Vec<_> = [3, 4]
        .map(|novel| {
            let image = protoseg::core::Image::new(SIZE, SIZE, vec![90; 3 * SIZE * SIZE]);
            model.support_sums(&Support { novel, image, label: labels(0, 5) }).unwrap()
        })
        .into();
    let bank = model.bank(&["duck", "boat"], &sums, model.manifest.inference(), &options).unwrap();
    let learned = model.network().learned_base(3);
    let cosine = protoseg::prototype::cosine::cosine_of_rows(learned, bank.rows.slice_dim(0, 0..3));
    assert_close("cosine", &values(cosine), &[1.0; 3], 1e-5);
}
