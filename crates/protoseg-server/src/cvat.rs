//! CVAT's functions, as it asks Nuclio for them: a detector that labels an image, and an interactor that finds the thing
//! under clicks. Both answer with masks.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    http::HeaderMap,
    routing::{get, post},
};
use protoseg::{
    Image,
    rough::{Hint, clean_mask},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    api::{Desk, unpack},
    error::{Answer, Failure, json as as_json},
    images::decode,
    limits,
};

const DETECTOR: &str = "protoseg-detector";
const INTERACTOR: &str = "protoseg-interactor";
/// Radius of a click, in pixels of an image whose longer side is 640.
const CLICK: f64 = 4.0;
/// Clicks of a request.
const CLICKS: usize = 1000;

/// Its addresses.
pub fn router() -> Router<Arc<Desk>> {
    Router::new()
        .route("/api/functions", get(functions))
        .route("/api/functions/{name}", get(function))
        .route("/api/function_invocations", post(invoke))
}

/// All functions, by name
#[utoipa::path(get, path = "/api/functions", tag = "CVAT", responses((status = 200, description = "Functions as Nuclio lists them")))]
pub async fn functions(State(desk): State<Arc<Desk>>) -> Answer {
    desk.work(|desk| {
        let all = [DETECTOR, INTERACTOR].map(|name| Ok((name.to_string(), describe(desk, name)?)));
        let all: Answer<Map<String, Value>> = all.into_iter().collect();
        as_json(&all?)
    })
    .await
}

/// One function
#[utoipa::path(get, path = "/api/functions/{name}", tag = "CVAT", params(("name" = String, Path, description = "Its name")),
    responses((status = 200, description = "The function as Nuclio describes it")))]
pub async fn function(State(desk): State<Arc<Desk>>, Path(name): Path<String>) -> Answer {
    desk.work(move |desk| as_json(&describe(desk, &name)?)).await
}

fn describe(desk: &Desk, name: &str) -> Answer<Value> {
    let pack = desk.packs.get_or_empty(&desk.pack)?;
    let (annotations, description) = match name {
        DETECTOR => {
            let rows = pack.segmenter.classes().rows().iter().enumerate();
            let background = pack.segmenter.palette().background();
            let rows = rows.filter(|(row, _)| background != Some(*row as u16));
            let spec: Vec<Value> = rows
                .map(|(id, class)| json!({ "id": id, "name": class.name, "type": "mask", "attributes": [] }))
                .collect();
            let spec = Value::from(spec).to_string();
            let annotations =
                json!({ "name": "protoseg", "type": "detector", "framework": "protoseg", "spec": spec });
            (annotations, "Labels an image with the classes of a pack")
        }
        INTERACTOR => {
            let annotations = json!({
                "name": "protoseg click", "type": "interactor", "framework": "protoseg", "spec": "",
                "version": "2", "min_pos_points": "1", "min_neg_points": "0", "startswith_box": "false",
                "startswith_box_optional": "false", "help_message": "Click on the thing", "animated_gif": "",
            });
            (annotations, "Finds the thing under clicks")
        }
        other => return Err(Failure::missing(format!("there is no function `{}`", other.escape_debug()))),
    };
    Ok(json!({
        "metadata": { "name": name, "namespace": "nuclio", "labels": { "nuclio.io/project-name": "cvat" }, "annotations": annotations },
        "spec": { "description": description, "version": pack.version },
        "status": { "state": "ready" },
    }))
}

#[derive(Deserialize)]
struct Invocation {
    image: String,
    #[serde(default)]
    threshold: Option<f64>,
    #[serde(default)]
    pos_points: Vec<[f64; 2]>,
    #[serde(default)]
    neg_points: Vec<[f64; 2]>,
}

/// Runs the function that the header `x-nuclio-function-name` names on an image
#[utoipa::path(post, path = "/api/function_invocations", tag = "CVAT", request_body = Value,
    responses((status = 200, description = "Masks of a detector, or the mask of an interactor")))]
