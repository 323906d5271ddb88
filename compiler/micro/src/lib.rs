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

/// SIMD tile width, in rows.
pub const LANES: usize = 16;

/// Outputs that stand side by side in a packed weight: as many as the product keeps in registers.
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
