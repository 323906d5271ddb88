//! Random programs from a seed: every primitive and composite, shapes with axes of size one, odd and zero, scans within
//! scans in both directions. Values stay where functions are smooth, so that finite differences make sense.
//!
//! A program is made blindly, out of steps that tend to keep values moderate, then run; if it is rough near its inputs
//! ([`roughness`]), the next one is tried.

mod ops;
mod places;
mod scan;

use super::draft::NOWHERE;
use super::{Draft, Rng, roughness};
use crate::interp::{Array, Clock};
use crate::ir::{AxisId, Graph, Op, Program, Role, ValueId};
use crate::random::mix;

/// Values have at most so many entries and axes.
const ENTRIES: usize = 300;
const RANK: usize = 4;

/// A program with several results, and inputs for it. Inputs of the role `Param` can be moved; others are places to
/// gather at.
pub fn random_program(seed: u64) -> (Program, Vec<Array<f64>>) {
    smooth_program(seed, Maker::finish_with_all)
}

/// A program with one result, a single number that everything else flows into.
pub fn random_scalar_program(seed: u64) -> (Program, Vec<Array<f64>>) {
    smooth_program(seed, Maker::finish_with_sum)
}

type Made = (Program, Vec<Array<f64>>);

fn smooth_program(seed: u64, finish: impl Fn(Maker, Scope) -> Made) -> Made {
    let mut last = String::new();
    for attempt in 0..1000 {
        let (program, inputs) = make(mix(mix(seed.wrapping_add(1)).wrapping_add(attempt)), &finish);
        match roughness(&program, &inputs, Clock::default()) {
            Ok(None) => return (program, inputs),
            Ok(Some(rough)) => last = rough,
            Err(error) => panic!("a random program does not run: {error}\n{program:#?}"),
        }
    }
    panic!("no smooth program for the seed {seed}: {last}")
}

fn make(seed: u64, finish: &impl Fn(Maker, Scope) -> Made) -> Made {
    let mut maker = Maker { rng: Rng::new(seed), draft: Draft::new(), arrays: Vec::new(), bases: Vec::new() };
    maker.draft.program.name = format!("random{seed:x}");
    let mut scope = maker.start();
    let steps = 4 + maker.rng.below(14);
    maker.steps(&mut scope, steps);
    finish(maker, scope)
}

/// What all graphs of a program share while it is made. The draft's own graph comes last: it is the outermost scope's.
struct Maker {
    rng: Rng,
    draft: Draft,
    /// Numbers for the inputs.
    arrays: Vec<Array<f64>>,
    /// Axes that many values share, so that operations find operands that line up.
    bases: Vec<AxisId>,
}

/// One graph while it is made: the program's or a scan's body.
struct Scope {
    graph: Graph,
    /// Values to build on.
    pool: Vec<ValueId>,
    /// Axes of the scans around it, which no value inside may have.
    closed: Vec<AxisId>,
}

impl Maker {
    fn start(&mut self) -> Scope {
        let sizes = [1, 2, 3, 3, 4, 5, 6, 7];
        for i in 0..4 {
            let size = if self.rng.one_in(40) { 0 } else { self.rng.pick(&sizes) };
            let axis = self.draft.axis(&format!("a{i}"), size);
            self.bases.push(axis);
        }
        let mut scope = Scope { graph: Graph::default(), pool: Vec::new(), closed: Vec::new() };
        for i in 0..2 + self.rng.below(3) {
            let mut axes = self.rng.some_of(&self.bases.clone());
            self.rng.shuffle(&mut axes);
            axes.truncate(3);
            while self.draft.program.len(&axes) > ENTRIES / 4 {
                axes.pop();
            }
            let value = self.input(&mut scope, &format!("x{i}"), Role::Param, &axes, |rng| rng.between(-1.5, 1.5));
            scope.pool.push(value);
        }
        scope
    }

    fn input(
        &mut self,
        scope: &mut Scope,
        name: &str,
        role: Role,
        axes: &[AxisId],
        mut number: impl FnMut(&mut Rng) -> f64,
    ) -> ValueId {
        let len = self.draft.program.len(axes);
        self.arrays.push(Array { axes: axes.to_vec(), data: (0..len).map(|_| number(&mut self.rng)).collect() });
        self.draft.given(name, role, axes);
        let number = self.draft.program.inputs.len() as u32 - 1;
        scope.graph.push(Op::Input(number), axes.to_vec(), NOWHERE)
    }

