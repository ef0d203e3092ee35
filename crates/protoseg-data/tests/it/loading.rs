//! The loader with files.

use std::sync::Arc;

use protoseg_core::{Image, NovelPixels, Remap, RowMap};
use protoseg_data::{Benchmark, DataError, LoadError, Loader, LoaderOptions, OnError, scan};
use protoseg_testing::shared;

use crate::fixture::{Folder, gradient, scene};

type Pairs = Loader<usize, Vec<(usize, Image, RowMap)>, DataError>;

fn make_loader(benchmark: Arc<Benchmark>, items: Vec<usize>, options: LoaderOptions) -> Pairs {
    let table = benchmark.dataset.classes();
    let remap = Remap::for_base_training(table, &benchmark.folds[0], NovelPixels::Ignore).unwrap();
    Loader::new(items, options, move |&index, _| {
        let (image, rows) = benchmark.load_rows(index, &remap)?;
        Ok((index, image, rows))
    })
    .unwrap()
}

fn options(workers: usize, on_error: OnError) -> LoaderOptions {
    LoaderOptions { batch_size: 6, seed: 1, shuffle: true, drop_last: true, workers, prefetch: 2, on_error }
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn real_photos_come_in_the_same_order_from_any_number_of_threads() {
    let root = shared("data/msrc");
    let benchmark = Arc::new(Benchmark::folder(&root).unwrap());
    let stats = scan(benchmark.dataset.as_ref(), "train").unwrap();
    let items =
        stats.for_base_training(benchmark.dataset.classes(), &benchmark.folds[0], NovelPixels::Ignore);
    let run = |workers: usize, start: usize| -> Vec<_> {
        let loader = make_loader(Arc::clone(&benchmark), items.clone(), options(workers, OnError::Stop));
        assert_eq!(loader.batches_per_epoch(), 280 / 6);
        loader.epoch(3, start).take(4).map(|batch| batch.unwrap().items).collect()
    };
    let one = run(1, 0);
    assert!(one == run(4, 0));
    assert!(one[2..] == run(2, 2)[..2]);
}

#[test]
fn a_broken_photo_stops_or_is_skipped_by_name() {
    let folder = Folder::new();
    folder.write("classes.txt", "background\ncow\nduck\n");
    for index in 0..20 {
        folder.picture(&format!("images/{index:02}.jpg"), &gradient(20, 12));
        folder.mask(&format!("masks/{index:02}.png"), &scene());
    }
    let cut = std::fs::read(folder.path().join("images/13.jpg")).unwrap();
    folder.write("images/13.jpg", &cut[..cut.len() / 2]);
    let benchmark = Arc::new(Benchmark::folder(folder.path()).unwrap());
    let run = |on_error| {
        let options = LoaderOptions { batch_size: 5, ..options(2, on_error) };
        make_loader(Arc::clone(&benchmark), (0..20).collect(), options).epoch(0, 0).collect::<Vec<_>>()
    };
    let stopped = run(OnError::Stop);
    let Some(Err(error @ LoadError::Item { index: 13, .. })) = stopped.last() else { panic!("{stopped:?}") };
    assert!(error.to_string().contains("13.jpg` is cut short"), "{error}");
    let skipped = run(OnError::Skip);
    assert_eq!(skipped.len(), 4);
    let faults: Vec<usize> =
        skipped.iter().flat_map(|batch| &batch.as_ref().unwrap().skipped).map(|s| s.0).collect();
    assert_eq!(faults, [13]);
    assert!(skipped.iter().all(|batch| batch.as_ref().unwrap().items.len() == 5));
}
