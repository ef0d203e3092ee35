//! What follows a convolution or a normalisation, value by value.

/// A function applied to every value of a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// Values stay as they are.
    #[default]
    None,
    /// `max(x, 0)`
    Relu,
    /// `min(max(x, 0), 6)`
    Relu6,
}

impl Activation {
    /// Applies the function to every value.
    #[inline(always)]
    pub(crate) fn apply(self, values: &mut [f32]) {
        match self {
            Self::None => {}
            Self::Relu => values.iter_mut().for_each(|value| *value = value.max(0.0)),
            Self::Relu6 => values.iter_mut().for_each(|value| *value = value.clamp(0.0, 6.0)),
        }
    }

    /// The smallest and the largest value that can come out: the function cuts off what lies beyond.
    pub(crate) fn limits(self) -> [f32; 2] {
        match self {
            Self::None => [f32::NEG_INFINITY, f32::INFINITY],
            Self::Relu => [0.0, f32::INFINITY],
            Self::Relu6 => [0.0, 6.0],
        }
    }
}
