//! One operation over a strip of lane vectors: what a map is executed with.

use crate::LANES;
use crate::math;
use crate::simd::Simd;

/// Lane vectors (or single numbers, for a splat) `step` numbers apart. Generated code reads the addresses.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Arg {
    pub at: *mut f32,
    pub step: usize,
}

// SAFETY: an address, which nobody follows without the contracts of the functions it is given to.
unsafe impl Send for Arg {}

/// Computes `n` lane vectors.
///
/// # Safety
/// The machine has the instruction set that the function was made for, and the arguments are good for `n` steps. An
/// operand may be what is written, but not overlap it otherwise.
pub type StripFn = unsafe fn(n: usize, to: Arg, from: &[Arg; 3]);

/// A function of up to three numbers.
pub trait Function {
    /// # Safety
    /// The machine has the instruction set `S`.
    unsafe fn apply<S: Simd>(a: S::V, b: S::V, c: S::V) -> S::V;
}

macro_rules! functions {
    ($($name:ident: |$a:ident, $b:ident, $c:ident| $body:expr;)*) => {$(
        #[derive(Debug)]
        pub struct $name;

        impl Function for $name {
            #[inline(always)]
            unsafe fn apply<S: Simd>($a: S::V, $b: S::V, $c: S::V) -> S::V {
                // SAFETY: by the function's own contract.
                #[allow(unused_unsafe)] // some bodies have nothing to promise
                unsafe {
                    $body
                }
            }
        }
    )*};
}

functions! {
    Move: |a, _b, _c| a;
    Neg: |a, _b, _c| math::neg::<S>(a);
    Exp: |a, _b, _c| math::exp::<S>(a);
    Log: |a, _b, _c| math::log::<S>(a);
    Sin: |a, _b, _c| math::sin::<S>(a);
    Sqrt: |a, _b, _c| S::sqrt(a);
    Recip: |a, _b, _c| math::recip::<S>(a);
    Floor: |a, _b, _c| S::floor(a);
    Tanh: |a, _b, _c| math::tanh::<S>(a);
    Sigmoid: |a, _b, _c| math::sigmoid::<S>(a);
    Softplus: |a, _b, _c| math::softplus::<S>(a);
    Abs: |a, _b, _c| math::abs::<S>(a);
    Sign: |a, _b, _c| math::sign::<S>(a);
    Silu: |a, _b, _c| math::silu::<S>(a);
    Add: |a, b, _c| S::add(a, b);
    Sub: |a, b, _c| S::sub(a, b);
    Mul: |a, b, _c| S::mul(a, b);
    Max: |a, b, _c| math::maximum::<S>(a, b);
    Less: |a, b, _c| math::less::<S>(a, b);
    ExpMul: |a, b, _c| math::exp::<S>(S::mul(a, b));
    MulAdd: |a, b, c| S::fma(a, b, c);
    // Folds: the total is c.
    SumOf: |a, _b, c| S::add(c, a);
    MaxOf: |a, _b, c| math::maximum::<S>(c, a);
    Select: |a, b, c| math::select::<S>(a, b, c);
}

/// The lane vector or number of step j.
#[inline(always)]
unsafe fn at(arg: Arg, j: usize) -> *mut f32 {
    // SAFETY: the caller's contract.
    unsafe { arg.at.add(j * arg.step) }
}

/// `W` numbers of an operand from the lane `lane` on.
#[inline(always)]
unsafe fn operand<S: Simd, const SPLAT: bool>(at: *const f32, lane: usize) -> S::V {
    // SAFETY: the caller's contract.
    unsafe { if SPLAT { S::splat(*at) } else { S::load(at.add(lane)) } }
}

/// `to[j] = f(a[j], b[j], c[j])`
///
/// # Safety
/// That of [`StripFn`].
#[inline(always)]
pub unsafe fn map<S: Simd, F: Function, const A: bool, const B: bool, const C: bool>(n: usize, to: Arg, from: &[Arg; 3]) {
    // SAFETY: the caller's contract; offsets stay below n steps.
    unsafe {
        let [a, b, c] = *from;
        for j in 0..n {
            let (a, b, c) = (a.at.add(j * a.step), b.at.add(j * b.step), c.at.add(j * c.step));
            let to = to.at.add(j * to.step);
            for lane in (0..LANES).step_by(S::W) {
                let value = F::apply::<S>(operand::<S, A>(a, lane), operand::<S, B>(b, lane), operand::<S, C>(c, lane));
                S::store(to.add(lane), value);
            }
        }
    }
}

