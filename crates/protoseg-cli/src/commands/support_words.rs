//! Supports as words of the command line: `NAME=PATHS` and its parts.
//!
//! A path may contain commas and colons itself: a word is split where the parts are files or folders that exist.

use std::path::Path;

use anyhow::{Result, bail};
use protoseg::data::{MaskSource, SupportFiles, picture::has_alpha};

const BOX: &str = ":box=";
const SCRIBBLE: &str = ":scribble=";

/// `NAME=PATH[,PATH...] [PATH...]`, several of them, as classes with their supports.
pub fn read_classes(words: &[String]) -> Result<Vec<(String, Vec<SupportFiles>)>> {
    let read = |(name, paths): (String, Vec<String>)| {
        let supports = paths.iter().map(|path| read_supports(&name, path)).collect::<Result<Vec<_>>>()?;
        Ok((name, supports.concat()))
    };
    split_classes(words)?.into_iter().map(read).collect()
}

/// One support: `IMAGE:MASK`, `IMAGE:box=X,Y,W,H`, `IMAGE:scribble=MASK`, or a cut-out.
pub fn read_support(class: &str, text: &str) -> Result<SupportFiles> {
    if let Some((image, mask)) = split_pair(text) {
        return Ok(SupportFiles::new(class, Path::new(image), Path::new(mask)));
    }
    if let Some((image, bounds)) = text.rsplit_once(BOX) {
        let Some(bounds) = MaskSource::parse_box(bounds) else {
            bail!("`{bounds}` is not a box\nhint: write {image}:box=LEFT,TOP,WIDTH,HEIGHT in pixels");
        };
        return Ok(SupportFiles::with(class, Path::new(image), bounds));
    }
    if let Some((image, mask)) = text.rsplit_once(SCRIBBLE) {
        return Ok(SupportFiles::with(class, Path::new(image), MaskSource::Scribble(mask.into())));
    }
    // Nothing of it exists: the last colon that leaves two names. A drive of Windows has one too.
    match text.rsplit_once(':') {
        Some((image, mask)) if !Path::new(text).exists() && !image.is_empty() && !mask.is_empty() => {
            Ok(SupportFiles::new(class, Path::new(image), Path::new(mask)))
        }
        _ => Ok(SupportFiles::with(class, Path::new(text), MaskSource::Alpha)),
    }
}

/// The supports that a path stands for: of a folder, of a list, or one.
fn read_supports(class: &str, path: &str) -> Result<Vec<SupportFiles>> {
    if Path::new(path).is_dir() {
        return Ok(SupportFiles::read_folder(class, Path::new(path))?);
    }
    if has_ending(path, "txt") {
        return Ok(SupportFiles::read_list(class, Path::new(path))?);
    }
    Ok(vec![read_support(class, path)?])
}

fn split_classes(words: &[String]) -> Result<Vec<(String, Vec<String>)>> {
    let mut classes: Vec<(String, Vec<String>)> = Vec::new();
    for word in words {
        let named = word.split_once('=').filter(|(name, _)| !name.contains(['/', '\\', '.', ':']));
        let paths = match named {
            Some((name, paths)) => {
                if name.trim().is_empty() {
                    bail!("`--class {word}` names no class\nhint: write --class NAME=IMAGE:MASK");
                }
                classes.push((name.trim().to_string(), Vec::new()));
                paths
            }
            None => word,
        };
        let Some((_, given)) = classes.last_mut() else {
            bail!("`--class {word}` names no class\nhint: write --class NAME=IMAGE:MASK");
        };
        given.extend(split_paths(paths));
    }
    for (name, paths) in &mut classes {
        if paths.is_empty() {
            bail!("class `{name}` has no support\nhint: write --class {name}=IMAGE:MASK");
        }
        // An image and its mask as two words are a pair too, unless all are cut-outs.
        if paths.len() % 2 == 0
            && paths.iter().all(|path| is_alone(path))
            && !paths.iter().all(|path| has_alpha(Path::new(path)))
        {
            *paths = paths.chunks(2).map(|pair| pair.join(":")).collect();
        }
    }
    Ok(classes)
}

/// Whether a path is that of a picture, and nothing else.
fn is_alone(path: &str) -> bool {
    let is_file = Path::new(path).is_file() || !path.contains(':');
    is_file && !Path::new(path).is_dir() && !has_ending(path, "txt")
}

