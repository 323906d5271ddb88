//! Devices that run kernel programs.

pub mod cpu;
pub mod cube;
mod lifetimes;
