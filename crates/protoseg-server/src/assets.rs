//! The page, part of the program.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};

const INDEX: &[u8] = include_bytes!("../assets/index.html");

/// Name, content type and bytes of the other files.
const FILES: [(&str, &str, &[u8]); 3] = [
    ("studio.js", "text/javascript; charset=utf-8", include_bytes!("../assets/studio.js")),
    ("studio.css", "text/css; charset=utf-8", include_bytes!("../assets/studio.css")),
    ("icon.svg", "image/svg+xml", include_bytes!("../assets/icon.svg")),
];

/// The page.
pub fn index() -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CACHE_CONTROL, "no-cache")], INDEX)
        .into_response()
}

/// A file of the page.
pub fn file(name: &str) -> Option<Response> {
    let (_, kind, bytes) = FILES.iter().find(|(own, _, _)| *own == name)?;
    Some(([(header::CONTENT_TYPE, *kind), (header::CACHE_CONTROL, "no-cache")], *bytes).into_response())
}
