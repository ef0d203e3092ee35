//! The curves of a run: loss, base mIoU and learning rate over the steps.

use super::history::History;
use crate::{
    picture::{
        chart::{Chart, Frame, ticks},
        svg::escape,
    },
    train::Start,
};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 28.0;
/// Title, and the epochs above the first plot.
const HEAD: f64 = 108.0;
const GAP: f64 = 22.0;
/// The most points of a line: more would fall on the same pixels.
const COLUMNS: usize = 820;

const BLUE: &str = "#1668b0";
const GREEN: &str = "#2a8c55";
const AMBER: &str = "#c47a08";

/// The sheet as SVG.
pub fn draw(history: &History) -> String {
    let steps = (0.0, history.last_step().max(1) as f64);
    let mut top = HEAD;
    let mut frame = |height: f64| {
        let frame = Frame { left: LEFT, top, width: WIDTH - LEFT - RIGHT, height };
        top += height + GAP;
        frame
    };
    let mut plots = vec![loss(history, frame(300.0), steps)];
    if !history.validations.is_empty() {
        plots.push(miou(history, frame(180.0), steps));
    }
    plots.push(rate(history, frame(100.0), steps));
    let height = top - GAP + 56.0;
    let head = head(history, steps);
    let plots = plots.concat();
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">
<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>
<g font-family="Helvetica Neue, Arial, DejaVu Sans, sans-serif" font-size="12" fill="#5b636d">
{head}{plots}</g>
</svg>
"##
    )
}

fn loss(history: &History, frame: Frame, steps: (f64, f64)) -> String {
    let range = history.loss_range(COLUMNS);
    // A few spikes, mostly at the very beginning, must not flatten the rest.
    let mut sorted: Vec<f64> = history.steps.iter().map(|step| f64::from(step.1)).collect();
    sorted.sort_by(f64::total_cmp);
    let high = sorted.get(sorted.len() * 995 / 1000).map_or(1.0, |high| 1.08 * high).max(1e-6);
    let mut plot = Chart::new("loss", frame, steps, (0.0, high)).grid();
    plot = plot.line(&range, r##"stroke="#a9cdec" stroke-width="1""##);
    plot = plot.line(&history.smooth_loss(COLUMNS), &format!(r#"stroke="{BLUE}" stroke-width="2.2""#));
    let mean = format!(r##"fill="#ffffff" stroke="{BLUE}" stroke-width="1.6""##);
    plot = plot.dots(&history.epoch_losses(), 3.4, &mean);
    let (x, y) = (frame.left + frame.width - 318.0, frame.top + 20.0);
    let key = format!(
        r##"<g transform="translate({x} {y})"><rect x="-8" y="-11" width="322" height="22" fill="#fafbfc"/><path d="M0 0h22" stroke="#a9cdec" stroke-width="2"/><text x="28" y="4">a step</text>
<path d="M88 0h22" stroke="{BLUE}" stroke-width="2.2"/><text x="116" y="4">smoothed</text>
<circle cx="206" cy="0" r="3.4" {mean}/><text x="216" y="4">mean of epoch</text></g>
"##
    );
    plot.finish("loss", None) + &key
}

fn miou(history: &History, frame: Frame, steps: (f64, f64)) -> String {
    let points: Vec<(f64, f64)> =
        history.validations.iter().map(|&(step, _, miou)| (step as f64, miou)).collect();
    let (low, high) =
        points.iter().fold((f64::MAX, f64::MIN), |(low, high), point| (low.min(point.1), high.max(point.1)));
    // Above, there is room for the word beside the best.
    let margin = (0.1 * (high - low)).max(1.0);
    let y = ((low - margin).max(0.0), high + 2.5 * margin);
    let mut plot = Chart::new("miou", frame, steps, y).grid();
    plot = plot.line(&points, &format!(r#"stroke="{GREEN}" stroke-width="2""#));
    plot = plot.dots(&points, if points.len() > 60 { 1.5 } else { 3.0 }, &format!(r#"fill="{GREEN}""#));
    if let Some((step, epoch, miou)) = history.best() {
        let best = (step as f64, miou);
        plot = plot.dots(&[best], 6.5, &format!(r#"fill="none" stroke="{AMBER}" stroke-width="2.2""#));
        let style = format!(r#"font-weight="bold" fill="{AMBER}""#);
        plot = plot.note(best, &format!("best {miou:.1} in epoch {epoch}"), &style);
    }
    plot.finish(&format!("{} (%)", history.score), None)
}

fn rate(history: &History, frame: Frame, steps: (f64, f64)) -> String {
    let rates = history.rates(COLUMNS);
    let high = rates.iter().map(|point| point.1).fold(0.0, f64::max);
    let plot = Chart::new("rate", frame, steps, (0.0, if high > 0.0 { 1.1 * high } else { 1.0 })).grid();
    plot.line(&rates, r##"stroke="#6b5fb0" stroke-width="2""##).finish("rate", Some("step"))
}

/// What the run is, and its epochs above the first plot.
fn head(history: &History, steps: (f64, f64)) -> String {
    let Some(start) = &history.start else {
        return String::new();
    };
    let Start { data, fold, method, network, device, seed, steps: all, steps_per_epoch, .. } = start;
    let title = escape(&format!("{data}, fold {fold}, {method}"));
    let about = escape(&format!("{network}, {device}, seed {seed}"));
    let (right, done) = (WIDTH - RIGHT, history.last_step());
    let mut head = format!(
        r##"<text x="{LEFT}" y="34" font-size="20" font-weight="bold" fill="#1c2127">{title}</text>
<text x="{LEFT}" y="56" font-size="13">{about}</text>
<text x="{right}" y="34" text-anchor="end" font-size="13">step {done} of {all}</text>
"##
    );
    let (per_epoch, bottom) = ((*steps_per_epoch).max(1) as f64, HEAD - 5.0);
    let whole = |epoch: &f64| epoch.fract() == 0.0 && *epoch > 0.0;
    for epoch in ticks((0.0, steps.1 / per_epoch), 10.0).into_iter().filter(whole) {
        let x = LEFT + epoch * per_epoch / steps.1 * (WIDTH - LEFT - RIGHT);
        let y = bottom - 6.0;
        head += &format!(
            r##"<path d="M{x:.1} {bottom}v5" stroke="#8a929c"/><text x="{x:.1}" y="{y}" text-anchor="middle">{epoch}</text>
"##
        );
    }
    let (x, y) = (LEFT, bottom - 6.0);
    head + &format!("<text x=\"{x}\" y=\"{y}\">epoch</text>\n")
}

#[cfg(test)]
mod tests {
    use super::{super::fake_run::events, *};
    use crate::picture::svg::rasterise;

    fn drawn(epochs: usize, steps: usize, upto: usize) -> String {
        let mut history = History::default();
        events(epochs, steps).iter().take(upto).for_each(|event| history.add(event));
        draw(&history)
    }

    #[test]
    fn the_sheet_is_well_formed_at_every_stage_of_a_run() {
        for upto in [0, 1, 2, 3, 7, 8, 9, usize::MAX] {
            let svg = drawn(3, 5, upto);
            let image = rasterise(&svg, 1.0).unwrap_or_else(|error| panic!("after {upto} events: {error}"));
            assert_eq!(image.width, 960);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn the_sheet_of_a_long_run_stays_small() {
        let svg = drawn(50, 400, usize::MAX);
        assert!(svg.len() < 120_000, "{} bytes", svg.len());
        assert!(svg.contains("scenes, fold 0, capl") && svg.contains(">best "));
    }
}
