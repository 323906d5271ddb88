//! Points in a plane, a colour for each group.

use std::fmt::Write;

use super::{Pen, escaped, open};

/// Points that share a colour.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cloud {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

const SIZE: f64 = 420.0;
const EDGE: f64 = 24.0;

/// A drawing of the clouds, as SVG. Both axes have their own scale, from the least to the most.
pub(crate) fn draw(clouds: &[Cloud]) -> String {
    let all = || clouds.iter().flat_map(|c| &c.points);
    let range = |f: fn(&(f64, f64)) -> f64| {
        let (low, high) = all().map(f).fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(x), b.max(x)));
        if low < high { (low, high) } else { (low - 1.0, low + 1.0) }
    };
    let ((left, right), (below, above)) = (range(|p| p.0), range(|p| p.1));
    let mut svg = open(SIZE, SIZE);
    for (i, cloud) in clouds.iter().enumerate() {
        let colour = Pen::new(i, false).colour;
        for (x, y) in &cloud.points {
            let at = EDGE + (x - left) / (right - left) * (SIZE - 2.0 * EDGE);
            let up = SIZE - EDGE - (y - below) / (above - below) * (SIZE - 4.0 * EDGE);
            let _ = writeln!(svg, "<circle cx=\"{at:.1}\" cy=\"{up:.1}\" r=\"2\" fill=\"{colour}\" fill-opacity=\"0.5\"/>");
        }
        let (place, row) = (EDGE + i as f64 * 130.0, 18.0);
        let _ = writeln!(
            svg,
            "<rect x=\"{place:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{row}\">{}</text>",
            row - 9.0,
            place + 16.0,
            escaped(&cloud.name)
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_drawn_inside() {
        let clouds = [
            Cloud { name: "q".into(), points: vec![(-1.0, 5.0), (2.0, 7.0)] },
            Cloud { name: "p".into(), points: vec![(0.0, 6.0)] },
        ];
        let svg = draw(&clouds);
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("cx=\"24.0\"") && svg.contains("cx=\"396.0\"") && !svg.contains("NaN"), "{svg}");
        assert!(!draw(&[Cloud { name: "one".into(), points: vec![(1.0, 1.0)] }]).contains("NaN"));
        assert!(!draw(&[]).contains("NaN"));
    }
}
