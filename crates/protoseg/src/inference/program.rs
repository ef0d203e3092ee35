//! Steps in order, and which buffer each of their maps lives in.
//!
//! A map is needed from the step that writes it first to the last step that reads it. Maps whose times do not meet
//! share a buffer (a slot), and a product is written onto the shortcut that it adds, if nobody needs that later. So a run needs a few of them and never asks the system for memory.

use protoseg_kernels::{
    Activation,
    channels_last::{
        Attention, Between, JoinedConvs, LayerNorm, MaxPool, PackedConv, TokenLayers, average_pool, busiest,
        gated, gelu, join_stages, max_pool, transpose,
    },
};
use rayon::prelude::*;

use super::{join::join, spread::Spread};
use crate::nn::PlacedTokens;

/// Values that a thread computes at a time where each is computed by itself.
const PART: usize = 1 << 14;

/// A map of a run: its number, and `[height, width, channels]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    pub(super) id: usize,
    pub shape: [usize; 3],
}

impl Map {
    pub fn len(self) -> usize {
        self.shape.iter().product()
    }
}

#[derive(Debug)]
pub struct Step {
    pub name: String,
    pub(super) work: Work,
    /// What is read, in the order of the work.
    pub(super) from: Vec<Map>,
    pub(super) to: Map,
    /// The first channel that is written; those beside the step's own stay as they are.
    pub(super) offset: usize,
}

#[derive(Debug)]
pub enum Work {
    /// Of the first map; the second, if there is one, is added before the activation.
    Conv(PackedConv),
    /// As [`Work::Conv`], of several layers.
    Joined(Box<JoinedConvs>),
    /// As [`Work::Conv`], of layers that take every token by itself.
    PerToken(Box<TokenLayers>),
    MaxPool(MaxPool),
    /// Of a map that is needed without it too.
    Activation(Activation),
    /// Means over `bins` x `bins` cells.
    AveragePool {
        bins: usize,
    },
    /// A map of one pixel to every pixel.
    Broadcast,
    /// Of all maps.
    Spread(Spread),
    /// All maps joined on the grid of the first.
    Stages,
    /// A map of patches as tokens.
    Tokens(PlacedTokens),
    /// Tokens as a map, without the first.
    Grid {
        prefix: usize,
    },
    LayerNorm(LayerNorm),
    Gelu,
    HardSwish,
    HardSigmoid,
    /// Channels of the first map times those of the pixel that the second is.
    Weigh,
    Gated,
    Attention(Attention),
}

impl Step {
    /// Multiply-accumulates as written and as computed.
    pub fn macs(&self) -> (u64, u64) {
        match &self.work {
            Work::Conv(conv) => (conv.shape().macs(), conv.computed_macs()),
            Work::Joined(convs) => {
                let sum = |of: fn(&PackedConv) -> u64| convs.layers().map(of).sum();
                (sum(|conv| conv.shape().macs()), sum(PackedConv::computed_macs))
            }
            Work::PerToken(layers) => {
                let sum = |of: fn(&PackedConv) -> u64| layers.products().map(of).sum();
                (sum(|conv| conv.shape().macs()), sum(PackedConv::computed_macs))
            }
            Work::Spread(spread) => spread.macs(),
            Work::Attention(attention) => {
                let [_, tokens, _] = self.to.shape;
                let projection = attention.projection().map_or(0, |conv| conv.shape().macs());
                let macs = (2 * tokens * tokens * attention.channels()) as u64 + projection;
                (macs, macs)
            }
            _ => (0, 0),
        }
    }

    /// The share of its work that the busiest of so many threads has.
    pub fn busiest(&self, threads: usize) -> f64 {
        let [height, width, _] = self.to.shape;
        let things = match &self.work {
            Work::Conv(conv) => return conv.busiest(threads),
            Work::AveragePool { bins } => bins * bins,
            Work::Broadcast | Work::Tokens(_) | Work::Grid { .. } => 1,
            Work::Joined(_) | Work::MaxPool(_) | Work::Stages => height,
            Work::PerToken(_) | Work::Attention(_) | Work::Spread(_) => height * width,
            // Functions of single values or pixels.
            _ => self.to.len().div_ceil(PART),
        };
        busiest(things, threads)
    }

