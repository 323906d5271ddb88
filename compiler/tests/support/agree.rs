//! Two programs that should give the same numbers.

use std::collections::BTreeMap;

use wmc_compiler::interp::{Array, Clock, run};
use wmc_compiler::ir::Program;

/// How far results may be apart, in proportion to the largest entry.
const BOUND: f64 = 1e-9;

/// Runs both in double precision on the same inputs; says where they differ.
pub(crate) fn agree(before: &Program, after: &Program, inputs: &[Array<f64>]) -> Result<(), String> {
    let clock = Clock { seed: 7, step: 3 };
    let [have, want] = [after, before].map(|p| run::<f64>(p, inputs, &BTreeMap::new(), clock));
    let (have, want) = (have.map_err(|e| e.to_string())?, want.map_err(|e| e.to_string())?);
    for (output, (have, want)) in before.outputs.iter().zip(have.iter().zip(&want)) {
        if have.axes != want.axes || have.data.len() != want.data.len() {
            return Err(format!("`{}` has the axes {:?} instead of {:?}", output.name, have.axes, want.axes));
        }
        let size = want.data.iter().filter(|x| x.is_finite()).fold(1.0, |m: f64, x| m.max(x.abs()));
        for (i, (h, w)) in have.data.iter().zip(&want.data).enumerate() {
            let same = h == w || (h.is_nan() && w.is_nan()) || (h - w).abs() <= BOUND * size;
            if !same {
                return Err(format!("entry {i} of `{}` is {h} instead of {w}", output.name));
            }
        }
    }
    Ok(())
}
