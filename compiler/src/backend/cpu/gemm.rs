//! The product of a tile with packed weights: [`PANEL`] outputs times [`LANES`] rows in registers.

use super::simd::Simd;
use crate::kernel::{LANES, PANEL};

/// One panel of weights with one list of lane vectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panel {
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
    /// Rows that there are, 1 to [`LANES`].
    pub lanes: usize,
    /// What is behind `src` and `dst` after those rows belongs to others.
    pub masked: bool,
}

/// # Safety
/// The machine has the instruction set `S`; the panel's pointers are good for what it says, `P` is its `outputs`, and
/// `dst` overlaps nothing else.
#[inline(always)]
unsafe fn outputs<S: Simd, const P: usize, const MASKED: bool>(panel: &Panel) {
    // SAFETY: the caller's contract.
    unsafe {
        let vectors = LANES / S::W;
        let load = |p: *const f32, v: usize| load::<S, MASKED>(p, v, panel.lanes);
        let mut total = [[S::splat(0.0); 4]; P];
        for (j, total) in total.iter_mut().enumerate() {
            let bias = if panel.bias.is_null() { 0.0 } else { *panel.bias.add(j * panel.bias_step) };
            for (v, total) in total.iter_mut().enumerate().take(vectors) {
                *total = S::splat(bias);
                if panel.accumulate {
                    *total = S::add(*total, load(panel.dst.add(j * panel.dst_step), v));
                }
            }
        }
        let (mut src, mut weight) = (panel.src, panel.weight);
        for _ in 0..panel.k {
            let mut x = [S::splat(0.0); 4];
            for (v, x) in x.iter_mut().enumerate().take(vectors) {
                *x = load(src, v);
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
                store::<S, MASKED>(to, v, panel.lanes, *total);
            }
        }
    }
}

/// # Safety
/// The machine has the instruction set `S`; the panel's pointers are good for what it says, and `dst` overlaps nothing
/// else.
#[inline(always)]
pub(super) unsafe fn panel<S: Simd>(panel: &Panel) {
    // SAFETY: the caller's contract.
    unsafe {
        match (panel.masked, panel.outputs) {
            (false, 6) => outputs::<S, 6, false>(panel),
            (false, 5) => outputs::<S, 5, false>(panel),
            (false, 4) => outputs::<S, 4, false>(panel),
            (false, 3) => outputs::<S, 3, false>(panel),
            (false, 2) => outputs::<S, 2, false>(panel),
            (false, _) => outputs::<S, 1, false>(panel),
            (true, 6) => outputs::<S, 6, true>(panel),
            (true, 5) => outputs::<S, 5, true>(panel),
            (true, 4) => outputs::<S, 4, true>(panel),
            (true, 3) => outputs::<S, 3, true>(panel),
            (true, 2) => outputs::<S, 2, true>(panel),
            (true, _) => outputs::<S, 1, true>(panel),
        }
    }
}

/// Vector `v` of a lane vector; where masked, zeros for the rows from `lanes` on.
///
/// # Safety
/// The machine has the instruction set `S`; p is good for the lane vector, or where masked for its first `lanes`.
#[inline(always)]
pub(super) unsafe fn load<S: Simd, const MASKED: bool>(p: *const f32, v: usize, lanes: usize) -> S::V {
    // SAFETY: the caller's contract.
    unsafe {
        if !MASKED || lanes >= (v + 1) * S::W {
            S::load(p.add(v * S::W))
        } else if lanes > v * S::W {
            S::load_some(p.add(v * S::W), lanes - v * S::W)
        } else {
            S::splat(0.0)
        }
    }
}

/// The twin of [`load`]; where masked, rows from `lanes` on are not written.
///
/// # Safety
/// As [`load`], for writing.
#[inline(always)]
pub(super) unsafe fn store<S: Simd, const MASKED: bool>(p: *mut f32, v: usize, lanes: usize, value: S::V) {
    // SAFETY: the caller's contract.
    unsafe {
        if !MASKED || lanes >= (v + 1) * S::W {
            S::store(p.add(v * S::W), value);
        } else if lanes > v * S::W {
            S::store_some(p.add(v * S::W), value, lanes - v * S::W);
        }
    }
}
