//! Episodes of a data set: what a test answers is what [`protoseg::Model::find`] answers, however much is kept.

use protoseg::{
    Model, Support,
    config::NetworkConfig,
    core::{Classes, Episode, EpisodeStyle, Preprocess},
    data::Benchmark,
    decoder::DecoderKind,
    device::cpu,
    encoder::{EncoderConfig, ResNetConfig},
    episodes::{EpisodePlan, EpisodeSource, EpisodeTest},
    method::{FEW_SHOT_NAMES, Method, few_shot, panet::Panet},
    model::{Manifest, Training},
};

fn model() -> Model {
    let encoder = EncoderConfig::ResNet(ResNetConfig { width: 0.125, ..ResNetConfig::new(10) });
    let manifest = Manifest {
        format: Manifest::FORMAT,
        network: NetworkConfig {
            dim: encoder.channels()[1],
            encoder,
            decoder: DecoderKind::Identity,
            ..NetworkConfig::pspnet(10)
        },
        classes: Classes::new(&["background", "cow"], &[]).unwrap(),
        method: Method::Panet(Panet::default()),
        preprocess: Preprocess::imagenet(65),
        training: Training::default(),
    };
    cpu().seed(5);
    Model::random(manifest, &cpu()).unwrap()
}

/// A narrow network of a published system with random weights.
fn system(name: &str) -> Model {
    let method = few_shot(name).unwrap();
    let encoder = EncoderConfig::ResNet(ResNetConfig { width: 0.125, ..ResNetConfig::new(50) });
    let manifest = Manifest {
        network: method.published_network(encoder),
        method,
        preprocess: Preprocess::imagenet(97),
        ..model().manifest().clone()
    };
    cpu().seed(5);
    Model::random(manifest, &cpu()).unwrap()
}

fn plan(style: EpisodeStyle, episodes: usize) -> EpisodePlan {
    let source =
        EpisodeSource::Drawn { episodes: Some(episodes), runs: Some(1), seed: None, min_pixels: Some(102) };
    EpisodePlan { shots: vec![1, 3], source, ..EpisodePlan::published(0, style) }
}

/// What a test answers, from maps that it keeps, is what [`Model::find`] answers, which encodes everything anew.
fn compare(model: &Model, scenes: &Benchmark, name: &str) {
    let test = EpisodeTest::new(model, scenes, &plan(EpisodeStyle::Pfenet, 2)).unwrap();
    // An image that was encoded as a query is now a support, and the other way round.
    let swap = |episode: &Episode| {
        let mut episode = episode.clone();
        std::mem::swap(&mut episode.query, &mut episode.supports[0]);
        episode
    };
    for episode in test.runs()[0].iter().flat_map(|episode| [episode.clone(), swap(episode)]) {
        let support = |&sample: &usize| {
            let (image, mask) = test.support(sample, episode.class).unwrap();
            let mask: Vec<bool> = mask.data.iter().map(|&label| label == 1).collect();
            Support::from_mask("scene", image, &mask).unwrap()
        };
        let supports: Vec<Support> = episode.supports.iter().map(support).collect();
        let query = scenes.dataset.image(episode.query).unwrap();
        let answer = test.answer(&episode).unwrap();
        for (&shots, predicted) in test.shots().iter().zip(&answer.predicted) {
            let found = model.find("thing", &query, &supports[..shots]).unwrap();
            assert_eq!(found.labels(), predicted, "{name}, {shots} shots");
        }
        assert_eq!((answer.truth.width, answer.truth.height), (128, 128), "scored at the image's own size");
    }
}

#[test]
fn an_episode_is_a_query_and_its_supports() {
    compare(&model(), &Benchmark::open("scenes", None).unwrap(), "panet");
}

#[test]
fn every_system_answers_episodes_from_what_is_kept() {
    let scenes = Benchmark::open("scenes", None).unwrap();
    for name in FEW_SHOT_NAMES {
        compare(&system(name), &scenes, name);
    }
}

#[test]
fn what_is_kept_changes_nothing_but_the_time() {
    let (model, scenes) = (model(), Benchmark::open("scenes", None).unwrap());
    let scores = |style: EpisodeStyle, cache_bytes: usize| {
        let plan = EpisodePlan { cache_bytes, ..plan(style, 12) };
        let test = EpisodeTest::new(&model, &scenes, &plan).unwrap();
        let results = test.run("model", &|_, _| ()).unwrap();
        (results.csv(), results.episodes_csv())
    };
    for style in [EpisodeStyle::Hsnet, EpisodeStyle::Pfenet] {
        let kept = scores(style, EpisodePlan::CACHE_BYTES);
        assert_eq!(kept, scores(style, 0));
        assert_eq!(kept, scores(style, 40_000));
    }
}

#[test]
fn squashed_episodes_are_scored_on_the_square() {
    let (model, scenes) = (model(), Benchmark::open("scenes", None).unwrap());
    let plan = EpisodePlan { size: Some(49), ..plan(EpisodeStyle::Hsnet, 1) };
    let test = EpisodeTest::new(&model, &scenes, &plan).unwrap();
    let answer = test.answer(&test.runs()[0][0]).unwrap();
    assert_eq!((answer.truth.width, answer.truth.height), (49, 49));
    assert_eq!((answer.predicted[1].width, answer.predicted[1].height), (49, 49));
    assert_ne!(test.model().fingerprint(), model.fingerprint());
}
