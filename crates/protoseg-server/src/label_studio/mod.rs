//! Label Studio's ML backend: it asks for predictions of tasks, and tells of annotations, which are registered.

mod config;
mod rle;

use std::sync::Arc;

use axum::{Router, body::Body, extract::State, http::HeaderMap, routing::post};
use protoseg::Support;
use serde::Deserialize;
use serde_json::{Value, json};

use self::config::{Control, control};
use crate::{
    api::Desk,
    error::{Answer, Failure, json as as_json},
    limits,
};

/// Tasks that are predicted at once.
const TASKS: usize = 64;

/// Its addresses, beside `/health`.
pub fn router() -> Router<Arc<Desk>> {
    Router::new()
        .route("/setup", post(setup))
        .route("/predict", post(predict))
        .route("/webhook", post(webhook))
}

/// Label Studio says which project it is, and is told which version answers
#[utoipa::path(post, path = "/setup", tag = "Label Studio", request_body = Value, responses((status = 200, description = "`model_version`")))]
pub async fn setup(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Body) -> Answer {
    let _: Value = desk.site.bodies.json(&headers, body, limits::JSON_BODY).await?;
    desk.work(|desk| as_json(&json!({ "model_version": desk.packs.get_or_empty(&desk.pack)?.version }))).await
}

#[derive(Deserialize)]
struct PredictBody {
    tasks: Vec<Value>,
    #[serde(default)]
    label_config: String,
}

/// Labels the images of tasks, as brushes
#[utoipa::path(post, path = "/predict", tag = "Label Studio", request_body = Value, responses((status = 200, description = "`results`, one per task")))]
pub async fn predict(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Body) -> Answer {
    let PredictBody { tasks, label_config } =
        desk.site.bodies.json(&headers, body, limits::PICTURES_BODY).await?;
    if tasks.len() > TASKS {
        return Err(Failure::unfit(format!("{} tasks at once, expected at most {TASKS}", tasks.len())));
    }
    desk.work(move |desk| {
        let control = control(&label_config).ok_or_else(no_control)?;
        let results: Answer<Vec<Value>> =
            tasks.iter().map(|task| predict_task(desk, task, &control)).collect();
        as_json(&json!({ "results": results? }))
    })
    .await
}

fn no_control() -> Failure {
    Failure::unfit("the labelling configuration has no `BrushLabels` on an `Image`")
        .hint("see docs/annotation-tools.md")
}

fn address<'a>(task: &'a Value, control: &Control) -> Answer<&'a str> {
    let address = task["data"][control.key.as_str()].as_str();
    address.ok_or_else(|| Failure::unfit(format!("a task has no `{}`", control.key)))
}

fn predict_task(desk: &Desk, task: &Value, control: &Control) -> Answer<Value> {
    let pack = desk.packs.get_or_empty(&desk.pack)?;
    let (image, _) = desk.images.read(address(task, control)?)?;
    let prediction = pack.segmenter.predict(&image);
    let confidence = prediction.confidence();
    let labels = prediction.labels();
    let (mut results, mut scores) = (Vec::new(), Vec::new());
    for area in prediction.areas() {
        if !control.labels.contains(&area.class) || Some(area.row) == prediction.palette().background() {
            continue;
        }
        let mask: Vec<bool> = labels.data.iter().map(|&label| label == area.row).collect();
        let sure: f64 =
            mask.iter().zip(confidence).filter(|(is, _)| **is).map(|(_, &sure)| f64::from(sure)).sum();
        let score = sure / area.pixels.max(1) as f64;
        scores.push(score);
        results.push(json!({
            "id": format!("protoseg-{}", area.row), "type": "brushlabels", "readonly": false, "image_rotation": 0,
            "from_name": control.name, "to_name": control.to_name, "score": score,
            "original_width": image.width, "original_height": image.height,
            "value": { "format": "rle", "rle": rle::encode(&mask), "brushlabels": [area.class] },
        }));
    }
    let score = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
    Ok(json!({ "result": results, "score": score, "model_version": pack.version }))
}

#[derive(Deserialize)]
struct WebhookBody {
    #[serde(default)]
    action: String,
    #[serde(default)]
    task: Value,
    #[serde(default)]
    annotation: Value,
    /// Those that were deleted; only their ids are told.
    #[serde(default)]
    annotations: Vec<Value>,
    #[serde(default)]
    tasks: Vec<Value>,
    #[serde(default)]
    project: Value,
}

