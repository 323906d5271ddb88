//! Drawings as files: SVG as it is, or painted to a PNG.

use std::path::Path;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// Pixels for each unit of the drawing.
const SCALE: f32 = 2.0;

/// Writes a drawing as what the file's name ends in.
pub(crate) fn write(path: &Path, svg: &str) -> Result<(), String> {
    let bytes = match path.extension().and_then(|e| e.to_str()) {
        Some("svg") => svg.as_bytes().to_vec(),
        Some("png") => png(svg)?,
        _ => return Err("the name should end in .svg or .png".into()),
    };
    std::fs::write(path, bytes).map_err(|e| e.to_string())
}

/// Paints a drawing of ours, at twice its size.
pub(crate) fn png(svg: &str) -> Result<Vec<u8>, String> {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
    let family = fonts.faces().next().and_then(|face| face.families.first()).map(|(name, _)| name.clone());
    // Whatever family a text asks for, there is this one.
    let family = family.ok_or("the font cannot be read")?;
    fonts.set_sans_serif_family(&family);
    let options = Options { font_family: family, fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|e| e.to_string())?;
    let size = tree.size();
    let (width, height) = ((size.width() * SCALE).ceil() as u32, (size.height() * SCALE).ceil() as u32);
    let mut pixels = Pixmap::new(width, height).ok_or("the drawing has no size")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::lines::{Curve, LEARNING, draw};

    #[test]
    fn a_painted_drawing_has_its_lines_and_its_letters() {
        let curve = |name: &str| draw(LEARNING, &[Curve::of(name.into(), &[vec![(0.0, 0.0), (10.0, 5.0)]])]);
        let painted = |svg: &str| Pixmap::decode_png(&png(svg).unwrap()).unwrap();
        let one = painted(&curve("a run"));
        assert_eq!((one.width(), one.height()), (1440, 840));
        // The first colour of curves, and letters that differ.
        assert!(one.pixels().iter().any(|p| (p.red(), p.green(), p.blue()) == (0x25, 0x63, 0xeb)));
        assert_ne!(one.data(), painted(&curve("b run")).data());
        assert!(png("no drawing").is_err());
    }
}
