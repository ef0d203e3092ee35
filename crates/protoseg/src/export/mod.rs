//! Models as files of ONNX, for other runtimes.
//!
//! A file takes pictures on the canvas as bytes and gives the class of every pixel. Everything in between is in it:
//! normalisation, encoder, decoder, what the method makes of features, upsampling, argmax. What stays outside is bringing
//! a picture onto the canvas, which the metadata describes.
//!
//! | what | where |
//! |---|---|
//! | messages of the format | `proto` |
//! | nodes, constants and names | `builder`, `ops` |
//! | encoder and decoder: a pass over the network's graph | `layers` |
//! | CAPL, prototypes, the image prior | `scores` |
//! | few-shot systems: what they share, those that compare means, two with layers of their own | `few_shot`, `matching`, `canet`, `pfenet` |
//! | what a file says of itself | `metadata` |
//! | a picture and our answer to it | [`sample`] |
//! | the same by another runtime, with the feature `onnx-check` | `check` |

mod builder;
mod canet;
#[cfg(feature = "onnx-check")]
pub mod check;
mod few_shot;
mod hsnet;
mod layers;
mod matching;
mod metadata;
mod ops;
mod pfenet;
mod proto;
pub mod sample;
mod scl;
mod scores;
#[cfg(test)]
mod tests;
mod transformer;

use std::{collections::HashMap, path::Path};

use burn::tensor::TensorData;
use prost::Message;
use protoseg_core::Fit;
use protoseg_data::{DataError, write_atomic};

use crate::{
    graph::shape::MapShape,
    method::{Rows, Usage},
    model::Model,
    segmenter::Segmenter,
    weights::{WeightsError, write_safetensors},
};
pub use few_shot::export_few_shot;

use builder::{Builder, Length};
use ops::Size;
use proto::{ModelProto, OperatorSetIdProto, StringStringEntryProto, data_type};
use scores::{FeatureMap, Scored};

/// The version of the operators that files use.
pub const OPSET: i64 = 17;
/// The version of the format that files have.
pub const IR_VERSION: i64 = 8;
/// Protobuf messages, and so files, end here.
const MOST_BYTES: usize = i32::MAX as usize;

/// Where the classes of an exported file are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClassesAs {
    /// In the file.
    #[default]
    Baked,
    /// An input of the file, beside the image: whoever runs it can teach it classes.
    Input,
}

impl ClassesAs {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Baked, Self::Input];

    /// `baked` or `input`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baked => "baked",
            Self::Input => "input",
        }
    }
}

/// A model that cannot be a file of ONNX.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A layer depends on the size of the image, which is not the same for all.
    #[error(
        "cannot export `{layer}`: it averages over cells of the map, but the canvas of this model has the shape of each image\n\
         hint: export a model with a square canvas, or one whose decoder has no pyramid"
    )]
    FreeCanvas {
        /// The layer.
        layer: String,
    },
    /// A method that answers episodes in a way that no file can hold.
    #[error(
        "cannot export a model of `{method}`: how it answers an episode is not one plain graph\n\
         hint: of the systems for episodes, `panet`, `mining`, `canet`, `pfenet`, `scl-pfenet`, `scl-canet` and `hsnet` can be exported"
    )]
    Episodic {
        /// The method.
        method: String,
    },
    /// A network for one size of image is in a file.
    #[error(
        "cannot export a model that looks at its query at several scales\n\
         hint: set `scales = [1.0]` in the method's settings"
    )]
    Scales,
    /// More than a message of protobuf can hold.
    #[error("cannot export the model: its file would have {bytes} bytes, and ONNX files end at {MOST_BYTES}")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] DataError),
    /// Tensors beside it cannot be written.
    #[error(transparent)]
    Tensors(#[from] WeightsError),
}

/// Makes a file of a segmenter: its model, its classes, its use.
#[derive(Clone, Debug)]
#[must_use]
pub struct Export<'a> {
    segmenter: &'a Segmenter,
    classes: ClassesAs,
    features: bool,
}

