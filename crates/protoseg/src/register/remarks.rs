//! What is said of a class's supports before anything is predicted from them.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use protoseg_data::Support;

/// Remarks on the supports of one class.
#[derive(Debug, Default)]
pub struct Remarks {
    /// How files were understood, where that could surprise.
    pub notes: Vec<String>,
    /// What is likely to go wrong.
    pub warnings: Vec<String>,
    /// Number of supports with a weak mask.
    pub weak: usize,
    /// How often each pair of picture and labels was given, with the name it was given by first.
    seen: HashMap<u64, (String, usize)>,
}

impl Remarks {
    /// With what gathering the supports had to say.
    pub fn new(warnings: &[String]) -> Self {
        Self { warnings: warnings.to_vec(), ..Self::default() }
    }

    /// Takes a look at one more support.
    pub fn look(&mut self, support: &Support) {
        let name = support.name();
        self.notes.extend_from_slice(support.notes());
        self.weak += usize::from(support.is_weak());
        let image = support.image();
        if support.pixels() == (image.width * image.height) as u64 {
            self.warnings.push(format!(
                "the mask of `{name}` covers the whole image: the class learns everything that is in it"
            ));
        }
        let mut hasher = DefaultHasher::new();
        (image.width, &image.data, &support.labels().data).hash(&mut hasher);
        self.seen.entry(hasher.finish()).or_insert_with(|| (name.to_string(), 0)).1 += 1;
    }

    /// Adds what only all supports together show.
    pub fn finish(mut self, class: &str) -> Self {
        let given: usize = self.seen.values().map(|(_, times)| times).sum();
        let mut repeated: Vec<&str> =
            self.seen.values().filter(|(_, times)| *times > 1).map(|(name, _)| name.as_str()).collect();
        repeated.sort_unstable();
        if !repeated.is_empty() {
            let names: Vec<String> = repeated.iter().map(|name| format!("`{name}`")).collect();
            let distinct = self.seen.len();
            self.warnings.push(format!(
                "only {distinct} of the {given} supports of `{class}` differ: {} {} given more than once",
                names.join(", "),
                if names.len() == 1 { "is" } else { "are" },
            ));
        }
        if self.weak > 0 {
            self.notes.push(format!(
                "{} of {given} supports of `{class}` {} weak (a box or a scribble): masks teach it better",
                self.weak,
                if self.weak == 1 { "is" } else { "are" },
            ));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use protoseg_core::Image;

    use super::*;

    fn support(name: &str, shade: u8, mask: [bool; 2]) -> Support {
        Support::from_mask(name, Image::new(2, 1, vec![shade; 6]), &mask).unwrap()
    }

    #[test]
    fn whole_masks_repeats_and_weak_masks_are_remarked() {
        let mut remarks = Remarks::default();
        for support in [
            support("a", 1, [true, false]),
            support("b", 2, [true, true]),
            support("a copy", 1, [true, false]),
            support("c", 1, [false, true]).weak(),
        ] {
            remarks.look(&support);
        }
        let remarks = remarks.finish("duck");
        assert_eq!(remarks.weak, 1);
        assert!(remarks.notes[0].starts_with("1 of 4 supports of `duck` is weak"), "{:?}", remarks.notes);
        let warnings = remarks.warnings.join("\n");
        assert!(warnings.contains("mask of `b` covers the whole image"), "{warnings}");
        assert!(warnings.contains("only 3 of the 4 supports of `duck` differ: `a` is given"), "{warnings}");
        assert_eq!(remarks.warnings.len(), 2);
    }
}
