//! Lays out a chart: operations in layers, below their operands; frames around them, one below the other. What gets too
//! tall goes on in another column.

use std::collections::HashMap;

use super::chart::{Chart, Frame, Item};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) w: f64,
    pub(super) h: f64,
}

#[derive(Debug)]
pub(super) struct Framed {
    pub(super) rect: Rect,
    pub(super) label: String,
    pub(super) kind: Frame,
}

/// Everything at its place; frames before what is in them.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) w: f64,
    pub(super) h: f64,
    pub(super) nodes: Vec<(usize, Rect)>,
    pub(super) frames: Vec<Framed>,
}

/// Width of a character of a label, and of one of a frame's.
const LETTER: f64 = 6.1;
const HEIGHT: f64 = 17.0;
const SMALL: f64 = 13.0;
const BESIDE: f64 = 9.0;
const BELOW: f64 = 15.0;
const PADDING: f64 = 12.0;
const HEAD: f64 = 20.0;
/// Between columns: room for what goes from one to the next.
const ASIDE: f64 = 34.0;
/// Taller than this, things go to another column: heights to choose from.
const HEIGHTS: [f64; 7] = [500.0, 700.0, 1000.0, 1400.0, 2000.0, 2800.0, 4000.0];
/// Wider than this, things go to another row.
const WIDTHS: [f64; 4] = [800.0, 1300.0, 2000.0, 3200.0];
/// Width for height, as of a screen.
const SCREEN: f64 = 1.7;

/// Of several bounds, those whose picture is largest when all of it is on a screen.
pub(super) fn layout(chart: &Chart) -> Layout {
    let mut readers: HashMap<usize, Vec<usize>> = HashMap::new();
    chart.edges.iter().for_each(|(from, to)| readers.entry(*from).or_default().push(*to));
    let bounds = HEIGHTS.into_iter().flat_map(|tallest| WIDTHS.map(|widest| (tallest, widest)));
    let tried = bounds.map(|(tallest, widest)| Place { chart, readers: &readers, tallest, widest }.stack(&chart.items));
    let needed = |layout: &Layout| layout.w.max(SCREEN * layout.h);
    tried.min_by(|a, b| needed(a).total_cmp(&needed(b))).unwrap_or_default()
}

struct Place<'a> {
    chart: &'a Chart,
    readers: &'a HashMap<usize, Vec<usize>>,
    tallest: f64,
    widest: f64,
}

