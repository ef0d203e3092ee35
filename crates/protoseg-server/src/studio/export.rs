//! What people take with them: the pack, masks, a COCO file, a report, the project, and the commands that do the same in
//! a script.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, Read, Seek, Write},
    path::Path,
    sync::Arc,
};

use axum::{
    body::{Body, Bytes},
    extract::{Path as Part, State},
    http::header,
    response::{IntoResponse, Response},
};
use base64::Engine;
use maud::{DOCTYPE, PreEscaped, html};
use protoseg::{
    Image, Prediction,
    core::{IGNORE, SUPPORT_ROW},
    data::{mask::encode_palette_png, mask::encode_values_png_fast, picture::encode_jpeg, write_atomic},
    picture::{CocoDocument, hex, thumbnail},
};
use serde_json::json;
use tokio_stream::wrappers::ReceiverStream;
use zip::{ZipWriter, write::SimpleFileOptions};

use super::{
    paint::NONE,
    photos::Photo,
    routes::Room,
    state::{Studio, Taught},
};
use crate::error::{Answer, Failure, json as as_json};

/// Photos that a report shows.
const SHOWN: usize = 200;
/// Their longer side.
const SIDE: usize = 320;
/// The id of the class in masks for `protoseg register`, and that of pixels without a label.
const OWN: u8 = 254;
const NO_LABEL: u8 = 255;

pub async fn export(State(room): State<Room>, Part(what): Part<String>) -> Answer {
    let site = Arc::clone(&room.site);
    site.work
        .run(move || {
            let studio = &room.studio;
            match what.as_str() {
                "pack" => pack(studio),
                "masks.zip" => masks(studio),
                "coco.json" => coco(studio),
                "report.html" => report(studio),
                "project.zip" => project(studio),
                "commands" => as_json(&json!({ "commands": commands(studio)? })),
                other => Err(Failure::missing(format!("there is no export `{other}`"))),
            }
        })
        .await
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::internal(format!("the export failed: {error}"))
}

/// A download.
fn download(body: impl Into<Body>, name: &str, kind: &'static str) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    ([(header::CONTENT_TYPE, kind.to_string()), (header::CONTENT_DISPOSITION, disposition)], body.into())
        .into_response()
}

fn pack(studio: &Studio) -> Answer {
    let taught = studio.taught();
    if taught.pack.classes().is_empty() {
        return Err(Failure::conflict("nothing is painted yet").hint("paint a class on a photo first"));
    }
    Ok(download(taught.pack.to_bytes().map_err(failed)?, "studio.pack", "application/octet-stream"))
}

/// What the model makes of a photo at its own size.
fn predict(studio: &Studio, taught: &Taught, photo: &Photo) -> Option<Prediction> {
    let size = studio.photos.size(photo).ok()?;
    let seen = match studio.features.peek(photo.id) {
        Some(seen) => seen,
        None => Arc::new(studio.features.look(&studio.photos.read(photo).ok()?)),
    };
    Some(taught.segmenter.predict_seen(&seen, size, size))
}

fn masks(studio: &Studio) -> Answer {
    let taught = studio.taught();
    let classes = taught.segmenter.classes().rows();
    let colors = colors(studio, &taught);
    let mut zip = ZipWriter::new(tempfile::tempfile().map_err(failed)?);
    let options = SimpleFileOptions::default();
    let legend: Vec<_> =
        classes.iter().enumerate().map(|(id, class)| json!({ "id": id, "name": class.name })).collect();
    zip.start_file("classes.json", options).map_err(failed)?;
    zip.write_all(&serde_json::to_vec_pretty(&legend).map_err(failed)?).map_err(failed)?;
    let mut taken = HashSet::new();
    for photo in studio.photos.part(0, usize::MAX) {
        let name = mask_name(&photo.name, &mut taken);
        let Some(prediction) = predict(studio, &taught, &photo) else { continue };
        let Some(png) = encode_palette_png(prediction.labels(), &colors) else { continue };
        zip.start_file(name, options).map_err(failed)?;
        zip.write_all(&png).map_err(failed)?;
    }
    Ok(download(stream(zip.finish().map_err(failed)?)?, "masks.zip", "application/zip"))
}

/// What the mask of a photo is called: `pond.png` for `pond.jpg`, or `pond.jpg.png` if that is taken. Not every disk
/// tells upper and lower case apart.
fn mask_name(photo: &str, taken: &mut HashSet<String>) -> String {
    let stem = photo.rsplit_once('.').map_or(photo, |(stem, _)| stem);
    let numbered = (2..).map(|number| format!("{photo}-{number}.png"));
    let mut names = [format!("{stem}.png"), format!("{photo}.png")].into_iter().chain(numbered);
    names.find(|name| taken.insert(name.to_lowercase())).unwrap_or_default()
}

