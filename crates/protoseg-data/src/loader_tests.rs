use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand_chacha::rand_core::RngCore;

use super::*;

fn options(workers: usize) -> LoaderOptions {
    LoaderOptions {
        batch_size: 4,
        seed: 7,
        shuffle: true,
        drop_last: true,
        workers,
        prefetch: 2,
        on_error: OnError::Stop,
    }
}

/// Items 0 to 49. A sample is its item with a random number, made at an uneven pace. Items in `broken` fail.
fn loader(options: LoaderOptions, broken: &'static [u32]) -> Loader<u32, Vec<(u32, u64)>, String> {
    Loader::new((0..50).collect(), options, move |&item, rng| {
        std::thread::sleep(Duration::from_micros(u64::from(item * 37 % 11) * 30));
        match broken.contains(&item) {
            true => Err(format!("photo {item}.jpg is broken")),
            false => Ok((item, rng.next_u64())),
        }
    })
    .unwrap()
}

type Batches = Vec<Result<Batch<Vec<(u32, u64)>, String>, LoadError<String>>>;

fn run(options: LoaderOptions, broken: &'static [u32], epoch: u64, start: usize) -> Batches {
    loader(options, broken).epoch(epoch, start).collect()
}

#[test]
fn the_number_of_threads_changes_nothing() {
    for on_error in [OnError::Stop, OnError::Skip] {
        let at = |workers, prefetch| {
            let options = LoaderOptions { on_error, prefetch, ..options(workers) };
            run(options, if on_error == OnError::Skip { &[3, 30, 31] } else { &[] }, 5, 0)
        };
        let one = at(1, 1);
        assert_eq!(one.len(), 12);
        for (workers, prefetch) in [(2, 1), (3, 4), (8, 2), (16, 50)] {
            assert_eq!(at(workers, prefetch), one, "{workers} workers, prefetch {prefetch}");
        }
    }
}

#[test]
fn a_run_resumes_in_the_middle_of_an_epoch() {
    let skip = LoaderOptions { on_error: OnError::Skip, ..options(3) };
    let whole = run(skip, &[9, 17], 2, 0);
    for start in [0, 1, 7, 11, 12, 40] {
        let resumed = run(skip, &[9, 17], 2, start);
        assert_eq!(resumed[..], whole[start.min(12)..]);
    }
}

#[test]
fn an_epoch_holds_every_item_once_and_epochs_differ() {
    let keep_last = LoaderOptions { drop_last: false, ..options(3) };
    let items = |epoch| -> Vec<u32> {
        let batches = run(keep_last, &[], epoch, 0);
        assert_eq!(batches.len(), 13);
        batches.into_iter().flat_map(|batch| batch.unwrap().items).map(|(item, _)| item).collect()
    };
    let (first, second) = (items(0), items(1));
    assert_ne!(first, second);
    for mut epoch in [first, second] {
        epoch.sort_unstable();
        assert_eq!(epoch, (0..50).collect::<Vec<u32>>());
    }
    let in_order = LoaderOptions { shuffle: false, ..options(4) };
    let batches = run(in_order, &[], 0, 0);
    assert_eq!(
        batches[2].as_ref().unwrap().items.iter().map(|(item, _)| *item).collect::<Vec<_>>(),
        [8, 9, 10, 11]
    );
}

#[test]
fn a_short_epoch_is_the_beginning_of_the_whole_one() {
    let whole = run(options(2), &[], 4, 0);
    let short = loader(options(2), &[]).take(21).unwrap();
    assert_eq!(short.batches_per_epoch(), 5);
    let batches: Batches = short.epoch(4, 1).collect();
    assert_eq!(batches[..], whole[1..5]);
    assert_eq!(loader(options(2), &[]).take(500).unwrap().batches_per_epoch(), 12);
    assert!(loader(options(2), &[]).take(3).is_err());
}

