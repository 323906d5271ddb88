//! The micro-kernels of an instruction set, and the choice of one at run time.

use std::sync::OnceLock;

use crate::LANES;
use crate::gemm::{self, Panels};
use crate::peak;
use crate::rows::{self, List, Outer, Segment, Sums};
use crate::simd;
use crate::strip::{self, Arg, Decay, DecayFn, Function, StripFn};

/// What a strip operation computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    Move,
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
    Add,
    Sub,
    Mul,
    /// NaN if one is NaN.
    Max,
    /// 1 where the first is less than the second, else 0.
    Less,
    /// `exp(a b)`
    ExpMul,
    MulAdd,
    Select,
    /// Of the strip's vectors and what is there, the sum: of a, of `a b`; the largest a.
    Sum,
    SumMul,
    MaxOf,
}

impl Op {
    /// How many operands it has, beside the place that it writes.
    pub fn arity(self) -> usize {
        match self {
            Op::Add | Op::Sub | Op::Mul | Op::Max | Op::Less | Op::ExpMul | Op::SumMul => 2,
            Op::MulAdd | Op::Select => 3,
            _ => 1,
        }
    }
}

/// The micro-kernels, each safe to call on the machine that the table was chosen for, with good pointers.
#[derive(Debug)]
pub struct Kernels {
    pub name: &'static str,
    /// The strip operation, and which of its operands are splats.
    pub strip: fn(Op, [bool; 3]) -> StripFn,
    /// The step of a recurrence, and whether its second rate is a splat.
    pub decay: fn(bool) -> DecayFn,
    pub panels: unsafe fn(&Panels),
    /// Outputs that `panels` computes at a time.
    pub together: usize,
    pub turn: unsafe fn(&[*const f32; LANES], &[Segment], *mut f32),
    pub gather: unsafe fn(*const f32, &[List], &[Segment], *mut f32),
    pub outer: unsafe fn(&Outer),
    pub sums: unsafe fn(&Sums),
    /// Numbers in a vector.
    pub width: usize,
    /// So many rounds of [`peak::CHAINS`] multiply-adds of vectors.
    pub multiply_adds: unsafe fn(usize) -> f32,
}

