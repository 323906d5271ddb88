//! The order in which a tile's nodes become statements.
//!
//! A node joins the open map if it fits and is not too early. Otherwise statements that are no maps come first, so that the
//! next map finds all it needs. The order takes about the same time for each node, however many wait: nodes that cannot
//! join the open map are not asked again until something changes for them.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::Result;
use super::open::{Fit, Open};
use super::tile::{Block, TileBuilder};
use crate::ir::ValueId;

/// No statement needs it: it is given out.
const NEVER: usize = usize::MAX;

/// Nodes whose operands are done.
#[derive(Default)]
struct Ready {
    /// See [`TileBuilder::needed`].
    needed: HashMap<ValueId, usize>,
    /// Entries of a row from which on a map is large.
    large: usize,
    /// Nodes that go into maps, with the entries of their map.
    entries: HashMap<ValueId, usize>,
    /// The same, first those that are needed first, small maps before large ones: a large one then finds what they compute.
    order: BTreeSet<(usize, usize, ValueId)>,
    /// Nodes that do not go into maps.
    apart: BTreeSet<ValueId>,
    /// How far the tile is, counted as `needed` is.
    now: usize,
    /// Nodes that may join the open map now: needed by now, large, or given out and close to it.
    in_time: BTreeSet<ValueId>,
    /// Those that are in time only because they read what the open map computes.
    close: HashSet<ValueId>,
    /// Nodes in time that do not fit into the open map.
    misfits: Vec<ValueId>,
    /// Nodes in time that no reader would follow into a map, by the nodes that their readers wait for.
    waiting: HashMap<ValueId, Vec<ValueId>>,
}

impl Ready {
    /// Adds a node. `entries` is that of its map, if it goes into one; `reads_open` says whether it reads the open map.
    fn insert(&mut self, v: ValueId, entries: Option<usize>, reads_open: impl FnOnce() -> bool) {
        let Some(entries) = entries else {
            self.apart.insert(v);
            return;
        };
        let needed = self.needed[&v];
        self.entries.insert(v, entries);
        self.order.insert((needed, entries, v));
        if needed == NEVER && self.now < NEVER && reads_open() {
            self.close.insert(v);
        }
        self.ask_again(v);
    }

    /// Adds a node that is ready to those in time, if it is.
    fn ask_again(&mut self, v: ValueId) {
        if let Some(entries) = self.entries.get(&v)
            && (self.needed[&v] <= self.now || *entries >= self.large || self.close.contains(&v))
        {
            self.in_time.insert(v);
        }
    }

    /// The first node in time that fits into the open map. Those that do not are put aside.
    fn joins(&mut self, fit: impl Fn(ValueId) -> Fit) -> Option<ValueId> {
        while let Some(v) = self.in_time.first().copied() {
            match fit(v) {
                Fit::Joins => return Some(v),
                Fit::Misfit => self.misfits.push(v),
                Fit::Alone(on) => on.into_iter().for_each(|r| self.waiting.entry(r).or_default().push(v)),
            }
            self.in_time.remove(&v);
        }
        None
    }

    fn remove(&mut self, v: ValueId) {
        match self.entries.remove(&v) {
            Some(entries) => {
                self.order.remove(&(self.needed[&v], entries, v));
                self.in_time.remove(&v);
            }
            None => drop(self.apart.remove(&v)),
        }
    }

    /// The node to do where none joins the open map.
    fn next(&self) -> Option<ValueId> {
        self.apart.first().copied().or_else(|| self.order.first().map(|(.., v)| *v))
    }

    /// A node was done that did not join the open map.
    fn advance(&mut self, now: usize) {
        let before = std::mem::replace(&mut self.now, now);
        if before < now {
            let first = (before + 1, 0, ValueId(0));
            let due = self.order.range(first..).take_while(|(needed, ..)| *needed <= now);
            self.in_time.extend(due.map(|(.., v)| *v));
        } else if now < before {
            let Ready { needed, entries, close, large, .. } = self;
            self.in_time.retain(|v| needed[v] <= now || entries[v] >= *large || close.contains(v));
        }
    }

