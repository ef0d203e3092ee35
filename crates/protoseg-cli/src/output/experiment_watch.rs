//! Follows an experiment: lines about models, a bar for the work in hand, and Ctrl-C.

use std::sync::Mutex;

use anyhow::Result;
use protoseg::{
    experiment::{Event, Watch, duration},
    train,
};

use super::{note, progress::Bar, stop::Stop};

/// Shows an experiment on stderr.
pub struct ExperimentWatch {
    stop: Stop,
    /// What is being counted, and its bar.
    bar: Mutex<Option<(&'static str, Bar)>>,
}

impl ExperimentWatch {
    pub fn new() -> Result<Self> {
        Ok(Self { stop: Stop::on_ctrl_c(|text| note(text))?, bar: Mutex::new(None) })
    }

    /// Shows `done` of `total` on a bar of its own for each kind of work.
    fn show(&self, what: &'static str, done: usize, total: usize) {
        let Ok(mut bar) = self.bar.lock() else { return };
        if bar.as_ref().is_none_or(|(of, _)| *of != what) {
            *bar = None;
            *bar = Some((what, Bar::new(what)));
        }
        if let Some((_, bar)) = bar.as_ref() {
            bar.show(done, total);
        }
    }

    /// A line, after whatever bar there was.
    fn line(&self, text: String) {
        if let Ok(mut bar) = self.bar.lock() {
            *bar = None;
        }
        note(text);
    }
}

impl Watch for ExperimentWatch {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Started { job, left, .. } => {
                self.line(format!("{}; now {}", left.describe(), job.describe()))
            }
            Event::Elsewhere(job) => self.line(format!("{}: another process works on it", job.describe())),
            Event::Features(done, total) => self.show("features", *done, *total),
            Event::Steps(done, total) => self.show("steps of the head", *done, *total),
            Event::Tested(done, total) => self.show("tested", *done, *total),
            Event::Training(train::Event::Start(start)) => {
                self.show("steps", start.from_step, start.steps);
            }
            Event::Training(train::Event::Step(step)) => {
                if let Ok(bar) = self.bar.lock()
                    && let Some((_, bar)) = bar.as_ref()
                {
                    bar.advance(step.step);
                }
            }
            Event::Training(train::Event::Warning { text }) => self.line(format!("warning: {text}")),
            Event::Diverged { job, error } => self.line(format!("{}: {error}", job.describe())),
            Event::Finished { job, making, testing } => self.line(format!(
                "{}: made in {}, evaluated in {}",
                job.describe(),
                duration(*making),
                duration(*testing)
            )),
            _ => {}
        }
    }

    fn stop(&self) -> bool {
        self.stop.asked()
    }
}
