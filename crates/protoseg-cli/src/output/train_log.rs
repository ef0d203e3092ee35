//! Shows a run as lines: log lines for people if there is no terminal, JSON for programs.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use protoseg::train::Event;

use super::{
    train_words::{self, Pace},
    visible, visible_json,
};

/// A step is logged after this many steps or this much time, whichever comes first.
const EVERY_STEPS: usize = 50;
const EVERY: Duration = Duration::from_secs(5);

/// Log lines; meant for stderr.
pub struct TrainLog<W> {
    out: W,
    pace: Option<Pace>,
    last: Option<(usize, Instant)>,
}

impl<W: Write> TrainLog<W> {
    pub fn new(out: W) -> Self {
        Self { out, pace: None, last: None }
    }

    /// Logs the event; steps are logged only now and then.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Start(start) => self.pace = Some(Pace::new(start)),
            Event::Step(step) => {
                let due = self.last.is_none_or(|(before, since)| {
                    step.step >= before + EVERY_STEPS || since.elapsed() >= EVERY
                });
                if due {
                    self.last = Some((step.step, Instant::now()));
                    self.line(&train_words::step(step, self.pace.as_ref()));
                }
            }
            _ => {}
        }
        for line in train_words::lines(event, self.pace.as_ref()) {
            self.line(&line);
        }
    }

    /// A log that nobody can read any more is not a reason to end a run.
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.out, "{}", visible(line));
    }
}

/// Events as tagged JSON lines, meant for stdout. If stdout is closed, the run ends.
pub struct TrainJson<W>(pub W);

impl<W: Write> TrainJson<W> {
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        writeln!(self.0, "{}", visible_json(&serde_json::to_string(event)?))?;
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fake_run::events;

    fn log(events: &[Event]) -> Vec<String> {
        let mut log = TrainLog::new(Vec::new());
        events.iter().for_each(|event| log.event(event));
        String::from_utf8(log.out).unwrap().lines().map(str::to_string).collect()
    }

    #[test]
    fn a_run_is_logged_in_few_lines() {
        let lines = log(&events(2, 120));
        assert_eq!(lines[0], "training on scenes, fold 0: 960 images, 2 epochs, 240 steps");
        let count = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
        assert_eq!(count("epoch 1/2, step "), 3, "steps 1, 51 and 101");
        assert_eq!(count("epoch 2/2, step "), 2);
        assert_eq!(count("epoch 2/2 done in 1 min 15 s: loss "), 1);
        assert_eq!(count("validation on holdout, 120 images: base mIoU "), 2);
        assert_eq!(count("saved step 240 -> runs/scenes/last.safetensors"), 1);
        assert_eq!(count("done: step 240 in 2 min 30 s, peak memory 3.0 GiB"), 1);
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with("epoch 1/2, step 51/240: loss ") && line.ends_with(" left"))
        );
    }

    #[test]
    fn json_lines_read_back_as_the_events() {
        let events = events(1, 2);
        let mut json = TrainJson(Vec::new());
        events.iter().for_each(|event| json.event(event).unwrap());
        let text = String::from_utf8(json.0).unwrap();
        let back: Vec<Event> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(back, events);
        assert!(text.starts_with(r#"{"event":"start","schema":"protoseg.train/1""#));
    }
}
