//! From clicks or a rough stroke to a clean mask: the picture in superpixels, each told by its colour and by what the
//! model sees there, and the cheapest cut between what likely belongs to the thing under the stroke and what does not
//! (graph cuts, Boykov and Jolly 2001, with geodesic distances, on superpixels and features).

mod likeness;
mod min_cut;
mod opinion;
mod superpixels;

use burn::tensor::Tensor;
use protoseg_core::Image;

use self::{
    likeness::Looks,
    min_cut::MinCut,
    opinion::opinion,
    superpixels::{Border, Superpixels},
};
use crate::{model::Model, picture::thumbnail};

/// What somebody says of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Nothing.
    Unknown,
    /// It is a part of the thing, and is pointed at now.
    Thing,
    /// It is a part of the thing, as was said before. Parts of the mask that only hang together with it are left out.
    Painted,
    /// It is no part of the thing.
    Rest,
}

/// Longer side of the picture that is cut. 1,200 superpixels of 10 x 10 pixels are cut in a millisecond.
const SIDE: usize = 384;
const STEP: usize = 10;
/// A superpixel is a part of the thing if a stroke covers this share of it.
const COVERED: f32 = 0.5;
/// Superpixels of a stroke that others are compared with.
const COMPARED: usize = 24;

/// What speaks for a superpixel, as the logarithm of the odds that it is a part of the thing: each number is multiplied
/// with what was measured there. A logistic regression found them, on things of 60 photos of animals and of 30 Scenes,
/// each after one to three clicks. The example `clicks` measures what they do on others.
struct Weights {
    /// Distance from the thing under the stroke.
    thing: f32,
    /// Distance from what is said to be no part of it.
    rest: f32,
    /// Length of the way from the thing, and the longest step that it takes.
    way: f32,
    barrier: f32,
}
const BY_COLOR: Weights = Weights { thing: -0.18, rest: 1.07, way: -0.076, barrier: -0.39 };
const BY_FEATURES: Weights = Weights { thing: -2.05, rest: 0.0, way: -0.135, barrier: -3.13 };
/// The logarithm of the odds that the model itself sees, and what there is without anything.
const OPINION: f32 = 0.35;
const NOTHING: f32 = 5.92;
/// No superpixel is surer than this.
const SURE: f32 = 6.0;
/// What a border of mean length costs between two superpixels that are alike.
const BORDER: f64 = 6.0;
/// How much steps between features count there, beside those of colour: features lie on a coarse grid, and know less of
/// where a thing ends.
const COARSE: f32 = 0.3;

/// The pixels of the thing that `hints` point at. `features` are the model's of this image, `[1, d, h, w]`.
///
/// # Panics
/// If there is not one hint per pixel.
pub fn clean_mask(image: &Image, model: &Model, features: Tensor<4>, hints: &[Hint]) -> Vec<bool> {
    assert_eq!(hints.len(), image.width * image.height, "one hint per pixel");
    if !hints.contains(&Hint::Thing) {
        return vec![false; hints.len()];
    }
    Parts::new(image, model, features).clean_mask(model, hints)
}

/// An image in superpixels, and what they look like: all that does not depend on hints. Whoever asks for several masks
/// of an image keeps it.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Of the image, and of the small picture that is cut.
    size: (usize, usize),
    small: (usize, usize),
    features: Tensor<4>,
    groups: Superpixels,
    borders: Vec<Border>,
    at_edge: Vec<bool>,
    /// The position of the model's grid that each superpixel lies at.
    at: Vec<usize>,
    by_color: Looks,
    by_features: Looks,
}

