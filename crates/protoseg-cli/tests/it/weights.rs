//! `protoseg weights`, and names in the place of files, against a small server on this machine.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::run::Answer;

const PATH: &str = "/timm/resnet18.tv_in1k/resolve/main/model.safetensors";
/// Found by trying: its sum begins like that of torchvision's VGG-16.
const LIKE_VGG16: &[u8] = b"PK\x03\x040b37c811";
const PATIENCE: Duration = Duration::from_secs(10);

/// A safetensors file with one tensor.
fn safetensors() -> Vec<u8> {
    let values = 50_000;
    let mut header =
        format!(r#"{{"w":{{"dtype":"F32","shape":[{values}],"data_offsets":[0,{}]}}}}"#, 4 * values);
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let data = (0..values).flat_map(|i| (i as f32).to_le_bytes());
    (header.len() as u64).to_le_bytes().into_iter().chain(header.into_bytes()).chain(data).collect()
}

fn sum(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// A request as it came: its first line and headers.
#[derive(Clone)]
struct Request(String);

impl Request {
    fn read(stream: &mut TcpStream) -> Self {
        let (mut text, mut byte) = (Vec::new(), [0]);
        while !text.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
            text.push(byte[0]);
        }
        Self(String::from_utf8(text).unwrap())
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.0.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// Answers every request, each on its own thread, until the test ends.
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    fn start(answer: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (requests.clone(), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, seen, answer) = (stream.unwrap(), seen.clone(), answer.clone());
                thread::spawn(move || {
                    let request = Request::read(&mut stream);
                    seen.lock().unwrap().push(request.clone());
                    answer(&request, &mut stream);
                });
            }
        });
        Self { address, requests }
    }

    /// Serves one file as the Hub does, with its sum in a header.
    fn of(file: Vec<u8>) -> Self {
        Self::start(move |request, stream| send(request, stream, &file, file.len()))
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

/// Whoever asked may be gone by now.
fn respond(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n");
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// The part of a file that a request asks for, of which only the first `most` bytes come.
fn send(request: &Request, stream: &mut TcpStream, file: &[u8], most: usize) {
    let start = request.header("Range").map_or(0, |range| {
        range.strip_prefix("bytes=").and_then(|range| range.strip_suffix('-')).unwrap().parse().unwrap()
    });
    let rest = &file[start..];
    let mut headers = format!("Content-Length: {}\r\nX-Linked-Etag: \"{}\"\r\n", rest.len(), sum(file));
    if start > 0 {
        headers += &format!("Content-Range: bytes {start}-{}/{}\r\n", file.len() - 1, file.len());
    }
    let status = if start > 0 { "206 Partial Content" } else { "200 OK" };
    respond(stream, status, &headers, &rest[..most.min(rest.len())]);
}

/// An empty cache and a server.
struct Desk {
    folder: tempfile::TempDir,
    endpoint: String,
}

impl Desk {
    fn new(server: &Server) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), endpoint: server.address.clone() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the weights will be.
    fn place(&self) -> PathBuf {
        self.path("cache/resnet18/model.safetensors")
    }

    fn part(&self) -> PathBuf {
        self.path("cache/resnet18/model.safetensors.part")
    }

    fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_protoseg"));
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        for name in ["HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN", "PROTOSEG_INIT"] {
            command.env_remove(name);
        }
        command.env("HF_ENDPOINT", &self.endpoint).env("HF_HOME", self.path("hf"));
        command.env("PROTOSEG_TORCH_ENDPOINT", &self.endpoint);
        command.env("PROTOSEG_WEIGHTS", self.path("cache")).env("PROTOSEG_WEIGHTS_STALL", "20");
        command.current_dir(self.folder.path()).args(args.split_whitespace());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &str) -> Answer {
        answer(self.command(args).output().unwrap())
    }

    /// What a command that succeeds prints.
    fn done(&self, args: &str) -> String {
        let answer = self.run(args);
        assert_eq!(answer.code, 0, "`protoseg {args}`: {}", answer.stderr);
        answer.stdout
    }

    /// The error of a command that is refused. It leaves no weights behind.
    fn refused(&self, command: &mut Command, words: &[&str]) -> String {
        let answer = answer(command.output().unwrap());
        assert_eq!(answer.code, 1, "{}", answer.stderr);
        assert_eq!(answer.stderr.matches("error: ").count(), 1, "{}", answer.stderr);
        for word in words {
            assert!(answer.stderr.contains(word), "lacks `{word}`: {}", answer.stderr);
        }
        assert!(!self.place().exists(), "{}", answer.stderr);
        answer.stderr
    }

    fn pull_is_refused(&self, words: &[&str]) -> String {
        self.refused(&mut self.command("weights pull resnet18"), words)
    }

    /// What to do by hand.
    fn by_hand(&self) -> [String; 2] {
        [format!("{}{PATH}", self.endpoint), format!("`{}`", self.place().display())]
    }

    fn assert_holds(&self, file: &[u8]) {
        assert!(fs::read(self.place()).unwrap() == file, "the file is not the server's");
        assert!(!self.part().exists() && !self.path("cache/resnet18/model.safetensors.part.json").exists());
    }
}

