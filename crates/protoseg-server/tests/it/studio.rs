//! People at work: photos, classes, strokes, and what the model makes of them.

use std::time::{Duration, Instant};

use protoseg::{
    ClassPack, Model, Segmenter,
    data::SupportFiles,
    read_image,
    register::{Registration, SupportSet},
};
use protoseg_server::{Server, ServerError, StudioOptions};
use serde_json::{Value, json};

use crate::client::{House, Labels, mask_png, options, scenes, write_photos};

/// A point well inside the thing, as JSON.
fn inside(labels: &protoseg::core::IdMap, kind: u16) -> [f64; 2] {
    let is_inside = |at: &usize| {
        let (x, y) = (at % labels.width, at / labels.width);
        let around = [(0, 0), (4, 0), (0, 4), (-4, 0), (0, -4)];
        around.iter().all(|(dx, dy)| {
            let (x, y) = (x as i32 + dx, y as i32 + dy);
            x >= 0
                && y >= 0
                && (x as usize) < labels.width
                && (y as usize) < labels.height
                && labels.data[y as usize * labels.width + x as usize] == kind
        })
    };
    let all: Vec<usize> = (0..labels.data.len()).filter(is_inside).collect();
    let at = all[all.len() / 2];
    [(at % labels.width) as f64 + 0.5, (at / labels.width) as f64 + 0.5]
}

fn dot(class: u64, at: [f64; 2], radius: f64) -> Value {
    json!({ "class": class, "mode": "add", "tool": "brush", "points": [at], "radius": radius })
}

#[test]
fn strokes_teach_and_undo_takes_back_and_a_restart_finds_it_all() {
    let folder = tempfile::tempdir().unwrap();
    let (kind, scenes) = scenes(4);
    write_photos(folder.path(), &scenes);
    let house = House::studio(folder.path());
    let list = house.get("/api/photos?offset=0&limit=3").json();
    assert_eq!((list["total"].as_u64(), list["photos"].as_array().unwrap().len()), (Some(4), 3));
    assert_eq!((&list["photos"][0]["name"], &list["photos"][0]["width"]), (&json!("a.png"), &json!(160)));

    let before = house.labels(4, 128);
    assert_eq!((before.width, before.height, before.count(0)), (128, 96, 128 * 96), "nothing is taught yet");
    assert_eq!(before.rest.len(), 128 * 96, "a confidence for every pixel");

    let reply = house.post("/api/classes", &json!({ "name": "thing", "color": "#102030" }));
    assert_eq!(reply.status, 201);
    let class = reply.json()["id"].as_u64().unwrap();
    for photo in [1, 2] {
        let at = inside(&scenes[photo - 1].1, kind);
        let reply = house.post(&format!("/api/photos/{photo}/strokes"), &dot(class, at, 6.0)).json();
        assert!(reply["pixels"].as_u64().unwrap() > 90, "{reply}");
        assert!(reply["box"][0].as_f64().unwrap() < at[0] && reply["box"][2].as_f64().unwrap() > at[0]);
    }
    let project = house.get("/api/project").json();
    assert_eq!(project["classes"][0]["painted_photos"], json!([1, 2]));
    assert_eq!((&project["classes"][0]["color"], &project["can_undo"]), (&json!("#102030"), &json!(true)));
    let revision = project["revision"].as_u64().unwrap();

    let after = house.labels(4, 128);
    assert_eq!(u64::from(after.revision), revision);
    assert!(after.count(class as u8) > 0, "another photo follows");
    let known = house.get(&format!("/api/photos/4/labels?side=128&known={revision}"));
    assert_eq!(known.status, 304);
    let painted = Labels::read(&house.get("/api/photos/1/painted?side=160").body);
    assert!(painted.count(class as u8) > 90 && painted.rest.is_empty());

    // Several photos in one answer are what each answers by itself; the one that is known and one that is not there say so.
    let single = house.get("/api/photos/4/labels?side=128").body;
    let several = house.get(&format!("/api/labels?side=128&photos=4,3@{revision},99"));
    let head =
        |id: u32, status: u32, length: usize| [id, status, length as u32].map(u32::to_le_bytes).concat();
    let parts = [head(4, 200, single.len()), single, head(3, 304, 0), head(99, 404, 0)];
    assert_eq!(several.body, parts.concat());
    assert_eq!(house.get("/api/labels?side=128&photos=4,x").status, 400);
    let many = (0..200).map(|id| id.to_string()).collect::<Vec<_>>().join(",");
    assert_eq!(house.get(&format!("/api/labels?side=128&photos={many}")).status, 400);

    // Somewhere else, the thing is said not to be.
    let wrong = (0..after.ids.len()).find(|at| after.ids[*at] == class as u8).unwrap();
    let at = [(wrong % 128) as f64 * 1.25, (wrong / 128) as f64 * 1.25];
    let not = json!({ "mode": "not", "tool": "brush", "points": [at], "radius": 5.0 });
    let answer = house.post("/api/photos/4/strokes?side=128", &not);
    let negative = house.labels(4, 128);
    assert_eq!(Labels::read(&answer.body), negative, "the answer to a stroke has the new labels");
    let did: Value = serde_json::from_str(answer.header("x-stroke").unwrap()).unwrap();
    assert_eq!(did["revision"], negative.revision);
    assert!(negative.count(class as u8) < after.count(class as u8), "a negative stroke takes pixels away");
    assert!(Labels::read(&house.get("/api/photos/4/painted?side=160").body).count(254) > 50);
    let undone = house.post("/api/undo", &json!({})).json();
    assert_eq!(undone["photo"], 4);
    assert_eq!(house.labels(4, 128).ids, after.ids, "as before, to the last pixel");
    house.post("/api/redo", &json!({}));
    assert_eq!(house.labels(4, 128).ids, negative.ids);
    house.post("/api/undo", &json!({}));
    drop(house);

    let house = House::studio(folder.path());
    let again = house.get("/api/project").json();
    assert_eq!(again["classes"], project["classes"]);
    assert_eq!(house.labels(4, 128).ids, after.ids, "a restart changes nothing");
    let taken = Server::studio(Model::builtin(), StudioOptions::new(folder.path()), &options());
    assert!(matches!(taken, Err(ServerError::Project(_))), "a second studio is kept out");
}

