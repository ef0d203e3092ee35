//! Powers of two by a polynomial.

use super::Simd;

/// The least exponent, so that nothing becomes too small for a normal number.
pub const LEAST: f32 = -125.0;
/// `2^x` from -1/2 to 1/2, of least relative error by Lawson's iteration; the highest power first.
pub const POWERS: [f32; 6] =
    [1.327_647_2e-3, 9.675_542e-3, 5.550_713e-2, 0.240_221_2, 0.693_146_94, 1.000_000_1];
/// Added to a number, this leaves its nearest whole one in the lowest bits.
const ROUND: f32 = 12_582_912.0;

/// What [`Simd::power_of_two`] says, of one lane.
#[inline(always)]
pub fn of_two<S: Simd + ?Sized>(x: f32) -> f32 {
    let x = if x > LEAST { x } else { LEAST };
    let shifted = x + ROUND;
    let rest = x - (shifted - ROUND);
    let [first, others @ ..] = POWERS;
    let value = others.iter().fold(first, |sum, &next| S::mul_add(sum, rest, next));
    // The whole part goes to the exponent.
    f32::from_bits(value.to_bits().wrapping_add(shifted.to_bits() << 23))
}
