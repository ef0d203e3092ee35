//! `protoseg data` on real photos, on the embedded world, and on broken folders.

use std::fs;

use protoseg_testing::shared;

use crate::run::protoseg;

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn check_counts_what_msrc_holds() {
    let root = shared("data/msrc");
    let root = root.to_str().unwrap();
    let text = protoseg(["data", "check", root]);
    assert_eq!(text.code, 0, "{}", text.stderr);
    assert!(text.stdout.contains("591 images (296 train, 295 test)"), "{}", text.stdout);
    let rule = "novel pixels `drop`: 195 of 296 training images kept";
    assert!(text.stdout.contains(rule), "{}", text.stdout);

    let json = protoseg(["data", "check", "msrc", "--root", root, "--labels-only", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["folds"][0]["supports"][4]["class"], "boat");
    assert_eq!(json["folds"][0]["supports"][4]["usable"], 14);
    assert_eq!(json["problems"].as_array().unwrap().len(), 0);
}

#[test]
fn check_names_what_is_broken_and_fails() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("my photos é");
    for part in ["images", "masks"] {
        fs::create_dir_all(root.join(part)).unwrap();
    }
    fs::write(root.join("images/cut.jpg"), b"\xff\xd8\xff\xe0 not a whole photo").unwrap();
    fs::write(root.join("masks/cut.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    fs::write(root.join("classes.txt"), "background\ncow\n").unwrap();
    let check = protoseg(["data", "check", root.to_str().unwrap()]);
    assert_eq!(check.code, 1, "{}", check.stdout);
    assert!(check.stdout.contains("cut.jpg") && check.stdout.contains("hint: "), "{}", check.stdout);
    assert!(check.stderr.starts_with("error: data set `my photos é` has"), "{}", check.stderr);
}

#[test]
fn show_draws_a_class_and_never_overwrites() {
    let folder = tempfile::tempdir().unwrap();
    let sheet = folder.path().join("sheet.png");
    let args = ["data", "show", "scenes", "--class", "boat", "--count", "6", "--columns", "3", "-o"];
    let draw = || protoseg(args.into_iter().chain([sheet.to_str().unwrap()]));
    let first = draw();
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(first.stdout.contains("1 boat") && first.stdout.contains("6 images"), "{}", first.stdout);
    assert!(fs::read(&sheet).unwrap().starts_with(b"\x89PNG"));
    let second = draw();
    assert_eq!(second.code, 1);
    assert!(second.stderr.contains("--force"), "{}", second.stderr);
    let unknown = protoseg(["data", "show", "scenes", "--class", "dragon", "-o", "x.png"]);
    assert!(
        unknown.stderr.contains("no class `dragon`") && unknown.stderr.contains("swan"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn a_sheet_names_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let sheet = folder.path().join("sheet.png");
    let args = ["data", "show", "scenes", "--count", "3", "--columns", "2", "-o", sheet.to_str().unwrap()];
    let shown = protoseg(args).stdout;
    let rows: Vec<&str> = shown.lines().filter(|line| line.starts_with("row ")).collect();
    assert_eq!(rows.len(), 2, "{shown}");
    assert_eq!(rows[0].split("  ").count(), 3, "two names: {shown}");
    let one = folder.path().join("one.png");
    let one = protoseg(["data", "show", "scenes", "--count", "1", "-o", one.to_str().unwrap()]).stdout;
    assert!(one.contains("1 image of `train`"), "{one}");
}

/// A folder of two pictures, one of them with a cow, as YOLO describes it.
fn write_yolo(root: &std::path::Path) {
    for part in ["images", "labels"] {
        fs::create_dir_all(root.join(part)).unwrap();
    }
    for name in ["a", "b"] {
        let image = protoseg::core::Image::new(8, 8, vec![90; 192]);
        protoseg_data::picture::write_image(root.join(format!("images/{name}.png")), &image).unwrap();
    }
    fs::write(root.join("labels/a.txt"), "0 0 0 1 0 1 1 0 1\n").unwrap();
    fs::write(root.join("farm.yaml"), "train: images\nnames: [cow, duck]\n").unwrap();
}

#[test]
fn a_yaml_file_is_a_data_set_and_one_without_folds_has_no_supports() {
    let folder = tempfile::tempdir().unwrap();
    write_yolo(folder.path());
    let run = |args: &[&str]| crate::run::protoseg_in(folder.path(), args);
    let check = run(&["data", "check", "farm.yaml"]);
    assert_eq!(check.code, 0, "{}", check.stderr);
    assert!(check.stdout.contains("2 images") && check.stdout.contains("cow"), "{}", check.stdout);

    let supports = run(&["data", "supports", "farm.yaml", "-o", "list.json"]);
    assert_eq!(supports.code, 1);
    assert!(supports.stderr.contains("no novel classes") && supports.stderr.contains("register --data"));
    assert!(!folder.path().join("list.json").exists());

    fs::copy(folder.path().join("farm.yaml"), folder.path().join("data.yaml")).unwrap();
    let spec = "name = \"farm\"\nformat = \"yolo\"\nnovel = [\"cow\"]\nmin_support_pixels = 9\n";
    fs::write(folder.path().join("protoseg.toml"), spec).unwrap();
    let few = run(&["data", "supports", ".", "--shots", "3", "-o", "list.json"]);
    assert_eq!(few.code, 0, "{}", few.stderr);
    assert!(
        few.stderr.contains("class `cow` has only 1 usable image: the 3 supports repeat it"),
        "{}",
        few.stderr
    );
    assert!(few.stdout.contains("3 supports -> list.json"), "{}", few.stdout);
    let none = run(&["data", "supports", ".", "--shots", "0"]);
    assert!(none.stderr.contains("`--shots` must be at least 1"), "{}", none.stderr);
}

#[test]
fn a_source_that_is_none_lists_the_benchmarks() {
    let answer = protoseg(["data", "check", "no-such-thing"]);
    assert_eq!(answer.code, 1);
    assert!(answer.stderr.contains("`scenes`") && answer.stderr.contains("hint: "), "{}", answer.stderr);
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn supports_are_drawn_saved_and_the_same_for_a_seed() {
    let root = shared("data/msrc");
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("supports.json");
    let draw = |shots: &str, more: &[&str]| {
        let args = ["data", "supports", root.to_str().unwrap(), "--shots", shots, "--seed", "321"];
        protoseg(args.iter().chain(more))
    };
    let saved = draw("5", &["-o", list.to_str().unwrap()]);
    assert_eq!(saved.code, 0, "{}", saved.stderr);
    let saved: serde_json::Value = serde_json::from_slice(&fs::read(&list).unwrap()).unwrap();
    let printed: serde_json::Value = serde_json::from_str(&draw("5", &[]).stdout).unwrap();
    assert_eq!(saved, printed);
    assert_eq!(saved["classes"][4]["class"], "boat");
    assert_eq!(saved["classes"][4]["samples"].as_array().unwrap().len(), 5);
    let one: serde_json::Value = serde_json::from_str(&draw("1", &[]).stdout).unwrap();
    assert_eq!(one["classes"][0]["samples"][0], saved["classes"][0]["samples"][0]);
    let none = draw("0", &[]);
    assert_eq!(none.code, 1);
    assert!(none.stderr.contains("at least 1"), "{}", none.stderr);
}

#[test]
fn preparing_from_archives_that_are_not_there_names_them_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let commands = [
        ["data", "prepare", "pascal-5i", "--voc", "no-voc", "--sbd", "no-sbd"].to_vec(),
        ["data", "prepare", "coco-20i", "--coco", "no-coco"].to_vec(),
    ];
    for command in commands {
        let answer = crate::run::protoseg_in(folder.path(), &command);
        assert_eq!(answer.code, 1, "{}", answer.stdout);
        assert!(answer.stderr.contains(command[4]) && answer.stderr.contains("hint: "), "{}", answer.stderr);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let named = crate::run::protoseg_in(folder.path(), ["data", "check", "pascal-5i"]);
    assert!(named.stderr.contains("--root"), "{}", named.stderr);
}
