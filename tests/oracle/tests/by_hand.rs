//! Models written by hand: faults that were found once, and one model with a bit of everything.

use wmc_oracle::compare::{Outcome, compare};

/// A small model around some members and what acts.
fn model(algorithm: &str, members: &str, act: &str) -> String {
    format!(
        "{algorithm}
model M {{
  input  obs: [O], r: [], first: bool
  action a: [A] in -1..1
  dim Q = 2, C = 3, H = 2, I = 2, E = 2, K = 2
  latent z {{ q: [Q], p: [Q], c: [C] }}
  net encoder(obs)   -> z  = mlp([4], tanh)
  net delta(z, a)    -> z  = mlp([4], silu)
  net energy(q, p)   -> [] = mlp([4], tanh)
  net reward(z)      -> [] = mlp([3], silu)
  head heads[E](q)   -> [] = mlp([3], tanh)
  param shift: [Q] = zeros([Q])
  source replay(capacity = 1000) over [B = 2, T = 4]
  z[t] = encoder(obs[t])
{members}
  {act}
  optimizer main = adam(lr = 1e-3) on all
  train {{ steps = 1000 }}
}}
"
    )
}

const STILL: &str = "act { train = zeros  eval = zeros }";

fn agrees(text: &str) {
    for seed in 0..3 {
        match compare(text, seed) {
            Outcome::Agree(n) => assert!(n > 3, "{n} tensors"),
            other => panic!("{text}\n{other:#?}"),
        }
    }
}

fn refused(text: &str, code: &str) {
    match compare(text, 1) {
        Outcome::Refused(codes) if codes.iter().any(|c| c.starts_with(code)) => {}
        other => panic!("{text}\n{other:#?}"),
    }
}

/// Gradients by families that are the same at several points.
#[test]
fn copies_have_a_gradient_at_each_point() {
    for members in [
        "c[t, i] = z[t].q  for i in I
         g[t, i] = grad(c[t, i][i]^2, c[t, i])
         loss w 1.0 = sum i in I { sq(g[t, i]) }",
        "d[t] = zeros([Q])  for t in 0..T
         g[t] = grad(energy(z[t].q + d[t], z[t].p), d[t])
         loss w 1.0 = sq(g[t])",
        "d[t] = shift  for t in 0..T
         g[t] = grad(energy(z[t].q + d[t], z[t].p), d[t])
         loss w 1.0 = sq(g[t])",
        "fn slope(q, p, v) { let e = zeros([])  return grad(energy(q + e * v, p), e) }
         g[t] = slope(z[t].q, z[t].p, z[t].p)
         loss w 1.0 = g[t]^2",
    ] {
        agrees(&model("", members, STILL));
    }
}

/// One step up from a plan of zeros: each environment has a gradient of its own.
#[test]
fn environments_have_gradients_of_their_own() {
    let algorithm = "
planner one(horizon, rate = 0.5) {
  dim S = horizon
  start = zeros([S, A])
  try   = rollout { u[k] = tanh(take(start, k, over = S)) for k in 0..horizon }
  up    = start + rate * grad(try.score, start)
  last  = rollout { u[k] = tanh(take(up, k, over = S)) for k in 0..horizon }
  return { mean = last.u[0], std = zeros([A]), sample = last.u[0], score = last.score }
}";
    agrees(&model(algorithm, &planned("one"), "act { found = plan(z[t])  train = found.sample  eval = found.mean }"));
}

fn planned(algorithm: &str) -> String {
    format!(
        "  loss w 1.0 = sq(z[t])
  planner plan(z) = {algorithm}(horizon = H) {{
    x[0]   = z
    x[k+1] = x[k] + delta(x[k], u[k])
    score  = sum k in 0..H {{ 0.9^k * reward(x[k+1]) }}
  }}"
    )
}

