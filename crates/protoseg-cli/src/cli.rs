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
    Demo(Demo),
    Train(Box<Train>),
    Register(Register),
    #[command(subcommand)]
    Classes(Classes),
    Predict(Predict),
    Eval(Eval),
    Import(Import),
    Info(Info),
    #[command(subcommand)]
    Data(Data),
    #[command(subcommand)]
    Bench(Bench),
    Completions(Completions),
}

/// See it all at work: train a small model on embedded scenes, teach it five new classes, judge it, write a report
///
/// Needs no files and no network. Ends with the three commands that do the same with photos of your own.
#[derive(Args)]
#[command(after_help = "Examples:\n  protoseg demo\n  protoseg demo --quick --out demo-quick")]
pub struct Demo {
    /// The folder to write: the run, the class pack, the results and the report
    #[arg(long, value_name = "DIR", default_value = "demo")]
    pub out: PathBuf,
    /// A shorter training and fewer images, for a first look in less than a minute
    #[arg(long)]
    pub quick: bool,
    /// Delete what is in the folder already
    #[arg(long)]
    pub force: bool,
}

/// Teach a model new classes from a few labelled images each; they become a small file, a class pack
///
/// A support is an image with a mask. Masks are PNGs: black with the class in white or any other single colour, or numbers
/// (gray or palette) of which one is the class. What is not the class is not labelled, unless the mask says which of the
/// model's own classes is there (`base_labels` in a --supports file): then they refine those classes too (SCE).
///
/// If the pack is there already, the classes are added to it. Classes can be added, removed and merged in any order: the
/// result is that of registering all of them at once.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    protoseg register --model model.safetensors --class duck=a.jpg:a_mask.png,b.jpg:b_mask.png -o my.pack\n  \
    protoseg register --model model.safetensors --class duck=photos/duck --class swan=swans.txt -o my.pack\n  \
    protoseg register --model model.safetensors --supports supports.json -o my.pack\n  \
    protoseg register --model model.safetensors --coco instances.json --images photos -o my.pack\n  \
    protoseg register --model model.safetensors --data msrc --root DIR --fold 0 --shots 5 --seed 123 -o my.pack")]
