//! Reverse-mode differentiation, graph to graph.
//!
//! [`gradients`] walks a graph once, backwards, and appends to it the nodes that compute the derivatives. What it
//! appends are ordinary nodes, so a derivative can be differentiated again: the second order is the pass applied twice,
//! and an inner `grad` is expanded before the outer one is taken.
//!
//! The rules. `g` is the cotangent of the value `y` of an operation; each line says what flows into its operands. A
//! cotangent has all axes of its value; what flows into an operand that lacks an axis is summed over it.
//!
//! | operation | flows back |
//! |---|---|
//! | `exp x`, `log x`, `sin x` | `g y`, `g / x`, `g sin(x + pi/2)` |
//! | `sqrt x`, `recip x` | `g / (2 y)`, `-g y^2` |
//! | `a + b`, `a b` | `g` and `g`, `g b` and `g a` |
//! | `max(a, b)` | `g` to the larger; to `a` where they are equal |
//! | `where(c, a, b)` | `g` to `a` where c holds, else to `b` |
//! | `tanh`, `sigmoid` | `g (1 - y^2)`, `g y (1 - y)` |
//! | `softplus`, `abs` | `g sigmoid(x)`, `g sign(x)` |
//! | `softmax` | `y (g - sum(g y))` |
//! | `log_softmax` | `g - softmax(x) sum(g)` |
//! | `logsumexp` | `g softmax(x)` |
//! | `expand`, `sum` | each is the other's |
//! | `reduce_max` | `g` shared evenly by the entries that are the largest |
//! | `dot(a, b)` | `dot(g, b)` over the axes of b that a lacks, and the other way round |
//! | `rename`, `split`, `join` | back |
//! | `slice`, `pad`, `concat` | `pad`, `slice`, slices |
//! | `gather`, `scatter` | each is the other's |
//! | `scan` | a scan in the other direction (see `grad/scan.rs`) |
//! | `id` | `g` |
//! | `floor`, `less`, `sign`, `argsort`, `stop` | nothing: they are constant almost everywhere, or meant to be |

mod scan;
pub(crate) mod spread;

use std::collections::HashSet;

use dsl::source::Span;

use crate::ir::{Axis, AxisId, Composite, Graph, Op, Reduction, Unary, ValueId};

/// Derivatives of the sum of `of` by each of `wrt`, with the axes of `wrt`. A value that `of` does not depend on gets
/// zeros.
pub fn gradients(axes: &mut Vec<Axis>, graph: &mut Graph, of: ValueId, wrt: &[ValueId]) -> Vec<ValueId> {
    pointwise(axes, graph, of, wrt, &[])
}

/// Derivatives of `of` by each of `wrt` as if these were variables of their own at every place of the axes `along`: they
/// have these axes and those of `wrt`. Zeros where `of` does not depend on them.
pub fn pointwise(axes: &mut Vec<Axis>, graph: &mut Graph, of: ValueId, wrt: &[ValueId], along: &[AxisId]) -> Vec<ValueId> {
    let span = graph.node(of).span;
    let one = graph.constant(1.0, span);
    let shape = graph.axes(of).to_vec();
    let seed = graph.expand(one, &shape, span);
    let wrt: Vec<(ValueId, Vec<AxisId>)> = wrt.iter().map(|w| (*w, along.to_vec())).collect();
    let found = backward(axes, graph, &[(of, seed)], &wrt);
    let zeros = |graph: &mut Graph, of: ValueId| {
        let zero = graph.constant(0.0, span);
        let shape = graph.axes(of).to_vec();
        graph.expand(zero, &shape, span)
    };
    wrt.iter().zip(found).map(|((w, _), g)| g.unwrap_or_else(|| zeros(graph, *w))).collect()
}

