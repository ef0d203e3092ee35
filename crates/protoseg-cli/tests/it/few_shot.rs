//! Episodes and single queries, start to end, with a tiny few-shot model of random weights.

use std::{fs, ops::Deref};

use protoseg::{
    config::NetworkConfig,
    core::{Classes, Image, Preprocess, RowMap},
    decoder::DecoderKind,
    device::cpu,
    encoder::{EncoderConfig, ResNetConfig},
    method::{
        Method,
        capl::{Ablation, Capl, Preset},
        few_shot,
        panet::Panet,
    },
    model::{Manifest, Model, Training},
};
use protoseg_data::{
    mask::{read_index_mask, write_index_mask},
    picture::{read_image, write_image},
};
use serde_json::Value;

use crate::run::Folder;

/// A folder with a model that answers episodes, one that does not, and photos with masks.
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
        desk.save("model.safetensors", Method::Panet(Panet::default()));
        let capl = Capl::new(Ablation::Capl, Preset::Reference.options(), 2, false);
        desk.save("generalized.safetensors", Method::Capl(capl));
        // Left dark, right bright: the class is the right half.
        for (photo, (width, height)) in [(80, 60), (50, 90), (64, 40)].into_iter().enumerate() {
            let value = |at: usize| if at / 3 % width * 2 < width { 20 } else { 220 };
            let image = Image::new(width, height, (0..3 * width * height).map(value).collect());
            write_image(desk.path(&format!("photo{photo}.png")), &image).unwrap();
            let label = |at: usize| u16::from(at % width * 2 >= width);
            let mask = RowMap::new(width, height, (0..width * height).map(label).collect());
            write_index_mask(&desk.path(&format!("mask{photo}.png")), &mask).unwrap();
        }
        desk
    }

    /// A model of a published system, with random weights.
    pub fn save_system(&self, system: &str) {
        let method = few_shot(system).unwrap();
        let encoder = ResNetConfig { width: 0.125, ..ResNetConfig::new(10) };
        let network = method.published_network(EncoderConfig::ResNet(encoder));
        self.save_network(&format!("{system}.safetensors"), method, network);
    }

    fn save(&self, name: &str, method: Method) {
        let encoder = EncoderConfig::ResNet(ResNetConfig { width: 0.125, ..ResNetConfig::new(10) });
        let network = NetworkConfig {
            dim: encoder.channels()[1],
            encoder,
            decoder: DecoderKind::Identity,
            ..NetworkConfig::pspnet(10)
        };
        self.save_network(name, method, network);
    }

    fn save_network(&self, name: &str, method: Method, network: NetworkConfig) {
        cpu().seed(3);
        let manifest = Manifest {
            format: Manifest::FORMAT,
            network,
            classes: Classes::new(&["background", "cow"], &[]).unwrap(),
            method,
            preprocess: Preprocess::imagenet(65),
            training: Training { origin: "random weights".to_string(), ..Training::default() },
        };
        Model::random(manifest, &cpu()).unwrap().save(self.path(name)).unwrap();
    }

    fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.done(command)).unwrap()
    }
}

const ASK: &str = "episodes --model model.safetensors --data scenes --fold 1";

