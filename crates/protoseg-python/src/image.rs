//! Images as Python has them: arrays of numpy, pictures of PIL, and files.

use std::path::{Path, PathBuf};

use numpy::{
    PyArray1, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods,
};
use protoseg::{
    Image,
    data::{
        DataError,
        picture::{MAX_PIXELS, MAX_SIDE},
    },
};
use pyo3::{exceptions::PyTypeError, prelude::*};

use crate::error::{Failure, input};

/// An image that Python gave: read, or still to be read.
pub enum Source {
    File(PathBuf),
    Memory(Image),
}

impl Source {
    /// A path, a numpy array, a PIL image, or anything that numpy makes an array of.
    pub fn new(value: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        match path(value) {
            Some(path) => Ok(Self::File(path)),
            None => Ok(Self::Memory(from_array(&array(value, "image", Some("RGB"))?)?)),
        }
    }

    /// Its file, if it has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Memory(_) => None,
        }
    }

    pub fn read(self) -> Result<Image, DataError> {
        match self {
            Self::File(path) => protoseg::read_image(path),
            Self::Memory(image) => Ok(image),
        }
    }
}

/// The path that a string or a `pathlib.Path` is.
pub fn path(value: &Bound<'_, PyAny>) -> Option<PathBuf> {
    value.extract().ok()
}

/// An array of what Python gave. A PIL image is brought to `mode` first, so that a palette does not give its indices.
pub fn array<'py>(
    value: &Bound<'py, PyAny>,
    what: &str,
    mode: Option<&str>,
) -> Result<Bound<'py, PyUntypedArray>, Failure> {
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        return Ok(array.clone());
    }
    let numpy = value.py().import("numpy")?;
    let is_picture = value.hasattr("convert")? && value.hasattr("getbands")?;
    let is_other = |mode: &&str| value.getattr("mode").and_then(|own| own.ne(*mode)).unwrap_or(true);
    let made = match mode.filter(|mode| is_picture && is_other(mode)) {
        Some(mode) => numpy.call_method1("asarray", (value.call_method1("convert", (mode,))?,))?,
        None if is_picture || value.hasattr("__array__")? || value.hasattr("__array_interface__")? => {
            numpy.call_method1("asarray", (value,))?
        }
        None => {
            let kind = value.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "{what} must be a path, a numpy array or a PIL image, got `{kind}`"
            ))
            .into());
        }
    };
    Ok(made.cast_into::<PyUntypedArray>().map_err(PyErr::from)?)
}

/// Height and width of an array that is not empty and not too large to be a picture.
pub fn size(shape: &[usize], what: &str) -> Result<(usize, usize), Failure> {
    let (height, width) = (shape[0], shape[1]);
    if height == 0 || width == 0 {
        return Err(input(format!("{what} is empty: got the shape `{shape:?}`")));
    }
    if width.max(height) > MAX_SIDE || width.saturating_mul(height) > MAX_PIXELS {
        let path = PathBuf::from(format!("{what} in memory"));
        return Err(DataError::TooLarge { path, width, height, max: MAX_PIXELS }.into());
    }
    Ok((height, width))
}

/// The picture in an array: (height, width), or with 1, 3 or 4 channels last; the fourth is dropped, as that of a file is.
pub fn from_array(array: &Bound<'_, PyUntypedArray>) -> Result<Image, Failure> {
    let shape = array.shape();
    let channels = match *shape {
        [_, _] => 1,
        [_, _, channels @ (1 | 3 | 4)] => channels,
        [1 | 3 | 4, _, _] => {
            return Err(input(format!(
                "the image has the shape `{shape:?}`, expected (height, width, 3)\n\
                 hint: move its channels to the end with `image.transpose(1, 2, 0)`"
            )));
        }
        _ => return Err(input(format!("the image has the shape `{shape:?}`, expected (height, width, 3)"))),
    };
    let (height, width) = size(shape, "image")?;
    let Ok(bytes) = array.cast::<PyArrayDyn<u8>>() else {
        let dtype = array.dtype();
        let hint = match dtype.kind() {
            b'f' => "if its values are from 0 to 1, give `(255 * image).round().astype(\"uint8\")`",
            b'u' if dtype.itemsize() == 2 => "give `(image >> 8).astype(\"uint8\")`",
            _ => "give `image.astype(\"uint8\")` if its values are from 0 to 255",
        };
        return Err(input(format!("the image has the dtype `{dtype}`, expected `uint8`\nhint: {hint}")));
    };
    let bytes = bytes.try_readonly().map_err(|error| input(format!("the image is in use: {error}")))?;
    let view = bytes.as_array();
    // Not `bytes.as_slice()`: that of an array in Fortran's order has the pixels in another order.
    let data = match (channels, view.as_slice()) {
        (3, Some(bytes)) => bytes.to_vec(),
        (3, None) => view.iter().copied().collect(),
        (1, _) => view.iter().flat_map(|&gray| [gray; 3]).collect(),
        _ => view
            .iter()
            .zip([true, true, true, false].iter().cycle())
            .filter_map(|(&value, &is_kept)| is_kept.then_some(value))
            .collect(),
    };
    Ok(Image::new(width, height, data))
}

/// A picture as a (height, width, 3) array, without a copy.
pub fn to_array<'py>(py: Python<'py>, image: Image) -> PyResult<Bound<'py, PyAny>> {
    let Image { width, height, data } = image;
    Ok(PyArray1::from_vec(py, data).reshape([height, width, 3])?.into_any())
}
