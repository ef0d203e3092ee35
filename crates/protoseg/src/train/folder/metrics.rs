//! `metrics.jsonl`: every event of a run, one JSON object per line.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
};

use protoseg_data::write_atomic;
use serde::Deserialize;

use crate::train::{Event, TrainError};

/// The file, open at its end.
pub struct MetricsFile(File);

impl MetricsFile {
    /// Opens the file of a run that goes on after step `from_step`, and says what happened up to there. What was
    /// written after that step is lost work and is removed, so that the file reads as if the run had never been
    /// interrupted.
    pub fn open(path: &Path, from_step: usize) -> Result<(Self, Vec<Event>), TrainError> {
        let failed = |source| TrainError::Write { path: path.to_path_buf(), source };
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(failed)?,
        };
        let (kept, events) =
            keep(&bytes, from_step).map_err(|line| TrainError::Metrics { path: path.to_path_buf(), line })?;
        if kept < bytes.len() {
            write_atomic(path, &bytes[..kept])?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
        Ok((Self(file), events))
    }

    /// One write per line: a reader, or a crash, sees whole lines but for the last.
    pub fn append(&mut self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        self.0.write_all(&line)
    }
}

/// Where a line stands in a run, readable even where a diverged loss was written as `null`.
#[derive(Deserialize)]
struct Place {
    event: String,
    #[serde(default)]
    step: usize,
    #[serde(default)]
    from_step: usize,
}

/// How many bytes are of the run up to this step, and the events in them; or the number of the line that is none.
/// Lines stand in the order of their steps, so all that is kept comes before all that is not.
fn keep(bytes: &[u8], from_step: usize) -> Result<(usize, Vec<Event>), usize> {
    let (mut kept, mut events) = (0, Vec::new());
    if from_step == 0 {
        return Ok((kept, events));
    }
    for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        // The last line of a run that was killed while it wrote.
        if !line.ends_with(b"\n") {
            break;
        }
        let place: Place = serde_json::from_slice(line).map_err(|_| index + 1)?;
        // A run that goes on has no end yet.
        if place.event == "end" || place.step.max(place.from_step) > from_step {
            break;
        }
        events.extend(serde_json::from_slice::<Event>(line).ok());
        kept += line.len();
    }
    Ok((kept, events))
}

#[cfg(test)]
mod tests {
    use super::{super::fake_run::events, *};

    /// One of the first three steps of a run.
    fn step(number: usize) -> Event {
        events(1, 3).remove(number)
    }

    fn write(path: &Path, events: &[Event]) {
        let mut file = MetricsFile::open(path, 0).unwrap().0;
        events.iter().for_each(|event| file.append(event).unwrap());
    }

    #[test]
    fn a_resumed_file_reads_like_an_uninterrupted_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let all = events(4, 5);
        write(&path, &all);
        let whole = std::fs::read_to_string(&path).unwrap();

        // Steps 11 and 12 were done but never saved.
        let reached = all.iter().position(|event| matches!(event, Event::Step(s) if s.step == 12)).unwrap();
        write(&path, &all[..=reached]);
        let saved = all.iter().position(|event| matches!(event, Event::Step(s) if s.step == 11)).unwrap();
        let (mut file, before) = MetricsFile::open(&path, 10).unwrap();
        assert_eq!(before, all[..saved]);
        all[saved..].iter().for_each(|event| file.append(event).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
    }

    #[test]
    fn a_torn_last_line_is_dropped_and_a_torn_one_within_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        write(&path, &[step(1), step(2)]);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.truncate(bytes.len() - 7);
        std::fs::write(&path, &bytes).unwrap();
        let (mut file, before) = MetricsFile::open(&path, 2).unwrap();
        assert_eq!(before, [step(1)]);
        file.append(&step(2)).unwrap();
        assert_eq!(MetricsFile::open(&path, 2).unwrap().1, [step(1), step(2)]);

        bytes.extend(b"\n{}\n");
        std::fs::write(&path, &bytes).unwrap();
        let error = MetricsFile::open(&path, 2).err().unwrap().to_string();
        assert!(error.starts_with("line 2 of"), "{error}");
    }

    #[test]
    fn a_loss_that_is_no_number_does_not_stop_a_resumption() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let Event::Step(mut diverged) = step(2) else { unreachable!() };
        diverged.loss = f32::NAN;
        write(&path, &[step(1), Event::Step(diverged), step(3)]);
        assert_eq!(MetricsFile::open(&path, 3).unwrap().1, [step(1), step(3)]);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
    }

    #[test]
    fn a_finished_run_that_goes_on_has_no_end_yet() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let all = events(1, 2);
        write(&path, &all);
        assert_eq!(MetricsFile::open(&path, 2).unwrap().1, all[..all.len() - 1]);
    }
}
