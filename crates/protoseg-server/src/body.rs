//! Bodies of requests: read within a size, within a time, and within the memory that all of them may take together.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes, to_bytes},
    http::{HeaderMap, StatusCode, header},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{
    error::{Answer, Failure},
    limits,
};

/// Memory for bodies.
#[derive(Clone, Debug)]
pub struct Bodies {
    memory: Arc<Semaphore>,
    time: Duration,
}

/// A body in memory.
pub struct Held {
    pub bytes: Bytes,
    _memory: OwnedSemaphorePermit,
}

const KIB: usize = 1024;

impl Bodies {
    /// Each must arrive within this time.
    pub fn new(time: Duration) -> Self {
        Self { memory: Arc::new(Semaphore::new(limits::BODIES / KIB)), time }
    }

    /// Reads a body of at most `limit` bytes.
    pub async fn read(&self, headers: &HeaderMap, body: Body, limit: usize) -> Answer<Held> {
        let too_large =
            || Failure::too_large(format!("the body is larger than {} MiB", limit.div_ceil(1 << 20)));
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        let length: Option<usize> = length.and_then(|length| length.parse().ok());
        if length.is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        // One that does not say its length may be as large as is allowed.
        let claimed = length.unwrap_or(limit).div_ceil(KIB).max(1) as u32;
        let memory = Arc::clone(&self.memory).try_acquire_many_owned(claimed).map_err(|_| Failure::busy())?;
        match timeout(self.time, to_bytes(body, limit)).await {
            Err(_) => {
                let error = "the body did not arrive in time";
                Err(Failure::new(StatusCode::REQUEST_TIMEOUT, error))
            }
            Ok(Err(error)) => {
                let is_limit = std::error::Error::source(&error)
                    .is_some_and(|source| source.to_string().contains("limit"));
                Err(if is_limit { too_large() } else { Failure::bad("the body was cut short") })
            }
            Ok(Ok(bytes)) => Ok(Held { bytes, _memory: memory }),
        }
    }

    /// Reads a body of JSON.
    pub async fn json<T: DeserializeOwned>(
        &self,
        headers: &HeaderMap,
        body: Body,
        limit: usize,
    ) -> Answer<T> {
        let held = self.read(headers, body, limit).await?;
        let bytes: &[u8] = if held.bytes.is_empty() { b"{}" } else { &held.bytes };
        serde_json::from_slice(bytes)
            .map_err(|error| Failure::bad(format!("the body is not what is expected: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_a_memory_and_one_that_finds_no_room_is_sent_away() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let bodies = Bodies { memory: Arc::new(Semaphore::new(4)), time: Duration::from_secs(30) };
        let read = |bytes: usize, says_length: bool| {
            let mut headers = HeaderMap::new();
            if says_length {
                headers.insert(header::CONTENT_LENGTH, bytes.into());
            }
            runtime.block_on(bodies.read(&headers, Body::from(vec![0; bytes]), 3 * KIB))
        };
        let status = |read: Answer<Held>| read.err().map(|failure| failure.status().as_u16());
        let held = read(3 * KIB, true).expect("there is room");
        assert_eq!(status(read(2 * KIB, true)), Some(503), "no room");
        assert_eq!(status(read(1, false)), Some(503), "it may become as large as is allowed");
        assert_eq!(status(read(KIB, true)), None);
        drop(held);
        assert_eq!(status(read(1, false)), None, "there is room again");
        assert_eq!(status(read(4 * KIB, true)), Some(413));
    }
}