impl Parts {
    /// `features` are the model's of this image, `[1, d, h, w]`.
    ///
    /// # Panics
    /// If the image has no pixels.
    pub fn new(image: &Image, model: &Model, features: Tensor<4>) -> Self {
        let small = thumbnail(image, SIDE);
        let size = (image.width, image.height);
        let groups = Superpixels::new(&small, step(&small));
        let borders = groups.borders();
        let [_, dim, rows, columns] = features.dims();
        let at = positions(&groups, model, size, &small, (rows, columns));
        let by_color = Looks::new(3, groups.colors.concat(), &borders);
        let by_features = Looks::new(dim, unit_features(features.clone(), &at), &borders);
        let at_edge = groups.at_edge();
        let small = (small.width, small.height);
        Self { size, small, features, groups, borders, at_edge, at, by_color, by_features }
    }

    /// The pixels of the thing that `hints` point at.
    ///
    /// # Panics
    /// If there is not one hint per pixel.
    pub fn clean_mask(&self, model: &Model, hints: &[Hint]) -> Vec<bool> {
        let (width, height) = self.size;
        assert_eq!(hints.len(), width * height, "one hint per pixel");
        if !hints.contains(&Hint::Thing) {
            return vec![false; hints.len()];
        }
        let said = Said::new(&self.groups, &self.borders, hints, self.size, self.small);
        let likely = opinion(model, self.features.clone(), hints, self.size);
        let is_thing = self.cut(&said, &self.odds(&said, likely.as_deref()));
        let is_thing = self.connected(&is_thing, &said);
        let mask: Vec<bool> = self.groups.of.iter().map(|&group| is_thing[group as usize]).collect();
        let mask = enlarge(&mask, self.small, self.size);
        if mask.contains(&true) { mask } else { hints.iter().map(|hint| *hint == Hint::Thing).collect() }
    }

    /// The logarithm of the odds that each superpixel is a part of the thing. `likely` is what the model itself thinks,
    /// at each position of its grid.
    fn odds(&self, said: &Said, likely: Option<&[f64]>) -> Vec<f32> {
        let (thing, rest) = (some(&said.thing), some(&said.rest));
        let mut odds = vec![NOTHING; self.groups.count];
        for (looks, weights) in [(&self.by_color, BY_COLOR), (&self.by_features, BY_FEATURES)] {
            let rest: &[usize] = if weights.rest == 0.0 { &[] } else { &rest };
            let (apart, ways) = (looks.apart(&thing, rest), looks.ways(&said.thing));
            for ((odds, [thing, rest]), [way, barrier]) in odds.iter_mut().zip(apart).zip(ways) {
                *odds += weights.thing * thing + weights.rest * rest;
                *odds += weights.way * way + weights.barrier * barrier;
            }
        }
        for (odds, &at) in odds.iter_mut().zip(&self.at) {
            if let Some(likely) = likely {
                let likely = likely[at].clamp(1e-4, 1.0 - 1e-4);
                *odds += OPINION * (likely / (1.0 - likely)).ln() as f32;
            }
            *odds = odds.clamp(-SURE, SURE);
        }
        odds
    }

    /// The cheapest cut between what is likely the thing and what is not, along borders that can be seen.
    fn cut(&self, said: &Said, odds: &[f32]) -> Vec<bool> {
        let mut graph = MinCut::new(self.groups.count);
        for (group, &odds) in odds.iter().enumerate() {
            match (said.thing[group], said.rest[group]) {
                (true, _) => graph.node(group, 0.0, 1e3),
                (_, true) => graph.node(group, 1e3, 0.0),
                _ => graph.node(group, f64::from(-odds).max(0.0), f64::from(odds).max(0.0)),
            }
        }
        let lengths = self.borders.iter().map(|border| f64::from(border.length));
        let mean = lengths.sum::<f64>() / self.borders.len().max(1) as f64;
        let steps = self.by_color.steps.iter().zip(&self.by_features.steps);
        for (&Border { between: [a, b], length }, (color, feature)) in self.borders.iter().zip(steps) {
            let alike = f64::from(-0.5 * (color * color + COARSE * feature * feature)).exp();
            graph.edge(a, b, BORDER * alike * f64::from(length) / mean);
        }
        graph.cut()
    }