/// Splits at commas, unless a comma is part of a path that exists, or of a box.
fn split_paths(text: &str) -> Vec<String> {
    if is_whole(text) {
        return vec![text.to_string()];
    }
    let pieces: Vec<&str> = text.split(',').collect();
    let (mut paths, mut at) = (Vec::new(), 0);
    while at < pieces.len() {
        let ends = at + 1..=pieces.len();
        let whole = ends.map(|end| (end, pieces[at..end].join(","))).find(|(_, path)| is_whole(path));
        let (end, path) = whole.unwrap_or_else(|| {
            // The numbers of a box that is none stay with it, for the error.
            let is_box = pieces[at].contains(BOX);
            let numbers = pieces[at + 1..].iter().take_while(|piece| is_box && piece.parse::<f64>().is_ok());
            let end = at + 1 + numbers.count();
            (end, pieces[at..end].join(","))
        });
        if !path.is_empty() {
            paths.push(path);
        }
        at = end;
    }
    paths
}

/// Whether a text is one path or one support by itself.
fn is_whole(text: &str) -> bool {
    let is_image = |path: &str| Path::new(path).is_file() || !path.contains(',');
    let parts = |word: &str| text.rsplit_once(word).filter(|(image, _)| is_image(image));
    let has_box = || parts(BOX).is_some_and(|(_, bounds)| MaskSource::parse_box(bounds).is_some());
    let has_scribble = || parts(SCRIBBLE).is_some_and(|(_, mask)| Path::new(mask).is_file());
    !text.is_empty()
        && (Path::new(text).exists() || split_pair(text).is_some() || has_box() || has_scribble())
}

/// Image and mask, if both exist, at whichever colon.
fn split_pair(text: &str) -> Option<(&str, &str)> {
    let pairs = text.match_indices(':').map(|(at, _)| (&text[..at], &text[at + 1..]));
    pairs.rev().find(|(image, mask)| Path::new(image).is_file() && Path::new(mask).is_file())
}

fn has_ending(path: &str, ending: &str) -> bool {
    Path::new(path).extension().is_some_and(|own| own.eq_ignore_ascii_case(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(words: &[&str]) -> Vec<(String, Vec<String>)> {
        split_classes(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>()).unwrap()
    }

    fn class(name: &str, paths: &[&str]) -> (String, Vec<String>) {
        (name.to_string(), paths.iter().map(|path| path.to_string()).collect())
    }

    #[test]
    fn supports_of_a_class_come_in_several_forms() {
        assert_eq!(
            split(&["duck=a.jpg:a.png,b.jpg:b.png"]),
            [class("duck", &["a.jpg:a.png", "b.jpg:b.png"])]
        );
        assert_eq!(
            split(&["duck=a.jpg", "a.png", "wild swan=c/d.jpg:e=1.png"]),
            [class("duck", &["a.jpg:a.png"]), class("wild swan", &["c/d.jpg:e=1.png"])]
        );
        assert_eq!(
            split(&["duck=a.jpg:box=1,2,30,40,b.jpg:scribble=b.png", "c.jpg:box=5,6,7,8"]),
            [class("duck", &["a.jpg:box=1,2,30,40", "b.jpg:scribble=b.png", "c.jpg:box=5,6,7,8"])]
        );
        assert!(split_classes(&["a.jpg:a.png".to_string()]).is_err());
        assert!(split_classes(&["duck=".to_string()]).is_err());
    }

    #[test]
    fn commas_and_colons_in_paths_are_found_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
        let (image, mask) = (path("one, two: a.jpg"), path("m,1:2.png"));
        for file in [&image, &mask] {
            std::fs::write(file, b"").unwrap();
        }
        let pair = format!("{image}:{mask}");
        assert_eq!(
            split(&[&format!("duck=x.jpg:x.png,{pair},y.jpg:y.png")]),
            [class("duck", &["x.jpg:x.png", &pair, "y.jpg:y.png"])]
        );
        assert_eq!(
            read_support("duck", &pair).unwrap(),
            SupportFiles::new("duck", image.as_ref(), mask.as_ref())
        );
        let scribble = format!("{image}:scribble={mask}");
        assert_eq!(split(&[&format!("duck={scribble}")]), [class("duck", &[&scribble])]);
        assert!(read_support("duck", "a.jpg:box=1,2").is_err());
    }
}
