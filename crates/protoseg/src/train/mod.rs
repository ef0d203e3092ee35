//! Base learning.

mod loss;
mod optimizer;
mod trainer;

pub use loss::{Losses, batch_losses, cross_entropy};
pub use optimizer::Recipe;
pub use trainer::{StepReport, Trainer};
