//! Limits on what a program may ask of the machine, for programs that nobody vouches for.
//!
//! A kernel program can come out of an artefact that somebody else wrote. The verifier refuses what goes past
//! these limits before anything is allocated, so that reading a small file can neither exhaust the memory nor
//! keep the processor busy for ever.

use dsl::source::Span;

use crate::ir::{self, Op};
use crate::lower::LowerError;
use crate::memory::{self, TooLarge};

/// Numbers of all buffers together, and the longest distance in an array: 4 TiB of memory.
pub const NUMBERS: usize = 1 << 40;

/// Elementary operations of one run: hours on one core, a thousand times a training step at paper size.
pub const OPERATIONS: u64 = 100_000_000_000_000;

/// Entries that the interpreter computes for a model's initial values: minutes.
pub const INTERPRETED: u64 = 100_000_000_000;

/// Entries of a list that a backend makes for one kernel.
pub const LISTED: usize = 1 << 24;

/// Loop variables are stored by number.
pub const LOOPS: u32 = 1 << 20;

/// Whole numbers from here on are not exact in 32 bits, so they cannot be places.
pub const PLACES: usize = 1 << 24;

/// Buffers of a program: the plan of the memory compares them two by two.
pub const BUFFERS: usize = 1 << 16;

/// Places that the verifier compares one by one, for two operands and for a whole program.
pub const COMPARED: (u64, u64) = (1 << 28, 1 << 32);

/// Bytes of memory that the machine has, if it says so.
pub fn machine_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Refuses to allocate more than the process may use.
pub fn fits(bytes: u64) -> Result<(), String> {
    let limit = memory::limit();
    if bytes <= limit {
        return Ok(());
    }
    let refused = TooLarge { what: "the program".into(), needed: bytes, held: 0, limit, largest: Vec::new() };
    Err(refused.to_string())
}

/// Refuses to interpret a graph program whose arrays the machine has no room for, or that would take hours. The memory comes
/// first: who has too little of it can do something about that.
pub fn interpreted(program: &ir::Program) -> Result<(), LowerError> {
    let graph = &program.graph;
    let entries = |axes: &[ir::AxisId]| axes.iter().fold(1u64, |n, axis| n.saturating_mul(program.size(*axis) as u64));
    let mut needed = vec![false; graph.nodes.len()];
    graph.results.iter().for_each(|result| needed[result.0 as usize] = true);
    let (mut largest, mut work) = (0, 0u64);
    for (i, node) in graph.nodes.iter().enumerate().rev() {
        if !needed[i] {
            continue;
        }
        let mut read = 0u64;
        node.op.operands(|v| {
            needed[v.0 as usize] = true;
            read = read.saturating_add(entries(graph.axes(v)));
        });
        let (made, summed) = (entries(&node.axes), if let Op::Dot { over, .. } = &node.op { entries(over) } else { 1 });
        largest = largest.max(made);
        work = work.saturating_add(made.saturating_mul(summed)).saturating_add(read);
    }
    let kept = graph.results.iter().map(|result| entries(graph.axes(*result))).fold(0, u64::saturating_add);
    // An operation's operands and its value are there at once.
    let bytes = largest.saturating_mul(3).saturating_add(kept).saturating_mul(size_of::<f64>() as u64);
    memory::reserve(&format!("`{}`", program.name), bytes, Vec::new).map(drop)?;
    if work > INTERPRETED {
        let what = format!("the initial values take {work} operations, more than {INTERPRETED}");
        return Err(LowerError::Unsupported { what, span: Span::default() });
    }
    Ok(())
}
