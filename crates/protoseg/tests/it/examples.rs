//! The programs in `examples/` run, and the README shows the first of them.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use protoseg::{
    Image,
    core::{Classes, RowMap},
    data::{Benchmark, mask::write_index_mask},
    method::capl::{Ablation, Preset},
    write_image,
};

use crate::fixture::{capl, tiny_config, tiny_model};

/// What cargo built of an example, beside this test.
fn built(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    folder.join("examples").join(format!("{name}{}", env::consts::EXE_SUFFIX))
}

/// Runs an example in a folder and gives what it printed.
fn run(name: &str, folder: &Path, arguments: &[&str]) -> String {
    let program = built(name);
    let output = Command::new(&program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A folder with a model and the files that the examples expect.
fn desk(classes: Classes) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let method = capl(&classes, Ablation::Capl, &Preset::Reference.options());
    let model = tiny_model(tiny_config(), classes, method, 65);
    model.save(folder.path().join("model.safetensors")).unwrap();
    let picture = |seed: usize| {
        let byte = |at: usize| ((at * (seed + 7)) % 251) as u8;
        Image::new(80, 60, (0..80 * 60 * 3).map(byte).collect())
    };
    write_image(folder.path().join("pond.png"), &picture(1)).unwrap();
    write_image(folder.path().join("lake.png"), &picture(2)).unwrap();
    let mask = (0..80 * 60).map(|at| u16::from(at % 80 > 30)).collect();
    write_index_mask(&folder.path().join("pond_mask.png"), &RowMap::new(80, 60, mask)).unwrap();
    folder
}

#[test]
fn teach_is_the_readmes_example_and_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let shown = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let example = fs::read_to_string(root.join("examples/teach.rs")).unwrap();
    // The first line is for our own linter.
    assert_eq!(shown, example.split_once("\n\n").unwrap().1);

    let folder = desk(Classes::new(&["background", "cow", "grass"], &[]).unwrap());
    let printed = run("teach", folder.path(), &[]);
    assert!(printed.contains("duck: 1 support, 2940 pixels") && printed.contains(" %"), "{printed}");
    assert!(folder.path().join("lake_overlay.png").exists());

    protoseg::Model::builtin().save(folder.path().join("box.safetensors")).unwrap();
    let printed = run("segment", folder.path(), &["box.safetensors", "my.pack", "lake.png", "pond.png"]);
    assert!(printed.matches("80 x 60 pixels, mean confidence").count() == 2, "{printed}");
    assert!(printed.contains("runs "), "{printed}");
}

#[test]
fn evaluate_prints_scores() {
    let scenes = Benchmark::open("scenes", None).unwrap();
    let folder = desk(scenes.fold(0).unwrap().classes(scenes.dataset.classes()).unwrap());
    let printed = run("evaluate", folder.path(), &["model.safetensors", "scenes", "3"]);
    assert!(printed.contains("1 shots: base ") && printed.contains("5 shots: base "), "{printed}");
}
