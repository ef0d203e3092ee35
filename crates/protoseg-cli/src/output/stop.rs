//! Ctrl-C: once to save and stop, twice to quit at once.

use std::{
    process::exit,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, Result};

/// The exit code of an interrupted run, saved or not.
pub const INTERRUPTED: u8 = 130;

/// Whether the user asked to stop.
#[derive(Clone, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    /// What to say when nobody looks any more whether it was asked; the program then quits at once.
    last_words: Arc<Mutex<Option<String>>>,
}

impl Stop {
    /// Listens for Ctrl-C, and for the signals by which a system or a closing terminal ends a program. `note` shows
    /// the user a line; it is called from another thread. A process can listen once only.
    pub fn on_ctrl_c(note: impl Fn(&str) + Send + 'static) -> Result<Self> {
        let stop = Self::default();
        let asked = stop.clone();
        ctrlc::set_handler(move || {
            if let Some(words) = asked.last_words.lock().ok().and_then(|words| words.clone()) {
                note(&words);
                quit();
            } else if asked.ask() {
                note("stopping after this step; press Ctrl-C again to quit at once");
            } else {
                quit();
            }
        })
        .context("cannot listen for Ctrl-C")?;
        Ok(stop)
    }

    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// From now on Ctrl-C quits at once with these words: what follows saves nothing that could be lost.
    pub fn quit_with(&self, words: &str) {
        if let Ok(mut last_words) = self.last_words.lock() {
            *last_words = Some(words.to_string());
        }
    }

    /// Asks; false if that was done before.
    fn ask(&self) -> bool {
        !self.asked.swap(true, Ordering::Relaxed)
    }
}

/// There is no way to return from here: the main thread is amid a step.
#[expect(clippy::exit)]
fn quit() {
    exit(i32::from(INTERRUPTED));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_ask_is_the_first() {
        let stop = Stop::default();
        assert!(!stop.asked());
        assert!(stop.ask());
        assert!(stop.asked() && !stop.ask());
        stop.clone().quit_with("stopped");
        assert_eq!(stop.last_words.lock().unwrap().as_deref(), Some("stopped"));
    }
}
