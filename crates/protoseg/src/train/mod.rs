//! Base learning.

mod checkpoint;
mod error;
mod event;
mod folder;
mod head;
mod layers;
mod optimizer;
mod plan;
mod run;
mod trainer;
mod validate;

pub use error::TrainError;
pub use event::{
    End, EpisodeValidation, EpochEvent, Event, Shown, ShownEpisode, Start, StepEvent, Validated, Validation,
    Watch,
};
pub use folder::{BEST_FILE, LAST_FILE, PLAN_FILE, Recorder, RunFolder};
pub use head::{HeadPlan, HeadProgress};
pub use optimizer::{OptimizerKind, OptimizerSettings, Schedule};
pub(crate) use plan::merge;
pub use plan::{
    AugmentPlan, CheckpointPlan, DataPlan, HOLDOUT, MethodName, NO_VALIDATION, NetworkPlan, Plan, PlanError,
    Task, TrainingPlan, UnknownMethod, ValidationClasses, ValidationPlan,
};
pub use run::{Outcome, Run};
pub use trainer::{StepReport, Trainer, TrainerConfig};
