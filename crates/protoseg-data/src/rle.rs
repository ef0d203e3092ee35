//! COCO's run-length masks: the lengths of alternating runs of 0 and 1, starting with 0, down the columns. They are
//! plain numbers or packed into a string. In a packed string, each length is stored as the difference from the length
//! two places earlier, 5 bits per character, low bits first.

use crate::region::{MAX_RUNS, Region, Run, TooManyRuns};

/// Why a run-length mask is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RleError {
    #[error("its runs cover `{got}` pixels, expected `{expected}`")]
    Length { got: u64, expected: u64 },
    #[error("character `{0}` is not part of a packed mask")]
    Character(char),
    #[error("its packed runs end in the middle of a number")]
    Cut,
    #[error("a packed run has length `{0}`")]
    Number(i64),
    #[error(transparent)]
    TooMany(#[from] TooManyRuns),
}

/// The pixels of a run-length mask of `width` x `height`.
pub fn decode_runs(counts: &[u32], width: usize, height: usize) -> Result<Region, RleError> {
    let got: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let expected = (width * height) as u64;
    if got != expected {
        return Err(RleError::Length { got, expected });
    }
    let mut painter = Painter { open: vec![CLOSED; height], runs: Vec::new() };
    // What the last column covers, and the next one: pairs of rows, from and to.
    let (mut before, mut covered, mut column) = (Vec::new(), Vec::new(), 0);
    let mut at = 0;
    for (index, &count) in counts.iter().enumerate() {
        let end = at + count as usize;
        while index % 2 == 1 && at < end {
            let (x, first) = (at / height, at % height);
            if x != column {
                painter.change(column, &before, &covered)?;
                (before, covered) = (std::mem::take(&mut covered), Vec::new());
                if x != column + 1 {
                    painter.change(column + 1, &before, &[])?;
                    before.clear();
                }
                column = x;
            }
            let last = height.min(first + end - at);
            covered.extend([first, last]);
            at += last - first;
        }
        at = end;
    }
    painter.change(column, &before, &covered)?;
    painter.change(column + 1, &covered, &[])?;
    Ok(Region::from_runs(painter.runs))
}

/// A row in which no run is open.
const CLOSED: usize = usize::MAX;

/// Makes runs along rows of columns that come one after the other. Only rows in which a column differs from the one
/// before cost anything.
struct Painter {
    /// Where the open run of each row starts.
    open: Vec<usize>,
    runs: Vec<Run>,
}

impl Painter {
    /// From this column on `covered` is covered, up to it `before` was. Both are pairs of rows in ascending order.
    fn change(&mut self, column: usize, before: &[usize], covered: &[usize]) -> Result<(), RleError> {
        let mut edges: Vec<usize> = before.iter().chain(covered).copied().collect();
        edges.sort_unstable();
        // Edges that both have cancel out: what is between the others differs.
        for rows in edges.chunks_exact(2) {
            for y in rows[0]..rows[1] {
                match std::mem::replace(&mut self.open[y], CLOSED) {
                    CLOSED => self.open[y] = column,
                    _ if self.runs.len() == MAX_RUNS => return Err(TooManyRuns.into()),
                    start => self.runs.push(Run { y, start, end: column }),
                }
            }
        }
        Ok(())
    }
}

/// The run lengths of a region, as [`decode_runs`] takes them.
pub fn encode_runs(region: &Region, width: usize, height: usize) -> Vec<u32> {
    let mut mask = vec![false; width * height];
    for run in region.runs() {
        for x in run.start..run.end {
            mask[x * height + run.y] = true;
        }
    }
    let mut counts = vec![0];
    let mut value = false;
    for pixel in mask {
        if pixel != value {
            counts.push(0);
            value = pixel;
        }
        if let Some(last) = counts.last_mut() {
            *last += 1;
        }
    }
    counts
}

/// Unpacks the lengths in a string.
pub fn unpack_runs(packed: &str) -> Result<Vec<u32>, RleError> {
    let mut counts: Vec<u32> = Vec::new();
    let mut characters = packed.chars().peekable();
    while characters.peek().is_some() {
        let (mut number, mut shift) = (0i64, 0u32);
        loop {
            let character = characters.next().ok_or(RleError::Cut)?;
            let bits = (character as u32).checked_sub(48).filter(|&bits| bits < 64);
            let bits = i64::from(bits.ok_or(RleError::Character(character))?);
            if shift >= 60 {
                return Err(RleError::Number(number));
            }
            number |= (bits & 0x1F) << shift;
            shift += 5;
            if bits & 0x20 == 0 {
                if bits & 0x10 != 0 {
                    number |= -1 << shift;
                }
                break;
            }
        }
        if counts.len() > 2 {
            number += i64::from(counts[counts.len() - 2]);
        }
        counts.push(u32::try_from(number).map_err(|_| RleError::Number(number))?);
    }
    Ok(counts)
}

