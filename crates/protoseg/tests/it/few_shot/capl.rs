//! CAPL on PANet and on PFENet.

use protoseg::method::{
    ClassLabels, Episodes, Method,
    capl_few_shot::{CaplFewShot, On, Refined},
};

use super::GoldenCase;
use crate::fixture::label_maps;

pub fn check(case: &GoldenCase) {
    let Method::CaplFewShot(capl) = &case.method else { panic!("another method was recognised") };
    let (query_classes, support_classes) =
        (label_maps(&case.golden, "query_label"), label_maps(&case.golden, "support_label"));
    let classes = ClassLabels { queries: &query_classes, supports: &support_classes };
    let episodes = Episodes { classes: Some(classes), ..case.episodes() };
    let encoded = case.episodic().encode_all(&case.vision(), &episodes);
    let refined = Refined::new(&case.network, &encoded);
    case.assert("panet_capl_logits", refined.scores, 1e-3);
    let plain = protoseg::nn::upsample(refined.plain, encoded.size);
    case.assert("panet_logits", plain, 1e-3);
    case.assert("logits", case.episodic().answer(&case.network, &encoded), 1e-3);
    let terms = capl.terms(&case.vision(), &episodes);
    case.assert("align_loss", terms.supports, 1e-4);
    case.assert("main_loss", terms.base, 1e-4);

    // On PANet the refined scores are the answer.
    let on_panet = CaplFewShot { on: On::Panet, ..capl.clone() };
    let mut network = case.network.clone();
    if let protoseg::method::MethodWeights::CaplFewShot(weights) = &mut network.method {
        weights.enrichment = None;
    }
    let on_panet = Method::CaplFewShot(on_panet);
    let answer = on_panet.episodic().unwrap().answer(&network, &encoded);
    let expected = protoseg::nn::upsample(case.tensor::<4>("panet_capl_logits"), encoded.size);
    let values = crate::fixture::values;
    protoseg_testing::assert_close("the answer on PANet", &values(answer), &values(expected), 1e-3);
}
