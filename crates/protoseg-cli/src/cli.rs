//! The command line: commands, flags and their help texts.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Teach a semantic-segmentation model new classes from 1 to 10 example masks, without retraining.
#[derive(Parser)]
#[command(name = "protoseg", version, about, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Run `protoseg help COMMAND` for more about a command.")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Demo(Demo),
    New(New),
    Calibrate(Calibrate),
    Train(Box<Train>),
    Register(Register),
    #[command(subcommand)]
    Classes(Classes),
    Predict(Predict),
    Studio(Studio),
    Serve(Serve),
    Eval(Eval),
    Episodes(Box<Episodes>),
    Experiment(Box<Experiment>),
    Segment(Segment),
    Import(Import),
    Export(Export),
    Weights(Weights),
    Info(Info),
    #[command(subcommand)]
    Data(Data),
    #[command(subcommand)]
    Bench(Bench),
    Completions(Completions),
}

/// See it at work in seconds: teach a model five new classes, predict, evaluate, and write a report with pictures
///
/// Uses built-in scenes and a model that comes with the program, so it needs no files and no internet connection. At the
/// end it prints the commands that do the same with your own photos.
#[derive(Args)]
#[command(after_help = "Examples:\n  protoseg demo\n  protoseg demo --train --out demo-from-scratch")]
pub struct Demo {
    /// Output folder for the model, the class pack, the results and the report
    #[arg(long, value_name = "DIR", default_value = "demo")]
    pub out: PathBuf,
    /// Train a small network from random weights first; takes four minutes on 2 CPUs
    #[arg(long)]
    pub train: bool,
    /// Evaluate fewer images; with --train, also train for a shorter time
    #[arg(long)]
    pub quick: bool,
    /// Delete the existing contents of the folder
    #[arg(long)]
    pub force: bool,
}

/// Open the studio: paint a few strokes, see every photo follow
///
/// Starts a server on this machine and opens its page in the browser. The page shows the photos of a folder. Paint a
/// class on one or two of them, and all others are labelled at once. Everything is saved as you go, in a project folder
/// beside the photos.
#[derive(Args)]
#[command(after_help = "Examples:\n  protoseg studio photos\n  protoseg studio photos --no-open --port 9000")]
pub struct Studio {
    /// Folder with your photos
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Model file [default: the model in the box]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// Project folder [default: DIR/protoseg-studio]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Do not open the browser
    #[arg(long)]
    pub no_open: bool,
    /// Memory for what the model has seen of photos, in MiB [default: 1024]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(16..=1_048_576))]
    pub memory: Option<u32>,
    #[command(flatten)]
    pub listen: Listen,
    /// Device to run on: cpu, cuda:0, ...
    #[arg(long, default_value = "cpu", env = "PROTOSEG_DEVICE")]
    pub device: String,
}

/// Serve the HTTP API for programs, Label Studio and CVAT
///
/// Registers classes and labels images over HTTP. The address with the token is printed at the start; /docs describes the
/// API. Packs are files of one folder.
#[derive(Args)]
#[command(after_help = "Examples:\n  protoseg serve --packs packs\n  \
    protoseg serve --address 0.0.0.0 --allow-host segment.lan --token LONG-SECRET-TOKEN")]
pub struct Serve {
    /// Folder of class packs; made if it does not exist
    #[arg(long, value_name = "DIR", default_value = "packs")]
    pub packs: PathBuf,
    /// Pack that Label Studio and CVAT use and teach
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub pack: String,
    /// Folder of the images that Label Studio's tasks name
    #[arg(long, value_name = "DIR")]
    pub images: Option<PathBuf>,
    /// Model file [default: the model in the box]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// Answer programs on this machine without a token
    #[arg(long, conflicts_with = "token")]
    pub no_token: bool,
    #[command(flatten)]
    pub listen: Listen,
    /// Device to run on: cpu, cuda:0, ...
    #[arg(long, default_value = "cpu", env = "PROTOSEG_DEVICE")]
    pub device: String,
}

/// Where a server listens.
#[derive(Args)]
pub struct Listen {
    /// Port to listen on; 0 for any free one
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Address to listen on; any address but loopback needs --token and --allow-host
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub address: std::net::IpAddr,
    /// Name that the server may be called by, such as `studio.lan`; may be given several times
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Token that requests must show, at least 16 characters [default: a random one, printed at the start]
    #[arg(long, value_name = "TOKEN", env = "PROTOSEG_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
}

/// Make the confidences of a trained model mean what they say
///
/// A temperature is found on training images of the model's base classes, so that pixels with a confidence of 80 % are
/// right 80 % of the time there. Labels stay as they are. `protoseg new --data` does this by itself.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    protoseg calibrate runs/mine/best.safetensors --data my-photos -o mine.safetensors\n  \
    protoseg predict --model mine.safetensors photos -o out --precision 0.95")]
