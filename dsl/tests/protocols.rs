//! Protocols: which settings a task ends up with, and how another protocol is chosen.

use wmc_dsl::hir::{Model, Setting};
use wmc_dsl::{Checked, Options};

const MODEL: &str = r#"
tasks short(reward = "sum", repeat = 4, control_steps = 200, eval_episodes = 5, ood_episodes = 9, seeds = [1, 2]) {
  pendulum_swingup(O = 3, A = 1)
  cartpole_swingup(O = 5, A = 1, repeat = 2, length = 30)
}
tasks full(control_steps = 1_000) {
  pendulum_swingup(O = 3, A = 1)
}

model M {
  input  obs: [O], r: []
  action a: [A] in -1..1
  net pi(obs) -> a via tanh = mlp([8], silu)
  source replay(capacity = 100) over [B = 4, T = 2]
  loss imitate 1.0 = sq(pi(obs[t]) - a[t])
  act {
    train = pi(obs[t])
    eval  = pi(obs[t])
  }
  optimizer main = adam(lr = 1e-3) on all
  train {
    steps = 100, eval_every = 50
  }
  tasks short(limit = "terminal")
}
"#;

fn check(text: &str, protocol: Option<&str>) -> Checked {
    wmc_dsl::check("m.wm", text, &wmc_dsl::NoLoader, &Options { protocol: protocol.map(str::to_string), ..Options::default() })
}

fn model(protocol: Option<&str>) -> Model {
    let checked = check(MODEL, protocol);
    assert!(!checked.has_errors(), "{:?}", checked.diagnostics);
    checked.models.into_iter().next().unwrap()
}

fn settings(model: &Model, task: usize) -> Vec<String> {
    let shown = |value: &Setting| match value {
        Setting::Number(x) => x.to_string(),
        Setting::Text(t) => t.clone(),
        other => format!("{other:?}"),
    };
    let mut all: Vec<String> =
        model.tasks[task].settings.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
    all.sort();
    all
}

#[test]
fn a_task_wins_over_the_model_and_the_model_over_the_head() {
    let model = model(None);
    assert_eq!(model.tasks[0].protocol, "short");
    assert_eq!(settings(&model, 0), ["control_steps=200", "limit=terminal", "repeat=4", "reward=sum"]);
    // The task's own length replaces the head's, in whichever unit that is.
    assert_eq!(settings(&model, 1), ["length=30", "limit=terminal", "repeat=2", "reward=sum"]);
}

#[test]
fn the_protocol_gives_what_train_leaves_out() {
    let train = model(None).settings;
    assert_eq!((train.eval_every, train.eval_episodes, train.ood_episodes), (50, 5, Some(9)));
    assert_eq!(train.seeds, [1, 2]);
}

#[test]
fn another_protocol_of_the_same_file_can_be_chosen() {
    let model = model(Some("full"));
    assert_eq!((model.tasks.len(), model.tasks[0].protocol.as_str()), (1, "full"));
    assert_eq!(settings(&model, 0), ["control_steps=1000", "limit=terminal"]);
    assert_eq!(model.settings.seeds, [1]);
}

#[test]
fn an_unknown_protocol_is_an_error_with_a_suggestion() {
    let told = check(MODEL, Some("fulll")).diagnostics;
    let [d] = &told[..] else { panic!("{told:?}") };
    assert!(d.message.contains("no protocol `fulll`"), "{d:?}");
    assert!(format!("{d:?}").contains("`full`"), "{d:?}");
}

#[test]
fn an_episode_has_one_length() {
    let told = check(&MODEL.replace("repeat = 2, length = 30", "length = 30, control_steps = 60"), None).diagnostics;
    let [d] = &told[..] else { panic!("{told:?}") };
    assert_eq!(d.code.id(), "E0507");
    assert!(d.message.contains("one length"), "{d:?}");
}
