//! Events of a run. The library sends them; whoever runs it shows and stores them.

use std::{io, path::PathBuf};

use protoseg_core::{Image, RowMap};
use serde::{Deserialize, Serialize};

use super::Task;

/// Something that happened; one JSON object per line in the run's `metrics.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The first event of a run, and of each time it is resumed.
    Start(Start),
    /// A step is done.
    Step(StepEvent),
    /// An epoch is done.
    Epoch(EpochEvent),
    /// The network was validated.
    Validation(Validation),
    /// The network was validated on episodes.
    EpisodeValidation(EpisodeValidation),
    /// A checkpoint is complete on disk.
    Checkpoint {
        /// After this step.
        step: usize,
        /// Where it is.
        path: PathBuf,
    },
    /// Something the user should know that does not end the run.
    Warning {
        /// What to know.
        text: String,
    },
    /// The last event of a run that was not interrupted.
    End(End),
}

/// What a run is, when it begins or goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Of these events: `protoseg.train/1`.
    pub schema: String,
    /// The data set.
    pub data: String,
    /// Its fold.
    pub fold: usize,
    /// The method, by name.
    pub method: String,
    /// The network in words.
    pub network: String,
    /// Where it runs.
    pub device: String,
    /// Everything random follows from it.
    pub seed: u64,
    /// Training images.
    pub images: usize,
    /// Passes over the training images.
    pub epochs: usize,
    /// Batches in an epoch.
    pub steps_per_epoch: usize,
    /// Steps of the whole run.
    pub steps: usize,
    /// Steps done before; 0 unless resumed.
    pub from_step: usize,
    /// What the model is for, unless it is `gfs-seg`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// Supports of an episode, if it learns from episodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shots: Option<usize>,
}

/// What a step was like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepEvent {
    /// Both counted from 1.
    pub epoch: usize,
    /// Steps done, counted from 1.
    pub step: usize,
    /// What is minimised.
    pub loss: f32,
    /// Of the classifier that the method forms.
    pub main_loss: f32,
    /// Of the auxiliary head, unweighted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aux_loss: Option<f32>,
    /// Rate of the encoder.
    pub rate: f64,
    /// Speed.
    pub images_per_second: f64,
}

/// Means over an epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochEvent {
    /// Counted from 1.
    pub epoch: usize,
    /// Steps done, counted from 1.
    pub step: usize,
    /// What is minimised.
    pub loss: f64,
    /// Of the classifier that the method forms.
    pub main_loss: f64,
    /// Of the auxiliary head, unweighted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aux_loss: Option<f64>,
    /// Of training alone.
    pub seconds: f64,
    /// Speed.
    pub images_per_second: f64,
}

/// Base classes on images that were not trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// Counted from 1.
    pub epoch: usize,
    /// Steps done, counted from 1.
    pub step: usize,
    /// What was looked at: `holdout`, or the name of a split.
    pub on: String,
    /// How many images.
    pub images: usize,
    /// In percent, like all that follows.
    pub base_miou: f64,
    /// Share of labelled pixels that are right.
    pub pixel_accuracy: f64,
    /// Name and IoU of each base class; none where it did not occur.
    pub iou: Vec<(String, Option<f64>)>,
    /// Better than all before.
    pub best: bool,
}

/// How well episodes are answered whose queries were not trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpisodeValidation {
    /// Counted from 1.
    pub epoch: usize,
    /// Steps done, counted from 1.
    pub step: usize,
    /// Where the queries are from: `holdout`, or the name of a split.
    pub on: String,
    /// How many episodes.
    pub episodes: usize,
    /// Supports of each.
    pub shots: usize,
    /// Mean IoU of the classes that were asked for, in percent, like all that follows.
    pub class_miou: f64,
    /// Mean of the IoU of foreground and background over all episodes.
    pub fb_iou: f64,
    /// Name and IoU of each class; none where it neither occurred nor was predicted.
    pub iou: Vec<(String, Option<f64>)>,
    /// Better than all before.
    pub best: bool,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Steps done, counted from 1.
    pub step: usize,
    /// Since the start or the resumption.
    pub seconds: f64,
    /// Of this process, where the system tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// The model after the last step.
    pub last: PathBuf,
    /// The best model by validation.
    pub best: PathBuf,
}

/// An image with its truth and its prediction, labels in rows, all of one size.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its name in the data set.
    pub name: String,
    /// The picture.
    pub image: Image,
    /// Its labels.
    pub truth: RowMap,
    /// What the network makes of it.
    pub predicted: RowMap,
    /// Of an episode: the class and the supports that it was asked by. 1 is the class in all labels then.
    pub episode: Option<ShownEpisode>,
}

/// What a query was asked.
#[derive(Clone, Debug)]
pub struct ShownEpisode {
    /// The class.
    pub class: String,
    /// Pictures that show it, with their masks.
    pub supports: Vec<(Image, RowMap)>,
}

impl Event {
    /// What a validation came to, of either kind.
    pub fn validated(&self) -> Option<Validated> {
        match self {
            Self::Validation(of) => Some(Validated {
                what: "base mIoU",
                epoch: of.epoch,
                step: of.step,
                miou: of.base_miou,
                best: of.best,
            }),
            Self::EpisodeValidation(of) => Some(Validated {
                what: "class mIoU",
                epoch: of.epoch,
                step: of.step,
                miou: of.class_miou,
                best: of.best,
            }),
            _ => None,
        }
    }
}

/// The number that chooses the best model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Validated {
    /// What it is: `base mIoU` or `class mIoU`.
    pub what: &'static str,
    /// Counted from 1.
    pub epoch: usize,
    /// Steps done, counted from 1.
    pub step: usize,
    /// In percent.
    pub miou: f64,
    /// Better than all before.
    pub best: bool,
}

/// Follows a run. An error ends the run: a full disk must not go unnoticed.
pub trait Watch {
    /// Something happened.
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// The same few images each time, as the network predicts them after an epoch.
    fn shown(&mut self, epoch: usize, samples: &[Shown]) -> io::Result<()>;

    /// Asked after each step; true saves and stops.
    fn stop(&self) -> bool;
}
