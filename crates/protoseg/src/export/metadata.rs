//! What a file says of itself: four keys as Ultralytics writes them, which other tools read, and everything else as JSON
//! under `protoseg`.

use protoseg_core::{Class, Classes, Fit, GridPlacement, Preprocess};
use serde::Serialize;

use super::ClassesAs;
use crate::{model::Model, segmenter::Segmenter};

/// The name and version of the JSON.
const SCHEMA: &str = "protoseg.onnx/1";

#[derive(Serialize)]
struct Description<'a> {
    schema: &'static str,
    version: &'static str,
    /// Of the model that was exported; class packs carry it too.
    fingerprint: String,
    architecture: String,
    method: String,
    /// Which parts of the method act.
    variant: &'static str,
    classes: Vec<Named<'a>>,
    /// Classes before this one are the model's own; later ones were taught.
    n_base: usize,
    /// Where classes are: `baked` into the file, an `input`, or shown by `supports`.
    classes_as: &'static str,
    /// Confidences are a softmax of scores divided by this.
    temperature: f64,
    canvas: Canvas,
    origin: &'a str,
}

#[derive(Serialize)]
struct Named<'a> {
    id: usize,
    name: &'a str,
    role: &'static str,
}

/// How a picture is brought onto the canvas, before the file, and how positions of the maps lie on it.
#[derive(Serialize)]
struct Canvas {
    /// `letterbox`, `squash` or `tight`.
    fit: Fit,
    /// Side of a square canvas, or the longer side of a tight one.
    size: usize,
    /// Sides of the picture on the canvas are multiples of this.
    multiple: usize,
    /// Small pictures are enlarged by at most this factor; without it, by any.
    #[serde(skip_serializing_if = "Option::is_none")]
    enlarged: Option<f64>,
    /// Where the picture lies.
    at: &'static str,
    /// The colour beside it.
    fill: [u8; 3],
    /// How it is resized.
    resize: &'static str,
    /// Normalisation, which is part of the file.
    mean: [f32; 3],
    std: [f32; 3],
    /// `corners` or `centres`: how the grid of scores lies on the canvas.
    grid: GridPlacement,
}

/// One line on the model.
pub(super) fn description(model: &Model) -> String {
    format!("{}, exported by protoseg", model.config().describe())
}

/// Keys and values of a segmenter's file.
pub(super) fn entries(segmenter: &Segmenter, classes_as: ClassesAs) -> Vec<(&'static str, String)> {
    let description = Description {
        variant: segmenter.usage().variant(),
        classes_as: classes_as.name(),
        temperature: segmenter.temperature(),
        ..Description::new(segmenter.model(), segmenter.classes())
    };
    keys(segmenter.model(), &description)
}

/// Those of the file of a few-shot model, whose class has no name.
pub(super) fn few_shot_entries(model: &Model) -> Vec<(&'static str, String)> {
    let classes = Classes::new(&["background"], &["class"]).expect("the names are two");
    keys(model, &Description { classes_as: "supports", ..Description::new(model, &classes) })
}

impl<'a> Description<'a> {
    fn new(model: &'a Model, classes: &'a Classes) -> Self {
        let class =
            |(id, class): (usize, &'a Class)| Named { id, name: &class.name, role: class.role.name() };
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            fingerprint: model.fingerprint(),
            architecture: model.config().describe(),
            method: model.manifest().method.name(),
            variant: "-",
            classes: classes.rows().iter().enumerate().map(class).collect(),
            n_base: classes.n_base(),
            classes_as: "",
            temperature: 1.0,
            canvas: canvas(model.preprocess()),
            origin: &model.manifest().training.origin,
        }
    }
}

fn keys(model: &Model, description: &Description<'_>) -> Vec<(&'static str, String)> {
    let preprocess = model.preprocess();
    let stride = match preprocess.fit {
        Fit::Tight => preprocess.multiple,
        Fit::Letterbox | Fit::Squash => model.config().encoder.output_stride(),
    };
    let name = |class: &Named<'_>| format!("{}: {}", class.id, literal(class.name));
    let names: Vec<String> = description.classes.iter().map(name).collect();
    vec![
        ("description", self::description(model)),
        ("task", "segment".to_string()),
        ("stride", stride.to_string()),
        ("imgsz", format!("[{side}, {side}]", side = side(preprocess))),
        ("names", format!("{{{}}}", names.join(", "))),
        ("protoseg", serde_json::to_string(description).expect("a description is plain data")),
    ]
}

/// The side of a square canvas that the file takes: the size, or its nearest multiple if the canvas is tight.
fn side(preprocess: &Preprocess) -> usize {
    match preprocess.fit {
        Fit::Tight => {
            let multiple = preprocess.multiple.max(1);
            ((preprocess.size + multiple / 2) / multiple).max(1) * multiple
        }
        Fit::Letterbox | Fit::Squash => preprocess.size,
    }
}

fn canvas(preprocess: &Preprocess) -> Canvas {
    let &Preprocess { size, mean, std, fit, grid, multiple } = preprocess;
    let (multiple, enlarged) = match fit {
        Fit::Letterbox => (Preprocess::MULTIPLE, None),
        Fit::Squash => (1, None),
        Fit::Tight => (multiple, Some(Preprocess::TIGHT_ENLARGED)),
    };
    let resize = "bilinear, centres of pixels matched, without antialiasing";
    Canvas { fit, size, multiple, enlarged, at: "top left", fill: [0; 3], resize, mean, std, grid }
}

/// A text as Python writes it: Ultralytics' readers evaluate `names` as a literal.
fn literal(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        if c == '\\' || c == quote {
            out.push('\\');
        }
        out.push(c);
    }
    out.push(quote);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_of_a_tight_canvas_is_a_multiple() {
        let tight = |size, multiple| Preprocess { fit: Fit::Tight, multiple, ..Preprocess::imagenet(size) };
        assert_eq!([side(&tight(480, 56)), side(&tight(480, 32)), side(&tight(10, 32))], [504, 480, 32]);
        let square = |fit| Preprocess { fit, ..Preprocess::imagenet(473) };
        assert_eq!([side(&square(Fit::Letterbox)), side(&square(Fit::Squash))], [473, 473]);
    }

    #[test]
    fn names_are_literals_of_python() {
        assert_eq!(literal("duck"), "'duck'");
        assert_eq!(literal("lion's mane"), "\"lion's mane\"");
        assert_eq!(literal(r#"a'b"c\d"#), r#"'a\'b"c\\d'"#);
    }
}