pub struct Calibrate {
    /// Model to calibrate
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Data set that the model was trained on: a folder, a .toml file or a benchmark's name
    #[arg(long, value_name = "DIR|NAME|TOML")]
    pub data: String,
    /// Folder of the benchmark, if --data is a benchmark's name
    #[arg(long, value_name = "DIR", env = "PROTOSEG_ROOT")]
    pub root: Option<PathBuf>,
    /// Model file to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Make a model from an encoder alone, without training
///
/// Features are the encoder's last maps, as ImageNet taught them. Without --data the model knows no class but a
/// background: photos of anything (--background) show it what the rest of the world looks like. With --data, one pass
/// over a labelled data set makes its classes the model's base classes. New classes are then taught with `protoseg
/// register`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    protoseg new --data my-photos -o mine.safetensors\n  \
    protoseg new --data msrc --root DIR --fold 0 -o msrc0.safetensors\n  \
    protoseg new --encoder mobilenet_v2.pth --background photos -o mobile.safetensors\n  \
    protoseg new --encoder resnet50 --data my-photos -o resnet.safetensors")]
pub struct New {
    /// File of encoder weights: of DINOv2, torchvision, EfficientNet-Lite, ...; or a name of `protoseg weights list`, such
    /// as `dinov2-small` or `efficientnet-lite0`, the encoder in the box [default: efficientnet-lite0]
    #[arg(long, value_name = "FILE|NAME")]
    pub encoder: Option<PathBuf>,
    /// Do not download weights that --encoder names
    #[arg(long)]
    pub offline: bool,
    /// Labelled data set whose classes become base classes: a folder, a .toml file or a benchmark's name
    #[arg(long, value_name = "DIR|NAME|TOML")]
    pub data: Option<String>,
    /// Folder of the benchmark, if --data is a benchmark's name
    #[arg(long, value_name = "DIR", env = "PROTOSEG_ROOT")]
    pub root: Option<PathBuf>,
    /// Fold whose novel classes are left out
    #[arg(long, value_name = "N", default_value_t = 0, requires = "data")]
    pub fold: usize,
    /// What happens to pixels of novel classes: drop, ignore or background [default: the data set's rule]
    #[arg(long, value_name = "RULE", requires = "data")]
    pub novel_pixels: Option<String>,
    /// Also train a head on the features, for minutes; the answer is then the product of both
    #[arg(long, requires = "data")]
    pub head: bool,
    /// Training steps of the head
    #[arg(long, value_name = "N", default_value_t = 700, value_parser = clap::value_parser!(u32).range(1..), requires = "head")]
    pub steps: u32,
    /// Random seed of the head's training
    #[arg(long, default_value_t = 321, requires = "head")]
    pub seed: u64,
    /// Labelled photos whose background becomes the model's background, without --data [default: built-in scenes]
    #[arg(long, value_name = "DIR|NAME|TOML", conflicts_with = "data")]
    pub background: Vec<String>,
    /// Number of prototypes of the background [default: 32 with --data, else 512]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub background_rows: Option<u32>,
    /// Longer side that images are resized to [default: 480]
    #[arg(long, value_name = "PX", value_parser = clap::value_parser!(u32).range(32..=2048))]
    pub size: Option<u32>,
    /// Store 16 bits per weight: half the size
    #[arg(long)]
    pub half: bool,
    /// Store only what differs from the model in the box, for models that become part of the program
    #[arg(long, hide = true, conflicts_with_all = ["half", "encoder"])]
    pub beside_builtin: bool,
    /// Model file to write
    #[arg(short, long, value_name = "MODEL")]
    pub output: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Teach a model new classes from a few labelled images each, and save them as a class pack
///
/// Each class needs at least one support: an image and a mask. A mask is a PNG of the same size. It is black with the
/// class in white or any other single colour, or it holds ids (gray or palette), one of which is the class. Soft edges
/// are cut at half. The other pixels count as unlabelled. If a mask also labels the model's own classes (`base_labels`
/// in a --supports file), the supports refine those classes too (SCE).
///
/// A cut-out (an image with transparent parts) needs no mask. A box (IMAGE:box=LEFT,TOP,WIDTH,HEIGHT, in pixels) or a
/// scribble over a part of the class (IMAGE:scribble=MASK) is a weak mask: quick to make, but it teaches less.
///
/// Paths may contain commas and colons: --class is split where the parts are existing files.
///
/// Beside the pack a picture is written, PACK.png: each support with its mask, and with what the other supports of the
/// class find in it.
///
/// A class pack is a small file. If it exists already, the classes are added to it. Classes can be added, removed and
/// merged in any order; the result is the same as registering all of them at once.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    protoseg register --model model.safetensors --class duck=a.jpg:a_mask.png,b.jpg:b_mask.png -o my.pack\n  \
    protoseg register --model model.safetensors --class duck=photos/duck --class swan=swans.txt -o my.pack\n  \
    protoseg register --model model.safetensors --class duck=cutout.png,c.jpg:box=40,25,120,90 --add -o my.pack\n  \
    protoseg register --model model.safetensors --class cow=cows --refine -o my.pack\n  \
    protoseg register --model model.safetensors --data labelme-folder -o my.pack\n  \
    protoseg register --model model.safetensors --supports supports.json -o my.pack\n  \
    protoseg register --model model.safetensors --coco instances.json --images photos -o my.pack\n  \
    protoseg register --model model.safetensors --data msrc --root DIR --fold 0 --shots 5 --seed 123 -o my.pack\n  \
    protoseg register --model model.safetensors --data msrc --root DIR --supports list.json -o my.pack")]
pub struct Register {
    /// Model file [default: the model in the box]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// A class and its supports: IMAGE:MASK, a cut-out, IMAGE:box=X,Y,W,H, IMAGE:scribble=MASK, a folder of images and
    /// masks, or a .txt list with one pair per line
    #[arg(long, value_name = "NAME=PATHS", num_args = 1.., help_heading = "Supports")]
    pub class: Vec<String>,
    /// A JSON array of {"class", "image", "mask", "value", "base_labels"}; the last two are optional, and `mask` may be
    /// `box` or `scribble` instead. With --data: a list written by `protoseg data supports`
    #[arg(long, value_name = "JSON", help_heading = "Supports")]
    pub supports: Option<PathBuf>,
    /// A COCO instances JSON; every category that the model does not know becomes a class
    #[arg(long, value_name = "JSON", help_heading = "Supports")]
    pub coco: Option<PathBuf>,
    /// Folder of the COCO images [default: the folder of the JSON]
    #[arg(long, value_name = "DIR", requires = "coco", help_heading = "Supports")]
    pub images: Option<PathBuf>,
    /// Data set whose training images the supports are drawn from: a folder (LabelMe, YOLO, CVAT, COCO, ...), a .toml
    /// file or a benchmark's name
    #[arg(long, value_name = "DIR|NAME|TOML", conflicts_with_all = ["class", "coco"], help_heading = "Supports")]
    pub data: Option<String>,
    /// Folder of the benchmark, if --data is a benchmark's name
    #[arg(long, value_name = "DIR", env = "PROTOSEG_ROOT", help_heading = "Supports")]
    pub root: Option<PathBuf>,
    /// Register the novel classes of this fold; in a data set without folds, all classes that the model does not know
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Supports")]
    pub fold: usize,
    /// Number of support images per class with --data; the maximum with --coco or without folds [default: 1; without
    /// folds 10; with --coco all]
    #[arg(long, value_name = "K", help_heading = "Supports")]
    pub shots: Option<usize>,
    /// Random seed for drawing supports
    #[arg(long, default_value_t = 123, help_heading = "Supports")]
    pub seed: u64,
    /// Minimum number of pixels of its class that a drawn support must have [default: the benchmark's rule; 1 without
    /// folds]
    #[arg(long, value_name = "N", help_heading = "Supports")]
    pub min_pixels: Option<u64>,
    /// Find the thing under each scribble first, and learn from all of it
    #[arg(long, help_heading = "Supports")]
    pub clean_strokes: bool,
    /// What the pixels outside a mask are: `background` or `ignore` (unknown) [default: `background` for a model
    /// without base classes, else `ignore`]
    #[arg(long, value_name = "WHAT", help_heading = "Supports")]
    pub rest: Option<String>,
    /// Class pack to create or to add to
    #[arg(short, long, value_name = "PACK")]
    pub output: PathBuf,
    /// Give classes that are already in the pack these supports in addition to their own
    #[arg(long, conflicts_with = "force")]
    pub add: bool,
    /// Replace classes that are already in the pack
    #[arg(long)]
    pub force: bool,
    /// Take supports of the model's own classes too (--class, --supports): they refine what it knows of them
    #[arg(long)]
    pub refine: bool,
    #[command(flatten)]
    pub usage: Usage,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// How a model is used, and where.
#[derive(Args)]
pub struct Usage {
    #[command(flatten)]
    pub method: MethodFlags,
    /// Device to run on: cpu, cuda:0, ...
    #[arg(long, default_value = "cpu", env = "PROTOSEG_DEVICE", help_heading = "Method")]
    pub device: String,
}

/// Which parts of the method act.
#[derive(Args, Default)]
pub struct MethodFlags {
    /// Which variant of the method to use: `reference`, `paper` or `balanced` (docs/method.md) [default: as trained]
    #[arg(long, value_name = "NAME", help_heading = "Method")]
    pub preset: Option<String>,
    /// Keep the base classes as they were trained; do not refine them with the supports (SCE)
    #[arg(long, help_heading = "Method")]
    pub no_sce: bool,
    /// Do not adapt the base classes to each image (DQCE)
    #[arg(long, help_heading = "Method")]
    pub no_dqce: bool,
}

/// List, inspect and edit the classes in a pack
///
/// Every change is written completely or not at all.
#[derive(Subcommand)]
pub enum Classes {
    /// List the classes and their supports
    List {
        /// Class pack
        #[arg(value_name = "PACK")]
        pack: PathBuf,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show everything that a pack stores about a class
    Show {
        /// Class pack
        #[arg(value_name = "PACK")]
        pack: PathBuf,
        /// Name of the class
        name: String,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Rename a class
    Rename {
        /// Class pack
        #[arg(value_name = "PACK")]
        pack: PathBuf,
        /// Current name
        name: String,
        /// New name
        new: String,
    },
    /// Remove classes from the pack
    Remove {
        /// Class pack
        #[arg(value_name = "PACK")]
        pack: PathBuf,
        /// Names of the classes
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Merge several packs of the same model into a new one
    Merge {
        /// Packs to merge
        #[arg(value_name = "PACK", required = true, num_args = 2..)]
        packs: Vec<PathBuf>,
        /// Pack to write
        #[arg(short, long, value_name = "PACK")]
        output: PathBuf,
        /// Overwrite the pack if it exists
        #[arg(long)]
        force: bool,
    },
    /// Choose the colour of a class in overlays and palette masks
    Recolor {
        /// Class pack
        #[arg(value_name = "PACK")]
        pack: PathBuf,
        /// Name of the class
        name: String,
        /// New colour as #rrggbb or r,g,b
        color: String,
    },
}

/// Segment images: label every pixel with a class of the model or of the pack
///
/// All outputs have the size of their image. Files that cannot be read are listed at the end, and the exit code is
/// then 1; all other images are still processed. Open index.html in the output folder to look at the results.
///
/// Ctrl-C finishes the images in work. `--resume` goes on with the others.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    protoseg predict --model model.safetensors --pack my.pack photos -o out\n  \
    protoseg predict --model model.safetensors a.jpg b.jpg -o out --write index,palette,coco --json\n  \
    protoseg predict --model model.safetensors 'photos/**/*.jpg' -o out --resume\n  \
    find photos -name '*.jpg' | protoseg predict --model model.safetensors - -o out\n  \
    protoseg predict --model model.safetensors aerial.tif -o out --tile --abstain 0.4\n  \
    protoseg predict --pack my.pack photos -o part2 --shard 2/8\n  \
    protoseg predict --pack my.pack --merge part1 part2 -o out")]
pub struct Predict {
    /// Model file [default: the model in the box]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// Class pack with additional classes
    #[arg(long, value_name = "PACK")]
    pub pack: Option<PathBuf>,
    /// Images, folders of images, quoted patterns ('photos/*.jpg'), .txt lists with one image per line, or - for a list
    /// on stdin. Results of earlier runs in a folder are left out
    #[arg(value_name = "IMAGES|DIR|PATTERN|LIST", required_unless_present = "merge")]
    pub inputs: Vec<PathBuf>,
    /// Output folder; it gets one subfolder per kind of output
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// What to write: index (gray PNG of class ids), palette (the same in colour), overlay (with a legend),
    /// confidence, probability (one PNG per class), coco (one JSON file with RLE masks), gallery (index.html with
    /// thumbnails)
    #[arg(long, value_name = "KINDS", value_delimiter = ',', default_value = "index,overlay,gallery")]
    pub write: Vec<String>,
    /// Also write the scores [classes, height, width] on the network's canvas to this file; only for a single image
    #[arg(long, value_name = "SAFETENSORS")]
    pub logits: Option<PathBuf>,
    /// Cut large images into tiles of the network's size instead of scaling them down
    #[arg(long)]
    pub tile: bool,
    /// Overlap of neighbouring tiles, as a share of their side
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, requires = "tile")]
    pub overlap: f64,
    /// Look at every image a second time, mirrored and a third larger, and take the mean of both, for about three times the
    /// work: about a point of mIoU better on MSRC-21, and worse on VOC-animals (docs/results.md)
    #[arg(long, conflicts_with = "tile")]
    pub second_look: bool,
    /// Leave pixels with a confidence below P unlabelled (255); from 0 to 1
    #[arg(long, value_name = "P")]
    pub abstain: Option<f64>,
    /// Leave unsure pixels unlabelled (255), so that about this share of the others is right; from 0 to 1. The model must
    /// be calibrated (`protoseg calibrate`)
    #[arg(long, value_name = "P", conflicts_with = "abstain")]
    pub precision: Option<f64>,
    /// Multiply in 16 bits (bfloat16) where the CPU does that faster (AMX, or AVX-512 BF16). A few pixels in ten thousand
    /// get another class
    #[arg(long)]
    pub fast: bool,
    #[command(flatten)]
    pub usage: Usage,
    /// Predict part I of N of the images, such as 2/8: every N-th by name. Give every machine the same images and a
    /// folder of its own
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,
    /// Predict nothing: copy the results of these folders into one. They must come from the same model, pack and options
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["inputs", "shard", "resume", "logits"])]
    pub merge: Vec<PathBuf>,
    /// Go on with an earlier run of the same command: skip images whose results are complete
    #[arg(long)]
    pub resume: bool,
    /// Replace the results of an earlier run. The files that it wrote are deleted first, and no others
    #[arg(long, conflicts_with = "resume")]
    pub force: bool,
    /// Print where the time goes
    #[arg(long)]
    pub timings: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Evaluate a model on a data set: base, novel and total mIoU under a published protocol
///
/// For every seed, supports are drawn from the training images, and the images of the other split are segmented and
/// scored. Features are computed only once for all seeds, shots and variants. Writes results.json, results.csv,
/// results.md, results.tex (tables for a paper) and report.html (pictures and tables).
///
/// If several models are given, each trained on a different fold, the mean over folds is written too: folds.json,
/// folds.md and folds.tex.
///
/// With --pack, or on a data set without novel classes, the model and the pack are scored as they are. Writes
/// results.json, results.csv, results.md and report.html.
///
/// A model without base classes is taught every class of the data set by itself, and scored on all images, whether they
/// show it or not. Writes results.json and results.md.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    protoseg eval --model runs/scenes-small-capl-fold0/best.safetensors --data scenes\n  \
    protoseg eval --model msrc.safetensors --data msrc --root DIR --shots 1,5 --preset balanced,reference -o results/msrc\n  \
    protoseg eval --model msrc.safetensors --data msrc --root DIR --shots 5 --supports list.json\n  \
    protoseg eval --model fold0.safetensors,fold1.safetensors --data msrc --root DIR -o results/msrc-folds\n  \
    protoseg eval --pack my.pack --data my-photos\n  \
    protoseg eval --data msrc --root DIR --classes cow,car --shots 1,5")]
pub struct Eval {
    /// Model file; several models are evaluated one after another, each into its own folder [default: the model in the
    /// box]
    #[arg(long, value_name = "MODEL", value_delimiter = ',')]
    pub model: Vec<PathBuf>,
    /// Score the classes of this pack, and the model's own, on all labelled photos of the data set; folds and draws play
    /// no part
    #[arg(long, value_name = "PACK", conflicts_with_all = ["fold", "seeds", "supports"])]
    pub pack: Option<PathBuf>,
    /// For a model without base classes: teach only these classes of the data set, one at a time [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub classes: Vec<String>,
    /// Data set: a folder, a .toml file, or a benchmark's name (scenes, pascal-5i, coco-20i, coco-20i-contiguous,
    /// msrc)
    #[arg(long, value_name = "DIR|NAME|TOML")]
    pub data: String,
    /// Folder of the benchmark, if --data is a benchmark's name
    #[arg(long, value_name = "DIR", env = "PROTOSEG_ROOT")]
    pub root: Option<PathBuf>,
    /// Fold whose novel classes are registered [default: the fold that the model was trained on]
    #[arg(long)]
    pub fold: Option<usize>,
    /// Number of support images per class; several values are evaluated separately
    #[arg(long, value_name = "K", value_delimiter = ',', default_value = "1,5")]
    pub shots: Vec<usize>,
    /// Random seeds for drawing supports; results are means over them
    #[arg(long, value_name = "SEEDS", value_delimiter = ',', default_value = "123,321,456,654,999")]
    pub seeds: Vec<u64>,
    /// Use the supports in this list, written by `protoseg data supports`, instead of drawing them
    #[arg(long, value_name = "JSON", conflicts_with_all = ["seeds", "min_pixels"])]
    pub supports: Option<PathBuf>,
    /// Evaluation protocol: exact (ours), reference (A, the paper's) or b (docs/protocols.md)
    #[arg(long, default_value = "exact")]
    pub protocol: String,
    /// Which parts of the method to use: baseline (neither), sce, dqce or capl (both); of a model from an encoder alone:
    /// cosine, whitened, head or product, each with +prior for the image prior [default: all, and the model's own use]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub variants: Vec<String>,
    /// Presets of the method to evaluate: `reference`, `paper`, `balanced`; one row each [default: as trained]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub preset: Vec<String>,
    /// Minimum number of pixels of its class that a drawn support must have [default: the benchmark's rule]
    #[arg(long, value_name = "N")]
    pub min_pixels: Option<u64>,
    /// Longer side that images are resized to [default: the model's]
    #[arg(long, value_name = "PX", value_parser = clap::value_parser!(u32).range(8..=8192))]
    pub size: Option<u32>,
    /// Look at every image a second time, mirrored and a third larger, and take the mean of both, for about three times the
    /// work: about a point of mIoU better on MSRC-21, and worse on VOC-animals (docs/results.md)
    #[arg(long)]
    pub second_look: bool,
    /// Evaluate at most N images, evenly spaced; for a quick look, not for results
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Evaluate the images of one part only, such as `2/8`, on one of several machines; `--merge` adds the parts up
    #[arg(long, value_name = "I/N", conflicts_with = "pack")]
    pub shard: Option<String>,
    /// Add up what all parts in these folders have counted, with the options that made them; nothing is evaluated
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["shard", "pack"])]
    pub merge: Vec<PathBuf>,
    /// Device to run on: cpu, cuda:0, ...
    #[arg(long, default_value = "cpu", env = "PROTOSEG_DEVICE")]
    pub device: String,
    /// Output folder; each of several models gets a folder inside it [default: results/ followed by the names of data
    /// set and fold; for the mean over folds, results/ followed by the data set's name and -folds]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Overwrite existing results in the folder
    #[arg(long)]
    pub force: bool,
    /// Print the results as JSON instead of tables: one object, or for several models an array, or an object with the
    /// array and the mean over folds
    #[arg(long)]
    pub json: bool,
}

/// Evaluate a few-shot model on episodes: class mIoU and FB-IoU in a published style
///
/// An episode asks for one novel class in one query image, given a few supports of that class. Queries and supports
/// come from the evaluation split. What the style's paper prescribes is the default: the number of episodes and runs,
/// the seeds, and how images are resized and scored. Every episode is answered at all numbers of shots.
///
/// The episodes can be saved as a list and replayed, here or by other programs (docs/protocols.md).
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    protoseg episodes --model pfenet.safetensors --data pascal-5i --root DIR --fold 0 --style pfenet -o results/pfenet\n  \
    protoseg episodes --model hsnet.safetensors --data scenes --style hsnet --shots 1,5 --save-list episodes.json\n  \
    protoseg episodes --model panet.safetensors --data scenes --list episodes.json --json")]
pub struct Episodes {
    /// Model file of a few-shot method
    #[arg(long, value_name = "MODEL")]
    pub model: PathBuf,
    /// Data set: a folder, a .toml file, or a benchmark's name (scenes, pascal-5i, coco-20i, coco-20i-contiguous,
    /// msrc)
    #[arg(long, value_name = "DIR|NAME|TOML")]
    pub data: String,
    /// Folder of the benchmark, if --data is a benchmark's name
    #[arg(long, value_name = "DIR", env = "PROTOSEG_ROOT")]
    pub root: Option<PathBuf>,
    /// Fold whose novel classes are asked for [default: that of the list, or the fold that the model was trained on]
    #[arg(long)]
    pub fold: Option<usize>,
    /// How episodes are drawn and scored: pfenet, hsnet or panet (docs/protocols.md) [default: that of the list, or
    /// pfenet]
    #[arg(long)]
    pub style: Option<String>,
    /// Number of supports per episode; several values are evaluated on the same episodes [default: that of the list,
    /// or 1,5]
    #[arg(long, value_name = "K", value_delimiter = ',')]
    pub shots: Vec<usize>,
    /// Number of episodes per run [default: the style's]
    #[arg(long, value_name = "N", help_heading = "Drawing")]
    pub episodes: Option<usize>,
    /// Number of runs; results are means over them [default: the style's]
    #[arg(long, value_name = "N", help_heading = "Drawing")]
    pub runs: Option<usize>,
    /// Random seed of the first run; each further run takes the next number [default: the style's]
    #[arg(long, help_heading = "Drawing")]
    pub seed: Option<u64>,
    /// Minimum number of pixels of its class that an image of an episode must have [default: the style's]
    #[arg(long, value_name = "N", help_heading = "Drawing")]
    pub min_pixels: Option<u64>,
    /// Replay the episodes in this list instead of drawing them
    #[arg(long, value_name = "JSON", conflicts_with_all = ["episodes", "runs", "seed", "min_pixels"], help_heading = "Drawing")]
    pub list: Option<PathBuf>,
    /// Save the episodes as a list, before the first is answered
    #[arg(long, value_name = "JSON", help_heading = "Drawing")]
    pub save_list: Option<PathBuf>,
    /// Side of the square that images are resized to [default: the model's]
    #[arg(long, value_name = "PX", value_parser = clap::value_parser!(u32).range(8..=8192))]
    pub size: Option<u32>,
    /// Device to run on: cpu, cuda:0, ...
    #[arg(long, default_value = "cpu", env = "PROTOSEG_DEVICE")]
    pub device: String,
    /// Memory for features of images that later episodes need again, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    pub cache: usize,
    /// Also write results.json, results.csv, results.md, the episodes and a report with pictures into this folder
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
    /// Print the results as one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Print the results as CSV instead of tables, one line per run
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print the results as Markdown instead of tables
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub markdown: bool,
}

/// Make a whole table: train what is missing, evaluate it, and write the results
///
/// An experiment is a TOML file: models, the ways to use them, folds, shots and seeds. Those that come with the program
/// are the paper's tables (fs-in-gfs, enrichment, strategies, fs-seg) and ours (heads). A model, and every result, is
/// known by the hash of its plan: what is there is reused, what changed is made again, and tables share what they have
/// in common. A killed experiment goes on where it was, and ends in the same results (docs/experiments.md).
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    protoseg experiment\n  \
    protoseg experiment heads --data msrc --root DIR --dry-run\n  \
    protoseg experiment strategies --data msrc --root DIR --init resnet50.safetensors --folds 0 --epochs 4\n  \
    protoseg experiment mine.toml --data my-photos -o experiments/mine --only CAPL\n  \
    protoseg experiment heads --data msrc --root DIR -o part1 --shard 1/2\n  \
    protoseg experiment heads --data msrc --root DIR -o all --merge part1 part2")]
pub struct Experiment {
    /// Experiment: a name, or a .toml file; without one, the names are listed
    #[arg(value_name = "NAME|FILE.toml")]
    pub name: Option<String>,
    /// Data set: a folder, a .toml file, or a benchmark's name (scenes, pascal-5i, coco-20i, coco-20i-contiguous,
    /// msrc)
    #[arg(long, value_name = "DIR|NAME|TOML")]
    pub data: Option<String>,
    /// Folder of the benchmark, if --data is a benchmark's name
    #[arg(long, value_name = "DIR", env = "PROTOSEG_ROOT")]
    pub root: Option<PathBuf>,
    /// Weights that encoders start from: a file, or a name of `protoseg weights list`; MODEL=FILE or MODEL=NAME for one
    /// model of the experiment
    #[arg(long, value_name = "[MODEL=]FILE|NAME", num_args = 1..)]
    pub init: Vec<String>,
    /// Do not download weights that --init names
    #[arg(long)]
    pub offline: bool,
    /// Folder of models, results and tables, shared by all experiments on a data set [default: experiments/ followed by
    /// the data set's name]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Only these rows, by their names or those of their models
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Folds [default: those of the experiment, else all]
    #[arg(long, value_name = "N", value_delimiter = ',', help_heading = "Plan")]
    pub folds: Vec<usize>,
    /// Number of support images per class [default: those of the experiment]
    #[arg(long, value_name = "K", value_delimiter = ',', help_heading = "Plan")]
    pub shots: Vec<usize>,
    /// Random seeds for drawing supports [default: those of the experiment]
    #[arg(long, value_name = "SEEDS", value_delimiter = ',', help_heading = "Plan")]
    pub seeds: Vec<u64>,
    /// Random seeds for training; every model is trained once for each [default: those of the experiment]
    #[arg(long, value_name = "SEEDS", value_delimiter = ',', help_heading = "Plan")]
    pub training_seeds: Vec<u64>,
    /// Number of passes over the training images, whatever the recipes say
    #[arg(long, value_name = "N", help_heading = "Plan")]
    pub epochs: Option<usize>,
    /// Evaluation protocol: exact (ours), reference (A, the paper's) or b [default: that of the experiment]
    #[arg(long, help_heading = "Plan")]
    pub protocol: Option<String>,
    /// Evaluate at most N images, evenly spaced, or N episodes per run; for a quick look, not for results
    #[arg(long, value_name = "N", help_heading = "Plan")]
    pub limit: Option<usize>,
    /// Device to train and evaluate on: cpu, cuda:0, ...; several, separated by commas, share each training batch
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "cpu", env = "PROTOSEG_DEVICE")]
    pub device: Vec<String>,
    /// Folder for features of frozen encoders, or `none` [default: features/ in the output folder]
    #[arg(long, value_name = "DIR|none", env = "PROTOSEG_CACHE")]
    pub cache: Option<PathBuf>,
    /// Work on part I of N only; several machines can share an experiment
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,
    /// Train nothing: copy the results of these folders, and write the tables of everything that is there
    #[arg(long, value_name = "DIR", num_args = 0.., conflicts_with_all = ["shard", "dry_run"])]
    pub merge: Option<Vec<PathBuf>>,
    /// Print what would be made and what is there, then exit
    #[arg(long)]
    pub dry_run: bool,
    /// Print the experiment's file, to copy and change
    #[arg(long, requires = "name", conflicts_with_all = ["data", "dry_run", "merge"])]
    pub print: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Find one class in one image, given a few images that show it; nothing is registered