/// A photo's small picture with its labels in the colours of the project, as the page shows them.
fn painted(image: &Image, prediction: &Prediction, colors: &[[u8; 3]]) -> Image {
    let mut small = thumbnail(image, SIDE);
    let labels = prediction.labels().resize_nearest(small.width, small.height);
    let background = prediction.palette().background();
    for (pixel, &row) in small.data.chunks_exact_mut(3).zip(&labels.data) {
        let color = colors.get(usize::from(row)).filter(|_| Some(row) != background);
        for (value, &target) in pixel.iter_mut().zip(color.into_iter().flatten()) {
            *value = ((u16::from(*value) + u16::from(target)) / 2) as u8;
        }
    }
    small
}

/// The colours that the project gives the rows of the classifier.
fn colors(studio: &Studio, taught: &Taught) -> Vec<[u8; 3]> {
    (0..taught.ids.len()).map(|row| color(studio, taught, row)).collect()
}

/// The colour that the project gives a row of the classifier.
fn color(studio: &Studio, taught: &Taught, row: usize) -> [u8; 3] {
    let id = taught.ids.get(row).copied().unwrap_or(0);
    studio.project(|project| project.class(id).map_or([0; 3], |class| class.color))
}

/// A file as a body that is read while it is sent.
fn stream(mut file: File) -> Answer<Body> {
    file.rewind().map_err(failed)?;
    let (sender, receiver) = tokio::sync::mpsc::channel::<io::Result<Bytes>>(4);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut part = vec![0; 256 << 10];
            let read = file.read(&mut part).map(|length| {
                part.truncate(length);
                Bytes::from(part)
            });
            let is_last = !matches!(&read, Ok(part) if !part.is_empty());
            let is_end = matches!(&read, Ok(part) if part.is_empty());
            if is_end || sender.blocking_send(read).is_err() || is_last {
                return;
            }
        }
    });
    Ok(Body::from_stream(ReceiverStream::new(receiver)))
}

fn coco(studio: &Studio) -> Answer {
    let taught = studio.taught();
    let mut document = CocoDocument::new(taught.segmenter.classes());
    for photo in studio.photos.part(0, usize::MAX) {
        let Some(prediction) = predict(studio, &taught, &photo) else { continue };
        document.push(&photo.name, prediction.width(), prediction.height(), &prediction.regions());
    }
    Ok(download(serde_json::to_vec(&document).map_err(failed)?, "coco.json", "application/json"))
}

fn report(studio: &Studio) -> Answer {
    let taught = studio.taught();
    let (_, checks) = studio.checks.get();
    let classes = studio.project(|project| Arc::clone(&project.classes));
    let name =
        |id: u8| classes.iter().find(|class| class.id == id).map_or("everything else", |class| &class.name);
    let photo_name = |id: u32| studio.photos.get(id).map_or(String::new(), |photo| photo.name.clone());
    let mut pictures = Vec::new();
    let colors = colors(studio, &taught);
    for photo in studio.photos.part(0, SHOWN) {
        let Ok(image) = studio.photos.read(&photo) else { continue };
        let Some(prediction) = predict(studio, &taught, &photo) else { continue };
        let jpeg = encode_jpeg(&painted(&image, &prediction, &colors)).map_err(failed)?;
        pictures.push((photo.name.clone(), base64::engine::general_purpose::STANDARD.encode(jpeg)));
    }
    let style = "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}\
                 table{border-collapse:collapse}td,th{border-bottom:1px solid #ccc;padding:.3rem .8rem;text-align:left}\
                 figure{display:inline-block;margin:0 1rem 1rem 0}.c{display:inline-block;width:1em;height:1em}\
                 @media(prefers-color-scheme:dark){body{background:#181818;color:#eee}}";
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "protoseg studio" }
                style { (PreEscaped(style)) }
            }
            body {
                h1 { "What the studio knows" }
                h2 { "Classes" }
                table {
                    tr { th { "colour" } th { "class" } th { "supports" } }
                    @for class in classes.iter() {
                        tr {
                            td { span.c style=(format!("background:{}", hex(class.color))) {} }
                            td { (class.name) }
                            td { (taught.pack.class(&class.name).map_or(0, |class| class.shots.len())) }
                        }
                    }
                }
                h2 { "Each painted photo, from what the others taught" }
                table {
                    tr { th { "class" } th { "photo" } th { "IoU" } th { "confused with" } }
                    @for check in &checks {
                        tr {
                            td { (name(check.class)) }
                            td { (photo_name(check.photo)) }
                            td { (check.iou.map_or("-".to_string(), |iou| format!("{:.0} %", 100.0 * iou))) }
                            td {
                                @for other in &check.confused_with {
                                    (name(other.class)) " " (format!("{:.0} %", 100.0 * other.share)) " "
                                }
                            }
                        }
                    }
                }
                h2 { "Photos" }
                @for (name, jpeg) in &pictures {
                    figure {
                        img alt=(name) src=(format!("data:image/jpeg;base64,{jpeg}"));
                        figcaption { (name) }
                    }
                }
            }
        }
    };
    Ok(download(page.into_string(), "report.html", "text/html; charset=utf-8"))
}

