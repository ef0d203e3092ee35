//! Data sets described in TOML.

use protoseg_core::{ClassId, IGNORE, IdMap, NovelPixels};
use protoseg_data::{Benchmark, DataError};

use crate::fixture::{COW, DUCK, Folder, coordinates, gradient, scene, scene_without_background};

/// A folder with one image and its mask, and a description.
fn farm(toml: &str) -> Folder {
    let folder = Folder::new();
    folder.picture("photos/images/a.png", &gradient(20, 12));
    folder.mask("photos/masks/a.png", &scene());
    folder.write("photos/train.tsv", "images/a.png\tmasks/a.png\n");
    folder.write("protoseg.toml", toml);
    folder
}

fn open(toml: &str) -> Result<Benchmark, DataError> {
    Benchmark::folder(farm(toml).path())
}

#[test]
fn a_folder_with_everything_said() {
    let toml = r#"
name = "farm"
format = "folder"
root = "photos"
classes = ["rest", "cow", "duck"]
background = "rest"
ignore = [254, 255]
novel = ["duck"]
novel_pixels = "background"
min_support_pixels = 12
"#;
    let farm = farm(toml);
    let benchmark = Benchmark::open(farm.path().join("protoseg.toml").to_str().unwrap(), None).unwrap();
    assert_eq!((benchmark.dataset.name(), benchmark.min_support_pixels), ("farm", 12));
    assert_eq!(benchmark.novel_pixels, NovelPixels::Background);
    assert_eq!(benchmark.dataset.classes().background(), Some(ClassId(0)));
    assert_eq!(benchmark.folds[0].novel(), [ClassId(2)]);
    assert_eq!((benchmark.train.as_str(), benchmark.val.as_deref()), ("all", None));
    assert_eq!(benchmark.dataset.load(0).unwrap().1, scene());
}

#[test]
fn a_list_with_its_roots() {
    let toml = r#"
name = "farm"
format = "list"
root = "photos"
classes = { 0 = "background", 1 = "cow", 2 = "duck" }
folds = [["duck"], ["cow"]]
[splits]
train = "photos/train.tsv"
"#;
    let farm = farm(toml);
    let benchmark = Benchmark::folder(farm.path()).unwrap();
    assert_eq!(benchmark.folds.len(), 2);
    assert_eq!(benchmark.folds[1].novel(), [ClassId(1)]);
    assert_eq!(benchmark.dataset.load(0).unwrap().1, scene());
}

#[test]
fn white_masks_with_a_class_of_255() {
    let folder = Folder::new();
    folder.picture("images/a.png", &gradient(2, 1));
    let path = folder.write("masks/a.png", []);
    image::save_buffer(path, &[0, 255], 2, 1, image::ColorType::L8).unwrap();
    folder.write(
        "protoseg.toml",
        "name = 'x'\nformat = 'folder'\nignore = []\n[classes]\n0 = 'background'\n255 = 'cow'\n",
    );
    let benchmark = Benchmark::folder(folder.path()).unwrap();
    assert_eq!(benchmark.dataset.load(0).unwrap().1, IdMap::new(2, 1, vec![0, 255]));
    let fold = &benchmark.folds[0];
    assert_eq!(fold.row(ClassId(255)), Some(1));
}

#[test]
fn drawn_formats_without_background() {
    let folder = Folder::new();
    folder.picture("images/train/a.jpg", &gradient(20, 12));
    let scale = (1.0 / 20.0, 1.0 / 12.0);
    let shapes = format!("0 {}\n1 {}\n", coordinates(&COW, " ", scale), coordinates(&DUCK, " ", scale));
    folder.write("labels/train/a.txt", shapes);
    folder.write("data.yaml", "train: images/train\nnames: [cow, duck]\n");
    folder.write("protoseg.toml", "name = 'x'\nformat = 'yolo'\nbackground = false\nnovel = ['duck']\n");
    let benchmark = Benchmark::folder(folder.path()).unwrap();
    let labels = benchmark.dataset.load(0).unwrap().1;
    assert_eq!(labels, scene_without_background());
    assert_eq!(labels.data[0], IGNORE);
    assert_eq!(benchmark.folds[0].row(ClassId(1)), Some(0));
}

