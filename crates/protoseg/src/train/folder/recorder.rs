//! Records a run in its folder while it goes on.

use std::{fs, io};

use protoseg_core::Classes;
use protoseg_data::{picture::write_image, write_atomic};

use super::{
    RunFolder, curves, description::Description, episode_samples, history::History, metrics::MetricsFile,
    samples, tensorboard::EventFile,
};
use crate::{
    picture::svg::rasterise,
    train::{Event, Run, Shown, TrainError, Watch},
};

/// Pixels of `curves.png` per unit of `curves.svg`.
const CURVES_SCALE: f32 = 1.5;

/// Writes what happens in a run to its folder: events, TensorBoard's files, curves and samples. Give it to
/// [`Run::train`], or call it from a [`Watch`] that does more.
pub struct Recorder {
    folder: RunFolder,
    /// The rows that labels of samples mean.
    classes: Classes,
    metrics: MetricsFile,
    tensorboard: EventFile,
    history: History,
}

impl Recorder {
    /// Begins to record a run, whether it is new or resumed. What was recorded after the step that it goes on from is
    /// removed; the curves show the whole run. `run.json` names `revision` as the program's.
    pub fn start(run: &Run, revision: &str) -> Result<Self, TrainError> {
        let folder = RunFolder::new(run.folder());
        let path = folder.description();
        let description = serde_json::to_string_pretty(&Description::new(run, revision));
        let description = description.expect("a description is plain data");
        write_atomic(&path, description.as_bytes())?;
        Self::open(folder, run.from_step(), &run.manifest().classes)
    }

    fn open(folder: RunFolder, from_step: usize, classes: &Classes) -> Result<Self, TrainError> {
        let cannot_write = |source| TrainError::Write { path: folder.path().to_path_buf(), source };
        fs::create_dir_all(folder.samples()).map_err(cannot_write)?;
        let (metrics, before) = MetricsFile::open(&folder.metrics(), from_step)?;
        let tensorboard = EventFile::create(&folder.tensorboard(), from_step).map_err(cannot_write)?;
        let mut history = History::default();
        before.iter().for_each(|event| history.add(event));
        Ok(Self { folder, classes: classes.clone(), metrics, tensorboard, history })
    }

    fn draw_curves(&self) -> io::Result<()> {
        let svg = curves::draw(&self.history);
        let image = rasterise(&svg, CURVES_SCALE).map_err(io::Error::other)?;
        write_atomic(&self.folder.curves_svg(), svg.as_bytes()).map_err(io::Error::other)?;
        write_image(self.folder.curves_png(), &image).map_err(io::Error::other)
    }
}

impl Watch for Recorder {
    /// Curves are drawn anew after each epoch and each validation.
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.metrics.append(event)?;
        self.tensorboard.event(event)?;
        self.history.add(event);
        match event {
            Event::Epoch(_) | Event::Validation(_) | Event::EpisodeValidation(_) => self.draw_curves(),
            _ => Ok(()),
        }
    }

    fn shown(&mut self, epoch: usize, shown: &[Shown]) -> io::Result<()> {
        let episodes: Vec<_> = shown.iter().filter_map(|of| Some((of, of.episode.as_ref()?))).collect();
        let sheet = match episodes.is_empty() {
            true => samples::draw(epoch, shown, &self.classes),
            false => episode_samples::draw(epoch, &episodes),
        };
        let sheet = sheet.map_err(io::Error::other)?;
        write_image(self.folder.sample_sheet(epoch), &sheet).map_err(io::Error::other)
    }

    fn stop(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use protoseg_data::picture::read_image;

    use super::{super::fake_run::events, samples::fake::shown, *};

    fn open(folder: &Path, from_step: usize) -> Recorder {
        let classes = Classes::new(&["background", "cow", "boat"], &[]).unwrap();
        Recorder::open(RunFolder::new(folder), from_step, &classes).unwrap()
    }

    #[test]
    fn a_resumed_run_leaves_what_an_uninterrupted_one_does() {
        let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let all = events(3, 4);
        let mut run = open(whole.path(), 0);
        all.iter().for_each(|event| run.event(event).unwrap());

        // Killed in step 7, resumed after step 4.
        let position =
            |step: usize| all.iter().position(|event| matches!(event, Event::Step(s) if s.step == step));
        let mut run = open(parts.path(), 0);
        all[..=position(7).unwrap()].iter().for_each(|event| run.event(event).unwrap());
        let mut run = open(parts.path(), 4);
        all[position(5).unwrap()..].iter().for_each(|event| run.event(event).unwrap());

        for name in ["metrics.jsonl", "curves.svg", "curves.png"] {
            let read = |folder: &tempfile::TempDir| fs::read(folder.path().join(name)).unwrap();
            assert!(read(&whole) == read(&parts), "{name} differs");
        }
        assert_eq!(fs::read_dir(parts.path().join("tensorboard")).unwrap().count(), 2);
        assert_eq!(read_image(whole.path().join("curves.png")).unwrap().width, 1440);
    }

    #[test]
    fn samples_are_stored_by_epoch() {
        let folder = tempfile::tempdir().unwrap();
        open(folder.path(), 0).shown(7, &[shown("a", 60, 40)]).unwrap();
        assert_eq!(read_image(folder.path().join("samples/epoch-007.png")).unwrap().width, 976);
    }
}
