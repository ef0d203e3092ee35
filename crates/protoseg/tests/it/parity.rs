//! Checkpoints written by PyTorch, from import to scores. `benches/peers/import_parity.py` makes one and runs this.

use std::{fs, path::PathBuf};

use protoseg::{
    class_pack::{ClassPack, PackClass, Shot},
    core::{Classes, Image, RowMap},
    device::cpu,
    model::Model,
    segmenter::Segmenter,
    weights::{TensorFile, load_encoder, read_encoder_config},
};
use protoseg_data::{mask::read_index_mask, picture::read_image};
use protoseg_testing::{Golden, assert_close};
use serde::Deserialize;

use crate::fixture::{remember, tensor, values};

#[derive(Deserialize)]
struct Fixture {
    base: Vec<String>,
    novel: Vec<String>,
    size: usize,
    /// Row of the novel class, name of its files.
    supports: Vec<(u16, String)>,
    queries: Vec<String>,
}

/// The folder that a script of `benches/peers` filled and named in this variable.
fn folder(variable: &str) -> PathBuf {
    std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} is not set")).into()
}

#[test]
#[ignore = "needs a checkpoint of PyTorch: run `python benches/peers/import_parity.py`"]
#[allow(clippy::print_stderr)]
fn an_imported_checkpoint_scores_as_pytorch_does() {
    let folder = folder("PROTOSEG_PARITY");
    let fixture: Fixture =
        serde_json::from_str(&fs::read_to_string(folder.join("fixture.json")).unwrap()).unwrap();
    let expected = Golden::read(&folder.join("expected.safetensors"));
    let image = |name: &str| -> Image { read_image(folder.join(format!("{name}.jpg"))).unwrap() };
    let label = |name: &str| -> RowMap {
        let ids = read_index_mask(&folder.join(format!("{name}.png"))).unwrap();
        let narrow: Vec<u8> = ids.data.iter().map(|&id| id as u8).collect();
        RowMap::from_u8(ids.width, ids.height, &narrow)
    };
    for container in ["zip.pth", "legacy.pth"] {
        // Through our own file too: what is written must be what was read.
        let classes = Classes::new(&fixture.base, &fixture.novel).unwrap();
        let written = folder.join("model.safetensors");
        Model::import(&folder.join(container), classes, fixture.size, &cpu())
            .unwrap()
            .save(&written)
            .unwrap();
        let model = Model::load(&written).unwrap();

        let sums: Vec<_> = fixture
            .supports
            .iter()
            .map(|(novel, name)| remember(&model, *novel, &image(name), &label(name)))
            .collect();
        let classifier = model.classifier(&fixture.novel, &sums, &model.usage().unwrap()).unwrap();
        let rows =
            assert_close("registered", &values(classifier.rows.vectors), expected.values("registered"), 1e-4);
        let mut pack = ClassPack::new(&model);
        for (place, class) in fixture.novel.iter().enumerate() {
            let row = (fixture.base.len() + place) as u16;
            let own = sums.iter().filter(|support| support.novel == row);
            let shots = own.map(|sums| Shot::new("support", 1, sums.clone()).unwrap()).collect();
            pack.add(PackClass { name: class.clone(), color: None, shots }).unwrap();
        }
        let segmenter = Segmenter::builder(&model).pack(&pack).build().unwrap();
        let scores: Vec<f32> =
            fixture.queries.iter().flat_map(|name| values(segmenter.canvas_scores(&image(name)))).collect();
        let worst = assert_close("logits", &scores, expected.values("logits"), 2e-3);
        eprintln!("{container}: largest difference {rows:.1e} in prototypes, {worst:.1e} in logits");
    }
}

#[test]
#[ignore = "needs encoders of torchvision: run `python benches/peers/encoder_parity.py`"]
#[allow(clippy::print_stderr)]
fn encoders_of_others_give_the_maps_of_pytorch() {
    let folder = folder("PROTOSEG_ENCODERS");
    let mut compared = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "pth") {
            continue;
        }
        let checkpoint = TensorFile::open(&path).unwrap();
        let config = read_encoder_config(&checkpoint).unwrap();
        let encoder = load_encoder(&checkpoint, &config, &cpu()).unwrap();
        let expected = Golden::read(&path.with_extension("safetensors"));
        let last = encoder.forward(tensor(&expected, "input")).pop().unwrap();
        let name = path.file_stem().unwrap().to_string_lossy();
        let worst = assert_close(&name, &values(last), expected.values("output"), 1e-3);
        eprintln!("{name}: {config:?}, largest difference {worst:.1e}");
        compared += 1;
    }
    assert_eq!(compared, 9);
}
