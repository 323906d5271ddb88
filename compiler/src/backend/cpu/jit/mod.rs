//! Maps as machine code, generated when an instance is made.
//!
//! A strip operation of the micro-kernels reads its operands from the first-level cache and writes its result there; a
//! map of twenty operations goes through it twenty times. Generated code keeps what is between in registers and computes
//! common parts (the exponential of a sigmoid and of a silu of the same number) once. `docs/measurements/performance.md` has what it
//! brings.
//!
//! | file | subject |
//! |---|---|
//! | `trace` | from instructions to vector operations, through the functions of the micro-kernels |
//! | `generate` | the code of an instance, and memory that may be run |
//! | `steps` | the order of operations and stores |
//! | `allocate` | registers |
//! | `emit` | encoding, x86-64 with AVX2 and FMA, or with AVX-512 |
//!
//! Elsewhere, and for what has no straight-line code (`sin`), maps are strip operations. Both have the same bits.

#[cfg(target_arch = "x86_64")]
mod allocate;
#[cfg(target_arch = "x86_64")]
mod emit;
#[cfg(target_arch = "x86_64")]
mod generate;
#[cfg(target_arch = "x86_64")]
mod steps;
#[cfg(target_arch = "x86_64")]
mod trace;

#[cfg(target_arch = "x86_64")]
pub(super) use generate::{Entry, Jit, Text};
use micro::strip::Arg;
#[cfg(not(target_arch = "x86_64"))]
pub(super) use nothing::{Entry, Jit, Text};

/// The innermost dimension of a map: `n > 0` lane vectors from the views' addresses on.
#[cfg(target_arch = "x86_64")]
pub(super) type Run = unsafe extern "sysv64" fn(args: *const Arg, n: usize);
#[cfg(not(target_arch = "x86_64"))]
pub(super) type Run = unsafe extern "C" fn(args: *const Arg, n: usize);

/// What the code needs to know of a view of a map: loads, then stores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moves {
    /// Numbers from one lane vector of the innermost dimension to the next.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "no code is generated"))]
    pub step: usize,
    /// Begins with a number and gathers sums or maxima.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "no code is generated"))]
    pub folds: bool,
}

/// Where no code is generated.
#[cfg(not(target_arch = "x86_64"))]
mod nothing {
    use super::{Moves, Run};
    use crate::kernel::Map;
    use micro::kernels::Kernels;

    #[derive(Debug)]
    pub(in super::super) struct Jit;

    #[derive(Debug)]
    pub(in super::super) struct Text;

    #[derive(Debug, Clone, Copy)]
    pub(in super::super) enum Entry {}

    impl Jit {
        pub(in super::super) fn new(_wanted: bool, _kernels: &Kernels) -> Jit {
            Jit
        }

        pub(in super::super) fn compile(&mut self, _map: &Map, _views: &[Moves], _inner: usize) -> Option<Entry> {
            None
        }

        pub(in super::super) fn finish(self) -> Text {
            Text
        }
    }

    impl Text {
        pub(in super::super) fn run(&self, entry: Entry) -> Option<Run> {
            match entry {}
        }
    }
}
