//! Devices that run kernel programs.

pub mod cpu;
pub mod cube;
mod executable;
mod lifetimes;

pub use executable::{Device, DeviceError, Executable, Found, Resident, count_vulkan, keep_compiled, open, probe};
