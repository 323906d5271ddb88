//! The product of a tile with packed weights: [`PANEL`] outputs times [`LANES`] rows in registers.

use crate::simd::Simd;
use crate::{LANES, PANEL};

/// Panels of weights, one after the other, with one list of lane vectors.
#[derive(Debug, Clone, Copy)]
pub struct Panels {
    pub k: usize,
    /// Outputs of all panels; each has [`PANEL`], the last one what is left.
    pub outputs: usize,
    /// k lane vectors, `src_step` numbers apart.
    pub src: *const f32,
    pub src_step: usize,
    /// `[panel][k][PANEL]`
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
/// The machine has the instruction set `S`; the pointers are good for the first `P` outputs, at most [`PANEL`], and `dst`
/// overlaps nothing else.
#[inline(always)]
unsafe fn outputs<S: Simd, const P: usize>(panel: &Panels) {
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
/// The machine has the instruction set `S`; the pointers are good for what is said, and `dst` overlaps nothing else.
#[inline(always)]
pub unsafe fn panels<S: Simd>(panels: &Panels) {
    let mut panel = *panels;
    loop {
        // SAFETY: the caller's contract, of the outputs that are left.
        unsafe {
            match panel.outputs {
                0 => return,
                1 => outputs::<S, 1>(&panel),
                2 => outputs::<S, 2>(&panel),
                3 => outputs::<S, 3>(&panel),
                4 => outputs::<S, 4>(&panel),
                5 => outputs::<S, 5>(&panel),
                _ => outputs::<S, PANEL>(&panel),
            }
        }
        panel.outputs = panel.outputs.saturating_sub(PANEL);
        panel.weight = panel.weight.wrapping_add(PANEL * panel.k);
        panel.dst = panel.dst.wrapping_add(PANEL * panel.dst_step);
        if !panel.bias.is_null() {
            panel.bias = panel.bias.wrapping_add(PANEL * panel.bias_step);
        }
    }
}
