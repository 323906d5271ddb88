//! Gradients by finite differences, and the comparison of other gradients with them.

use std::collections::BTreeMap;

use thiserror::Error;

use super::Rng;
use crate::interp::{Array, Clock, RunError, run};
use crate::ir::Program;

/// The distance between neighbouring points. With four points the truncation is of the order of its fourth power.
const STEP: f64 = 1e-4;

/// Inputs of at most so many numbers are compared entry by entry, larger ones along random directions.
const ENTRIES: usize = 6;
const DIRECTIONS: usize = 3;

/// Where a gradient is not the slope.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Mismatch {
    #[error("d/d `{input}` {along}: the gradient says {gradient:e}, differences say {difference:e}")]
    Slope { input: String, along: String, gradient: f64, difference: f64 },
    #[error(transparent)]
    Run(#[from] RunError),
}

/// The derivative of the sum of the program's first result along a direction: one array for each input that moves, by
/// the input's number. Four points, so that it is exact for polynomials of degree four.
pub fn directional(
    program: &Program,
    inputs: &[Array<f64>],
    direction: &BTreeMap<usize, Vec<f64>>,
    clock: Clock,
) -> Result<f64, RunError> {
    let at = |distance: f64| -> Result<f64, RunError> {
        let mut moved = inputs.to_vec();
        for (input, direction) in direction {
            moved[*input].data.iter_mut().zip(direction).for_each(|(x, d)| *x += distance * d);
        }
        Ok(run(program, &moved, &BTreeMap::new(), clock)?[0].data.iter().sum())
    };
    let near = at(STEP)? - at(-STEP)?;
    let far = at(2.0 * STEP)? - at(-2.0 * STEP)?;
    Ok((8.0 * near - far) / (12.0 * STEP))
}

/// The gradient of the sum of the program's first result by each of `wrt` (numbers of inputs), entry by entry.
pub fn finite_difference(
    program: &Program,
    inputs: &[Array<f64>],
    wrt: &[usize],
    clock: Clock,
) -> Result<Vec<Array<f64>>, RunError> {
    let one = |input: usize| {
        let array = &inputs[input];
        let data = (0..array.data.len())
            .map(|entry| directional(program, inputs, &BTreeMap::from([(input, unit(array.data.len(), entry))]), clock))
            .collect::<Result<Vec<f64>, RunError>>()?;
        Ok(Array { axes: array.axes.clone(), data })
    };
    wrt.iter().map(|input| one(*input)).collect()
}

/// Compares gradients of the program's first result by `wrt` with finite differences: entry by entry for small inputs,
/// along random directions for others. `tolerance` is relative to the larger of the two and 1.
pub fn check_gradient(
    program: &Program,
    inputs: &[Array<f64>],
    wrt: &[usize],
    gradients: &[Array<f64>],
    clock: Clock,
    tolerance: f64,
) -> Result<(), Mismatch> {
    let mut rng = Rng::new(0);
    for (input, gradient) in wrt.iter().zip(gradients) {
        let name = &program.inputs[*input].name;
        let len = inputs[*input].data.len();
        let gradient = gradient.arranged(program, &inputs[*input].axes, name)?;
        let directions: Vec<(String, Vec<f64>)> = if len <= ENTRIES {
            (0..len).map(|entry| (format!("at {entry}"), unit(len, entry))).collect()
        } else {
            (0..DIRECTIONS).map(|d| (format!("along direction {d}"), sphere(len, &mut rng))).collect()
        };
        for (along, direction) in directions {
            let slope: f64 = gradient.data.iter().zip(&direction).map(|(g, d)| g * d).sum();
            let difference = directional(program, inputs, &BTreeMap::from([(*input, direction)]), clock)?;
            let scale = slope.abs().max(difference.abs()).max(1.0);
            // So that NaN is no agreement.
            let agree = (slope - difference).abs() <= tolerance * scale;
            if !agree {
                return Err(Mismatch::Slope { input: name.clone(), along, gradient: slope, difference });
            }
        }
    }
    Ok(())
}

fn unit(len: usize, entry: usize) -> Vec<f64> {
    (0..len).map(|i| f64::from(i == entry)).collect()
}

fn sphere(len: usize, rng: &mut Rng) -> Vec<f64> {
    let data: Vec<f64> = (0..len).map(|_| rng.between(-1.0, 1.0)).collect();
    let norm = data.iter().map(|x| x * x).sum::<f64>().sqrt();
    data.into_iter().map(|x| x / norm).collect()
}
