//! The encoder of EfficientNet-Lite0, layer by layer: how long each takes, and how near it comes to what the
//! machine can do.
//!
//! `cargo run --release -p protoseg-kernels --example efficientnet_lite0 -- [side of the image] [repeats]`
//!
//! The number of threads is `RAYON_NUM_THREADS`.

#![allow(clippy::print_stdout)]

use std::time::Instant;

use protoseg_kernels::{Activation, ConvShape, channels_last::PackedConv, peak_flops};

/// Expansion, kernel, stride, channels and number of blocks of each stage.
const STAGES: [(usize, usize, usize, usize, usize); 7] = [
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
];

struct Layer {
    conv: PackedConv,
    /// Which layer's output is added.
    add: Option<usize>,
    /// Seconds of each run.
    times: Vec<f64>,
}

/// Layers, each of which takes the output of the one before.
fn encoder(side: usize) -> Vec<Layer> {
    let mut layers: Vec<Layer> = Vec::new();
    let mut side = side;
    let mut push = |from: usize, to: usize, kernel: usize, stride: usize, groups: usize, activation, add| {
        let all = kernel - stride;
        let shape = ConvShape {
            batch: 1,
            from,
            to,
            height: side,
            width: side,
            kernel,
            stride,
            dilation: 1,
            padding: all / 2,
            padding_after: all - all / 2,
            groups,
        };
        side = shape.out_height();
        let conv = PackedConv::new(shape, &values(shape.weight_len()), &values(to), activation);
        layers.push(Layer { conv, add, times: Vec::new() });
        layers.len() - 1
    };
    let mut last = push(3, 32, 3, 2, 1, Activation::Relu6, None);
    let mut from = 32;
    for (expansion, kernel, stride, to, blocks) in STAGES {
        for block in 0..blocks {
            let stride = if block == 0 { stride } else { 1 };
            let wide = from * expansion;
            if expansion > 1 {
                push(from, wide, 1, 1, 1, Activation::Relu6, None);
            }
            push(wide, wide, kernel, stride, wide, Activation::Relu6, None);
            let add = (from == to && stride == 1).then_some(last);
            last = push(wide, to, 1, 1, 1, Activation::None, add);
            from = to;
        }
    }
    layers
}

/// Values in [-0.1, 0.1), whatever they are.
fn values(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i * 7919 % 2003) as f32 / 10015.0 - 0.1).collect()
}

/// A line of the cache: maps that begin with one are read faster.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

fn flat(lines: &[Line]) -> &[f32] {
    // SAFETY: a line is sixteen values and nothing else.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * 16) }
}

fn flat_mut(lines: &mut [Line]) -> &mut [f32] {
    // SAFETY: a line is sixteen values and nothing else.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * 16) }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().expect("a number"));
    let side: usize = arguments.next().unwrap_or(473);
    let repeats: usize = arguments.next().unwrap_or(50);
    let mut layers = encoder(side);
    let image = values(layers[0].conv.shape().input_len());
    let largest = layers.iter().map(|layer| layer.conv.shape().output_len()).max().unwrap_or(0);
    // Maps of a block and the one that is added at its end; the next block uses the same memory.
    let mut slots: Vec<Vec<Line>> = vec![vec![Line([0.0; 16]); largest.div_ceil(16)]; 4];
    let mut totals = Vec::new();
    for _ in 0..repeats + 2 {
        let started = Instant::now();
        for (index, layer) in layers.iter_mut().enumerate() {
            let shape = layer.conv.shape();
            let mut slot = std::mem::take(&mut slots[index % 4]);
            let out = &mut flat_mut(&mut slot)[..shape.output_len()];
            let input = match index.checked_sub(1) {
                Some(before) => &flat(&slots[before % 4])[..shape.input_len()],
                None => &image,
            };
            let add = layer.add.map(|add| &flat(&slots[add % 4])[..shape.output_len()]);
            let started = Instant::now();
            layer.conv.run(input, add, out, shape.to);
            layer.times.push(started.elapsed().as_secs_f64());
            slots[index % 4] = slot;
        }
        totals.push(started.elapsed().as_secs_f64());
    }
    println!("side  channels    kernel  how            ms    GMAC/s     GB/s");
    for Layer { conv, times, .. } in &layers {
        let (shape, seconds) = (conv.shape(), fast(times));
        let moved = (shape.input_len() + shape.output_len()) * size_of::<f32>();
        println!(
            "{:4}  {:4} -> {:4}  {}x{} s{}  {:10} {:7.3} {:9.1} {:8.1}",
            shape.height,
            shape.from,
            shape.to,
            shape.kernel,
            shape.kernel,
            shape.stride,
            conv.kernel(),
            1e3 * seconds,
            shape.macs() as f64 / seconds / 1e9,
            moved as f64 / seconds / 1e9,
        );
    }
    let macs: u64 = layers.iter().map(|layer| layer.conv.shape().macs()).sum();
    for name in ["product", "depthwise"] {
        let times = layers.iter().filter(|layer| layer.conv.kernel() == name).map(|layer| fast(&layer.times));
        println!("{name}: {:.2} ms", 1e3 * times.sum::<f64>());
    }
    println!(
        "all: {:.2} ms for {:.2} GMAC; the peak is {:.0} GMAC/s",
        1e3 * fast(&totals),
        macs as f64 / 1e9,
        peak_flops(rayon::current_num_threads()) / 2e9,
    );
}

/// The time that a tenth of the runs stays below: others use the machine too.
fn fast(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 10]
}
