//! Making nodes: each method knows the axes of the value it makes. The trivial cases make no node.

use dsl::source::Span;

use super::{AxisId, Composite, Graph, Node, Op, Program, Reduction, Unary, ValueId};

impl Graph {
    pub fn push(&mut self, op: Op, axes: Vec<AxisId>, span: Span) -> ValueId {
        self.nodes.push(Node { op, axes, span });
        ValueId(self.nodes.len() as u32 - 1)
    }

    pub fn constant(&mut self, value: f64, span: Span) -> ValueId {
        self.push(Op::Const(value), Vec::new(), span)
    }

    /// The constant that a value is, if it is one.
    pub fn as_const(&self, id: ValueId) -> Option<f64> {
        match self.node(id).op {
            Op::Const(c) => Some(c),
            Op::Expand(of) => self.as_const(of),
            _ => None,
        }
    }

    pub fn iota(&mut self, axis: AxisId, span: Span) -> ValueId {
        self.push(Op::Iota(axis), vec![axis], span)
    }

    pub fn unary(&mut self, op: Unary, a: ValueId, span: Span) -> ValueId {
        let axes = self.axes(a).to_vec();
        self.push(Op::Unary(op, a), axes, span)
    }

    pub fn composite(&mut self, op: Composite, a: ValueId, span: Span) -> ValueId {
        let mut axes = self.axes(a).to_vec();
        if let Composite::LogSumExp(axis) = op {
            axes.retain(|x| *x != axis);
        }
        self.push(Op::Composite(op, a), axes, span)
    }

    /// The axes of an elementwise value: the larger operand's first.
    pub fn union(&self, operands: &[ValueId]) -> Vec<AxisId> {
        let mut axes = operands.iter().map(|v| self.axes(*v)).max_by_key(|a| a.len()).unwrap_or(&[]).to_vec();
        for v in operands {
            for a in self.axes(*v) {
                if !axes.contains(a) {
                    axes.push(*a);
                }
            }
        }
        axes
    }

    pub fn add(&mut self, a: ValueId, b: ValueId, span: Span) -> ValueId {
        let axes = self.union(&[a, b]);
        self.push(Op::Add(a, b), axes, span)
    }

    pub fn mul(&mut self, a: ValueId, b: ValueId, span: Span) -> ValueId {
        let axes = self.union(&[a, b]);
        self.push(Op::Mul(a, b), axes, span)
    }

    pub fn max(&mut self, a: ValueId, b: ValueId, span: Span) -> ValueId {
        let axes = self.union(&[a, b]);
        self.push(Op::Max(a, b), axes, span)
    }

    pub fn less(&mut self, a: ValueId, b: ValueId, span: Span) -> ValueId {
        let axes = self.union(&[a, b]);
        self.push(Op::Less(a, b), axes, span)
    }

    pub fn select(&mut self, c: ValueId, a: ValueId, b: ValueId, span: Span) -> ValueId {
        let axes = self.union(&[c, a, b]);
        self.push(Op::Where(c, a, b), axes, span)
    }

    pub fn scale(&mut self, a: ValueId, factor: f64, span: Span) -> ValueId {
        if factor == 1.0 {
            return a;
        }
        let c = self.constant(factor, span);
        self.mul(a, c, span)
    }

    pub fn neg(&mut self, a: ValueId, span: Span) -> ValueId {
        self.scale(a, -1.0, span)
    }

    pub fn sub(&mut self, a: ValueId, b: ValueId, span: Span) -> ValueId {
        let b = self.neg(b, span);
        self.add(a, b, span)
    }

    pub fn recip(&mut self, a: ValueId, span: Span) -> ValueId {
        self.unary(Unary::Recip, a, span)
    }

    pub fn div(&mut self, a: ValueId, b: ValueId, span: Span) -> ValueId {
        let b = self.recip(b, span);
        self.mul(a, b, span)
    }

    /// `1 - a`, the negation of a truth value.
    pub fn not(&mut self, a: ValueId, span: Span) -> ValueId {
        let one = self.constant(1.0, span);
        self.sub(one, a, span)
    }

    // ---- axes

    /// The value along `axes`, which contain its own.
    pub fn expand(&mut self, a: ValueId, axes: &[AxisId], span: Span) -> ValueId {
        if self.axes(a).len() == axes.len() {
            return a;
        }
        self.push(Op::Expand(a), axes.to_vec(), span)
    }

    pub fn rename(&mut self, of: ValueId, from: AxisId, to: AxisId, span: Span) -> ValueId {
        if from == to || !self.axes(of).contains(&from) {
            return of;
        }
        let axes = self.axes(of).iter().map(|a| if *a == from { to } else { *a }).collect();
        self.push(Op::Rename { of, from, to }, axes, span)
    }

    /// Reduction over those of `over` that the value has.
    pub fn reduce(&mut self, op: Reduction, of: ValueId, over: &[AxisId], span: Span) -> ValueId {
        let over: Vec<AxisId> = over.iter().copied().filter(|a| self.axes(of).contains(a)).collect();
        if over.is_empty() {
            return of;
        }
        let axes = self.axes(of).iter().copied().filter(|a| !over.contains(a)).collect();
        self.push(Op::Reduce { op, of, over }, axes, span)
    }

