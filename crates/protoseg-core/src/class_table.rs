//! The classes of a data set, under the numbers that its files use.
//!
//! Files use [`ClassId`]; classifiers use rows ([`crate::Classes`]). [`crate::Remap`] is the only bridge between
//! them.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{IGNORE, IdMap, NameError, check_name};

/// The number that a data set's label files use for a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClassId(pub u16);

impl fmt::Display for ClassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A class with its name and id in the data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedClass {
    pub id: ClassId,
    pub name: String,
}

/// All classes of a data set in ascending order of id, which of them is the background (there may be none), and the
/// label values that mean "no label".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassTable {
    classes: Vec<NamedClass>,
    background: Option<ClassId>,
    ignore: Vec<u16>,
}

/// Why a list of classes is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClassTableError {
    #[error("the data set has no foreground class\nhint: name at least one class besides the background")]
    NoForeground,
    #[error("class `{name}` (id `{id}`) is named twice\nhint: give every class its own name and its own id")]
    Twice { name: String, id: ClassId },
    #[error("the class with id `{id}`: {source}")]
    Name { id: ClassId, source: NameError },
    #[error(
        "id `{id}` is both class `{name}` and an ignored id\nhint: take `{id}` out of the ignored ids, or give the class another id"
    )]
    Ignored { name: String, id: ClassId },
    #[error(
        "the background `{name}` is not among the classes\nhint: add `{name}` to the classes, or declare that there is no background"
    )]
    NoBackground { name: String },
    #[error("class id `{got}` is too large, expected at most `{max}`\nhint: give the class a smaller id", max = ClassTable::MAX_ID)]
    TooLarge { got: usize },
}

impl ClassTable {
    /// A class of this name is the background unless the data set says otherwise.
    pub const BACKGROUND: &str = "background";
    /// The highest id a class may have. Higher values are reserved for marks such as [`IGNORE`].
    pub const MAX_ID: u16 = u16::MAX - 8;

    /// Makes a table from ids and names. `background` names the background class, if there is one.
    pub fn new(
        classes: impl IntoIterator<Item = (ClassId, String)>,
        background: Option<&str>,
        ignore: &[u16],
    ) -> Result<Self, ClassTableError> {
        let mut classes: Vec<NamedClass> =
            classes.into_iter().map(|(id, name)| NamedClass { id, name }).collect();
        classes.sort_by_key(|class| class.id);
        let mut names = HashSet::new();
        for (position, class) in classes.iter().enumerate() {
            let NamedClass { id, name } = class;
            check_name(name).map_err(|source| ClassTableError::Name { id: *id, source })?;
            if !names.insert(name.as_str()) || (position > 0 && classes[position - 1].id == *id) {
                return Err(ClassTableError::Twice { name: name.clone(), id: *id });
            }
            if ignore.contains(&id.0) {
                return Err(ClassTableError::Ignored { name: name.clone(), id: *id });
            }
            if id.0 > Self::MAX_ID {
                return Err(ClassTableError::TooLarge { got: usize::from(id.0) });
            }
        }
        let background = match background {
            None => None,
            Some(name) => match classes.iter().find(|class| class.name == name) {
                Some(class) => Some(class.id),
                None => return Err(ClassTableError::NoBackground { name: name.to_string() }),
            },
        };
        let mut ignore = ignore.to_vec();
        ignore.sort_unstable();
        ignore.dedup();
        let table = Self { classes, background, ignore };
        if table.foreground().next().is_none() {
            return Err(ClassTableError::NoForeground);
        }
        Ok(table)
    }

    /// Makes a table from names; a class's id is its position. A class named `background` is the background.
    pub fn from_names<S: AsRef<str>>(names: &[S], ignore: &[u16]) -> Result<Self, ClassTableError> {
        if names.len() > usize::from(Self::MAX_ID) {
            return Err(ClassTableError::TooLarge { got: names.len() });
        }
        let background = names.iter().any(|name| name.as_ref() == Self::BACKGROUND);
        let classes = (0u16..).map(ClassId).zip(names.iter().map(|name| name.as_ref().to_string()));
        Self::new(classes, background.then_some(Self::BACKGROUND), ignore)
    }