/// `to[0] = f(.. f(f(to[0], a[0], b[0]), a[1], b[1]) .., a[n-1], b[n-1])`, the function taking the total last.
///
/// # Safety
/// That of [`StripFn`].
#[inline(always)]
pub unsafe fn fold<S: Simd, F: Function, const A: bool, const B: bool>(n: usize, to: Arg, from: &[Arg; 3]) {
    // SAFETY: the caller's contract; offsets stay below n steps. `W` divides LANES and is at least a quarter of it.
    unsafe {
        let [a, b, _] = *from;
        let mut total = [S::splat(0.0); 4];
        for (v, total) in total.iter_mut().enumerate().take(LANES / S::W) {
            *total = S::load(to.at.add(v * S::W));
        }
        for j in 0..n {
            let (a, b) = (a.at.add(j * a.step), b.at.add(j * b.step));
            for (v, total) in total.iter_mut().enumerate().take(LANES / S::W) {
                *total = F::apply::<S>(operand::<S, A>(a, v * S::W), operand::<S, B>(b, v * S::W), *total);
            }
        }
        for (v, total) in total.iter().enumerate().take(LANES / S::W) {
            S::store(to.at.add(v * S::W), *total);
        }
    }
}

/// The operands of [`decay`].
#[derive(Debug, Clone, Copy)]
pub struct Decay<T> {
    pub rate: [T; 2],
    pub state: T,
    pub input: [T; 2],
    pub to: T,
    /// What the new state is multiplied by, and where the sum of that goes.
    pub read: Option<[T; 2]>,
}

impl<T: Copy> Decay<T> {
    pub fn map<U>(&self, f: impl Fn(T) -> U) -> Decay<U> {
        Decay {
            rate: self.rate.map(&f),
            state: f(self.state),
            input: self.input.map(&f),
            to: f(self.to),
            read: self.read.map(|read| read.map(&f)),
        }
    }
}

/// Computes `n` lane vectors of a recurrence's step.
///
/// # Safety
/// That of [`StripFn`], for all arguments; `read`'s second is one lane vector, which overlaps nothing else.
pub type DecayFn = unsafe fn(n: usize, args: &Decay<Arg>);

/// `to = exp(r0 r1) state + i0 i1; sum += to read`: the step of a selective scan, all of it in registers. The second rate
/// may be a splat.
///
/// # Safety
/// That of [`DecayFn`].
#[inline(always)]
pub unsafe fn decay<S: Simd, const SPLAT: bool>(n: usize, args: &Decay<Arg>) {
    // SAFETY: the caller's contract; offsets stay below n steps.
    unsafe {
        let Decay { rate, state, input, to, read } = *args;
        let mut total = [S::splat(0.0); 4];
        for (v, total) in total.iter_mut().enumerate().take(LANES / S::W) {
            if let Some([_, sum]) = read {
                *total = S::load(sum.at.add(v * S::W));
            }
        }
        for j in 0..n {
            for (v, total) in total.iter_mut().enumerate().take(LANES / S::W) {
                let lane = v * S::W;
                let rate = S::mul(operand::<S, false>(at(rate[0], j), lane), operand::<S, SPLAT>(at(rate[1], j), lane));
                let input = S::mul(S::load(at(input[0], j).add(lane)), S::load(at(input[1], j).add(lane)));
                let state = S::load(at(state, j).add(lane));
                let new = S::fma(math::exp::<S>(rate), state, input);
                S::store(at(to, j).add(lane), new);
                if let Some([factor, _]) = read {
                    *total = S::fma(new, S::load(at(factor, j).add(lane)), *total);
                }
            }
        }
        for (v, total) in total.iter().enumerate().take(LANES / S::W) {
            if let Some([_, sum]) = read {
                S::store(sum.at.add(v * S::W), *total);
            }
        }
    }
}