    /// The map was closed: what was ready by then does not read the next one.
    fn map_closed(&mut self) {
        for v in std::mem::take(&mut self.close) {
            self.in_time.remove(&v);
            self.ask_again(v);
        }
        self.map_changed();
    }

    /// The open map has changed so that other nodes may fit.
    fn map_changed(&mut self) {
        std::mem::take(&mut self.misfits).into_iter().for_each(|v| self.ask_again(v));
    }

    /// A node is done.
    fn done(&mut self, v: ValueId) {
        self.waiting.remove(&v).into_iter().flatten().for_each(|v| self.ask_again(v));
    }
}

impl TileBuilder<'_, '_> {
    /// Does all of a block's nodes.
    pub(crate) fn block(&mut self, b: &mut Block<'_>) -> Result<()> {
        self.concat_homes(b);
        let mut missing: HashMap<ValueId, usize> = HashMap::new();
        let mut waiting: HashMap<ValueId, Vec<ValueId>> = HashMap::new();
        let mut ready = Ready { needed: self.needed(b), large: self.fuser.target.large, ..Ready::default() };
        for v in &b.nodes {
            let mut on: Vec<ValueId> = b.shape.reads[v].iter().map(|r| r.0).filter(|r| b.nodes.contains(r)).collect();
            on.sort();
            on.dedup();
            on.iter().for_each(|r| waiting.entry(*r).or_default().push(*v));
            missing.insert(*v, on.len());
            if on.is_empty() {
                ready.insert(*v, self.entries(b, *v), || self.reads_open(b, *v));
            }
        }
        loop {
            let (closed, orders) = (b.closed, b.open.as_ref().map(Open::orders));
            let joins = b.open.as_ref().and_then(|open| ready.joins(|v| self.fit(b, open, v)));
            let Some(v) = joins.or_else(|| ready.next()) else { break };
            ready.remove(v);
            if joins.is_none() {
                ready.advance(ready.needed[&v]);
            }
            let done = self.node(b, v)?;
            if b.closed != closed {
                ready.map_closed();
            } else if b.open.as_ref().map(Open::orders) != orders {
                ready.map_changed();
            }
            for done in done {
                ready.done(done);
                for next in waiting.remove(&done).unwrap_or_default() {
                    let left = missing.get_mut(&next).expect("it waits");
                    *left -= 1;
                    if *left == 0 && !b.done.contains(&next) {
                        ready.insert(next, self.entries(b, next), || self.reads_open(b, next));
                    }
                }
            }
        }
        self.close(b)
    }

    /// How many statements that are no maps, one after the other, come before the first that needs each node. A map's
    /// nodes are computed when they are needed and not when they can be: what is computed long before has to be held.
    fn needed(&self, b: &Block<'_>) -> HashMap<ValueId, usize> {
        let inside = |v: &ValueId| b.shape.reads[v].iter().map(|r| r.0).filter(|r| b.nodes.contains(r)).collect::<Vec<_>>();
        let apart: HashSet<ValueId> = b.nodes.iter().copied().filter(|v| !self.goes_into_maps(b, *v)).collect();
        let mut before: HashMap<ValueId, usize> = HashMap::new();
        for v in &b.nodes {
            let level = inside(v).iter().map(|r| before[r] + usize::from(apart.contains(r))).max().unwrap_or(0);
            before.insert(*v, level);
        }
        let mut needed: HashMap<ValueId, usize> = b.nodes.iter().map(|v| (*v, NEVER)).collect();
        for v in b.nodes.iter().rev() {
            if apart.contains(v) {
                needed.insert(*v, before[v]);
            }
            let by = needed[v];
            for r in inside(v) {
                needed.entry(r).and_modify(|n| *n = by.min(*n));
            }
        }
        needed
    }
}
