//! Vision transformers (Dosovitskiy et al. 2021) as DINOv2 and DINOv3 train them: patches of 14 or 16 pixels become
//! tokens; a block adds attention among all of them, then a small network for each, both on normalised tokens and scaled
//! by channel (LayerScale).
//!
//! The maps of an encoder are its patches before the first block, and the tokens of patches after each quarter of the
//! blocks, normalised by the last layer, all on the grid of patches. Shapes of DINOv2-S at 518x518: [384, 37, 37], five
//! times.

mod layouts;

use burn::{
    module::{Initializer, Module, Param},
    nn::conv::Conv2d,
    tensor::{Device, Tensor},
};
use protoseg_core::Preprocess;
use serde::{Deserialize, Serialize};

use super::table::{Describe, Family, Rename, Settings, Tensors};
use crate::{
    config::ConfigError,
    graph::{Graph, Node},
    nn::{Conv, LayerNorm, Rotary, Tokens},
    weights::{TensorFile, WeightsError},
};

/// Most blocks of a network.
const MOST_BLOCKS: usize = 64;
/// Channels of a head in all published sizes.
const HEAD: usize = 64;
/// What LayerScale starts from.
const SCALE: f64 = 1e-5;
/// Side of the grid that DINOv2's position embeddings were trained on: 518 pixels.
const SIDE: usize = 37;
/// The longest wave of DINOv3's rotations.
const THETA: f64 = 100.0;

/// A vision transformer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VitConfig {
    /// Channels of a token.
    pub width: usize,
    /// Number of blocks.
    pub depth: usize,
    /// Side of a patch in pixels.
    pub patch: usize,
    /// Tokens that are neither patches nor the class token.
    pub registers: usize,
    /// How blocks know where a patch is.
    pub positions: Positions,
    /// Whether the network of a block is a gated one (SwiGLU).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gated: bool,
}

/// How blocks know where a patch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Positions {
    /// Embeddings are added to patches; they were trained on a grid of this side.
    Learned(usize),
    /// Queries and keys are rotated (DINOv3).
    Rotary,
}

/// Names, width, depth, and whether the network of a block is gated.
const DINOV2: [(&str, usize, usize, bool); 4] = [
    ("dinov2-small", 384, 12, false),
    ("dinov2-base", 768, 12, false),
    ("dinov2-large", 1024, 24, false),
    ("dinov2-giant", 1536, 40, true),
];
const DINOV2_REGISTERS: [&str; 4] =
    ["dinov2-small-registers", "dinov2-base-registers", "dinov2-large-registers", "dinov2-giant-registers"];
const DINOV3: [(&str, usize, usize); 2] = [("dinov3-vits16", 384, 12), ("dinov3-vitb16", 768, 12)];

impl VitConfig {
    /// The published member of this name.
    pub fn named(name: &str) -> Option<Self> {
        let dinov2 = |place: usize, registers: usize| {
            let (_, width, depth, gated) = DINOV2[place];
            Self { width, depth, patch: 14, registers, positions: Positions::Learned(SIDE), gated }
        };
        let plain = DINOV2.iter().position(|(known, ..)| *known == name);
        let with_registers = DINOV2_REGISTERS.iter().position(|known| *known == name);
        let rotary = |&(known, width, depth): &(&str, usize, usize)| {
            let config =
                Self { width, depth, patch: 16, registers: 4, positions: Positions::Rotary, gated: false };
            (known == name).then_some(config)
        };
        (plain.map(|place| dinov2(place, 0)))
            .or_else(|| with_registers.map(|place| dinov2(place, 4)))
            .or_else(|| DINOV3.iter().find_map(rotary))
    }

    fn heads(&self) -> usize {
        (self.width / HEAD).max(1)
    }

    /// Channels inside the network of a block.
    fn hidden(&self) -> usize {
        // Two thirds, in whole vectors: a gated network has three matrices instead of two.
        if self.gated { (4 * self.width * 2 / 3).next_multiple_of(8) } else { 4 * self.width }
    }

