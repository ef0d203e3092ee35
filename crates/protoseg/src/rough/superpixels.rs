//! Superpixels: connected groups of about a hundred pixels of one colour (SLIC, Achanta et al. 2012). Edges of things
//! lie on their borders, so a cut between groups is as good as one between pixels, and a hundred times cheaper.
//!
//! Ours, because it takes eighty lines, and what others offer works on pictures of other types.

use protoseg_core::Image;

/// Groups of a picture's pixels.
#[derive(Clone, Debug)]
pub struct Superpixels {
    pub width: usize,
    /// The group of each pixel, from 0.
    pub of: Vec<u32>,
    pub count: usize,
    /// Mean colour in Oklab, and mean place.
    pub colors: Vec<[f32; 3]>,
    pub places: Vec<[f32; 2]>,
}

/// Where two groups meet.
#[derive(Clone, Copy, Debug)]
pub struct Border {
    /// The smaller number first.
    pub between: [usize; 2],
    /// In pixels.
    pub length: u32,
}

/// Rounds of assignment. More change little.
const ROUNDS: usize = 6;
/// How much a distance of one step between centres counts, in Oklab.
const COMPACTNESS: f32 = 0.06;

impl Superpixels {
    /// Groups of about `step` x `step` pixels.
    pub fn new(image: &Image, step: usize) -> Self {
        let (width, height) = (image.width, image.height);
        let lab: Vec<[f32; 3]> =
            image.data.chunks_exact(3).map(|rgb| oklab([rgb[0], rgb[1], rgb[2]])).collect();
        let step = step.max(2);
        let along = |length: usize| {
            let count = (length / step).max(1);
            (0..count).map(move |at| (2 * at + 1) * length / (2 * count))
        };
        let mut centres: Vec<([f32; 3], [f32; 2])> = Vec::new();
        for y in along(height) {
            centres.extend(along(width).map(|x| (lab[y * width + x], [x as f32, y as f32])));
        }
        let mut of = vec![0u32; width * height];
        for _ in 0..ROUNDS {
            of = assign(&lab, width, height, &centres, step);
            let mut sums = vec![([0f32; 3], [0f32; 2], 0f32); centres.len()];
            for (at, &group) in of.iter().enumerate() {
                let sum = &mut sums[group as usize];
                sum.0.iter_mut().zip(lab[at]).for_each(|(sum, value)| *sum += value);
                sum.1[0] += (at % width) as f32;
                sum.1[1] += (at / width) as f32;
                sum.2 += 1.0;
            }
            for (centre, (color, place, count)) in centres.iter_mut().zip(sums) {
                if count > 0.0 {
                    *centre = (color.map(|sum| sum / count), place.map(|sum| sum / count));
                }
            }
        }
        let (of, count) = connect(&of, width, height, (step * step / 4) as u32);
        Self::gather(width, of, count, &lab)
    }

    fn gather(width: usize, of: Vec<u32>, count: usize, lab: &[[f32; 3]]) -> Self {
        let (mut colors, mut places) = (vec![[0f32; 3]; count], vec![[0f32; 2]; count]);
        let mut sizes = vec![0u32; count];
        for (at, &group) in of.iter().enumerate() {
            let group = group as usize;
            colors[group].iter_mut().zip(lab[at]).for_each(|(sum, value)| *sum += value);
            places[group][0] += (at % width) as f32;
            places[group][1] += (at / width) as f32;
            sizes[group] += 1;
        }
        for (group, &size) in sizes.iter().enumerate() {
            colors[group] = colors[group].map(|sum| sum / size.max(1) as f32);
            places[group] = places[group].map(|sum| sum / size.max(1) as f32);
        }
        Self { width, of, count, colors, places }
    }

    /// Where neighbours meet.
    pub fn borders(&self) -> Vec<Border> {
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for (at, &group) in self.of.iter().enumerate() {
            let right = (at % self.width + 1 < self.width).then(|| self.of[at + 1]);
            let below = self.of.get(at + self.width).copied();
            for other in right.into_iter().chain(below).filter(|other| *other != group) {
                pairs.push((group.min(other), group.max(other)));
            }
        }
        pairs.sort_unstable();
        pairs
            .chunk_by(|a, b| a == b)
            .map(|run| Border { between: [run[0].0 as usize, run[0].1 as usize], length: run.len() as u32 })
            .collect()
    }

    /// Whether each group touches the picture's edge.
    pub fn at_edge(&self) -> Vec<bool> {
        let height = self.of.len() / self.width.max(1);
        let mut at_edge = vec![false; self.count];
        for (at, &group) in self.of.iter().enumerate() {
            let (x, y) = (at % self.width, at / self.width);
            if x == 0 || y == 0 || x + 1 == self.width || y + 1 == height {
                at_edge[group as usize] = true;
            }
        }
        at_edge
    }
}