    /// All classes in ascending order of id.
    pub fn classes(&self) -> &[NamedClass] {
        &self.classes
    }

    /// All classes except the background, in ascending order of id.
    pub fn foreground(&self) -> impl Iterator<Item = &NamedClass> {
        self.classes.iter().filter(|class| Some(class.id) != self.background)
    }

    pub fn background(&self) -> Option<ClassId> {
        self.background
    }

    /// Label values that mean "no label".
    pub fn ignore(&self) -> &[u16] {
        &self.ignore
    }

    pub fn contains(&self, id: ClassId) -> bool {
        self.position(id).is_some()
    }

    /// Position of the class in [`Self::classes`].
    pub fn position(&self, id: ClassId) -> Option<usize> {
        self.classes.binary_search_by_key(&id, |class| class.id).ok()
    }

    pub fn name(&self, id: ClassId) -> Option<&str> {
        self.position(id).map(|position| self.classes[position].name.as_str())
    }

    pub fn id(&self, name: &str) -> Option<ClassId> {
        self.classes.iter().find(|class| class.name == name).map(|class| class.id)
    }

    /// Replaces every ignored value in a label map read from a file with [`IGNORE`].
    pub fn mark_ignored(&self, labels: &mut IdMap) {
        match *self.ignore {
            [] => {}
            [one] => {
                for label in labels.data.iter_mut().filter(|label| **label == one) {
                    *label = IGNORE;
                }
            }
            _ => {
                for label in labels.data.iter_mut().filter(|label| self.ignore.contains(label)) {
                    *label = IGNORE;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_positions_and_background_is_found_by_name() {
        let table = ClassTable::from_names(&["background", "cow", "duck"], &[255]).unwrap();
        assert_eq!(table.background(), Some(ClassId(0)));
        assert_eq!(table.id("duck"), Some(ClassId(2)));
        assert_eq!(table.name(ClassId(3)), None);
        assert_eq!(table.foreground().map(|class| class.id.0).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(ClassTable::from_names(&["grass", "cow"], &[255]).unwrap().background(), None);
    }

    #[test]
    fn ids_may_have_gaps_and_come_in_any_order() {
        let classes = [(7, "dog"), (1, "cat")].map(|(id, name)| (ClassId(id), name.to_string()));
        let table = ClassTable::new(classes, None, &[0]).unwrap();
        assert_eq!(table.position(ClassId(7)), Some(1));
        assert_eq!(table.position(ClassId(2)), None);
    }

    #[test]
    fn every_ignored_value_becomes_ignore() {
        let table = ClassTable::from_names(&["a", "b"], &[255, 254]).unwrap();
        let mut labels = IdMap::new(4, 1, vec![0, 254, 255, 1]);
        table.mark_ignored(&mut labels);
        assert_eq!(labels.data, [0, IGNORE, IGNORE, 1]);
    }

    #[test]
    fn lists_that_cannot_be_a_data_set_are_refused() {
        type Error = ClassTableError;
        let refuse = |names: &[&str], ignore: &[u16]| ClassTable::from_names(names, ignore).unwrap_err();
        assert_eq!(refuse(&["background"], &[]), Error::NoForeground);
        assert_eq!(refuse(&["a", "a"], &[]), Error::Twice { name: "a".into(), id: ClassId(1) });
        assert_eq!(refuse(&["a", " "], &[]), Error::Name { id: ClassId(1), source: NameError::Empty });
        assert_eq!(refuse(&["a", "b"], &[1]), Error::Ignored { name: "b".into(), id: ClassId(1) });
        let same_id = [(3, "a"), (3, "b")].map(|(id, name)| (ClassId(id), name.to_string()));
        let twice = ClassTable::new(same_id, None, &[]).unwrap_err();
        assert_eq!(twice, Error::Twice { name: "b".into(), id: ClassId(3) });
    }
}
