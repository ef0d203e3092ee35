//! A bar with the time left, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::visible;

/// Shows `done` of `total` for the library's [`protoseg_data::Progress`]. Drawn on stderr, and not at all where that
/// is no terminal; gone when dropped.
pub struct Bar(ProgressBar);

impl Bar {
    pub fn new(what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let style = "{msg} {bar:32} {pos}/{len} {per_sec}, {eta} left{prefix}";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is well formed"));
        bar.set_message(what);
        Self(bar)
    }

    pub fn show(&self, done: usize, total: usize) {
        self.0.set_length(total as u64);
        self.0.set_position(done as u64);
    }

    /// Shows `done` of as many as before.
    pub fn advance(&self, done: usize) {
        self.0.set_position(done as u64);
    }

    /// Shows how far the item in work is, if it has several parts.
    pub fn show_part(&self, name: &str, what: &str, done: usize, total: usize) {
        let is_between = total > 1 && done < total;
        self.0.set_prefix(if is_between { part_text(name, what, done, total) } else { String::new() });
        self.0.tick();
    }

    /// A way to show the user a line without disturbing the bar, from any thread.
    pub fn note(&self) -> impl Fn(&str) + Send + 'static + use<> {
        let bar = self.0.clone();
        move |text| bar.suspend(|| super::note(text))
    }
}

fn part_text(name: &str, what: &str, done: usize, total: usize) -> String {
    format!("  {}: {what} {done}/{total}", visible(name))
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_with_many_parts_says_how_far_it_is() {
        let bar = Bar::new("images");
        bar.show_part("aerial", "tile", 3, 48);
        assert_eq!(bar.0.prefix(), "  aerial: tile 3/48");
        bar.show_part("aerial", "tile", 48, 48);
        assert_eq!(bar.0.prefix(), "");
        bar.show_part("photo", "tile", 1, 1);
        assert_eq!(bar.0.prefix(), "");
    }
}
