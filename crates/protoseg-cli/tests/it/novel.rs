//! Registering classes, changing packs, predicting and evaluating, start to end, with a tiny model of random weights.
//! What it predicts is of no worth, but it is the same for the same classes.

use std::{fs, ops::Deref, path::Path};

use protoseg::{
    config::NetworkConfig,
    core::{Classes, Image, Preprocess, RowMap},
    decoder::DecoderKind,
    device::cpu,
    encoder::{EncoderConfig, ResNetConfig},
    method::{
        Method,
        capl::{Ablation, Capl, Preset},
    },
    model::{Manifest, Model, Training},
};
use protoseg_data::{
    mask::{read_index_mask, write_index_mask},
    picture::{read_image, write_image},
};

use crate::run::Folder;

const SIZE: usize = 65;

/// A folder with a model, photos and masks in it.
pub struct Desk(Folder);

impl Deref for Desk {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.0
    }
}

impl Desk {
    pub fn new() -> Self {
        let desk = Self(Folder::new());
        save_model(&desk.path("model.safetensors"), 11);
        for (photo, (width, height)) in [(80, 60), (50, 90), (64, 64), (33, 21)].into_iter().enumerate() {
            let colour = |at: usize| {
                let (x, y) = (at % width, at / width);
                let inside = x * 3 > width && y * 2 > height;
                [40 * photo + x, 90 + y, if inside { 220 } else { 3 * (x ^ y) }].map(|value| value as u8)
            };
            let pixels = (0..width * height).flat_map(colour).collect();
            write_image(desk.path(&format!("photo{photo}.png")), &Image::new(width, height, pixels)).unwrap();
            let label = |at: usize| u16::from(at % width * 3 > width && at / width * 2 > height);
            let mask = RowMap::new(width, height, (0..width * height).map(label).collect());
            write_index_mask(&desk.path(&format!("mask{photo}.png")), &mask).unwrap();
        }
        desk
    }

    pub fn register(&self, classes: &str, pack: &str) {
        self.done(&format!("register --model model.safetensors {classes} -o {pack}"));
    }

    /// All index masks that a pack gives.
    fn masks(&self, pack: &str) -> Vec<Vec<u16>> {
        let out = format!("out-{pack}");
        let photos = "photo0.png photo1.png photo2.png photo3.png";
        self.done(&format!(
            "predict --model model.safetensors --pack {pack} {photos} -o {out} --write index --force"
        ));
        (0..4)
            .map(|photo| read_index_mask(&self.path(&format!("{out}/index/photo{photo}.png"))).unwrap().data)
            .collect()
    }
}

pub fn save_model(path: &Path, seed: u64) {
    save_trained(path, seed, Ablation::Capl);
}

fn save_trained(path: &Path, seed: u64, row: Ablation) {
    save_of_fold(path, seed, row, ["background", "cow", "grass"], None);
}

/// A model with these base classes, trained on this fold as it says.
fn save_of_fold(path: &Path, seed: u64, row: Ablation, base: [&str; 3], fold: Option<usize>) {
    let device = cpu();
    device.seed(seed);
    let encoder = EncoderConfig::ResNet(ResNetConfig { width: 0.125, ..ResNetConfig::new(10) });
    let network = NetworkConfig { encoder, decoder: DecoderKind::Fcn, dim: 16, ..NetworkConfig::pspnet(10) };
    let manifest = Manifest {
        format: Manifest::FORMAT,
        network,
        classes: Classes::new(&base, &[]).unwrap(),
        method: Method::Capl(Capl::new(row, Preset::Reference.options(), 3, false)),
        preprocess: Preprocess::imagenet(SIZE),
        training: Training {
            origin: "random weights".to_string(),
            fold,
            seed: Some(seed),
            ..Training::default()
        },
    };
    Model::random(manifest, &device).unwrap().save(path).unwrap();
}

const DUCK: &str = "--class duck=photo0.png:mask0.png,photo1.png:mask1.png";
const SWAN: &str = "--class swan=photo2.png:mask2.png";
const BOAT: &str = "--class boat=photo1.png:mask1.png";

