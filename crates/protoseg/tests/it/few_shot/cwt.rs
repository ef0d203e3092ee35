//! CWT: the classifier step by step, the transformer, the answer and the loss.

use burn::tensor::Tensor;
use protoseg::{
    device::cpu,
    method::{
        Encoded, Method,
        cwt::{classifier_fit, fit::class_weights},
    },
    weights::{TensorFile, import_few_shot},
};
use protoseg_testing::{generated_weights, write_tensors};

use super::GoldenCase;
use crate::fixture::values;

pub fn check(case: &GoldenCase) {
    let Method::Cwt(cwt) = &case.method else { panic!("{} is of CWT", case.name) };
    let mut cwt = cwt.clone();
    let meta = |key: &str| case.golden.metadata[key].split(' ').next().unwrap();
    cwt.cls_lr = meta("cls_lr").parse().unwrap();
    cwt.steps = meta("iterations").parse().unwrap();
    assert_eq!(cwt.heads.to_string(), meta("heads"), "heads of the transformer");
    let seed = case.golden.metadata.get("seed").map_or("", String::as_str);

    let (episodes, vision) = (case.episodes(), case.vision());
    let encoded = case.episodic().encode_all(&vision, &episodes);
    let [count, dim, ..] = encoded.queries[0].dims();
    case.assert_channels("query_feature_raw", encoded.queries[0].clone(), 1e-4);
    case.assert_channels("support_feature_raw", encoded.episode(0).supports.remove(0), 1e-4);

    let start = generated_weights(&format!("{seed}binary_cls.weight"), &[2, dim, 1, 1]);
    let starts = vec![start.clone(); count];
    let (mut losses, mut ratios) = (Vec::new(), Vec::new());
    let mut rows = [1, 10, cwt.steps].map(|step| (step, Vec::new()));
    for episode in 0..count {
        ratios.push(class_weights(encoded.episode(episode).support_labels)[1]);
        let mut fit = classifier_fit(&encoded, episode, &start);
        for step in 1..=cwt.steps {
            losses.push(fit.loss() as f32);
            fit.step(cwt.cls_lr);
            let found = rows.iter_mut().filter(|(wanted, _)| *wanted == step);
            found.for_each(|(_, rows)| rows.extend(fit.rows()));
        }
    }
    case.assert_values("support_loss", &losses, 1e-4);
    case.assert_values("ratio", &ratios, 1e-5);
    for (step, rows) in rows {
        case.assert_values(&format!("w{step}"), &rows, 1e-4);
    }

    let fitted = cwt.classifiers(&encoded, &starts);
    case.assert(&format!("w{}", cwt.steps), fitted.clone(), 1e-4);
    case.assert("updated", cwt.adapted(&case.network, &encoded, fitted.clone()).0, 2e-4);
    case.assert("small", cwt.score_rows(&case.network, &encoded, fitted), 2e-4);
    case.assert("logits", cwt.answer_from(&case.network, &encoded, &starts), 2e-4);
    let losses = cwt.losses_from(&case.network, &encoded, &starts);
    case.assert("train_loss", Tensor::cat(losses, 0), 1e-4);

    // The first shot alone.
    let (supports, labels) = encoded.shot(0);
    let one = Encoded { supports, support_labels: &labels, shots: 1, ..encoded.clone() };
    case.assert(&format!("w{}_1shot", cwt.steps), cwt.classifiers(&one, &starts), 1e-4);
    case.assert("logits_1shot", cwt.answer_from(&case.network, &one, &starts), 2e-4);

    // The transformer alone, with sharp attention.
    let unit_rows: Tensor<2> = case.tensor("unit_rows");
    let unit_cells = case.tensor::<3>("unit_feature").flatten::<2>(1, 2).transpose();
    let transformer = &case.network.method.cwt().transformer;
    let updated =
        transformer.forward(unit_rows.mul_scalar(3.0).unsqueeze(), unit_cells.mul_scalar(3.0).unsqueeze());
    case.assert("unit_updated", updated.squeeze_dim::<2>(0), 1e-5);

    // Without being told where to start, the answer is the same every time.
    let answer = || values(case.episodic().answer(&case.network, &encoded));
    assert_eq!(answer(), answer());
}

/// CWT is published as two files; each alone is half of it.
#[test]
fn half_of_a_checkpoint_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |tensors: &[(&str, Vec<usize>)]| {
        let file = folder.path().join("half.safetensors");
        let tensors = tensors
            .iter()
            .map(|(name, shape)| (name.to_string(), shape.clone(), vec![0.0; shape.iter().product()]));
        write_tensors(tensors, &file);
        match import_few_shot(&TensorFile::open(&file).unwrap(), &cpu()) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("half of CWT was imported"),
        }
    };
    let error = refused(&[("module.w_qkvs.weight", vec![16, 4]), ("module.fc.bias", vec![4])]);
    assert!(error.contains("only the transformer of CWT, without the PSPNet"), "{error}");
    assert!(error.contains("hint: CWT is published as two files"), "{error}");
    let error =
        refused(&[("bottleneck.0.weight", vec![4, 8, 3, 3]), ("classifier.weight", vec![16, 4, 1, 1])]);
    assert!(error.contains("only the PSPNet of CWT, without the transformer"), "{error}");
}
