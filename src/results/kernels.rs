//! The table of a model's kernels.

use compiler::backend::cpu;
use compiler::kernel::cost;
use compiler::kernel::fuse::{Level, fuse};
use compiler::lower::{Entry, Options, lower};
use compiler::simplify::simplify;
use dsl::hir::Model;

/// An entry point in numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EntryRow {
    pub(crate) entry: &'static str,
    pub(crate) kernels: u64,
    pub(crate) launches: u64,
    pub(crate) flops: u64,
}

/// What a decision and an update are made of. Entry points that a model does not have are left out.
pub(crate) fn table(model: &Model) -> Vec<EntryRow> {
    let row = |entry: Entry| {
        let graph = simplify(lower(model, entry, Options::default()).ok()?);
        let program = fuse(&graph, &cpu::TARGET, Level::Mega).ok()?;
        let totals = cost::totals(&program, &program.steps);
        Some(EntryRow { entry: entry.name(), kernels: totals.kernels, launches: totals.launches, flops: totals.cost.flops })
    };
    [Entry::Plan, Entry::Act, Entry::TrainStep, Entry::Record].into_iter().filter_map(row).collect()
}
