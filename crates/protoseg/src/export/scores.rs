//! From features to the scores of the classes: what the methods do, as nodes of ONNX.

use burn::tensor::Tensor;
use protoseg_core::{GridPlacement, IMAGE_PRIOR_LEAST_SHARE, IMAGE_PRIOR_ROUNDS};

use super::{
    ClassesAs, ExportError,
    builder::{Attribute, Builder, Length, Value},
    layers::lower,
    ops::Size,
    proto::data_type,
};
use crate::{
    graph::{Graph, shape::MapShape},
    method::{
        MethodWeights, Rows, Usage,
        capl::{
            self, CaplWeights,
            dqce::Dqce,
            gate::Gate,
            options::{Fusion, GateWeighs},
        },
        cosine::{ALPHA, unit},
        prototypes::PrototypeUsage,
    },
};

/// Where features lie, and what is known of them.
#[derive(Clone)]
pub(super) struct FeatureMap {
    pub value: Value,
    /// `[height, width, channels]`; height and width are an example if the map is free.
    pub shape: MapShape,
    pub is_free: bool,
}

impl FeatureMap {
    pub fn size(&self) -> Size {
        let [height, width, _] = self.shape;
        if self.is_free { Size::Of(self.value.clone()) } else { Size::Fixed([height, width]) }
    }

    fn dim(&self) -> usize {
        self.shape[2]
    }

    fn with(&self, value: Value, dim: usize) -> Self {
        let [height, width, _] = self.shape;
        Self { value, shape: [height, width, dim], is_free: self.is_free }
    }
}

/// What the classifier makes of an image.
pub(super) struct Scored {
    /// `[batch, classes, h, w]`
    pub scores: Value,
    /// The maps that rows are compared with, by the names they have as outputs.
    pub features: Vec<(&'static str, FeatureMap)>,
}

/// Rows of a classifier.
enum Bank<'a> {
    Baked(&'a Tensor<2>),
    /// `[rows, d]`
    Input(Value),
}

/// Adds everything from features to the scores of the classes on the features' grid.
pub(super) fn score(
    builder: &mut Builder,
    (usage, method): (&Usage, &MethodWeights),
    (rows, n_base): (&Rows, usize),
    features: FeatureMap,
    classes: ClassesAs,
) -> Result<Scored, ExportError> {
    match usage {
        Usage::Capl(usage) => {
            let bank = bank(builder, ("prototypes", "features"), "classes", &rows.vectors, classes);
            let scores = capl(builder, "classes", (usage, method.capl()), n_base, &bank, &features);
            Ok(Scored { scores, features: vec![("features", features)] })
        }
        Usage::Prototypes(usage) => prototypes(builder, usage, method, (rows, n_base), &features, classes),
    }
}

/// Rows as a constant to come, or as an input of the file.
fn bank<'a>(
    builder: &mut Builder,
    (name, of): (&str, &str),
    length: &'static str,
    rows: &'a Tensor<2>,
    classes: ClassesAs,
) -> Bank<'a> {
    match classes {
        ClassesAs::Baked => Bank::Baked(rows),
        ClassesAs::Input => {
            let shape = [Length::Free(length), rows.dims()[1].into()];
            let doc = format!("means of `{of}` over the pixels of a class");
            Bank::Input(builder.input(name, data_type::FLOAT, &shape, &doc))
        }
    }
}

/// `scale` times the cosines of pixels and rows: `[batch, rows, h, w]` of a bank that is baked, else
/// `[batch, rows, positions]`.
fn cosines(builder: &mut Builder, name: &str, features: &FeatureMap, bank: &Bank<'_>, scale: f32) -> Value {
    match bank {
        Bank::Baked(rows) => {
            let [count, dim] = rows.dims();
            let weight = values(unit((*rows).clone()).mul_scalar(scale));
            let products = builder.point_conv(name, &features.value, [count, dim], &weight, None);
            let norms = builder.norms(&format!("{name}.pixels"), &features.value, 1);
            builder.binary("Div", &format!("{name}.cosines"), &products, &norms)
        }
        Bank::Input(rows) => {
            let directions = builder.unit(&format!("{name}.rows"), rows, 1);
            let scale = builder.scalar(scale);
            let directions = builder.binary("Mul", &format!("{name}.scaled"), &directions, &scale);
            let (pixels, norms) = pixels(builder, name, features);
            let products = builder.binary("MatMul", name, &directions, &pixels);
            builder.binary("Div", &format!("{name}.cosines"), &products, &norms)
        }
    }
}

