//! A gradient inside a model is a value like any other: training differentiates it again. Each model is tiny, so that
//! every entry of every parameter is compared with central differences of the objective in double precision.

mod support;

use dsl::hir::Model;
use support::inline;
use support::orders::{differences, error, given, run};
use wmc_compiler::run::Tensor;

/// A latent with an energy, and what a test makes of them.
fn world(equations: &str) -> Model {
    let text = format!(
        "model Tiny {{
           input  obs: [O], r: [], first: bool
           action a: [A] in -1..1
           dim    Q = 3
           const  dt = 0.3
           latent z {{ q: [Q], p: [Q] }}
           net encoder(obs) -> z  = mlp([4], silu)
           net energy(q, p) -> [] = mlp([5], silu)

           fn force(q, p)   {{ return grad(energy(q, p), q) }}
           fn still(q, p)   {{ return sg(grad(energy(q, p), q)) }}
           // A function of the force, and its own gradient: the second of the energy.
           fn effort(q, p)  {{ return sq(force(q, p)) }}
           fn curving(q, p) {{ return grad(effort(q, p), q) }}

           source replay(capacity = 100) over [B = 2, T = 4]
           z[t] = encoder(obs[t])
           {equations}
           act {{ train = zeros([A])  eval = zeros([A]) }}
           optimizer main = adam(lr = 1e-3) on all
           train {{ steps = 100, seed_steps = 10, every = 1, updates = 1, eval_every = 100, eval_episodes = 1, seeds = [1] }}
         }}"
    );
    inline(&text, &[("O", 2), ("A", 1)])
}

fn agrees(equations: &str) {
    let error = error(&world(equations));
    assert!(error < 1e-7, "{equations}: {error:.1e}");
}

/// The value of the loss is the same with and without the stop, and so are its differences: with the stop the gradient
/// must be wrong, or the test could not tell an inner gradient that is treated as a constant.
fn constant_would_fail(equations: &str, stopped: &str) {
    agrees(equations);
    let error = error(&world(stopped));
    assert!(error > 1e-2, "{stopped}: {error:.1e}");
}

#[test]
fn a_loss_of_an_inner_gradient() {
    constant_would_fail("loss pull 1.0 = sq(force(z[t].q, z[t].p))", "loss pull 1.0 = sq(still(z[t].q, z[t].p))");
}

#[test]
fn a_transition_with_an_inner_gradient() {
    constant_would_fail(
        "s[t] = z[t].p - dt * force(z[t].q, z[t].p)
         loss dyn 1.0 = sq(s[t] - z[t+1].p)",
        "s[t] = z[t].p - dt * still(z[t].q, z[t].p)
         loss dyn 1.0 = sq(s[t] - z[t+1].p)",
    );
}

#[test]
fn order_three() {
    constant_would_fail("loss curve 1.0 = sq(curving(z[t].q, z[t].p))", "loss curve 1.0 = sq(sg(curving(z[t].q, z[t].p)))");
    // The innermost gradient alone held: the middle one is then of a constant, which the checker refuses.
    let text = "w[t] = grad(sq(still(z[t].q, z[t].p)), z[t].q)\nloss curve 1.0 = sq(w[t])";
    let refused = std::panic::catch_unwind(|| world(text)).expect_err("a model with an error");
    let message = refused.downcast_ref::<String>().expect("a message");
    assert!(message.contains("error[E0402]"), "{message}");
}

#[test]
fn inside_a_forward_scan_with_resets() {
    constant_would_fail(
        "x[t] = x[t-1] - dt * force(x[t-1], z[t].p)   with x[-1] = ones([Q])   reset first
         loss roll 1.0 = sq(x[t] - z[t].q)",
        "x[t] = x[t-1] - dt * still(x[t-1], z[t].p)   with x[-1] = ones([Q])   reset first
         loss roll 1.0 = sq(x[t] - z[t].q)",
    );
}

#[test]
fn inside_a_backward_scan_with_resets() {
    constant_would_fail(
        "x[t] = x[t+1] - dt * force(x[t+1], z[t].p)   with x[T-1] = z[T-1].q   reset first[t+1]
         loss roll 1.0 = sq(x[t] - z[t].p)",
        "x[t] = x[t+1] - dt * still(x[t+1], z[t].p)   with x[T-1] = z[T-1].q   reset first[t+1]
         loss roll 1.0 = sq(x[t] - z[t].p)",
    );
}

