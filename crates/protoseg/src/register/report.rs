//! The report on a class that was just registered.

use std::fmt;

use protoseg_core::count;
use serde::Serialize;

use super::{
    check::{SupportCheck, SupportPicture},
    remarks::Remarks,
};
use crate::class_pack::PackClass;

/// A registered class and how good its supports are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassReport {
    /// Its name.
    pub class: String,
    /// Supports.
    pub shots: usize,
    /// Pixels of the class in all supports.
    pub pixels: u64,
    /// Positions of the network's grid that the prototype is the mean of.
    pub positions: f64,
    /// The classes whose prototypes are nearest, nearest first.
    pub nearest: Vec<Near>,
    /// IoU of the class in each support, in percent, when predicted from the others; empty for a single support.
    pub leave_one_out_iou: Vec<f64>,
    /// How many of the supports just given have a weak mask: a box or a scribble.
    pub weak: usize,
    /// How files were understood, where that could surprise.
    pub notes: Vec<String>,
    /// What is likely to go wrong.
    pub warnings: Vec<String>,
    /// Some of its supports, to look at ([`support_sheet`](crate::picture::support_sheet)).
    #[serde(skip)]
    pub pictures: Vec<SupportPicture>,
}

/// A class whose prototype lies near.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Near {
    /// Its name.
    pub class: String,
    /// Cosine of the two prototypes.
    pub cosine: f32,
}

impl ClassReport {
    pub(super) fn new(class: &PackClass, check: SupportCheck, remarks: Remarks) -> Self {
        let name = &class.name;
        let Remarks { weak, notes, mut warnings, .. } = remarks;
        if let Some((other, share)) = check.taken.filter(|(_, share)| *share >= SupportCheck::CONFUSED) {
            warnings.push(format!(
                "`{name}` is likely to be taken for `{other}`: {share:.0} % of its pixels in its own supports are"
            ));
        }
        let ious = &check.leave_one_out;
        let mean = ious.iter().sum::<f64>() / ious.len().max(1) as f64;
        if !ious.is_empty() && mean < SupportCheck::UNSURE {
            warnings.push(format!(
                "the supports of `{name}` say little about each other: predicted from the others, \
                 their mean IoU is {mean:.0} %"
            ));
        }
        Self {
            class: name.clone(),
            shots: class.shots.len(),
            pixels: class.shots.iter().map(|shot| shot.pixels).sum(),
            positions: class.shots.iter().map(|shot| f64::from(shot.own.count)).sum(),
            nearest: check.nearest.into_iter().map(|(class, cosine)| Near { class, cosine }).collect(),
            leave_one_out_iou: check.leave_one_out,
            weak,
            notes,
            warnings,
            pictures: check.pictures,
        }
    }
}

impl fmt::Display for ClassReport {
    /// A few lines for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (supports, pixels) = (count(self.shots, "support"), count(self.pixels, "pixel"));
        write!(f, "{}: {supports}, {pixels}", self.class)?;
        let near: Vec<String> =
            self.nearest.iter().map(|near| format!("{} {:.2}", near.class, near.cosine)).collect();
        if !near.is_empty() {
            write!(f, "; nearest classes (cosine): {}", near.join(", "))?;
        }
        if !self.leave_one_out_iou.is_empty() {
            let ious: Vec<String> = self.leave_one_out_iou.iter().map(|iou| format!("{iou:.0}")).collect();
            write!(f, "; IoU of each support from the others, in percent: {}", ious.join(" "))?;
        }
        self.notes.iter().try_for_each(|note| write!(f, "\nnote: {note}"))?;
        self.warnings.iter().try_for_each(|warning| write!(f, "\nwarning: {warning}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_as_a_sentence() {
        let report = ClassReport {
            class: "duck".into(),
            shots: 2,
            pixels: 90,
            positions: 4.0,
            nearest: vec![Near { class: "swan".into(), cosine: 0.512 }],
            leave_one_out_iou: vec![61.2, 48.9],
            weak: 0,
            notes: vec!["cut at half".into()],
            warnings: vec!["beware".into()],
            pictures: Vec::new(),
        };
        assert_eq!(
            report.to_string(),
            "duck: 2 supports, 90 pixels; nearest classes (cosine): swan 0.51; \
             IoU of each support from the others, in percent: 61 49\nnote: cut at half\nwarning: beware"
        );
    }
}
