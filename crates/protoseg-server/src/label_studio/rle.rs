//! Label Studio's run lengths of brush masks: bits, not bytes (thi.ng/rle-pack). First the number of values and the sizes
//! that follow, then runs: one value that repeats, or several as they are. A pixel has four values, of which the last says
//! how opaque it is.

use crate::error::{Answer, Failure};

/// Bits of a value.
const WORD: u32 = 8;
/// Bits of the lengths of runs; two bits say which.
const SIZES: [u32; 4] = [3, 4, 8, 16];
/// Values of a pixel.
const CHANNELS: usize = 4;

/// The run lengths of a mask.
pub fn encode(mask: &[bool]) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.put((CHANNELS * mask.len()) as u32, 32);
    bits.put(WORD - 1, 5);
    SIZES.iter().for_each(|size| bits.put(size - 1, 4));
    for run in mask.chunk_by(|a, b| a == b) {
        let mut left = CHANNELS * run.len();
        while left > 0 {
            let length = left.min(1 << SIZES[3]);
            let which = SIZES.iter().position(|size| length <= 1 << size).unwrap_or(3);
            bits.put(1, 1);
            bits.put(which as u32, 2);
            bits.put(length as u32 - 1, SIZES[which]);
            bits.put(if run[0] { 255 } else { 0 }, WORD);
            left -= length;
        }
    }
    bits.finish()
}

/// The mask of run lengths: true where a pixel is rather opaque than not.
pub fn decode(rle: &[u8], pixels: usize) -> Answer<Vec<bool>> {
    let short = || Failure::unfit("the run lengths of a brush end too early");
    let mut bits = Reader { bytes: rle, at: 0 };
    let count = bits.get(32).ok_or_else(short)? as usize;
    if count != CHANNELS * pixels {
        return Err(Failure::unfit(format!(
            "a brush mask has {count} values, expected {}",
            CHANNELS * pixels
        )));
    }
    let word = bits.get(5).ok_or_else(short)? + 1;
    let mut sizes = [0; 4];
    for size in &mut sizes {
        *size = bits.get(4).ok_or_else(short)? + 1;
    }
    let mut mask = vec![false; pixels];
    let mut at = 0;
    while at < count {
        let repeats = bits.get(1).ok_or_else(short)? == 1;
        let which = bits.get(2).ok_or_else(short)? as usize;
        let length = bits.get(sizes[which]).ok_or_else(short)? as usize + 1;
        let end = (at + length).min(count);
        let mut value = if repeats { bits.get(word).ok_or_else(short)? } else { 0 };
        for place in at..end {
            if !repeats {
                value = bits.get(word).ok_or_else(short)?;
            }
            if place % CHANNELS == CHANNELS - 1 {
                mask[place / CHANNELS] = value >= 128;
            }
        }
        at = end;
    }
    Ok(mask)
}

#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    fn put(&mut self, value: u32, count: u32) {
        for bit in (0..count).rev() {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if let (Some(last), 1) = (self.bytes.last_mut(), value >> bit & 1) {
                *last |= 128 >> (self.used % 8);
            }
            self.used += 1;
        }
    }

    fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn get(&mut self, count: u32) -> Option<u32> {
        let mut value = 0;
        for _ in 0..count {
            let byte = *self.bytes.get(self.at / 8)?;
            value = value << 1 | u32::from(byte >> (7 - self.at % 8) & 1);
            self.at += 1;
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_that_label_studio_writes() {
        // Two pixels, the second painted: 8 values, words of 8 bits, sizes 3, 4, 8 and 16; four times 0, four times 255.
        let bits =
            "00000000000000000000000000001000 00111 0010 0011 0111 1111 1 00 011 00000000 1 00 011 11111111";
        let bits: Vec<char> = bits.chars().filter(|c| *c != ' ').collect();
        let byte =
            |bits: &[char]| (0..8).fold(0, |byte, at| byte << 1 | u8::from(bits.get(at) == Some(&'1')));
        let expected: Vec<u8> = bits.chunks(8).map(byte).collect();
        assert_eq!(encode(&[false, true]), expected);
        assert_eq!(decode(&expected, 2).unwrap(), [false, true]);
    }

    #[test]
    fn every_mask_comes_back_and_damage_is_told() {
        let mut seed = 7u32;
        for length in [1, 2, 9, 100, 70_000] {
            let mut random = || {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                seed >> 28 == 0
            };
            let mut value = false;
            let mask: Vec<bool> = (0..length)
                .map(|_| {
                    value ^= random();
                    value
                })
                .collect();
            let rle = encode(&mask);
            assert_eq!(decode(&rle, length).unwrap(), mask);
            assert!(decode(&rle, length + 1).is_err());
            assert!(decode(&rle[..rle.len() - 1], length).is_err() || length == 1);
        }
        // Values as they are, not repeated: one pixel, four literal words.
        let literal = encode(&[true]);
        assert!(decode(&literal, 1).unwrap()[0]);
        assert!(decode(&[], 0).is_err() && decode(&[255; 64], 3).is_err());
    }
}
