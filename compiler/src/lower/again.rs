//! Values of the training step computed again with parameters that have changed: what the losses of an optimiser see
//! that steps after another one.

use std::collections::{BTreeSet, HashMap};

use super::{Lower, Result};
use crate::ir::{Graph, Role, ValueId};
use dsl::hir::ParamId;

/// Copies of values, for one optimiser at a time.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// A value and what stands for it now. What depends on nothing that has changed stands for itself.
    copies: HashMap<ValueId, ValueId>,
    /// Running values that an optimiser has read, as it has read them.
    settled: HashMap<ValueId, ValueId>,
}

impl Again {
    /// The running value that the step gives out.
    pub(super) fn settled(&self, running: ValueId) -> ValueId {
        self.settled.get(&running).copied().unwrap_or(running)
    }

    /// The value as the present optimiser sees it. Only what has changed is computed again.
    pub(super) fn value(&mut self, graph: &mut Graph, root: ValueId) -> ValueId {
        // Operands come before their users.
        for id in behind(graph, [root], |v| self.copies.contains_key(&v)) {
            let node = graph.node(id);
            let mut changed = false;
            node.op.operands(|v| changed |= self.copies.get(&v).is_some_and(|copy| *copy != v));
            let copy = if changed {
                let node = node.clone();
                let op = node.op.map_operands(|v| self.copies.get(&v).copied().unwrap_or(v));
                graph.push(op, node.axes, node.span)
            } else {
                id
            };
            self.copies.insert(id, copy);
        }
        self.copies.get(&root).copied().unwrap_or(root)
    }
}

/// A value and all that it is computed from, in order. What is known already is not entered.
fn behind(graph: &Graph, roots: impl IntoIterator<Item = ValueId>, known: impl Fn(ValueId) -> bool) -> BTreeSet<ValueId> {
    let mut found = BTreeSet::new();
    let mut open: Vec<ValueId> = roots.into_iter().collect();
    while let Some(v) = open.pop() {
        if !known(v) && found.insert(v) {
            graph.node(v).op.operands(|x| open.push(x));
        }
    }
    found
}

impl Lower<'_> {
    /// From now on values are as the losses of an optimiser see them: after the steps that it waits for.
    pub(super) fn see(&mut self, again: &mut Again, o: usize, updated: &[(ParamId, ValueId)]) -> Result<()> {
        again.copies = again.settled.clone();
        let optimizer = &self.model.optimizers[o];
        for p in &optimizer.sees {
            let Some((_, new)) = updated.iter().find(|(q, _)| q == p) else {
                return self.unsupported("a parameter is seen that does not change before", optimizer.span);
            };
            let old = self.param(*p, Role::Param, optimizer.span)?;
            let new = self.graph().stop(*new, optimizer.span);
            again.copies.insert(old, new);
        }
        Ok(())
    }

    /// Running values are updated once a step: with what the first optimiser sees whose losses read them.
    pub(super) fn settle(&mut self, again: &mut Again, terms: &[ValueId]) {
        let read = behind(self.graph(), terms.iter().copied(), |_| false);
        for v in self.updated.values().filter(|v| read.contains(v)) {
            let seen = again.copies.get(v).copied().unwrap_or(*v);
            again.settled.entry(*v).or_insert(seen);
        }
    }
}
