//! Common subexpressions: equal values are computed once.
//!
//! Every node gets a number such that nodes with equal numbers have equal values: the number of its operation, its
//! operands' numbers, and what else it says. A body is closed, so the numbers of its results say all about it, whatever
//! the order of its nodes; scans with equal bodies and operands are one. Sums, products and maxima do not mind the order
//! of their operands. Storage orders do not count, except for random nodes, whose axes are their counter: equal ones are
//! the same draw and the same numbers.

use std::collections::HashMap;

use crate::ir::{AxisId, Composite, Direction, Graph, Noise, Op, Program, Reduction, ValueId};
use crate::pass::{Pass, change};

/// The pass as it stands in its list.
pub(crate) const PASS: Pass =
    Pass { name: "cse", about: "Common subexpression elimination: computes equal values once.", run: |program, _| cse(program) };

/// Merges equal values throughout a program.
pub fn cse(program: &mut Program) {
    change(program, |_, graph| Numbers::default().graph(graph).0);
}

/// What a value is, in words.
type Key = Vec<u64>;

#[derive(Default)]
struct Numbers(HashMap<Key, u32>);

impl Numbers {
    /// The graph without repetitions, and the numbers of its results.
    fn graph(&mut self, old: Graph) -> (Graph, Vec<u32>) {
        let mut graph = Graph::default();
        let mut first: HashMap<u32, ValueId> = HashMap::new();
        let mut new_of: Vec<ValueId> = Vec::with_capacity(old.nodes.len());
        // By new value.
        let mut numbers: Vec<u32> = Vec::with_capacity(old.nodes.len());
        for node in old.nodes {
            let mut op = node.op.map_operands(|v| new_of[v.0 as usize]);
            let mut body = Vec::new();
            if let Op::Scan(scan) = &mut op {
                (scan.body, body) = self.graph(std::mem::take(&mut scan.body));
            }
            let key = key(&op, &node.axes, &body, |v| numbers[v.0 as usize]);
            let next = self.0.len() as u32;
            let number = *self.0.entry(key).or_insert(next);
            new_of.push(match first.get(&number) {
                Some(v) => {
                    // Of two storage orders the smaller one, whichever comes first.
                    let axes = &mut graph.nodes[v.0 as usize].axes;
                    *axes = std::mem::take(axes).min(node.axes);
                    *v
                }
                None => {
                    numbers.push(number);
                    let v = graph.push(op, node.axes, node.span);
                    first.insert(number, v);
                    v
                }
            });
        }
        graph.results = old.results.iter().map(|v| new_of[v.0 as usize]).collect();
        let results = graph.results.iter().map(|v| numbers[v.0 as usize]).collect();
        (graph, results)
    }
}

/// Values that were appended to a graph, for others that may be the same: what `grad(E, q)` and `grad(E, p)` have in common is
/// there once, and so are its derivatives when the whole is differentiated again.
#[derive(Debug, Default)]
pub(crate) struct Shared(HashMap<Key, ValueId>);

impl Shared {
    /// Lets the nodes from `start` on read what was appended before instead of their equals, and gives the equal of `of`. What
    /// is left over is dead.
    pub(crate) fn merge(&mut self, graph: &mut Graph, start: usize, of: ValueId) -> ValueId {
        let mut same: HashMap<ValueId, ValueId> = HashMap::new();
        for at in start..graph.nodes.len() {
            let node = &mut graph.nodes[at];
            node.op = std::mem::replace(&mut node.op, Op::Const(0.0)).map_operands(|v| same.get(&v).copied().unwrap_or(v));
            // Bodies of loops would have to be compared node by node.
            if matches!(node.op, Op::Scan(_)) {
                continue;
            }
            let here = ValueId(at as u32);
            let first = *self.0.entry(key(&node.op, &node.axes, &[], |v| v.0)).or_insert(here);
            if first != here && graph.axes(first) == graph.axes(here) {
                same.insert(here, first);
            }
        }
        same.get(&of).copied().unwrap_or(of)
    }
}

