//! Label Studio and CVAT: requests as these tools send them, written by hand after their documentation.

use protoseg_server::ServeOptions;
use serde_json::{Value, json};

use crate::{
    client::{House, TOKEN, mask_png, scenes, write_photos},
    scripts::packed,
};

const CONFIG: &str = r##"<View>
  <Image name="image" value="$image" zoom="true"/>
  <BrushLabels name="tag" toName="image"><Label value="thing" background="#FFA39E"/></BrushLabels>
</View>"##;

/// Label Studio's run lengths, decoded as its converter does.
fn decode(rle: &[Value]) -> Vec<u8> {
    let bits: Vec<u8> = rle
        .iter()
        .flat_map(|byte| {
            let byte = byte.as_u64().unwrap() as u8;
            (0..8).map(move |bit| byte >> (7 - bit) & 1)
        })
        .collect();
    let mut at = 0;
    let mut read = |count: usize| {
        let value = bits[at..at + count].iter().fold(0usize, |value, bit| value << 1 | usize::from(*bit));
        at += count;
        value
    };
    let length = read(32);
    let word = read(5) + 1;
    let sizes: Vec<usize> = (0..4).map(|_| read(4) + 1).collect();
    let mut out = Vec::new();
    while out.len() < length {
        let repeats = read(1) == 1;
        let size = sizes[read(2)];
        let count = read(size) + 1;
        if repeats {
            let value = read(word) as u8;
            out.extend(std::iter::repeat_n(value, count));
        } else {
            (0..count).for_each(|_| out.push(read(word) as u8));
        }
    }
    out
}

/// As the editor writes a brush: values as they are.
fn encode(mask: &[bool]) -> Vec<u8> {
    let mut bits: Vec<u8> = Vec::new();
    let mut put =
        |value: usize, count: usize| (0..count).rev().for_each(|bit| bits.push((value >> bit & 1) as u8));
    put(4 * mask.len(), 32);
    put(7, 5);
    [2, 3, 7, 15].iter().for_each(|size| put(*size, 4));
    for part in mask.chunks(4096) {
        put(0, 1);
        put(3, 2);
        put(4 * part.len() - 1, 16);
        part.iter().for_each(|is| (0..4).for_each(|_| put(if *is { 255 } else { 0 }, 8)));
    }
    bits.chunks(8)
        .map(|byte| (0..8).fold(0, |sum, at| sum << 1 | byte.get(at).copied().unwrap_or(0)))
        .collect()
}