    /// Only parts that hang together with what is pointed at, and no small holes.
    fn connected(&self, is_thing: &[bool], said: &Said) -> Vec<bool> {
        let mut around = vec![Vec::new(); is_thing.len()];
        for &Border { between: [a, b], .. } in &self.borders {
            around[a].push(b);
            around[b].push(a);
        }
        let reach = |start: &[bool], inside: &dyn Fn(usize) -> bool| -> Vec<bool> {
            let mut reached = start.to_vec();
            let mut stack: Vec<usize> = (0..start.len()).filter(|group| start[*group]).collect();
            while let Some(group) = stack.pop() {
                for &other in &around[group] {
                    if !reached[other] && inside(other) {
                        reached[other] = true;
                        stack.push(other);
                    }
                }
            }
            reached
        };
        let thing = reach(&said.here, &|group| is_thing[group]);
        // What cannot be reached from the edge of the picture or from a hint lies inside the thing.
        let outside: Vec<bool> = (0..thing.len())
            .map(|group| !thing[group] && (self.at_edge[group] || said.rest[group]))
            .collect();
        let outside = reach(&outside, &|group| !thing[group]);
        outside.iter().map(|is_outside| !is_outside).collect()
    }
}

/// The features of unit length at these positions, one after the other.
fn unit_features(features: Tensor<4>, at: &[usize]) -> Vec<f32> {
    let [_, dim, rows, columns] = features.dims();
    let seen: Vec<f32> = features.try_into_vec_as().expect("features are f32");
    let positions = rows * columns;
    let mut values = Vec::with_capacity(at.len() * dim);
    for position in at {
        let vector = (0..dim).map(|channel| seen[channel * positions + position]);
        let length = vector.clone().map(|value| value * value).sum::<f32>().sqrt().max(1e-9);
        values.extend(vector.map(|value| value / length));
    }
    values
}

/// Those that are marked; of many, some from everywhere.
fn some(marked: &[bool]) -> Vec<usize> {
    let all: Vec<usize> = (0..marked.len()).filter(|group| marked[*group]).collect();
    all.iter().step_by((all.len() / COMPARED).max(1)).copied().collect()
}

/// The side of a superpixel: a thousand of them make a picture, but those of small pictures are not too small to have a
/// colour.
fn step(small: &Image) -> usize {
    let side = ((small.width * small.height) as f64).sqrt();
    ((side / 32.0) as usize).clamp(4, STEP)
}

/// The position of the model's grid that each superpixel lies at.
fn positions(
    groups: &Superpixels,
    model: &Model,
    (width, height): (usize, usize),
    small: &Image,
    (rows, columns): (usize, usize),
) -> Vec<usize> {
    let preprocess = model.preprocess();
    let (content, canvas) = (preprocess.content(width, height), preprocess.canvas_size(width, height));
    let across = preprocess.nearest_positions(small.width, content.0, canvas.0, columns);
    let down = preprocess.nearest_positions(small.height, content.1, canvas.1, rows);
    let position = |place: &[f32; 2]| {
        let (x, y) = ((place[0] as usize).min(small.width - 1), (place[1] as usize).min(small.height - 1));
        down[y] * columns + across[x]
    };
    groups.places.iter().map(position).collect()
}

/// What hints say of superpixels.
struct Said {
    /// Those that are pointed at now.
    here: Vec<bool>,
    thing: Vec<bool>,
    rest: Vec<bool>,
}

