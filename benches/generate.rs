//! Models of any length, for benches and tests: `#[path = "../benches/generate.rs"] mod generate;`.

use std::fmt::Write;

/// A model that checks clean, with this many equations over the training data (at least two).
///
/// The equations form one long chain with everything in it that costs: maps, forward and backward scans, recurrences of
/// two names, calls of functions and nets, folds, gradients.
pub(crate) fn model(equations: usize) -> String {
    let mut text = String::from(HEAD);
    let mut last = "x0".to_string();
    for i in 1..equations.max(2) - 1 {
        last = equation(&mut text, i, &last);
    }
    text.push_str(&TAIL.replace("LAST", &last));
    text
}

const HEAD: &str = "\
// A generated model.

model Generated {
  input  obs: [O], r: [], first: bool
  action a: [A] in -1..1

  dim   Q = 8, K = 4
  const rate = 0.5

  latent z { q: [Q] }

  net encoder(obs)   -> z          = mlp([16], silu)
  net mix(x: [Q])    -> [Q]        = mlp([16], silu)
  net energy(x: [Q]) -> []         = mlp([16], silu)
  net prior(z)       -> a via tanh = mlp([16], silu)

  fn blend(x: [Q], y: [Q], w) {
    let s = x * y
    return w * x + (1 - w) * tanh(y + s)
  }

  fn slope(x: [Q]) {
    let E = energy(x)
    return grad(E, x)
  }

  source replay(capacity = 10_000) over [B = 16, T = 8]

  z[t]  = encoder(obs[t])
  x0[t] = z[t].q
";

const TAIL: &str = "
  loss fit    1.0 = sq(LAST[t] - sg(z[t].q))
  loss policy 1.0 = sq(prior(z[t]) - a[t])

  act {
    train = prior(z[t])
    eval  = prior(z[t])
  }

  optimizer main = adam(lr = 1e-3) on all
  train {
    steps = 1_000, seed_steps = 100, every = 1, updates = 1
    eval_every = 500, eval_episodes = 1, seeds = [1]
  }
  tasks one {
    task(O = 3, A = 1, repeat = 1, length = 100)
  }
}
";

/// Writes equation `i` and gives the name that the next one reads.
fn equation(text: &mut String, i: usize, last: &str) -> String {
    let name = format!("x{i}");
    let right = match i % 8 {
        1 => format!("{last}[t] + rate * {name}[t-1]   with {name}[-1] = zeros([Q])"),
        2 => format!("blend({last}[t], x0[t], 0.25)"),
        3 => format!("0.1 * {last}[t] + 0.9 * {name}[t+1]   with {name}[T] = {last}[T-1]"),
        4 => format!("mix({last}[t])"),
        5 => format!("{last}[t] - 0.01 * slope({last}[t])"),
        6 => format!("(sum k in 0..K {{ rate^k * {last}[t] }}) / (1 + norm({last}[t]))"),
        7 => format!("max({last}[t], -1) * sigmoid(x0[t])"),
        _ => format!("select(norm({last}[t]) < 1, {last}[t], x0[t])"),
    };
    writeln!(text, "  {name}[t] = {right}").expect("a text takes any text");
    name
}
