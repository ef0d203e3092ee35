//! From ids in files to rows of a classifier: one table, built once, applied without changing the source.

use serde::{Deserialize, Serialize};

use crate::{ClassId, ClassTable, Classes, Fold, FoldError, IGNORE, IdMap, RowMap, SUPPORT_ROW};

/// What happens to pixels of novel classes while the base classes are trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NovelPixels {
    /// Images with such pixels are left out (the reference's protocol).
    #[default]
    Drop,
    /// They become [`IGNORE`].
    Ignore,
    /// They become background; only possible if the data set has one.
    Background,
}

/// Maps every id to its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remap {
    /// Indexed by the value in the file; [`UNKNOWN`] and [`NOVEL`] are refused.
    rows: Vec<u16>,
}

/// Why a label map does not fit the table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemapError {
    #[error(
        "pixel ({x}, {y}) has id `{id}`, which no class has\nhint: add the class to the data set, or correct the labels"
    )]
    Unknown { id: ClassId, x: usize, y: usize },
    #[error(
        "pixel ({x}, {y}) has id `{id}`, which is a novel class\nhint: leave the image out of base training, or choose the rule `ignore`"
    )]
    Novel { id: ClassId, x: usize, y: usize },
}

// Neither a classifier row nor [`SUPPORT_ROW`] nor [`IGNORE`] has these values.
const UNKNOWN: u16 = SUPPORT_ROW - 1;
const NOVEL: u16 = SUPPORT_ROW - 2;

impl Remap {
    /// For base training: base ids become rows, and `novel` says what novel ids become. Under [`NovelPixels::Drop`] a
    /// novel pixel is an error, because its image should have been left out.
    pub fn for_base_training(table: &ClassTable, fold: &Fold, novel: NovelPixels) -> Result<Self, FoldError> {
        let novel_row = match (novel, table.background()) {
            (NovelPixels::Drop, _) => NOVEL,
            (NovelPixels::Ignore, _) => IGNORE,
            (NovelPixels::Background, Some(_)) => 0,
            (NovelPixels::Background, None) => return Err(FoldError::NoBackground),
        };
        Ok(Self::build(table, |id| match fold.is_novel(id) {
            true => Some(novel_row),
            false => fold.row(id).map(|row| row as u16),
        }))
    }

    /// For supports and evaluation: base ids become rows, and novel ids become N^b plus their rank.
    pub fn for_all_classes(table: &ClassTable, fold: &Fold) -> Self {
        Self::build(table, |id| fold.row(id).map(|row| row as u16))
    }

    /// For a support of the class `own`: that class becomes [`SUPPORT_ROW`], classes that the model has under the
    /// same name become its base rows, and all others become the row `rest`, or [`IGNORE`] without it.
    pub fn for_support(table: &ClassTable, model: &Classes, own: ClassId, rest: Option<u16>) -> Self {
        let base = &model.rows()[..model.n_base()];
        let row_of = |id: ClassId| {
            let name = table.name(id)?;
            base.iter().position(|class| class.name == name).map(|row| row as u16)
        };
        Self::build(table, |id| match id == own {
            true => Some(SUPPORT_ROW),
            false => Some(row_of(id).or(rest).unwrap_or(IGNORE)),
        })
    }

    /// For labels of another data set: classes that the model has under the same name become its rows, and all others the
    /// row `rest`, or [`IGNORE`] without it.
    pub fn by_name(table: &ClassTable, model: &Classes, rest: Option<u16>) -> Self {
        let row_of = |id: ClassId| {
            let name = table.name(id)?;
            model.rows().iter().position(|class| class.name == name).map(|row| row as u16)
        };
        Self::build(table, |id| Some(row_of(id).or(rest).unwrap_or(IGNORE)))
    }

    /// For a mask in which `own` is the class of a support. With `base_rows`, ids below the first number are base
    /// rows of the model, ids up to the second are ignored, and others are unknown. Without it, all others are
    /// [`IGNORE`].
    pub fn for_mask(own: u16, base_rows: Option<(u16, u16)>, no_label: u16) -> Self {
        let row = |id: u16| match (id, base_rows) {
            (id, _) if id == own => SUPPORT_ROW,
            (id, Some((n_base, _))) if id < n_base => id,
            (id, Some((n_base, known))) if id != no_label && id >= known.max(n_base) => UNKNOWN,
            _ => IGNORE,
        };
        Self { rows: (0..IGNORE).map(row).collect() }
    }