pub struct Register {
    /// The model file
    #[arg(long, value_name = "MODEL")]
    pub model: PathBuf,
    /// A class and its supports: IMAGE:MASK pairs, a folder of images with masks, or a .txt list with a pair a line
    #[arg(long, value_name = "NAME=PATHS", num_args = 1.., help_heading = "Supports")]
    pub class: Vec<String>,
    /// A JSON file: an array of {"class", "image", "mask", "value", "base_labels"}, of which the last two may be left
    /// out; or, with --data, a list that `protoseg data supports` wrote
    #[arg(long, value_name = "JSON", help_heading = "Supports")]
    pub supports: Option<PathBuf>,
    /// A COCO JSON of instances; every category that the model does not know becomes a class
    #[arg(long, value_name = "JSON", help_heading = "Supports")]
    pub coco: Option<PathBuf>,
    /// The folder of the COCO images; by default that of the JSON
    #[arg(long, value_name = "DIR", requires = "coco", help_heading = "Supports")]
    pub images: Option<PathBuf>,
    /// Draw supports from the training images of a data set: a folder, a .toml file or a benchmark's name
    #[arg(long, value_name = "DIR|NAME|TOML", conflicts_with_all = ["class", "coco"], help_heading = "Supports")]
    pub data: Option<String>,
    /// The folder of a benchmark that is given by name
    #[arg(long, value_name = "DIR", env = "PROTOSEG_ROOT", help_heading = "Supports")]
    pub root: Option<PathBuf>,
    /// The fold whose novel classes are registered; without folds, all classes that the model does not know
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Supports")]
    pub fold: usize,
    /// Supports a class (--data; at most so many with --coco)
    #[arg(long, value_name = "K", help_heading = "Supports")]
    pub shots: Option<usize>,
    /// Which supports are drawn
    #[arg(long, default_value_t = 123, help_heading = "Supports")]
    pub seed: u64,
    /// The fewest pixels of its class that a drawn support holds; by default the benchmark's rule
    #[arg(long, value_name = "N", help_heading = "Supports")]
    pub min_pixels: Option<u64>,
    /// The class pack to write, or to add to
    #[arg(short, long, value_name = "PACK")]
    pub output: PathBuf,
    /// Classes that are in the pack already are replaced
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub usage: Usage,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// How a model is used.
#[derive(Args)]
pub struct Usage {
    /// Where paper and reference differ: reference, paper or balanced (docs/method.md); by default as the model was trained
    #[arg(long, value_name = "NAME", help_heading = "Method")]
    pub preset: Option<String>,
    /// Leave the base classes as they were learned, whatever the supports show of them
    #[arg(long, help_heading = "Method")]
    pub no_sce: bool,
    /// Do not let the base classes follow each image
    #[arg(long, help_heading = "Method")]
    pub no_dqce: bool,
    /// cpu, cuda:0, ...
    #[arg(long, default_value = "cpu", env = "PROTOSEG_DEVICE", help_heading = "Method")]
    pub device: String,
}

/// Look at the classes of a pack and change them
///
/// Every change is written whole or not at all.
#[derive(Subcommand)]
pub enum Classes {
    /// Name the classes with their supports
    List {
        #[arg(value_name = "PACK")]
        pack: PathBuf,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Tell all that a pack knows of a class
    Show {
        #[arg(value_name = "PACK")]
        pack: PathBuf,
        name: String,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Give a class another name
    Rename {
        #[arg(value_name = "PACK")]
        pack: PathBuf,
        name: String,
        new: String,
    },
    /// Take classes out
    Remove {
        #[arg(value_name = "PACK")]
        pack: PathBuf,
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Join packs of one model in a new one
    Merge {
        #[arg(value_name = "PACK", required = true, num_args = 2..)]
        packs: Vec<PathBuf>,
        /// The pack to write
        #[arg(short, long, value_name = "PACK")]
        output: PathBuf,
        /// Overwrite the pack if it is there
        #[arg(long)]
        force: bool,
    },
    /// Choose the colour of a class in pictures
    Recolor {
        #[arg(value_name = "PACK")]
        pack: PathBuf,
        name: String,
        /// As #rrggbb or r,g,b
        color: String,
    },
}

/// Segment images: every pixel gets one of the model's classes and the pack's
///
/// Everything is written at the images' own size. A file that cannot be read is told at the end, with exit code 1; the
/// others are done.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    protoseg predict --model model.safetensors --pack my.pack photos -o out\n  \
    protoseg predict --model model.safetensors a.jpg b.jpg -o out --write index,palette,coco --json\n  \
    protoseg predict --model model.safetensors aerial.tif -o out --tile --abstain 0.4")]
pub struct Predict {
    /// The model file
    #[arg(long, value_name = "MODEL")]
    pub model: PathBuf,
    /// A class pack with more classes
    #[arg(long, value_name = "PACK")]
    pub pack: Option<PathBuf>,
    /// Images, folders of images, or .txt lists with an image a line
    #[arg(value_name = "IMAGES|DIR|LIST", required = true)]
    pub inputs: Vec<PathBuf>,
    /// The folder to write; every kind of output gets a folder in it
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// What to write: index (gray PNG of ids), palette (PNG of ids with colours), overlay (with a legend), confidence,
    /// probability (a PNG a class), coco (one JSON with RLE)
    #[arg(long, value_name = "KINDS", value_delimiter = ',', default_value = "index,overlay")]
    pub write: Vec<String>,
    /// Write the scores [classes, S, S] on the network's canvas to this file; for a single image
    #[arg(long, value_name = "SAFETENSORS")]
    pub logits: Option<PathBuf>,
    /// Cut large images into tiles of the network's own size instead of scaling them down
    #[arg(long)]
    pub tile: bool,
    /// How much tiles overlap, as a share of their side
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, requires = "tile")]
    pub overlap: f64,
    /// Leave pixels without a class (255) whose confidence is below this, from 0 to 1
    #[arg(long, value_name = "P")]
    pub abstain: Option<f64>,
    #[command(flatten)]
    pub usage: Usage,
    /// Overwrite what is in the folder
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Judge a model on a data set: base, novel and total mIoU over draws of supports, by a published protocol
///
/// Supports are drawn from the training images for every seed; the images of the other split are judged. Features are
/// computed once and used for all seeds, shots and variants. Writes results.json, .csv and .md and report.html.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    protoseg eval --model runs/scenes-small-capl-fold0/best.safetensors --data scenes\n  \
    protoseg eval --model msrc.safetensors --data msrc --root DIR --shots 1,5 --preset balanced,reference -o results/msrc")]
pub struct Eval {
    /// The model file; several are judged one after the other, each in a folder of its own
    #[arg(long, value_name = "MODEL", required = true, value_delimiter = ',')]
    pub model: Vec<PathBuf>,
    /// A folder, a .toml file, or a benchmark's name (scenes, pascal-5i, coco-20i, coco-20i-contiguous, msrc)
    #[arg(long, value_name = "DIR|NAME|TOML")]
    pub data: String,
    /// The folder of a benchmark that is given by name
    #[arg(long, value_name = "DIR", env = "PROTOSEG_ROOT")]
    pub root: Option<PathBuf>,
    /// The fold whose novel classes are registered; by default the one that the model was trained on
    #[arg(long)]
    pub fold: Option<usize>,
    /// Supports a class
    #[arg(long, value_name = "K", value_delimiter = ',', default_value = "1,5")]
    pub shots: Vec<usize>,
    /// Draws of supports; results are means over them
    #[arg(long, value_name = "SEEDS", value_delimiter = ',', default_value = "123,321,456,654,999")]
    pub seeds: Vec<u64>,
    /// Use these supports instead of drawing any: a list that `protoseg data supports` wrote
    #[arg(long, value_name = "JSON", conflicts_with_all = ["seeds", "min_pixels"])]
    pub supports: Option<PathBuf>,
    /// exact (ours), reference (A: the paper's) or b
    #[arg(long, default_value = "exact")]
    pub protocol: String,
    /// What acts on the trained model: baseline, sce, dqce, capl
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "baseline,sce,dqce,capl")]
    pub variants: Vec<String>,
    /// Where paper and reference differ: reference, paper, balanced; several make a row each. By default as it was trained
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub preset: Vec<String>,
    /// The fewest pixels of its class that a drawn support holds; by default the benchmark's rule
    #[arg(long, value_name = "N")]
    pub min_pixels: Option<u64>,
    /// Side of the canvas that images are fitted to; by default the model's own
    #[arg(long, value_name = "PX", value_parser = clap::value_parser!(u32).range(8..=8192))]
    pub size: Option<u32>,
    /// Judge at most so many images, evenly taken; for a quick look, not for results
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// cpu, cuda:0, ...
    #[arg(long, default_value = "cpu", env = "PROTOSEG_DEVICE")]
    pub device: String,
    /// The folder to write; by default results/ and the names of data and fold
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Overwrite the results that are in the folder
    #[arg(long)]
    pub force: bool,
    /// Print the results as one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Measure how fast this machine is: medians in milliseconds, and the most memory that was needed
///
/// Images and weights are noise, so nothing is read. Threads are as many as the machine has; RAYON_NUM_THREADS sets another
/// number. Machines are noisy: compare runs that alternate, as `benches/peers/speed.sh` does with other software.
#[derive(Subcommand)]
#[command(after_help = "Examples:\n  protoseg bench inference --arch pspnet50 --size 473\n  \
    protoseg bench layers --arch deeplabv3-50 --json\n  protoseg bench train --size 161 --batch 6")]
pub enum Bench {
    /// From an image to its label map: features, scores, upsampling and the best class of every pixel
    Inference {
        #[command(flatten)]
        what: BenchWhat,
        /// Classes in all, most of them registered
        #[arg(long, value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u16).range(1..=60_000))]
        classes: u16,
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
        runs: u16,
    },
    /// A training step: forward, losses, backward, SGD
    Train {
        #[command(flatten)]
        what: BenchWhat,
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=512))]
        batch: u16,
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
        runs: u16,
    },
    /// A support's features and sums, and the classifier of all supports
    Register {
        #[command(flatten)]
        what: BenchWhat,
        /// Novel classes
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=10_000))]
        classes: u16,
        /// Supports a class
        #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1000))]
        shots: u16,
    },
    /// Every layer of the extractor, beside what the machine can do at most
    Layers {
        #[command(flatten)]
        what: BenchWhat,
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
        runs: u16,
    },
}