    fn epsilon(&self) -> f64 {
        if self.positions == Positions::Rotary { 1e-5 } else { 1e-6 }
    }
}

/// A vision transformer.
#[derive(Module, Debug)]
pub struct Vit {
    /// Patches to tokens.
    pub patch: Conv2d,
    /// The other tokens, and positions.
    pub tokens: Tokens,
    /// In order.
    pub blocks: Vec<VitBlock>,
    /// Of tokens that leave the network.
    pub norm: LayerNorm,
    heads: usize,
    is_rotary: bool,
    is_gated: bool,
}

/// One block.
#[derive(Module, Debug)]
pub struct VitBlock {
    /// Before the attention.
    pub norm1: LayerNorm,
    /// Tokens to queries, keys and values.
    pub qkv: Conv2d,
    /// What heads found to tokens.
    pub proj: Conv2d,
    /// LayerScale of the attention.
    pub scale1: Param<Tensor<1>>,
    /// Before the network.
    pub norm2: LayerNorm,
    /// To the wide layer, or to gates and values.
    pub fc1: Conv2d,
    /// Back to tokens.
    pub fc2: Conv2d,
    /// LayerScale of the network.
    pub scale2: Param<Tensor<1>>,
}

impl Describe for Vit {
    fn describe<'a>(&'a self, graph: &mut Graph<'a>, image: Node) -> Vec<Node> {
        let patches = graph.conv("patch", &self.patch, image);
        let mut x = graph.tokens("tokens", &self.tokens, patches);
        let prefix = self.tokens.prefix();
        let rotary = self.is_rotary.then_some(Rotary { prefix, theta: THETA });
        let mut stages = vec![patches];
        graph.mark_block(0, patches);
        for (index, block) in self.blocks.iter().enumerate() {
            let name = format!("blocks.{index}");
            let normed = graph.layer_norm(format!("{name}.norm1"), &block.norm1, x);
            let qkv = graph.conv(format!("{name}.qkv"), &block.qkv, normed);
            let found = graph.attention(format!("{name}.attention"), qkv, patches, (self.heads, rotary));
            let projected = graph.conv(format!("{name}.proj"), &block.proj, found);
            let scaled = graph.scale(&block.scale1, projected);
            x = graph.add(scaled, x);
            let normed = graph.layer_norm(format!("{name}.norm2"), &block.norm2, x);
            let wide = graph.conv(format!("{name}.fc1"), &block.fc1, normed);
            let active = if self.is_gated { graph.gated(wide) } else { graph.gelu(wide) };
            let narrow = graph.conv(format!("{name}.fc2"), &block.fc2, active);
            let scaled = graph.scale(&block.scale2, narrow);
            x = graph.add(scaled, x);
            let seen = graph.layer_norm(format!("{name}.out"), &self.norm, x);
            let map = graph.grid(seen, patches, prefix);
            graph.mark_block(stages.len(), map);
            if (index + 1) * 4 / self.blocks.len() > index * 4 / self.blocks.len() {
                stages.push(map);
            }
        }
        stages
    }
}

impl Family for VitConfig {
    type Encoder = Vit;