#[test]
fn label_studio_submits_annotations_and_gets_brushes_of_a_new_version() {
    let (packs, images) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (kind, scenes) = scenes(2);
    write_photos(images.path(), &scenes);
    let mut options = ServeOptions::new(packs.path());
    options.images = Some(images.path().to_path_buf());
    let house = House::serve(&options);

    assert_eq!(house.get("/health").json()["status"], "UP");
    let setup = json!({
        "project": "3.1700000000", "schema": CONFIG, "hostname": "http://localhost:8080", "access_token": "x",
        "extra_params": null,
    });
    let first = house.post("/setup", &setup).json()["model_version"].as_str().unwrap().to_string();

    let task = |id: u64, name: &str| json!({ "id": id, "data": { "image": format!("/data/local-files/?d={name}") } });
    let ask = |name: &str| {
        let body = json!({ "tasks": [task(9, name)], "label_config": CONFIG, "project": "3.1700000000", "params": { "context": null } });
        house.post("/predict", &body)
    };
    let empty = ask("b.png").json();
    assert_eq!(empty["results"][0]["result"], json!([]), "nothing is taught");

    let mask: Vec<bool> = scenes[0].1.data.iter().map(|&label| label == kind).collect();
    let result = json!({
        "original_width": 160, "original_height": 120, "image_rotation": 0, "id": "x1", "from_name": "tag", "to_name": "image",
        "type": "brushlabels", "origin": "manual",
        "value": { "format": "rle", "rle": encode(&mask), "brushlabels": ["thing"] },
    });
    let hook = |action: &str| {
        let body = json!({
            "action": action, "project": { "id": 3, "label_config": CONFIG }, "task": task(8, "a.png"),
            "annotation": { "id": 1, "result": [result] },
        });
        house.post("/webhook", &body)
    };
    let ignored = hook("ANNOTATIONS_DELETED").json();
    assert_eq!(ignored["model_version"], json!(first));
    let registered = hook("ANNOTATION_CREATED");
    assert_eq!(registered.status, 200, "{}", registered.text());
    let second = registered.json()["model_version"].as_str().unwrap().to_string();
    assert_ne!(first, second, "a new version after each registration");
    assert_eq!(
        hook("ANNOTATION_UPDATED").json()["model_version"],
        json!(second),
        "the same annotation counts once"
    );

    let reply = ask("a.png").json();
    let prediction = &reply["results"][0];
    assert_eq!(prediction["model_version"], json!(second));
    let brush = &prediction["result"][0];
    assert_eq!(
        (&brush["type"], &brush["from_name"], &brush["to_name"]),
        (&json!("brushlabels"), &json!("tag"), &json!("image"))
    );
    assert_eq!(
        (&brush["value"]["format"], &brush["value"]["brushlabels"]),
        (&json!("rle"), &json!(["thing"]))
    );
    assert_eq!((&brush["original_width"], &brush["original_height"]), (&json!(160), &json!(120)));
    let values = decode(brush["value"]["rle"].as_array().unwrap());
    assert_eq!(values.len(), 4 * 160 * 120);
    let found: Vec<bool> = values.chunks(4).map(|pixel| pixel[3] > 127).collect();
    let both = found.iter().zip(&mask).filter(|(a, b)| **a && **b).count();
    let either = found.iter().zip(&mask).filter(|(a, b)| **a || **b).count();
    assert!(both * 2 > either, "IoU {both} / {either} on the image that taught it");

    // What is changed replaces all that the task taught, whatever its labels were; deletions name annotations only.
    let classes = || -> Vec<String> {
        let pack = house.get("/api/v1/packs/default/classes").json();
        pack["classes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|class| class["name"].as_str().unwrap().into())
            .collect()
    };
    let update = |label: &str, action: &str| {
        let brush = json!({
            "type": "brushlabels", "value": { "format": "rle", "rle": encode(&mask), "brushlabels": [label] },
        });
        let result = if label.is_empty() { json!([]) } else { json!([brush]) };
        let body = json!({
            "action": action, "project": { "id": 3, "label_config": CONFIG }, "task": task(8, "a.png"),
            "annotation": { "id": 1, "result": result },
        });
        house.post("/webhook", &body).json()["model_version"].as_str().unwrap().to_string()
    };
    let third = update("other", "ANNOTATION_UPDATED");
    assert_eq!(classes(), ["other"]);
    let fourth = update("", "ANNOTATION_UPDATED");
    assert!(classes().is_empty());
    assert!(third != second && fourth != third, "a new version each time");
    for gone in [
        json!({ "action": "ANNOTATIONS_DELETED", "annotations": [{ "id": 1 }] }),
        json!({ "action": "TASKS_DELETED", "tasks": [{ "id": 8 }] }),
    ] {
        let fifth = update("thing", "ANNOTATION_CREATED");
        let other = json!({ "action": "ANNOTATIONS_DELETED", "annotations": [{ "id": 11 }] });
        assert_eq!(
            house.post("/webhook", &other).json()["model_version"],
            json!(fifth),
            "that of another task"
        );
        assert_eq!(classes(), ["thing"]);
        assert_ne!(house.post("/webhook", &gone).json()["model_version"], json!(fifth));
        assert!(classes().is_empty(), "{gone}");
    }

    for wrong in ["../secret.png", "nothing.png"] {
        assert_eq!(ask(wrong).status, 422, "{wrong}");
    }
    let foreign = json!({ "tasks": [{ "id": 1, "data": { "image": "http://evil.example/a.png" } }], "label_config": CONFIG });
    assert_eq!(house.post("/predict", &foreign).status, 422);
    assert_eq!(house.post("/predict", &json!({ "tasks": [], "label_config": "<View/>" })).status, 422);
    // Basic authentication, as Label Studio can send it.
    let basic = format!("Basic {}", packed(format!("label-studio:{TOKEN}").as_bytes()));
    let host = house.address.to_string();
    let reply = house.bare("GET", "/metrics", &[("Host", &host), ("Authorization", &basic)], b"");
    assert_eq!(reply.status, 200);
}

#[test]
fn cvat_lists_functions_and_gets_masks() {
    let packs = tempfile::tempdir().unwrap();
    let (kind, scenes) = scenes(2);
    let house = House::serve(&ServeOptions::new(packs.path()));
    let png = packed(&protoseg::data::mask::encode_picture_png(&scenes[0].0));
    let body = json!({ "image": png, "mask": packed(&mask_png(&scenes[0].1, kind)), "name": "a.png" });
    house.post("/api/v1/packs/default/classes/thing/supports", &body);

    let functions = house.get("/api/functions").json();
    let detector = &functions["protoseg-detector"]["metadata"];
    assert_eq!(
        (&detector["annotations"]["type"], &detector["name"]),
        (&json!("detector"), &json!("protoseg-detector"))
    );
    let spec: Value = serde_json::from_str(detector["annotations"]["spec"].as_str().unwrap()).unwrap();
    assert_eq!((&spec[0]["name"], &spec[0]["type"]), (&json!("thing"), &json!("mask")));
    assert_eq!(functions["protoseg-interactor"]["metadata"]["annotations"]["type"], "interactor");
    assert_eq!(house.get("/api/functions/protoseg-detector").json()["status"]["state"], "ready");
    assert_eq!(house.get("/api/functions/other").status, 404);

    let invoke = |name: &str, body: &Value| {
        let (host, token) = (house.address.to_string(), format!("Bearer {TOKEN}"));
        let headers = [
            ("Host", host.as_str()),
            ("Authorization", token.as_str()),
            ("Content-Type", "application/json"),
            ("x-nuclio-function-name", name),
            ("x-nuclio-path", "/"),
            ("x-nuclio-invoke-via", "domain-name"),
        ];
        house.bare("POST", "/api/function_invocations", &headers, body.to_string().as_bytes())
    };
    let found = invoke("protoseg-detector", &json!({ "image": png, "threshold": 0.1 })).json();
    assert_eq!((&found[0]["label"], &found[0]["type"]), (&json!("thing"), &json!("mask")));
    let mask: Vec<usize> =
        found[0]["mask"].as_array().unwrap().iter().map(|value| value.as_u64().unwrap() as usize).collect();
    let [left, top, right, bottom] = mask[mask.len() - 4..] else { panic!("no box") };
    assert_eq!(
        mask.len() - 4,
        (right - left + 1) * (bottom - top + 1),
        "the pixels of the box, then the box"
    );
    assert!(mask[..mask.len() - 4].iter().all(|value| *value < 2) && right < 160 && bottom < 120);
    assert!(found[0]["confidence"].as_str().unwrap().parse::<f64>().unwrap() > 0.1);

    let at = scenes[0].1.data.iter().rposition(|&label| label == kind).unwrap();
    let click = [(at % 160) as f64, (at / 160) as f64 - 3.0];
    let answer = invoke(
        "protoseg-interactor",
        &json!({ "image": png, "pos_points": [click], "neg_points": [[2.0, 2.0]] }),
    )
    .json();
    let rows = answer["mask"].as_array().unwrap();
    assert_eq!((rows.len(), rows[0].as_array().unwrap().len()), (120, 160));
    assert!(rows.iter().flat_map(|row| row.as_array().unwrap()).any(|value| value == 1));
    assert_eq!(rows[2][2], 0, "what was clicked away");
    for wrong in [
        json!({ "image": png }),
        json!({ "image": "x", "pos_points": [[1, 1]] }),
        json!({ "image": png, "pos_points": [[-9e9, 1]] }),
    ] {
        assert_eq!(invoke("protoseg-interactor", &wrong).status, 422);
    }
    assert_eq!(invoke("other", &json!({ "image": png })).status, 404);
    assert_eq!(invoke("protoseg-detector", &json!({})).status, 400);
}
