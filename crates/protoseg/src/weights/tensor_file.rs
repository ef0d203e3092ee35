//! A file of weights, listed but not yet read: `.safetensors`, or `.pth` in PyTorch's zip and legacy forms.
//!
//! Nothing in a pickle is executed. Sizes that a file claims are compared with the file before memory is asked for.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use burn::tensor::TensorData;
use half::{bf16, f16};
use protoseg_data::open_regular;
use pytorch_reader::{DType as TorchDtype, PytorchReader};
use safetensors::{Dtype, tensor::Metadata};

use super::{WeightsError, pickle, write::serialize};

/// The tensors of a file by name.
pub struct TensorFile {
    /// Where it is.
    pub path: PathBuf,
    /// What a safetensors file says of itself; empty for `.pth`.
    pub metadata: HashMap<String, String>,
    tensors: BTreeMap<String, Stored>,
}

/// One tensor, unread.
struct Stored {
    shape: Vec<usize>,
    source: Source,
}

enum Source {
    /// In a safetensors file, from this offset.
    Raw {
        file: Arc<Mutex<dyn ReadSeek>>,
        offset: u64,
        dtype: Dtype,
    },
    Torch(pytorch_reader::Tensor),
}

/// A file, or bytes in memory.
trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// No weight of a network that works is larger. Products of such would not be numbers any more.
const LARGEST: f32 = 1e15;
/// A header of tensor names larger than this is not one.
const MAX_HEADER: u64 = 64 << 20;
/// Where torch's checkpoints keep the weights among other things.
const STATE_DICT_KEYS: [&str; 3] = ["state_dict.", "model_state_dict.", "model."];
/// What wrapping a model for several GPUs puts before every name.
const PARALLEL_PREFIX: &str = "module.";

impl TensorFile {
    /// Lists a file. Its content says which format it has, not its name.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let read = |source| WeightsError::Read { path: path.to_path_buf(), source };
        let mut file = open_regular(path).map_err(read)?;
        let mut head = Vec::new();
        (&mut file).take(16).read_to_end(&mut head).map_err(read)?;
        let (metadata, tensors) = if head.starts_with(b"PK")
            || matches!(head.first(), Some(0x80 | b'(' | b'}')) && head.get(8) != Some(&b'{')
        {
            (HashMap::new(), open_torch(path)?)
        } else {
            let length = file.metadata().map_err(read)?.len();
            open_safetensors(file, length, path)?
        };
        let tensors = unwrap_names(tensors);
        Ok(Self { path: path.to_path_buf(), metadata, tensors })
    }

    /// Lists a safetensors file that is in memory, called `name` in messages.
    pub(crate) fn in_memory(
        name: &str,
        bytes: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<Self, WeightsError> {
        let path = PathBuf::from(name);
        let length = bytes.as_ref().len() as u64;
        let (metadata, tensors) = open_safetensors(Cursor::new(bytes), length, &path)?;
        Ok(Self { path, metadata, tensors })
    }

    /// Names of all tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Shape of a tensor, if it is there.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|tensor| tensor.shape.as_slice())
    }

    /// The bytes of a tensor that [`Self::names`] lists.
    pub(crate) fn bytes(&self, name: &str) -> Result<Vec<u8>, WeightsError> {
        let tensor = &self.tensors[name];
        let read = |source| WeightsError::Read { path: self.path.clone(), source };
        match &tensor.source {
            Source::Raw { file, offset, dtype } => {
                let elements: usize = tensor.shape.iter().product();
                let mut bytes = vec![0; elements * dtype.bitsize() / 8];
                let mut file = file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                file.seek(SeekFrom::Start(*offset)).map_err(read)?;
                file.read_exact(&mut bytes).map_err(read)?;
                Ok(bytes)
            }
            Source::Torch(tensor) => tensor.read().map_err(read),
        }
    }

    /// The values of a tensor that [`Self::names`] lists, as f32; every one of them is finite and not absurdly large.
    pub fn read(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let failed = |source| WeightsError::Read { path: self.path.clone(), source };
        let Stored { shape, source } = &self.tensors[name];
        let values = match source {
            Source::Raw { file, offset, dtype } => {
                let mut file = file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                file.seek(SeekFrom::Start(*offset)).map_err(failed)?;
                read_values(&mut *file, *dtype, shape.iter().product()).map_err(failed)?
            }
            Source::Torch(tensor) => {
                let mut values = Vec::new();
                append(&tensor.read().map_err(failed)?, dtype_of(tensor.dtype()), &mut values)
                    .map(|()| values)
            }
        };
        let values = values.ok_or_else(|| WeightsError::Format {
            path: self.path.clone(),
            reason: format!("tensor `{name}` is not of a float type"),
        })?;
        // Without a way out of the inner loop, it takes a vector at a time.
        let is_wrong = |value: &f32| value.is_nan() | (value.abs() > LARGEST);
        let has_wrong = |part: &&[f32]| part.iter().fold(false, |wrong, value| wrong | is_wrong(value));
        let wrong =
            values.chunks(1024).find(has_wrong).and_then(|part| part.iter().find(|value| is_wrong(value)));
        match wrong {
            Some(&value) => {
                Err(WeightsError::NotFinite { path: self.path.clone(), tensor: name.to_string(), value })
            }
            None => Ok(values),
        }
    }

    /// The values of a tensor that was read and checked before, as these bytes' sum says.
    ///
    /// # Panics
    /// If they are others now: the file was written to. Programs that write files whole put another in its place, which
    /// leaves the open one as it is.
    pub(crate) fn read_again(&self, name: &str, sum: u32) -> TensorData {
        let values = self.read(name).unwrap_or_else(|error| panic!("{error}"));
        let values = TensorData::new(values, self.shape(name).unwrap_or_default());
        let is_same = crc32fast::hash(values.as_bytes()) == sum;
        assert!(is_same, "`{}` was written to while it was in use", self.path.display());
        values
    }

    /// The values of a tensor with their shape; those of a matrix as a 1x1 convolution's.
    pub(crate) fn read_as_conv(&self, name: &str) -> Result<TensorData, WeightsError> {
        let shape = match self.shape(name).unwrap_or_default() {
            &[to, from] => vec![to, from, 1, 1],
            other => other.to_vec(),
        };
        Ok(TensorData::new(self.read(name)?, shape))
    }

    /// A file of other tensors, in memory, in the place of this one.
    pub(crate) fn replaced(&self, tensors: Vec<(String, TensorData)>) -> Result<Self, WeightsError> {
        let failed = |source| WeightsError::Write { path: self.path.clone(), source };
        let bytes = serialize(tensors, HashMap::new()).map_err(failed)?;
        Self::in_memory(&self.path.to_string_lossy(), bytes)
    }

    pub(crate) fn layout_error(&self, reason: impl Into<String>) -> WeightsError {
        WeightsError::Layout { path: self.path.clone(), reason: reason.into() }
    }
}

