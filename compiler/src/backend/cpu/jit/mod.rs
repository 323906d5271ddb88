//! Maps as machine code, generated when an instance is made.
//!
//! A strip operation of the micro-kernels reads its operands from the first-level cache and writes its result there; a
//! map of twenty operations goes through it twenty times. Generated code keeps what is between in registers and computes
//! common parts (the exponential of a sigmoid and of a silu of the same number) once. `docs/performance.md` has what it
//! brings.
//!
//! | file | subject |
//! |---|---|
//! | `trace` | from instructions to vector operations, through the functions of the micro-kernels |
//! | `steps` | the order of operations and stores |
//! | `allocate` | registers |
//! | `emit` | encoding, x86-64 with AVX2 and FMA |
//!
//! Elsewhere, and for what has no straight-line code (`sin`), maps are strip operations. Both have the same bits.

mod allocate;
mod emit;
mod steps;
mod trace;

use dynasmrt::{AssemblyOffset, DynasmApi, ExecutableBuffer, x64::Assembler};
use micro::strip::Arg;

use crate::kernel::Map;
use steps::Steps;

/// The innermost dimension of a map: `n` lane vectors from the views' addresses on.
pub(super) type Run = unsafe extern "sysv64" fn(args: *const Arg, n: usize);

/// Collects the code of an instance's maps.
pub(super) struct Jit {
    assembler: Option<Assembler>,
}

/// Code of an instance's maps.
#[derive(Debug)]
pub(super) struct Text(Option<ExecutableBuffer>);

/// Where a map's code starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry(AssemblyOffset);

/// What the code needs to know of a view of a map: loads, then stores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moves {
    /// Numbers from one lane vector of the innermost dimension to the next.
    pub step: usize,
    /// Begins with a number and gathers sums or maxima.
    pub folds: bool,
}

impl Jit {
    /// Generates nothing unless wanted, and where the machine cannot run it.
    pub(super) fn new(wanted: bool) -> Jit {
        let can = wanted && is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        Jit { assembler: can.then(Assembler::new).and_then(Result::ok) }
    }

    /// The code of a map whose views move along the innermost dimension as said.
    pub(super) fn compile(&mut self, map: &Map, views: &[Moves]) -> Option<Entry> {
        let assembler = self.assembler.as_mut()?;
        let steps = Steps::new(map, views)?;
        let entry = assembler.offset();
        emit::emit(assembler, &steps, views);
        Some(Entry(entry))
    }

    pub(super) fn finish(self) -> Text {
        Text(self.assembler.and_then(|assembler| assembler.finalize().ok()))
    }
}

impl Text {
    /// The function at an entry of this text.
    pub(super) fn run(&self, entry: Entry) -> Option<Run> {
        let buffer = self.0.as_ref()?;
        // SAFETY: a function of this type was assembled there.
        Some(unsafe { std::mem::transmute::<*const u8, Run>(buffer.ptr(entry.0)) })
    }
}
