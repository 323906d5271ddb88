//! Small models for the tests of the loop.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::Path;

use wmc_runtime::train::Config;

pub(crate) const STARTER: &str = include_str!("../../../src/starter.wm");

/// The starter model at sizes for a test.
pub(crate) fn starter() -> Config {
    let dims = [("S", 4), ("H", 3), ("B", 4), ("T", 4)];
    config(STARTER, "pendulum_swingup", &dims, &[("seed_steps", "20"), ("steps", "80"), ("length", "15"), ("eval_every", "40")])
}

/// PPO with short rollouts.
pub(crate) fn ppo() -> Config {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
    let text = std::fs::read_to_string(folder.join("ppo.wm")).unwrap();
    let text = text.replace("2048", "32").replace("rows = 64", "rows = 8").replace("[64, 64]", "[8]");
    config(&text, "cartpole_swingup", &[], &[("steps", "100"), ("length", "15"), ("eval_every", "60")])
}

pub(crate) fn checked(text: &str, task: &str, dims: &[(&str, u64)]) -> dsl::Checked {
    let mut folders = dsl::folders::Folders::default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
    folders.add(&folder, "models").unwrap();
    let dims = dims.iter().map(|(n, s)| (n.to_string(), *s)).collect();
    dsl::check("test.wm", text, &folders, &dsl::Options { dims, task: Some(task.into()), ..dsl::Options::default() })
}

pub(crate) fn config(text: &str, task: &str, dims: &[(&str, u64)], set: &[(&str, &str)]) -> Config {
    let mut checked = checked(text, task, dims);
    assert!(!checked.has_errors(), "{:?}", checked.diagnostics);
    let mut config = Config::new(checked.models.remove(0), task, 7).unwrap();
    config.compute.threads = 2;
    for (name, value) in set {
        config.set(name, value).unwrap();
    }
    config
}