///
/// For models of few-shot methods. Masks of supports are read as by `protoseg register`: black with the class in
/// white or any other single colour, or ids, one of which is the class. The result is a mask of the same kind: a gray
/// PNG with the size of the query, 255 where the class is and 0 elsewhere.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    protoseg segment --model pfenet.safetensors --query lake.jpg --support a.jpg:a_mask.png b.jpg:b_mask.png -o lake_mask.png --overlay")]
pub struct Segment {
    /// Model file of a few-shot method
    #[arg(long, value_name = "MODEL")]
    pub model: PathBuf,
    /// Image to find the class in
    #[arg(long, value_name = "IMAGE")]
    pub query: PathBuf,
    /// Images that show the class, each with its mask; one per shot
    #[arg(long, value_name = "IMAGE:MASK", required = true, num_args = 1..)]
    pub support: Vec<String>,
    /// Name of the class in the overlay and in messages
    #[arg(long, value_name = "NAME", default_value = "class")]
    pub class: String,
    /// Side of the square that images are resized to [default: the model's]
    #[arg(long, value_name = "PX", value_parser = clap::value_parser!(u32).range(8..=8192))]
    pub size: Option<u32>,
    /// Mask to write
    #[arg(short, long, value_name = "PNG")]
    pub output: PathBuf,
    /// Also write the query with the class painted over it, as NAME_overlay.png beside the mask
    #[arg(long)]
    pub overlay: bool,
    /// Device to run on: cpu, cuda:0, ...
    #[arg(long, default_value = "cpu", env = "PROTOSEG_DEVICE")]
    pub device: String,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Write a model and its classes as an ONNX file, for other runtimes and languages
///
/// The file takes pictures as bytes on the network's canvas, `image` [batch, height, width, 3], and gives the class of
/// every pixel, `labels`, and the `scores` of all classes. Normalisation is in the file. Bringing a picture onto the
/// canvas is not: the file's metadata says how that is done (docs/export.md has it in Python).
///
/// With `--classes input` the rows of the classes are an input: a prototype is the mean of the output `features` over
/// the pixels of a class, so whoever runs the file can teach it classes. The rows of the model's own classes, and of the
/// pack's, are written to NAME.prototypes.safetensors beside it.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    protoseg export model.safetensors --pack my.pack -o model.onnx\n  \
    protoseg export --pack my.pack -o box.onnx\n  \
    protoseg export model.safetensors --classes input -o learner.onnx --sample sample.safetensors")]
pub struct Export {
    /// Model file [default: the model in the box]
    #[arg(value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// Class pack with additional classes
    #[arg(long, value_name = "PACK")]
    pub pack: Option<PathBuf>,
    /// ONNX file to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Where the classes are: `baked` into the file, or an `input` of it
    #[arg(long, value_name = "WHERE", default_value = "baked")]
    pub classes: String,
    /// Also give the maps that classes are compared with, as the output `features`; always with --classes input
    #[arg(long)]
    pub features: bool,
    /// Also write a picture on the canvas and our answer to it, to compare a runtime with: image, labels, scores
    #[arg(long, value_name = "SAFETENSORS")]
    pub sample: Option<PathBuf>,
    /// Run the file by another runtime (rten) and refuse to write it if the answer is not ours
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub method: MethodFlags,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Measure the speed of this machine: median times in milliseconds, and peak memory
///
/// Images and weights are random, so no files are needed. Uses all threads; set RAYON_NUM_THREADS to use fewer.
/// Timings vary from run to run: alternate the runs that you compare, as `benches/peers/speed.sh` does with other
/// software.
#[derive(Subcommand)]
#[command(after_help = "Examples:\n  protoseg bench inference --arch pspnet50 --size 473\n  \
    protoseg bench layers --arch deeplabv3-50 --json\n  protoseg bench train --size 161 --batch 6")]
pub enum Bench {
    /// Segment an image: features, scores, upsampling and the best class per pixel
    Inference {
        #[command(flatten)]
        what: BenchWhat,
        /// Total number of classes, most of them registered
        #[arg(long, value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u16).range(1..=60_000))]
        classes: u16,
        /// Number of timed runs
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
        runs: u16,
    },
    /// Run a training step: forward, losses, backward, SGD
    Train {
        #[command(flatten)]
        what: BenchWhat,
        /// Number of images per step
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=512))]
        batch: u16,
        /// Number of timed runs
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
        runs: u16,
    },
    /// Register supports: features and sums of each, the classifier of them all, and the whole registration with its check
    Register {
        #[command(flatten)]
        what: BenchWhat,
        /// Number of novel classes
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=10_000))]
        classes: u16,
        /// Number of support images per class
        #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1000))]
        shots: u16,
        /// Side of the square support images [default: the model's canvas]
        #[arg(long, value_name = "PX", value_parser = clap::value_parser!(u16).range(8..=4096))]
        image: Option<u16>,
    },
    /// Answer episodes with a few-shot system: encode the supports and the query, then answer
    ///
    /// Weights and images are noise. Each support's mask is a rectangle on a sixth of the image.
    Episodes {
        /// Few-shot system, such as pfenet or hsnet
        #[arg(long, value_name = "NAME", default_value = "pfenet")]
        method: String,
        /// Encoder of the system: resnet50, resnet101 or vgg16
        #[arg(long, value_name = "NAME", default_value = "resnet50")]
        backbone: String,
        /// Side of the square images
        #[arg(long, value_name = "PX", default_value_t = 473, value_parser = clap::value_parser!(u16).range(33..=4096))]
        size: u16,
        /// Number of supports per query
        #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
        shots: u16,
        /// Number of timed runs
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
        runs: u16,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Write the model with random weights that the others measure, to measure other software with it
    Model {
        /// Decoder and encoder, such as pspnet50, deeplabv3-101, fcn18 or project-vgg16
        #[arg(long, default_value = "pspnet50")]
        arch: String,
        /// Side of the square images
        #[arg(long, value_name = "PX", default_value_t = 473, value_parser = clap::value_parser!(u16).range(17..=4096))]
        size: u16,
        /// Model file to write
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        /// Overwrite the file if it exists
        #[arg(long)]
        force: bool,
    },
    /// Time every layer of encoder and decoder, and compare it with the machine's peak
    Layers {
        #[command(flatten)]
        what: BenchWhat,
        /// Number of timed runs
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
        runs: u16,
    },
}