/// A loop over plans whose last iteration stands alone: the axes of the rollouts in both parts are the same.
#[test]
fn a_loop_of_rollouts_in_two_parts() {
    let algorithm = "
planner many(horizon, rate = 0.5) {
  dim S = horizon
  p[0]   = zeros([S, A])
  try[i] = rollout { u[k] = tanh(p[i][k]) for k in 0..horizon }  for i in 0..3
  p[i+1] = p[i] + rate * grad(try[i].score, p[i])  for i in 0..2
  return { mean = try[2].u[0], std = zeros([A]), sample = try[2].u[0], score = try[2].score }
}";
    agrees(&model(algorithm, &planned("many"), "act { found = plan(z[t])  train = found.sample  eval = found.mean }"));
}

/// A gradient behind an equation, differentiated again.
#[test]
fn gradients_behind_equations() {
    for members in [
        "c[t] = z[t].q
         g[t] = grad(energy(z[t].q, z[t].p) * logsumexp(c[t]), c[t])
         y[t] = grad(g[t] @ z[t].p, z[t].q)
         loss w 1.0 = sq(y[t])",
        // Gradients inside functions keep the variables of those around them.
        "fn f(u, v) { let e = u @ v  return sq(grad(e, u)) + u @ v }
         fn g(u) { let w = u  let e = f(u, w)  return grad(e, u) }
         x[t] = g(ones([Q]) * r[t])
         y[t] = grad(x[t][1], r[t])
         loss w 1.0 = y[t]^2",
        // The gradient of a gradient that is the same everywhere is zero.
        "x[t] = z[t].p
         y[t] = grad(grad(x[t][1], x[t])[1], z[t].p)
         loss w 1.0 = sq(y[t] + z[t].q)",
        // Another step of the same family is held, also where the inner gradient leaves nothing else.
        "g[t, i] = grad(z[t].q[i] * z[t+1].q[i], z[t].q)  for i in I
         y[t] = grad(sq(g[t, 0]), z[t].q)
         loss w 1.0 = sq(y[t])",
        // Read by the expression itself, and by an equation that is computed where it stands.
        "h[t] = h[t-1]  with h[-1] = 0.7  reset first[t]  for t in 0..3
         x[t] = energy(z[t].q, z[t].p) + h[t]
         w[t] = grad(z[t].q[0] * x[t], z[t].q)
         loss w 1.0 = sq(w[t])",
        "y[t, 0] = z[t]  for t in 0..T-K
         y[t, k+1] = y[t, k] + delta(y[t, k], a[t+k])  for k in 0..K
         x[t, i] = grad(z[t].p[i] * energy(z[t].q, y[t, i].p), z[t])  for i in I
         loss w 1.0 = sum i in I { sq(x[t, i]) }",
        // Another part of the target, behind an equation: it does not depend on this one.
        "y[t, 0] = z[t]  for t in 0..T-K
         y[t, k+1] = delta(y[t, k], a[t+k])  for k in 0..K
         g[t, i] = y[t, i].c  for i in I
         x[t, i] = grad(energy(ones([Q]), y[t, i].q) + g[t, i][i], y[t, i])
         loss w 1.0 = sum i in I { sq(x[t, i]) }",
    ] {
        agrees(&model("", members, STILL));
    }
}

/// What was written out for the inner gradient, or is followed in place, hides the outer target.
#[test]
fn a_gradient_by_what_the_target_is_computed_from_is_refused() {
    for members in [
        "x[t] = tanh(r[t])
         y[t] = grad(x[t] * grad(softplus(x[t]), r[t]), x[t])
         loss w 1.0 = y[t]^2",
        // At points that may be the target's.
        "x[t] = z[t].q
         c[t, i] = x[t]  for i in I
         h[t] = grad(heads(c[t, 0])[1], x[t])
         y[t, i] = grad(sq(c[t, i]) + h[t][i], c[t, i])
         loss w 1.0 = sum i in I { sq(y[t, i]) }",
        // Behind another gradient, which does not lie on the way.
        "s[t] = z[t] { q = grad(sq(z[t].p) * softplus(r[t]), z[t].p), p = 2 }
         x[t] = grad(grad(r[t] * energy(s[t].q, s[t].p), r[t]), s[t].p)
         y[t] = grad(sum(x[t]), s[t].q)
         loss w 1.0 = sq(y[t])",
        // In a function that is written out.
        "fn f(v) {
           let w = v + v
           let e = energy(grad(energy(v + w, v), v), w)
           return sq(grad(e, w))
         }
         x[t] = sin(z[t].q)
         y[t] = grad(f(x[t+1] + x[t]), x[t])
         loss w 1.0 = sq(y[t])",
        // Through a recurrence.
        "x[t, 0] = z[t]
         x[t, k+1] = x[t, k] { q = x[t, k].p }  for k in 0..K
         y[t, i] = grad(energy(grad(energy(x[t, i].p, z[t].p), z[t].p), x[t, i].q), x[t, i])  for i in I
         loss w 1.0 = sum i in I { sq(y[t, i]) }",
    ] {
        refused(&model("", members, STILL), "E0404");
    }
}

