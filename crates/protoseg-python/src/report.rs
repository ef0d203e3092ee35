//! What registration says of the supports.

use protoseg::{
    picture::support_sheet,
    register::{ClassReport, Near},
};
use pyo3::prelude::*;

use crate::{image::to_array, table, to_python, work};

/// A class of a report as pickle has it: its fields in order, without the pictures.
type Plain = (String, usize, u64, f64, Vec<(String, f32)>, Vec<f64>, usize, Vec<String>, Vec<String>);

/// How good the supports of the classes are that were just registered. Prints as a table.
#[pyclass(frozen, module = "protoseg")]
pub struct Report {
    pub classes: Vec<ClassReport>,
}

impl Report {
    fn rows(&self) -> Vec<Vec<String>> {
        let row = |report: &ClassReport| {
            let near = report.nearest.iter().map(|near| format!("{} {:.2}", near.class, near.cosine));
            let ious = report.leave_one_out_iou.iter().map(|iou| format!("{iou:.0}"));
            let ious = ious.collect::<Vec<_>>().join(" ");
            vec![
                report.class.clone(),
                report.shots.to_string(),
                report.pixels.to_string(),
                near.collect::<Vec<_>>().join(", "),
                if ious.is_empty() { "-".to_string() } else { ious },
            ]
        };
        self.classes.iter().map(row).collect()
    }
}

fn to_plain(report: &ClassReport) -> Plain {
    let report = report.clone();
    (
        report.class,
        report.shots,
        report.pixels,
        report.positions,
        report.nearest.into_iter().map(|near| (near.class, near.cosine)).collect(),
        report.leave_one_out_iou,
        report.weak,
        report.notes,
        report.warnings,
    )
}

fn from_plain(plain: Plain) -> ClassReport {
    let (class, shots, pixels, positions, nearest, leave_one_out_iou, weak, notes, warnings) = plain;
    let nearest = nearest.into_iter().map(|(class, cosine)| Near { class, cosine }).collect();
    ClassReport {
        class,
        shots,
        pixels,
        positions,
        nearest,
        leave_one_out_iou,
        weak,
        notes,
        warnings,
        pictures: Vec::new(),
    }
}

fn titles() -> Vec<String> {
    ["class", "supports", "pixels", "nearest classes (cosine)", "IoU of each support from the others, %"]
        .map(str::to_string)
        .to_vec()
}

#[pymethods]
impl Report {
    /// What is likely to go wrong.
    #[getter]
    fn warnings(&self) -> Vec<&str> {
        self.classes.iter().flat_map(|report| &report.warnings).map(String::as_str).collect()
    }

    /// How files were understood, where that could surprise.
    #[getter]
    fn notes(&self) -> Vec<&str> {
        self.classes.iter().flat_map(|report| &report.notes).map(String::as_str).collect()
    }

    /// The numbers of each class, as `protoseg register --json` writes them.
    fn to_dicts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.classes)
    }

    /// One row per class, as a pandas DataFrame.
    fn to_pandas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("pandas")?.call_method1("DataFrame", (self.to_dicts(py)?,))
    }

    /// A picture of the supports, their masks, and what the other supports find in them: a (height, width, 3) array, or
    /// None if there is none to show.
    fn sheet<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let sheet = work::run(py, None, |_| support_sheet(&self.classes))?;
        sheet.map(|sheet| to_array(py, sheet)).transpose()
    }

    fn __len__(&self) -> usize {
        self.classes.len()
    }

    fn __str__(&self) -> String {
        let mut text = table::text(&titles(), &self.rows());
        self.notes().iter().for_each(|note| text += &format!("\nnote: {note}"));
        self.warnings().iter().for_each(|warning| text += &format!("\nwarning: {warning}"));
        text
    }

    fn __repr__(&self) -> String {
        self.__str__()
    }

    fn _repr_html_(&self) -> String {
        let mut html = table::html(&titles(), &self.rows());
        for (kind, text) in
            self.notes().iter().map(|it| ("note", it)).chain(self.warnings().iter().map(|it| ("warning", it)))
        {
            html += &format!("<p><b>{kind}:</b> {}</p>", table::escape(text));
        }
        html
    }

    /// Without the pictures of the supports.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Vec<Plain>,))> {
        let restore = slf.py().get_type::<Self>().getattr("_restore")?;
        Ok((restore, (slf.get().classes.iter().map(to_plain).collect(),)))
    }

    #[staticmethod]
    fn _restore(classes: Vec<Plain>) -> Self {
        Self { classes: classes.into_iter().map(from_plain).collect() }
    }
}
