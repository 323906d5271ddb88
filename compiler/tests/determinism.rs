//! Same seed, same bits; a draw depends on its name and on nothing else of the model.

mod support;

use dsl::hir::Model;
use support::{inline, made_up};
use wmc_compiler::lower::{Entry, Options, lower};
use wmc_compiler::run::{Call, Tensors, call, initial};

/// A model with draws in equations, in the planner, in acting and in initial values.
const TEXT: &str = "
model Chance {
  input  obs: [O], r: []
  action a: [A] in -1..1
  dim    Q = 4, H = 3
  const  gamma = 0.9
  latent z { q: [Q] }
  net encoder(obs) -> z = mlp([8], silu)
  net move(z, a)   -> z = mlp([8], silu)
  head reward(z) -> twohot(bins = 11, range = -2..2) = mlp([8], silu)
  // NETS

  source replay(capacity = 100) over [B = 3, T = 5]
  z[t]     = encoder(obs[t])
  noise[t] = 0.1 * gaussian([Q])   for t in 0..T-1
  coin[t]  = uniform([])           for t in 0..T-1
  // EQUATIONS
  s[t]     = move(z[t], a[t])
  loss dyn    1.0 = sq(s[t].q + noise[t] - sg(z[t+1].q))
  loss reward 0.5 = coin[t] * reward(s[t]).nll(r[t])

  planner plan(z) = cem(horizon = H, iterations = 2, samples = 16, elites = 4) {
    x[0]   = z
    x[k+1] = move(x[k], u[k])
    score  = sum k in 0..H { gamma^k * reward(x[k+1]).mean }
  }
  act {
    found = plan(z[t])
    train = clip(found.mean + 0.3 * gaussian([A]), -1, 1)
    eval  = found.mean
  }
  metric mse = sq(s[t] - z[t+1])
  optimizer main = adam(lr = 1e-3, clip = 10) on all
  train { steps = 100, seed_steps = 10, every = 1, updates = 1, eval_every = 100, eval_episodes = 1, seeds = [1] }
}
";

const ENTRIES: [Entry; 4] = [Entry::TrainStep, Entry::Act, Entry::Plan, Entry::Evaluate];

fn chance(text: &str) -> Model {
    inline(text, &[("O", 3), ("A", 2)])
}

fn run(model: &Model, entry: Entry, seed: u64, double: bool) -> Tensors {
    let call_ = Call { entry, seed, double, observe: true, ..Call::default() };
    call(model, &call_, &made_up(model, &call_)).unwrap_or_else(|e| panic!("{}: {e}", entry.name()))
}

/// Everything that two runs both give out is equal to the bit.
fn same_bits(a: &Tensors, b: &Tensors, least: usize) {
    let bits = |t: &wmc_compiler::run::Tensor| t.data.iter().map(|x| x.to_bits()).collect::<Vec<u64>>();
    let mut compared = 0;
    for (name, x) in a {
        let Some(y) = b.get(name) else { continue };
        assert_eq!(x.shape, y.shape, "{name}");
        assert!(
            bits(x) == bits(y),
            "{name} differs: {:?} and {:?}",
            &x.data[..x.data.len().min(4)],
            &y.data[..y.data.len().min(4)]
        );
        compared += 1;
    }
    assert!(compared >= least, "{compared} compared");
}

#[test]
fn same_seed_same_bits() {
    let model = chance(TEXT);
    for entry in ENTRIES {
        for double in [false, true] {
            let (a, b) = (run(&model, entry, 7, double), run(&model, entry, 7, double));
            assert_eq!(a.len(), b.len());
            same_bits(&a, &b, a.len());
        }
    }
    let (a, b) = (initial(&model, 7).expect("runs"), initial(&model, 7).expect("runs"));
    same_bits(&a, &b, a.len());
}

#[test]
fn another_seed_and_another_step_differ() {
    let model = chance(TEXT);
    // With the same parameters, so that draws alone make the difference.
    let parameters: Tensors = initial(&model, 1).expect("runs").into_iter().filter(|(n, _)| n.starts_with("param.")).collect();
    for (entry, names) in [
        (Entry::TrainStep, vec!["value.noise", "value.coin", "loss.dyn", "next.param.move.0.weight"]),
        (Entry::Act, vec!["action"]),
        (Entry::Plan, vec!["action"]),
    ] {
        let base = Call { entry, seed: 1, observe: true, ..Call::default() };
        let mut given = made_up(&model, &base);
        given.extend(parameters.clone());
        let with = |seed: u64, step: u64| call(&model, &Call { seed, step, ..base }, &given).expect("runs");
        for name in names {
            assert_ne!(with(1, 0)[name], with(2, 0)[name], "{name}");
            assert_ne!(with(1, 0)[name], with(1, 1)[name], "{name}");
        }
    }
    let (a, b) = (initial(&model, 1).expect("runs"), initial(&model, 2).expect("runs"));
    for name in ["param.encoder.0.weight", "param.move.1.weight"] {
        assert_ne!(a[name], b[name], "{name}");
    }
}

