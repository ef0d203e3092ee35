//! `protoseg classes`.

use std::path::Path;

use anyhow::{Result, bail};
use protoseg::{
    class_pack::{ClassPack, PackClass},
    core::count,
    picture::hex,
};
use serde::Serialize;

use super::usage::lock_pack;
use crate::{
    cli::Classes,
    output::{self, table},
};

pub fn run(args: &Classes) -> Result<()> {
    match args {
        Classes::List { pack, json } => list(pack, *json),
        Classes::Show { pack, name, json } => show(pack, name, *json),
        Classes::Rename { pack: path, name, new } => {
            change(path, |pack| pack.rename(name, new))?;
            output::line(format_args!("`{name}` is `{new}` now"))
        }
        Classes::Remove { pack: path, names } => {
            let left = change(path, |pack| names.iter().try_for_each(|name| pack.remove(name).map(drop)))?;
            let left = count(left.classes().len(), "class");
            output::line(format_args!("{left} left in {}", path.display()))
        }
        Classes::Merge { packs, output: path, force } => {
            let _lock = lock_pack(path)?;
            output::refuse_overwrite(path, *force)?;
            let mut merged: Option<ClassPack> = None;
            for path in packs {
                let pack = ClassPack::load(path)?;
                match &mut merged {
                    None => merged = Some(pack),
                    Some(merged) => {
                        if let Err(error) = merged.merge(pack) {
                            bail!("cannot merge `{}`: {error}", path.display());
                        }
                    }
                }
            }
            let Some(merged) = merged else { bail!("no pack is given") };
            merged.save(path)?;
            let classes = count(merged.classes().len(), "class");
            output::line(format_args!("{classes} -> {}", path.display()))
        }
        Classes::Recolor { pack: path, name, color } => {
            let color = parse_color(color)?;
            change(path, |pack| pack.recolor(name, color))?;
            output::line(format_args!("`{name}` is {} now", hex(color)))
        }
    }
}

/// Reads a pack, changes it and writes it in its place.
fn change(
    path: &Path,
    change: impl FnOnce(&mut ClassPack) -> Result<(), protoseg::class_pack::PackError>,
) -> Result<ClassPack> {
    let _lock = lock_pack(path)?;
    let mut pack = ClassPack::load(path)?;
    change(&mut pack)?;
    pack.save(path)?;
    Ok(pack)
}

#[derive(Serialize)]
struct Listed {
    name: String,
    /// Whether it is one of the model's own classes, with more supports.
    refines: bool,
    color: Option<String>,
    shots: usize,
    pixels: u64,
    base_classes_seen: usize,
}

#[derive(Serialize)]
struct List<'a> {
    schema: &'static str,
    pack: &'a Path,
    model: &'a str,
    classes: Vec<Listed>,
}

fn listed(pack: &ClassPack, class: &PackClass) -> Listed {
    let mut seen: Vec<u16> =
        class.shots.iter().flat_map(|shot| shot.context.iter().map(|seen| seen.0)).collect();
    seen.sort_unstable();
    seen.dedup();
    Listed {
        name: class.name.clone(),
        refines: pack.refines(&class.name),
        color: class.color.map(hex),
        shots: class.shots.len(),
        pixels: class.shots.iter().map(|shot| shot.pixels).sum(),
        base_classes_seen: seen.len(),
    }
}

/// Lists the classes of a pack.
pub fn list(path: &Path, json: bool) -> Result<()> {
    let pack = ClassPack::load(path)?;
    let classes: Vec<Listed> = pack.classes().iter().map(|class| listed(&pack, class)).collect();
    if json {
        return output::json(&List {
            schema: "protoseg.classes/1",
            pack: path,
            model: pack.model(),
            classes,
        });
    }
    let rows: Vec<Vec<String>> = classes
        .into_iter()
        .map(|class| {
            let color = class.color.unwrap_or_else(|| "by row".to_string());
            let numbers =
                [class.shots.to_string(), class.pixels.to_string(), class.base_classes_seen.to_string()];
            let name = if class.refines { format!("{} (refined)", class.name) } else { class.name };
            [name].into_iter().chain(numbers).chain([color]).collect()
        })
        .collect();
    for line in table::lines(&["class", "supports", "pixels", "base classes seen", "colour"], &rows) {
        output::line(line)?;
    }
    output::line(format_args!("for model {}", pack.model()))
}

#[derive(Serialize)]
struct Shown<'a> {
    schema: &'static str,
    #[serde(flatten)]
    class: Listed,
    supports: Vec<ShownShot<'a>>,
}

#[derive(Serialize)]
struct ShownShot<'a> {
    image: &'a str,
    pixels: u64,
    positions: f32,
    /// Rows of the model.
    base_classes: Vec<u16>,
}

fn show(path: &Path, name: &str, json: bool) -> Result<()> {
    let pack = ClassPack::load(path)?;
    let class = pack.class(name)?;
    let supports = class.shots.iter().map(|shot| ShownShot {
        image: &shot.image,
        pixels: shot.pixels,
        positions: shot.own.count,
        base_classes: shot.context.iter().map(|seen| seen.0).collect(),
    });
    let shown =
        Shown { schema: "protoseg.class/1", class: listed(&pack, class), supports: supports.collect() };
    if json {
        return output::json(&shown);
    }
    let rows: Vec<Vec<String>> = shown
        .supports
        .iter()
        .map(|shot| {
            let seen: Vec<String> = shot.base_classes.iter().map(u16::to_string).collect();
            let seen = if seen.is_empty() { "-".to_string() } else { seen.join(" ") };
            vec![shot.image.to_string(), shot.pixels.to_string(), shot.positions.to_string(), seen]
        })
        .collect();
    for line in table::lines(&["support", "pixels", "positions", "rows of base classes seen"], &rows) {
        output::line(line)?;
    }
    Ok(())
}

/// `#rrggbb` or `r,g,b`.
fn parse_color(text: &str) -> Result<[u8; 3]> {
    let parsed = match text.strip_prefix('#') {
        Some(digits) if digits.len() == 6 && digits.is_ascii() => {
            u32::from_str_radix(digits, 16).ok().map(|rgb| [(rgb >> 16) as u8, (rgb >> 8) as u8, rgb as u8])
        }
        Some(_) => None,
        None => {
            let parts: Option<Vec<u8>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
            parts.and_then(|parts| parts.try_into().ok())
        }
    };
    match parsed {
        Some(color) => Ok(color),
        None => bail!("`{text}` is not a colour\nhint: write it as #ff8800 or 255,136,0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_in_both_forms() {
        assert_eq!(parse_color("#ff8800").unwrap(), [255, 136, 0]);
        assert_eq!(parse_color("255, 136,0").unwrap(), [255, 136, 0]);
        assert_eq!(hex([255, 136, 0]), "#ff8800");
        for wrong in ["red", "#ff880", "256,0,0", "1,2"] {
            assert!(parse_color(wrong).is_err(), "{wrong}");
        }
    }
}