/// Registers an annotation that was submitted or changed, and forgets one that was deleted
#[utoipa::path(post, path = "/webhook", tag = "Label Studio", request_body = Value, responses((status = 200, description = "`model_version`, a new one if something was registered or forgotten")))]
pub async fn webhook(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Body) -> Answer {
    let sent: WebhookBody = desk.site.bodies.json(&headers, body, limits::PICTURES_BODY).await?;
    desk.work(move |desk| {
        let registered = match sent.action.as_str() {
            "ANNOTATION_CREATED" | "ANNOTATION_UPDATED" => register(desk, &sent)?,
            "ANNOTATIONS_DELETED" | "TASKS_DELETED" => forget(desk, &sent)?,
            _ => Vec::new(),
        };
        let version = desk.packs.get_or_empty(&desk.pack)?.version.clone();
        as_json(&json!({ "model_version": version, "registered": registered }))
    })
    .await
}

/// Between the ids of a task and of its annotation, in names of supports.
const ANNOTATION: &str = "-annotation-";

/// Registers the brushes of an annotation: one support per label. They replace all that the task taught before, also if
/// there are none. Names of the labels.
fn register(desk: &Desk, sent: &WebhookBody) -> Answer<Vec<String>> {
    let task = sent.task["id"].as_u64().or_else(|| sent.annotation["task"].as_u64());
    let task = task.ok_or_else(|| Failure::unfit("the annotation does not say which task it is of"))?;
    let name = match sent.annotation["id"].as_u64() {
        Some(annotation) => format!("task-{task}{ANNOTATION}{annotation}"),
        None => format!("task-{task}"),
    };
    let supports = supports(desk, sent, &name)?;
    let labels = supports.iter().map(|(label, _)| label.clone()).collect();
    desk.packs.replace(&desk.pack, |image| is_of_task(image, task), supports)?;
    Ok(labels)
}

/// Forgets what annotations taught that were deleted, or whose tasks were. Nothing is registered.
fn forget(desk: &Desk, sent: &WebhookBody) -> Answer<Vec<String>> {
    let ids = |all: &[Value]| -> Vec<u64> { all.iter().filter_map(|one| one["id"].as_u64()).collect() };
    let (annotations, tasks) = (ids(&sent.annotations), ids(&sent.tasks));
    let is_gone = |image: &str| {
        let annotation = image.rsplit_once(ANNOTATION).and_then(|(_, id)| id.parse().ok());
        annotation.is_some_and(|id: u64| annotations.contains(&id))
            || tasks.iter().any(|&task| is_of_task(image, task))
    };
    desk.packs.replace(&desk.pack, is_gone, Vec::new())?;
    Ok(Vec::new())
}

/// Whether a support is a task's.
fn is_of_task(image: &str, task: u64) -> bool {
    let rest = image.strip_prefix(&format!("task-{task}"));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(ANNOTATION))
}

/// The brushes of an annotation, one support per label.
fn supports(desk: &Desk, sent: &WebhookBody, name: &str) -> Answer<Vec<(String, Support)>> {
    let brushes: Vec<&Value> = sent.annotation["result"].as_array().map_or(Vec::new(), |all| {
        all.iter()
            .filter(|result| result["type"] == "brushlabels" && result["value"]["format"] == "rle")
            .collect()
    });
    if brushes.is_empty() {
        return Ok(Vec::new());
    }
    let config = sent.project["label_config"].as_str().unwrap_or_default();
    let key = control(config).map_or_else(|| only_address(&sent.task), |control| Some(control.key));
    let key = key.ok_or_else(|| Failure::unfit("the task does not say which image it shows"))?;
    let address = sent.task["data"][key.as_str()].as_str().unwrap_or_default();
    let (image, _) = desk.images.read(address)?;
    let mut masks: Vec<(String, Vec<bool>)> = Vec::new();
    for brush in brushes {
        let label = brush["value"]["brushlabels"][0].as_str().unwrap_or_default().to_string();
        let bytes: Option<Vec<u8>> = brush["value"]["rle"].as_array().and_then(|all| {
            all.iter().map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok())).collect()
        });
        let bytes = bytes.ok_or_else(|| Failure::unfit("a brush has no run lengths"))?;
        let mask = rle::decode(&bytes, image.width * image.height)?;
        match masks.iter_mut().find(|(other, _)| *other == label) {
            Some((_, all)) => all.iter_mut().zip(mask).for_each(|(all, is)| *all |= is),
            None => masks.push((label, mask)),
        }
    }
    let support = |(label, mask): (String, Vec<bool>)| {
        let support = Support::from_mask(name, image.clone(), &mask);
        support.map(|support| (label, support)).map_err(|error| Failure::unfit(error.to_string()))
    };
    masks.into_iter().filter(|(_, mask)| mask.contains(&true)).map(support).collect()
}

/// The key of a task's data that holds the image, if there is only one text.
fn only_address(task: &Value) -> Option<String> {
    let data = task["data"].as_object()?;
    let mut texts = data.iter().filter(|(_, value)| value.is_string());
    let first = texts.next().map(|(key, _)| key.clone());
    if data.contains_key("image") { Some("image".into()) } else { first.filter(|_| texts.next().is_none()) }
}
