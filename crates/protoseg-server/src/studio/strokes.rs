//! Strokes as pixels: brushes, polygons and rectangles.

use protoseg::data::region::Region;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    error::{Answer, Failure},
    limits,
};

/// A stroke as the page sends it.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct Stroke {
    /// The class; ignored unless it is added.
    #[serde(default)]
    pub class: u8,
    /// What the stroke does.
    pub mode: Mode,
    /// What it is drawn with.
    pub tool: Tool,
    /// In pixels of the photo.
    pub points: Vec<[f64; 2]>,
    /// Of the brush, in pixels of the photo.
    #[serde(default)]
    pub radius: f64,
}

/// What a stroke does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Paints the class.
    Add,
    /// Paints "none of the classes".
    Not,
    /// Makes unpainted.
    Erase,
}

/// What a stroke is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// A round brush along the points.
    Brush,
    /// The inside of the points.
    Polygon,
    /// Between two corners.
    Rectangle,
    /// The thing under clicks or a rough stroke.
    Magic,
}

impl Stroke {
    /// Refuses what cannot be drawn.
    pub fn check(&self) -> Answer<()> {
        let (least, most) = match self.tool {
            Tool::Brush | Tool::Magic => (1, limits::POINTS),
            Tool::Polygon => (3, limits::POINTS),
            Tool::Rectangle => (2, 2),
        };
        if !(least..=most).contains(&self.points.len()) {
            let error = format!("the stroke has {} points, expected {least} to {most}", self.points.len());
            return Err(Failure::unfit(error));
        }
        let is_near = |value: &f64| value.abs() <= 1e6;
        if !self.points.iter().flatten().all(is_near) || !(0.0..=limits::RADIUS).contains(&self.radius) {
            return Err(Failure::unfit("a coordinate or the radius of the stroke is too large"));
        }
        Ok(())
    }
}

/// The pixels of a `width` x `height` photo that a stroke covers. Magic strokes cover what was drawn by hand.
pub fn draw(stroke: &Stroke, width: usize, height: usize) -> Answer<Vec<bool>> {
    match stroke.tool {
        Tool::Brush => draw_line(&stroke.points, stroke.radius.max(0.5), width, height),
        Tool::Magic => draw_line(&stroke.points, stroke.radius.max(2.0), width, height),
        Tool::Polygon => fill(&stroke.points.iter().map(|&[x, y]| (x, y)).collect::<Vec<_>>(), width, height),
        Tool::Rectangle => {
            let [[x0, y0], [x1, y1]] = [stroke.points[0], stroke.points[1]];
            fill(&[(x0, y0), (x1, y0), (x1, y1), (x0, y1)], width, height)
        }
    }
}

fn fill(corners: &[(f64, f64)], width: usize, height: usize) -> Answer<Vec<bool>> {
    let region = Region::from_polygons(&[corners], width, height);
    let region = region.map_err(|_| Failure::unfit("the polygon is too large"))?;
    let mut mask = vec![false; width * height];
    for run in region.runs() {
        mask[run.y * width + run.start..run.y * width + run.end].fill(true);
    }
    Ok(mask)
}

/// All pixels whose centres are within `radius` of a line through the points, and those that the points are in.
fn draw_line(points: &[[f64; 2]], radius: f64, width: usize, height: usize) -> Answer<Vec<bool>> {
    let mut mask = vec![false; width * height];
    let mut looked_at = 0.0;
    let first = points.first().copied().unwrap_or_default();
    let ends = std::iter::once(first).chain(points.iter().copied());
    for (from, to) in ends.zip(points.iter().copied()) {
        // In pieces, whose boxes hold little that the line does not touch.
        let length = (to[0] - from[0]).hypot(to[1] - from[1]);
        let pieces = (length / (4.0 * radius + 8.0)).ceil().max(1.0);
        let at = |share: f64| [0, 1].map(|axis| from[axis] + share * (to[axis] - from[axis]));
        for piece in 0..pieces as usize {
            let piece = piece as f64;
            let (a, b) = (at(piece / pieces), at((piece + 1.0) / pieces));
            let [left, top] = [0, 1].map(|axis| a[axis].min(b[axis]) - radius - 1.0);
            let [right, bottom] = [0, 1].map(|axis| a[axis].max(b[axis]) + radius + 1.0);
            let (columns, rows) = (span(left, right, width), span(top, bottom, height));
            looked_at += (columns.len() * rows.len()) as f64 + 1.0;
            if looked_at > limits::DRAWN {
                return Err(Failure::unfit("the stroke is too long"));
            }
            for y in rows {
                for x in columns.clone() {
                    let centre = [x as f64 + 0.5, y as f64 + 0.5];
                    mask[y * width + x] |= distance(centre, a, b) <= radius;
                }
            }
        }
        let [x, y] = to.map(f64::floor);
        if (0.0..width as f64).contains(&x) && (0.0..height as f64).contains(&y) {
            mask[y as usize * width + x as usize] = true;
        }
    }
    Ok(mask)
}

