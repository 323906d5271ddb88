//! Random graph programs as kernels, at all levels: the kernels' interpreter agrees with that of graphs in double precision, the
//! CPU agrees to single precision, with the same bits for any number of workers.

use std::collections::BTreeMap;

use wmc_compiler::backend::cpu::{self, Instance};
use wmc_compiler::interp::{self, Array, Clock, RunOptions};
use wmc_compiler::ir::text::print;
use wmc_compiler::ir::{Graph, Op, Program, Role};
use wmc_compiler::kernel;
use wmc_compiler::kernel::fuse::{Level, fuse};
use wmc_compiler::kernel::verify::verify;
use wmc_compiler::simplify::simplify;
use wmc_compiler::stage::Simplified;
use wmc_compiler::testing::{Rng, random_program, random_scalar_program};

const CLOCK: Clock = Clock { seed: 3, step: 1 };

fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().fold(0.0, |m: f64, x| m.max(x.abs()))
}

/// The largest difference; NaN where one is not a number and the other is.
fn apart(a: &[f64], b: &[f64]) -> f64 {
    let difference = |(x, y): (&f64, &f64)| if x == y || x.is_nan() && y.is_nan() { 0.0 } else { (x - y).abs() };
    a.iter().zip(b).map(difference).fold(0.0, |m, d| if d <= m || f64::is_nan(m) { m } else { d })
}

fn on_cpu(kernels: &kernel::Program, inputs: &[Vec<f64>], threads: usize) -> Result<Vec<Vec<f64>>, String> {
    let mut instance = Instance::new(kernels, threads).map_err(|e| e.to_string())?;
    for (i, numbers) in inputs.iter().enumerate() {
        instance.input_mut(i).iter_mut().zip(numbers).for_each(|(x, y)| *x = *y as f32);
    }
    instance.prepare();
    instance.run(CLOCK.seed, CLOCK.step);
    Ok((0..kernels.outputs.len()).map(|i| instance.output(i).iter().map(|x| f64::from(*x)).collect()).collect())
}

fn single(inputs: &[Array<f64>]) -> Vec<Array<f32>> {
    let one = |a: &Array<f64>| Array { axes: a.axes.clone(), data: a.data.iter().map(|x| *x as f32).collect() };
    inputs.iter().map(one).collect()
}

fn check(program: &Simplified, inputs: &[Array<f64>]) -> Result<(), String> {
    let quiet = RunOptions { check: false };
    let run = |e: interp::RunError| e.to_string();
    let exact = interp::run_with(program, inputs, &BTreeMap::new(), CLOCK, quiet).map_err(run)?;
    let rough = interp::run_with(program, &single(inputs), &BTreeMap::new(), CLOCK, quiet).map_err(run)?;
    let plain: Vec<Vec<f64>> = inputs.iter().map(|a| a.data.clone()).collect();
    for level in Level::ALL {
        let told = |e: String| format!("{}: {e}", level.name());
        let kernels = fuse(program, &cpu::TARGET, level).map_err(|e| told(e.to_string()))?;
        verify(&kernels).map_err(|e| told(e.to_string()))?;
        let slow = kernel::interp::run(&kernels, &plain, &BTreeMap::new(), CLOCK).map_err(|e| told(e.to_string()))?;
        let fast = on_cpu(&kernels, &plain, 1).map_err(told)?;
        let more = on_cpu(&kernels, &plain, 3).map_err(told)?;
        for (i, exact) in exact.iter().enumerate() {
            let size = largest(&exact.data).max(1e-6);
            // Constants are single precision in kernels, too.
            let rounding = apart(&rough[i].data.iter().map(|x| f64::from(*x)).collect::<Vec<_>>(), &exact.data);
            let bounds =
                [("interpreted", &slow[i], 1e-5 * size + 2.0 * rounding), ("run", &fast[i], 1e-4 * size + 20.0 * rounding)];
            for (how, found, bound) in bounds {
                let d = apart(found, &exact.data);
                if d > bound || d.is_nan() {
                    return Err(format!("{}: output {i}, {how}, is off by {d:e} of {size:e}, allowed {bound:e}", level.name()));
                }
            }
            let bits = |list: &[f64]| list.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            if bits(&fast[i]) != bits(&more[i]) {
                return Err(format!("{}: output {i} depends on the number of workers", level.name()));
            }
        }
    }
    Ok(())
}

fn draws_in_loops(graph: &Graph, inside: bool) -> bool {
    graph.nodes.iter().any(|node| match &node.op {
        Op::Random { .. } => inside,
        Op::Scan(scan) => draws_in_loops(&scan.body, true),
        _ => false,
    })
}

fn all(seeds: std::ops::Range<u64>, make: fn(u64) -> (Program, Vec<Array<f64>>)) {
    let failed: Vec<String> = seeds
        .filter_map(|seed| {
            let (mut program, inputs) = make(seed);
            // Axes of parameters are never rows: so some inputs are data.
            let mut rng = Rng::new(seed);
            for input in &mut program.inputs {
                if rng.below(3) > 0 {
                    input.role = Role::Data;
                }
            }
            let program = if seed % 2 == 0 { simplify(program.into()) } else { Simplified::as_it_is(program) };
            // Draws are made before loops; lowering leaves none inside.
            if draws_in_loops(&program.graph, false) {
                return None;
            }
            check(&program, &inputs).err().map(|e| format!("seed {seed}: {e}\n{}", print(&program, None)))
        })
        .collect();
    assert!(failed.is_empty(), "{} failed\n{}", failed.len(), failed[..failed.len().min(4)].join("\n"));
}

#[test]
fn programs_with_several_results() {
    all(0..800, random_program);
}

#[test]
fn programs_with_one_result() {
    all(10000..10400, random_scalar_program);
}

/// `cargo test -p wmc-compiler --test random_graphs -- --ignored`
#[test]
#[ignore = "takes a minute"]
fn many_more() {
    all(20_000..30_000, random_program);
    all(30_000..36_000, random_scalar_program);
}
