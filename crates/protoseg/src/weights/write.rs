//! Safetensors files, written whole or not at all.

use std::{borrow::Cow, collections::HashMap, fs, io, path::Path};

use burn::tensor::{DType, TensorData};
use safetensors::{Dtype, View};

use super::WeightsError;

/// Writes `tensors` (f32, f16 or bytes) and `metadata` beside `path` first, then in its place.
pub(crate) fn write_safetensors(
    path: &Path,
    tensors: Vec<(String, TensorData)>,
    metadata: HashMap<String, String>,
) -> Result<(), WeightsError> {
    let failed = |source| WeightsError::Write { path: path.to_path_buf(), source };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let tensors = tensors.into_iter().map(|(name, data)| (name, Values(data)));
    let file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(folder).map_err(failed)?;
    safetensors::serialize_to_file(tensors, Some(metadata), file.path())
        .map_err(|error| failed(io::Error::other(error)))?;
    // Temporary files are for their owner alone; this one is to become a file like any other.
    #[cfg(unix)]
    fs::set_permissions(file.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644)).map_err(failed)?;
    fs::File::open(file.path()).and_then(|file| file.sync_all()).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    // The name must last as the bytes do. Not every system lets a folder be opened.
    if let Ok(folder) = fs::File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
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

/// What a file is called until it is whole.
pub(crate) const TEMPORARY: &str = ".protoseg-";

struct Values(TensorData);

impl View for Values {
    fn dtype(&self) -> Dtype {
        match self.0.dtype() {
            DType::F32 => Dtype::F32,
            DType::F16 => Dtype::F16,
            DType::U8 => Dtype::U8,
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
