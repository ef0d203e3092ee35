//! `protoseg data check`.

use anyhow::{Result, bail};
use protoseg::core::count;
use protoseg_data::{
    Benchmark, CheckOptions, check,
    report::{CheckReport, FoldReport, SplitReport},
};

use crate::{
    cli::{Check, Source},
    output::{self, progress::Bar, table},
};

/// Problems printed; the JSON has them all.
const SHOWN: usize = 50;

pub fn open(source: &Source) -> Result<Benchmark> {
    Ok(Benchmark::open(&source.source, source.root.as_deref())?)
}

pub fn run(args: &Check) -> Result<()> {
    let benchmark = open(&args.source)?;
    let bar = Bar::new("checking");
    let options = CheckOptions { images: !args.labels_only };
    let report = check(&benchmark, options, &|done, total| bar.show(done, total));
    drop(bar);
    if args.json {
        output::json(&report)?;
    } else {
        print(&report, args.co_occurrence)?;
    }
    match report.problems.len() {
        0 => Ok(()),
        n => bail!(
            "data set `{}` has {}\nhint: each is listed with its file and a fix",
            report.dataset,
            count(n, "problem")
        ),
    }
}

fn print(report: &CheckReport, co_occurrence: bool) -> Result<()> {
    let splits = report.splits.iter().map(|split| format!("{} {}", split.images, split.name));
    let splits: Vec<String> = splits.collect();
    let images = count(report.samples, "image");
    output::line(format_args!("{}: {images} ({})", report.dataset, splits.join(", ")))?;

    for problem in report.problems.iter().take(SHOWN) {
        output::line(format_args!("problem: {}\n   hint: {}", problem.message, problem.hint))?;
    }
    if report.problems.len() > SHOWN {
        let more = count(report.problems.len() - SHOWN, "more problem");
        output::line(format_args!("and {more} (all in --json)"))?;
    }
    for note in &report.notes {
        output::line(format_args!("note: {}\nhint: {}", note.message, note.hint))?;
    }
    output::line("")?;
    classes(report)?;
    if co_occurrence {
        for split in &report.splits {
            output::line("")?;
            print_co_occurrence(split)?;
        }
    }
    for fold in report.folds.iter().filter(|fold| !fold.novel.is_empty()) {
        output::line("")?;
        print_fold(fold, report.min_support_pixels)?;
    }
    Ok(())
}

/// Images and share of the labelled pixels of every class, split by split.
fn classes(report: &CheckReport) -> Result<()> {
    let mut title = vec!["id".to_string(), "class".to_string()];
    for split in &report.splits {
        title.extend([format!("{} images", split.name), "pixels %".to_string()]);
    }
    let Some(first) = report.splits.first() else { return Ok(()) };
    let row = |place: usize| {
        let class = &first.classes[place];
        let mut row = vec![class.id.to_string(), class.name.clone()];
        for split in &report.splits {
            let labelled = (split.pixels - split.ignored_pixels).max(1) as f64;
            let class = &split.classes[place];
            row.extend([class.images.to_string(), format!("{:.2}", 100.0 * class.pixels as f64 / labelled)]);
        }
        row
    };
    let rows: Vec<Vec<String>> = (0..first.classes.len()).map(row).collect();
    print_table(&title, &rows)?;
    for split in &report.splits {
        output::line(format_args!(
            "{}: {} without foreground, {} unreadable, {:.1} % of the pixels unlabelled",
            split.name,
            split.no_foreground,
            split.unreadable,
            100.0 * split.ignored_pixels as f64 / split.pixels.max(1) as f64
        ))?;
    }
    Ok(())
}

fn print_co_occurrence(split: &SplitReport) -> Result<()> {
    if split.co_occurrence.is_empty() {
        output::note("note: --co-occurrence is for data sets of up to 1,000 classes");
        return Ok(());
    }
    output::line(format_args!("images of {} that hold both classes:", split.name))?;
    let mut title = vec![String::new()];
    title.extend(split.classes.iter().map(|class| class.id.to_string()));
    let row = |(class, counts): (&protoseg_data::report::ClassReport, &Vec<u64>)| {
        let mut row = vec![format!("{} {}", class.id, class.name)];
        row.extend(counts.iter().map(u64::to_string));
        row
    };
    let rows: Vec<Vec<String>> = split.classes.iter().zip(&split.co_occurrence).map(row).collect();
    print_table(&title, &rows)
}

fn print_fold(fold: &FoldReport, min_pixels: u64) -> Result<()> {
    output::line(format_args!("fold {}: novel {}", fold.fold, fold.novel.join(", ")))?;
    for rule in &fold.base_training {
        let name = serde_json::to_value(rule.novel_pixels)?;
        output::line(format_args!(
            "  novel pixels `{}`: {} of {} training images kept ({} hold novel pixels, {} have no foreground)",
            name.as_str().unwrap_or_default(),
            rule.kept,
            fold.train_images,
            rule.dropped_novel,
            rule.dropped_no_foreground
        ))?;
    }
    let title = ["  novel class", "images", "pool", "usable", "other novel", "too small"].map(String::from);
    let row = |class: &protoseg_data::report::SupportReport| {
        let numbers = [class.images, class.pool, class.usable, class.other_novel, class.too_small];
        std::iter::once(format!("  {}", class.class)).chain(numbers.map(|n| n.to_string())).collect()
    };
    let rows: Vec<Vec<String>> = fold.supports.iter().map(row).collect();
    print_table(&title, &rows)?;
    output::line(format_args!(
        "  usable: at least {} of the class and no other novel class",
        count(min_pixels, "pixel")
    ))
}

fn print_table(title: &[String], rows: &[Vec<String>]) -> Result<()> {
    let title: Vec<&str> = title.iter().map(String::as_str).collect();
    table::lines(&title, rows).into_iter().try_for_each(output::line)
}
