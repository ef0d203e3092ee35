//! Follows a training run: records it in its folder, shows it, and handles Ctrl-C.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use protoseg::train::{Event, Recorder, Shown, Watch};

use super::{
    stop::Stop,
    train_dashboard::TrainDashboard,
    train_log::{TrainJson, TrainLog},
};

/// Shows and records a run.
pub struct TrainWatch {
    recorder: Recorder,
    display: Display,
    stop: Stop,
    /// The command to run next, if the caller does not print it.
    next: Option<String>,
}

impl TrainWatch {
    /// `next` is the command to run next; it is the last line on stdout when the run is done.
    pub fn new(recorder: Recorder, display: Display, next: Option<String>) -> Result<Self> {
        let stop = match &display {
            Display::Dashboard(dashboard) => Stop::on_ctrl_c(dashboard.note())?,
            _ => Stop::on_ctrl_c(|text| super::note(text))?,
        };
        Ok(Self { recorder, display, stop, next })
    }

    /// Whether the user asked to stop.
    pub fn stop_asked(&self) -> Stop {
        self.stop.clone()
    }
}

impl Watch for TrainWatch {
    /// Events are recorded before they are shown: what a user sees is on disk.
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.recorder.event(event)?;
        match &mut self.display {
            Display::Dashboard(dashboard) => dashboard.event(event),
            Display::Log(log) => log.event(event),
            Display::Json(json) => return json.event(event),
        }
        if let (Event::End(_), Some(next)) = (event, &self.next) {
            writeln!(io::stdout(), "{}", super::visible(next))?;
        }
        Ok(())
    }

    fn shown(&mut self, epoch: usize, samples: &[Shown]) -> io::Result<()> {
        self.recorder.shown(epoch, samples)
    }

    fn stop(&self) -> bool {
        self.stop.asked()
    }
}

/// How a run is shown.
pub enum Display {
    Dashboard(Box<TrainDashboard>),
    Log(Box<TrainLog<io::Stderr>>),
    Json(TrainJson<io::Stdout>),
}

impl Display {
    /// A dashboard if stderr is a terminal, unless plain lines or JSON are requested.
    pub fn choose(plain: bool, json: bool) -> Self {
        if json {
            Self::Json(TrainJson(io::stdout()))
        } else if plain || !io::stderr().is_terminal() {
            Self::Log(Box::new(TrainLog::new(io::stderr())))
        } else {
            Self::Dashboard(Box::new(TrainDashboard::new()))
        }
    }
}
