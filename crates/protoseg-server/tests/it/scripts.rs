//! Programs: packs, registering, predicting, and a server that has too much to do.

use base64::Engine;
use protoseg::{ClassPack, Model, Segmenter, Support};
use protoseg_server::ServeOptions;
use serde_json::json;

use crate::client::{House, mask_png, scenes};

pub fn packed(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[test]
fn a_program_teaches_and_predicts_as_the_library_does() {
    let folder = tempfile::tempdir().unwrap();
    let (kind, scenes) = scenes(2);
    let house = House::serve(&ServeOptions::new(folder.path()));
    let models = house.get("/api/v1/models").json();
    assert_eq!((&models[0]["name"], &models[0]["side"]), (&json!("box"), &json!(480)));
    let [(image, labels), (other, _)] = [&scenes[0], &scenes[1]];
    let png = protoseg::data::mask::encode_picture_png(image);
    let body = json!({ "image": packed(&png), "mask": packed(&mask_png(labels, kind)), "name": "a.png" });
    let reply = house.post("/api/v1/packs/pond/classes/thing/supports", &body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(
        (&reply.json()["pack"]["classes"][0]["name"], &reply.json()["report"]["shots"]),
        (&json!("thing"), &json!(1))
    );
    assert_eq!(house.get("/api/v1/packs").json()[0]["name"], "pond");

    let model = Model::builtin();
    let mut pack = ClassPack::new(&model);
    let mask: Vec<bool> = labels.data.iter().map(|&label| label == kind).collect();
    model.register(&mut pack, "thing", [Support::from_mask("a.png", image.clone(), &mask).unwrap()]).unwrap();
    assert_eq!(ClassPack::from_bytes(house.get("/api/v1/packs/pond/file").body).unwrap(), pack);
    let expected = Segmenter::builder(&model).pack(&pack).build().unwrap().predict(other);

    let other = protoseg::data::mask::encode_picture_png(other);
    let ask = |query: &str| house.ask("POST", &format!("/api/v1/predict?{query}"), "image/png", &other);
    let mask = ask("pack=pond");
    assert_eq!(mask.header("content-type"), Some("image/png"));
    let path = folder.path().join("mask.png");
    std::fs::write(&path, &mask.body).unwrap();
    assert_eq!(protoseg::data::mask::read_index_mask(&path).unwrap().data, expected.labels().data);
    let coco = ask("pack=pond&answer=coco").json();
    assert_eq!(coco["categories"][0]["name"], "thing");
    assert_eq!(&ask("pack=pond&answer=overlay").body[..4], b"\x89PNG");
    assert!(
        ask("answer=areas").json()[0]["share"].as_f64().unwrap() > 0.99,
        "without a pack there is background only"
    );
    // Also if a pack is called so.
    house.post("/api/v1/packs/none/classes/thing/supports", &body);
    assert!(ask("answer=areas").json()[0]["share"].as_f64().unwrap() > 0.99);
    assert_eq!(
        (ask("pack=nowhere").status, ask("answer=x").status, ask("pack=..%2fpond").status),
        (404, 400, 404)
    );

    assert_eq!(
        house
            .ask("POST", "/api/v1/packs/copy/file", "application/octet-stream", &pack.to_bytes().unwrap())
            .status,
        200
    );
    assert_eq!(
        house.ask("POST", "/api/v1/packs/copy/file", "application/octet-stream", b"no pack").status,
        422
    );
    let gone = house.ask("DELETE", "/api/v1/packs/copy/classes/thing", "application/json", b"{}");
    assert_eq!(gone.json()["classes"], json!([]));
    let wrong = json!({ "image": packed(&png), "mask": packed(&mask_png(&scenes[1].1, 9999)), "name": "a" });
    let reply = house.post("/api/v1/packs/pond/classes/thing/supports", &wrong);
    assert_eq!(reply.status, 422, "an empty mask teaches nothing");
}

#[test]
fn the_description_names_every_address_and_the_page_needs_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::serve(&ServeOptions::new(folder.path()));
    let document = house.get("/openapi.json").json();
    for path in [
        "/health",
        "/metrics",
        "/api/v1/models",
        "/api/v1/packs",
        "/api/v1/packs/{pack}/classes",
        "/api/v1/predict",
        "/api/v1/packs/{pack}/classes/{class}/supports",
        "/setup",
        "/predict",
        "/webhook",
        "/api/functions",
        "/api/function_invocations",
    ] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
    let page = house.get("/docs").text();
    assert!(page.contains("/api/v1/predict") && !page.contains("<script") && !page.contains("//cdn"));
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http"));
    let metrics = house.get("/metrics").text();
    assert!(
        metrics.contains("protoseg_answers_total{status=\"2xx\"}") && metrics.contains("protoseg_packs 0")
    );
}

#[test]
fn too_many_requests_are_told_to_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::serve(&ServeOptions::new(folder.path()));
    let (_, scenes) = scenes(1);
    let png = protoseg::data::mask::encode_picture_png(&scenes[0].0);
    let statuses: Vec<(u16, Option<String>)> = std::thread::scope(|scope| {
        let ask = || {
            let reply = house.ask("POST", "/api/v1/predict", "image/png", &png);
            (reply.status, reply.header("retry-after").map(str::to_string))
        };
        let all: Vec<_> = (0..200).map(|_| scope.spawn(ask)).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let count = |status: u16| statuses.iter().filter(|(own, _)| *own == status).count();
    assert_eq!(count(200) + count(503), 200, "{statuses:?}");
    assert!(count(200) >= 64, "{} were answered", count(200));
    assert!(statuses.iter().all(|(status, retry)| (*status == 503) == retry.is_some()));
    assert_eq!(house.ask("POST", "/api/v1/predict", "image/png", &png).status, 200, "afterwards all is well");
}
