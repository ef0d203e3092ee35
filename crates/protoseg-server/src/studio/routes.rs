//! The addresses of the studio.

use std::{path::Path, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path as Part, Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::{get, patch, post},
};
use protoseg::picture::hex;
use rayon::prelude::*;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;
use utoipa::ToSchema;

use super::{
    check::Check,
    export,
    features::State as Seen,
    photos::Photo,
    project::Project,
    state::{Labels, Painted, Studio},
    strokes::Stroke,
};
use crate::{
    assets,
    error::{Answer, Failure, json as as_json},
    images::unescape,
    limits,
    site::Site,
    work::blocking,
};

/// The longer side of a picture that is asked for by its side.
const MOST_SIDE: usize = 8192;

/// What the handlers need.
#[derive(Clone)]
pub struct Room {
    pub studio: Arc<Studio>,
    pub site: Arc<Site>,
}

/// All addresses of the studio.
pub fn router(studio: Arc<Studio>, site: Arc<Site>) -> Router {
    Router::new()
        .route("/", get(async || assets::index()))
        .route("/assets/{name}", get(asset))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/api/project", get(project))
        .route("/api/photos", get(photos).post(add_photo))
        .route("/api/photos/{id}/image", get(image))
        .route("/api/photos/{id}/labels", get(labels))
        .route("/api/photos/{id}/painted", get(painted))
        .route("/api/photos/{id}/strokes", post(stroke))
        .route("/api/labels", get(labels_of_several))
        .route("/api/photos/{id}/masks", post(mask))
        .route("/api/classes", post(add_class))
        .route("/api/classes/{id}", patch(change_class).delete(remove_class))
        .route("/api/undo", post(undo))
        .route("/api/redo", post(redo))
        .route("/api/least-sure", get(least_sure))
        .route("/api/events", get(events))
        .route("/api/export/{what}", get(export::export))
        .fallback(async || Failure::missing("there is nothing at this address"))
        .with_state(Room { studio, site })
}

/// The query of an address.
pub fn query<T: DeserializeOwned>(uri: &Uri) -> Answer<T> {
    let query = Query::<T>::try_from_uri(uri);
    query.map(|query| query.0).map_err(|error| Failure::bad(error.body_text()))
}

async fn asset(Part(name): Part<String>) -> Answer {
    assets::file(&name).ok_or_else(|| Failure::missing(format!("there is no file `{name}`")))
}

/// The same as that of the API.
async fn health() -> Answer {
    as_json(&json!({ "status": "UP", "model_class": "protoseg" }))
}