/// Pulls cotangents of some values back to others, each with the axes that it is spread along. None where nothing flows.
pub fn backward(
    axes: &mut Vec<Axis>,
    graph: &mut Graph,
    seeds: &[(ValueId, ValueId)],
    wrt: &[(ValueId, Vec<AxisId>)],
) -> Vec<Option<ValueId>> {
    let end = seeds.iter().map(|(of, _)| of.0 as usize + 1).max().unwrap_or(0);
    let nodes: Vec<ValueId> = wrt.iter().map(|(w, _)| *w).collect();
    let active = active(graph, &nodes, end);
    let spread = spread::axes(graph, wrt, &active);
    let mut pull = Pull { axes, graph, active, spread, cotangents: vec![None; end], outs: vec![Vec::new(); end] };
    for (of, seed) in seeds {
        pull.add(*of, *seed);
    }
    let first = nodes.iter().map(|w| w.0 as usize).min().unwrap_or(end);
    let variables: HashSet<ValueId> = nodes.iter().copied().collect();
    for id in (first..end).rev().map(|id| ValueId(id as u32)) {
        // Each is a variable of its own, even if one is computed from another.
        if !variables.contains(&id) {
            pull.node(id);
        }
    }
    nodes.iter().map(|w| pull.cotangents.get(w.0 as usize).copied().flatten()).collect()
}

/// Which values depend on `wrt` in a way that has a derivative.
pub(crate) fn active(graph: &Graph, wrt: &[ValueId], end: usize) -> Vec<bool> {
    let mut active = vec![false; end];
    for w in wrt {
        if let Some(a) = active.get_mut(w.0 as usize) {
            *a = true;
        }
    }
    for id in 0..end {
        if active[id] {
            continue;
        }
        let op = &graph.nodes[id].op;
        active[id] = match op {
            Op::Stop(_) | Op::Less(..) | Op::Argsort { .. } | Op::Unary(Unary::Floor, _) | Op::Composite(Composite::Sign, _) => {
                false
            }
            Op::Gather { of, .. } | Op::Scatter { of, .. } => active[of.0 as usize],
            Op::Where(_, a, b) => active[a.0 as usize] || active[b.0 as usize],
            op => {
                let mut any = false;
                op.operands(|v| any |= active[v.0 as usize]);
                any
            }
        };
    }
    active
}

/// The walk: cotangents of the values seen so far.
pub(crate) struct Pull<'g> {
    pub(crate) axes: &'g mut Vec<Axis>,
    pub(crate) graph: &'g mut Graph,
    pub(crate) active: Vec<bool>,
    pub(crate) spread: spread::Spread,
    cotangents: Vec<Option<ValueId>>,
    /// For a scan: cotangents of its values, by index.
    outs: Vec<Vec<(u32, ValueId)>>,
}

