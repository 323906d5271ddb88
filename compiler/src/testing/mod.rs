//! What tests of this crate and of backends are written with (feature `testing`): small programs by hand, random
//! programs from a seed, graph and kernel, gradients by finite differences, and artefacts that were made to do harm.

mod crafted;
mod draft;
mod finite;
mod generate;
mod kernels;
mod rng;
mod smooth;

pub use crafted::{Crafted, crafted};
pub use draft::{Draft, NOWHERE};
pub use finite::{Mismatch, check_gradient, directional, finite_difference};
pub use generate::{random_program, random_scalar_program};
pub use kernels::{kernel_inputs, random_kernels};
pub use rng::Rng;
pub use smooth::roughness;

#[cfg(test)]
mod tests;
