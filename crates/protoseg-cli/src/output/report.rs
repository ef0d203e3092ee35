//! The report: one HTML file with everything in it, for light and dark screens, on paper and without a network.

use std::fmt::Write;

use anyhow::Result;
use protoseg::{
    core::{ClassRole, IGNORE, Image, Remap, RowMap},
    evaluate::{Evaluated, EvaluatedImage, Evaluation},
    method::capl::{Usage, usage::ActiveParts},
};
use protoseg_data::{Benchmark, fit_image, picture::encode_jpeg};

use protoseg::picture::{Palette, svg::escape};

use super::results::{Results, Row, role};

/// What the report is called.
pub const FILE: &str = "report.html";

/// Side of the square that a picture of the report is fitted into.
const CELL: usize = 200;
/// Supports of a class that are shown.
const SUPPORTS: usize = 5;
/// Queries that are shown beside those of the novel classes.
const OTHERS: usize = 3;

const STYLE: &str = include_str!("report.css");

/// Queries that are worth a strip of pictures: of each novel class one that shows enough of it, and a few others.
pub struct Strips {
    /// Place of the cell of each column among the cells, with its caption.
    columns: Vec<(usize, String)>,
    /// For each class that was seen: how well it is shown, and the strip.
    best: Vec<(u16, f64, Strip)>,
    others: Vec<Strip>,
}

struct Strip {
    name: String,
    image: Image,
    truth: RowMap,
    predicted: Vec<RowMap>,
}

impl Strips {
    /// Strips of the first preset and seed, with the most shots.
    pub fn new(plan: &Evaluation) -> Self {
        let per_variant = plan.shots.len() * plan.supports.count();
        let most = plan.shots.iter().max().and_then(|most| plan.shots.iter().position(|shots| shots == most));
        let within = most.unwrap_or(0) * plan.supports.count();
        let preset = plan.usages.first().map(Usage::preset);
        let column = |(use_of, caption): (ActiveParts, &str)| {
            let is_it = |usage: &Usage| {
                usage.parts() == use_of && (use_of == ActiveParts::Baseline || Some(usage.preset()) == preset)
            };
            let place = plan.usages.iter().position(is_it)?;
            Some((place * per_variant + within, caption.to_string()))
        };
        let uses = [
            (ActiveParts::Baseline, "baseline"),
            (ActiveParts::Sce, "SCE"),
            (ActiveParts::Dqce, "DQCE"),
            (ActiveParts::Capl, "SCE + DQCE"),
        ];
        // The paper's strip has no column of DQCE alone.
        let all = plan.usages.len() > 3;
        let columns = uses.into_iter().filter(|(use_of, _)| !all || *use_of != ActiveParts::Dqce);
        Self { columns: columns.filter_map(column).collect(), best: Vec::new(), others: Vec::new() }
    }

    /// Keeps an image if it shows a class better than what is there.
    pub fn look(&mut self, judged: &EvaluatedImage<'_>) {
        let size = judged.truth.data.len().max(1) as f64;
        for row in judged.truth.present() {
            let pixels = judged.truth.data.iter().filter(|&&label| label == row).count() as f64;
            // A fifth of the picture is easy to see and leaves room for what is around.
            let quality = 1.0 - (pixels / size - 0.2).abs();
            match self.best.iter_mut().find(|(other, ..)| *other == row) {
                Some((_, best, _)) if *best >= quality => {}
                Some(entry) => *entry = (row, quality, Strip::new(judged, &self.columns)),
                None => self.best.push((row, quality, Strip::new(judged, &self.columns))),
            }
        }
        if self.others.len() < OTHERS {
            self.others.push(Strip::new(judged, &self.columns));
        }
    }

    /// The strips of novel classes, then some others, each once.
    fn chosen(&self, is_novel: impl Fn(u16) -> bool) -> Vec<&Strip> {
        let mut novel: Vec<&(u16, f64, Strip)> =
            self.best.iter().filter(|(row, ..)| is_novel(*row)).collect();
        novel.sort_by_key(|(row, ..)| *row);
        let mut chosen: Vec<&Strip> = Vec::new();
        for strip in novel.into_iter().map(|(.., strip)| strip).chain(&self.others) {
            if !chosen.iter().any(|other| other.name == strip.name) {
                chosen.push(strip);
            }
        }
        chosen
    }
}

impl Strip {
    fn new(judged: &EvaluatedImage<'_>, columns: &[(usize, String)]) -> Self {
        let (width, height) = (judged.truth.width, judged.truth.height);
        let cut = |map: &RowMap| {
            let rows = map.data.chunks_exact(map.width.max(1)).take(height);
            RowMap::new(width, height, rows.flat_map(|row| &row[..width]).copied().collect())
        };
        Self {
            name: judged.name.to_string(),
            image: judged.image.clone(),
            truth: judged.truth.clone(),
            predicted: columns.iter().map(|(place, _)| cut(&judged.predicted[*place])).collect(),
        }
    }
}

