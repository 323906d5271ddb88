//! Nothing is lost: metrics that are not finite, the best checkpoint, damaged logs, poisoned updates, runs of earlier versions.

mod command;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use command::{ends, refuses, text, wmc};

/// A small model with a metric of the test's own, and a loss.
fn model(metric: &str, loss: &str) -> String {
    format!(
        "model Tiny {{
  input  obs: [O], r: [], first: bool
  action a: [A] in -1..1
  dim S = 4
  latent z {{ s: [S] }}
  net encoder(obs) -> z   = mlp([8], silu)
  net decoder(z)   -> [O] = mlp([8], silu)
  net move(z, a)   -> [S] = mlp([8], silu)
  source replay(capacity = 1000) over [B = 4, T = 4]
  z[t]    = encoder(obs[t])
  pred[t] = z[t] {{ s = z[t].s + move(z[t], a[t]) }}
  loss recon 1.0 = sq(decoder(z[t]) - obs[t])
  loss dyn   1.0 = {loss}
  metric err = {metric}
  act {{
    train = 2 * uniform([A]) - 1
    eval  = zeros([A])
  }}
  optimizer main = adam(lr = 1e-3, clip = 10) on all
  train {{ steps = 60, seed_steps = 20, every = 1, updates = 1, eval_every = 20, eval_episodes = 1, seeds = [1] }}
  tasks first {{ pendulum_swingup(O = 3, A = 1, repeat = 2, length = 20) }}
}}
"
    )
}

const METRIC: &str = "sq(pred[t] - z[t+1])";
const LOSS: &str = "sq(pred[t] - sg(z[t+1]))";

struct Tiny {
    folder: tempfile::TempDir,
}

