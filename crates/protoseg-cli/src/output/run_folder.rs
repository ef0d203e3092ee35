//! What a run leaves behind: `metrics.jsonl`, `tensorboard/`, `curves.svg`, `curves.png` and `samples/`.

mod curves;
mod history;
mod metrics;
mod samples;
mod tensorboard;

use std::{
    io,
    path::{Path, PathBuf},
};

use protoseg::{
    core::Classes,
    train::{Event, Shown},
};
use protoseg_data::{picture::write_image, write_atomic};

use self::{history::History, metrics::MetricsFile, tensorboard::EventFile};
use protoseg::picture::svg::rasterise;

/// Pixels of `curves.png` a unit of `curves.svg`.
const CURVES_SCALE: f32 = 1.5;

/// The folder of a run.
pub struct RunFolder {
    folder: PathBuf,
    /// Whose rows the labels of samples are.
    classes: Classes,
    metrics: MetricsFile,
    tensorboard: EventFile,
    history: History,
}

impl RunFolder {
    /// Opens the folder of a run that begins (`from_step` 0) or goes on after a step. What was stored of later steps is
    /// removed; the curves show the whole run.
    pub fn open(folder: &Path, from_step: usize, classes: &Classes) -> io::Result<Self> {
        std::fs::create_dir_all(folder.join("samples"))?;
        let (metrics, before) = MetricsFile::open(&folder.join("metrics.jsonl"), from_step)?;
        let tensorboard = EventFile::create(&folder.join("tensorboard"), from_step)?;
        let mut history = History::default();
        before.iter().for_each(|event| history.add(event));
        Ok(Self { folder: folder.to_path_buf(), classes: classes.clone(), metrics, tensorboard, history })
    }

    /// Stores an event. Curves are drawn anew whenever an epoch or a look at the validation images is over.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.metrics.append(event)?;
        self.tensorboard.event(event)?;
        self.history.add(event);
        match event {
            Event::Epoch(_) | Event::Validation(_) => self.draw_curves(),
            _ => Ok(()),
        }
    }

    /// Stores the sheet of an epoch as `samples/epoch-NNN.png`.
    pub fn shown(&mut self, epoch: usize, shown: &[Shown]) -> io::Result<()> {
        let sheet = samples::draw(epoch, shown, &self.classes).map_err(io::Error::other)?;
        let path = self.folder.join(format!("samples/epoch-{epoch:03}.png"));
        write_image(&path, &sheet).map_err(io::Error::other)
    }

    fn draw_curves(&self) -> io::Result<()> {
        let svg = curves::draw(&self.history);
        let image = rasterise(&svg, CURVES_SCALE).map_err(io::Error::other)?;
        write_atomic(&self.folder.join("curves.svg"), svg.as_bytes()).map_err(io::Error::other)?;
        write_image(&self.folder.join("curves.png"), &image).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fake_run::{events, shown};

    #[test]
    fn a_resumed_run_leaves_what_an_uninterrupted_one_does() {
        let classes = Classes::new(&["background", "cow", "boat"], &[]).unwrap();
        let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let all = events(3, 4);
        let mut run = RunFolder::open(whole.path(), 0, &classes).unwrap();
        all.iter().for_each(|event| run.event(event).unwrap());

        // Killed in step 7, resumed after step 4.
        let position =
            |step: usize| all.iter().position(|event| matches!(event, Event::Step(s) if s.step == step));
        let mut run = RunFolder::open(parts.path(), 0, &classes).unwrap();
        all[..=position(7).unwrap()].iter().for_each(|event| run.event(event).unwrap());
        let mut run = RunFolder::open(parts.path(), 4, &classes).unwrap();
        all[position(5).unwrap()..].iter().for_each(|event| run.event(event).unwrap());

        for name in ["metrics.jsonl", "curves.svg", "curves.png"] {
            let read = |folder: &tempfile::TempDir| std::fs::read(folder.path().join(name)).unwrap();
            assert!(read(&whole) == read(&parts), "{name} differs");
        }
        assert_eq!(std::fs::read_dir(parts.path().join("tensorboard")).unwrap().count(), 2);
        let curves = protoseg_data::picture::read_image(&whole.path().join("curves.png")).unwrap();
        assert_eq!(curves.width, 1440);
    }

    #[test]
    fn samples_are_stored_by_epoch() {
        let classes = Classes::new(&["background", "cow", "boat"], &[]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut run = RunFolder::open(folder.path(), 0, &classes).unwrap();
        run.shown(7, &[shown("a", 60, 40)]).unwrap();
        let sheet = protoseg_data::picture::read_image(&folder.path().join("samples/epoch-007.png")).unwrap();
        assert_eq!(sheet.width, 976);
    }
}
