//! Superpixel-guided clustering: the cells of a support gather around its seeds, by feature and by place.

/// How much less a cell's distance in place counts than that in features, squared.
const PLACE: f32 = 100.0;

/// The centres `[seeds][channels]` after `iterations` of clustering.
///
/// - `features`: `[channels][height * width]`
/// - `cells`: the places that take part
/// - `seeds`: `[row, column]` of the first centres
///
/// Each cell belongs to each centre by `exp(-d)`, divided by the sum over all cells, where
/// `d^2 = |f - c|^2 + |place - place of c|^2 / 100`. A centre becomes the mean of all cells by these shares.
pub fn cluster(
    features: &[f32],
    [height, width]: [usize; 2],
    cells: &[usize],
    seeds: &[[usize; 2]],
    iterations: usize,
) -> Vec<Vec<f32>> {
    let point = |at: usize| Point {
        feature: features.iter().skip(at).step_by(height * width).copied().collect(),
        place: [(at / width) as f32, (at % width) as f32],
    };
    let points: Vec<Point> = cells.iter().map(|&at| point(at)).collect();
    let mut centres: Vec<Point> = seeds.iter().map(|&[row, column]| point(row * width + column)).collect();
    for _ in 0..iterations {
        centres.iter_mut().for_each(|centre| *centre = moved(centre, &points));
    }
    centres.into_iter().map(|centre| centre.feature).collect()
}

/// A cell or a centre.
struct Point {
    feature: Vec<f32>,
    place: [f32; 2],
}

/// A centre in the middle of the points around it.
fn moved(centre: &Point, points: &[Point]) -> Point {
    let distances: Vec<f32> = points.iter().map(|point| distance(point, centre)).collect();
    // Shares do not change if all distances are smaller by the same, but none vanish then.
    let least = distances.iter().copied().fold(f32::INFINITY, f32::min);
    let mut sum = 0f64;
    let mut feature = vec![0f64; centre.feature.len()];
    let mut place = [0f64; 2];
    for (point, distance) in points.iter().zip(distances) {
        let share = f64::from((least - distance).exp());
        sum += share;
        feature.iter_mut().zip(&point.feature).for_each(|(mean, &value)| *mean += share * f64::from(value));
        place.iter_mut().zip(point.place).for_each(|(mean, value)| *mean += share * f64::from(value));
    }
    Point {
        feature: feature.into_iter().map(|value| (value / sum) as f32).collect(),
        place: place.map(|value| (value / sum) as f32),
    }
}

fn distance(a: &Point, b: &Point) -> f32 {
    let [y, x] = [a.place[0] - b.place[0], a.place[1] - b.place[1]];
    (squared_distance(&a.feature, &b.feature) + (y * y + x * x) / PLACE).sqrt()
}

/// In lanes that the compiler makes vectors of.
fn squared_distance(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 8;
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0f32; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            let difference = a[lane] - b[lane];
            sums[lane] += difference * difference;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| (a - b) * (a - b)).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use protoseg_testing::assert_close;

    #[test]
    fn one_step_by_hand() {
        // One channel, three cells in a row: 0, 1, 5; the last is outside. The seed is the first.
        let d = (1.0f32 + 0.01).sqrt();
        let expected = (-d).exp() / (1.0 + (-d).exp());
        let centres = cluster(&[0.0, 1.0, 5.0], [1, 3], &[0, 1], &[[0, 0]], 1);
        assert_close("centre", &centres[0], &[expected], 1e-6);
    }

    #[test]
    fn cells_that_are_far_away_leave_no_hole() {
        let centres = cluster(&[0.0, 1000.0, 1001.0], [1, 3], &[1, 2], &[[0, 0]], 1);
        let share = 1.0 / (1.0 + (-1f32).exp());
        assert_close("centre", &centres[0], &[1000.0 * share + 1001.0 * (1.0 - share)], 1e-3);
    }
}