#[test]
fn classes_added_in_any_order_give_the_same_pack() {
    let desk = Desk::new();
    desk.register(&format!("{DUCK} {SWAN} {BOAT}"), "all.pack");
    let masks = desk.masks("all.pack");
    assert!(masks.iter().flatten().any(|&label| label >= 3), "some pixel has a novel class");
    let bytes = |pack: &str| fs::read(desk.path(pack)).unwrap();

    desk.register(SWAN, "one.pack");
    desk.register(BOAT, "one.pack");
    desk.register("--class duck=photo1.png:mask1.png,photo0.png:mask0.png", "one.pack");
    assert_eq!(bytes("one.pack"), bytes("all.pack"), "one by one");

    desk.done("classes remove one.pack boat swan");
    assert_ne!(desk.masks("one.pack"), masks, "fewer classes");
    desk.register(&format!("{BOAT} {SWAN}"), "one.pack");
    assert_eq!(bytes("one.pack"), bytes("all.pack"), "removed and added again");

    desk.register(DUCK, "a.pack");
    desk.register(&format!("{SWAN} {BOAT}"), "b.pack");
    desk.done("classes merge b.pack a.pack -o merged.pack");
    assert_eq!(bytes("merged.pack"), bytes("all.pack"), "merged");
    assert_eq!(desk.masks("merged.pack"), masks);

    desk.done("classes rename merged.pack duck drake");
    desk.done("classes rename merged.pack drake duck");
    assert_eq!(bytes("merged.pack"), bytes("all.pack"), "renamed and back");
}

#[test]
fn supports_in_every_form_are_the_same() {
    let desk = Desk::new();
    desk.register(SWAN, "pair.pack");
    let expected = fs::read(desk.path("pair.pack")).unwrap();
    fs::create_dir_all(desk.path("swan/images")).unwrap();
    fs::create_dir_all(desk.path("swan/masks")).unwrap();
    fs::copy(desk.path("photo2.png"), desk.path("swan/images/photo2.png")).unwrap();
    fs::copy(desk.path("mask2.png"), desk.path("swan/masks/photo2.png")).unwrap();
    fs::write(desk.path("swan.txt"), "photo2.png mask2.png\n").unwrap();
    fs::write(
        desk.path("swan.json"),
        r#"[{"class": "swan", "image": "photo2.png", "mask": "mask2.png", "value": 1}]"#,
    )
    .unwrap();
    let coco = r#"{"images": [{"id": 5, "file_name": "photo2.png", "width": 64, "height": 64}],
        "categories": [{"id": 9, "name": "swan"}],
        "annotations": [{"id": 1, "image_id": 5, "category_id": 9, "iscrowd": 0,
            "segmentation": [[22, 33, 64, 33, 64, 64, 22, 64]]}]}"#;
    fs::write(desk.path("coco.json"), coco).unwrap();
    let forms = [
        "--class swan=photo2.png mask2.png",
        "--class swan=swan",
        "--class swan=swan.txt",
        "--supports swan.json",
        "--coco coco.json",
    ];
    for (form, pack) in forms.iter().zip(["a.pack", "b.pack", "c.pack", "d.pack", "e.pack"]) {
        desk.register(form, pack);
        assert!(fs::read(desk.path(pack)).unwrap() == expected, "{form}");
    }
}

#[test]
fn base_labels_feed_sce_and_no_sce_leaves_them() {
    let desk = Desk::new();
    let row = |at: usize| [2, 2, 7, 8][at / 1024];
    let label = RowMap::new(64, 64, (0..64 * 64).map(row).collect());
    write_index_mask(&desk.path("multi.png"), &label).unwrap();
    let json = r#"[{"class": "swan", "image": "photo2.png", "mask": "multi.png", "base_labels": true}]"#;
    fs::write(desk.path("swan.json"), json).unwrap();
    let refused = desk.refused("register --model model.safetensors --supports swan.json -o swan.pack");
    assert!(refused.contains("multi.png") && refused.contains("ids `7`, `8`"), "{refused}");
    let label = RowMap::new(64, 64, (0..64 * 64).map(|at| row(at).min(7)).collect());
    write_index_mask(&desk.path("multi.png"), &label).unwrap();
    fs::write(desk.path("swan.json"), json.replace("\"base_labels\"", "\"value\": 7, \"base_labels\""))
        .unwrap();
    desk.register("--supports swan.json", "swan.pack");
    assert!(desk.done("classes show swan.pack swan").contains('2'), "row 2 was seen");
    let predict = |more: &str, out: &str| {
        desk.done(&format!("predict --model model.safetensors --pack swan.pack photo0.png -o {out} --write none --logits {out}.safetensors {more}"));
        fs::read(desk.path(&format!("{out}.safetensors"))).unwrap()
    };
    assert_ne!(predict("", "with"), predict("--no-sce", "without"));
    assert_ne!(predict("--no-dqce", "plain"), predict("--preset balanced", "balanced"));
}