impl Said {
    fn new(
        groups: &Superpixels,
        borders: &[Border],
        hints: &[Hint],
        from: (usize, usize),
        to: (usize, usize),
    ) -> Self {
        // Counted at the size of the hints: a click may be smaller than a pixel of the small picture.
        let mut votes = vec![[0u32; 3]; groups.count];
        let mut all = vec![0u32; groups.count];
        let columns: Vec<usize> = (0..from.0).map(|x| x * to.0 / from.0).collect();
        for (y, row) in hints.chunks_exact(from.0).enumerate() {
            let line = y * to.1 / from.1 * to.0;
            for (&hint, column) in row.iter().zip(&columns) {
                let group = groups.of[line + column] as usize;
                all[group] += 1;
                match hint {
                    Hint::Thing => votes[group][0] += 1,
                    Hint::Painted => votes[group][1] += 1,
                    Hint::Rest => votes[group][2] += 1,
                    Hint::Unknown => {}
                }
            }
        }
        let shares = |kind: usize| -> Vec<f32> {
            (0..groups.count).map(|group| votes[group][kind] as f32 / all[group].max(1) as f32).collect()
        };
        let [now, before, rest] = [0, 1, 2].map(shares);
        let here = pointed(&now, borders);
        let thing: Vec<bool> =
            (0..groups.count).map(|group| here[group] || now[group] + before[group] >= COVERED).collect();
        let rest = pointed(&rest, borders).iter().zip(&thing).map(|(is, thing)| *is && !thing).collect();
        Self { here, thing, rest }
    }
}

/// The superpixels that hints mean which cover these shares of them. A click covers half of nothing: those that it
/// covers most count.
fn pointed(shares: &[f32], borders: &[Border]) -> Vec<bool> {
    let most = shares.iter().copied().fold(0.0, f32::max);
    let bar = COVERED.min(0.8 * most);
    let mut is_most: Vec<bool> = shares.iter().map(|share| *share > 0.0).collect();
    for &Border { between: [a, b], .. } in borders {
        if shares[a] != shares[b] {
            is_most[if shares[a] < shares[b] { a } else { b }] = false;
        }
    }
    // Each of several clicks counts, also one that lies on a border.
    (0..shares.len()).map(|group| is_most[group] || (shares[group] > 0.0 && shares[group] >= bar)).collect()
}

