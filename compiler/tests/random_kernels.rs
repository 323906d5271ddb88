//! Random kernel programs: what the CPU runs is what the kernel interpreter computes in double precision, to rounding, and
//! the same bits for any number of workers.

use std::collections::BTreeMap;

use wmc_compiler::backend::cpu::Instance;
use wmc_compiler::interp::Clock;
use wmc_compiler::kernel::{Program, interp, text};
use wmc_compiler::testing::{kernel_inputs, random_kernels};

/// Of the largest number of an output. Gemms in a row add up errors of single precision.
const TOLERANCE: f64 = 3e-4;

fn on_cpu(program: &Program, inputs: &[Vec<f32>], threads: usize, clock: Clock) -> Vec<Vec<f32>> {
    let mut instance = Instance::new(program, threads).unwrap();
    for (i, numbers) in inputs.iter().enumerate() {
        instance.input_mut(i).copy_from_slice(numbers);
    }
    instance.prepare();
    instance.run(clock.seed, clock.step);
    (0..program.outputs.len()).map(|i| instance.output(i).to_vec()).collect()
}

#[test]
fn the_cpu_agrees_with_the_interpreter() {
    for seed in 0..400 {
        let program = random_kernels(seed);
        let inputs = kernel_inputs(&program, seed);
        let wide: Vec<Vec<f64>> = inputs.iter().map(|list| list.iter().map(|x| f64::from(*x)).collect()).collect();
        let clock = Clock { seed, step: 1 };
        let expected = interp::run(&program, &wide, &BTreeMap::new(), clock).unwrap();
        let found = on_cpu(&program, &inputs, 1, clock);
        for (output, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let scale = expected.iter().fold(1.0, |largest: f64, x| largest.max(x.abs()));
            for (place, (x, y)) in found.iter().zip(expected).enumerate() {
                let close = (f64::from(*x) - y).abs() <= TOLERANCE * scale;
                assert!(close, "seed {seed}, output {output} at {place}: {x} for {y}\n{}", text::print(&program));
            }
        }
        let bits = |outputs: Vec<Vec<f32>>| outputs.concat().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(on_cpu(&program, &inputs, 3, clock)), bits(found), "seed {seed}\n{}", text::print(&program));
    }
}
