//! Supports as Python has them: pairs of an image and a mask, `protoseg.Support`, or a folder.

use std::path::{Path, PathBuf};

use numpy::{
    PyArray2, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods, ndarray::ArrayView2,
};
use protoseg::{
    Support,
    core::{IGNORE, RowMap, SUPPORT_ROW},
    data::{DataError, MaskSource, SupportFiles},
};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyString, PyTuple},
};

use crate::{
    error::{Failure, input},
    image::{Source, array, path, size},
};

/// What 8-bit masks write for "no label".
const NO_LABEL: u16 = 255;

/// A support that Python gave.
pub struct Given {
    image: Source,
    mask: Mask,
    value: Option<u16>,
    name: Option<String>,
}

enum Mask {
    Files(MaskSource),
    /// Ids in memory; of a mask of true and false, 1 is the class.
    Memory {
        width: usize,
        height: usize,
        ids: Vec<u16>,
        is_scribble: bool,
    },
}

/// The supports of a class: a list, or a folder or a list of files as the command line reads it.
pub fn gather(class: &str, supports: &Bound<'_, PyAny>) -> Result<Vec<Given>, Failure> {
    if let Some(path) = path(supports) {
        let files = match path.is_dir() {
            true => SupportFiles::read_folder(class, &path)?,
            false => SupportFiles::read_list(class, &path)?,
        };
        let given = |files: SupportFiles| Given {
            image: Source::File(files.image),
            mask: Mask::Files(files.mask),
            value: files.value,
            name: None,
        };
        return Ok(files.into_iter().map(given).collect());
    }
    let mut given = Vec::new();
    for (place, support) in supports.try_iter()?.enumerate() {
        given.push(Given::new(&support?, place)?);
    }
    Ok(given)
}

impl Given {
    fn new(support: &Bound<'_, PyAny>, place: usize) -> Result<Self, Failure> {
        if let Ok(pair) = support.cast::<PyTuple>() {
            let Ok((image, mask)) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() else {
                return Err(wrong(place, &format!("a tuple of {}", pair.len())));
            };
            let mask = Mask::new(&mask, false)?;
            return Ok(Self { image: Source::new(&image)?, mask, value: None, name: None });
        }
        // A `protoseg.Support`, which is a class of Python.
        if support.is_instance_of::<PyString>() || !support.hasattr("scribble")? {
            return Err(wrong(place, &format!("`{}`", support.get_type().name()?)));
        }
        let get = |name: &str| support.getattr(name).map(|value| (!value.is_none()).then_some(value));
        let image = Source::new(&support.getattr("image")?)?;
        let is_scribble: bool = support.getattr("scribble")?.extract()?;
        let mask = match (get("mask")?, get("box")?) {
            (Some(_), Some(_)) => return Err(input(format!("support {place} has a mask and a box"))),
            (Some(mask), None) => Mask::new(&mask, is_scribble)?,
            (None, Some(bounds)) => Mask::Files(MaskSource::Box(read_box(&bounds)?)),
            (None, None) => Mask::Files(MaskSource::Alpha),
        };
        let value = get("value")?.map(|value| value.extract()).transpose()?;
        let name = get("name")?.map(|name| name.extract()).transpose()?;
        Ok(Self { image, mask, value, name })
    }

    /// The support, for a model with this many base classes and rows. `place` names one that has no file.
    pub fn load(self, class: &str, place: usize, n_base: u16, known: u16) -> Result<Support, DataError> {
        let Self { image, mask, value, name } = self;
        let default = || match image.path().and_then(Path::file_name) {
            Some(file) => file.to_string_lossy().into_owned(),
            None => format!("support {}", place + 1),
        };
        let name = name.unwrap_or_else(default);
        match mask {
            Mask::Files(mask) => {
                let files = |image: PathBuf| SupportFiles {
                    value,
                    ..SupportFiles::with(class, &image, mask.clone())
                };
                match image {
                    Source::File(path) => files(path).load(n_base, known),
                    Source::Memory(image) => files(name.into()).load_onto(image, n_base, known),
                }
            }
            Mask::Memory { width, height, ids, is_scribble } => {
                let wrong = |reason: String, hint: &str| DataError::SupportMask {
                    path: PathBuf::from(&name),
                    class: class.to_string(),
                    reason,
                    hint: hint.to_string(),
                };
                let value = match value {
                    Some(value) => value,
                    None => only_id(&ids).map_err(|reason| {
                        wrong(reason, "say which id is the class: `protoseg.Support(image, mask, value=ID)`, or give `mask == ID`")
                    })?,
                };
                let label = |&id: &u16| if id == value { SUPPORT_ROW } else { IGNORE };
                let labels = RowMap::new(width, height, ids.iter().map(label).collect());
                let support = Support::new(&name, image.read()?, labels)?;
                match support.pixels() {
                    0 => Err(wrong("holds no pixel of the class".into(), "mark the class in the mask")),
                    _ if is_scribble => Ok(support.scribbled()),
                    _ => Ok(support),
                }
            }
        }
    }
}

