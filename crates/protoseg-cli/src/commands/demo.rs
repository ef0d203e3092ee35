//! `protoseg demo`.

use std::{fs, path::Path};

use anyhow::{Result, anyhow, bail};
use protoseg::{
    core::{Protocol, SUPPORT_SEEDS},
    evaluate::{Evaluation, SupportSource},
    model::Model,
    train::{Outcome, Plan, Recorder, Run, RunFolder},
};
use protoseg_data::{Benchmark, create_dir};

use super::{eval, register};
use crate::{
    cli::{Demo, MethodFlags, Register, Usage},
    output::{
        self, Interrupted,
        train_watch::{Display, TrainWatch},
    },
};

/// What `protoseg train recipes/scenes-small.toml` runs.
const RECIPE: &str = include_str!("../../../../recipes/scenes-small.toml");

/// Images that are evaluated; with `--quick`, fewer.
const IMAGES: [usize; 2] = [150, 40];
/// Epochs of training with `--train --quick`, and images that are evaluated then.
const QUICK: (usize, usize) = (1, 60);

/// The file that marks a folder as a demo's.
const PACK: &str = "novel.pack";
/// Everything in a demo's folder.
const FILES: [&str; 9] = [
    "run",
    "model.safetensors",
    PACK,
    "novel.pack.png",
    "report.html",
    "results.csv",
    "results.json",
    "results.md",
    "results.tex",
];

pub fn run(args: &Demo) -> Result<()> {
    let folder = &args.out;
    if folder.exists() {
        output::refuse_overwrite(folder, args.force)?;
        // Only what a demo wrote may go.
        if !RunFolder::new(folder.join("run")).holds_run() && !folder.join(PACK).is_file() {
            bail!("`{}` is not the folder of a demo\nhint: choose another with --out", folder.display());
        }
        refuse_foreign(folder)?;
        fs::remove_dir_all(folder)
            .map_err(|error| anyhow!("cannot delete `{}`: {error}", folder.display()))?;
    }
    create_dir(folder)?;

    let model_path = folder.join("model.safetensors");
    if args.train {
        output::note("1. Training a small network on embedded scenes: 15 base classes, from random weights");
        learn(args, folder, &model_path)?;
    } else {
        output::note("1. A model that comes with the program: it knows 15 classes of embedded scenes");
        Model::builtin_scenes().save(&model_path)?;
    }
    output::note("\n2. Teaching it 5 classes it has never seen, from 5 masks each");
    teach(&model_path, &folder.join(PACK))?;
    output::note("\n3. Judging it on scenes it has never seen, before and after");
    let model = Model::load(&model_path)?;
    let results = eval::judge(
        &model,
        &model_path.display().to_string(),
        &Benchmark::open("scenes", None)?,
        &plan(args, &model)?,
        folder,
    )?;
    output::results::print(&results)?;
    output::line("")?;
    if let Some(row) = results.rows.last()
        && let Some(before) = row.base_before
    {
        output::line(format_args!(
            "base classes: {before:.1} % before teaching, {:.1} % after; the five new ones: {:.1} %",
            row.base.mean, row.novel.mean
        ))?;
    }
    output::line(format_args!("report -> {}", folder.join(eval::REPORT_FILE).display()))?;
    output::line(
        "\nThe same with photos of your own, without a data set and without training (docs/own-photos.md):\n  \
         protoseg register --class NAME=IMAGE:MASK -o my.pack\n  \
         protoseg predict --pack my.pack IMAGES -o out",
    )
}

/// A demo's folder is deleted whole, so it must hold nothing else.
fn refuse_foreign(folder: &Path) -> Result<()> {
    let cannot = |error| anyhow!("cannot read `{}`: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        if !FILES.iter().any(|own| name == *own) {
            bail!(
                "`{}` is not a file of the demo, and --force would delete it\n\
                 hint: move it away, or choose another folder with --out",
                folder.join(name).display()
            );
        }
    }
    Ok(())
}

fn teach(model: &Path, pack: &Path) -> Result<()> {
    register::run(&Register {
        model: Some(model.to_path_buf()),
        class: Vec::new(),
        supports: None,
        coco: None,
        images: None,
        data: Some("scenes".into()),
        root: None,
        fold: 0,
        shots: Some(5),
        seed: SUPPORT_SEEDS[0],
        min_pixels: None,
        rest: None,
        output: pack.to_path_buf(),
        force: false,
        add: false,
        refine: false,
        clean_strokes: false,
        usage: Usage { method: MethodFlags::default(), device: "cpu".into() },
        json: false,
    })
}

/// What is evaluated: with training, every part of CAPL at 1 and 5 shots; without, what was just taught.
fn plan(args: &Demo, model: &Model) -> Result<Evaluation> {
    let names: &[&str] = if args.train { &["baseline", "sce", "capl"] } else { &["product+prior"] };
    let seeds = if args.train && !args.quick { &SUPPORT_SEEDS[..] } else { &SUPPORT_SEEDS[..1] };
    let limit = match (args.train, args.quick) {
        (true, false) => None,
        (true, true) => Some(QUICK.1),
        (false, quick) => Some(IMAGES[usize::from(quick)]),
    };
    Ok(Evaluation {
        fold: 0,
        protocol: Protocol::Exact,
        shots: if args.train { vec![1, 5] } else { vec![5] },
        supports: SupportSource::Drawn { seeds: seeds.to_vec(), min_pixels: None },
        usages: eval::usages(&names.iter().map(|name| name.to_string()).collect::<Vec<_>>(), &[], model)?,
        size: None,
        limit,
        part: None,
        second_look: false,
    })
}

/// Trains the recipe and puts the best model at `path`.
fn learn(args: &Demo, folder: &Path, path: &Path) -> Result<()> {
    let mut plan = Plan::parse(RECIPE, Path::new("recipes/scenes-small.toml"))?;
    if args.quick {
        plan.training.epochs = QUICK.0;
    }
    let run = Run::start(plan, &folder.join("run"), &|_, _| ())?;
    let best = RunFolder::new(run.folder()).best();
    let recorder = Recorder::start(&run, env!("PROTOSEG_REVISION"))?;
    let mut watch = TrainWatch::new(recorder, Display::choose(false, false), None)?;
    let stop = watch.stop_asked();
    let stopped = format!(
        "stopped\nhint: start again with `protoseg demo --train --out {} --force`",
        output::quoted(folder)
    );
    match run.train(&mut watch)? {
        Outcome::Finished(_) if !stop.asked() => {
            stop.quit_with(&stopped);
            Model::load(&best)?.save(path)?;
            Ok(())
        }
        _ => bail!(Interrupted(stopped)),
    }
}