/// What to measure.
#[derive(Args)]
pub struct BenchWhat {
    /// Decoder and encoder, such as pspnet50, deeplabv3-101, fcn18 or project-vgg16
    #[arg(long, default_value = "pspnet50")]
    pub arch: String,
    /// Side of the square images
    #[arg(long, value_name = "PX", default_value_t = 473, value_parser = clap::value_parser!(u16).range(17..=4096))]
    pub size: u16,
    /// Use the network and canvas of this model instead
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["arch", "size"])]
    pub model: Option<PathBuf>,
    /// Multiply in 16 bits where the CPU does that faster, as `predict --fast` does
    #[arg(long)]
    pub fast: bool,
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
    /// Shell that will run the script
    pub shell: clap_complete::Shell,
}

/// Train a model on the base classes of a data set, from a recipe or from flags
///
/// A recipe is a TOML file; recipes/ holds the paper's settings. Flags override the recipe. Settings given in neither
/// are those of the reference implementation.
///
/// With `--task fs-seg` the model learns to answer episodes: a query and a few supports of one class. Without a recipe,
/// the settings are those that its system was published with (recipes/fs-*.toml).
///
/// A run is saved in one folder: its plan, metrics, curves, sample pictures, checkpoints, and the models
/// `best.safetensors` and `last.safetensors`. Use `--resume` to continue an interrupted run. On the CPU it ends with
/// exactly the same weights as an uninterrupted run.
#[derive(Args)]
#[command(after_help = "Examples:\n  protoseg train recipes/scenes-small.toml\n  \
    protoseg train recipes/msrc-psp50.toml --root DIR --init resnet50.safetensors --method baseline --out runs/baseline\n  \
    protoseg train --data my-photos --arch pspnet50 --init resnet50.pth --epochs 30 --crop 321\n  \
    protoseg train --freeze encoder --data my-photos --out runs/head\n  \
    protoseg train --task fs-seg --method pfenet --data pascal-5i --root DIR --init resnet50_v2.pth\n  \
    protoseg train --resume runs/baseline")]
