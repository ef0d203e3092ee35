//! The pictures of a report: supports with their masks, and images with what each variant makes of them.

use base64::{Engine, engine::general_purpose::STANDARD};
use maud::{Markup, html};
use protoseg_core::{ClassRole, IGNORE, Image, Remap};
use protoseg_data::{Benchmark, DataError, fit_image, picture::encode_jpeg};

use super::{
    chip,
    strips::{Strip, Strips},
};
use crate::{evaluate::Evaluated, picture::Palette};

/// Side of the square that each picture is fitted into.
const CELL: usize = 200;
/// Number of supports per class that are shown.
const SUPPORTS: usize = 5;

/// The supports of the first seed with their masks.
pub fn supports(
    evaluated: &Evaluated,
    benchmark: &Benchmark,
    palette: &Palette,
) -> Result<Markup, DataError> {
    let Some(list) = evaluated.supports.first() else { return Ok(Markup::default()) };
    let dataset = benchmark.dataset.as_ref();
    let remap = Remap::for_all_classes(dataset.classes(), benchmark.fold(list.fold)?);
    let support = |row: u16, name: &String| -> Result<Option<Markup>, DataError> {
        let Some(index) = dataset.samples().iter().position(|sample| sample.name == *name) else {
            return Ok(None);
        };
        let (image, mut label) = benchmark.load_rows(index, &remap)?;
        label.data.iter_mut().filter(|label| **label != row).for_each(|label| *label = IGNORE);
        figure(&palette.paint(&fit_image(image, CELL), &label), name).map(Some)
    };
    let n_base = evaluated.classes.n_base() as u16;
    let mut classes = Vec::new();
    for (row, class) in (n_base..).zip(&list.classes) {
        let shown = class.samples.iter().take(SUPPORTS).filter_map(|name| support(row, name).transpose());
        classes.push((row, &class.class, shown.collect::<Result<Vec<Markup>, _>>()?));
    }
    Ok(html! {
        @for (row, class, figures) in classes {
            h3 { (chip(palette, row)) (class) }
            div.strip { @for figure in figures { (figure) } }
        }
        p.hint {
            "The first draw"
            @if let Some(seed) = list.seed { " (seed " (seed) ")" }
            ", with the masks that taught each class."
        }
    })
}

/// The paper's strips: input, truth, and what each variant makes of it. Novel classes are shown first; if there are
/// none, all classes are.
pub fn comparison(strips: &Strips, palette: &Palette, hint: &str) -> Result<Markup, DataError> {
    let is_novel = |row: u16| {
        palette.classes().rows().get(usize::from(row)).is_some_and(|class| class.role == ClassRole::Novel)
    };
    let has_novel = palette.classes().n_novel() > 0;
    let chosen =
        strips.chosen(|row| if has_novel { is_novel(row) } else { palette.background() != Some(row) });
    let figures = chosen.iter().map(|strip| strip_figures(strip, strips, palette));
    let figures = figures.collect::<Result<Vec<_>, _>>()?;
    Ok(html! {
        @for (strip, figures) in chosen.iter().zip(figures) {
            div.strip { @for figure in figures { (figure) } }
            p.legend {
                @for row in palette.present(std::iter::once(&strip.truth).chain(&strip.predicted)) {
                    (chip(palette, row))
                    @if is_novel(row) { b { (palette.name(row)) } } @else { span { (palette.name(row)) } }
                }
                small { (strip.name) }
            }
        }
        p.hint { (hint) }
    })
}

fn strip_figures(strip: &Strip, strips: &Strips, palette: &Palette) -> Result<Vec<Markup>, DataError> {
    let input = fit_image(strip.image.clone(), CELL);
    let mut figures =
        vec![figure(&input, "(a) input")?, figure(&palette.paint(&input, &strip.truth), "(b) truth")?];
    for ((letter, caption), labels) in ('c'..).zip(strips.captions()).zip(&strip.predicted) {
        figures.push(figure(&palette.paint(&input, labels), &format!("({letter}) {caption}"))?);
    }
    Ok(figures)
}

/// A picture that the file itself holds.
pub fn figure(image: &Image, caption: &str) -> Result<Markup, DataError> {
    let source = format!("data:image/jpeg;base64,{}", STANDARD.encode(encode_jpeg(image)?));
    Ok(html! {
        figure {
            img width=(image.width) height=(image.height) alt=(caption) src=(source);
            figcaption { (caption) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caption_that_looks_like_markup_stays_text() {
        let figure =
            figure(&Image::new(1, 1, vec![0; 3]), r#"x" onload="alert(9)" y="<b>"#).unwrap().into_string();
        let escaped = "x&quot; onload=&quot;alert(9)&quot; y=&quot;&lt;b&gt;";
        assert!(figure.contains(&format!("alt=\"{escaped}\" src=\"data:image/jpeg;base64,")), "{figure}");
        assert!(figure.contains(&format!("<figcaption>{escaped}</figcaption>")), "{figure}");
    }
}
