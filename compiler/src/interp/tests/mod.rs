mod edges;
mod errors;
mod naive;
mod order;
mod randomness;
mod scans;

use std::collections::BTreeMap;

use super::{Array, Clock, RunError, run};
use crate::ir::{Program, ValueId};
use crate::testing::{Draft, NOWHERE};

/// Runs a program without draws of its own.
fn results(program: &Program, inputs: &[Array<f64>]) -> Result<Vec<Array<f64>>, RunError> {
    run(program, inputs, &BTreeMap::new(), Clock::default())
}

/// The numbers of the one value that `make` builds out of one input.
fn of_one(sizes: &[usize], data: &[f64], make: impl FnOnce(&mut Draft, ValueId) -> ValueId) -> Vec<f64> {
    let mut draft = Draft::new();
    let axes: Vec<_> = sizes.iter().enumerate().map(|(i, n)| draft.axis(&format!("a{i}"), *n)).collect();
    let x = draft.input("x", &axes);
    let y = make(&mut draft, x);
    let input = draft.array(&axes, data);
    results(&draft.finish(&[y]), &[input]).unwrap().remove(0).data
}

/// Equal, where NaN is equal to NaN and zeros have signs.
#[track_caller]
fn assert_same(a: &[f64], b: &[f64]) {
    let bits = |list: &[f64]| list.iter().map(|x| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }).collect::<Vec<_>>();
    assert_eq!(bits(a), bits(b), "{a:?} and {b:?}");
}
