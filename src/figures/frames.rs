//! Moments of an episode, one beside the other.

use std::fmt::Write;

use runtime::tasks::scene::{Form, Part, Scene};

use super::{escaped, open};

/// A moment with what is written under it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub(crate) label: String,
    pub(crate) scene: Scene,
}

const COLUMNS: usize = 4;
const WIDTH: f64 = 176.0;
const GAP: f64 = 8.0;
const LABEL: f64 = 20.0;

/// A drawing of them, as SVG. All have one scale; each looks at its scene's centre.
pub(crate) fn draw(frames: &[Frame]) -> String {
    let (low, high) = window(frames);
    let (wide, tall) = ((high[0] - low[0]).max(1e-9), (high[1] - low[1]).max(1e-9));
    let scale = WIDTH / wide;
    let height = (tall * scale).clamp(40.0, 1.5 * WIDTH);
    let scale = scale.min(height / tall);
    let rows = frames.len().div_ceil(COLUMNS).max(1);
    let columns = frames.len().clamp(1, COLUMNS);
    let mut svg = open(columns as f64 * (WIDTH + GAP) + GAP, rows as f64 * (height + LABEL + GAP) + GAP);
    for (i, frame) in frames.iter().enumerate() {
        let (x, y) = ((i % COLUMNS) as f64 * (WIDTH + GAP) + GAP, (i / COLUMNS) as f64 * (height + LABEL + GAP) + GAP);
        // What lies outside of an inner drawing is not shown.
        let _ = writeln!(svg, "<svg x=\"{x:.1}\" y=\"{y:.1}\" width=\"{WIDTH}\" height=\"{height:.1}\">");
        let _ = writeln!(svg, "<rect width=\"{WIDTH}\" height=\"{height:.1}\" fill=\"currentColor\" fill-opacity=\"0.05\"/>");
        let centre = frame.scene.centre;
        let place = |p: [f64; 2]| {
            let middle = [(low[0] + high[0]) / 2.0, (low[1] + high[1]) / 2.0];
            (WIDTH / 2.0 + (p[0] - centre[0] - middle[0]) * scale, height / 2.0 - (p[1] - centre[1] - middle[1]) * scale)
        };
        if let Some(ground) = frame.scene.ground {
            let (_, at) = place([0.0, ground]);
            let _ = writeln!(
                svg,
                "<rect y=\"{at:.1}\" width=\"{WIDTH}\" height=\"{height:.1}\" fill=\"currentColor\" fill-opacity=\"0.15\"/>"
            );
        }
        for shape in &frame.scene.shapes {
            let look = match shape.part {
                Part::Body => "stroke=\"#2563eb\" fill=\"#2563eb\" opacity=\"0.85\"",
                Part::Target => "stroke=\"#dc2626\" fill=\"#dc2626\" opacity=\"0.7\"",
                Part::World => "stroke=\"currentColor\" fill=\"currentColor\" opacity=\"0.35\"",
            };
            match &shape.form {
                Form::Capsule { from, to, radius } if from == to => {
                    let ((x, y), r) = (place(*from), (radius * scale).max(1.0));
                    let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\" {look}/>");
                }
                Form::Capsule { from, to, radius } => {
                    let ((ax, ay), (bx, by)) = (place(*from), place(*to));
                    let thick = (2.0 * radius * scale).max(1.5);
                    let _ = writeln!(
                        svg,
                        "<line x1=\"{ax:.1}\" y1=\"{ay:.1}\" x2=\"{bx:.1}\" y2=\"{by:.1}\" stroke-width=\"{thick:.1}\" stroke-linecap=\"round\" {look}/>"
                    );
                }
                Form::Polygon(corners) => {
                    let corners: Vec<String> = corners.iter().map(|p| place(*p)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
                    let _ = writeln!(svg, "<polygon points=\"{}\" {look}/>", corners.join(" "));
                }
            }
        }
        let _ = writeln!(svg, "</svg><text x=\"{x:.1}\" y=\"{:.1}\">{}</text>", y + height + 15.0, escaped(&frame.label));
    }
    svg + "</svg>\n"
}

/// What all frames fit into, as seen from their centres: what moves, and what is fixed as far as that is not much more.
fn window(frames: &[Frame]) -> ([f64; 2], [f64; 2]) {
    let bounds = |world: bool| {
        let mut all = ([f64::MAX; 2], [f64::MIN; 2]);
        for frame in frames {
            for shape in frame.scene.shapes.iter().filter(|s| world || s.part != Part::World) {
                let (low, high) = shape.form.bounds();
                for i in 0..2 {
                    all.0[i] = all.0[i].min(low[i] - frame.scene.centre[i]);
                    all.1[i] = all.1[i].max(high[i] - frame.scene.centre[i]);
                }
            }
        }
        all
    };
    let ((low, high), (all_low, all_high)) = (bounds(false), bounds(true));
    if low[0] > high[0] {
        return if all_low[0] > all_high[0] { ([-1.0; 2], [1.0; 2]) } else { (all_low, all_high) };
    }
    let side = (high[0] - low[0]).max(high[1] - low[1]);
    let reach =
        |i: usize| (all_low[i].max(low[i] - 0.5 * side) - 0.05 * side, all_high[i].min(high[i] + 0.5 * side) + 0.05 * side);
    let (x, y) = (reach(0), reach(1));
    ([x.0, y.0], [x.1, y.1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::tasks::scene::Shape;

    #[test]
    fn every_shape_of_every_frame_is_drawn_inside() {
        let disc = |at: [f64; 2], part| Shape { form: Form::Capsule { from: at, to: at, radius: 0.1 }, part };
        let frame = |x: f64| Frame {
            label: format!("{x} & more"),
            scene: Scene {
                shapes: vec![disc([x, 0.5], Part::Body), disc([x, 90.0], Part::World)],
                ground: Some(0.0),
                centre: [x, 0.0],
            },
        };
        let svg = draw(&[frame(0.0), frame(100.0)]);
        assert_eq!((svg.matches("<circle").count(), svg.matches("<svg").count()), (4, 3));
        assert!(svg.contains("100 &amp; more") && !svg.contains("NaN"), "{svg}");
        // The eye follows: both are in the middle of their frames.
        assert_eq!(svg.matches("cx=\"88.0\"").count(), 4);
        assert!(!draw(&[]).contains("NaN"));
    }
}