#[test]
fn every_kind_of_output_is_written_at_the_images_own_size() {
    let desk = Desk::new();
    desk.register(DUCK, "my.pack");
    desk.done("classes recolor my.pack duck #0a0b0c");
    fs::create_dir_all(desk.path("photos/inner")).unwrap();
    for (from, to) in [("photo0.png", "photos/a.png"), ("photo1.png", "photos/inner/b.png")] {
        fs::copy(desk.path(from), desk.path(to)).unwrap();
    }
    let answer = desk.done(
        "predict --model model.safetensors --pack my.pack photos -o out --json \
         --write index,palette,overlay,confidence,probability,coco",
    );
    let summary: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(summary["schema"], "protoseg.predict/1");
    assert_eq!(summary["classes"][3]["name"], "duck");
    assert_eq!(summary["classes"][3]["color"], "#0a0b0c");
    assert_eq!(summary["images"].as_array().unwrap().len(), 2);
    let areas = summary["images"][0]["classes"].as_array().unwrap();
    assert_eq!(areas.iter().map(|area| area["pixels"].as_u64().unwrap()).sum::<u64>(), 80 * 60);

    let index = read_index_mask(&desk.path("out/index/a.png")).unwrap();
    assert_eq!((index.width, index.height), (80, 60));
    assert_eq!(read_index_mask(&desk.path("out/palette/a.png")).unwrap(), index);
    let inner = read_index_mask(&desk.path("out/index/inner/b.png")).unwrap();
    assert_eq!((inner.width, inner.height), (50, 90));
    let overlay = read_image(desk.path("out/overlay/a.png")).unwrap();
    assert!(overlay.width >= 80 && overlay.height > 60);
    let confidence = read_index_mask(&desk.path("out/confidence/a.png")).unwrap();
    let duck = read_index_mask(&desk.path("out/probability/a/003-duck.png")).unwrap();
    for (at, _) in index.data.iter().enumerate().filter(|(_, label)| **label == 3) {
        assert_eq!(duck.data[at], confidence.data[at], "the probability of the label is its confidence");
    }

    let coco: serde_json::Value =
        serde_json::from_slice(&fs::read(desk.path("out/coco.json")).unwrap()).unwrap();
    assert_eq!(coco["images"][0]["width"], 80);
    assert!(coco["categories"].as_array().unwrap().iter().all(|category| category["name"] != "background"));
    let in_first = |annotation: &&serde_json::Value| annotation["image_id"] == 1;
    for annotation in coco["annotations"].as_array().unwrap().iter().filter(in_first) {
        let class = annotation["category_id"].as_u64().unwrap() as u16;
        let pixels = index.data.iter().filter(|&&label| label == class).count() as u64;
        assert_eq!(annotation["area"].as_u64().unwrap(), pixels);
    }
}

#[test]
fn tiles_abstention_and_logits() {
    let desk = Desk::new();
    desk.done("predict --model model.safetensors photo0.png -o tiled --tile --overlap 0.3 --write index");
    let tiled = read_index_mask(&desk.path("tiled/index/photo0.png")).unwrap();
    assert_eq!((tiled.width, tiled.height), (80, 60));
    desk.done("predict --model model.safetensors photo0.png -o sure --abstain 1 --write index");
    let sure = read_index_mask(&desk.path("sure/index/photo0.png")).unwrap();
    assert!(sure.data.iter().all(|&label| label == 255), "nothing is certain");
    desk.done("predict --model model.safetensors photo0.png -o out --logits logits.safetensors");
    let logits = protoseg::weights::TensorFile::open(&desk.path("logits.safetensors")).unwrap();
    assert_eq!(logits.shape("logits"), Some(&[3, SIZE, SIZE][..]));
    assert!(desk.refused("predict --model model.safetensors photo0.png -o out").contains("--force"));
}