    /// Some operations on what is there.
    fn steps(&mut self, scope: &mut Scope, count: usize) {
        for _ in 0..count {
            let made = match self.rng.below(20) {
                0..=3 => Some(self.unary(scope)),
                4..=7 => Some(self.binary(scope)),
                8 | 9 => self.composite(scope),
                10 => Some(self.leaf(scope)),
                11..=13 => self.axis_operation(scope),
                14 => self.concat(scope),
                15 => self.dot(scope),
                16 => self.reduce(scope),
                17 => self.gather(scope),
                18 => self.scatter(scope),
                _ if scope.closed.len() < 2 => {
                    self.scan(scope);
                    None
                }
                _ => None,
            };
            if let Some(value) = made {
                self.keep(scope, value);
            }
        }
    }

    /// Puts a value into the pool, unless it is too large to build on.
    fn keep(&mut self, scope: &mut Scope, value: ValueId) {
        let axes = scope.graph.axes(value);
        if axes.len() <= RANK && self.draft.program.len(axes) <= ENTRIES {
            scope.pool.push(value);
        }
    }

    /// A value of the pool, a recent one more often than an old one.
    fn pick(&mut self, scope: &Scope) -> ValueId {
        let back = self.rng.unit().powi(2) * scope.pool.len() as f64;
        scope.pool[scope.pool.len() - 1 - back as usize]
    }

    /// A value of the pool for which `good` holds.
    fn pick_with(&mut self, scope: &Scope, good: impl Fn(&Scope, &[AxisId]) -> bool) -> Option<ValueId> {
        let found: Vec<ValueId> = scope.pool.iter().copied().filter(|v| good(scope, scope.graph.axes(*v))).collect();
        if found.is_empty() { None } else { Some(self.rng.pick(&found)) }
    }

    fn pick_axis(&mut self, scope: &Scope, value: ValueId) -> Option<AxisId> {
        let axes = scope.graph.axes(value);
        if axes.is_empty() { None } else { Some(self.rng.pick(axes)) }
    }

    fn size(&self, axis: AxisId) -> usize {
        self.draft.program.size(axis)
    }

    /// An axis that the value does not have, mostly one that others have.
    fn other_axis(&mut self, scope: &Scope, axes: &[AxisId]) -> AxisId {
        let free: Vec<AxisId> = self.bases.iter().copied().filter(|a| !axes.contains(a) && !scope.closed.contains(a)).collect();
        if free.is_empty() || self.rng.one_in(4) {
            let size = self.rng.pick(&[1, 2, 3, 5]);
            return self.draft.axis("fresh", size);
        }
        self.rng.pick(&free)
    }

    /// An axis of this size that the value does not have.
    fn axis_of_size(&mut self, scope: &Scope, axes: &[AxisId], size: usize) -> AxisId {
        let known = self.bases.iter().copied();
        let free: Vec<AxisId> =
            known.filter(|a| self.size(*a) == size && !axes.contains(a) && !scope.closed.contains(a)).collect();
        if free.is_empty() || self.rng.one_in(3) { self.draft.axis("same", size) } else { self.rng.pick(&free) }
    }

    /// The value with exactly these axes, in some order: summed over others, repeated along those it lacks.
    fn conform(&mut self, scope: &mut Scope, value: ValueId, axes: &[AxisId]) -> ValueId {
        let extra: Vec<AxisId> = scope.graph.axes(value).iter().copied().filter(|a| !axes.contains(a)).collect();
        let n = self.draft.program.len(&extra).max(1);
        let sum = scope.graph.sum(value, &extra, NOWHERE);
        let mean = scope.graph.scale(sum, 1.0 / n as f64, NOWHERE);
        scope.graph.expand(mean, axes, NOWHERE)
    }

    /// Values that no other value is made of.
    fn ends(scope: &Scope) -> Vec<ValueId> {
        let mut read = vec![false; scope.graph.nodes.len()];
        for node in &scope.graph.nodes {
            node.op.operands(|v| read[v.0 as usize] = true);
        }
        scope.pool.iter().copied().filter(|v| !read[v.0 as usize]).collect()
    }

    fn finish_with_all(mut self, scope: Scope) -> Made {
        let ends = Maker::ends(&scope);
        self.draft.graph = scope.graph;
        (self.draft.finish(&ends), self.arrays)
    }

    fn finish_with_sum(mut self, mut scope: Scope) -> Made {
        let mut total = scope.graph.constant(0.0, NOWHERE);
        for end in Maker::ends(&scope) {
            let mean = self.conform(&mut scope, end, &[]);
            let factor = self.rng.between(0.5, 1.5);
            let part = scope.graph.scale(mean, factor, NOWHERE);
            total = scope.graph.add(total, part, NOWHERE);
        }
        self.draft.graph = scope.graph;
        (self.draft.finish(&[total]), self.arrays)
    }
}