/// A mask at another size, with smooth edges.
fn enlarge(mask: &[bool], from: (usize, usize), to: (usize, usize)) -> Vec<bool> {
    if from == to {
        return mask.to_vec();
    }
    let places = |from: usize, to: usize| -> Vec<(usize, usize, f32)> {
        let place = |at: usize| {
            let at = ((at as f32 + 0.5) * from as f32 / to as f32 - 0.5).clamp(0.0, from as f32 - 1.0);
            let before = at as usize;
            (before, (before + 1).min(from - 1), at - before as f32)
        };
        (0..to).map(place).collect()
    };
    let columns = places(from.0, to.0);
    let value = |x: usize, y: usize| f32::from(u8::from(mask[y * from.0 + x]));
    let mut large = Vec::with_capacity(to.0 * to.1);
    for (above, below, down) in places(from.1, to.1) {
        let line: Vec<f32> =
            (0..from.0).map(|x| value(x, above) + down * (value(x, below) - value(x, above))).collect();
        large.extend(
            columns
                .iter()
                .map(|&(left, right, across)| line[left] + across * (line[right] - line[left]) >= 0.5),
        );
    }
    large
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A duck-like blob on grass with noise, and where it is.
    fn scene(width: usize, height: usize) -> (Image, Vec<bool>) {
        let is_thing = |x: usize, y: usize| {
            let (dx, dy) = (x as f32 / width as f32 - 0.55, y as f32 / height as f32 - 0.5);
            (dx / 0.2).powi(2) + (dy / 0.28).powi(2) < 1.0
        };
        let mut data = Vec::new();
        let mut mask = Vec::new();
        for at in 0..width * height {
            let (x, y) = (at % width, at / width);
            let noise = ((at as u32).wrapping_mul(2_654_435_761) >> 27) as u8;
            let color = if is_thing(x, y) {
                [190 + noise, 150 + noise / 2, 40]
            } else {
                [50 + noise, 120 + noise, 60]
            };
            data.extend(color);
            mask.push(is_thing(x, y));
        }
        (Image::new(width, height, data), mask)
    }

    fn iou(a: &[bool], b: &[bool]) -> f64 {
        let both = a.iter().zip(b).filter(|(a, b)| **a && **b).count();
        let either = a.iter().zip(b).filter(|(a, b)| **a || **b).count();
        both as f64 / either.max(1) as f64
    }

    #[test]
    fn a_click_or_a_rough_stroke_becomes_the_thing() {
        let model = Model::builtin();
        for (width, height) in [(320, 240), (900, 500)] {
            let (image, truth) = scene(width, height);
            let features = model.features(&image);
            let clean = |is_hinted: &dyn Fn(usize, usize) -> bool| {
                let hint =
                    |at: usize| if is_hinted(at % width, at / width) { Hint::Thing } else { Hint::Unknown };
                clean_mask(
                    &image,
                    &model,
                    features.clone(),
                    &(0..width * height).map(hint).collect::<Vec<_>>(),
                )
            };
            let (cx, cy) = (55 * width / 100, height / 2);
            let click = clean(&|x, y| x.abs_diff(cx) < 3 && y.abs_diff(cy) < 3);
            assert!(iou(&click, &truth) > 0.9, "click: {}", iou(&click, &truth));
            let stroke = clean(&|x, y| y.abs_diff(cy) < height / 30 && x.abs_diff(cx) < width / 6);
            assert!(iou(&stroke, &truth) > 0.9, "stroke: {}", iou(&stroke, &truth));
        }
    }

    #[test]
    fn what_was_painted_before_helps_but_only_the_thing_under_the_click_is_found() {
        let model = Model::builtin();
        let (one, is_thing) = scene(200, 150);
        // The same scene twice, side by side.
        let wide = 2 * 200;
        let pixel = |at: usize| one.data[3 * (at / wide * 200 + at % 200)..][..3].to_vec();
        let image = Image::new(wide, 150, (0..wide * 150).flat_map(pixel).collect());
        let truth = |at: usize| is_thing[at / wide * 200 + at % 200];
        let hint = |at: usize| match (at % wide, at / wide) {
            (308..=312, 73..=77) => Hint::Thing,
            (x, _) if x < 200 && truth(at) => Hint::Painted,
            _ => Hint::Unknown,
        };
        let hints: Vec<Hint> = (0..wide * 150).map(hint).collect();
        let mask = clean_mask(&image, &model, model.features(&image), &hints);
        let right: Vec<bool> = (0..mask.len()).map(|at| at % wide >= 200 && truth(at)).collect();
        assert!(iou(&mask, &right) > 0.8, "{}", iou(&mask, &right));
    }

    #[test]
    fn what_is_said_to_be_the_rest_is_left_out_and_nothing_panics() {
        let model = Model::builtin();
        let (image, truth) = scene(200, 150);
        let features = model.features(&image);
        let hint = |at: usize| match (at % 200, at / 200) {
            (105..=115, 70..=80) => Hint::Thing,
            (x, _) if x > 120 => Hint::Rest,
            _ => Hint::Unknown,
        };
        let hints: Vec<Hint> = (0..200 * 150).map(hint).collect();
        let mask = clean_mask(&image, &model, features.clone(), &hints);
        let right = |mask: &[bool]| (0..mask.len()).filter(|at| at % 200 > 125 && mask[*at]).count();
        assert!(right(&truth) > 1000 && right(&mask) < right(&truth) / 10, "{}", right(&mask));
        let none = vec![Hint::Unknown; 200 * 150];
        assert!(!clean_mask(&image, &model, features, &none).contains(&true));
        for (width, height) in [(1, 1), (3, 200), (400, 2)] {
            let flat = Image::new(width, height, vec![77; width * height * 3]);
            let features = model.features(&flat);
            let mask = clean_mask(&flat, &model, features, &vec![Hint::Thing; width * height]);
            assert_eq!(mask.len(), width * height);
        }
    }
}
