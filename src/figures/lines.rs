//! Curves: a line for the mean of several runs, a band from the least to the most.

use std::fmt::Write;

use super::{Pen, escaped, name_width, open, ticks};

/// One line of a drawing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
}

/// What several runs had at a place of the axis, such as a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) at: f64,
    pub(crate) least: f64,
    pub(crate) mean: f64,
    pub(crate) most: f64,
}

/// What the axes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Axes<'a> {
    pub(crate) x: &'a str,
    pub(crate) y: &'a str,
}

/// The axes of a learning curve.
pub(crate) const LEARNING: Axes<'_> = Axes { x: "decisions", y: "evaluation return" };

impl Curve {
    /// The curve of runs with different seeds, whose number is told.
    pub(crate) fn of(name: String, runs: &[Vec<(f64, f64)>]) -> Curve {
        Curve::band(format!("{name} ({} seed{})", runs.len(), if runs.len() == 1 { "" } else { "s" }), runs)
    }

    /// At every place that all of them have a value for.
    pub(crate) fn band(name: String, runs: &[Vec<(f64, f64)>]) -> Curve {
        let Some((first, others)) = runs.split_first() else { return Curve { name, points: Vec::new() } };
        let point = |(at, value): &(f64, f64)| {
            let same = |run: &Vec<(f64, f64)>| run.iter().find(|(a, _)| a == at).map(|(_, v)| *v);
            let mut values: Vec<f64> = others.iter().map(same).collect::<Option<_>>()?;
            values.push(*value);
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
            // What is not finite has no place on the axis.
            mean.is_finite().then_some(Point { at: *at, least, mean, most })
        };
        Curve { name, points: first.iter().filter_map(point).collect() }
    }
}

const SIZE: (f64, f64) = (720.0, 420.0);
/// Left, right, top, bottom.
const MARGIN: (f64, f64, f64, f64) = (64.0, 28.0, 12.0, 48.0);
/// Names stand above the curves, at most so many in a row of this height.
const NAMES: usize = 3;
const ROW: f64 = 18.0;

/// A drawing of the curves, as SVG, a colour for each.
pub(crate) fn draw(axes: Axes<'_>, curves: &[Curve]) -> String {
    draw_with(axes, curves, &Pen::each(curves.len()))
}

/// With a pen for each.
pub(crate) fn draw_with(axes: Axes<'_>, curves: &[Curve], pens: &[Pen]) -> String {
    let points = || curves.iter().flat_map(|c| &c.points);
    let last = points().map(|p| p.at).fold(1.0, f64::max);
    let low = points().map(|p| p.least).fold(0.0, f64::min);
    let high = points().map(|p| p.most).fold(low, f64::max);
    // Where nothing moves, any scale will do.
    let high = if high - low > 1e-9 { high } else { low + 1.0 };
    let (left, right, above, bottom) = MARGIN;
    let names = ((SIZE.0 - left - right) / name_width(curves.iter().map(|c| &c.name))) as usize;
    let names = names.clamp(1, NAMES);
    let top = above + ROW * curves.len().div_ceil(names) as f64;
    let x = |at: f64| left + at / last * (SIZE.0 - left - right);
    let y = |value: f64| SIZE.1 - bottom - (value - low) / (high - low) * (SIZE.1 - top - bottom);
    let mut svg = open(SIZE.0, SIZE.1);
    for value in ticks(low, high) {
        let (at, end, label) = (y(value), SIZE.0 - right, left - 8.0);
        let grid = "stroke=\"currentColor\" stroke-opacity=\"0.15\"";
        let _ = writeln!(svg, "<line x1=\"{left}\" x2=\"{end}\" y1=\"{at:.1}\" y2=\"{at:.1}\" {grid}/>");
        let _ = writeln!(svg, "<text x=\"{label}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>", at + 4.0);
    }
    for at in ticks(0.0, last) {
        let below = SIZE.1 - bottom + 18.0;
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{at}</text>", x(at));
    }
    let (middle, under) = (x(last / 2.0), SIZE.1 - 8.0);
    let _ = writeln!(svg, "<text x=\"{middle:.1}\" y=\"{under:.1}\" text-anchor=\"middle\">{}</text>", escaped(axes.x));
    let turned = format!("translate(14 {:.1}) rotate(-90)", y((low + high) / 2.0));
    let _ = writeln!(svg, "<text transform=\"{turned}\" text-anchor=\"middle\">{}</text>", escaped(axes.y));
    for (i, (curve, pen)) in curves.iter().zip(pens).enumerate() {
        let (colour, fill, stroke) = (pen.colour, pen.fill(), pen.stroke());
        let path = |value: &dyn Fn(&Point) -> f64, points: &mut dyn Iterator<Item = &Point>| {
            points.map(|p| format!("{:.1},{:.1}", x(p.at), y(value(p)))).collect::<Vec<_>>().join(" ")
        };
        let up = path(&|p| p.most, &mut curve.points.iter());
        let down = path(&|p| p.least, &mut curve.points.iter().rev());
        let _ = writeln!(svg, "<polygon points=\"{up} {down}\" fill=\"{colour}\" fill-opacity=\"0.15\"/>");
        let line = path(&|p| p.mean, &mut curve.points.iter());
        let _ = writeln!(svg, "<polyline points=\"{line}\" fill=\"none\" {stroke} stroke-width=\"2\"/>");
        // A line of one point is none.
        if let [only] = curve.points[..] {
            let (cx, cy) = (x(only.at), y(only.mean));
            let _ = writeln!(svg, "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"4\" {fill}/>");
        }
        let at = above + 6.0 + ROW * (i / names) as f64;
        let from = left + (i % names) as f64 * (SIZE.0 - left - right) / names as f64;
        let beside = from + 16.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" {fill}/><text x=\"{beside:.1}\" y=\"{at:.1}\">{}</text>",
            from,
            at - 9.0,
            escaped(&curve.name)
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_go_from_the_least_to_the_most() {
        let runs = [vec![(1.0, 2.0), (2.0, 4.0), (3.0, 9.0)], vec![(1.0, 4.0), (2.0, 1.0)]];
        let curve = Curve::of("A".into(), &runs);
        assert_eq!(curve.name, "A (2 seeds)");
        assert_eq!(
            curve.points,
            [Point { at: 1.0, least: 2.0, mean: 3.0, most: 4.0 }, Point { at: 2.0, least: 1.0, mean: 2.5, most: 4.0 },]
        );
    }

    #[test]
    fn drawings_have_a_line_for_each_curve_and_escape_names() {
        let curve = |name: &str| Curve::of(name.into(), &[vec![(0.0, 0.0), (10.0, 5.0)]]);
        let svg = draw(LEARNING, &[curve("a<b"), curve("c")]);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("a&lt;b (1 seed)") && !svg.contains("NaN"), "{svg}");
        assert!(!draw(LEARNING, &[]).contains("NaN"));
    }
}