/// The id of the class, as in a file: the only one besides 0 and 255, or 255 if there is no other.
fn only_id(ids: &[u16]) -> Result<u16, String> {
    let mut found: Vec<u16> = Vec::new();
    for &id in ids.iter().filter(|&&id| id != 0) {
        if !found.contains(&id) {
            found.push(id);
        }
        if found.len() > 8 {
            break;
        }
    }
    found.sort_unstable();
    let named: Vec<u16> = found.iter().copied().filter(|&id| id != NO_LABEL).collect();
    match named[..] {
        [id] => Ok(id),
        [] if found.is_empty() => Err("holds no pixel of the class".to_string()),
        [] => Ok(NO_LABEL),
        _ => {
            let ids: Vec<String> = named.iter().map(|id| format!("`{id}`")).collect();
            Err(format!("holds the ids {}", ids.join(", ")))
        }
    }
}

impl Mask {
    fn new(mask: &Bound<'_, PyAny>, is_scribble: bool) -> Result<Self, Failure> {
        if let Some(path) = path(mask) {
            return Ok(Self::Files(match is_scribble {
                true => MaskSource::Scribble(path),
                false => MaskSource::File(path),
            }));
        }
        let array = array(mask, "mask", None)?;
        let shape = array.shape();
        if shape.len() != 2 {
            return Err(input(format!(
                "the mask has the shape `{shape:?}`, expected (height, width)\n\
                 hint: of a picture, say which pixels are the class: `(mask == COLOUR).all(axis=-1)`"
            )));
        }
        let (height, width) = size(shape, "mask")?;
        let ids = read_ids(&array)?;
        Ok(Self::Memory { width, height, ids, is_scribble })
    }
}

/// The numbers of a mask of any integer type, or of true and false.
fn read_ids(array: &Bound<'_, PyUntypedArray>) -> Result<Vec<u16>, Failure> {
    let (dtype, any) = (array.dtype(), array.as_any());
    match dtype.kind() {
        // What is not 0 is true, whatever the byte. A `bool` of Rust must be 0 or 1, and nothing forces numpy's to be.
        b'b' => elements(&any.call_method1("view", ("uint8",))?, |value: u8| u16::from(value != 0)),
        b'u' if dtype.itemsize() == 1 => elements(any, |id: u8| u16::from(id)),
        b'u' | b'i' => {
            let (least, most): (i128, i128) =
                (any.call_method0("min")?.extract()?, any.call_method0("max")?.extract()?);
            if least < 0 || most > i128::from(u16::MAX) {
                return Err(input(format!(
                    "the mask has ids from {least} to {most}, expected 0 to {}\n\
                     hint: say which pixels are the class: `mask == ID`",
                    u16::MAX
                )));
            }
            elements(&any.call_method1("astype", ("uint16",))?, |id: u16| id)
        }
        _ => Err(input(format!(
            "the mask has the dtype `{dtype}`, expected `bool` or whole numbers\n\
             hint: say which pixels are the class, as with `mask > 0.5`"
        ))),
    }
}

fn elements<T: numpy::Element + Copy>(
    array: &Bound<'_, PyAny>,
    id: impl Fn(T) -> u16,
) -> Result<Vec<u16>, Failure> {
    let array = array.cast::<PyArray2<T>>().map_err(PyErr::from)?;
    let array = array.try_readonly().map_err(|error| input(format!("the mask is in use: {error}")))?;
    let view: ArrayView2<'_, T> = array.as_array();
    Ok(view.iter().map(|&value| id(value)).collect())
}

fn read_box(bounds: &Bound<'_, PyAny>) -> Result<[u32; 4], Failure> {
    let numbers: Option<[f64; 4]> = bounds.extract().ok();
    let text = numbers.map(|numbers| numbers.map(|number| number.to_string()).join(","));
    match text.and_then(|text| MaskSource::parse_box(&text)) {
        Some(MaskSource::Box(bounds)) => Ok(bounds),
        _ => Err(input(format!(
            "the box must be (left, top, width, height) in pixels, got `{}`",
            bounds.repr()?
        ))),
    }
}

fn wrong(place: usize, got: &str) -> Failure {
    PyTypeError::new_err(format!(
        "support {place} must be a pair of an image and its mask, or a `protoseg.Support`, got {got}\n\
         hint: give a list of pairs: [(image, mask)]"
    ))
    .into()
}
