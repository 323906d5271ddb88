//! The stages of a graph program as types, so that no stage is handed what an earlier one has not done yet.
//!
//! Each reads as the [`Program`] inside. Only the function that does a stage's work makes its type; the exceptions are
//! `From` for programs that were written by hand or read from text, and [`Simplified::as_it_is`].

use std::ops::{Deref, DerefMut};

use crate::ir::Program;

/// A model's entry point as plain operations, gradients included: [`lower`](fn@crate::lower::lower) takes each where it
/// stands, because what surrounds it is lowered by the axes that it has. Stops are still marked.
#[derive(Debug, Clone, PartialEq)]
pub struct Lowered(pub(crate) Program);

/// All passes of [`SIMPLIFY`](crate::simplify::SIMPLIFY) have nothing left to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Simplified(pub(crate) Program);

/// All [passes for kernels](crate::prepare::kernel_passes) have run: no markers, no composites, nothing that is empty.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelReady(pub(crate) Program);

impl From<Program> for Lowered {
    fn from(program: Program) -> Lowered {
        Lowered(program)
    }
}

impl Simplified {
    /// A program that goes to the next stage without having been simplified: tests compare the two.
    pub fn as_it_is(program: Program) -> Simplified {
        Simplified(program)
    }

    /// The same program under another name, by which draws and kernels are known.
    pub fn named(self, name: String) -> Simplified {
        Simplified(Program { name, ..self.0 })
    }

    pub fn into_program(self) -> Program {
        self.0
    }
}

impl Lowered {
    pub fn into_program(self) -> Program {
        self.0
    }
}

impl Deref for Lowered {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.0
    }
}

/// Outputs may be dropped and inputs renamed before anything is simplified.
impl DerefMut for Lowered {
    fn deref_mut(&mut self) -> &mut Program {
        &mut self.0
    }
}

impl Deref for Simplified {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.0
    }
}

impl Deref for KernelReady {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.0
    }
}
