//! The memory that a program needs is known before it is allocated.

mod support;

use wmc_compiler::artefact::EntryPoint;
use wmc_compiler::backend::cpu::{Instance, needs};
use wmc_compiler::kernel::fuse::Level;
use wmc_compiler::lower::Entry;

/// A model whose train step takes some 300 MB, most of it weights and their moments, and its activations.
const LARGE: &str = "model Large {
  input  obs: [O], r: [], first: bool
  action a: [A] in -1..1
  dim S = 64
  latent z { s: [S] }
  net encoder(obs) -> z   = mlp([2048, 2048], silu)
  net decoder(z)   -> [O] = mlp([1024], silu)
  source replay(capacity = 1000) over [B = 64, T = 16]
  z[t] = encoder(obs[t])
  loss recon 1.0 = sq(decoder(z[t]) - obs[t])
  act {
    train = 2 * uniform([A]) - 1
    eval  = zeros([A])
  }
  optimizer main = adam(lr = 1e-3, clip = 10) on all
  train { steps = 60, seed_steps = 20, every = 1, updates = 1, eval_every = 30, eval_episodes = 1, seeds = [1] }
}
";

/// Bytes of resident memory, where the system tells.
fn resident() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split_whitespace().nth(1)?.parse::<f64>().ok()? * 4096.0)
}

/// The only test of this file: others would allocate at the same time. The large model comes first, for the same reason.
#[test]
fn needs_are_within_five_per_cent_of_what_is_allocated() {
    let model = support::inline(LARGE, &[("O", 1024), ("A", 6)]);
    let compiled = EntryPoint::compile(&model, Entry::TrainStep, None, Level::Mega).expect("kernels");
    let told = needs(&compiled.kernels, 2).bytes() as f64;
    assert!(told > 2e8, "{told}");
    if let Some(before) = resident() {
        let mut instance = Instance::new(&compiled.kernels, 2).expect("valid");
        instance.prepare();
        instance.run(1, 1);
        let grown = resident().expect("as before") - before;
        println!("{told:.0} bytes were told, {} allocated, {grown:.0} taken", instance.bytes());
        assert!((told - grown).abs() <= 0.05 * grown, "{told} for {grown}");
    }
    for (name, sizes) in
        [("hamworld_small", [("O", 17), ("A", 6)]), ("ppo", [("O", 5), ("A", 1)]), ("tdmpc2", [("O", 5), ("A", 1)])]
    {
        let model = support::model(&support::project(&format!("models/{name}.wm")), &sizes);
        for entry in [Entry::TrainStep, Entry::Plan, Entry::Act] {
            let Ok(compiled) = EntryPoint::compile(&model, entry, None, Level::Mega) else { continue };
            for threads in [1, 2] {
                let told = needs(&compiled.kernels, threads).bytes();
                let allocated = Instance::new(&compiled.kernels, threads).expect("valid").bytes();
                let off = (told as f64 - allocated as f64).abs();
                // Scratch of some kilobytes is not told.
                assert!(off <= 0.05 * allocated as f64 + 65536.0, "{name} {}: {told} for {allocated}", entry.name());
            }
        }
    }
}