async fn metrics(State(room): State<Room>) -> Answer {
    let studio = &room.studio;
    let (done, failed) = studio.features.counts();
    let text = room.site.metrics.text(&[
        ("protoseg_photos", "Photos of the project.", studio.photos.len() as f64),
        ("protoseg_photos_seen", "Photos that were looked at.", done as f64),
        ("protoseg_photos_failed", "Photos that cannot be looked at.", failed as f64),
        ("protoseg_features_bytes", "Memory for what was seen.", studio.features.bytes() as f64),
        ("protoseg_queue", "Requests that run or wait.", room.site.work.length() as f64),
    ]);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

/// A project as the page shows it.
#[derive(Serialize, ToSchema)]
struct ProjectAnswer {
    schema: &'static str,
    name: String,
    revision: u32,
    can_undo: bool,
    can_redo: bool,
    photos: usize,
    features: FeatureCounts,
    model: ModelAnswer,
    classes: Vec<ClassAnswer>,
    checks: Vec<Check>,
    checks_revision: u32,
}

#[derive(Serialize, ToSchema)]
struct FeatureCounts {
    done: usize,
    total: usize,
    failed: usize,
}

#[derive(Serialize, ToSchema)]
struct ModelAnswer {
    name: String,
    side: usize,
}

#[derive(Serialize, ToSchema)]
struct ClassAnswer {
    id: u8,
    name: String,
    color: String,
    hidden: bool,
    painted_photos: Vec<u32>,
    pixels: u64,
    base: bool,
}

async fn project(State(room): State<Room>) -> Answer {
    blocking(move || {
        let studio = &room.studio;
        let (done, failed) = studio.features.counts();
        let (checks_revision, checks) = studio.checks.get();
        let folder = studio.options.folder.canonicalize().unwrap_or_default();
        let name = folder.file_name().map_or("photos".into(), |name| name.to_string_lossy().into_owned());
        let answer = studio.project(|project| {
            let (can_undo, can_redo) = project.can();
            ProjectAnswer {
                schema: "protoseg.studio/1",
                name,
                revision: project.revision,
                can_undo,
                can_redo,
                photos: studio.photos.len(),
                features: FeatureCounts { done, total: studio.features.planned(studio.photos.len()), failed },
                model: ModelAnswer {
                    name: studio.options.model_name.clone(),
                    side: studio.model.preprocess().size,
                },
                classes: classes(project),
                checks,
                checks_revision,
            }
        });
        as_json(&answer)
    })
    .await
}

fn classes(project: &Project) -> Vec<ClassAnswer> {
    let counts: Vec<(u32, Vec<(u8, u64)>)> =
        project.paints.iter().map(|(photo, paint)| (*photo, paint.counts())).collect();
    let of = |id: u8| {
        let painted = counts.iter().filter_map(move |(photo, counts)| {
            counts.iter().find(|(own, _)| *own == id).map(|(_, pixels)| (*photo, *pixels))
        });
        painted.collect::<Vec<(u32, u64)>>()
    };
    let answer = |class: &super::project::Class| {
        let painted = of(class.id);
        ClassAnswer {
            id: class.id,
            name: class.name.clone(),
            color: hex(class.color),
            hidden: class.hidden,
            painted_photos: painted.iter().map(|(photo, _)| *photo).collect(),
            pixels: painted.iter().map(|(_, pixels)| pixels).sum(),
            base: class.base,
        }
    };
    project.classes.iter().map(answer).collect()
}

/// A photo as the page shows it.
#[derive(Serialize, ToSchema)]
struct PhotoAnswer {
    id: u32,
    name: String,
    width: usize,
    height: usize,
    features: &'static str,
    error: Option<String>,
    painted: Vec<u8>,
    uncertainty: Option<f64>,
}

fn photo_answer(studio: &Studio, photo: &Photo) -> PhotoAnswer {
    let size = studio.photos.size(photo);
    let state = studio.features.state(photo.id);
    let error = match (&size, &state) {
        (Err(error), _) | (_, Seen::Failed(error)) => Some(error.clone()),
        _ => None,
    };
    let features = match (&error, state) {
        (Some(_), _) => "failed",
        (None, Seen::Ready) => "ready",
        (None, _) => "waiting",
    };
    let paint = studio.project(|project| project.paints.get(&photo.id).cloned());
    let painted = paint.map_or(Vec::new(), |paint| {
        paint.counts().iter().map(|(id, _)| *id).filter(|id| *id < 254).collect()
    });
    let (width, height) = size.unwrap_or((0, 0));
    let uncertainty = studio.checks.unsure(photo.id);
    PhotoAnswer {
        id: photo.id,
        name: photo.name.clone(),
        width,
        height,
        features,
        error,
        painted,
        uncertainty,
    }
}

#[derive(Deserialize)]
struct Window {
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

async fn photos(State(room): State<Room>, uri: Uri) -> Answer {
    let Window { offset, limit } = query(&uri)?;
    blocking(move || {
        let studio = &room.studio;
        let part = studio.photos.part(offset, limit.unwrap_or(200).min(1000));
        let photos: Vec<PhotoAnswer> = part.iter().map(|photo| photo_answer(studio, photo)).collect();
        as_json(&json!({ "total": studio.photos.len(), "photos": photos }))
    })
    .await
}

async fn add_photo(State(room): State<Room>, headers: HeaderMap, body: Body) -> Answer {
    let name = headers.get("x-name").and_then(|name| name.to_str().ok()).map_or(String::new(), unescape);
    let held = room.site.bodies.read(&headers, body, limits::IMAGE_BODY).await?;
    let site = Arc::clone(&room.site);
    site.work
        .run(move || {
            let photo = room.studio.add_photo(&name, &held.bytes)?;
            let mut response = as_json(&photo_answer(&room.studio, &photo))?;
            *response.status_mut() = StatusCode::CREATED;
            Ok(response)
        })
        .await
}

#[derive(Deserialize)]
struct At {
    side: Option<usize>,
    known: Option<u32>,
}

async fn image(State(room): State<Room>, Part(id): Part<u32>, uri: Uri) -> Answer {
    let At { side, .. } = query(&uri)?;
    let side = side.map(|side| side.clamp(1, MOST_SIDE));
    let kept = side.and_then(|side| room.studio.thumbnails.get(id, side));
    if let Some(bytes) = kept {
        return Ok(picture(bytes, "image/jpeg"));
    }
    let site = Arc::clone(&room.site);
    site.work
        .run(move || {
            let studio = &room.studio;
            let _held = studio.in_work();
            let photo = studio.photos.get(id)?;
            studio.size(&photo)?;
            let Some(side) = side else { return whole(studio, &photo) };
            let image = match studio.features.in_hand(id) {
                Some(hand) => hand.image,
                // A photo that fills the page is one that people will paint on.
                None if side >= 1000 => {
                    studio.features.hand(id, || studio.photos.read(&photo)).map_err(Failure::unfit)?.image
                }
                None => Arc::new(studio.photos.read(&photo).map_err(Failure::unfit)?),
            };
            let bytes = studio.thumbnails.make(id, side, &image).map_err(Failure::internal)?;
            Ok(picture(bytes, "image/jpeg"))
        })
        .await
}

/// The photo's own file, if browsers show its format as it is; otherwise a copy as PNG.
fn whole(studio: &Studio, photo: &Photo) -> Answer {
    let bytes = studio.photos.bytes(photo).map_err(Failure::unfit)?;
    match bytes.get(..4) {
        Some(b"\x89PNG") => Ok(picture(bytes.into(), "image/png")),
        Some([0xFF, 0xD8, 0xFF, _]) => Ok(picture(bytes.into(), "image/jpeg")),
        _ => {
            let image = super::photos::decode(&bytes, &photo.name).map_err(Failure::unfit)?;
            let png = protoseg::data::mask::encode_picture_png(&image);
            Ok(picture(png.into(), "image/png"))
        }
    }
}

fn picture(bytes: Bytes, kind: &'static str) -> Response {
    let kept = "private, max-age=31536000, immutable";
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, kept)], bytes).into_response()
}