#[test]
fn episodes_are_scored_saved_and_replayed() {
    let desk = Desk::new();
    let drawn = desk.json(&format!(
        "{ASK} --style panet --shots 1,2 --episodes 12 --runs 2 --save-list list.json -o out --json"
    ));
    assert_eq!(drawn["schema"], "protoseg.episode-results/1");
    assert_eq!(drawn["seeds"], serde_json::json!([1234, 1235]));
    let rows = drawn["rows"].as_array().unwrap();
    assert_eq!((rows[0]["shots"].as_u64(), rows[1]["shots"].as_u64()), (Some(1), Some(2)));
    for row in rows {
        let runs: Vec<f64> =
            row["runs"].as_array().unwrap().iter().map(|run| run["class_miou"].as_f64().unwrap()).collect();
        let (mean, std) =
            (row["class_miou"]["mean"].as_f64().unwrap(), row["class_miou"]["std"].as_f64().unwrap());
        assert!((mean - (runs[0] + runs[1]) / 2.0).abs() < 1e-9 && mean > 0.0);
        assert!((std - (runs[0] - runs[1]).abs() / 2f64.sqrt()).abs() < 1e-9, "the deviation of a sample");
    }

    let list: Value = serde_json::from_slice(&fs::read(desk.path("list.json")).unwrap()).unwrap();
    assert_eq!(
        (list["schema"].as_str(), list["style"].as_str()),
        (Some("protoseg.episodes/1"), Some("panet"))
    );
    assert_eq!((list["shots"].as_u64(), list["split"].as_str()), (Some(2), Some("val")));
    let episode = &list["runs"][0]["episodes"][0];
    assert!(episode["query"].as_str().unwrap().starts_with("scenes/val/"), "{episode}");
    assert_eq!(episode["supports"].as_array().unwrap().len(), 2);

    // Style, fold and seeds come with the list. One thread gives what several gave.
    let again =
        desk.json("episodes --model model.safetensors --data scenes --list list.json --shots 2,1 --json");
    assert_eq!(again["rows"], drawn["rows"]);
    let mut alone = std::process::Command::new(env!("CARGO_BIN_EXE_protoseg"));
    let args = format!("{ASK} --list list.json --shots 1,2 --json");
    alone.current_dir(desk.path("")).args(args.split_whitespace()).env("RAYON_NUM_THREADS", "1");
    let alone: Value = serde_json::from_slice(&alone.output().unwrap().stdout).unwrap();
    assert_eq!(alone["rows"], drawn["rows"]);

    let read = |name: &str| fs::read_to_string(desk.path(&format!("out/{name}"))).unwrap();
    assert_eq!(read("results.csv").lines().count(), 1 + 4);
    assert_eq!(read("episodes.csv").lines().count(), 1 + 24);
    assert_eq!(read("episodes.json"), fs::read_to_string(desk.path("list.json")).unwrap());
    let report = read("report.html");
    for part in ["Best episodes", "Middling episodes", "Worst episodes", "2-shot: ", "truth", "support"] {
        assert!(report.contains(part), "{part}");
    }
    assert!(desk.refused(&format!("{ASK} --episodes 2 -o out")).contains("is there already"));
}

#[test]
fn every_style_prints_every_form() {
    let desk = Desk::new();
    let csv = desk.done(&format!("{ASK} --style hsnet --shots 1,5 --episodes 4 --csv"));
    assert!(
        csv.starts_with("method,data,fold,style,size,shots,run,seed,episodes,class_miou,fb_iou,"),
        "{csv}"
    );
    assert!(csv.contains("panet,\"scenes\",1,hsnet,65,5,0,0,4,"), "{csv}");
    let markdown = desk.done(&format!("{ASK} --style pfenet --shots 1 --episodes 3 --markdown"));
    assert!(markdown.contains("| shots | class mIoU | FB-IoU |"), "{markdown}");
    assert!(markdown.contains("3 episodes of `val` at 65, scored at the image's size"), "{markdown}");
    assert!(markdown.contains("Note: 3 episodes per run; results of style `pfenet`"), "{markdown}");
    let answer = desk.run(&format!("{ASK} --shots 1 --episodes 3 --size 33"));
    assert!(answer.stdout.contains("at 33") && answer.stdout.contains("1-shot IoU"), "{}", answer.stdout);
    assert!(answer.stderr.contains("note: no episode asked for"), "{}", answer.stderr);
}

#[test]
fn impossible_episodes_are_refused() {
    let desk = Desk::new();
    let error = desk.refused(&format!("{ASK} --shots 290"));
    assert!(error.contains("expected at least `291` for 290-shot episodes"), "{error}");
    assert!(error.contains("images of class `") && error.contains("got `"), "{error}");
    assert!(error.contains("--min-pixels"), "{error}");
    assert!(desk.refused(&format!("{ASK} --style dcama")).contains("`dcama` is not a style of episodes"));
    assert!(desk.refused(&format!("{ASK} --episodes 0")).contains("expected 1 to 10000000 episodes"));
    assert!(desk.refused(&format!("{ASK} --runs 0")).contains("1 to 1000 runs, got `0`"));
    let error = desk.refused("episodes --model generalized.safetensors --data scenes --episodes 2");
    assert!(error.contains("`capl` does not answer episodes") && error.contains("protoseg eval"), "{error}");

    let list = |class: &str, query: &str, support: &str| {
        let json = serde_json::json!({
            "schema": "protoseg.episodes/1", "fold": 1, "shots": 1,
            "runs": [{ "episodes": [{ "class": class, "query": query, "supports": [support] }] }],
        });
        fs::write(desk.path("hand.json"), json.to_string()).unwrap();
        desk.refused(&format!("{ASK} --list hand.json"))
    };
    let error = list("person", "scenes/val/9999", "scenes/val/0001");
    assert!(error.contains("is not novel in fold `1`"), "{error}");
    let class = desk.json(&format!("{ASK} --episodes 1 --json"))["classes"][0].as_str().unwrap().to_string();
    let error = list(&class, "scenes/val/9999", "scenes/val/0001");
    assert!(error.contains("query `scenes/val/9999` is not an image of the data set\nhint: "), "{error}");
    fs::write(desk.path("hand.json"), "{\"schema\": \"protoseg.episodes/1\"").unwrap();
    assert!(desk.refused(&format!("{ASK} --list hand.json")).contains("is not valid"));
}

