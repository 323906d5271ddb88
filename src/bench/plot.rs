//! Medians as bars: a group for each case, each with its own scale, quartiles as whiskers. Light or dark as the reader has it.

use super::report::{Document, Kind, Measured, digits};
use crate::figures::escaped;

const STYLES: &str = "text{fill:#1d2127}.back{fill:#fff}.own{fill:#2f6fb0}.peer{fill:#b9bec5}path{stroke:#1d2127}\
    @media (prefers-color-scheme:dark){text{fill:#e8eaed}.back{fill:#15171c}.own{fill:#4c8fd6}.peer{fill:#5b626d}path{stroke:#e8eaed}}";
const WIDTH: f64 = 760.0;
const LABELS: f64 = 150.0;
const BAR: f64 = 16.0;
const STEP: f64 = 22.0;
const HEAD: f64 = 34.0;
/// Room behind the longest bar for its number.
const NUMBERS: f64 = 150.0;

pub(crate) fn svg(document: &Document) -> String {
    let height: f64 = 16.0 + document.cases.iter().map(|c| HEAD + STEP * c.variants.len() as f64).sum::<f64>();
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <style>{STYLES}</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n"
    );
    let mut y = 0.0;
    for case in &document.cases {
        group(case, y, &mut text);
        y += HEAD + STEP * case.variants.len() as f64;
    }
    text + "</svg>\n"
}

fn group(case: &Measured, top: f64, text: &mut String) {
    let longest = case.variants.iter().map(|v| v.ms.high).fold(f64::MIN_POSITIVE, f64::max);
    let scale = (WIDTH - LABELS - NUMBERS) / longest;
    let title = escaped(&format!("{} ({}), ms a call", case.case, case.model));
    *text += &format!("<text x=\"8\" y=\"{}\" font-weight=\"bold\">{title}</text>\n", top + 24.0);
    for (i, v) in case.variants.iter().enumerate() {
        let y = top + HEAD + STEP * i as f64;
        let (end, low, high) = (LABELS + v.ms.median * scale, LABELS + v.ms.low * scale, LABELS + v.ms.high * scale);
        let (middle, base) = (y + BAR / 2.0, y + 12.5);
        let class = if v.kind == Kind::Peer { "peer" } else { "own" };
        let (name, number) = (escaped(&v.name), format!("{} ({:.2} x)", digits(v.ms.median), v.ratio));
        *text += &format!(
            "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{name}</text>\n\
             <rect x=\"{LABELS}\" y=\"{y}\" width=\"{:.1}\" height=\"{BAR}\" class=\"{class}\"/>\n\
             <path d=\"M{low:.1} {middle}H{high:.1}\"/>\n\
             <text x=\"{:.1}\" y=\"{base}\">{number}</text>\n",
            LABELS - 8.0,
            end - LABELS,
            end.max(high) + 6.0
        );
    }
}