    pub fn kernel(&self) -> String {
        match &self.work {
            Work::Conv(conv) => conv_kernel(conv),
            Work::Joined(convs) => convs.layers().map(conv_kernel).collect::<Vec<_>>().join("; "),
            Work::PerToken(layers) => token_kernel(layers),
            Work::MaxPool(MaxPool { window, stride, .. }) => format!("max {window}x{window} s{stride}"),
            Work::Activation(activation) => format!("{activation:?}").to_lowercase(),
            Work::AveragePool { bins } => format!("mean to {bins}x{bins}"),
            Work::Broadcast => "copy to every pixel".to_string(),
            Work::Spread(_) => "pyramid shortcut".to_string(),
            Work::Stages => "join at unit length".to_string(),
            Work::Tokens(_) => "tokens".to_string(),
            Work::Grid { .. } => "grid".to_string(),
            Work::LayerNorm(_) => "layer norm".to_string(),
            Work::Gelu => Between::Gelu.to_string(),
            Work::HardSwish => "hard swish".to_string(),
            Work::HardSigmoid => "hard sigmoid".to_string(),
            Work::Weigh => "weigh channels".to_string(),
            Work::Gated => Between::Gated.to_string(),
            Work::Attention(attention) => {
                let projection = attention.projection().map(conv_kernel);
                let heads = format!("attention of {} heads", attention.heads());
                std::iter::once(heads).chain(projection).collect::<Vec<_>>().join("; ")
            }
        }
    }

    fn maps(&self) -> impl Iterator<Item = Map> {
        self.from.iter().copied().chain([self.to])
    }

    /// The map that this step can add to where it lies: its result may then take the place of that map.
    fn goes_onto(&self) -> Option<Map> {
        match (&self.work, &self.from[..]) {
            (Work::Conv(conv), &[from, add]) => {
                (conv.runs_onto() && from != add && add.shape == self.to.shape).then_some(add)
            }
            _ => None,
        }
    }

    fn run(&self, slots: &Slots, program: &Program, out: &mut [f32]) {
        // What lies where the result goes is not read from here.
        let slot = |map: &Map| program.slot[map.id];
        let apart = self.from.iter().filter(|map| slot(map) != slot(&self.to));
        let maps: Vec<&[f32]> = apart.map(|map| slots.0[slot(map)].read(map.len())).collect();
        let [.., channels] = self.to.shape;
        let out = &mut out[self.offset..];
        match &self.work {
            Work::Conv(conv) if maps.len() < self.from.len() => conv.run_onto(maps[0], out, channels),
            Work::Conv(conv) => conv.run(maps[0], maps.get(1).copied(), out, channels),
            Work::Joined(convs) => convs.run(maps[0], maps.get(1).copied(), out),
            Work::PerToken(layers) => layers.run(maps[0], maps.get(1).copied(), out, channels),
            Work::MaxPool(pool) => max_pool(self.from[0].shape, *pool, maps[0], out),
            Work::Activation(activation) => activate(*activation, maps[0], out),
            Work::AveragePool { bins } => {
                out.copy_from_slice(&average_pool(self.from[0].shape, &[*bins], maps[0]));
            }
            Work::Broadcast => {
                out.chunks_mut(channels).for_each(|pixel| pixel[..maps[0].len()].copy_from_slice(maps[0]));
            }
            Work::Spread(spread) => spread.run(&maps, out),
            Work::Stages => {
                let shapes = self.from.iter().map(|map| map.shape);
                join_stages(&maps.iter().copied().zip(shapes).collect::<Vec<_>>(), out);
            }
            Work::Tokens(tokens) => tokens.place(maps[0], out),
            Work::Grid { prefix } => out.copy_from_slice(&maps[0][prefix * channels..]),
            Work::LayerNorm(norm) => norm.run(maps[0], out),
            Work::Gelu => gelu(maps[0], out),
            Work::HardSwish => each(maps[0], out, |x| x * hard_sigmoid(x)),
            Work::HardSigmoid => each(maps[0], out, hard_sigmoid),
            Work::Weigh => weigh(maps[0], maps[1], out),
            Work::Gated => gated(maps[0], channels, out),
            Work::Attention(attention) => attention.run(maps[0], maps.get(1).copied(), out),
        }
    }
}

fn activate(activation: Activation, from: &[f32], to: &mut [f32]) {
    match activation {
        Activation::None => to.copy_from_slice(from),
        Activation::Relu => each(from, to, |x| x.max(0.0)),
        Activation::Relu6 => each(from, to, |x| x.clamp(0.0, 6.0)),
    }
}

/// A function of every value.
fn each(from: &[f32], to: &mut [f32], function: impl Fn(f32) -> f32 + Sync) {
    to.par_chunks_mut(PART).zip(from.par_chunks(PART)).for_each(|(to, from)| {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = function(from));
    });
}

fn hard_sigmoid(x: f32) -> f32 {
    (x * (1.0 / 6.0) + 0.5).clamp(0.0, 1.0)
}

