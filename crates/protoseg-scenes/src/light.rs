//! Sun, sky, lamps and haze.

use crate::math::{Color, Vec3, rgb, sin_cos, smoothstep, vec3};
use crate::rng::Rng;

/// A bulb that shines on walls, floors and tables around it.
#[derive(Clone, Copy, Debug)]
pub struct Bulb {
    pub at: Vec3,
    pub color: Color,
    /// Distance in metres at which half of its light is left.
    pub reach: f32,
}

#[derive(Clone, Debug)]
pub struct Light {
    /// Direction towards the sun or the window.
    pub to_sun: Vec3,
    pub sun: Color,
    /// Ambient light from above, and light reflected by the ground.
    pub sky: Color,
    pub bounce: Color,
    pub fog: Color,
    /// Share of fog per metre.
    pub haze: f32,
    /// Width of a shadow's edge in metres.
    pub penumbra: f32,
    pub bulbs: Vec<Bulb>,
    half: Vec3,
}

/// The dome over outdoor scenes.
#[derive(Clone, Debug)]
pub struct Sky {
    pub zenith: Color,
    pub horizon: Color,
    pub cloud: Color,
    /// 0 is clear, 1 is overcast.
    pub cover: f32,
    pub glow: Color,
}

impl Light {
    /// Weather and time of day of an outdoor scene.
    pub fn outdoor(rng: &mut Rng) -> (Self, Sky) {
        let weather = &WEATHERS[rng.weighted(WEATHERS.iter().map(|w| w.weight))];
        let elevation = rng.range(weather.elevation.0, weather.elevation.1);
        let to_sun = direction(rng.range(-0.23, 0.23), elevation);
        let power = rng.range(0.85, 1.15);
        let light = Self {
            to_sun,
            sun: weather.sun * power,
            sky: weather.ambient * rng.range(0.85, 1.15),
            bounce: weather.ambient.tint(rgb(0x9a917c)) * 0.75,
            fog: weather.horizon.mix(weather.ambient, 0.3),
            haze: weather.haze * rng.range(0.5, 1.5),
            penumbra: weather.penumbra,
            bulbs: Vec::new(),
            half: half(to_sun),
        };
        let sky = Sky {
            zenith: weather.zenith * rng.range(0.85, 1.15),
            horizon: weather.horizon,
            cloud: weather.cloud,
            cover: (weather.cover + rng.range(-0.2, 0.2)).clamp(0.0, 1.0),
            glow: weather.sun * weather.glow,
        };
        (light, sky)
    }

    /// A room: a window somewhere on the viewer's side, or lamplight in the evening.
    pub fn indoor(rng: &mut Rng) -> Self {
        let to_sun = direction(rng.range(-0.2, 0.2), rng.range(0.09, 0.17));
        let (sun, sky, bounce) = match rng.below(6) {
            0 | 1 => (rgb(0xfff1da) * 0.75, rgb(0xa5a8ae), rgb(0x7d7268)),
            2 | 3 => (rgb(0xe6f0ff) * 0.7, rgb(0x9aa4b2), rgb(0x706e6c)),
            4 => (rgb(0xffdfae) * 0.62, rgb(0x8f8478), rgb(0x6e5d4c)),
            _ => (rgb(0xffd9a0) * 0.4, rgb(0x6f6a70), rgb(0x54473c)),
        };
        let power = rng.range(1.05, 1.45);
        Self {
            to_sun,
            sun: sun * power,
            sky: sky * power,
            bounce: bounce * power,
            fog: sky,
            haze: 0.0,
            penumbra: rng.range(0.12, 0.3),
            // Daylight from one side gives the walls their gradient.
            bulbs: vec![Bulb {
                at: vec3(rng.sign() * rng.range(1.5, 3.0), rng.range(1.0, 2.2), rng.range(0.5, 2.5)),
                color: sun * (0.4 * power),
                reach: rng.range(0.8, 1.6),
            }],
            half: half(to_sun),
        }
    }

    /// The colour of a surface that faces `normal`.
    #[inline]
    pub fn shade(&self, albedo: Color, normal: Vec3, gloss: f32) -> Color {
        let direct = normal.dot(self.to_sun) * 0.88 + 0.12;
        let ambient = self.bounce.mix(self.sky, 0.5 + 0.5 * normal.y);
        let mut color = albedo.tint(ambient + self.sun * direct.max(0.0));
        if gloss > 0.0 {
            let s = normal.dot(self.half).max(0.0);
            let s = s * s;
            let s = s * s;
            let s = s * s;
            let grazing = 1.0 + normal.z;
            let mirror = self.sky * ((0.12 + 0.5 * grazing * grazing) * (0.6 + 0.4 * normal.y));
            color = color + (mirror + self.sun * (s * s * 0.8)) * gloss;
        }
        color
    }

