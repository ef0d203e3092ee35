//! What is refused, so that no request can take the machine. Each limit is a constant with its reason.

use std::time::Duration;

/// A JSON body. A stroke of 20,000 points takes half of it.
pub const JSON_BODY: usize = 2 << 20;
/// A photo or a mask as it is sent. Cameras write up to 50 MB.
pub const IMAGE_BODY: usize = 64 << 20;
/// A JSON body that holds pictures as base64: a photo and its mask.
pub const PICTURES_BODY: usize = 96 << 20;
/// A pack as it is sent: a thousand supports.
pub const PACK_BODY: usize = 64 << 20;
/// Pixels of a decoded photo: 64 Mi are 192 MiB, and two are decoded at a time.
pub const PIXELS: usize = 64 << 20;
/// The longer side of labels, so that width and height fit in 16 bits and an answer stays below 40 MiB.
pub const LABEL_SIDE: usize = 4096;
/// Photos of a project.
pub const PHOTOS: usize = 20_000;
/// Packs of a server.
pub const PACKS: usize = 1000;
/// Ids of classes: 0 is everything else, 254 painted as none, 255 unknown.
pub const CLASSES: usize = 253;
/// Points of a stroke.
pub const POINTS: usize = 20_000;
/// Radius of a brush, in pixels.
pub const RADIUS: f64 = 4096.0;
/// Pixels that are looked at while a stroke is drawn.
pub const DRAWN: f64 = 2e8;
/// Steps that can be undone.
pub const STEPS: usize = 200;
/// Connections at a time. A page uses 6 or 7.
pub const CONNECTIONS: usize = 256;
/// Pages that listen for events.
pub const LISTENERS: usize = 32;
/// Requests that wait for the processor. More are asked to come again.
pub const WAITING: usize = 64;
/// Photos whose labels are asked for in one request.
pub const LABELS_AT_ONCE: usize = 64;
/// Bytes of request bodies that are held in memory at a time.
pub const BODIES: usize = 256 << 20;
/// Time for the head of a request. The body has three times as much, which is 2 MB/s for 64 MB, and so has a client
/// that takes nothing of its answer.
pub const HEAD_TIME: Duration = Duration::from_secs(10);
/// Time in which requests in work may finish after the server was asked to stop.
pub const STOP_TIME: Duration = Duration::from_secs(30);
/// Memory for what the model has seen of photos.
pub const FEATURES: usize = 1 << 30;
/// Memory for small pictures.
pub const THUMBNAILS: usize = 96 << 20;
