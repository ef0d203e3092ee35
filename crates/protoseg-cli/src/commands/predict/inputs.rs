//! Which images a user means, and what their outputs are called.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow, bail};
use protoseg_data::find_pictures;

/// An image and the name that its outputs get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedImage {
    pub path: PathBuf,
    pub name: String,
}

/// Folders are searched and keep their layout; a list (.txt) names one image per line.
pub fn find_images(inputs: &[PathBuf]) -> Result<Vec<NamedImage>> {
    let mut images: Vec<NamedImage> = Vec::new();
    let file_name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for input in inputs {
        if input.is_dir() {
            for path in find_pictures(input)? {
                let name = path.strip_prefix(input).unwrap_or(&path).to_string_lossy().into_owned();
                images.push(NamedImage { path, name });
            }
        } else if input.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("txt")) {
            let text = fs::read_to_string(input)
                .map_err(|error| anyhow!("cannot read the list `{}`: {error}", input.display()))?;
            let folder = input.parent().unwrap_or(Path::new(""));
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
            {
                let path = folder.join(line);
                images.push(NamedImage { name: file_name(&path), path });
            }
        } else {
            images.push(NamedImage { name: file_name(input), path: input.clone() });
        }
    }
    if images.is_empty() {
        bail!("no image is given\nhint: give images, a folder with images, or a .txt list");
    }
    shorten_names(&mut images)?;
    Ok(images)
}

/// Outputs are called like their image without its ending. Where `a.jpg` and `a.png` would both be `a`, they keep
/// theirs.
fn shorten_names(images: &mut [NamedImage]) -> Result<()> {
    let stem = |name: &str| Path::new(name).with_extension("").to_string_lossy().into_owned();
    let mut count: HashMap<String, usize> = HashMap::new();
    images.iter().for_each(|image| *count.entry(stem(&image.name)).or_default() += 1);
    let mut seen = HashMap::new();
    for image in images {
        if count[&stem(&image.name)] == 1 {
            image.name = stem(&image.name);
        }
        if let Some(other) = seen.insert(image.name.clone(), image.path.clone()) {
            bail!(
                "`{}` and `{}` would be written to the same files\n\
                 hint: give their folder, or predict them one after the other",
                other.display(),
                image.path.display()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_outputs_do_not_collide() {
        let names = |inputs: &[&str]| -> Result<Vec<String>> {
            let inputs: Vec<PathBuf> = inputs.iter().map(PathBuf::from).collect();
            Ok(find_images(&inputs)?.into_iter().map(|image| image.name).collect())
        };
        assert_eq!(names(&["x/a.jpg", "y/b.png"]).unwrap(), ["a", "b"]);
        assert_eq!(names(&["a.jpg", "a.png"]).unwrap(), ["a.jpg", "a.png"]);
        assert!(names(&["x/a.jpg", "y/a.jpg"]).unwrap_err().to_string().contains("same files"));
        assert!(names(&[]).is_err());
        let error = names(&["nowhere.txt"]).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the list `nowhere.txt`: "), "{error}");
    }
}
