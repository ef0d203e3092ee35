//! Weights by name: a table of published files, where they are on this machine, and how they come here.

mod download;
mod find;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use protoseg_data::{Lock, create_dir};

use download::{Failure, Record, Source};
pub use find::{address, cache, find, place, publisher};
pub use table::{IN_BOX, TABLE, Weights, by_name};

use crate::output;

/// Whether weights that are not here may be downloaded.
#[derive(Clone, Copy)]
pub enum Downloads {
    Allowed,
    /// By what.
    Forbidden(&'static str),
}

impl Downloads {
    /// As a flag or the environment says.
    pub fn new(offline: bool) -> Self {
        match offline {
            true => Self::Forbidden("`--offline` forbids downloads"),
            false if find::is_offline() => Self::Forbidden("HF_HUB_OFFLINE forbids downloads"),
            false => Self::Allowed,
        }
    }

    /// The same for a command that may be asked to change nothing.
    pub fn unless_dry(offline: bool, is_dry: bool) -> Self {
        if is_dry { Self::Forbidden("a dry run downloads nothing") } else { Self::new(offline) }
    }
}

/// The weights whose name stands in the place of a file. A file of this name wins, a folder does not.
pub fn named(given: &Path) -> Option<&'static Weights> {
    if given.is_file() { None } else { by_name(given.to_str()?).ok()? }
}

/// The file that a flag means: one that is there, or weights by their name.
pub fn file(flag: &str, given: &Path, downloads: Downloads) -> Result<PathBuf> {
    if given.is_file() {
        return Ok(given.to_path_buf());
    }
    match given.to_str().map(by_name) {
        Some(Ok(Some(weights))) => get(weights, downloads),
        Some(Ok(None)) => bail!(
            "`{flag} {IN_BOX}` has no file: this encoder is part of the program\n\
             hint: leave {flag} out; what works with the encoder in the box takes it by itself"
        ),
        _ => {
            let given = given.display();
            bail!(
                "`{flag} {given}` is neither a file that is there nor the name of weights\nhint: give the path of a file, or a name; {}",
                table::known_names(&given.to_string())
            )
        }
    }
}

/// The file of weights, from the web if it has to be.
pub fn get(weights: &Weights, downloads: Downloads) -> Result<PathBuf> {
    match (find(weights)?, downloads) {
        (Some(path), _) => Ok(path),
        (None, Downloads::Allowed) => fetch(weights, false),
        (None, Downloads::Forbidden(why)) => {
            let by_hand = by_hand(weights, weights.sha256)?;
            bail!("`{}` is not here, and {why}\nhint: {by_hand}", weights.name)
        }
    }
}

/// Downloads weights into our cache. With `anew`, also those that are there.
pub fn fetch(weights: &Weights, anew: bool) -> Result<PathBuf> {
    let (name, place, url) = (weights.name, place(weights)?, address(weights)?);
    create_dir(place.parent().unwrap_or(&place))?;
    let waiting = |holder: &str| output::note(format_args!("waiting for {holder}, which downloads `{name}`"));
    let _lock = Lock::wait(&place, waiting).map_err(|error| {
        anyhow!("cannot lock `{}`: {error}\nhint: check the folder's permissions", place.display())
    })?;
    if place.is_file() && !anew {
        return Ok(place);
    }
    output::note(format_args!("{name}: about {} MB, {}, from {url}", weights.megabytes, weights.licence));
    let source = Source { url, token: find::token(weights), sha256: weights.sha256 };
    match download::download(&source, &place) {
        Ok(()) => Ok(place),
        Err(failure) => Err(failure_words(weights, &place, &source, &failure)?),
    }
}

fn failure_words(
    weights: &Weights,
    place: &Path,
    source: &Source,
    failure: &Failure,
) -> Result<anyhow::Error> {
    let part = Record::of_part(place);
    let (reason, first) = match (failure, weights.repository()) {
        (Failure::Refused(status), None) => (format!("the server answered {status}"), String::new()),
        (Failure::Refused(status), Some(repository)) => {
            let page = find::page(repository)?;
            let token = if source.token.is_some() { "with the token in HF_TOKEN" } else { "without a token" };
            let account =
                format!("accept the licence on {page} and set HF_TOKEN to a token of your account; or ");
            (format!("the server answered {status} {token}"), account)
        }
        (Failure::Failed(reason), _) => {
            let goes_on = "the part that came is kept, and the same command goes on from there; or ";
            (reason.clone(), if part.is_some() { goes_on.to_string() } else { String::new() })
        }
    };
    let announced = part.and_then(|part| part.sha256);
    let by_hand = by_hand(weights, weights.sha256.or(announced.as_deref()))?;
    Ok(anyhow!("cannot download `{}`: {reason}\nhint: {first}{by_hand}", weights.name))
}

/// What to do where nothing can be downloaded, and what is known of the file.
pub fn by_hand(weights: &Weights, sha256: Option<&str>) -> Result<String> {
    let sum = sha256.map_or_else(String::new, |sum| {
        let verb = if sum.len() < 64 { "begins with" } else { "is" };
        format!("; its sha256 {verb} {sum}")
    });
    let account = match weights.is_gated {
        true => "; the server asks for an account that has accepted the licence",
        false => "",
    };
    let (url, place, licence) = (address(weights)?, place(weights)?, weights.licence);
    let place = place.display();
    Ok(format!("download {url} yourself and save it as `{place}`{sum}; its licence is {licence}{account}"))
}

/// Whether a file of our cache is as it came.
pub enum State {
    Good,
    /// What is wrong with it.
    Damaged(String),
    /// Nobody has said what its sum should be. This is what it is.
    Unknown(String),
}

/// Looks at how the file at `place` begins, and compares its sum with the table and with what was written when it came.
pub fn verify(weights: &Weights, place: &Path) -> Result<State> {
    let reading = |error| anyhow!("cannot read `{}`: {error}\nhint: check its permissions", place.display());
    if let Some(kind) = download::other_kind(place).map_err(reading)? {
        return Ok(State::Damaged(format!("it is {kind}")));
    }
    let sum = download::sha256_of(place).map_err(reading)?;
    let recorded = Record::of(place).and_then(|record| record.sha256);
    let expected = [weights.sha256, recorded.as_deref()];
    Ok(match download::differs(&sum, &expected) {
        Some(words) => State::Damaged(format!("it has {words}")),
        None if expected == [None, None] => State::Unknown(sum),
        None => State::Good,
    })
}
