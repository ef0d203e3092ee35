//! How training pictures are varied.

use protoseg_core::{Augment, CropFit, Cropper, Preprocess};
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;

/// How crops are varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AugmentPlan {
    /// How a picture reaches the crop: `crop`, `squash` or `letterbox`.
    #[serde(skip_serializing_if = "is_crop")]
    pub fit: CropFit,
    /// Smallest and largest scale.
    pub scale: [f64; 2],
    /// Largest rotation to either side in degrees, and how often.
    pub rotate: f64,
    /// How often a crop is rotated.
    pub rotate_p: f64,
    /// How often it is blurred.
    pub blur_p: f64,
    /// How often it is flipped left to right.
    pub flip_p: f64,
    /// How often it is turned upside down.
    #[serde(skip_serializing_if = "is_zero")]
    pub flip_vertical_p: f64,
    /// Of the supports of an episode, if they are varied otherwise than its query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports: Option<Box<AugmentPlan>>,
}

impl Default for AugmentPlan {
    fn default() -> Self {
        let Augment { scale, rotate, rotate_p, blur_p, flip_p, .. } = Augment::reference(1);
        Self {
            fit: CropFit::Crop,
            scale,
            rotate: rotate[1],
            rotate_p,
            blur_p,
            flip_p,
            flip_vertical_p: 0.0,
            supports: None,
        }
    }
}

impl AugmentPlan {
    /// For crops of this side, normalised as by `preprocess`.
    pub fn cropper(&self, crop: usize, preprocess: &Preprocess) -> Cropper {
        let &Self { fit, scale, rotate, rotate_p, blur_p, flip_p, flip_vertical_p, .. } = self;
        let &Preprocess { mean, std, .. } = preprocess;
        let rotate = [-rotate, rotate];
        let reference = Augment::reference(crop);
        let augment = Augment { scale, rotate, rotate_p, blur_p, flip_p, mean, std, ..reference };
        Cropper { augment, fit, flip_vertical_p }
    }

    /// Refuses impossible values.
    pub(super) fn check(&self, table: &str) -> Result<(), ConfigError> {
        let refuse = |key: &str, got: String, expected: &'static str| {
            Err(ConfigError::new(format!("{table}.{key}"), got, expected))
        };
        let [least, most] = self.scale;
        if !(0.1..=10.0).contains(&least) || !(least..=10.0).contains(&most) {
            let got = format!("[{least}, {most}]");
            return refuse("scale", got, "two numbers from 0.1 to 10, the smaller first");
        }
        if !(0.0..=180.0).contains(&self.rotate) {
            return refuse("rotate", self.rotate.to_string(), "0 to 180 degrees");
        }
        let chances = [
            ("rotate_p", self.rotate_p),
            ("blur_p", self.blur_p),
            ("flip_p", self.flip_p),
            ("flip_vertical_p", self.flip_vertical_p),
        ];
        for (key, chance) in chances {
            if !(0.0..=1.0).contains(&chance) {
                return refuse(key, chance.to_string(), "a probability from 0 to 1");
            }
        }
        match &self.supports {
            Some(supports) if supports.supports.is_some() => {
                refuse("supports.supports", "a table".to_string(), "left out")
            }
            Some(supports) => supports.check(&format!("{table}.supports")),
            None => Ok(()),
        }
    }
}

fn is_crop(fit: &CropFit) -> bool {
    *fit == CropFit::Crop
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
