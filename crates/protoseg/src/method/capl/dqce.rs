//! Equations (5) and (6): DQCE (dynamic query contextual enrichment). Each image adapts the base prototypes to itself.
//!
//! `y = score(F(q), P_cls)`; `A` = softmax of each class's scores over the positions; `p_qry = A F(q)`;
//! `p_dyn` = a mix of p_cls and p_qry by the gate G_qry. Which of the two the gate weighs, and whether a negative
//! cosine counts, are rows a and b of [`Options`].

use burn::tensor::{Tensor, activation::softmax};

use super::{
    gate::{GammaMlp, Gate},
    options::{GateWeighs, Options},
};
use crate::method::cosine::scores;

/// How prototypes follow the query.
#[derive(Clone, Copy)]
pub struct Dqce<'a> {
    /// G_qry.
    pub gate: Gate,
    /// Its network, if it has one.
    pub mlp: Option<&'a GammaMlp>,
}

/// p_dyn of every class for every image.
///
/// - `learned`: P_cls, `[classes, d]`
/// - `features`: F(q), `[batch, d, h, w]`
/// - result: `[batch, classes, d]`
pub fn dynamic_prototypes(
    learned: Tensor<2>,
    features: Tensor<4>,
    dqce: Dqce<'_>,
    options: &Options,
) -> Tensor<3> {
    let [batch, _, _, _] = features.dims();
    let [classes, dim] = learned.dims();
    let learned: Tensor<3> = learned.unsqueeze();
    let attended = attend(features, learned.clone());

    let learned = learned.expand([batch, classes, dim]);
    let weight = dqce.gate.weight(learned.clone(), attended.clone(), dqce.mlp);
    let is_cosine = matches!(dqce.gate, Gate::Cosine | Gate::CosineSwapped);
    let weight = if is_cosine && options.query_gate_clamp { weight.clamp_min(0.0) } else { weight };
    let rest = weight.clone().neg().add_scalar(1.0);
    let weighs_query = (options.query_gate_weighs == GateWeighs::Query) != dqce.gate.is_swapped();
    if weighs_query { attended * weight + learned * rest } else { learned * weight + attended * rest }
}

/// (5): p_qry, the features of an image averaged by each class's attention over the positions. `[batch, classes, d]`.
fn attend(features: Tensor<4>, learned: Tensor<3>) -> Tensor<3> {
    let [batch, dim, height, width] = features.dims();
    let classes = learned.dims()[1];
    let scores = scores(features.clone(), learned).reshape([batch, classes, height * width]);
    let pixels = features.reshape([batch, dim, height * width]).swap_dims(1, 2);
    softmax(scores, 2).matmul(pixels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{device::cpu, method::capl::options::Preset};
    use protoseg_testing::assert_close;

    /// One class (2, 0); pixels (1, 0) and (0, 3). Scores 10 and 0, attention a and 1 - a.
    fn run(gate: Gate, options: &Options) -> [f32; 2] {
        let learned = Tensor::<2>::from_floats([[2.0, 0.0]], &cpu());
        let features = Tensor::<1>::from_floats([1.0, 0.0, 0.0, 3.0], &cpu()).reshape([1, 2, 1, 2]);
        let out = dynamic_prototypes(learned, features, Dqce { gate, mlp: None }, options);
        out.try_into_vec_as().unwrap().try_into().unwrap()
    }

    fn attended() -> [f32; 2] {
        let a = 1.0 / (1.0 + (-10f32).exp());
        [a, 3.0 * (1.0 - a)]
    }

    #[track_caller]
    fn close(got: [f32; 2], expected: [f32; 2]) {
        assert_close("prototype", &got, &expected, 1e-5);
    }

    #[test]
    fn constant_gate_by_hand_weighs_the_query_in_the_reference_and_the_class_in_print() {
        let [x, y] = attended();
        close(run(Gate::Constant(0.25), &Preset::Reference.options()), [0.25 * x + 1.5, 0.25 * y]);
        close(run(Gate::Constant(0.25), &Preset::Paper.options()), [0.75 * x + 0.5, 0.75 * y]);
    }

    #[test]
    fn cosine_gate_by_hand() {
        let [x, y] = attended();
        let g = x / x.hypot(y);
        close(run(Gate::Cosine, &Preset::Reference.options()), [g * x + (1.0 - g) * 2.0, g * y]);
        close(
            run(Gate::CosineSwapped, &Preset::Reference.options()),
            [g * 2.0 + (1.0 - g) * x, (1.0 - g) * y],
        );
    }

    #[test]
    fn a_negative_cosine_counts_as_zero_where_the_options_say_so() {
        // Every pixel is (-1, 0): p_qry = (-1, 0), cosine -1 with (2, 0).
        let learned = Tensor::<2>::from_floats([[2.0, 0.0]], &cpu());
        let features = Tensor::<1>::from_floats([-1.0, -1.0, 0.0, 0.0], &cpu()).reshape([1, 2, 1, 2]);
        let run = |options: &Options| -> Vec<f32> {
            let dqce = Dqce { gate: Gate::Cosine, mlp: None };
            dynamic_prototypes(learned.clone(), features.clone(), dqce, options).try_into_vec_as().unwrap()
        };
        assert_eq!(run(&Preset::Reference.options()), [2.0, 0.0]);
        let mut unclamped = Preset::Reference.options();
        unclamped.query_gate_clamp = false;
        assert_eq!(run(&unclamped), [5.0, 0.0]);
    }

    #[test]
    fn a_constant_image_attends_to_itself() {
        let learned = Tensor::<2>::from_floats([[1.0, 5.0], [-2.0, 1.0]], &cpu());
        let features = Tensor::<1>::from_floats([4.0; 6], &cpu()).reshape([1, 2, 1, 3]);
        let out = attend(features, learned.unsqueeze()).try_into_vec_as::<f32>().unwrap();
        assert_close("prototypes", &out, &[4.0; 4], 1e-5);
    }
}
