//! A landscape over a plane: heights as colours, contours, lines of a flow, points.

use std::fmt::Write;

use super::{escaped, open, ticks};

/// Heights on a grid, row by row from the lowest ordinate up.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) across: (f64, f64),
    pub(crate) up: (f64, f64),
    /// Points of a row.
    pub(crate) columns: usize,
    pub(crate) heights: Vec<f64>,
    /// A direction at each point of the grid.
    pub(crate) flow: Option<Vec<(f64, f64)>>,
    /// Places with a number of either sign.
    pub(crate) points: Vec<(f64, f64, f64)>,
    pub(crate) names: (String, String),
}

const SIZE: f64 = 460.0;
/// Left, right, top, bottom.
const MARGIN: (f64, f64, f64, f64) = (64.0, 72.0, 16.0, 48.0);
const CONTOURS: usize = 12;
/// Dark to light, readable without colours.
const SCALE: [[f64; 3]; 5] =
    [[68.0, 1.0, 84.0], [59.0, 82.0, 139.0], [33.0, 145.0, 140.0], [94.0, 201.0, 98.0], [253.0, 231.0, 37.0]];

impl Field {
    fn rows(&self) -> usize {
        self.heights.len() / self.columns.max(1)
    }

    /// The height at fractions of the plane's width and height, between points.
    fn between(&self, values: &dyn Fn(usize) -> f64, x: f64, y: f64) -> f64 {
        let (columns, rows) = (self.columns - 1, self.rows() - 1);
        let (a, b) = (x.clamp(0.0, 1.0) * columns as f64, y.clamp(0.0, 1.0) * rows as f64);
        let (i, j) = ((a as usize).min(columns - 1), (b as usize).min(rows - 1));
        let (u, v) = (a - i as f64, b - j as f64);
        let at = |i: usize, j: usize| values(j * self.columns + i);
        (1.0 - v) * ((1.0 - u) * at(i, j) + u * at(i + 1, j)) + v * ((1.0 - u) * at(i, j + 1) + u * at(i + 1, j + 1))
    }

    /// Lines along which the height is a level, as pairs of fractions: in each square of the grid, between the sides that it crosses.
    fn contour(&self, level: f64) -> Vec<[(f64, f64); 2]> {
        let (columns, rows) = (self.columns, self.rows());
        let mut lines = Vec::new();
        for (i, j) in (0..rows - 1).flat_map(|j| (0..columns - 1).map(move |i| (i, j))) {
            let corner = |di: usize, dj: usize| ((i + di, j + dj), self.heights[(j + dj) * columns + i + di]);
            let around = [corner(0, 0), corner(1, 0), corner(1, 1), corner(0, 1)];
            let mut met = Vec::new();
            for side in 0..4 {
                let (((ax, ay), a), ((bx, by), b)) = (around[side], around[(side + 1) % 4]);
                if (a < level) != (b < level) {
                    let part = (level - a) / (b - a);
                    let mix =
                        |from: usize, to: usize, all: usize| (from as f64 + part * (to as f64 - from as f64)) / (all - 1) as f64;
                    met.push((mix(ax, bx, columns), mix(ay, by, rows)));
                }
            }
            lines.extend(met.chunks_exact(2).map(|pair| [pair[0], pair[1]]));
        }
        lines
    }

    /// A line of the flow through a place, in fractions.
    fn streamline(&self, flow: &[(f64, f64)], from: (f64, f64)) -> Vec<(f64, f64)> {
        let (width, height) = (self.across.1 - self.across.0, self.up.1 - self.up.0);
        let direction = |(x, y): (f64, f64)| {
            let dx = self.between(&|n| flow[n].0, x, y) / width;
            let dy = self.between(&|n| flow[n].1, x, y) / height;
            let length = dx.hypot(dy);
            (length > 1e-12).then(|| (dx / length, dy / length))
        };
        let mut line = vec![from];
        for _ in 0..22 {
            let Some(&(x, y)) = line.last() else { break };
            let step = 0.006;
            let middle = direction((x, y)).and_then(|(dx, dy)| direction((x + 0.5 * step * dx, y + 0.5 * step * dy)));
            let Some((dx, dy)) = middle else { break };
            let next = (x + step * dx, y + step * dy);
            if !(0.0..=1.0).contains(&next.0) || !(0.0..=1.0).contains(&next.1) {
                break;
            }
            line.push(next);
        }
        line
    }
}

