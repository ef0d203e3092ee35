//! Checkpoints written by PyTorch, from import to scores. `benches/peers/import_parity.py` makes one and runs this.

use std::{fs, path::PathBuf};

use protoseg::{
    core::{Classes, Image, RowMap},
    device::cpu,
    model::Model,
    predict::Predictor,
    register::Support,
    weights::{TensorFile, load_encoder, read_encoder_config},
};
use protoseg_data::{mask::read_index_mask, picture::read_image};
use protoseg_testing::{Golden, assert_close};
use serde::Deserialize;

use crate::fixture::{tensor, values};

#[derive(Deserialize)]
struct Fixture {
    base: Vec<String>,
    novel: Vec<String>,
    size: usize,
    /// Row of the novel class, name of its files.
    supports: Vec<(u16, String)>,
    queries: Vec<String>,
}

#[test]
#[allow(clippy::print_stderr)]
fn an_imported_checkpoint_scores_as_pytorch_does() {
    let Some(folder) = std::env::var_os("PROTOSEG_PARITY").map(PathBuf::from) else {
        eprintln!(
            "SKIPPED: this test needs a checkpoint of PyTorch; `python benches/peers/import_parity.py` makes one"
        );
        return;
    };
    let fixture: Fixture =
        serde_json::from_str(&fs::read_to_string(folder.join("fixture.json")).unwrap()).unwrap();
    let expected = Golden::read(&folder.join("expected.safetensors"));
    let image = |name: &str| -> Image { read_image(&folder.join(format!("{name}.jpg"))).unwrap() };
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
        let model = Model::load(&written, &cpu()).unwrap();

        let sums: Vec<_> = fixture
            .supports
            .iter()
            .map(|(novel, name)| Support { novel: *novel, image: image(name), label: label(name) })
            .map(|support| model.support_sums(&support).unwrap())
            .collect();
        let (parts, options) = (model.manifest.inference(), model.manifest.options.clone());
        let bank = model.bank(&fixture.novel, &sums, parts, &options).unwrap();
        let rows =
            assert_close("registered", &values(bank.rows.clone()), expected.values("registered"), 1e-4);
        let predictor = Predictor { model: &model, bank, dqce: parts.dqce, options };
        let scores: Vec<f32> =
            fixture.queries.iter().flat_map(|name| values(predictor.canvas_scores(&image(name)))).collect();
        let worst = assert_close("logits", &scores, expected.values("logits"), 2e-3);
        eprintln!("{container}: largest difference {rows:.1e} in prototypes, {worst:.1e} in logits");
    }
}

#[test]
#[allow(clippy::print_stderr)]
fn encoders_of_others_give_the_maps_of_pytorch() {
    let Some(folder) = std::env::var_os("PROTOSEG_ENCODERS").map(PathBuf::from) else {
        eprintln!(
            "SKIPPED: this test needs encoders of torchvision; `python benches/peers/encoder_parity.py` makes some"
        );
        return;
    };
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
    assert_eq!(compared, 5);
}