#[test]
fn the_exported_pack_and_the_commands_give_the_mask_that_the_page_shows() {
    let folder = tempfile::tempdir().unwrap();
    let (kind, scenes) = scenes(3);
    write_photos(folder.path(), &scenes);
    let house = House::studio(folder.path());
    for name in ["thing", "other"] {
        house.post("/api/classes", &json!({ "name": name }));
    }
    house.post("/api/photos/1/strokes", &dot(1, inside(&scenes[0].1, kind), 7.0));
    house.post(
        "/api/photos/1/strokes",
        &json!({ "class": 2, "mode": "add", "tool": "rectangle", "points": [[2, 2], [30, 20]] }),
    );
    house.post(
        "/api/photos/2/strokes",
        &json!({ "mode": "not", "tool": "polygon", "points": [[100, 5], [150, 5], [120, 40]] }),
    );
    let shown = house.labels(3, 4000);
    assert_eq!((shown.width, shown.height), (160, 120), "at its own size");

    let strokes = folder.path().join("protoseg-studio/strokes");
    assert!(strokes.join("1.png").exists() && strokes.join("2.png").exists(), "saved before it is answered");

    let reply = house.get("/api/export/pack");
    assert!(reply.header("content-disposition").unwrap().contains("studio.pack"));
    let pack = ClassPack::from_bytes(reply.body).unwrap();
    let model = Model::builtin();
    let segmenter = Segmenter::builder(&model).pack(&pack).build().unwrap();
    let prediction = segmenter.predict(&read_image(folder.path().join("c.png")).unwrap());
    let names = segmenter.classes().rows();
    let id = |row: u16| match names[usize::from(row)].name.as_str() {
        "thing" => 1,
        "other" => 2,
        _ => 0,
    };
    let ids: Vec<u8> = prediction.labels().data.iter().map(|&row| id(row)).collect();
    assert_eq!(ids, shown.ids);

    // What the commands do.
    let commands = house.get("/api/export/commands").json();
    let first = commands["commands"][0].as_str().unwrap();
    assert!(first.starts_with("protoseg register --supports ") && first.contains(" --refine "), "{first}");
    let list = folder.path().join("protoseg-studio/script/supports.json");
    let mut set = SupportSet::new();
    set.add_named_files(SupportFiles::read_json(&list).unwrap()).unwrap();
    let mut scripted = ClassPack::new(&model);
    Registration::new(&model).unwrap().refine(true).run(&model, &mut scripted, &set, &|_, _, _| ()).unwrap();
    for class in pack.classes() {
        assert_eq!(scripted.class(&class.name).unwrap().shots, class.shots, "{}", class.name);
    }
    assert_eq!(scripted.classes().len(), 3, "two classes, and the background");
    // Supports have no colours, so there is a command for each.
    let color = pack.class("other").unwrap().color.unwrap();
    let recolor = format!("protoseg classes recolor studio.pack other '{}'", protoseg::picture::hex(color));
    assert_eq!(commands["commands"][1], json!(recolor));
    assert_eq!(commands["commands"].as_array().unwrap().len(), 4);
}

