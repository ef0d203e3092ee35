/// How numbers are rounded before they are multiplied. Sums are in single precision in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Not at all, or by less than single precision loses elsewhere: on CPUs with tiles, a number is the sum of two
    /// bfloat16 numbers, to 2^-17 of it.
    #[default]
    Single,
    /// To bfloat16 in convolutions that are products and in comparisons with prototypes, if the CPU multiplies such
    /// numbers faster; otherwise as [`Self::Single`].
    Fast,
}
