//! Safetensors files, written whole or not at all.

use std::{borrow::Cow, collections::HashMap, io, path::Path};

use burn::tensor::{DType, TensorData};
use protoseg_data::NewFile;
use safetensors::{Dtype, View};

use super::WeightsError;

/// Writes `tensors` (f32, f16, integers or bytes) and `metadata` beside `path` first, then in its place.
pub(crate) fn write_safetensors(
    path: &Path,
    tensors: Vec<(String, TensorData)>,
    metadata: HashMap<String, String>,
) -> Result<(), WeightsError> {
    write_checked(path, tensors, metadata, |_| Ok(()))
}

/// The same. What is written takes its place only if `check` finds nothing wrong with the file.
pub(crate) fn write_checked<E: From<WeightsError>>(
    path: &Path,
    tensors: Vec<(String, TensorData)>,
    metadata: HashMap<String, String>,
    check: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let failed = |source| WeightsError::Write { path: path.to_path_buf(), source };
    let mut file = NewFile::create(path).map_err(failed)?;
    // Not `serialize_to_file`: that makes a temporary file of its own, and leaves it behind if it is killed.
    let bytes = serialize(tensors, metadata).map_err(failed)?;
    file.write_all(&bytes).map_err(failed)?;
    drop(bytes);
    check(file.path())?;
    Ok(file.finish().map_err(failed)?)
}

/// The bytes of such a file.
pub(crate) fn serialize(
    tensors: Vec<(String, TensorData)>,
    metadata: HashMap<String, String>,
) -> io::Result<Vec<u8>> {
    let tensors = tensors.into_iter().map(|(name, data)| (name, Values(data)));
    safetensors::serialize(tensors, Some(metadata)).map_err(io::Error::other)
}

/// Writes one tensor and what is to be said of it, whole or not at all.
pub fn write_tensor(
    path: &Path,
    name: &str,
    tensor: TensorData,
    metadata: &[(&str, String)],
) -> Result<(), WeightsError> {
    let metadata = metadata.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
    write_safetensors(path, vec![(name.to_string(), tensor)], metadata)
}

struct Values(TensorData);

impl View for Values {
    fn dtype(&self) -> Dtype {
        match self.0.dtype() {
            DType::F32 => Dtype::F32,
            DType::F16 => Dtype::F16,
            DType::U8 => Dtype::U8,
            DType::I32 => Dtype::I32,
            DType::I64 => Dtype::I64,
            other => unreachable!("no tensor of ours is stored as {other:?}"),
        }
    }

    fn shape(&self) -> &[usize] {
        self.0.shape().as_slice()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.0.bytes())
    }

    fn data_len(&self) -> usize {
        self.0.bytes().len()
    }
}
