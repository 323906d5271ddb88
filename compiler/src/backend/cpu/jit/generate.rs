//! The code of an instance's maps, from the first to memory that may be run.

use dynasmrt::{AssemblyOffset, DynasmApi, ExecutableBuffer, x64::Assembler};

use super::emit::{self, Set};
use super::steps::Steps;
use super::{Moves, Run};
use crate::kernel::{LANES, Map};
use micro::kernels::Kernels;

/// Collects the code of an instance's maps.
pub(in super::super) struct Jit {
    assembler: Option<(Assembler, Set)>,
}

/// Code of an instance's maps.
#[derive(Debug)]
pub(in super::super) struct Text(Option<ExecutableBuffer>);

/// Where a map's code starts.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Entry(AssemblyOffset);

impl Jit {
    /// Generates nothing unless wanted, and where the machine cannot run it. Its vectors are as wide as those of the kernels
    /// beside it, where there are such registers.
    pub(in super::super) fn new(wanted: bool, kernels: &Kernels) -> Jit {
        let can = wanted && is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let set = if kernels.width == LANES { Set::Avx512 } else { Set::Avx2 };
        Jit { assembler: can.then(Assembler::new).and_then(Result::ok).map(|assembler| (assembler, set)) }
    }

    /// The code of a map whose views move as said along the innermost dimension, of this size.
    pub(in super::super) fn compile(&mut self, map: &Map, views: &[Moves], inner: usize) -> Option<Entry> {
        let (assembler, set) = self.assembler.as_mut()?;
        let steps = Steps::new(map, views)?;
        let entry = assembler.offset();
        emit::emit(assembler, *set, &steps, views, inner).then_some(Entry(entry))
    }

    pub(in super::super) fn finish(self) -> Text {
        Text(self.assembler.and_then(|(assembler, _)| assembler.finalize().ok()))
    }
}

impl Text {
    /// The function at an entry of this text.
    pub(in super::super) fn run(&self, entry: Entry) -> Option<Run> {
        let buffer = self.0.as_ref()?;
        // SAFETY: a function of this type was assembled there.
        Some(unsafe { std::mem::transmute::<*const u8, Run>(buffer.ptr(entry.0)) })
    }
}