    const NAMES: &'static [&'static str] = &[
        "dinov2-small",
        "dinov2-base",
        "dinov2-large",
        "dinov2-giant",
        "dinov2-small-registers",
        "dinov2-base-registers",
        "dinov2-large-registers",
        "dinov2-giant-registers",
        "dinov3-vits16",
        "dinov3-vitb16",
    ];
    const TENSORS: &'static str = "DINOv2 or DINOv3 (`cls_token`, `blocks.0.attn.qkv.weight`, .. or \
                                   `embeddings.cls_token`, `encoder.layer.0.norm1.weight`, ..)";

    fn parse(name: &str) -> Option<Self> {
        Self::named(name)
    }

    fn recognise(tensors: &dyn Tensors) -> Option<Result<Self, String>> {
        layouts::recognise(tensors)
    }

    /// Files are brought into our own layout first ([`Self::adapt`]).
    fn rename(name: &str) -> Rename {
        Rename::to(name)
    }

    fn adapt(&self, file: &TensorFile) -> Result<Option<TensorFile>, WeightsError> {
        layouts::adapt(self, file).map(Some)
    }

    fn adjust(self, _: Option<&Self>, _: &Settings) -> Self {
        self
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let checks = [
            (
                "encoder.width",
                self.width,
                (HEAD..=4096).contains(&self.width) && self.width.is_multiple_of(HEAD),
                "a multiple of 64",
            ),
            ("encoder.depth", self.depth, (4..=MOST_BLOCKS).contains(&self.depth), "from 4 to 64"),
            ("encoder.patch", self.patch, (4..=64).contains(&self.patch), "from 4 to 64"),
            ("encoder.registers", self.registers, self.registers <= 64, "at most 64"),
        ];
        match checks.into_iter().find(|(_, _, is_fine, _)| !is_fine) {
            Some((key, got, _, wanted)) => Err(ConfigError::new(key, got, wanted)),
            None => match self.positions {
                Positions::Learned(side) if !(1..=256).contains(&side) => {
                    Err(ConfigError::new("encoder.positions", side, "from 1 to 256"))
                }
                _ => Ok(()),
            },
        }
    }

    /// Sides of a tight canvas are whole patches, in steps of four of 14 or two of 16: photos of a folder then have few
    /// shapes, and each shape costs some memory.
    fn preprocess(&self, size: usize) -> Preprocess {
        let multiple = if self.patch == 16 { 32 } else { 4 * self.patch };
        Preprocess { multiple, ..Preprocess::imagenet(size) }
    }

    fn output_stride(&self) -> usize {
        self.patch
    }

    fn channels(&self) -> [usize; 2] {
        [self.width; 2]
    }

    fn name(&self) -> &'static str {
        let known = Self::NAMES.iter().copied().find(|name| Self::named(name).as_ref() == Some(self));
        known.unwrap_or("vit")
    }

    fn describe(&self) -> String {
        let registers = match self.registers {
            0 => String::new(),
            count => format!(", {count} registers"),
        };
        let known = Self::NAMES.contains(&Family::name(self)).then(|| Family::name(self));
        let name = known.map_or_else(|| format!("ViT of width {}", self.width), str::to_string);
        format!("{name} ({} blocks, patches of {}{registers})", self.depth, self.patch)
    }

    fn init(&self, device: &Device) -> Vit {
        let &Self { width, depth, patch, registers, positions, gated } = self;
        let linear = |from: usize, to: usize| Conv::new(from, to, 1).bias().init(device);
        let scale = || Initializer::Constant { value: SCALE }.init([width], device);
        let norm = || LayerNorm::new(width, self.epsilon(), device);
        let (is_learned, side) = match positions {
            Positions::Learned(side) => (true, side),
            Positions::Rotary => (false, 1),
        };
        let block = |_| VitBlock {
            norm1: norm(),
            qkv: linear(width, 3 * width),
            proj: linear(width, width),
            scale1: scale(),
            norm2: norm(),
            fc1: linear(width, if gated { 2 * self.hidden() } else { self.hidden() }),
            fc2: linear(self.hidden(), width),
            scale2: scale(),
        };
        Vit {
            patch: Conv::new(3, width, patch).stride(patch).padding(0, 0).bias().init(device),
            tokens: Tokens::new([1 + registers, side, width], is_learned, registers > 0, device),
            blocks: (0..depth).map(block).collect(),
            norm: norm(),
            heads: self.heads(),
            is_rotary: !is_learned,
            is_gated: gated,
        }
    }
}