    pub fn sum(&mut self, of: ValueId, over: &[AxisId], span: Span) -> ValueId {
        self.reduce(Reduction::Sum, of, over, span)
    }

    pub fn dot(&mut self, a: ValueId, b: ValueId, over: &[AxisId], span: Span) -> ValueId {
        let mut axes: Vec<AxisId> = self.axes(a).iter().copied().filter(|x| !over.contains(x)).collect();
        for x in self.axes(b) {
            if !over.contains(x) && !axes.contains(x) {
                axes.push(*x);
            }
        }
        self.push(Op::Dot { a, b, over: over.to_vec() }, axes, span)
    }

    pub fn split(&mut self, of: ValueId, axis: AxisId, into: &[AxisId], span: Span) -> ValueId {
        if let [one] = into {
            return self.rename(of, axis, *one, span);
        }
        let axes = self.axes(of).iter().flat_map(|a| if *a == axis { into.to_vec() } else { vec![*a] }).collect();
        self.push(Op::Split { of, axis, into: into.to_vec() }, axes, span)
    }

    /// The axes joined must all be there.
    pub fn join(&mut self, of: ValueId, joined: &[AxisId], into: AxisId, span: Span) -> ValueId {
        if let [one] = joined {
            return self.rename(of, *one, into, span);
        }
        let mut axes = Vec::new();
        for a in self.axes(of) {
            if joined.first() == Some(a) {
                axes.push(into);
            } else if !joined.contains(a) {
                axes.push(*a);
            }
        }
        self.push(Op::Join { of, axes: joined.to_vec(), into }, axes, span)
    }

    pub fn slice(&mut self, of: ValueId, axis: AxisId, start: usize, into: AxisId, span: Span) -> ValueId {
        let axes = self.axes(of).iter().map(|a| if *a == axis { into } else { *a }).collect();
        self.push(Op::Slice { of, axis, start, into }, axes, span)
    }

    pub fn pad(&mut self, of: ValueId, axis: AxisId, start: usize, into: AxisId, span: Span) -> ValueId {
        let axes = self.axes(of).iter().map(|a| if *a == axis { into } else { *a }).collect();
        self.push(Op::Pad { of, axis, start, into }, axes, span)
    }

    pub fn gather(&mut self, of: ValueId, axis: AxisId, at: ValueId, span: Span) -> ValueId {
        let places = self.axes(at).to_vec();
        let mut axes = Vec::new();
        for a in self.axes(of).to_vec() {
            if a == axis {
                axes.extend(places.iter().copied().filter(|p| !self.axes(of).contains(p)));
            } else {
                axes.push(a);
            }
        }
        self.push(Op::Gather { of, axis, at }, axes, span)
    }

    pub fn scatter(&mut self, of: ValueId, at: ValueId, over: &[AxisId], into: AxisId, span: Span) -> ValueId {
        let mut axes: Vec<AxisId> = Vec::new();
        for a in self.union(&[of, at]) {
            if over.first() == Some(&a) {
                axes.push(into);
            } else if !over.contains(&a) {
                axes.push(a);
            }
        }
        if !axes.contains(&into) {
            axes.insert(0, into);
        }
        self.push(Op::Scatter { of, at, over: over.to_vec(), into }, axes, span)
    }

    /// Parts that have `along[i]` at the place of `into`, and otherwise the same axes as the first.
    pub fn concat(&mut self, parts: Vec<ValueId>, along: Vec<AxisId>, into: AxisId, span: Span) -> ValueId {
        let axes = match (parts.first(), along.first()) {
            (Some(p), Some(first)) => self.axes(*p).iter().map(|a| if a == first { into } else { *a }).collect(),
            _ => vec![into],
        };
        self.push(Op::Concat { parts, along, into }, axes, span)
    }

    /// Places along an axis that sort it, as an array over the same axes.
    pub fn argsort(&mut self, of: ValueId, axis: AxisId, span: Span) -> ValueId {
        let axes = self.axes(of).to_vec();
        self.push(Op::Argsort { of, axis }, axes, span)
    }

    pub fn stop(&mut self, a: ValueId, span: Span) -> ValueId {
        let axes = self.axes(a).to_vec();
        self.push(Op::Stop(a), axes, span)
    }

    pub fn id(&mut self, a: ValueId, span: Span) -> ValueId {
        let axes = self.axes(a).to_vec();
        self.push(Op::Id(a), axes, span)
    }

    pub fn out(&mut self, scan: ValueId, index: usize, axes: Vec<AxisId>, span: Span) -> ValueId {
        self.push(Op::Out { scan, index: index as u32 }, axes, span)
    }
}

impl Program {
    /// The entry of an axis at a fixed place; the axis goes.
    pub fn at(&mut self, graph: &mut Graph, of: ValueId, axis: AxisId, place: usize, span: Span) -> ValueId {
        let one = self.new_axis("one", 1);
        let slice = graph.slice(of, axis, place, one, span);
        graph.sum(slice, &[one], span)
    }
}