/// What is measured.
#[derive(Args)]
pub struct BenchWhat {
    /// Decoder and encoder: pspnet50, deeplabv3-101, fcn18, project-vgg16, ...
    #[arg(long, default_value = "pspnet50")]
    pub arch: String,
    /// Side of the images
    #[arg(long, value_name = "PX", default_value_t = 473, value_parser = clap::value_parser!(u16).range(17..=4096))]
    pub size: u16,
    /// The network and canvas of this model instead
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["arch", "size"])]
    pub model: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Print a script that completes commands and flags in a shell
#[derive(Args)]
#[command(
    after_help = "Example:\n  protoseg completions bash > ~/.local/share/bash-completion/completions/protoseg"
)]
pub struct Completions {
    pub shell: clap_complete::Shell,
}

/// Learn the base classes of a data set: network, classifier and CAPL, from a recipe or from flags
///
/// A recipe is a TOML file (see recipes/ for the paper's settings); flags go before what it says, and what neither says is as
/// in the reference implementation. Everything of the run goes into one folder: plan, metrics, curves, sample pictures,
/// checkpoints, and the models `best.safetensors` and `last.safetensors`. A run that was interrupted, however, goes on with
/// `--resume` and, on the CPU, ends in the same weights bit for bit.
#[derive(Args)]
#[command(after_help = "Examples:\n  protoseg train recipes/scenes-small.toml\n  \
    protoseg train recipes/msrc-psp50.toml --root DIR --init resnet50.safetensors --method baseline --out runs/baseline\n  \
    protoseg train --data my-photos --arch pspnet50 --init resnet50.pth --epochs 30 --crop 321\n  \
    protoseg train --resume runs/baseline")]
