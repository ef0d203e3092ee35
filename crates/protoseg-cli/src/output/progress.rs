//! A bar with the time left, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows `done` of `total` for the library's [`protoseg_data::Progress`]. Drawn on stderr, and not at all where that
/// is no terminal; gone when dropped.
pub struct Bar(ProgressBar);

impl Bar {
    pub fn new(what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let style = "{msg} {bar:32} {pos}/{len} {per_sec}, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is well formed"));
        bar.set_message(what);
        Self(bar)
    }

    pub fn show(&self, done: usize, total: usize) {
        self.0.set_length(total as u64);
        self.0.set_position(done as u64);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