#[test]
fn a_bit_of_everything() {
    let members = "
  memory m(z, a) -> [M] = gru(width = 3) reset first
  m[t] = memory(z[t], a[t], m[t-1])
  s[t] = z[t] + delta(z[t], a[t])
  h[t] = tanh(z[t].q + 0.5 * h[t-1])   with h[-1] = zeros([Q])   reset first[t]
  back[t] = r[t] + 0.9 * back[t+1]   with back[T-1] = reward(z[T-1])
  g[t] = grad(energy(z[t].q, z[t].p), z[t].q)
  gg[t] = grad(g[t] @ z[t].p, z[t].p)
  y[i, 0] = z[i] for i in 0..T-2
  y[i, k+1] = y[i, k] + delta(y[i, k], a[i+k]) for k in 0..2
  loss dyn  1.0 = sq(s[t] - sg(z[t+1])) + sq(m[t].out)
  loss back 0.3 = (back[t] - reward(z[t]))^2
  loss g    0.7 = sq(gg[t]) + sq(h[t]) + sum e in E { heads(z[t].q)[e]^2 }
  loss y    0.7 = sum k in 1..=2 { sq(y[i, k] - z[i+k]) }";
    agrees(&model("", members, STILL));
}

/// A step of a loop that uses one value twice, and passes it on: its cotangent is a running sum that adds one value twice.
#[test]
fn a_step_that_passes_a_field_on() {
    let members = "
  net field(x: [Q], y: [C]) -> [Q] = mlp([2], silu)
  fn step(x) { return x { q = field(x.q, x.c + x.c), c = x.c } }
  y[t, 0] = z[t]
  y[t, k+1] = step(y[t, k])  for k in 0..K
  x[t] = y[t, 1]
  loss w 0.2 = sq(x[t])";
    agrees(&model("", members, STILL));
}

/// A `let` that a gradient is taken by is a variable of its own, whatever equals it.
#[test]
fn a_let_is_not_what_equals_it() {
    let members = "
  fn one(v) { let w = softmax(v)  let e = energy(w, softmax(v))  return grad(e, w) }
  fn renamed(v) { let w = softmax(v)  let s = w  return grad(energy(s, softmax(v)), s) }
  fn looped(v) {
    let w = v
    stack i in 0..2 { w = softmax(w) }
    return grad(energy(w, softmax(softmax(v))), w)
  }
  fn two(v) { return { a = tanh(v), b = tanh(v) } }
  fn field(v) { let w = two(v)  return grad(energy(w.a, w.b) * sum(tanh(v)), w.a) }
  fn held(v) { let w = softmax(v)  return partial(energy(w, softmax(v)), w) }
  y[t] = one(z[t].q) + renamed(z[t].q) + looped(z[t].q) + field(z[t].q) + held(z[t].q)
  x[t] = grad(sum(one(z[t].q)), z[t].q)
  loss w 0.2 = sq(y[t]) + sq(x[t])";
    agrees(&model("", members, STILL));
}

/// The gradient by an entry is that entry of the gradient by the array, however the array is read.
#[test]
fn entries_are_targets() {
    let members = "
  fn entry(u) { let w = u * u  return grad(sq(w) * w[0] + sum(u), w[0]) }
  x[t] = grad(sq(z[t].q) * z[t].q[0], z[t].q[0])
  y[t] = each i in Q { grad(sq(z[t].q) * z[t].q[i], z[t].q[i]) }
  s[t, i] = grad(energy(z[t].q, z[t].p), z[t].p[i])  for i in I
  loss w 0.2 = x[t]^2 + sq(y[t]) + entry(z[t].q) + sum i in I { s[t, i]^2 }";
    agrees(&model("", members, STILL));
}

