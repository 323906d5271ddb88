//! From a checked model to kernels that run on a device.
//!
//! | step | module | result |
//! |---|---|---|
//! | lower, gradients included | [`lower`], [`grad`] | [`Lowered`](stage::Lowered) |
//! | simplify | [`simplify`] | [`Simplified`](stage::Simplified) |
//! | prepare for kernels | [`prepare`] | [`KernelReady`](stage::KernelReady) |
//! | fuse | [`kernel::fuse`] | [`kernel::Program`] |
//! | run | [`backend`] | numbers |
//!
//! [`interp`] runs graph programs and is the oracle for everything faster. [`pass`] says what a pass is and verifies it.

pub mod artefact;
pub mod backend;
pub mod budget;
pub mod composite;
pub mod grad;
pub mod interp;
pub mod ir;
pub mod kernel;
pub mod lower;
pub mod memory;
pub mod pass;
pub mod prepare;
pub mod random;
pub mod rules;
pub mod run;
pub mod simplify;
pub mod stage;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
