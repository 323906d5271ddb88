//! Kernels of what the prelude offers, at small sizes, as text: a change of the compiler shows here what it does to them.
//!
//! To accept new ones: `INSTA_UPDATE=always cargo test -p wmc-compiler --test prelude_kernels`.

mod support;

use dsl::hir::Model;
use support::{inline, models, project};
use wmc_compiler::backend::cpu;
use wmc_compiler::kernel::fuse::{Level, fuse};
use wmc_compiler::kernel::text;
use wmc_compiler::kernel::verify::verify;
use wmc_compiler::lower::{Entry, Options, lower};
use wmc_compiler::simplify::simplify;

fn kernels(model: &Model, entry: Entry) -> String {
    let program = lower(model, entry, Options::default()).unwrap_or_else(|e| panic!("{}: {e}", model.name));
    let program = simplify(program);
    let kernels = fuse(&program, &cpu::TARGET, Level::Mega).unwrap_or_else(|e| panic!("{}: {e}", model.name));
    verify(&kernels).unwrap_or_else(|e| panic!("{}: {e}", model.name));
    text::print(&kernels)
}

/// One of the small models that are also measured.
fn bench(file: &str, dims: &[(&str, u64)], entry: Entry) -> String {
    kernels(&models(&project("benches").join(file), dims).remove(0), entry)
}

/// A model around some lines: what is computed of the data, and what is trained.
fn model(lines: &str, optimizer: &str) -> Model {
    let text = format!(
        "model Small {{
  input  obs: [O = 4], r: [], first: bool
  action a: [A = 2] in -1..1
  dim    S = 4, H = 2
{lines}
  source replay(capacity = 100) over [B = 3, T = 3]
  act {{
    train = zeros([A])
    eval  = zeros([A])
  }}
  optimizer main = {optimizer} on all
  train {{ steps = 2, seed_steps = 1, every = 1, updates = 1, eval_every = 1, eval_episodes = 1, seeds = [1] }}
  tasks none {{ bench(O = 4, A = 2, repeat = 1, length = 1) }}
}}
"
    );
    inline(&text, &[])
}

fn planner(lines: &str) -> Model {
    let act = "  act {
    found = plan(obs[t])
    train = found.mean
    eval  = found.mean
  }";
    let text = format!(
        "model Small {{
  input  obs: [O = 4], r: [], first: bool
  action a: [A = 2] in -1..1
  dim    H = 2
  const  gamma = 0.9
  net  move(obs, a) -> [O] = mlp([5], silu)
  net  actor(obs)   -> [A] = mlp([5], tanh)
  head reward(obs)  -> []  = mlp([5], silu)
  source replay(capacity = 100) over [B = 3, T = 3]
  loss move   1.0 = sq(move(obs[t], a[t]) - obs[t+1])
  loss reward 1.0 = (reward(obs[t]) - r[t])^2
  loss actor  1.0 = sq(actor(obs[t]) - a[t])
{lines}
{act}
  optimizer main = sgd(lr = 1) on all
  train {{ steps = 2, seed_steps = 1, every = 1, updates = 1, eval_every = 1, eval_episodes = 1, seeds = [1] }}
  tasks none {{ bench(O = 4, A = 2, repeat = 1, length = 1) }}
}}
"
    );
    inline(&text, &[])
}

#[test]
fn selective_scan() {
    let dims = [("D", 3), ("N", 2), ("T", 4), ("B", 3)];
    insta::assert_snapshot!("selective_scan_forward", bench("scan.wm", &dims, Entry::Evaluate));
    insta::assert_snapshot!("selective_scan_backward", bench("scan.wm", &dims, Entry::TrainStep));
    // So many steps that each copies what it reads and gives out what it has computed.
    let dims = [("D", 64), ("N", 2), ("T", 70), ("B", 3)];
    insta::assert_snapshot!("selective_scan_long", bench("scan.wm", &dims, Entry::Evaluate));
}

#[test]
fn hamiltonian_gradient() {
    insta::assert_snapshot!("hamiltonian_gradient", bench("hgrad.wm", &[("Q", 2), ("B", 3)], Entry::Evaluate));
}

#[test]
fn elite_update() {
    let dims = [("N", 8), ("E", 3), ("S", 2), ("D", 2)];
    insta::assert_snapshot!("elite_update", bench("elite.wm", &dims, Entry::Evaluate));
}

#[test]
fn gru() {
    let lines = "  memory m(obs, a) -> [M] = gru(width = 3) reset first
  m[t] = memory(obs[t], a[t], m[t-1])
  loss size 1.0 = sq(m[t])
  diagnose { m = m[t] }";
    insta::assert_snapshot!("gru", kernels(&model(lines, "sgd(lr = 1)"), Entry::Evaluate));
}

#[test]
fn simnorm() {
    let lines = "  net encoder(obs) -> [Z = 4] = mlp([], silu)
  z[t] = simnorm(encoder(obs[t]), g = 2)
  loss size 1.0 = sq(z[t])
  diagnose { z = z[t] }";
    insta::assert_snapshot!("simnorm", kernels(&model(lines, "sgd(lr = 1)"), Entry::Evaluate));
}

#[test]
fn two_hot() {
    let lines = "  head reward(obs) -> twohot(bins = 5, range = -2..2, scale = symlog) = mlp([], silu)
  n[t] = reward(obs[t]).nll(r[t])
  e[t] = reward(obs[t]).mean
  loss reward 1.0 = n[t]
  diagnose { n = n[t], e = e[t] }";
    insta::assert_snapshot!("two_hot", kernels(&model(lines, "sgd(lr = 1)"), Entry::Evaluate));
}

#[test]
fn adamw() {
    let lines = "  param gain: [O] = ones([O])
  loss size 1.0 = sq(gain * obs[t])";
    insta::assert_snapshot!("adamw", kernels(&model(lines, "adamw(lr = 1e-3, clip = 10)"), Entry::TrainStep));
}

#[test]
fn cem_rollout() {
    let lines = "  planner plan(obs) = cem(horizon = H, iterations = 2, samples = 6, elites = 2, start = \"shift\") {
    x[0]   = obs
    x[k+1] = move(x[k], u[k])
    score  = sum k in 0..H { gamma^k * reward(x[k+1]) }
  }";
    insta::assert_snapshot!("cem_rollout", kernels(&planner(lines), Entry::Plan));
}

#[test]
fn mppi_rollout() {
    let lines = "  planner plan(obs) = mppi(horizon = H, iterations = 2, samples = 6, elites = 2, prior_samples = 2) {
    x[0]     = obs
    guess[k] = actor(x[k])
    x[k+1]   = move(x[k], u[k])
    score    = sum k in 0..H { gamma^k * reward(x[k+1]) }
  }";
    insta::assert_snapshot!("mppi_rollout", kernels(&planner(lines), Entry::Plan));
}