/// An input or output of a file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// `uint8`, `int32`, `int64` or `float32`.
    pub element: &'static str,
    /// Lengths of its axes; names where they are known only in use.
    pub shape: Vec<String>,
}

/// A model as a file of ONNX.
#[derive(Clone, Debug)]
pub struct OnnxFile {
    model: ModelProto,
    /// What to give to its inputs beside the image, to get the classes that it was exported with.
    rows: Vec<(String, TensorData)>,
}

impl<'a> Export<'a> {
    /// Of a segmenter, with its classes in the file.
    pub fn new(segmenter: &'a Segmenter) -> Self {
        Self { segmenter, classes: ClassesAs::Baked, features: false }
    }

    /// With classes in the file, or as an input of it.
    pub fn classes(self, classes: ClassesAs) -> Self {
        Self { classes, ..self }
    }

    /// Whether the maps that classes are compared with are outputs. They are if classes are an input: prototypes are
    /// means of them.
    pub fn features(self, features: bool) -> Self {
        Self { features, ..self }
    }

    /// The file.
    pub fn build(&self) -> Result<OnnxFile, ExportError> {
        let Self { segmenter, classes, .. } = *self;
        let (model, classifier) = (segmenter.model(), segmenter.classifier());
        let preprocess = model.preprocess();
        let mut builder = Builder::new("protoseg");
        let (canvas, is_free) = canvas(model);
        let [height, width, _] = canvas;
        let side = |length: usize, name| if is_free { Length::Free(name) } else { length.into() };
        let batch = || Length::Free("batch");
        let shape = [batch(), side(height, "height"), side(width, "width"), 3.into()];
        let doc = "pictures on the canvas, red green blue";
        let image = builder.input("image", data_type::UINT8, &shape, doc);
        let planes = builder.normalised("image", &image, preprocess.mean, preprocess.std);
        let canvas_size = if is_free { Size::Of(planes.clone()) } else { Size::Fixed([height, width]) };

        let (graph, outputs) = model.network().describe();
        let values = layers::lower(&mut builder, &graph, &[outputs.features], planes, (canvas, is_free))?;
        let map = graph.shapes(canvas)[outputs.features];
        let features = FeatureMap { value: values[0].clone(), shape: map, is_free };
        let Scored { scores, features } = scores::score(
            &mut builder,
            (segmenter.usage(), &model.network().method),
            (&classifier.rows, classifier.classes.n_base()),
            features,
            classes,
        )?;
        let (labels, scores) = scores::on_canvas(&mut builder, &scores, &canvas_size, preprocess.grid);

        let n_classes = match classes {
            ClassesAs::Baked => Length::Fixed(classifier.classes.rows().len()),
            ClassesAs::Input => Length::Free("classes"),
        };
        let [down, across] = [side(height, "height"), side(width, "width")];
        let shape = [batch(), down.clone(), across.clone()];
        builder.output("labels", &labels, data_type::INT32, &shape, "the best class of every pixel");
        let shape = [batch(), n_classes, down, across];
        builder.output("scores", &scores, data_type::FLOAT, &shape, "of every class at every pixel");
        if self.features || classes == ClassesAs::Input {
            for (name, map) in features {
                let [height, width, dim] = map.shape;
                let shape = [batch(), dim.into(), side(height, "map_height"), side(width, "map_width")];
                let doc = "what prototypes are compared with";
                builder.output(name, &map.value, data_type::FLOAT, &shape, doc);
            }
        }
        let file = OnnxFile::new(builder, model, metadata::entries(segmenter, classes))?;
        let rows = match classes {
            ClassesAs::Baked => Vec::new(),
            ClassesAs::Input => rows(&classifier.rows, segmenter.usage()),
        };
        Ok(OnnxFile { rows, ..file })
    }
}

/// The canvas, and whether it is only an example of many.
fn canvas(model: &Model) -> (MapShape, bool) {
    let preprocess = model.preprocess();
    let (width, height) = preprocess.canvas_size(preprocess.size, preprocess.size);
    ([height, width, 3], preprocess.fit == Fit::Tight)
}

