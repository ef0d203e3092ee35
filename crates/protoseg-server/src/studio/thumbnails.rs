//! Small pictures of photos, as JPEG, kept as long as there is room.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use axum::body::Bytes;
use protoseg::{Image, data::picture::encode_jpeg, picture::thumbnail};

use crate::limits;

/// Kept pictures by photo and side.
#[derive(Debug, Default)]
pub struct Thumbnails(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    kept: HashMap<(u32, usize), Bytes>,
    order: VecDeque<(u32, usize)>,
    bytes: usize,
}

impl Thumbnails {
    /// A picture that is already there.
    pub fn get(&self, id: u32, side: usize) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).kept.get(&(id, side)).cloned()
    }

    /// Makes a picture and keeps it.
    pub fn make(&self, id: u32, side: usize, image: &Image) -> Result<Bytes, String> {
        let bytes = Bytes::from(encode_jpeg(&thumbnail(image, side)).map_err(|error| error.to_string())?);
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.kept.insert((id, side), bytes.clone()).is_none() {
            inner.order.push_back((id, side));
            inner.bytes += bytes.len();
        }
        while inner.bytes > limits::THUMBNAILS {
            let Some(gone) = inner.order.pop_front().and_then(|oldest| inner.kept.remove(&oldest)) else {
                break;
            };
            inner.bytes -= gone.len();
        }
        Ok(bytes)
    }
}
