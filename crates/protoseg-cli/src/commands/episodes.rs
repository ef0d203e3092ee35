//! `protoseg episodes`.

use std::path::Path;

use anyhow::{Result, bail};
use protoseg::{
    core::EpisodeStyle,
    data::{Benchmark, create_dir, read_episodes, save_episodes, write_atomic},
    episodes::{EpisodePlan, EpisodeResults, EpisodeSource, EpisodeTest},
    model::Model,
    report::episodes_html,
};

use super::{eval::REPORT_FILE, usage::load_model};
use crate::{
    cli::Episodes,
    output::{self, progress::Bar, table},
};

pub fn run(args: &Episodes) -> Result<()> {
    if args.shots.contains(&0) {
        bail!("`--shots` must be at least 1, got 0");
    }
    if let Some(folder) = &args.output {
        output::refuse_overwrite(&folder.join("results.json"), args.force)?;
    }
    if let Some(path) = &args.save_list {
        output::refuse_overwrite(path, args.force)?;
    }
    let benchmark = Benchmark::open(&args.data, args.root.as_deref())?;
    let plan = plan(args)?;
    let model = load_model(Some(&args.model), &args.device)?;
    let test = EpisodeTest::new(&model, &benchmark, &plan)?;
    if let Some(path) = &args.save_list {
        save_episodes(path, test.list())?;
    }
    let bar = Bar::new("episodes");
    let results = test.run(&args.model.display().to_string(), &|done, total| bar.show(done, total))?;
    drop(bar);
    if let Some(folder) = &args.output {
        write(&test, &results, folder)?;
    }
    print(&results, args)
}

/// As the list says, as the style's paper says, or as flags say.
fn plan(args: &Episodes) -> Result<EpisodePlan> {
    let style = args.style.as_deref().map(str::parse::<EpisodeStyle>).transpose()?;
    let mut plan = match &args.list {
        Some(path) => EpisodePlan::listed(read_episodes(path)?),
        None => {
            let fold = Model::read_manifest(&args.model)?.training.fold;
            EpisodePlan::published(fold.unwrap_or(0), EpisodeStyle::default())
        }
    };
    if let EpisodeSource::Drawn { episodes, runs, seed, min_pixels } = &mut plan.source {
        (*episodes, *runs, *seed, *min_pixels) = (args.episodes, args.runs, args.seed, args.min_pixels);
    }
    plan.fold = args.fold.unwrap_or(plan.fold);
    plan.style = style.unwrap_or(plan.style);
    plan.size = args.size.map(|size| size as usize);
    plan.cache_bytes = args.cache.saturating_mul(1 << 20);
    if !args.shots.is_empty() {
        plan.shots.clone_from(&args.shots);
    }
    Ok(plan)
}

/// Writes all results, the episodes and the report.
fn write(test: &EpisodeTest<'_>, results: &EpisodeResults, folder: &Path) -> Result<()> {
    create_dir(folder)?;
    let write = |name: &str, text: String| write_atomic(&folder.join(name), text.as_bytes());
    write("results.csv", results.csv())?;
    write("results.md", results.markdown())?;
    write("episodes.csv", results.episodes_csv())?;
    save_episodes(&folder.join("episodes.json"), test.list())?;
    write(REPORT_FILE, episodes_html(test, results)?)?;
    write("results.json", serde_json::to_string_pretty(results)?)?;
    Ok(())
}

fn print(results: &EpisodeResults, args: &Episodes) -> Result<()> {
    if args.json {
        return output::json(results);
    }
    if args.csv {
        return output::line(results.csv().trim_end());
    }
    if args.markdown {
        return output::line(results.markdown().trim_end());
    }
    output::line(results.headline())?;
    for line in table::lines(&EpisodeResults::TITLES, &results.table()) {
        output::line(line)?;
    }
    output::line("")?;
    let titles = results.class_titles();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    for line in table::lines(&titles, &results.class_table()) {
        output::line(line)?;
    }
    for note in &results.notes {
        output::note(format_args!("note: {note}"));
    }
    match &args.output {
        Some(folder) => output::line(format_args!("report -> {}", folder.join(REPORT_FILE).display())),
        None => Ok(()),
    }
}
