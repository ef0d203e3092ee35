//! ASGNet (Li et al. 2021): superpixel-guided clustering.

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
pub struct Asgnet {}

/// What it adds to its encoder.
#[derive(Module, Debug)]
pub struct AsgnetWeights {}

impl Asgnet {
    pub(super) fn init(&self, _: &FeatureShape, _: &Device) -> AsgnetWeights {
        todo!()
    }
}

impl Episodic for Asgnet {
    fn name(&self) -> &'static str {
        "asgnet"
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