pub struct Train {
    /// Recipe, or the folder of a data set (as with --data); without a recipe, flags and the reference's settings apply
    #[arg(value_name = "CONFIG.toml|DIR")]
    pub config: Option<PathBuf>,
    /// Folder of the run [default: runs/ followed by the names of recipe or data set, method and fold]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Continue the interrupted run in this folder with its own settings; with a larger --epochs, also a finished one
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "out", "force", "dry_run"])]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub set: TrainFlags,
    /// Do not download weights that --init names
    #[arg(long)]
    pub offline: bool,
    /// Delete an existing run in the folder
    #[arg(long)]
    pub force: bool,
    /// Print the resolved settings as TOML, then exit without training
    #[arg(long)]
    pub dry_run: bool,
    /// Print plain lines instead of a dashboard; this is the default if stderr is not a terminal
    #[arg(long)]
    pub plain: bool,
    /// Print events as JSON lines on stdout instead of text
    #[arg(long)]
    pub json: bool,
}

/// Flags that override the recipe.
#[derive(Args)]
pub struct TrainFlags {
    /// Data set: a folder, a .toml file, or a benchmark's name (scenes, pascal-5i, coco-20i, coco-20i-contiguous,
    /// msrc)
    #[arg(long, value_name = "DIR|NAME|TOML", help_heading = "Data")]
    pub data: Option<String>,
    /// Folder of the benchmark, if --data is a benchmark's name
    #[arg(long, value_name = "DIR", env = "PROTOSEG_ROOT", help_heading = "Data")]
    pub root: Option<PathBuf>,
    /// Fold whose novel classes are kept out of training
    #[arg(long, help_heading = "Data")]
    pub fold: Option<usize>,
    /// What to do with pixels of novel classes: drop (leave out the image), ignore, or background
    #[arg(long, value_name = "RULE", help_heading = "Data")]
    pub novel_pixels: Option<String>,
    /// What to do with an unreadable image: stop the run, or skip it with a warning
    #[arg(long, value_name = "stop|skip", help_heading = "Data")]
    pub on_error: Option<String>,
    /// Side of the square training crops
    #[arg(long, value_name = "PX", help_heading = "Data")]
    pub crop: Option<usize>,
    /// Side of the square canvas that the trained model will predict on
    #[arg(long, value_name = "PX", help_heading = "Data")]
    pub size: Option<usize>,
    /// Decoder and encoder, such as pspnet50, deeplabv3-101, fcn18 or project-vgg16; with --task fs-seg the encoder
    /// alone, such as resnet50 or vgg16
    #[arg(long, help_heading = "Network")]
    pub arch: Option<String>,
    /// Initial weights of the encoder: a file (torchvision, semseg, VGG; .pth or .safetensors), a protoseg model, or a name
    /// of `protoseg weights list`
    #[arg(long, value_name = "FILE|NAME", env = "PROTOSEG_INIT", help_heading = "Network")]
    pub init: Option<PathBuf>,
    /// Keep the encoder's batch-norm as it is in --init
    #[arg(long, help_heading = "Network")]
    pub freeze_batch_norm: bool,
    /// Part that is not trained: `encoder`, from --init or from the model in the box. Base classes then come from one pass
    /// over the training images, and a head is trained on features that are computed once: minutes instead of hours
    #[arg(long, value_name = "encoder", help_heading = "Network")]
    pub freeze: Option<String>,
    /// Train only the last N layers of the encoder (blocks of a transformer); the others stay as they are in --init
    #[arg(long, value_name = "N", conflicts_with = "freeze", help_heading = "Network")]
    pub train_last: Option<usize>,
    /// What the model is for: gfs-seg (register novel classes, then predict) or fs-seg (answer episodes)
    #[arg(long, value_name = "gfs-seg|fs-seg", help_heading = "Method")]
    pub task: Option<String>,
    /// What to train: capl, baseline, baseline+, capl-tr, capl-te, sce-mlp, sce-cos, sce-cos-swapped, dqce-mlp,
    /// dqce-cos or dqce-cos-swapped; with --task fs-seg: panet, pfenet, canet, scl-pfenet, scl-canet, capl-panet,
    /// capl-pfenet, hsnet, asgnet, repri, cwt or mining
    #[arg(long, help_heading = "Method")]
    pub method: Option<String>,
    /// Which variant of the method to train: `reference`, `paper` or `balanced`
    #[arg(long, help_heading = "Method")]
    pub preset: Option<String>,
    /// Number of passes over the training images
    #[arg(long, help_heading = "Training")]
    pub epochs: Option<usize>,
    /// Number of images, or with --task fs-seg of episodes, per training step
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub batch: Option<usize>,
    /// Number of supports per training episode, with --task fs-seg
    #[arg(long, value_name = "K", help_heading = "Training")]
    pub shots: Option<usize>,
    /// Number of episodes per epoch, with --task fs-seg [default: one for each training image]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub episodes: Option<usize>,
    /// Process each batch in N parts, one after another, to save memory
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub accumulate: Option<usize>,
    /// Learning rate of the encoder at the first step
    #[arg(long, value_name = "RATE", help_heading = "Training")]
    pub lr: Option<f64>,
    /// Rate of each layer of the encoder, over that of the layer after it; 0.8 is usual for transformers [default: 1]
    #[arg(long, value_name = "FACTOR", help_heading = "Training")]
    pub layer_decay: Option<f64>,
    /// Recompute cheap layers in the backward pass instead of storing them, to save memory
    #[arg(long, help_heading = "Training")]
    pub gradient_checkpointing: bool,
    /// Random seed for the whole run
    #[arg(long, env = "PROTOSEG_SEED", help_heading = "Training")]
    pub seed: Option<u64>,
    /// Device to train on: cpu, cuda:0, ...; several, separated by commas, share each batch
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        env = "PROTOSEG_DEVICE",
        help_heading = "Training"
    )]
    pub device: Option<Vec<String>>,
    /// Images that the best model is chosen on: holdout (a part of the training images), a split's name, or none
    #[arg(long, value_name = "ON", help_heading = "Training")]
    pub validation: Option<String>,
    /// Number of steps between checkpoints; 0 saves one per epoch
    #[arg(long, value_name = "STEPS", help_heading = "Training")]
    pub checkpoint_every: Option<usize>,
}