impl Pull<'_> {
    pub(crate) fn is_active(&self, v: ValueId) -> bool {
        self.active[v.0 as usize]
    }

    /// The axes of a value's cotangent: its own, and those that it is spread along.
    pub(crate) fn shape(&self, v: ValueId) -> Vec<AxisId> {
        self.graph.axes(v).iter().chain(self.spread.of(v)).copied().collect()
    }

    /// The cotangent of a value that is spread along `to`, where one of its own axes, `from`, becomes `to`: place j is
    /// read at place `j + start` alone.
    fn diagonal(&mut self, g: ValueId, to: AxisId, from: AxisId, start: f64, span: Span) -> ValueId {
        let (i, j) = (self.graph.iota(to, span), self.graph.iota(from, span));
        let first = self.graph.constant(start, span);
        let j = self.graph.add(j, first, span);
        let (below, above) = (self.graph.less(i, j, span), self.graph.less(j, i, span));
        let zero = self.graph.constant(0.0, span);
        let d = self.graph.select(below, zero, g, span);
        self.graph.select(above, zero, d, span)
    }

    /// Adds to the cotangent of a value: summed over axes that it lacks, spread over those that the cotangent lacks.
    pub(crate) fn add(&mut self, v: ValueId, g: ValueId) {
        if !self.is_active(v) {
            return;
        }
        let span = self.graph.node(g).span;
        let want = self.shape(v);
        let extra: Vec<AxisId> = self.graph.axes(g).iter().copied().filter(|a| !want.contains(a)).collect();
        let g = self.graph.sum(g, &extra, span);
        let g = self.graph.expand(g, &want, span);
        let slot = &mut self.cotangents[v.0 as usize];
        *slot = Some(match *slot {
            Some(old) => self.graph.add(old, g, span),
            None => g,
        });
    }

    fn node(&mut self, y: ValueId) {
        if !self.is_active(y) {
            return;
        }
        let node = self.graph.node(y).clone();
        let span = node.span;
        if let Op::Scan(scan) = node.op {
            let outs = std::mem::take(&mut self.outs[y.0 as usize]);
            if !outs.is_empty() {
                scan::pull(self, y, &scan, &outs, span);
            }
            return;
        }
        let Some(g) = self.cotangents[y.0 as usize] else { return };
        self.rule(&node.op, y, g, span);
    }

    /// The table of the module's documentation.
    fn rule(&mut self, op: &Op, y: ValueId, g: ValueId, span: Span) {
        match *op {
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Random { .. } => {}
            Op::Unary(f, x) => {
                let d = match f {
                    Unary::Exp => self.graph.mul(g, y, span),
                    Unary::Log => self.graph.div(g, x, span),
                    Unary::Sin => {
                        let quarter = self.graph.constant(std::f64::consts::FRAC_PI_2, span);
                        let shifted = self.graph.add(x, quarter, span);
                        let cos = self.graph.unary(Unary::Sin, shifted, span);
                        self.graph.mul(g, cos, span)
                    }
                    Unary::Sqrt => {
                        let half = self.graph.scale(g, 0.5, span);
                        self.graph.div(half, y, span)
                    }
                    Unary::Recip => {
                        let square = self.graph.mul(y, y, span);
                        let d = self.graph.mul(g, square, span);
                        self.graph.neg(d, span)
                    }
                    Unary::Floor => return,
                };
                self.add(x, d);
            }
            Op::Add(a, b) => {
                self.add(a, g);
                self.add(b, g);
            }
            Op::Mul(a, b) => {
                if self.is_active(a) {
                    let d = self.graph.mul(g, b, span);
                    self.add(a, d);
                }
                if self.is_active(b) {
                    let d = self.graph.mul(g, a, span);
                    self.add(b, d);
                }
            }
            Op::Max(a, b) => {
                let less = self.graph.less(a, b, span);
                let zero = self.graph.constant(0.0, span);
                let to_a = self.graph.select(less, zero, g, span);
                let to_b = self.graph.select(less, g, zero, span);
                self.add(a, to_a);
                self.add(b, to_b);
            }
            Op::Less(..) | Op::Argsort { .. } | Op::Stop(_) => {}
            Op::Where(c, a, b) => {
                let zero = self.graph.constant(0.0, span);
                let to_a = self.graph.select(c, g, zero, span);
                let to_b = self.graph.select(c, zero, g, span);
                self.add(a, to_a);
                self.add(b, to_b);
            }
            Op::Composite(f, x) => {
                if let Some(d) = self.composite(f, x, y, g, span) {
                    self.add(x, d);
                }
            }
            Op::Expand(x) | Op::Id(x) => self.add(x, g),
            Op::Rename { of, from, to } => {
                let d = if self.spread.of(of).contains(&to) {
                    self.diagonal(g, to, from, 0.0, span)
                } else {
                    self.graph.rename(g, to, from, span)
                };
                self.add(of, d);
            }
            Op::Reduce { op: Reduction::Sum, of, .. } => {
                let shape = self.shape(of);
                let d = self.graph.expand(g, &shape, span);
                self.add(of, d);
            }
            Op::Reduce { op: Reduction::Max, of, ref over } => {
                let below = self.graph.less(of, y, span);
                let largest = self.graph.not(below, span);
                let count = self.graph.sum(largest, over, span);
                let share = self.graph.div(g, count, span);
                let d = self.graph.mul(largest, share, span);
                self.add(of, d);
            }
            Op::Dot { a, b, .. } => {
                self.dot(a, b, g, span);
                self.dot(b, a, g, span);
            }
            Op::Split { of, axis, ref into } => {
                let d = self.graph.join(g, into, axis, span);
                self.add(of, d);
            }
            Op::Join { of, ref axes, into } => {
                let d = self.graph.split(g, into, axes, span);
                self.add(of, d);
            }
            Op::Slice { of, axis, start, into } => {
                let d = if self.spread.of(of).contains(&into) {
                    self.diagonal(g, into, axis, -(start as f64), span)
                } else {
                    self.graph.pad(g, into, start, axis, span)
                };
                self.add(of, d);
            }
            Op::Pad { of, axis, start, into } => {
                let d = if self.spread.of(of).contains(&into) {
                    self.diagonal(g, into, axis, start as f64, span)
                } else {
                    self.graph.slice(g, into, start, axis, span)
                };
                self.add(of, d);
            }
            Op::Concat { ref parts, ref along, into } => {
                let mut start = 0;
                for (part, axis) in parts.iter().zip(along) {
                    if self.is_active(*part) {
                        let d = if self.spread.of(*part).contains(&into) {
                            self.diagonal(g, into, *axis, start as f64, span)
                        } else {
                            self.graph.slice(g, into, start, *axis, span)
                        };
                        self.add(*part, d);
                    }
                    start += self.axes[axis.0 as usize].size;
                }
            }
            Op::Gather { of, axis, at } => {
                let own = self.shape(of);
                let over: Vec<AxisId> = self.graph.axes(at).iter().copied().filter(|a| !own.contains(a)).collect();
                let d = self.graph.scatter(g, at, &over, axis, span);
                self.add(of, d);
            }
            Op::Scatter { of, at, into, .. } => {
                let d = self.graph.gather(g, into, at, span);
                self.add(of, d);
            }
            Op::Out { scan, index } => self.outs[scan.0 as usize].push((index, g)),
            Op::Scan(_) => unreachable!("a scan's cotangents are those of its values"),
        }
    }

    /// What flows into `a` of a product with `b`: summed over the axes that only `b` has.
    fn dot(&mut self, a: ValueId, b: ValueId, g: ValueId, span: Span) {
        if !self.is_active(a) {
            return;
        }
        let own = self.shape(a);
        let over: Vec<AxisId> = self.graph.axes(b).iter().copied().filter(|x| !own.contains(x)).collect();
        let d = if over.is_empty() { self.graph.mul(g, b, span) } else { self.graph.dot(g, b, &over, span) };
        self.add(a, d);
    }

    fn composite(&mut self, f: Composite, x: ValueId, y: ValueId, g: ValueId, span: Span) -> Option<ValueId> {
        let graph = &mut *self.graph;
        Some(match f {
            Composite::Tanh => {
                let square = graph.mul(y, y, span);
                let d = graph.not(square, span);
                graph.mul(g, d, span)
            }
            Composite::Sigmoid => {
                let other = graph.not(y, span);
                let d = graph.mul(y, other, span);
                graph.mul(g, d, span)
            }
            Composite::Softplus => {
                let d = graph.composite(Composite::Sigmoid, x, span);
                graph.mul(g, d, span)
            }
            Composite::Abs => {
                let d = graph.composite(Composite::Sign, x, span);
                graph.mul(g, d, span)
            }
            Composite::Sign => return None,
            Composite::Softmax(axis) => {
                let gy = graph.mul(g, y, span);
                let total = graph.sum(gy, &[axis], span);
                let d = graph.sub(g, total, span);
                graph.mul(y, d, span)
            }
            Composite::LogSoftmax(axis) => {
                let p = graph.composite(Composite::Softmax(axis), x, span);
                let total = graph.sum(g, &[axis], span);
                let d = graph.mul(p, total, span);
                graph.sub(g, d, span)
            }
            Composite::LogSumExp(axis) => {
                let p = graph.composite(Composite::Softmax(axis), x, span);
                graph.mul(g, p, span)
            }
        })
    }
}
