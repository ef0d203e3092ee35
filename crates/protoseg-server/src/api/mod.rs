//! The API for programs: a model, packs, registering and predicting.

mod openapi;
mod packs;

use std::{path::PathBuf, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, Uri, header},
    response::{IntoResponse, Response},
    routing::{delete, get, post},
};
use base64::Engine;
use protoseg::{
    ClassPack, Image, Model, Prediction, Support,
    data::mask::{encode_gray_png, encode_palette_png, encode_picture_png},
    picture::CocoDocument,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

pub use packs::{Pack, Packs, PacksError};

use crate::{
    cvat,
    error::{Answer, Failure, json as as_json},
    images::{Images, decode},
    label_studio, limits,
    site::Site,
    studio::{query, read_mask},
};

/// How a server without a page is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServeOptions {
    /// The folder of packs.
    pub packs: PathBuf,
    /// The pack that annotation tools teach and use.
    pub pack: String,
    /// The folder of images that annotation tools may name.
    pub images: Option<PathBuf>,
    /// What answers call the model.
    pub model_name: String,
}

impl ServeOptions {
    /// With the packs of a folder.
    pub fn new(packs: impl Into<PathBuf>) -> Self {
        Self { packs: packs.into(), pack: "default".into(), images: None, model_name: "box".into() }
    }
}

/// What the handlers need.
pub struct Desk {
    pub packs: Packs,
    pub pack: String,
    pub images: Images,
    pub model_name: String,
    pub site: Arc<Site>,
}

impl Desk {
    pub fn open(model: Model, options: &ServeOptions, site: Arc<Site>) -> Result<Arc<Self>, PacksError> {
        let packs = Packs::open(model, &options.packs)?;
        let images = Images::open(options.images.as_deref())?;
        let (pack, model_name) = (options.pack.clone(), options.model_name.clone());
        Ok(Arc::new(Self { packs, pack, images, model_name, site }))
    }

    /// Runs something for which the processor is needed.
    pub async fn work(self: Arc<Self>, job: impl FnOnce(&Self) -> Answer + Send + 'static) -> Answer {
        let site = Arc::clone(&self.site);
        site.work.run(move || job(&self)).await
    }
}

/// All addresses of a server without a page.
pub fn router(desk: Arc<Desk>) -> Router {
    Router::new()
        .route("/", get(openapi::docs))
        .route("/docs", get(openapi::docs))
        .route("/docs.css", get(openapi::style))
        .route("/openapi.json", get(openapi::document))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/api/v1/models", get(models))
        .route("/api/v1/packs", get(list_packs))
        .route("/api/v1/packs/{pack}", get(pack_classes))
        .route("/api/v1/packs/{pack}/file", get(pack_file).post(put_pack_file))
        .route("/api/v1/packs/{pack}/classes", get(pack_classes))
        .route("/api/v1/packs/{pack}/classes/{class}", delete(remove_class))
        .route("/api/v1/packs/{pack}/classes/{class}/supports", post(register))
        .route("/api/v1/predict", post(predict))
        .merge(label_studio::router())
        .merge(cvat::router())
        .fallback(async || Failure::missing("there is nothing at this address").hint("see /docs"))
        .with_state(desk)
}

/// Whether the server is there
///
/// Needs no token.
#[utoipa::path(get, path = "/health", tag = "server", responses((status = 200, description = "It is")))]
async fn health() -> Answer {
    as_json(&json!({ "status": "UP", "model_class": "protoseg" }))
}

