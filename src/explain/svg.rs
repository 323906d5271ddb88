//! A chart as SVG: light or dark as the reader prefers, without external resources.

use std::collections::HashMap;
use std::fmt::Write;

use super::chart::{Chart, Frame};
use super::layout::{Layout, Rect, layout};
use crate::figures::escaped;

/// Hues that kernels take in turn.
const HUES: usize = 24;

/// How the styles of the two appearances are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// By what the reader's system says.
    System,
    /// Likewise, unless the page has `data-theme`.
    Page,
}

/// A file of its own.
pub(crate) fn svg(chart: &Chart) -> String {
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}", image(chart, Choice::System))
}

const MARGIN: f64 = 16.0;
const LEGEND: f64 = 20.0;

pub(super) fn image(chart: &Chart, choice: Choice) -> String {
    let layout = layout(chart);
    let at: HashMap<usize, Rect> = layout.nodes.iter().copied().collect();
    let (order, hues) = by_size(chart);
    let (legend, height) = legend(chart, &order, layout.w);
    let (w, h) = (layout.w + 2.0 * MARGIN, layout.h + height + 2.0 * MARGIN);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" width=\"{w:.0}\" height=\"{h:.0}\" viewBox=\"0 0 {w:.0} {h:.0}\" \
         font-family=\"ui-sans-serif, system-ui, 'DejaVu Sans', sans-serif\" font-size=\"10\">"
    );
    let _ = writeln!(out, "<style>{}</style>", styles(choice));
    let _ = writeln!(out, "<rect class=\"back\" width=\"100%\" height=\"100%\"/>");
    let _ = writeln!(out, "<g transform=\"translate({MARGIN} {MARGIN})\">{legend}</g>");
    let _ = writeln!(out, "<g transform=\"translate({MARGIN} {:.1})\">", MARGIN + height);
    frames(&layout, &hues, &mut out);
    edges(chart, &at, &mut out);
    nodes(chart, &layout, &hues, &mut out);
    out + "</g>\n</svg>\n"
}

/// Kernels, those with most operations first, and the hue of each: in this order, so that the largest differ most.
fn by_size(chart: &Chart) -> (Vec<(usize, usize)>, Vec<usize>) {
    let mut order: Vec<(usize, usize)> = (0..chart.kernels.len()).map(|k| (k, 0)).collect();
    chart.nodes.iter().for_each(|n| order[n.kernel].1 += 1);
    order.sort_by_key(|(kernel, ops)| (std::cmp::Reverse(*ops), *kernel));
    let mut hues = vec![0; order.len()];
    order.iter().enumerate().for_each(|(rank, (kernel, _))| hues[*kernel] = rank % HUES);
    (order, hues)
}

fn frames(layout: &Layout, hues: &[usize], out: &mut String) {
    for frame in &layout.frames {
        let Rect { x, y, w, h } = frame.rect;
        let class = match frame.kind {
            Frame::Part => "part".to_string(),
            Frame::Loop => "loop".to_string(),
            Frame::Kernel(k) => format!("kernel c{}", hues[k]),
        };
        let _ = writeln!(out, "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" rx=\"7\"/>");
        let size = if frame.kind == Frame::Part { " part-name" } else { "" };
        let _ = writeln!(
            out,
            "<text class=\"name{size}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 10.0,
            y + 14.0,
            escaped(&frame.label)
        );
    }
}

fn edges(chart: &Chart, at: &HashMap<usize, Rect>, out: &mut String) {
    for (from, to) in &chart.edges {
        let (Some(a), Some(b)) = (at.get(from), at.get(to)) else { continue };
        // Downwards to what stands below, sideways to another column.
        let below = b.y >= a.y + a.h;
        let (x0, y0, x1, y1) = match below {
            true => (a.x + a.w / 2.0, a.y + a.h, b.x + b.w / 2.0, b.y),
            false => (a.x + a.w, a.y + a.h / 2.0, b.x, b.y + b.h / 2.0),
        };
        let bend = |way: f64| (way.abs() / 2.0).clamp(6.0, 60.0);
        let (dx, dy) = if below { (0.0, bend(y1 - y0)) } else { (bend(x1 - x0), 0.0) };
        // What goes a long way is faint, so that the neighbourhood can be read.
        let far = if (y1 - y0).abs() + (x1 - x0).abs() > 220.0 { " far" } else { "" };
        let _ = writeln!(
            out,
            "<path class=\"e{far}\" data-a=\"{from}\" data-b=\"{to}\" d=\"M{x0:.1} {y0:.1}C{:.1} {:.1} {:.1} {:.1} {x1:.1} {y1:.1}\"/>",
            x0 + dx,
            y0 + dy,
            x1 - dx,
            y1 - dy
        );
    }
}

