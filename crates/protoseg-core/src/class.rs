//! The classes that a classifier knows, one per row: background (if any), then base, then novel.

use serde::{Deserialize, Serialize};

use crate::{NameError, check_name};

/// The role of a class in the classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClassRole {
    /// Everything the data set does not name; always row 0. A data set may have no background.
    Background,
    /// Learned from many labelled images.
    Base,
    /// Registered from a few labelled images.
    Novel,
}

impl ClassRole {
    /// The name of the role in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::Base => "base",
            Self::Novel => "novel",
        }
    }
}

/// One class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    pub name: String,
    pub role: ClassRole,
}

/// The rows of a classifier in order. Names are unique. The background comes first, then base, then novel classes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Class>", into = "Vec<Class>")]
pub struct Classes(Vec<Class>);

/// Why a list of classes is not valid for a classifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClassError {
    #[error("there is no base class\nhint: name at least one base class")]
    NoBase,
    #[error("class `{0}` is named twice\nhint: give every class its own name")]
    Twice(String),
    #[error("class number {row}: {source}")]
    Name { row: usize, source: NameError },
    #[error(
        "class `{0}` is out of order: expected the background first, then base, then novel classes\nhint: move it to its place"
    )]
    Order(String),
    #[error("a classifier has room for at most {MOST} classes, got `{0}`\nhint: use fewer classes")]
    TooMany(usize),
}

/// The largest number of rows that 16-bit labels leave room for.
const MOST: usize = 65_500;

/// If the first base class has this name, it is the background.
const BACKGROUND: &str = "background";

impl Classes {
    /// Makes rows from names. If the first base name is `background`, it gets the role [`ClassRole::Background`].
    pub fn new<S: AsRef<str>>(base: &[S], novel: &[S]) -> Result<Self, ClassError> {
        let base = base.iter().enumerate().map(|(row, name)| Class {
            name: name.as_ref().to_string(),
            role: if row == 0 && name.as_ref() == BACKGROUND {
                ClassRole::Background
            } else {
                ClassRole::Base
            },
        });
        let novel =
            novel.iter().map(|name| Class { name: name.as_ref().to_string(), role: ClassRole::Novel });
        base.chain(novel).collect::<Vec<_>>().try_into()
    }

    /// The same base classes, followed by other novel classes.
    pub fn with_novel<S: AsRef<str>>(&self, novel: &[S]) -> Result<Self, ClassError> {
        let novel =
            novel.iter().map(|name| Class { name: name.as_ref().to_string(), role: ClassRole::Novel });
        let base = self.0.iter().filter(|class| class.role != ClassRole::Novel).cloned();
        base.chain(novel).collect::<Vec<_>>().try_into()
    }

    pub fn rows(&self) -> &[Class] {
        &self.0
    }

    /// Number of base rows, including the background (the paper's N^b).
    pub fn n_base(&self) -> usize {
        self.0.iter().filter(|class| class.role != ClassRole::Novel).count()
    }

    pub fn n_novel(&self) -> usize {
        self.0.len() - self.n_base()
    }

    pub fn has_background(&self) -> bool {
        self.0[0].role == ClassRole::Background
    }

    /// Names of the rows with this role, in order.
    pub fn names(&self, role: ClassRole) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |class| class.role == role).map(|class| class.name.as_str())
    }
}

impl TryFrom<Vec<Class>> for Classes {
    type Error = ClassError;

    fn try_from(classes: Vec<Class>) -> Result<Self, ClassError> {
        // The values above have a special meaning as labels.
        if classes.len() > MOST {
            return Err(ClassError::TooMany(classes.len()));
        }
        let mut seen = std::collections::HashSet::new();
        let mut highest = ClassRole::Background;
        for (row, class) in classes.iter().enumerate() {
            check_name(&class.name).map_err(|source| ClassError::Name { row, source })?;
            if !seen.insert(class.name.as_str()) {
                return Err(ClassError::Twice(class.name.clone()));
            }
            let in_order = match class.role {
                ClassRole::Background => row == 0,
                ClassRole::Base => highest != ClassRole::Novel,
                ClassRole::Novel => true,
            };
            if !in_order {
                return Err(ClassError::Order(class.name.clone()));
            }
            highest = class.role;
        }
        if classes.first().is_none_or(|first| first.role == ClassRole::Novel) {
            return Err(ClassError::NoBase);
        }
        Ok(Self(classes))
    }
}

impl From<Classes> for Vec<Class> {
    fn from(classes: Classes) -> Self {
        classes.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_class_named_background_is_the_background() {
        let classes = Classes::new(&["background", "cow"], &["duck"]).unwrap();
        assert!(classes.has_background());
        assert_eq!((classes.n_base(), classes.n_novel()), (2, 1));
        let without = Classes::new(&["grass", "cow"], &["duck"]).unwrap();
        assert!(!without.has_background());
        assert_eq!(without.names(ClassRole::Base).collect::<Vec<_>>(), ["grass", "cow"]);
    }

    #[test]
    fn lists_that_cannot_be_a_classifier_are_refused() {
        assert_eq!(Classes::new(&[], &["duck"]), Err(ClassError::NoBase));
        assert_eq!(Classes::new(&["cow"], &["cow"]), Err(ClassError::Twice("cow".into())));
        assert_eq!(
            Classes::new(&["cow", " "], &[]),
            Err(ClassError::Name { row: 1, source: NameError::Empty })
        );
        let novel_first = vec![
            Class { name: "cow".into(), role: ClassRole::Base },
            Class { name: "duck".into(), role: ClassRole::Novel },
            Class { name: "grass".into(), role: ClassRole::Base },
        ];
        assert_eq!(Classes::try_from(novel_first), Err(ClassError::Order("grass".into())));
    }
}
