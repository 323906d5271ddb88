//! Describes a model's kernels and their cost, for people (tables, a drawing) and for programs (JSON).
//!
//! [`entry`] turns a kernel program into a [`document`] of plain data, which tables and JSON are printed from; [`chart`]
//! turns it into operations and the data flow between them, which [`layout`] places and [`svg`] and [`page`] draw.

pub(crate) mod chart;
mod document;
mod layout;
mod lines;
mod origin;
pub(crate) mod page;
pub(crate) mod svg;
mod text;

use std::collections::BTreeMap;

use compiler::backend::cpu;
use compiler::kernel::cost::{self, Totals};
use compiler::kernel::{Kernel, Program, Step, Work};
use compiler::memory;
use dsl::hir::Model;

use document::{ArrayView, KernelView, OpCount, Part};
pub(crate) use document::{Document, Entry, OnDevice};
pub(crate) use lines::Origins;
pub(crate) use text::{bytes, count, tables};

/// All of it as one JSON document; its fields are those of `docs/guide/json.md`.
pub(crate) fn json(document: &Document) -> String {
    // Texts, numbers and lists always have a JSON form.
    serde_json::to_string_pretty(document).expect("kernels as JSON") + "\n"
}

/// Arrays that are listed.
const LARGEST: usize = 5;

/// One entry point of a model.
pub(crate) fn entry(program: &Program, model: &Model, devices: Vec<OnDevice>, origins: &Origins<'_>) -> Entry {
    let needs = cpu::needs(program, 1);
    let mut arrays = memory::arrays(program);
    memory::locate(&mut arrays, model);
    arrays.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    arrays.truncate(LARGEST);
    let array = |a: memory::Array| ArrayView { name: a.name, bytes: a.bytes, lines: origins.lines(a.origin) };
    Entry {
        entry: program.name.clone(),
        memory: needs.bytes(),
        thread: needs.thread,
        largest: arrays.into_iter().map(array).collect(),
        prepare: part(program, &program.prepare, origins),
        steps: part(program, &program.steps, origins),
        devices,
    }
}

fn part(program: &Program, steps: &[Step], origins: &Origins<'_>) -> Part {
    let Totals { kernels, launches, cost } = cost::totals(program, steps);
    let mut list = Vec::new();
    let mut launch = 0;
    cost::each_launch(steps, &mut |together, times| {
        launch += 1;
        list.extend(together.iter().map(|k| view(program, k, launch, times, origins)));
    });
    Part { launches, kernels, cost, intensity: cost.intensity(), list }
}

fn view(program: &Program, kernel: &Kernel, launch: u64, times: u64, origins: &Origins<'_>) -> KernelView {
    let cost = cost::kernel(program, kernel);
    let mut ops: BTreeMap<&str, u64> = BTreeMap::new();
    kernel.notes.ops.iter().for_each(|(op, _)| *ops.entry(op).or_default() += 1);
    let mut ops: Vec<OpCount> = ops.into_iter().map(|(op, count)| OpCount { op: op.to_string(), count }).collect();
    ops.sort_by_key(|o| std::cmp::Reverse(o.count));
    KernelView {
        name: kernel.name.clone(),
        kind: kind(&kernel.work),
        launch,
        times,
        rows: rows(&kernel.work),
        ops,
        lines: origins.lines(kernel.notes.ops.iter().map(|(_, span)| *span)),
        reason: kernel.notes.reason.clone(),
        cost,
        on_chip: cost::on_chip(&kernel.work),
        intensity: cost.intensity(),
    }
}

fn kind(work: &Work) -> &'static str {
    match work {
        Work::Tile(_) => "tile",
        Work::Contract(_) => "contract",
        Work::Pack(_) => "pack",
        Work::Random(_) => "random",
    }
}

fn rows(work: &Work) -> Vec<usize> {
    match work {
        Work::Tile(tile) => tile.rows.clone(),
        Work::Contract(contract) => vec![contract.rows],
        Work::Pack(_) | Work::Random(_) => Vec::new(),
    }
}