/// Packs the lengths into a string.
pub fn pack_runs(counts: &[u32]) -> String {
    let mut packed = String::new();
    for (index, &count) in counts.iter().enumerate() {
        let mut number = i64::from(count);
        if index > 2 {
            number -= i64::from(counts[index - 2]);
        }
        loop {
            let bits = number & 0x1F;
            number >>= 5;
            let more = if bits & 0x10 != 0 { number != -1 } else { number != 0 };
            let code = bits as u8 | if more { 0x20 } else { 0 };
            packed.push(char::from(code + 48));
            if !more {
                break;
            }
        }
    }
    packed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_mask_is_what_its_runs_say(
            (width, height, mask) in (1usize..9, 1usize..9).prop_flat_map(|(width, height)| {
                (Just(width), Just(height), prop::collection::vec(any::<bool>(), width * height))
            })
        ) {
            let region = Region::from_mask(&mask, width);
            let counts = encode_runs(&region, width, height);
            prop_assert_eq!(decode_runs(&counts, width, height).unwrap(), region);
            prop_assert_eq!(unpack_runs(&pack_runs(&counts)).unwrap(), counts);
        }
    }

    #[test]
    fn large_masks_cost_what_their_outline_costs() {
        let (width, height) = (10_000, 13_000);
        let all = decode_runs(&[0, 130_000_000], width, height).unwrap();
        assert_eq!((all.runs().len(), all.area()), (height, 130_000_000));
        // Every second column.
        let stripes = vec![height as u32; width];
        assert_eq!(decode_runs(&stripes, width, height), Err(TooManyRuns.into()));
    }

    #[test]
    fn runs_go_down_the_columns() {
        // . # .
        // # # .
        let region = decode_runs(&[1, 3, 2], 3, 2).unwrap();
        assert_eq!(region, Region::from_mask(&[false, true, false, true, true, false], 3));
        assert_eq!(encode_runs(&region, 3, 2), [1, 3, 2]);
        assert_eq!(decode_runs(&[0, 6], 3, 2).unwrap().area(), 6);
        assert_eq!(decode_runs(&[6], 3, 2).unwrap().area(), 0);
    }

    #[test]
    fn packed_strings_agree_with_cocos_own_code() {
        // What pycocotools returns for a 7 x 5 mask with columns 1 to 3, rows 2 to 4 set, and for one with long runs.
        assert_eq!(unpack_runs(PYCOCO_SMALL.0).unwrap(), PYCOCO_SMALL.1);
        assert_eq!(pack_runs(PYCOCO_SMALL.1), PYCOCO_SMALL.0);
        assert_eq!(unpack_runs(PYCOCO_LONG.0).unwrap(), PYCOCO_LONG.1);
        assert_eq!(pack_runs(PYCOCO_LONG.1), PYCOCO_LONG.0);
    }
    const PYCOCO_SMALL: (&str, &[u32]) = ("732000=", &[7, 3, 2, 3, 2, 3, 15]);
    const PYCOCO_LONG: (&str, &[u32]) =
        ("V_1h8d00jb<hPm0Qh1afROimA", &[1510, 280, 20, 280, 12910, 30000, 14703, 1, 296]);

    #[test]
    fn broken_masks_are_refused() {
        assert_eq!(decode_runs(&[1, 3], 3, 2), Err(RleError::Length { got: 4, expected: 6 }));
        assert_eq!(unpack_runs("!"), Err(RleError::Character('!')));
        assert_eq!(unpack_runs("é"), Err(RleError::Character('é')));
        assert_eq!(unpack_runs("Q"), Err(RleError::Cut));
        assert_eq!(unpack_runs("O"), Err(RleError::Number(-1)));
        assert!(matches!(unpack_runs(&"o".repeat(20)), Err(RleError::Number(_))));
    }

    proptest::proptest! {
        #[test]
        fn any_mask_survives_the_round_trip(mask in proptest::collection::vec(proptest::bool::weighted(0.4), 1..400), width in 1usize..40) {
            let height = mask.len().div_ceil(width);
            let mut mask = mask;
            mask.resize(width * height, false);
            let region = Region::from_mask(&mask, width);
            let counts = encode_runs(&region, width, height);
            let unpacked = unpack_runs(&pack_runs(&counts)).unwrap();
            proptest::prop_assert_eq!(&unpacked, &counts);
            proptest::prop_assert_eq!(decode_runs(&unpacked, width, height).unwrap(), region);
        }

        #[test]
        fn no_string_makes_unpacking_panic(packed in "\\PC{0,40}") {
            let _ = unpack_runs(&packed);
        }
    }
}
