use std::collections::HashSet;

use proptest::prelude::*;

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

/// Enough duck in 0, 1, 2, 5, 6, 7, enough boat in 1, 3, 4; too little boat in 2, neither in 8.
fn images() -> Vec<ImageStats> {
    [
        &[(0, 9), (2, 100)][..],
        &[(2, 200), (3, 100)],
        &[(2, 100), (3, 99)],
        &[(1, 5), (3, 150)],
        &[(3, 120)],
        &[(2, 100)],
        &[(2, 100)],
        &[(2, 100)],
        &[(0, 500), (1, 500)],
    ]
    .map(image)
    .to_vec()
}

fn plan(style: EpisodeStyle, n_shots: usize, n_episodes: usize) -> EpisodeDraw {
    let draws_queries = style.draws_queries("ponds");
    EpisodeDraw { style, n_shots, n_episodes, seed: style.seed(), min_pixels: 100, draws_queries }
}

fn drawn(draw: EpisodeDraw) -> Vec<Episode> {
    let (table, fold) = world();
    draw_episodes(&table, &fold, &images(), draw).unwrap()
}

fn pool(class: ClassId) -> &'static [usize] {
    if class == ClassId(2) { &[0, 1, 2, 5, 6, 7] } else { &[1, 3, 4] }
}

#[test]
fn pfenet_takes_images_in_order_and_draws_among_their_classes() {
    let episodes = drawn(plan(EpisodeStyle::Pfenet, 2, 160));
    let queries: Vec<usize> = episodes.iter().take(10).map(|episode| episode.query).collect();
    assert_eq!(queries, [0, 1, 2, 3, 4, 5, 6, 7, 0, 1], "image 8 shows no novel class");
    let classes_of = |image: usize| -> HashSet<ClassId> {
        let own = episodes.iter().filter(|episode| episode.query == image);
        own.map(|episode| episode.class).collect()
    };
    assert_eq!(classes_of(1), [ClassId(2), ClassId(3)].into());
    assert_eq!(classes_of(2), [ClassId(2)].into(), "99 pixels of boat are too few");
}

#[test]
fn hsnet_takes_pairs_in_order_and_may_repeat_supports() {
    let episodes = drawn(plan(EpisodeStyle::Hsnet, 5, 90));
    let pairs: Vec<(usize, u16)> = episodes.iter().take(10).map(|e| (e.query, e.class.0)).collect();
    assert_eq!(pairs, [(0, 2), (1, 2), (1, 3), (2, 2), (3, 3), (4, 3), (5, 2), (6, 2), (7, 2), (0, 2)]);
    // Boat has three images, so five shots must repeat.
    assert!(episodes.iter().all(|episode| episode.supports.len() == 5));
}

#[test]
fn panet_draws_everything() {
    let episodes = drawn(plan(EpisodeStyle::Panet, 2, 400));
    let seen: HashSet<(u16, usize)> = episodes.iter().map(|e| (e.class.0, e.query)).collect();
    assert_eq!(seen.len(), 9, "every image of every class becomes a query");
    let boats = episodes.iter().filter(|episode| episode.class == ClassId(3)).count();
    assert!((150..250).contains(&boats), "classes are equally likely: {boats} of 400");
    let coco = EpisodeDraw { draws_queries: true, ..plan(EpisodeStyle::Hsnet, 1, 400) };
    let seen: HashSet<(u16, usize)> = drawn(coco).iter().map(|e| (e.class.0, e.query)).collect();
    assert_eq!(seen.len(), 9);
}

#[test]
fn a_class_without_enough_images_is_named_with_its_numbers() {
    let (table, fold) = world();
    let refuse = |draw| draw_episodes(&table, &fold, &images(), draw).unwrap_err().to_string();
    for style in [EpisodeStyle::Pfenet, EpisodeStyle::Panet] {
        let error = refuse(plan(style, 5, 10));
        assert!(
            error.starts_with(
                "images of class `boat` with at least 100 pixels of it: got `3`, expected at least `6` for 5-shot episodes"
            ),
            "{error}"
        );
    }
    let strict = EpisodeDraw { min_pixels: 151, ..plan(EpisodeStyle::Hsnet, 5, 10) };
    assert!(
        refuse(strict)
            .contains("class `duck` with at least 151 pixels of it: got `1`, expected at least `2`"),
        "{}",
        refuse(strict)
    );
    assert!(refuse(plan(EpisodeStyle::Pfenet, 0, 10)).contains("expected 1 to 100000 supports"));
    let many = usize::MAX;
    assert!(refuse(plan(EpisodeStyle::Hsnet, many, 1)).contains("expected 1 to 100000 supports"));
    assert!(refuse(plan(EpisodeStyle::Pfenet, 1, 0)).contains("expected 1 to 10000000 episodes"));
    assert!(refuse(plan(EpisodeStyle::Pfenet, 1, many)).contains("expected 1 to 10000000 episodes"));
    let bare = Fold::new(&table, 0, &[]).unwrap();
    let none = draw_episodes(&table, &bare, &images(), plan(EpisodeStyle::Panet, 1, 1));
    assert_eq!(none, Err(EpisodeError::NoNovel { fold: 0 }));
}

#[test]
fn draws_never_change() {
    let first = |style| {
        let episode = drawn(plan(style, 2, 4)).pop().unwrap();
        (episode.class.0, episode.query, episode.supports)
    };
    let got = EpisodeStyle::ALL.map(first);
    assert_eq!(got, [(3, 3, vec![4, 1]), (2, 2, vec![5, 0]), (2, 5, vec![7, 0])]);
}

proptest! {
    #[test]
    fn every_episode_keeps_the_rules(style in 0usize..3, seed in 0u64..1000, n_shots in 1usize..3) {
        let draw = EpisodeDraw { seed, ..plan(EpisodeStyle::ALL[style], n_shots, 30) };
        let episodes = drawn(draw);
        prop_assert_eq!(&episodes, &drawn(draw), "the same seed draws the same");
        for Episode { class, query, supports } in &episodes {
            prop_assert!(pool(*class).contains(query));
            prop_assert!(supports.iter().all(|support| support != query && pool(*class).contains(support)));
            prop_assert_eq!(supports.len(), n_shots);
            let distinct: HashSet<&usize> = supports.iter().collect();
            prop_assert!(!draw.style.has_distinct_supports() || distinct.len() == n_shots);
        }
        // Fewer episodes and fewer shots are the beginning.
        let fewer = drawn(EpisodeDraw { n_episodes: 7, n_shots: 1, ..draw });
        for (one, more) in fewer.iter().zip(&episodes) {
            prop_assert_eq!((one.class, one.query), (more.class, more.query));
            prop_assert_eq!(one.supports[0], more.supports[0]);
        }
    }
}
