//! What the machine can do at most: multiply-adds that stay in registers.

use std::hint::black_box;

use crate::simd::Simd;

/// Chains of multiply-adds: enough to hide their latency, few enough for sixteen registers.
pub const CHAINS: usize = 12;

/// The sum of all chains after so many rounds of `x = 0.999999 x + 1e-7`, from 1 on.
///
/// # Safety
/// The machine has the instruction set `S`.
#[inline(always)]
pub unsafe fn multiply_adds<S: Simd>(rounds: usize) -> f32 {
    // SAFETY: the caller's contract.
    unsafe {
        let (factor, term) = (S::splat(black_box(0.999_999)), S::splat(black_box(1e-7)));
        let mut chains = [S::splat(1.0); CHAINS];
        for _ in 0..rounds {
            for x in &mut chains {
                *x = S::fma(*x, factor, term);
            }
        }
        let mut total = 0.0;
        for x in chains {
            total += S::sum(x);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::available;

    #[test]
    fn multiply_adds_do_what_they_say() {
        const ROUNDS: usize = 1000;
        let x = (0..ROUNDS).fold(1f32, |x, _| x.mul_add(0.999_999, 1e-7));
        for kernels in available() {
            // SAFETY: the machine has it.
            let mean = unsafe { (kernels.multiply_adds)(ROUNDS) } / (CHAINS * kernels.width) as f32;
            // Sums are rounded, and so are products where the machine has no fused ones.
            assert!((mean - x).abs() < 2e-5 && x < 0.9992, "{}: {mean}, {x}", kernels.name);
        }
    }
}
