//! The table of expressions under construction: every node is made here, once, with its axes.
//!
//! Equal nodes are one node, so that "the same variable" is "the same id".

use std::hash::{BuildHasher, Hash, Hasher};

use hashbrown::{DefaultHashBuilder, HashSet, HashTable};

use crate::hir::{Axis, AxisId, BinaryOp, Dtype, ExprId, FamilyId, Index, Node, Op, Real, ReduceOp, Size, UnaryOp};
use crate::source::Span;

#[derive(Default)]
pub(super) struct Table {
    pub nodes: Vec<Node>,
    pub axes: Vec<Axis>,
    /// All nodes by their operation and axes.
    known: HashTable<ExprId>,
    hashes: DefaultHashBuilder,
    aliases: u32,
}

impl Table {
    pub(super) fn new_axis(&mut self, name: &str, size: Size) -> AxisId {
        self.axes.push(Axis { name: name.to_string(), size });
        AxisId(self.axes.len() as u32 - 1)
    }

    pub(super) fn size(&self, axis: AxisId) -> &Size {
        &self.axes[axis.0 as usize].size
    }

    pub(super) fn name(&self, axis: AxisId) -> &str {
        &self.axes[axis.0 as usize].name
    }

    pub(super) fn op(&self, e: ExprId) -> &Op {
        &self.nodes[e.0 as usize].op
    }

    pub(super) fn axes_of(&self, e: ExprId) -> &[AxisId] {
        &self.nodes[e.0 as usize].axes
    }

    pub(super) fn dtype(&self, e: ExprId) -> Dtype {
        self.nodes[e.0 as usize].dtype
    }

    /// `[Q = 8, A]`.
    pub(super) fn show(&self, axes: &[AxisId]) -> String {
        let shown: Vec<String> = axes.iter().map(|a| self.show_axis(*a)).collect();
        format!("[{}]", shown.join(", "))
    }

    /// `axes [Q = 8, A]`, or `no axes`.
    pub(super) fn having(&self, axes: &[AxisId]) -> String {
        if axes.is_empty() { "no axes".to_string() } else { format!("axes {}", self.show(axes)) }
    }

    pub(super) fn show_axis(&self, axis: AxisId) -> String {
        let (name, size) = (self.name(axis), self.size(axis).to_string());
        if name == size { size } else { format!("{name} = {size}") }
    }

    pub(super) fn total(&self, axes: &[AxisId]) -> Size {
        axes.iter().fold(Size::known(1), |n, a| n.mul(self.size(*a)))
    }

    pub(super) fn push(&mut self, op: Op, axes: Vec<AxisId>, dtype: Dtype, span: Span) -> ExprId {
        let Table { nodes, known, hashes, .. } = self;
        let hash = hash_of(hashes, &op, &axes);
        let same = |id: &ExprId| nodes[id.0 as usize].op == op && nodes[id.0 as usize].axes == axes;
        if let Some(id) = known.find(hash, same) {
            return *id;
        }
        let id = ExprId(nodes.len() as u32);
        nodes.push(Node { op, axes, dtype, span });
        known.insert_unique(hash, id, |id| hash_of(hashes, &nodes[id.0 as usize].op, &nodes[id.0 as usize].axes));
        id
    }

    // ---- leaves

    pub(super) fn constant(&mut self, value: f64, span: Span) -> ExprId {
        self.push(Op::Const(Real(value)), Vec::new(), Dtype::Real, span)
    }

    pub(super) fn index(&mut self, index: Index, span: Span) -> ExprId {
        match index.constant() {
            Some(value) => self.constant(value as f64, span),
            None => self.push(Op::Index(index), Vec::new(), Dtype::Real, span),
        }
    }

    /// What values are computed from, with what `follow` gives for the families that are read.
    pub(super) fn closure(&self, of: &[ExprId], mut follow: impl FnMut(FamilyId) -> Vec<ExprId>) -> Vec<ExprId> {
        let (mut seen, mut found, mut open) = (HashSet::new(), Vec::new(), of.to_vec());
        while let Some(e) = open.pop() {
            if !seen.insert(e) {
                continue;
            }
            found.push(e);
            match self.op(e) {
                Op::Read { family, .. } => open.extend(follow(*family)),
                op => op.operands(|x| open.push(x)),
            }
        }
        found
    }

    /// Whether a value is a number, or one everywhere: all that are equal are one node.
    pub(super) fn is_constant(&self, e: ExprId) -> bool {
        match *self.op(e) {
            Op::Const(_) | Op::Size(_) => true,
            Op::Broadcast(of) => self.is_constant(of),
            _ => false,
        }
    }

    pub(super) fn alias(&mut self, e: ExprId, span: Span) -> ExprId {
        self.aliases += 1;
        let (axes, dtype) = (self.axes_of(e).to_vec(), self.dtype(e));
        self.push(Op::Alias(e, self.aliases), axes, dtype, span)
    }

    // ---- elementwise