#[test]
fn what_cannot_be_is_said_and_nothing_is_lost() {
    let desk = Desk::new();
    desk.register(DUCK, "my.pack");
    let before = fs::read(desk.path("my.pack")).unwrap();
    let says = |command: &str, words: &[&str]| {
        let error = desk.refused(command);
        for word in words {
            assert!(error.contains(word), "`protoseg {command}`: {error}");
        }
        assert_eq!(fs::read(desk.path("my.pack")).unwrap(), before, "`protoseg {command}` changed the pack");
    };
    let register = |class: &str| format!("register --model model.safetensors {class} -o my.pack");

    save_model(&desk.path("other.safetensors"), 12);
    let own = desk.done("classes list my.pack");
    let fingerprint = own.split_whitespace().last().unwrap().to_string();
    says(
        "predict --model other.safetensors --pack my.pack photo0.png -o x",
        &["my.pack", &fingerprint, "register"],
    );
    says("register --model other.safetensors --class swan=photo0.png:mask0.png -o my.pack", &[&fingerprint]);

    fs::write(desk.path("broken.png"), &fs::read(desk.path("photo0.png")).unwrap()[..200]).unwrap();
    says(&register("--class swan=broken.png:mask0.png"), &["broken.png", "hint"]);
    let empty = RowMap::new(80, 60, vec![0; 4800]);
    write_index_mask(&desk.path("empty.png"), &empty).unwrap();
    says(&register("--class swan=photo0.png:empty.png"), &["empty.png", "swan", "no pixel"]);
    says(&register("--class swan=photo1.png:mask0.png"), &["mask0.png", "photo1.png", "80 x 60"]);
    says(&register("--class duck=photo0.png:mask0.png"), &["duck", "already", "--force", "--add"]);
    says(&register("--class cow=photo0.png:mask0.png"), &["cow", "the model's own"]);
    says(
        &register("--class swan=photo0.png:mask0.png --class swan=photo1.png:mask1.png"),
        &["swan", "twice"],
    );
    says(&register("--data scenes --shots 0"), &["at least 1"]);
    says(&register("--class swan=nothing.jpg:mask0.png"), &["nothing.jpg", "does not exist"]);
    says(&register(""), &["no class is given"]);
    says("classes remove my.pack goose", &["goose", "duck"]);
    says("classes rename my.pack goose swan", &["goose"]);
    says("classes recolor my.pack duck red", &["red", "#ff8800"]);
    says("classes list photo0.png", &["photo0.png"]);
    says("classes list model.safetensors", &["model.safetensors", "not a class pack"]);
    says("predict --model model.safetensors photo0.png -o x --write mask", &["mask", "index"]);
    says("predict --model model.safetensors photo0.png -o x --preset best", &["best", "balanced"]);

    fs::write(desk.path("torn.pack"), &before[..before.len() - 40]).unwrap();
    says("classes list torn.pack", &["torn.pack"]);
}

/// The pack as an older version wrote it, with `cow` for `duck`.
fn make_old(desk: &Desk, pack: &str, old: &str) {
    let bytes = fs::read(desk.path(pack)).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let listing = &mut header["__metadata__"]["protoseg-pack"];
    let mut inner: serde_json::Value = serde_json::from_str(listing.as_str().unwrap()).unwrap();
    inner.as_object_mut().unwrap().remove("base").unwrap();
    inner["classes"][0]["name"] = "cow".into();
    *listing = inner.to_string().into();
    let header = header.to_string();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes[8 + length..]].concat();
    fs::write(desk.path(old), bytes).unwrap();
}

#[test]
fn no_class_of_a_pack_takes_the_name_of_a_base_class() {
    let desk = Desk::new();
    desk.register(DUCK, "my.pack");
    let error = desk.refused("classes rename my.pack duck cow");
    assert!(
        error.contains("`cow`") && error.contains("the model's own") && error.contains("hint:"),
        "{error}"
    );
    assert!(desk.done("classes list my.pack").contains("duck"), "nothing is lost");

    make_old(&desk, "my.pack", "old.pack");
    let error = desk.refused("predict --model model.safetensors --pack old.pack photo0.png -o out");
    assert!(error.contains("protoseg classes rename old.pack cow NEW-NAME"), "{error}");
    let error = desk.refused("classes merge my.pack old.pack -o both.pack");
    assert!(error.contains("old.pack") && error.contains("`cow`"), "{error}");
    desk.done("classes rename old.pack cow drake");
    desk.done("predict --model model.safetensors --pack old.pack photo0.png -o out");
}

#[test]
fn a_base_class_is_refined_where_that_is_asked_for() {
    let desk = Desk::new();
    let cow = "register --model model.safetensors --class cow=photo0.png:mask0.png,photo1.png:mask1.png";
    let error = desk.refused(&format!("{cow} -o my.pack"));
    assert!(error.contains("`cow` is one of the model's own") && error.contains("--refine"), "{error}");
    desk.register(DUCK, "my.pack");
    let logits = |name: &str| {
        desk.done(&format!(
            "predict --model model.safetensors --pack my.pack photo2.png -o out --force --logits {name}"
        ));
        fs::read(desk.path(name)).unwrap()
    };
    let before = logits("before.safetensors");
    desk.done(&format!("{cow} --refine -o my.pack"));
    assert!(desk.done("classes list my.pack").contains("cow (refined)"));
    let refined = logits("refined.safetensors");
    assert!(refined.len() == before.len(), "no class was added");
    assert!(refined != before, "the supports say something");
    desk.done("classes remove my.pack cow");
    assert!(logits("after.safetensors") == before, "and nothing is lost");
}

#[test]
fn info_shows_a_pack_too() {
    let desk = Desk::new();
    desk.register(DUCK, "my.pack");
    assert_eq!(desk.done("info my.pack"), desk.done("classes list my.pack"));
    assert!(desk.done("info my.pack --json").contains("protoseg.classes/1"));
    assert!(desk.refused("info photo0.png").contains("photo0.png"));
}

