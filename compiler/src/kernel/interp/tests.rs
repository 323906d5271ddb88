use std::collections::BTreeMap;

use super::run;
use crate::interp::Clock;
use crate::kernel::text::print;
use crate::testing::{kernel_inputs, random_kernels};

/// Random programs run in both precisions, agree, and make finite numbers.
#[test]
fn random_programs_run() {
    for seed in 0..100 {
        let program = random_kernels(seed);
        let inputs = kernel_inputs(&program, seed);
        let wide: Vec<Vec<f64>> = inputs.iter().map(|list| list.iter().map(|x| f64::from(*x)).collect()).collect();
        let clock = Clock { seed, step: 1 };
        let single =
            run(&program, &inputs, &BTreeMap::new(), clock).unwrap_or_else(|e| panic!("{seed}: {e}\n{}", print(&program)));
        let double = run(&program, &wide, &BTreeMap::new(), clock).unwrap();
        for (output, (a, b)) in single.iter().zip(&double).enumerate() {
            let scale = b.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
            for (x, y) in a.iter().zip(b) {
                assert!((f64::from(*x) - y).abs() < 1e-4 * scale, "seed {seed}, output {output}: {x} {y}\n{}", print(&program));
            }
        }
    }
}
