//! The part of a run that its curves show.

use crate::train::{Event, Start};

/// The numbers of a run so far, in the order of their steps. Losses that are no number are left out.
#[derive(Default)]
pub struct History {
    pub start: Option<Start>,
    /// Step, loss and rate.
    pub steps: Vec<(usize, f32, f64)>,
    /// The epoch's last step and its mean loss.
    pub epochs: Vec<(usize, f64)>,
    /// What `validations` are: `base mIoU` or `class mIoU`.
    pub score: &'static str,
    /// Step, epoch and mIoU.
    pub validations: Vec<(usize, usize, f64)>,
}

impl History {
    pub fn add(&mut self, event: &Event) {
        match event {
            Event::Start(start) => self.start = Some(start.clone()),
            Event::Step(step) if step.loss.is_finite() => {
                self.steps.push((step.step, step.loss, step.rate));
            }
            Event::Epoch(epoch) if epoch.loss.is_finite() => self.epochs.push((epoch.step, epoch.loss)),
            _ => {}
        }
        if let Some(of) = event.validated().filter(|of| of.miou.is_finite()) {
            self.score = of.what;
            self.validations.push((of.step, of.epoch, of.miou));
        }
    }

    pub fn last_step(&self) -> usize {
        self.steps.last().map_or(0, |&(step, ..)| step)
    }

    /// The best validation; of equals the first.
    pub fn best(&self) -> Option<(usize, usize, f64)> {
        self.validations.iter().copied().reduce(|best, other| if other.2 > best.2 { other } else { best })
    }

    /// The losses with at most `columns` pairs of points: the lowest and the highest of each stretch, so that a long
    /// run shows how much it shakes and the drawing stays small.
    pub fn loss_range(&self, columns: usize) -> Vec<(f64, f64)> {
        let point = |&(step, loss, _): &(usize, f32, f64)| (step as f64, f64::from(loss));
        let stretch = self.steps.len().div_ceil(columns.max(1));
        if stretch <= 2 {
            return self.steps.iter().map(point).collect();
        }
        let ends = |steps: &[(usize, f32, f64)]| {
            let low = steps.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(point);
            let high = steps.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(point);
            let mut ends: Vec<(f64, f64)> = [low, high].into_iter().flatten().collect();
            ends.sort_by(|a, b| a.0.total_cmp(&b.0));
            ends
        };
        self.steps.chunks(stretch).flat_map(ends).collect()
    }

    /// The losses as a moving mean over about a fortieth of the run, at most `columns` points. Each mean is over
    /// steps before and after, so that the curve does not trail what it smooths.
    pub fn smooth_loss(&self, columns: usize) -> Vec<(f64, f64)> {
        let mut sums = vec![0.0];
        sums.extend(self.steps.iter().scan(0.0, |sum, step| {
            *sum += f64::from(step.1);
            Some(*sum)
        }));
        let (reach, last) = (self.steps.len() / 80, self.steps.len().saturating_sub(1));
        let mean = |(at, step): (usize, &(usize, f32, f64))| {
            let (from, to) = (at.saturating_sub(reach), (at + reach).min(last) + 1);
            (step.0 as f64, (sums[to] - sums[from]) / (to - from) as f64)
        };
        thinned(self.steps.iter().enumerate().map(mean).collect(), columns)
    }

    pub fn rates(&self, columns: usize) -> Vec<(f64, f64)> {
        thinned(self.steps.iter().map(|&(step, _, rate)| (step as f64, rate)).collect(), columns)
    }

    /// The mean loss of each epoch, at its middle: there a mean lies on its curve.
    pub fn epoch_losses(&self) -> Vec<(f64, f64)> {
        let mut before = 0;
        let middle = |&(step, loss): &(usize, f64)| {
            let middle = (before + 1 + step) as f64 / 2.0;
            before = step;
            (middle, loss)
        };
        self.epochs.iter().map(middle).collect()
    }
}

/// Every so many-th of the points, and the last.
fn thinned(points: Vec<(f64, f64)>, columns: usize) -> Vec<(f64, f64)> {
    let stretch = points.len().div_ceil(columns.max(1)).max(1);
    let last = points.len().saturating_sub(1);
    points
        .into_iter()
        .enumerate()
        .filter(|(at, _)| at % stretch == 0 || *at == last)
        .map(|(_, point)| point)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{super::fake_run::events, *};

    fn history(epochs: usize, steps: usize) -> History {
        let mut history = History::default();
        events(epochs, steps).iter().for_each(|event| history.add(event));
        history
    }

    #[test]
    fn a_long_run_is_drawn_with_few_points_that_keep_its_extremes() {
        let history = history(20, 1000);
        let range = history.loss_range(600);
        assert!(range.len() <= 1200);
        let highest = history.steps.iter().map(|step| f64::from(step.1)).fold(0.0, f64::max);
        assert!(range.iter().any(|point| point.1 == highest));
        assert!(range.is_sorted_by(|a, b| a.0 <= b.0));
        assert_eq!(history.smooth_loss(600).last().unwrap().0, 20_000.0);
    }

    #[test]
    fn a_smoothed_curve_is_smoother_and_keeps_its_place() {
        let history = history(1, 400);
        let smooth = history.smooth_loss(600);
        assert_eq!((smooth[0].0, smooth[399].0), (1.0, 400.0));
        let way = |losses: &[f64]| losses.windows(2).map(|pair| (pair[1] - pair[0]).abs()).sum::<f64>();
        let losses: Vec<f64> = history.steps.iter().map(|step| f64::from(step.1)).collect();
        assert!(way(&smooth.iter().map(|point| point.1).collect::<Vec<_>>()) < 0.4 * way(&losses));
    }

    #[test]
    fn the_mean_of_an_epoch_stands_at_its_middle() {
        let middles: Vec<f64> = history(2, 5).epoch_losses().iter().map(|point| point.0).collect();
        assert_eq!(middles, [3.0, 8.0]);
    }
}