#[test]
fn an_exported_project_is_opened_where_it_is_unpacked() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (kind, scenes) = scenes(2);
    write_photos(folder.path(), &scenes);
    write_photos(other.path(), &scenes);
    let house = House::studio(folder.path());
    house.post("/api/classes", &json!({ "name": "thing", "color": "#102030" }));
    house.post("/api/photos/1/strokes", &dot(1, inside(&scenes[0].1, kind), 7.0));
    let (before, zip) = (house.labels(2, 128).ids, house.get("/api/export/project.zip").body);
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(zip)).unwrap();
    zip.extract(other.path().join("protoseg-studio")).unwrap();
    let house = House::studio(other.path());
    let class = &house.get("/api/project").json()["classes"][0];
    assert_eq!((&class["color"], &class["painted_photos"]), (&json!("#102030"), &json!([1])));
    assert_eq!(house.labels(2, 128).ids, before);
}

#[test]
fn every_export_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let (kind, scenes) = scenes(2);
    write_photos(folder.path(), &scenes);
    let house = House::studio(folder.path());
    assert_eq!(house.get("/api/export/pack").status, 409, "nothing is painted");
    house.post("/api/classes", &json!({ "name": "<thing>" }));
    let reply = house.ask("POST", "/api/photos/1/masks?class=1", "image/png", &mask_png(&scenes[0].1, kind));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let coco = house.get("/api/export/coco.json").json();
    assert_eq!(
        (coco["images"].as_array().unwrap().len(), &coco["categories"][0]["name"]),
        (2, &json!("<thing>"))
    );
    let report = house.get("/api/export/report.html").text();
    assert!(
        report.contains("&lt;thing&gt;") && !report.contains("<thing>") && report.contains("data:image/jpeg")
    );
    assert!(!report.contains("http://") && !report.contains("https://"), "a single file");
    for name in ["masks.zip", "project.zip"] {
        let reply = house.get(&format!("/api/export/{name}"));
        assert_eq!((reply.status, &reply.body[..2]), (200, &b"PK"[..]), "{name}");
    }
    let masks = std::io::Cursor::new(house.get("/api/export/masks.zip").body);
    let masks = zip::ZipArchive::new(masks).unwrap();
    let mut names: Vec<_> = masks.file_names().map(Result::unwrap).collect();
    names.sort_unstable();
    assert_eq!(names, ["a.png", "b.png", "classes.json"]);
    assert_eq!(house.get("/api/export/nothing").status, 404);
}

#[test]
fn a_magic_click_paints_the_thing() {
    let folder = tempfile::tempdir().unwrap();
    let (kind, scenes) = scenes(2);
    write_photos(folder.path(), &scenes);
    let house = House::studio(folder.path());
    house.post("/api/classes", &json!({ "name": "thing" }));
    let at = inside(&scenes[0].1, kind);
    let click = json!({ "class": 1, "mode": "add", "tool": "magic", "points": [at], "radius": 2.0 });
    let reply = house.post("/api/photos/1/strokes", &click).json();
    let painted = Labels::read(&house.get("/api/photos/1/painted?side=160").body);
    let truth = &scenes[0].1.data;
    let both = painted.ids.iter().zip(truth).filter(|(id, label)| **id == 1 && **label == kind).count();
    assert!(reply["pixels"].as_u64().unwrap() > 100, "{reply}");
    assert!(
        both * 2 > painted.count(1),
        "most of what is painted is the thing: {both} of {}",
        painted.count(1)
    );
}