pub struct Train {
    /// The recipe; without one every setting is the reference's or a flag's
    #[arg(value_name = "CONFIG.toml")]
    pub config: Option<PathBuf>,
    /// The run's folder; by default runs/ and the names of recipe or data, method and fold
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with the interrupted run in this folder, as it was planned
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "out", "force", "dry_run"])]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub set: TrainFlags,
    /// Delete the run that is in the folder already
    #[arg(long)]
    pub force: bool,
    /// Print the plan that would be run, as a TOML file, and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Plain lines instead of a dashboard, as when stderr is no terminal
    #[arg(long)]
    pub plain: bool,
    /// Print events as JSON lines on stdout instead of text
    #[arg(long)]
    pub json: bool,
}

/// What goes before the recipe.
#[derive(Args)]
pub struct TrainFlags {
    /// A folder, a .toml file, or a benchmark's name (scenes, pascal-5i, coco-20i, coco-20i-contiguous, msrc)
    #[arg(long, value_name = "DIR|NAME|TOML", help_heading = "Data")]
    pub data: Option<String>,
    /// The folder of a benchmark that is given by name
    #[arg(long, value_name = "DIR", env = "PROTOSEG_ROOT", help_heading = "Data")]
    pub root: Option<PathBuf>,
    /// The fold whose novel classes are kept from the training
    #[arg(long, help_heading = "Data")]
    pub fold: Option<usize>,
    /// What happens to pixels of novel classes: drop (the image), ignore, background
    #[arg(long, value_name = "RULE", help_heading = "Data")]
    pub novel_pixels: Option<String>,
    /// What an unreadable image does: stop the run, or skip it with a warning
    #[arg(long, value_name = "stop|skip", help_heading = "Data")]
    pub on_error: Option<String>,
    /// Side of the training crops
    #[arg(long, value_name = "PX", help_heading = "Data")]
    pub crop: Option<usize>,
    /// Side of the canvas that the trained model predicts on
    #[arg(long, value_name = "PX", help_heading = "Data")]
    pub size: Option<usize>,
    /// Decoder and encoder: pspnet50, deeplabv3-101, fcn18, project-vgg16, ...
    #[arg(long, help_heading = "Network")]
    pub arch: Option<String>,
    /// Weights that the encoder starts from (torchvision, semseg, VGG; .pth or .safetensors)
    #[arg(long, value_name = "WEIGHTS", env = "PROTOSEG_INIT", help_heading = "Network")]
    pub init: Option<PathBuf>,
    /// Leave the encoder's batch-norm as --init has it
    #[arg(long, help_heading = "Network")]
    pub freeze_batch_norm: bool,
    /// capl, baseline, baseline+, capl-tr, capl-te, sce-mlp, sce-cos, sce-cos-swapped, dqce-mlp, dqce-cos, dqce-cos-swapped
    #[arg(long, help_heading = "Method")]
    pub method: Option<String>,
    /// Where paper and reference differ: reference, paper or balanced
    #[arg(long, help_heading = "Method")]
    pub preset: Option<String>,
    #[arg(long, help_heading = "Training")]
    pub epochs: Option<usize>,
    /// Images that one step learns from
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub batch: Option<usize>,
    /// Take a batch in so many parts, one after the other, to save memory
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub accumulate: Option<usize>,
    /// Rate of the encoder at the first step
    #[arg(long, value_name = "RATE", help_heading = "Training")]
    pub lr: Option<f64>,
    /// Recompute cheap layers in the backward pass instead of keeping them, to save memory
    #[arg(long, help_heading = "Training")]
    pub gradient_checkpointing: bool,
    /// Everything random follows from it
    #[arg(long, env = "PROTOSEG_SEED", help_heading = "Training")]
    pub seed: Option<u64>,
    /// cpu, cuda:0, ...; several, with commas, share each batch
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        env = "PROTOSEG_DEVICE",
        help_heading = "Training"
    )]
    pub device: Option<Vec<String>>,
    /// What the best model is chosen by: holdout (a part of the training images), none, or a split's name
    #[arg(long, value_name = "ON", help_heading = "Training")]
    pub validation: Option<String>,
    /// Steps from one checkpoint to the next; 0 is once an epoch
    #[arg(long, value_name = "STEPS", help_heading = "Training")]
    pub checkpoint_every: Option<usize>,
}

