//! `protoseg data draw`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use protoseg::core::{ClassId, count};
use protoseg_data::{
    Benchmark, create_dir, mask::write_index_mask, picture::write_image, reader::scenes::draw_scene,
};

use crate::{cli::Draw, output};

/// Scenes that are looked at for each that is wanted.
const TRIES: u64 = 200;

pub fn run(args: &Draw) -> Result<()> {
    let scenes = Benchmark::open("scenes", None)?;
    let table = scenes.dataset.classes();
    let mut wanted: Vec<ClassId> = Vec::new();
    for name in &args.class {
        match table.foreground().find(|class| class.name == *name) {
            Some(class) => wanted.push(class.id),
            None => {
                let known: Vec<&str> = table.foreground().map(|class| class.name.as_str()).collect();
                bail!("scenes have no class `{name}`\nhint: their classes are {}", known.join(", "));
            }
        }
    }
    let masks = masks_folder(args);
    create_dir(&args.output)?;
    create_dir(&masks)?;
    let side = args.size as usize;
    let (mut drawn, mut index) = (0, 0u64);
    while drawn < args.count {
        if index > TRIES * u64::from(args.count) {
            bail!("only {} of {} scenes hold these classes\nhint: ask for fewer", drawn, args.count);
        }
        let (image, labels) = draw_scene(args.seed, side, side, index);
        index += 1;
        let present = labels.present();
        if !wanted.is_empty() && !wanted.iter().any(|class| present.contains(&class.0)) {
            continue;
        }
        drawn += 1;
        let name = format!("scene-{drawn:04}.png");
        output::refuse_overwrite(&args.output.join(&name), args.force)?;
        write_image(args.output.join(&name), &image)?;
        write_index_mask(&masks.join(&name), &labels)?;
    }
    output::line(format_args!("{} -> {}", count(args.count as usize, "scene"), args.output.display()))?;
    output::line(format_args!("masks -> {}", masks.display()))?;
    output::note(format_args!("next: protoseg studio {}", output::quoted(&args.output)));
    Ok(())
}

/// DIR-masks.
fn masks_folder(args: &Draw) -> PathBuf {
    let mut path = args.output.components().as_path().as_os_str().to_owned();
    path.push("-masks");
    path.into()
}
