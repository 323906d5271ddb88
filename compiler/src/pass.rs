//! Passes: what every pass is, the context that it runs in, and how a list of them is run.
//!
//! A pass changes a graph program and keeps its numbers. Passes stand in two lists:
//! [`simplify::SIMPLIFY`](crate::simplify::SIMPLIFY) for every program, and
//! [`prepare::kernel_passes`](crate::prepare::kernel_passes) for programs that become kernels.
//! In debug builds, in tests and in `wmc selftest` the [verifier](crate::ir::verify) runs after each pass.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ir::verify::{VerifyError, verify};
use crate::ir::{Axis, AxisId, Graph, Op, Program, ValueId};
use crate::kernel::Target;

/// A pass as it stands in a list.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    /// What `wmc compile --dump` and filetests call it.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    pub(crate) run: fn(&mut Program, &mut Context),
}

impl Pass {
    /// Runs the pass, and the verifier where that is asked for.
    pub fn run(&self, program: &mut Program, context: &mut Context) -> Result<(), Broken> {
        (self.run)(program, context);
        match VERIFY.load(Ordering::Relaxed) {
            true => verify(program).map_err(|error| Broken { pass: self.name, error }),
            false => Ok(()),
        }
    }
}

/// What passes know beside the program.
#[derive(Debug, Clone)]
pub struct Context {
    pub target: Target,
    /// The axes that become rows of kernels; the pass `find_rows` finds them.
    pub rows: Vec<AxisId>,
    /// The loops of the program's graph whose steps exchange numbers between rows.
    pub crossing: fn(&Program) -> Vec<ValueId>,
}

impl Context {
    pub fn new(target: Target) -> Context {
        Context { target, rows: Vec::new(), crossing: crate::prepare::find_rows::crossing }
    }
}

/// For passes that know nothing of devices.
impl Default for Context {
    fn default() -> Context {
        Context::new(crate::backend::cpu::TARGET)
    }
}

/// A pass broke an invariant of graph programs: a fault of the compiler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pass `{pass}` breaks the program: {error}")]
pub struct Broken {
    pub pass: &'static str,
    pub error: VerifyError,
}

static VERIFY: AtomicBool = AtomicBool::new(cfg!(debug_assertions));

/// From now on the verifier runs after each pass in this process, as it does in debug builds.
pub fn verify_always() {
    VERIFY.store(true, Ordering::Relaxed);
}

/// Runs a list of passes, one after the other.
pub fn run(list: &[Pass], program: &mut Program, context: &mut Context) -> Result<(), Broken> {
    list.iter().try_for_each(|pass| pass.run(program, context))
}

/// Changes a program's graph and gives its results the storage order that is part of its interface: the order that they
/// had, or that of the input that they update.
pub(crate) fn change(program: &mut Program, change: impl FnOnce(&mut Vec<Axis>, Graph) -> Graph) {
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
