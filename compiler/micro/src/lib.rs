//! The micro-kernels of the CPU backend: what a kernel program's statements are executed with, written once for all
//! instruction sets and chosen at run time. They are a crate of their own so that they are compiled once, optimised in
//! debug builds too, and not each time the compiler changes.

pub mod gemm;
pub mod kernels;
pub mod math;
pub mod peak;
pub mod rows;
pub mod simd;
pub mod strip;

use serde::{Deserialize, Serialize};

/// Rows that a tile has.
pub const LANES: usize = 16;

/// Outputs that stand side by side in a packed weight.
pub const PANEL: usize = 6;

/// Asks for the line of the cache at an address, which need not be good.
#[inline(always)]
pub fn prefetch(at: *const f32) {
    // SAFETY: a hint; nothing is read.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unary {
    Neg,
    Exp,
    Log,
    Sin,
    Sqrt,
    Recip,
    Floor,
    Tanh,
    Sigmoid,
    Softplus,
    Abs,
    Sign,
    /// `x sigmoid(x)`
    Silu,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// NaN if one is NaN, as the interpreter's.
    Max,
    /// 1 where the first is less than the second, else 0.
    Less,
}

impl Unary {
    /// As programs are printed.
    pub fn name(self) -> &'static str {
        match self {
            Unary::Neg => "neg",
            Unary::Exp => "exp",
            Unary::Log => "log",
            Unary::Sin => "sin",
            Unary::Sqrt => "sqrt",
            Unary::Recip => "recip",
            Unary::Floor => "floor",
            Unary::Tanh => "tanh",
            Unary::Sigmoid => "sigmoid",
            Unary::Softplus => "softplus",
            Unary::Abs => "abs",
            Unary::Sign => "sign",
            Unary::Silu => "silu",
        }
    }
}
