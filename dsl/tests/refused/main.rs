//! Models that used to check clean and then failed in the compiler or trained nonsense. Each is refused at `check`, with a
//! code and a place; the mended text beside it checks.

use wmc_dsl::diagnostics::{TINY, render};
use wmc_dsl::{Checked, MapLoader, Options, check};

fn run(text: &str, options: &Options) -> Checked {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/");
    let mut modules = MapLoader::default();
    modules.0.insert("tiny".into(), TINY.into());
    for name in ["ppo", "tasks"] {
        modules.0.insert(name.into(), std::fs::read_to_string(format!("{root}{name}.wm")).unwrap());
    }
    check("main.wm", text, &modules, options)
}

fn errors(checked: &Checked) -> Vec<&'static str> {
    checked.diagnostics.iter().filter(|d| d.is_error()).map(|d| d.code.id()).collect()
}

fn told(checked: &Checked) -> String {
    checked.diagnostics.iter().map(|d| render(&checked.sources, d, false)).collect()
}

/// Members for `model Mine extends Tiny`: the code of the wrong ones, and right ones.
const CASES: &[(&str, &str, &str)] = &[
    // Each right text is what the help says.
    (
        "E0203",
        "loss x 1.0 = sum(select(z[t].q > z[t].c, 1, 0)) + sq(z[t])",
        "loss x 1.0 = sum(select(outer(z[t].q, ones([C])) > z[t].c, 1, 0)) + sq(z[t])",
    ),
    ("E0210", "loss x 1.0 = sq(z[t]) + sum(zeros([3]))", "loss x 1.0 = sq(z[t]) + sum(zeros([S = 3]))"),
    (
        "E0305",
        "up = ones([Q])\n loss x 1.0 = sq(z[t]) + (sum k in Q { up[k] })",
        "up = ones([Q])\n loss x 1.0 = sq(z[t]) + (sum k in Q { take(up, k, over = Q) })",
    ),
    (
        "E0507",
        "latent y { x: [Y = -1] }\n net more(z) -> y = mlp([4], silu)\n loss x 1.0 = sq(more(z[t]))",
        "latent y { x: [Y = 1] }\n net more(z) -> y = mlp([4], silu)\n loss x 1.0 = sq(more(z[t]))",
    ),
    ("E0301", "loss x 1.0 = take(z[t].q, 99, over = Q)", "loss x 1.0 = take(z[t].q, 3, over = Q)"),
    ("E0301", "loss x 1.0 = take(z[t].q, 0 - 1, over = Q)", "loss x 1.0 = take(z[t].q, 0, over = Q)"),
    ("E0301", "loss x 1.0 = take(zeros([N = 0]), sum(obs[t]), over = N)", "loss x 1.0 = take(z[t].q, sum(obs[t]), over = Q)"),
    (
        "E0215",
        "loss x 1.0 = percentile(sum(obs[t]), 2, over = [B, t])",
        "loss x 1.0 = percentile(sum(obs[t]), 0.5, over = [B, t])",
    ),
    ("E0215", "loss x 1.0 = sq(dropout(z[t].q, 2))", "loss x 1.0 = sq(dropout(z[t].q, 0.5))"),
    ("E0215", "loss x 1.0 = sq(dropout(z[t].q, 0 - 1))", "loss x 1.0 = sq(dropout(z[t].q, 0))"),
    ("E0215", "loss x 1.0 = normal(z[t].q, -1).nll(z[t].p)", "loss x 1.0 = normal(z[t].q, exp(z[t].c[0])).nll(z[t].p)"),
    ("E0309", "schedule w = w\n loss x 1.0 = w * sq(z[t])", "schedule w = progress\n loss x 1.0 = w * sq(z[t])"),
    (
        "E0309",
        "schedule w = u\n schedule u = 2 * w\n loss x 1.0 = w * sq(z[t])",
        "schedule w = u\n schedule u = 2 * progress\n loss x 1.0 = w * sq(z[t])",
    ),
    ("E0510", "schedule w = gaussian([])\n loss x 1.0 = w * sq(z[t])", "schedule w = ramp(1, 0)\n loss x 1.0 = w * sq(z[t])"),
    ("E0210", "schedule w = true\n loss x 1.0 = w * sq(z[t])", "schedule w = 1\n loss x 1.0 = w * sq(z[t])"),
    (
        "E0210",
        "drop optimizer main\n optimizer main = adam(lr = { a = 1 }) on all",
        "drop optimizer main\n optimizer main = adam(lr = 1e-3) on all",
    ),
    (
        "E0210",
        "drop optimizer main\n optimizer main = adam(lr = true) on all",
        "drop optimizer main\n optimizer main = adam(lr = ramp(1e-3, 1e-4)) on all",
    ),
    (
        "E0215",
        "drop optimizer main\n optimizer main = adam(lr = 1e-3, clip = -1) on all",
        "drop optimizer main\n optimizer main = adam(lr = 1e-3, clip = 1) on all",
    ),
    (
        "E0215",
        "drop optimizer main\n optimizer main = adam(lr = 1e-3, betas = [0.9, 1]) on all",
        "drop optimizer main\n optimizer main = adam(lr = 1e-3, betas = [0.9, 0.99]) on all",
    ),
    ("E0104", "dim model = 3\n loss x 1.0 = sq(zeros([model]))", "dim model_ = 3\n loss x 1.0 = sq(zeros([model_]))"),
    ("E0104", "const loss = 3\n loss x 1.0 = loss * sq(z[t])", "const w = 3\n loss x 1.0 = w * sq(z[t])"),
    ("E0210", "loss x 1.0 = sum w in [1, \"a\", silu] { sq(z[t]) }", "loss x 1.0 = sum w in [1, 2] { w * sq(z[t]) }"),
    ("E0302", "loss x 1.0 = mean(zeros([N = 0]))", "loss x 1.0 = sum(zeros([N = 0]))"),
    ("E0302", "loss x 1.0 = argmax(zeros([N = 0]))", "loss x 1.0 = argmax(z[t].q)"),
];

