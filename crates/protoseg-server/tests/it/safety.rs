//! What keeps strangers out: each rule has a request that breaks it.

use std::{
    io::{Read, Write},
    net::IpAddr,
    time::{Duration, Instant},
};

use protoseg::Model;
use protoseg_server::{ServeOptions, Server, ServerError, ServerOptions, StudioOptions};

use crate::{
    client::{House, TOKEN, options, read_reply, scenes, write_photos},
    scripts::packed,
};

fn house() -> (tempfile::TempDir, House) {
    let folder = tempfile::tempdir().unwrap();
    write_photos(folder.path(), &scenes(1).1);
    let house = House::studio(folder.path());
    (folder, house)
}

#[test]
fn another_name_for_this_machine_is_not_answered() {
    let (_folder, house) = house();
    let token = format!("Bearer {TOKEN}");
    let port = house.address.port();
    for host in
        ["evil.example", &format!("evil.example:{port}"), "127.0.0.1", &format!("127.0.0.1:{}", port ^ 1)]
    {
        let reply = house.bare("GET", "/api/project", &[("Host", host), ("Authorization", &token)], b"");
        assert_eq!(reply.status, 421, "{host}");
        assert!(!reply.text().contains("classes"));
    }
    let start = house.bare("GET", &format!("/?token={TOKEN}"), &[("Host", "evil.example")], b"");
    assert_eq!((start.status, start.header("set-cookie")), (421, None));
    let local = house.bare(
        "GET",
        "/api/project",
        &[("Host", &format!("localhost:{port}")), ("Authorization", &token)],
        b"",
    );
    assert_eq!(local.status, 200);
}

#[test]
fn a_page_of_another_origin_is_refused() {
    let (_folder, house) = house();
    let (host, token) = (house.address.to_string(), format!("Bearer {TOKEN}"));
    let ask = |method: &str, origin: &str| {
        let headers = [
            ("Host", host.as_str()),
            ("Authorization", &token),
            ("Origin", origin),
            ("Content-Type", "application/json"),
        ];
        house.bare(method, if method == "GET" { "/api/project" } else { "/api/undo" }, &headers, b"{}")
    };
    for origin in ["http://evil.example", "null", "http://localhost:1", "https://evil.example"] {
        for method in ["GET", "POST"] {
            let reply = ask(method, origin);
            assert_eq!(reply.status, 403, "{method} {origin}");
            assert!(reply.header("access-control-allow-origin").is_none());
        }
    }
    assert_eq!(ask("POST", &format!("http://{host}")).status, 409, "nothing to undo, but allowed");
    let preflight =
        house.bare("OPTIONS", "/api/undo", &[("Host", &host), ("Origin", "http://evil.example")], b"");
    assert_eq!(preflight.status, 403);
}

#[test]
fn without_the_token_nothing_is_told() {
    let (_folder, house) = house();
    let host = house.address.to_string();
    for path in [
        "/api/project",
        "/api/photos",
        "/api/photos/1/image",
        "/assets/studio.js",
        "/metrics",
        "/api/export/pack",
    ] {
        for headers in [
            vec![("Host", host.as_str())],
            vec![("Host", host.as_str()), ("Authorization", "Bearer wrong")],
            vec![("Host", host.as_str()), ("Cookie", "protoseg_session=x; protoseg_session_1=y")],
        ] {
            assert_eq!(house.bare("GET", path, &headers, b"").status, 401, "{path} {headers:?}");
        }
    }
    let page = house.bare("GET", "/", &[("Host", &host)], b"");
    assert_eq!(page.status, 401);
    assert!(page.text().contains("<h1>") && page.header("set-cookie").is_none());
    assert_eq!(house.bare("GET", "/?token=wrong", &[("Host", &host)], b"").status, 401);
    let health = house.bare("GET", "/health", &[("Host", &host)], b"");
    assert_eq!((health.status, &health.json()["status"]), (200, &serde_json::json!("UP")));
}

