//! Base learning.

mod event;
mod loss;
mod optimizer;
mod trainer;

pub use event::{End, EpochEvent, Event, Shown, Start, StepEvent, Validation, Watch};
pub use loss::{Losses, batch_losses, cross_entropy};
pub use optimizer::{OptimizerKind, Recipe, Schedule};
pub use trainer::{StepReport, Trainer};