/// The nearest centre of each pixel, among those whose squares of twice the step hold it.
fn assign(
    lab: &[[f32; 3]],
    width: usize,
    height: usize,
    centres: &[([f32; 3], [f32; 2])],
    step: usize,
) -> Vec<u32> {
    let mut best = vec![(f32::INFINITY, 0u32); lab.len()];
    let near = COMPACTNESS / step as f32;
    for (group, (color, place)) in centres.iter().enumerate() {
        let span = |at: f32, length: usize| {
            let start = (at as usize).saturating_sub(2 * step);
            start..(at as usize + 2 * step + 1).min(length)
        };
        for y in span(place[1], height) {
            for x in span(place[0], width) {
                let pixel = y * width + x;
                let of_color: f32 = (0..3).map(|axis| (lab[pixel][axis] - color[axis]).powi(2)).sum();
                let apart = [near * (x as f32 - place[0]), near * (y as f32 - place[1])];
                let distance = of_color + apart[0] * apart[0] + apart[1] * apart[1];
                if distance < best[pixel].0 {
                    best[pixel] = (distance, group as u32);
                }
            }
        }
    }
    best.into_iter().map(|(_, group)| group).collect()
}

/// Connected groups only, numbered from 0: parts smaller than `least` join the group before them.
fn connect(of: &[u32], width: usize, height: usize, least: u32) -> (Vec<u32>, usize) {
    let mut parts = vec![u32::MAX; of.len()];
    let (mut count, mut stack, mut members) = (0u32, Vec::new(), Vec::new());
    for start in 0..of.len() {
        if parts[start] != u32::MAX {
            continue;
        }
        let beside = [start.checked_sub(1).filter(|_| start % width > 0), start.checked_sub(width)];
        let before = beside.into_iter().flatten().map(|at| parts[at]).find(|part| *part != u32::MAX);
        stack.push(start);
        members.clear();
        parts[start] = count;
        while let Some(at) = stack.pop() {
            members.push(at);
            let (x, y) = (at % width, at / width);
            let around = [
                (x > 0).then(|| at - 1),
                (x + 1 < width).then(|| at + 1),
                (y > 0).then(|| at - width),
                (y + 1 < height).then(|| at + width),
            ];
            for other in around.into_iter().flatten() {
                if parts[other] == u32::MAX && of[other] == of[at] {
                    parts[other] = count;
                    stack.push(other);
                }
            }
        }
        match before.filter(|_| (members.len() as u32) < least) {
            Some(before) => members.iter().for_each(|&at| parts[at] = before),
            None => count += 1,
        }
    }
    (parts, count as usize)
}

/// A colour in Oklab (Ottosson, 2020), where distances are about those that people see.
fn oklab(rgb: [u8; 3]) -> [f32; 3] {
    let [r, g, b] = rgb.map(|value| {
        let value = f32::from(value) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    });
    let l = (0.412_221_47 * r + 0.536_332_54 * g + 0.051_445_993 * b).cbrt();
    let m = (0.211_903_5 * r + 0.680_699_5 * g + 0.107_396_96 * b).cbrt();
    let s = (0.088_302_46 * r + 0.281_718_84 * g + 0.629_978_7 * b).cbrt();
    [
        0.210_454_26 * l + 0.793_617_8 * m - 0.004_072_047 * s,
        1.977_998_5 * l - 2.428_592_2 * m + 0.450_593_7 * s,
        0.025_904_037 * l + 0.782_771_77 * m - 0.808_675_77 * s,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_connected_and_keep_to_the_edges_of_things() {
        let is_inside = |x: usize, y: usize| (x as i32 - 47).pow(2) + (y as i32 - 33).pow(2) < 400;
        let pixel = |at: usize| if is_inside(at % 90, at / 90) { [220, 60, 30] } else { [40, 90, 200] };
        let image = Image::new(90, 70, (0..90 * 70).flat_map(pixel).collect());
        let groups = Superpixels::new(&image, 10);
        assert!((40..90).contains(&groups.count), "{}", groups.count);
        assert_eq!(groups.of.len(), 90 * 70);
        let mut mixed = 0;
        for group in 0..groups.count {
            let members = (0..groups.of.len()).filter(|at| groups.of[*at] as usize == group);
            let inside = members.clone().filter(|at| is_inside(at % 90, at / 90)).count();
            mixed += inside.min(members.count() - inside);
        }
        assert!(mixed < 40, "{mixed} pixels are on the wrong side");
        let (again, count) = connect(&groups.of, 90, 70, 0);
        assert_eq!((count, again.len()), (groups.count, 6300), "every group is connected");
        assert!(
            groups.borders().iter().all(|border| border.between[0] < border.between[1] && border.length > 0)
        );
        assert_eq!(Superpixels::new(&Image::new(1, 1, vec![0; 3]), 10).count, 1);
    }
}
