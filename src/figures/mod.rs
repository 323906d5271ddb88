//! Drawings, as SVG: on white where they stand alone, in the page's own colours where they are part of one.
//!
//! | file | subject |
//! |---|---|
//! | [`lines`] | curves with bands |
//! | [`bars`] | bars in groups |
//! | [`points`] | points in a plane |
//! | [`contours`] | landscapes with contours and a flow |
//! | [`frames`] | moments of an episode |
//! | [`picture`] | drawings as files, SVG or PNG |

pub(crate) mod bars;
pub(crate) mod contours;
pub(crate) mod frames;
pub(crate) mod lines;
pub(crate) mod picture;
pub(crate) mod points;

const COLOURS: [&str; 8] = ["#2563eb", "#dc2626", "#059669", "#7c3aed", "#d97706", "#0891b2", "#db2777", "#65a30d"];

/// What a curve or a bar is drawn with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pen {
    colour: &'static str,
    /// Second to another of the same colour: its line is broken, its bar is pale.
    light: bool,
}

impl Pen {
    pub(crate) fn new(number: usize, light: bool) -> Pen {
        Pen { colour: COLOURS[number % COLOURS.len()], light }
    }

    /// A colour for each.
    pub(crate) fn each(count: usize) -> Vec<Pen> {
        (0..count).map(|number| Pen::new(number, false)).collect()
    }

    fn fill(self) -> String {
        let pale = if self.light { " fill-opacity=\"0.45\"" } else { "" };
        format!("fill=\"{}\"{pale}", self.colour)
    }

    fn stroke(self) -> String {
        let broken = if self.light { " stroke-dasharray=\"6 4\"" } else { "" };
        format!("stroke=\"{}\"{broken}", self.colour)
    }
}

/// The start of a drawing. A page's style may give `svg` another `color` and `.paper` no fill.
fn open(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\" color=\"#1f2937\" fill=\"currentColor\">\n\
         <rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    )
}

/// What the longest of some names takes, with its mark: a letter is about 6.8 wide.
fn name_width<'a>(names: impl Iterator<Item = &'a String>) -> f64 {
    names.map(|name| name.chars().count()).max().unwrap_or(0) as f64 * 6.8 + 26.0
}

/// A text as a part of SVG or HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Round numbers between two, about five of them.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    if !rough.is_finite() || rough <= 0.0 {
        return Vec::new();
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(power);
    // What lies at an end but for rounding is inside.
    let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
    // Cut to the digits that the step has.
    let digits = 10f64.powf(2.0 - power.log10().floor());
    (first..=last).map(|i| (i as f64 * step * digits).round() / digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_break_a_drawing() {
        assert_eq!(escaped("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(0.0, 3000.0), [0.0, 1000.0, 2000.0, 3000.0]);
        assert_eq!(ticks(-0.0001, 0.0003), [-0.0001, 0.0, 0.0001, 0.0002, 0.0003]);
        assert_eq!(ticks(1.0, 1.0), [0.0; 0]);
    }
}
