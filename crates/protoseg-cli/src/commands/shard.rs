//! `--shard`: a part of the work, and of how many.

use anyhow::{Result, bail};

/// `2/8` as the second of eight.
pub fn parse_shard(text: &str) -> Result<(usize, usize)> {
    let parts = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((part, of)) if (1..=of).contains(&part) => Ok((part, of)),
        _ => bail!("`--shard` must be a part and a number of parts, such as `1/3`, got `{text}`"),
    }
}
