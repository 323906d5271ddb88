//! The limits of this machine, measured in every round: multiply-adds in registers, a library's matrix product,
//! exponentials.
//!
//! Multiply-adds are those of the micro-kernels, exponentials a plain loop compiled for the instruction set of the machine.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use micro::peak::CHAINS;

/// Rates in billions a second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Peak {
    /// Floating-point operations of multiply-adds that stay in registers.
    pub(crate) fma: f64,
    /// Floating-point operations of the crate `matrixmultiply` on square matrices, the rows divided among the threads.
    pub(crate) sgemm: f64,
    /// Exponentials of a polynomial of degree six, in the nearest cache.
    pub(crate) exp: f64,
}

/// Measures all three, in some tens of milliseconds.
pub(crate) fn measure(threads: usize) -> Peak {
    Peak { fma: fma(threads), sgemm: sgemm(threads), exp: exp(threads) }
}

/// How long each is measured.
const WHILE: Duration = Duration::from_millis(8);

/// How often a second all threads together do their piece of work, each again and again.
fn together(threads: usize, work: impl Fn() + Sync) -> f64 {
    let one = || {
        let (start, mut times) = (Instant::now(), 0.0);
        loop {
            work();
            times += 1.0;
            if start.elapsed() >= WHILE {
                return times / start.elapsed().as_secs_f64();
            }
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(one)).collect();
        // A loop over numbers cannot panic; a thread that did would have computed nothing.
        one() + others.into_iter().map(|o| o.join().unwrap_or(0.0)).sum::<f64>()
    })
}

fn fma(threads: usize) -> f64 {
    const ROUNDS: usize = 20_000;
    let kernels = micro::kernels::best();
    let operations = (ROUNDS * CHAINS * kernels.width * 2) as f64;
    operations / 1e9
        * together(threads, || {
            // SAFETY: the machine has been asked what it has.
            black_box(unsafe { (kernels.multiply_adds)(black_box(ROUNDS)) });
        })
}

thread_local! {
    static RESULT: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Somewhere to write `len` numbers, which a thread keeps.
fn with_result(len: usize, f: impl FnOnce(&mut [f32])) {
    RESULT.with_borrow_mut(|result| {
        result.resize(len, 0.0);
        f(black_box(result));
    });
}

fn exp(threads: usize) -> f64 {
    let from: Vec<f32> = (0..4096).map(|i| -((i % 977) as f32) / 100.0).collect();
    let rate = together(threads, || with_result(from.len(), |to| exponentials(black_box(&from), to)));
    from.len() as f64 / 1e9 * rate
}

/// Every thread has the rows of one of them.
fn sgemm(threads: usize) -> f64 {
    const N: usize = 768;
    let (a, b) = (vec![0.5f32; N * N], vec![0.25f32; N * N]);
    let rows = N.div_ceil(threads);
    let rate = together(threads, || {
        with_result(rows * N, |c| {
            let n = N as isize;
            // SAFETY: a and c have at least `rows` rows of N numbers, b has N of them; c is this thread's own.
            unsafe { matrixmultiply::sgemm(rows, N, N, 1.0, a.as_ptr(), n, 1, b.as_ptr(), n, 1, 0.0, c.as_mut_ptr(), n, 1) }
        })
    });
    (2 * rows * N * N) as f64 / 1e9 * rate
}

/// Runs a loop in the version for the best instruction set that the machine has.
macro_rules! for_this_machine {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) $(-> $out:ty)? $body:block) => {
        $(#[$doc])*
        fn $name($($arg: $type),*) $(-> $out)? {
            #[inline(always)]
            fn plain($($arg: $type),*) $(-> $out)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $type),*) $(-> $out)? { plain($($arg),*) }
                #[target_feature(enable = "avx512f,avx2,fma")]
                fn avx512($($arg: $type),*) $(-> $out)? { plain($($arg),*) }
                if is_x86_feature_detected!("avx512f") {
                    // SAFETY: the machine has been asked.
                    return unsafe { avx512($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the machine has been asked.
                    return unsafe { avx2($($arg),*) };
                }
            }
            plain($($arg),*)
        }
    };
}

for_this_machine! {
    /// `2^n` by the exponent's bits, `e^r` for the rest: a polynomial for |r| <= ln 2 / 2.
    fn exponentials(from: &[f32], to: &mut [f32]) {
        // Adding it rounds to a whole number, which is then in the lowest bits.
        const ROUNDER: f32 = 12_582_912.0;
        for (y, x) in to.iter_mut().zip(from) {
            let x = x.clamp(-87.0, 88.0);
            let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUNDER);
            let n = shifted - ROUNDER;
            let r = n.mul_add(-0.693_359_4, x);
            let r = n.mul_add(2.121_944_4e-4, r);
            let p = 1.987_569_1e-4f32;
            let p = p.mul_add(r, 1.398_2e-3);
            let p = p.mul_add(r, 8.333_452e-3);
            let p = p.mul_add(r, 4.166_579_6e-2);
            let p = p.mul_add(r, 1.666_666_5e-1);
            let p = p.mul_add(r, 5e-1);
            let e = (r * r).mul_add(p, r) + 1.0;
            *y = f32::from_bits(e.to_bits().wrapping_add(shifted.to_bits() << 23));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_right() {
        let from: Vec<f32> = (-870..880).map(|i| i as f32 / 10.0).collect();
        let mut to = vec![0.0; from.len()];
        exponentials(&from, &mut to);
        for (x, y) in from.iter().zip(&to) {
            let exact = f64::from(*x).exp();
            assert!((f64::from(*y) - exact).abs() <= 4e-7 * exact, "{x}: {y}, {exact}");
        }
    }
}
