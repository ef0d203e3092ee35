//! A plot as SVG: axes, grid, lines and dots.

use std::fmt::Write;

use super::svg::escape;

/// Where a plot stands on its sheet, without its labels.
#[derive(Clone, Copy)]
pub struct Frame {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

/// A plot in the making.
pub struct Chart {
    frame: Frame,
    x: (f64, f64),
    y: (f64, f64),
    svg: String,
}

impl Chart {
    /// An empty plot of these ranges; `name` tells its clip path from those of others.
    pub fn new(name: &str, frame: Frame, x: (f64, f64), y: (f64, f64)) -> Self {
        let Frame { left, top, width, height } = frame;
        let rect = format!(r#"<rect x="{left}" y="{top}" width="{width}" height="{height}""#);
        // Lines and dots at the very edge keep their width; only what is too high or too low is cut off.
        let (clip_left, clip_width) = (left - 10.0, width + 20.0);
        let (clip_top, clip_height) = (top - 2.0, height + 4.0);
        let svg = format!(
            r##"<clipPath id="{name}"><rect x="{clip_left}" y="{clip_top}" width="{clip_width}" height="{clip_height}"/></clipPath>
{rect} fill="#fafbfc"/>
"##
        );
        Self { frame, x, y, svg: svg + &format!("<g clip-path=\"url(#{name})\">\n") }
    }

    /// Lines of the grid at round values of y.
    pub fn grid(mut self) -> Self {
        let Frame { left, width, .. } = self.frame;
        for tick in ticks(self.y, self.frame.height / 45.0) {
            let (y, right) = (self.at(0.0, tick).1, left + width);
            self.push(format_args!(r##"<path d="M{left} {y:.1}H{right}" stroke="#e3e6ea"/>"##));
        }
        self
    }

    pub fn line(mut self, points: &[(f64, f64)], style: &str) -> Self {
        let place = |point: &(f64, f64)| {
            let (x, y) = self.at(point.0, point.1);
            format!("{x:.1},{y:.1}")
        };
        let path: Vec<String> = points.iter().map(place).collect();
        let path = path.join(" ");
        self.push(format_args!(
            r#"<polyline points="{path}" fill="none" stroke-linejoin="round" stroke-linecap="round" {style}/>"#
        ));
        self
    }

    pub fn dots(mut self, points: &[(f64, f64)], radius: f64, style: &str) -> Self {
        for point in points {
            let (x, y) = self.at(point.0, point.1);
            self.push(format_args!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" {style}/>"#));
        }
        self
    }

    /// A word above a point, towards the side where there is room for it.
    pub fn note(mut self, point: (f64, f64), text: &str, style: &str) -> Self {
        let (x, y) = self.at(point.0, point.1);
        let anchor = if x > self.frame.left + self.frame.width / 2.0 { "end" } else { "start" };
        let (y, text) = (y - 13.0, escape(text));
        self.push(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" {style}>{text}</text>"#
        ));
        self
    }

    /// The plot with its axes. `x_title` is left out where another plot stands right below.
    pub fn finish(mut self, y_title: &str, x_title: Option<&str>) -> String {
        self.svg.push_str("</g>\n");
        let Frame { left, top, width, height } = self.frame;
        let bottom = top + height;
        let spacing = self.frame.height / 45.0;
        for (tick, text) in labelled(self.y, spacing) {
            let (x, y) = (left - 8.0, self.at(0.0, tick).1 + 4.0);
            self.push(format_args!(r##"<text x="{x}" y="{y:.1}" text-anchor="end">{text}</text>"##));
        }
        for (tick, text) in labelled(self.x, width / 110.0) {
            let x = self.at(tick, 0.0).0;
            self.push(format_args!(r##"<path d="M{x:.1} {bottom}v4" stroke="#8a929c"/>"##));
            if x_title.is_some() {
                let y = bottom + 18.0;
                self.push(format_args!(r##"<text x="{x:.1}" y="{y}" text-anchor="middle">{text}</text>"##));
            }
        }
        self.push(format_args!(r##"<path d="M{left} {bottom}h{width}" stroke="#8a929c"/>"##));
        let (x, y) = (left - 52.0, top + height / 2.0);
        let y_title = escape(y_title);
        self.push(format_args!(
            r##"<text transform="translate({x} {y}) rotate(-90)" text-anchor="middle" fill="#30363d">{y_title}</text>"##
        ));
        if let Some(title) = x_title {
            let (x, y, title) = (left + width / 2.0, bottom + 38.0, escape(title));
            self.push(format_args!(
                r##"<text x="{x}" y="{y}" text-anchor="middle" fill="#30363d">{title}</text>"##
            ));
        }
        self.svg
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let share = |value: f64, (low, high): (f64, f64)| (value - low) / (high - low);
        let Frame { left, top, width, height } = self.frame;
        (left + share(x, self.x) * width, top + (1.0 - share(y, self.y)) * height)
    }

    fn push(&mut self, element: std::fmt::Arguments) {
        let _ = writeln!(self.svg, "{element}");
    }
}

/// Round values in a range, about `count` of them.
pub fn ticks((low, high): (f64, f64), count: f64) -> Vec<f64> {
    let step = tick_step((low, high), count);
    let first = (low / step - 1e-9).ceil();
    (0..)
        .map(|at| (first + f64::from(at)) * step)
        .take_while(|&tick| tick <= high + 1e-9 * step)
        .take(100)
        .collect()
}

/// 1, 2 or 5 times a power of ten.
fn tick_step((low, high): (f64, f64), count: f64) -> f64 {
    let rough = (high - low) / count.max(2.0);
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0].map(|times| times * power).into_iter().find(|&step| step >= rough).unwrap_or(10.0 * power)
}

fn labelled(range: (f64, f64), count: f64) -> Vec<(f64, String)> {
    let step = tick_step(range, count);
    let text = |tick: f64| match () {
        () if tick.abs() < step / 2.0 => "0".to_string(),
        () if step >= 1000.0 => format!("{}k", tick / 1000.0),
        () if step < 1e-3 => format!("{tick:.1e}").replace(".0e", "e"),
        () => format!("{tick:.*}", -step.log10().floor().min(0.0) as usize),
    };
    ticks(range, count).into_iter().map(|tick| (tick, text(tick))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_say_so() {
        let texts = |range, count| labelled(range, count).into_iter().map(|tick| tick.1).collect::<Vec<_>>();
        assert_eq!(texts((0.0, 2.1), 5.0), ["0", "0.5", "1.0", "1.5", "2.0"]);
        assert_eq!(texts((41.2, 68.0), 3.0), ["50", "60"]);
        assert_eq!(texts((0.0, 18_750.0), 4.0), ["0", "5k", "10k", "15k"]);
        assert_eq!(texts((0.0, 0.0025), 3.0), ["0", "0.001", "0.002"]);
        assert_eq!(texts((0.0, 0.0006), 3.0), ["0", "2e-4", "4e-4", "6e-4"]);
    }
}