#[test]
fn a_bad_file_among_many_is_told_at_the_end() {
    let desk = Desk::new();
    fs::create_dir(desk.path("photos")).unwrap();
    for name in ["a.png", "b.png", "c.png"] {
        fs::copy(desk.path("photo0.png"), desk.path("photos").join(name)).unwrap();
    }
    fs::write(desk.path("photos/b.png"), b"no picture").unwrap();
    let answer = desk.run("predict --model model.safetensors photos -o out");
    assert_eq!(answer.code, 1);
    assert!(answer.stderr.contains("1 of 3") && answer.stderr.contains("b.png"), "{}", answer.stderr);
    assert!(desk.path("out/index/a.png").exists() && desk.path("out/index/c.png").exists());
    assert!(!desk.path("out/index/b.png").exists());
    let summary: serde_json::Value =
        serde_json::from_slice(&fs::read(desk.path("out/predictions.json")).unwrap()).unwrap();
    assert_eq!(summary["failed"], 1);
}

/// A full disk, as a limit on the size of files: every write of a byte fails.
#[test]
#[cfg(unix)]
fn a_full_disk_is_an_error_that_names_the_file_and_loses_nothing() {
    let desk = Desk::new();
    desk.register(DUCK, "my.pack");
    let before = fs::read(desk.path("my.pack")).unwrap();
    let count = || fs::read_dir(desk.path("")).unwrap().count();
    let files = count();
    let refused = |command: &str| {
        let script = "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"";
        let mut shell = std::process::Command::new("sh");
        shell.current_dir(desk.path("")).args(["-c", script, env!("CARGO_BIN_EXE_protoseg")]);
        let output = shell.args(command.split_whitespace()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "`protoseg {command}`");
        String::from_utf8(output.stderr).unwrap()
    };
    let error = refused("register --model model.safetensors --class swan=photo2.png:mask2.png -o my.pack");
    assert!(error.contains("my.pack"), "{error}");
    let error = refused("classes remove my.pack duck");
    assert!(error.contains("my.pack"), "{error}");
    assert_eq!(fs::read(desk.path("my.pack")).unwrap(), before);
    assert_eq!(count(), files, "nothing half-written is left");
    let error = refused("predict --model model.safetensors photo0.png -o out");
    assert!(error.contains("cannot write `out/") && error.contains("hint"), "{error}");
}

/// A data set of our own in `data`, with one novel class in its fold. Images are called as `name` says.
fn write_data(desk: &Desk, novel: &str, name: impl Fn(usize) -> String) {
    for (split, count) in [("train", 4), ("val", 2)] {
        for part in ["images", "masks"] {
            fs::create_dir_all(desk.path(&format!("data/{part}/{split}"))).unwrap();
        }
        for place in 0..count {
            let shade = |at: usize| [(at % 48) * 5, (at / 48) * 5, place * 40].map(|value| value as u8);
            let pixels = (0..48 * 48).flat_map(shade).collect();
            let label = |at: usize| if at % 48 < 20 { (place % 2 + 1) as u16 } else { [0, 3][at / 1152] };
            let labels = RowMap::new(48, 48, (0..48 * 48).map(label).collect());
            let (image, name) = (Image::new(48, 48, pixels), name(place));
            write_image(desk.path(&format!("data/images/{split}/{name}.png")), &image).unwrap();
            write_index_mask(&desk.path(&format!("data/masks/{split}/{name}.png")), &labels).unwrap();
        }
    }
    let spec = format!(
        "format = \"folder\"\nname = \"farm\"\nclasses = [\"background\", \"cow\", \"grass\", \"{novel}\"]\n\
         novel = [\"{novel}\"]\nmin_support_pixels = 50\n"
    );
    fs::write(desk.path("data/protoseg.toml"), spec).unwrap();
}

#[test]
fn a_model_is_used_as_it_was_trained() {
    let desk = Desk::new();
    save_trained(&desk.path("plain.safetensors"), 11, Ablation::Baseline);
    let parts = |model: &str, flags: &str| {
        let out = desk.done(&format!("predict --model {model} photo0.png -o out --force --json{flags}"));
        serde_json::from_str::<serde_json::Value>(&out).unwrap()["variant"].as_str().unwrap().to_string()
    };
    assert_eq!(parts("model.safetensors", ""), "capl");
    assert_eq!(parts("model.safetensors", " --no-dqce"), "sce");
    assert_eq!(parts("plain.safetensors", ""), "baseline", "a baseline is not used with DQCE");
}

