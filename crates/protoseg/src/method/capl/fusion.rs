//! Equation (7): the classifier of one image, `p_capl = p + p_dyn` for base classes, beside the novel prototypes.

use burn::tensor::Tensor;

use super::{
    dqce::{Dqce, dynamic_prototypes},
    options::{Fusion, Options},
};
use crate::method::cosine::unit;

/// The prototypes that each image of a batch is scored with, `[1 or batch, base + novel, d]`.
///
/// - `bank`: p, the registered (or, in training, the formed) classifier, `[base + novel, d]`
/// - `learned`: the learned base rows P_cls, `[base, d]`
/// - `features`: F(q), `[batch, d, h, w]`
pub fn image_prototypes(
    bank: Tensor<2>,
    learned: Tensor<2>,
    features: Tensor<4>,
    dqce: Option<Dqce<'_>>,
    options: &Options,
) -> Tensor<3> {
    let [rows, dim] = bank.dims();
    let n_base = learned.dims()[0];
    let batch = features.dims()[0];
    let bank: Tensor<3> = bank.unsqueeze();
    let Some(dqce) = dqce else {
        return bank;
    };
    let dynamic = dynamic_prototypes(learned, features, dqce, options);
    let dynamic = match options.fusion {
        Fusion::Raw => dynamic,
        Fusion::Unit => unit(dynamic),
    };
    let base = dynamic + bank.clone().slice_dim(1, 0..n_base);
    if rows == n_base {
        return base;
    }
    let novel = bank.slice_dim(1, n_base..rows).expand([batch, rows - n_base, dim]);
    Tensor::cat(vec![base, novel], 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::cpu,
        method::capl::{gate::Gate, options::Preset},
    };
    use protoseg_testing::assert_close;

    #[test]
    fn sum_by_hand_raw_and_unit() {
        // p_dyn is the learned row itself when the gate gives p_qry no weight.
        let bank = Tensor::<2>::from_floats([[0.0, 1.0], [1.0, 0.0]], &cpu());
        let learned = Tensor::<2>::from_floats([[3.0, 4.0]], &cpu());
        let features = Tensor::<4>::ones([2, 2, 1, 1], &cpu());
        let run = |preset: Preset| -> Vec<f32> {
            let dqce = Dqce { gate: Gate::Constant(0.0), mlp: None };
            let out = image_prototypes(
                bank.clone(),
                learned.clone(),
                features.clone(),
                Some(dqce),
                &preset.options(),
            );
            assert_eq!(out.dims(), [2, 2, 2]);
            out.try_into_vec_as().unwrap()
        };
        assert_eq!(run(Preset::Reference)[..4], [3.0, 5.0, 1.0, 0.0]);
        let unit = run(Preset::Balanced);
        assert_close("unit", &unit[..2], &[0.6, 1.8], 1e-6);
        assert_eq!(unit[2..4], [1.0, 0.0]);
    }
}
