//! Bars in groups: a group for each condition, a bar for each method, a line for its deviation.

use std::fmt::Write;

use super::{Pen, escaped, name_width, open, ticks};

/// Bars that stand together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// For each of the drawing's names a height and a deviation.
    pub(crate) bars: Vec<Option<(f64, f64)>>,
}

const HEIGHT: f64 = 320.0;
const LEFT: f64 = 56.0;
const BOTTOM: f64 = 40.0;

/// A drawing of the groups, as SVG. `names` are those of the bars of every group, with a pen for each.
pub(crate) fn draw(names: &[(String, Pen)], groups: &[Group]) -> String {
    let top = 24.0 + 18.0 * names.len().div_ceil(3) as f64;
    // Room for the bars, and for the name below them.
    let group = (names.len() as f64 * 16.0 + 24.0).max(92.0);
    let column = name_width(names.iter().map(|(name, _)| name)).max(150.0);
    let width = (LEFT + 20.0 + groups.len() as f64 * group).max(LEFT + column * names.len().min(3) as f64).max(480.0);
    let all = || groups.iter().flat_map(|g| g.bars.iter().flatten());
    let low = all().map(|(x, d)| x - d).fold(0.0, f64::min);
    let high = all().map(|(x, d)| x + d).fold(low + 1e-9, f64::max);
    let y = |value: f64| HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - top - BOTTOM);
    let mut svg = open(width, HEIGHT);
    for value in ticks(low, high) {
        let at = y(value);
        let grid = "stroke=\"currentColor\" stroke-opacity=\"0.15\"";
        let _ = writeln!(svg, "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" {grid}/>", width - 12.0);
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>", LEFT - 8.0, at + 4.0);
    }
    let room = (width - LEFT - 12.0) / groups.len().max(1) as f64;
    let bar = (room - 16.0) / names.len().max(1) as f64;
    for (g, group) in groups.iter().enumerate() {
        let from = LEFT + room * g as f64 + 8.0;
        for (i, (value, (_, pen))) in group.bars.iter().zip(names).enumerate() {
            let Some((height, deviation)) = value else { continue };
            let (left, fill) = (from + bar * i as f64, pen.fill());
            let (above, tall) = (y(height.max(0.0)), (y(height.min(0.0)) - y(height.max(0.0))).max(0.5));
            let wide = bar * 0.85;
            let _ = writeln!(svg, "<rect x=\"{left:.1}\" y=\"{above:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\" {fill}/>");
            if *deviation > 0.0 {
                let (middle, a, b) = (left + wide / 2.0, y(height - deviation), y(height + deviation));
                let _ = writeln!(
                    svg,
                    "<line x1=\"{middle:.1}\" x2=\"{middle:.1}\" y1=\"{a:.1}\" y2=\"{b:.1}\" stroke=\"currentColor\"/>"
                );
            }
        }
        let (middle, under) = (from + (room - 16.0) / 2.0, HEIGHT - BOTTOM + 18.0);
        let _ = writeln!(svg, "<text x=\"{middle:.1}\" y=\"{under:.1}\" text-anchor=\"middle\">{}</text>", escaped(&group.name));
    }
    for (i, (name, pen)) in names.iter().enumerate() {
        let (left, at) = (LEFT + (i % 3) as f64 * column, 18.0 + 18.0 * (i / 3) as f64);
        let fill = pen.fill();
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" {fill}/><text x=\"{:.1}\" y=\"{at:.1}\">{}</text>",
            at - 9.0,
            left + 16.0,
            escaped(name)
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_a_bar_and_every_name_is_told() {
        let names = [("A".to_string(), Pen::new(0, false)), ("B & C".to_string(), Pen::new(0, true))];
        let groups = [
            Group { name: "mass=0.7".into(), bars: vec![Some((3.0, 0.5)), Some((-1.0, 0.0))] },
            Group { name: "delay=2".into(), bars: vec![None, Some((2.0, 0.1))] },
        ];
        let svg = draw(&names, &groups);
        // Three bars, two names, the paper.
        assert_eq!(svg.matches("<rect").count(), 6);
        // Two bars of the second, and its name, in the first one's colour.
        assert_eq!((svg.matches("#2563eb").count(), svg.matches("fill-opacity=\"0.45\"").count()), (5, 3));
        assert!(svg.contains("B &amp; C") && svg.contains("mass=0.7") && !svg.contains("NaN"), "{svg}");
        assert!(!draw(&[], &[]).contains("NaN"));
    }
}
