//! HTTP: the studio, a page on which people paint a few strokes and see every photo follow, and an API for programs and
//! annotation tools. It prints nothing.
//!
//! | to | see |
//! |---|---|
//! | know who may ask | [`access`](crate::Server), docs/server.md |
//! | find an address of the studio | `studio/routes.rs` |
//! | find an address of the API | `api/mod.rs` |
//! | find a limit | `limits.rs` |
//!
//! Threads that answer requests compute nothing: work goes through a queue (`work.rs`), and a full queue is said to be
//! full.

#![warn(missing_docs)]

mod access;
mod api;
mod assets;
mod body;
mod cvat;
mod error;
mod events;
mod images;
mod label_studio;
mod limits;
mod listen;
mod metrics;
mod server;
mod site;
mod studio;
mod work;

pub use api::{PacksError, ServeOptions};
pub use server::{Server, ServerError, ServerOptions};
pub use studio::{ProjectError, StudioOptions};
