//! Episodes of a data set: what a test answers is what [`protoseg::Model::find`] answers, however much is kept.

use protoseg::{
    Model, Support,
    config::NetworkConfig,
    core::{Classes, EpisodeStyle, Preprocess},
    data::Benchmark,
    decoder::DecoderKind,
    device::cpu,
    encoder::{EncoderConfig, ResNetConfig},
    episodes::{EpisodePlan, EpisodeSource, EpisodeTest},
    method::{Method, panet::Panet},
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

fn plan(style: EpisodeStyle, episodes: usize) -> EpisodePlan {
    let source =
        EpisodeSource::Drawn { episodes: Some(episodes), runs: Some(1), seed: None, min_pixels: Some(102) };
    EpisodePlan { shots: vec![1, 3], source, ..EpisodePlan::published(0, style) }
}

#[test]
fn an_episode_is_a_query_and_its_supports() {
    let (model, scenes) = (model(), Benchmark::open("scenes", None).unwrap());
    let test = EpisodeTest::new(&model, &scenes, &plan(EpisodeStyle::Pfenet, 3)).unwrap();
    for episode in &test.runs()[0] {
        let supports: Vec<Support> = episode
            .supports
            .iter()
            .map(|&sample| {
                let (image, mask) = test.support(sample, episode.class).unwrap();
                let mask: Vec<bool> = mask.data.iter().map(|&label| label == 1).collect();
                Support::from_mask("scene", image, &mask).unwrap()
            })
            .collect();
        let query = scenes.dataset.image(episode.query).unwrap();
        let answer = test.answer(episode).unwrap();
        for (&shots, predicted) in test.shots().iter().zip(&answer.predicted) {
            let found = model.find("thing", &query, &supports[..shots]).unwrap();
            assert_eq!(found.labels(), predicted, "{shots} shots");
        }
        assert_eq!((answer.truth.width, answer.truth.height), (128, 128), "scored at the image's own size");
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
