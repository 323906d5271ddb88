//! Acting: planners, most of them with gradients, and actions without one.

use super::*;

impl Writer {
    /// A planner's algorithm, and the members that act.
    pub fn acting(&mut self) -> (String, String) {
        match self.rng.below(10) {
            0..=2 => (String::new(), self.planless()),
            _ => self.planner(),
        }
    }

    fn planless(&mut self) -> String {
        match self.rng.below(4) {
            0 => "  act { train = zeros  eval = tanh(actor(z[t])) }\n".into(),
            3 => "  act {\n    start = zeros([A])\n    slope = grad(critic(z[t], tanh(start)), start)\n    bend  = each i in A { grad(slope[i], start)[i] }\n    train = tanh(start + slope / (1 + bend^2))\n    eval  = tanh(max(each e in E { grad(ens(z[t].q + sum(start) * z[t].p)[e], start) }, over = E))\n  }\n".into(),
            1 => "  act {\n    start = zeros([A])\n    up    = tanh(grad(critic(z[t], start), start))\n    train = up\n    eval  = tanh(start + 0.5 * up)\n  }\n".into(),
            _ => "  act {\n    start = actor(z[t])\n    up    = start + 0.3 * grad(critic(z[t], start), start)\n    train = tanh(up)\n    eval  = tanh(start)\n  }\n".into(),
        }
    }

    fn planner(&mut self) -> (String, String) {
        let squash = *self.rng.pick(&["tanh(X)", "0.5 * X", "sin(X)", "bounded(X)", "tanh(X + 0.2)"]);
        let start =
            *self.rng.pick(&["zeros([S, A])", "0.2 * ones([S, A])", "zeros([S, A])", "each k in S { (0.3 + k) * ones([A]) }"]);
        let run = |plan: &str, at: &str| format!("rollout {{ u[k] = {} for k in 0..horizon }}{at}", squash.replace('X', plan));
        let mut text = String::from("planner climb(horizon, rate = 0.5) {\n  dim S = horizon, N = 2\n");
        let result = |run: &str| {
            format!("  return {{ mean = {run}.u[0], std = zeros([A]), sample = {run}.u[horizon-1], score = {run}.score }}\n}}\n")
        };
        match self.rng.below(9) {
            // No gradient: the mean of two runs.
            0 => {
                text += &format!("  try[n] = {}\n", run("(0.3 * n + 0.1 * k) * ones([A])", "   for n in 0..N"));
                text += "  mid    = mean n in N { try[n].score * try[n].u[0] }\n";
                text += "  return { mean = tanh(mid), std = zeros([A]), sample = try[1].u[0], score = try[0].score }\n}\n";
            }
            // One step up.
            1 | 2 => {
                text += &format!("  start = {start}\n  try   = {}\n", run("take(start, k, over = S)", ""));
                text +=
                    &format!("  up    = start + rate * grad(try.score, start)\n  last  = {}\n", run("take(up, k, over = S)", ""));
                text += &result("last");
            }
            // One step up from what the last decision left.
            6 => {
                text += "  carry last: [S, A] = 0.1 * ones([S, A])\n";
                text += &format!("  start = 0.7 * last + {start}\n  try   = {}\n", run("take(start, k, over = S)", ""));
                text += "  up    = start + rate * grad(try.score, start)\n";
                text += &format!("  end   = {}\n  next last = tanh(up)\n", run("take(up, k, over = S)", ""));
                text += &result("end");
            }
            // A step by the plan that was kept, which the starts are made of.
            7 => {
                text += "  carry last: [S, A] = 0.1 * ones([S, A])\n";
                text += &format!(
                    "  kept  = last\n  start = tanh(kept) + {start}\n  try   = {}\n",
                    run("take(start, k, over = S)", "")
                );
                text += "  next last = kept + rate * grad(try.score, kept)\n";
                text += &result("try");
            }
            // A step by a product with the score's Hessian.
            8 => {
                text += &format!("  start = {start}\n  try   = {}\n", run("take(start, k, over = S)", ""));
                text += "  slope = grad(try.score, start)\n  bent  = grad(sum(slope * (0.4 + sg(slope))), start)\n";
                text += &format!("  up    = start + rate * bent\n  last  = {}\n", run("take(up, k, over = S)", ""));
                text += &result("last");
            }
            // Several steps up, in a loop.
            3 => {
                text += &format!("  p[0]   = {start}\n  try[i] = {}\n", run("p[i][k]", "   for i in 0..3"));
                text += "  p[i+1] = p[i] + rate * grad(try[i].score, p[i])   for i in 0..2\n";
                text += &result("try[2]");
            }
            // Several starts, the same or not.
            _ => {
                let own = *self.rng.pick(&["", " * (0.5 + n)", " + 0.3 * n"]);
                text += &format!("  start[n] = ({start}){own}   for n in 0..N\n");
                text += &format!("  try[n]   = {}\n", run("start[n][k]", "   for n in 0..N"));
                text += "  up[n]    = start[n] + rate * grad(try[n].score, start[n])   for n in 0..N\n";
                text += &format!("  last[n]  = {}\n", run("up[n][k]", "   for n in 0..N"));
                text += "  mid      = mean n in N { last[n].u[0] }\n";
                text += "  return { mean = mid, std = zeros([A]), sample = last[1].u[0], score = last[0].score }\n}\n";
            }
        }
        (text, self.plan())
    }

    /// The model's side of the planner.
    fn plan(&mut self) -> String {
        let step = match self.rng.below(3) {
            0 => "x[k] + delta(x[k], u[k])",
            1 => {
                "x[k] { q = x[k].q + 0.3 * grad(energy(x[k].q, x[k].p), x[k].p), p = x[k].p - 0.3 * grad(energy(x[k].q, x[k].p), x[k].q) + sum(u[k]) }"
            }
            _ => "x[k] { q = tanh(x[k].p + sum(u[k])), c = x[k].c * u[k][0] }",
        };
        let memory = self.memory && self.rng.percent(60);
        let mut text = format!("  planner plan(z{}) = climb(horizon = H) {{\n    x[0]   = z\n", if memory { ", m" } else { "" });
        if memory {
            text += "    n[k]   = memory(x[k], u[k], n[k-1])   with n[-1] = m\n";
        }
        let extra = if memory { " + 0.1 * sum(n[k].out)" } else { "" };
        text += &format!("    x[k+1] = {step}\n");
        let mut sc = Scope { locals: vec![("x[k+1]".into(), None), ("u[k]".into(), Some(VA))], ..Scope::default() };
        let term = match self.rng.below(3) {
            0 => "reward(x[k+1])".to_string(),
            1 => "reward(x[k+1]) + pot(x[k].q) * sum(u[k])".to_string(),
            _ => format!("tanh({}) + reward(x[k+1])", self.expr(&mut sc, S, 2)),
        };
        text += &format!("    score  = sum k in 0..H {{ 0.9^k * ({term}{extra} - 0.2 * sq(u[k])) }}\n  }}\n");
        let given = if memory { "z[t], m[t-1]" } else { "z[t]" };
        text += &format!(
            "  act {{\n    found = plan({given})\n    train = clip(found.sample, -1, 1)\n    eval  = clip(found.mean, -1, 1)\n  }}\n"
        );
        text
    }
}
