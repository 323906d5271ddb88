//! What there is to do in a graph, seen past operations that only arrange entries.

use std::collections::{BTreeMap, HashMap};

use super::spot::{self, Affine};
use crate::ir::{Graph, Op, Program, ValueId};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// Known when compiled.
    Free(Affine),
    /// Arranges the entries of an operand, of this value.
    View(ValueId),
    /// An input, or a parameter of a body.
    Source,
    Work,
}

/// What a value's entries are computed by: a node, and of a scan one of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Root(pub ValueId, pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Node(ValueId),
    Result(usize),
}

#[derive(Debug)]
pub(crate) struct Shape {
    pub kinds: Vec<Kind>,
    pub roots: Vec<Option<Root>>,
    pub uses: BTreeMap<Root, Vec<Use>>,
    /// Of each work node: the roots that it reads.
    pub reads: HashMap<ValueId, Vec<Root>>,
}

impl Shape {
    /// `params` are what is known of a body's parameters.
    pub(crate) fn new(program: &Program, graph: &Graph, params: &dyn Fn(u32) -> Option<Affine>) -> Shape {
        let mut shape = Shape {
            kinds: Vec::with_capacity(graph.nodes.len()),
            roots: Vec::new(),
            uses: BTreeMap::new(),
            reads: HashMap::new(),
        };
        for (v, node) in graph.ids().zip(&graph.nodes) {
            let kind = shape.kind(program, &node.op, params);
            let root = match &kind {
                Kind::Free(_) => None,
                Kind::View(of) => shape.roots[of.0 as usize],
                Kind::Source => Some(Root(v, 0)),
                Kind::Work => match &node.op {
                    Op::Out { scan, index } => Some(Root(*scan, *index)),
                    _ => Some(Root(v, 0)),
                },
            };
            if kind == Kind::Work && !matches!(node.op, Op::Out { .. }) {
                let mut reads: Vec<Root> = Vec::new();
                node.op.operands(|x| {
                    if let Some(root) = shape.roots[x.0 as usize]
                        && !reads.contains(&root)
                    {
                        reads.push(root);
                        shape.uses.entry(root).or_default().push(Use::Node(v));
                    }
                });
                shape.reads.insert(v, reads);
            }
            shape.kinds.push(kind);
            shape.roots.push(root);
        }
        for (i, v) in graph.results.iter().enumerate() {
            if let Some(root) = shape.roots[v.0 as usize] {
                shape.uses.entry(root).or_default().push(Use::Result(i));
            }
        }
        shape
    }

    /// Nodes that compute something, in order.
    pub(crate) fn work(&self) -> impl Iterator<Item = ValueId> + '_ {
        (0..self.kinds.len() as u32).map(ValueId).filter(|v| self.reads.contains_key(v))
    }

    pub(crate) fn uses(&self, root: Root) -> &[Use] {
        self.uses.get(&root).map_or(&[], Vec::as_slice)
    }

    fn kind(&self, program: &Program, op: &Op, params: &dyn Fn(u32) -> Option<Affine>) -> Kind {
        let known = |v: ValueId| match &self.kinds[v.0 as usize] {
            Kind::Free(a) => Some(a.clone()),
            _ => None,
        };
        match op {
            Op::Input(_) => return Kind::Source,
            Op::Param(p) => return params(*p).map_or(Kind::Source, Kind::Free),
            _ => {}
        }
        if let Some(a) = spot::affine(op, known) {
            return Kind::Free(a);
        }
        // Indices that leave the axis are judged when it runs.
        let affine = |at, axis| known(at).is_some_and(|a| a.is_stride() && a.is_below(program, program.size(axis)));
        if spot::arranges(program, op, affine) {
            let of = operand(op);
            let places = if let Op::Gather { at, .. } = op { known(*at) } else { None };
            if let Some(a) = known(of)
                && let Some(spot::Spot::Affine(a)) = spot::view(program, op, &spot::Spot::Affine(a), places.as_ref())
            {
                return Kind::Free(a);
            }
            if known(of).is_none() {
                return Kind::View(of);
            }
        }
        Kind::Work
    }
}

/// What an arranging operation arranges.
fn operand(op: &Op) -> ValueId {
    let mut first = None;
    op.operands(|v| {
        first.get_or_insert(v);
    });
    first.unwrap_or(ValueId(0))
}