macro_rules! instruction_set {
    ($name:ident, $simd:ty $(, $feature:literal)?) => {
        mod $name {
            use super::*;

            // SAFETY of all blocks: the contracts are those of the generic functions, and the table is only used where
            // the machine has the instruction set.
            $(#[target_feature(enable = $feature)])?
            unsafe fn map<F: Function, const A: bool, const B: bool, const C: bool>(n: usize, to: Arg, from: &[Arg; 3]) {
                unsafe { strip::map::<$simd, F, A, B, C>(n, to, from) }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn fold<F: Function, const A: bool, const B: bool>(n: usize, to: Arg, from: &[Arg; 3]) {
                unsafe { strip::fold::<$simd, F, A, B>(n, to, from) }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn decaying<const SPLAT: bool>(n: usize, args: &Decay<Arg>) {
                unsafe { strip::decay::<$simd, SPLAT>(n, args) }
            }

            fn decay(splat: bool) -> DecayFn {
                if splat { decaying::<true> } else { decaying::<false> }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn panels(panels: &Panels) {
                unsafe { gemm::panels::<$simd>(panels) }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn turn(lists: &[*const f32; LANES], segments: &[Segment], to: *mut f32) {
                unsafe { rows::turn::<$simd>(lists, segments, to) }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn gather(from: *const f32, lists: &[List], segments: &[Segment], to: *mut f32) {
                unsafe { rows::gather::<$simd>(from, lists, segments, to) }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn outer(outer: &Outer) {
                unsafe { rows::outer::<$simd>(outer) }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn sums(sums: &Sums) {
                unsafe { rows::sums::<$simd>(sums) }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn multiply_adds(rounds: usize) -> f32 {
                unsafe { peak::multiply_adds::<$simd>(rounds) }
            }

            fn one<F: Function>(splat: [bool; 3]) -> StripFn {
                if splat[0] { map::<F, true, false, false> } else { map::<F, false, false, false> }
            }

            fn two<F: Function>(splat: [bool; 3]) -> StripFn {
                match (splat[0], splat[1]) {
                    (false, false) => map::<F, false, false, false>,
                    (false, true) => map::<F, false, true, false>,
                    (true, false) => map::<F, true, false, false>,
                    (true, true) => map::<F, true, true, false>,
                }
            }

            fn three<F: Function>(splat: [bool; 3]) -> StripFn {
                match (splat[0], splat[1], splat[2]) {
                    (false, false, true) => map::<F, false, false, true>,
                    (false, true, true) => map::<F, false, true, true>,
                    (true, false, true) => map::<F, true, false, true>,
                    (true, true, true) => map::<F, true, true, true>,
                    (_, _, false) => two::<F>(splat),
                }
            }

            fn folds<F: Function>(splat: [bool; 3]) -> StripFn {
                match (splat[0], splat[1]) {
                    (false, false) => fold::<F, false, false>,
                    (false, true) => fold::<F, false, true>,
                    (true, false) => fold::<F, true, false>,
                    (true, true) => fold::<F, true, true>,
                }
            }

            fn strip(op: Op, splat: [bool; 3]) -> StripFn {
                match op {
                    Op::Move => one::<strip::Move>(splat),
                    Op::Neg => one::<strip::Neg>(splat),
                    Op::Exp => one::<strip::Exp>(splat),
                    Op::Log => one::<strip::Log>(splat),
                    Op::Sin => one::<strip::Sin>(splat),
                    Op::Sqrt => one::<strip::Sqrt>(splat),
                    Op::Recip => one::<strip::Recip>(splat),
                    Op::Floor => one::<strip::Floor>(splat),
                    Op::Tanh => one::<strip::Tanh>(splat),
                    Op::Sigmoid => one::<strip::Sigmoid>(splat),
                    Op::Softplus => one::<strip::Softplus>(splat),
                    Op::Abs => one::<strip::Abs>(splat),
                    Op::Sign => one::<strip::Sign>(splat),
                    Op::Silu => one::<strip::Silu>(splat),
                    Op::Add => two::<strip::Add>(splat),
                    Op::Sub => two::<strip::Sub>(splat),
                    Op::Mul => two::<strip::Mul>(splat),
                    Op::Max => two::<strip::Max>(splat),
                    Op::Less => two::<strip::Less>(splat),
                    Op::ExpMul => two::<strip::ExpMul>(splat),
                    Op::MulAdd => three::<strip::MulAdd>(splat),
                    Op::Select => three::<strip::Select>(splat),
                    Op::Sum => folds::<strip::SumOf>(splat),
                    Op::SumMul => folds::<strip::MulAdd>(splat),
                    Op::MaxOf => folds::<strip::MaxOf>(splat),
                }
            }

            pub(super) static KERNELS: Kernels = Kernels {
                name: stringify!($name),
                strip,
                decay,
                panels,
                together: gemm::together::<$simd>(),
                turn,
                gather,
                outer,
                sums,
                width: <$simd as simd::Simd>::W,
                multiply_adds,
            };
        }
    };
}

instruction_set!(portable, simd::Portable);
#[cfg(target_arch = "x86_64")]
instruction_set!(avx2, simd::Avx2, "avx2,fma");
#[cfg(target_arch = "x86_64")]
instruction_set!(avx512, simd::Avx512, "avx512f");
#[cfg(target_arch = "aarch64")]
instruction_set!(neon, simd::Neon, "neon");

/// What this machine has, the best first.
pub fn available() -> Vec<&'static Kernels> {
    let mut list = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            list.push(&avx512::KERNELS);
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            list.push(&avx2::KERNELS);
        }
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon") {
        list.push(&neon::KERNELS);
    }
    list.push(&portable::KERNELS);
    list
}

/// The best that this machine has.
pub fn best() -> &'static Kernels {
    static BEST: OnceLock<&'static Kernels> = OnceLock::new();
    BEST.get_or_init(|| available()[0])
}
