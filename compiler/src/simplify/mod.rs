//! Simplification: passes from graph program to graph program that keep its numbers.
//!
//! | pass | |
//! |---|---|
//! | [`unroll`] | a scan of one step is its body |
//! | [`coalesce`] | axes that nothing tells apart become one |
//! | [`fold`] | constants are computed |
//! | [`mod@rewrite`] | local rules, one equation a rule |
//! | [`cse`] | equal values are computed once |
//! | [`hoist`] | work that depends on no carry leaves its loop |
//! | [`sink`] | running sums of products leave their loop |
//! | [`dce`] | what no output needs goes |
//!
//! [`empty`], [`ends`], [`beside`], [`pull`], [`spread`], [`peel`] and [`keep`] are for kernels alone: what has no entries goes, what
//! follows a loop goes into it, products of the same rows are one, and loops work on what is near.
//!
//! [`simplify`] runs them in this order until none changes anything. Passes neither depend on the order of nodes that do
//! not depend on each other nor on any hash, so equal programs give equal programs. Gradients of a simplified program
//! are the gradients of the program; [`strip_stops`] is for when there are none left to take.

mod beside;
mod coalesce;
mod cse;
mod dce;
mod empty;
mod ends;
mod expand;
mod fold;
mod hoist;
mod keep;
mod peel;
mod pull;
pub mod rewrite;
mod sink;
mod spread;
mod stops;
mod unroll;

use std::collections::HashMap;

pub use beside::beside;
pub use coalesce::coalesce;
pub(crate) use cse::Shared;
pub use cse::cse;
pub use dce::dce;
pub use empty::empty;
pub use ends::ends;
pub use expand::expand_composites;
pub use fold::fold;
pub use hoist::{Hoisted, hoist, hoist_logged};
pub use keep::keep;
pub use peel::peel;
pub use pull::pull;
pub use rewrite::rewrite;
pub use sink::{sink, sink_along};
pub use spread::spread;
pub use stops::strip_stops;
pub use unroll::unroll;

use crate::ir::{Axis, AxisId, Graph, Op, Program, ValueId, verify};

/// A pass and its name.
pub type Pass = (&'static str, fn(&mut Program));

/// The passes, in order, under the names that `wmc compile --dump` knows.
pub const PASSES: &[Pass] = &[
    ("unroll", unroll),
    ("coalesce", coalesce),
    ("fold", fold),
    ("rewrite", rewrite::rewrite),
    ("cse", cse),
    ("hoist", hoist),
    ("sink", sink),
    ("dce", dce),
];

/// Rounds of all passes; programs come to rest long before.
const ROUNDS: usize = 16;

/// Runs the passes until the program does not change any more.
pub fn simplify(program: &mut Program) {
    for _ in 0..ROUNDS {
        let before = program.clone();
        for pass in PASSES {
            run(program, pass);
        }
        if *program == before {
            return;
        }
    }
}

/// Runs the passes once, up to and with the one of this name. False if there is none.
pub fn run_until(program: &mut Program, name: &str) -> bool {
    let Some(last) = PASSES.iter().position(|(pass, _)| *pass == name) else { return false };
    for pass in &PASSES[..=last] {
        run(program, pass);
    }
    true
}

/// Runs a pass; in debug builds the outcome is verified.
fn run(program: &mut Program, (name, pass): &Pass) {
    pass(program);
    if cfg!(debug_assertions)
        && let Err(error) = verify::verify(program)
    {
        panic!("after {name}: {error}");
    }
}

/// Changes a program's graph and gives its results the storage order that is part of its interface: the order that they
/// had, or that of the input that they update.
fn change(program: &mut Program, change: impl FnOnce(&mut Vec<Axis>, Graph) -> Graph) {
    let updated = |i: usize| program.inputs.get(program.outputs.get(i)?.updates?);
    let own = |v: &ValueId| program.graph.axes(*v).to_vec();
    let results = program.graph.results.iter().enumerate();
    let order: Vec<Vec<AxisId>> = results.map(|(i, v)| updated(i).map_or_else(|| own(v), |x| x.axes.clone())).collect();
    let mut graph = change(&mut program.axes, std::mem::take(&mut program.graph));
    let mut ordered: HashMap<(ValueId, Vec<AxisId>), ValueId> = HashMap::new();
    for (i, axes) in order.into_iter().enumerate() {
        let v = graph.results[i];
        if graph.axes(v) != axes {
            let span = graph.node(v).span;
            graph.results[i] = *ordered.entry((v, axes.clone())).or_insert_with(|| graph.push(Op::Expand(v), axes, span));
        }
    }
    program.graph = graph;
}