fn colour(part: f64) -> String {
    let at = part.clamp(0.0, 1.0) * (SCALE.len() - 1) as f64;
    let i = (at as usize).min(SCALE.len() - 2);
    let mix = |k: usize| (SCALE[i][k] + (at - i as f64) * (SCALE[i + 1][k] - SCALE[i][k])).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

/// Blue below zero, white at it, red above.
fn signed(part: f64) -> String {
    let other = (255.0 * (1.0 - part.abs().clamp(0.0, 1.0))) as u8;
    if part < 0.0 { format!("#{other:02x}{other:02x}ff") } else { format!("#ff{other:02x}{other:02x}") }
}

/// A drawing of it, as SVG. The grid must have two points along each axis.
pub(crate) fn draw(field: &Field) -> String {
    let (left, right, top, bottom) = MARGIN;
    let mut svg = open(SIZE, SIZE);
    let (wide, tall) = (SIZE - left - right, SIZE - top - bottom);
    let place = |(x, y): (f64, f64)| (left + x * wide, SIZE - bottom - y * tall);
    let (low, high) = field.heights.iter().fold((f64::MAX, f64::MIN), |(a, b), h| (a.min(*h), b.max(*h)));
    let range = (high - low).max(1e-12);
    let (columns, rows) = (field.columns, field.rows());
    for (n, height) in field.heights.iter().enumerate() {
        // A square around each point, half of it where that lies at the edge.
        let edge = |i: usize, all: usize| {
            ((i as f64 - 0.5) / (all - 1) as f64).max(0.0)..=((i as f64 + 0.5) / (all - 1) as f64).min(1.0)
        };
        let (h, v) = (edge(n % columns, columns), edge(n / columns, rows));
        let ((x, y), (to_x, to_y)) = (place((*h.start(), *v.end())), place((*h.end(), *v.start())));
        let fill = colour((height - low) / range);
        // A little more than the square: no seams.
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{fill}\"/>",
            to_x - x + 0.4,
            to_y - y + 0.4
        );
    }
    let path = |lines: &[[(f64, f64); 2]]| {
        let line = |[a, b]: &[(f64, f64); 2]| {
            let ((ax, ay), (bx, by)) = (place(*a), place(*b));
            format!("M{ax:.1} {ay:.1}L{bx:.1} {by:.1}")
        };
        lines.iter().map(line).collect::<String>()
    };
    for i in 1..=CONTOURS {
        let lines = field.contour(low + range * i as f64 / (CONTOURS + 1) as f64);
        let _ = writeln!(svg, "<path d=\"{}\" fill=\"none\" stroke=\"white\" stroke-opacity=\"0.8\"/>", path(&lines));
    }
    if let Some(flow) = &field.flow {
        for (i, j) in (0..7).flat_map(|j| (0..7).map(move |i| (i, j))) {
            let line = field.streamline(flow, ((f64::from(i) + 0.5) / 7.0, (f64::from(j) + 0.5) / 7.0));
            let points: Vec<String> = line.iter().map(|p| place(*p)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"#93c5fd\" stroke-width=\"1.4\"/>",
                points.join(" ")
            );
            if let [.., before, last] = line[..] {
                let ((ax, ay), (bx, by)) = (place(before), place(last));
                let turn = (by - ay).atan2(bx - ax).to_degrees();
                let _ = writeln!(
                    svg,
                    "<path d=\"M0 0L-6 3L-6 -3Z\" transform=\"translate({bx:.1} {by:.1}) rotate({turn:.0})\" fill=\"#93c5fd\"/>"
                );
            }
        }
    }
    let strongest = field.points.iter().map(|p| p.2.abs()).fold(0.0, f64::max).max(1e-12);
    let fraction = |x: f64, (from, to): (f64, f64)| (x - from) / (to - from);
    for (x, y, number) in &field.points {
        let (cx, cy) = place((fraction(*x, field.across), fraction(*y, field.up)));
        // The root shows weak ones too.
        let part = (number.abs() / strongest).sqrt().copysign(*number);
        let _ = writeln!(
            svg,
            "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"2.4\" fill=\"{}\" stroke=\"black\" stroke-opacity=\"0.5\" stroke-width=\"0.5\"/>",
            signed(part)
        );
    }
    for at in ticks(field.across.0, field.across.1) {
        let (x, y) = place((fraction(at, field.across), 0.0));
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{at}</text>", y + 18.0);
    }
    for at in ticks(field.up.0, field.up.1) {
        let (x, y) = place((0.0, fraction(at, field.up)));
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{at}</text>", x - 8.0, y + 4.0);
    }
    let (middle, under) = (left + wide / 2.0, SIZE - 8.0);
    let _ = writeln!(svg, "<text x=\"{middle:.1}\" y=\"{under:.1}\" text-anchor=\"middle\">{}</text>", escaped(&field.names.0));
    let turned = format!("translate(14 {:.1}) rotate(-90)", top + tall / 2.0);
    let _ = writeln!(svg, "<text transform=\"{turned}\" text-anchor=\"middle\">{}</text>", escaped(&field.names.1));
    // What the colours are.
    for i in 0..40 {
        let (y, fill) = (top + tall * (1.0 - (f64::from(i) + 1.0) / 40.0), colour((f64::from(i) + 0.5) / 40.0));
        let (x, height) = (SIZE - right + 10.0, tall / 40.0 + 0.4);
        let _ = writeln!(svg, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"10\" height=\"{height:.1}\" fill=\"{fill}\"/>");
    }
    for at in ticks(low, high) {
        let (x, y) = (SIZE - right + 25.0, SIZE - bottom - (at - low) / range * tall + 4.0);
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\">{at}</text>");
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `x^2 + y^2` over -1..1, and its flow around the middle.
    fn bowl() -> Field {
        let at = |n: usize| ((n % 21) as f64 / 10.0 - 1.0, (n / 21) as f64 / 10.0 - 1.0);
        Field {
            across: (-1.0, 1.0),
            up: (-1.0, 1.0),
            columns: 21,
            heights: (0..441).map(at).map(|(x, y)| x * x + y * y).collect(),
            flow: Some((0..441).map(at).map(|(x, y)| (2.0 * y, -2.0 * x)).collect()),
            points: vec![(0.0, 0.0, 1.0), (0.5, 0.5, -1.0)],
            names: ("q".into(), "p<1>".into()),
        }
    }

    #[test]
    fn contours_lie_where_the_height_is() {
        let field = bowl();
        let lines = field.contour(0.5);
        assert!(lines.len() > 20);
        for (x, y) in lines.into_iter().flatten() {
            let (x, y) = (2.0 * x - 1.0, 2.0 * y - 1.0);
            assert!((x * x + y * y - 0.5).abs() < 0.01, "{x} {y}");
        }
    }

    #[test]
    fn lines_of_the_flow_keep_their_height() {
        let field = bowl();
        let line = field.streamline(field.flow.as_ref().unwrap(), (0.75, 0.5));
        assert!(line.len() > 20);
        for (x, y) in line {
            let (x, y) = (2.0 * x - 1.0, 2.0 * y - 1.0);
            assert!((x * x + y * y - 0.25).abs() < 0.01, "{x} {y}");
        }
    }

    #[test]
    fn everything_is_drawn() {
        let svg = draw(&bowl());
        assert_eq!((svg.matches("<circle").count(), svg.matches("<polyline").count()), (2, 49));
        assert!(svg.contains("p&lt;1&gt;") && !svg.contains("NaN"), "{svg}");
        let flat = Field { heights: vec![1.0; 441], flow: None, points: Vec::new(), ..bowl() };
        assert!(!draw(&flat).contains("NaN"));
    }
}
