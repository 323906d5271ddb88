//! Kernel programs on graphics processors, by way of CubeCL: a launch of the program is a launch of the device.
//!
//! A cube owns some rows for the whole of a tile kernel, loops over time included; locals of its rows are in shared memory,
//! and its units wait for each other only where one needs what another wrote.
//!
//! | file | subject |
//! |---|---|
//! | `emitted` | the result: text, buffers, launches, as plain data |
//! | `target` | what passes for kernels and the fuser know of devices |
//! | `plan` | places of buffers and locals, rows of a cube |
//! | `phase` | which unit does what |
//! | `barrier` | where units wait for each other |
//! | `tile` with `map`, `gemm`, `tensor`, `math`; `contract`, `pack`, `random` | code of the kernels |
//! | `launch`, `repeat` | kernels of a launch as one; launches with the same code |
//! | `device` with `vulkan`, `cuda` | devices |
//! | `instance` with `transfer` | a program on a device |
//! | `builder` with `text`, `task` | all that knows CubeCL |

#[cfg(feature = "emit")]
mod barrier;
#[cfg(feature = "emit")]
mod builder;
#[cfg(feature = "emit")]
mod contract;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(any(feature = "cuda", feature = "vulkan"))]
pub mod device;
mod emitted;
#[cfg(feature = "emit")]
mod gemm;
mod host;
#[cfg(any(feature = "cuda", feature = "vulkan"))]
pub mod instance;
#[cfg(feature = "emit")]
mod launch;
#[cfg(feature = "emit")]
mod map;
#[cfg(feature = "emit")]
mod math;
#[cfg(feature = "emit")]
mod pack;
#[cfg(feature = "emit")]
mod phase;
#[cfg(feature = "emit")]
mod plan;
#[cfg(feature = "emit")]
mod random;
#[cfg(feature = "emit")]
mod repeat;
mod target;
#[cfg(feature = "emit")]
mod tensor;
#[cfg(feature = "emit")]
mod tile;
#[cfg(any(feature = "cuda", feature = "vulkan"))]
mod transfer;
#[cfg(feature = "vulkan")]
pub mod vulkan;

pub use crate::backend::Resident;
pub use emitted::{Action, Arena, Binding, Draw, Emitted, EmittedKernel, Note, Numerics, Place, Precision, Scalar, Sums, Target};
#[cfg(feature = "emit")]
pub use launch::{EmitError, emit, notes};
#[cfg(feature = "emit")]
pub use plan::Limits;
pub use target::{CUDA, WGSL};
