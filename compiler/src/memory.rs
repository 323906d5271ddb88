//! Memory: what programs need and what they may have.
//!
//! [`cpu::needs`](crate::backend::cpu::needs) computes the bytes of a kernel program from its text alone. [`reserve`] compares
//! them with the process's limit before anything is allocated. The limit is the machine's memory unless [`set_limit`] changes
//! it; programs that are open count against it until they are dropped.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use dsl::hir::Model;
use dsl::source::Span;

use crate::budget;
use crate::ir::{self, Graph, Op};
use crate::kernel::Program;

/// Bytes that a program takes on the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// Of the buffers. Those with lifetimes that do not meet share places.
    pub buffers: u64,
    /// Of one thread's locals.
    pub thread: u64,
    pub threads: u64,
}

impl Needs {
    pub fn bytes(self) -> u64 {
        self.buffers.saturating_add(self.thread.saturating_mul(self.threads))
    }
}

/// An array of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    pub name: String,
    pub bytes: u64,
    /// The text that it comes from.
    pub origin: Option<Span>,
}

/// The refusal of something that does not fit into memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct TooLarge {
    /// `train_step`, or `the replay`.
    pub what: String,
    pub needed: u64,
    /// Bytes that are taken already.
    pub held: u64,
    pub limit: u64,
    /// The largest arrays, the largest first.
    pub largest: Vec<Array>,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLarge { what, needed, held, limit, .. } = self;
        write!(f, "[E0701] {what} needs {}, and the limit is {}", bytes(*needed), bytes(*limit))?;
        if *held > 0 {
            write!(f, ", of which {} are taken", bytes(*held))?;
        }
        Ok(())
    }
}

/// How many arrays a refusal names.
const NAMED: usize = 5;

/// Bytes for people: `1.50 MB`, of 1024 KB.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 => 0,
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// No limit has been set.
const UNSET: u64 = u64::MAX;

static LIMIT: AtomicU64 = AtomicU64::new(UNSET);
static HELD: AtomicU64 = AtomicU64::new(0);

/// Bytes that the process may use for programs and experience.
pub fn limit() -> u64 {
    match LIMIT.load(Ordering::Relaxed) {
        UNSET => {
            let machine = machine().unwrap_or(UNSET - 1);
            LIMIT.store(machine, Ordering::Relaxed);
            machine
        }
        limit => limit,
    }
}

/// Sets the limit of the process.
pub fn set_limit(bytes: u64) {
    LIMIT.store(bytes.min(UNSET - 1), Ordering::Relaxed);
}

/// The machine's memory, or what the control group and `ulimit -v` leave of it, where the system tells.
fn machine() -> Option<u64> {
    let all = budget::machine_memory()?;
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse::<u64>().ok());
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let space = limits.lines().find_map(|line| line.strip_prefix("Max address space"));
    let space = space.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Some([group, space].into_iter().flatten().fold(all, u64::min))
}

/// Memory that something has; given back when it is dropped.
#[derive(Debug)]
pub struct Reserved(u64);

impl Drop for Reserved {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Takes memory for `what`, or says why there is not enough. `largest` names what it is needed for.
pub fn reserve(what: &str, needed: u64, largest: impl FnOnce() -> Vec<Array>) -> Result<Reserved, Box<TooLarge>> {
    let limit = limit();
    let fits = |held: u64| held.checked_add(needed).filter(|sum| *sum <= limit);
    match HELD.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
        Ok(_) => Ok(Reserved(needed)),
        Err(held) => Err(Box::new(TooLarge { what: what.to_string(), needed, held, limit, largest: named(largest()) })),
    }
}

/// [`reserve`] for a kernel program.
pub fn reserve_program(program: &Program, needs: Needs) -> Result<Reserved, Box<TooLarge>> {
    reserve(&format!("`{}`", program.name), needs.bytes(), || arrays(program))
}

/// The buffers of a kernel program.
pub fn arrays(program: &Program) -> Vec<Array> {
    let ids = (0..).map(crate::kernel::BufferId);
    let array = |(id, buffer): (crate::kernel::BufferId, &crate::kernel::Buffer)| Array {
        name: buffer.name.clone(),
        bytes: (buffer.len as u64).saturating_mul(4),
        origin: program.origins.get(&id).copied(),
    };
    ids.zip(&program.buffers).map(array).collect()
}

