//! One file from the web to its place. It arrives in a part beside its place, so that a broken download goes on where it
//! ended, and takes its place only when it is whole, has the right sum and begins like weights.

use std::{
    env,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use protoseg_data::{open_regular, read_text, write_atomic};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use ureq::{
    Agent, Body,
    http::{HeaderMap, Response, Uri},
};

use crate::output::{self, progress::Bar, units};

/// No weights are larger.
const MAX_BYTES: u64 = 8 << 30;
const MAX_REDIRECTS: usize = 8;
const CONNECT: Duration = Duration::from_secs(20);
/// A server that sends nothing for so long has gone away.
const STALL: Duration = Duration::from_secs(60);
/// The JSON at the beginning of a safetensors file is never longer.
const MAX_HEADER: u64 = 100 << 20;
/// Files of PyTorch begin like a zip, older ones with this number in a pickle.
const ZIP: &[u8] = b"PK\x03\x04";
const LEGACY: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19";

/// Why a file did not come.
#[derive(Debug)]
pub enum Failure {
    /// The server wants to know who asks: its status.
    Refused(u16),
    Failed(String),
}

/// Where a file comes from.
pub struct Source {
    pub url: String,
    /// Shown to the server of `url` and to no other.
    pub token: Option<String>,
    /// The sum it must have, or the beginning of it.
    pub sha256: Option<&'static str>,
}

/// What is known of a file. Beside a part, what the server announced; beside a whole file, what came.
#[derive(Serialize, Deserialize, Default, PartialEq, Debug)]
pub struct Record {
    url: String,
    bytes: Option<u64>,
    pub sha256: Option<String>,
    /// The server's own mark of this version of the file.
    etag: Option<String>,
}

impl Record {
    fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).expect("a record is plain data");
        write_atomic(path, text.as_bytes()).map_err(|error| Failure::Failed(first_line(&error)))
    }

    fn read(path: &Path) -> Option<Self> {
        serde_json::from_str(&read_text(path).ok()?).ok()
    }

    /// What was written when the file at `place` came; nothing if someone else put it there.
    pub fn of(place: &Path) -> Option<Self> {
        Self::read(&beside(place, "json"))
    }

    /// What the server announced of a file of which a part is here.
    pub fn of_part(place: &Path) -> Option<Self> {
        Self::read(&beside(place, "part.json")).filter(|_| beside(place, "part").is_file())
    }

    /// Whether both can be the same version of a file.
    fn agrees(&self, other: &Self) -> bool {
        let differ = |a: Option<&str>, b: Option<&str>| a.zip(b).is_some_and(|(a, b)| a != b);
        let sizes_differ = self.bytes.zip(other.bytes).is_some_and(|(a, b)| a != b);
        !sizes_differ && !differ(self.sha256.as_deref(), other.sha256.as_deref())
    }
}

/// Brings a file to its place. The caller holds the lock of the place.
pub fn download(source: &Source, place: &Path) -> Result<(), Failure> {
    let (part, notes) = (beside(place, "part"), beside(place, "part.json"));
    let begun = Record::of_part(place).filter(|begun| begun.url == source.url);
    let have = begun.as_ref().map_or(0, |_| fs::metadata(&part).map_or(0, |part| part.len()));
    let record = match begun {
        // Stopped between its last byte and its place.
        Some(begun) if begun.bytes == Some(have) => begun,
        begun => receive(source, place, begun, have)?,
    };
    let sum = check(&part, source, &record).inspect_err(|_| forget(place))?;
    Record { bytes: fs::metadata(&part).ok().map(|part| part.len()), sha256: Some(sum), ..record }
        .write(&beside(place, "json"))?;
    fs::rename(&part, place).map_err(|error| cannot("write", place, &error))?;
    let _ = fs::remove_file(notes);
    // Not every system lets a folder be opened.
    if let Some(Ok(folder)) = place.parent().map(File::open) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// The sum of a file.
pub fn sha256_of(path: &Path) -> io::Result<String> {
    let mut file = open_regular(path)?;
    let (mut sum, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(format!("{:x}", sum.finalize())),
            n => sum.update(&buffer[..n]),
        }
    }
}

/// `model.safetensors.ENDING`.
fn beside(place: &Path, ending: &str) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!("{name}.{ending}"))
}

/// Nobody goes on with a part that is wrong.
fn forget(place: &Path) {
    let _ = fs::remove_file(beside(place, "part"));
    let _ = fs::remove_file(beside(place, "part.json"));
}