/// Look at, check and prepare data sets
///
/// A data set is a folder (VOC, COCO, YOLO, LabelMe, CVAT, images with masks, ...), a .toml file that describes one, or the
/// name of a benchmark: scenes (drawn by this program, no files), pascal-5i, coco-20i, coco-20i-contiguous, msrc.
#[derive(Subcommand)]
pub enum Data {
    Check(Check),
    Show(Show),
    Supports(Supports),
    #[command(subcommand)]
    Prepare(Prepare),
}

/// Which data set.
#[derive(Args)]
pub struct Source {
    /// A folder, a .toml file, or a benchmark's name
    #[arg(value_name = "DIR|NAME|TOML")]
    pub source: String,
    /// The folder of a benchmark that is given by name; by default one of that name, here
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// Read everything once: what is wrong, what is in it, what each fold's rules make of it
///
/// Problems come first, each with its file and how to mend it; with any, the exit code is 1.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  protoseg data check my-photos\n  protoseg data check msrc --root DIR --json"
)]
pub struct Check {
    #[command(flatten)]
    pub source: Source,
    /// Do not decode the images, only their labels
    #[arg(long)]
    pub labels_only: bool,
    /// Also print how often classes occur together
    #[arg(long)]
    pub co_occurrence: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Draw a contact sheet: images with their masks over them
#[derive(Args)]
#[command(after_help = "Example:\n  protoseg data show scenes -o scenes.png")]
pub struct Show {
    #[command(flatten)]
    pub source: Source,
    /// The PNG to write
    #[arg(short, long, value_name = "PNG", default_value = "sheet.png")]
    pub output: PathBuf,
    /// The split to draw from; by default the training split
    #[arg(long)]
    pub split: Option<String>,
    /// Only samples that hold this class
    #[arg(long, value_name = "NAME")]
    pub class: Option<String>,
    /// How many samples
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: u32,
    /// Which samples: drawn at random by this seed
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Images side by side
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub columns: u32,
    /// Side of an image's place on the sheet, in pixels
    #[arg(long, value_name = "PX", default_value_t = 240, value_parser = clap::value_parser!(u32).range(16..=2048))]
    pub cell: u32,
    /// Overwrite the PNG if it is there
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Draw the supports of a fold's novel classes, by the reference's rule, and save the list
///
/// The list is JSON with the names of the samples: it can be replayed exactly, edited, or written by hand.
#[derive(Args)]
#[command(
    after_help = "Example:\n  protoseg data supports msrc --root DIR --fold 0 --shots 5 --seed 123 -o supports.json"
)]
pub struct Supports {
    #[command(flatten)]
    pub source: Source,
    /// The fold whose novel classes get supports
    #[arg(long, default_value_t = 0)]
    pub fold: usize,
    /// Supports a class; a draw of few is the beginning of a draw of many
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub shots: usize,
    /// The published seeds are 123, 321, 456, 654 and 999
    #[arg(long, default_value_t = 123)]
    pub seed: u64,
    /// The list to write; without it the list goes to stdout
    #[arg(short, long, value_name = "JSON")]
    pub output: Option<PathBuf>,
    /// Overwrite the list if it is there
    #[arg(long)]
    pub force: bool,
}

/// Build a benchmark's lists and label maps from its original archives
#[derive(Subcommand)]
pub enum Prepare {
    /// Pascal VOC 2012 and SBD: 10,582 images to learn from, 1,449 to evaluate on
    #[command(name = "pascal-5i")]
    Pascal {
        /// The folder that holds VOC 2012 (`VOCdevkit`, `VOC2012` or what is in it)
        #[arg(long, value_name = "DIR")]
        voc: PathBuf,
        /// The folder that holds SBD (`benchmark_RELEASE`, `dataset` or what is in it)
        #[arg(long, value_name = "DIR")]
        sbd: PathBuf,
        #[command(flatten)]
        to: PrepareTo,
    },
    /// COCO's instances as one label map an image, 80 classes
    #[command(name = "coco-20i")]
    Coco {
        /// The folder that holds `annotations` and the images
        #[arg(long, value_name = "DIR")]
        coco: PathBuf,
        #[command(flatten)]
        to: PrepareTo,
    },
}

/// Where a prepared benchmark goes.
#[derive(Args)]
pub struct PrepareTo {
    /// The folder to write; by default one of the benchmark's name, here
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Prepare again what is prepared already
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
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
