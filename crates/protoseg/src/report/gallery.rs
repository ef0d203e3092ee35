//! The gallery of a folder of predictions: a page beside the files that it shows, which opens without a network.

use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Component, Path, PathBuf},
};

use maud::{Markup, PreEscaped, html};

use super::{chip, page, section};
use crate::{picture::Palette, prediction::Area};

/// A folder of predictions.
#[derive(Clone, Debug)]
pub struct Gallery<'a> {
    title: String,
    lead: String,
    palette: &'a Palette,
    images: Vec<GalleryImage<'a>>,
    notes: Vec<String>,
}

/// An image with its prediction. Paths are as seen from the folder of the page.
#[derive(Clone, Debug)]
pub struct GalleryImage<'a> {
    name: &'a str,
    size: (usize, usize),
    areas: &'a [Area],
    abstained: u64,
    input: PathBuf,
    thumbnails: Vec<(&'static str, PathBuf)>,
    files: Vec<(String, PathBuf)>,
}

impl<'a> GalleryImage<'a> {
    /// An image of width and height `size` at `input`, of which classes cover `areas` and `abstained` pixels have no
    /// class.
    pub fn new(
        name: &'a str,
        size: (usize, usize),
        areas: &'a [Area],
        abstained: u64,
        input: PathBuf,
    ) -> Self {
        Self { name, size, areas, abstained, input, thumbnails: Vec::new(), files: Vec::new() }
    }

    /// Shows this small picture.
    #[must_use]
    pub fn thumbnail(mut self, caption: &'static str, path: PathBuf) -> Self {
        self.thumbnails.push((caption, path));
        self
    }

    /// Links to this file.
    #[must_use]
    pub fn file(mut self, caption: &str, path: PathBuf) -> Self {
        self.files.push((caption.to_string(), path));
        self
    }

    /// What a click on a thumbnail opens: the file of the same caption, or else the input.
    fn large(&self, caption: &str) -> &Path {
        let file = self.files.iter().find(|(name, _)| name == caption);
        file.map_or(&self.input, |(_, path)| path)
    }
}

impl<'a> Gallery<'a> {
    /// An empty gallery. `lead` says what made the predictions.
    pub fn new(title: &str, lead: &str, palette: &'a Palette) -> Self {
        let (title, lead) = (title.to_string(), lead.to_string());
        Self { title, lead, palette, images: Vec::new(), notes: Vec::new() }
    }

    /// Adds an image.
    pub fn push(&mut self, image: GalleryImage<'a>) {
        self.images.push(image);
    }

    /// Adds a note above the images.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// The whole page.
    pub fn html(&self) -> String {
        let content = html! {
            (section("Classes", self.classes()))
            (section("Images", html! { div.cards { @for image in &self.images { (self.card(image)) } } }))
            footer { "protoseg " (env!("CARGO_PKG_VERSION")) }
        };
        page(&self.title, &self.lead, &self.notes, content)
    }

    /// The classes that occur, with the number of their images. Choosing one hides all other images.
    fn classes(&self) -> Markup {
        let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
        for area in self.images.iter().flat_map(|image| image.areas) {
            *counts.entry(area.row).or_default() += 1;
        }
        let mut rules = String::new();
        for row in counts.keys() {
            let _ = write!(rules, "main:has(#c{row}:checked) article:not(.c{row}){{display:none}}");
        }
        html! {
            style { (PreEscaped(rules)) }
            form.choice {
                label { input type="radio" name="class" checked; "all " small { (self.images.len()) } }
                @for (row, count) in counts {
                    label {
                        input type="radio" name="class" id={ "c" (row) };
                        (self.mark(row)) (self.palette.name(row)) " " small { (count) }
                    }
                }
            }
            p.hint { "The number of images that show each class. Choose a class to see only its images." }
        }
    }

