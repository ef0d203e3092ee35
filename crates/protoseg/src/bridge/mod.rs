//! The single crossing between Burn and our kernels: tensors of the CPU go to `protoseg-kernels` and back, with
//! gradients. On every other device the same functions are Burn's own.

mod conv;
mod norm;
mod parts;
mod pixel_loss;
#[cfg(test)]
mod tests;

use burn::{
    backend::{DispatchDevice, Flex, tensor::FloatTensor},
    tensor::{DType, Device, Tensor, TensorData},
};
use protoseg_kernels::channels_last::transpose;

pub(crate) use conv::{ConvGeometry, conv, conv2d};
pub(crate) use norm::{Then, activate, norm_eval, norm_train};
pub(crate) use parts::channel_parts;
pub(crate) use pixel_loss::{PixelTargets, pixel_loss};

/// Whether a device's tensors are slices of this process.
pub(crate) fn is_cpu(device: &Device) -> bool {
    match device.as_dispatch() {
        DispatchDevice::Flex(_) => true,
        DispatchDevice::Autodiff(device) => matches!(**device, DispatchDevice::Flex(_)),
        #[allow(unreachable_patterns)] // reachable in builds with other devices
        _ => false,
    }
}

/// `[rows, columns]` as the values of `[columns, rows]`.
pub(crate) fn transposed(matrix: Tensor<2>) -> Vec<f32> {
    let [_, columns] = matrix.dims();
    let values: Vec<f32> = matrix.try_into_vec_as().expect("the matrix is f32");
    transpose(&values, columns)
}

/// The values of a tensor, where they lie.
pub(crate) struct Values(FloatTensor<Flex>);

impl Values {
    /// None if the tensor is not on the CPU, has gradients, or is not of single precision.
    pub fn of<const D: usize>(tensor: &Tensor<D>) -> Option<Self> {
        if tensor.dtype() != DType::F32 || tensor.device().is_autodiff() || !is_cpu(&tensor.device()) {
            return None;
        }
        Some(Self(tensor.clone().try_into_primitive::<Flex>().ok()?.to_contiguous()))
    }
}

impl std::ops::Deref for Values {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        values(&self.0)
    }
}

/// The values of a contiguous tensor.
fn values(tensor: &FloatTensor<Flex>) -> &[f32] {
    tensor.as_slice().expect("the tensor is contiguous and of single precision")
}

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> FloatTensor<Flex> {
    FloatTensor::<Flex>::from_data(TensorData::new(values, shape))
}
