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
    cli::{Demo, Register, Usage},
    output::{
        self, Interrupted,
        train_watch::{Display, TrainWatch},
    },
};

/// What `protoseg train recipes/scenes-small.toml` runs.
const RECIPE: &str = include_str!("../../../../recipes/scenes-small.toml");

/// With `--quick`: epochs of training, images that are evaluated.
const QUICK: (usize, usize) = (1, 60);

pub fn run(args: &Demo) -> Result<()> {
    let folder = &args.out;
    if folder.exists() {
        output::refuse_overwrite(folder, args.force)?;
        // Only what a demo wrote may go.
        if !RunFolder::new(folder.join("run")).holds_run() {
            bail!("`{}` is not the folder of a demo\nhint: choose another with --out", folder.display());
        }
        fs::remove_dir_all(folder)
            .map_err(|error| anyhow!("cannot delete `{}`: {error}", folder.display()))?;
    }
    create_dir(folder)?;

    output::note("1. Training a small network on embedded scenes: 15 base classes, from random weights");
    let model_path = folder.join("model.safetensors");
    learn(args, folder, &model_path)?;

    output::note("\n2. Teaching it 5 classes it has never seen, from 5 masks each");
    let pack = folder.join("novel.pack");
    register::run(&Register {
        model: Some(model_path.clone()),
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
        output: pack,
        force: false,
        usage: Usage { preset: None, no_sce: false, no_dqce: false, device: "cpu".into() },
        json: false,
    })?;

    output::note("\n3. Judging it on scenes it has never seen, at 1 and 5 shots");
    let model = Model::load(&model_path)?;
    let plan = Evaluation {
        fold: 0,
        protocol: Protocol::Exact,
        shots: vec![1, 5],
        supports: SupportSource::Drawn {
            seeds: SUPPORT_SEEDS[..if args.quick { 1 } else { SUPPORT_SEEDS.len() }].to_vec(),
            min_pixels: None,
        },
        usages: eval::usages(&["baseline", "sce", "capl"].map(str::to_string), &[], &model)?,
        size: None,
        limit: args.quick.then_some(QUICK.1),
    };
    let results = eval::judge(&model, &model_path, &Benchmark::open("scenes", None)?, &plan, folder)?;
    eval::print(&results)?;
    output::line("")?;
    output::line(format_args!("report -> {}", folder.join(eval::REPORT_FILE).display()))?;
    output::line(
        "\nThe same with photos of your own (docs/own-photos.md):\n  \
         protoseg train --data YOUR-DATA --arch pspnet50 --init resnet50.pth --out runs/mine\n  \
         protoseg register --model runs/mine/best.safetensors --class NAME=IMAGE:MASK -o my.pack\n  \
         protoseg predict --model runs/mine/best.safetensors --pack my.pack IMAGES -o out",
    )
}

/// Trains the recipe and puts the best model at `path`.
fn learn(args: &Demo, folder: &Path, path: &Path) -> Result<()> {
    let mut plan = Plan::parse(RECIPE, Path::new("recipes/scenes-small.toml"))?;
    if args.quick {
        plan.training.epochs = QUICK.0;
    }
    let run = Run::start(plan, &folder.join("run"))?;
    let best = RunFolder::new(run.folder()).best();
    let recorder = Recorder::start(&run, env!("PROTOSEG_REVISION"))?;
    let mut watch = TrainWatch::new(recorder, Display::choose(false, false), None)?;
    match run.train(&mut watch)? {
        Outcome::Finished(_) => {
            fs::copy(&best, path).map_err(|error| anyhow!("cannot write `{}`: {error}", path.display()))?;
            Ok(())
        }
        Outcome::Stopped { .. } => {
            bail!(Interrupted("stopped\nhint: start again with `protoseg demo --force`".into()))
        }
    }
}