async fn labels(State(room): State<Room>, Part(id): Part<u32>, uri: Uri) -> Answer {
    let At { side, known } = query(&uri)?;
    let site = Arc::clone(&room.site);
    site.work
        .run(move || {
            let _held = room.studio.in_work();
            match room.studio.labels(id, side.unwrap_or(limits::LABEL_SIDE), known)? {
                Labels::Ready(bytes) => Ok(octets(bytes)),
                Labels::Waiting => Ok(StatusCode::ACCEPTED.into_response()),
                Labels::Known => Ok(StatusCode::NOT_MODIFIED.into_response()),
            }
        })
        .await
}

#[derive(Deserialize)]
struct Several {
    /// `id@revision` or `id`, separated by commas.
    photos: String,
    side: usize,
}

/// Labels of several photos, one after the other: id, status and length, then the bytes of a single answer. A request
/// costs a browser as much time as the labels of a small photo cost the server.
async fn labels_of_several(State(room): State<Room>, uri: Uri) -> Answer {
    let Several { photos, side } = query(&uri)?;
    let wanted: Vec<(u32, Option<u32>)> =
        photos.split(',').map(known_photo).collect::<Option<_>>().ok_or_else(|| {
            Failure::bad(format!("`photos={photos}` is no list of photos"))
                .hint("give numbers, separated by commas")
        })?;
    if wanted.len() > limits::LABELS_AT_ONCE {
        return Err(Failure::bad(format!("labels of at most {} photos at a time", limits::LABELS_AT_ONCE)));
    }
    let site = Arc::clone(&room.site);
    site.work
        .run(move || {
            let _held = room.studio.in_work();
            let answer = |&(id, known): &(u32, Option<u32>)| {
                let (status, bytes) = match room.studio.labels(id, side, known) {
                    Ok(Labels::Ready(bytes)) => (StatusCode::OK, bytes),
                    Ok(Labels::Waiting) => (StatusCode::ACCEPTED, Vec::new()),
                    Ok(Labels::Known) => (StatusCode::NOT_MODIFIED, Vec::new()),
                    Err(failure) => (failure.status(), Vec::new()),
                };
                let head = [id, u32::from(status.as_u16()), bytes.len() as u32];
                head.iter().flat_map(|value| value.to_le_bytes()).chain(bytes).collect::<Vec<u8>>()
            };
            let parts: Vec<Vec<u8>> = wanted.par_iter().map(answer).collect();
            Ok(octets(parts.concat()))
        })
        .await
}

