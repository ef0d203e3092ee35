//! Comparisons that NaN, an unexpected infinity or a missing value fail.

/// Fails with the worst element if any two differ by more than `tolerance`, and returns the largest difference.
///
/// An infinity equals only itself, and NaN equals nothing, not even an expected NaN. Nothing at all, or another number
/// of values than expected, fails too.
#[track_caller]
pub fn assert_close(what: &str, got: &[f32], expected: &[f32], tolerance: f32) -> f32 {
    assert_eq!(got.len(), expected.len(), "{what}: {} values, expected {}", got.len(), expected.len());
    assert!(
        tolerance.is_finite() && tolerance >= 0.0,
        "{what}: a tolerance of {tolerance} lets anything pass"
    );
    let difference = |i: usize| if got[i] == expected[i] { 0.0 } else { (got[i] - expected[i]).abs() };
    // NaN counts as the largest difference.
    let worst = (0..got.len()).max_by(|&a, &b| difference(a).total_cmp(&difference(b)));
    let worst = worst.unwrap_or_else(|| panic!("{what}: no values to compare"));
    let error = difference(worst);
    assert!(
        error <= tolerance,
        "{what}: element {worst} is {}, expected {}: differs by {error}, more than {tolerance}",
        got[worst],
        expected[worst]
    );
    error
}

/// The same with a tolerance relative to the largest expected magnitude, and a returned difference relative to it.
///
/// Fails if that magnitude is zero or not finite, because no difference is relative to it.
#[track_caller]
pub fn assert_close_relative(what: &str, got: &[f32], expected: &[f32], tolerance: f32) -> f32 {
    let largest = expected.iter().fold(0f32, |largest, value| largest.max(value.abs()));
    assert!(
        largest > 0.0 && largest.is_finite(),
        "{what}: the largest expected magnitude is {largest}, to which no difference is relative"
    );
    assert_close(what, got, expected, tolerance * largest) / largest
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAN: f32 = f32::NAN;
    const INFINITY: f32 = f32::INFINITY;

    #[test]
    fn the_largest_difference_comes_back() {
        assert_eq!(assert_close("a", &[1.0, 2.5, -3.0], &[1.0, 2.0, -3.25], 0.5), 0.5);
        assert_eq!(assert_close_relative("a", &[1.0, 2.5, -4.0], &[1.0, 2.0, -4.0], 0.125), 0.125);
    }

    #[test]
    fn expected_infinities_and_zeros_pass() {
        assert_eq!(assert_close("a", &[INFINITY, -INFINITY], &[INFINITY, -INFINITY], 0.0), 0.0);
        assert_eq!(assert_close("a", &[0.0], &[-0.0], 0.0), 0.0);
    }

    #[test]
    #[should_panic(expected = "element 1 is 2.5, expected 2: differs by 0.5, more than 0.25")]
    fn a_larger_difference_fails() {
        assert_close("a", &[1.0, 2.5], &[1.0, 2.0], 0.25);
    }

    #[test]
    #[should_panic(expected = "element 1 is NaN")]
    fn nan_fails() {
        assert_close("a", &[9.0, NAN, 9.0], &[1.0, 2.0, 3.0], 100.0);
    }

    #[test]
    #[should_panic(expected = "element 0 is NaN")]
    fn negative_nan_fails() {
        assert_close("a", &[-NAN, 2.0], &[1.0, 2.0], 100.0);
    }

    #[test]
    #[should_panic(expected = "element 0 is NaN, expected NaN")]
    fn an_expected_nan_fails() {
        assert_close("a", &[NAN], &[NAN], 1.0);
    }

    #[test]
    #[should_panic(expected = "element 0 is inf")]
    fn an_unexpected_infinity_fails() {
        assert_close("a", &[INFINITY], &[f32::MAX], f32::MAX);
    }

    #[test]
    #[should_panic(expected = "element 0 is inf, expected -inf")]
    fn an_infinity_of_the_other_sign_fails() {
        assert_close("a", &[INFINITY], &[-INFINITY], 1.0);
    }

    #[test]
    #[should_panic(expected = "1 values, expected 2")]
    fn a_shorter_slice_fails() {
        assert_close("a", &[1.0], &[1.0, 2.0], 1.0);
    }

    #[test]
    #[should_panic(expected = "3 values, expected 2")]
    fn a_longer_slice_fails() {
        assert_close("a", &[1.0, 2.0, 3.0], &[1.0, 2.0], 1.0);
    }

    #[test]
    #[should_panic(expected = "no values to compare")]
    fn nothing_fails() {
        assert_close("a", &[], &[], 1.0);
    }

    #[test]
    #[should_panic(expected = "lets anything pass")]
    fn an_infinite_tolerance_fails() {
        assert_close("a", &[1.0], &[2.0], INFINITY);
    }

    #[test]
    #[should_panic(expected = "differs by 0.5, more than 0.4")]
    fn a_larger_relative_difference_fails() {
        assert_close_relative("a", &[1.0, 4.5], &[1.0, 4.0], 0.1);
    }

    #[test]
    #[should_panic(expected = "element 0 is NaN")]
    fn nan_fails_relative_too() {
        assert_close_relative("a", &[NAN, 4.0], &[1.0, 4.0], 100.0);
    }

    #[test]
    #[should_panic(expected = "element 0 is 1, expected NaN")]
    fn an_expected_nan_fails_relative_too() {
        assert_close_relative("a", &[1.0, 4.0], &[NAN, 4.0], 100.0);
    }

    #[test]
    #[should_panic(expected = "the largest expected magnitude is 0,")]
    fn a_difference_relative_to_zeros_fails() {
        assert_close_relative("a", &[0.0, 0.0], &[0.0, 0.0], 0.1);
    }

    #[test]
    #[should_panic(expected = "the largest expected magnitude is inf,")]
    fn a_difference_relative_to_an_infinity_fails() {
        assert_close_relative("a", &[1.0, 2.0], &[INFINITY, 1.0], 0.1);
    }

    #[test]
    #[should_panic(expected = "1 values, expected 2")]
    fn a_shorter_slice_fails_relative_too() {
        assert_close_relative("a", &[1.0], &[1.0, 2.0], 1.0);
    }
}