#[test]
fn without_the_token_a_server_of_packs_tells_nothing_either() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::serve(&ServeOptions::new(folder.path()));
    let host = house.address.to_string();
    let headers = [("Host", host.as_str()), ("Content-Type", "application/json")];
    for path in [
        "/",
        "/docs",
        "/openapi.json",
        "/metrics",
        "/api/v1/models",
        "/api/v1/packs",
        "/api/v1/packs/my/file",
        "/api/functions",
    ] {
        assert_eq!(house.bare("GET", path, &headers, b"").status, 401, "{path}");
    }
    for path in [
        "/api/v1/predict",
        "/api/v1/packs/my/file",
        "/api/v1/packs/my/classes/duck/supports",
        "/setup",
        "/predict",
        "/webhook",
        "/api/function_invocations",
    ] {
        assert_eq!(house.bare("POST", path, &headers, b"{}").status, 401, "{path}");
    }
}

#[test]
fn the_token_becomes_a_strict_cookie() {
    let (_folder, house) = house();
    let host = house.address.to_string();
    let start = house.bare("GET", &format!("/?token={TOKEN}"), &[("Host", &host)], b"");
    assert_eq!((start.status, start.header("location")), (303, Some("/")));
    let cookie = start.header("set-cookie").unwrap();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/") && !cookie.contains(TOKEN), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    let page = house.bare("GET", "/", &[("Host", &host), ("Cookie", pair)], b"");
    assert_eq!(page.status, 200);
    assert_eq!(house.bare("GET", "/api/project", &[("Host", &host), ("Cookie", pair)], b"").status, 200);
}

#[test]
fn answers_tell_browsers_to_be_careful() {
    let (_folder, house) = house();
    for path in ["/", "/api/project", "/nowhere", "/api/photos/1/image?side=64"] {
        let reply = house.get(path);
        let policy = reply.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'self';") && policy.contains("frame-ancestors 'none'"),
            "{path}"
        );
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(reply.header("cross-origin-resource-policy"), Some("same-origin"));
        assert!(reply.header("access-control-allow-origin").is_none());
    }
    assert_eq!(house.get("/api/project").header("cache-control"), Some("no-store"));
}

#[test]
fn a_form_cannot_change_anything() {
    let (_folder, house) = house();
    for kind in ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let reply = house.ask("POST", "/api/classes", kind, br#"{"name":"duck"}"#);
        assert_eq!(reply.status, 415, "{kind}");
    }
    assert_eq!(house.get("/api/project").json()["classes"].as_array().unwrap().len(), 0);
}

#[test]
fn no_path_leads_out_of_the_folder() {
    let (_folder, house) = house();
    for path in [
        "/assets/../Cargo.toml",
        "/assets/..%2f..%2fCargo.toml",
        "/assets/%2e%2e/x",
        "/../etc/passwd",
        "//etc/passwd",
        "/api/photos/..%2f..%2fetc%2fpasswd/image",
        "/api/photos/1%2f../image",
        "/api/photos/-1/image",
        "/api/photos/99999/image",
        "/api/photos/4294967296/image",
        "/api/export/..%2fproject.json",
        "/protoseg-studio/project.json",
    ] {
        let reply = house.get(path);
        assert!((400..500).contains(&reply.status), "{path}: {}", reply.status);
        assert!(!reply.text().contains("root:") && !reply.text().contains("[package]"), "{path}");
    }
    let reply = house.ask("POST", "/api/photos", "image/png", b"no picture");
    assert_eq!(reply.status, 422);
}

