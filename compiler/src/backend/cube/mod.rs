//! Kernel programs on graphics processors, by way of CubeCL.

mod emitted;

pub use emitted::{Action, Arena, Binding, Draw, Emitted, EmittedKernel, Note, Place, Scalar, Target};