fn nodes(chart: &Chart, layout: &Layout, hues: &[usize], out: &mut String) {
    for (id, rect) in &layout.nodes {
        let node = &chart.nodes[*id];
        let Rect { x, y, w, h } = *rect;
        let (class, font, drop) = if node.small { ("n small", 8.5, 3.6) } else { ("n", 10.0, 4.8) };
        let _ = writeln!(
            out,
            "<g class=\"{class} c{}\" data-n=\"{id}\"><title>{}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" \
             rx=\"{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{font}\">{}</text></g>",
            hues[node.kernel],
            escaped(&node.title),
            h / 2.5,
            x + w / 2.0,
            y + h - drop,
            escaped(&node.label)
        );
    }
}

/// The kernels with most operations, and the room that they take.
fn legend(chart: &Chart, order: &[(usize, usize)], width: f64) -> (String, f64) {
    const SHOWN: usize = 12;
    let rest = order.len().saturating_sub(SHOWN);
    let mut text = String::new();
    let (mut x, mut y) = (0.0, 0.0);
    let mut entry = |words: String, class: Option<usize>| {
        let w = words.chars().count() as f64 * 6.3 + 34.0;
        if x > 0.0 && x + w > width.max(300.0) {
            (x, y) = (0.0, y + LEGEND);
        }
        if let Some(class) = class {
            let _ =
                write!(text, "<g class=\"n c{class}\"><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"16\" height=\"12\" rx=\"4\"/></g>");
        }
        let _ = write!(text, "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 22.0, y + 10.0, escaped(&words));
        x += w;
    };
    for (rank, (kernel, ops)) in order.iter().take(SHOWN).enumerate() {
        let ops = if *ops == 1 { "1 operation".to_string() } else { format!("{ops} operations") };
        entry(format!("{}, {ops}", chart.kernels[*kernel]), Some(rank % HUES));
    }
    if rest > 0 {
        entry(format!("and {rest} more"), None);
    }
    (text, y + LEGEND + 8.0)
}

fn styles(choice: Choice) -> String {
    let (light, dark) = (appearance(false), appearance(true));
    let common = ".chart .part,.chart .loop{fill:none}.chart .loop{stroke-dasharray:5 4}.chart .e{fill:none;stroke-width:1;opacity:.55}\
        .chart .e.far{opacity:.13}.chart .n text{text-anchor:middle}.chart .part-name{font-size:13px;font-weight:600}\
        .chart .kernel{fill-opacity:.35}.chart .n.small rect{fill-opacity:.45}.chart .n.small text{opacity:.75}";
    let scoped = |prefix: &str, rules: &[(String, String)]| -> String {
        rules.iter().map(|(selector, rule)| format!("{prefix}.chart {selector}{{{rule}}}")).collect()
    };
    match choice {
        Choice::System => format!("{common}{}@media (prefers-color-scheme:dark){{{}}}", scoped("", &light), scoped("", &dark)),
        Choice::Page => format!(
            "{common}{}@media (prefers-color-scheme:dark){{{}}}{}",
            scoped("", &light),
            scoped(":root:not([data-theme=light]) ", &dark),
            scoped(":root[data-theme=dark] ", &dark)
        ),
    }
}

/// Rules for what has a colour.
fn appearance(dark: bool) -> Vec<(String, String)> {
    let (back, ink, line, quiet) =
        if dark { ("#15171c", "#e8eaed", "#8d95a3", "#4a505c") } else { ("#ffffff", "#1d2127", "#6b7280", "#c4c9d2") };
    let mut rules = vec![
        (".back".to_string(), format!("fill:{back}")),
        ("text".to_string(), format!("fill:{ink}")),
        (".e".to_string(), format!("stroke:{line}")),
        (".part,.chart .loop".to_string(), format!("stroke:{quiet}")),
    ];
    for c in 0..HUES {
        // Neighbours in the list stand far apart on the circle.
        let hue = (c * 137) as f64 % 360.0;
        let (fill, stroke) =
            if dark { (hex(hue, 0.40, 0.30), hex(hue, 0.45, 0.52)) } else { (hex(hue, 0.68, 0.86), hex(hue, 0.45, 0.55)) };
        let (ground, edge) =
            if dark { (hex(hue, 0.30, 0.18), hex(hue, 0.35, 0.38)) } else { (hex(hue, 0.60, 0.95), hex(hue, 0.40, 0.72)) };
        rules.push((format!(".n.c{c} rect"), format!("fill:{fill};stroke:{stroke}")));
        rules.push((format!(".kernel.c{c}"), format!("fill:{ground};stroke:{edge}")));
    }
    rules
}

/// Hue in degrees, saturation and lightness as `#rrggbb`.
fn hex(hue: f64, saturation: f64, lightness: f64) -> String {
    let reach = saturation * lightness.min(1.0 - lightness);
    let channel = |n: f64| {
        let k = (n + hue / 30.0) % 12.0;
        (255.0 * (lightness - reach * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0))).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(0.0), channel(8.0), channel(4.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours() {
        assert_eq!(hex(0.0, 1.0, 0.5), "#ff0000");
        assert_eq!(hex(120.0, 1.0, 0.5), "#00ff00");
        assert_eq!(hex(240.0, 0.0, 1.0), "#ffffff");
    }
}