/// A PNG whose header claims this size.
fn claimed(width: u32, height: u32) -> Vec<u8> {
    let mut png = protoseg::data::mask::encode_values_png(4, 4, &[7; 16]);
    png[16..20].copy_from_slice(&width.to_be_bytes());
    png[20..24].copy_from_slice(&height.to_be_bytes());
    let check = crc(&png[12..29]);
    png[29..33].copy_from_slice(&check.to_be_bytes());
    png
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

#[test]
fn a_bomb_is_not_unpacked() {
    let (_folder, house) = house();
    let start = Instant::now();
    for (width, height) in [(60_000, 60_000), (9_000, 8_000), (200_000, 3), (u32::MAX, u32::MAX)] {
        let reply = house.ask("POST", "/api/photos", "image/png", &claimed(width, height));
        assert_eq!(reply.status, 422, "{width} x {height}: {}", reply.text());
    }
    house.post("/api/classes", &serde_json::json!({ "name": "duck" }));
    let reply = house.ask("POST", "/api/photos/1/masks?class=1", "image/png", &claimed(60_000, 60_000));
    assert_eq!(reply.status, 422);
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(house.get("/api/photos").json()["total"], 1);
}

/// Files of other formats whose headers claim more pixels than are taken.
fn other_bombs() -> Vec<(&'static str, Vec<u8>)> {
    let small = protoseg::Image::new(8, 8, vec![90; 8 * 8 * 3]);
    let mut jpeg = protoseg::data::picture::encode_jpeg(&small).unwrap();
    // The frame's header: marker, length and precision, then height and width.
    let frame = jpeg.windows(2).position(|pair| pair == [0xFF, 0xC0] || pair == [0xFF, 0xC2]).unwrap();
    jpeg[frame + 5..frame + 9].fill(0xFF);
    // A frame as large as the whole, and two pixels of it.
    let frame = [&b","[..], &[0; 4], &[0xFF; 4], &[0, 2, 2, 0x4C, 1, 0]].concat();
    let gif = [&b"GIF89a"[..], &[0xFF; 4], &[0x80, 0, 0], &[0; 6], &frame, b";"].concat();
    // Width and height less one, of 14 bits each.
    let lossless = [&[0x2F][..], &(0x3FFE_u32 | 0x3FFE << 14).to_le_bytes(), &[0; 5]].concat();
    let webp = [&b"RIFF"[..], &22u32.to_le_bytes(), b"WEBPVP8L", &10u32.to_le_bytes(), &lossless].concat();
    let size = 60_000i32.to_le_bytes();
    let bmp = [
        &b"BM"[..],
        &[0; 8],
        &54u32.to_le_bytes(),
        &40u32.to_le_bytes(),
        &size,
        &size,
        &[1, 0, 24, 0],
        &[0; 24],
    ]
    .concat();
    let ppm = b"P6 60000 60000 255\n".to_vec();
    vec![
        ("image/jpeg", jpeg),
        ("image/gif", gif),
        ("image/webp", webp),
        ("image/bmp", bmp),
        ("image/x-portable-pixmap", ppm),
    ]
}

#[test]
fn a_bomb_of_another_format_is_not_unpacked_either() {
    let (_folder, house) = house();
    let start = Instant::now();
    for (kind, bomb) in other_bombs() {
        let reply = house.ask("POST", "/api/photos", kind, &bomb);
        assert_eq!(reply.status, 422, "{kind}: {}", reply.text());
        assert!(reply.text().contains("expected at most"), "{kind}: {}", reply.text());
    }
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(house.get("/api/photos").json()["total"], 1);
}

#[test]
fn a_bomb_that_lies_in_the_folder_is_not_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bomb.png"), claimed(60_000, 60_000)).unwrap();
    let start = Instant::now();
    let house = House::studio(folder.path());
    for path in ["/api/photos/1/image?side=64", "/api/photos/1/image"] {
        assert_eq!(house.get(path).status, 422, "{path}");
    }
    while house.get("/api/photos").json()["photos"][0]["features"] != "failed" {
        assert!(start.elapsed() < Duration::from_secs(30), "it is looked at");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_of_packs_unpacks_no_bomb() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::serve(&ServeOptions::new(folder.path()));
    let bomb = claimed(60_000, 60_000);
    let start = Instant::now();
    assert_eq!(house.ask("POST", "/api/v1/predict", "image/png", &bomb).status, 422);
    let small = protoseg::data::mask::encode_values_png(4, 4, &[255; 16]);
    let supports = "/api/v1/packs/my/classes/duck/supports";
    for (image, mask) in [(&bomb, &small), (&small, &bomb)] {
        let body = serde_json::json!({ "image": packed(image), "mask": packed(mask), "name": "a.png" });
        assert_eq!(house.post(supports, &body).status, 422);
    }
    let (host, token) = (house.address.to_string(), format!("Bearer {TOKEN}"));
    let headers = [
        ("Host", host.as_str()),
        ("Authorization", &token),
        ("Content-Type", "application/json"),
        ("x-nuclio-function-name", "protoseg-detector"),
    ];
    let body = serde_json::json!({ "image": packed(&bomb) }).to_string();
    assert_eq!(house.bare("POST", "/api/function_invocations", &headers, body.as_bytes()).status, 422);
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(house.get("/api/v1/packs").json(), serde_json::json!([]));
}

#[test]
fn a_server_of_packs_refuses_two_gigabytes() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::serve(&ServeOptions::new(folder.path()));
    for (path, kind) in [
        ("/api/v1/predict", "image/png"),
        ("/api/v1/packs/my/file", "application/octet-stream"),
        ("/api/v1/packs/my/classes/duck/supports", "application/json"),
        ("/setup", "application/json"),
        ("/predict", "application/json"),
        ("/webhook", "application/json"),
        ("/api/function_invocations", "application/json"),
    ] {
        let mut stream = house.connect();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: {kind}\r\n\
             x-nuclio-function-name: protoseg-detector\r\nContent-Length: 2147483648\r\n\r\n",
            house.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        assert_eq!(read_reply(&mut stream).status, 413, "{path}");
    }
}

