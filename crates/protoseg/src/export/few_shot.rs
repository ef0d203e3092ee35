//! Few-shot systems that are one graph from supports and query to the answer. What they share is here: inputs, maps of
//! queries and supports, masks on the grid of a map, convolutions of their own.
//!
//! The others are refused by name: RePRI and CWT fit a classifier to each episode by gradient steps, ASGNet clusters until
//! nothing moves, CAPL keeps another answer where it finds nothing.

use burn::nn::conv::Conv2d;
use protoseg_core::GridPlacement;

use super::{
    ExportError, OnnxFile,
    builder::{Builder, Length, Value},
    canet, canvas, hsnet,
    layers::lower,
    matching, metadata,
    ops::Size,
    pfenet,
    proto::data_type,
    scl,
    scores::on_canvas,
};
use crate::{
    bridge::ConvGeometry,
    graph::{fold::Folded, shape::MapShape},
    method::Method,
    model::Model,
    network::Section,
    nn::ConvWeights,
};

/// A few-shot model as a file: `image`, `support_images` and `support_masks` go in, `labels` and `scores` of background
/// and class come out.
pub fn export_few_shot(model: &Model) -> Result<OnnxFile, ExportError> {
    let (shape, _) = canvas(model);
    let [height, width, _] = shape;
    let mut builder = Builder::new("protoseg");
    let episode = Episode::new(&mut builder, model, [height, width]);
    let (grid, placement) = match &model.manifest().method {
        Method::Panet(_) | Method::Mining(_) => matching::scores(&mut builder, model, &episode)?,
        Method::Canet(settings) => {
            (canet::scores(&mut builder, model, settings, &episode)?, GridPlacement::Corners)
        }
        Method::Pfenet(settings) => {
            (pfenet::scores(&mut builder, model, settings, &episode)?, GridPlacement::Corners)
        }
        Method::Scl(settings) => scl::scores(&mut builder, model, settings, &episode)?,
        Method::Hsnet(_) => (hsnet::scores(&mut builder, model, &episode)?, GridPlacement::Corners),
        other => return Err(ExportError::Episodic { method: other.name() }),
    };
    let (labels, scores) = on_canvas(&mut builder, &grid, &Size::Fixed([height, width]), placement);
    let batch = || Length::Free("batch");
    let shape = [batch(), height.into(), width.into()];
    builder.output("labels", &labels, data_type::INT32, &shape, "1 where the class is, 0 elsewhere");
    let shape = [batch(), 2.into(), height.into(), width.into()];
    builder.output("scores", &scores, data_type::FLOAT, &shape, "of background and class at every pixel");
    OnnxFile::new(builder, model, metadata::few_shot_entries(model))
}

/// Inputs of a file. Queries and supports go through the encoder together.
pub(super) struct Episode {
    /// All images, normalised, queries first.
    images: Value,
    /// How many of them are queries.
    pub queries: Value,
    /// `[shots, height, width]`, as floats.
    pub masks: Value,
    /// Of the canvas.
    pub size: [usize; 2],
}

/// A map inside the network, of all images: queries first.
#[derive(Clone)]
pub(super) struct Map {
    pub value: Value,
    pub shape: MapShape,
}

impl Map {
    pub fn size(&self) -> [usize; 2] {
        [self.shape[0], self.shape[1]]
    }
}

impl Episode {
    fn new(builder: &mut Builder, model: &Model, size: [usize; 2]) -> Self {
        let preprocess = model.preprocess();
        let [height, width] = size;
        let images = |count| [Length::Free(count), height.into(), width.into(), 3.into()];
        let doc = "pictures on the canvas, red green blue";
        let image = builder.input("image", data_type::UINT8, &images("batch"), doc);
        let doc = "pictures on the canvas that show the class";
        let supports = builder.input("support_images", data_type::UINT8, &images("shots"), doc);
        let shape = [Length::Free("shots"), height.into(), width.into()];
        let doc = "1 where the class is, 0 elsewhere in the picture, 255 beside it";
        let masks = builder.input("support_masks", data_type::UINT8, &shape, doc);
        let masks = builder.cast("masks", &masks, data_type::FLOAT);
        let all = builder.concat("images", &[&image, &supports], 0);
        let images = builder.normalised("images", &all, preprocess.mean, preprocess.std);
        let queries = builder.shape("batch", &image, 0, Some(1));
        Self { images, queries, masks, size }
    }

    /// Maps of a part of the network that begins with the images.
    pub fn maps(
        &self,
        builder: &mut Builder,
        model: &Model,
        section: &Section,
    ) -> Result<Vec<Map>, ExportError> {
        let [height, width] = self.size;
        run(builder, model, section, &Map { value: self.images.clone(), shape: [height, width, 3] })
    }

