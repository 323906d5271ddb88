//! Devices that run kernel programs.

pub mod cpu;
