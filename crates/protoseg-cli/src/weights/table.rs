//! The weights that have names. To add some, add a line to [`TABLE`].

use anyhow::{Result, bail};
use protoseg::core::closest;

/// The encoder in the box, which needs no file.
pub const IN_BOX: &str = "efficientnet-lite0";

/// Where a file is published.
pub enum Site {
    /// The repository OWNER/NAME of the Hugging Face Hub.
    Hub(&'static str),
    /// PyTorch's own server, among the weights of torchvision.
    PyTorch,
}

/// A published file of weights.
pub struct Weights {
    pub name: &'static str,
    pub site: Site,
    /// The file's name there.
    pub file: &'static str,
    /// As the site says.
    pub licence: &'static str,
    /// Who trained them on what.
    pub source: &'static str,
    /// About as large as this, to say before a download.
    pub megabytes: u32,
    /// The sum of the file or the beginning of it, where it was published. Without it, what the server announces is
    /// compared.
    pub sha256: Option<&'static str>,
    /// Whether the owner asks for an account that has accepted the licence.
    pub is_gated: bool,
}

pub const TABLE: &[Weights] = &[
    hub("dinov2-small", "facebook/dinov2-small", APACHE, DINOV2, 88),
    hub("dinov2-base", "facebook/dinov2-base", APACHE, DINOV2, 346),
    hub("dinov2-large", "facebook/dinov2-large", APACHE, DINOV2, 1218),
    hub("dinov2-small-registers", "facebook/dinov2-with-registers-small", APACHE, DINOV2_REGISTERS, 88),
    hub("dinov2-base-registers", "facebook/dinov2-with-registers-base", APACHE, DINOV2_REGISTERS, 346),
    hub("dinov2-large-registers", "facebook/dinov2-with-registers-large", APACHE, DINOV2_REGISTERS, 1218),
    hub("dinov3-vits16", "facebook/dinov3-vits16-pretrain-lvd1689m", "DINOv3 License", DINOV3, 86).gated(),
    hub("dinov3-vitb16", "facebook/dinov3-vitb16-pretrain-lvd1689m", "DINOv3 License", DINOV3, 343).gated(),
    hub("resnet18", "timm/resnet18.tv_in1k", BSD, TORCHVISION, 47),
    pytorch("resnet34", "resnet34-b627a593.pth", "b627a593", 87),
    hub("resnet50", "timm/resnet50.tv_in1k", BSD, TORCHVISION, 102),
    hub("resnet101", "timm/resnet101.tv_in1k", BSD, TORCHVISION, 179),
    pytorch("resnet152", "resnet152-394f9c45.pth", "394f9c45", 242),
    pytorch("vgg16", "vgg16-397923af.pth", "397923af", 553),
    pytorch("mobilenetv2", "mobilenet_v2-b0353104.pth", "b0353104", 14),
    pytorch("mobilenetv3-large", "mobilenet_v3_large-8738ca79.pth", "8738ca79", 22),
    pytorch("mobilenetv3-small", "mobilenet_v3_small-047dcff4.pth", "047dcff4", 10),
    hub("convnext-tiny", "timm/convnext_tiny.fb_in1k", APACHE, CONVNEXT, 114),
    hub("convnext-small", "timm/convnext_small.fb_in1k", APACHE, CONVNEXT, 201),
];

const APACHE: &str = "Apache-2.0";
const BSD: &str = "BSD-3-Clause";

const DINOV2: &str = "DINOv2 by Meta, on 142 million images without labels";
const DINOV2_REGISTERS: &str = "DINOv2 with registers by Meta, on 142 million images without labels";
const DINOV3: &str = "DINOv3 by Meta, on 1,689 million images without labels";
const TORCHVISION: &str = "torchvision's first weights, on ImageNet-1k";
const CONVNEXT: &str = "ConvNeXt by Meta, on ImageNet-1k";

const fn hub(
    name: &'static str,
    repository: &'static str,
    licence: &'static str,
    source: &'static str,
    megabytes: u32,
) -> Weights {
    let (site, file) = (Site::Hub(repository), "model.safetensors");
    Weights { name, site, file, licence, source, megabytes, sha256: None, is_gated: false }
}

/// `sha256` is the beginning of the sum, which these files carry in their names.
const fn pytorch(name: &'static str, file: &'static str, sha256: &'static str, megabytes: u32) -> Weights {
    let (site, licence, source) = (Site::PyTorch, BSD, TORCHVISION);
    Weights { name, site, file, licence, source, megabytes, sha256: Some(sha256), is_gated: false }
}

impl Weights {
    /// The repository on the Hub, if it is there.
    pub fn repository(&self) -> Option<&'static str> {
        match self.site {
            Site::Hub(repository) => Some(repository),
            Site::PyTorch => None,
        }
    }

    /// The same, for those who have accepted the licence.
    const fn gated(self) -> Self {
        Self { is_gated: true, ..self }
    }
}

/// The weights of this name; nothing for the name of the encoder in the box, which has no file.
pub fn by_name(name: &str) -> Result<Option<&'static Weights>> {
    match TABLE.iter().find(|weights| weights.name == name) {
        None if name != IN_BOX => bail!("no weights are named `{name}`\nhint: {}", known_names(name)),
        found => Ok(found),
    }
}

/// All names, and the one that may be meant by `got`.
pub fn known_names(got: &str) -> String {
    let names: Vec<&str> = [IN_BOX].into_iter().chain(TABLE.iter().map(|weights| weights.name)).collect();
    let meant = closest(got, &names).map_or_else(String::new, |name| format!("did you mean `{name}`? "));
    format!("{meant}the names are {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_line_is_complete_and_every_name_is_there_once() {
        let mut names = HashSet::from([IN_BOX]);
        for weights in TABLE {
            let name = weights.name;
            assert!(names.insert(name), "{name} is there twice");
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.chars().all(is_plain), "{name} becomes a folder");
            assert!(!weights.licence.is_empty() && !weights.source.is_empty(), "{name}");
            assert!(weights.megabytes > 0 && !weights.file.contains('/'), "{name}");
            let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            let is_sum = |sum: &str| (8..=64).contains(&sum.len()) && sum.chars().all(is_digit);
            assert!(weights.sha256.is_none_or(is_sum), "{name}");
            match weights.site {
                Site::Hub(repository) => {
                    assert_eq!(repository.split('/').filter(|part| !part.is_empty()).count(), 2, "{name}");
                    assert!(weights.file.ends_with(".safetensors"), "{name}");
                }
                Site::PyTorch => {
                    let ending = format!("-{}.pth", weights.sha256.unwrap());
                    assert!(weights.file.ends_with(&ending) && !weights.is_gated, "{name}");
                }
            }
        }
    }

    #[test]
    fn an_unknown_name_lists_all_and_the_one_that_is_meant() {
        assert!(by_name("resnet50").unwrap().is_some_and(|weights| weights.name == "resnet50"));
        assert!(by_name(IN_BOX).unwrap().is_none());
        let error = by_name("dinov2small").err().unwrap().to_string();
        assert!(error.contains("`dinov2small`") && error.contains("did you mean `dinov2-small`?"), "{error}");
        assert!(error.contains(IN_BOX) && error.contains("convnext-small"), "{error}");
        assert!(!by_name("qwerty").err().unwrap().to_string().contains("did you mean"));
    }
}