    fn build(table: &ClassTable, row: impl Fn(ClassId) -> Option<u16>) -> Self {
        let highest = table.classes().last().map_or(0, |class| class.id.0);
        let highest = table.ignore().last().map_or(highest, |&ignored| ignored.max(highest));
        let mut rows = vec![UNKNOWN; usize::from(highest) + 1];
        for class in table.classes() {
            rows[usize::from(class.id.0)] = row(class.id).unwrap_or(UNKNOWN);
        }
        for &ignored in table.ignore() {
            rows[usize::from(ignored)] = IGNORE;
        }
        Self { rows }
    }

    /// The row for a value in the file; `None` if no class has this id, or if the rule `drop` refuses it.
    pub fn row(&self, id: ClassId) -> Option<u16> {
        Some(self.look_up(id.0)).filter(|&row| row != NOVEL && row != UNKNOWN)
    }

    /// The label map as rows.
    pub fn apply(&self, labels: &IdMap) -> Result<RowMap, RemapError> {
        let rows: Vec<u16> = labels.data.iter().map(|&label| self.look_up(label)).collect();
        if let Some(at) = rows.iter().position(|&row| row == UNKNOWN || row == NOVEL) {
            let (id, x, y) = (ClassId(labels.data[at]), at % labels.width, at / labels.width);
            return Err(match rows[at] {
                NOVEL => RemapError::Novel { id, x, y },
                _ => RemapError::Unknown { id, x, y },
            });
        }
        Ok(RowMap::new(labels.width, labels.height, rows))
    }

    fn look_up(&self, label: u16) -> u16 {
        let outside = if label == IGNORE { IGNORE } else { UNKNOWN };
        self.rows.get(usize::from(label)).copied().unwrap_or(outside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_support_keeps_the_classes_that_the_model_has() {
        let model = Classes::new(&["background", "boat"], &["duck"]).unwrap();
        let remap = Remap::for_support(&table(), &model, ClassId(2), None);
        assert_eq!(remap.apply(&file()).unwrap().data, [0, IGNORE, SUPPORT_ROW, 1, IGNORE, IGNORE]);
    }

    #[test]
    fn a_mask_of_one_class_says_nothing_of_the_rest() {
        let mask = IdMap::new(5, 1, vec![0, 7, 2, 255, 20]);
        let rows = |remap: Remap| remap.apply(&mask).map(|rows| rows.data);
        assert_eq!(
            rows(Remap::for_mask(7, None, 255)).unwrap(),
            [IGNORE, SUPPORT_ROW, IGNORE, IGNORE, IGNORE]
        );
        assert_eq!(
            rows(Remap::for_mask(7, Some((3, 21)), 255)).unwrap(),
            [0, SUPPORT_ROW, 2, IGNORE, IGNORE]
        );
        assert!(rows(Remap::for_mask(7, Some((3, 9)), 255)).is_err());
    }

    fn table() -> ClassTable {
        ClassTable::from_names(&["background", "cow", "duck", "boat"], &[255]).unwrap()
    }

    fn fold(table: &ClassTable) -> Fold {
        Fold::new(table, 0, &[ClassId(2)]).unwrap()
    }

    fn file() -> IdMap {
        IdMap::new(3, 2, vec![0, 1, 2, 3, 255, IGNORE])
    }

    #[test]
    fn evaluation_sees_every_class_by_row() {
        let table = table();
        let rows = Remap::for_all_classes(&table, &fold(&table)).apply(&file()).unwrap();
        assert_eq!(rows.data, [0, 1, 3, 2, IGNORE, IGNORE]);
    }

    #[test]
    fn base_training_treats_novel_pixels_as_told() {
        let table = table();
        let fold = fold(&table);
        let apply = |novel| Remap::for_base_training(&table, &fold, novel).unwrap().apply(&file());
        assert_eq!(apply(NovelPixels::Ignore).unwrap().data, [0, 1, IGNORE, 2, IGNORE, IGNORE]);
        assert_eq!(apply(NovelPixels::Background).unwrap().data, [0, 1, 0, 2, IGNORE, IGNORE]);
        assert_eq!(apply(NovelPixels::Drop), Err(RemapError::Novel { id: ClassId(2), x: 2, y: 0 }));
    }

    #[test]
    fn an_unknown_id_is_an_error_with_its_place() {
        let table = table();
        let remap = Remap::for_all_classes(&table, &fold(&table));
        let strange = IdMap::new(2, 2, vec![0, 1, 3, 77]);
        assert_eq!(remap.apply(&strange), Err(RemapError::Unknown { id: ClassId(77), x: 1, y: 1 }));
        assert_eq!(remap.row(ClassId(300)), None);
    }

    #[test]
    fn background_needs_a_background() {
        let table = ClassTable::from_names(&["grass", "cow", "duck"], &[255]).unwrap();
        let fold = fold(&table);
        let error = Remap::for_base_training(&table, &fold, NovelPixels::Background).unwrap_err();
        assert_eq!(error, FoldError::NoBackground);
    }
}
