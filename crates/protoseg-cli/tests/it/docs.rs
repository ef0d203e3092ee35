//! Docs that cannot rot: the README's commands run, no doc names a file that is not there, and the crates keep to their
//! rooms.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::run::protoseg_in;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_readmes_first_command_runs() {
    let readme = read("README.md");
    let command = readme.lines().find_map(|line| line.strip_prefix("cargo run --release -- ")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // The same work, with less training.
    let answer = protoseg_in(folder.path(), command.split_whitespace().chain(["--quick"]));
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(answer.stdout.contains("capl") && answer.stdout.contains("report -> demo"), "{}", answer.stdout);
    let report = fs::read_to_string(folder.path().join("demo/report.html")).unwrap();
    assert!(report.contains("SCE + DQCE") && report.len() > 100_000);
    let pack = protoseg_in(folder.path(), ["classes", "list", "demo/novel.pack"]);
    assert!(pack.stdout.contains("boat") && pack.stdout.contains("cup"), "{}", pack.stdout);
}

#[test]
fn every_command_in_the_docs_is_one() {
    let docs =
        ["README.md", "docs/own-photos.md", "docs/performance.md", "docs/training.md"].map(read).join("\n");
    let blocks = docs.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    for line in blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("protoseg ")) {
        let verbs: Vec<&str> = line
            .split_whitespace()
            .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase()))
            .take(2)
            .collect();
        let verbs = if ["data", "classes", "bench"].contains(&verbs[0]) { &verbs[..] } else { &verbs[..1] };
        let help = protoseg_in(Path::new("."), ["help"].iter().chain(verbs));
        assert_eq!(help.code, 0, "`protoseg {line}`: {}", help.stderr);
        for flag in line.split_whitespace().filter(|word| word.starts_with("--")) {
            assert!(help.stdout.contains(flag), "`protoseg {line}`: no flag {flag}");
        }
    }
}

#[test]
fn links_in_the_docs_lead_somewhere() {
    let mut docs: Vec<PathBuf> =
        fs::read_dir(repository().join("docs")).unwrap().map(|e| e.unwrap().path()).collect();
    docs.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| repository().join(name)));
    for doc in docs.iter().filter(|doc| doc.extension().is_some_and(|ending| ending == "md")) {
        let text = fs::read_to_string(doc).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !link.starts_with("http") {
                let target = doc.parent().unwrap().join(link.split('#').next().unwrap());
                assert!(target.exists(), "{} links to {link}", doc.display());
            }
        }
    }
}

#[test]
fn crates_use_only_what_lies_below_them() {
    let allowed = [
        ("protoseg-core", &[][..]),
        ("protoseg-kernels", &[]),
        ("protoseg-testing", &[]),
        ("protoseg-scenes", &["protoseg-core"]),
        ("protoseg-data", &["protoseg-core", "protoseg-scenes"]),
        ("protoseg", &["protoseg-core", "protoseg-data", "protoseg-kernels"]),
        ("protoseg-cli", &["protoseg-core", "protoseg-data", "protoseg"]),
    ];
    for folder in fs::read_dir(repository().join("crates")).unwrap() {
        let folder = folder.unwrap().file_name();
        assert!(allowed.iter().any(|(name, _)| folder == *name), "{folder:?} has no line in this table");
    }
    for (name, below) in allowed {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
        for line in dependencies.lines().filter(|line| line.starts_with("protoseg")) {
            let used = line.split(['.', ' ', '=']).next().unwrap();
            assert!(below.contains(&used), "{name} uses {used}");
        }
    }
}

/// All files of a folder, or the file itself.
fn sources(folder: &Path) -> Vec<PathBuf> {
    if folder.is_file() {
        return vec![folder.to_path_buf()];
    }
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn modules_of_the_library_keep_to_their_rooms() {
    // (folder or file under crates/protoseg/src, modules it must not name)
    let rules = [
        (
            "nn",
            &[
                "encoder",
                "decoder",
                "network",
                "prototype",
                "train",
                "register",
                "predict",
                "weights",
                "model",
            ][..],
        ),
        ("encoder", &["decoder", "network", "prototype", "train", "register", "predict", "weights", "model"]),
        ("decoder", &["encoder", "network", "prototype", "train", "register", "predict", "weights", "model"]),
        ("fixed", &["prototype", "train", "register", "predict", "weights", "model"]),
        ("prototype", &["encoder", "decoder", "network", "train", "register", "predict", "weights", "model"]),
        ("weights", &["prototype", "train", "register", "predict", "model"]),
        ("register.rs", &["predict", "class_pack", "support_check", "evaluate", "train"]),
        ("class_pack.rs", &["predict", "support_check", "evaluate", "train"]),
        ("predict.rs", &["class_pack", "support_check", "evaluate", "train"]),
        ("evaluate.rs", &["class_pack", "support_check", "train"]),
        ("train", &["class_pack", "support_check", "evaluate"]),
    ];
    for (room, forbidden) in rules {
        for path in sources(&repository().join("crates/protoseg/src").join(room)) {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let uses = code.split("use crate::").skip(1).map(|rest| rest.split(';').next().unwrap());
            for used in uses {
                for module in forbidden {
                    let names = used.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
                    let broken = names.into_iter().any(|name| name.split("::").next() == Some(module));
                    assert!(!broken, "{} uses {module}", path.display());
                }
            }
        }
    }
}
