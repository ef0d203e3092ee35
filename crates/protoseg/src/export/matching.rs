//! Few-shot systems that compare the query with masked means of the supports: PANet, the baseline of mining latent
//! classes.

use protoseg_core::GridPlacement;

use super::{
    ExportError,
    builder::{Builder, Value},
    few_shot::Episode,
    ops::Size,
    proto::data_type,
    scores::{FeatureMap, pixels},
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
    fn of(method: &Method) -> Self {
        let (features, alpha, placement) = match method {
            Method::Mining(_) => (Section::Maps(vec![Tap::Signed(3)]), cosine::ALPHA, GridPlacement::Corners),
            _ => (Section::Features, panet::ALPHA, GridPlacement::Centres),
        };
        Self { features, alpha: alpha as f32, placement }
    }
}

/// `[batch, 2, h, w]` on the grid of the features, and how that lies on the canvas.
pub(super) fn scores(
    builder: &mut Builder,
    model: &Model,
    episode: &Episode,
) -> Result<(Value, GridPlacement), ExportError> {
    let matching = Matching::of(&model.manifest().method);
    let features = episode.maps(builder, model, &matching.features)?.remove(0);
    let [query, support] = episode.split(builder, "features", &features.value);
    let map = |value| FeatureMap { value, shape: features.shape, is_free: false };
    let (query, support) = (map(query), map(support));
    let prototypes = prototypes(builder, &matching, &support, &episode.masks, episode.size);

    let directions = builder.unit("prototypes", &prototypes, 2);
    let alpha = builder.scalar(matching.alpha);
    let directions = builder.binary("Mul", "prototypes.scaled", &directions, &alpha);
    let size = Size::Fixed(features.size());
    let (query, norms) = pixels(builder, "query", &query);
    let products = builder.binary("MatMul", "products", &directions, &query);
    let cosines = builder.binary("Div", "cosines", &products, &norms);
    Ok((builder.as_map("grid", &cosines, &size), matching.placement))
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