#[test]
fn more_magic_clicks_extend_and_correct() {
    let folder = tempfile::tempdir().unwrap();
    let (_, scenes) = scenes(1);
    write_photos(folder.path(), &scenes);
    let house = House::studio(folder.path());
    house.post("/api/classes", &json!({ "name": "thing" }));
    let painted = || Labels::read(&house.get("/api/photos/1/painted?side=160").body);
    let click = |mode: &str, at: [f64; 2]| {
        let click = json!({ "class": 1, "mode": mode, "tool": "magic", "points": [at], "radius": 2.0 });
        assert_eq!(house.post("/api/photos/1/strokes", &click).status, 200);
    };
    let at = |[x, y]: [f64; 2]| y as usize * 160 + x as usize;
    let places = [[20.5, 20.5], [130.5, 100.5]];
    click("add", places[0]);
    let first = painted();
    click("add", places[1]);
    let second = painted();
    let is_kept = |(before, after): (&u8, &u8)| *before != 1 || *after == 1;
    assert!(first.ids.iter().zip(&second.ids).all(is_kept), "what was painted stays");
    assert_eq!((second.ids[at(places[0])], second.ids[at(places[1])]), (1, 1));
    // A part of what the second click painted is said not to be the thing, and not only where the click is.
    click("not", places[1]);
    let third = painted();
    assert_eq!((third.ids[at(places[0])], third.ids[at(places[1])]), (1, 254));
    assert!(third.count(254) > 40, "{} pixels", third.count(254));
    click("erase", places[0]);
    assert_eq!(painted().ids[at(places[0])], 0);
}

#[test]
fn photos_that_find_no_room_in_memory_can_be_the_least_sure() {
    let folder = tempfile::tempdir().unwrap();
    let (kind, scenes) = scenes(4);
    write_photos(folder.path(), &scenes);
    let mut studio = StudioOptions::new(folder.path());
    studio.memory = 1;
    let house = House::run(Server::studio(Model::builtin(), studio, &options()).unwrap());
    house.post("/api/classes", &json!({ "name": "thing" }));
    house.ask("POST", "/api/photos/1/masks?class=1", "image/png", &mask_png(&scenes[0].1, kind));
    for photo in [2, 3, 4] {
        house.labels(photo, 64);
    }
    let list = house.get("/api/photos").json();
    let ready = list["photos"].as_array().unwrap().iter().filter(|photo| photo["features"] == "ready");
    assert_eq!(ready.count(), 1, "one photo is kept");
    for (but, photo) in [("1,3,4", 2), ("1,2,4", 3), ("1,2,3", 4)] {
        assert_eq!(house.get(&format!("/api/least-sure?not={but}")).json()["photo"], photo);
    }
    let features = &house.get("/api/project").json()["features"];
    assert_eq!(features["done"], features["total"], "no more are looked at before somebody asks");
}

