//! The API described: for machines as OpenAPI, for people as a page that needs no script and no other server.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use maud::{DOCTYPE, html};
use serde_json::Value;
use utoipa::OpenApi;

use crate::{
    cvat,
    error::{Answer, FailureBody, json as as_json},
    label_studio,
};

/// The API.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "protoseg",
        description = "Teach a segmentation model new classes from a few masks, and label images. \
        Requests show the token as `Authorization: Bearer TOKEN`. Those that change something are JSON, or the bytes of a file."
    ),
    paths(
        super::health,
        super::metrics,
        super::models,
        super::list_packs,
        super::pack_classes,
        super::pack_file,
        super::put_pack_file,
        super::remove_class,
        super::register,
        super::predict,
        label_studio::setup,
        label_studio::predict,
        label_studio::webhook,
        cvat::functions,
        cvat::function,
        cvat::invoke,
    ),
    components(schemas(FailureBody))
)]
struct Description;

pub async fn document() -> Answer {
    as_json(&Description::openapi())
}

pub async fn style() -> Response {
    let style = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
                 code{background:#8882;padding:.1em .3em;border-radius:.2em}h3 code{font-size:1rem}\
                 section{border-top:1px solid #8886;padding:.5rem 0}dt{font-weight:600}\
                 @media(prefers-color-scheme:dark){body{background:#181818;color:#eee}a{color:#8cf}}";
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], style).into_response()
}

pub async fn docs() -> Answer {
    let document = serde_json::to_value(Description::openapi()).unwrap_or_default();
    let empty = serde_json::Map::new();
    let paths = document["paths"].as_object().unwrap_or(&empty);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "protoseg: HTTP API" }
                link rel="stylesheet" href="/docs.css";
            }
            body {
                h1 { "protoseg: HTTP API" }
                p { (text(&document["info"]["description"])) }
                p { "The same for machines: " a href="/openapi.json" { "openapi.json" } "." }
                @for (path, methods) in paths {
                    @for (method, operation) in methods.as_object().unwrap_or(&empty) {
                        section {
                            h3 { code { (method.to_uppercase()) " " (path) } }
                            p { (text(&operation["summary"])) ". " (text(&operation["description"])) }
                            @if let Some(parameters) = operation["parameters"].as_array() {
                                dl {
                                    @for parameter in parameters {
                                        dt { code { (text(&parameter["name"])) } " in the " (text(&parameter["in"])) }
                                        dd { (text(&parameter["description"])) }
                                    }
                                }
                            }
                            @if let Some(content) = operation["requestBody"]["content"].as_object() {
                                p { "Body: " @for kind in content.keys() { code { (kind) } " " } }
                            }
                            dl {
                                @for (status, response) in operation["responses"].as_object().unwrap_or(&empty) {
                                    dt { (status) }
                                    dd { (text(&response["description"])) }
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    Ok(([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page.into_string()).into_response())
}