impl Tiny {
    fn new(metric: &str, loss: &str) -> Tiny {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tiny.wm"), model(metric, loss)).unwrap();
        Tiny { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn train(&self, more: &[&str]) -> Command {
        let mut command = wmc(&["train", "--quiet"]);
        command.arg(self.path("tiny.wm")).arg("--out").arg(self.path("run")).args(more);
        command
    }

    fn resume(&self, more: &[&str]) -> Command {
        let mut command = wmc(&["train", "--quiet"]);
        command.args(more).arg("--resume").arg(self.path("run"));
        command
    }

    fn uses(&self, name: &str) -> Command {
        let mut command = wmc(&[name]);
        command.arg(self.path("run"));
        command
    }

    /// Draws and reports the run; gives the steps of its evaluations.
    fn shown(&self) -> Vec<u64> {
        ends(self.uses("plot").arg("-o").arg(self.path("curve.svg")), 0);
        let drawn = fs::read_to_string(self.path("curve.svg")).unwrap();
        assert!(drawn.contains("<svg") && !drawn.contains("NaN"), "{drawn}");
        ends(self.uses("report").arg("--markdown").arg(self.path("report.md")), 0);
        let kept = fs::read_to_string(self.path("report/results.json")).unwrap();
        let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
        kept[0]["evaluations"].as_array().unwrap().iter().map(|e| e["step"].as_u64().unwrap()).collect()
    }

    fn checkpoints(&self) -> Vec<u64> {
        let entries = fs::read_dir(self.path("run/checkpoints")).unwrap().flatten();
        let mut all: Vec<u64> = entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
        all.sort_unstable();
        all
    }

    fn manifest(&self, step: u64) -> serde_json::Value {
        let path = self.path("run/checkpoints").join(format!("{step:012}")).join("manifest.json");
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }
}

#[test]
fn a_metric_that_is_not_finite_is_kept_in_every_file() {
    for (metric, written) in [("log(0 - 1 - sq(obs[t]))", "NaN"), ("exp(1000 + sq(obs[t]))", "inf")] {
        let tiny = Tiny::new(metric, LOSS);
        ends(&mut tiny.train(&[]), 0);
        assert_eq!(tiny.manifest(60)["counters"]["evaluations"][0]["metrics"][0][1][0], written);
        let log = fs::read_to_string(tiny.path("run/log.jsonl")).unwrap();
        assert!(log.contains(&format!("[[\"err\",[\"{written}\"]]]")) && !log.contains("null"), "{log}");
        assert_eq!(tiny.shown(), [20, 40, 60]);
        let report = fs::read_to_string(tiny.path("report/results.json")).unwrap();
        assert!(report.contains(&format!("\"err\": \"{written}\"")), "{report}");
        ends(&mut tiny.uses("eval"), 0);
        let told = text(&ends(tiny.uses("rollout").arg("--json"), 0).stdout);
        assert!(told.contains(&format!("\"err\":[\"{written}\"]")), "{told}");
        ends(&mut tiny.resume(&["--set", "steps=100"]), 0);
        assert_eq!(tiny.shown(), [20, 40, 60, 80, 100]);
    }
}

#[test]
fn the_best_checkpoint_is_kept_and_can_be_used() {
    let tiny = Tiny::new(METRIC, LOSS);
    ends(&mut tiny.train(&["--set", "steps=120", "--keep", "1"]), 0);
    let evaluations = tiny.manifest(120)["counters"]["evaluations"].as_array().unwrap().clone();
    let gained = |e: &&serde_json::Value| e["returns"][0].as_f64().unwrap();
    let best = evaluations.iter().max_by(|a, b| gained(a).total_cmp(&gained(b))).unwrap()["step"].as_u64().unwrap();
    assert!(best < 120, "choose another seed: the last one is the best");
    assert_eq!(tiny.checkpoints(), [best, 120]);
    assert_eq!(fs::read_to_string(tiny.path("run/checkpoints/best")).unwrap(), format!("{best:012}\n"));
    let step = |path: &str| {
        let told = text(&ends(wmc(&["eval", "--json"]).arg(tiny.path(path)), 0).stdout);
        serde_json::from_str::<serde_json::Value>(&told).unwrap()["step"].as_u64().unwrap()
    };
    assert_eq!((step("run"), step("run/checkpoints/best")), (120, best));
    assert_eq!(step(&format!("run/checkpoints/{best:012}")), best);
    refuses(wmc(&["eval"]).arg(tiny.path("run/checkpoints/000000000007")), &["000000000007"]);
    refuses(&mut tiny.resume(&["--keep", "0"]), &["--keep"]);
    refuses(wmc(&["train", "--resume"]).arg(tiny.path("run/checkpoints/best")), &["newest checkpoint"]);
}

/// The lines of a log without their times.
fn log(run: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(run.join("log.jsonl")).unwrap();
    let mut lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter_mut().filter_map(|line| line.as_object_mut()).for_each(|line| _ = line.remove("seconds"));
    lines
}

/// Stops in the middle of the 100 decisions that a line of losses stands for.
#[test]
fn an_interrupted_run_ends_with_the_same_log() {
    let (alone, stopped) = (Tiny::new(METRIC, LOSS), Tiny::new(METRIC, LOSS));
    let set = ["--set", "steps=220"];
    ends(&mut alone.train(&set), 0);
    ends(stopped.train(&set).args(["--until", "37"]), 0);
    for until in ["53", "100", "171", "220"] {
        ends(&mut stopped.resume(&["--until", until]), 0);
    }
    assert!(log(&alone.path("run")).iter().filter(|line| line["kind"] == "losses").count() == 2);
    assert_eq!(log(&alone.path("run")), log(&stopped.path("run")));
}

#[test]
fn a_damaged_log_breaks_neither_plot_nor_report() {
    type Damage = (&'static str, fn(&Path));
    let damage: [Damage; 5] = [
        ("deleted", |path| fs::remove_file(path).unwrap()),
        ("cut", |path| fs::write(path, &fs::read(path).unwrap()[..200]).unwrap()),
        ("zeros", |path| fs::write(path, vec![0; 5000]).unwrap()),
        ("null", |path| fs::write(path, fs::read_to_string(path).unwrap().replace("[[\"err\",[", "[[null,[")).unwrap()),
        ("another return", |path| {
            let edited: Vec<String> =
                fs::read_to_string(path).unwrap().lines().map(|l| l.replace("\"returns\":[", "\"returns\":[7,")).collect();
            fs::write(path, edited.join("\n") + "\n").unwrap();
        }),
    ];
    let tiny = Tiny::new(METRIC, LOSS);
    ends(&mut tiny.train(&[]), 0);
    let path = tiny.path("run/log.jsonl");
    let whole = fs::read(&path).unwrap();
    let evaluations =
        |lines: &[serde_json::Value]| lines.iter().filter(|l| l["kind"] == "evaluation").cloned().collect::<Vec<_>>();
    let before = evaluations(&log(&tiny.path("run")));
    for (what, damage) in damage {
        fs::write(&path, &whole).unwrap();
        damage(&path);
        assert_eq!(tiny.shown(), [20, 40, 60], "{what}");
        let told = text(&ends(tiny.uses("plot").arg("-o").arg(tiny.path("curve.svg")), 0).stderr);
        assert!(told.contains("lost or edited"), "{what}: {told}");
        let told = text(&ends(&mut tiny.resume(&[]), 0).stderr);
        assert!(told.contains("cut off or edited"), "{what}: {told}");
        assert_eq!(evaluations(&log(&tiny.path("run"))), before, "{what}");
        assert_eq!(tiny.shown(), [20, 40, 60], "{what}");
    }
}

#[test]
fn run_json_has_an_identity_and_a_list_of_starts() {
    let tiny = Tiny::new(METRIC, LOSS);
    ends(&mut tiny.train(&["--until", "30", "--threads", "1"]), 0);
    ends(&mut tiny.resume(&["--set", "steps=50", "--threads", "2"]), 0);
    let path = tiny.path("run/run.json");
    let json = fs::read_to_string(&path).unwrap();
    let record: serde_json::Value = serde_json::from_str(&json).unwrap();
    let identity = &record["identity"];
    assert_eq!((identity["model"].as_str(), identity["seed"].as_u64()), (Some("Tiny"), Some(1)));
    assert_eq!(identity["set"], serde_json::json!([["steps", "50"]]));
    let starts = record["starts"].as_array().unwrap();
    assert_eq!(starts.iter().map(|s| s["threads"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    for start in starts {
        assert!(start["date"].as_str().unwrap().ends_with('Z') && start["device"] == "cpu", "{start}");
        assert!(
            start["command"].as_str().unwrap().contains(" train ") && start["version"] == env!("CARGO_PKG_VERSION"),
            "{start}"
        );
        assert!(!start["commit"].as_str().unwrap().is_empty() && !start["host"].as_str().unwrap().is_empty(), "{start}");
    }
    // Starts are not fingerprinted, the identity is.
    fs::write(&path, json.replace("\"threads\": 1", "\"threads\": 64")).unwrap();
    ends(&mut tiny.uses("eval"), 0);
    for (from, to) in [("\"seed\": 1", "\"seed\": 2"), ("\"50\"", "\"60\""), ("pendulum_swingup", "cartpole_swingup")] {
        assert!(json.contains(from), "{json}");
        fs::write(&path, json.replace(from, to)).unwrap();
        refuses(&mut tiny.uses("eval"), &["run.json was edited"]);
        refuses(&mut tiny.resume(&[]), &["run.json was edited"]);
    }
    // A later version's.
    fs::write(&path, json.replace("\"format\": 2", "\"format\": 3").replace(env!("CARGO_PKG_VERSION"), "7.5.0")).unwrap();
    refuses(&mut tiny.uses("eval"), &["wmc 7.5.0 wrote it", "format is 3"]);
    // A file that is not in its folder.
    let old = r#"{"format": 1, "file": "../../tiny.wm", "model": "Tiny", "task": "pendulum_swingup", "dims": [], "set": [], "seed": 1}"#;
    fs::write(&path, old).unwrap();
    refuses(&mut tiny.uses("eval"), &["no name of a file"]);
}

#[test]
#[cfg(unix)]
fn links_inside_a_run_folder_are_not_followed() {
    let tiny = Tiny::new(METRIC, LOSS);
    ends(&mut tiny.train(&[]), 0);
    let mine = tiny.path("mine");
    let places = ["lock", "log.jsonl", "curve.svg", "run.json", "label.json", "model/tiny.wm", "checkpoints/best"];
    for place in places.into_iter().chain(["checkpoints/000000000060/manifest.json", "checkpoints/000000000080"]) {
        let path = tiny.path("run").join(place);
        let kept = fs::read(&path).ok();
        fs::write(&mine, kept.as_deref().unwrap_or(b"mine")).unwrap();
        let before = fs::read(&mine).unwrap();
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink(&mine, &path).unwrap();
        for command in [&mut tiny.resume(&["--set", "steps=80"]), &mut tiny.uses("eval"), &mut tiny.uses("report")] {
            refuses(command, &[place, "this is a link"]);
        }
        assert!(fs::read(&mine).unwrap() == before, "{place} was followed");
        fs::remove_file(&path).unwrap();
        kept.into_iter().for_each(|bytes| fs::write(&path, bytes).unwrap());
    }
    ends(&mut tiny.resume(&["--set", "steps=80"]), 0);
}

/// `tests/old_runs/0.1.0-format1` was written by commit 83e8418: `run` ended at step 60, `nan` has a metric that is NaN.
#[test]
fn runs_of_the_version_before_are_used_and_resumed() {
    for name in ["run", "nan"] {
        let folder = tempfile::tempdir().unwrap();
        let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old_runs/0.1.0-format1").join(name);
        assert!(Command::new("cp").arg("-r").arg(&old).arg(folder.path().join("run")).status().unwrap().success());
        let tiny = Tiny { folder };
        ends(&mut tiny.uses("eval"), 0);
        let before = tiny.shown().len();
        let told = text(&ends(wmc(&["train", "--set", "steps=100", "--resume"]).arg(tiny.path("run")), 0).stderr);
        assert!(told.contains("going on from step 60"), "{told}");
        assert_eq!(tiny.checkpoints().last(), Some(&100));
        assert!(tiny.shown().len() > before);
        let record: serde_json::Value = serde_json::from_slice(&fs::read(tiny.path("run/run.json")).unwrap()).unwrap();
        assert_eq!((record["format"].as_u64(), record["starts"].as_array().unwrap().len()), (Some(2), 1));
    }
}

/// `sqrt` has no derivative at 0: the loss is finite, its gradient is not.
#[test]
fn the_update_that_makes_a_number_that_is_not_finite_stops_the_run() {
    let tiny = Tiny::new(METRIC, "sq(pred[t] - sg(z[t+1])) + sqrt(sq(z[t].s - z[t].s))");
    let line = model(METRIC, "sqrt(").lines().position(|l| l.contains("sqrt(")).unwrap() + 1;
    let place = format!("tiny.wm:{line}:");
    // The first update, at step 21, is the one at fault; there is a checkpoint of every step before it.
    refuses(&mut tiny.train(&["--save-every", "1"]), &["at update 0", "sqrt", &place]);
    assert_eq!(tiny.checkpoints().last(), Some(&20));
    ends(&mut tiny.uses("eval"), 0);
    let told = text(&ends(&mut tiny.resume(&[]), 2).stderr);
    assert!(told.contains("at update 0") && told.contains(&place), "{told}");
    // A learning rate that is infinite at the end.
    let tiny = Tiny::new(METRIC, LOSS);
    let edited = fs::read_to_string(tiny.path("tiny.wm")).unwrap().replace("lr = 1e-3", "lr = rate");
    fs::write(
        tiny.path("tiny.wm"),
        edited.replace("  act {", "  schedule rate = 1 / (1 - progress) - 1e30 * max(0, progress - 2)\n  act {"),
    )
    .unwrap();
    let told = text(&ends(&mut tiny.train(&["--save-every", "1"]), 2).stderr);
    assert!(told.contains("param."), "{told}");
    ends(&mut tiny.uses("eval"), 0);
}

/// A metric is for people: it does not stop a model that learns from rollouts, whose metrics are in the update.
#[test]
fn a_metric_of_a_rollout_may_be_nan() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string("models/ppo.wm").unwrap();
    let (head, tail) = text.split_once("  loss policy").unwrap();
    let head = head.replace("rows = 64", "rows = 16").replace(
        "steps = 2048, epochs = 10, minibatch = rows) over [T = 2048]",
        "steps = 64, epochs = 1, minibatch = rows) over [T = 64]",
    );
    fs::write(
        folder.path().join("tiny.wm"),
        format!("{head}  metric odd = log(0 - 1 - sq(obs[t])) for t in 0..T\n  loss policy{tail}"),
    )
    .unwrap();
    let tiny = Tiny { folder };
    let set = ["--root", "models", "--set", "steps=200", "--set", "eval_every=200", "--set", "length=30"];
    ends(&mut tiny.train(&set), 0);
    let log = fs::read_to_string(tiny.path("run/log.jsonl")).unwrap();
    assert!(log.contains("[\"metric.odd\",\"NaN\"]"), "{log}");
}

/// A training under `strace`. None, said aloud, where processes may not be traced.
#[cfg(target_os = "linux")]
fn traced(tiny: &Tiny, options: &[&str]) -> Option<String> {
    let trace = tiny.path("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-o"]).arg(&trace).args(options);
    let may = Command::new("strace").args(["-o", "/dev/null", "true"]).output().is_ok_and(|o| o.status.success());
    if !may {
        eprintln!("SKIPPED, strace cannot trace here; the trace of the file layer is tested in any case");
        return None;
    }
    let train = tiny.train(&["--set", "steps=20"]);
    command.arg(train.get_program()).args(train.get_args()).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.output().unwrap();
    Some(fs::read_to_string(trace).unwrap())
}

/// What the system saw: files are written and synced, then renamed, then their folder is synced.
#[test]
#[cfg(target_os = "linux")]
fn the_system_sees_write_sync_rename_and_sync_of_the_folder() {
    let tiny = Tiny::new(METRIC, LOSS);
    let Some(trace) = traced(&tiny, &["-e", "trace=openat,write,fsync,rename"]) else { return };
    // The file of each descriptor at that moment, and the calls in order.
    let mut open = std::collections::HashMap::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let call = line.split_once(' ').map_or("", |(_, call)| call.trim_start());
        let (name, arguments) = call.split_once('(').unwrap_or((call, ""));
        let texts: Vec<&str> = arguments.split('"').skip(1).step_by(2).collect();
        let number = || arguments.split([',', ')']).next().unwrap_or_default().to_string();
        match name {
            "openat" => _ = open.insert(call.rsplit("= ").next().unwrap_or_default().to_string(), texts[0].to_string()),
            "rename" => calls.push(format!("rename {} {}", texts[0], texts[1])),
            "write" | "fsync" => calls.extend(open.get(&number()).map(|path| format!("{name} {path}"))),
            _ => {}
        }
    }
    let at = |call: &str| calls.iter().position(|c| c.starts_with(call)).unwrap_or_else(|| panic!("no `{call}` in\n{calls:#?}"));
    let folder = tiny.path("run/checkpoints").display().to_string();
    let draft = calls[at(&format!("rename {folder}/.draft-"))].split(' ').nth(1).unwrap().to_string();
    let renamed = at(&format!("rename {draft} {folder}/000000000020"));
    for file in ["manifest.json", "learnt.safetensors", "world.safetensors", "SHA256SUMS"] {
        let (written, synced) = (at(&format!("write {draft}/{file}")), at(&format!("fsync {draft}/{file}")));
        assert!(written < synced && synced < renamed, "{calls:#?}");
    }
    assert_eq!(calls[renamed - 1], format!("fsync {draft}"));
    assert_eq!(calls[renamed + 1], format!("fsync {folder}"));
    let (written, noted) = (at(&format!("write {draft}-best")), at(&format!("rename {draft}-best {folder}/best")));
    let order = [format!("fsync {draft}-best"), calls[noted].clone(), format!("fsync {folder}")];
    assert!(renamed < written && calls[noted - 1..=noted + 1] == order, "{calls:#?}");
}

/// Kills the process at each of its renames in turn: `run.json`, the curve, the checkpoint, the note of the best one.
#[test]
#[cfg(target_os = "linux")]
fn a_kill_at_any_rename_loses_nothing() {
    let alone = Tiny::new(METRIC, LOSS);
    ends(&mut alone.train(&["--set", "steps=20"]), 0);
    let best = |tiny: &Tiny| fs::read_to_string(tiny.path("run/checkpoints/best")).unwrap();
    let learnt = |tiny: &Tiny| fs::read(tiny.path("run/checkpoints/000000000020/learnt.safetensors")).unwrap();
    let mut at_note = 0;
    for n in 1.. {
        let tiny = Tiny::new(METRIC, LOSS);
        let inject = format!("inject=rename:signal=SIGKILL:when={n}");
        let Some(trace) = traced(&tiny, &["-e", "trace=rename", "-e", &inject]) else { return };
        if !trace.contains("+++ killed by SIGKILL +++") {
            assert!(n > 4, "only {} renames", n - 1);
            break;
        }
        at_note += usize::from(trace.lines().rfind(|l| l.contains("rename(")).is_some_and(|l| l.contains("-best\"")));
        match tiny.path("run/run.json").exists() {
            true => ends(&mut tiny.resume(&[]), 0),
            false => {
                fs::remove_dir_all(tiny.path("run")).unwrap();
                ends(&mut tiny.train(&["--set", "steps=20"]), 0)
            }
        };
        assert_eq!((best(&tiny), tiny.checkpoints()), (best(&alone), alone.checkpoints()), "kill at rename {n}");
        assert!(learnt(&tiny) == learnt(&alone), "kill at rename {n}");
        assert_eq!(log(&tiny.path("run")), log(&alone.path("run")), "kill at rename {n}");
    }
    assert_eq!(at_note, 1, "no kill while `best` was written");
}

/// A gradient whose norm overflows would be clipped to nothing, in silence.
#[test]
fn a_norm_that_overflows_stops_the_run() {
    let tiny = Tiny::new(METRIC, "1e22 * mean(decoder(z[t]))");
    let told = text(&ends(&mut tiny.train(&[]), 2).stderr);
    assert!(told.contains("`norm.main` is not finite (inf) at update 0"), "{told}");
}

/// The signal of the limit would end the process with code 153 and nothing said.
#[test]
#[cfg(unix)]
fn a_limit_of_file_sizes_is_an_error_and_the_run_goes_on_later() {
    let tiny = Tiny::new(METRIC, LOSS);
    ends(&mut tiny.train(&["--until", "20"]), 0);
    let limited = |blocks: u32| {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_wmc")]);
        shell.args(["train", "--quiet", "--resume"]).arg(tiny.path("run"));
        shell
    };
    refuses(&mut limited(1), &["File too large"]);
    assert_eq!(tiny.checkpoints().last(), Some(&20));
    ends(&mut tiny.resume(&[]), 0);
    let whole = Tiny::new(METRIC, LOSS);
    ends(&mut whole.train(&[]), 0);
    let last = |tiny: &Tiny| fs::read(tiny.path("run/checkpoints/000000000060/learnt.safetensors")).unwrap();
    assert!(last(&tiny) == last(&whole));
}