/// All that a value depends on. `body` are the numbers of a scan's results.
fn key(op: &Op, axes: &[AxisId], body: &[u32], number: impl Fn(ValueId) -> u32) -> Key {
    let mut key = Words(Vec::with_capacity(8));
    let n = |v: &ValueId| u64::from(number(*v));
    let axis = |a: &AxisId| u64::from(a.0);
    let unordered = |a: &ValueId, b: &ValueId| {
        let (a, b) = (n(a), n(b));
        [a.min(b), a.max(b)]
    };
    match op {
        Op::Input(i) => key.tag(0, [u64::from(*i)]),
        Op::Param(i) => key.tag(1, [u64::from(*i)]),
        Op::Const(c) => key.tag(2, [c.to_bits()]),
        Op::Iota(a) => key.tag(3, [axis(a)]),
        Op::Random { draw, noise } => {
            let noise = match noise {
                Noise::Gaussian => [0, 0],
                Noise::Uniform => [1, 0],
                Noise::Subset { of } => [2, u64::from(*of)],
            };
            key.tag(4, [u64::from(*draw)]).list(noise).list(axes.iter().map(axis))
        }
        Op::Unary(f, a) => key.tag(5, [*f as u64, n(a)]),
        Op::Add(a, b) => key.tag(6, unordered(a, b)),
        Op::Mul(a, b) => key.tag(7, unordered(a, b)),
        Op::Max(a, b) => key.tag(8, unordered(a, b)),
        Op::Less(a, b) => key.tag(9, [n(a), n(b)]),
        Op::Where(c, a, b) => key.tag(10, [n(c), n(a), n(b)]),
        Op::Composite(f, a) => {
            let f = match f {
                Composite::Tanh => [0, 0],
                Composite::Sigmoid => [1, 0],
                Composite::Softplus => [2, 0],
                Composite::Abs => [3, 0],
                Composite::Sign => [4, 0],
                Composite::Softmax(x) => [5, axis(x)],
                Composite::LogSoftmax(x) => [6, axis(x)],
                Composite::LogSumExp(x) => [7, axis(x)],
            };
            key.tag(11, [n(a)]).list(f)
        }
        Op::Expand(a) => key.tag(12, [n(a)]).set(axes),
        Op::Rename { of, from, to } => key.tag(13, [n(of), axis(from), axis(to)]),
        Op::Reduce { op, of, over } => {
            let op = match op {
                Reduction::Sum => 0,
                Reduction::Max => 1,
            };
            key.tag(14, [op, n(of)]).set(over)
        }
        Op::Dot { a, b, over } => key.tag(15, unordered(a, b)).set(over),
        Op::Split { of, axis: whole, into } => key.tag(16, [n(of), axis(whole)]).list(into.iter().map(axis)),
        Op::Join { of, axes, into } => key.tag(17, [n(of), axis(into)]).list(axes.iter().map(axis)),
        Op::Slice { of, axis: whole, start, into } => key.tag(18, [n(of), axis(whole), *start as u64, axis(into)]),
        Op::Pad { of, axis: part, start, into } => key.tag(19, [n(of), axis(part), *start as u64, axis(into)]),
        Op::Concat { parts, along, into } => key.tag(20, [axis(into)]).list(parts.iter().map(n)).list(along.iter().map(axis)),
        Op::Gather { of, axis: along, at } => key.tag(21, [n(of), axis(along), n(at)]),
        Op::Scatter { of, at, over, into } => key.tag(22, [n(of), n(at), axis(into)]).set(over),
        Op::Argsort { of, axis: along } => key.tag(23, [n(of), axis(along)]),
        Op::Scan(scan) => {
            let direction = match scan.direction {
                Direction::Forward => 0,
                Direction::Backward => 1,
            };
            key.tag(24, [axis(&scan.axis), direction])
                .list(scan.init.iter().map(n))
                .list(scan.xs.iter().map(n))
                .list(scan.consts.iter().map(n))
                .list(body.iter().map(|r| u64::from(*r)))
        }
        Op::Out { scan, index } => key.tag(25, [n(scan), u64::from(*index)]),
        Op::Stop(a) => key.tag(26, [n(a)]),
        Op::Id(a) => key.tag(27, [n(a)]),
    };
    key.0
}

struct Words(Key);

impl Words {
    fn tag<const N: usize>(&mut self, tag: u64, words: [u64; N]) -> &mut Words {
        self.0.push(tag);
        self.0.extend(words);
        self
    }

    fn list(&mut self, words: impl IntoIterator<Item = u64>) -> &mut Words {
        let at = self.0.len();
        self.0.push(0);
        self.0.extend(words);
        self.0[at] = (self.0.len() - at) as u64;
        self
    }

    fn set(&mut self, axes: &[AxisId]) -> &mut Words {
        let mut axes: Vec<u64> = axes.iter().map(|a| u64::from(a.0)).collect();
        axes.sort_unstable();
        self.list(axes)
    }
}
