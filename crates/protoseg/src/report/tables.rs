//! The numbers of a report: tables, a bar per class, and the confusion of classes.

use maud::{Markup, html};

use super::chip;
use crate::{
    evaluate::{ResultRow, Results},
    picture::Palette,
};

/// A plain table. `mark` is put before the first cell of each row.
pub fn plain<T: AsRef<str>>(titles: &[T], rows: &[Vec<String>], mark: impl Fn(usize) -> Markup) -> Markup {
    html! {
        div.wide {
            table {
                thead { tr { @for title in titles { th { (title.as_ref()) } } } }
                tbody {
                    @for (row, cells) in rows.iter().enumerate() {
                        tr {
                            @for (column, cell) in cells.iter().enumerate() {
                                td { @if column == 0 { (mark(row)) } (cell) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The main numbers, the best total at each number of shots marked.
pub fn results(results: &Results) -> Markup {
    let best = |shots: usize| {
        let totals = results.rows.iter().filter(|row| row.shots == shots).map(|row| row.total.mean);
        totals.fold(f64::NEG_INFINITY, f64::max)
    };
    html! {
        div.wide {
            table {
                thead { tr { @for title in Results::TITLES { th { (title) } } } }
                tbody {
                    @for row in &results.rows {
                        tr class=[(row.total.mean == best(row.shots)).then_some("best")] {
                            td { (row.variant) }
                            td { (row.preset) }
                            td { (row.shots) }
                            td { (row.before()) }
                            @for spread in row.numbers() {
                                td {
                                    (format!("{:.2}", spread.mean))
                                    @if results.seeds.len() > 1 { small { (format!("±{:.2}", spread.std)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
        p.hint {
            "mIoU in %. The row with the best total at each number of shots is marked. Base includes the background where \
             there is one (except under protocol b); `before` is base before any class was taught. "
            (results.about_draws()) "."
        }
    }
}

/// The IoU of every class as bars, one per shown variant.
pub fn class_bars(results: &Results, palette: &Palette) -> Markup {
    let shown = results.shown_rows();
    let kind = |at: usize| if at + 1 == shown.len() { "main" } else { "other" };
    html! {
        div.bars {
            @for (place, class) in results.classes.rows().iter().enumerate() {
                div.class { (chip(palette, place as u16)) span { (class.name) } small { (class.role.name()) } }
                div.pair {
                    @for (at, row) in shown.iter().enumerate() {
                        @let iou = format!("{:.1}", row.iou[place].map_or(0.0, |iou| iou.mean));
                        div.bar.(kind(at)) { i style={ "width:" (iou) "%" } {} b { (iou) } }
                    }
                }
            }
        }
        p.hint {
            "IoU in %: "
            @for (at, row) in shown.iter().enumerate() {
                @if at > 0 { " \u{a0} " }
                span.key.(kind(at)) {} (row.variant) " (" (row.preset) "), " (row.shots) " shots"
            }
        }
    }
}

/// Where the pixels of each class went.
pub fn confusion(row: &ResultRow, palette: &Palette) -> Markup {
    let classes = palette.classes().rows();
    html! {
        div.wide {
            table.confusion {
                thead {
                    tr {
                        th {}
                        @for (column, class) in classes.iter().enumerate() {
                            th { span { (chip(palette, column as u16)) (class.name) } }
                        }
                    }
                }
                tbody {
                    @for (truth, counts) in row.confusion.iter().enumerate() {
                        tr {
                            th { (classes[truth].name) (chip(palette, truth as u16)) }
                            @for (column, share) in shares(counts).enumerate() {
                                @let kind = if column == truth { "hit" } else { "miss" };
                                td class=(kind) style=(format!("--share:{share:.3}")) {
                                    @if share >= 0.005 { (format!("{:.0}", 100.0 * share)) }
                                }
                            }
                        }
                    }
                }
            }
        }
        p.hint {
            "Of the pixels of each class (row), the percentage that was predicted as each (column); "
            (row.variant) " (" (row.preset) "), " (row.shots) " shots, all draws."
        }
    }
}

/// Each count as a share of their sum.
fn shares(counts: &[u64]) -> impl Iterator<Item = f64> {
    let all = counts.iter().sum::<u64>().max(1) as f64;
    counts.iter().map(move |&count| count as f64 / all)
}
