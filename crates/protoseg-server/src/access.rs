//! Who may ask: the exact Host, a same-origin Origin, a token or the cookie that it was changed for, and a content type
//! that no form of another page can send.
//!
//! A page that a browser shows could send requests to a server on the same machine. It cannot read this server's token;
//! its own Origin is refused; a name that was pointed at this machine (DNS rebinding) is not in the list of hosts.

use axum::http::{HeaderMap, Method, StatusCode, header};
use base64::Engine;

use crate::error::Failure;

/// The rules of one server.
#[derive(Clone, Debug)]
pub struct Access {
    token: Option<String>,
    session: String,
    cookie: String,
    hosts: Vec<String>,
}

impl Access {
    /// For a server on `port`, with the names that it may be called beside those of loopback.
    pub fn new(token: Option<String>, port: u16, more_hosts: &[String]) -> Result<Self, getrandom::Error> {
        let mut hosts: Vec<String> = Vec::new();
        let more_hosts: Vec<String> = more_hosts.iter().map(|name| name.to_ascii_lowercase()).collect();
        let loopback = ["127.0.0.1", "localhost", "[::1]"].map(str::to_string);
        for name in loopback.iter().chain(&more_hosts) {
            if port == 80 || more_hosts.contains(name) {
                hosts.push(name.clone());
            }
            hosts.push(format!("{name}:{port}"));
        }
        Ok(Self { token, session: secret()?, cookie: format!("protoseg_session_{port}"), hosts })
    }

    /// Whether `token` is the one of the start address.
    pub fn is_token(&self, token: &str) -> bool {
        self.token.as_deref().is_none_or(|own| is_same(own, token))
    }

    /// The cookie that a token is changed for.
    pub fn set_cookie(&self) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie, self.session)
    }

    /// Refuses a Host that is not in the list, and an Origin that is not this server's.
    pub fn check_origin(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
        if hosts.next().is_some() || !self.hosts.contains(&host) {
            let error = format!("host `{host}` is not one of this server's");
            return Err(Failure::new(StatusCode::MISDIRECTED_REQUEST, error).hint("use the printed address"));
        }
        for origin in headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
            let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            if authority != Some(host.as_str()) {
                let error = format!("origin `{origin}` is another page's");
                return Err(Failure::new(StatusCode::FORBIDDEN, error));
            }
        }
        Ok(())
    }

    /// Refuses who shows neither the token nor the cookie.
    pub fn check_token(&self, headers: &HeaderMap) -> Result<(), Failure> {
        if self.token.is_none() || self.has_cookie(headers) || self.shows_token(headers) {
            return Ok(());
        }
        let error = "the token is missing or wrong";
        Err(Failure::new(StatusCode::UNAUTHORIZED, error).hint("use the printed address, with its token"))
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && is_same(value, &self.session))
    }

    /// As a bearer, or as the password of basic authentication, which annotation tools can send.
    fn shows_token(&self, headers: &HeaderMap) -> bool {
        let Some(shown) = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()) else {
            return false;
        };
        let Some((kind, value)) = shown.split_once(' ') else { return false };
        match kind.to_ascii_lowercase().as_str() {
            "bearer" => self.is_token(value.trim()),
            "basic" => {
                let decoded =
                    base64::engine::general_purpose::STANDARD.decode(value.trim()).unwrap_or_default();
                let text = String::from_utf8(decoded).unwrap_or_default();
                text.split_once(':').is_some_and(|(_, password)| self.is_token(password))
            }
            _ => false,
        }
    }
}

/// Refuses a change whose content type a form of another page could send.
pub fn check_content_type(method: &Method, headers: &HeaderMap) -> Result<(), Failure> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if kind == "application/json" || kind == "application/octet-stream" || kind.starts_with("image/") {
        return Ok(());
    }
    let error = format!("content type `{kind}` is not taken");
    Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error)
        .hint("send `application/json`, or `image/*` or `application/octet-stream` for files"))
}

/// 32 hexadecimal digits that nobody can guess.
pub fn secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in a time that does not tell how much is right.
fn is_same(a: &str, b: &str) -> bool {
    blake3::hash(a.as_bytes()) == blake3::hash(b.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn access() -> Access {
        Access::new(Some("secret".into()), 8000, &["Studio.LAN".into()]).unwrap()
    }

    #[test]
    fn only_exact_hosts_are_answered() {
        for host in [
            "127.0.0.1:8000",
            "localhost:8000",
            "[::1]:8000",
            "LOCALHOST:8000",
            "studio.lan",
            "studio.lan:8000",
        ] {
            assert!(access().check_origin(&headers(&[("host", host)])).is_ok(), "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1", "localhost:8001", "localhost:8000.evil.example", "", "a.studio.lan"]
        {
            assert_eq!(
                access().check_origin(&headers(&[("host", host)])).unwrap_err().status(),
                421,
                "{host}"
            );
        }
        let twice = headers(&[("host", "localhost:8000"), ("host", "evil.example")]);
        assert!(access().check_origin(&twice).is_err());
        assert!(access().check_origin(&headers(&[])).is_err());
    }

    #[test]
    fn a_foreign_origin_is_refused() {
        let check =
            |origin| access().check_origin(&headers(&[("host", "localhost:8000"), ("origin", origin)]));
        assert!(check("http://localhost:8000").is_ok());
        for origin in [
            "http://evil.example",
            "null",
            "http://127.0.0.1:8000",
            "http://localhost:9000",
            "localhost:8000",
        ] {
            assert_eq!(check(origin).unwrap_err().status(), 403, "{origin}");
        }
    }

    #[test]
    fn the_token_or_its_cookie_is_needed() {
        let access = access();
        let check = |name, value: &str| access.check_token(&headers(&[(name, value)])).is_ok();
        assert!(access.check_token(&headers(&[])).is_err());
        assert!(check("authorization", "Bearer secret") && !check("authorization", "Bearer wrong"));
        // `any:secret` and `any:wrong`.
        assert!(
            check("authorization", "Basic YW55OnNlY3JldA==") && !check("authorization", "Basic YW55Ondyb25n")
        );
        assert!(!check("authorization", "Basic ****") && !check("authorization", "secret"));
        let cookie = access.set_cookie();
        let cookie = cookie.split(';').next().unwrap();
        assert!(
            check("cookie", &format!("a=b; {cookie}")) && !check("cookie", "protoseg_session_8000=secret")
        );
        assert!(access.set_cookie().contains("HttpOnly; SameSite=Strict"));
    }

    #[test]
    fn a_form_of_another_page_cannot_change_anything() {
        for kind in ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", ""]
        {
            let failure = check_content_type(&Method::POST, &headers(&[("content-type", kind)])).unwrap_err();
            assert_eq!(failure.status(), 415, "{kind}");
        }
        assert!(check_content_type(&Method::DELETE, &headers(&[])).is_err());
        assert!(check_content_type(&Method::GET, &headers(&[])).is_ok());
        for kind in ["application/json; charset=utf-8", "image/png", "application/octet-stream"] {
            assert!(check_content_type(&Method::POST, &headers(&[("content-type", kind)])).is_ok());
        }
    }
}
