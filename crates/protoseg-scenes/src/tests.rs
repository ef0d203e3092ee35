use crate::rng::Rng;
use crate::settings::Setting;
use crate::{CLASS_NAMES, Scenes, novel_classes};
use std::sync::OnceLock;

const SEED: u64 = 11;
const SIDE: usize = 48;
const MANY: u64 = 320;
/// Number of pixels (of 2,304 per picture) that make a thing clearly visible: about 4 %.
const SOME: usize = 90;

struct Seen {
    setting: Setting,
    /// Pixels of each class.
    area: [usize; 21],
}

impl Seen {
    fn things(&self) -> impl Iterator<Item = usize> + '_ {
        (1..21).filter(|&class| self.area[class] > 0)
    }
}

/// The first scenes of one world, drawn once for all tests, on two threads.
fn survey() -> &'static [Seen] {
    static SURVEY: OnceLock<Vec<Seen>> = OnceLock::new();
    SURVEY.get_or_init(|| {
        let half = |from: u64, to: u64| (from..to).map(look).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            let second = scope.spawn(move || half(MANY / 2, MANY));
            let mut all = half(0, MANY / 2);
            all.extend(second.join().expect("drawing does not panic"));
            all
        })
    })
}

fn look(index: u64) -> Seen {
    let (_, labels) = Scenes { seed: SEED, width: SIDE, height: SIDE }.draw(index);
    let mut area = [0; 21];
    for label in labels.data {
        area[usize::from(label)] += 1;
    }
    Seen { setting: Setting::draw(&mut Rng::new(SEED, index)), area }
}

fn id(name: &str) -> usize {
    CLASS_NAMES.iter().position(|n| *n == name).expect("a class name")
}

fn fold_of(class: usize) -> usize {
    (class - 1) / 5
}

