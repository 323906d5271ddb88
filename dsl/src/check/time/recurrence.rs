//! The order in which equations can be computed.
//!
//! An equation needs every equation that gives a part of what it reads. Where that runs in a circle the values may
//! still follow from each other step by step: if, along one subscript, everything in the circle is read at a fixed
//! distance from what it defines and no distance points the other way, then a loop along that subscript computes it.
//! Reads at a distance other than zero are done by then; without them the body of the loop is a smaller problem of
//! the same kind (Allen and Kennedy's loop distribution), which may hold loops along other subscripts.
//! A loop visits all values of the subscript that one of its equations gives; each takes part where its range is.
//!
//! ```text
//! mean[i+1, k] <- elite[i, k] <- u[i, n, k] <- mean[i, k]      a forward loop along subscript 0, and in it
//! x[i, n, k+1] <- x[i, n, k]                                   a forward loop along subscript 2
//! ```

mod standstill;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::View;
use super::cover::Cover;
use super::domains::Domains;
use super::graph::Graph;
use super::interval::Interval;
use super::reads::{Item, Read, Target};
use crate::diagnostics::Diagnostic;
use crate::hir::{Def, DefId, Direction, Lhs, Stage};
use crate::source::Span;

/// The stages in an order that respects every read, and the circles that have none.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) stages: Vec<Stage>,
    /// With an equation of the circle.
    pub(super) faults: Vec<(DefId, Diagnostic)>,
}

pub(super) fn order(view: &View<'_>, items: &[Item<'_>], domains: &Domains, covers: &[Cover]) -> Order {
    let mut edges = Vec::new();
    for (from, item) in items[..view.system.defs.len()].iter().enumerate() {
        for (number, read) in item.reads.iter().enumerate() {
            let Target::Family(family) = read.target else {
                continue;
            };
            let Some(touched) = domains.touched(read) else {
                continue;
            };
            let given = covers[family.0 as usize].overlapping(&touched);
            edges.extend(given.map(|to| Edge { from: from as u32, to: to.0, read: number as u32 }));
        }
    }
    let members: Vec<u32> = (0..view.system.defs.len() as u32).collect();
    let mut ordering = Ordering { view, items, domains, place: vec![0; members.len()], faults: Vec::new() };
    let stages = ordering.stages(&members, edges);
    Order { stages, faults: ordering.faults }
}

/// Equation `from` needs equation `to`.
#[derive(Debug, Clone, Copy)]
struct Edge {
    from: u32,
    to: u32,
    /// The read of `from` that says so.
    read: u32,
}

struct Ordering<'a> {
    view: &'a View<'a>,
    items: &'a [Item<'a>],
    domains: &'a Domains,
    /// Where an equation stands among those being ordered.
    place: Vec<u32>,
    faults: Vec<(DefId, Diagnostic)>,
}