impl Place<'_> {
    fn item(&self, item: &Item) -> Layout {
        match item {
            Item::Ops(ops) => self.layered(ops),
            Item::Beside(items) => beside(items.iter().map(|i| self.item(i)).collect(), self.widest),
            Item::Frame { label, kind, items } => frame(label, *kind, self.stack(items)),
        }
    }

    /// One below the other, centred, in as many columns as needed.
    fn stack(&self, items: &[Item]) -> Layout {
        let parts: Vec<Layout> = items.iter().map(|i| self.item(i)).collect();
        let tallest = parts.iter().fold(self.tallest, |h, p| p.h.max(h));
        let mut columns: Vec<Vec<Layout>> = Vec::new();
        let mut height = f64::INFINITY;
        for part in parts {
            height += BELOW + part.h;
            if height > tallest {
                columns.push(Vec::new());
                height = part.h;
            }
            columns.last_mut().expect("a column").push(part);
        }
        beside_columns(columns.into_iter().map(column).collect())
    }

    fn size(&self, node: usize) -> (f64, f64) {
        let node = &self.chart.nodes[node];
        let letters = node.label.chars().count() as f64;
        if node.small { (letters * LETTER * 0.85 + 8.0, SMALL) } else { (letters * LETTER + 12.0, HEIGHT) }
    }

    /// Operations below what they read, those that read nothing here right above their first reader.
    fn layered(&self, ops: &[usize]) -> Layout {
        let at: HashMap<usize, usize> = ops.iter().enumerate().map(|(i, op)| (*op, i)).collect();
        let below: Vec<Vec<usize>> = ops
            .iter()
            .map(|op| self.readers.get(op).into_iter().flatten().filter_map(|r| at.get(r).copied()).collect())
            .collect();
        let mut above: Vec<Vec<usize>> = vec![Vec::new(); ops.len()];
        below.iter().enumerate().for_each(|(i, list)| list.iter().for_each(|r| above[*r].push(i)));
        let mut depth = vec![0usize; ops.len()];
        // Operations come in the order in which they run: after what they read.
        for i in 0..ops.len() {
            depth[i] = above[i].iter().map(|a| depth[*a] + 1).max().unwrap_or(0);
        }
        for i in (0..ops.len()).filter(|i| above[*i].is_empty()) {
            depth[i] = below[i].iter().map(|r| depth[*r] - 1).min().unwrap_or(0);
        }
        let mut layers: Vec<Vec<usize>> = vec![Vec::new(); depth.iter().max().map_or(0, |d| d + 1)];
        (0..ops.len()).for_each(|i| layers[depth[i]].push(i));
        order(&mut layers, &above, &below);
        self.lines(ops, &layers, &above)
    }

    /// Layers as lines, each operation as near as there is room to the middle of what it reads.
    fn lines(&self, ops: &[usize], layers: &[Vec<usize>], above: &[Vec<usize>]) -> Layout {
        let sizes: Vec<(f64, f64)> = ops.iter().map(|op| self.size(*op)).collect();
        // In the column of each.
        let mut middle = vec![0.0; ops.len()];
        let mut columns: Vec<Layout> = Vec::new();
        let mut y = f64::INFINITY;
        for line in layers.iter().flat_map(|layer| wrapped(layer, &sizes, self.widest)) {
            let height = line.iter().fold(0.0, |h: f64, i| h.max(sizes[*i].1));
            if y + height > self.tallest {
                columns.push(Layout::default());
                y = 0.0;
            }
            let wish = |i: usize| match above[i].len() {
                0 => None,
                n => Some(above[i].iter().map(|a| middle[*a]).sum::<f64>() / n as f64),
            };
            let xs = spread(&line.iter().map(|i| (sizes[*i].0, wish(*i))).collect::<Vec<_>>());
            let column = columns.last_mut().expect("a column");
            for (i, x) in line.iter().zip(xs) {
                let (w, h) = sizes[*i];
                middle[*i] = x + w / 2.0;
                column.nodes.push((ops[*i], Rect { x, y: y + (height - h) / 2.0, w, h }));
            }
            column.h = y + height;
            y += height + BELOW;
        }
        for column in &mut columns {
            let left = column.nodes.iter().fold(f64::INFINITY, |x, (_, r)| x.min(r.x));
            column.nodes.iter_mut().for_each(|(_, r)| r.x -= left);
            column.w = column.nodes.iter().fold(0.0, |right: f64, (_, r)| right.max(r.x + r.w));
        }
        beside_columns(columns)
    }
}

/// Where things of these widths begin that are wished to have their middles somewhere, in order and apart.
fn spread(line: &[(f64, Option<f64>)]) -> Vec<f64> {
    let mut free: Option<f64> = None;
    let mut xs = Vec::new();
    let mut pushed = Vec::new();
    for (w, wish) in line {
        let wished = wish.map(|middle| middle - w / 2.0);
        let x = match (wished, free) {
            (Some(wished), Some(free)) => wished.max(free),
            (Some(x), None) | (None, Some(x)) => x,
            (None, None) => 0.0,
        };
        pushed.extend(wished.map(|wished| x - wished));
        xs.push(x);
        free = Some(x + w + BESIDE);
    }
    // Pushed to the right by their neighbours: all of them back by the mean.
    let back = if pushed.is_empty() { 0.0 } else { pushed.iter().sum::<f64>() / pushed.len() as f64 };
    xs.iter().map(|x| x - back).collect()
}

/// One below the other, centred.
fn column(parts: Vec<Layout>) -> Layout {
    let mut all = Layout { w: parts.iter().fold(0.0, |w, p| p.w.max(w)), ..Layout::default() };
    for part in parts {
        let (x, y) = ((all.w - part.w) / 2.0, all.h + if all.h > 0.0 { BELOW } else { 0.0 });
        all.h = y + part.h;
        all.take(part, x, y);
    }
    all
}

/// Columns from left to right.
fn beside_columns(columns: Vec<Layout>) -> Layout {
    let mut all = Layout::default();
    for column in columns {
        let x = if all.w > 0.0 { all.w + ASIDE } else { 0.0 };
        all.w = x + column.w;
        all.h = all.h.max(column.h);
        all.take(column, x, 0.0);
    }
    all
}

/// A layer in lines that are not too wide.
fn wrapped(layer: &[usize], sizes: &[(f64, f64)], widest: f64) -> Vec<Vec<usize>> {
    let mut lines: Vec<Vec<usize>> = Vec::new();
    let mut width = f64::INFINITY;
    for i in layer {
        width += sizes[*i].0 + BESIDE;
        if width > widest {
            lines.push(Vec::new());
            width = sizes[*i].0;
        }
        lines.last_mut().expect("a line").push(*i);
    }
    lines
}

