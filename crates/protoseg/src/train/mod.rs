//! Base learning.

mod loss;

pub use loss::{Losses, batch_losses, cross_entropy};
