//! The photos of a studio: those of its folder and those that were added. The outside knows them by number. A file is
//! read only if it really lies in one of the two folders, wherever links lead.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use protoseg::{
    Image,
    data::{Size, find_pictures, open_regular, picture, write_atomic},
};

use crate::{
    error::{Answer, Failure},
    limits,
};

/// One photo.
#[derive(Debug)]
pub struct Photo {
    pub id: u32,
    /// Its path in its folder, for people.
    pub name: String,
    /// Whether it was added, and so lies in the project.
    pub is_added: bool,
    /// Width and height, or why there are none, when first asked for.
    size: OnceLock<Result<(usize, usize), String>>,
}

impl Photo {
    /// Its name without folders.
    pub fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }
}

/// All photos.
#[derive(Debug)]
pub struct Photos {
    folder: PathBuf,
    added: PathBuf,
    list: RwLock<Vec<Arc<Photo>>>,
}

/// What the name of an added photo begins with, where names of both kinds are listed.
pub const ADDED: &str = "protoseg-studio:";

/// Most bytes of a photo's file.
const MOST_BYTES: u64 = 256 << 20;

impl Photos {
    /// The photos of a folder and those that were added before. `known` are names in the order of their numbers; files
    /// that are not among them follow.
    pub fn open(folder: &Path, project: &Path, known: &[String]) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        let added = project.join("photos");
        fs::create_dir_all(&added)?;
        let (project, added) = (project.canonicalize()?, added.canonicalize()?);
        let photos = Self { folder, added, list: RwLock::default() };
        let mut taken = HashSet::new();
        for name in known {
            match name.strip_prefix(ADDED) {
                Some(own) => photos.push(own.to_string(), true),
                None => photos.push(name.clone(), false),
            };
            taken.insert(name.clone());
        }
        for (root, prefix) in [(&photos.folder, ""), (&photos.added, ADDED)] {
            let found = find_pictures(root).map_err(io::Error::other)?;
            for path in found {
                let Ok(relative) = path.strip_prefix(root) else { continue };
                let parts: Vec<_> =
                    relative.components().map(|part| part.as_os_str().to_string_lossy()).collect();
                let name = parts.join("/");
                let place = path.canonicalize().unwrap_or_default();
                let is_inside =
                    place.starts_with(root) && (!prefix.is_empty() || !place.starts_with(&project));
                if is_inside && photos.len() < limits::PHOTOS && taken.insert(format!("{prefix}{name}")) {
                    photos.push(name, !prefix.is_empty());
                }
            }
        }
        Ok(photos)
    }

    fn push(&self, name: String, is_added: bool) -> Arc<Photo> {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let photo = Photo { id: list.len() as u32 + 1, name, is_added, size: OnceLock::new() };
        let photo = Arc::new(photo);
        list.push(Arc::clone(&photo));
        photo
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The photo with a number.
    pub fn get(&self, id: u32) -> Answer<Arc<Photo>> {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        let photo = (id as usize).checked_sub(1).and_then(|place| list.get(place)).cloned();
        photo.ok_or_else(|| Failure::missing(format!("there is no photo `{id}`")))
    }

    /// Some of them, in the order of their numbers.
    pub fn part(&self, offset: usize, limit: usize) -> Vec<Arc<Photo>> {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        list.iter().skip(offset).take(limit).cloned().collect()
    }

    /// Names in the order of their numbers, as [`Self::open`] takes them.
    pub fn names(&self) -> Vec<String> {
        let name = |photo: Arc<Photo>| {
            if photo.is_added { format!("{ADDED}{}", photo.name) } else { photo.name.clone() }
        };
        self.part(0, usize::MAX).into_iter().map(name).collect()
    }

    /// The folders that hold photos, for commands in a script.
    pub fn folders(&self) -> Vec<&Path> {
        let has_added = self.part(0, usize::MAX).iter().any(|photo| photo.is_added);
        let added = has_added.then_some(self.added.as_path());
        [self.folder.as_path()].into_iter().chain(added).collect()
    }

    /// Where a photo is, for commands in a script.
    pub fn path(&self, photo: &Photo) -> PathBuf {
        let root = if photo.is_added { &self.added } else { &self.folder };
        root.join(&photo.name)
    }

    /// The bytes of a photo's file.
    pub fn bytes(&self, photo: &Photo) -> Result<Vec<u8>, String> {
        let root = if photo.is_added { &self.added } else { &self.folder };
        let read = || -> io::Result<Vec<u8>> {
            let place = root.join(&photo.name).canonicalize()?;
            if !place.starts_with(root) {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it leads out of the folder"));
            }
            let mut file = open_regular(&place)?;
            if file.metadata()?.len() > MOST_BYTES {
                return Err(io::Error::other("the file is too large"));
            }
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut io::Read::take(&mut file, MOST_BYTES), &mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|error| format!("`{}` cannot be read: {error}", photo.name))
    }

    /// A photo's pixels.
    pub fn read(&self, photo: &Photo) -> Result<Image, String> {
        decode(&self.bytes(photo)?, &photo.name)
    }

    /// Width and height of a photo.
    pub fn size(&self, photo: &Photo) -> Result<(usize, usize), String> {
        let look = || checked_size(&self.bytes(photo)?, &photo.name);
        photo.size.get_or_init(look).clone()
    }

    /// Adds a photo that was sent.
    pub fn add(&self, name: &str, bytes: &[u8]) -> Answer<Arc<Photo>> {
        if self.len() >= limits::PHOTOS {
            return Err(Failure::conflict(format!("a project has at most {} photos", limits::PHOTOS)));
        }
        let name = plain_name(name);
        // Decoded once: a damaged photo is refused now, not later.
        decode(bytes, &name).map_err(Failure::unfit)?;
        let taken: HashSet<String> =
            self.part(0, usize::MAX).iter().map(|photo| photo.name.to_lowercase()).collect();
        let (stem, ending) = name.rsplit_once('.').unwrap_or((&name, "png"));
        let names =
            std::iter::once(name.clone()).chain((2..).map(|count| format!("{stem}-{count}.{ending}")));
        let name =
            names.into_iter().find(|name| !taken.contains(&name.to_lowercase())).unwrap_or(name.clone());
        write_atomic(&self.added.join(&name), bytes).map_err(|error| Failure::internal(error.to_string()))?;
        Ok(self.push(name, true))
    }
}