#[test]
fn an_error_stops_at_its_own_batch_with_its_message() {
    let in_order = LoaderOptions { shuffle: false, ..options(4) };
    let batches = run(in_order, &[13], 0, 0);
    assert_eq!(batches.len(), 4);
    assert!(batches[..3].iter().all(Result::is_ok));
    let error = batches[3].as_ref().unwrap_err();
    assert_eq!(*error, LoadError::Item { index: 13, error: "photo 13.jpg is broken".to_string() });
    assert_eq!(error.to_string(), "photo 13.jpg is broken");
}

#[test]
fn a_skipped_sample_is_counted_and_replaced() {
    let skip = LoaderOptions { on_error: OnError::Skip, shuffle: false, ..options(2) };
    let batches = run(skip, &[5, 13], 0, 0);
    let skipped: Vec<usize> =
        batches.iter().flat_map(|batch| &batch.as_ref().unwrap().skipped).map(|(index, _)| *index).collect();
    assert!(skipped.contains(&5) && skipped.contains(&13), "{skipped:?}");
    for batch in &batches {
        let items = &batch.as_ref().unwrap().items;
        assert_eq!(items.len(), 4);
        assert!(items.iter().all(|(item, _)| ![5, 13].contains(item)));
    }
    let all_broken = Loader::new(vec![(); 8], skip, |_, _| Err::<(), _>("no")).unwrap();
    let error = all_broken.epoch(0, 0).next().unwrap().unwrap_err();
    assert_eq!(error, LoadError::TooManySkipped { attempts: 16, error: "no" });
}

#[test]
fn samples_are_written_into_their_places() {
    let keep_last = LoaderOptions { shuffle: false, drop_last: false, on_error: OnError::Skip, ..options(3) };
    let fill = |batch: &mut Vec<u32>, place: usize, &item: &u32, _: &mut SampleRng| {
        // A failed attempt may leave values behind; the next attempt overwrites them.
        batch[place] = item;
        if item == 6 { Err("six") } else { Ok(()) }
    };
    let loader = Loader::collating((0..10).collect(), keep_last, |n| vec![u32::MAX; n], fill).unwrap();
    let batches: Vec<_> = loader.epoch(0, 0).map(Result::unwrap).collect();
    assert_eq!((&batches[0].items[..], &batches[2].items[..]), (&[0, 1, 2, 3][..], &[8, 9][..]));
    assert_eq!(batches[1].skipped[0], (6, "six"));
    assert!(batches[1].items[2] != 6 && batches[1].items[2] < 10);
}

#[test]
fn threads_wait_when_nobody_takes_batches() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let slow = Loader::new((0..1000).collect(), options(2), |&item: &u32, _| {
        MADE.fetch_add(1, Ordering::SeqCst);
        Ok::<u32, String>(item)
    })
    .unwrap();
    // Waits until that many are made, then a little longer, during which no more may be made.
    let settles_at = |n: usize| {
        for _ in 0..2000 {
            if MADE.load(Ordering::SeqCst) >= n {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(MADE.load(Ordering::SeqCst), n);
    };
    let mut epoch = slow.epoch(0, 0);
    settles_at(8);
    epoch.next().unwrap().unwrap();
    settles_at(12);
    drop(epoch);
    assert_eq!(MADE.load(Ordering::SeqCst), 12);
}

#[test]
fn a_panic_ends_the_epoch_instead_of_hanging_it() {
    let fragile =
        Loader::new((0..40).collect(), LoaderOptions { shuffle: false, ..options(2) }, |&item: &u32, _| {
            assert_ne!(item, 6, "meant to happen in this test");
            Ok::<u32, String>(item)
        })
        .unwrap();
    let last = fragile.epoch(0, 0).last().unwrap();
    assert_eq!(last.unwrap_err(), LoadError::Panicked);
}

#[test]
fn options_that_cannot_work_are_refused() {
    let refuse = |n: usize, batch_size| {
        let options = LoaderOptions { batch_size, ..options(1) };
        Loader::new(vec![(); n], options, |_, _| Ok::<(), String>(())).err().unwrap()
    };
    assert_eq!(refuse(0, 4), LoaderOptionsError::NoItems);
    assert_eq!(refuse(3, 0), LoaderOptionsError::NoBatch);
    assert_eq!(refuse(3, 4), LoaderOptionsError::TooFew { items: 3, batch_size: 4 });
}
