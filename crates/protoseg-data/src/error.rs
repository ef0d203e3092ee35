//! What can be wrong with files, worded so that their owner can fix it.

use std::path::{Path, PathBuf};

use protoseg_core::{ClassId, ClassTableError, EpisodeError, FoldError, RemapError, SupportError};

use crate::{SupportSizeError, picture::MAX_SIDE};

/// Everything that can fail when a data set is read, checked or prepared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    #[error("`{path}` does not exist\nhint: {hint}")]
    Missing { path: PathBuf, hint: String },
    #[error("cannot read `{path}`: {source}\nhint: check the path and its permissions")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write `{path}`: {source}\nhint: check the folder's permissions and the free space")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("`{path}` is not text in UTF-8\nhint: save it as UTF-8")]
    NotText { path: PathBuf },

    #[error("cannot decode image `{path}`: {reason}\nhint: {hint}")]
    Decode { path: PathBuf, reason: String, hint: &'static str },
    #[error(
        "image `{path}` is {format}, which is not read\nhint: save it as JPEG or PNG: on an iPhone choose `Most Compatible` as camera format, or run `magick {path} {}`",
        path.with_extension("jpg").display()
    )]
    PhoneFormat { path: PathBuf, format: &'static str },
    #[error("image `{path}` is cut short: its end mark is missing\nhint: copy or download it again")]
    Truncated { path: PathBuf },
    #[error(
        "image `{path}` is too large: got `{width} x {height}`, expected at most {max} pixels, and {MAX_SIDE} along a side\nhint: scale it down, or cut it into tiles"
    )]
    TooLarge { path: PathBuf, width: usize, height: usize, max: usize },
    #[error(
        "file `{path}` is too large: got `{got}` bytes, expected at most `{max}`\nhint: check that this is the file you meant"
    )]
    FileTooLarge { path: PathBuf, got: u64, max: u64 },

    #[error(
        "labels `{label}` do not fit image `{image}`: got `{got}`, expected `{expected}` (width x height)\nhint: {hint}"
    )]
    SizeMismatch { image: PathBuf, label: PathBuf, got: Size, expected: Size, hint: &'static str },
    #[error(
        "labels `{path}` hold id `{id}` at pixel ({x}, {y}), which no class has\nhint: add a class with id {id}, add {id} to the ignored ids, or correct the labels; the class ids are {known}"
    )]
    UnknownId { path: PathBuf, id: ClassId, x: usize, y: usize, known: String },
    #[error(
        "labels `{path}` hold class `{class}` at pixel ({x}, {y}), which is novel in this fold\nhint: leave the image out of base training, or choose the rule `ignore` for novel pixels"
    )]
    NovelPixel { path: PathBuf, class: String, x: usize, y: usize },
    #[error(
        "labels `{path}` hold colour `{color}` at pixel ({x}, {y}), which is not in the label map\nhint: add the colour to the label map, or correct the labels (blurred edges come from resizing or JPEG)"
    )]
    UnknownColor { path: PathBuf, color: Rgb, x: usize, y: usize },
    #[error("labels `{path}` are not an index mask: {reason}\nhint: {hint}")]
    NotAMask { path: PathBuf, reason: String, hint: &'static str },
    #[error("mask `{path}` of class `{class}` {reason}\nhint: {hint}")]
    SupportMask { path: PathBuf, class: String, reason: String, hint: String },
    #[error("image `{path}` of class `{class}` {reason}\nhint: {hint}")]
    SupportImage { path: PathBuf, class: String, reason: String, hint: String },
    #[error("labels `{path}`, {shape}: {reason}\nhint: {hint}")]
    BadShape { path: PathBuf, shape: String, reason: String, hint: &'static str },

    #[error("`{path}` line {line}: got `{got}`, expected {expected}\nhint: correct this line")]
    Line { path: PathBuf, line: usize, got: String, expected: &'static str },
    #[error("`{path}` has no samples\nhint: {hint}")]
    Empty { path: PathBuf, hint: &'static str },
    #[error("`{path}` is not valid: {source}\nhint: export it again, or correct it at this place")]
    Json { path: PathBuf, source: serde_json::Error },
    #[error("`{path}` line {line}: {reason}\nhint: {hint}")]
    Spec { path: PathBuf, line: usize, reason: String, hint: String },
    #[error(
        "`{path}` refers to {what} `{got}`, which it does not contain\nhint: export it again, or remove the reference"
    )]
    Dangling { path: PathBuf, what: &'static str, got: String },
    #[error(
        "`{path}` names the file `{got}`, which is outside its folder\nhint: use names inside the folder, without `..`"
    )]
    Outside { path: PathBuf, got: String },
    #[error("`{path}` has {what} `{got}` twice\nhint: keep one of them")]
    Duplicate { path: PathBuf, what: &'static str, got: String },
    #[error(
        "`{path}` is not a MATLAB file with labels: {reason}\nhint: get the file again from the SBD archive"
    )]
    Mat { path: PathBuf, reason: &'static str },

    #[error("classes of `{path}`: {source}")]
    Classes { path: PathBuf, source: ClassTableError },
    #[error("folds of `{path}`: {source}")]
    Folds { path: PathBuf, source: FoldError },
    #[error(transparent)]
    Fold(#[from] FoldError),
    #[error(transparent)]
    Support(#[from] SupportError),
    #[error(transparent)]
    Episode(#[from] EpisodeError),
    #[error("labels `{path}`: {source}")]
    Labels { path: PathBuf, source: RemapError },
    #[error(transparent)]
    SupportSize(#[from] SupportSizeError),
    #[error("data set `{dataset}` has no split `{got}`\nhint: choose one of {known}")]
    NoSplit { dataset: String, got: String, known: String },
    #[error(
        "`{got}` is neither a benchmark nor a data set\nhint: the benchmarks are {known}; a data set is a folder or a .toml file"
    )]
    UnknownSource { got: String, known: String },
    #[error("benchmark `{name}` needs its folder\nhint: give the path of the folder that holds it")]
    NeedsRoot { name: String },
    #[error(
        "cannot tell what kind of data set `{path}` is\nhint: describe it in a `protoseg.toml` with `format`, or use one of these layouts: {layouts}"
    )]
    UnknownLayout { path: PathBuf, layouts: &'static str },
    #[error(
        "benchmark `{name}` needs `{expected}` classes, got `{got}` in `{path}`\nhint: use the original annotations"
    )]
    ClassCount { name: &'static str, path: PathBuf, got: usize, expected: usize },
    #[error("`{path}` is already prepared\nhint: use it as it is, or prepare it again in another folder")]
    AlreadyPrepared { path: PathBuf },
}

