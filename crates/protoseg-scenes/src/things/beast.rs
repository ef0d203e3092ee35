//! The body shared by four-legged animals.

use crate::math::{Color, rgb, sin_cos};
use crate::model::{Cone, Frame, cone};
use crate::rng::Rng;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pose {
    Stand,
    Graze,
    Lie,
    Sit,
}

/// Lengths in metres; pairs are (base, tip).
#[derive(Clone, Debug)]
pub struct Beast {
    pub pose: Pose,
    /// Shoulder to hip.
    pub length: f32,
    pub leg: f32,
    pub chest: f32,
    pub belly: f32,
    pub rump: f32,
    pub thigh: f32,
    pub shank: f32,
    pub neck: f32,
    pub neck_width: (f32, f32),
    /// Turns above the horizontal.
    pub neck_rise: f32,
    pub head: f32,
    pub skull: f32,
    pub muzzle: f32,
    pub coat: Color,
    pub legs: Color,
    pub feet: Color,
    pub face: Color,
    pub nose: Color,
}

/// The finished body and where its ends are, for ears, horns, manes and tails.
pub struct Body {
    pub cones: Vec<Cone>,
    pub withers: (f32, f32),
    pub poll: (f32, f32, f32),
    /// The direction in which the head points, along u, v, w.
    pub gaze: (f32, f32, f32),
    pub tail: (f32, f32),
}

impl Beast {
    pub fn build(&self, frame: &Frame, rng: &mut Rng) -> Body {
        let mut cones = Vec::with_capacity(32);
        let (shoulder, hip) = self.spine();
        let middle = (0.5 * (shoulder.0 + hip.0), 0.5 * (shoulder.1 + hip.1) - 0.15 * self.belly);
        let flat = |p: (f32, f32)| (p.0, p.1, 0.0);
        cones.push(cone(frame, flat(shoulder), flat(middle), self.chest, self.belly, self.coat));
        cones.push(cone(frame, flat(middle), flat(hip), self.belly, self.rump, self.coat));
        for side in [-1.0, 1.0] {
            self.front_leg(frame, shoulder, side, rng, &mut cones);
            self.hind_leg(frame, hip, side, rng, &mut cones);
        }
        let (poll, gaze) = self.neck_and_head(frame, shoulder, rng, &mut cones);
        Body {
            cones,
            withers: (shoulder.0, shoulder.1 + 0.75 * self.chest),
            poll,
            gaze,
            tail: (hip.0 - 0.8 * self.rump, hip.1 + 0.45 * self.rump),
        }
    }

    fn spine(&self) -> ((f32, f32), (f32, f32)) {
        let half = 0.5 * self.length;
        let up = self.leg + 0.7 * self.chest;
        match self.pose {
            Pose::Stand | Pose::Graze => ((half, up), (-half, up + 0.6 * (self.rump - self.chest))),
            Pose::Lie => ((half, 0.95 * self.chest), (-half, 0.9 * self.rump)),
            Pose::Sit => ((0.55 * half, up * 0.98), (-0.75 * half, 0.95 * self.rump)),
        }
    }

    fn front_leg(&self, f: &Frame, shoulder: (f32, f32), side: f32, rng: &mut Rng, cones: &mut Vec<Cone>) {
        let w = side * 0.52 * self.chest;
        let (u, v) = (shoulder.0 + 0.15 * self.chest, shoulder.1 - 0.35 * self.chest);
        let (knee, foot) = if self.pose == Pose::Lie {
            let reach = 0.45 * self.leg * rng.range(0.5, 1.2);
            ((u + 0.5 * reach, 1.4 * self.shank, w * 1.2), (u + reach, self.shank, w * 1.1))
        } else {
            let swing = rng.range(-0.2, 0.2) * self.leg;
            let lift = if rng.chance(0.15) { 0.1 * self.leg } else { 0.0 };
            ((u + 0.4 * swing + lift, 0.5 * v + lift, w), (u + swing, self.shank * 0.7 + lift, w))
        };
        let thigh = 0.8 * self.thigh;
        cones.push(cone(f, (u, v, w), knee, thigh, 1.15 * self.shank, self.legs));
        self.lower_leg(f, knee, foot, cones);
    }