#[test]
fn a_colour_of_the_label_map_may_mean_no_label() {
    let folder = Folder::new();
    folder.picture("images/a.png", &gradient(20, 12));
    folder.color_mask("masks/a.png", &scene(), |label| [label as u8, 0, 0]);
    folder.write("colors.txt", "void,0,0,0\ncow,1,0,0\nduck,2,0,0\n");
    let toml = "name = 'x'\nformat = 'folder'\nlabel_map = 'colors.txt'\nignore = [0]\n";
    folder.write("protoseg.toml", toml);
    let benchmark = Benchmark::folder(folder.path()).unwrap();
    assert_eq!(benchmark.dataset.load(0).unwrap().1, scene_without_background());
    assert_eq!(benchmark.dataset.classes().classes().len(), 2);
    folder.write("protoseg.toml", toml.replace("ignore = [0]", "background = 'void'"));
    let benchmark = Benchmark::folder(folder.path()).unwrap();
    assert_eq!(benchmark.dataset.classes().background(), Some(ClassId(0)));
    assert_eq!(benchmark.dataset.load(0).unwrap().1, scene());
}

#[test]
fn a_list_layout_without_folds_is_found() {
    let folder = Folder::new();
    folder.picture("images/a b.png", &gradient(20, 12));
    folder.mask("labels/a b.png", &scene());
    folder.write("classes.txt", "background\ncow\nduck\n");
    folder.write("train.txt", "images/a b.png labels/a b.png\n");
    let benchmark = Benchmark::folder(folder.path()).unwrap();
    assert_eq!((benchmark.folds.len(), benchmark.folds[0].novel().len()), (1, 0));
    assert_eq!(benchmark.dataset.load(0).unwrap().1, scene());
}

#[test]
fn mistakes_are_named_with_their_line() {
    let head = "name = \"farm\"\nformat = \"folder\"\nroot = \"photos\"\n";
    let named = "classes = [\"background\", \"cow\", \"duck\"]\n";
    for (rest, line, says) in [
        (format!("{named}clases = []\n"), 5, "unknown field `clases`"),
        (format!("{named}novel_pixels = \"drp\"\n"), 5, "unknown variant `drp`"),
        (format!("{named}\nnovel = [\"duk\"]\n"), 6, "fold `0` names class `duk`"),
        (format!("{named}novel = [\"background\"]\n"), 5, "makes the background `background` novel"),
        (format!("{named}novel = [\"cow\", \"duck\"]\n"), 5, "leaves no base class"),
        (format!("{named}folds = \"pascal\"\n"), 5, "these are not folds"),
        (format!("{named}folds = [\"duck\"]\n"), 5, "these are not folds"),
        (format!("{named}folds = \"pascal-5i\"\n"), 5, "fold `0` names class `3`"),
        (format!("{named}novel = [\"duck\"]\nfolds = [[\"cow\"]]\n"), 5, "both `novel` and `folds`"),
        (format!("{named}image_root = \"x\"\n"), 5, "field `image_root` has no meaning for this format"),
        (format!("{named}background = true\n"), 5, "background is `true`"),
        (format!("{named}background = \"sky\"\n"), 4, "the background `sky` is not among the classes"),
        (format!("{named}ignore = [2]\n"), 4, "id `2` is both class `duck` and an ignored id"),
        (format!("{named}ignore = [70000]\n"), 5, "70000"),
        ("classes = [1, 2]\n".to_string(), 4, "these are not class names"),
        ("classes = { x = \"cow\" }\n".to_string(), 4, "these are not class names"),
        ("classes = [\n\"a\"\n".to_string(), 5, "unclosed array"),
    ] {
        let error = open(&format!("{head}{rest}")).err().unwrap_or_else(|| panic!("{rest} was accepted"));
        let text = error.to_string();
        let DataError::Spec { line: got, .. } = error else { panic!("{text}") };
        assert!(text.contains(says) && text.contains("protoseg.toml` line "), "{text}");
        assert!(text.contains("\nhint: "), "{text}");
        assert_eq!(got, line, "{text}");
    }
    let error = open("name = 'x'\nformat = 'coco'\nbackground = 'rest'\n").err().unwrap().to_string();
    assert!(error.contains("line 3: pixels outside all shapes are background by default"), "{error}");
    let error = open("name = 'x'\nformat = 'voc'\nignore = [0]\n").err().unwrap().to_string();
    assert!(error.contains("line 3: the classes are VOC's own"), "{error}");
    let error = open("name = 'x'\nformat = 'list'\nclasses = ['a']\n").err().unwrap().to_string();
    assert!(error.contains("line 2: format `list` needs its list files"), "{error}");
    let error = open(&format!("{head}{named}train = \"trian\"\n")).err().unwrap().to_string();
    assert!(error.contains("has no split `trian`\nhint: choose one of `all`"), "{error}");
    let no_background = format!("{head}classes = [\"grass\", \"cow\"]\nnovel_pixels = \"background\"\n");
    let error = open(&no_background).err().unwrap().to_string();
    assert!(error.contains("cannot become background"), "{error}");
}
