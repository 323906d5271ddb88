//! One rule for indices at every level: an index names the nearest entry, halves upwards; one that names none reads NaN, and
//! its gradient adds nothing.

mod support;

use support::{inline, made_up};
use wmc_compiler::backend::Device;
use wmc_compiler::kernel::fuse::Level;
use wmc_compiler::kernel::interp as slow;
use wmc_compiler::lower::Entry;
use wmc_compiler::run::{Call, Kernels, Tensor, Tensors, arrays, call, program};

const TEXT: &str = "
model Mine {
  input  obs: [O], r: []
  action a: [A] in -1..1
  dim S = 4
  net encoder(obs) -> [S] = mlp([3], tanh)
  source replay(capacity = 100) over [B = 3, T = 6]
  z[t]    = encoder(obs[t])
  got[t]  = take(z[t], r[t], over = S)
  flat[t] = take(ones([S]), r[t], over = S)
  // Indices that name no entry are left out, after the read.
  kept[t] = select(r[t] >= -0.5 && r[t] < 3.5, got[t], 0)
  loss q 1.0 = kept[t]^2
  metric m = sum(obs[t])
  act {
    train = zeros([A])
    eval  = zeros([A])
  }
  optimizer main = sgd(lr = 1) on all
  train { steps = 10 }
}";

const INDICES: [f64; 15] =
    [0.0, 3.0, 4.0, 99.0, -1.0, -7.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.4, 1.5, -0.25, -0.75, 3.75, 1e30];

fn entry(index: f64) -> Option<usize> {
    let nearest = (index + 0.5).floor();
    (0.0..4.0).contains(&nearest).then_some(nearest as usize)
}

fn close(have: &[f64], want: &[f64]) -> bool {
    have.len() == want.len()
        && have.iter().zip(want).all(|(a, b)| a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-5 * (1.0 + b.abs()))
}

#[test]
fn one_rule_at_every_level() {
    let model = inline(TEXT, &[("O", 2), ("A", 1)]);
    let plain = Call { entry: Entry::TrainStep, observe: true, check: false, ..Call::default() };
    let mut given: Tensors = made_up(&model, &plain);
    given.insert("data.r".into(), Tensor { shape: vec![3, 5], data: INDICES.to_vec() });

    let reference = call(&model, &Call { double: true, ..plain }, &given).expect("the reference runs");
    let z = &reference["value.z"].data;
    let want: Vec<f64> =
        INDICES.iter().enumerate().map(|(i, x)| entry(*x).map_or(f64::NAN, |place| z[4 * (i / 5 * 6 + i % 5) + place])).collect();
    assert!(close(&reference["value.got"].data, &want), "{:?}\n{want:?}", reference["value.got"].data);
    let flat: Vec<f64> = INDICES.iter().map(|x| entry(*x).map_or(f64::NAN, |_| 1.0)).collect();
    assert!(close(&reference["value.flat"].data, &flat), "{:?}", reference["value.flat"].data);
    assert!(reference["grad.encoder.0.weight"].data.iter().all(|x| x.is_finite()), "a gradient behind `select`");
    assert!(reference["grad.encoder.0.weight"].data.iter().any(|x| *x != 0.0));

    let mut runs = vec![
        ("unsimplified".to_string(), call(&model, &Call { simplify: false, ..plain }, &given).expect("it runs")),
        ("f32".to_string(), call(&model, &plain, &given).expect("it runs")),
    ];
    for level in Level::ALL {
        let kernels = Some(Kernels { level, threads: 2, device: Device::Cpu });
        let run = call(&model, &Call { kernels, ..plain }, &given).unwrap_or_else(|e| panic!("{}: {e}", level.name()));
        runs.push((level.name().to_string(), run));
        // The interpreter of kernels.
        let graph = program(&model, &plain, &given).expect("it lowers");
        let (inputs, _) = arrays::<f64>(&model, &plain, &graph, &given).expect("they fit");
        let fused = wmc_compiler::kernel::fuse::fuse(&graph, &wmc_compiler::backend::cpu::TARGET, level).expect("it fuses");
        let inputs: Vec<Vec<f64>> = inputs.into_iter().map(|a| a.data).collect();
        let clock = wmc_compiler::interp::Clock { seed: 0, step: 0 };
        let outputs = slow::run(&fused, &inputs, &Default::default(), clock).expect("kernels run");
        let named = graph.outputs.iter().zip(outputs);
        let tensor = |name: &str, data| Tensor { shape: reference[name].shape.clone(), data };
        runs.push((
            format!("{}, interpreted", level.name()),
            named.map(|(o, data)| (o.name.clone(), tensor(&o.name, data))).collect(),
        ));
    }
    for (what, run) in &runs {
        for (name, want) in &reference {
            assert!(close(&run[name].data, &want.data), "{what}: {name} is {:?}, not {:?}", run[name].data, want.data);
        }
    }
}

/// Where numbers are checked, the message names the index, how many entries there are, and the text.
#[test]
fn a_bad_index_is_named() {
    let model = inline(&TEXT.replace("kept[t]^2", "got[t]^2"), &[("O", 2), ("A", 1)]);
    for (index, said) in [(99.0, "the index 99 names none of 4 entries"), (-7.0, "the index -7 names none of 4 entries")] {
        for kernels in [None, Some(Kernels { level: Level::Mega, threads: 1, device: Device::Cpu })] {
            let how = Call { kernels, ..Call::default() };
            let mut given = made_up(&model, &how);
            given.insert("data.r".into(), Tensor { shape: vec![3, 5], data: vec![index; 15] });
            let error = call(&model, &how, &given).expect_err("a number is not finite");
            assert!(error.to_string().contains(said), "{error}");
            let wmc_compiler::run::CallError::Run(error) = error else { panic!("{error}") };
            let span = error.span().expect("a place in the text");
            assert!(TEXT[span.lo as usize..span.hi as usize].starts_with("take(z[t], r[t]"), "{span:?}");
        }
    }
}
