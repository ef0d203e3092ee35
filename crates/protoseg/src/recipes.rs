//! The recipes of `recipes/`, which come with the library: plans for training, and experiments.

/// Names a recipe and its text.
macro_rules! embedded {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../../", $folder, $name, ".toml")))),+]
    };
}

/// Plans for training, by name.
const TRAINING: &[(&str, &str)] = embedded!("recipes/":
    "pascal-5i-psp50",
    "pascal-5i-psp101",
    "pascal-5i-deeplabv3-50",
    "coco-20i-psp50",
    "msrc-psp50",
    "photos-psp50",
    "scenes-small",
    "head",
    "fs-panet",
    "fs-pfenet",
    "fs-canet",
    "fs-scl-pfenet",
    "fs-scl-canet",
    "fs-capl-panet",
    "fs-capl-pfenet",
    "fs-hsnet",
    "fs-asgnet",
    "fs-repri",
    "fs-cwt",
    "fs-mining",
    "fs-msrc-panet",
    "fs-msrc-pfenet",
    "fs-msrc-canet",
    "fs-msrc-scl-pfenet",
    "fs-msrc-capl-panet",
    "fs-msrc-capl-pfenet",
    "fs-msrc-hsnet",
);

/// Experiments, by name.
const EXPERIMENTS: &[(&str, &str)] = embedded!("recipes/experiments/":
    "fs-in-gfs",
    "enrichment",
    "strategies",
    "fs-seg",
    "heads",
);

/// The text of the plan `recipes/NAME.toml`.
pub fn training(name: &str) -> Option<&'static str> {
    find(TRAINING, name)
}

/// The text of the experiment `recipes/experiments/NAME.toml`.
pub fn experiment(name: &str) -> Option<&'static str> {
    find(EXPERIMENTS, name)
}

/// The names of all plans for training.
pub fn training_names() -> impl Iterator<Item = &'static str> {
    TRAINING.iter().map(|(name, _)| *name)
}

/// The names of all experiments.
pub fn experiment_names() -> impl Iterator<Item = &'static str> {
    EXPERIMENTS.iter().map(|(name, _)| *name)
}

fn find(recipes: &[(&str, &'static str)], wanted: &str) -> Option<&'static str> {
    recipes.iter().find(|(name, _)| *name == wanted).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::train::Plan;

    #[test]
    fn every_plan_can_be_carried_out() {
        for name in training_names() {
            let plan = Plan::parse(training(name).unwrap(), Path::new(name)).unwrap();
            plan.check().unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}