#[test]
fn lowering_twice_gives_equal_programs() {
    let models = [chance(TEXT), support::model(&support::project("models/hamworld_s6.wm"), &[("O", 5), ("A", 1)])];
    for (model, entry) in models.iter().flat_map(|m| Entry::ALL.map(|e| (m, e))) {
        let program = || lower(model, entry, Options { observe: true, ..Options::default() });
        let (a, b) = (program(), program());
        assert_eq!(a, b, "{} {}", model.name, entry.name());
        if let (Ok(a), Ok(b)) = (a, b) {
            let [a, b] = [a, b].map(wmc_compiler::simplify::simplify);
            assert_eq!(a, b, "{} {} simplified", model.name, entry.name());
        }
    }
}

/// What is added changes no bit of what was there.
#[test]
fn additions_change_nothing_else() {
    let base = chance(TEXT);
    let additions = [
        ("  // EQUATIONS", "  other[t] = gaussian([Q])   for t in 0..T"),
        ("  // EQUATIONS", "  other[t] = 2 * z[t].q"),
        ("  // EQUATIONS", "  extra[t] = uniform([]) * noise[t]\n  again[t] = gaussian([Q]) + extra[t]"),
        ("  // NETS", "  net unused(z) -> [Q] = mlp([8, 8], silu)"),
        // It calls a trained net and draws, and no loss reads it.
        ("  // EQUATIONS", "  aside[t] = move(sg(z[t]), gaussian([A]))"),
    ];
    for (place, more) in additions {
        let model = chance(&TEXT.replace(place, more));
        for entry in ENTRIES {
            let (a, b) = (run(&base, entry, 7, false), run(&model, entry, 7, false));
            assert!(b.len() >= a.len(), "{more}");
            same_bits(&a, &b, a.len());
        }
        let (a, b) = (initial(&base, 7).expect("runs"), initial(&model, 7).expect("runs"));
        same_bits(&a, &b, a.len());
    }
}

/// A part of a model that trains changes the others' training, but not what they draw.
#[test]
fn draws_stay_when_losses_come() {
    let more = "  guess[t] = move(s[t], gaussian([A]))\n  loss late 0.1 = sq(guess[t] - z[t])";
    let (base, model) = (chance(TEXT), chance(&TEXT.replace("  // EQUATIONS", more)));
    let (a, b) = (run(&base, Entry::TrainStep, 7, false), run(&model, Entry::TrainStep, 7, false));
    assert_ne!(a["grad.move.0.weight"], b["grad.move.0.weight"]);
    for name in ["value.noise", "value.coin", "value.s.q", "loss.dyn", "loss.reward"] {
        assert_eq!(a[name], b[name], "{name}");
    }
}

/// The order of members in the text means nothing.
#[test]
fn the_order_of_the_text_changes_no_bits() {
    let noise = "  noise[t] = 0.1 * gaussian([Q])   for t in 0..T-1\n";
    let coin = "  coin[t]  = uniform([])           for t in 0..T-1\n";
    let encoder = "  net encoder(obs) -> z = mlp([8], silu)\n";
    let mover = "  net move(z, a)   -> z = mlp([8], silu)\n";
    let s = "  s[t]     = move(z[t], a[t])\n";
    let z = "  z[t]     = encoder(obs[t])\n";
    let base = chance(TEXT);
    for (first, second) in [(noise, coin), (encoder, mover), (z, s)] {
        let text = TEXT.replace(first, "<first>").replace(second, first).replace("<first>", second);
        assert_ne!(text, TEXT);
        let model = chance(&text);
        for entry in ENTRIES {
            let (a, b) = (run(&base, entry, 7, false), run(&model, entry, 7, false));
            assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
            same_bits(&a, &b, a.len());
        }
    }
}

/// Single and double precision see the same numbers.
#[test]
fn precisions_see_the_same_draws() {
    let model = chance(TEXT);
    let (single, double) = (run(&model, Entry::TrainStep, 7, false), run(&model, Entry::TrainStep, 7, true));
    assert_eq!(single["value.coin"], double["value.coin"], "uniform numbers are exact in both");
    for name in ["value.noise", "value.z.q", "loss.dyn", "loss.reward"] {
        let apart = support::difference(&single[name], &double[name]);
        assert!(apart < 1e-5, "{name}: {apart:.1e}");
    }
    // Equal to rounding, entry by entry: 0.1 times a normal number.
    for (a, b) in single["value.noise"].data.iter().zip(&double["value.noise"].data) {
        assert!((a - b).abs() <= b.abs() * 4.0 * f64::from(f32::EPSILON), "{a} and {b}");
    }
}
