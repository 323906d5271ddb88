//! Compile time grows linearly with the model.
//!
//! A pass that visits the whole program for each node, result or kernel fails here: four times the layers would take sixteen
//! times as long. The tests measure processor time and keep the least of several tries, so other programs hardly matter.

#[path = "../../benches/processor.rs"]
mod processor;
mod support;

use std::time::Duration;

use processor::cpu_time;
use wmc_compiler::artefact::EntryPoint;
use wmc_compiler::kernel::fuse::Level;
use wmc_compiler::lower::{Entry, Options, lower};
use wmc_compiler::simplify::simplify;

/// A model of the world whose dynamics are a net of `layers` layers.
fn deep(layers: usize) -> String {
    let widths = vec!["4"; layers].join(", ");
    model(&format!("net move(z, a) -> z = mlp([{widths}], silu)"), "move(z, a)")
}

/// A model of the world that takes `steps` leapfrog steps along the gradients of an energy.
fn leapfrog(steps: usize) -> String {
    let nets = "net energy(q, p) -> [] = mlp([64, 64], silu)\n  net control(z) -> [Q, A] = mlp([32], silu)";
    let step = format!(
        "{{
    let q = z.q
    let p = z.p
    let f = control(z) @ a
    stack l in 0..{steps} {{
      let half = p - 0.5 * dt * grad(energy(q, p), q)
      q = q + dt * grad(energy(q, half), half)
      p = half - 0.5 * dt * grad(energy(q, half), q) + dt * f
    }}
    return z {{ q = q, p = p }}
  }}"
    );
    model(&format!("{nets}\n  fn step(z, a) {step}"), "step(z, a)")
}

fn model(nets: &str, next: &str) -> String {
    let next = next.replace("(z, a)", "(z[t], a[t])");
    format!(
        "model Timed {{
  input  obs: [O], r: [], first: bool
  action a: [A] in -1..1
  dim Q = 8
  const dt = 0.05
  latent z {{ q: [Q], p: [Q] }}
  net encoder(obs) -> z   = mlp([64], silu)
  net decoder(z)   -> [O] = mlp([64], silu)
  {nets}
  source replay(capacity = 1000) over [B = 32, T = 8]
  z[t]    = encoder(obs[t])
  pred[t] = {next}
  loss recon 1.0 = sq(decoder(z[t]) - obs[t])
  loss dyn   1.0 = sq(pred[t] - sg(z[t+1]))
  act {{
    train = 2 * uniform([A]) - 1
    eval  = zeros([A])
  }}
  optimizer main = adam(lr = 1e-3, clip = 10) on all
  train {{ steps = 60, seed_steps = 20, every = 1, updates = 1, eval_every = 30, eval_episodes = 1, seeds = [1] }}
}}
"
    )
}

/// Processor time from the text to verified kernels of a training step: the least of `tries`.
fn compile_time(text: &str, tries: usize) -> Duration {
    let one = || {
        let start = cpu_time();
        let model = support::inline(text, &[("O", 3), ("A", 1)]);
        let program = lower(&model, Entry::TrainStep, Options::default()).expect("it has a training step");
        let program = simplify(program);
        EntryPoint::of(program, Level::Mega).expect("kernels");
        cpu_time() - start
    };
    (0..tries).map(|_| one()).min().expect("at least one try")
}

fn ratio(small: &str, large: &str, tries: usize) -> f64 {
    let (small, large) = (compile_time(small, tries), compile_time(large, tries));
    println!("{:.2} s, {:.2} s", small.as_secs_f64(), large.as_secs_f64());
    large.as_secs_f64() / small.as_secs_f64()
}

#[test]
fn four_times_the_layers_take_less_than_eight_times_as_long() {
    let ratio = ratio(&deep(100), &deep(400), 3);
    assert!(ratio < 8.0, "{ratio:.1}");
}

#[test]
fn four_times_the_substeps_take_less_than_eight_times_as_long() {
    let ratio = ratio(&leapfrog(10), &leapfrog(40), 3);
    assert!(ratio < 8.0, "{ratio:.1}");
}

#[test]
#[ignore = "`cargo xtask verify compile-time`"]
fn a_thousand_layers_and_eighty_substeps() {
    let ratio = ratio(&deep(125), &deep(1000), 3);
    assert!(ratio < 10.0, "{ratio:.1}");
    let thousand = compile_time(&deep(1000), 1);
    assert!(thousand < Duration::from_secs(10), "{thousand:?}");
    let substeps = compile_time(&leapfrog(80), 3);
    println!("80 substeps: {:.2} s", substeps.as_secs_f64());
    assert!(substeps < Duration::from_secs(3), "{substeps:?}");
}
