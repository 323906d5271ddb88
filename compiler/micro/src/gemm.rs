//! The product of a tile with packed weights: one or two panels of outputs times [`LANES`] rows in registers.

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

/// Outputs whose sums are in registers at a time. Where a lane vector is one register, one panel has too few sums to
/// hide how long a multiply-add takes.
pub const fn together<S: Simd>() -> usize {
    if S::W == LANES { 2 * PANEL } else { PANEL }
}

/// # Safety
/// The machine has the instruction set `S`, and a lane vector is `V` of its vectors; the pointers are good for the first
/// `P` outputs, at most [`together`], and `dst` overlaps nothing else.
#[inline(always)]
unsafe fn outputs<S: Simd, const P: usize, const V: usize>(panels: &Panels) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut total = [[S::splat(0.0); V]; P];
        for (j, total) in total.iter_mut().enumerate() {
            let bias = if panels.bias.is_null() { 0.0 } else { *panels.bias.add(j * panels.bias_step) };
            for (v, total) in total.iter_mut().enumerate() {
                *total = S::splat(bias);
                if panels.accumulate {
                    *total = S::add(*total, S::load(panels.dst.add(j * panels.dst_step + v * S::W)));
                }
            }
        }
        let (mut src, mut weight) = (panels.src, panels.weight);
        let panel = PANEL * panels.k;
        for _ in 0..panels.k {
            let mut x = [S::splat(0.0); V];
            for (v, x) in x.iter_mut().enumerate() {
                *x = S::load(src.add(v * S::W));
            }
            for (j, total) in total.iter_mut().enumerate() {
                let w = S::splat(*weight.add(j / PANEL * panel + j % PANEL));
                for (total, x) in total.iter_mut().zip(&x) {
                    *total = S::fma(w, *x, *total);
                }
            }
            src = src.add(panels.src_step);
            weight = weight.add(PANEL);
        }
        for (j, total) in total.iter().enumerate() {
            let to = panels.dst.add(j * panels.dst_step);
            for (v, total) in total.iter().enumerate() {
                S::store(to.add(v * S::W), *total);
            }
        }
    }
}

/// # Safety
/// That of [`panels`]; a lane vector is `V` vectors.
#[inline(always)]
unsafe fn first<S: Simd, const V: usize>(panels: &Panels) {
    // SAFETY: the caller's contract, of the first outputs.
    unsafe {
        match panels.outputs.min(together::<S>()) {
            0 => {}
            1 => outputs::<S, 1, V>(panels),
            2 => outputs::<S, 2, V>(panels),
            3 => outputs::<S, 3, V>(panels),
            4 => outputs::<S, 4, V>(panels),
            5 => outputs::<S, 5, V>(panels),
            6 => outputs::<S, 6, V>(panels),
            7 => outputs::<S, 7, V>(panels),
            8 => outputs::<S, 8, V>(panels),
            9 => outputs::<S, 9, V>(panels),
            10 => outputs::<S, 10, V>(panels),
            11 => outputs::<S, 11, V>(panels),
            _ => outputs::<S, 12, V>(panels),
        }
    }
}

/// # Safety
/// The machine has the instruction set `S`; the pointers are good for what is said, and `dst` overlaps nothing else.
#[inline(always)]
pub unsafe fn panels<S: Simd>(panels: &Panels) {
    let mut left = *panels;
    let step = together::<S>();
    while left.outputs > 0 {
        // SAFETY: the caller's contract, of the outputs that are left.
        unsafe {
            match LANES / S::W {
                1 => first::<S, 1>(&left),
                2 => first::<S, 2>(&left),
                _ => first::<S, 4>(&left),
            }
        }
        left.outputs = left.outputs.saturating_sub(step);
        left.weight = left.weight.wrapping_add(step * left.k);
        left.dst = left.dst.wrapping_add(step * left.dst_step);
        if !left.bias.is_null() {
            left.bias = left.bias.wrapping_add(step * left.bias_step);
        }
    }
}
