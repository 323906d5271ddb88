//! Models that are too large are refused with a code before anything is allocated.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::Command;

use serde_json::Value;

const TINY: &str = "model Tiny {
  input  obs: [O], r: [], first: bool
  action a: [A] in -1..1
  dim S = 4, X = 10
  latent z { s: [S] }
  net encoder(obs) -> z   = mlp([8], silu)
  net decoder(z)   -> [O] = mlp([8], silu)
  net move(z, a)   -> [S] = mlp([8], silu)
  source replay(capacity = 1000) over [B = 4, T = 4]
  z[t]    = encoder(obs[t])
  pred[t] = z[t] { s = z[t].s + move(z[t], a[t]) }
  o[t]    = sum(sin(iota(X) * sum(obs[t])))
  loss recon 1.0 = sq(decoder(z[t]) - obs[t] + o[t])
  loss dyn   1.0 = sq(pred[t] - sg(z[t+1]))
  metric err = sq(pred[t] - z[t+1])
  act {
    train = 2 * uniform([A]) - 1
    eval  = zeros([A])
  }
  optimizer main = adam(lr = 1e-3, clip = 10) on all
  train { steps = 60, seed_steps = 20, every = 1, updates = 1, eval_every = 30, eval_episodes = 1, seeds = [1] }
  tasks first { pendulum_swingup(O = 3, A = 1, repeat = 2, length = 20) }
}
";

/// Runs the command in a folder with a model, with 3 GB of address space: exit code, standard output and standard error. What
/// allocated more would end with a signal.
fn wmc(text: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("tiny.wm"), text).expect("a model");
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 3000000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_wmc")])
        .args(arguments)
        .env("WMC_CACHE", "")
        .current_dir(folder.path())
        .output()
        .expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn refused(text: &str, arguments: &[&str], words: &[&str]) {
    let (code, _, err) = wmc(text, arguments);
    assert_eq!(code, Some(2), "{arguments:?}: {err}");
    for word in words {
        assert!(err.contains(word), "{arguments:?}: no `{word}` in\n{err}");
    }
}

#[test]
fn sizes_and_counts_that_overflow_are_refused() {
    for size in ["3000000000", "9223372036854775807", "18446744073709551615"] {
        for command in ["check", "train", "explain"] {
            refused(
                TINY,
                &[command, "tiny.wm", "--dim", &format!("S={size}")],
                &["E0703", "`S` would have the size", "tiny.wm:4"],
            );
        }
    }
    refused(TINY, &["check", "tiny.wm", "--dim", "X=100000000000"], &["E0703", "tiny.wm:4"]);
    refused(
        &TINY.replace("mlp([8]", "mlp([2_000_000_000, 2_000_000_000]"),
        &["check", "tiny.wm"],
        &["E0701", "encoder.1.weight"],
    );
    refused(&TINY.replace("eval_episodes = 1", "eval_episodes = 4_000_000_000"), &["check", "tiny.wm"], &["E0702", "10,000"]);
    refused(TINY, &["train", "tiny.wm", "--set", "eval_episodes=4000000000"], &["E0702", "10000"]);
    for threads in ["0", "100000", "18446744073709551615"] {
        refused(TINY, &["train", "tiny.wm", "--threads", threads], &["E0702", "1 to 1024"]);
    }
}

/// A name in `--dim` that no dim has is refused by every command that takes the option.
#[test]
fn sizes_of_dims_that_do_not_exist_are_refused() {
    for command in [
        &["check", "tiny.wm"][..],
        &["show", "tiny.wm"],
        &["explain", "tiny.wm"],
        &["compile", "tiny.wm"],
        &["train", "tiny.wm", "--quiet"],
        &["run", "tiny.wm", "--entry", "init"],
        &["bench", "tiny.wm"],
    ] {
        let task: &[&str] = if command[0] == "check" { &[] } else { &["--task", "pendulum-swingup"] };
        refused(TINY, &[command, task, &["--dim", "s=4"]].concat(), &["E0513", "there is no dim `s`", "did you mean `S`?"]);
    }
}

#[test]
fn models_that_do_not_fit_are_refused_and_their_largest_arrays_named() {
    let task = ["--task", "pendulum-swingup"];
    for command in
        [&["train", "tiny.wm", "--quiet"][..], &["explain", "tiny.wm", "--entry", "train_step"], &["compile", "tiny.wm"]]
    {
        let large = [command, &task, &["--dim", "S=1000000000"]].concat();
        refused(TINY, &large, &["E0701", "limit", "weight", "tiny.wm:"]);
        // The limit is what the option says, for a model that fits the machine.
        let limited = [command, &task, &["--dim", "S=1000", "--max-memory", "1MB"]].concat();
        refused(TINY, &limited, &["E0701", "the limit is 1.00 MB", "weight", "tiny.wm:"]);
    }
    // Numbers that are known when compiling are arrays, too.
    refused(
        TINY,
        &[&["explain", "tiny.wm", "--entry", "train_step", "--dim", "X=1000000000"][..], &task].concat(),
        &["E0701", "numbers"],
    );
    let ranged = TINY.replace("sum(sin(iota(X) * sum(obs[t])))", "sum k in 0..1000000000 { sin(sum(obs[t]) * k) }");
    refused(&ranged, &[&["explain", "tiny.wm", "--entry", "train_step"][..], &task].concat(), &["E0701"]);
    refused(
        &TINY.replace("1000)", "1_000_000_000_000)"),
        &[&["train", "tiny.wm", "--quiet"][..], &task].concat(),
        &["E0701", "replay"],
    );
}

/// The train step of the model with this size, as `explain` tells it.
fn explained(size: u64) -> Value {
    let dim = format!("S={size}");
    let arguments = ["explain", "tiny.wm", "--task", "pendulum-swingup", "--dim", &dim, "--json", "--entry", "train_step"];
    let (code, out, err) = wmc(TINY, &arguments);
    assert_eq!(code, Some(if size > 1_000_000 { 2 } else { 0 }), "{err}");
    serde_json::from_str::<Value>(&out).expect("JSON")["entries"][0].clone()
}

#[test]
fn explain_and_show_tell_the_bytes_of_what_does_not_fit() {
    let [small, large] = [100_000, 500_000_000].map(explained);
    let bytes = |entry: &Value| entry["memory"].as_f64().expect("bytes");
    // Weights of 8 by S: encoder, decoder and move, each with two moments, before and after.
    assert!(bytes(&large) > 3.0 * 6.0 * 8.0 * 500e6 * 4.0, "{}", bytes(&large));
    let ratio = bytes(&large) / bytes(&small) / 5000.0;
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
    assert!(large["largest"][0]["bytes"].as_f64().is_some_and(|n| n >= 4.0 * 8.0 * 500e6), "{}", large["largest"]);

    let (code, out, err) = wmc(TINY, &["show", "tiny.wm", "--task", "pendulum-swingup", "--dim", "S=500000000", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let points = document["models"][0]["entry_points"].as_array().expect("entry points").clone();
    let step = points.iter().find(|e| e["name"] == "train_step").expect("a train step");
    assert_eq!(step["memory"], large["memory"]);
    assert!(step["flops"].as_u64().is_some_and(|n| n > 1_000_000_000), "{step}");
}
