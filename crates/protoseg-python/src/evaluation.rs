//! Evaluation on a data set.

use std::{sync::Arc, time::Instant};

use protoseg::{
    ClassPack, Model,
    core::Protocol,
    data::Benchmark,
    episodes::{EpisodePlan, EpisodeResults, EpisodeTest},
    evaluate::{self, LabelledResults, Results, SupportSource, evaluate, evaluate_labelled, evaluate_taught},
};
use pyo3::prelude::*;
use serde_json::Value;

use crate::{
    error::{Failure, input, internal},
    table, to_python,
    work::Steps,
};

/// What pickle makes an evaluation from again: a function, and its numbers as JSON, headline, titles, rows, notes and
/// Markdown.
type Reduced<'py> = (Bound<'py, PyAny>, (String, String, Vec<String>, Vec<Vec<String>>, Vec<String>, String));

/// What a model scored on a data set. Prints as a table; `results["rows"]` and the like are the numbers, as `--json` of
/// `protoseg eval` or `protoseg episodes` writes them.
#[pyclass(frozen, module = "protoseg")]
pub struct Evaluation {
    json: Value,
    headline: String,
    titles: Vec<String>,
    rows: Vec<Vec<String>>,
    /// What makes the numbers say less than they seem to.
    notes: Vec<String>,
    markdown: String,
}

/// What is to be evaluated.
pub struct Request<'a> {
    pub model: &'a Model,
    pub name: String,
    pub pack: Option<Arc<ClassPack>>,
    pub fold: Option<usize>,
    pub shots: Vec<usize>,
    pub seeds: Vec<u64>,
    pub protocol: String,
    pub limit: Option<usize>,
}

impl Request<'_> {
    pub fn run(self, benchmark: &Benchmark, steps: &Steps<'_>) -> Result<Evaluation, Failure> {
        let Self { model, name, pack, fold, shots, seeds, protocol, limit } = self;
        if shots.is_empty() || shots.contains(&0) {
            return Err(input("`shots` must be at least 1"));
        }
        if seeds.is_empty() {
            return Err(input("no seed is given"));
        }
        if limit == Some(0) {
            return Err(input("`limit` must be at least 1"));
        }
        if let Some(fold) = fold {
            benchmark.fold(fold)?;
        }
        let protocol: Protocol = protocol
            .parse()
            .map_err(|error: <Protocol as std::str::FromStr>::Err| input(error.to_string()))?;
        let fold = fold.or(model.manifest().training.fold).unwrap_or(0);
        let progress = |done: usize, total: usize| steps.done(done, total);
        let has_base = model.classes().n_base() > 1 || model.usage().is_err();
        let has_novel = benchmark.fold(fold).is_ok_and(|fold| !fold.novel().is_empty());
        if pack.is_some() || (has_base && !has_novel) {
            let usage = model.usage()?;
            let pack = pack.as_deref();
            let results =
                evaluate_labelled(&name, model, pack, (&usage, false), benchmark, limit, &progress, |_| ())?;
            let table = (titles(&LabelledResults::TITLES), results.table());
            return Evaluation::new(&results, results.headline(), table, Vec::new(), results.markdown());
        }
        let plan = evaluate::Evaluation {
            fold,
            protocol,
            shots,
            supports: SupportSource::Drawn { seeds, min_pixels: None },
            // A few-shot system has no parts that could act or not.
            usages: model.usage().into_iter().collect(),
            size: None,
            limit,
            part: None,
            second_look: false,
        };
        if !has_base {
            let results = evaluate_taught(&name, model, benchmark, &plan, &[], &progress)?;
            let table = (results.titles(), results.table());
            return Evaluation::new(&results, results.headline(), table, Vec::new(), results.markdown());
        }
        let start = Instant::now();
        let evaluated = evaluate(model, benchmark, &plan, &progress, |_| ())?;
        let results = Results::new(&name, model, benchmark, &plan, &evaluated, start.elapsed());
        let table = (titles(&Results::TITLES), results.table());
        Evaluation::new(&results, results.headline(), table, results.notes(), results.markdown())
    }
}

/// Asks a few-shot system the episodes of a plan.
pub fn ask_episodes(
    model: &Model,
    name: &str,
    plan: &EpisodePlan,
    benchmark: &Benchmark,
    steps: &Steps<'_>,
) -> Result<Evaluation, Failure> {
    let test = EpisodeTest::new(model, benchmark, plan)?;
    let results = test.run(name, &|done, total| steps.done(done, total))?;
    let table = (titles(&EpisodeResults::TITLES), results.table());
    Evaluation::new(&results, results.headline(), table, results.notes.clone(), results.markdown())
}

fn titles(titles: &[&str]) -> Vec<String> {
    titles.iter().map(|title| title.to_string()).collect()
}

impl Evaluation {
    fn new(
        results: &impl serde::Serialize,
        headline: String,
        (titles, rows): (Vec<String>, Vec<Vec<String>>),
        notes: Vec<String>,
        markdown: String,
    ) -> Result<Self, Failure> {
        let json = serde_json::to_value(results).map_err(internal)?;
        Ok(Self { json, headline, titles, rows, notes, markdown })
    }
}

#[pymethods]
impl Evaluation {
    /// All numbers, as `--json` of the command writes them.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.json)
    }

    /// The table as a pandas DataFrame of text, as it is printed; `to_dict` has the numbers in full.
    fn to_pandas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let frame = py.import("pandas")?.getattr("DataFrame")?;
        let keywords = pyo3::types::PyDict::new(py);
        keywords.set_item("columns", &self.titles)?;
        frame.call((&self.rows,), Some(&keywords))
    }

    /// Headline, tables and notes as Markdown.
    fn to_markdown(&self) -> &str {
        &self.markdown
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.get_item(key)
    }

    fn __str__(&self) -> String {
        let notes: String = self.notes.iter().map(|note| format!("\nnote: {note}")).collect();
        format!("{}\n{}{notes}", self.headline, table::text(&self.titles, &self.rows))
    }

    fn __repr__(&self) -> String {
        self.__str__()
    }

    fn _repr_html_(&self) -> String {
        let notes = self.notes.iter().map(|note| format!("<p>Note: {}</p>", table::escape(note)));
        let (headline, table) = (table::escape(&self.headline), table::html(&self.titles, &self.rows));
        format!("<p>{headline}</p>{table}{}", notes.collect::<String>())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let Self { json, headline, titles, rows, notes, markdown } = slf.get();
        let restore = slf.py().get_type::<Self>().getattr("_restore")?;
        let (headline, titles, rows) = (headline.clone(), titles.clone(), rows.clone());
        Ok((restore, (json.to_string(), headline, titles, rows, notes.clone(), markdown.clone())))
    }

    #[staticmethod]
    fn _restore(
        json: &str,
        headline: String,
        titles: Vec<String>,
        rows: Vec<Vec<String>>,
        notes: Vec<String>,
        markdown: String,
    ) -> Result<Self, Failure> {
        let json = serde_json::from_str(json).map_err(|error| input(error.to_string()))?;
        Ok(Self { json, headline, titles, rows, notes, markdown })
    }
}
