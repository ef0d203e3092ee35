//! Which images a user means, and what their outputs are called.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow, bail};
use protoseg_data::{find_pictures, read_text};

use super::ledger;
use crate::output::{masks::FOLDERS, quoted};

/// The input that stands for a list on stdin.
const STDIN: &str = "-";

/// Most bytes of a list on stdin.
const MAX_LIST: u64 = 1 << 30;

const VIDEO_ENDINGS: [&str; 10] = ["mp4", "m4v", "mov", "avi", "mkv", "webm", "mpg", "mpeg", "wmv", "flv"];

/// An image and the name that its outputs get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedImage {
    pub path: PathBuf,
    pub name: String,
}

/// The images, and how many files were left out because an earlier run wrote them.
#[derive(Debug, Default)]
pub struct Inputs {
    pub images: Vec<NamedImage>,
    pub n_results: usize,
}

/// Folders are searched and keep their layout; a list (.txt, or `-` for stdin) names one image per line; a pattern is
/// what a shell would make of it.
pub fn find_images(inputs: &[PathBuf]) -> Result<Inputs> {
    let mut found = Search::default();
    for input in inputs {
        let is_list = input.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("txt"));
        if input == Path::new(STDIN) {
            let mut text = String::new();
            let read = io::stdin().take(MAX_LIST).read_to_string(&mut text);
            read.map_err(|error| anyhow!("cannot read the list on stdin: {error}"))?;
            if text.len() as u64 == MAX_LIST {
                bail!("the list on stdin has over {MAX_LIST} bytes\nhint: give it in parts");
            }
            found.add_list(&text, Path::new(""))?;
        } else if is_list && !input.is_dir() {
            let text = read_text(input)?;
            found.add_list(&text, input.parent().unwrap_or(Path::new("")))?;
        } else if !input.exists() && is_pattern(input) {
            found.add_pattern(input)?;
        } else {
            found.add(input)?;
        }
    }
    let Search { mut images, n_results, .. } = found;
    if images.is_empty() {
        // Whoever gives a folder of results or of videos should be told why nothing was found.
        if n_results > 0 {
            bail!(
                "all images that are given were written by an earlier run\n\
                 hint: give the folder of the photos themselves"
            );
        }
        if let Some(video) = inputs.iter().find_map(|folder| find_video(folder)) {
            bail!(refuse_video(&video));
        }
        bail!(
            "no image is given\n\
             hint: give images, a folder with images, a quoted pattern such as 'photos/*.jpg', or a .txt list"
        );
    }
    shorten_names(&mut images)?;
    Ok(Inputs { images, n_results })
}

/// Images that were found so far.
#[derive(Default)]
struct Search {
    images: Vec<NamedImage>,
    /// Whoever gives an image twice means it once.
    seen: HashSet<PathBuf>,
    n_results: usize,
    /// Whether an earlier run wrote into a folder.
    has_results: HashMap<PathBuf, bool>,
}

impl Search {
    /// A folder or a file.
    fn add(&mut self, input: &Path) -> Result<()> {
        if input.is_dir() {
            return self.add_folder(input, input);
        }
        if is_video(input) {
            bail!(refuse_video(input));
        }
        self.push(input.to_path_buf(), input.file_name().map(Path::new).unwrap_or(input));
        Ok(())
    }

