//! Spherical k-means: groups of vectors that point in similar directions.

use burn::tensor::{Tensor, TensorData};
use protoseg_core::seed;
use rand::Rng;

use crate::{device::cpu, method::cosine::unit};

/// Rounds after which groups hardly change any more.
const ROUNDS: usize = 15;

/// The group of each of the `count` vectors of `points` (`[count, dim]`, of unit length): at most `groups` of them, all
/// with members, numbered from 0. The same points give the same groups.
pub fn kmeans(points: &[f32], dim: usize, groups: usize) -> Vec<usize> {
    let count = points.len() / dim.max(1);
    if count <= groups || groups <= 1 {
        return (0..count).map(|point| point.min(groups.saturating_sub(1))).collect();
    }
    let all = Tensor::<2>::from_data(TensorData::new(points.to_vec(), [count, dim]), &cpu());
    let mut centres = first_centres(points, dim, groups);
    let mut nearest = Vec::new();
    for _ in 0..ROUNDS {
        let rows = Tensor::<2>::from_data(TensorData::new(centres.clone(), [groups, dim]), &cpu());
        let cosines: Vec<f32> =
            all.clone().matmul(unit(rows).transpose()).try_into_vec_as().expect("points are f32");
        let now: Vec<usize> = cosines.chunks_exact(groups).map(|row| protoseg_core::best(row).0).collect();
        if now == nearest {
            break;
        }
        nearest = now;
        let mut sums = vec![0.0; groups * dim];
        let mut members = vec![0usize; groups];
        for (point, &group) in points.chunks_exact(dim).zip(&nearest) {
            members[group] += 1;
            sums[group * dim..][..dim].iter_mut().zip(point).for_each(|(sum, value)| *sum += value);
        }
        // A group without members keeps its centre.
        for group in (0..groups).filter(|&group| members[group] > 0) {
            centres[group * dim..][..dim].copy_from_slice(&sums[group * dim..][..dim]);
        }
    }
    numbered(nearest, groups)
}

/// Points that are far from each other (k-means++): each is drawn with the chance of its distance from those before.
fn first_centres(points: &[f32], dim: usize, groups: usize) -> Vec<f32> {
    let mut rng = seed::stream(0, &[]);
    let point = |index: usize| &points[index * dim..][..dim];
    let count = points.len() / dim;
    let mut chosen = rng.random_range(0..count);
    let mut centres = Vec::with_capacity(groups * dim);
    let mut distance = vec![f32::INFINITY; count];
    for _ in 0..groups {
        let centre = point(chosen);
        centres.extend_from_slice(centre);
        let mut total = 0.0f64;
        for (index, distance) in distance.iter_mut().enumerate() {
            let cosine: f32 = point(index).iter().zip(centre).map(|(a, b)| a * b).sum();
            *distance = distance.min((1.0 - cosine).max(0.0));
            total += f64::from(*distance);
        }
        let mut left = rng.random::<f64>() * total;
        let found = distance.iter().position(|&distance| {
            left -= f64::from(distance);
            left < 0.0
        });
        chosen = found.unwrap_or_else(|| rng.random_range(0..count));
    }
    centres
}

/// Groups without members are left out of the count.
fn numbered(nearest: Vec<usize>, groups: usize) -> Vec<usize> {
    let mut number = vec![usize::MAX; groups];
    let mut next = 0;
    let mut of = |group: usize| {
        if number[group] == usize::MAX {
            number[group] = next;
            next += 1;
        }
        number[group]
    };
    nearest.into_iter().map(&mut of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_told_apart() {
        let angle = |degrees: f32| [degrees.to_radians().cos(), degrees.to_radians().sin()];
        let points = [0.0, 91.0, 2.0, 181.0, 90.0, 1.0, 179.0].map(angle).concat();
        let groups = kmeans(&points, 2, 3);
        assert_eq!(groups, [0, 1, 0, 2, 1, 0, 2]);
        assert_eq!(groups, kmeans(&points, 2, 3), "the same points give the same groups");
    }

    #[test]
    fn few_points_are_groups_of_their_own() {
        assert_eq!(kmeans(&[1.0, 0.0, 0.0, 1.0], 2, 5), [0, 1]);
        assert_eq!(kmeans(&[1.0, 0.0, 0.0, 1.0, 1.0, 0.0], 2, 1), [0, 0, 0]);
        assert!(kmeans(&[], 2, 3).is_empty());
    }

    #[test]
    fn equal_points_leave_groups_empty() {
        assert_eq!(kmeans(&[1.0, 0.0].repeat(6), 2, 3), [0; 6]);
    }
}
