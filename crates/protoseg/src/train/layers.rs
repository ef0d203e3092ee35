//! The layers of an encoder: their rates may differ, and the first ones may stay as they are.

use burn::{
    module::{Flag, Module, ModuleVisitor, Param, ParamGroup},
    tensor::Tensor,
};

use crate::network::Network;

/// The parameters of the encoder, layer by layer, from the image on. A numbered part is a layer, such as `blocks.3`. What
/// comes before the first is a layer, too, and what comes later belongs to the layer before it.
pub(super) fn encoder_layers(network: &Network) -> Vec<ParamGroup> {
    let mut found = Parameters::default();
    network.visit(&mut found);
    by_layer(found.names).into_iter().map(ParamGroup::from_paths).collect()
}

fn by_layer(names: Vec<String>) -> Vec<Vec<String>> {
    let mut layers: Vec<(Option<String>, Vec<String>)> = Vec::new();
    for name in names {
        let layer = numbered_part(&name);
        match layers.last_mut() {
            Some((last, own)) if layer.is_none() || *last == layer => own.push(name),
            _ => layers.push((layer, vec![name])),
        }
    }
    layers.into_iter().map(|(_, names)| names).collect()
}

/// `encoder.blocks.3` of `encoder.blocks.3.norm1.weight`.
fn numbered_part(name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split('.').collect();
    let last = parts.iter().rposition(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(parts[..=last].join("."))
}

/// Names as Burn's optimisers know them, in the order of the network.
#[derive(Default)]
struct Parameters {
    path: Vec<String>,
    names: Vec<String>,
}

impl ModuleVisitor for Parameters {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, _: &Param<Tensor<D>>) {
        self.take();
    }

    /// Whether statistics of a batch-norm are those of the batch.
    fn visit_flag(&mut self, _: &Param<Flag>) {
        self.take();
    }
}

impl Parameters {
    fn take(&mut self) {
        if self.path.first().is_some_and(|part| part == "encoder") {
            self.names.push(self.path.join("."));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numbered_part_is_a_layer() {
        let names = ["e.patch.weight", "e.tokens.first", "e.blocks.0.fc1.weight", "e.blocks.0.fc1.bias"];
        let more = ["e.blocks.1.fc1.weight", "e.norm.weight"];
        let layers = by_layer(names.iter().chain(&more).map(|name| name.to_string()).collect());
        assert_eq!(layers, [&names[..2], &names[2..], &more]);
        let names =
            ["stages.0.blocks.0.norm", "stages.0.blocks.1.norm", "stages.1.norm", "stages.1.blocks.0.norm"];
        assert_eq!(by_layer(names.iter().map(|name| name.to_string()).collect()).len(), 4);
    }
}