    fn card(&self, image: &GalleryImage<'_>) -> Markup {
        let rows: Vec<String> = image.areas.iter().map(|area| format!("c{}", area.row)).collect();
        let all = (image.size.0 * image.size.1).max(1) as f64;
        html! {
            article.card class=(rows.join(" ")) {
                div.pair {
                    @for (caption, path) in &image.thumbnails {
                        a href=(url(image.large(caption))) {
                            img loading="lazy" alt={ (caption) " of " (image.name) } src=(url(path));
                        }
                    }
                }
                h3 { (image.name) small { (image.size.0) " × " (image.size.1) } }
                div.shares {
                    @for area in image.areas {
                        i style={ (self.fill(area.row)) ";width:" (percent(area.share)) "%" }
                            title={ (area.class) " " (percent(area.share)) " %" } {}
                    }
                }
                ul {
                    @for area in image.areas {
                        li { (self.mark(area.row)) (area.class) small { (percent(area.share)) " %" } }
                    }
                    @if image.abstained > 0 {
                        li { i.chip.none {} "no class" small { (percent(image.abstained as f64 / all)) " %" } }
                    }
                }
                p.links {
                    a href=(url(&image.input)) { "input" }
                    @for (caption, path) in &image.files { " " a href=(url(path)) { (caption) } }
                }
            }
        }
    }

    /// A chip in the colour of a row; the background, which is not painted, has an empty one.
    fn mark(&self, row: u16) -> Markup {
        match Some(row) == self.palette.background() {
            true => html! { i.chip.none {} },
            false => chip(self.palette, row),
        }
    }

    fn fill(&self, row: u16) -> String {
        let [r, g, b] = self.palette.color(row);
        match Some(row) == self.palette.background() {
            true => "background:none".to_string(),
            false => format!("background:rgb({r},{g},{b})"),
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// A path as a link: every byte that is not plain is encoded, whatever a file is called.
fn url(path: &Path) -> String {
    let mut url = String::new();
    for part in path.components() {
        match part {
            Component::RootDir => url.push_str("file:///"),
            Component::Prefix(_) => {}
            part => {
                if !url.is_empty() && !url.ends_with('/') {
                    url.push('/');
                }
                push_encoded(&mut url, part.as_os_str().as_encoded_bytes());
            }
        }
    }
    url
}

fn push_encoded(url: &mut String, bytes: &[u8]) {
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            let _ = write!(url, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use protoseg_core::{Classes, Image, RowMap, ScoreGrid, ScoreMap};

    use super::*;

    #[test]
    fn links_are_encoded() {
        assert_eq!(url(Path::new("index/a b#1.png")), "index/a%20b%231.png");
        assert_eq!(url(Path::new("../photos/x\" y.jpg")), "../photos/x%22%20y.jpg");
        assert_eq!(url(Path::new("javascript:alert(9)")), "javascript%3Aalert%289%29");
        assert_eq!(url(Path::new("/photos/ä.jpg")), "file:///photos/%C3%A4.jpg");
    }

    #[test]
    fn a_page_shows_names_as_text_and_classes_with_their_shares() {
        let classes = Classes::new(&["background", "<b>cow"], &[]).unwrap();
        let palette = std::sync::Arc::new(Palette::new(&classes));
        let scores = ScoreGrid::new(2, 1, 2, vec![1.0, 0.0, 0.0, 1.0]);
        let prediction =
            crate::Prediction::new(ScoreMap::stretched(scores, 2, 1), std::sync::Arc::clone(&palette), 1.0);
        assert_eq!(prediction.labels(), &RowMap::new(2, 1, vec![0, 1]));
        let [input, painted] = prediction.thumbnails(&Image::new(2, 1, vec![0; 6]), 100);
        assert_eq!(input.data[..3], painted.data[..3], "the background stays as it is");
        let areas = prediction.areas();
        let image = GalleryImage::new("<i>x", (2, 1), &areas, 0, "../x.jpg".into())
            .thumbnail("overlay", "gallery/overlay/x.jpg".into())
            .file("overlay", "overlay/x.png".into());
        let mut gallery = Gallery::new("out <1>", "2 images", &palette);
        gallery.push(image);
        let html = gallery.html();
        assert!(!html.contains("<i>x") && html.contains("&lt;i&gt;x"), "{html}");
        assert!(html.contains("&lt;b&gt;cow<small>50.0 %</small>"), "{html}");
        assert!(html.contains("<a href=\"overlay/x.png\"><img loading=\"lazy\""), "{html}");
        assert!(html.contains("main:has(#c1:checked) article:not(.c1)"), "{html}");
        assert!(!html.contains("http"), "nothing is fetched");
    }
}