/// Asks for what is missing and adds it to the part.
fn receive(source: &Source, place: &Path, begun: Option<Record>, have: u64) -> Result<Record, Failure> {
    let (response, record) = ask(source, have, begun.as_ref().and_then(|begun| begun.etag.as_deref()))?;
    let start = match response.status().as_u16() {
        // The whole file, asked for or not: this server cannot go on in the middle, or has another version by now.
        200 => 0,
        206 if range_start(response.headers()) == Some(have)
            && begun.is_some_and(|begun| begun.agrees(&record)) =>
        {
            have
        }
        206 | 416 => {
            forget(place);
            return failed(
                "the file on the server has changed since its first part came; the part is deleted",
            );
        }
        _ => return failed(format!("the server answered {}", response.status())),
    };
    match record.bytes {
        Some(bytes) if bytes > MAX_BYTES => {
            return failed(format!("the server announces {}", units::bytes(bytes)));
        }
        None if record.sha256.is_none() && source.sha256.is_none() => {
            return failed(
                "the server announces neither a size nor a sum, so nobody could tell a part from the whole",
            );
        }
        _ => {}
    }
    if start == 0 {
        forget(place);
    } else {
        output::note(format_args!("going on after {}", units::bytes(start)));
    }
    record.write(&beside(place, "part.json"))?;
    let most = record.bytes.unwrap_or(MAX_BYTES);
    let done = add(response.into_body(), &beside(place, "part"), start, most)?;
    match record.bytes {
        Some(bytes) if done > bytes => {
            forget(place);
            failed(format!("the server sends more than the {bytes} bytes that it announced"))
        }
        None if done > MAX_BYTES => {
            forget(place);
            failed(format!("the server sends more than {}", units::bytes(MAX_BYTES)))
        }
        Some(bytes) if done < bytes => failed(format!("the answer ended after {done} of {bytes} bytes")),
        _ => Ok(record),
    }
}

/// Adds an answer to a part of `start` bytes. Returns how long the part is then; more than `most` if there is more.
fn add(body: Body, part: &Path, start: u64, most: u64) -> Result<u64, Failure> {
    let writing = |error: io::Error| cannot("write", part, &error);
    let mut file = OpenOptions::new().create(true).append(true).open(part).map_err(writing)?;
    let bar = Bar::new("MiB");
    let (mut body, mut buffer, mut done) = (body.into_reader(), vec![0; 1 << 16], start);
    while done <= most {
        let n = body.read(&mut buffer).map_err(|error| Failure::Failed(words(&error.into())))?;
        if n == 0 {
            break;
        }
        file.write_all(&buffer[..n]).map_err(writing)?;
        done += n as u64;
        bar.show((done >> 20) as usize, (most >> 20) as usize);
    }
    file.sync_all().map_err(writing)?;
    Ok(done)
}