/// Check, show and prepare data sets
///
/// A data set is a folder (VOC, COCO, YOLO, LabelMe, CVAT, images with masks, ...), a .toml file that describes one,
/// or the name of a benchmark: scenes (drawn by this program, no files), pascal-5i, coco-20i, coco-20i-contiguous,
/// msrc.
#[derive(Subcommand)]
pub enum Data {
    Check(Check),
    Show(Show),
    Draw(Draw),
    Supports(Supports),
    #[command(subcommand)]
    Prepare(Prepare),
}

/// Which data set.
#[derive(Args)]
pub struct Source {
    /// Data set: a folder, a .toml file, YOLO's data.yaml, or a benchmark's name
    #[arg(value_name = "DIR|NAME|TOML")]
    pub source: String,
    /// Folder of the benchmark, if it is given by name [default: a folder of this name in the working directory]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// Check every file, and report problems, contents and what each fold's rules keep
///
/// Problems come first, each with its file and how to fix it. If there are any, the exit code is 1.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  protoseg data check my-photos\n  protoseg data check msrc --root DIR --json"
)]
pub struct Check {
    #[command(flatten)]
    pub source: Source,
    /// Read only the labels; do not decode the images
    #[arg(long)]
    pub labels_only: bool,
    /// Also print how often classes occur in the same image
    #[arg(long)]
    pub co_occurrence: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Draw a contact sheet of images with their masks on top, their names and a legend
#[derive(Args)]
#[command(after_help = "Example:\n  protoseg data show scenes -o scenes.png")]
pub struct Show {
    #[command(flatten)]
    pub source: Source,
    /// PNG to write
    #[arg(short, long, value_name = "PNG", default_value = "sheet.png")]
    pub output: PathBuf,
    /// Split to draw from [default: the training split]
    #[arg(long)]
    pub split: Option<String>,
    /// Use only samples that hold this class
    #[arg(long, value_name = "NAME")]
    pub class: Option<String>,
    /// Number of samples
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: u32,
    /// Random seed for choosing samples
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Number of images per row
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub columns: u32,
    /// Side of each image's cell on the sheet, in pixels
    #[arg(long, value_name = "PX", default_value_t = 240, value_parser = clap::value_parser!(u32).range(16..=2048))]
    pub cell: u32,
    /// Overwrite the PNG if it exists
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Write scenes of the built-in world as pictures, to try things without photos
///
/// Draws DIR/scene-0001.png and so on, and their masks as DIR-masks/scene-0001.png, in which every class has its id.
#[derive(Args)]
#[command(after_help = "Examples:\n  protoseg data draw -o photos --count 40\n  protoseg studio photos")]
pub struct Draw {
    /// Folder to write to; masks go to a folder beside it
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Number of scenes
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub count: u32,
    /// Draw only scenes that hold one of these classes
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub class: Vec<String>,
    /// Width and height of a scene, in pixels
    #[arg(long, value_name = "PX", default_value_t = 320, value_parser = clap::value_parser!(u32).range(32..=2048))]
    pub size: u32,
    /// Random seed of the world
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Overwrite pictures that exist
    #[arg(long)]
    pub force: bool,
}

/// Draw supports for the novel classes of a fold and save them as a list
///
/// Supports are drawn by the reference's rule. The list is a JSON file with the names of the samples. It can be
/// replayed exactly with `--supports` in `protoseg register` and `protoseg eval`, edited, or written by hand.
#[derive(Args)]
#[command(
    after_help = "Example:\n  protoseg data supports msrc --root DIR --fold 0 --shots 5 --seed 123 -o supports.json"
)]
pub struct Supports {
    #[command(flatten)]
    pub source: Source,
    /// Fold whose novel classes get supports
    #[arg(long, default_value_t = 0)]
    pub fold: usize,
    /// Number of support images per class; a draw of fewer shots is the start of a draw of more
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub shots: usize,
    /// Random seed; the published ones are 123, 321, 456, 654 and 999
    #[arg(long, default_value_t = 123)]
    pub seed: u64,
    /// List to write; without it, the list is printed to stdout
    #[arg(short, long, value_name = "JSON")]
    pub output: Option<PathBuf>,
    /// Overwrite the list if it exists
    #[arg(long)]
    pub force: bool,
}