/// All equal expressions would be one variable.
#[test]
fn expressions_are_no_targets() {
    for target in ["softmax(z[t].q)", "z[t].q + z[t].p", "zeros([Q])", "take(z[t].q, 0, over = Q)"] {
        refused(&model("", &format!("g[t] = grad(sq({target}), {target})\n  loss w 1.0 = sq(g[t])"), STILL), "E0405");
    }
}

/// A parameter is no target; a copy of one is.
#[test]
fn parameters_are_no_targets() {
    refused(&model("", "g[t] = grad(energy(z[t].q + shift, z[t].p), shift)\n  loss w 1.0 = sq(g[t])", STILL), "E0405");
}

/// A rollout of more rounds than a gradient writes out: its start counts, and a start at another step does not.
#[test]
fn the_start_of_a_long_rollout_counts() {
    let rollout = |start: &str, gradient: &str| {
        let members = format!(
            "x[t] = tanh(z[t].q)
             y[i, 0] = {start}  for i in 0..T-2
             y[i, k+1] = tanh(y[i, k] * z[i].p)  for k in 0..2
             g[i] = {gradient}  for i in 0..T-2
             loss w 1.0 = sq(g[i])"
        );
        model("", &members, STILL)
    };
    for gradient in [
        "grad(sq(y[i, 2]), x[i])",
        "grad(sq(y[i, 2]) * sum(x[i]), x[i])",
        "grad(sq(y[i, 2]) + sq(y[i, 1]), x[i])",
        "each j in I { grad(y[i, 2][j], x[i]) }",
        "grad(sq(y[i, 2]), y[i, 0])",
        "grad(sum(grad(sq(y[i, 2]), x[i])), z[i].p)",
    ] {
        agrees(&rollout("x[i]", gradient));
    }
    agrees(&rollout("x[i+1]", "grad(sq(y[i, 2]) * sum(x[i]), x[i])"));
    refused(&rollout("x[0]", "grad(sq(y[i, 2]) * sum(x[i]), x[i])"), "E0404");
    refused(&rollout("x[i+1]", "grad(sq(y[i, 2]), x[i])"), "E0403");
    // Subscripts that come nearer with each round, and meet the target in the third.
    let nearer = "x[t] = tanh(z[t].q)
         y[i, 0] = zeros([Q])  for i in 2..T
         y[i, k+1] = tanh(y[i, k] + x[i-k])  for k in 0..3
         g[i] = grad(sq(y[i, 3]) * sum(x[i]), x[i])  for i in 2..T
         loss w 1.0 = sq(g[i])";
    refused(&model("", nearer, STILL), "E0404");
}

/// A gradient inside a recurrence, by another point of what it computes.
#[test]
fn a_recurrence_that_is_being_read_may_lead_to_the_target() {
    let members = "x[t, 0] = z[t]  for t in 0..T-K
         x[t, k+1] = x[t, k] {
           q = x[t, k].q + 0.3 * grad(energy(x[t, 0].q, x[t, 0].p) * sum(x[t, k].p), x[t, 0].q)
         } + delta(x[t, k], a[t+k])  for k in 0..K
         loss w 1.0 = sq(x[t, 2])";
    refused(&model("", members, STILL), "E0404");
}

