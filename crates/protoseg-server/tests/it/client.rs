//! A server in a thread, and requests as bytes.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use protoseg::{Image, Model, core::IdMap, data::reader::scenes::draw_scene, write_image};
use protoseg_server::{ServeOptions, Server, ServerOptions, StudioOptions};
use serde_json::Value;

pub const TOKEN: &str = "a-token-for-tests";

/// A server that stops when it is dropped.
pub struct House {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// An answer.
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}: {}", self.status, self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub fn options() -> ServerOptions {
    let mut options = ServerOptions::default();
    options.token = Some(TOKEN.to_string());
    options
}

impl House {
    pub fn studio(folder: &Path) -> Self {
        Self::run(Server::studio(Model::builtin(), StudioOptions::new(folder), &options()).unwrap())
    }

    pub fn serve(options: &ServeOptions) -> Self {
        Self::run(Server::serve(Model::builtin(), options, &self::options()).unwrap())
    }

    pub fn run(server: Server) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (address, asked) = (server.address(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || server.run(move || asked.load(Ordering::Relaxed)).unwrap());
        Self { address, stop, thread: Some(thread) }
    }

    pub fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends bytes as they are.
    pub fn send(&self, request: &[u8]) -> Reply {
        let mut stream = self.connect();
        // A server that refuses a large body does not read it to the end.
        let _ = stream.write_all(request);
        read_reply(&mut stream)
    }

    /// A request with these headers only, beside its length.
    pub fn bare(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        if !body.is_empty() {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        self.send(&[head.as_bytes(), body].concat())
    }

    /// A request as a program with the token sends it.
    pub fn ask(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> Reply {
        let host = self.address.to_string();
        let token = format!("Bearer {TOKEN}");
        let mut headers = vec![("Host", host.as_str()), ("Authorization", token.as_str())];
        if !kind.is_empty() {
            headers.push(("Content-Type", kind));
        }
        self.bare(method, path, &headers, body)
    }

    pub fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, "", b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask("POST", path, "application/json", body.to_string().as_bytes())
    }

    /// Asks until the answer is no longer "wait".
    pub fn labels(&self, photo: u32, side: usize) -> Labels {
        let start = Instant::now();
        loop {
            let reply = self.get(&format!("/api/photos/{photo}/labels?side={side}"));
            if reply.status == 200 {
                return Labels::read(&reply.body);
            }
            assert_eq!(reply.status, 202, "{}", reply.text());
            assert!(start.elapsed() < Duration::from_secs(60), "no features");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.ask_to_stop();
        self.wait();
    }
}

/// `PSL1`
#[derive(Debug, PartialEq, Eq)]
pub struct Labels {
    pub width: usize,
    pub height: usize,
    pub revision: u32,
    pub ids: Vec<u8>,
    pub rest: Vec<u8>,
}

impl Labels {
    pub fn read(bytes: &[u8]) -> Self {
        assert_eq!(&bytes[..4], b"PSL1");
        let [width, height] = [4, 6].map(|at| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]])));
        let revision = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
        let (ids, rest) = bytes[12..].split_at(width * height);
        Self { width, height, revision, ids: ids.to_vec(), rest: rest.to_vec() }
    }

    pub fn count(&self, id: u8) -> usize {
        self.ids.iter().filter(|own| **own == id).count()
    }
}

pub fn read_reply(stream: &mut TcpStream) -> Reply {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    let end = all.windows(4).position(|part| part == b"\r\n\r\n");
    let Some(end) = end else { return Reply { status: 0, headers: Vec::new(), body: all } };
    let head = String::from_utf8_lossy(&all[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let pair = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_string(), value.to_string()));
    let headers: Vec<(String, String)> = lines.filter_map(pair).collect();
    let body = all[end + 4..].to_vec();
    let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    Reply { status, headers, body: if is_chunked { unchunk(&body) } else { body } }
}

fn unchunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(end) = bytes.windows(2).position(|part| part == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        all.extend_from_slice(&bytes[end + 2..][..length]);
        bytes = &bytes[end + 2 + length + 2..];
        if length == 0 {
            break;
        }
    }
    all
}

/// Scenes with their labels, of which the first few hold one thing in common: its id, and the scenes.
pub fn scenes(count: usize) -> (u16, Vec<(Image, IdMap)>) {
    let mut found = Vec::new();
    let kind = 7;
    for index in 0.. {
        let (image, labels) = draw_scene(3, 160, 120, index);
        if labels.data.iter().filter(|label| **label == kind).count() > 900 {
            found.push((image, labels));
        }
        if found.len() == count {
            break;
        }
    }
    (kind, found)
}

/// Writes scenes as photos: `a.png`, `b.png` ...
pub fn write_photos(folder: &Path, scenes: &[(Image, IdMap)]) {
    for ((image, _), letter) in scenes.iter().zip('a'..) {
        write_image(folder.join(format!("{letter}.png")), image).unwrap();
    }
}

/// A mask as PNG: white where the label is.
pub fn mask_png(labels: &IdMap, id: u16) -> Vec<u8> {
    let values: Vec<u8> = labels.data.iter().map(|&label| if label == id { 255 } else { 0 }).collect();
    protoseg::data::mask::encode_values_png(labels.width, labels.height, &values)
}