/// Counts for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "server", responses((status = 200, description = "As text")))]
async fn metrics(State(desk): State<Arc<Desk>>) -> Answer {
    let text = desk.site.metrics.text(&[
        ("protoseg_packs", "Packs of the server.", desk.packs.all().len() as f64),
        ("protoseg_queue", "Requests that run or wait.", desk.site.work.length() as f64),
    ]);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

/// A model.
#[derive(Serialize, ToSchema)]
struct ModelAnswer {
    /// What it is called.
    name: String,
    /// Everything that its features depend on.
    fingerprint: String,
    /// Longer side that images are resized to.
    side: usize,
    /// Classes that it knew before anybody taught it.
    classes: Vec<String>,
}

/// The models of the server
#[utoipa::path(get, path = "/api/v1/models", tag = "models", responses((status = 200, body = Vec<ModelAnswer>)))]
async fn models(State(desk): State<Arc<Desk>>) -> Answer {
    desk.work(|desk| {
        let model = desk.packs.model();
        let classes = model.classes();
        as_json(&[ModelAnswer {
            name: desk.model_name.clone(),
            fingerprint: model.fingerprint(),
            side: model.preprocess().size,
            classes: classes.rows()[..classes.n_base()].iter().map(|class| class.name.clone()).collect(),
        }])
    })
    .await
}

/// A pack.
#[derive(Serialize, ToSchema)]
struct PackAnswer {
    /// Its name.
    name: String,
    /// Another one after each change.
    version: String,
    /// What it teaches.
    classes: Vec<PackClassAnswer>,
}

/// A class of a pack.
#[derive(Serialize, ToSchema)]
struct PackClassAnswer {
    /// Its name.
    name: String,
    /// Its id in masks made with this pack.
    id: Option<usize>,
    /// Images that taught it.
    supports: usize,
}

fn pack_answer(name: &str, pack: &Pack) -> PackAnswer {
    let rows = pack.segmenter.classes().rows();
    let class = |class: &protoseg::class_pack::PackClass| PackClassAnswer {
        name: class.name.clone(),
        id: rows.iter().position(|row| row.name == class.name),
        supports: class.shots.len(),
    };
    let classes = pack.pack.classes().iter().map(class).collect();
    PackAnswer { name: name.to_string(), version: pack.version.clone(), classes }
}

/// All packs
#[utoipa::path(get, path = "/api/v1/packs", tag = "packs", responses((status = 200, body = Vec<PackAnswer>)))]
async fn list_packs(State(desk): State<Arc<Desk>>) -> Answer {
    let all: Vec<PackAnswer> = desk.packs.all().iter().map(|(name, pack)| pack_answer(name, pack)).collect();
    as_json(&all)
}

/// The classes of a pack
#[utoipa::path(get, path = "/api/v1/packs/{pack}/classes", tag = "packs", params(("pack" = String, Path, description = "Its name")),
    responses((status = 200, body = PackAnswer), (status = 404, description = "There is no such pack")))]
async fn pack_classes(State(desk): State<Arc<Desk>>, Path(pack): Path<String>) -> Answer {
    as_json(&pack_answer(&pack, &*desk.packs.get(&pack)?))
}

/// The file of a pack, for `protoseg predict --pack`
#[utoipa::path(get, path = "/api/v1/packs/{pack}/file", tag = "packs", params(("pack" = String, Path, description = "Its name")),
    responses((status = 200, description = "The file", content_type = "application/octet-stream")))]
async fn pack_file(State(desk): State<Arc<Desk>>, Path(name): Path<String>) -> Answer {
    let bytes =
        desk.packs.get(&name)?.pack.to_bytes().map_err(|error| Failure::internal(error.to_string()))?;
    let disposition = format!("attachment; filename=\"{name}.pack\"");
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".into()),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    Ok((headers, bytes).into_response())
}

/// Send a pack that `protoseg register` made; one of the same name is replaced
#[utoipa::path(post, path = "/api/v1/packs/{pack}/file", tag = "packs", params(("pack" = String, Path, description = "Its name")),
    request_body(content_type = "application/octet-stream", content = Vec<u8>), responses((status = 200, body = PackAnswer)))]
async fn put_pack_file(
    State(desk): State<Arc<Desk>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let held = desk.site.bodies.read(&headers, body, limits::PACK_BODY).await?;
    desk.work(move |desk| {
        let sent =
            ClassPack::from_bytes(held.bytes.to_vec()).map_err(|error| Failure::unfit(error.to_string()))?;
        sent.check(desk.packs.model()).map_err(|error| Failure::unfit(error.to_string()))?;
        let (pack, ()) = desk.packs.change(&name, |pack| {
            *pack = sent;
            Ok(())
        })?;
        as_json(&pack_answer(&name, &pack))
    })
    .await
}

/// Take a class out of a pack
#[utoipa::path(delete, path = "/api/v1/packs/{pack}/classes/{class}", tag = "packs",
    params(("pack" = String, Path, description = "The pack"), ("class" = String, Path, description = "The class")),
    responses((status = 200, body = PackAnswer)))]
async fn remove_class(State(desk): State<Arc<Desk>>, Path((name, class)): Path<(String, String)>) -> Answer {
    desk.work(move |desk| as_json(&pack_answer(&name, &*desk.packs.remove(&name, &class)?))).await
}

/// A labelled image.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SupportBody {
    /// The image's file as base64.
    image: String,
    /// The mask's file as base64, of the image's size: what is neither black nor transparent is the class.
    mask: String,
    /// What the image is called. What an image of the same name taught of the class before is replaced.
    #[serde(default)]
    name: Option<String>,
    /// Whether all other supports of the class go.
    #[serde(default)]
    replace: bool,
}

/// What a support has taught.
#[derive(Serialize, ToSchema)]
struct RegisterAnswer {
    pack: PackAnswer,
    /// What registration says of the class.
    report: serde_json::Value,
}

