//! What a request is told if it fails: a status, one sentence, and what to do.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

/// A request that cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    status: StatusCode,
    error: String,
    hint: Option<String>,
}

/// As it is sent.
#[derive(Serialize, utoipa::ToSchema)]
pub struct FailureBody {
    /// One sentence.
    error: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// The result of a request.
pub type Answer<T = Response> = Result<T, Failure>;

impl Failure {
    /// With a status and a sentence. What follows `hint: ` on a line of its own becomes the hint.
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        let text = text.into();
        match text.split_once("\nhint: ") {
            Some((error, hint)) => Self { status, error: error.to_string(), hint: Some(hint.to_string()) },
            None => Self { status, error: text, hint: None },
        }
    }

    /// With a hint.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The request cannot be understood.
    pub fn bad(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// The request is understood, but what it holds cannot be used.
    pub fn unfit(error: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error)
    }

    /// What it asks for is not there.
    pub fn missing(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// It is too large.
    pub fn too_large(error: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, error)
    }

    /// It would break what is there.
    pub fn conflict(error: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, error)
    }

    /// The server has too much to do.
    pub fn busy() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the server is busy").hint("try again in a second")
    }

    /// Something that should not happen.
    pub fn internal(error: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error)
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.status
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = FailureBody { error: self.error, hint: self.hint };
        let mut response = json(&body).unwrap_or_else(|_| Response::new(Body::empty()));
        *response.status_mut() = self.status;
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        // The rest of a body that was not read cannot be skipped safely.
        if matches!(self.status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// An answer as JSON.
pub fn json(value: &impl Serialize) -> Answer {
    let bytes = serde_json::to_vec(value).map_err(|error| Failure::internal(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], bytes).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_in_an_error_of_the_library_becomes_one() {
        let failure = Failure::unfit("`a.png` is no picture\nhint: save it again");
        assert_eq!(
            (failure.error.as_str(), failure.hint.as_deref()),
            ("`a.png` is no picture", Some("save it again"))
        );
        let response = Failure::busy().into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "1");
    }
}