/// The report as text.
pub fn html(
    results: &Results,
    evaluated: &Evaluated,
    benchmark: &Benchmark,
    strips: &Strips,
) -> Result<String> {
    let palette = Palette::new(&results.classes);
    let setting = &results.setting;
    let title = format!("{} fold {}", escape(&setting.data), setting.fold);
    let mut body = String::new();
    let _ = write!(body, "<h1>{title}</h1><p class=\"lead\">{}.</p>", escape(&results.headline()));
    for note in results.notes() {
        let _ = write!(body, "<p class=\"note\">Note: {}.</p>", escape(&note));
    }
    body += &section("Results", &results_table(results));
    body += &section("Each class", &class_bars(results, &palette));
    body += &section("Supports", &supports(evaluated, benchmark, &palette)?);
    body += &section("Comparison", &comparison(strips, &palette, results)?);
    if let Some(row) = results.shown_rows().last() {
        body += &section("Confusion", &confusion(row, results, &palette));
    }
    body += &footer(results);
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>protoseg: {title}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    ))
}

fn section(title: &str, content: &str) -> String {
    format!("<section><h2>{title}</h2>{content}</section>")
}

fn results_table(results: &Results) -> String {
    let best: Vec<(usize, f64)> = results.rows.iter().fold(Vec::new(), |mut best, row| {
        match best.iter_mut().find(|(shots, _)| *shots == row.shots) {
            Some((_, total)) => *total = total.max(row.total.mean),
            None => best.push((row.shots, row.total.mean)),
        }
        best
    });
    let mut table = String::from(
        "<div class=\"wide\"><table><thead><tr><th>variant</th><th>preset</th><th>shots</th><th>base</th><th>novel</th>\
         <th>total</th><th>mean</th><th>harmonic</th><th>pixels</th></tr></thead><tbody>",
    );
    for row in &results.rows {
        let is_best = best.contains(&(row.shots, row.total.mean));
        let class = if is_best { " class=\"best\"" } else { "" };
        let _ =
            write!(table, "<tr{class}><td>{}</td><td>{}</td><td>{}</td>", row.variant, row.preset, row.shots);
        for spread in [row.base, row.novel, row.total, row.mean, row.harmonic_mean, row.pixel_accuracy] {
            let _ = write!(table, "<td>{:.2}<small>±{:.2}</small></td>", spread.mean, spread.std);
        }
        table += "</tr>";
    }
    table += "</tbody></table></div><p class=\"hint\">mIoU in %. The row with the best total at each number of shots is marked. \
              Base includes the background where there is one (except under protocol b).</p>";
    table
}

fn class_bars(results: &Results, palette: &Palette) -> String {
    let shown = results.shown_rows();
    let mut bars = String::from("<div class=\"bars\">");
    for (place, class) in results.classes.rows().iter().enumerate() {
        let _ = write!(
            bars,
            "<div class=\"class\">{}<span>{}</span><small>{}</small></div><div class=\"pair\">",
            chip(palette, place as u16),
            escape(&class.name),
            role(class.role)
        );
        for (at, row) in shown.iter().enumerate() {
            let iou = row.iou[place].map_or(0.0, |iou| iou.mean);
            let kind = if at + 1 == shown.len() { "main" } else { "other" };
            let _ = write!(
                bars,
                "<div class=\"bar {kind}\"><i style=\"width:{iou:.1}%\"></i><b>{iou:.1}</b></div>"
            );
        }
        bars += "</div>";
    }
    let names: Vec<String> = shown
        .iter()
        .enumerate()
        .map(|(at, row)| {
            let kind = if at + 1 == shown.len() { "main" } else { "other" };
            format!("<span class=\"key {kind}\"></span>{} ({}), {} shots", row.variant, row.preset, row.shots)
        })
        .collect();
    bars + &format!("</div><p class=\"hint\">IoU in %: {}</p>", names.join(" &nbsp; "))
}

fn chip(palette: &Palette, row: u16) -> String {
    let [r, g, b] = palette.color(row);
    format!("<i class=\"chip\" style=\"background:rgb({r},{g},{b})\"></i>")
}

/// A picture in the file itself.
fn picture(image: &Image, caption: &str) -> Result<String> {
    let jpeg = base64(&encode_jpeg(image)?);
    let caption = escape(caption);
    Ok(format!(
        "<figure><img width=\"{}\" height=\"{}\" alt=\"{caption}\" src=\"data:image/jpeg;base64,{jpeg}\"><figcaption>{caption}</figcaption></figure>",
        image.width, image.height
    ))
}

