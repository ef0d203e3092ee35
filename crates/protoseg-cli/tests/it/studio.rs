//! `protoseg studio` and `protoseg serve`: they print an address, answer there, and lose nothing when they are killed.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use protoseg_data::mask::read_index_mask;
use serde_json::{Value, json};

use crate::run::Folder;

/// A studio in a process of its own.
struct Running {
    child: Child,
    address: String,
    token: String,
}

impl Running {
    fn start(folder: &Folder, command: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_protoseg"))
            .args(command.split_whitespace())
            .current_dir(folder.path(""))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (address, token) = line.trim().strip_prefix("http://").unwrap().split_once("/?token=").unwrap();
        Self { child, address: address.to_string(), token: token.to_string() }
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Vec<u8>) {
        let body = body.map_or(String::new(), Value::to_string);
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        let end = reply.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
        let status = String::from_utf8_lossy(&reply[9..12]).parse().unwrap();
        (status, reply[end + 4..].to_vec())
    }

    fn json(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, body) = self.ask(method, path, body);
        assert!((200..300).contains(&status), "{path}: {status} {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stroke(class: u8, x: f64) -> Value {
    json!({ "class": class, "mode": "add", "tool": "brush", "points": [[x, 40.0], [x + 20.0, 60.0]], "radius": 6.0 })
}

#[test]
fn a_killed_studio_loses_at_most_the_last_stroke_and_its_pack_gives_the_same_mask() {
    let folder = Folder::new();
    folder.done("data draw -o photos --count 3 --size 128");
    let mut studio = Running::start(&folder, "studio photos --no-open --port 0");
    studio.json("POST", "/api/classes", Some(&json!({ "name": "duck" })));
    let mut last = 0;
    for x in [20.0, 50.0, 80.0] {
        last =
            studio.json("POST", "/api/photos/1/strokes", Some(&stroke(1, x)))["revision"].as_u64().unwrap();
    }
    studio.child.kill().unwrap();
    studio.child.wait().unwrap();

    let studio = Running::start(&folder, "studio photos --no-open --port 0");
    let project = studio.json("GET", "/api/project", None);
    assert_eq!((&project["classes"][0]["name"], last), (&json!("duck"), 5));
    let painted = project["classes"][0]["pixels"].as_u64().unwrap();
    // Each stroke covers some 450 pixels.
    assert!(painted > 800, "two of three strokes are left at least: {painted} pixels");
    assert!(folder.refused("studio photos --no-open --port 0").contains("is open in another studio"));

    let (status, pack) = studio.ask("GET", "/api/export/pack", None);
    assert_eq!(status, 200);
    fs::write(folder.path("my.pack"), pack).unwrap();
    folder.done("predict --pack my.pack photos/scene-0002.png -o out --write index");
    let mask = read_index_mask(&folder.path("out/index/scene-0002.png")).unwrap();
    let shown = loop {
        let (status, bytes) = studio.ask("GET", "/api/photos/2/labels?side=128", None);
        match status {
            200 => break bytes,
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let ids: Vec<u16> = shown[12..12 + 128 * 128].iter().map(|id| u16::from(*id)).collect();
    assert_eq!(ids, mask.data, "the page shows what the command line predicts");

    let commands = studio.json("GET", "/api/export/commands", None);
    let register = commands["commands"][0].as_str().unwrap().strip_prefix("protoseg ").unwrap().to_string();
    folder.done(&register.replace("studio.pack", "scripted.pack"));
    folder.done("predict --pack scripted.pack photos/scene-0002.png -o again --write index");
    assert_eq!(read_index_mask(&folder.path("again/index/scene-0002.png")).unwrap(), mask);
}

#[test]
#[cfg(unix)]
fn a_server_stops_when_the_system_asks_and_refuses_to_be_exposed() {
    let folder = Folder::new();
    let mut server = Running::start(&folder, "serve --packs packs --port 0");
    assert_eq!(server.ask("GET", "/health", None).0, 200);
    let number = server.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &number]).status().unwrap().success());
    assert_eq!(server.child.wait().unwrap().code(), Some(0), "a stop is a success");
    let refused = folder.refused("serve --address 0.0.0.0 --port 0");
    assert!(
        refused.contains("needs a name") && refused.contains("hint: ") && refused.contains("--allow-host"),
        "{refused}"
    );
    assert!(folder.refused("studio nowhere").contains("is not a folder"));
}