    /// A map of queries and one of supports.
    pub fn split(&self, builder: &mut Builder, name: &str, map: &Value) -> [Value; 2] {
        let (zero, end) = (builder.ints(&[0]), builder.ints(&[i64::from(i32::MAX)]));
        let query = format!("{name}.query");
        let query = builder.node("Slice", &query, &[map, &zero, &self.queries, &zero], Vec::new());
        let support = format!("{name}.support");
        let support = builder.node("Slice", &support, &[map, &self.queries, &end, &zero], Vec::new());
        [query, support]
    }

    /// Where the class is, on a grid: `[shots, 1, h, w]`, corners on corners.
    pub fn mask_on(&self, builder: &mut Builder, size: [usize; 2]) -> Value {
        let class = builder.scalar(1.0);
        let is_class = builder.binary("Equal", "mask.is", &self.masks, &class);
        let mask = builder.cast("mask.float", &is_class, data_type::FLOAT);
        let [height, width] = self.size;
        let mask = builder.reshape("mask.map", &mask, &[-1, 1, height as i64, width as i64]);
        builder.resize("mask.grid", &mask, &Size::Fixed(size), GridPlacement::Corners)
    }
}

/// A part of the network.
pub(super) fn run(
    builder: &mut Builder,
    model: &Model,
    section: &Section,
    input: &Map,
) -> Result<Vec<Map>, ExportError> {
    let (graph, outputs) = model.network().section(section);
    let values = lower(builder, &graph, &outputs, input.value.clone(), (input.shape, false))?;
    let shapes = graph.shapes(input.shape);
    Ok(values
        .into_iter()
        .zip(&outputs)
        .map(|(value, &output)| Map { value, shape: shapes[output] })
        .collect())
}

/// The means of features `[n, d, h, w]` under masks `[n, 1, h, w]`: `[n, d, 1, 1]`.
pub(super) fn masked_means(builder: &mut Builder, features: &Value, mask: &Value, tiny: f64) -> Value {
    let masked = builder.binary("Mul", "vector.masked", features, mask);
    let sum = builder.sum("vector.lines", &masked, 3);
    let sum = builder.sum("vector.sum", &sum, 2);
    let area = builder.sum("vector.area.lines", mask, 3);
    let area = builder.sum("vector.area", &area, 2);
    let tiny = builder.scalar(tiny as f32);
    let area = builder.binary("Add", "vector.area.some", &area, &tiny);
    builder.binary("Div", "vector.means", &sum, &area)
}

/// Vectors `[n or 1, d, 1, 1]` at every place of a map `[n, .., h, w]`, whose channels do not matter.
pub(super) fn tiled(builder: &mut Builder, name: &str, vector: &Value, like: &Value) -> Value {
    let batch = builder.shape(&format!("{name}.batch"), like, 0, Some(1));
    let size = builder.shape(&format!("{name}.size"), like, 2, Some(4));
    let one = builder.ints(&[1]);
    let shape = builder.concat(&format!("{name}.shape"), &[&batch, &one, &size], 0);
    builder.binary("Expand", name, vector, &shape)
}

/// A convolution outside the network's graph, whose weights are in the file once.
pub(super) struct Conv {
    name: String,
    weight: Value,
    bias: Option<Value>,
    kernel: usize,
    geometry: ConvGeometry,
}

impl Conv {
    pub fn new(builder: &mut Builder, name: &str, conv: &Conv2d) -> Self {
        let shape: [usize; 4] = conv.weight.lazy_shape().dims();
        Self::of_channels(builder, name, conv, 0..shape[1], conv.bias.is_some())
    }

    /// What some of the input's channels add, with the bias or without.
    pub fn of_channels(
        builder: &mut Builder,
        name: &str,
        conv: &Conv2d,
        channels: std::ops::Range<usize>,
        with_bias: bool,
    ) -> Self {
        let [to, from, kernel, _]: [usize; 4] = conv.weight.lazy_shape().dims();
        let Folded { weight, bias } = Folded::new(conv, None, None, &ConvWeights::default());
        let taps = kernel * kernel;
        let own = weight
            .chunks_exact(from * taps)
            .flat_map(|filter| filter[channels.start * taps..channels.end * taps].iter().copied());
        let own: Vec<f32> = own.collect();
        let weight = builder.floats(&format!("{name}.weight"), &[to, channels.len(), kernel, kernel], &own);
        let bias = with_bias.then(|| builder.floats(&format!("{name}.bias"), &[to], &bias));
        Self { name: name.to_string(), weight, bias, kernel, geometry: ConvGeometry::of(conv) }
    }

    pub fn of(&self, builder: &mut Builder, x: &Value) -> Value {
        let inputs: Vec<&Value> = [x, &self.weight].into_iter().chain(&self.bias).collect();
        builder.conv(&self.name, &inputs, self.kernel, self.geometry)
    }

    /// Followed by a ReLU.
    pub fn relu(&self, builder: &mut Builder, x: &Value) -> Value {
        let out = self.of(builder, x);
        builder.unary("Relu", &format!("{}.relu", self.name), &out)
    }
}