#[test]
fn nonsense_is_refused_with_a_place() {
    let mut wrong = String::new();
    for (code, bad, good) in CASES {
        let model = |members: &str| format!("use tiny::Tiny\nmodel Mine extends Tiny {{\n {members}\n}}\n");
        let bad = run(&model(bad), &Options::default());
        if errors(&bad) != [*code] || bad.diagnostics.iter().any(|d| d.primary.span.lo == d.primary.span.hi) {
            wrong += &format!("---- wanted {code}\n{}", told(&bad));
        }
        let good = run(&model(good), &Options::default());
        if good.has_errors() {
            wrong += &format!("---- should check\n{}", told(&good));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn sizes_are_of_dims_that_exist() {
    let text = "use tiny::Tiny\nmodel Mine extends Tiny { }\n";
    let of = |name: &str, size| Options { dims: vec![(name.into(), size)], ..Options::default() };
    assert_eq!(errors(&run(text, &of("q", 8))), ["E0513"]);
    assert!(told(&run(text, &of("q", 8))).contains("did you mean `Q`?"));
    assert!(errors(&run(text, &of("Q", 8))).is_empty());
    assert_eq!(errors(&run(text, &of("B", 0))), ["E0507"]);
    assert_eq!(errors(&run(text, &of("T", 0))), ["E0507"]);
}

/// A loss of an on-policy source runs over transitions, whatever it reads.
#[test]
fn on_policy_losses_run_over_transitions() {
    for members in [
        "loss extra 0.1 = sum(obs[t])",
        "loss extra 0.1 = v[t]",
        "loss extra 0.1 = -pi(obs[t]).entropy",
        "xx[t] = sum(obs[t])\n loss extra 0.1 = xx[t]",
    ] {
        let checked = run(&format!("use ppo::Ppo\nmodel Mine extends Ppo {{\n {members}\n}}\n"), &Options::default());
        assert!(!checked.has_errors(), "{}", told(&checked));
        let model = &checked.models[0];
        let loss = model.losses.iter().find(|l| l.name == "extra").unwrap();
        let ranges: Vec<(i64, i64)> = loss.parts[0].vars.iter().map(|v| (model.var(*v).lo, model.var(*v).hi)).collect();
        assert_eq!(ranges, [(0, 2048)], "{members}");
    }
    // An equation may hold the last observation's value too, for a record that reads it.
    let wide = "y[t] = sum(obs[t])\n record w[t] = y[t+1]\n loss extra 0.1 = y[t] - w[t]";
    let model = |members: &str| format!("use ppo::Ppo\nmodel Mine extends Ppo {{\n {members}\n}}\n");
    let checked = run(&model(wide), &Options::default());
    assert!(!checked.has_errors(), "{}", told(&checked));
    for members in [
        "loss extra 0.1 = sum(obs[t]) for t in 0..=T",
        "loss extra 0.1 = sum(obs[t]) for t in 1..T",
        "loss extra 0.1 = t * sum(obs[t])",
        "y[t] = sum(obs[t]) for t in 0..4\n loss extra 0.1 = sum(obs[t])",
        "record w[t] = sum(obs[t]) for t in 0..4\n loss extra 0.1 = w[t]",
        "metric extra = sum(obs[t+1])",
    ] {
        let checked = run(&model(members), &Options::default());
        assert_eq!(errors(&checked), ["E0308"], "{members}\n{}", told(&checked));
    }
}

/// Whole files that reviewers wrote: two on-policy losses that compile since, and indices out of range.
#[test]
fn reported_files() {
    let files = [
        ("ppo_obs", include_str!("ppo_obs.wm"), &[][..]),
        ("ppo_ent", include_str!("ppo_ent.wm"), &[]),
        ("z_oob", include_str!("z_oob.wm"), &["E0301"]),
        ("z_oobneg", include_str!("z_oobneg.wm"), &["E0301"]),
        // What a planner returns and carries on is read at places that exist.
        ("planner_return", include_str!("planner_return.wm"), &["E0301", "E0301"]),
        // This index depends on data; what it reads is known when it runs.
        ("z_oobnan", include_str!("z_oobnan.wm"), &[]),
    ];
    for (name, text, codes) in files {
        let checked = run(text, &Options::default());
        assert_eq!(errors(&checked), codes, "{name}\n{}", told(&checked));
    }
}

/// A field that no task provides is a warning, and an error once there is a task.
#[test]
fn fields_that_no_task_provides() {
    let text = include_str!("z_oobnan.wm").replace("r: []", "r: [], cost: []");
    let checked = run(&text, &Options::default());
    assert!(errors(&checked).is_empty() && told(&checked).contains("W0501"), "{}", told(&checked));
    let checked = run(&text, &Options { task: Some("pendulum_swingup".into()), ..Options::default() });
    assert_eq!(errors(&checked), ["E0512"], "{}", told(&checked));
}