/// Build the lists and label maps of a benchmark from its original archives
#[derive(Subcommand)]
pub enum Prepare {
    /// Pascal VOC 2012 with SBD: 10,582 images for training, 1,449 for evaluation
    #[command(name = "pascal-5i")]
    Pascal {
        /// Folder with VOC 2012: `VOCdevkit`, `VOC2012` or its contents
        #[arg(long, value_name = "DIR")]
        voc: PathBuf,
        /// Folder with SBD: `benchmark_RELEASE`, `dataset` or its contents
        #[arg(long, value_name = "DIR")]
        sbd: PathBuf,
        #[command(flatten)]
        to: PrepareTo,
    },
    /// COCO's instances as one label map per image, 80 classes
    #[command(name = "coco-20i")]
    Coco {
        /// Folder with `annotations` and the images
        #[arg(long, value_name = "DIR")]
        coco: PathBuf,
        #[command(flatten)]
        to: PrepareTo,
    },
}

/// Where to write a prepared benchmark.
#[derive(Args)]
pub struct PrepareTo {
    /// Output folder [default: a folder with the benchmark's name in the working directory]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Prepare the benchmark again if the folder is already prepared
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Convert a published checkpoint into a model file
///
/// Reads checkpoints of the GFS-Seg reference implementation, whose classes must be named, and of published few-shot
/// systems (PANet, PFENet, CANet, SCL, CAPL, HSNet, ASGNet, RePRI, CWT, Mining), which are recognised by their keys.
///
/// Reads .pth (zip or legacy) and .safetensors; nothing in the file is executed. Depth, stem and sizes are detected
/// from the checkpoint. The model file holds weights, class names and preprocessing: it is all that prediction needs.
#[derive(Args)]
#[command(
    after_help = "Example:\n  protoseg import train_epoch_50.pth --size 473 -o model.safetensors \\\n    \
    --base background,aeroplane,bicycle,bird --novel bus,car\n  \
    protoseg import pfenet_resnet50_split0.pth -o pfenet.safetensors"
)]
pub struct Import {
    /// Checkpoint to read
    #[arg(value_name = "CKPT")]
    pub checkpoint: PathBuf,
    /// Names of the base classes in the order of the classifier's rows; `background`, if present, must come first. Not
    /// for few-shot systems
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub base: Vec<String>,
    /// Names of the novel classes, whose rows follow the base classes
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub novel: Vec<String>,
    /// Side of the square canvas that images are resized to [default: 473, or as the few-shot system was published]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(8..=8192))]
    pub size: Option<u32>,
    /// Model file to write
    #[arg(short, long, value_name = "MODEL")]
    pub output: PathBuf,
    /// Overwrite the model file if it exists
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// List, download and check published weights of encoders, which have names
///
/// `protoseg new --encoder NAME` and `--init NAME` of `protoseg train` and `protoseg experiment` take these names. A file is
/// looked for in the folder PROTOSEG_WEIGHTS (default: ~/.cache/protoseg/weights), then in the cache of Hugging Face, and
/// downloaded if it is in neither (docs/weights.md).
#[derive(Args)]
#[command(
    after_help = "Examples:\n  protoseg weights list\n  protoseg weights pull dinov2-small resnet50\n  \
    protoseg new --encoder \"$(protoseg weights path resnet50)\" -o resnet.safetensors\n  protoseg weights verify"
)]
pub struct Weights {
    #[command(subcommand)]
    pub command: WeightsCommand,
    /// Download nothing; HF_HUB_OFFLINE=1 says the same
    #[arg(long, global = true)]
    pub offline: bool,
}

#[derive(Subcommand)]
pub enum WeightsCommand {
    /// List all names with licence, size, where the file is and where it is from
    List {
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Download weights that are not on this machine
    Pull {
        /// Names of weights
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        /// Download also what is here, and replace it
        #[arg(long)]
        force: bool,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Print where a file of weights is; if it is not here, the exit code is 1
    Path {
        /// Name of the weights
        name: String,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Compare files that were downloaded with their checksums
    Verify {
        /// Names of weights [default: all that were downloaded]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
}

/// Show what a model file holds (architecture, classes, parameters, cost, preprocessing), or the classes in a pack
#[derive(Args)]
pub struct Info {
    /// Model file or class pack
    #[arg(value_name = "MODEL|PACK")]
    pub model: PathBuf,
    /// Side of the square input for which the cost is counted [default: the model's]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(8..=8192))]
    pub size: Option<u32>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
