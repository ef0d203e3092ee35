//! The report of an evaluation: one HTML file with everything in it, for light and dark screens, for paper, and
//! without a network. The gallery of predictions looks the same and lies beside the pictures that it shows.
//!
//! Pages are written with `maud`, which escapes every text. The style sheet is the only text that goes in as it is.

mod episodes;
mod experiment;
mod gallery;
mod labelled;
mod pictures;
mod reliability;
mod strips;
mod tables;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use protoseg_data::{Benchmark, DataError};

pub(crate) use self::experiment::experiment_html;
use self::strips::Strips;
pub use self::{
    episodes::episodes_html,
    gallery::{Gallery, GalleryImage},
    labelled::LabelledReport,
};
use crate::{
    evaluate::{Evaluated, EvaluatedImage, Evaluation, Results},
    picture::Palette,
};

const STYLE: &str = include_str!("report.css");

/// A report in the making: it chooses pictures while the evaluation runs.
pub struct HtmlReport {
    strips: Strips,
}

impl HtmlReport {
    /// For the evaluation of a plan.
    pub fn new(plan: &Evaluation) -> Self {
        Self { strips: Strips::new(plan) }
    }

    /// Looks at an image that was just evaluated, and keeps it if it shows a class better than those before.
    pub fn look(&mut self, image: &EvaluatedImage<'_>) {
        self.strips.look(image);
    }

    /// The whole page. Supports are read from the benchmark again, to show them.
    pub fn html(
        &self,
        results: &Results,
        evaluated: &Evaluated,
        benchmark: &Benchmark,
    ) -> Result<String, DataError> {
        let palette = Palette::new(&results.classes);
        let title = format!("{} fold {}", results.data, results.fold);
        let supports = pictures::supports(evaluated, benchmark, &palette)?;
        let hint = "Novel classes are in bold; first preset, first seed, most shots.";
        let comparison = pictures::comparison(&self.strips, &palette, hint)?;
        let content = html! {
            (section("What it sees", comparison))
            (section("What taught it", supports))
            (section("Results", tables::results(results)))
            (section("Each class", tables::class_bars(results, &palette)))
            @if let Some(row) = results.shown_rows().last() {
                (section("Confusion", tables::confusion(row, &palette)))
            }
            @if let Some(diagram) = reliability::diagram(results) {
                (section("Confidence", diagram))
            }
            (footer(results))
        };
        Ok(page(&title, &results.headline(), &results.notes(), content))
    }
}

/// A page of its own: a title, what was evaluated, notes, and the rest.
fn page(title: &str, lead: &str, notes: &[String], content: Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "protoseg: " (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    p.lead { (lead) "." }
                    @for note in notes {
                        p.note { "Note: " (note) "." }
                    }
                    (content)
                }
            }
        }
    };
    page.into_string() + "\n"
}

fn section(title: &str, content: Markup) -> Markup {
    html! {
        section {
            h2 { (title) }
            (content)
        }
    }
}

/// A small square in the colour of a row.
fn chip(palette: &Palette, row: u16) -> Markup {
    let [r, g, b] = palette.color(row);
    html! { i.chip style=(format!("background:rgb({r},{g},{b})")) {} }
}

fn footer(results: &Results) -> Markup {
    let seeds: Vec<String> = results.seeds.iter().map(u64::to_string).collect();
    html! {
        footer {
            "protoseg " (env!("CARGO_PKG_VERSION")) ", model " (results.model) " (" (results.fingerprint) "): "
            (results.about_model()) "; protocol " (results.protocol) ", seeds " (seeds.join(" ")) ", "
            (format!("{:.0}", results.seconds)) " s"
        }
    }
}
