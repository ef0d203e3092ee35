//! Folds: which classes of a data set are base classes and which are novel.

use serde::{Deserialize, Serialize};

use crate::{Class, ClassError, ClassId, ClassRole, ClassTable, Classes};

/// One partition of a data set's classes. The background, if there is one, is always base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// Number of the fold, starting at 0.
    pub index: usize,
    /// Base ids in ascending order, but the background first. A base class's row is its position in this list.
    base: Vec<ClassId>,
    /// Novel ids in ascending order. A novel class's row is N^b plus its position in this list.
    novel: Vec<ClassId>,
}

/// How a benchmark divides its classes into folds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoldScheme {
    /// 4 folds of 20 classes with ids 1 to 20. The novel classes of fold s are 5s+1 to 5s+5.
    #[serde(rename = "pascal-5i")]
    Pascal5i,
    /// 4 folds of 80 classes with ids 1 to 80. The novel classes of fold s are s+1, s+5, ..., s+77.
    #[serde(rename = "coco-20i")]
    Coco20i,
    /// 4 folds of 80 classes with ids 1 to 80. The novel classes of fold s are 20s+1 to 20s+20.
    #[serde(rename = "coco-20i-contiguous")]
    Coco20iContiguous,
    /// The novel ids of each fold.
    Explicit(Vec<Vec<ClassId>>),
}

/// Why a fold does not fit its data set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FoldError {
    #[error(
        "fold `{fold}` names class `{class}`, which the data set does not have\nhint: choose among its classes: {known}"
    )]
    UnknownClass { fold: usize, class: String, known: String },
    #[error("fold `{fold}` makes the background `{class}` novel\nhint: remove `{class}` from the fold")]
    NovelBackground { fold: usize, class: String },
    #[error("fold `{fold}` names class `{class}` twice\nhint: name it once")]
    Twice { fold: usize, class: String },
    #[error("fold `{fold}` leaves no base class besides the background\nhint: name fewer novel classes")]
    NoBase { fold: usize },
    #[error("fold `{got}` does not exist\nhint: choose a fold from 0 to {last}", last = n_folds.saturating_sub(1))]
    NoSuchFold { got: usize, n_folds: usize },
    #[error(
        "novel pixels cannot become background: the data set has no background class\nhint: choose `drop` or `ignore`"
    )]
    NoBackground,
    #[error(transparent)]
    Classes(#[from] ClassError),
}

impl Fold {
    /// Fold number `index` with the novel classes `novel`, in any order. `novel` may be empty: then every class is
    /// base, and novel classes come from elsewhere later.
    pub fn new(table: &ClassTable, index: usize, novel: &[ClassId]) -> Result<Self, FoldError> {
        let mut sorted = novel.to_vec();
        sorted.sort_unstable();
        let name = |id: ClassId| table.name(id).map_or_else(|| id.to_string(), str::to_string);
        if let Some(&id) = sorted.iter().find(|&&id| !table.contains(id)) {
            return Err(FoldError::UnknownClass { fold: index, class: id.to_string(), known: known(table) });
        }
        if let Some(background) = table.background().filter(|id| sorted.contains(id)) {
            return Err(FoldError::NovelBackground { fold: index, class: name(background) });
        }
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(FoldError::Twice { fold: index, class: name(pair[0]) });
        }
        let foreground = table.foreground().map(|class| class.id).filter(|id| !sorted.contains(id));
        let base: Vec<ClassId> = table.background().into_iter().chain(foreground).collect();
        if base.len() == usize::from(table.background().is_some()) {
            return Err(FoldError::NoBase { fold: index });
        }
        Ok(Self { index, base, novel: sorted })
    }

    /// Base ids by row: the background (if any), then the others in ascending order.
    pub fn base(&self) -> &[ClassId] {
        &self.base
    }

    /// Novel ids in ascending order.
    pub fn novel(&self) -> &[ClassId] {
        &self.novel
    }

    pub fn is_novel(&self, id: ClassId) -> bool {
        self.novel.binary_search(&id).is_ok()
    }

    /// The classifier row of a class: background 0, then the base classes, then the novel classes after the N^b base
    /// rows.
    pub fn row(&self, id: ClassId) -> Option<usize> {
        let base = self.base.iter().position(|&base| base == id);
        base.or_else(|| self.novel.binary_search(&id).ok().map(|rank| self.base.len() + rank))
    }

    /// The classifier's rows with their names.
    pub fn classes(&self, table: &ClassTable) -> Result<Classes, FoldError> {
        let role_of = |id: ClassId| match table.background() == Some(id) {
            true => ClassRole::Background,
            false => ClassRole::Base,
        };
        let base = self.base.iter().map(|&id| (id, role_of(id)));
        let novel = self.novel.iter().map(|&id| (id, ClassRole::Novel));
        let named = |(id, role)| table.name(id).map(|name| Class { name: name.to_string(), role });
        Ok(base.chain(novel).filter_map(named).collect::<Vec<Class>>().try_into()?)
    }
}

