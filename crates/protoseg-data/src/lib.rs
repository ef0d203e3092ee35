//! Data sets on disk: readers for common formats, benchmarks by name, checks, supports, preparation and a loader.
//! Decisions that need no files (folds, remaps, which image is used for what) live in `protoseg-core`.

mod benchmark;
mod check;
mod dataset;
mod episode_list;
mod episode_pool;
mod error;
mod files;
mod loader;
pub mod mask;
mod mat;
mod memory;
pub mod palette;
pub mod picture;
pub mod prepare;
mod progress;
pub mod reader;
pub mod region;
pub mod report;
pub mod rle;
mod scan;
pub mod shapes;
mod show;
pub mod spec;
mod support;
mod support_files;
mod support_list;
mod support_mask;

pub use benchmark::{BENCHMARKS, Benchmark, SPEC_FILE};
pub use check::{CheckOptions, check};
pub use dataset::{Contents, Dataset, MaskDataset, MaskKind, Sample, Split};
pub use episode_list::{draw_runs, read_episodes, resolve_episodes, save_episodes};
pub use episode_pool::{DrawnEpisode, EpisodePool};
pub use error::{DataError, Rgb, Size};
pub use files::{
    Lock, NewFile, clean_up, create_dir, find_pictures, is_picture, open_regular, read_bytes, read_text,
    write_atomic, write_whole,
};
pub use loader::{Batch, Epoch, LoadError, Loader, LoaderOptions, LoaderOptionsError, OnError, SampleRng};
pub use mat::read_sbd_labels;
pub use memory::peak_memory;
pub use progress::{Progress, quiet};
pub use scan::{SplitStats, scan};
pub use show::{ContactSheet, LegendEntry, Place, SheetOptions, contact_sheet, fit_image};
pub use support::{Support, SupportSizeError};
pub use support_files::{MaskSource, SupportFiles};
pub use support_list::{SupportFile, read_support_file, read_supports, resolve_supports, save_supports};
