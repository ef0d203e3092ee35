//! Every row of the paper's ablation table, under every preset, trains and predicts.

use burn::tensor::{Distribution, Tensor};
use protoseg::{
    class_pack::ClassPack,
    core::{Classes, Image, RowMap, SUPPORT_ROW},
    device::cpu,
    method::{
        Images, Method,
        capl::{Ablation, Preset, fake::FakeRoles, loss::batch_losses},
        cosine::cosine_of_rows,
    },
    segmenter::Segmenter,
};
use protoseg_data::Support;
use protoseg_testing::assert_close;

use crate::fixture::{capl, remember, tiny_config, tiny_model, values};

const SIZE: usize = 33;

/// Three base and two novel classes in vertical stripes that shift with the image.
fn labels(image: usize, rows: usize) -> RowMap {
    let label = |pixel: usize| ((pixel % SIZE / 6 + image) % rows) as u16;
    RowMap::new(SIZE, SIZE, (0..SIZE * SIZE).map(label).collect())
}

fn classes() -> Classes {
    Classes::new(&["background", "cow", "grass"], &["duck", "boat"]).unwrap()
}

#[test]
fn every_row_trains_under_every_preset() {
    let device = cpu().autodiff();
    for preset in Preset::ALL {
        for row in Ablation::ALL {
            let options = preset.options();
            device.seed(3);
            let method = Method::Capl(capl(&classes(), row, &options));
            let network = tiny_config().init(&method, &device).unwrap();
            let images = Tensor::random([4, 3, SIZE, SIZE], Distribution::Normal(0.0, 1.0), &device);
            let labels: Vec<RowMap> = (0..4).map(|image| labels(image, 3)).collect();
            let batch = Images { images, labels: &labels };
            let roles = FakeRoles { novel: vec![1], context: vec![2, 0] };
            let losses = batch_losses(&network, &batch, 3, &roles, row.training(), &options);
            let total: f32 = losses.total.clone().into_scalar();
            assert!(total.is_finite() && total > 0.0, "{row} under {preset:?}: loss {total}");
            assert_eq!(losses.aux.is_some(), options.loss.aux > 0.0);

            let grads = losses.total.backward();
            let moved = |tensor: Tensor<2>| {
                let grad = tensor.grad(&grads).map(values).unwrap_or_default();
                grad.iter().all(|value| value.is_finite()) && grad.iter().any(|&value| value != 0.0)
            };
            let weights = network.method.capl();
            assert!(moved(weights.classifier.val()), "{row} under {preset:?}: prototypes get no gradient");
            for mlp in weights.gamma_support.iter().chain(&weights.gamma_query) {
                assert!(moved(mlp.out.val()), "{row} under {preset:?}: the gate gets no gradient");
            }
        }
    }
}

#[test]
fn every_row_registers_and_predicts_under_every_preset() {
    for preset in Preset::ALL {
        for row in Ablation::ALL {
            let model = tiny_model(tiny_config(), classes(), capl(&classes(), row, &preset.options()), SIZE);
            let image = |shot: usize| {
                let data = (0..3 * SIZE * SIZE).map(|i| (i * (7 + shot) % 251) as u8).collect();
                Image::new(SIZE, SIZE, data)
            };
            // Novel classes have rows 3 and 4.
            let support = |shot: usize| {
                let own = 3 + (shot % 2) as u16;
                let mut labels = labels(shot, 5);
                labels.data.iter_mut().filter(|label| **label == own).for_each(|label| *label = SUPPORT_ROW);
                Support::new(format!("shot {shot}"), image(shot), labels).unwrap()
            };
            let mut pack = ClassPack::new(&model);
            let report = model.register(&mut pack, "duck", [support(0), support(2)]).unwrap();
            assert_eq!((report.shots, report.leave_one_out_iou.len()), (2, 2));
            model.register(&mut pack, "boat", [support(1), support(3)]).unwrap();
            let segmenter = Segmenter::builder(&model).pack(&pack).build().unwrap();
            let scores = segmenter.canvas_scores(&image(0));
            assert_eq!(scores.dims(), [5, SIZE, SIZE]);
            let scores = values(scores);
            assert!(scores.iter().all(|score| score.abs() <= 10.001), "{row} under {preset:?}");
            assert!(scores.iter().any(|&score| score != 0.0), "{row} under {preset:?}");
        }
    }
}

#[test]
fn the_base_rows_of_a_plain_method_are_as_learned() {
    let method = capl(&classes(), Ablation::Baseline, &Preset::Reference.options());
    let model = tiny_model(tiny_config(), classes(), method, SIZE);
    let image = Image::new(SIZE, SIZE, vec![90; 3 * SIZE * SIZE]);
    let sums = [3, 4].map(|own| remember(&model, own, &image, &labels(0, 5)));
    let classifier = model.classifier(&["duck", "boat"], &sums, &model.usage().unwrap()).unwrap();
    let learned = model.network().method.capl().learned_base(3);
    let cosine = cosine_of_rows(learned, classifier.rows.vectors.slice_dim(0, 0..3));
    assert_close("cosine", &values(cosine), &[1.0; 3], 1e-5);
}
