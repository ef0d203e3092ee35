//! CAPL in the classic few-shot setting, on PANet or PFENet.

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
pub struct CaplFewShot {}

/// What it adds to its encoder.
#[derive(Module, Debug)]
pub struct CaplFewShotWeights {}

impl CaplFewShot {
    pub(super) fn init(&self, _: &FeatureShape, _: &Device) -> CaplFewShotWeights {
        todo!()
    }
}

impl Episodic for CaplFewShot {
    fn name(&self) -> &'static str {
        "capl_few_shot"
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
