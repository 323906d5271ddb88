//! Kernels on a CUDA device, launched as a user launches them. Where there is none, the error says what is missing.

#![cfg(feature = "cuda")]

use std::collections::BTreeMap;

use wmc_compiler::backend::cube::instance::Instance;
use wmc_compiler::backend::cube::{Numerics, cuda, device};
use wmc_compiler::backend::{DeviceError, Executable, Resident};
use wmc_compiler::interp::Clock;
use wmc_compiler::kernel::{self, text};
use wmc_compiler::testing::{kernel_inputs, random_kernels};

#[test]
fn random_programs() {
    for seed in 0..12 {
        let device = match cuda::open(0, Numerics::default()) {
            Ok(device) => device,
            Err(error) => {
                assert!(std::env::var("REQUIRE_CUDA").is_err(), "{error}");
                return eprintln!("SKIPPED: {error}");
            }
        };
        let program = random_kernels(seed);
        let inputs = kernel_inputs(&program, seed);
        let wide: Vec<Vec<f64>> = inputs.iter().map(|list| list.iter().map(|x| f64::from(*x)).collect()).collect();
        let clock = Clock { seed, step: 1 };
        let expected = kernel::interp::run(&program, &wide, &BTreeMap::new(), clock).unwrap_or_else(|e| panic!("{e}"));
        let run = || -> Result<Vec<Vec<f32>>, DeviceError> {
            let mut instance = Instance::new(device, &program, &Resident::default())?;
            for (i, numbers) in inputs.iter().enumerate() {
                instance.input_mut(i)?.copy_from_slice(numbers);
            }
            instance.prepare()?;
            instance.run(clock.seed, clock.step)?;
            instance.outputs(&(0..program.outputs.len()).collect::<Vec<_>>())
        };
        let found = run().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        for (found, expected) in found.iter().zip(&expected) {
            let scale = expected.iter().fold(1.0, |largest: f64, x| largest.max(x.abs()));
            let close = found.iter().zip(expected).all(|(x, y)| (f64::from(*x) - y).abs() <= 1e-3 * scale);
            assert!(close, "seed {seed}\n{}", text::print(&program));
        }
    }
}

/// A machine without the driver, without the compiler or without so many devices: an error, and no panic.
#[test]
fn a_device_that_is_not_there() {
    let error = cuda::open(1000, Numerics::default()).err();
    assert!(matches!(error, Some(device::DeviceError::NoDevice { kind: "CUDA", index: 1000, .. })), "{error:?}");
    let text = error.map(|e| e.to_string()).unwrap_or_default();
    assert!(text.starts_with("there is no CUDA device 1000: "), "{text}");
}