#[test]
fn a_saved_list_of_supports_is_read_back() {
    let desk = Desk::new();
    write_data(&desk, "duck", |place| place.to_string());
    desk.done("data supports data --shots 2 --seed 7 -o list.json");
    desk.done("register --model model.safetensors --data data --supports list.json -o listed.pack");
    desk.done("register --model model.safetensors --data data --shots 2 --seed 7 -o drawn.pack");
    assert_eq!(fs::read(desk.path("listed.pack")).unwrap(), fs::read(desk.path("drawn.pack")).unwrap());
    let rows = |flags: &str, out: &str| {
        let answer = desk
            .done(&format!("eval --model model.safetensors --data data --shots 1,2 {flags} -o {out} --json"));
        serde_json::from_str::<serde_json::Value>(&answer).unwrap()["rows"].clone()
    };
    assert_eq!(rows("--supports list.json", "listed"), rows("--seeds 7", "drawn"));
    let error = desk.refused("register --model model.safetensors --supports list.json -o x.pack");
    assert!(error.contains("list.json") && error.contains("--data"), "{error}");
    let error =
        desk.refused("eval --model model.safetensors --data data --shots 3 --supports list.json -o x");
    assert!(error.contains("has 2 supports") && error.contains("3 shots"), "{error}");
}

#[test]
fn another_canvas_does_not_change_which_model_is_named() {
    let desk = Desk::new();
    write_data(&desk, "duck", |place| place.to_string());
    let fingerprint = |flags: &str, out: &str| {
        let answer = desk.done(&format!(
            "eval --model model.safetensors --data data --shots 1 --seeds 1 {flags} -o {out} --json"
        ));
        let results: serde_json::Value = serde_json::from_str(&answer).unwrap();
        (results["fingerprint"].clone(), results["size"].as_u64().unwrap())
    };
    let (own, _) = fingerprint("", "own");
    assert_eq!(fingerprint("--size 41", "other"), (own, 41));
}