/// Gives arrays that belong to parameters and data the places where the model declares them.
pub fn locate(arrays: &mut [Array], model: &Model) {
    for array in arrays {
        let param = model.params.iter().find(|p| array.name.strip_suffix(p.path.as_str()).is_some_and(|r| r.ends_with('.')));
        let module = param.and_then(|p| model.modules.get(p.module)).map(|m| m.span);
        let input = || model.inputs.iter().find(|i| array.name.strip_prefix("data.") == Some(&i.name)).map(|i| i.span);
        array.origin = module.or_else(input).or(array.origin);
    }
}

impl TooLarge {
    /// The same with the places where the model declares parameters and data.
    pub fn located(mut self: Box<TooLarge>, model: &Model) -> Box<TooLarge> {
        locate(&mut self.largest, model);
        self
    }
}

/// Refuses a graph program that the interpreter cannot hold, with `number` bytes for each number. The interpreter drops what
/// nobody reads any more, so the least that it takes are its inputs, its outputs and its largest value.
pub fn check_graph(program: &ir::Program, number: u64, model: &Model) -> Result<(), Box<TooLarge>> {
    let array =
        |name: &str, axes: &[ir::AxisId], origin| Array { name: name.to_string(), bytes: size(program, axes, number), origin };
    let results = program.outputs.iter().zip(&program.graph.results);
    let mut arrays: Vec<Array> = results.map(|(o, v)| array(&o.name, program.graph.axes(*v), None)).collect();
    arrays.extend(program.inputs.iter().map(|i| array(&i.name, &i.axes, None)));
    arrays.extend(largest_value(program, &program.graph).map(|(op, axes, span)| array(op.name(), axes, Some(span))));
    let needed = arrays.iter().fold(0, |sum: u64, a| sum.saturating_add(a.bytes));
    reserve(&format!("`{}`", program.name), needed, || arrays).map(drop).map_err(|refused| refused.located(model))
}

/// The value with the most entries, in loops as well.
pub(crate) fn largest_value<'p>(program: &ir::Program, graph: &'p Graph) -> Option<(&'p Op, &'p [ir::AxisId], Span)> {
    let values = graph.nodes.iter().flat_map(|node| {
        let inner = if let Op::Scan(scan) = &node.op { largest_value(program, &scan.body) } else { None };
        [Some((&node.op, &node.axes[..], node.span)), inner]
    });
    values.flatten().max_by_key(|(_, axes, _)| size(program, axes, 1))
}

fn size(program: &ir::Program, axes: &[ir::AxisId], number: u64) -> u64 {
    axes.iter().fold(number, |bytes, a| bytes.saturating_mul(program.size(*a) as u64))
}

/// The largest of some arrays, each text once.
fn named(mut arrays: Vec<Array>) -> Vec<Array> {
    arrays.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    let mut found: Vec<Array> = Vec::new();
    for array in arrays {
        let known = |other: &Array| other.name == array.name || array.origin.is_some() && other.origin == array.origin;
        if found.len() < NAMED && !found.iter().any(known) {
            found.push(array);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits() {
        let shown = [0, 999, 1536, 10 << 20, 192_000_000_000, u64::MAX].map(bytes);
        assert_eq!(shown, ["0 B", "999 B", "1.50 KB", "10.0 MB", "179 GB", "16384 PB"]);
    }

    /// Reservations count until they are dropped. Other tests reserve little beside it.
    #[test]
    fn what_is_held_counts() {
        let half = limit() / 2 + 1;
        let first = reserve("a", half, Vec::new).expect("half of the memory");
        let array = |name: &str, bytes| Array { name: name.into(), bytes, origin: None };
        let refused = reserve("b", half, || vec![array("small", 1), array("large", 2)]).expect_err("more than there is");
        assert!(refused.held >= half);
        assert_eq!(refused.largest.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["large", "small"]);
        assert!(refused.to_string().starts_with("[E0701] b needs "), "{refused}");
        drop(first);
        reserve("b", half, Vec::new).expect("it was given back");
    }
}