    /// What the bulbs add to a surface at `at` that faces `normal`.
    pub fn lamplight(&self, albedo: Color, normal: Vec3, at: Vec3) -> Color {
        let mut color = Color::default();
        for bulb in &self.bulbs {
            let way = bulb.at - at;
            let distance = way.length().max(1e-3);
            let facing = (normal.dot(way) / distance * 0.7 + 0.3).max(0.0);
            let fall = distance / bulb.reach;
            color = color + albedo.tint(bulb.color) * (facing / (1.0 + fall * fall));
        }
        color
    }

    #[inline]
    pub fn through_haze(&self, color: Color, z: f32) -> Color {
        if self.haze == 0.0 {
            return color;
        }
        let thick = self.haze * z;
        color.mix(self.fog, thick / (1.0 + thick))
    }

    /// The light that is left on level ground in the shade.
    pub fn shadow(&self) -> Color {
        let direct = self.sun * (self.to_sun.y * 0.88 + 0.12);
        let all = self.sky + direct;
        vec3(self.sky.x / all.x, self.sky.y / all.y, self.sky.z / all.z)
    }
}

fn half(to_sun: Vec3) -> Vec3 {
    (to_sun + vec3(0.0, 0.0, -1.0)).unit()
}

/// `around`: turns from straight behind the viewer; `up`: turns above the horizon.
fn direction(around: f32, up: f32) -> Vec3 {
    let (s, c) = sin_cos(around);
    let (v, h) = sin_cos(up);
    vec3(s * h, v, -c * h)
}

impl Sky {
    /// Colour at `up` (0 horizon, 1 zenith) without clouds.
    pub fn gradient(&self, up: f32) -> Color {
        self.horizon.mix(self.zenith, smoothstep(-0.1, 0.9, up))
    }
}

struct Weather {
    weight: f32,
    elevation: (f32, f32),
    sun: Color,
    ambient: Color,
    zenith: Color,
    horizon: Color,
    cloud: Color,
    cover: f32,
    glow: f32,
    haze: f32,
    penumbra: f32,
}

const WEATHERS: [Weather; 5] = [
    // Clear day.
    Weather {
        weight: 3.5,
        elevation: (0.09, 0.19),
        sun: vec3(0.95, 0.89, 0.78),
        ambient: vec3(0.30, 0.35, 0.43),
        zenith: rgb(0x4a83c8),
        horizon: rgb(0xcfe4f2),
        cloud: rgb(0xffffff),
        cover: 0.4,
        glow: 0.05,
        haze: 0.004,
        penumbra: 0.03,
    },
    // Golden hour.
    Weather {
        weight: 2.0,
        elevation: (0.045, 0.08),
        sun: vec3(1.15, 0.70, 0.36),
        ambient: vec3(0.32, 0.29, 0.33),
        zenith: rgb(0x6c8fc0),
        horizon: rgb(0xf8cf95),
        cloud: rgb(0xffdcb0),
        cover: 0.5,
        glow: 0.3,
        haze: 0.008,
        penumbra: 0.04,
    },
    // Overcast.
    Weather {
        weight: 2.0,
        elevation: (0.14, 0.22),
        sun: vec3(0.18, 0.18, 0.18),
        ambient: vec3(0.56, 0.58, 0.61),
        zenith: rgb(0xb4bdc6),
        horizon: rgb(0xdfe3e5),
        cloud: rgb(0x98a2ab),
        cover: 0.75,
        glow: 0.0,
        haze: 0.008,
        penumbra: 0.5,
    },
    // Morning mist.
    Weather {
        weight: 1.2,
        elevation: (0.06, 0.11),
        sun: vec3(0.40, 0.36, 0.31),
        ambient: vec3(0.46, 0.48, 0.50),
        zenith: rgb(0xb9c8d4),
        horizon: rgb(0xe9e7df),
        cloud: rgb(0xf4efe6),
        cover: 0.3,
        glow: 0.2,
        haze: 0.035,
        penumbra: 0.25,
    },
    // Dusk.
    Weather {
        weight: 1.0,
        elevation: (0.03, 0.06),
        sun: vec3(0.58, 0.38, 0.32),
        ambient: vec3(0.20, 0.20, 0.30),
        zenith: rgb(0x34487c),
        horizon: rgb(0xe6b094),
        cloud: rgb(0x9a8296),
        cover: 0.5,
        glow: 0.28,
        haze: 0.010,
        penumbra: 0.1,
    },
];
