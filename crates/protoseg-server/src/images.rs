//! Images that annotation tools name: in the request itself, or in the one folder that may be read. Nothing is fetched
//! from other machines.

use std::{
    io::Read,
    path::{Component, Path, PathBuf},
};

use base64::Engine;
use protoseg::{
    Image,
    data::{DataError, open_regular},
};

use crate::{
    error::{Answer, Failure},
    limits,
    studio::decode_photo,
};

/// The folder that may be read, if there is one.
#[derive(Clone, Debug)]
pub struct Images(Option<PathBuf>);

impl Images {
    /// With a folder, if one is given.
    pub fn open(folder: Option<&Path>) -> Result<Self, DataError> {
        let canonical =
            |folder: &Path| folder.canonicalize().map_err(|source| DataError::reading(folder, source));
        Ok(Self(folder.map(canonical).transpose()?))
    }

    /// The image that an address names, and a name for people.
    pub fn read(&self, address: &str) -> Answer<(Image, String)> {
        if let Some(rest) = address.strip_prefix("data:") {
            let packed = rest.split_once(";base64,").map(|(_, packed)| packed);
            let bytes =
                packed.and_then(|packed| base64::engine::general_purpose::STANDARD.decode(packed).ok());
            let bytes = bytes.ok_or_else(|| Failure::unfit("an image in the request is not base64"))?;
            let name = format!("{}.png", &blake3::hash(&bytes).to_hex()[..12]);
            return Ok((decode(&bytes, "the image")?, name));
        }
        let bytes = self.bytes(address)?;
        let name = address.rsplit(['/', '=']).next().unwrap_or_default();
        Ok((decode(&bytes, name)?, name.to_string()))
    }

    fn bytes(&self, address: &str) -> Answer<Vec<u8>> {
        let cannot = |error: &str| Failure::unfit(format!("image `{}` {error}", address.escape_debug()));
        let Some(root) = &self.0 else {
            return Err(
                cannot("is a file, and this server reads none").hint("start it with a folder of images")
            );
        };
        if address.contains("://") {
            return Err(cannot("is on another server; nothing is fetched").hint("use local files"));
        }
        // As Label Studio names local files and uploads.
        let path = ["/data/local-files/?d=", "/data/upload/", "/data/"]
            .iter()
            .find_map(|start| address.strip_prefix(start))
            .unwrap_or(address)
            .trim_start_matches('/');
        let path = unescape(path);
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if path.is_empty() || !Path::new(&path).components().all(is_plain) {
            return Err(cannot("is no path in the folder of images"));
        }
        let place = root.join(&path).canonicalize().map_err(|_| cannot("is not there"))?;
        if !place.starts_with(root) {
            return Err(cannot("leads out of the folder of images"));
        }
        let mut bytes = Vec::new();
        let file = open_regular(&place).map_err(|_| cannot("cannot be read"))?;
        let limit = limits::IMAGE_BODY as u64;
        file.take(limit + 1).read_to_end(&mut bytes).map_err(|_| cannot("cannot be read"))?;
        if bytes.len() as u64 > limit {
            return Err(Failure::too_large(format!("image `{path}` is too large")));
        }
        Ok(bytes)
    }
}

/// Decodes an image, if it is not too large.
pub fn decode(bytes: &[u8], name: &str) -> Answer<Image> {
    decode_photo(bytes, name).map_err(Failure::unfit)
}

/// Text in which `%20` stands for a space, and so on.
pub fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        plain.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_folder_are_read_and_nothing_is_fetched() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let png = protoseg::data::mask::encode_values_png(4, 3, &[9; 12]);
        std::fs::create_dir(folder.path().join("a b")).unwrap();
        std::fs::write(folder.path().join("a b/c.png"), &png).unwrap();
        std::fs::write(outside.path().join("secret.png"), &png).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(outside.path().join("secret.png"), folder.path().join("link.png"))
            .unwrap();
        let images = Images::open(Some(folder.path())).unwrap();
        for address in ["/data/local-files/?d=a%20b/c.png", "/data/upload/a b/c.png", "a b/c.png"] {
            assert_eq!(images.read(address).unwrap().0.width, 4, "{address}");
        }
        let secret = outside.path().join("secret.png").display().to_string();
        let wrong = [
            "../secret.png",
            "/data/local-files/?d=../secret.png",
            "/data/local-files/?d=%2e%2e/secret.png",
            "link.png",
            "http://127.0.0.1/x.png",
            "https://evil.example/x.png",
            "file:///etc/passwd",
            "",
            "nothing.png",
            &secret,
        ];
        for address in wrong {
            assert_eq!(images.read(address).unwrap_err().status(), 422, "{address}");
        }
        assert!(Images(None).read("a b/c.png").is_err());
        let packed = base64::engine::general_purpose::STANDARD.encode(&png);
        assert_eq!(Images(None).read(&format!("data:image/png;base64,{packed}")).unwrap().0.height, 3);
    }

    #[test]
    fn names_are_read_as_they_are_sent() {
        assert_eq!(unescape("pond%20%C3%A4.jpg"), "pond ä.jpg");
        assert_eq!(unescape("100%.jpg%2"), "100%.jpg%2");
    }
}
