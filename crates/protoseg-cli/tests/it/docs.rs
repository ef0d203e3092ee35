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
    // The same work on fewer images.
    let answer = protoseg_in(folder.path(), command.split_whitespace().chain(["--quick"]));
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(
        answer.stdout.contains("product") && answer.stdout.contains("report -> demo"),
        "{}",
        answer.stdout
    );
    let report = fs::read_to_string(folder.path().join("demo/report.html")).unwrap();
    assert!(report.contains("before teaching") && report.len() > 100_000);
    let pack = protoseg_in(folder.path(), ["classes", "list", "demo/novel.pack"]);
    assert!(pack.stdout.contains("boat") && pack.stdout.contains("cup"), "{}", pack.stdout);
}

/// The README and all of docs/.
fn documents() -> Vec<PathBuf> {
    let folder = fs::read_dir(repository().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut documents: Vec<PathBuf> =
        folder.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    documents.push(repository().join("README.md"));
    documents
}

/// Commands of ours in a document: lines of its blocks, and words between backticks.
fn commands(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (i, part) in document.split("```").enumerate() {
        if i % 2 == 1 {
            let block = part.replace("\\\n", " ");
            found.extend(block.lines().map(str::to_string));
        } else {
            found.extend(part.split('`').skip(1).step_by(2).map(|code| code.replace('\n', " ")));
        }
    }
    found.iter().filter_map(|code| code.strip_prefix("protoseg ")).map(str::to_string).collect()
}

#[test]
fn every_command_in_the_docs_is_one() {
    let mut checked = 0;
    for document in documents() {
        for command in commands(&fs::read_to_string(&document).unwrap()) {
            let place = format!("{}: `protoseg {command}`", document.display());
            let words: Vec<&str> = command.split([' ', '[', ']', '=']).collect();
            let n_verbs = match words[..] {
                ["data", "prepare", ..] => 3,
                ["data" | "classes" | "bench" | "weights", ..] => 2,
                _ => 1,
            };
            let is_verb = |word: &str| word.starts_with(|c: char| c.is_ascii_lowercase());
            let verbs = words.iter().take(n_verbs).take_while(|word| is_verb(word));
            let help = protoseg_in(Path::new("."), ["help"].iter().chain(verbs));
            assert_eq!(help.code, 0, "{place}: {}", help.stderr);
            let known: Vec<&str> =
                help.stdout.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
            for flag in words.iter().filter(|word| word.starts_with('-')) {
                assert!(known.contains(flag), "{place}: no flag {flag}");
            }
            checked += 1;
        }
    }
    assert!(checked > 50, "only {checked} commands found");
}

#[test]
fn links_in_the_docs_lead_somewhere() {
    let more = ["CONTRIBUTING.md", "CHANGELOG.md"].map(|name| repository().join(name));
    for doc in documents().into_iter().chain(more) {
        let text = fs::read_to_string(&doc).unwrap();
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
        ("protoseg-server", &["protoseg"]),
        (
            "protoseg-cli",
            &["protoseg-core", "protoseg-data", "protoseg-kernels", "protoseg", "protoseg-server"],
        ),
        // The command line is in the wheel, too.
        ("protoseg-python", &["protoseg", "protoseg-cli"]),
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
    let upper = ["train", "register", "class_pack", "segmenter", "evaluate", "model"];
    let rules: [(&str, &[&str]); 16] = [
        ("bridge", &["encoder", "decoder", "graph", "network", "method", "weights"]),
        ("nn", &["encoder", "decoder", "graph", "network", "method", "weights"]),
        ("encoder", &["decoder", "network", "method", "inference"]),
        ("decoder", &["encoder", "network", "method", "inference", "weights"]),
        ("graph", &["encoder", "network", "method", "inference", "weights"]),
        ("inference", &["encoder", "method", "weights"]),
        // A method stands on features, whatever the encoder they come from. Published systems also say which encoder they
        // need and how their checkpoints are read. Only the vision knows what computes maps.
        ("method/capl", &["encoder", "inference", "weights"]),
        ("method", &["inference"]),
        ("weights", &["inference"]),
        ("picture", &["encoder", "decoder", "network", "method", "weights"]),
        ("class_pack.rs", &["train", "segmenter", "evaluate"]),
        ("segmenter.rs", &["train", "evaluate"]),
        ("evaluate", &["train"]),
        ("episodes", &["train", "class_pack", "evaluate", "register", "segmenter"]),
        ("train", &["class_pack", "evaluate"]),
        ("export", &["train", "evaluate", "inference", "encoder", "decoder"]),
    ];
    let low = ["bridge", "nn", "encoder", "decoder", "graph", "inference", "method", "weights"];
    for (room, forbidden) in rules {
        let sources = sources(&repository().join("crates/protoseg/src").join(room));
        for path in sources
            .into_iter()
            .filter(|path| !path.ends_with("tests.rs") && !path.ends_with("method/vision.rs"))
        {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let uses = code.split("use crate::").skip(1).map(|rest| rest.split(';').next().unwrap());
            for used in uses {
                let above = if low.contains(&room) { &upper[..] } else { &[] };
                for module in forbidden.iter().chain(above) {
                    let names = used.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
                    let broken = names.into_iter().any(|name| name.split("::").next() == Some(*module));
                    assert!(!broken, "{} uses {module}", path.display());
                }
            }
        }
    }
}