/// Teach a class from an image and its mask
#[utoipa::path(post, path = "/api/v1/packs/{pack}/classes/{class}/supports", tag = "packs", request_body = SupportBody,
    params(("pack" = String, Path, description = "The pack; made if it is not there"), ("class" = String, Path, description = "The class")),
    responses((status = 200, body = RegisterAnswer), (status = 422, description = "The image or the mask cannot be used"),
        (status = 503, description = "Busy; try again after the time in `Retry-After`")))]
async fn register(
    State(desk): State<Arc<Desk>>,
    Path((name, class)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let sent: SupportBody = desk.site.bodies.json(&headers, body, limits::PICTURES_BODY).await?;
    desk.work(move |desk| {
        let image = decode(&unpack(&sent.image)?, "the image")?;
        let mask = read_mask(&unpack(&sent.mask)?, (image.width, image.height))?;
        let called =
            sent.name.unwrap_or_else(|| format!("{}.png", &blake3::hash(&image.data).to_hex()[..12]));
        let support =
            Support::from_mask(called, image, &mask).map_err(|error| Failure::unfit(error.to_string()))?;
        let (pack, report) = desk.packs.register(&name, &class, support, sent.replace)?;
        let report = serde_json::to_value(&report).map_err(|error| Failure::internal(error.to_string()))?;
        as_json(&RegisterAnswer { pack: pack_answer(&name, &pack), report })
    })
    .await
}

/// Bytes from base64.
pub fn unpack(text: &str) -> Answer<Vec<u8>> {
    let text = text.split_once(";base64,").map_or(text, |(_, text)| text);
    let bytes = base64::engine::general_purpose::STANDARD.decode(text.trim());
    bytes.map_err(|_| Failure::unfit("a picture is not base64"))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct PredictQuery {
    /// The pack; without one, the model's own classes
    pack: Option<String>,
    /// What to answer: `mask` (PNG with ids), `coco` (JSON), `overlay` (PNG) or `areas` (JSON)
    #[serde(default)]
    answer: PredictAnswer,
    /// Look at the image in tiles, at full resolution
    #[serde(default)]
    tile: bool,
    /// Pixels below this confidence get no label
    abstain: Option<f64>,
}

#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum PredictAnswer {
    #[default]
    Mask,
    Coco,
    Overlay,
    Areas,
}

/// Label an image
#[utoipa::path(post, path = "/api/v1/predict", tag = "predict", params(PredictQuery),
    request_body(content_type = "image/*", content = Vec<u8>, description = "The image's file"),
    responses((status = 200, description = "A mask or an overlay as PNG, or JSON"), (status = 413, description = "The image is too large"),
        (status = 422, description = "The image cannot be read"), (status = 503, description = "Busy; try again after the time in `Retry-After`")))]
async fn predict(State(desk): State<Arc<Desk>>, uri: Uri, headers: HeaderMap, body: Body) -> Answer {
    let asked: PredictQuery = query(&uri)?;
    let held = desk.site.bodies.read(&headers, body, limits::IMAGE_BODY).await?;
    desk.work(move |desk| {
        let pack = match &asked.pack {
            Some(name) => desk.packs.get(name)?,
            None => desk.packs.empty(),
        };
        let image = decode(&held.bytes, "the image")?;
        drop(held);
        let prediction = if asked.tile {
            let builder = protoseg::Segmenter::builder(desk.packs.model()).pack(&pack.pack).tiles(0.25);
            builder.build().map_err(packs::of_register)?.predict(&image)
        } else {
            pack.segmenter.predict(&image)
        };
        let prediction = match asked.abstain {
            Some(least) => prediction.abstain_below(least.clamp(0.0, 1.0)),
            None => prediction,
        };
        answer(&prediction, &image, asked.answer)
    })
    .await
}

fn answer(prediction: &Prediction, image: &Image, kind: PredictAnswer) -> Answer {
    let png = |bytes: Vec<u8>| -> Answer<Response> {
        Ok(([(header::CONTENT_TYPE, "image/png")], bytes).into_response())
    };
    match kind {
        PredictAnswer::Mask => {
            let mask = encode_palette_png(prediction.labels(), prediction.palette().colors());
            png(mask.unwrap_or_else(|| encode_gray_png(prediction.labels())))
        }
        PredictAnswer::Overlay => png(encode_picture_png(&prediction.overlay(image))),
        PredictAnswer::Areas => as_json(&prediction.areas()),
        PredictAnswer::Coco => {
            let mut document = CocoDocument::new(prediction.classes());
            document.push("image", prediction.width(), prediction.height(), &prediction.regions());
            as_json(&document)
        }
    }
}
