//! Vectors of single-precision numbers: one trait, an implementation for each instruction set.
//!
//! Micro-kernels are written once against [`Simd`] and instantiated under the instruction set's `target_feature` (see
//! [`crate::kernels`]), into which everything here is inlined. That holds for functions that say `inline(always)`, not for
//! closures given to functions that do not (`array::map`): around vectors there are plain loops. The functions are unsafe because they are instructions:
//! the caller must be on a machine that has them; where there are pointers, they must be good for what is read or
//! written.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
pub use portable::Portable;

/// A vector of `W` numbers and what an instruction set does with it.
///
/// # Safety
/// Every function: the machine has the instruction set.
#[allow(clippy::missing_safety_doc)] // the trait's
pub trait Simd: Copy + 'static {
    /// Numbers in a vector; divides [`crate::LANES`].
    const W: usize;
    type V: Copy;
    /// As many whole numbers of 32 bits.
    type I: Copy;
    /// As many truth values.
    type M: Copy;

    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    /// The first `n < W` numbers, then zeros; reads no further.
    unsafe fn load_some(p: *const f32, n: usize) -> Self::V;
    unsafe fn splat(x: f32) -> Self::V;
    /// From `W` lists the `W` numbers from `at` on: a vector for each place, `step` numbers apart.
    #[inline(always)]
    unsafe fn turn(lists: &[*const f32], at: usize, to: *mut f32, step: usize) {
        for (lane, list) in lists.iter().enumerate().take(Self::W) {
            for place in 0..Self::W {
                // SAFETY: the caller's contract.
                unsafe { *to.add(place * step + lane) = *list.add(at + place) };
            }
        }
    }

    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    /// `a b + c`, rounded once where the machine can.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The smaller; `b` if one is NaN.
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// The larger; `b` if one is NaN.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sqrt(a: Self::V) -> Self::V;
    unsafe fn floor(a: Self::V) -> Self::V;
    /// The sum of the numbers, in a fixed order.
    unsafe fn sum(a: Self::V) -> f32;

    unsafe fn less(a: Self::V, b: Self::V) -> Self::M;
    unsafe fn is_nan(a: Self::V) -> Self::M;
    /// `a` where true, else `b`.
    unsafe fn select(m: Self::M, a: Self::V, b: Self::V) -> Self::V;
    unsafe fn any(m: Self::M) -> bool;

    unsafe fn bits(a: Self::V) -> Self::I;
    unsafe fn of_bits(a: Self::I) -> Self::V;
    unsafe fn int(x: i32) -> Self::I;
    unsafe fn int_add(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn int_and(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn int_xor(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn shift_left<const N: i32>(a: Self::I) -> Self::I;
    /// Fills with zeros.
    unsafe fn shift_right<const N: i32>(a: Self::I) -> Self::I;
    /// Whole numbers as floating-point numbers.
    unsafe fn to_float(a: Self::I) -> Self::V;
}