type Tensors = BTreeMap<String, Stored>;

fn open_safetensors(
    mut file: impl ReadSeek + 'static,
    length: u64,
    path: &Path,
) -> Result<(HashMap<String, String>, Tensors), WeightsError> {
    let wrong = |reason: String| WeightsError::Format { path: path.to_path_buf(), reason };
    let read = |source| WeightsError::Read { path: path.to_path_buf(), source };
    let mut size = [0; 8];
    file.rewind().map_err(read)?;
    file.read_exact(&mut size).map_err(|_| wrong(format!("it has only {length} bytes")))?;
    let size = u64::from_le_bytes(size);
    if size > MAX_HEADER || size > length.saturating_sub(8) {
        return Err(wrong("it is neither safetensors nor PyTorch".to_string()));
    }
    let mut header = vec![0; size as usize];
    file.read_exact(&mut header).map_err(read)?;
    // Checks offsets, shapes and types against each other.
    let header: Metadata = serde_json::from_slice(&header)
        .map_err(|error| wrong(format!("its header is not a safetensors header: {error}")))?;
    let data = 8 + size;
    if data + header.data_len() as u64 != length {
        let missing = format!("its tensors need {} bytes, it has {}", header.data_len(), length - data);
        return Err(wrong(format!("it is truncated or damaged: {missing}")));
    }
    let file: Arc<Mutex<dyn ReadSeek>> = Arc::new(Mutex::new(file));
    let stored = |(name, info): (String, &safetensors::tensor::TensorInfo)| {
        let offset = data + info.data_offsets.0 as u64;
        let source = Source::Raw { file: file.clone(), offset, dtype: info.dtype };
        (name, Stored { shape: info.shape.clone(), source })
    };
    let tensors = header.tensors().into_iter().map(stored).collect();
    Ok((header.metadata().clone().unwrap_or_default(), tensors))
}