/// What is the same everywhere and read by equations between is no target: a loop would follow some of them and not others.
#[test]
fn what_equations_read_too_is_no_target() {
    let running = "running mu = lerp(mu, mean(z[t].q, over = [B, t]), 0.2) init 0.3 * ones([Q])
         c[t] = z[t].q - mu\n";
    for members in [
        "g[t] = grad(energy(c[t] * mu, z[t].p), mu)\n loss w 1.0 = sq(g[t])",
        "g[t] = grad(energy(c[t], z[t].p), mu)\n loss w 1.0 = sq(g[t])",
        "x[t] = 0.5 * x[t-1] + grad(energy(c[t] * mu, z[t].p), mu)  with x[-1] = ones([Q])\n loss w 1.0 = sq(x[t])",
    ] {
        refused(&model("", &format!("{running}{members}"), STILL), "E0405");
    }
    // A copy is a variable at each point.
    agrees(&model(
        "",
        &format!("{running} d[t] = mu  for t in 0..T\n g[t] = grad(energy(c[t] * d[t], z[t].p), d[t])\n loss w 1.0 = sq(g[t])"),
        STILL,
    ));
    let algorithm = |target: &str| {
        format!(
            "
planner climb(horizon) {{
  dim S = horizon
  carry last: [S, A] = zeros([S, A])
  kept  = last
  start = {target} + 0.1
  try   = rollout {{ u[k] = tanh(take(start, k, over = S)) for k in 0..horizon }}
  next last = kept + grad(try.score, {target})
  return {{ mean = try.u[0], std = zeros([A]), sample = try.u[1], score = try.score }}
}}"
        )
    };
    let act = "act { found = plan(z[t])  train = found.sample  eval = found.mean }";
    refused(&model(&algorithm("last"), &planned("climb"), act), "E0405");
    agrees(&model(&algorithm("kept"), &planned("climb"), act));
}

/// Each sample has a variable of its own, and the sum over samples of one number knows one of them alone.
#[test]
fn a_sum_over_samples_of_what_is_the_same_for_all_is_refused() {
    for members in [
        "d[t] = 0.3 * ones([Q])  for t in 0..T
         g[t] = grad(sum(energy(d[t], 2 * d[t]), over = B), d[t])
         loss w 1.0 = sq(g[t] + z[t].q)",
        "fn f() { let d = ones([Q])  return grad(sum(energy(d, d), over = B), d) }
         g[t] = f() * r[t]
         loss w 1.0 = sq(g[t])",
        // One field of a record, whose others differ.
        "s[t] = z[t] { q = 1, p = 0 }
         g[t] = grad(sum(energy(s[t].q, s[t].p), over = B), s[t])
         loss w 1.0 = sq(g[t].q)",
        "s[t] = z[t] { p = 1 }
         g[t] = grad(mean(s[t].p, over = B)[1], s[t].p)
         loss w 1.0 = sq(g[t] + z[t].q)",
    ] {
        refused(&model("", members, STILL), "E0406");
    }
    let members = "d[t] = 0.3 * ones([Q])  for t in 0..T
         g[t] = grad(sum(energy(d[t], z[t].p), over = B), d[t])
         loss w 1.0 = sq(g[t])";
    agrees(&model("", members, STILL));
}

/// A sum over steps holds the target once in each term. Where a term also reads its neighbour, or is computed from it,
/// the gradient at a step would miss the other term.
#[test]
fn a_sum_over_steps_that_read_each_other_is_refused() {
    for members in [
        "g[t] = grad(sum(z[t].q @ z[t-1].q, over = t), z[t].q)",
        "x[t] = z[t-1].q  g[t] = grad(sum(z[t].q @ x[t], over = t), z[t].q)",
        "x[t] = z[t].q + x[t-1] with x[-1] = zeros([Q])  g[t] = grad(sum(sq(x[t]), over = t), z[t].q)",
        "x[t] = z[t].q + x[t-1] with x[-1] = zeros([Q])  g[t] = grad(sum(sq(x[t]), over = t), x[t])",
        "g[t] = grad(sum(z[t].q @ z[0].q, over = t), z[t].q)",
    ] {
        refused(&model("", &format!("{members}  loss w 1.0 = sq(g[t])"), STILL), "E0404");
    }
    // Terms that keep to themselves, a recurrence along another index among them.
    for members in [
        "g[t] = grad(sum(energy(z[t].q, z[t].p), over = t), z[t].q)",
        "x[t, k] = tanh(x[t, k-1]) with x[t, 0] = z[t].q  for t in 0..T, k in 1..K  g[t] = grad(sum(sq(x[t, 1]), over = t), z[t].q)",
        "x[t, k] = tanh(x[t, k-1]) with x[t, 0] = z[t].q  for t in 0..T, k in 1..K  g[t] = grad(sum(sq(x[t, 1]), over = t), x[t, 1])",
    ] {
        agrees(&model("", &format!("{members}  loss w 1.0 = sq(g[t])"), STILL));
    }
}

