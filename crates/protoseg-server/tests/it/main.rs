//! The real server on a loopback port, asked by hand-written requests.

mod annotation;
mod client;
mod safety;
mod scripts;
mod studio;
