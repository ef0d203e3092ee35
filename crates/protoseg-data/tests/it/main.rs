//! Tests of the data crate against files, one binary.

mod broken;
mod docs;
mod fixture;
mod formats;
mod loading;
mod msrc;
mod mutations;
mod pascal;
mod pictures;
mod preparing;
mod specs;
