//! The report of an experiment: its tables, and bars that compare its rows.

use maud::{Markup, html};

use super::{page, section, tables};
use crate::experiment::{ExperimentResults, RowResult};

/// The whole page.
pub(crate) fn experiment_html(results: &ExperimentResults) -> String {
    let content = html! {
        (section("Mean over folds", means(results)))
        (section("At a glance", bars(results)))
        @if results.folds.len() > 1 {
            (section("Every fold", tables::plain(&results.fold_titles(), &results.fold_table(), |_| Markup::default())))
        }
        footer { "protoseg " (env!("CARGO_PKG_VERSION")) ": " code { (results.command) } }
    };
    page(&results.title, &results.headline(), &results.notes, content)
}

fn means(results: &ExperimentResults) -> Markup {
    html! {
        (tables::plain(&results.mean_titles(), &results.mean_table(), |_| Markup::default()))
        p.hint { (results.about()) "." }
    }
}

/// The last of the shown scores of every row, one bar per number of shots.
fn bars(results: &ExperimentResults) -> Markup {
    let shown = results.shown().last().copied().unwrap_or_default();
    let kind = |at: usize| if at + 1 == results.shots.len() { "main" } else { "other" };
    let score = |row: &RowResult, shots: usize| {
        let found = row.mean.iter().find(|own| own.shots == shots)?;
        found.scores.get(shown).map(|number| format!("{:.1}", number.mean))
    };
    html! {
        div.bars {
            @for row in &results.rows {
                div.class { span { (row.name) } }
                div.pair {
                    @for (at, &shots) in results.shots.iter().enumerate() {
                        @if let Some(score) = score(row, shots) {
                            div.bar.(kind(at)) { i style={ "width:" (score) "%" } {} b { (score) } }
                        }
                    }
                }
            }
        }
        p.hint {
            (shown.replace('_', " ")) " in %: "
            @for (at, shots) in results.shots.iter().enumerate() {
                span.key.(kind(at)) {} (shots) "-shot \u{a0} "
            }
        }
    }
}