/// Every pixel times `weights`, channel by channel.
fn weigh(from: &[f32], weights: &[f32], to: &mut [f32]) {
    let line = (PART / weights.len()).max(1) * weights.len();
    to.par_chunks_mut(line).zip(from.par_chunks(line)).for_each(|(to, from)| {
        for (to, from) in to.chunks_exact_mut(weights.len()).zip(from.chunks_exact(weights.len())) {
            to.iter_mut().zip(from).zip(weights).for_each(|((to, from), weight)| *to = from * weight);
        }
    });
}

/// `3x3 s2 64 -> 128, windows`
fn conv_kernel(conv: &PackedConv) -> String {
    let shape = conv.shape();
    let stride = if shape.stride > 1 { format!(" s{}", shape.stride) } else { String::new() };
    let dilation = if shape.dilation > 1 { format!(" d{}", shape.dilation) } else { String::new() };
    let side = shape.kernel;
    format!("{side}x{side}{stride}{dilation} {} -> {}, {}", shape.from, shape.to, conv.kernel())
}

/// `layer norm; 1x1 384 -> 1536, product; gelu; 1x1 1536 -> 384, product`
fn token_kernel(layers: &TokenLayers) -> String {
    let norm = layers.is_normed().then(|| "layer norm".to_string());
    let between = layers.between().map(|between| between.to_string());
    let mut products = layers.products().map(conv_kernel);
    let parts = norm.into_iter().chain(products.next()).chain(between).chain(products);
    parts.collect::<Vec<_>>().join("; ")
}

/// The buffers of one run.
#[derive(Debug)]
pub struct Slots(Vec<Slot>);

/// A buffer whose values begin with a line of the cache, so that a vector of sixteen never lies in two of them.
#[derive(Debug, Default)]
struct Slot {
    values: Vec<f32>,
    start: usize,
}

impl Slot {
    /// Values of a line.
    const LINE: usize = 16;

    fn new(length: usize) -> Self {
        let values = vec![0.0; length + Self::LINE];
        let start = values.as_ptr().align_offset(Self::LINE * size_of::<f32>()).min(Self::LINE);
        Self { values, start }
    }

    fn read(&self, length: usize) -> &[f32] {
        &self.values[self.start..][..length]
    }

    fn write(&mut self, length: usize) -> &mut [f32] {
        &mut self.values[self.start..][..length]
    }
}

#[derive(Debug)]
pub struct Program {
    steps: Vec<Step>,
    input: Map,
    outputs: Vec<Map>,
    /// The slot of each map.
    slot: Vec<usize>,
    /// Values of each slot.
    lengths: Vec<usize>,
}

/// A program in the making.
#[derive(Debug)]
pub struct Builder {
    steps: Vec<Step>,
    maps: Vec<Map>,
}

impl Builder {
    /// Begins with the input, `[height, width, channels]`.
    pub fn new(input: [usize; 3]) -> (Self, Map) {
        let mut builder = Self { steps: Vec::new(), maps: Vec::new() };
        let image = builder.map(input);
        (builder, image)
    }

    /// A map that steps will write.
    pub fn map(&mut self, shape: [usize; 3]) -> Map {
        let map = Map { id: self.maps.len(), shape };
        self.maps.push(map);
        map
    }

    /// Adds a step that reads `from` and writes `to` from the channel `offset` on.
    pub fn step(&mut self, name: &str, work: Work, from: &[Map], to: Map, offset: usize) {
        self.steps.push(Step { name: name.to_string(), work, from: from.to_vec(), to, offset });
    }

    /// With every map given its place.
    pub fn finish(self, outputs: &[Map]) -> Program {
        let Self { steps, maps } = self;
        let steps = join(steps, outputs);
        let input = maps[0];
        let mut last = vec![0; maps.len()];
        for (index, step) in steps.iter().enumerate() {
            step.maps().for_each(|map| last[map.id] = index);
        }
        outputs.iter().for_each(|output| last[output.id] = steps.len());
        let mut lengths: Vec<usize> = Vec::new();
        let mut free: Vec<usize> = Vec::new();
        const NONE: usize = usize::MAX;
        let mut slot = vec![NONE; maps.len()];
        let place = |map: Map, slot: &mut [usize], lengths: &mut Vec<usize>, free: &mut Vec<usize>| {
            if slot[map.id] == NONE {
                // The smallest free slot that is large enough, else the largest, which grows, else a new one.
                free.sort_by_key(|&slot| lengths[slot]);
                let fitting = free.iter().position(|&slot| lengths[slot] >= map.len());
                let chosen = match fitting {
                    Some(index) => free.remove(index),
                    None => free.pop().unwrap_or_else(|| {
                        lengths.push(0);
                        lengths.len() - 1
                    }),
                };
                lengths[chosen] = lengths[chosen].max(map.len());
                slot[map.id] = chosen;
            }
        };
        place(input, &mut slot, &mut lengths, &mut free);
        for (index, step) in steps.iter().enumerate() {
            // Nobody else needs a map that is last read here.
            let onto = step.goes_onto().filter(|add| last[add.id] == index && slot[step.to.id] == NONE);
            match onto {
                Some(add) => slot[step.to.id] = slot[add.id],
                None => place(step.to, &mut slot, &mut lengths, &mut free),
            }
            let done = step.maps().filter(|map| last[map.id] == index && Some(*map) != onto);
            let mut done: Vec<usize> = done.map(|map| slot[map.id]).collect();
            done.dedup();
            free.append(&mut done);
        }
        Program { steps, input, outputs: outputs.to_vec(), slot, lengths }
    }
}