/// Features as `[batch, d, positions]`, and their norms.
pub(super) fn pixels(builder: &mut Builder, name: &str, features: &FeatureMap) -> (Value, Value) {
    let name = format!("{name}.pixels");
    let pixels = builder.reshape(&name, &features.value, &[0, features.dim() as i64, -1]);
    let norms = builder.norms(&name, &pixels, 1);
    (pixels, norms)
}

/// Equations (2) and (5) to (7) of CAPL: `[batch, classes, h, w]`.
fn capl(
    builder: &mut Builder,
    name: &str,
    (usage, weights): (&capl::Usage, &CaplWeights),
    n_base: usize,
    bank: &Bank<'_>,
    features: &FeatureMap,
) -> Value {
    let Some(gate) = usage.dqce_gate() else {
        let cosines = cosines(builder, name, features, bank, ALPHA as f32);
        return match bank {
            Bank::Baked(_) => cosines,
            Bank::Input(_) => builder.as_map(&format!("{name}.grid"), &cosines, &features.size()),
        };
    };
    let (pixels, norms) = pixels(builder, name, features);
    let learned = weights.learned_base(n_base);
    let dynamic = dynamic_prototypes(builder, name, (usage, weights.dqce(gate)), &learned, (&pixels, &norms));
    let prototypes = fused(builder, name, &dynamic, n_base, bank);
    let directions = builder.unit(&format!("{name}.prototypes"), &prototypes, 2);
    let alpha = builder.scalar(ALPHA as f32);
    let directions = builder.binary("Mul", &format!("{name}.scaled"), &directions, &alpha);
    let products = builder.binary("MatMul", &format!("{name}.products"), &directions, &pixels);
    let cosines = builder.binary("Div", &format!("{name}.cosines"), &products, &norms);
    builder.as_map(&format!("{name}.grid"), &cosines, &features.size())
}

