//! The product of a tile with packed weights: [`PANEL`] outputs times [`LANES`] rows in registers.

use crate::simd::Simd;
use crate::{LANES, PANEL};

/// One panel of weights with one list of lane vectors.
#[derive(Debug, Clone, Copy)]
pub struct Panel {
    pub k: usize,
    /// Outputs, at most [`PANEL`].
    pub outputs: usize,
    /// k lane vectors, `src_step` numbers apart.
    pub src: *const f32,
    pub src_step: usize,
    /// `[k][PANEL]`
    pub weight: *const f32,
    /// A number for each output, `bias_step` apart; null: zeros.
    pub bias: *const f32,
    pub bias_step: usize,
    /// A lane vector for each output, `dst_step` numbers apart.
    pub dst: *mut f32,
    pub dst_step: usize,
    /// Adds to what is there.
    pub accumulate: bool,
}

/// # Safety
/// The machine has the instruction set `S`; the panel's pointers are good for what it says, `P` is its `outputs`, and
/// `dst` overlaps nothing else.
#[inline(always)]
unsafe fn outputs<S: Simd, const P: usize>(panel: &Panel) {
    // SAFETY: the caller's contract.
    unsafe {
        let vectors = LANES / S::W;
        let mut total = [[S::splat(0.0); 4]; P];
        for (j, total) in total.iter_mut().enumerate() {
            let bias = if panel.bias.is_null() { 0.0 } else { *panel.bias.add(j * panel.bias_step) };
            for (v, total) in total.iter_mut().enumerate().take(vectors) {
                *total = S::splat(bias);
                if panel.accumulate {
                    *total = S::add(*total, S::load(panel.dst.add(j * panel.dst_step + v * S::W)));
                }
            }
        }
        let (mut src, mut weight) = (panel.src, panel.weight);
        for _ in 0..panel.k {
            let mut x = [S::splat(0.0); 4];
            for (v, x) in x.iter_mut().enumerate().take(vectors) {
                *x = S::load(src.add(v * S::W));
            }
            for (j, total) in total.iter_mut().enumerate() {
                let w = S::splat(*weight.add(j));
                for (total, x) in total.iter_mut().zip(&x).take(vectors) {
                    *total = S::fma(w, *x, *total);
                }
            }
            src = src.add(panel.src_step);
            weight = weight.add(PANEL);
        }
        for (j, total) in total.iter().enumerate() {
            let to = panel.dst.add(j * panel.dst_step);
            for (v, total) in total.iter().enumerate().take(vectors) {
                S::store(to.add(v * S::W), *total);
            }
        }
    }
}

/// # Safety
/// The machine has the instruction set `S`; the panel's pointers are good for what it says, and `dst` overlaps nothing
/// else.
#[inline(always)]
pub unsafe fn panel<S: Simd>(panel: &Panel) {
    // SAFETY: the caller's contract.
    unsafe {
        match panel.outputs {
            6 => outputs::<S, 6>(panel),
            5 => outputs::<S, 5>(panel),
            4 => outputs::<S, 4>(panel),
            3 => outputs::<S, 3>(panel),
            2 => outputs::<S, 2>(panel),
            _ => outputs::<S, 1>(panel),
        }
    }
}
