//! What a model file says beside its tensors.

use protoseg_core::{Classes, Fit, NovelPixels, Preprocess, Reliability};
use serde::{Deserialize, Serialize};

use crate::{
    config::NetworkConfig,
    decoder::DecoderKind,
    encoder::EncoderConfig,
    method::{
        Method,
        capl::{Ablation, Capl, Options, gate::Gate},
    },
};

/// The description of a model: everything but its weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this layout.
    pub format: u32,
    /// Encoder and decoder.
    pub network: NetworkConfig,
    /// The classes that were learned, and those that rows were kept for; base classes first.
    pub classes: Classes,
    /// The method that the model was trained by, and its settings.
    pub method: Method,
    /// How images reach the network.
    pub preprocess: Preprocess,
    /// Where the weights come from.
    pub training: Training,
}

/// How the confidences of a model, used as it was trained, were made true.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Scores are divided by this before the softmax.
    pub temperature: f64,
    /// What confidences at this temperature came to on the images that it was found on.
    pub reliability: Reliability,
    /// The data set that it was found on.
    pub data: String,
    /// Number of its images that were looked at.
    pub images: usize,
}

/// How a model came to be, as far as is known: results without it cannot be compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Where the weights are from.
    pub origin: String,
    /// The data set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Its fold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<usize>,
    /// What happened to pixels of novel classes in base training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub novel_pixels: Option<NovelPixels>,
    /// The seed of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How these weights were chosen among those of the run; results on data they were chosen by say less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<String>,
    /// How its confidences were made true, if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

impl Manifest {
    /// The layout that this version writes. It reads this one and those before it.
    pub const FORMAT: u32 = 2;

    /// From the JSON of a model file, of this format or an older one.
    pub(super) fn parse(json: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let wrong = |error: serde_json::Error| error.to_string();
        let Version { format } = serde_json::from_str(json).map_err(wrong)?;
        let manifest = match format {
            1 => serde_json::from_str::<FirstFormat>(json).map_err(wrong)?.into(),
            Self::FORMAT => serde_json::from_str(json).map_err(wrong)?,
            _ => return Err(format!("this version reads formats up to {}, got `{format}`", Self::FORMAT)),
        };
        Self::check(&manifest)?;
        Ok(manifest)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.network.validate().map_err(|error| error.to_string())?;
        self.method.validate().map_err(|error| error.to_string())?;
        let named = self.classes.rows().len();
        match &self.method {
            Method::Capl(Capl { rows, .. }) if *rows != named && *rows != self.classes.n_base() => {
                return Err(format!("{named} classes are named for {rows} classifier rows"));
            }
            Method::Capl(capl) => {
                let parts = capl.ablation.inference();
                let gates = [(parts.sce, capl.support_mlp), (parts.dqce, capl.query_mlp)];
                if gates.into_iter().any(|(gate, has_mlp)| gate == Some(Gate::Mlp) && !has_mlp) {
                    return Err(format!(
                        "`{}` needs the network of a gate, which is not there",
                        capl.ablation
                    ));
                }
            }
            _ => {}
        }
        let size = self.preprocess.size;
        if !(8..=8192).contains(&size) {
            return Err(format!("the side of the canvas must be from 8 to 8192 pixels, got `{size}`"));
        }
        if self.preprocess.fit == Fit::Tight && self.method.episodic().is_some() {
            return Err("a system for episodes needs a square canvas".to_string());
        }
        if let Some(temperature) =
            self.training.calibration.as_ref().map(|calibration| calibration.temperature)
            && !(temperature.is_finite() && temperature > 0.0)
        {
            return Err(format!("the temperature of its confidences must be above 0, got `{temperature}`"));
        }
        if !(1..=256).contains(&self.preprocess.multiple) {
            return Err(format!(
                "sides of its canvas in steps of {} are not possible",
                self.preprocess.multiple
            ));
        }
        let scale = self.preprocess.mean.iter().chain(&self.preprocess.std);
        let is_usable = |value: &f32| value.abs() <= 1e6;
        if !scale.into_iter().all(is_usable) || self.preprocess.std.iter().any(|std| std.abs() < 1e-6) {
            return Err("the mean and deviation of its preprocessing are not usable numbers".to_string());
        }
        Ok(())
    }
}

/// Format 1, before there was more than one method.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstFormat {
    #[serde(rename = "format")]
    _format: u32,
    network: FirstNetwork,
    classes: Classes,
    method: Ablation,
    options: Options,
    preprocess: Preprocess,
    training: Training,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstNetwork {
    encoder: EncoderConfig,
    decoder: DecoderKind,
    dim: usize,
    dropout: f64,
    aux_head: bool,
    support_mlp: bool,
    query_mlp: bool,
    rows: usize,
}

impl From<FirstFormat> for Manifest {
    fn from(first: FirstFormat) -> Self {
        let FirstFormat { network, classes, method, options, preprocess, training, .. } = first;
        let FirstNetwork { encoder, decoder, dim, dropout, aux_head, support_mlp, query_mlp, rows } = network;
        Self {
            format: Self::FORMAT,
            network: NetworkConfig { encoder, decoder, dim, dropout },
            classes,
            method: Method::Capl(Capl { ablation: method, options, rows, aux_head, support_mlp, query_mlp }),
            preprocess,
            training,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_format_is_still_read() {
        let json = r#"{"format":1,"network":{"encoder":{"kind":"resnet","depth":10,"stem":"deep","stride_on":"3x3",
            "output_stride":8,"width":0.5},"decoder":"pspnet","dim":64,"dropout":0.1,"aux_head":true,
            "support_mlp":true,"query_mlp":false,"rows":3},"classes":[{"name":"background","role":"background"},
            {"name":"cow","role":"base"},{"name":"duck","role":"novel"}],"method":"capl","options":
            {"query_gate_weighs":"query","query_gate_clamp":true,"fusion":"raw","shot_mean":"pooled",
            "context_pool":"per-class","normalise":"reference","background":"apart","fake_support":"ceil",
            "loss":{"full":0.5,"sce_only":0.5,"aux":0.4},"novel_rows":true},"preprocess":{"size":97,
            "mean":[1.0,2.0,3.0],"std":[1.0,1.0,1.0]},"training":{"origin":"somewhere"}}"#;
        let manifest = Manifest::parse(json).unwrap();
        assert_eq!(manifest.method, Method::Capl(Capl::reference(3)));
        let again = serde_json::to_string(&manifest).unwrap();
        assert!(again.contains(r#""method":{"name":"capl","row":"capl""#), "{again}");
        assert_eq!(Manifest::parse(&again).unwrap(), manifest);
        let error = Manifest::parse(&again.replace(r#""format":2"#, r#""format":3"#)).unwrap_err();
        assert!(error.contains("formats up to 2, got `3`"), "{error}");
        assert!(Manifest::parse(&again.replace("support_mlp", "support_mlq")).is_err());
    }
}