/// FNV-1a over pixels and labels.
fn fingerprint(scenes: &Scenes, index: u64) -> u64 {
    let (image, labels) = scenes.draw(index);
    let bytes = image.data.into_iter().chain(labels.data.into_iter().map(|label| label as u8));
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// The first scene of every place in world 2.
fn one_of_each() -> Vec<u64> {
    let mut found: Vec<(Setting, u64)> = Vec::new();
    for index in 0..200 {
        let setting = Setting::draw(&mut Rng::new(2, index));
        if found.iter().all(|(seen, _)| *seen != setting) {
            found.push((setting, index));
        }
    }
    found.into_iter().map(|(_, index)| index).collect()
}

#[test]
fn a_scene_is_the_same_in_every_thread_and_on_every_platform() {
    let scenes = Scenes { seed: 2, width: 40, height: 40 };
    let indices = one_of_each();
    let here: Vec<u64> = indices.iter().map(|&i| fingerprint(&scenes, i)).collect();
    let there = std::thread::scope(|scope| {
        let backwards = || indices.iter().rev().map(|&i| fingerprint(&scenes, i)).collect::<Vec<_>>();
        scope.spawn(backwards).join().expect("drawing does not panic")
    });
    assert_eq!(here, there.into_iter().rev().collect::<Vec<_>>());
    // Change these only together with the world itself: older results can then no longer be compared.
    assert_eq!(here, EXPECTED, "{here:#018x?}");
}

const EXPECTED: [u64; 9] = [
    0x5A70_E764_4C56_E240,
    0x62B4_CD00_BB28_8D91,
    0xBB28_8BC9_D689_F420,
    0x45ED_C3E9_5357_E1B8,
    0xC088_2434_C10A_9588,
    0xBF0A_1835_3EED_E75B,
    0x79DA_A16C_FB95_A6B9,
    0x27D0_9C6C_4F47_D618,
    0x4A5A_7C3E_12AE_3096,
];

#[test]
fn another_index_or_seed_is_another_picture() {
    let scenes = Scenes { seed: 2, width: 32, height: 32 };
    let mut prints: Vec<u64> = (0..24).map(|i| fingerprint(&scenes, i)).collect();
    prints.push(fingerprint(&Scenes { seed: 3, ..scenes.clone() }, 0));
    prints.push(fingerprint(&Scenes { seed: 3, ..scenes }, 1));
    prints.sort_unstable();
    prints.dedup();
    assert_eq!(prints.len(), 26);
}

#[test]
fn any_size_is_honoured() {
    for (width, height) in [(1, 1), (97, 41), (33, 120), (2, 64), (161, 161)] {
        let scenes = Scenes { seed: 4, width, height };
        for index in 0..4 {
            let (image, labels) = scenes.draw(index);
            assert_eq!((image.width, image.height), (width, height));
            assert_eq!((labels.width, labels.height), (width, height));
            assert_eq!(image.data.len(), 3 * labels.data.len());
        }
    }
}

#[test]
fn a_larger_picture_shows_the_same_scene() {
    for index in 0..12 {
        let (_, small) = Scenes { seed: 5, width: 40, height: 40 }.draw(index);
        let (_, large) = Scenes { seed: 5, width: 80, height: 80 }.draw(index);
        let large = large.resize_nearest(40, 40);
        let same = small.data.iter().zip(&large.data).filter(|(a, b)| a == b).count();
        assert!(same * 100 > 90 * small.data.len(), "scene {index}: only {same} of 1600 labels agree");
    }
}

#[test]
fn labels_are_classes_and_every_picture_has_things_and_background() {
    for (index, seen) in survey().iter().enumerate() {
        assert_eq!(seen.area.iter().sum::<usize>(), SIDE * SIDE, "scene {index} has a label above 20");
        assert!(seen.things().next().is_some(), "scene {index} ({:?}) is empty", seen.setting);
        assert!(seen.things().count() <= 6, "scene {index} has {} classes", seen.things().count());
    }
    let background: usize = survey().iter().map(|seen| seen.area[0]).sum();
    let share = background as f32 / (survey().len() * SIDE * SIDE) as f32;
    assert!((0.55..0.75).contains(&share), "{share} of all pixels are background");
}

#[test]
fn every_class_is_well_visible_in_at_least_six_of_320_scenes() {
    for (class, name) in CLASS_NAMES.iter().enumerate().skip(1) {
        let large = survey().iter().filter(|seen| seen.area[class] >= SOME).count();
        assert!(large >= 6, "`{name}` is well visible in {large} scenes only");
        let any = survey().iter().filter(|seen| seen.area[class] > 0).count();
        assert!((12..=90).contains(&any), "`{name}` is in {any} of 320 scenes");
    }
}

#[test]
fn pictures_are_neither_black_nor_white_nor_grey() {
    let scenes = Scenes { seed: 6, width: 32, height: 32 };
    for index in 0..40 {
        let (image, _) = scenes.draw(index);
        let mean = image.data.iter().map(|&v| u32::from(v)).sum::<u32>() / image.data.len() as u32;
        assert!((30..235).contains(&mean), "scene {index} has mean {mean}");
        let (low, high) = (image.data.iter().min(), image.data.iter().max());
        assert!(high.zip(low).is_some_and(|(h, l)| h - l > 60), "scene {index} spans {low:?} to {high:?}");
    }
}

#[test]
fn things_keep_to_their_places() {
    use Setting::{Beach, Counter, Country, Dining, Lake, Living, Meadow, Street, Terrace};
    let homes: [(&str, &[Setting]); 12] = [
        ("boat", &[Lake, Beach]),
        ("swan", &[Lake]),
        ("duck", &[Lake, Beach]),
        ("cow", &[Meadow, Country]),
        ("sheep", &[Meadow, Country]),
        ("sofa", &[Living]),
        ("bus", &[Street, Country]),
        ("car", &[Street, Country, Beach]),
        ("lamp", &[Living, Dining, Counter]),
        ("bowl", &[Dining, Counter, Terrace]),
        ("cup", &[Dining, Counter, Terrace]),
        ("umbrella", &[Lake, Beach, Street, Terrace]),
    ];
    for (name, places) in homes {
        for seen in survey().iter().filter(|seen| seen.area[id(name)] > 0) {
            assert!(places.contains(&seen.setting), "a {name} in {:?}", seen.setting);
        }
    }
}

#[test]
fn context_tells_something_about_the_class() {
    let both = |a: &str, b: &str| survey().iter().filter(|s| s.area[id(a)] > 0 && s.area[id(b)] > 0).count();
    assert!(both("duck", "boat") + both("duck", "swan") + both("boat", "swan") >= 8);
    assert!(both("cup", "table") >= 5, "cups stand on tables");
    assert!(both("cow", "sofa") == 0 && both("boat", "bus") == 0 && both("cup", "horse") == 0);
}

#[test]
fn novel_classes_of_every_fold_meet_base_classes_and_have_clean_supports() {
    for fold in 0..4 {
        assert_eq!(novel_classes(fold)[0], 5 * fold as u16 + 1);
        for class in novel_classes(fold).map(usize::from) {
            let scenes = || survey().iter().filter(move |seen| seen.area[class] >= SOME);
            let with_base = scenes().filter(|s| s.things().any(|c| fold_of(c) != fold)).count();
            assert!(with_base >= 3, "`{}` meets base classes in {with_base} scenes", CLASS_NAMES[class]);
            let clean = scenes().filter(|s| s.things().all(|c| c == class || fold_of(c) != fold)).count();
            assert!(clean >= 4, "`{}` is the only novel class in {clean} scenes", CLASS_NAMES[class]);
        }
        let base_only = survey().iter().filter(|s| s.things().all(|c| fold_of(c) != fold)).count();
        assert!(base_only as u64 > MANY * 2 / 5, "fold {fold} leaves {base_only} scenes to train on");
    }
}
