//! Shows a run on a terminal. Finished steps scroll away above; below are bars, numbers and the loss curve.

use std::{collections::VecDeque, time::Duration};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use protoseg::train::{Event, Start, StepEvent, Validated};

use super::{
    braille,
    train_words::{self, Pace},
    units, visible,
};

/// Number of losses that the curve is drawn from: twice its width in dots.
const KEPT: usize = 4 * CURVE_WIDTH;
const CURVE_WIDTH: usize = 56;
const CURVE_HEIGHT: usize = 5;

/// The display on stderr. It disappears when dropped.
pub struct TrainDashboard {
    screen: MultiProgress,
    epoch: ProgressBar,
    run: ProgressBar,
    numbers: ProgressBar,
    pace: Option<Pace>,
    losses: Losses,
    best: Option<(usize, f64)>,
    last: Option<(&'static str, f64)>,
}

impl TrainDashboard {
    pub fn new() -> Self {
        let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(8));
        let bar = |template: &str| {
            let style = ProgressStyle::with_template(template).expect("the template is well formed");
            screen.add(ProgressBar::new(0).with_style(style.progress_chars("━╸─")))
        };
        // The terminal's echo of Ctrl-C pushes the first line out of reach, so that line is empty.
        let epoch = bar("\n{prefix:14} {bar:32.cyan/dim} {pos}/{len}  {msg}");
        let run = bar("{prefix:14} {bar:32.green/dim} {percent}%  {elapsed} elapsed{msg}");
        let numbers = bar("{msg}");
        Self { screen, epoch, run, numbers, pace: None, losses: Losses::default(), best: None, last: None }
    }

    /// Shows a line above the bars, from any thread.
    pub fn note(&self) -> impl Fn(&str) + Send + 'static {
        let screen = self.screen.clone();
        move |text| drop(screen.println(text))
    }

    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Start(start) => self.begin(start),
            Event::Step(step) => self.step(step),
            Event::End(_) => self.clear(),
            _ => {}
        }
        if let Some(validated) = event.validated() {
            self.validation(validated);
        }
        // Someone who watches a run does not need to hear about every checkpoint.
        if !matches!(event, Event::Checkpoint { .. }) {
            for line in train_words::lines(event, self.pace.as_ref()) {
                let _ = self.screen.println(visible(line));
            }
        }
    }

    fn begin(&mut self, start: &Start) {
        self.run.set_length(start.steps as u64);
        self.run.set_position(start.from_step as u64);
        self.run.set_prefix("run");
        self.run.reset_elapsed();
        // A step may take long: the running clock shows that the program is still working.
        self.run.enable_steady_tick(Duration::from_millis(500));
        self.epoch.set_length(start.steps_per_epoch as u64);
        self.epoch.set_prefix(format!("epoch 1/{}", start.epochs));
        self.pace = Some(Pace::new(start));
    }

    fn step(&mut self, step: &StepEvent) {
        let Some(pace) = &self.pace else {
            return;
        };
        let before = step.epoch.saturating_sub(1) * pace.start.steps_per_epoch;
        self.epoch.set_prefix(format!("epoch {}/{}", step.epoch, pace.start.epochs));
        self.epoch.set_position(step.step.saturating_sub(before) as u64);
        self.epoch.set_message(format!("{:.1} images/s", step.images_per_second));
        let left = pace.left(step.step).map(|left| format!(", {} left", units::duration(left)));
        self.run.set_message(left.unwrap_or_default());
        self.run.set_position(step.step as u64);
        self.losses.add(step.loss);
        self.numbers.set_message(self.describe(step));
    }

    fn validation(&mut self, Validated { what, epoch, miou, best, .. }: Validated) {
        self.last = Some((what, miou));
        if best {
            self.best = Some((epoch, miou));
        }
    }

    fn describe(&self, step: &StepEvent) -> String {
        let losses =
            train_words::losses(step.loss.into(), step.main_loss.into(), step.aux_loss.map(f64::from));
        let mut text = format!("{losses}, rate {:.2e}", step.rate);
        if let Some((what, last)) = self.last {
            text += &format!("\n{what} {last:.2} %");
        }
        // After resuming, the best value may be from before the interruption.
        if let Some((epoch, best)) = self.best {
            text += &format!(", best {best:.2} % in epoch {epoch}");
        }
        for line in self.losses.curve() {
            text += &format!("\n{line}");
        }
        text
    }

    fn clear(&self) {
        for bar in [&self.epoch, &self.run, &self.numbers] {
            bar.finish_and_clear();
        }
    }
}

impl Drop for TrainDashboard {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The losses of the whole run in a few numbers: means over stretches that grow with the run.
#[derive(Default)]
struct Losses {
    means: VecDeque<f32>,
    stretch: usize,
    sum: f32,
    count: usize,
}

impl Losses {
    fn add(&mut self, loss: f32) {
        if !loss.is_finite() {
            return;
        }
        self.stretch = self.stretch.max(1);
        (self.sum, self.count) = (self.sum + loss, self.count + 1);
        if self.count == self.stretch {
            self.means.push_back(self.sum / self.count as f32);
            (self.sum, self.count) = (0.0, 0);
        }
        if self.means.len() == KEPT {
            let pairs: Vec<f32> = self.means.iter().copied().collect();
            self.means = pairs.chunks(2).map(|pair| pair.iter().sum::<f32>() / pair.len() as f32).collect();
            self.stretch *= 2;
        }
    }

    /// The curve, with its highest and lowest value on the left.
    fn curve(&self) -> Vec<String> {
        let values: Vec<f32> = self.means.iter().copied().collect();
        if values.len() < 2 {
            return Vec::new();
        }
        let (low, high) =
            values.iter().fold((f32::MAX, f32::MIN), |(low, high), &value| (low.min(value), high.max(value)));
        let rows = braille::curve(&values, CURVE_WIDTH, CURVE_HEIGHT);
        let label = |row: usize| match row {
            0 => format!("{high:>8.3}"),
            _ if row + 1 == CURVE_HEIGHT => format!("{low:>8.3}"),
            _ => " ".repeat(8),
        };
        rows.into_iter().enumerate().map(|(row, line)| format!("{} ┤{line}", label(row))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_is_kept_in_few_numbers() {
        let mut losses = Losses::default();
        for step in 0..100_000 {
            losses.add(1.0 - step as f32 / 100_000.0);
        }
        assert!(losses.means.len() < KEPT && losses.means.len() >= KEPT / 2);
        assert!((losses.means[0] - 1.0).abs() < 0.01);
        let curve = losses.curve();
        assert_eq!(curve.len(), CURVE_HEIGHT);
        assert!(curve[0].starts_with("   0.99"), "{}", curve[0]);
    }
}