#[test]
fn labels_of_too_many_photos_are_refused() {
    let (_folder, house) = house();
    let ask = |count: usize| {
        let photos = vec!["1"; count].join(",");
        house.get(&format!("/api/labels?side=64&photos={photos}")).status
    };
    assert_eq!((ask(64), ask(65)), (200, 400));
}

#[test]
fn two_gigabytes_are_refused_before_they_are_sent() {
    let (_folder, house) = house();
    let head = |path: &str, kind: &str, length: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: {kind}\r\n{length}\r\n\r\n",
            house.address
        )
    };
    for (path, kind) in [
        ("/api/photos", "image/png"),
        ("/api/classes", "application/json"),
        ("/api/photos/1/strokes", "application/json"),
    ] {
        let mut stream = house.connect();
        stream.write_all(head(path, kind, "Content-Length: 2147483648").as_bytes()).unwrap();
        let start = Instant::now();
        assert_eq!(read_reply(&mut stream).status, 413, "{path}");
        assert!(start.elapsed() < Duration::from_secs(5));
    }
    // Without a length, it is refused when it becomes too long.
    let mut stream = house.connect();
    stream
        .write_all(head("/api/classes", "application/json", "Transfer-Encoding: chunked").as_bytes())
        .unwrap();
    let chunk = [b"100000\r\n".to_vec(), vec![b' '; 1 << 20], b"\r\n".to_vec()].concat();
    for _ in 0..64 {
        if stream.write_all(&chunk).is_err() {
            break;
        }
    }
    let reply = read_reply(&mut stream);
    assert!(matches!(reply.status, 0 | 413), "{}", reply.status);
    assert_eq!(house.get("/api/project").status, 200, "it still answers");
}

#[test]
fn slow_clients_and_broken_bodies_keep_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    write_photos(folder.path(), &scenes(1).1);
    let mut options = options();
    options.patience = Duration::from_millis(400);
    let house =
        House::run(Server::studio(Model::builtin(), StudioOptions::new(folder.path()), &options).unwrap());
    let mut slow_head = house.connect();
    slow_head.write_all(b"GET / HTTP/1.1\r\nHost: x").unwrap();
    let mut slow_body = house.connect();
    let head = format!(
        "POST /api/classes HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        house.address
    );
    slow_body.write_all(head.as_bytes()).unwrap();
    let start = Instant::now();
    let mut rest = Vec::new();
    let _ = slow_head.read_to_end(&mut rest);
    assert_eq!(read_reply(&mut slow_body).status, 408);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let mut broken = house.connect();
    broken.write_all(head.as_bytes()).unwrap();
    broken.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(matches!(read_reply(&mut broken).status, 0 | 400));
    for nonsense in [&b"\0\0\0\0\r\n\r\n"[..], b"GET\r\n\r\n", b"POST / HTTP/9\r\n\r\n"] {
        assert!(matches!(house.send(nonsense).status, 0 | 400 | 505), "{nonsense:?}");
    }
    for body in ["", "[]", "{\"name\":1}", "{\"name\":\"a\",\"x\":1}", "{\"name\":\"\\u001b\"}", "\u{7f}"] {
        let reply = house.ask("POST", "/api/classes", "application/json", body.as_bytes());
        assert!((400..500).contains(&reply.status), "{body}: {}", reply.status);
    }
    assert_eq!(house.get("/api/project").status, 200);
}