    fn add_list(&mut self, text: &str, folder: &Path) -> Result<()> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            self.add(&folder.join(line))?;
        }
        Ok(())
    }

    fn add_folder(&mut self, folder: &Path, base: &Path) -> Result<()> {
        for path in find_pictures(folder)? {
            self.push_found(path, base);
        }
        Ok(())
    }

    fn add_pattern(&mut self, pattern: &Path) -> Result<()> {
        let text = pattern.to_string_lossy();
        let matches = glob::glob(&text).map_err(|error| {
            anyhow!(
                "`{text}` is not a pattern: {}\n\
                 hint: `*` is any name, `**` any folders, `?` any letter, `[ab]` one of these",
                error.msg
            )
        })?;
        // Names keep what the pattern leaves open.
        let fixed = pattern.components().take_while(|part| !is_pattern(Path::new(part)));
        let base: PathBuf = fixed.collect();
        let (before, mut video) = (self.images.len() + self.n_results, None);
        for path in matches {
            let path =
                path.map_err(|error| anyhow!("cannot read `{}`: {}", error.path().display(), error.error()))?;
            match () {
                () if path.is_dir() => self.add_folder(&path, &base)?,
                () if protoseg_data::is_picture(&path) => self.push_found(path, &base),
                () if is_video(&path) => video = video.or(Some(path)),
                () => {}
            }
        }
        if self.images.len() + self.n_results == before {
            match video {
                Some(video) => bail!(refuse_video(&video)),
                None => bail!(
                    "`{text}` matches no image\nhint: look what there is with `ls {}`",
                    quoted(if base.as_os_str().is_empty() { Path::new(".") } else { &base })
                ),
            }
        }
        Ok(())
    }

    /// Adds a picture that was found rather than named, unless it is a result.
    fn push_found(&mut self, path: PathBuf, base: &Path) {
        if self.is_result(&path) {
            self.n_results += 1;
        } else {
            let name = path.strip_prefix(base).unwrap_or(&path).to_path_buf();
            self.push(path, &name);
        }
    }

    fn push(&mut self, path: PathBuf, name: &Path) {
        // By whatever links it is reached.
        if self.seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
            self.images.push(NamedImage { name: name.to_string_lossy().into_owned(), path });
        }
    }

    /// Whether an earlier run wrote this picture: it is in a folder of results, in a subfolder that results go to.
    fn is_result(&mut self, path: &Path) -> bool {
        let mut inner = path;
        while let Some(folder) = inner.parent() {
            let is_kind = inner.file_name().is_some_and(|name| FOLDERS.iter().any(|kind| name == *kind));
            if is_kind {
                let known = self.has_results.entry(folder.to_path_buf());
                if *known.or_insert_with(|| ledger::has_results(folder)) {
                    return true;
                }
            }
            inner = folder;
        }
        false
    }
}

fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

fn is_video(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| VIDEO_ENDINGS.iter().any(|video| ending.eq_ignore_ascii_case(video)))
}

fn find_video(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| is_video(path)).min()
}

fn refuse_video(video: &Path) -> String {
    let frames = video.with_extension("");
    let (folder, video) = (quoted(&frames), quoted(video));
    let files = quoted(&frames.join("%06d.jpg"));
    format!(
        "`{video}` is a video, and videos cannot be read\n\
         hint: make frames with `mkdir {folder} && ffmpeg -i {video} -vf fps=5 -q:v 2 {files}`, then give `{folder}`",
    )
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
            Ok(find_images(&inputs)?.images.into_iter().map(|image| image.name).collect())
        };
        assert_eq!(names(&["x/a.jpg", "y/b.png"]).unwrap(), ["a", "b"]);
        assert_eq!(names(&["a.jpg", "a.png"]).unwrap(), ["a.jpg", "a.png"]);
        assert_eq!(names(&["x/a.jpg", "x/a.jpg"]).unwrap(), ["a"], "given twice, meant once");
        assert!(names(&["x/a.jpg", "y/a.jpg"]).unwrap_err().to_string().contains("same files"));
        assert!(names(&[]).is_err());
        let error = names(&["nowhere.txt"]).unwrap_err().to_string();
        assert!(error.starts_with("`nowhere.txt` does not exist"), "{error}");
    }

    #[test]
    fn a_video_is_refused_with_the_way_to_its_frames() {
        for name in ["my clip.MP4", "a.mov", "a.avi", "a.mkv", "a.webm"] {
            let error = find_images(&[name.into()]).unwrap_err().to_string();
            assert!(error.contains("is a video") && error.contains("ffmpeg -i"), "{error}");
        }
        let error = find_images(&["my clip.MP4".into()]).unwrap_err().to_string();
        assert!(error.contains("mkdir 'my clip' && ffmpeg -i 'my clip.MP4'"), "{error}");
    }
}