pub async fn invoke(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Body) -> Answer {
    let name = headers.get("x-nuclio-function-name").and_then(|name| name.to_str().ok());
    let name = name.unwrap_or_default().to_string();
    let sent: Invocation = desk.site.bodies.json(&headers, body, limits::PICTURES_BODY).await?;
    desk.work(move |desk| {
        let image = || decode(&unpack(&sent.image)?, "the image");
        match name.as_str() {
            DETECTOR => as_json(&detect(desk, &image()?, sent.threshold.unwrap_or(0.0))?),
            INTERACTOR => as_json(&interact(desk, &image()?, &sent)?),
            other => Err(Failure::missing(format!("there is no function `{}`", other.escape_debug()))),
        }
    })
    .await
}

/// One mask per class: the pixels of its box, row by row, then left, top, right and bottom of the box.
fn detect(desk: &Desk, image: &Image, threshold: f64) -> Answer<Vec<Value>> {
    let pack = desk.packs.get_or_empty(&desk.pack)?;
    let prediction = pack.segmenter.predict(image);
    let mut found = Vec::new();
    for region in prediction.regions().into_iter().filter(|region| region.score >= threshold) {
        let [left, top, width, height] = region.bbox;
        let labels = prediction.labels();
        let rows = labels.data.chunks_exact(image.width).skip(top).take(height);
        let mask =
            rows.flat_map(|row| &row[left..left + width]).map(|&label| usize::from(label == region.row));
        let mask: Vec<usize> = mask.chain([left, top, left + width - 1, top + height - 1]).collect();
        found.push(json!({
            "confidence": format!("{:.4}", region.score), "label": prediction.palette().name(region.row),
            "type": "mask", "mask": mask,
        }));
    }
    Ok(found)
}

/// The thing under clicks, as rows of pixels.
fn interact(desk: &Desk, image: &Image, sent: &Invocation) -> Answer<Value> {
    if sent.pos_points.is_empty() || sent.pos_points.len() + sent.neg_points.len() > CLICKS {
        return Err(Failure::unfit(format!("an interactor needs 1 to {CLICKS} points")));
    }
    let mut hints = vec![Hint::Unknown; image.width * image.height];
    let radius = (CLICK * image.width.max(image.height) as f64 / 640.0).max(1.0);
    for (points, hint) in [(&sent.neg_points, Hint::Rest), (&sent.pos_points, Hint::Thing)] {
        for [x, y] in points {
            let span = |at: f64, length: usize| {
                let clamp = |edge: f64| edge.clamp(0.0, length as f64) as usize;
                clamp(at - radius)..clamp(at + radius + 1.0)
            };
            for row in span(*y, image.height) {
                hints[row * image.width..][span(*x, image.width)].fill(hint);
            }
        }
    }
    if !hints.contains(&Hint::Thing) {
        return Err(Failure::unfit("no point lies in the image"));
    }
    let model = desk.packs.model();
    let mask = clean_mask(image, model, model.features(image), &hints);
    let rows: Vec<Vec<u8>> =
        mask.chunks_exact(image.width).map(|row| row.iter().map(|&is| u8::from(is)).collect()).collect();
    Ok(json!({ "mask": rows, "points": outline(&mask, image.width) }))
}

/// A polygon around a mask: down along its left edge, and up along its right edge.
fn outline(mask: &[bool], width: usize) -> Vec<[usize; 2]> {
    let mut sides: Vec<(usize, usize, usize)> = Vec::new();
    for (y, row) in mask.chunks_exact(width).enumerate() {
        if let (Some(left), Some(right)) = (row.iter().position(|is| *is), row.iter().rposition(|is| *is)) {
            sides.push((y, left, right));
        }
    }
    let down = sides.iter().map(|&(y, left, _)| [left, y]);
    down.chain(sides.iter().rev().map(|&(y, _, right)| [right, y])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_goes_around() {
        let mask = [false, true, false, true, true, true].map(|is| is);
        assert_eq!(outline(&mask, 3), [[1, 0], [0, 1], [2, 1], [1, 0]]);
        assert!(outline(&[false; 6], 3).is_empty());
    }
}
