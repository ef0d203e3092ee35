//! Models from an encoder alone: taught, given base classes, given a head.

use proptest::{prelude::*, test_runner::TestRunner};
use protoseg::{
    ClassPack, Image, Model, Precision, Segmenter, Support,
    core::{NovelPixels, Protocol, RowMap},
    evaluate::{Evaluation, SupportSource, evaluate},
    from_encoder::BACKGROUND_ROWS,
    method::{Seen, Usage, prototypes::Answer},
    train::HeadPlan,
};
use protoseg_data::Benchmark;
use rayon::prelude::*;

use crate::fixture::values;

/// The model in the box on a small canvas: features of a few milliseconds.
fn small() -> Model {
    Model::builtin().with_canvas(96).unwrap()
}

/// A picture of stripes with a square in another pattern, and where the square is.
fn picture(seed: usize) -> (Image, Vec<bool>) {
    let side = 96;
    let is_inside = move |x: usize, y: usize| (24..72).contains(&x) && (16 + seed..64 + seed).contains(&y);
    let color = |at: usize| {
        let (x, y) = (at % side, at / side);
        match is_inside(x, y) {
            true => [220, ((x ^ y) * 7 % 200) as u8, (20 * seed) as u8],
            false => [(x * 5 % 120) as u8, 160, (y * 3 % 90) as u8],
        }
    };
    let pixels = (0..side * side).flat_map(color).collect();
    (Image::new(side, side, pixels), (0..side * side).map(|at| is_inside(at % side, at / side)).collect())
}

fn support(seed: usize) -> Support {
    let (image, mask) = picture(seed);
    Support::from_mask(format!("picture {seed}"), image, &mask).unwrap()
}

fn taught(model: &Model, classes: &[(&str, usize)]) -> ClassPack {
    let mut pack = ClassPack::new(model);
    for &(class, seed) in classes {
        model.register(&mut pack, class, [support(seed), support(seed + 1)]).unwrap();
    }
    pack
}

fn bytes(pack: &ClassPack) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pack");
    pack.save(&path).unwrap();
    assert_eq!(&ClassPack::load(&path).unwrap(), pack);
    std::fs::read(&path).unwrap()
}

#[test]
fn the_box_finds_what_one_mask_taught_it() {
    let model = small();
    let pack = taught(&model, &[("square", 0)]);
    let segmenter = Segmenter::builder(&model).pack(&pack).build().unwrap();
    let (image, mask) = picture(5);
    let labels = segmenter.predict(&image).labels().clone();
    let both = labels.data.iter().zip(&mask).filter(|(label, is_there)| **label == 1 && **is_there).count();
    let either = labels.data.iter().zip(&mask).filter(|(label, is_there)| **label == 1 || **is_there).count();
    assert!(both * 10 > either * 6, "IoU {both} / {either}");
}

#[test]
fn maps_before_they_are_joined_score_as_the_joined_features() {
    let model = small();
    let pack = taught(&model, &[("square", 0), ("other", 4)]);
    let segmenter = Segmenter::builder(&model).pack(&pack).build().unwrap();
    let (image, _) = picture(5);
    let stages = segmenter.see(model.canvas(&image));
    assert!(matches!(stages, Seen::Stages(_)), "the box compares maps as they are");
    let (stages, joined) = (segmenter.grid_of(&stages), segmenter.grid(model.features(&image)));
    assert_eq!((stages.width, stages.height, stages.classes), (12, 12, 3));
    for (stages, joined) in stages.positions().zip(joined.positions()) {
        assert!(stages.iter().zip(joined).all(|(a, b)| (a - b).abs() < 1e-4), "{stages:?}, {joined:?}");
    }
}

#[test]
fn packs_of_the_box_are_the_same_bytes_in_any_order() {
    let model = small();
    let names = [("a", 0), ("b", 3), ("c", 6)];
    let whole = bytes(&taught(&model, &names));
    let single: Vec<ClassPack> = names.iter().map(|&name| taught(&model, &[name])).collect();
    let mut runner = TestRunner::new(ProptestConfig::with_cases(24));
    let order = Just(vec![0usize, 1, 2]).prop_shuffle();
    runner
        .run(&(order, 0usize..3), |(order, removed)| {
            let mut pack = ClassPack::new(&model);
            order.iter().for_each(|&index| pack.merge(single[index].clone()).unwrap());
            let class = pack.remove(names[removed].0).unwrap();
            pack.add(class).unwrap();
            prop_assert_eq!(&bytes(&pack), &whole);
            let usage = model.usage().unwrap();
            let rows = |pack: &ClassPack| values(pack.classifier(&model, &usage).unwrap().rows.vectors);
            prop_assert_eq!(rows(&pack), rows(&taught_again(&model, &pack)));
            Ok(())
        })
        .unwrap();
}

/// The same classes, added in the opposite order.
fn taught_again(model: &Model, pack: &ClassPack) -> ClassPack {
    let mut again = ClassPack::new(model);
    pack.classes().iter().rev().for_each(|class| again.add(class.clone()).unwrap());
    again
}

