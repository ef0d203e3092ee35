//! The events of a run in words, shared by the log and the dashboard.

use std::time::{Duration, Instant};

use protoseg::core::count;
use protoseg::train::{End, EpisodeValidation, EpochEvent, Event, Start, StepEvent, Validation};

use super::{quoted, units};

/// The length and speed of a run.
pub struct Pace {
    pub start: Start,
    since: Instant,
}

impl Pace {
    pub fn new(start: &Start) -> Self {
        Self { start: start.clone(), since: Instant::now() }
    }

    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// The time until the end of the run, including validation.
    pub fn left(&self, step: usize) -> Option<Duration> {
        let done = step.checked_sub(self.start.from_step).filter(|&done| done > 0)?;
        let left = self.start.steps.saturating_sub(step);
        Some(self.elapsed().mul_f64(left as f64 / done as f64))
    }
}

/// The lines printed at the start of a run.
pub fn start(start: &Start) -> Vec<String> {
    let Start { data, fold, method, network, device, seed, images, epochs, steps, from_step, shots, .. } =
        start;
    let mut lines = vec![
        format!(
            "training on {data}, fold {fold}: {}, {}, {}",
            count(*images, "image"),
            count(*epochs, "epoch"),
            count(*steps, "step")
        ),
        format!(
            "  method   {method}{}",
            shots.map_or_else(String::new, |shots| format!(", {}", count(shots, "shot")))
        ),
        format!("  network  {network}"),
        format!("  device   {device}"),
        format!("  seed     {seed}"),
    ];
    if *from_step > 0 {
        lines.push(format!("  resumed after step {from_step}"));
    }
    lines
}

/// `loss 0.8123 (main 0.7102, aux 0.2553)`.
pub fn losses(loss: f64, main: f64, aux: Option<f64>) -> String {
    let aux = aux.map_or_else(String::new, |aux| format!(", aux {aux:.4}"));
    format!("loss {loss:.4} (main {main:.4}{aux})")
}

pub fn step(step: &StepEvent, pace: Option<&Pace>) -> String {
    let StepEvent { epoch, step: at, rate, images_per_second, .. } = step;
    let losses = losses(step.loss.into(), step.main_loss.into(), step.aux_loss.map(f64::from));
    let of = |total: Option<usize>| total.map_or_else(String::new, |total| format!("/{total}"));
    let epochs = of(pace.map(|pace| pace.start.epochs));
    let steps = of(pace.map(|pace| pace.start.steps));
    let left = pace.and_then(|pace| pace.left(*at));
    let left = left.map_or_else(String::new, |left| format!(", {} left", units::duration(left)));
    format!(
        "epoch {epoch}{epochs}, step {at}{steps}: {losses}, rate {rate:.2e}, {images_per_second:.1} images/s{left}"
    )
}

pub fn epoch(epoch: &EpochEvent, pace: Option<&Pace>) -> String {
    let EpochEvent { epoch: number, loss, main_loss, aux_loss, seconds, images_per_second, .. } = epoch;
    let epochs = pace.map_or_else(String::new, |pace| format!("/{}", pace.start.epochs));
    let (losses, time) = (losses(*loss, *main_loss, *aux_loss), units::seconds(*seconds));
    format!("epoch {number}{epochs} done in {time}: {losses}, {images_per_second:.1} images/s")
}

pub fn validation(validation: &Validation) -> String {
    let Validation { on, images, base_miou, pixel_accuracy, best, .. } = validation;
    let best = if *best { ", best so far" } else { "" };
    let images = count(*images, "image");
    format!("validation on {on}, {images}: base mIoU {base_miou:.2} %, pixels {pixel_accuracy:.2} %{best}")
}

pub fn episode_validation(validation: &EpisodeValidation) -> String {
    let EpisodeValidation { on, episodes, shots, class_miou, fb_iou, best, .. } = validation;
    let best = if *best { ", best so far" } else { "" };
    let episodes = count(*episodes, "episode");
    format!(
        "validation on {on}, {episodes} of {}: class mIoU {class_miou:.2} %, FB-IoU {fb_iou:.2} %{best}",
        count(*shots, "shot")
    )
}

pub fn end(end: &End) -> String {
    let memory =
        end.peak_memory.map_or_else(String::new, |bytes| format!(", peak memory {}", units::bytes(bytes)));
    let (time, best, last) = (units::seconds(end.seconds), quoted(&end.best), quoted(&end.last));
    format!("done: step {} in {time}{memory}\n  best  {best}\n  last  {last}", end.step)
}

/// The lines of an event that everyone should see; none for a step, because there are many.
pub fn lines(event: &Event, pace: Option<&Pace>) -> Vec<String> {
    match event {
        Event::Start(of) => start(of),
        Event::Step(_) => Vec::new(),
        Event::Epoch(of) => vec![epoch(of, pace)],
        Event::Validation(of) => vec![validation(of)],
        Event::EpisodeValidation(of) => vec![episode_validation(of)],
        Event::Checkpoint { step, path } => vec![format!("saved step {step} -> {}", quoted(path))],
        Event::Warning { text } => vec![format!("warning: {text}")],
        Event::End(of) => vec![end(of)],
    }
}