/// Newton's steps, in a planner and while acting: rows along the action's axis.
#[test]
fn second_derivatives_by_a_plan() {
    let algorithm = "
planner newton(horizon, rate = 0.5) {
  dim S = horizon
  start = 0.1 * ones([S, A])
  try   = rollout { u[k] = tanh(take(start, k, over = S)) for k in 0..horizon }
  slope = grad(try.score, start)
  bend  = each s in S { each i in A { grad(take(take(slope, s, over = S), i, over = A), start)[s][i] } }
  up    = start + rate * slope / (1 + bend^2)
  last  = rollout { u[k] = tanh(take(up, k, over = S)) for k in 0..horizon }
  return { mean = last.u[0], std = zeros([A]), sample = last.u[1], score = last.score }
}";
    agrees(&model(algorithm, &planned("newton"), "act { found = plan(z[t])  train = found.sample  eval = found.mean }"));
    let act = "act {
    start = zeros([A])
    slope = grad(reward(z[t] + delta(z[t], tanh(start))), start)
    bend  = each i in A { grad(slope[i], start)[i] }
    each_ = each e in E { grad(heads(z[t].q + sum(start) * z[t].p)[e], start) }
    train = tanh(start + slope / (1 + bend^2))
    eval  = tanh(max(each_, over = E))
  }";
    agrees(&model("", "loss w 1.0 = sq(z[t])", act));
}

/// Sorted, picked and gathered entries, arrays of two axes, the memory, calls with arguments held, three orders.
#[test]
fn rarer_targets_and_ways() {
    for members in [
        "g[t] = grad(take(z[t].q, argmax(z[t].p), over = Q)^2 * sq(z[t].q), z[t].q)
         s[t] = each i in I { grad(sort(tanh(z[t].q) * z[t].q, over = Q)[i], z[t].q) }
         m[t] = grad(sum(take(z[t].c, top(z[t].c, K, over = C), over = C)^2), z[t].c)
         loss w 1.0 = sq(g[t]) + sq(s[t]) + sq(m[t])",
        "w[t] = each i in I { z[t].q * sin(i + z[t].p) }
         g[t] = grad(sq(w[t]) * w[t][0][1], w[t])
         h[t] = grad(sq(w[t]) * w[t][0][1], w[t][1])
         l[t, i] = grad(sin(w[t][i][0]) * sq(w[t]), w[t][i][1])  for i in I
         loss w 1.0 = sq(g[t]) + sq(h[t]) + sum i in I { l[t, i]^2 }",
        "memory m(z, a) -> [M] = gru(width = 2) reset first
         m[t] = memory(z[t], a[t], m[t-1])
         g[t] = grad(sq(m[t].out) * sum(m[t].out), m[t].out)
         j[t] = each i in M { grad(m[t].out[i], z[t].q) }
         loss w 1.0 = sq(g[t]) + sq(j[t])",
        "force[t] = -grad(energy(z[t].q, z[t].p), z[t].q)
         half[t] = partial(energy(z[t].q, z[t].p + force[t]), z[t].q)
         x[t] = each i in I { grad(half[t][i], z[t].p) }
         u[t] = grad(sq(partial(energy(tanh(z[t].q), z[t].q), tanh(z[t].q))), z[t].q)
         loss w 1.0 = sq(half[t]) + sq(x[t]) + sq(u[t])",
        "d[t] = zeros([Q])  for t in 0..T
         one[t] = grad(energy(z[t].q + d[t], z[t].p), d[t])
         two[t] = grad(one[t] @ z[t].p, d[t])
         x[t] = grad(two[t] @ z[t].q, d[t])
         k[t] = each i in I { grad(grad(grad(energy(z[t].q, z[t].p), z[t].q)[0], z[t].q)[1], z[t].q)[i] }
         loss w 1.0 = sq(x[t]) + sq(k[t])",
        "b[t] = z[t].q / (0.5 + sq(mean(z[t].q, over = B)))
         g[t] = grad(sum(energy(b[t], z[t].p), over = B), z[t].q)
         j[t] = each i in I { grad(sum(b[t][i] * b[t][0], over = B), z[t].q) }
         loss w 1.0 = sq(g[t]) + sq(j[t])",
        "h[t] = each e in E { each i in I { grad(grad(heads(z[t].q)[e], z[t].q)[i], z[t].q) } }
         x[t] = tanh(z[t].q)
         loss w 1.0 = sq(h[t])
         loss v 1.0 = sum i in Q { grad(grad(energy(x[t], z[t].p), x[t])[i], z[t].q)[i]^2 }",
    ] {
        agrees(&model("", members, STILL));
    }
}