/// The rows of a classifier as the inputs of a file that has none.
fn rows(rows: &Rows, usage: &Usage) -> Vec<(String, TensorData)> {
    let named = |name: &str, data: TensorData| (name.to_string(), data);
    match usage {
        Usage::Capl(_) => vec![named("prototypes", rows.vectors.to_data())],
        Usage::Prototypes(usage) => {
            let owners: Vec<i64> = rows.owners.iter().map(|&owner| i64::from(owner)).collect();
            let count = owners.len();
            let compared = [
                named("prototypes", rows.vectors.to_data()),
                named("owners", TensorData::new(owners, [count])),
            ];
            let head = rows.head.as_ref().map(|head| named("head_prototypes", head.to_data()));
            compared.into_iter().filter(|_| usage.compares_rows()).chain(head).collect()
        }
    }
}

impl OnnxFile {
    fn new(
        builder: Builder,
        model: &Model,
        metadata: Vec<(&'static str, String)>,
    ) -> Result<Self, ExportError> {
        let entry = |(key, value): (&str, String)| StringStringEntryProto {
            key: Some(key.to_string()),
            value: Some(value),
        };
        let opset = OperatorSetIdProto { domain: Some(String::new()), version: Some(OPSET) };
        let model = ModelProto {
            ir_version: Some(IR_VERSION),
            producer_name: Some("protoseg".to_string()),
            producer_version: Some(env!("CARGO_PKG_VERSION").to_string()),
            doc_string: Some(metadata::description(model)),
            graph: Some(builder.finish()),
            opset_import: vec![opset],
            metadata_props: metadata.into_iter().map(entry).collect(),
        };
        let bytes = model.encoded_len();
        if bytes > MOST_BYTES {
            return Err(ExportError::TooLarge { bytes });
        }
        Ok(Self { model, rows: Vec::new() })
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        self.model.encode_to_vec()
    }

    /// Writes the file: whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ExportError> {
        Ok(write_atomic(path.as_ref(), &self.bytes())?)
    }

    /// What to give to its inputs beside the image, to get the classes that it was exported with. Nothing if they are in
    /// the file.
    pub fn rows(&self) -> &[(String, TensorData)] {
        &self.rows
    }

    /// Writes [`Self::rows`] to a safetensors file.
    pub fn save_rows(&self, path: impl AsRef<Path>) -> Result<(), ExportError> {
        Ok(write_safetensors(path.as_ref(), self.rows.clone(), HashMap::new())?)
    }

    /// What is said of the file in it, by key.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &str)> {
        self.model.metadata_props.iter().map(|entry| (entry.key(), entry.value()))
    }

    /// What goes in.
    pub fn inputs(&self) -> Vec<Port> {
        self.graph().input.iter().map(Port::new).collect()
    }

    /// What comes out.
    pub fn outputs(&self) -> Vec<Port> {
        self.graph().output.iter().map(Port::new).collect()
    }

    /// Number of nodes.
    pub fn n_nodes(&self) -> usize {
        self.graph().node.len()
    }

    fn graph(&self) -> &proto::GraphProto {
        self.model.graph.as_ref().expect("an export has a graph")
    }
}

impl Port {
    fn new(info: &proto::ValueInfoProto) -> Self {
        let tensor = info.r#type.as_ref().and_then(|of| of.tensor_type.as_ref());
        let element = match tensor.map_or(0, |tensor| tensor.elem_type()) {
            data_type::FLOAT => "float32",
            data_type::UINT8 => "uint8",
            data_type::INT32 => "int32",
            _ => "int64",
        };
        let length = |dim: &proto::Dimension| match &dim.value {
            Some(proto::DimensionValue::Value(length)) => length.to_string(),
            Some(proto::DimensionValue::Param(name)) => name.clone(),
            None => "?".to_string(),
        };
        let dims = tensor.and_then(|tensor| tensor.shape.as_ref()).map(|shape| &shape.dim[..]);
        let shape = dims.unwrap_or_default().iter().map(length).collect();
        Self { name: info.name().to_string(), element, shape }
    }
}
