//! What surfaces look like before light falls on them.

use crate::math::{Color, smoothstep};
use crate::noise::{fbm, speck, value, whole};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Texture {
    Plain,
    /// Mottled cloth, plaster, fur; the number says how strongly.
    Grain(f32),
    /// Blotches of the second colour; the number is the share of the area they cover.
    Patches(f32),
    /// Light and dark clumps of foliage.
    Leaves,
    /// Fibres along u.
    Wood,
    /// Planks along u, `size` wide.
    Boards,
    /// Squares with joints of the second colour.
    Tiles,
    Bricks,
    /// Bands of the second colour across u.
    Stripes,
    Checks,
    /// Rows of windows, one every `size` metres.
    Facade,
    /// Panes that mirror the sky, lighter at the top.
    Glass,
}

#[derive(Clone, Copy, Debug)]
pub struct Paint {
    pub color: Color,
    pub second: Color,
    pub texture: Texture,
    /// Metres from one feature of the texture to the next.
    pub size: f32,
    pub gloss: f32,
    /// Share of the colour that glows by itself.
    pub glow: f32,
    pub alpha: f32,
    /// Where in the texture this surface starts.
    pub offset: f32,
}

impl Paint {
    pub fn new(color: Color) -> Self {
        Self {
            color,
            second: color,
            texture: Texture::Plain,
            size: 1.0,
            gloss: 0.0,
            glow: 0.0,
            alpha: 1.0,
            offset: 0.0,
        }
    }

    pub fn texture(self, texture: Texture, second: Color, size: f32) -> Self {
        Self { texture, second, size, ..self }
    }

    /// Faint mottling of this size.
    pub fn grain(self, size: f32) -> Self {
        self.texture(Texture::Grain(0.3), self.color, size)
    }

    pub fn gloss(self, gloss: f32) -> Self {
        Self { gloss, ..self }
    }

    pub fn glow(self, glow: f32) -> Self {
        Self { glow, ..self }
    }

    pub fn alpha(self, alpha: f32) -> Self {
        Self { alpha, ..self }
    }

    pub fn offset(self, offset: f32) -> Self {
        Self { offset, ..self }
    }

    /// The same surface, lighter or darker.
    pub fn dim(self, by: f32) -> Self {
        Self { color: self.color * by, second: self.second * by, ..self }
    }

    /// Colour at `(u, v)` in metres, for a pixel that is `foot` metres wide there.
    #[inline]
    pub fn sample(&self, u: f32, v: f32, foot: f32) -> Color {
        match self.texture {
            Texture::Plain => self.color,
            _ => self.pattern(self.color, u / self.size + self.offset, v / self.size, foot / self.size),
        }
    }

    /// The texture with another main colour, for shapes whose parts have colours of their own.
    pub fn pattern(&self, color: Color, u: f32, v: f32, foot: f32) -> Color {
        // Detail finer than two pixels blends into its mean.
        let sharp = (1.3 - foot).clamp(0.0, 1.0);
        let line = |distance: f32, width: f32| {
            (1.0 - smoothstep(width, width + foot, distance)) * (2.0 * width / foot).min(1.0)
        };
        let rim = |t: f32| 0.5 - (t - whole(t) as f32 - 0.5).abs();
        let edge = |t: f32| smoothstep(0.25 - 0.5 * foot.min(0.5), 0.25 + 0.5 * foot.min(0.5), rim(t));
        match self.texture {
            Texture::Plain => color,
            Texture::Grain(depth) => color * (1.0 + sharp * depth * (fbm(u, v, 3) - 0.5)),
            Texture::Patches(share) => {
                let soft = 0.03 + 0.3 * foot;
                let t = smoothstep(1.0 - share - soft, 1.0 - share + soft, 0.5 + 1.6 * (fbm(u, v, 2) - 0.5));
                color.mix(self.second, t)
            }
            Texture::Leaves => {
                let clumps = value(u, v);
                let leaves = value(u * 3.1 + 9.0, v * 3.1);
                color.mix(self.second, (1.5 * (0.5 * clumps + 0.5 * leaves * sharp) - 0.1).clamp(0.0, 1.0))
            }
            Texture::Wood => {
                let fibres = value(u * 0.12, v) * 0.6 + sharp * 0.4 * value(u * 0.3, v * 4.0 + 31.0);
                color.mix(self.second, fibres)
            }
            Texture::Boards => {
                let row = whole(v);
                let shift = speck(row, 77);
                let long = u * 0.14 + shift * 7.0;
                let tone = speck(row, whole(long));
                let fibres = value(u * 0.4 + shift * 50.0, v * 5.0);
                let base = color.mix(self.second, 0.65 * tone + 0.35 * sharp * fibres);
                base * (1.0 - 0.55 * line(rim(v), 0.02).max(line(rim(long) * 7.0, 0.02)))
            }
            Texture::Tiles => {
                let tone = speck(whole(u), whole(v));
                let base = color * (0.92 + 0.16 * tone);
                base.mix(self.second, line(rim(u).min(rim(v)), 0.03))
            }
            Texture::Bricks => {
                let row = whole(v * 2.6);
                let shifted = u + 0.5 * (row & 1) as f32;
                let tone = speck(whole(shifted), row);
                let base = color * (0.75 + 0.5 * tone);
                base.mix(self.second, line(rim(shifted), 0.035).max(line(rim(v * 2.6) / 2.6, 0.035)))
            }
            Texture::Stripes => color.mix(self.second, edge(u)),
            Texture::Checks => {
                let (a, b) = (edge(u), edge(v));
                color.mix(self.second, 0.5 * (a + b))
            }
            Texture::Facade => self.facade(color, u, v, foot),
            Texture::Glass => {
                let streak = value(u * 0.7 + v * 0.5, v * 0.3);
                color.mix(self.second, (0.25 + 0.75 * v.min(1.0) + 0.5 * (streak - 0.5)).clamp(0.0, 1.0))
            }
        }
    }

    fn facade(&self, wall: Color, u: f32, v: f32, foot: f32) -> Color {
        let (fu, fv) = (u - whole(u) as f32, v - whole(v) as f32);
        let plaster = wall * (0.92 + 0.16 * fbm(u * 1.7, v * 1.7, 2));
        // The ground floor has no windows here: shop fronts are drawn separately.
        if v < 1.0 {
            return plaster * 0.9;
        }
        let inside = |t: f32, a: f32, b: f32| {
            smoothstep(a - foot, a + 0.3 * foot, t) * (1.0 - smoothstep(b - 0.3 * foot, b + foot, t))
        };
        let frame = inside(fu, 0.24, 0.76) * inside(fv, 0.2, 0.8);
        let pane = inside(fu, 0.29, 0.71) * inside(fv, 0.25, 0.76) * (1.0 - inside(fu, 0.49, 0.51));
        let lit = speck(whole(u), whole(v));
        let glass = self.second * (0.4 + 0.9 * lit * (0.5 + fv));
        plaster.mix(Color::splat(0.7), frame * 0.8).mix(glass, pane)
    }
}