/// A model whose optimisers step one after the other.
fn sequential(members: &str, optimizers: &str) -> String {
    let text = model("", &format!("  z2[t] = z[t] {{ q = tanh(z[t].q + shift) }}\n{members}"), STILL);
    text.replace("  optimizer main = adam(lr = 1e-3) on all\n", optimizers)
}

const WORLD: &str = "  optimizer world = sgd(lr = 0.3) on encoder, delta\n";

/// The losses of a later optimiser see the parameters that an earlier one has changed, or those of them that it names.
#[test]
fn optimisers_step_one_after_the_other() {
    let losses = "
  net spare(c) -> [] = mlp([2], tanh)
  loss a 1.0 for world = sq(delta(z[t], a[t])) + spare(z[t].c)^2
  loss b 0.5 for value = (reward(z2[t]) - energy(z[t].q, z[t].p))^2 + sum e in E { heads(z[t].q)[e]^2 }
  loss c 0.7 for last  = sq(z2[t].q - shift) * reward(z[t])
  loss d 0.3           = sq(z2[t]) + spare(z[t].c)";
    for (value, last) in [
        ("after world", "after value"),
        ("after world only delta", "after value, world only heads, encoder"),
        ("after world only encoder", "after world"),
        ("", "after value only reward"),
    ] {
        let optimizers = format!(
            "{WORLD}  optimizer last = adam(lr = 0.1) on shift {last}
  optimizer value = sgd(lr = 0.2) on energy, reward, heads, spare {value}\n"
        );
        agrees(&sequential(losses, &optimizers));
    }
}

/// A running value is updated once: with what the first optimiser sees whose losses read it.
#[test]
fn running_values_among_optimisers() {
    let members = "
  running early = lerp(early, mean(z[t].q, over = [B, t]), 0.3) init zeros([Q])
  running late  = lerp(late, mean(z[t].p, over = [B, t]) + mean(early), 0.3) init zeros([Q])
  running none  = lerp(none, mean(z[t].c, over = [B, t]), 0.3) init zeros([C])
  x[t] = z[t].q - early
  loss a 1.0 for world = sq(delta(z[t], a[t])) + sq(x[t])
  loss b 0.5 for value = reward(z[t])^2 * sum(late) + sq(x[t]) + energy(z[t].q, z[t].p) + sum e in E { heads(z[t].q)[e] }
  loss c 0.5 for last  = sq(shift - late) * sq(x[t])
  loss n 0.0           = sq(z2[t].q)";
    let optimizers = format!(
        "{WORLD}  optimizer value = sgd(lr = 0.2) on energy, reward, heads after world\n  optimizer last = sgd(lr = 0.2) on shift\n"
    );
    agrees(&sequential(members, &optimizers));
}

/// A loop that leads past the entries of an axis reads no neighbour: the entry before the first is not the first.
#[test]
fn entries_outside_an_axis_are_none() {
    for members in [
        "y[t] = sum e in -1..1 { select(e < 0, 0, heads(z[t].q)[e]) }",
        "y[t] = sum e in -1..E { select(e < 0, 0, sq(heads(z[t].q)[e] - r[t])) }",
        "y[t] = sum i in -1..Q-1 { select(i < 0, 0, z[t].q[i] * (i + 1)) }",
        "y[t] = sum i in 0..Q { select(i + 1 < Q, z[t].q[i+1] * (i + 1), 0) }",
    ] {
        agrees(&model("", &format!("{members}\n loss w 1.0 = sq(y[t]) + sq(z[t].q)"), STILL));
    }
}
