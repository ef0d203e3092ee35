//! Checkpoints of the GFS-Seg reference implementation: PSPNet on a ResNet, all rows, both heads, G_sup.

use burn::tensor::Device;

use super::{
    TensorFile, WeightsError,
    assign::assign,
    few_shot::{rename_semseg, semseg_resnet},
};
use crate::{
    config::NetworkConfig,
    encoder::{EncoderConfig, Rename},
    method::{Method, capl::Capl},
    network::Network,
};

/// The network in a checkpoint of the reference, with its weights.
pub fn import_gfsseg(
    checkpoint: &TensorFile,
    device: &Device,
) -> Result<(NetworkConfig, Capl, Network), WeightsError> {
    let (config, capl) = read_config(checkpoint)?;
    let method = Method::Capl(capl.clone());
    let network = config.init(&method, device).map_err(|error| checkpoint.layout_error(error.to_string()))?;
    let network = assign(network, checkpoint, rename)?;
    Ok((config, capl, network))
}

fn read_config(checkpoint: &TensorFile) -> Result<(NetworkConfig, Capl), WeightsError> {
    let &[rows, dim] = checkpoint.shape("main_proto").unwrap_or_default() else {
        return Err(checkpoint.layout_error(
            "it is not a GFS-Seg checkpoint: `main_proto` is missing\n\
             hint: models of the reference implementation and of published few-shot systems can be imported; \
             a backbone alone is something to start training from",
        ));
    };
    let resnet = semseg_resnet(checkpoint).map_err(|reason| checkpoint.layout_error(reason))?;
    let config = NetworkConfig { encoder: EncoderConfig::ResNet(resnet), dim, ..NetworkConfig::pspnet(50) };
    let capl = Capl {
        aux_head: checkpoint.shape("aux_proto").is_some(),
        support_mlp: checkpoint.shape("gamma_conv.0.weight").is_some(),
        ..Capl::reference(rows)
    };
    Ok((config, capl))
}

/// The reference's modules are numbered by their place in a sequence; ours have names.
fn rename(name: &str) -> Rename {
    const SAME: [(&str, &str); 13] = [
        ("main_proto", "classifier"),
        ("aux_proto", "aux_classifier"),
        ("gamma_conv.0.weight", "gamma_support.hidden"),
        ("gamma_conv.2.weight", "gamma_support.out"),
        ("gamma_conv.2.bias", "gamma_support.bias"),
        // Two convolutions and the batch-norm between them; ReLU and dropout hold numbers 2 and 3.
        ("cls.0.", "decoder.projector.conv.conv."),
        ("cls.1.", "decoder.projector.conv.bn."),
        ("cls.4.", "decoder.projector.out."),
        ("aux.0.", "aux_head.conv.conv."),
        ("aux.1.", "aux_head.conv.bn."),
        ("aux.4.", "aux_head.out."),
        ("criterion.", ""),
        ("ppm.features.", "decoder.ppm.branches."),
    ];
    let found = SAME.iter().find_map(|(theirs, ours)| Some((ours, name.strip_prefix(theirs)?)));
    match found {
        Some((&"", _)) => Rename::Skip,
        // Pooling, convolution, batch-norm.
        Some((&ours @ "decoder.ppm.branches.", rest)) => {
            Rename::to(format!("{ours}{}", rest.replacen(".1.", ".conv.", 1).replacen(".2.", ".bn.", 1)))
        }
        Some((ours, rest)) => Rename::to(format!("{ours}{rest}")),
        None => rename_semseg(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_names_become_ours() {
        let to = |name: &str| Rename::To(name.to_string());
        assert_eq!(rename("main_proto"), to("classifier"));
        assert_eq!(rename("layer0.7.running_mean"), to("encoder.stem.2.bn.running_mean"));
        assert_eq!(rename("layer3.5.bn3.bias"), to("encoder.layer3.5.bn3.bias"));
        assert_eq!(rename("ppm.features.1.1.weight"), to("decoder.ppm.branches.1.conv.weight"));
        assert_eq!(rename("ppm.features.2.2.running_var"), to("decoder.ppm.branches.2.bn.running_var"));
        assert_eq!(rename("cls.4.bias"), to("decoder.projector.out.bias"));
        assert_eq!(rename("aux.1.num_batches_tracked"), Rename::Skip);
        assert_eq!(rename("gamma_conv.0.weight"), to("gamma_support.hidden"));
        assert_eq!(rename("decoder.weight"), Rename::Unknown);
    }
}
