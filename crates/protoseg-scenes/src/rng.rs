//! Random numbers for the world: splitmix64, so that a scene is the same on every platform and in every thread.

#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A stream for sample `index` of the world `seed`; streams of neighbouring samples are independent.
    pub fn new(seed: u64, index: u64) -> Self {
        Self(finalise(seed ^ 0x5CE7_E5A1_0B57_11AD).wrapping_add(finalise(index.wrapping_mul(GOLDEN) ^ seed)))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        finalise(self.0)
    }

    /// An independent stream; what its owner draws does not shift this one.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 24) as f32
    }

    pub fn range(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// `value`, plus or minus up to the share `spread` of it.
    pub fn vary(&mut self, value: f32, spread: f32) -> f32 {
        value * self.range(1.0 - spread, 1.0 + spread)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (((self.next() >> 32) * n as u64) >> 32) as usize
    }

    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub fn chance(&mut self, p: f32) -> bool {
        self.unit() < p
    }

    pub fn sign(&mut self) -> f32 {
        if self.chance(0.5) { 1.0 } else { -1.0 }
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// An index drawn in proportion to `weights`.
    pub fn weighted(&mut self, weights: impl Iterator<Item = f32> + Clone) -> usize {
        let mut left = self.unit() * weights.clone().sum::<f32>();
        let mut last = 0;
        for (i, weight) in weights.enumerate().filter(|(_, weight)| *weight > 0.0) {
            last = i;
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
        last
    }
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

fn finalise(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
