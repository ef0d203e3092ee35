//! CANet (Zhang et al. 2019): dense comparison and iterative refinement.

use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::{BaseClasses, Encoded, Episodes, Episodic, FeatureShape, Losses, Maps, Vision};
use crate::network::Network;

/// Its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Canet {}

/// What it adds to its encoder.
#[derive(Module, Debug)]
pub struct CanetWeights {}

impl Canet {
    pub(super) fn init(&self, _: &FeatureShape, _: &Device) -> CanetWeights {
        todo!()
    }
}

impl Episodic for Canet {
    fn name(&self) -> &'static str {
        "canet"
    }

    fn encode(&self, _: &Vision<'_>, _: Tensor<4>) -> Maps {
        todo!()
    }

    fn answer(&self, _: &Network, _: &Encoded<'_>) -> Tensor<4> {
        todo!()
    }

    fn losses(&self, _: &Vision<'_>, _: BaseClasses, _: &Episodes<'_>, _: &mut dyn RngCore) -> Losses {
        todo!()
    }
}