/// Follows redirects to an answer. What the source's own server says of size and sum counts: others serve its bytes, and
/// mark them in their own ways.
fn ask(source: &Source, have: u64, etag: Option<&str>) -> Result<(Response<Body>, Record), Failure> {
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_resolve(Some(CONNECT))
        .timeout_connect(Some(CONNECT))
        .timeout_per_read(Some(stall()))
        .timeout_per_write(Some(stall()))
        .user_agent(concat!("protoseg/", env!("CARGO_PKG_VERSION")))
        // Parts of a packed answer are not parts of the file.
        .accept_encoding("identity")
        .build()
        .into();
    let own: Uri = source.url.parse().or_else(|_| failed(format!("`{}` is not an address", source.url)))?;
    let (mut url, mut linked) = (own.clone(), Record { url: source.url.clone(), ..Record::default() });
    for _ in 0..=MAX_REDIRECTS {
        let mut request = agent.get(url.clone());
        let is_own = origin(&url) == origin(&own);
        if let Some(token) = source.token.as_ref().filter(|_| is_own) {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if have > 0 {
            request = request.header("Range", format!("bytes={have}-"));
            if let Some(etag) = etag {
                request = request.header("If-Range", etag);
            }
        }
        let response = request.call().map_err(|error| Failure::Failed(words(&error)))?;
        if let status @ (401 | 403) = response.status().as_u16()
            && is_own
        {
            return Err(Failure::Refused(status));
        }
        let headers = response.headers();
        if is_own {
            let sum = sum_of(headers, "x-linked-etag").or_else(|| sum_of(headers, "etag"));
            linked.sha256 = linked.sha256.or(sum);
            linked.bytes = linked.bytes.or_else(|| text(headers, "x-linked-size")?.parse().ok());
        }
        if !response.status().is_redirection() {
            let bytes = match response.status().as_u16() {
                206 => range_total(headers),
                _ => text(headers, "content-length").and_then(|length| length.parse().ok()),
            };
            let is_file = response.status().is_success();
            if let Some((linked, bytes)) = linked.bytes.zip(bytes).filter(|(a, b)| is_file && a != b) {
                return failed(format!("the server announces {linked} bytes and then {bytes}"));
            }
            // Weak marks are of no use in If-Range.
            let etag = text(headers, "etag").filter(|etag| etag.starts_with('"')).map(str::to_string);
            return Ok((response, Record { bytes: linked.bytes.or(bytes), etag, ..linked }));
        }
        let next = text(headers, "location").and_then(|location| joined(&url, location).parse::<Uri>().ok());
        let Some(next) = next else {
            return failed("the server leads on without saying where");
        };
        if url.scheme_str() == Some("https") && next.scheme_str() != Some("https") {
            return failed("the server leads from https to an address without encryption");
        }
        url = next;
    }
    failed("the server leads on and on")
}

/// Weights as they begin, with the right sum. Returns the sum.
fn check(part: &Path, source: &Source, record: &Record) -> Result<String, Failure> {
    let reading = |error: io::Error| cannot("read", part, &error);
    if let Some(kind) = other_kind(part).map_err(reading)? {
        return failed(format!("what the server sent is {kind}"));
    }
    let sum = sha256_of(part).map_err(reading)?;
    match differs(&sum, &[source.sha256, record.sha256.as_deref()]) {
        Some(words) => failed(format!("what came has {words}")),
        None => Ok(sum),
    }
}

/// What is wrong with a sum, if it is not each of the expected ones or does not begin like it.
pub fn differs(sum: &str, expected: &[Option<&str>]) -> Option<String> {
    let expected = expected.iter().flatten().find(|expected| !sum.starts_with(**expected))?;
    let begins = if expected.len() < sum.len() { "one that begins with " } else { "" };
    Some(format!("the sha256 {sum}, expected {begins}{expected}"))
}

/// What a file is, if its beginning is not that of weights.
pub fn other_kind(path: &Path) -> io::Result<Option<&'static str>> {
    let length = fs::metadata(path)?.len();
    let mut start = Vec::new();
    open_regular(path)?.take(512).read_to_end(&mut start)?;
    Ok(match start.trim_ascii_start().first() {
        _ if is_weights(&start, length) => None,
        Some(b'<') => Some("a web page instead of weights"),
        _ => Some("neither safetensors nor a file of PyTorch"),
    })
}

/// Whether a file of this length may be safetensors or of PyTorch.
fn is_weights(start: &[u8], length: u64) -> bool {
    let is_safetensors = || {
        let (header, rest) = start.split_first_chunk::<8>()?;
        let header = u64::from_le_bytes(*header);
        Some(rest.first() == Some(&b'{') && header <= MAX_HEADER && header + 8 <= length)
    };
    start.starts_with(ZIP) || start.starts_with(LEGACY) || is_safetensors() == Some(true)
}

/// How long to wait for a byte. Tests do not wait for a minute.
fn stall() -> Duration {
    let given = env::var("PROTOSEG_WEIGHTS_STALL").ok().and_then(|seconds| seconds.parse().ok());
    given.map_or(STALL, Duration::from_secs)
}

/// Scheme, host and port: to another of these no token goes.
fn origin(url: &Uri) -> (Option<&str>, Option<&str>, Option<u16>) {
    (url.scheme_str(), url.host(), url.port_u16())
}

/// The address that a redirect names.
fn joined(from: &Uri, location: &str) -> String {
    let (scheme, authority) =
        (from.scheme_str().unwrap_or("https"), from.authority().map_or("", |it| it.as_str()));
    let has_scheme = |(scheme, _): (&str, &str)| scheme.chars().all(|c| c.is_ascii_alphanumeric());
    if location.split_once("://").is_some_and(has_scheme) {
        location.to_string()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{location}")
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// A header that holds a sha256; the marks of small files are shorter.
fn sum_of(headers: &HeaderMap, name: &str) -> Option<String> {
    let mark = text(headers, name)?.trim_start_matches("W/").trim_matches('"');
    let is_sum = mark.len() == 64 && mark.chars().all(|c| c.is_ascii_hexdigit());
    is_sum.then(|| mark.to_lowercase())
}

/// FIRST of `Content-Range: bytes FIRST-LAST/TOTAL`.
fn range_start(headers: &HeaderMap) -> Option<u64> {
    text(headers, "content-range")?.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

/// TOTAL of `Content-Range: bytes FIRST-LAST/TOTAL`.
fn range_total(headers: &HeaderMap) -> Option<u64> {
    text(headers, "content-range")?.rsplit_once('/')?.1.parse().ok()
}

/// What went wrong on the way.
fn words(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
            format!("no connection within {}", units::duration(CONNECT))
        }
        ureq::Error::Timeout(_) => format!("the server sent nothing for {}", units::duration(stall())),
        ureq::Error::HostNotFound => "its host is not found".to_string(),
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the connection broke".to_string()
        }
        ureq::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

fn failed<T>(reason: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Failed(reason.into()))
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("cannot {verb} `{}`: {error}", path.display()))
}