impl<'a> Ordering<'a> {
    /// Orders equations by the reads among them; as near to the order of the text as those allow.
    fn stages(&mut self, members: &[u32], edges: Vec<Edge>) -> Vec<Stage> {
        for (place, &member) in members.iter().enumerate() {
            self.place[member as usize] = place as u32;
        }
        let local = edges.iter().map(|edge| (self.place[edge.from as usize], self.place[edge.to as usize]));
        let components = Graph::new(members.len(), local).components();
        let mut component = vec![0; members.len()];
        let mut circles: Vec<Circle> = Vec::with_capacity(components.len());
        for (number, places) in components.into_iter().enumerate() {
            for &place in &places {
                component[place as usize] = number;
            }
            let mut defs: Vec<u32> = places.into_iter().map(|place| members[place as usize]).collect();
            defs.sort_by_key(|def| self.text(*def));
            circles.push(Circle { defs, edges: Vec::new() });
        }

        let mut waits = vec![0; circles.len()];
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); circles.len()];
        for edge in edges {
            let [from, to] = [edge.from, edge.to].map(|def| component[self.place[def as usize] as usize]);
            if from == to {
                circles[from].edges.push(edge);
            } else {
                waits[from] += 1;
                readers[to].push(from);
            }
        }
        let key = |number: usize, circles: &[Circle]| Reverse((circles[number].defs.first().map(|def| self.text(*def)), number));
        let mut ready: BinaryHeap<_> = (0..circles.len()).filter(|c| waits[*c] == 0).map(|c| key(c, &circles)).collect();
        let mut order = Vec::with_capacity(circles.len());
        while let Some(Reverse((_, number))) = ready.pop() {
            order.push(number);
            for &reader in &readers[number] {
                waits[reader] -= 1;
                if waits[reader] == 0 {
                    ready.push(key(reader, &circles));
                }
            }
        }
        order.into_iter().filter_map(|number| self.stage(std::mem::take(&mut circles[number]))).collect()
    }

    /// Where an equation stands in the text.
    fn text(&self, def: u32) -> (Span, u32) {
        (self.items[def as usize].span, def)
    }

    fn def(&self, def: u32) -> &'a Def {
        self.view.system.def(DefId(def))
    }

    fn read(&self, edge: Edge) -> &'a Read<'a> {
        &self.items[edge.from as usize].reads[edge.read as usize]
    }

    /// How far from what it defines an equation reads, along a subscript; none where that is not fixed.
    fn distance(&self, edge: Edge, position: usize) -> Option<i64> {
        let index = self.read(edge).index.get(position)?;
        match *self.def(edge.from).lhs.get(position)? {
            Lhs::At(at) => index.constant()?.checked_sub(at),
            Lhs::Var { var, offset } => index.shifted().filter(|(v, _)| *v == var)?.1.checked_sub(offset),
        }
    }

    /// One equation, or a loop over equations that need each other; nothing where there is no such loop.
    fn stage(&mut self, circle: Circle) -> Option<Stage> {
        if circle.edges.is_empty() {
            return circle.defs.first().map(|def| Stage::Map(DefId(*def)));
        }
        let subscripts = circle.defs.iter().map(|def| self.def(*def).lhs.len()).min().unwrap_or(0);
        let ways: Vec<Way> = (0..subscripts).map(|position| self.way(&circle, position)).collect();
        let found = ways.iter().enumerate().find_map(|(position, way)| match way {
            Way::Loop { direction, reach } => Some((position, *direction, *reach)),
            Way::Still | Way::Both { .. } | Way::Varying(_) => None,
        });
        let Some((position, direction, reach)) = found else {
            let diagnostic = self.no_loop(&circle, &ways);
            self.faults.push((DefId(circle.defs[0]), diagnostic));
            return None;
        };

        let visited = circle.defs.iter().map(|def| self.domains.given(&self.def(*def).lhs[position..=position])[0]);
        let visited = visited.reduce(Interval::hull).unwrap_or(Interval::point(0));
        let (lo, hi) = visited.to_half_open();
        let here: Vec<Edge> = circle.edges.iter().copied().filter(|edge| self.distance(*edge, position) == Some(0)).collect();
        // A loop for each subscript: as deep as an author nests them.
        let body = stacker::maybe_grow(64 << 10, 1 << 20, || self.stages(&circle.defs, here));
        Some(Stage::Scan { position, direction, lo, hi, reach, body })
    }

    /// How the reads of a circle lie along a subscript.
    fn way(&self, circle: &Circle, position: usize) -> Way {
        let (mut past, mut future) = (None, None);
        let mut reach = 0;
        for &edge in &circle.edges {
            let Some(distance) = self.distance(edge, position) else {
                return Way::Varying(edge);
            };
            reach = reach.max(distance.saturating_abs());
            let side = match distance {
                ..0 => &mut past,
                0 => continue,
                1.. => &mut future,
            };
            // The first in the text stands for all.
            if side.is_none_or(|known| self.read(edge).span < self.read(known).span) {
                *side = Some(edge);
            }
        }
        match (past, future) {
            (None, None) => Way::Still,
            (Some(past), Some(future)) => Way::Both { past, future },
            (Some(_), None) => Way::Loop { direction: Direction::Forward, reach },
            (None, Some(_)) => Way::Loop { direction: Direction::Backward, reach },
        }
    }
}

/// Equations that need each other, with the reads among them; or one equation, and no reads.
#[derive(Debug, Default)]
struct Circle {
    /// In the order of the text.
    defs: Vec<u32>,
    edges: Vec<Edge>,
}

/// How the reads of a circle lie along one subscript.
#[derive(Debug)]
enum Way {
    /// All at distance zero.
    Still,
    Loop {
        direction: Direction,
        reach: i64,
    },
    Both {
        past: Edge,
        future: Edge,
    },
    /// This one at no fixed distance.
    Varying(Edge),
}
