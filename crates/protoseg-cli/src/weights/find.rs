//! Where files of weights are: our cache, then the one that Hugging Face's own programs fill.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use super::table::{Site, Weights};

const HUB: &str = "https://huggingface.co";
const PYTORCH: &str = "https://download.pytorch.org";

/// The folder of our cache.
pub fn cache() -> Result<PathBuf> {
    let folder = match variable("PROTOSEG_WEIGHTS") {
        Some(folder) => PathBuf::from(folder),
        None => user_cache()
            .context(
                "no folder for weights is known, because HOME is not set\nhint: name one in PROTOSEG_WEIGHTS",
            )?
            .join("protoseg/weights"),
    };
    // Runs remember where their weights are, and may be continued from another folder.
    Ok(std::path::absolute(&folder).unwrap_or(folder))
}

/// Where weights are in our cache, or will be.
pub fn place(weights: &Weights) -> Result<PathBuf> {
    Ok(cache()?.join(weights.name).join(weights.file))
}

/// The file, if it is on this machine.
pub fn find(weights: &Weights) -> Result<Option<PathBuf>> {
    let own = place(weights)?;
    Ok(if own.is_file() { Some(own) } else { hub_cache().and_then(|hub| in_hub_cache(&hub, weights)) })
}

/// Whether the environment forbids downloads.
pub fn is_offline() -> bool {
    let is_set = |value: String| ["1", "on", "yes", "true"].contains(&value.to_lowercase().as_str());
    variable("HF_HUB_OFFLINE").is_some_and(is_set)
}

/// Where weights are on the web, or on a mirror.
pub fn address(weights: &Weights) -> Result<String> {
    Ok(match weights.site {
        Site::Hub(repository) => format!("{}/resolve/main/{}", page(repository)?, weights.file),
        Site::PyTorch => at_pytorch(&endpoint("PROTOSEG_TORCH_ENDPOINT", PYTORCH)?, weights),
    })
}

/// Who publishes weights: a repository of the Hub, or an address.
pub fn publisher(weights: &Weights) -> String {
    match weights.site {
        Site::Hub(repository) => repository.to_string(),
        Site::PyTorch => at_pytorch(PYTORCH, weights),
    }
}

fn at_pytorch(endpoint: &str, weights: &Weights) -> String {
    format!("{endpoint}/models/{}", weights.file)
}

/// The page of a repository on the Hub, or on a mirror of it.
pub fn page(repository: &str) -> Result<String> {
    Ok(format!("{}/{repository}", endpoint("HF_ENDPOINT", HUB)?))
}

/// A server, or the mirror that a variable names.
fn endpoint(name: &str, usual: &str) -> Result<String> {
    let endpoint = variable(name).unwrap_or_else(|| usual.to_string());
    let host = endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://"));
    // A password in it would be printed with the address.
    if host.is_none_or(|host| host.is_empty() || host.contains('@')) {
        bail!("{name} must be an address like `{usual}`, without a password");
    }
    Ok(endpoint.trim_end_matches('/').to_string())
}

/// The key to gated weights. It is of no use outside the Hub, and nobody else may see it.
pub fn token(weights: &Weights) -> Option<String> {
    weights.repository().and_then(|_| variable("HF_TOKEN"))
}

/// A variable of the environment; an empty one is none.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().map(|value| value.trim().to_string()).filter(|value| !value.is_empty())
}

fn user_cache() -> Option<PathBuf> {
    let given = variable("XDG_CACHE_HOME").map(PathBuf::from);
    given.or_else(|| env::home_dir().map(|home| home.join(".cache")))
}

fn hub_cache() -> Option<PathBuf> {
    let given = variable("HF_HUB_CACHE").map(PathBuf::from);
    let home = || variable("HF_HOME").map(PathBuf::from).or_else(|| Some(user_cache()?.join("huggingface")));
    given.or_else(|| Some(home()?.join("hub")))
}

/// The file of the revision that `main` was when it was last downloaded.
fn in_hub_cache(hub: &Path, weights: &Weights) -> Option<PathBuf> {
    let folder = hub.join(format!("models--{}", weights.repository()?.replace('/', "--")));
    let revision = fs::read_to_string(folder.join("refs/main")).ok()?;
    let revision = revision.trim();
    if !revision.chars().all(|c| c.is_ascii_alphanumeric()) {
        return None;
    }
    let file = folder.join("snapshots").join(revision).join(weights.file);
    file.is_file().then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::table::TABLE;

    #[test]
    fn the_file_of_the_last_revision_is_found() {
        let hub = tempfile::tempdir().unwrap();
        let weights = &TABLE[0];
        let folder = hub.path().join("models--facebook--dinov2-small");
        let snapshot = folder.join("snapshots/abc123");
        fs::create_dir_all(&snapshot).unwrap();
        fs::create_dir_all(folder.join("refs")).unwrap();
        fs::write(snapshot.join("model.safetensors"), b"weights").unwrap();
        assert_eq!(in_hub_cache(hub.path(), weights), None, "no revision is named");
        fs::write(folder.join("refs/main"), "abc123\n").unwrap();
        assert_eq!(in_hub_cache(hub.path(), weights), Some(snapshot.join("model.safetensors")));
        for other in ["def456", "../snapshots/abc123"] {
            fs::write(folder.join("refs/main"), other).unwrap();
            assert_eq!(in_hub_cache(hub.path(), weights), None, "{other}");
        }
    }
}
