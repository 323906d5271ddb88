//! What instructions of a map, and comparisons, are on a device.

use crate::kernel::{Binary, Mode, Unary};

use super::builder::{Code, Fun, Val, number};

pub(super) fn folded(code: &mut Code, mode: Mode, so_far: Val, x: Val) -> Val {
    match mode {
        Mode::Max => larger(code, so_far, x),
        Mode::Sum | Mode::Set => code.add(so_far, x),
    }
}

/// The larger of two, NaN if one is.
fn larger(code: &mut Code, a: Val, b: Val) -> Val {
    let less = code.less(a, b);
    let nan = code.is_nan(b);
    let takes = code.or(less, nan);
    let nan = code.is_nan(a);
    let stays = code.not(nan);
    let takes = code.and(takes, stays);
    code.select(takes, b, a)
}

/// Ascending, NaN last.
pub(super) fn precedes(code: &mut Code, a: Val, b: Val) -> Val {
    let less = code.less(a, b);
    let (a_nan, b_nan) = (code.is_nan(a), code.is_nan(b));
    let a_number = code.not(a_nan);
    let last = code.and(b_nan, a_number);
    code.or(less, last)
}

pub(super) fn unary(code: &mut Code, op: Unary, x: Val) -> Val {
    match op {
        Unary::Neg => code.fun(Fun::Neg, x),
        Unary::Exp => code.fun(Fun::Exp, x),
        Unary::Log => code.fun(Fun::Log, x),
        Unary::Sin => code.fun(Fun::Sin, x),
        Unary::Sqrt => code.fun(Fun::Sqrt, x),
        Unary::Recip => code.fun(Fun::Recip, x),
        Unary::Floor => code.fun(Fun::Floor, x),
        Unary::Tanh => code.fun(Fun::Tanh, x),
        Unary::Abs => code.fun(Fun::Abs, x),
        Unary::Sigmoid => sigmoid(code, x),
        Unary::Silu => {
            let s = sigmoid(code, x);
            code.mul(x, s)
        }
        // max(x, 0) + log(1 + exp(-|x|))
        Unary::Softplus => {
            let a = code.fun(Fun::Abs, x);
            let n = code.fun(Fun::Neg, a);
            let e = code.fun(Fun::Exp, n);
            let l = code.fun(Fun::Log1p, e);
            let m = code.max(x, number(0.0));
            code.add(m, l)
        }
        Unary::Sign => {
            let above = code.less(number(0.0), x);
            let below = code.less(x, number(0.0));
            let rest = code.select(below, number(-1.0), number(0.0));
            code.select(above, number(1.0), rest)
        }
    }
}

fn sigmoid(code: &mut Code, x: Val) -> Val {
    let n = code.fun(Fun::Neg, x);
    let e = code.fun(Fun::Exp, n);
    let d = code.add(number(1.0), e);
    code.fun(Fun::Recip, d)
}

pub(super) fn binary(code: &mut Code, op: Binary, a: Val, b: Val) -> Val {
    match op {
        Binary::Add => code.add(a, b),
        Binary::Sub => code.sub(a, b),
        Binary::Mul => code.mul(a, b),
        Binary::Max => larger(code, a, b),
        Binary::Less => {
            let less = code.less(a, b);
            code.select(less, number(1.0), number(0.0))
        }
    }
}