#[test]
fn without_further_words_a_server_listens_on_loopback_only_and_has_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let packs = ServeOptions::new(folder.path());
    let server = Server::serve(Model::builtin(), &packs, &ServerOptions::default()).unwrap();
    assert_eq!(server.address().ip(), IpAddr::from([127, 0, 0, 1]));
    assert_eq!(server.token().map(str::len), Some(32));
    let house = House::run(server);
    assert_eq!(house.get("/api/v1/packs").status, 401, "the token is a random one");
    // All of 127.0.0.0/8 is this machine, but only there.
    #[cfg(target_os = "linux")]
    assert!(std::net::TcpStream::connect(("127.0.0.2", house.address.port())).is_err());
}

#[test]
fn a_server_that_others_reach_is_told_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options();
    options.address = IpAddr::from([0, 0, 0, 0]);
    options.hosts = vec!["Studio.LAN".into(), "other.lan".into()];
    let server = Server::serve(Model::builtin(), &ServeOptions::new(folder.path()), &options).unwrap();
    let port = server.address().port();
    assert_eq!(server.url(), format!("http://studio.lan:{port}/?token={TOKEN}"));
    let house = House::run(server);
    let token = format!("Bearer {TOKEN}");
    for host in ["studio.lan", "Studio.LAN", &format!("STUDIO.lan:{port}"), &format!("other.lan:{port}")] {
        let reply = house.bare("GET", "/api/v1/packs", &[("Host", host), ("Authorization", &token)], b"");
        assert_eq!(reply.status, 200, "{host}");
    }
    let host = format!("0.0.0.0:{port}");
    assert_eq!(house.bare("GET", "/health", &[("Host", &host)], b"").status, 421);
}

#[test]
fn others_reach_a_server_only_by_a_name_and_with_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let open = |change: &dyn Fn(&mut protoseg_server::ServerOptions)| {
        let mut options = options();
        change(&mut options);
        Server::serve(Model::builtin(), &ServeOptions::new(folder.path()), &options).map(drop)
    };
    let everywhere = IpAddr::from([0, 0, 0, 0]);
    assert!(matches!(open(&|options| options.address = everywhere), Err(ServerError::Exposed { .. })));
    let without = open(&|options| {
        options.address = everywhere;
        options.hosts = vec!["studio.lan".into()];
        options.token = None;
        options.without_token = true;
    });
    assert!(matches!(without, Err(ServerError::Exposed { .. })));
    assert!(matches!(
        open(&|options| options.token = Some("short".into())),
        Err(ServerError::WeakToken { got: 5 })
    ));
    let allowed = open(&|options| {
        options.address = everywhere;
        options.hosts = vec!["studio.lan".into()];
    });
    assert!(allowed.is_ok());
    assert!(open(&|_| ()).is_ok());
}

#[test]
fn a_server_that_is_asked_to_stop_finishes_what_is_in_work() {
    let (_folder, mut house) = house();
    let body = br#"{"name":"duck"}"#;
    let head = format!(
        "POST /api/classes HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        house.address,
        body.len()
    );
    let mut stream = house.connect();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body[..5]).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    house.ask_to_stop();
    std::thread::sleep(Duration::from_millis(300));
    stream.write_all(&body[5..]).unwrap();
    assert_eq!(read_reply(&mut stream).status, 201);
    house.wait();
    assert!(std::net::TcpStream::connect(house.address).is_err(), "nobody listens any more");
}