/// Our errors bring a hint of their own, and there is one already.
fn first_line(error: &dyn std::error::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_known_by_their_beginning() {
        let header = |length: u64, rest: &[u8]| [&length.to_le_bytes()[..], rest].concat();
        assert!(is_weights(&header(2, b"{}"), 10));
        assert!(is_weights(b"PK\x03\x04...", 7));
        assert!(is_weights(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02", 17), "PyTorch before 1.6");
        assert!(!is_weights(b"\x80\x02}q\x00.", 6), "another pickle");
        assert!(!is_weights(&header(2, b"{}"), 9), "cut short");
        assert!(!is_weights(&header(2, b"[]"), 10));
        assert!(!is_weights(&header(u64::MAX, b"{}"), 10), "no length of a header");
        assert!(!is_weights(b"<!DOCTYPE html><html>", 21));
        assert!(!is_weights(b"", 0));
        // What Git keeps in the place of a large file.
        assert!(!is_weights(b"version https://git-lfs.github.com/spec/v1", 42));
    }

    #[test]
    fn a_redirect_leads_where_it_says() {
        let from: Uri = "https://hub.co/a/resolve/main/model.safetensors".parse().unwrap();
        let to = |location| joined(&from, location);
        assert_eq!(to("http://cdn.co:8/x?y=//z"), "http://cdn.co:8/x?y=//z");
        assert_eq!(to("//cdn.co/x"), "https://cdn.co/x");
        assert_eq!(to("/api/x"), "https://hub.co/api/x");
        assert_eq!(to("/api/x?from=https://y"), "https://hub.co/api/x?from=https://y");
        assert_eq!(to("other"), "https://hub.co/a/resolve/main/other");
        let origin = |url: &str| format!("{:?}", origin(&url.parse().unwrap()));
        assert_eq!(origin("https://hub.co/a"), origin("https://hub.co/b?c"));
        for other in ["http://hub.co/a", "https://hub.co:8443/a", "https://hub.co.evil.com/a"] {
            assert_ne!(origin("https://hub.co/a"), origin(other));
        }
    }

    #[test]
    fn sums_and_ranges_are_read_from_headers() {
        let sum = "0123456789abcdef".repeat(4);
        let mut headers = HeaderMap::new();
        headers.insert("x-linked-etag", format!("\"{}\"", sum.to_uppercase()).parse().unwrap());
        headers.insert("etag", "\"d41d8cd98f00b204e9800998ecf8427e\"".parse().unwrap());
        headers.insert("content-range", "bytes 100-299/300".parse().unwrap());
        assert_eq!(sum_of(&headers, "x-linked-etag"), Some(sum));
        assert_eq!(sum_of(&headers, "etag"), None);
        assert_eq!((range_start(&headers), range_total(&headers)), (Some(100), Some(300)));
        headers.insert("content-range", "bytes */300".parse().unwrap());
        assert_eq!((range_start(&headers), range_total(&headers)), (None, Some(300)));
    }

    #[test]
    fn a_sum_is_compared_with_whole_ones_and_with_beginnings() {
        let sum = "0123456789abcdef".repeat(4);
        assert_eq!(differs(&sum, &[None, None]), None);
        assert_eq!(differs(&sum, &[Some("01234567"), Some(&sum)]), None);
        let words = differs(&sum, &[Some("01234567"), Some("01234568")]).unwrap();
        assert_eq!(words, format!("the sha256 {sum}, expected one that begins with 01234568"));
        let other = "0".repeat(64);
        assert!(differs(&sum, &[Some(&other)]).unwrap().ends_with(&format!("expected {other}")));
    }

    #[test]
    fn the_sum_of_a_file_is_the_published_one_of_abc() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("abc"), b"abc").unwrap();
        // FIPS 180-2, appendix B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_of(&folder.path().join("abc")).unwrap(), expected);
    }
}
