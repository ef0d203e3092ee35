//! Equality with the reference implementation: features, registration and prediction of `golden/pspnet50.safetensors`.

use burn::tensor::Tensor;
use protoseg::{
    class_pack::{ClassPack, PackClass, Shot},
    core::ClassRole,
    method::capl::{dqce::dynamic_prototypes, gate::Gate, usage::ActiveParts},
    segmenter::Segmenter,
};
use protoseg_testing::{Golden, assert_close, shared};

use crate::fixture::{generated_model, label_maps, tensor, values};

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn features_of_every_stage() {
    let model = generated_model(97);
    let golden = Golden::read(&shared("golden/pspnet50.safetensors"));
    let query = tensor::<4>(&golden, "query");
    for (stage, map) in model.network().encoder.forward(query.clone()).into_iter().enumerate() {
        let [batch, channels, height, width] = map.dims();
        let (var, mean) = map.reshape([batch, channels, height * width]).var_mean(2);
        let expect = |what: &str| golden.values(&format!("layer{stage}_{what}")).to_vec();
        assert_close(&format!("mean of layer{stage}"), &values(mean), &expect("mean"), 1e-3);
        assert_close(&format!("deviation of layer{stage}"), &values(var.sqrt()), &expect("std"), 1e-3);
    }
    assert_close(
        "features",
        &values(model.network().features(query.clone())),
        golden.values("feature"),
        1e-3,
    );
    assert_close("features in use", &values(model.canvas_features(query)), golden.values("feature"), 1e-3);
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn registration_and_prediction() {
    let model = generated_model(97);
    let golden = Golden::read(&shared("golden/pspnet50.safetensors"));
    let labels = label_maps(&golden, "support_label");
    let images = tensor::<5>(&golden, "support_image");
    let [novel, shots, ..] = images.dims();
    let images: Tensor<4> = images.flatten(0, 1);
    let usage = model.usage().unwrap();
    assert_eq!(usage.capl().unwrap().parts(), ActiveParts::Capl);
    let mut supports = Vec::new();
    for (i, label) in labels.iter().enumerate() {
        let features = model.canvas_features(images.clone().slice_dim(0, i..i + 1));
        let row = (16 + i / shots) as u16;
        supports.push(usage.remember(model.network(), features, label, row, 16));
    }
    assert_eq!(supports.len(), novel * shots);
    let novel: Vec<&str> = model.classes().names(ClassRole::Novel).collect();
    let bank = model.classifier(&novel, &supports, &usage).unwrap();
    assert_close("registered", &values(bank.rows.vectors.clone()), golden.values("registered"), 1e-5);

    // The same through a class pack on disk.
    let mut pack = ClassPack::new(&model);
    for (name, shots) in novel.iter().zip(supports.chunks(shots)) {
        let shots = shots.iter().map(|sums| Shot::new("golden", 1, sums.clone()).unwrap()).collect();
        pack.add(PackClass { name: name.to_string(), color: None, shots }).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("golden.pack");
    pack.save(&path).unwrap();
    let read = ClassPack::load(&path).unwrap();
    assert_eq!(read, pack);
    read.check(&model).unwrap();
    let bank = read.classifier(&model, &usage).unwrap();
    assert_close(
        "registered from a pack",
        &values(bank.rows.vectors.clone()),
        golden.values("registered"),
        1e-5,
    );

    let query = tensor::<4>(&golden, "query");
    let features = model.canvas_features(query.clone());
    let weights = model.network().method.capl();
    let dqce = weights.dqce(Gate::Cosine);
    let dynamic =
        dynamic_prototypes(weights.classifier.val(), features, dqce, usage.capl().unwrap().options());
    assert_close("p_dyn", &values(dynamic), golden.values("dqce"), 1e-4);

    let segmenter = Segmenter::builder(&model).pack(&read).build().unwrap();
    let scores = segmenter.scores_of(query);
    assert_close("logits", &values(scores), golden.values("logits"), 1e-3);
}