/// Sorts layers by the middle of their neighbours, down and up, so that fewer edges cross.
fn order(layers: &mut [Vec<usize>], above: &[Vec<usize>], below: &[Vec<usize>]) {
    const SWEEPS: usize = 6;
    let mut position = vec![0.0; above.len()];
    let number = |layer: &[usize], position: &mut [f64]| {
        let n = layer.len() as f64;
        layer.iter().enumerate().for_each(|(p, i)| position[*i] = (p as f64 + 0.5) / n);
    };
    layers.iter().for_each(|layer| number(layer, &mut position));
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        let neighbours = if down { above } else { below };
        let count = layers.len();
        for l in 0..count {
            let layer = &mut layers[if down { l } else { count - 1 - l }];
            let key = |i: &usize| match neighbours[*i].len() {
                0 => position[*i],
                n => neighbours[*i].iter().map(|x| position[*x]).sum::<f64>() / n as f64,
            };
            layer.sort_by(|a, b| key(a).total_cmp(&key(b)));
            number(layer, &mut position);
        }
    }
}

/// Side by side, in as many rows as needed.
fn beside(parts: Vec<Layout>, widest: f64) -> Layout {
    let mut all = Layout::default();
    let (mut x, mut y, mut height) = (0.0, 0.0, 0.0f64);
    for part in parts {
        if x > 0.0 && x + part.w > widest {
            (x, y, height) = (0.0, y + height + BELOW, 0.0);
        }
        height = height.max(part.h);
        all.w = all.w.max(x + part.w);
        all.h = all.h.max(y + part.h);
        let next = x + part.w + BESIDE;
        all.take(part, x, y);
        x = next;
    }
    all
}

fn frame(label: &str, kind: Frame, inner: Layout) -> Layout {
    let w = inner.w.max(label.chars().count() as f64 * LETTER * 1.1) + 2.0 * PADDING;
    let h = HEAD + inner.h + PADDING;
    let rect = Rect { x: 0.0, y: 0.0, w, h };
    let mut all = Layout { w, h, nodes: Vec::new(), frames: vec![Framed { rect, label: label.to_string(), kind }] };
    let x = (w - inner.w) / 2.0;
    all.take(inner, x, HEAD);
    all
}

impl Layout {
    /// Takes in another, moved.
    fn take(&mut self, other: Layout, x: f64, y: f64) {
        let moved = |r: Rect| Rect { x: r.x + x, y: r.y + y, ..r };
        self.nodes.extend(other.nodes.into_iter().map(|(node, rect)| (node, moved(rect))));
        self.frames.extend(other.frames.into_iter().map(|f| Framed { rect: moved(f.rect), ..f }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::chart::Node;

    fn chart(n: usize, edges: Vec<(usize, usize)>, items: Vec<Item>) -> Chart {
        let node = |i: usize| Node { label: format!("op {i}"), title: String::new(), kernel: 0, small: i % 5 == 4 };
        Chart { nodes: (0..n).map(node).collect(), edges, kernels: vec!["k".into()], items }
    }

    fn apart(a: Rect, b: Rect) -> bool {
        a.x + a.w <= b.x + 1e-6 || b.x + b.w <= a.x + 1e-6 || a.y + a.h <= b.y + 1e-6 || b.y + b.h <= a.y + 1e-6
    }

    #[test]
    fn nothing_overlaps_and_readers_stand_below_or_in_a_later_column() {
        let edges: Vec<(usize, usize)> = (1..300).map(|i| (i / 3, i)).chain((40..300).map(|i| (i - 37, i))).collect();
        let inner = Item::Frame { label: "5 steps".into(), kind: Frame::Loop, items: vec![Item::Ops((300..320).collect())] };
        let items = vec![Item::Beside(vec![
            Item::Frame { label: "k".into(), kind: Frame::Kernel(0), items: vec![Item::Ops((0..300).collect()), inner] },
            Item::Ops(vec![320]),
        ])];
        let chart = chart(321, edges.clone(), items);
        let layout = layout(&chart);
        let at: HashMap<usize, Rect> = layout.nodes.iter().copied().collect();
        assert_eq!(at.len(), 321);
        for (i, (_, a)) in layout.nodes.iter().enumerate() {
            assert!(a.x >= 0.0 && a.y >= 0.0 && a.x + a.w <= layout.w && a.y + a.h <= layout.h);
            assert!(layout.nodes[..i].iter().all(|(_, b)| apart(*a, *b)), "{a:?}");
        }
        for (from, to) in edges {
            let (a, b) = (at[&from], at[&to]);
            assert!(a.y + a.h < b.y || a.x + a.w < b.x, "{from} -> {to}");
        }
        assert!((0.5..5.0).contains(&(layout.w / layout.h)), "{} x {}", layout.w, layout.h);
    }
}
