//! Reverse mode against finite differences in double precision.

mod inner;
mod primitives;
mod random;
mod rules;
mod scans;

use std::collections::BTreeMap;

use wmc_compiler::grad::gradients;
use wmc_compiler::interp::{Array, Clock, run};
use wmc_compiler::ir::verify::verify;
use wmc_compiler::ir::{Input, Op, Output, Program, Role, ValueId};
use wmc_compiler::testing::{NOWHERE, Rng, check_gradient};

/// The inputs that gradients are taken by.
fn moving(program: &Program) -> Vec<usize> {
    (0..program.inputs.len()).filter(|i| program.inputs[*i].role == Role::Param).collect()
}

fn input_node(program: &Program, input: usize) -> ValueId {
    let is_it = |v: &ValueId| program.graph.node(*v).op == Op::Input(input as u32);
    program.graph.ids().find(is_it).expect("every input of a test program is read")
}

/// The program with the derivatives of its one result as further results.
fn differentiated(program: &Program, wrt: &[usize]) -> Program {
    let mut program = program.clone();
    let nodes: Vec<ValueId> = wrt.iter().map(|i| input_node(&program, *i)).collect();
    let of = program.graph.results[0];
    let found = gradients(&mut program.axes, &mut program.graph, of, &nodes);
    for (input, gradient) in wrt.iter().zip(found) {
        program.outputs.push(Output { name: format!("grad.{}", program.inputs[*input].name), updates: None });
        program.graph.results.push(gradient);
    }
    program
}

/// Fails unless the derivatives of the program's result are its slopes.
fn check(program: &Program, inputs: &[Array<f64>], tolerance: f64) -> Result<(), String> {
    let wrt = moving(program);
    let with = differentiated(program, &wrt);
    verify(program).map_err(|e| format!("before: {e}"))?;
    verify(&with).map_err(|e| format!("after: {e}"))?;
    let results = |p: &Program| run(p, inputs, &BTreeMap::new(), Clock::default()).map_err(|e| e.to_string());
    let found = results(&with)?;
    if found[0] != results(program)?[0] {
        return Err("the gradients changed the value".to_string());
    }
    check_gradient(program, inputs, &wrt, &found[1..], Clock::default(), tolerance).map_err(|e| e.to_string())
}

/// The program whose result is the derivative of the given one's along a random direction, which is one more input for
/// each that moves.
fn along_a_direction(program: &Program, inputs: &[Array<f64>], rng: &mut Rng) -> (Program, Vec<Array<f64>>) {
    let mut program = program.clone();
    let mut inputs = inputs.to_vec();
    let wrt = moving(&program);
    let nodes: Vec<ValueId> = wrt.iter().map(|i| input_node(&program, *i)).collect();
    let of = program.graph.results[0];
    let found = gradients(&mut program.axes, &mut program.graph, of, &nodes);
    let mut total = program.graph.constant(0.0, NOWHERE);
    for (input, gradient) in wrt.iter().zip(found) {
        let axes = program.inputs[*input].axes.clone();
        let name = format!("direction{}", program.inputs.len());
        let number = program.inputs.len() as u32;
        program.inputs.push(Input { name, role: Role::Data, axes: axes.clone() });
        let data = (0..program.len(&axes)).map(|_| rng.between(-1.0, 1.0)).collect();
        inputs.push(Array { axes: axes.clone(), data });
        let direction = program.graph.push(Op::Input(number), axes.clone(), NOWHERE);
        let product = program.graph.mul(gradient, direction, NOWHERE);
        let sum = program.graph.sum(product, &axes, NOWHERE);
        total = program.graph.add(total, sum, NOWHERE);
    }
    program.graph.results = vec![total];
    (program, inputs)
}

/// Derivatives of the program's result, of their directional derivative, and so on up to an order.
fn check_orders(program: &Program, inputs: &[Array<f64>], order: usize, tolerance: f64) -> Result<(), String> {
    let mut rng = Rng::new(order as u64);
    let (mut program, mut inputs) = (program.clone(), inputs.to_vec());
    for n in 1..=order {
        check(&program, &inputs, tolerance).map_err(|e| format!("order {n}: {e}"))?;
        (program, inputs) = along_a_direction(&program, &inputs, &mut rng);
    }
    Ok(())
}