impl FoldScheme {
    /// The scheme's folds for a data set.
    pub fn folds(&self, table: &ClassTable) -> Result<Vec<Fold>, FoldError> {
        let novel = self.novel();
        novel.iter().enumerate().map(|(index, novel)| Fold::new(table, index, novel)).collect()
    }

    /// The novel ids of each fold.
    pub fn novel(&self) -> Vec<Vec<ClassId>> {
        let four = |novel: fn(u16) -> Vec<u16>| -> Vec<Vec<ClassId>> {
            (0..4).map(|fold| novel(fold).into_iter().map(ClassId).collect()).collect()
        };
        match self {
            Self::Pascal5i => four(|fold| (5 * fold + 1..=5 * fold + 5).collect()),
            Self::Coco20i => four(|fold| (fold + 1..=80).step_by(4).collect()),
            Self::Coco20iContiguous => four(|fold| (20 * fold + 1..=20 * fold + 20).collect()),
            Self::Explicit(folds) => folds.clone(),
        }
    }

    /// Reads folds from text: one fold per line, given as the names of its novel classes. Names are separated by
    /// commas, or by spaces if the line has no comma. Empty lines and lines that start with `#` are skipped.
    pub fn parse(text: &str, table: &ClassTable) -> Result<Self, FoldError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let folds = lines.enumerate().map(|(fold, line)| {
            let names: Vec<&str> = match line.contains(',') {
                true => line.split(',').map(str::trim).filter(|name| !name.is_empty()).collect(),
                false => line.split_whitespace().collect(),
            };
            find_ids(table, fold, &names)
        });
        folds.collect::<Result<_, _>>().map(Self::Explicit)
    }
}

/// The ids of the named classes.
pub fn find_ids<S: AsRef<str>>(
    table: &ClassTable,
    fold: usize,
    names: &[S],
) -> Result<Vec<ClassId>, FoldError> {
    let find = |name: &S| {
        let name = name.as_ref();
        table.id(name).ok_or_else(|| FoldError::UnknownClass {
            fold,
            class: name.to_string(),
            known: known(table),
        })
    };
    names.iter().map(find).collect()
}

