//! Damaged copies of a file: the same for the same seed, so that a failure can be seen again.

/// Numbers as hostile files write them.
const NUMBERS: [&str; 8] =
    ["0", "-1", "1e400", "NaN", "65536", "4294967296", "18446744073709551616", "0.0000001"];

/// A copy of `bytes` with one to four kinds of damage.
pub fn mutate(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        damage(&mut bytes, &mut random);
    }
    bytes
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return bytes.push(random.next() as u8);
    }
    let at = random.below(bytes.len());
    let end = at + 1 + random.below((bytes.len() - at).min(64));
    match random.below(8) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at..end].iter_mut().for_each(|byte| *byte = random.next() as u8),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..end)),
        4 => {
            let part = bytes[at..end].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, part);
        }
        5 => bytes[at..end].fill([0, 255, b'\n', 0x1b][random.below(4)]),
        // Numbers in text.
        6 => {
            let Some(first) = (at..bytes.len()).find(|&place| bytes[place].is_ascii_digit()) else { return };
            let last =
                (first..bytes.len()).find(|&place| !bytes[place].is_ascii_digit()).unwrap_or(bytes.len());
            bytes.splice(first..last, NUMBERS[random.below(NUMBERS.len())].bytes());
        }
        // Lengths and sizes in headers.
        _ => {
            let value = [0u32, 1, 0x7fff_ffff, 0xffff_ffff, 0x0001_0000][random.below(5)];
            let value = if random.below(2) == 0 { value.to_le_bytes() } else { value.to_be_bytes() };
            let first = random.below(bytes.len().min(64));
            bytes.iter_mut().skip(first).zip(value).for_each(|(byte, value)| *byte = value);
        }
    }
}

/// A generator of 64 bits at a time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_depends_on_the_seed_alone() {
        let bytes: Vec<u8> = (0..200).collect();
        let all: Vec<Vec<u8>> = (0..100).map(|seed| mutate(&bytes, seed)).collect();
        assert!(all.iter().enumerate().all(|(seed, copy)| *copy == mutate(&bytes, seed as u64)));
        assert!(all.iter().filter(|copy| **copy != bytes).count() > 95);
    }
}
