//! The words of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Teach a semantic-segmentation model new classes from 1 to 10 example masks, without retraining.
#[derive(Parser)]
#[command(name = "protoseg", version, about, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Every command explains itself: `protoseg help COMMAND`.")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Import(Import),
    Info(Info),
}

/// Turn a checkpoint of the GFS-Seg reference implementation into a model file
///
/// Reads .pth (zip or legacy) and .safetensors; nothing in the file is executed. Depth, stem and sizes are found in the
/// file. The model file that is written holds weights, class names and preprocessing: it alone is enough to predict.
#[derive(Args)]
#[command(
    after_help = "Example:\n  protoseg import train_epoch_50.pth --size 473 -o model.safetensors \\\n    \
    --base background,aeroplane,bicycle,bird --novel bus,car"
)]
pub struct Import {
    /// The checkpoint
    #[arg(value_name = "CKPT")]
    pub checkpoint: PathBuf,
    /// Names of the base classes in the order of the classifier's rows; a first one called `background` is one
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    pub base: Vec<String>,
    /// Names of the novel classes, whose rows come behind
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub novel: Vec<String>,
    /// Side of the square canvas that images are fitted to, as in the reference's evaluation
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(8..=8192))]
    pub size: u32,
    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    pub output: PathBuf,
    /// Overwrite the model file if it is there
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Say what a model file holds: architecture, classes, parameters, cost, preprocessing
#[derive(Args)]
pub struct Info {
    /// The model file
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Side of the square input whose cost is counted; by default the model's own
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(8..=8192))]
    pub size: Option<u32>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