fn known(table: &ClassTable) -> String {
    table.foreground().map(|class| format!("`{}`", class.name)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(n: usize) -> ClassTable {
        let mut names = vec!["background".to_string()];
        names.extend((1..=n).map(|id| format!("c{id}")));
        ClassTable::from_names(&names, &[255]).unwrap()
    }

    fn raw(ids: &[ClassId]) -> Vec<u16> {
        ids.iter().map(|id| id.0).collect()
    }

    #[test]
    fn pascal_folds_are_fives_in_a_row() {
        let folds = FoldScheme::Pascal5i.folds(&numbered(20)).unwrap();
        assert_eq!(folds.len(), 4);
        assert_eq!(raw(folds[0].novel()), [1, 2, 3, 4, 5]);
        assert_eq!(raw(folds[3].novel()), [16, 17, 18, 19, 20]);
        assert_eq!(raw(folds[1].base()), [0, 1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
    }

    #[test]
    fn coco_folds_interleave_or_run_on() {
        let table = numbered(80);
        let interleaved = FoldScheme::Coco20i.folds(&table).unwrap();
        assert_eq!(raw(&interleaved[0].novel()[..3]), [1, 5, 9]);
        assert_eq!(raw(&interleaved[3].novel()[17..]), [72, 76, 80]);
        let contiguous = FoldScheme::Coco20iContiguous.folds(&table).unwrap();
        assert_eq!(raw(&contiguous[2].novel()[..2]), [41, 42]);
        for folds in [interleaved, contiguous] {
            let mut all: Vec<u16> = folds.iter().flat_map(|fold| raw(fold.novel())).collect();
            all.sort_unstable();
            assert_eq!(all, (1..=80).collect::<Vec<u16>>());
        }
    }

    #[test]
    fn rows_are_background_then_base_then_novel() {
        let fold = &FoldScheme::Pascal5i.folds(&numbered(20)).unwrap()[1];
        let row = |id| fold.row(ClassId(id));
        assert_eq!((row(0), row(1), row(5), row(11)), (Some(0), Some(1), Some(5), Some(6)));
        assert_eq!((row(20), row(6), row(10), row(21)), (Some(15), Some(16), Some(20), None));
    }

    #[test]
    fn the_background_takes_row_0_whatever_its_id() {
        let classes =
            [(1, "cow"), (2, "duck"), (9, "rest")].map(|(id, name)| (ClassId(id), name.to_string()));
        let table = ClassTable::new(classes, Some("rest"), &[]).unwrap();
        let fold = Fold::new(&table, 0, &[ClassId(2)]).unwrap();
        assert_eq!([9, 1, 2].map(|id| fold.row(ClassId(id))), [Some(0), Some(1), Some(2)]);
        let classes = fold.classes(&table).unwrap();
        assert!(classes.has_background());
        assert_eq!(classes.rows()[0].name, "rest");
    }

    #[test]
    fn without_background_rows_start_with_a_base_class() {
        let table = ClassTable::from_names(&["grass", "cow", "sky"], &[255]).unwrap();
        let fold = Fold::new(&table, 0, &[ClassId(0)]).unwrap();
        assert_eq!([1, 2, 0].map(|id| fold.row(ClassId(id))), [Some(0), Some(1), Some(2)]);
        assert!(!fold.classes(&table).unwrap().has_background());
    }

    #[test]
    fn a_folds_file_names_classes_in_any_order() {
        let table = ClassTable::from_names(&["grass", "cow", "dining table", "sky"], &[255]).unwrap();
        let scheme = FoldScheme::parse("# two folds\nsky cow\n\ndining table, grass\n", &table).unwrap();
        let folds = scheme.folds(&table).unwrap();
        assert_eq!(raw(folds[0].novel()), [1, 3]);
        assert_eq!(raw(folds[1].novel()), [0, 2]);
        let error = FoldScheme::parse("cow cwo", &table).unwrap_err();
        assert!(error.to_string().starts_with("fold `0` names class `cwo`"), "{error}");
    }

    #[test]
    fn impossible_folds_are_refused() {
        let table = numbered(3);
        let refuse = |novel: &[u16]| {
            let novel: Vec<ClassId> = novel.iter().copied().map(ClassId).collect();
            Fold::new(&table, 1, &novel).unwrap_err()
        };
        assert_eq!(refuse(&[0]), FoldError::NovelBackground { fold: 1, class: "background".into() });
        assert_eq!(refuse(&[2, 2]), FoldError::Twice { fold: 1, class: "c2".into() });
        assert_eq!(refuse(&[1, 2, 3]), FoldError::NoBase { fold: 1 });
        assert!(matches!(refuse(&[9]), FoldError::UnknownClass { fold: 1, .. }));
    }
}
