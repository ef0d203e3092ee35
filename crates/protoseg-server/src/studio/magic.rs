//! What a magic click is told of the paint that is there: several clicks extend or correct each other.

use protoseg::rough::Hint;

use super::paint::UNPAINTED;

/// A hint for each pixel. Paint with the id `own` is a part of the thing, and other paint is not. But what lies under
/// the stroke itself is corrected: whether the rest of that paint is the thing is open.
pub fn hints(rough: &[bool], painted: Option<&[u8]>, own: u8) -> Vec<Hint> {
    let corrected = painted.map_or(UNPAINTED, |painted| most_painted(rough, painted));
    let hint = |(at, &is_rough): (usize, &bool)| match painted.map_or(UNPAINTED, |painted| painted[at]) {
        _ if is_rough => Hint::Thing,
        UNPAINTED => Hint::Unknown,
        id if id == own => Hint::Painted,
        id if id == corrected => Hint::Unknown,
        _ => Hint::Rest,
    };
    rough.iter().enumerate().map(hint).collect()
}

/// The id that most of a stroke lies on.
fn most_painted(rough: &[bool], painted: &[u8]) -> u8 {
    let mut counts = [0u64; 256];
    let under = rough.iter().zip(painted).filter(|(is_rough, _)| **is_rough);
    under.for_each(|(_, id)| counts[usize::from(*id)] += 1);
    (0..=u8::MAX).max_by_key(|id| counts[usize::from(*id)]).unwrap_or(UNPAINTED)
}

#[cfg(test)]
mod tests {
    use protoseg::rough::Hint::{Painted, Rest, Thing, Unknown};

    use super::{super::paint::NONE, *};

    #[test]
    fn own_paint_belongs_to_the_thing_and_what_is_clicked_on_is_open() {
        let painted = [0, 1, 1, 2, 2, NONE, NONE, 0];
        let click = |at: usize| (0..8).map(|pixel| pixel == at).collect::<Vec<bool>>();
        assert_eq!(
            hints(&click(0), Some(&painted), 1),
            [Thing, Painted, Painted, Rest, Rest, Rest, Rest, Unknown]
        );
        // "Not this" on paint of class 1: it may be wrong elsewhere, too.
        assert_eq!(
            hints(&click(1), Some(&painted), NONE),
            [Unknown, Thing, Unknown, Rest, Rest, Painted, Painted, Unknown]
        );
        // A thing is erased from class 2, not all of the class.
        assert_eq!(
            hints(&click(3), Some(&painted), UNPAINTED),
            [Unknown, Rest, Rest, Thing, Unknown, Rest, Rest, Unknown]
        );
        assert_eq!(hints(&click(6), None, 1)[5..], [Unknown, Thing, Unknown]);
    }
}