#[test]
fn one_query_is_segmented_without_registration() {
    let desk = Desk::new();
    let supports = "--support photo0.png:mask0.png photo1.png:mask1.png";
    let said = desk.json(&format!(
        "segment --model model.safetensors --query photo2.png {supports} --class duck -o found.png --overlay --json"
    ));
    assert_eq!((said["schema"].as_str(), said["shots"].as_u64()), (Some("protoseg.segment/1"), Some(2)));
    let mask = read_index_mask(&desk.path("found.png")).unwrap();
    assert_eq!((mask.width, mask.height), (64, 40));
    let truth = read_index_mask(&desk.path("mask2.png")).unwrap();
    let right = mask.data.iter().zip(&truth.data).filter(|(got, own)| (**got != 0) == (**own == 1)).count();
    assert!(right > 64 * 40 * 8 / 10, "{right} of {} pixels", 64 * 40);
    assert!(read_image(desk.path("found_overlay.png")).unwrap().width >= 64);
    // What it wrote is a mask that it can read.
    desk.done(
        "segment --model model.safetensors --query photo0.png --support photo2.png:found.png -o again.png",
    );
}

#[test]
fn a_query_that_cannot_be_answered_is_refused() {
    let desk = Desk::new();
    let segment = |model: &str, support: &str| {
        desk.refused(&format!("segment --model {model} --query photo0.png --support {support} -o found.png"))
    };
    write_index_mask(&desk.path("empty.png"), &RowMap::new(80, 60, vec![0; 4800])).unwrap();
    let error = segment("model.safetensors", "photo0.png:empty.png");
    assert!(error.contains("empty.png` of class `class` holds no pixel of the class"), "{error}");
    let error = segment("model.safetensors", "photo1.png:mask1.png photo0.png:mask1.png");
    assert!(error.contains("mask1.png` do not fit image"), "{error}");
    assert!(error.contains("got `50 x 90`, expected `80 x 60`"), "{error}");
    let error = segment("generalized.safetensors", "photo1.png:mask1.png");
    assert!(
        error.contains("`capl` does not answer episodes") && error.contains("protoseg register"),
        "{error}"
    );
    assert!(segment("model.safetensors", "photo1.png").contains("has no mask"));
    assert!(!desk.path("found.png").exists());
}

#[test]
fn in_the_generalized_setting_all_classes_are_fed_or_the_reason_is_said() {
    let desk = Desk::new();
    let ask = |model: &str| {
        format!(
            "eval --model {model}.safetensors --data scenes --fold 1 --shots 1,2 --seeds 123 --limit 4 -o {model} --json"
        )
    };
    for system in ["panet", "pfenet"] {
        desk.save_system(system);
        let results = desk.json(&ask(system));
        let rows = results["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2, "{results}");
        assert_eq!(rows[0]["variant"], system);
        let classes = results["classes"].as_array().unwrap().len();
        assert_eq!(rows[1]["confusion"].as_array().unwrap().len(), classes);
        let pixels = rows[1]["pixel_accuracy"]["mean"].as_f64().unwrap();
        assert!((0.0..=100.0).contains(&pixels), "{pixels}");
        assert!(desk.path(system).join("report.html").exists());
    }
    desk.save_system("hsnet");
    let error = desk.refused(&ask("hsnet"));
    assert!(error.contains("`hsnet` cannot take part in the generalized setting"), "{error}");
    assert!(error.contains("no prototype") && error.contains("protoseg episodes"), "{error}");
}
