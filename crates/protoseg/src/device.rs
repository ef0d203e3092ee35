//! Where tensors live, chosen by name at run time.

use burn::tensor::Device;

/// A device that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// This build has no such device.
    #[error("device `{name}` is unknown or not built in\nhint: this build has {}", BUILT_IN.join(", "))]
    NotBuiltIn {
        /// The name that was asked for.
        name: String,
    },
    /// This machine has no such device.
    #[error(
        "device `{name}` was not found on this machine ({found} of its kind are here)\n\
         hint: use another of {}", BUILT_IN.join(", ")
    )]
    NotFound {
        /// The name that was asked for.
        name: String,
        /// How many of its kind there are.
        found: usize,
    },
}

/// Names of the devices compiled into this build. All but `cpu` take an index: `cuda:1`.
pub const BUILT_IN: &[&str] = &[
    "cpu",
    #[cfg(feature = "cuda")]
    "cuda",
    #[cfg(feature = "rocm")]
    "rocm",
    #[cfg(feature = "vulkan")]
    "vulkan",
    #[cfg(feature = "metal")]
    "metal",
];

/// The CPU, through Burn's `flex` backend.
pub fn cpu() -> Device {
    Device::flex()
}

/// The device of this name: `cpu`, or one of [`BUILT_IN`] with or without an index (`cuda`, `cuda:1`).
pub fn open(name: &str) -> Result<Device, DeviceError> {
    if name == "cpu" {
        return Ok(cpu());
    }
    let (kind, index) = match name.split_once(':') {
        None => (name, Some(0)),
        Some((kind, index)) => (kind, index.parse().ok()),
    };
    let not_built_in = || DeviceError::NotBuiltIn { name: name.to_string() };
    let index: usize = index.ok_or_else(not_built_in)?;
    let mut devices = enumerate(kind).ok_or_else(not_built_in)?;
    if index < devices.len() {
        Ok(devices.swap_remove(index))
    } else {
        Err(DeviceError::NotFound { name: name.to_string(), found: devices.len() })
    }
}

/// Every device of a kind on this machine; nothing if the kind is not built in.
fn enumerate(kind: &str) -> Option<Vec<Device>> {
    #[allow(unused_imports)] // the CPU-only build has no kind to list
    use burn::tensor::DeviceType;
    match kind {
        #[cfg(feature = "cuda")]
        "cuda" => Some(list(DeviceType::Cuda)),
        #[cfg(feature = "rocm")]
        "rocm" => Some(list(DeviceType::Rocm)),
        #[cfg(feature = "vulkan")]
        "vulkan" => Some(list(DeviceType::Vulkan)),
        #[cfg(feature = "metal")]
        "metal" => Some(list(DeviceType::Metal)),
        _ => None,
    }
}

/// Listing asks the driver, and some bindings panic when there is none: to a user that is "no such device".
#[cfg(any(feature = "cuda", feature = "rocm", feature = "vulkan", feature = "metal"))]
fn list(kind: burn::tensor::DeviceType) -> Vec<Device> {
    std::panic::catch_unwind(|| Device::enumerate(kind).into_vec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_device_lists_those_built_in() {
        for name in ["tpu", "cuda:x", "cpu:1", ""] {
            let error = open(name).unwrap_err();
            assert!(matches!(error, DeviceError::NotBuiltIn { .. }), "{name}: {error}");
            assert!(error.to_string().contains("cpu"), "{error}");
        }
        assert!(open("cpu").is_ok());
    }
}
