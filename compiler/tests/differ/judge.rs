//! Whether a checked model compiles and computes what the reference computes.

use dsl::hir::Model;
use wmc_compiler::backend::Device;
use wmc_compiler::ir::{AxisId, Graph, Node, Op, Program};
use wmc_compiler::kernel::fuse::{FuseError, Level};
use wmc_compiler::lower::{Entry, LowerError};
use wmc_compiler::run::{Call, CallError, Kernels, Tensors, call, program};
use wmc_compiler::testing::Rng;

use crate::support::{difference, made_up};

/// How far kernels may be from the reference, relative to the largest entry, beyond what rounding does to the reference itself.
const BOUND: f64 = 2e-3;
/// Operations of a program that is run, and entries of all its values; larger ones are lowered, fused and verified alone.
const MOST: usize = 6_000;
const MOST_ENTRIES: usize = 1 << 21;

#[derive(Debug, Default, Clone)]
pub(crate) struct Count {
    pub(crate) texts: usize,
    /// Without an error.
    pub(crate) clean: usize,
    /// Entry points that were compiled, and those of them that were run and compared.
    pub(crate) compiled: usize,
    pub(crate) compared: usize,
    /// Outputs whose value rounding decides, and outputs that are not finite in the reference either.
    pub(crate) unstable: usize,
    pub(crate) not_finite: usize,
}

impl Count {
    pub(crate) fn add(&mut self, other: &Count) {
        self.texts += other.texts;
        self.clean += other.clean;
        self.compiled += other.compiled;
        self.compared += other.compared;
        self.unstable += other.unstable;
        self.not_finite += other.not_finite;
    }
}

/// One entry point of the model, at the reference and at `mega`; training most of the time.
pub(crate) fn judge(model: &Model, rng: &mut Rng, count: &mut Count, wrong: &mut Vec<String>) {
    let entry = match rng.below(4) {
        0 => Entry::ALL[rng.below(Entry::ALL.len())],
        1 => Entry::Evaluate,
        _ => Entry::TrainStep,
    };
    judge_entry(model, entry, rng, count, wrong);
}

pub(crate) fn judge_entry(model: &Model, entry: Entry, rng: &mut Rng, count: &mut Count, wrong: &mut Vec<String>) {
    let batch = Some(rng.pick(&[1, 2, 3, 5]));
    let plain = Call { entry, batch, observe: rng.one_in(2), check: false, progress: 0.4, ..Call::default() };
    let graph = match program(model, &plain, &Tensors::new()) {
        Ok(graph) => graph,
        Err(CallError::Lower(LowerError::NoEntry { .. } | LowerError::Batch { .. } | LowerError::Uncountable { .. })) => return,
        Err(e) => return wrong.push(format!("{} {}: {e}", model.name, entry.name())),
    };
    let kernels = Some(Kernels { level: Level::Mega, threads: 1 + rng.below(2), device: Device::Cpu });
    let what = format!("{} {} batch {batch:?}", model.name, entry.name());
    match wmc_compiler::kernel::fuse::fuse(&graph, &wmc_compiler::backend::cpu::TARGET, Level::Mega) {
        Ok(_) => count.compiled += 1,
        Err(FuseError::TooLarge(_)) => return,
        Err(e) => return wrong.push(format!("{what}: {e}")),
    }
    if graph.counts().values().sum::<usize>() > MOST || entries(&graph, &graph.graph) > MOST_ENTRIES {
        return;
    }
    let given = made_up(model, &plain);
    let have = match call(model, &Call { kernels, ..plain }, &given) {
        Ok(have) => have,
        // Refused with a code, before anything was allocated.
        Err(e) if e.too_large().is_some() => return,
        Err(e) => return wrong.push(format!("{what}: {e}")),
    };
    let reference = |given: &Tensors, double| call(model, &Call { double, ..plain }, given);
    let (exact, single) = match (reference(&given, true), reference(&given, false)) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(e), _) | (_, Err(e)) => return wrong.push(format!("{what}: reference: {e}")),
    };
    count.compared += 1;
    let finite = |t: &wmc_compiler::run::Tensor| t.data.iter().all(|x| x.is_finite());
    let mut near: Option<Vec<Tensors>> = None;
    for (name, want) in &exact {
        // An optimiser divides by the size of a gradient, which may be rounding.
        if name.starts_with("next.") {
            continue;
        }
        if !finite(want) || !finite(&single[name]) {
            count.not_finite += 1;
            continue;
        }
        let apart = difference(&have[name], want);
        let largest = want.data.iter().fold(0f64, |m, x| m.max(x.abs()));
        if apart <= BOUND || apart <= 30.0 * difference(&single[name], want) || largest < 1e-6 && apart.is_finite() {
            continue;
        }
        // Rounding may decide a comparison, a sort or a `floor`: what inputs moved by as much do to it says so.
        let near = near.get_or_insert_with(|| (1..=4).filter_map(|i| reference(&moved(&given, i), true).ok()).collect());
        let spread = near.iter().map(|n| difference(&n[name], want)).fold(0f64, f64::max);
        if apart.is_finite() && apart <= 30.0 * spread {
            count.unstable += 1;
            continue;
        }
        wrong.push(format!("{what}: `{name}` differs by {apart:e}, the reference under rounding by {spread:e}"));
    }
}

/// Entries of all values, those of a loop's body once for each iteration.
fn entries(program: &Program, graph: &Graph) -> usize {
    let of = |axes: &[AxisId]| axes.iter().fold(1usize, |n, a| n.saturating_mul(program.size(*a)));
    let node = |node: &Node| match &node.op {
        Op::Scan(scan) => of(&[scan.axis]).saturating_mul(entries(program, &scan.body)),
        _ => of(&node.axes),
    };
    graph.nodes.iter().map(node).fold(0, usize::saturating_add)
}

/// The same data, each number moved by a rounding error.
fn moved(given: &Tensors, seed: u64) -> Tensors {
    let mut rng = Rng::new(seed);
    let mut moved = given.clone();
    for tensor in moved.values_mut() {
        let flags = tensor.data.iter().all(|x| *x == 0.0 || *x == 1.0);
        if !flags {
            tensor.data.iter_mut().for_each(|x| *x *= 1.0 + rng.between(-1e-6, 1e-6));
        }
    }
    moved
}