/// The supports of the first seed with their masks.
fn supports(evaluated: &Evaluated, benchmark: &Benchmark, palette: &Palette) -> Result<String> {
    let Some(list) = evaluated.supports.first() else { return Ok(String::new()) };
    let dataset = benchmark.dataset.as_ref();
    let remap = Remap::for_all_classes(dataset.classes(), benchmark.fold(list.fold)?);
    let mut html = String::new();
    let n_base = evaluated.classes.n_base() as u16;
    for (row, class) in (n_base..).zip(&list.classes) {
        let _ = write!(html, "<h3>{}{}</h3><div class=\"strip\">", chip(palette, row), escape(&class.class));
        for name in class.samples.iter().take(SUPPORTS) {
            let Some(index) = dataset.samples().iter().position(|sample| sample.name == *name) else {
                continue;
            };
            let (image, mut label) = benchmark.load_rows(index, &remap)?;
            label.data.iter_mut().filter(|label| **label != row).for_each(|label| *label = IGNORE);
            html += &picture(&palette.paint(&fit_image(image, CELL), &label), name)?;
        }
        html += "</div>";
    }
    let seed = list.seed.map_or_else(String::new, |seed| format!(" (seed {seed})"));
    Ok(html + &format!("<p class=\"hint\">The first draw{seed}, with the masks that taught each class.</p>"))
}

/// The paper's strip: input, truth, and what each variant makes of it.
fn comparison(strips: &Strips, palette: &Palette, results: &Results) -> Result<String> {
    let is_novel = |row: u16| {
        results.classes.rows().get(usize::from(row)).is_some_and(|class| class.role == ClassRole::Novel)
    };
    let mut html = String::new();
    for strip in strips.chosen(is_novel) {
        html += "<div class=\"strip\">";
        let input = fit_image(strip.image.clone(), CELL);
        html += &picture(&input, "(a) input")?;
        html += &picture(&palette.paint(&input, &strip.truth), "(b) truth")?;
        for ((letter, (_, caption)), labels) in ('c'..).zip(&strips.columns).zip(&strip.predicted) {
            html += &picture(&palette.paint(&input, labels), &format!("({letter}) {caption}"))?;
        }
        html += "</div><p class=\"legend\">";
        let maps = std::iter::once(&strip.truth).chain(&strip.predicted);
        for row in palette.present(maps) {
            let weight = if is_novel(row) { "b" } else { "span" };
            let _ = write!(html, "{}<{weight}>{}</{weight}>", chip(palette, row), escape(palette.name(row)));
        }
        let _ = write!(html, "<small>{}</small></p>", escape(&strip.name));
    }
    Ok(html + "<p class=\"hint\">Novel classes are in bold; first preset, first seed, most shots.</p>")
}

fn confusion(row: &Row, results: &Results, palette: &Palette) -> String {
    let names: Vec<&str> = results.classes.rows().iter().map(|class| class.name.as_str()).collect();
    let mut html = String::from("<div class=\"wide\"><table class=\"confusion\"><thead><tr><th></th>");
    for (column, name) in names.iter().enumerate() {
        let _ = write!(html, "<th><span>{}{}</span></th>", chip(palette, column as u16), escape(name));
    }
    html += "</tr></thead><tbody>";
    for (truth, counts) in row.confusion.iter().enumerate() {
        let all = counts.iter().sum::<u64>().max(1) as f64;
        let _ = write!(html, "<tr><th>{}{}</th>", escape(names[truth]), chip(palette, truth as u16));
        for (column, &count) in counts.iter().enumerate() {
            let share = count as f64 / all;
            let text = if share >= 0.005 { format!("{:.0}", 100.0 * share) } else { String::new() };
            let kind = if column == truth { "hit" } else { "miss" };
            let _ = write!(html, "<td class=\"{kind}\" style=\"--share:{share:.3}\">{text}</td>");
        }
        html += "</tr>";
    }
    html + &format!(
        "</tbody></table></div><p class=\"hint\">Of the pixels of each class (row), the percentage that was predicted as each (column); {} ({}), {} shots, all draws.</p>",
        row.variant, row.preset, row.shots
    )
}

fn footer(results: &Results) -> String {
    let setting = &results.setting;
    let seeds: Vec<String> = results.seeds.iter().map(u64::to_string).collect();
    format!(
        "<footer>protoseg {}, model {} ({}), protocol {}, seeds {}, {:.0} s</footer>",
        env!("CARGO_PKG_VERSION"),
        escape(&setting.model),
        setting.fingerprint,
        setting.protocol,
        seeds.join(" "),
        setting.seconds
    )
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
