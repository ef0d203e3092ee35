//! How good the network is on images that were not trained on.

use protoseg_core::{ClassRole, Confusion, EpisodeCounts, Image, RowMap, SUPPORT_ROW};
use protoseg_data::{DataError, Support};

use super::{EpisodeValidation, Event, Shown, ShownEpisode, TrainError, Validation};
use crate::{model::Model, segmenter::Segmenter};

/// An image that is looked at again and again. Its labels are rows; novel pixels are ignored.
pub(super) struct ValidationImage {
    pub name: String,
    pub image: Image,
    pub label: RowMap,
}

/// An episode that is asked again and again.
#[derive(Clone)]
pub(super) struct ValidationEpisode {
    pub class: String,
    pub query: ValidationPicture,
    pub supports: Vec<ValidationPicture>,
}

/// An image of an episode. 1 is its class, 0 everything else.
#[derive(Clone)]
pub(super) struct ValidationPicture {
    pub name: String,
    pub image: Image,
    pub label: RowMap,
}

/// When and on what the network is validated.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub epoch: usize,
    pub step: usize,
    pub on: &'a str,
}

/// What a validation came to.
pub(super) enum Scores {
    Images(Validation),
    Episodes(EpisodeValidation),
}

impl Scores {
    /// The number that chooses the best model, in percent.
    pub fn miou(&self) -> f64 {
        match self {
            Self::Images(of) => of.base_miou,
            Self::Episodes(of) => of.class_miou,
        }
    }

    pub fn set_best(&mut self) {
        match self {
            Self::Images(of) => of.best = true,
            Self::Episodes(of) => of.best = true,
        }
    }

    pub fn into_event(self) -> Event {
        match self {
            Self::Images(of) => Event::Validation(of),
            Self::Episodes(of) => Event::EpisodeValidation(of),
        }
    }
}

/// Base classes on whole images; no scores if there are none.
pub(super) fn on_images(
    model: &Model,
    place: Place<'_>,
    all: &[ValidationImage],
    shown: &[ValidationImage],
) -> Result<(Option<Scores>, Vec<Shown>), TrainError> {
    let segmenter = Segmenter::builder(model).build()?;
    let mut counts = Confusion::new(model.classes().rows().len());
    for looked in all {
        counts.add(&looked.label, &segmenter.score(&looked.image).labels());
    }
    let show = |looked: &ValidationImage| Shown {
        name: looked.name.clone(),
        image: looked.image.clone(),
        truth: looked.label.clone(),
        predicted: segmenter.score(&looked.image).labels(),
        episode: None,
    };
    let shown = shown.iter().map(show).collect();
    let scores =
        (!all.is_empty()).then(|| Scores::Images(count_images(&segmenter, &counts, all.len(), place)));
    Ok((scores, shown))
}

fn count_images(segmenter: &Segmenter, counts: &Confusion, images: usize, place: Place<'_>) -> Validation {
    let classes = segmenter.classes();
    let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
    let base = classes.rows().iter().filter(|class| class.role != ClassRole::Novel);
    Validation {
        epoch: place.epoch,
        step: place.step,
        on: place.on.to_string(),
        images,
        base_miou: percent(counts.mean_iou(0..classes.n_base())).unwrap_or(0.0),
        pixel_accuracy: percent(counts.pixel_accuracy()).unwrap_or(0.0),
        iou: base.enumerate().map(|(row, class)| (class.name.clone(), percent(counts.iou(row)))).collect(),
        best: false,
    }
}

/// Episodes; no scores if there are none.
pub(super) fn on_episodes(
    model: &Model,
    place: Place<'_>,
    all: &[ValidationEpisode],
    shown: &[ValidationEpisode],
) -> Result<(Option<Scores>, Vec<Shown>), TrainError> {
    let mut classes: Vec<&str> = all.iter().map(|episode| episode.class.as_str()).collect();
    classes.sort_unstable();
    classes.dedup();
    let mut counts = EpisodeCounts::new(classes.len());
    for episode in all {
        let class = classes.binary_search(&episode.class.as_str()).expect("all classes are listed");
        counts.add(class, &episode.query.label, &answer(model, episode)?);
    }
    let shown = shown.iter().map(|episode| {
        Ok(Shown {
            name: episode.query.name.clone(),
            image: episode.query.image.clone(),
            truth: episode.query.label.clone(),
            predicted: answer(model, episode)?,
            episode: Some(ShownEpisode {
                class: episode.class.clone(),
                supports: episode.supports.iter().map(|it| (it.image.clone(), it.label.clone())).collect(),
            }),
        })
    });
    let shown = shown.collect::<Result<_, TrainError>>()?;
    let scores = all.first().map(|first| {
        let scores = counts.scores();
        Scores::Episodes(EpisodeValidation {
            epoch: place.epoch,
            step: place.step,
            on: place.on.to_string(),
            episodes: all.len(),
            shots: first.supports.len(),
            class_miou: scores.class_miou,
            fb_iou: scores.fb_iou,
            iou: classes.iter().map(|class| class.to_string()).zip(scores.iou).collect(),
            best: false,
        })
    });
    Ok((scores, shown))
}

/// Where the query has the class, by the model.
fn answer(model: &Model, episode: &ValidationEpisode) -> Result<RowMap, TrainError> {
    let support = |of: &ValidationPicture| {
        let own = |&label: &u16| if label == 1 { SUPPORT_ROW } else { label };
        let labels = RowMap::new(of.label.width, of.label.height, of.label.data.iter().map(own).collect());
        Support::new(of.name.clone(), of.image.clone(), labels).map_err(DataError::from)
    };
    let supports = episode.supports.iter().map(support).collect::<Result<Vec<_>, _>>()?;
    Ok(model.find(&episode.class, &episode.query.image, &supports)?.labels().clone())
}
