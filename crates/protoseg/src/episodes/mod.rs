//! Classic few-shot segmentation: a model that answers episodes, on a data set, in a published style.
//!
//! ```no_run
//! use protoseg::{Model, core::EpisodeStyle, data::Benchmark, episodes::{EpisodePlan, EpisodeTest}};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Model::load("pfenet.safetensors")?;
//! let data = Benchmark::open("pascal-5i", None)?;
//! let test = EpisodeTest::new(&model, &data, &EpisodePlan::published(0, EpisodeStyle::Pfenet))?;
//! let results = test.run("pfenet.safetensors", &|_, _| ())?;
//! println!("{}", results.markdown());
//! # Ok(())
//! # }
//! ```
//!
//! For one query and its supports, see [`Model::find`](crate::Model::find).

mod cache;
mod in_flight;
mod plan;
mod results;
mod run;

pub use plan::{EpisodePlan, EpisodeSource, EpisodesError};
pub use results::{AnsweredEpisode, EpisodeResults, EpisodeRow};
pub use run::{EpisodeAnswer, EpisodeTest};