fn project(studio: &Studio) -> Answer {
    let mut zip = ZipWriter::new(tempfile::tempfile().map_err(failed)?);
    for part in ["", "strokes", "packs", "photos"] {
        add_folder(&mut zip, studio.folder(), part).map_err(failed)?;
    }
    Ok(download(stream(zip.finish().map_err(failed)?)?, "project.zip", "application/zip"))
}

/// Adds the files of one folder, without hidden ones.
fn add_folder(zip: &mut ZipWriter<File>, root: &Path, part: &str) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(part))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !entry.file_type()?.is_file() || name.starts_with('.') {
            continue;
        }
        let name = if part.is_empty() { name } else { format!("{part}/{name}") };
        zip.start_file(name, SimpleFileOptions::default())?;
        io::copy(&mut File::open(entry.path())?, zip)?;
    }
    Ok(())
}

/// Writes what `protoseg register` needs into the project, and says the commands.
fn commands(studio: &Studio) -> Answer<Vec<String>> {
    let folder = studio.folder().join("script");
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let (classes, paints) = studio.project(|project| (Arc::clone(&project.classes), project.paints.clone()));
    let mut supports = Vec::new();
    let background = studio.background().unwrap_or_default();
    for (id, paint) in &paints {
        let photo = studio.photos.get(*id)?;
        let image = studio.photos.path(&photo).canonicalize().map_err(failed)?;
        let pixels = paint.pixels();
        for (own, _) in paint.counts() {
            let Some(table) = studio.label_table(own, &classes) else { continue };
            let value = |id: &u8| match table[usize::from(*id)] {
                IGNORE => NO_LABEL,
                SUPPORT_ROW => OWN,
                row => u8::try_from(row).unwrap_or(NO_LABEL),
            };
            let mask: Vec<u8> = pixels.iter().map(value).collect();
            let name = format!("{id}-{own}.png");
            let png = encode_values_png_fast(paint.width, paint.height, &mask);
            write_atomic(&folder.join(&name), &png).map_err(failed)?;
            let class = classes.iter().find(|class| class.id == own).map_or(background, |class| &class.name);
            let class = if own == NONE { background } else { class };
            supports.push(json!({
                "class": class, "image": image, "scribble": name, "value": OWN, "base_labels": own != NONE,
            }));
        }
    }
    let list = folder.join("supports.json");
    write_atomic(&list, &serde_json::to_vec_pretty(&supports).map_err(failed)?).map_err(failed)?;
    let model = &studio.options.model_flag;
    let list = quoted(list.canonicalize().map_err(failed)?.display());
    let mut commands = vec![format!("protoseg register {model}--supports {list} --refine -o studio.pack")];
    // Supports have no colours: those of the project are chosen afterwards.
    commands.extend(studio.taught().pack.classes().iter().filter_map(|class| {
        let color = hex(class.color?);
        Some(format!("protoseg classes recolor studio.pack {} '{color}'", quoted(&class.name)))
    }));
    let folders: Vec<String> =
        studio.photos.folders().iter().map(|folder| quoted(folder.display())).collect();
    commands.push(format!("protoseg predict {model}--pack studio.pack {} -o out", folders.join(" ")));
    Ok(commands)
}

/// A word as a shell reads it.
fn quoted(word: impl ToString) -> String {
    let text = word.to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_called_like_their_photos_and_no_two_alike() {
        let mut taken = HashSet::new();
        let photos = ["scene-0001.png", "a/pond.jpg", "a/POND.png", "b/pond.jpg", "a/pond.jpg", "a/pond.jpg"];
        let names = photos.map(|photo| mask_name(photo, &mut taken));
        let expected = [
            "scene-0001.png",
            "a/pond.png",
            "a/POND.png.png",
            "b/pond.png",
            "a/pond.jpg.png",
            "a/pond.jpg-2.png",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_shell_reads_one_word() {
        assert_eq!(
            ["/a/b.json", "mute swan", "it's", ""].map(quoted),
            ["/a/b.json", "'mute swan'", r"'it'\''s'", "''"]
        );
    }
}