#[test]
fn an_evaluation_writes_its_results_and_report() {
    let desk = Desk::new();
    // The base classes of fold 0 of Scenes, by name.
    let manifest = Model::read_manifest(desk.path("model.safetensors")).unwrap();
    assert_eq!(manifest.classes.n_base(), 3);
    let error = desk.refused("eval --model model.safetensors --data scenes --limit 2");
    assert!(error.contains("base classes") && error.contains("cow"), "{error}");

    write_data(&desk, "duck", |place| place.to_string());
    let answer = desk.done("eval --model model.safetensors --data data --shots 1,2 --seeds 1,2 --preset balanced,reference -o res --json");
    let results: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(results["schema"], "protoseg.eval/1");
    assert_eq!(results["protocol"], "exact");
    assert_eq!(results["images"], 2);
    // Baseline once, SCE, DQCE and CAPL under both presets; each at two numbers of shots.
    assert_eq!(results["rows"].as_array().unwrap().len(), 14);
    let row = &results["rows"][0];
    assert_eq!((row["variant"].as_str().unwrap(), row["shots"].as_u64().unwrap()), ("baseline", 1));
    let pixels: u64 = row["confusion"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|row| row.as_array().unwrap())
        .map(|n| n.as_u64().unwrap())
        .sum();
    assert_eq!(pixels, 2 * 2 * 48 * 48, "every pixel of two images, for two seeds");
    let html = fs::read_to_string(desk.path("res/report.html")).unwrap();
    assert!(html.contains("<table>") && html.contains("data:image/jpeg;base64,") && html.contains("duck"));
    assert!(!html.contains("http://") && !html.contains("https://"), "nothing is fetched");
    let csv = fs::read_to_string(desk.path("res/results.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 14 * 2);
    assert_eq!(results["training_seed"], 11);
    let markdown = fs::read_to_string(desk.path("res/results.md")).unwrap();
    for part in ["| capl | balanced | 2 |", "training seed 11", "2 draws of supports", "| duck | novel | "] {
        assert!(markdown.contains(part), "{part}: {markdown}");
    }
    let latex = fs::read_to_string(desk.path("res/results.tex")).unwrap();
    for part in ["\\label{tab:farm-fold0}", "capl (balanced) & 2 & ", "duck & novel & ", " $\\pm$"] {
        assert!(latex.contains(part), "{part}: {latex}");
    }
    for protocol in ["reference", "b"] {
        let text = desk.done(&format!("eval --model model.safetensors --data data --shots 1 --seeds 1 --protocol {protocol} -o res-{protocol}"));
        assert!(text.contains(&format!("protocol {protocol}")) && text.contains("report ->"), "{text}");
    }
    save_model(&desk.path("other.safetensors"), 12);
    let both = desk.done(
        "eval --model model.safetensors,other.safetensors --data data --shots 1 --seeds 1 -o both --json",
    );
    assert_eq!(serde_json::from_str::<serde_json::Value>(&both).unwrap().as_array().unwrap().len(), 2);
    assert!(desk.path("both/model/report.html").exists() && desk.path("both/other/report.html").exists());
    assert!(!desk.path("both/folds.json").exists(), "both are of one fold");
    assert!(desk.refused("eval --model model.safetensors --data data --shots 0 -o x").contains("at least 1"));
    assert!(desk.refused("eval --model model.safetensors --data data --protocol c -o x").contains("exact"));
}

#[test]
fn parts_of_an_evaluation_add_up_to_the_whole() {
    let desk = Desk::new();
    write_data(&desk, "duck", |place| place.to_string());
    let eval = "eval --model model.safetensors --data data --shots 1,2 --seeds 1,2";
    let results = |command: &str| -> serde_json::Value {
        serde_json::from_str(&desk.done(&format!("{command} --json"))).unwrap()
    };
    let whole = results(&format!("{eval} -o whole"));
    // Two images: the third part is empty.
    for (part, images) in [(1, 1), (2, 1), (3, 0)] {
        let answer = results(&format!("{eval} --shard {part}/3 -o part{part}"));
        assert_eq!((&answer["images"], &answer["of"]), (&images.into(), &3.into()));
    }
    let merged = results(&format!("{eval} --merge part2 part3 part1 -o merged"));
    assert_eq!((&merged["images"], &merged["supports"]), (&whole["images"], &whole["supports"]));
    let rows = |results: &serde_json::Value| -> Vec<serde_json::Value> {
        let mut rows = results["rows"].as_array().unwrap().clone();
        // Sums of confidences, in another order.
        rows.iter_mut()
            .for_each(|row| row["confidence"] = row["confidence"]["groups"].as_array().unwrap().len().into());
        rows
    };
    assert_eq!(rows(&merged), rows(&whole));
    assert!(fs::read_to_string(desk.path("merged/report.html")).unwrap().contains("<table>"));

    for (flags, words) in [
        ("--merge part1 part2", "part 3 of 3 is missing"),
        ("--merge part1 part2 part3 part1", "given twice"),
        ("--merge part1 part2 whole", "no `counts.json`"),
        ("--limit 1 --merge part1 part2 part3", "not a part of this evaluation"),
        ("--shard 4/3", "--shard"),
    ] {
        let error = desk.refused(&format!("{eval} {flags} -o x"));
        assert!(error.contains(words), "{error}");
        assert!(!desk.path("x").exists(), "nothing is written");
    }
    // A pod that is started again finds its part finished.
    let before = fs::read(desk.path("part1/counts.json")).unwrap();
    let again = desk.run(&format!("{eval} --shard 1/3 -o part1"));
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(again.stderr.contains("part 1 of 3 is there already"), "{}", again.stderr);
    assert!(again.stdout.contains("part 1 of 3: 1 image -> part1"), "{}", again.stdout);
    assert_eq!(fs::read(desk.path("part1/counts.json")).unwrap(), before);
    for flags in ["--shard 2/3", "--shard 1/2", "--shard 1/3 --limit 1"] {
        let error = desk.refused(&format!("{eval} {flags} -o part1"));
        assert!(error.contains("counts.json` is there already") && error.contains("--force"), "{error}");
    }
    desk.done(&format!("{eval} --shard 1/2 -o part1 --force"));
}

#[test]
fn models_of_different_folds_get_a_mean() {
    let desk = Desk::new();
    write_data(&desk, "duck", |place| place.to_string());
    let spec = fs::read_to_string(desk.path("data/protoseg.toml")).unwrap();
    let folds = spec.replace("novel = [\"duck\"]", "folds = [[\"duck\"], [\"grass\"]]");
    fs::write(desk.path("data/protoseg.toml"), folds).unwrap();
    for (name, base, fold) in
        [("zero", ["background", "cow", "grass"], 0), ("one", ["background", "cow", "duck"], 1)]
    {
        let path = desk.path(&format!("{name}.safetensors"));
        save_of_fold(&path, 11, Ablation::Capl, base, Some(fold));
    }
    let eval =
        "eval --model zero.safetensors,one.safetensors --data data --shots 1 --seeds 1 --variants capl";
    let text = desk.done(&format!("{eval} -o both"));
    for part in ["farm fold 1", "farm, mean over folds 0, 1, protocol exact", "mean over folds -> both"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for (file, part) in [
        ("folds.md", "| capl | reference | 1 | "),
        ("folds.tex", "\\label{tab:farm-folds}"),
        ("folds.json", "\"protoseg.folds/1\""),
        ("zero/results.tex", "\\label{tab:farm-fold0}"),
        ("one/results.tex", "\\label{tab:farm-fold1}"),
    ] {
        let written = fs::read_to_string(desk.path("both").join(file)).unwrap();
        assert!(written.contains(part), "{file}: {written}");
    }
    fs::remove_dir_all(desk.path("both/zero")).unwrap();
    fs::remove_dir_all(desk.path("both/one")).unwrap();
    assert!(desk.refused(&format!("{eval} -o both")).contains("folds.json"), "nothing is overwritten");

    let answer = desk.done(&format!("{eval} -o more --json"));
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let novel = |row: &serde_json::Value| row["rows"][0]["novel"]["mean"].as_f64().unwrap();
    let [zero, one] = &answer["results"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert!((novel(&answer["mean"]) - (novel(zero) + novel(one)) / 2.0).abs() < 1e-9, "{answer}");
    assert_eq!(answer["mean"]["folds"][1]["fold"], 1);
}

#[test]
fn labelled_photos_get_a_report_with_pictures() {
    let desk = Desk::new();
    write_data(&desk, "duck", |place| place.to_string());
    let spec = fs::read_to_string(desk.path("data/protoseg.toml")).unwrap();
    fs::write(desk.path("data/plain.toml"), spec.replace("novel = [\"duck\"]\n", "")).unwrap();
    let text = desk.done("eval --model model.safetensors --data data/plain.toml -o plain");
    assert!(text.contains("report -> plain"), "{text}");
    let html = fs::read_to_string(desk.path("plain/report.html")).unwrap();
    for part in ["data:image/jpeg;base64,", "(c) prediction", "base classes: ", "</i>cow</td>"] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("before teaching<"), "nothing was taught");
    assert!(html.find("data:image").unwrap() < html.find("<table>").unwrap(), "pictures come first");
    let csv = fs::read_to_string(desk.path("plain/results.csv")).unwrap();
    assert!(csv.contains("\"farm\",\"val\",capl,\"cow\",base,"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + 3);
}

#[test]
#[cfg(unix)]
fn names_that_look_like_markup_stay_text_in_a_report() {
    let desk = Desk::new();
    write_data(&desk, "<b>", |place| format!("{place}x\" onload=\"alert(9)\" y=\""));
    desk.done("eval --model model.safetensors --data data --shots 2 --seeds 1 -o res");
    let html = fs::read_to_string(desk.path("res/report.html")).unwrap();
    let escaped = "x&quot; onload=&quot;alert(9)&quot; y=&quot;.png";
    assert!(html.contains(&format!("{escaped}\" src=")), "a support keeps its name in `alt`");
    assert!(html.contains(&format!("{escaped}</small>")), "and an image under its strip");
    assert!(!html.contains("onload=\""), "no attribute comes of a name");
    assert!(html.contains("<b>&lt;b&gt;</b>") && !html.contains("<b></b>") && !html.contains("<b><b>"));
    let latex = fs::read_to_string(desk.path("res/results.tex")).unwrap();
    assert!(latex.contains("\\textless{}b\\textgreater{} & novel & "), "{latex}");

    desk.done("register --model model.safetensors --data data --shots 2 --seed 1 -o my.pack");
    let text = desk.done("eval --model model.safetensors --pack my.pack --data data -o labelled");
    assert!(text.contains("report -> labelled"), "{text}");
    let html = fs::read_to_string(desk.path("labelled/report.html")).unwrap();
    assert!(html.contains("(c) before teaching") && html.contains("(d) after"), "both are shown");
    assert!(html.contains(&format!("{escaped}</small>")) && !html.contains("onload=\""));
    assert!(html.contains("<b>&lt;b&gt;</b>") && !html.contains("<b><b>"));
    let csv = fs::read_to_string(desk.path("labelled/results.csv")).unwrap();
    assert!(csv.contains("\"<b>\",novel,,"), "it has no IoU before teaching: {csv}");
}

#[test]
fn a_file_that_cannot_be_written_ends_a_prediction_of_many_images() {
    let desk = Desk::new();
    fs::create_dir(desk.path("photos")).unwrap();
    for place in 0..8 {
        fs::copy(desk.path("photo0.png"), desk.path(&format!("photos/{place}.png"))).unwrap();
    }
    // Where a folder should be there is a file.
    fs::create_dir(desk.path("out")).unwrap();
    fs::write(desk.path("out/index"), b"").unwrap();
    let error = desk.refused("predict --model model.safetensors photos -o out");
    assert_eq!(error.matches("error:").count(), 1, "{error}");
    assert!(error.contains("out/index") && error.contains("hint:"), "{error}");
    assert!(!desk.path("out/predictions.json").exists());
}

#[test]
fn completions_are_printed_for_shells() {
    let desk = Desk::new();
    assert!(desk.done("completions bash").contains("register"));
    assert!(desk.done("completions zsh").contains("predict"));
}
