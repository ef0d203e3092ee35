//! What all servers of ours share: who may ask, limits, counts, and headers that keep browsers careful.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{Query, Request, State},
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use crate::{
    access::{Access, check_content_type},
    body::Bodies,
    error::Failure,
    limits,
    metrics::Metrics,
    work::Work,
};

/// What all routes of a server share.
pub struct Site {
    pub access: Access,
    pub bodies: Bodies,
    /// Work that many may ask for.
    pub work: Work,
    /// Changes, one after the other.
    pub changes: Work,
    pub metrics: Metrics,
    /// Time for the head of a request.
    pub patience: Duration,
}

impl Site {
    pub fn new(access: Access, patience: Duration) -> Self {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            access,
            bodies: Bodies::new(3 * patience),
            work: Work::new(threads, limits::WAITING),
            changes: Work::new(1, limits::WAITING),
            metrics: Metrics::default(),
            patience,
        }
    }
}

/// Paths that need no token.
const OPEN: [&str; 1] = ["/health"];

/// Headers of every answer.
const HEADERS: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
    ("cache-control", "no-store"),
];

/// The routes behind all rules.
pub fn guarded(router: Router, site: Arc<Site>) -> Router {
    router.layer(from_fn_with_state(site, guard))
}

async fn guard(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let mut response = match refuse(&site, &request) {
        Some(response) => response,
        None => next.run(request).await,
    };
    site.metrics.count(response.status().as_u16(), start.elapsed());
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        let name = HeaderName::from_static(name);
        if !headers.contains_key(&name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    response
}

#[derive(Deserialize)]
struct Start {
    token: Option<String>,
}

/// The answer of a request that may not go on, or that only brings its token.
fn refuse(site: &Site, request: &Request) -> Option<Response> {
    let headers = request.headers();
    if let Err(failure) =
        site.access.check_origin(headers).and_then(|()| check_content_type(request.method(), headers))
    {
        return Some(failure.into_response());
    }
    let path = request.uri().path();
    if OPEN.contains(&path) {
        return None;
    }
    let is_start = path == "/" && request.method() == Method::GET;
    if !is_start {
        return site.access.check_token(headers).err().map(Failure::into_response);
    }
    let token = Query::<Start>::try_from_uri(request.uri()).ok().and_then(|query| query.0.token);
    match token {
        Some(token) if site.access.is_token(&token) => {
            let headers =
                [(header::SET_COOKIE, site.access.set_cookie()), (header::LOCATION, "/".to_string())];
            Some((StatusCode::SEE_OTHER, headers).into_response())
        }
        Some(_) => Some(closed()),
        None => site.access.check_token(headers).err().map(|_| closed()),
    }
}

fn closed() -> Response {
    let page = "<!doctype html><html lang=en><meta charset=utf-8><title>protoseg</title>\
                <h1>The token is missing</h1><p>Open the address that protoseg printed, with its token.</p></html>";
    (StatusCode::UNAUTHORIZED, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}