/// A recurrence in two families, re-rolled from every start, with the third order inside.
#[test]
fn order_three_inside_a_scan_of_every_start() {
    agrees(
        "y[i, 0]   = z[i].q                                   for i in 0..T-2
         y[i, k+1] = y[i, k] - dt * curving(y[i, k], z[i+k].p)   for k in 0..2
         loss roll 1.0 = sum k in 1..=2 { sq(y[i, k] - z[i+k].q) }",
    );
}

/// Resets matter: the same data without them gives another gradient.
#[test]
fn resets_are_seen() {
    let model = world(
        "x[t] = x[t-1] - dt * force(x[t-1], z[t].p)   with x[-1] = ones([Q])   reset first
         loss roll 1.0 = sq(x[t] - z[t].q)",
    );
    let mut given = given(&model);
    let with = run(&model, &given);
    given.get_mut("data.first").expect("flags").data.fill(0.0);
    let without = run(&model, &given);
    assert_ne!(with["objective.main"], without["objective.main"]);
    // Where the flag holds, the step starts from ones.
    assert_eq!(with["value.x"].data[..6], without["value.x"].data[..6], "before the first flag");
    assert_ne!(with["value.x"].data[6..12], without["value.x"].data[6..12], "after it");
}

/// The kick of a leapfrog step: `half` is a function of q, and the energy there depends on q directly and through it.
/// The two derivatives differ by what goes through `half`: -dt/2 times the Hessian of the energy in q applied to dE/dp.
#[test]
fn partial_holds_what_grad_follows() {
    let model = world(
        "fn half(q, p)     { return p - 0.5 * dt * partial(energy(q, p), q) }
         fn held(q, p)     { let h = half(q, p)
                             return partial(energy(q, h), q) }
         fn total(q, p)    { return grad(energy(q, half(q, p)), q) }
         fn along(q, p, u) { return grad(force(q, p) @ sg(u), q) }

         middle[t]  = half(z[t].q, z[t].p)
         level[t]   = energy(z[t].q, middle[t])
         some[t]    = held(z[t].q, z[t].p)
         all[t]     = total(z[t].q, z[t].p)
         push[t]    = partial(energy(z[t].q, middle[t]), middle[t])
         through[t] = along(z[t].q, z[t].p, push[t])
         loss sum 1.0 = 1 * level[t] + 0 * (sq(some[t]) + sq(all[t]) + sq(through[t]))   for t in 0..4",
    );
    let mut given = given(&model);
    let values = run(&model, &given);
    for name in ["z.q", "z.p"] {
        given.insert(format!("value.{name}"), values[&format!("value.{name}")].clone());
    }
    // The objective is the mean of the level over 2 samples and 4 steps, so a difference of it is an eighth of the
    // level's at the one place that q is moved at.
    let scaled = |t: Tensor| Tensor { data: t.data.iter().map(|x| 8.0 * x).collect(), ..t };
    let close = |name: &str, have: &Tensor, want: &Tensor, bound: f64| {
        let apart = support::difference(have, want);
        assert!(apart < bound, "{name}: {apart:.1e}");
    };
    let total = scaled(differences(&model, &given, "objective.main", "value.z.q"));
    close("total", &values["value.all"], &total, 1e-7);
    given.insert("value.middle".to_string(), values["value.middle"].clone());
    let held = scaled(differences(&model, &given, "objective.main", "value.z.q"));
    close("held", &values["value.some"], &held, 1e-7);

    let (total, held, through) = (&values["value.all"], &values["value.some"], &values["value.through"]);
    let gap: Vec<f64> = total.data.iter().zip(&held.data).map(|(a, b)| a - b).collect();
    let stated: Vec<f64> = through.data.iter().map(|x| -0.5 * 0.3 * x).collect();
    let tensor = |data: Vec<f64>| Tensor { shape: vec![data.len()], data };
    assert!(gap.iter().any(|x| x.abs() > 1e-4), "the derivatives do not differ: {gap:?}");
    close("gap", &tensor(gap), &tensor(stated), 1e-9);
}

/// One whole leapfrog step, trained through: three partial derivatives inside.
#[test]
fn a_leapfrog_step_trains() {
    constant_would_fail(&leapfrog(""), &leapfrog("sg"));
}

fn leapfrog(stop: &str) -> String {
    format!(
        "fn step(q, p) {{
           let half = p - 0.5 * dt * {stop}(partial(energy(q, p), q))
           let q1   = q + dt * {stop}(partial(energy(q, half), half))
           return z {{ q = q1, p = half - 0.5 * dt * {stop}(partial(energy(q1, half), q1)) }}
         }}
         s[t] = step(z[t].q, z[t].p)
         loss dyn 1.0 = sq(s[t] - z[t+1])"
    )
}
