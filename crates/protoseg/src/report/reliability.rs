//! The reliability diagram: how often pixels of each confidence are right.

use maud::{Markup, PreEscaped, html};
use protoseg_core::ReliabilityGroup;

use crate::{
    evaluate::{ConfidenceRow, Results},
    picture::chart::{Chart, Frame},
};

const FRAME: Frame = Frame { left: 70.0, top: 16.0, width: 330.0, height: 330.0 };
const BLUE: &str = "#0072b2";
const ORANGE: &str = "#e69f00";

/// The diagram of the model's own use, if its confidences were looked at.
pub fn diagram(results: &Results) -> Option<Markup> {
    let row = results.confidence_row()?;
    let confidence = row.confidence.as_ref()?;
    let words = results.about_confidence()?;
    Some(html! {
        figure {
            (PreEscaped(svg(confidence)))
            figcaption {
                (words) ". Dots on the line mean that a confidence of 80 % is right 80 % of the time; below it, confidences \
                promise too much. "
                @if confidence.ece != confidence.ece_plain { "Orange: without the temperature." }
            }
        }
    })
}

fn svg(confidence: &ConfidenceRow) -> String {
    let percent = |groups: &[ReliabilityGroup]| -> Vec<(f64, f64)> {
        // A handful of pixels says nothing.
        let shown = groups.iter().filter(|group| group.share >= 1e-3);
        shown.map(|group| (100.0 * group.confidence, 100.0 * group.accuracy)).collect()
    };
    let mut chart = Chart::new("reliability", FRAME, (0.0, 100.0), (0.0, 100.0)).grid();
    chart = chart.line(&[(0.0, 0.0), (100.0, 100.0)], r##"stroke="#8a929c" stroke-dasharray="4 4""##);
    let curves = [(&confidence.groups_plain, ORANGE), (&confidence.groups, BLUE)];
    for (groups, color) in curves.into_iter().skip(usize::from(confidence.ece == confidence.ece_plain)) {
        let points = percent(groups);
        chart = chart.line(&points, &format!(r#"stroke="{color}" stroke-width="2""#));
        chart = chart.dots(&points, 3.6, &format!(r#"fill="{color}""#));
    }
    let plot = chart.finish("right, %", Some("confidence, %"));
    format!(
        r##"<svg width="430" height="400" viewBox="0 0 430 400" role="img" aria-label="reliability diagram"><rect width="430" height="400" fill="#ffffff"/><g font-family="Helvetica Neue, Arial, DejaVu Sans, sans-serif" font-size="12" fill="#5b636d">{plot}</g></svg>"##
    )
}
