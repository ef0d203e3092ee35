//! Curves in text: each character of the Braille block is 2 dots wide and 4 high.

/// A curve through all values, as lines of `width` characters. The highest value touches the top, the lowest the
/// bottom.
pub fn curve(values: &[f32], width: usize, height: usize) -> Vec<String> {
    let (columns, rows) = (2 * width, 4 * height);
    let (low, high) =
        values.iter().fold((f32::MAX, f32::MIN), |(low, high), &value| (low.min(value), high.max(value)));
    let level = |value: f32| {
        let share = if high > low { (high - value) / (high - low) } else { 0.5 };
        (share * (rows - 1) as f32).round() as usize
    };
    let mut cells = vec![0u8; width * height];
    let mut before = None;
    for column in 0..columns.min(values.len()) {
        let (from, to) = match values.len() > columns {
            true => (column * values.len() / columns, (column + 1) * values.len() / columns),
            false => (column, column + 1),
        };
        let stretch = &values[from..to.max(from + 1)];
        let row = level(stretch.iter().sum::<f32>() / stretch.len() as f32);
        // Steep parts are lines too: the dots between two columns are filled in.
        let start =
            before.map_or(
                row,
                |before: usize| if before < row { before + 1 } else { before.saturating_sub(1).max(row) },
            );
        for row in start.min(row)..=start.max(row) {
            cells[row / 4 * width + column / 2] |= dot(column % 2, row % 4);
        }
        before = Some(row);
    }
    let letter = |&dots: &u8| char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' ');
    cells.chunks(width).map(|line| line.iter().map(letter).collect()).collect()
}

/// The bit of a dot; the lowest row came to Braille last.
fn dot(column: usize, row: usize) -> u8 {
    match row {
        3 => 0x40 << column,
        _ => 1 << (row + 3 * column),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_falling_line_goes_from_the_upper_left_to_the_lower_right() {
        assert_eq!(curve(&[8., 7., 6., 5., 4., 3., 2., 1.], 4, 2), ["⠑⢄⠀⠀", "⠀⠀⠑⢄"]);
    }

    #[test]
    fn steep_parts_are_filled_and_even_ones_are_level() {
        assert_eq!(curve(&[1.0, 0.0], 1, 1), ["⢱"]);
        assert_eq!(curve(&[2.0; 4], 2, 1), ["⠤⠤"]);
    }

    #[test]
    fn more_values_than_dots_are_averaged() {
        let values: Vec<f32> = (0..1000).map(|at| -(at as f32)).collect();
        let lines = curve(&values, 10, 2);
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.chars().count() == 10));
    }
}