/// (5) and (6): p_dyn, `[batch, base, d]`.
fn dynamic_prototypes(
    builder: &mut Builder,
    name: &str,
    (usage, dqce): (&capl::Usage, Dqce<'_>),
    learned: &Tensor<2>,
    (pixels, norms): (&Value, &Value),
) -> Value {
    let name = format!("{name}.dqce");
    let at = |part: &str| format!("{name}.{part}");
    let [n_base, dim] = learned.dims();
    let directions = values(unit(learned.clone()).mul_scalar(ALPHA));
    let directions = builder.floats(&at("directions"), &[n_base, dim], &directions);
    let products = builder.binary("MatMul", &at("products"), &directions, pixels);
    let scores = builder.binary("Div", &at("scores"), &products, norms);
    let attention = builder.softmax(&at("attention"), &scores, 2);
    let rows = builder.transpose(&at("rows"), pixels, &[0, 2, 1]);
    let attended = builder.binary("MatMul", &at("attended"), &attention, &rows);

    let own = builder.floats(&at("learned"), &[1, n_base, dim], &values(learned.clone()));
    let weight = gate(builder, &at("gate"), (usage, dqce), learned, &attended);
    let one = builder.scalar(1.0);
    let rest = builder.binary("Sub", &at("rest"), &one, &weight);
    let weighs_query = (usage.options().query_gate_weighs == GateWeighs::Query) != dqce.gate.is_swapped();
    let (of_query, of_class) = if weighs_query { (&weight, &rest) } else { (&rest, &weight) };
    let query = builder.binary("Mul", &at("of_query"), &attended, of_query);
    let class = builder.binary("Mul", &at("of_class"), &own, of_class);
    let dynamic = builder.binary("Add", &at("dynamic"), &query, &class);
    match usage.options().fusion {
        Fusion::Raw => dynamic,
        Fusion::Unit => builder.unit(&at("dynamic"), &dynamic, 2),
    }
}

/// G_qry: the weight of each class, `[batch, base, 1]` or one for all.
fn gate(
    builder: &mut Builder,
    name: &str,
    (usage, dqce): (&capl::Usage, Dqce<'_>),
    learned: &Tensor<2>,
    attended: &Value,
) -> Value {
    let at = |part: &str| format!("{name}.{part}");
    let [n_base, dim] = learned.dims();
    match dqce.gate {
        Gate::Constant(value) => builder.scalar(value as f32),
        Gate::Cosine | Gate::CosineSwapped => {
            let own = values(unit(learned.clone()));
            let own = builder.floats(&at("learned"), &[1, n_base, dim], &own);
            let other = builder.unit(&at("attended"), attended, 2);
            let products = builder.binary("Mul", &at("products"), &own, &other);
            let cosine = builder.sum(&at("cosine"), &products, 2);
            if !usage.options().query_gate_clamp {
                return cosine;
            }
            let zero = builder.scalar(0.0);
            builder.binary("Max", &at("clamped"), &cosine, &zero)
        }
        Gate::Mlp => {
            let mlp = dqce.mlp.expect("a model with an MLP gate carries its weights");
            let hidden = mlp.hidden.val();
            // The learned rows' share of the hidden layer is the same for every image.
            let own = learned.clone().matmul(hidden.clone().slice_dim(1, 0..dim).transpose());
            let own = builder.floats(&at("own"), &[1, n_base, dim], &values(own));
            let weight = values(hidden.slice_dim(1, dim..2 * dim).transpose());
            let weight = builder.floats(&at("hidden.weight"), &[dim, dim], &weight);
            let out = builder.floats(&at("out.weight"), &[dim, 1], &values(mlp.out.val()));
            let bias = builder.floats(&at("out.bias"), &[1], &values(mlp.bias.val()));
            let other = builder.binary("MatMul", &at("other"), attended, &weight);
            let hidden = builder.binary("Add", &at("hidden"), &other, &own);
            let hidden = builder.unary("Relu", &at("relu"), &hidden);
            let product = builder.binary("MatMul", &at("out"), &hidden, &out);
            let sum = builder.binary("Add", &at("sum"), &product, &bias);
            builder.unary("Sigmoid", &at("sigmoid"), &sum)
        }
    }
}

/// (7): `p + p_dyn` for base classes, p for novel ones, `[batch, classes, d]`. To a novel class zeros are added.
fn fused(builder: &mut Builder, name: &str, dynamic: &Value, n_base: usize, bank: &Bank<'_>) -> Value {
    let at = |part: &str| format!("{name}.{part}");
    let (rows, pads) = match bank {
        Bank::Baked(rows) => {
            let [count, dim] = rows.dims();
            let value = builder.floats(&at("rows"), &[count, dim], &values((*rows).clone()));
            let pads = (count > n_base).then(|| builder.ints(&[0, 0, 0, 0, (count - n_base) as i64, 0]));
            (value, pads)
        }
        Bank::Input(rows) => {
            let count = builder.shape(&at("count"), rows, 0, Some(1));
            let base = builder.ints(&[n_base as i64]);
            let novel = builder.binary("Sub", &at("novel"), &count, &base);
            let (before, after) = (builder.ints(&[0, 0, 0, 0]), builder.ints(&[0]));
            let pads = builder.concat(&at("pads"), &[&before, &novel, &after], 0);
            (rows.clone(), Some(pads))
        }
    };
    let dynamic = match &pads {
        None => dynamic.clone(),
        Some(pads) => {
            let mode = ("mode", Attribute::Text("constant"));
            builder.node("Pad", &at("dynamic"), &[dynamic, pads], vec![mode])
        }
    };
    builder.binary("Add", &at("fused"), &dynamic, &rows)
}

/// Prototypes without training: cosines in their space, a head's scores, or the sum of both; and the image prior.
fn prototypes(
    builder: &mut Builder,
    usage: &PrototypeUsage,
    method: &MethodWeights,
    (rows, n_base): (&Rows, usize),
    features: &FeatureMap,
    classes: ClassesAs,
) -> Result<Scored, ExportError> {
    let weights = method.prototypes();
    let mut maps = Vec::new();
    let mut parts = Vec::new();
    if usage.compares_rows() {
        let space = match (&weights.whitening, &weights.emphasis) {
            (Some(whitening), _) if usage.is_whitened() => {
                let matrix = whitening.matrix.val();
                let dim = features.dim();
                let moved = values(whitening.centre.val().neg().matmul(matrix.clone()));
                let weight = values(matrix.transpose());
                let value =
                    builder.point_conv("whitening", &features.value, [dim, dim], &weight, Some(&moved));
                features.with(value, dim)
            }
            (_, Some(emphasis)) => {
                let shape = [1, features.dim(), 1, 1];
                let emphasis = builder.floats("emphasis", &shape, &values(emphasis.val()));
                let value = builder.binary("Mul", "emphasised", &features.value, &emphasis);
                features.with(value, features.dim())
            }
            _ => features.clone(),
        };
        let bank = bank(builder, ("prototypes", "features"), "rows", &rows.vectors, classes);
        parts.push(match &bank {
            Bank::Baked(_) => {
                let cosines = cosines(builder, "rows", &space, &bank, usage.scale());
                best_baked(builder, &cosines, &rows.ends(), usage.scale())
            }
            Bank::Input(_) => {
                let cosines = cosines(builder, "rows", &space, &bank, 1.0);
                let best = best_of_owners(builder, &cosines, usage.scale());
                builder.as_map("best.grid", &best, &space.size())
            }
        });
        maps.push(("features", space));
    }
    if let Some((capl_usage, head)) = usage.head(weights) {
        let (mut graph, input) = Graph::new();
        let out = head.describe(&mut graph, input);
        let value =
            lower(builder, &graph, &[out], features.value.clone(), (features.shape, features.is_free))?;
        let own = rows.head.as_ref().expect("a head that takes part has rows");
        let map = features.with(value[0].clone(), own.dims()[1]);
        let bank = bank(builder, ("head_prototypes", "head_features"), "classes", own, classes);
        parts.push(capl(builder, "head", (&capl_usage, &head.capl), n_base, &bank, &map));
        maps.push(("head_features", map));
    }
    let mut scores = parts.remove(0);
    for part in parts {
        scores = builder.binary("Add", "product", &scores, &part);
    }
    if usage.has_image_prior() && (classes == ClassesAs::Input || rows.n_classes() > 1) {
        scores = with_image_prior(builder, &scores, usage.has_background());
    }
    Ok(Scored { scores, features: maps })
}

/// `[batch, rows, h, w]` -> `[batch, classes, h, w]`: the best row of each class, whose rows end at `ends`. A class without
/// rows scores as the opposite of a pixel.
fn best_baked(builder: &mut Builder, cosines: &Value, ends: &[usize], scale: f32) -> Value {
    if ends.iter().enumerate().all(|(class, &end)| end == class + 1) {
        return cosines.clone();
    }
    let mut parts: Vec<Value> = Vec::new();
    let (mut class, mut start) = (0, 0);
    while class < ends.len() {
        // Neighbours with one row each stay together.
        let single = ends[class..].iter().zip(start + 1..).take_while(|(end, row)| *end == row).count();
        if single > 0 {
            parts.push(builder.slice("best.single", cosines, 1, start, Some(start + single)));
            (class, start) = (class + single, start + single);
            continue;
        }
        let end = ends[class];
        parts.push(if end == start {
            let one = builder.slice("best.any", cosines, 1, 0, Some(1));
            let (zero, least) = (builder.scalar(0.0), builder.scalar(-scale));
            let none = builder.binary("Mul", "best.none", &one, &zero);
            builder.binary("Add", "best.least", &none, &least)
        } else {
            let own = builder.slice("best.rows", cosines, 1, start, Some(end));
            builder.reduce("ReduceMax", "best.row", &own, &[1])
        });
        (class, start) = (class + 1, end);
    }
    match &parts[..] {
        [one] => one.clone(),
        _ => builder.concat("best", &parts.iter().collect::<Vec<_>>(), 1),
    }
}

/// The same where the input `owners` says whose each row is: `[batch, rows, positions]` ->
/// `[batch, classes, positions]`. One turn of a loop per class.
fn best_of_owners(builder: &mut Builder, cosines: &Value, scale: f32) -> Value {
    let doc = "the class of each row of `prototypes`, from 0; any order";
    let owners = builder.input("owners", data_type::INT64, &[Length::Free("rows")], doc);
    let last = ("keepdims", Attribute::Int(0));
    let last = builder.node("ReduceMax", "best.last", &[&owners], vec![last]);
    let one = builder.constant("best.one", data_type::INT64, Vec::new(), 1i64.to_le_bytes().to_vec());
    let count = builder.binary("Add", "best.count", &last, &one);
    let axis = builder.ints(&[1]);
    let column = builder.binary("Unsqueeze", "best.owners", &owners, &axis);
    let least = builder.scalar(-1.0);
    let going = builder.constant("best.start", data_type::BOOL, Vec::new(), vec![1]);

    let mut body = Builder::new("best_row");
    let class = body.input("best.class", data_type::INT64, &[], "");
    let going_on = body.input("best.going", data_type::BOOL, &[], "");
    let is_own = body.binary("Equal", "best.is_own", &column, &class);
    let own = body.node("Where", "best.own", &[&is_own, cosines, &least], Vec::new());
    let attributes = vec![("axes", Attribute::Ints(vec![1])), ("keepdims", Attribute::Int(0))];
    let best = body.node("ReduceMax", "best.of_class", &[&own], attributes);
    body.output("best.on", &going_on, data_type::BOOL, &[], "");
    let shape = [Length::Free("batch"), Length::Free("positions")];
    body.output("best.score", &best, data_type::FLOAT, &shape, "");

    let body = ("body", Attribute::Graph(body.finish()));
    let by_class = builder.node("Loop", "best", &[&count, &going], vec![body]);
    let by_image = builder.transpose("best.by_image", &by_class, &[1, 0, 2]);
    let scale = builder.scalar(scale);
    builder.binary("Mul", "best.scaled", &by_image, &scale)
}

/// [`protoseg_core::add_image_prior`], round by round.
fn with_image_prior(builder: &mut Builder, scores: &Value, has_background: bool) -> Value {
    let highest = builder.reduce("ReduceMax", "prior.highest", scores, &[1]);
    let below = builder.binary("Sub", "prior.below", scores, &highest);
    let likely = builder.unary("Exp", "prior.likely", &below);
    let least = builder.scalar(IMAGE_PRIOR_LEAST_SHARE);
    let mut prior: Option<Value> = None;
    for _ in 0..IMAGE_PRIOR_ROUNDS {
        let weighted = match &prior {
            None => likely.clone(),
            Some(prior) => builder.binary("Mul", "prior.weighted", &likely, prior),
        };
        let total = builder.sum("prior.total", &weighted, 1);
        let probable = builder.binary("Div", "prior.probable", &weighted, &total);
        let mean = builder.reduce("ReduceMean", "prior.mean", &probable, &[2, 3]);
        let share = builder.binary("Add", "prior.share", &mean, &least);
        prior = Some(if has_background {
            let background = builder.slice("prior.background", &share, 1, 0, Some(1));
            let things = builder.slice("prior.things", &share, 1, 1, None);
            let largest = builder.reduce("ReduceMax", "prior.largest", &things, &[1]);
            let things = builder.binary("Div", "prior.relative", &things, &largest);
            let one = builder.binary("Div", "prior.one", &background, &background);
            builder.concat("prior.classes", &[&one, &things], 1)
        } else {
            share
        });
    }
    let prior = prior.expect("there is at least one round");
    let offsets = builder.unary("Log", "prior.offsets", &prior);
    builder.binary("Add", "prior.scores", scores, &offsets)
}

/// Scores on the grid at the size of the canvas, and the best class of every pixel.
pub(super) fn on_canvas(
    builder: &mut Builder,
    scores: &Value,
    size: &Size,
    placement: GridPlacement,
) -> (Value, Value) {
    let scores = builder.resize("canvas", scores, size, placement);
    let attributes = vec![("axis", Attribute::Int(1)), ("keepdims", Attribute::Int(0))];
    let best = builder.node("ArgMax", "canvas.best", &[&scores], attributes);
    let labels = builder.cast("canvas.labels", &best, data_type::INT32);
    (labels, scores)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.try_into_vec_as().expect("weights are f32")
}