    fn hind_leg(&self, f: &Frame, hip: (f32, f32), side: f32, rng: &mut Rng, cones: &mut Vec<Cone>) {
        let w = side * 0.55 * self.rump;
        let (u, v) = (hip.0 - 0.05 * self.rump, hip.1 - 0.2 * self.rump);
        match self.pose {
            Pose::Stand | Pose::Graze => {
                let swing = rng.range(-0.18, 0.22) * self.leg;
                let stifle = (u + 0.12 * self.leg, 0.62 * v, w);
                let hock = (u - 0.16 * self.leg + 0.5 * swing, 0.36 * v, w);
                cones.push(cone(f, (u, v, w), stifle, self.thigh, 0.8 * self.thigh, self.coat));
                cones.push(cone(f, stifle, hock, 0.75 * self.thigh, 1.1 * self.shank, self.legs));
                self.lower_leg(f, hock, (u - 0.05 * self.leg + swing, self.shank * 0.7, w), cones);
            }
            Pose::Lie | Pose::Sit => {
                let knee = (u + 0.55 * self.leg, 0.35 * self.rump + 0.1 * self.leg, w * 1.35);
                cones.push(cone(f, (u, v, w), knee, 1.15 * self.thigh, 0.75 * self.thigh, self.coat));
                let heel = (u + 0.2 * self.leg, self.shank, w * 1.4);
                self.lower_leg(f, heel, (u + 0.75 * self.leg, self.shank * 0.9, w * 1.4), cones);
            }
        }
    }

    fn lower_leg(&self, f: &Frame, from: (f32, f32, f32), foot: (f32, f32, f32), cones: &mut Vec<Cone>) {
        cones.push(Cone { soft: 0.4, ..cone(f, from, foot, 1.1 * self.shank, 0.8 * self.shank, self.legs) });
        let toe = (foot.0 + 0.6 * self.shank, foot.1 * 0.9, foot.2);
        cones.push(cone(f, foot, toe, 0.95 * self.shank, 0.8 * self.shank, self.feet).crisp());
    }

    fn neck_and_head(
        &self,
        f: &Frame,
        shoulder: (f32, f32),
        rng: &mut Rng,
        cones: &mut Vec<Cone>,
    ) -> ((f32, f32, f32), (f32, f32, f32)) {
        let grazing = self.pose == Pose::Graze;
        let rise = if grazing { rng.range(-0.17, -0.13) } else { self.neck_rise + rng.range(-0.03, 0.03) };
        let (s, c) = sin_cos(rise);
        let start = (shoulder.0 + 0.35 * self.chest, shoulder.1 + 0.25 * self.chest);
        let reach = if grazing { 0.75 * start.1.max(self.neck) } else { self.neck };
        let aside = if rng.chance(0.35) { rng.range(-0.14, 0.14) } else { rng.range(-0.03, 0.03) };
        let (turn_s, turn_c) = sin_cos(aside);
        let poll =
            (start.0 + c * reach, (start.1 + s * reach).max(0.3 * self.head), 0.4 * turn_s * self.neck);
        let nod = if grazing { rng.range(-0.2, -0.15) } else { rng.range(-0.11, -0.05) };
        let (hs, hc) = sin_cos(nod);
        let gaze = (hc * turn_c, hs, hc * turn_s);
        let (base, tip) = self.neck_width;
        cones.push(cone(f, (start.0, start.1, 0.0), poll, base, tip, self.coat));
        let along = |t: f32, up: f32| {
            (poll.0 + gaze.0 * t, (poll.1 + gaze.1 * t + up).max(self.muzzle * 0.8), poll.2 + gaze.2 * t)
        };
        let brow = along(0.35 * self.head, 0.0);
        cones.push(cone(f, along(0.0, 0.0), brow, self.skull, 0.92 * self.skull, self.face));
        let muzzle = cone(f, brow, along(self.head, 0.0), 0.8 * self.skull, self.muzzle, self.face);
        cones.push(Cone { soft: 0.6, ..muzzle });
        let nose = cone(
            f,
            along(0.93 * self.head, 0.0),
            along(1.08 * self.head, 0.0),
            0.8 * self.muzzle,
            0.75 * self.muzzle,
            self.nose,
        );
        cones.push(Cone { soft: 0.3, ..nose });
        for side in [-1.0, 1.0] {
            let eye = along(0.38 * self.head, 0.35 * self.skull);
            let eye =
                (eye.0 - side * gaze.2 * 0.85 * self.skull, eye.1, eye.2 + side * gaze.0 * 0.85 * self.skull);
            cones.push(cone(f, eye, eye, 0.17 * self.skull, 0.17 * self.skull, rgb(0x14100e)).crisp());
        }
        (poll, gaze)
    }
}

impl Body {
    /// A pair of ears or horns: from the sides of the head, out by `w`, up by `v`, back by `u`.
    pub fn pair(
        &mut self,
        f: &Frame,
        skull: f32,
        way: (f32, f32, f32),
        width: (f32, f32),
        color: Color,
        soft: f32,
    ) {
        let (p, g) = (self.poll, self.gaze);
        for side in [-1.0, 1.0] {
            let out = |k: f32, up: f32, back: f32| {
                (p.0 - g.2 * side * k - g.0 * back, p.1 + up, p.2 + g.0 * side * k - g.2 * back)
            };
            let root = out(0.75 * skull, 0.6 * skull, 0.0);
            let tip = out(0.75 * skull + way.2, 0.6 * skull + way.1, way.0);
            self.cones.push(Cone { soft, ..cone(f, root, tip, width.0, width.1, color) });
        }
    }
}