impl Program {
    pub fn input_size(&self) -> [usize; 2] {
        let [height, width, _] = self.input.shape;
        [height, width]
    }

    pub fn output_shapes(&self) -> impl Iterator<Item = [usize; 3]> {
        self.outputs.iter().map(|output| output.shape)
    }

    pub fn slots(&self) -> Slots {
        Slots(self.lengths.iter().map(|&length| Slot::new(length)).collect())
    }

    pub fn slot_bytes(&self) -> usize {
        self.lengths.iter().sum::<usize>() * size_of::<f32>()
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub fn weight_bytes(&self) -> usize {
        let bytes = |step: &Step| match &step.work {
            Work::Conv(conv) => conv.weight_bytes(),
            Work::Joined(convs) => convs.layers().map(PackedConv::weight_bytes).sum(),
            Work::PerToken(layers) => layers.products().map(PackedConv::weight_bytes).sum(),
            Work::Attention(attention) => attention.projection().map_or(0, PackedConv::weight_bytes),
            Work::Spread(spread) => spread.weight_bytes(),
            Work::Tokens(tokens) => tokens.bytes(),
            _ => 0,
        };
        self.steps.iter().map(bytes).sum()
    }

    /// From an input of `[channels, height, width]` to the outputs, each `[h, w, d]`. `watch` is called before (true) and
    /// after (false) every step.
    pub fn run<'a>(
        &self,
        image: &[f32],
        slots: &'a mut Slots,
        mut watch: impl FnMut(&Step, bool),
    ) -> Vec<(&'a [f32], [usize; 3])> {
        let [_, width, channels] = self.input.shape;
        let pixels = image.len() / channels;
        assert_eq!(image.len(), self.input.len(), "an input of {:?}", self.input.shape);
        let input = slots.0[self.slot[self.input.id]].write(image.len());
        if channels == 3 {
            input.par_chunks_mut((3 * width).max(1)).enumerate().for_each(|(row, line)| {
                for (index, pixel) in (row * width..).zip(line.as_chunks_mut::<3>().0) {
                    *pixel = [image[index], image[pixels + index], image[2 * pixels + index]];
                }
            });
        } else {
            input.copy_from_slice(&transpose(image, pixels));
        }
        for step in &self.steps {
            watch(step, true);
            // A step writes to a slot that none of its other maps is in, but one that it adds to.
            let slot = self.slot[step.to.id];
            let mut out = std::mem::take(&mut slots.0[slot]);
            step.run(slots, self, out.write(step.to.len()));
            slots.0[slot] = out;
            watch(step, false);
        }
        let slots = &slots.0;
        let map = |output: &Map| (slots[self.slot[output.id]].read(output.len()), output.shape);
        self.outputs.iter().map(map).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool of every size, forward through a chain with a long-lived first map.
    #[test]
    fn maps_that_live_at_the_same_time_are_apart_and_slots_are_few() {
        let (mut builder, image) = Builder::new([16, 16, 3]);
        let mut maps = vec![image];
        for stride in [2, 1, 2, 1, 1] {
            let from = *maps.last().unwrap();
            let [height, width, channels] = from.shape;
            let to = builder.map([height.div_ceil(stride), width.div_ceil(stride), channels]);
            builder.step("pool", Work::MaxPool(MaxPool::three(stride)), &[from], to, 0);
            maps.push(to);
        }
        let program = builder.finish(&[maps[5]]);
        assert_eq!(program.lengths.len(), 2, "two slots serve a chain");
        for step in &program.steps {
            assert_ne!(program.slot[step.from[0].id], program.slot[step.to.id]);
        }
        let image: Vec<f32> = (0..16 * 16 * 3).map(|i| (i % 97) as f32).collect();
        let mut slots = program.slots();
        let mut run = || program.run(&image, &mut slots, |_, _| ())[0].0.to_vec();
        let first = run();
        assert_eq!(first.len(), 4 * 4 * 3);
        assert_eq!(first, run(), "a second run in the same slots");
    }
}