/// The pixels of a line that lie between two edges.
fn span(from: f64, to: f64, length: usize) -> std::ops::Range<usize> {
    let clamp = |edge: f64| edge.clamp(0.0, length as f64) as usize;
    clamp(from.floor())..clamp(to.ceil())
}

/// From a point to a line between two others.
fn distance(point: [f64; 2], a: [f64; 2], b: [f64; 2]) -> f64 {
    let [dx, dy] = [b[0] - a[0], b[1] - a[1]];
    let square = dx * dx + dy * dy;
    let along = if square > 0.0 { ((point[0] - a[0]) * dx + (point[1] - a[1]) * dy) / square } else { 0.0 };
    let along = along.clamp(0.0, 1.0);
    (point[0] - a[0] - along * dx).hypot(point[1] - a[1] - along * dy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stroke(tool: Tool, points: &[[f64; 2]], radius: f64) -> Stroke {
        Stroke { class: 1, mode: Mode::Add, tool, points: points.to_vec(), radius }
    }

    fn rows(stroke: &Stroke, width: usize, height: usize) -> Vec<String> {
        let mask = draw(stroke, width, height).unwrap();
        let row = |row: &[bool]| row.iter().map(|&is| if is { '#' } else { '.' }).collect();
        mask.chunks(width).map(row).collect()
    }

    #[test]
    fn tools_cover_the_pixels_that_people_expect() {
        let dot = stroke(Tool::Brush, &[[2.5, 1.5]], 1.0);
        assert_eq!(rows(&dot, 5, 3), ["..#..", ".###.", "..#.."]);
        let line = stroke(Tool::Brush, &[[0.5, 0.5], [4.5, 0.5]], 0.5);
        assert_eq!(rows(&line, 5, 2), ["#####", "....."]);
        let thin = stroke(Tool::Brush, &[[1.0, 1.0]], 0.0);
        assert_eq!(rows(&thin, 3, 3), ["...", ".#.", "..."], "a click paints at least its pixel");
        let outside = stroke(Tool::Brush, &[[-50.0, -9.0], [1e6, 1e6]], 0.5);
        assert_eq!(rows(&outside, 2, 1).len(), 1);
        let corners = stroke(Tool::Rectangle, &[[4.0, 2.0], [1.0, 0.0]], 0.0);
        assert_eq!(rows(&corners, 5, 3), [".###.", ".###.", "....."]);
        let triangle = stroke(Tool::Polygon, &[[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]], 0.0);
        assert_eq!(rows(&triangle, 4, 4), ["###.", "##..", "#...", "...."]);
    }

    #[test]
    fn strokes_that_would_take_too_long_are_refused() {
        let far: Vec<[f64; 2]> =
            (0..20_000).map(|at| [f64::from(at % 2) * 4000.0, 3000.0 * f64::from(at % 3)]).collect();
        assert_eq!(draw(&stroke(Tool::Brush, &far, 400.0), 4000, 3000).unwrap_err().status(), 422);
        for wrong in [
            stroke(Tool::Polygon, &[[0.0, 0.0]], 0.0),
            stroke(Tool::Brush, &[], 1.0),
            stroke(Tool::Brush, &[[f64::NAN, 0.0]], 1.0),
            stroke(Tool::Brush, &[[0.0, 0.0]], -1.0),
            stroke(Tool::Brush, &[[0.0, 0.0]], f64::INFINITY),
            stroke(Tool::Rectangle, &[[0.0, 0.0]; 3], 0.0),
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