/// Decodes a photo, if it is not too large.
pub fn decode(bytes: &[u8], name: &str) -> Result<Image, String> {
    checked_size(bytes, name)?;
    picture::decode_image(bytes, Path::new(name)).map_err(|error| error.to_string())
}

fn checked_size(bytes: &[u8], name: &str) -> Result<(usize, usize), String> {
    let Size(width, height) = picture::size_in(bytes, Path::new(name)).map_err(|error| error.to_string())?;
    if width == 0
        || height == 0
        || width.saturating_mul(height) > limits::PIXELS
        || width.max(height) > 0xFFFF
    {
        let most = limits::PIXELS >> 20;
        return Err(format!(
            "`{name}` has {width} x {height} pixels, expected at most {most} Mi\nhint: scale it down"
        ));
    }
    Ok((width, height))
}

/// A file name that is safe on every system, with the ending of a picture.
fn plain_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = last
        .chars()
        .filter(|c| !c.is_control() && !"<>:\"|?*".contains(*c))
        .take(100)
        .collect::<String>()
        .trim_matches(['.', ' '])
        .to_string();
    let plain = if plain.is_empty() { "photo".to_string() } else { plain };
    match protoseg::data::is_picture(Path::new(&plain)) {
        true => plain,
        false => format!("{plain}.png"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        protoseg::data::mask::encode_values_png(
            width as usize,
            height as usize,
            &vec![9; (width * height) as usize],
        )
    }

    #[test]
    fn a_project_has_so_many_photos_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=limits::PHOTOS {
            fs::write(folder.path().join(format!("{number}.png")), []).unwrap();
        }
        let project = folder.path().join("protoseg-studio");
        let photos = Photos::open(folder.path(), &project, &[]).unwrap();
        assert_eq!(photos.len(), limits::PHOTOS);
        let refused = photos.add("more.png", &png(2, 2)).err().unwrap();
        assert_eq!(refused.status(), 409);
    }

    #[test]
    fn numbers_stay_and_new_files_follow() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("protoseg-studio");
        fs::write(folder.path().join("b.png"), png(4, 3)).unwrap();
        let photos = Photos::open(folder.path(), &project, &[]).unwrap();
        photos.add("../../evil/../c d.png", &png(2, 2)).unwrap();
        assert_eq!(photos.names(), ["b.png", "protoseg-studio:c d.png"]);
        assert_eq!(photos.add("c d.png", &png(2, 2)).unwrap().name, "c d-2.png");
        fs::write(folder.path().join("a.png"), png(4, 3)).unwrap();
        let again = Photos::open(folder.path(), &project, &photos.names()).unwrap();
        assert_eq!(again.names()[..3], photos.names()[..3]);
        assert_eq!(again.names()[3], "a.png");
        assert_eq!(again.size(&again.get(4).unwrap()), Ok((4, 3)));
        assert!(again.get(0).is_err() && again.get(5).is_err());
        assert!(folder.path().parent().unwrap().join("evil").metadata().is_err());
    }

    #[test]
    #[cfg(unix)]
    fn nothing_outside_the_folder_is_read_wherever_links_lead() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret.png"), png(4, 3)).unwrap();
        fs::write(folder.path().join("a.png"), png(4, 3)).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret.png"), folder.path().join("link.png"))
            .unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("way")).unwrap();
        let project = folder.path().join("p");
        let photos = Photos::open(folder.path(), &project, &[]).unwrap();
        assert_eq!(photos.names(), ["a.png"]);
        // A list of names that was changed by hand does not help, nor does a file that became a link.
        let known =
            ["../secret.png", "link.png", "way/secret.png", "/etc/passwd", "a.png"].map(str::to_string);
        let photos = Photos::open(folder.path(), &project, &known).unwrap();
        for id in 1..=4 {
            assert!(photos.bytes(&photos.get(id).unwrap()).is_err(), "{id}");
        }
        assert!(photos.bytes(&photos.get(5).unwrap()).is_ok());
        fs::remove_file(folder.path().join("a.png")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret.png"), folder.path().join("a.png")).unwrap();
        assert!(photos.bytes(&photos.get(5).unwrap()).unwrap_err().contains("leads out"));
    }

    #[test]
    fn names_become_plain() {
        assert_eq!(plain_name("../../etc/passwd"), "passwd.png");
        assert_eq!(plain_name("C:\\photos\\Pond 1.JPG"), "Pond 1.JPG");
        assert_eq!(plain_name("..\0"), "photo.png");
    }
}
