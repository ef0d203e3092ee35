//! Few-shot systems that are one graph from supports and query to the answer: those that compare the query with masked
//! means of the supports (PANet, the baseline of mining latent classes).
//!
//! The others are not: RePRI and CWT fit a classifier to each episode by gradient steps, ASGNet clusters until nothing
//! moves, CAPL keeps another answer where it finds nothing; PFENet, CANet, SCL and HSNet have layers of their own that
//! lie outside the [`graph`](crate::graph). They are refused by name.

use protoseg_core::GridPlacement;

use super::{
    ExportError, OnnxFile,
    builder::{Builder, Length, Value},
    canvas,
    layers::lower,
    metadata,
    ops::Size,
    proto::data_type,
    scores::{FeatureMap, on_canvas, pixels},
};
use crate::{
    method::{Method, cosine, mask::TINY_AREA, panet},
    model::Model,
    network::{Section, Tap},
    nn::{resize_centred_weights, upsample_weights},
};

/// How such a system compares.
struct Matching {
    features: Section,
    /// What a cosine is multiplied by.
    alpha: f32,
    /// How features lie on masks and canvas.
    placement: GridPlacement,
}

impl Matching {
    fn of(method: &Method) -> Option<Self> {
        let (features, alpha, placement) = match method {
            Method::Panet(_) => (Section::Features, panet::ALPHA, GridPlacement::Centres),
            Method::Mining(_) => (Section::Maps(vec![Tap::Signed(3)]), cosine::ALPHA, GridPlacement::Corners),
            _ => return None,
        };
        Some(Self { features, alpha: alpha as f32, placement })
    }
}

/// A few-shot model as a file: `image`, `support_images` and `support_masks` go in, `labels` and `scores` of background
/// and class come out.
pub fn export_few_shot(model: &Model) -> Result<OnnxFile, ExportError> {
    let method = &model.manifest().method;
    let Some(matching) = Matching::of(method) else {
        return Err(ExportError::Episodic { method: method.name() });
    };
    let (shape, _) = canvas(model);
    let [height, width, _] = shape;
    let size = [height, width];
    let mut builder = Builder::new("protoseg");
    let maps = features(&mut builder, model, &matching, size)?;
    let prototypes = prototypes(&mut builder, &matching, &maps.supports, &maps.masks, size);

    let directions = builder.unit("prototypes", &prototypes, 2);
    let alpha = builder.scalar(matching.alpha);
    let directions = builder.binary("Mul", "prototypes.scaled", &directions, &alpha);
    let (query, norms) = pixels(&mut builder, "query", &maps.query);
    let products = builder.binary("MatMul", "products", &directions, &query);
    let cosines = builder.binary("Div", "cosines", &products, &norms);
    let grid = builder.as_map("grid", &cosines, &maps.query.size());
    let (labels, scores) = on_canvas(&mut builder, &grid, &Size::Fixed(size), matching.placement);
    let batch = || Length::Free("batch");
    let shape = [batch(), height.into(), width.into()];
    builder.output("labels", &labels, data_type::INT32, &shape, "1 where the class is, 0 elsewhere");
    let shape = [batch(), 2.into(), height.into(), width.into()];
    builder.output("scores", &scores, data_type::FLOAT, &shape, "of background and class at every pixel");
    OnnxFile::new(builder, model, metadata::few_shot_entries(model))
}

struct Maps {
    query: FeatureMap,
    supports: FeatureMap,
    /// `[shots, height, width]`, as floats.
    masks: Value,
}

/// Inputs, and the features of queries and supports: both go through the network together.
fn features(
    builder: &mut Builder,
    model: &Model,
    matching: &Matching,
    [height, width]: [usize; 2],
) -> Result<Maps, ExportError> {
    let preprocess = model.preprocess();
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
    let planes = builder.normalised("images", &all, preprocess.mean, preprocess.std);
    let (graph, outputs) = model.network().section(&matching.features);
    let canvas = [height, width, 3];
    let values = lower(builder, &graph, &outputs, planes, (canvas, false))?;
    let count = builder.shape("batch", &image, 0, Some(1));
    let (zero, end) = (builder.ints(&[0]), builder.ints(&[i64::from(i32::MAX)]));
    let query = builder.node("Slice", "query", &[&values[0], &zero, &count, &zero], Vec::new());
    let support = builder.node("Slice", "supports", &[&values[0], &count, &end, &zero], Vec::new());
    let shape = graph.shapes(canvas)[outputs[0]];
    let map = |value| FeatureMap { value, shape, is_free: false };
    Ok(Maps { query: map(query), supports: map(support), masks })
}

/// The mean feature of background and class over all pixels of the masks, as if features were resized up to them, and the
/// mean of that over the shots: `[1, 2, d]`. Masks are brought down to the features instead, by transposed weights.
fn prototypes(
    builder: &mut Builder,
    matching: &Matching,
    supports: &FeatureMap,
    masks: &Value,
    [height, width]: [usize; 2],
) -> Value {
    let weights = match matching.placement {
        GridPlacement::Corners => upsample_weights,
        GridPlacement::Centres => resize_centred_weights,
    };
    let [h, w, dim] = supports.shape;
    // `weights` are `[height][h]`; down the masks they are needed transposed.
    let rows = weights(h, height);
    let rows: Vec<f32> = (0..h).flat_map(|at| rows.iter().map(move |row| row[at])).collect();
    let rows = builder.floats("masks.rows", &[h, height], &rows);
    let columns = builder.floats("masks.columns", &[width, w], &weights(w, width).concat());
    let tiny = builder.scalar(TINY_AREA);
    let mut shares = Vec::new();
    for (class, name) in [(0.0, "background"), (1.0, "class")] {
        let at = |part: &str| format!("masks.{name}.{part}");
        let class = builder.scalar(class);
        let is_class = builder.binary("Equal", &at("is"), masks, &class);
        let mask = builder.cast(&at("mask"), &is_class, data_type::FLOAT);
        let lines = builder.sum(&at("lines"), &mask, 2);
        let area = builder.sum(&at("area"), &lines, 1);
        let area = builder.binary("Add", &at("some"), &area, &tiny);
        let across = builder.binary("MatMul", &at("across"), &mask, &columns);
        let down = builder.binary("MatMul", &at("down"), &rows, &across);
        let share = builder.binary("Div", &at("share"), &down, &area);
        shares.push(builder.reshape(&at("positions"), &share, &[0, 1, -1]));
    }
    let shares = builder.concat("masks.shares", &shares.iter().collect::<Vec<_>>(), 1);
    let pixels = builder.reshape("supports.pixels", &supports.value, &[0, dim as i64, -1]);
    let pixels = builder.transpose("supports.rows", &pixels, &[0, 2, 1]);
    let means = builder.binary("MatMul", "supports.means", &shares, &pixels);
    builder.reduce("ReduceMean", "supports.mean", &means, &[0])
}
