//! SVG to pixels. The font is our own, because a fresh machine has none.

use std::sync::{Arc, LazyLock};

use maud::html;
use protoseg_core::Image;
use resvg::{
    tiny_skia::{Pixmap, Transform},
    usvg::{Options, Tree, fontdb::Database},
};

static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    Arc::new(fonts)
});

/// Draws an SVG that covers its whole area with paint. `scale` is in pixels per unit.
pub fn rasterise(svg: &str, scale: f32) -> Result<Image, resvg::usvg::Error> {
    let options = Options { fontdb: FONTS.clone(), font_family: "DejaVu Sans".into(), ..Options::default() };
    let tree = Tree::from_str(svg, &options)?;
    let size = tree.size().to_int_size().scale_by(scale).ok_or(resvg::usvg::Error::InvalidSize)?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or(resvg::usvg::Error::InvalidSize)?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    let rgb = pixels.data().chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]);
    Ok(Image::new(size.width() as usize, size.height() as usize, rgb.collect()))
}

/// Text as it may stand between tags. XML has no way to write control characters.
pub fn escape(text: &str) -> String {
    let text = text.replace(|c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'), "\u{fffd}");
    html! { (text) }.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_drawn_without_a_font_of_the_system() {
        let draw = |text: &str| {
            let text = escape(text);
            let svg = format!(
                r##"<svg xmlns="http://www.w3.org/2000/svg" width="60" height="20"><rect width="60" height="20" fill="#fff"/>
                <text x="5" y="15" font-family="sans-serif" font-size="12">{text}</text></svg>"##
            );
            rasterise(&svg, 2.0).unwrap()
        };
        draw("a\u{1b}[31m\0\n\u{ffff}");
        let (empty, word) = (draw(""), draw("cow <&>"));
        assert_eq!((word.width, word.height), (120, 40));
        assert!(empty.data.iter().all(|&value| value == 255));
        assert!(word.data.iter().filter(|&&value| value < 100).count() > 100);
    }
}
