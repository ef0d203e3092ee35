/// How numbers are rounded before they are multiplied. Sums are in single precision in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Not at all.
    #[default]
    Single,
    /// To bfloat16 in convolutions that are products and in comparisons with prototypes, if the CPU multiplies such
    /// numbers faster; otherwise not at all.
    Fast,
}
