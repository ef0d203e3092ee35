//! Exported files, start to end. What runtimes make of them is compared by `benches/peers/export_parity.py`; built with
//! `--features onnx-check`, these tests run them too.

use std::fs;

use safetensors::SafeTensors;
use serde_json::Value;

use crate::{few_shot::Desk, run::Folder, without_training::write_pictures};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A folder with pictures and a pack of the model in the box.
fn desk() -> Folder {
    let desk = Folder::new();
    write_pictures(&desk.path(""));
    desk.done("register --class disc=data/images/0.png:discs/0.png -o my.pack");
    desk
}

#[test]
fn a_taught_model_is_exported_with_a_sample_of_its_answers() {
    let desk = desk();
    let told = desk.done("export --pack my.pack -o box.onnx");
    assert!(told.contains("2 classes, opset 17") && told.contains("batch x height x width x 3"), "{told}");
    let bytes = fs::read(desk.path("box.onnx")).unwrap();
    let refused = desk.refused("export --pack my.pack -o box.onnx");
    assert!(refused.contains("`box.onnx` is there already") && refused.contains("--force"), "{refused}");

    let command = "export --pack my.pack -o box.onnx --sample sample.safetensors --features --force --json";
    let told = json(&desk.done(command));
    assert_eq!(told["schema"], "protoseg.export/1");
    assert_eq!(told["classes"], serde_json::json!(["background", "disc"]));
    assert_eq!(told["outputs"][2]["name"], "features");
    assert_eq!(told["bytes"].as_u64().unwrap(), fs::metadata(desk.path("box.onnx")).unwrap().len());
    let sample = fs::read(desk.path("sample.safetensors")).unwrap();
    let sample = SafeTensors::deserialize(&sample).unwrap();
    assert_eq!(sample.tensor("image").unwrap().shape(), [1, 192, 256, 3]);
    assert_eq!(sample.tensor("labels").unwrap().shape(), [1, 192, 256]);
    assert_eq!(sample.tensor("scores").unwrap().shape(), [1, 2, 192, 256]);

    desk.done("export --pack my.pack -o again.onnx");
    assert_eq!(fs::read(desk.path("again.onnx")).unwrap(), bytes, "the same model gives the same bytes");
}

#[test]
fn classes_may_be_an_input_with_rows_beside_the_file() {
    let desk = desk();
    let told = json(&desk.done("export --pack my.pack -o box.onnx --classes input --json"));
    assert_eq!(told["prototypes"], "box.prototypes.safetensors");
    let names: Vec<&str> =
        told["inputs"].as_array().unwrap().iter().map(|port| port["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["image", "prototypes", "owners"]);
    let rows = fs::read(desk.path("box.prototypes.safetensors")).unwrap();
    let rows = SafeTensors::deserialize(&rows).unwrap();
    let [count, dim] = rows.tensor("prototypes").unwrap().shape()[..] else { panic!("rows of vectors") };
    assert_eq!((rows.tensor("owners").unwrap().shape(), dim), (&[count][..], 472));
    let error = desk.refused("export -o other.onnx --classes both");
    assert!(error.contains("`baked` or `input`, got `both`"), "{error}");
}

#[test]
fn what_cannot_be_one_graph_is_refused_by_name() {
    let desk = Desk::new();
    desk.save_system("asgnet");
    let error = desk.refused("export asgnet.safetensors -o asgnet.onnx");
    assert!(error.contains("`asgnet`") && error.contains("`scl-canet` and `hsnet`"), "{error}");
    assert!(!desk.path("asgnet.onnx").exists());

    // A system that compares means is one, and so is one with plain layers of its own.
    desk.save_system("pfenet");
    for model in ["model", "pfenet"] {
        let told = json(&desk.done(&format!("export {model}.safetensors -o {model}.onnx --json")));
        let names: Vec<&str> =
            told["inputs"].as_array().unwrap().iter().map(|port| port["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["image", "support_images", "support_masks"]);
    }
    let error = desk.refused("export model.safetensors -o other.onnx --features");
    assert!(error.contains("leave --features out"), "{error}");
}

#[test]
fn a_file_is_checked_by_another_runtime_if_there_is_one() {
    let desk = desk();
    if cfg!(feature = "onnx-check") {
        for classes in ["baked", "input"] {
            let command =
                format!("export --pack my.pack -o box.onnx --check --classes {classes} --force --json");
            let check = &json(&desk.done(&command))["check"];
            assert!(check["largest_difference"].as_f64().unwrap() <= 1e-3, "{check}");
            assert_eq!(check["different"], check["ties"]);
        }
    } else {
        let error = desk.refused("export --pack my.pack -o box.onnx --check");
        assert!(error.contains("--features onnx-check"), "{error}");
        assert!(!desk.path("box.onnx").exists(), "refused before anything is written");
    }
}
