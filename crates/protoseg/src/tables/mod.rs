//! Tables as text: Markdown for people, LaTeX for papers, CSV for programs.

pub(crate) mod csv;
pub(crate) mod latex;
pub(crate) mod markdown;