/// `12@5` or `12`.
fn known_photo(text: &str) -> Option<(u32, Option<u32>)> {
    match text.split_once('@') {
        Some((id, known)) => Some((id.parse().ok()?, Some(known.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

async fn painted(State(room): State<Room>, Part(id): Part<u32>, uri: Uri) -> Answer {
    let At { side, .. } = query(&uri)?;
    let painted = move || Ok(octets(room.studio.painted(id, side.unwrap_or(limits::LABEL_SIDE))?));
    blocking(painted).await
}

fn octets(bytes: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response()
}

/// Paints a stroke. With a side, the answer is the photo's new labels, and what the stroke did is in the header
/// `X-Stroke`: the page need not ask again.
async fn stroke(
    State(room): State<Room>,
    Part(id): Part<u32>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let At { side, .. } = query(&uri)?;
    let stroke: Stroke = room.site.bodies.json(&headers, body, limits::JSON_BODY).await?;
    change(room, move |studio| {
        let painted = studio.stroke(id, &stroke)?;
        let labels = side.map(|side| studio.labels(id, side, None)).transpose()?;
        let text = serde_json::to_string(&painted).ok().and_then(|text| HeaderValue::try_from(text).ok());
        match (labels, text) {
            (Some(Labels::Ready(bytes)), Some(text)) => {
                let mut response = octets(bytes);
                response.headers_mut().insert("X-Stroke", text);
                Ok(response)
            }
            _ => as_json(&painted),
        }
    })
    .await
}

/// Carries out a change, one after the other. It is on the disk before it is answered; while it is written, the job
/// goes on, with the labels that the answer holds.
async fn change(room: Room, job: impl FnOnce(&Studio) -> Answer + Send + 'static) -> Answer {
    let site = Arc::clone(&room.site);
    site.changes
        .run(move || {
            let _held = room.studio.in_work();
            let answer = job(&room.studio)?;
            room.studio.settle()?;
            Ok(answer)
        })
        .await
}

#[derive(Deserialize)]
struct OfClass {
    class: u8,
}

async fn mask(
    State(room): State<Room>,
    Part(id): Part<u32>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let OfClass { class } = query(&uri)?;
    let held = room.site.bodies.read(&headers, body, limits::IMAGE_BODY).await?;
    change(room, move |studio| {
        let photo = studio.photos.get(id)?;
        let size = studio.size(&photo)?;
        let painted: Painted = studio.paint_mask(id, class, read_mask(&held.bytes, size)?)?;
        as_json(&painted)
    })
    .await
}

/// Where a mask is neither black nor transparent.
pub fn read_mask(bytes: &[u8], size: (usize, usize)) -> Answer<Vec<bool>> {
    let image = super::photos::decode(bytes, "mask.png").map_err(Failure::unfit)?;
    if (image.width, image.height) != size {
        let error = format!(
            "the mask has {} x {} pixels, its photo {} x {}",
            image.width, image.height, size.0, size.1
        );
        return Err(Failure::unfit(error).hint("save the mask at the size of its photo"));
    }
    let opaque = protoseg::data::picture::opaque(bytes, Path::new("mask.png"));
    let opaque = opaque.map_err(|error| Failure::unfit(error.to_string()))?;
    let is_painted =
        |(at, pixel): (usize, &[u8])| pixel != [0, 0, 0] && opaque.as_ref().is_none_or(|opaque| opaque[at]);
    Ok(image.data.chunks_exact(3).enumerate().map(is_painted).collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewClass {
    name: String,
    color: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassChange {
    name: Option<String>,
    color: Option<String>,
    hidden: Option<bool>,
}

/// `#rrggbb`
pub fn color(text: Option<&str>) -> Answer<Option<[u8; 3]>> {
    let Some(text) = text else { return Ok(None) };
    let wrong = || Failure::unfit(format!("`{text}` is not a colour such as `#e6194b`"));
    let digits =
        text.strip_prefix('#').filter(|digits| digits.len() == 6 && digits.is_ascii()).ok_or_else(wrong)?;
    let part = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong());
    Ok(Some([part(0)?, part(2)?, part(4)?]))
}

async fn add_class(State(room): State<Room>, headers: HeaderMap, body: Body) -> Answer {
    let new: NewClass = room.site.bodies.json(&headers, body, limits::JSON_BODY).await?;
    let color = color(new.color.as_deref())?;
    change(room, move |studio| {
        let mut id = 0;
        let revision = studio.change_classes(|project| {
            let (step, new_id) = project.add_class(&new.name, color, studio.background())?;
            id = new_id;
            Ok(step)
        })?;
        let mut response = as_json(&json!({ "id": id, "revision": revision }))?;
        *response.status_mut() = StatusCode::CREATED;
        Ok(response)
    })
    .await
}

async fn change_class(
    State(room): State<Room>,
    Part(id): Part<u8>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let ClassChange { name, color: text, hidden } =
        room.site.bodies.json(&headers, body, limits::JSON_BODY).await?;
    let color = color(text.as_deref())?;
    change(room, move |studio| {
        let reserved = studio.background();
        let revision = studio
            .change_classes(|project| project.change_class(id, name.as_deref(), color, hidden, reserved))?;
        as_json(&json!({ "revision": revision }))
    })
    .await
}

async fn remove_class(State(room): State<Room>, Part(id): Part<u8>) -> Answer {
    change(room, move |studio| {
        let revision = studio.change_classes(|project| project.remove_class(id))?;
        as_json(&json!({ "revision": revision }))
    })
    .await
}

async fn undo(State(room): State<Room>) -> Answer {
    step(room, true).await
}

async fn redo(State(room): State<Room>) -> Answer {
    step(room, false).await
}

async fn step(room: Room, back: bool) -> Answer {
    change(room, move |studio| {
        let (revision, photo) = studio.step(back)?;
        as_json(&json!({ "revision": revision, "photo": photo }))
    })
    .await
}

#[derive(Deserialize)]
struct But {
    #[serde(default)]
    not: String,
}

async fn least_sure(State(room): State<Room>, uri: Uri) -> Answer {
    let But { not } = query(&uri)?;
    let not: Vec<u32> = not.split(',').filter_map(|id| id.parse().ok()).collect();
    blocking(move || match room.studio.checks.least_sure(&not) {
        Some((photo, doubt)) => as_json(&json!({ "photo": photo, "uncertainty": doubt })),
        None => as_json(&json!({ "photo": null })),
    })
    .await
}

async fn events(State(room): State<Room>) -> Answer {
    room.studio.events.listen()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_as_they_are_sent() {
        assert_eq!(color(Some("#0a10ff")).unwrap(), Some([10, 16, 255]));
        for wrong in ["red", "#12345", "#12345g", "#1234ä"] {
            assert!(color(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mask_is_what_is_neither_black_nor_transparent() {
        let gray = protoseg::data::mask::encode_values_png(3, 1, &[0, 1, 255]);
        assert_eq!(read_mask(&gray, (3, 1)).unwrap(), [false, true, true]);
        assert_eq!(read_mask(&gray, (1, 3)).unwrap_err().status(), 422);
        assert!(read_mask(b"nonsense", (3, 1)).is_err());
    }
}