/// Width and height as `320 x 213`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub usize, pub usize);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x {}", self.0, self.1)
    }
}

/// A colour as `255,0,128`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rgb(pub [u8; 3]);

impl std::fmt::Display for Rgb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{},{}", self.0[0], self.0[1], self.0[2])
    }
}

impl DataError {
    /// The error of reading `path`. A file that does not exist gives another error than one that cannot be read.
    pub fn reading(path: &Path, source: std::io::Error) -> Self {
        match source.kind() {
            std::io::ErrorKind::NotFound => Self::missing(path),
            _ => Self::Read { path: path.to_path_buf(), source },
        }
    }

    pub(crate) fn missing(path: &Path) -> Self {
        let hint = match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) if !parent.is_dir() => {
                format!("create the folder `{}`, or correct the path", parent.display())
            }
            Some(parent) => {
                format!("look for it in `{}`; upper case and the file extension matter", parent.display())
            }
            None => "check the spelling; upper case and the file extension matter".to_string(),
        };
        Self::Missing { path: path.to_path_buf(), hint }
    }

    pub(crate) fn writing(path: &Path, source: std::io::Error) -> Self {
        Self::Write { path: path.to_path_buf(), source }
    }

    /// The file that the error is about, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Missing { path, .. }
            | Self::Read { path, .. }
            | Self::Write { path, .. }
            | Self::NotText { path }
            | Self::Decode { path, .. }
            | Self::PhoneFormat { path, .. }
            | Self::Truncated { path }
            | Self::TooLarge { path, .. }
            | Self::FileTooLarge { path, .. }
            | Self::SizeMismatch { label: path, .. }
            | Self::UnknownId { path, .. }
            | Self::NovelPixel { path, .. }
            | Self::UnknownColor { path, .. }
            | Self::NotAMask { path, .. }
            | Self::BadShape { path, .. }
            | Self::SupportMask { path, .. }
            | Self::SupportImage { path, .. }
            | Self::Labels { path, .. }
            | Self::Line { path, .. }
            | Self::Empty { path, .. }
            | Self::Json { path, .. }
            | Self::Spec { path, .. }
            | Self::Dangling { path, .. }
            | Self::Outside { path, .. }
            | Self::Duplicate { path, .. }
            | Self::Mat { path, .. }
            | Self::Classes { path, .. }
            | Self::Folds { path, .. }
            | Self::UnknownLayout { path, .. }
            | Self::ClassCount { path, .. }
            | Self::AlreadyPrepared { path } => Some(path),
            Self::Fold(_)
            | Self::Support(_)
            | Self::Episode(_)
            | Self::SupportSize(_)
            | Self::NoSplit { .. }
            | Self::UnknownSource { .. }
            | Self::NeedsRoot { .. } => None,
        }
    }

    /// A short name for the kind of problem, for reports.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "missing",
            Self::SizeMismatch { .. } => "size",
            Self::UnknownId { .. } | Self::UnknownColor { .. } => "unknown-id",
            Self::Read { .. }
            | Self::Decode { .. }
            | Self::PhoneFormat { .. }
            | Self::Truncated { .. }
            | Self::TooLarge { .. }
            | Self::FileTooLarge { .. } => "unreadable",
            _ => "labels",
        }
    }
}