fn open_torch(path: &Path) -> Result<Tensors, WeightsError> {
    let wrong = |reason: String| WeightsError::Format { path: path.to_path_buf(), reason };
    check_pickles(path).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => wrong("it is truncated".to_string()),
        _ => wrong(error.to_string()),
    })?;
    let reader = PytorchReader::new(path).map_err(|error| wrong(error.to_string()))?;
    let stored = |(name, tensor): (String, pytorch_reader::Tensor)| {
        (name, Stored { shape: tensor.shape().to_vec(), source: Source::Torch(tensor) })
    };
    Ok(reader.into_tensors().into_iter().map(stored).collect())
}

/// Walks the pickles of a `.pth` file before they are parsed: one in a zip, up to five in a row in the legacy form.
fn check_pickles(path: &Path) -> io::Result<()> {
    let mut file = BufReader::new(File::open(path)?);
    let mut head = [0; 2];
    file.read_exact(&mut head)?;
    file.rewind()?;
    if head != *b"PK" {
        // Magic number, protocol, system, the object, storage keys. A plain pickle is only the first of them.
        return (0..5).try_for_each(|i| match pickle::check(&mut file) {
            Err(error) if i > 0 && error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            result => result,
        });
    }
    // A zip's directory is its end.
    let mut archive = zip::ZipArchive::new(file).map_err(|_| io::ErrorKind::UnexpectedEof)?;
    for index in 0..archive.len() {
        let entry = archive.by_index(index)?;
        if entry.name().is_ok_and(|name| name.ends_with("data.pkl")) {
            pickle::check(&mut BufReader::new(entry))?;
        }
    }
    Ok(())
}

/// Picks the weights out of a training checkpoint, and takes off what wrapping put before their names.
fn unwrap_names(tensors: Tensors) -> Tensors {
    // DINOv3 of transformers has blocks called `model.layer.`, beside other tensors.
    let is_plain = tensors.contains_key("embeddings.cls_token");
    let wrapper = STATE_DICT_KEYS.iter().find(|key| tensors.keys().any(|name| name.starts_with(**key)));
    let wrapper = wrapper.filter(|_| !is_plain);
    let inner = |(name, tensor): (String, Stored)| {
        let name = match wrapper {
            Some(key) => name.strip_prefix(key)?,
            None => &name,
        };
        Some((name.strip_prefix(PARALLEL_PREFIX).unwrap_or(name).to_string(), tensor))
    };
    tensors.into_iter().filter_map(inner).collect()
}

fn dtype_of(dtype: TorchDtype) -> Dtype {
    match dtype {
        TorchDtype::F64 => Dtype::F64,
        TorchDtype::F32 => Dtype::F32,
        TorchDtype::F16 => Dtype::F16,
        TorchDtype::BF16 => Dtype::BF16,
        _ => Dtype::I64,
    }
}

/// So many values as f32, unless they are of no float type. A part of the file at a time: a copy of a whole tensor would
/// leave a hole in memory.
fn read_values(file: &mut dyn ReadSeek, dtype: Dtype, count: usize) -> io::Result<Option<Vec<f32>>> {
    let mut values = Vec::with_capacity(count);
    let mut part = [0; 1 << 16];
    let mut left = count * dtype.bitsize() / 8;
    while left > 0 {
        let part = &mut part[..left.min(1 << 16)];
        file.read_exact(part)?;
        if append(part, dtype, &mut values).is_none() {
            return Ok(None);
        }
        left -= part.len();
    }
    Ok(Some(values))
}

/// Adds values to others, unless they are of no float type.
fn append(bytes: &[u8], dtype: Dtype, to: &mut Vec<f32>) -> Option<()> {
    fn each<const N: usize>(bytes: &[u8], to: &mut Vec<f32>, convert: impl Fn([u8; N]) -> f32) {
        to.extend(bytes.as_chunks::<N>().0.iter().map(|&chunk| convert(chunk)));
    }
    match dtype {
        Dtype::F32 => each(bytes, to, f32::from_le_bytes),
        Dtype::F64 => each(bytes, to, |bytes| f64::from_le_bytes(bytes) as f32),
        Dtype::F16 => each(bytes, to, |bytes| f16::from_le_bytes(bytes).to_f32()),
        Dtype::BF16 => each(bytes, to, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        _ => return None,
    }
    Some(())
}
