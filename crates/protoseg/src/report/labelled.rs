//! The report of labelled photos without folds: pictures, the summary, and every class.

use maud::html;
use protoseg_data::DataError;

use super::{chip, page, pictures, section, strips::Strips, tables};
use crate::{
    class_pack::ClassPack,
    evaluate::{EvaluatedImage, LabelledResults},
    picture::Palette,
};

/// A report in the making: it chooses pictures while
/// [`evaluate_labelled`](crate::evaluate::evaluate_labelled) runs.
pub struct LabelledReport {
    strips: Strips,
}

impl Default for LabelledReport {
    fn default() -> Self {
        Self { strips: Strips::of_one_use() }
    }
}

impl LabelledReport {
    /// Looks at an image that was just evaluated, and keeps it if it shows a class better than those before.
    pub fn look(&mut self, image: &EvaluatedImage<'_>) {
        self.strips.look(image);
    }

    /// The whole page, with the colours that were chosen for classes of the pack.
    pub fn html(&self, results: &LabelledResults, pack: Option<&ClassPack>) -> Result<String, DataError> {
        let palette = Palette::new(&results.classes);
        let palette = match pack {
            Some(pack) => palette.with_pack(pack),
            None => palette,
        };
        let hint = match pack {
            Some(_) => "Taught classes are in bold.",
            None => "An image that shows each class, and a few others.",
        };
        let comparison = pictures::comparison(&self.strips, &palette, hint)?;
        let mark = |row: usize| chip(&palette, row as u16);
        let classes = html! {
            (tables::plain(&LabelledResults::TITLES, &results.table(), mark))
            p.hint {
                "IoU in %, before and after teaching. A dash stands for a class that neither occurs nor is predicted, or \
                 that was not known yet."
            }
        };
        let content = html! {
            (section("What it sees", comparison))
            (section("Results", html! { ul { @for line in results.summary() { li { (line) } } } }))
            (section("Each class", classes))
            footer {
                "protoseg " (env!("CARGO_PKG_VERSION")) ", model " (results.model) " (" (results.fingerprint) "): "
                (results.architecture)
            }
        };
        Ok(page(&results.data, &results.headline(), &[], content))
    }
}
