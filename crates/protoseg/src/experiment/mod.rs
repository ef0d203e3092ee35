//! Experiments: a table as data (models x folds x shots x seeds), carried out as far as it is missing.
//!
//! ```no_run
//! use protoseg::{data::Benchmark, experiment::{Event, Experiment, ExperimentFolder, Inputs, Options, Schedule, Watch, run}};
//!
//! struct Quiet;
//! impl Watch for Quiet {
//!     fn event(&self, _: &Event<'_>) {}
//!     fn stop(&self) -> bool {
//!         false
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let experiment = Experiment::open("heads")?;
//! let inputs = Inputs::new("scenes", None)?;
//! let schedule = Schedule::new(&experiment, &inputs)?;
//! let options = Options::new(ExperimentFolder::new("experiments/scenes"));
//! let outcome = run(&experiment, &inputs, &schedule, &options, &Quiet)?;
//! println!("{}", outcome.results.markdown());
//! # Ok(())
//! # }
//! ```
//!
//! A model is known by the hash of its plan, and so is the result of each of its uses, a cell. Whatever is there under its
//! name is reused, by other tables too. A change of a recipe, of the data set or of a seed gives other names.

mod cell;
mod declaration;
mod error;
mod files;
mod folder;
mod identity;
mod make;
mod model_plan;
mod plan;
mod results;
mod run;
mod usage;

pub use cell::{Cell, Score, Seconds};
pub use declaration::{
    ByData, Declaration, EpisodesDeclaration, Experiment, HeadDeclaration, ModelDeclaration, NewDeclaration,
    RowDeclaration, SUPPORT_SEEDS,
};
pub use error::ExperimentError;
pub use folder::{Claim, ExperimentFolder};
pub use model_plan::{ModelPlan, NewPlan};
pub use plan::{CellPlan, Inputs, Job, Schedule, Use};
pub use results::{ExperimentResults, FoldResult, Number, Paper, RowResult, ShotResult};
pub use run::{Event, Left, Options, Outcome, Watch, duration, run};
