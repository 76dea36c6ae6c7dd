//! A figure as dots, with a font of our own: it looks the same on every machine, whatever is installed.

use std::sync::Arc;

use resvg::{tiny_skia, usvg};

/// DejaVu Sans, the characters that figures use (see `font/LICENSE.txt`).
const FONT: &[u8] = include_bytes!("font/DejaVuSans-subset.ttf");
const FAMILY: &str = "DejaVu Sans";

/// Dots for each unit of the drawing, which is made for screens of 96 to the inch.
const SCALE: f32 = 2.0;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    #[error("the drawing is no SVG")]
    Svg(#[from] usvg::Error),
    #[error("the drawing is too large for a picture")]
    Size,
    #[error("the picture cannot be encoded: {0}")]
    Encode(String),
}

/// The drawing on white paper, as a PNG file.
pub fn png(svg: &str) -> Result<Vec<u8>, PngError> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(FONT.to_vec());
    fonts.set_sans_serif_family(FAMILY);
    let options = usvg::Options {
        font_family: FAMILY.into(),
        fontdb: Arc::new(fonts),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(svg, &options)?;
    let (width, height) = (tree.size().width() * SCALE, tree.size().height() * SCALE);
    let picture = tiny_skia::Pixmap::new(width.ceil() as u32, height.ceil() as u32);
    let mut picture = picture.ok_or(PngError::Size)?;
    picture.fill(tiny_skia::Color::WHITE);
    let scale = tiny_skia::Transform::from_scale(SCALE, SCALE);
    resvg::render(&tree, scale, &mut picture.as_mut());
    picture
        .encode_png()
        .map_err(|why| PngError::Encode(why.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::palette::TEXT;
    use super::super::svg::{Anchor, Svg};
    use super::*;

    /// Dots that are not white, in a picture of one text.
    fn dark_dots(text: &str) -> usize {
        let mut svg = Svg::default();
        svg.text((10.0, 30.0), Anchor::Start, 20.0, TEXT, text);
        let bytes = png(&svg.finish("a", (300.0, 50.0), "", "")).unwrap();
        let picture = tiny_skia::Pixmap::decode_png(&bytes).unwrap();
        assert_eq!((picture.width(), picture.height()), (600, 100));
        let dots = picture.pixels().iter();
        dots.filter(|dot| dot.red() < 128).count()
    }

    #[test]
    fn text_is_not_blank() {
        assert_eq!(dark_dots(""), 0);
        let plain = dark_dots("p50 12.3 ms");
        assert!(plain > 500, "{plain}");
    }

    /// A character without a glyph is drawn as a box; each of these has one of its own.
    #[test]
    fn every_character_that_units_and_labels_use_has_a_glyph() {
        let font = usvg::fontdb::Source::Binary(Arc::new(FONT));
        let mut fonts = usvg::fontdb::Database::new();
        let id = fonts.load_font_source(font)[0];
        assert_eq!(fonts.face(id).unwrap().families[0].0, FAMILY);
        let boxes = dark_dots("\u{e000}");
        for c in "µ–…≤≥±×°·→≠≈%".chars() {
            assert_ne!(dark_dots(&c.to_string()), boxes, "{c}");
        }
    }

    #[test]
    fn what_is_no_drawing_is_an_error() {
        assert!(matches!(png("<svg"), Err(PngError::Svg(_))));
    }
}