#[test]
fn one_pass_and_a_short_training_know_the_base_classes_of_scenes() {
    let scenes = Benchmark::open("scenes", None).unwrap();
    let mut few = Benchmark::open("scenes", None).unwrap();
    few.train = "val".to_string();
    let model = small().with_base(&few, 0, NovelPixels::Drop, BACKGROUND_ROWS, &|_, _| ()).unwrap();
    assert_eq!((model.classes().n_base(), model.classes().n_novel()), (16, 5));
    let mut plan = HeadPlan::default();
    plan.steps = 120;
    let model = model.with_head(&few, &plan, &mut |_| ()).unwrap();
    // The same after it was written and read.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    model.save(&path).unwrap();
    assert_eq!(Model::load(&path).unwrap().fingerprint(), model.fingerprint());

    let Usage::Prototypes(own) = model.usage().unwrap() else { panic!("it is a model of prototypes") };
    assert_eq!(own.answer(), Answer::Product);
    assert_eq!(own.name(), "product+prior");
    assert!(own.named("head").is_some_and(|head| head.name() == "head") && own.named("nothing").is_none());
    let usages: Vec<Usage> = own.all().into_iter().map(Usage::Prototypes).collect();
    let plan = Evaluation {
        fold: 0,
        protocol: Protocol::Exact,
        shots: vec![5],
        supports: SupportSource::Drawn { seeds: vec![123], min_pixels: None },
        usages,
        size: None,
        limit: Some(20),
        part: None,
        second_look: false,
    };
    let evaluated = evaluate(&model, &scenes, &plan, &|_, _| (), |image| {
        assert_eq!((image.before.len(), image.predicted.len()), (5, 5));
    })
    .unwrap();
    let total: Vec<f64> = evaluated.cells.iter().map(|cell| cell.scores.total).collect();
    let [cosine, whitened, _, product, _] = total[..] else { panic!("{total:?}") };
    assert!(whitened > cosine && product > cosine, "cosine, whitened, head, product: {total:?}");
    assert!(evaluated.cells.iter().all(|cell| cell.base_before.is_some()));

    // A second look is the same in an evaluation and in a prediction, and it changes answers.
    let usages = vec![model.usage().unwrap()];
    let once = Evaluation { usages, limit: Some(2), ..plan.clone() };
    let twice = Evaluation { second_look: true, ..once.clone() };
    let segmenter = Segmenter::builder(&model).second_look(true).build().unwrap();
    let [mut first, mut second] = [Vec::new(), Vec::new()];
    evaluate(&model, &scenes, &once, &|_, _| (), |image| first.extend_from_slice(image.before)).unwrap();
    evaluate(&model, &scenes, &twice, &|_, _| (), |image| {
        assert_eq!(segmenter.predict(image.image).labels(), &image.before[0], "{}", image.name);
        second.extend_from_slice(image.before);
    })
    .unwrap();
    let pixels = |maps: &[RowMap]| maps.iter().flat_map(|map| map.data.clone()).collect::<Vec<u16>>();
    let (first, second) = (pixels(&first), pixels(&second));
    let differ = first.iter().zip(&second).filter(|(a, b)| a != b).count();
    assert!(differ > 0 && 5 * differ < first.len(), "{differ} of {} pixels differ", first.len());
    let square = Evaluation { protocol: Protocol::Reference, ..twice };
    let refused = evaluate(&model, &scenes, &square, &|_, _| (), |_| ()).unwrap_err().to_string();
    assert!(refused.starts_with("images cannot be looked at twice"), "{refused}");

    // Confidences are made true for the model's own use, and for no other.
    let calibrated = model.calibrated(&few, &|_, _| ()).unwrap();
    let temperature = calibrated.manifest().training.calibration.as_ref().unwrap().temperature;
    assert_eq!(calibrated.fingerprint(), model.fingerprint(), "packs stay usable");
    let of = |usage: Usage| {
        let classifier = calibrated.base_classifier(&usage);
        Segmenter::with_classifier(&calibrated, classifier, usage).temperature()
    };
    let Usage::Prototypes(own) = calibrated.usage().unwrap() else { panic!("it is a model of prototypes") };
    assert_eq!(of(Usage::Prototypes(own.clone())), temperature);
    assert_eq!(of(Usage::Prototypes(own.with_image_prior(false))), 1.0);
    let own = vec![calibrated.usage().unwrap()];
    let plan = Evaluation { usages: own, ..plan };
    let cell = evaluate(&calibrated, &scenes, &plan, &|_, _| (), |_| ()).unwrap().cells.remove(0);
    assert!(cell.confidence.written.pixels() > 1000);
    assert_ne!(cell.confidence.written.ece(), cell.confidence.plain.ece());
}

#[test]
fn fast_products_change_few_labels_and_no_fingerprint() {
    let model = Model::builtin();
    let fast = model.with_precision(Precision::Fast);
    assert_eq!(fast.fingerprint(), model.fingerprint());
    assert_eq!(fast.with_canvas(96).unwrap().precision(), Precision::Fast, "a changed model stays fast");
    let pack = taught(&model, &[("square", 0)]);
    let (image, _) = picture(3);
    let labels = |model: &Model| {
        let segmenter = Segmenter::builder(model).pack(&pack).build().unwrap();
        segmenter.predict(&image).labels().data.clone()
    };
    let (single, fast) = (labels(&model), labels(&fast));
    let same = single.iter().zip(&fast).filter(|(a, b)| a == b).count();
    assert!(
        same as f64 >= 0.99 * single.len() as f64,
        "{same} of {} pixels have the same class",
        single.len()
    );
}

#[test]
fn a_new_classifier_answers_many_threads_at_once() {
    // A thread that packed the rows for its first answer could be handed another one's question, and wait for itself.
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let model = small();
        let pack = taught(&model, &[("square", 0)]);
        let (image, _) = picture(3);
        let seen = Segmenter::builder(&model).build().unwrap().see(model.canvas(&image));
        for _ in 0..200 {
            let segmenter = Segmenter::builder(&model).pack(&pack).build().unwrap();
            (0..16).into_par_iter().for_each(|_| {
                segmenter.predict_seen(&seen, (96, 96), (24, 24)).labels();
            });
        }
        done.send(()).unwrap();
    });
    ended.recv_timeout(std::time::Duration::from_secs(120)).expect("all threads end");
}
