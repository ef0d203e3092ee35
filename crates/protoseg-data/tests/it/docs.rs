//! The examples in docs/formats.md are read as they are printed there.

use protoseg_core::{ClassId, IGNORE, IdMap, NovelPixels};
use protoseg_data::{Benchmark, SupportFiles, read_episodes, read_supports, resolve_supports};

use crate::fixture::{Folder, gradient, scene};

/// The code blocks in that language.
fn blocks(language: &str) -> Vec<&'static str> {
    let text = include_str!("../../../../docs/formats.md");
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// A folder with the files that the examples name.
fn farm() -> Folder {
    let folder = Folder::new();
    for name in ["a", "b"] {
        folder.picture(&format!("photos/images/{name}.jpg"), &gradient(20, 12));
        folder.mask(&format!("photos/masks/{name}.png"), &scene());
        let path = folder.write(&format!("photos/white/{name}.png"), []);
        let white: Vec<u8> = scene().data.iter().map(|&label| if label == 1 { 255 } else { 0 }).collect();
        image::save_buffer(path, &white, 20, 12, image::ColorType::L8).unwrap();
    }
    folder.write("lists/train.txt", "a.jpg\n");
    folder.write("lists/val.txt", "b\n");
    folder.write("lists/pairs.txt", "a.jpg a.png\nb.jpg b.png\n");
    folder
}

#[test]
fn the_examples_in_toml_open() {
    let [first, second] = blocks("toml")[..] else { panic!("two examples") };
    let folder = farm();
    folder.write("protoseg.toml", first);
    let farm = Benchmark::folder(folder.path()).unwrap();
    assert_eq!((farm.dataset.name(), farm.novel_pixels), ("farm", NovelPixels::Ignore));
    assert_eq!((farm.train.as_str(), farm.val.as_deref()), ("train", Some("val")));
    assert_eq!(farm.folds[0].novel(), [ClassId(2)]);
    assert_eq!(farm.dataset.classes().ignore(), [254, 255]);
    assert_eq!(farm.dataset.load(0).unwrap().1, scene());

    let path = folder.write("white.toml", second);
    let white = Benchmark::open(path.to_str().unwrap(), None).unwrap();
    let labels: IdMap = white.dataset.load(1).unwrap().1;
    assert_eq!((labels.present(), labels.data.contains(&IGNORE)), (vec![0, 255], false));
}

#[test]
fn the_example_of_supports_resolves() {
    let [toml, _] = blocks("toml")[..] else { panic!("two examples") };
    let [json, by_hand, _] = blocks("json")[..] else { panic!("three examples") };
    let folder = farm();
    let examples = SupportFiles::read_json(&folder.write("by-hand.json", by_hand)).unwrap();
    assert_eq!((examples.len(), examples[1].value, examples[1].base_labels), (5, Some(17), true));
    folder.write("protoseg.toml", toml);
    let farm = Benchmark::folder(folder.path()).unwrap();
    let list = read_supports(&folder.write("supports.json", json)).unwrap();
    assert_eq!(list.min_pixels, Some(farm.min_support_pixels));
    assert_eq!(resolve_supports(farm.dataset.as_ref(), &farm.folds[0], &list).unwrap(), [[0]]);
}

#[test]
fn the_example_of_episodes_is_read() {
    let [.., json] = blocks("json")[..] else { panic!("an example") };
    let list = read_episodes(&Folder::new().write("episodes.json", json)).unwrap();
    assert_eq!((list.shots, list.runs.len(), list.runs[0].episodes[0].class.as_str()), (2, 1, "duck"));
}
