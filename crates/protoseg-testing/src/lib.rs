//! What protoseg's tests share: golden data, generated weights, comparisons. Never shipped.

mod compare;
mod mutate;

pub use compare::{assert_close, assert_close_relative};
pub use mutate::mutate;

use std::{collections::HashMap, fs, path::PathBuf};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

/// A file or folder of `../shared`, the data beside the repository. Panics where it is missing: a test that asks
/// carries `#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]`, which its crate's build
/// script (`build/has_shared.rs`) decides.
#[track_caller]
pub fn shared(path: &str) -> PathBuf {
    let full = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    assert!(full.exists(), "this test needs `../shared/{path}` beside the repository, which is missing");
    full
}

/// Reference numbers: the tensors and the metadata of a safetensors file.
pub struct Golden {
    tensors: HashMap<String, (Vec<usize>, Vec<f32>)>,
    pub metadata: HashMap<String, String>,
}

impl Golden {
    /// Reads a file of f32, u8 and i32 tensors.
    pub fn read(path: &std::path::Path) -> Self {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let values = |view: &TensorView| match view.dtype() {
            Dtype::F32 => view.data().as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect(),
            Dtype::U8 => view.data().iter().map(|&byte| f32::from(byte)).collect(),
            // Coordinates and sizes, all small.
            Dtype::I32 => {
                view.data().as_chunks::<4>().0.iter().map(|&b| i32::from_le_bytes(b) as f32).collect()
            }
            other => panic!("golden tensors are f32, u8 or i32, not {other:?}"),
        };
        let tensors =
            file.tensors().into_iter().map(|(name, view)| (name, (view.shape().to_vec(), values(&view))));
        Self { tensors: tensors.collect(), metadata: header.metadata().clone().unwrap_or_default() }
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    pub fn shape(&self, name: &str) -> &[usize] {
        &self.tensor(name).0
    }

    pub fn values(&self, name: &str) -> &[f32] {
        &self.tensor(name).1
    }

    /// The bytes of a u8 tensor.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        self.values(name).iter().map(|&value| value as u8).collect()
    }

    fn tensor(&self, name: &str) -> &(Vec<usize>, Vec<f32>) {
        self.tensors.get(name).unwrap_or_else(|| panic!("golden tensor `{name}` is missing"))
    }
}

/// The values that golden data's networks have in the tensor of this reference name and shape: a hash of the name seeds
/// a splitmix64 stream, scaled by what the tensor is.
pub fn generated_weights(name: &str, shape: &[usize]) -> Vec<f32> {
    let fan_in: usize = shape.iter().skip(1).product();
    let bound = (3.0 / fan_in as f64).sqrt() as f32;
    let scale = |u: f32| {
        if name.ends_with("running_mean") {
            0.1 * u
        } else if name.ends_with("running_var") {
            1.0 + 0.5 * u
        } else if name.ends_with("proto") {
            u
        } else if shape.len() == 1 {
            if name.ends_with("weight") { 1.0 + 0.2 * u } else { 0.1 * u }
        } else {
            u * bound
        }
    };
    stream(name, shape.iter().product()).into_iter().map(scale).collect()
}

/// The first values, in [-1, 1), of the stream that a name seeds.
pub fn stream(name: &str, length: usize) -> Vec<f32> {
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (0..length as u64).map(|index| uniform(seed, index)).collect()
}

fn uniform(seed: u64, index: u64) -> f32 {
    let mut z = seed.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    ((z >> 40) as f64 / f64::from(1 << 24) * 2.0 - 1.0) as f32
}

/// Reads a list of tensor names and shapes: `name<tab>2x3`, `scalar` for none.
pub fn read_keys(path: &std::path::Path) -> Vec<(String, Vec<usize>)> {
    let text = fs::read_to_string(path).unwrap();
    let line = |line: &str| {
        let (name, shape) = line.split_once('\t').unwrap();
        let dims = if shape == "scalar" {
            Vec::new()
        } else {
            shape.split('x').map(|side| side.parse().unwrap()).collect()
        };
        (name.to_string(), dims)
    };
    text.lines().map(line).collect()
}

/// Writes a safetensors file that holds, for each key, its [`generated_weights`] under the name that `rename` makes
/// of it.
pub fn write_generated(keys: &[(String, Vec<usize>)], rename: impl Fn(&str) -> String, to: &std::path::Path) {
    let tensor =
        |(name, shape): &(String, Vec<usize>)| (rename(name), shape.clone(), generated_weights(name, shape));
    write_tensors(keys.iter().map(tensor), to);
}

/// Writes a safetensors file of these names, shapes and values.
pub fn write_tensors(tensors: impl Iterator<Item = (String, Vec<usize>, Vec<f32>)>, to: &std::path::Path) {
    let bytes = |(name, shape, values): (String, Vec<usize>, Vec<f32>)| {
        (name, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
    };
    let tensors: Vec<_> = tensors.map(bytes).collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
    });
    safetensors::serialize_to_file(views, None, to).unwrap();
}
