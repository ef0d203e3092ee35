use super::*;

/// Background, base `cow`, novel `duck` (2) and `boat` (3).
fn world() -> (ClassTable, Fold) {
    let table = ClassTable::from_names(&["background", "cow", "duck", "boat"], &[255]).unwrap();
    let fold = Fold::new(&table, 0, &[ClassId(2), ClassId(3)]).unwrap();
    (table, fold)
}

fn image(counts: &[(u16, u64)]) -> ImageStats {
    let counts = counts.iter().map(|&(id, pixels)| (ClassId(id), pixels)).collect();
    ImageStats { counts, ..ImageStats::default() }
}

/// Images 0 to 5 hold enough duck, 6 too little, 7 duck and boat, 8 and 9 boat, 10 neither.
fn images() -> Vec<ImageStats> {
    let mut images: Vec<ImageStats> = (0..6).map(|i| image(&[(0, 9), (2, 100 + i)])).collect();
    images.push(image(&[(2, 99)]));
    images.push(image(&[(2, 500), (3, 500)]));
    images.push(image(&[(1, 3), (3, 100)]));
    images.push(image(&[(3, 200)]));
    images.push(image(&[(0, 5), (1, 5)]));
    images
}

fn draw(n_shots: usize, seed: u64) -> SupportDraw {
    SupportDraw { n_shots, seed, min_pixels: 100 }
}

#[test]
fn supports_are_distinct_until_the_pool_is_exhausted() {
    let (table, fold) = world();
    for seed in SUPPORT_SEEDS {
        let drawn = draw_supports(&table, &fold, &images(), draw(5, seed)).unwrap();
        let mut duck = drawn[0].clone();
        duck.sort_unstable();
        duck.dedup();
        assert_eq!(duck.len(), 5);
        assert!(duck.iter().all(|&index| index < 6));
        let boat = &drawn[1];
        assert_eq!(boat.len(), 5);
        assert_ne!(boat[0], boat[1]);
        assert_eq!(boat[..2], boat[2..4]);
    }
}

#[test]
fn the_same_seed_draws_the_same_and_more_shots_extend_fewer() {
    let (table, fold) = world();
    let at = |n_shots, seed| draw_supports(&table, &fold, &images(), draw(n_shots, seed)).unwrap();
    assert_eq!(at(5, 123), at(5, 123));
    for (one, five) in at(1, 321).iter().zip(at(5, 321)) {
        assert_eq!(one[..], five[..1]);
    }
    let first: std::collections::HashSet<usize> = (0..40).map(|seed| at(1, seed)[0][0]).collect();
    assert_eq!(first.len(), 6, "every usable image comes up as the seed changes");
}

#[test]
fn a_class_without_support_is_named() {
    let (table, fold) = world();
    let error = draw_supports(&table, &fold, &images()[..8], draw(1, 123)).unwrap_err();
    let SupportError::None { class, pool, .. } = &error else { panic!("{error}") };
    assert_eq!((class.as_str(), *pool), ("boat", 0));
    let strict = SupportDraw { min_pixels: 150, ..draw(1, 123) };
    let error = draw_supports(&table, &fold, &images(), strict).unwrap_err().to_string();
    assert!(
        error.starts_with("class `duck` has no usable support in fold `0`: images in its pool: 8, with another novel class: 1"),
        "{error}"
    );
    assert!(error.contains("\nhint: require fewer"), "{error}");
    for got in [0, 1_000_000_000_000] {
        assert_eq!(draw_supports(&table, &fold, &images(), draw(got, 1)), Err(SupportError::Shots { got }));
    }
}

#[test]
fn a_drawn_list_replays_from_its_names() {
    let (table, fold) = world();
    let names: Vec<String> = (0..images().len()).map(|i| format!("images/{i}.jpg")).collect();
    let drawn = draw_supports(&table, &fold, &images(), draw(3, 999)).unwrap();
    let list = SupportList::named("ponds", &table, &fold, draw(3, 999), &drawn, &names);
    assert_eq!(list.classes[1].class, "boat");
    assert_eq!(list.resolve(&table, &fold, &names).unwrap(), drawn);
}

#[test]
fn a_list_by_hand_is_checked() {
    let (table, fold) = world();
    let names = ["a.jpg", "b.jpg"];
    let resolve = |classes: &[(&str, &[&str])]| {
        let classes = classes.iter().map(|(class, samples)| ClassSupports {
            class: class.to_string(),
            samples: samples.iter().map(|s| s.to_string()).collect(),
        });
        let list = SupportList {
            dataset: String::new(),
            fold: 0,
            seed: None,
            min_pixels: None,
            classes: classes.collect(),
        };
        list.resolve(&table, &fold, &names)
    };
    assert_eq!(
        resolve(&[("boat", &["b.jpg"]), ("duck", &["a.jpg", "b.jpg"])]),
        Ok(vec![vec![0, 1], vec![1]])
    );
    assert_eq!(resolve(&[("duck", &["a.jpg"])]), Err(SupportError::Missing { class: "boat".into() }));
    assert!(matches!(resolve(&[("cow", &["a.jpg"])]), Err(SupportError::NotNovel { .. })));
    assert!(matches!(resolve(&[("duck", &[]), ("duck", &[])]), Err(SupportError::Twice { .. })));
    let error = resolve(&[("duck", &["a"]), ("boat", &["b.jpg"])]).unwrap_err().to_string();
    assert_eq!(
        error,
        "support `a` of class `duck` is not an image of the data set\nhint: did you mean `a.jpg`?"
    );
}