fn answer(output: Output) -> Answer {
    Answer {
        code: output.status.code().expect("it was not killed"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Waits until something is so.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what} takes too long");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn weights_are_pulled_once_listed_and_verified() {
    let file = safetensors();
    let server = Server::of(file.clone());
    let desk = Desk::new(&server);
    assert_eq!(desk.run("weights path resnet18").code, 1);
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/weights.md");
    let (docs, list) = (fs::read_to_string(docs).unwrap(), desk.done("weights list"));
    let table = list.split("next: ").next().unwrap();
    assert!(docs.contains(table), "docs/weights.md must show this table:\n{table}");
    let pulled = desk.run("weights pull resnet18 efficientnet-lite0");
    assert_eq!(pulled.code, 0, "{}", pulled.stderr);
    assert!(pulled.stderr.contains("resnet18: about 47 MB, BSD-3-Clause, from http://"), "{}", pulled.stderr);
    assert!(pulled.stdout.contains("efficientnet-lite0 -> in the box"), "{}", pulled.stdout);
    desk.assert_holds(&file);
    assert!(server.requests()[0].0.starts_with(&format!("GET {PATH} HTTP/1.1")));
    assert_eq!(server.requests()[0].header("Authorization"), None);

    let place = desk.place().display().to_string();
    assert_eq!(desk.done("weights path resnet18"), format!("{place}\n"));
    let list = desk.done("weights list");
    assert!(list.contains(&place) && list.contains("in the box") && list.contains("not here"), "{list}");
    let list: Value = serde_json::from_str(&desk.done("weights list --json")).unwrap();
    assert_eq!(list["schema"], "protoseg.weights/1");
    let rows = list["weights"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "resnet18").unwrap();
    assert_eq!((row["path"].as_str().unwrap(), &row["is_gated"]), (place.as_str(), &Value::Bool(false)));

    let json = |args: &str| serde_json::from_str::<Value>(&desk.run(args).stdout).unwrap();
    let path = json("weights path resnet18 --json");
    assert_eq!(path["schema"], "protoseg.weights-path/1");
    assert_eq!(path["path"], place);
    let pulled = json("weights pull resnet18 efficientnet-lite0 --json");
    assert_eq!(pulled["schema"], "protoseg.weights-pull/1");
    assert_eq!(pulled["weights"][0]["path"], place);
    assert_eq!(pulled["weights"][1]["is_in_box"], true);
    let verified = json("weights verify --json");
    assert_eq!(verified["schema"], "protoseg.weights-verify/1");
    assert_eq!(verified["weights"][0]["state"], "good");

    // Without a request, and without a network.
    assert!(desk.done("weights --offline pull resnet18").contains(&place));
    assert_eq!(server.requests().len(), 1);
    assert!(desk.done("weights verify").contains("resnet18: good\n1 file checked"));
    let mut damaged = file.clone();
    damaged[1000] ^= 1;
    fs::write(desk.place(), damaged).unwrap();
    let verified = desk.run("weights verify");
    assert_eq!(verified.code, 1);
    assert!(verified.stdout.contains("damaged"), "{}", verified.stdout);
    assert!(verified.stderr.contains("protoseg weights pull --force resnet18"), "{}", verified.stderr);
    assert_eq!(json("weights verify --json")["weights"][0]["state"], "damaged");
    desk.done("weights pull --force resnet18");
    desk.done("weights verify resnet18");
    desk.assert_holds(&file);
}

#[test]
fn flags_take_names_and_say_what_is_neither_name_nor_file() {
    let server = Server::of(safetensors());
    let desk = Desk::new(&server);
    for args in [
        "new --encoder resnet81 -o m.safetensors",
        "train --data scenes --init resnet81 --out run",
        "experiment heads --data scenes --init resnet81 --dry-run",
        "experiment heads --data scenes --init head=resnet81 --dry-run",
    ] {
        let error = desk.refused(&mut desk.command(args), &["neither a file", "nor the name of weights"]);
        assert!(error.contains("resnet81`") && error.contains("resnet101, "), "{error}");
    }
    let error = desk.refused(&mut desk.command("weights pull resnet18 dinov2small"), &["`dinov2small`"]);
    assert!(error.contains("did you mean `dinov2-small`?"), "{error}");
    desk.refused(
        &mut desk.command("train --data scenes --init efficientnet-lite0"),
        &["part of the program"],
    );
    desk.refused(
        &mut desk.command("train --data scenes --init resnet18 --dry-run"),
        &["a dry run downloads"],
    );
    assert!(server.requests().is_empty());

    // The name is found, downloaded, and then no network of ours: it has one tensor.
    let answer = desk.run("new --encoder resnet18 -o m.safetensors");
    assert!(
        answer.code == 1 && answer.stderr.contains(&desk.place().display().to_string()),
        "{}",
        answer.stderr
    );
    let plan = desk.done("train --data scenes --init resnet18 --dry-run");
    assert!(plan.contains(&format!("init = \"{}\"", desk.place().display())), "{plan}");
    // A recipe may say the name, too.
    fs::create_dir(desk.path("recipes")).unwrap();
    let recipe = "[data]\nsource = \"scenes\"\n[network]\ninit = \"resnet18\"\n";
    fs::write(desk.path("recipes/named.toml"), recipe).unwrap();
    let plan = desk.done("train recipes/named.toml --dry-run");
    assert!(plan.contains(&format!("init = \"{}\"", desk.place().display())), "{plan}");
    // And so may an experiment. Its file has a name by its content.
    let experiment = "title = \"T\"\ntask = \"gfs-seg\"\n[models.m]\nnew = { encoder = \"ENCODER\" }\n\
                      [[rows]]\nname = \"r\"\nmodel = \"m\"\n";
    fs::write(desk.path("recipes/named-too.toml"), experiment.replace("ENCODER", "resnet18")).unwrap();
    fs::write(desk.path("recipes/wrong.toml"), experiment.replace("ENCODER", "resnet81")).unwrap();
    let plan = desk.done("experiment recipes/named-too.toml --data scenes --folds 0 --dry-run");
    assert!(plan.contains("to make"), "{plan}");
    let wrong = desk.run("experiment recipes/wrong.toml --data scenes --dry-run");
    assert_eq!(wrong.code, 1);
    assert!(wrong.stderr.contains("`new.encoder resnet81` is neither a file"), "{}", wrong.stderr);
    // A folder of this name does not win, but a file does.
    fs::create_dir(desk.path("resnet18")).unwrap();
    for args in ["train --data scenes --init resnet18 --dry-run", "train recipes/named.toml --dry-run"] {
        let plan = desk.done(args);
        assert!(plan.contains(&format!("init = \"{}\"", desk.place().display())), "{plan}");
    }
    fs::remove_dir(desk.path("resnet18")).unwrap();
    fs::write(desk.path("resnet18"), safetensors()).unwrap();
    let plan = desk.done("train --data scenes --init resnet18 --dry-run");
    assert!(plan.contains("init = \"resnet18\""), "{plan}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn the_cache_of_hugging_face_is_looked_at_before_the_web() {
    let server = Server::of(safetensors());
    let desk = Desk::new(&server);
    let folder = desk.path("hf/hub/models--timm--resnet18.tv_in1k");
    fs::create_dir_all(folder.join("refs")).unwrap();
    fs::create_dir_all(folder.join("snapshots/1234abcd")).unwrap();
    fs::write(folder.join("refs/main"), "1234abcd").unwrap();
    let file = folder.join("snapshots/1234abcd/model.safetensors");
    fs::write(&file, safetensors()).unwrap();
    assert!(desk.done("weights pull resnet18").contains(&file.display().to_string()));
    assert_eq!(desk.done("weights path resnet18"), format!("{}\n", file.display()));
    let mut elsewhere = desk.command("weights path resnet18");
    assert_eq!(answer(elsewhere.env("HF_HUB_CACHE", desk.path("empty")).output().unwrap()).code, 1);
    assert!(server.requests().is_empty());
}

#[test]
fn offline_says_where_to_put_the_file() {
    let server = Server::of(safetensors());
    let desk = Desk::new(&server);
    let [url, place] = desk.by_hand();
    let words = ["`--offline` forbids", &url, &place, "its licence is BSD-3-Clause"];
    for args in [
        "weights pull resnet18 --offline",
        "new --encoder resnet18 -o m.safetensors --offline",
        "train --data scenes --init resnet18 --offline",
        "experiment heads --data scenes --init resnet18 --offline",
    ] {
        desk.refused(&mut desk.command(args), &words);
    }
    let mut command = desk.command("weights pull resnet18");
    desk.refused(command.env("HF_HUB_OFFLINE", "1"), &["HF_HUB_OFFLINE forbids", &url, &place]);
    let gated =
        ["`--offline` forbids", "its licence is DINOv3 License", "an account that has accepted the licence"];
    desk.refused(&mut desk.command("weights pull dinov3-vits16 --offline"), &gated);
    let sum_begins = ["`--offline` forbids", "/models/vgg16-397923af.pth", "its sha256 begins with 397923af"];
    desk.refused(&mut desk.command("weights pull vgg16 --offline"), &sum_begins);
    assert!(server.requests().is_empty());
    // Put there by hand, with a sum that nobody knows.
    fs::create_dir_all(desk.path("cache/resnet18")).unwrap();
    fs::write(desk.place(), safetensors()).unwrap();
    desk.done("weights --offline pull resnet18");
    assert!(desk.done("weights verify").contains(&sum(&safetensors())));
    fs::write(desk.place(), "<html>log in first</html>").unwrap();
    let verified = desk.run("weights verify");
    assert!(verified.code == 1 && verified.stdout.contains("a web page"), "{}", verified.stdout);
}

#[test]
fn files_of_pytorch_come_from_their_own_server_and_have_a_known_beginning_of_their_sum() {
    let server = Server::start(|request, stream| {
        let body: &[u8] = match request.0.contains("/vgg16-") {
            true => LIKE_VGG16,
            false => b"PK\x03\x04 and something else",
        };
        respond(stream, "200 OK", &format!("Content-Length: {}\r\n", body.len()), body);
    });
    let desk = Desk::new(&server);
    let pull = |name: &str| {
        let mut command = desk.command(&format!("weights pull {name}"));
        command.env("HF_ENDPOINT", "http://hub.invalid").env("HF_TOKEN", "hf_secret");
        command
    };
    let words = ["one that begins with 394f9c45", "its sha256 begins with 394f9c45"];
    desk.refused(&mut pull("resnet152"), &words);
    assert_eq!(fs::read_dir(desk.path("cache/resnet152")).unwrap().count(), 0, "nothing is left behind");

    let pulled = answer(pull("vgg16").output().unwrap());
    assert_eq!(pulled.code, 0, "{}", pulled.stderr);
    let place = desk.path("cache/vgg16/vgg16-397923af.pth");
    assert_eq!(fs::read(&place).unwrap(), LIKE_VGG16);
    for request in server.requests() {
        assert!(request.0.starts_with("GET /models/") && !request.0.contains("hf_secret"), "{}", request.0);
    }
    // By the table alone, as if it was put there by hand.
    fs::remove_file(desk.path("cache/vgg16/vgg16-397923af.pth.json")).unwrap();
    assert!(desk.done("weights verify vgg16").contains("vgg16: good"));
    fs::write(&place, b"PK\x03\x04 and something else").unwrap();
    assert_eq!(desk.run("weights verify vgg16").code, 1);

    // No account helps on this server.
    let server = Server::start(|_, stream| respond(stream, "403 Forbidden", "Content-Length: 0\r\n", b""));
    let desk = Desk::new(&server);
    let error = desk.refused(&mut desk.command("weights pull vgg16"), &["403", "/models/vgg16-397923af.pth"]);
    assert!(!error.contains("HF_TOKEN"), "{error}");
}

#[test]
fn a_proxy_is_asked_in_the_place_of_the_server() {
    let file = safetensors();
    let whole = file.clone();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let inside = asked.clone();
    let proxy = Server::start(move |request, stream| {
        if !request.0.starts_with("CONNECT weights.invalid:80 ") {
            return respond(stream, "400 Bad Request", "Content-Length: 0\r\n", b"");
        }
        stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
        let request = Request::read(stream);
        send(&request, stream, &whole, whole.len());
        inside.lock().unwrap().push(request);
    });
    // A name that only the proxy can know.
    let endpoint = "http://weights.invalid".to_string();
    for variable in ["HTTP_PROXY", "ALL_PROXY"] {
        let desk = Desk { folder: tempfile::tempdir().unwrap(), endpoint: endpoint.clone() };
        let mut command = desk.command("weights pull resnet18");
        let pulled = answer(command.env(variable, &proxy.address).output().unwrap());
        assert_eq!(pulled.code, 0, "{variable}: {}", pulled.stderr);
        desk.assert_holds(&file);
    }
    wait_until("the second answer", || asked.lock().unwrap().len() == 2);
    assert!(asked.lock().unwrap().iter().all(|request| request.0.starts_with(&format!("GET {PATH} "))));
    assert_eq!(proxy.requests().len(), 2);
    // A proxy that refuses is named as the reason.
    let desk = Desk { folder: tempfile::tempdir().unwrap(), endpoint: "http://other.invalid".to_string() };
    let mut command = desk.command("weights pull resnet18");
    desk.refused(command.env("ALL_PROXY", &proxy.address), &["cannot download `resnet18`", "proxy"]);
}

#[test]
fn a_download_that_is_cut_short_goes_on_where_it_ended() {
    let file = safetensors();
    let whole = file.clone();
    let server = Server::start(move |request, stream| {
        let most = if request.header("Range").is_some() { whole.len() } else { 100_000 };
        send(request, stream, &whole, most);
    });
    let desk = Desk::new(&server);
    let [url, place] = desk.by_hand();
    let words = ["the part that came is kept", "goes on from there", &url, &place, &sum(&file)];
    desk.pull_is_refused(&words);
    assert_eq!(fs::metadata(desk.part()).unwrap().len(), 100_000);
    assert_eq!(server.requests().len(), 1, "nothing is tried again by itself");
    let pulled = desk.run("weights pull resnet18");
    assert!(pulled.code == 0 && pulled.stderr.contains("going on after"), "{}", pulled.stderr);
    assert_eq!(server.requests()[1].header("Range"), Some("bytes=100000-"));
    desk.assert_holds(&file);
}

#[test]
fn a_server_that_ignores_ranges_starts_anew() {
    let file = safetensors();
    let whole = file.clone();
    let answers = Mutex::new(0);
    let server = Server::start(move |_, stream| {
        let mut answers = answers.lock().unwrap();
        *answers += 1;
        let most = if *answers == 1 { 100_000 } else { whole.len() };
        let headers = format!("Content-Length: {}\r\nETag: \"v1\"\r\n", whole.len());
        respond(stream, "200 OK", &headers, &whole[..most]);
    });
    let desk = Desk::new(&server);
    desk.pull_is_refused(&["goes on from there"]);
    desk.done("weights pull resnet18");
    let request = &server.requests()[1];
    assert_eq!(request.header("Range"), Some("bytes=100000-"));
    assert_eq!(request.header("If-Range"), Some("\"v1\""));
    desk.assert_holds(&file);
}

#[test]
fn a_part_of_another_version_is_not_gone_on_with() {
    let file = safetensors();
    let whole = file.clone();
    let server = Server::start(move |request, stream| match request.header("Range") {
        Some(_) => {
            let mut other = whole.clone();
            other[150_000] ^= 1;
            send(request, stream, &other, other.len());
        }
        None => send(request, stream, &whole, 100_000),
    });
    let desk = Desk::new(&server);
    desk.pull_is_refused(&["goes on from there"]);
    desk.pull_is_refused(&["has changed", "the part is deleted"]);
    assert!(!desk.part().exists());
}

#[test]
fn what_is_not_the_file_never_becomes_weights() {
    let file = safetensors();
    let other = "0".repeat(64);
    let length = format!("Content-Length: {}\r\n", file.len());
    let answers: [(&str, String, &[u8], &[&str]); 6] = [
        ("200 OK", format!("{length}X-Linked-Etag: \"{other}\"\r\n"), &file, &["sha256", &other]),
        ("200 OK", format!("{length}ETag: \"{other}\"\r\n"), &file, &["sha256", &other]),
        ("200 OK", "Content-Length: 28\r\n".into(), b"<!DOCTYPE html><html></html>", &["a web page"]),
        ("200 OK", "Content-Length: 12\r\n".into(), b"out of order", &["neither safetensors"]),
        ("200 OK", "Content-Length: 9000000000\r\n".into(), b"", &["8.4 GiB"]),
        ("404 Not Found", "Content-Length: 0\r\n".into(), b"", &["404 Not Found"]),
    ];
    for (status, headers, body, words) in answers {
        let (status, body) = (status.to_string(), body.to_vec());
        let server = Server::start(move |_, stream| respond(stream, &status, &headers, &body));
        let desk = Desk::new(&server);
        desk.pull_is_refused(
            &desk.by_hand().iter().map(String::as_str).chain(words.iter().copied()).collect::<Vec<_>>(),
        );
        assert!(!desk.part().exists(), "{words:?}");
        assert_eq!(server.requests().len(), 1, "nothing is tried again by itself");
    }
    // More than was announced, in chunks that do not say how many there will be.
    let server = Server::start(move |_, stream| {
        let body = [&b"10000\r\n"[..], &file[..0x10000], b"\r\n0\r\n\r\n"].concat();
        respond(stream, "200 OK", "X-Linked-Size: 1000\r\nTransfer-Encoding: chunked\r\n", &body);
    });
    Desk::new(&server).pull_is_refused(&["more than the 1000 bytes"]);
    // Nobody listens.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let desk = Desk { folder: tempfile::tempdir().unwrap(), endpoint };
    desk.pull_is_refused(&["cannot download `resnet18`", "yourself"]);
}

#[test]
fn gated_weights_ask_for_a_token_and_only_the_hub_sees_it() {
    let file = safetensors();
    let cdn = Server::of(file.clone());
    let elsewhere = format!("{}/blob?signed=1", cdn.address);
    let bytes = file.len();
    let hash = sum(&file);
    let hub = Server::start(move |request, stream| {
        if request.header("Authorization") != Some("Bearer hf_secret") {
            return respond(stream, "401 Unauthorized", "Content-Length: 0\r\n", b"");
        }
        let headers = format!(
            "Location: {elsewhere}\r\nContent-Length: 0\r\nX-Linked-Size: {bytes}\r\nX-Linked-Etag: \"{hash}\"\r\n"
        );
        respond(stream, "302 Found", &headers, b"");
    });
    let desk = Desk::new(&hub);
    let page = format!("{}/timm/resnet18.tv_in1k", desk.endpoint);
    desk.pull_is_refused(&["401", "without a token", "HF_TOKEN", &page]);
    let mut wrong = desk.command("weights pull resnet18");
    let error = desk.refused(wrong.env("HF_TOKEN", "hf_wrong"), &["401 with the token in HF_TOKEN"]);
    assert!(!error.contains("hf_wrong"), "a secret is not printed: {error}");
    let mut right = desk.command("weights pull resnet18");
    let right = answer(right.env("HF_TOKEN", "hf_secret").output().unwrap());
    assert!(right.code == 0 && !right.stderr.contains("hf_secret"), "{}", right.stderr);
    desk.assert_holds(&file);
    let seen = cdn.requests();
    assert_eq!(seen.len(), 1);
    assert!(
        seen[0].0.starts_with("GET /blob?signed=1 ") && !seen[0].0.contains("hf_secret"),
        "{}",
        seen[0].0
    );
}

#[test]
fn a_server_that_stalls_is_given_up_and_the_part_is_kept() {
    let file = safetensors();
    let server = Server::start(move |request, stream| {
        send(request, stream, &file, 100_000);
        thread::sleep(PATIENCE);
    });
    let desk = Desk::new(&server);
    let mut command = desk.command("weights pull resnet18");
    let words = ["sent nothing for 1 s", "goes on from there"];
    desk.refused(command.env("PROTOSEG_WEIGHTS_STALL", "1"), &words);
    assert_eq!(fs::metadata(desk.part()).unwrap().len(), 100_000);
}

#[test]
fn a_process_that_is_killed_leaves_a_part_to_go_on_with() {
    let file = safetensors();
    let whole = file.clone();
    let server = Server::start(move |request, stream| match request.header("Range") {
        Some(_) => send(request, stream, &whole, whole.len()),
        None => {
            send(request, stream, &whole, 100_000);
            thread::sleep(PATIENCE);
        }
    });
    let desk = Desk::new(&server);
    let mut child = desk.command("weights pull resnet18").spawn().unwrap();
    wait_until("the first part", || fs::metadata(desk.part()).is_ok_and(|part| part.len() == 100_000));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!desk.place().exists());
    desk.done("weights pull resnet18");
    assert_eq!(server.requests()[1].header("Range"), Some("bytes=100000-"));
    desk.assert_holds(&file);
}

#[test]
fn two_processes_download_a_file_once() {
    let file = safetensors();
    let whole = file.clone();
    let server = Server::start(move |request, stream| {
        thread::sleep(Duration::from_millis(500));
        send(request, stream, &whole, whole.len());
    });
    let desk = Desk::new(&server);
    let start = || desk.command("weights pull resnet18").spawn().unwrap();
    let first = start();
    wait_until("the first request", || server.requests().len() == 1);
    let both = [first, start()].map(|child: Child| answer(child.wait_with_output().unwrap()));
    assert!(both.iter().all(|answer| answer.code == 0), "{} {}", both[0].stderr, both[1].stderr);
    assert!(both[1].stderr.contains("which downloads `resnet18`"), "{}", both[1].stderr);
    assert_eq!(server.requests().len(), 1);
    desk.assert_holds(&file);
}