#[test]
fn checks_and_doubts_follow_when_strokes_rest() {
    let folder = tempfile::tempdir().unwrap();
    let (kind, scenes) = scenes(4);
    write_photos(folder.path(), &scenes);
    let house = House::studio(folder.path());
    house.post("/api/classes", &json!({ "name": "thing" }));
    for photo in [1, 2] {
        let path = format!("/api/photos/{photo}/masks?class=1");
        house.ask("POST", &path, "image/png", &mask_png(&scenes[photo - 1].1, kind));
    }
    let start = Instant::now();
    let project = loop {
        let project = house.get("/api/project").json();
        if project["checks_revision"] == project["revision"] {
            break project;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "no checks");
        std::thread::sleep(Duration::from_millis(50));
    };
    let checks = project["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 2);
    assert!(
        checks.iter().all(|check| check["iou"].as_f64().is_some_and(|iou| (0.0..=1.0).contains(&iou))),
        "{checks:?}"
    );
    let least = loop {
        let least = house.get("/api/least-sure?not=1,2,4").json();
        if least["photo"] == 3 {
            break least;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{least}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!((0.0..=1.0).contains(&least["uncertainty"].as_f64().unwrap()));
    assert_eq!(house.get("/api/least-sure?not=1,2,3,4").json()["photo"], Value::Null);
}

#[test]
fn photos_are_added_and_classes_change_and_wrong_requests_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let (_, scenes) = scenes(1);
    write_photos(folder.path(), &scenes);
    std::fs::write(folder.path().join("broken.png"), b"no picture").unwrap();
    let house = House::studio(folder.path());
    let png = protoseg::data::mask::encode_picture_png(&scenes[0].0);
    let headers = [
        ("Host", house.address.to_string()),
        ("Authorization", format!("Bearer {}", crate::client::TOKEN)),
        ("Content-Type", "image/png".into()),
        ("X-Name", "my%20pond.png".into()),
    ];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let added = house.bare("POST", "/api/photos", &headers, &png);
    assert_eq!((added.status, &added.json()["name"]), (201, &json!("my pond.png")));
    let id = added.json()["id"].as_u64().unwrap();
    let small = house.get(&format!("/api/photos/{id}/image?side=64"));
    assert_eq!((small.status, small.header("content-type")), (200, Some("image/jpeg")));
    assert!(small.header("cache-control").unwrap().contains("immutable"));
    assert_eq!(house.get(&format!("/api/photos/{id}/image")).body, png, "the whole photo as it is");
    let list = house.get("/api/photos").json();
    let broken =
        list["photos"].as_array().unwrap().iter().find(|photo| photo["name"] == "broken.png").unwrap();
    assert_eq!(broken["features"], "failed");
    let broken = broken["id"].as_u64().unwrap();
    assert_eq!(house.get(&format!("/api/photos/{broken}/image?side=64")).status, 422);

    house.post("/api/classes", &json!({ "name": "duck" }));
    assert_eq!(house.post("/api/classes", &json!({ "name": "duck" })).status, 409);
    assert_eq!(house.post("/api/classes", &json!({ "name": "a", "color": "red" })).status, 422);
    let change =
        house.ask("PATCH", "/api/classes/1", "application/json", br#"{"name":"swan","hidden":true}"#);
    assert_eq!(change.status, 200);
    let class = &house.get("/api/project").json()["classes"][0];
    assert_eq!((&class["name"], &class["hidden"]), (&json!("swan"), &json!(true)));
    for (photo, stroke, status) in [
        (1, dot(9, [1.0, 1.0], 3.0), 404),
        (77, dot(1, [1.0, 1.0], 3.0), 404),
        (1, dot(1, [1e9, 1.0], 3.0), 422),
        (1, json!({ "class": 1, "mode": "add", "tool": "brush", "points": [] }), 422),
        (1, json!({ "class": 1, "mode": "eat", "tool": "brush", "points": [[1, 1]] }), 400),
        (broken, dot(1, [1.0, 1.0], 3.0), 422),
    ] {
        let reply = house.post(&format!("/api/photos/{photo}/strokes"), &stroke);
        assert_eq!(reply.status, status, "{stroke}: {}", reply.text());
        assert!(reply.json()["error"].is_string());
    }
    assert_eq!(house.ask("DELETE", "/api/classes/1", "application/json", b"{}").status, 200);
    assert_eq!(house.post("/api/undo", &json!({})).status, 200);
    assert_eq!(house.get("/api/project").json()["classes"][0]["name"], "swan");
}

#[test]
fn pages_hear_what_happens() {
    use std::io::{BufRead, BufReader, Write};
    let folder = tempfile::tempdir().unwrap();
    write_photos(folder.path(), &scenes(1).1);
    let house = House::studio(folder.path());
    let mut stream = house.connect();
    let head = format!(
        "GET /api/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        house.address,
        crate::client::TOKEN
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    let find = |lines: &mut dyn Iterator<Item = std::io::Result<String>>, text: &str| {
        lines.map(|line| line.unwrap()).find(|line| line.contains(text))
    };
    assert!(find(&mut lines, "retry").is_some(), "the answer began");
    house.post("/api/classes", &json!({ "name": "duck" }));
    assert!(find(&mut lines, "event: revision").is_some());
    assert!(find(&mut lines, "{\"revision\":2}").is_some());
}
