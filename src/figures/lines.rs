//! Learning curves: a line for the mean of several seeds, a band from the least to the most.

use std::fmt::Write;

/// One line of a drawing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
}

/// What several runs had at a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) step: f64,
    pub(crate) least: f64,
    pub(crate) mean: f64,
    pub(crate) most: f64,
}

impl Curve {
    /// The curve of runs: at every step that all of them were evaluated at.
    pub(crate) fn of(name: String, runs: &[Vec<(f64, f64)>]) -> Curve {
        let Some((first, others)) = runs.split_first() else { return Curve { name, points: Vec::new() } };
        let at = |(step, value): &(f64, f64)| {
            let same = |run: &Vec<(f64, f64)>| run.iter().find(|(s, _)| s == step).map(|(_, v)| *v);
            let mut values: Vec<f64> = others.iter().map(same).collect::<Option<_>>()?;
            values.push(*value);
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
            Some(Point { step: *step, least, mean, most })
        };
        Curve {
            name: format!("{name} ({} seed{})", runs.len(), if runs.len() == 1 { "" } else { "s" }),
            points: first.iter().filter_map(at).collect(),
        }
    }
}

const SIZE: (f64, f64) = (720.0, 420.0);
/// Left, right, top, bottom.
const MARGIN: (f64, f64, f64, f64) = (64.0, 20.0, 20.0, 48.0);
const COLOURS: [&str; 6] = ["#2563eb", "#dc2626", "#059669", "#7c3aed", "#d97706", "#0891b2"];

/// A drawing of the curves, as SVG.
pub(crate) fn draw(curves: &[Curve]) -> String {
    let points = || curves.iter().flat_map(|c| &c.points);
    let last = points().map(|p| p.step).fold(1.0, f64::max);
    let low = points().map(|p| p.least).fold(0.0, f64::min);
    let high = points().map(|p| p.most).fold(low + 1e-9, f64::max);
    let (left, right, top, bottom) = MARGIN;
    let x = |step: f64| left + step / last * (SIZE.0 - left - right);
    let y = |value: f64| SIZE.1 - bottom - (value - low) / (high - low) * (SIZE.1 - top - bottom);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        SIZE.0, SIZE.1
    );
    for value in ticks(low, high) {
        let (at, end, label) = (y(value), SIZE.0 - right, left - 8.0);
        let _ = writeln!(svg, "<line x1=\"{left}\" x2=\"{end}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#e5e7eb\"/>");
        let _ = writeln!(svg, "<text x=\"{label}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>", at + 4.0);
    }
    for step in ticks(0.0, last) {
        let _ =
            writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{step}</text>", x(step), SIZE.1 - bottom + 18.0);
    }
    let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">decisions</text>", x(last / 2.0), SIZE.1 - 8.0);
    let _ = writeln!(
        svg,
        "<text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">evaluation return</text>",
        y((low + high) / 2.0)
    );
    for (i, curve) in curves.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let path = |value: &dyn Fn(&Point) -> f64, points: &mut dyn Iterator<Item = &Point>| {
            points.map(|p| format!("{:.1},{:.1}", x(p.step), y(value(p)))).collect::<Vec<_>>().join(" ")
        };
        let up = path(&|p| p.most, &mut curve.points.iter());
        let down = path(&|p| p.least, &mut curve.points.iter().rev());
        let _ = writeln!(svg, "<polygon points=\"{up} {down}\" fill=\"{colour}\" fill-opacity=\"0.15\"/>");
        let line = path(&|p| p.mean, &mut curve.points.iter());
        let _ = writeln!(svg, "<polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>");
        let at = top + 14.0 + 18.0 * i as f64;
        let name = curve.name.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{at:.1}\">{name}</text>",
            left + 10.0,
            at - 9.0,
            left + 26.0
        );
    }
    svg + "</svg>\n"
}

/// Round numbers between two, about five of them.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(power);
    let first = (low / step).ceil() as i64;
    (first..=(high / step).floor() as i64).map(|i| (i as f64 * step * 1e6).round() / 1e6).collect()
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
            [Point { step: 1.0, least: 2.0, mean: 3.0, most: 4.0 }, Point { step: 2.0, least: 1.0, mean: 2.5, most: 4.0 },]
        );
    }

    #[test]
    fn drawings_have_a_line_for_each_curve_and_escape_names() {
        let curve = |name: &str| Curve::of(name.into(), &[vec![(0.0, 0.0), (10.0, 5.0)]]);
        let svg = draw(&[curve("a<b"), curve("c")]);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("a&lt;b (1 seed)") && !svg.contains("NaN"), "{svg}");
        assert!(!draw(&[]).contains("NaN"));
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(0.0, 3000.0), [0.0, 1000.0, 2000.0, 3000.0]);
    }
}