    /// The axes of an elementwise value: the larger of the two sets, if it contains the other.
    pub(super) fn union(&self, a: &[AxisId], b: &[AxisId]) -> Option<Vec<AxisId>> {
        if b.iter().all(|x| a.contains(x)) {
            Some(a.to_vec())
        } else if a.iter().all(|x| b.contains(x)) {
            Some(b.to_vec())
        } else {
            None
        }
    }

    pub(super) fn unary(&mut self, op: UnaryOp, e: ExprId, span: Span) -> ExprId {
        let axes = self.axes_of(e).to_vec();
        let dtype = if op == UnaryOp::Not { Dtype::Bool } else { Dtype::Real };
        self.push(Op::Unary(op, e), axes, dtype, span)
    }

    pub(super) fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId, span: Span) -> Option<ExprId> {
        let axes = self.union(self.axes_of(a), self.axes_of(b))?;
        let dtype = if says_truth(op) { Dtype::Bool } else { Dtype::Real };
        Some(self.push(Op::Binary(op, a, b), axes, dtype, span))
    }

    pub(super) fn select(&mut self, c: ExprId, a: ExprId, b: ExprId, span: Span) -> Option<ExprId> {
        let axes = self.union(&self.union(self.axes_of(a), self.axes_of(b))?, self.axes_of(c))?;
        let dtype = if self.dtype(a) == Dtype::Bool && self.dtype(b) == Dtype::Bool { Dtype::Bool } else { Dtype::Real };
        Some(self.push(Op::Select(c, a, b), axes, dtype, span))
    }

    pub(super) fn stop(&mut self, e: ExprId, span: Span) -> ExprId {
        let (axes, dtype) = (self.axes_of(e).to_vec(), self.dtype(e));
        self.push(Op::Stop(e), axes, dtype, span)
    }

    // ---- axes

    /// The value along `axes`, which must contain its own.
    pub(super) fn broadcast(&mut self, e: ExprId, axes: &[AxisId], span: Span) -> ExprId {
        let own = self.axes_of(e);
        if own.len() == axes.len() && own.iter().all(|a| axes.contains(a)) {
            return e;
        }
        let dtype = self.dtype(e);
        self.push(Op::Broadcast(e), axes.to_vec(), dtype, span)
    }

    pub(super) fn rename(&mut self, e: ExprId, from: AxisId, to: AxisId, span: Span) -> ExprId {
        if from == to {
            return e;
        }
        // Back to where it came from: no node at all.
        if let Op::Rename { of, from: f, to: t } = *self.op(e)
            && t == from
            && f == to
        {
            return of;
        }
        let axes = self.axes_of(e).iter().map(|a| if *a == from { to } else { *a }).collect();
        let dtype = self.dtype(e);
        self.push(Op::Rename { of: e, from, to }, axes, dtype, span)
    }

    /// Renames several axes at once; the new ones must not be among the old.
    pub(super) fn rename_all(&mut self, e: ExprId, from: &[AxisId], to: &[AxisId], span: Span) -> ExprId {
        from.iter().zip(to).fold(e, |e, (f, t)| if self.axes_of(e).contains(f) { self.rename(e, *f, *t, span) } else { e })
    }

    pub(super) fn reduce(&mut self, op: ReduceOp, of: ExprId, over: Vec<AxisId>, span: Span) -> ExprId {
        if over.is_empty() {
            return of;
        }
        let axes = self.axes_of(of).iter().copied().filter(|a| !over.contains(a)).collect();
        self.push(Op::Reduce { op, of, over }, axes, Dtype::Real, span)
    }

    pub(super) fn dot(&mut self, a: ExprId, b: ExprId, over: Vec<AxisId>, span: Span) -> ExprId {
        let mut axes: Vec<AxisId> = self.axes_of(a).iter().copied().filter(|x| !over.contains(x)).collect();
        for x in self.axes_of(b) {
            if !over.contains(x) && !axes.contains(x) {
                axes.push(*x);
            }
        }
        self.push(Op::Dot { a, b, over }, axes, Dtype::Real, span)
    }

    /// Replaces one axis by several, in its place.
    pub(super) fn split(&mut self, of: ExprId, axis: AxisId, into: Vec<AxisId>, span: Span) -> ExprId {
        match into.as_slice() {
            [one] => return self.rename(of, axis, *one, span),
            [] => return self.at(of, axis, Index::default(), span),
            _ => {}
        }
        let axes = self.axes_of(of).iter().flat_map(|a| if *a == axis { into.clone() } else { vec![*a] }).collect();
        let dtype = self.dtype(of);
        self.push(Op::Split { of, axis, into }, axes, dtype, span)
    }

    /// Replaces several axes by one, in the place of the first.
    pub(super) fn join(&mut self, of: ExprId, joined: Vec<AxisId>, into: AxisId, span: Span) -> ExprId {
        if let [one] = joined.as_slice() {
            return self.rename(of, *one, into, span);
        }
        let mut axes = Vec::new();
        for a in self.axes_of(of) {
            if joined.first() == Some(a) {
                axes.push(into);
            } else if !joined.contains(a) {
                axes.push(*a);
            }
        }
        let dtype = self.dtype(of);
        self.push(Op::Join { of, axes: joined, into }, axes, dtype, span)
    }

    pub(super) fn at(&mut self, of: ExprId, axis: AxisId, index: Index, span: Span) -> ExprId {
        let axes = self.axes_of(of).iter().copied().filter(|a| *a != axis).collect();
        let dtype = self.dtype(of);
        self.push(Op::At { of, axis, index }, axes, dtype, span)
    }

    pub(super) fn slice(&mut self, of: ExprId, axis: AxisId, start: Size, into: AxisId, span: Span) -> ExprId {
        if start == Size::known(0) && self.size(axis) == self.size(into) {
            return self.rename(of, axis, into, span);
        }
        let axes = self.axes_of(of).iter().map(|a| if *a == axis { into } else { *a }).collect();
        let dtype = self.dtype(of);
        self.push(Op::Slice { of, axis, start, into }, axes, dtype, span)
    }

    /// Entries at computed places: the places' axes stand where the axis stood.
    pub(super) fn take(&mut self, of: ExprId, axis: AxisId, at: ExprId, span: Span) -> Option<ExprId> {
        let places = self.axes_of(at).to_vec();
        let own = self.axes_of(of).to_vec();
        if places.iter().any(|p| own.contains(p)) {
            return None;
        }
        let axes = own.iter().flat_map(|a| if *a == axis { places.clone() } else { vec![*a] }).collect();
        let dtype = self.dtype(of);
        Some(self.push(Op::Take { of, axis, at }, axes, dtype, span))
    }

    /// The number that an expression is wherever it is computed, if that is known; a truth value is 0 or 1.
    pub(super) fn known(&self, e: ExprId) -> Option<f64> {
        self.known_within(e, &mut 64)
    }

    /// Looks at no more than `left` operations: shared operands would be visited again and again.
    fn known_within(&self, e: ExprId, left: &mut u32) -> Option<f64> {
        *left = left.checked_sub(1)?;
        match self.op(e) {
            Op::Const(n) => Some(n.0),
            Op::Broadcast(of) => self.known_within(*of, left),
            Op::Unary(UnaryOp::Neg, of) => Some(-self.known_within(*of, left)?),
            Op::Binary(op, a, b) => {
                let (x, y) = (self.known_within(*a, left)?, self.known_within(*b, left)?);
                let truth = |holds: bool| Some(f64::from(u8::from(holds)));
                match op {
                    BinaryOp::Add => Some(x + y),
                    BinaryOp::Sub => Some(x - y),
                    BinaryOp::Mul => Some(x * y),
                    BinaryOp::Div => Some(x / y),
                    BinaryOp::Lt => truth(x < y),
                    BinaryOp::Le => truth(x <= y),
                    BinaryOp::Gt => truth(x > y),
                    BinaryOp::Ge => truth(x >= y),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// One axis gone, replaced by `into` (or by nothing).
    pub(super) fn along(&mut self, op: Op, of: ExprId, axis: AxisId, into: Option<AxisId>, span: Span) -> ExprId {
        let axes = self.axes_of(of).iter().filter_map(|a| if *a == axis { into } else { Some(*a) }).collect();
        self.push(op, axes, Dtype::Real, span)
    }

    /// Parts side by side along `into`, which stands where the first part's own axes stood.
    pub(super) fn concat(&mut self, parts: Vec<ExprId>, along: Vec<Vec<AxisId>>, into: AxisId, span: Span) -> ExprId {
        let mut axes: Vec<AxisId> = Vec::new();
        for (part, gone) in parts.iter().zip(&along) {
            for a in self.axes_of(*part) {
                let a = if gone.contains(a) { into } else { *a };
                if !axes.contains(&a) {
                    axes.push(a);
                }
            }
        }
        if !axes.contains(&into) {
            axes.insert(0, into);
        }
        self.push(Op::Concat { parts, along, into }, axes, Dtype::Real, span)
    }

    pub(super) fn each(&mut self, var: crate::hir::VarId, into: AxisId, body: ExprId, span: Span) -> ExprId {
        let mut axes = vec![into];
        axes.extend(self.axes_of(body));
        let dtype = self.dtype(body);
        self.push(Op::Each { var, into, body }, axes, dtype, span)
    }
}

fn hash_of(hashes: &DefaultHashBuilder, op: &Op, axes: &[AxisId]) -> u64 {
    let mut hasher = hashes.build_hasher();
    op.hash(&mut hasher);
    axes.hash(&mut hasher);
    hasher.finish()
}

/// Whether the result is a truth value; such an operation has no gradient.
pub(super) fn says_truth(op: BinaryOp) -> bool {
    use BinaryOp::*;
    matches!(op, Lt | Le | Gt | Ge | Eq | Ne | And | Or)
}
