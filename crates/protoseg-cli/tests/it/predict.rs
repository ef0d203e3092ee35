//! `protoseg predict` as a daily tool: runs that stop, go on and are repeated, and all ways to name images.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use protoseg_data::{
    mask::read_index_mask,
    picture::{image_size, read_image},
};
use serde_json::Value;

use crate::novel::{Desk, save_model};

const PREDICT: &str = "predict --model model.safetensors";

/// A desk with these photos in the folder `photos`.
fn desk_with(names: &[&str]) -> Desk {
    let desk = Desk::new();
    for (place, name) in names.iter().enumerate() {
        let path = desk.path("photos").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(desk.path(&format!("photo{}.png", place % 4)), path).unwrap();
    }
    desk
}

fn summary(desk: &Desk, out: &str) -> Value {
    serde_json::from_slice(&fs::read(desk.path(out).join("predictions.json")).unwrap()).unwrap()
}

fn names(summary: &Value) -> Vec<String> {
    let images = summary["images"].as_array().unwrap().iter();
    images.map(|image| image["image"].as_str().unwrap().to_string()).collect()
}

/// The answer of a command that reads `input`.
fn run_with_input(desk: &Desk, command: &str, input: &str) -> (i32, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_protoseg"))
        .current_dir(desk.path(""))
        .args(command.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
#[cfg(unix)]
fn a_gallery_shows_every_image_and_its_links_lead_to_files() {
    let desk = desk_with(&["a <b>.png", "inner/b #1.png"]);
    let answer = desk.done(&format!("{PREDICT} photos -o out --write index,overlay,confidence,gallery"));
    assert!(answer.contains("gallery -> out/index.html"), "{answer}");
    let html = fs::read_to_string(desk.path("out/index.html")).unwrap();
    assert!(html.contains("a &lt;b&gt;") && !html.contains("a <b>"), "names are text");
    assert!(!html.contains("http") && !html.contains("<script"), "nothing is fetched or run");
    assert!(html.contains("prefers-color-scheme: dark"));
    let links: Vec<&str> = ["href=\"", "src=\""]
        .iter()
        .flat_map(|key| html.split(key).skip(1).map(|rest| rest.split('"').next().unwrap()))
        .collect();
    // Per image: two thumbnails with a link each, the input and three files.
    assert_eq!(links.len(), 2 * (2 + 2 + 4), "{links:?}");
    for link in links {
        let path = link.replace("%20", " ").replace("%3C", "<").replace("%3E", ">").replace("%23", "#");
        assert!(desk.path("out").join(&path).is_file(), "{link}");
    }
    let summary = summary(&desk, "out");
    for area in summary["images"][0]["classes"].as_array().unwrap() {
        let text = format!("{:.1} %", 100.0 * area["share"].as_f64().unwrap());
        assert!(html.contains(&text), "{text}");
    }
    desk.done(&format!("{PREDICT} photos -o plain --write index"));
    assert!(!desk.path("plain/index.html").exists(), "whoever asks for masks gets masks");
}

#[test]
fn an_overlay_leaves_the_background_as_it_is() {
    let desk = desk_with(&["a.png"]);
    desk.done(&format!("{PREDICT} photos -o out"));
    let labels = read_index_mask(&desk.path("out/index/a.png")).unwrap();
    let (photo, overlay) =
        (read_image(desk.path("photos/a.png")).unwrap(), read_image(desk.path("out/overlay/a.png")).unwrap());
    assert!(labels.data.iter().any(|&label| label != 0), "the model finds something");
    for (at, &label) in labels.data.iter().enumerate() {
        let over = 3 * (at / labels.width * overlay.width + at % labels.width);
        let is_same = overlay.data[over..over + 3] == photo.data[3 * at..3 * at + 3];
        assert!(label != 0 || is_same, "pixel {at}");
    }
}

#[test]
fn a_run_goes_on_where_it_stopped() {
    let desk = desk_with(&["a.png", "b.png", "c.png"]);
    let command = format!("{PREDICT} photos -o out --write index,coco,gallery");
    desk.done(&command);
    let refused = desk.refused(&command);
    assert!(refused.contains("--resume") && refused.contains("--force"), "{refused}");
    let coco = fs::read(desk.path("out/coco.json")).unwrap();

    let time = |name: &str| fs::metadata(desk.path("out/index").join(name)).unwrap().modified().unwrap();
    let before = time("a.png");
    fs::remove_file(desk.path("out/index/b.png")).unwrap();
    fs::remove_file(desk.path("out/coco.json")).unwrap();
    let answer: Value = serde_json::from_str(&desk.done(&format!("{command} --resume --json"))).unwrap();
    assert_eq!((answer["skipped"].as_u64(), names(&answer).len()), (Some(2), 3));
    assert_eq!(time("a.png"), before, "what is complete stays");
    assert!(desk.path("out/index/b.png").exists());
    assert_eq!(fs::read(desk.path("out/coco.json")).unwrap(), coco, "with the images of both runs");

    // A photo that changed is done again; one more is added.
    fs::copy(desk.path("photo3.png"), desk.path("photos/c.png")).unwrap();
    fs::copy(desk.path("photo0.png"), desk.path("photos/d.png")).unwrap();
    desk.done(&format!("{command} --resume"));
    assert_eq!(
        image_size(&desk.path("out/index/c.png")).unwrap(),
        image_size(&desk.path("photo3.png")).unwrap()
    );
    let all = summary(&desk, "out");
    assert_eq!((all["skipped"].as_u64(), names(&all).len()), (Some(2), 4));
    let html = fs::read_to_string(desk.path("out/index.html")).unwrap();
    assert_eq!(html.matches("<article").count(), 4);

    // Results of other settings are not mixed.
    save_model(&desk.path("other.safetensors"), 12);
    let says = |command: &str, word: &str| {
        let error = desk.refused(command);
        assert!(error.contains(word) && error.contains("--force"), "{error}");
    };
    says(
        "predict --model other.safetensors photos -o out --write index,coco,gallery --resume",
        "another model",
    );
    says(&format!("{command} --abstain 0.5 --resume"), "another --abstain");
    says(&format!("{command} --fast --resume"), "another --fast");
    says(&format!("{PREDICT} photos -o out --resume"), "another --write");
    fs::create_dir(desk.path("others")).unwrap();
    fs::copy(desk.path("photo0.png"), desk.path("others/a.png")).unwrap();
    says(&command.replace("photos", "others").replace(" -o", " --resume -o"), "same files");
    assert_eq!(desk.run(&format!("{command} --resume --force")).code, 2);
}

#[test]
fn a_list_that_was_cut_short_loses_one_image_only() {
    let desk = desk_with(&["a.png", "b.png"]);
    let command = format!("{PREDICT} photos -o out --write index");
    desk.done(&command);
    let ledger = desk.path("out/.protoseg-predict.jsonl");
    let text = fs::read(&ledger).unwrap();
    fs::write(&ledger, &text[..text.len() - 9]).unwrap();
    fs::remove_file(desk.path("out/predictions.json")).unwrap();
    desk.done(&format!("{command} --resume"));
    assert_eq!(
        (summary(&desk, "out")["skipped"].as_u64(), names(&summary(&desk, "out")).len()),
        (Some(1), 2)
    );
}

#[test]
fn force_deletes_what_an_earlier_run_wrote_and_nothing_else() {
    let desk = desk_with(&["a.png", "inner/b.png"]);
    desk.done(&format!("{PREDICT} photos -o out --write index,overlay,coco,gallery"));
    for mine in ["out/notes.txt", "out/index/mine.png", "out/overlay/inner/mine.png"] {
        fs::write(desk.path(mine), b"mine").unwrap();
    }
    // A list that was tampered with leads nowhere else.
    let ledger = desk.path("out/.protoseg-predict.jsonl");
    let text = fs::read_to_string(&ledger).unwrap();
    fs::write(
        &ledger,
        text.replacen("\"index/a.png\"", "\"index/a.png\",\"../photo0.png\",\"notes.txt\"", 1),
    )
    .unwrap();
    desk.done(&format!("{PREDICT} photos/a.png -o out --write index --force"));
    for gone in ["index/inner", "overlay/a.png", "overlay/inner/b.png", "coco.json", "index.html", "gallery"]
    {
        assert!(!desk.path("out").join(gone).exists(), "{gone}");
    }
    for stays in
        ["out/notes.txt", "out/index/mine.png", "out/overlay/inner/mine.png", "out/index/a.png", "photo0.png"]
    {
        assert!(desk.path(stays).exists(), "{stays}");
    }
    assert_eq!(names(&summary(&desk, "out")), ["photos/a.png"]);
}

#[test]
fn a_first_run_overwrites_nothing() {
    let desk = desk_with(&["overlay/a.png", "b.png"]);
    fs::create_dir_all(desk.path("out/overlay")).unwrap();
    for mine in ["overlay/b.png", "index.html"] {
        fs::write(desk.path("out").join(mine), b"mine").unwrap();
        let error = desk.refused(&format!("{PREDICT} photos/b.png -o out"));
        assert!(error.contains(&format!("out/{mine}")) && error.contains("is there already"), "{error}");
        assert_eq!(fs::read(desk.path("out").join(mine)).unwrap(), b"mine");
        fs::remove_file(desk.path("out").join(mine)).unwrap();
    }
    let error = desk.refused(&format!("{PREDICT} photos/overlay/a.png -o photos --force"));
    assert!(error.contains("is an input and would be overwritten"), "{error}");
}

#[test]
fn results_are_never_taken_for_inputs() {
    let desk = desk_with(&["a.png", "inner/b.png"]);
    for (out, flags) in [("photos/out", ""), ("photos/out", " --force"), ("photos/more", ""), ("photos", "")]
    {
        let answer = desk.run(&format!("{PREDICT} photos -o {out} --write index,overlay,gallery{flags}"));
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        assert_eq!(names(&summary(&desk, out)), ["photos/a.png", "photos/inner/b.png"], "{out}{flags}");
    }
    desk.done(&format!("{PREDICT} photos/**/*.png -o photos/out --force --write index"));
    assert_eq!(names(&summary(&desk, "photos/out")), ["photos/a.png", "photos/inner/b.png"]);
    let error = desk.refused(&format!("{PREDICT} photos/out/index -o x"));
    assert!(error.contains("earlier run"), "{error}");
}

#[test]
fn images_are_found_by_patterns_and_lists() {
    let desk = desk_with(&["a.png", "b.PNG", "inner/c.png", "x[1].png"]);
    fs::write(desk.path("photos/notes.md"), b"no image").unwrap();
    let found = |inputs: &str, out: &str| {
        desk.done(&format!("{PREDICT} {inputs} -o {out} --write index"));
        names(&summary(&desk, out))
    };
    assert_eq!(found("photos/*.png", "star"), ["photos/a.png", "photos/x[1].png"]);
    assert_eq!(found("photos/x[1].png", "literal"), ["photos/x[1].png"]);
    assert_eq!(found("photos/*", "all").len(), 4);
    assert_eq!(found("photos/**/c.png", "deep"), ["photos/inner/c.png"]);
    assert!(desk.path("deep/index/inner/c.png").exists(), "names keep what the pattern left open");
    let error = desk.refused(&format!("{PREDICT} photos/*.jpg -o x"));
    assert!(error.contains("`photos/*.jpg` matches no image") && error.contains("ls photos"), "{error}");
    assert!(desk.refused(&format!("{PREDICT} photos/a[.png -o x")).contains("is not a pattern"));

    let list = "# two\nphotos/a.png\n\nphotos/inner\n";
    let (code, stderr) = run_with_input(&desk, &format!("{PREDICT} - -o listed --write index"), list);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(names(&summary(&desk, "listed")), ["photos/a.png", "photos/inner/c.png"]);
    let (code, stderr) = run_with_input(&desk, &format!("{PREDICT} - -o x"), "");
    assert!(code == 1 && stderr.contains("no image is given"), "{stderr}");
    assert!(!desk.path("x").exists());
}

#[test]
fn a_video_is_refused_with_the_way_to_its_frames() {
    let desk = desk_with(&["a.png"]);
    fs::create_dir(desk.path("clips")).unwrap();
    fs::write(desk.path("clips/cow.mp4"), b"moving pictures").unwrap();
    for inputs in ["photos clips/cow.mp4", "clips", "clips/*"] {
        let error = desk.refused(&format!("{PREDICT} {inputs} -o out"));
        assert!(error.contains("cow.mp4` is a video"), "{error}");
        assert!(
            error.contains("ffmpeg -i clips/cow.mp4 ") && error.contains("clips/cow/%06d.jpg"),
            "{error}"
        );
    }
    assert!(!desk.path("out").exists());
}

#[test]
fn nothing_is_written_or_deleted_if_no_image_can_be_read() {
    let desk = desk_with(&["a.png"]);
    fs::write(desk.path("broken.png"), b"no picture").unwrap();
    let error = desk.refused(&format!("{PREDICT} broken.png nowhere.jpg -o out"));
    assert!(error.contains("2 of 2 images could not be read"), "{error}");
    assert!(!desk.path("out").exists());
    desk.done(&format!("{PREDICT} photos -o out"));
    let before = fs::read(desk.path("out/predictions.json")).unwrap();
    let answer = desk.run(&format!("{PREDICT} broken.png -o out --force --json"));
    assert_eq!(answer.code, 1);
    assert_eq!(serde_json::from_str::<Value>(&answer.stdout).unwrap()["failed"], 1);
    assert_eq!(fs::read(desk.path("out/predictions.json")).unwrap(), before, "the earlier results stay");
    assert!(desk.path("out/index/a.png").exists());
}

#[test]
fn a_run_that_cannot_write_says_what_is_done_and_can_go_on() {
    let places: Vec<String> = (0..12).map(|place| format!("{place:02}.png")).collect();
    let desk = desk_with(&places.iter().map(String::as_str).collect::<Vec<_>>());
    // A folder where the overlay of the ninth image should be.
    fs::create_dir_all(desk.path("out/overlay/08.png")).unwrap();
    let command = format!("{PREDICT} photos -o out");
    let error = desk.refused(&format!("{command} --force"));
    assert_eq!(error.matches("error:").count(), 1, "{error}");
    assert!(error.contains("out/overlay/08.png") && error.contains("hint:"), "{error}");
    assert!(error.contains(" of 12 images are done") && error.contains("--resume"), "{error}");
    assert!(!error.contains("--force --resume") && !desk.path("out/predictions.json").exists());
    assert!(!desk.path("out/index/08.png").exists(), "no half of an image is left");
    fs::remove_dir(desk.path("out/overlay/08.png")).unwrap();
    desk.done(&format!("{command} --resume"));
    assert_eq!(names(&summary(&desk, "out")).len(), 12);
    for name in places {
        assert!(desk.path("out/index").join(&name).exists() && desk.path("out/overlay").join(&name).exists());
    }
}

#[test]
#[cfg(unix)]
fn ctrl_c_finishes_the_images_in_work() {
    let places: Vec<String> = (0..600).map(|place| format!("{place:03}.png")).collect();
    let desk = desk_with(&places.iter().map(String::as_str).collect::<Vec<_>>());
    let command = format!("{PREDICT} photos -o out --write index,overlay,gallery");
    let child = Command::new(env!("CARGO_BIN_EXE_protoseg"))
        .current_dir(desk.path(""))
        .args(command.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !desk.path("out/.protoseg-predict.jsonl").exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    let stopped = summary(&desk, "out");
    let (done, left) = (names(&stopped).len(), stopped["left"].as_u64().unwrap() as usize);
    assert!(done > 0 && done + left == 600, "{done} + {left}");
    assert!(stderr.contains(&format!("{done} of 600 images done, {left} left")), "{stderr}");
    assert!(stderr.contains("go on with `protoseg predict") && stderr.contains(" --resume`"), "{stderr}");
    assert_eq!(fs::read_dir(desk.path("out/overlay")).unwrap().count(), done, "each image is whole");
    let answer = desk.done(&format!("{command} --resume"));
    assert!(answer.contains(&format!("{done} image")), "{answer}");
    assert_eq!(names(&summary(&desk, "out")).len(), 600);
}

#[test]
fn timings_say_where_the_time_goes() {
    let desk = desk_with(&["a.png", "b.png"]);
    let answer = desk.done(&format!("{PREDICT} photos -o out --timings"));
    for word in ["read and decode", "network", "overlay PNG", "ms per image", "images per second"] {
        assert!(answer.contains(word), "{word}: {answer}");
    }
    let answer: Value =
        serde_json::from_str(&desk.done(&format!("{PREDICT} photos -o more --json --write index"))).unwrap();
    let parts: Vec<&str> =
        answer["timings"].as_array().unwrap().iter().map(|part| part["part"].as_str().unwrap()).collect();
    let expected =
        ["read and decode", "prepare", "network and classifier", "labels", "index PNG", "writing files"];
    assert_eq!(parts, expected);
    assert!(answer["images_per_second"].as_f64().unwrap() > 0.0);
}

/// The bar of a terminal says which tile of a large image is in work.
#[test]
#[cfg(target_os = "linux")]
fn a_terminal_shows_tiles() {
    let desk = desk_with(&["a.png"]);
    let command = format!("{} {PREDICT} photos -o out --tile", env!("CARGO_BIN_EXE_protoseg"));
    let script = Command::new("script")
        .current_dir(desk.path(""))
        .args(["-qec", &command, "/dev/null"])
        .stdin(Stdio::null())
        .output();
    // Not every machine has the program that makes a terminal.
    let Ok(output) = script else { return };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && Path::new(&desk.path("out/index/a.png")).exists(), "{text}");
    assert!(text.contains("a: tile 1/2"), "{text}");
}

#[test]
fn parts_of_a_folder_are_merged_to_what_one_run_gives() {
    let desk = desk_with(&["a.png", "b.png", "c.png", "inner/d.png", "inner/e.png"]);
    desk.done(&format!("{PREDICT} photos -o whole --write index,overlay,gallery,coco"));
    let write = "--write index,overlay,gallery,coco";
    for part in 1..=3 {
        desk.done(&format!("{PREDICT} photos -o part{part} --shard {part}/3 {write}"));
    }
    let counts = [1, 2, 3].map(|part| names(&summary(&desk, &format!("part{part}"))).len());
    assert_eq!(counts, [2, 2, 1], "every image is in one part, and parts are of the same size");
    let answer = desk.done(&format!("{PREDICT} --merge part1 part2 part3 -o all {write}"));
    assert!(answer.contains("5 images of 3 parts -> all"), "{answer}");
    for file in ["index/a.png", "index/inner/e.png", "overlay/inner/d.png", "coco.json"] {
        let read = |folder: &str| fs::read(desk.path(folder).join(file)).unwrap();
        assert_eq!(read("all"), read("whole"), "{file}");
    }
    assert_eq!(names(&summary(&desk, "all")), names(&summary(&desk, "whole")));
    assert!(desk.path("all/index.html").is_file());
    let again = desk.done(&format!("{PREDICT} photos -o all --resume {write}"));
    assert!(again.contains("5 images done before"), "a merged folder is one like any other: {again}");
    assert!(again.contains("no new images -> all") && !again.contains(" in the network"), "{again}");
    let answer = desk.done(&format!("{PREDICT} --merge all whole -o twice {write}"));
    assert!(answer.contains("5 images of 2 parts"), "folders that are no parts may overlap: {answer}");
}

#[test]
fn all_parts_are_merged_and_each_of_them_once() {
    let desk = desk_with(&["a.png", "b.png"]);
    for (folder, shard) in [("part1", "1/3"), ("part2", "2/3"), ("part3", "3/3"), ("half", "1/2")] {
        desk.done(&format!("{PREDICT} photos -o {folder} --shard {shard}"));
    }
    for (parts, words) in [
        ("part1 part2", "part 3 of 3 is missing"),
        ("part2", "part 1 of 3 is missing"),
        ("part1 part2 part3 part2", "part 2 is given twice, the second time by `part2`"),
        ("part1 half", "`half` is not a part of this prediction"),
    ] {
        let error = desk.refused(&format!("{PREDICT} --merge {parts} -o all"));
        assert!(error.contains(words) && error.contains("hint: "), "{error}");
        assert!(!desk.path("all").exists(), "nothing is written");
    }
    let answer = desk.done(&format!("{PREDICT} --merge part3 part1 part2 -o all"));
    assert!(answer.contains("2 images of 3 parts"), "the third is empty: {answer}");
    let error = desk.refused(&format!("{PREDICT} photos -o part1 --shard 2/3 --resume"));
    assert!(error.contains("`part1` were made with another --shard"), "{error}");
    desk.done(&format!("{PREDICT} photos -o part3 --shard 3/3 --resume"));
}

#[test]
fn parts_that_do_not_belong_together_are_not_merged() {
    let desk = desk_with(&["a.png", "b.png"]);
    desk.done(&format!("{PREDICT} photos -o part1 --shard 1/2"));
    desk.done(&format!("{PREDICT} photos -o part2 --shard 2/2 --abstain 0.5"));
    let merge = |parts: &str| desk.refused(&format!("{PREDICT} --merge {parts} -o all"));
    let error = merge("part1 part2");
    assert!(error.contains("`part2` were made with another --abstain"), "{error}");
    let error = merge("part1 photos");
    assert!(error.contains("`photos` has no results"), "{error}");
    let error = desk.refused(&format!("{PREDICT} --merge part1 part1 -o part1 --force"));
    assert!(error.contains("`part1` is both a part and the output folder"), "{error}");
    let summary = desk.path("part1/predictions.json");
    let finished = fs::read_to_string(&summary).unwrap();
    fs::write(&summary, finished.replace("\"left\": 0", "\"left\": 3")).unwrap();
    let error = merge("part1");
    assert!(error.contains("`part1` is not finished") && error.contains("--resume"), "{error}");
    fs::remove_file(&summary).unwrap();
    assert!(merge("part1").contains("`part1` is not finished"), "a run that was killed has no summary");
    fs::write(&summary, finished).unwrap();
    fs::remove_file(desk.path("part1/index/a.png")).unwrap();
    let error = merge("part1");
    assert!(error.contains("`a` are missing in `part1`") && error.contains("--resume"), "{error}");
    assert!(!desk.path("all").exists(), "nothing was written");
    let error = desk.refused(&format!("{PREDICT} photos -o out --shard 3/2"));
    assert!(error.contains("`--shard` must be a part and a number of parts"), "{error}");
    let answer = desk.done(&format!("{PREDICT} photos -o out --shard 3/3 --json"));
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["images"].as_array().unwrap().len(), 0, "an empty part is no error");
    assert!(desk.path("out/predictions.json").exists() && !desk.path("out/index").exists());
}
