//! What happens, told to pages that listen (server-sent events).

use std::{
    convert::Infallible,
    sync::{Mutex, PoisonError},
};

use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tokio::sync::mpsc::{Sender, channel, error::TrySendError};
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    error::{Answer, Failure},
    limits,
};

type Line = Result<Bytes, Infallible>;

/// Those who listen.
#[derive(Debug, Default)]
pub struct Events {
    listeners: Mutex<Vec<Sender<Line>>>,
}

/// Events that wait for a slow page; after that it is let go, and connects again.
const BEHIND: usize = 256;

impl Events {
    /// An answer that goes on until the page leaves, or the server stops.
    pub fn listen(&self) -> Answer {
        let (sender, receiver) = channel(BEHIND);
        let mut listeners = self.lock();
        listeners.retain(|listener| !listener.is_closed());
        if listeners.len() >= limits::LISTENERS {
            return Err(Failure::busy().hint("close other pages of this studio"));
        }
        let _ = sender.try_send(Ok(Bytes::from_static(b"retry: 2000\n\n")));
        listeners.push(sender);
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
        Ok::<Response, _>((headers, Body::from_stream(ReceiverStream::new(receiver))).into_response())
    }

    /// Tells all who listen.
    pub fn send(&self, name: &str, data: &impl Serialize) {
        let Ok(data) = serde_json::to_string(data) else { return };
        self.write(Bytes::from(format!("event: {name}\ndata: {data}\n\n")));
    }

    /// A line without meaning, by which connections that are gone are noticed.
    pub fn beat(&self) {
        self.write(Bytes::from_static(b": \n\n"));
    }

    fn write(&self, line: Bytes) {
        let is_there = |listener: &Sender<Line>| {
            !matches!(
                listener.try_send(Ok(line.clone())),
                Err(TrySendError::Closed(_) | TrySendError::Full(_))
            )
        };
        self.lock().retain(is_there);
    }

    /// Ends all answers, so that the server can stop.
    pub fn end(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Sender<Line>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_pages_listen_and_no_more_until_one_leaves() {
        let events = Events::default();
        let mut pages: Vec<Response> = (0..limits::LISTENERS).map(|_| events.listen().unwrap()).collect();
        assert_eq!(events.listen().unwrap_err().status(), 503);
        pages.pop();
        pages.push(events.listen().unwrap());
        assert_eq!(events.listen().unwrap_err().status(), 503);
    }
}
