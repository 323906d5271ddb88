//! Graphics processors, for the passes for kernels and the fuser.
//!
//! The values are the processor's until somebody measures others: there was no device to measure on.

use crate::backend::cpu;
use crate::kernel::Target;

/// Devices with CUDA.
pub const CUDA: Target = Target { name: "cuda", ..cpu::TARGET };

/// Devices that WGSL text is compiled for, by way of Vulkan.
pub const WGSL: Target = Target { name: "wgsl", ..cpu::TARGET };
