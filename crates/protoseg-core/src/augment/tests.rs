use super::*;
use crate::golden::Golden;
use crate::{IGNORE, RowMap};
use proptest::prelude::*;
use protoseg_testing::assert_close;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Settings that change nothing and keep values on the 0..255 scale.
fn still(crop: usize) -> (Augment, AugmentDraw) {
    let mean = [123.675, 116.28, 103.53];
    let augment = Augment { border: mean, mean: [0.0; 3], std: [1.0; 3], ..Augment::reference(crop) };
    let plan = AugmentDraw { scale: 1.0, rotate: None, blur: false, flip: false, offset: (0, 0) };
    (augment, plan)
}

/// Compares the result of one plan with a golden picture of any shape. The crop holds the whole result.
fn assert_golden(name: &str, change: impl FnOnce(&mut AugmentDraw)) {
    let golden = Golden::open();
    let picture = format!("{name}.image");
    let [height, width, _] = *golden.shape(&picture) else { panic!("{picture} is not a picture") };
    let size = width.max(height);
    let (augment, mut plan) = still(size);
    change(&mut plan);
    let (image, label) = augment.apply(&plan, &golden.photo(), &golden.label("label"));

    let at = ((size - width) / 2, (size - height) / 2);
    let pixels = || (0..height * width).map(|i| (at.1 + i / width) * size + at.0 + i % width);
    let got: Vec<f32> = pixels().flat_map(|i| [0, 1, 2].map(|c| image[c * size * size + i])).collect();
    let labels: Vec<u16> = pixels().map(|i| label.data[i]).collect();
    assert_close(&picture, &got, golden.values(&picture), 1e-2);
    assert_eq!(labels, golden.label(&format!("{name}.label")).data, "{name}");
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn scaling_is_the_reference_s() {
    for scale in ["0.5", "0.83", "1.37", "2.0"] {
        assert_golden(&format!("scale_{scale}"), |plan| plan.scale = scale.parse().unwrap());
    }
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn rotation_is_the_reference_s() {
    for angle in ["-10.0", "10.0", "3.7"] {
        assert_golden(&format!("rotate_{angle}"), |plan| plan.rotate = Some(angle.parse().unwrap()));
    }
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn blur_is_the_reference_s() {
    assert_golden("blur", |plan| plan.blur = true);
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn flip_is_the_reference_s() {
    assert_golden("flip", |plan| plan.flip = true);
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn crop_and_padding_are_the_reference_s() {
    assert_golden("center_crop_161", |plan| plan.offset = ((267 - 161) / 2, (200 - 161) / 2));
    assert_golden("center_crop_321", |_| {});
}

/// Noise and labels of any size up to 30 pixels per side.
fn pictures() -> impl Strategy<Value = (Image, RowMap)> {
    (1usize..31, 1usize..31, any::<u64>()).prop_map(|(width, height, seed)| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let bytes = (0..width * height * 3).map(|_| rng.random()).collect();
        let labels = (0..width * height).map(|_| [0, 1, 2, 300, IGNORE][rng.random_range(0..5)]).collect();
        (Image::new(width, height, bytes), RowMap::new(width, height, labels))
    })
}

/// Settings harsher than the reference's, and a plan drawn from them for a picture.
fn recipes() -> impl Strategy<Value = (Augment, u64)> {
    let borders = prop_oneof![Just([0.485, 0.456, 0.406]), Just([123.675, 116.28, 103.53])];
    (1usize..50, 10.0f64..180.0, borders, any::<u64>()).prop_map(|(crop, degrees, border, seed)| {
        let rotate = [-degrees, degrees];
        (Augment { rotate, border, scale: [0.3, 2.5], ..Augment::reference(crop) }, seed)
    })
}

fn plan(augment: &Augment, seed: u64, image: &Image) -> AugmentDraw {
    augment.sample(&mut ChaCha8Rng::seed_from_u64(seed), image.width, image.height)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn fused_work_gives_what_whole_picture_work_gives(
        (image, label) in pictures(),
        (augment, seed) in recipes(),
    ) {
        let plan = plan(&augment, seed, &image);
        let (got, got_label) = augment.apply(&plan, &image, &label);
        let (want, want_label) = plain::apply(&augment, &plan, &image, &label);
        // 1e-3 on the 0..255 scale.
        assert_close(&format!("{plan:?}"), &got, &want, 1e-3 / 58.0);
        prop_assert_eq!(got_label, want_label);
    }

    #[test]
    fn labels_are_picked_and_never_made((image, label) in pictures(), (augment, seed) in recipes()) {
        let (_, got) = augment.apply(&plan(&augment, seed, &image), &image, &label);
        let known = label.present();
        prop_assert!(got.present().iter().all(|label| known.contains(label)));
    }

    #[test]
    fn a_plain_colour_stays_what_it_is(
        (image, label) in pictures(),
        (augment, seed) in recipes(),
        colour in any::<[u8; 3]>(),
    ) {
        let image = Image::new(image.width, image.height, colour.repeat(image.width * image.height));
        let augment = Augment { border: colour.map(f32::from), mean: [0.0; 3], std: [1.0; 3], ..augment };
        let (got, _) = augment.apply(&plan(&augment, seed, &image), &image, &label);
        for (plane, colour) in got.chunks_exact(augment.crop * augment.crop).zip(colour) {
            assert_close("colour", plane, &vec![f32::from(colour); plane.len()], 1e-3);
        }
    }

    #[test]
    fn a_flip_undone_is_no_flip((image, label) in pictures(), (augment, seed) in recipes()) {
        let mut plan = plan(&augment, seed, &image);
        let width = Axis::by_factor(image.width, plan.scale).to;
        // Odd padding is not symmetric, so the two crops would show different columns.
        prop_assume!(width >= augment.crop);
        plan.flip = false;
        let (want, want_label) = augment.apply(&plan, &image, &label);
        plan.flip = true;
        plan.offset.0 = width - augment.crop - plan.offset.0;
        let (mut got, mut got_label) = augment.apply(&plan, &image, &label);
        got.chunks_exact_mut(augment.crop).for_each(<[f32]>::reverse);
        got_label.data.chunks_exact_mut(augment.crop).for_each(<[u16]>::reverse);
        prop_assert_eq!(got, want);
        prop_assert_eq!(got_label, want_label);
    }

    #[test]
    fn a_crop_lies_inside_the_padded_picture(
        width in 1usize..3000,
        height in 1usize..3000,
        (augment, seed) in recipes(),
    ) {
        let plan = augment.sample(&mut ChaCha8Rng::seed_from_u64(seed), width, height);
        for (length, offset) in [(width, plan.offset.0), (height, plan.offset.1)] {
            let padded = Axis::by_factor(length, plan.scale).to.max(augment.crop);
            prop_assert!(offset + augment.crop <= padded);
        }
    }
}

#[test]
fn the_same_seed_draws_the_same_plan_and_all_of_the_range() {
    let augment = Augment::reference(473);
    let draw = |seed| augment.sample(&mut ChaCha8Rng::seed_from_u64(seed), 500, 375);
    assert_eq!(draw(7), draw(7));
    let plans: Vec<AugmentDraw> = (0..400).map(draw).collect();
    let share = |count: usize| count as f64 / plans.len() as f64;
    assert!((share(plans.iter().filter(|plan| plan.flip).count()) - 0.5).abs() < 0.1);
    assert!((share(plans.iter().filter(|plan| plan.rotate.is_some()).count()) - 0.5).abs() < 0.1);
    assert!(plans.iter().all(|plan| (0.5..2.0).contains(&plan.scale)));
    assert!(plans.iter().filter_map(|plan| plan.rotate).all(|degrees| degrees.abs() <= 10.0));
    assert!(plans.iter().any(|plan| plan.scale < 0.6) && plans.iter().any(|plan| plan.scale > 1.9));
}
