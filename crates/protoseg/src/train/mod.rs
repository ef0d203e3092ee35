//! Base learning.

mod checkpoint;
mod error;
mod event;
mod folder;
mod optimizer;
mod plan;
mod run;
mod trainer;
mod validate;

pub use error::TrainError;
pub use event::{End, EpochEvent, Event, Shown, Start, StepEvent, Validation, Watch};
pub use folder::{BEST_FILE, LAST_FILE, PLAN_FILE, Recorder, RunFolder};
pub use optimizer::{OptimizerKind, OptimizerSettings, Schedule};
pub use plan::{
    AugmentPlan, CheckpointPlan, DataPlan, HOLDOUT, NO_VALIDATION, NetworkPlan, Plan, PlanError,
    TrainingPlan, ValidationPlan,
};
pub use run::{Outcome, Run};
pub use trainer::{StepReport, Trainer, TrainerConfig};
