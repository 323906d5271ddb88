//! `wmc run` and `wmc compile`, as built: on the goldens of HaM-World, and on what can be wrong with what they are given.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// Runs the command in the project's folder.
fn wmc(arguments: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_wmc"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .output()
        .expect("the command runs");
    let ran = Ran {
        code: output.status.code().expect("ended by itself"),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    };
    assert!(!ran.err.contains("panicked"), "{arguments:?}: {}", ran.err);
    ran
}

/// Ends with exit code 2, says all of `words` on standard error and nothing on standard output.
fn refuses(arguments: &[&str], words: &[&str]) {
    let ran = wmc(arguments);
    assert_eq!(ran.code, 2, "{arguments:?}: {}{}", ran.out, ran.err);
    assert!(ran.out.is_empty(), "{arguments:?}: {}", ran.out);
    for word in words {
        assert!(ran.err.contains(word), "{arguments:?}: `{word}` is not in\n{}", ran.err);
    }
}

type Arrays = BTreeMap<String, (Vec<usize>, Vec<f64>)>;

fn load(path: &Path) -> Arrays {
    let bytes = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let numbers = |view: &TensorView<'_>| match view.dtype() {
        Dtype::F64 => view.data().as_chunks::<8>().0.iter().map(|c| f64::from_le_bytes(*c)).collect(),
        Dtype::F32 => view.data().as_chunks::<4>().0.iter().map(|c| f64::from(f32::from_le_bytes(*c))).collect(),
        other => panic!("{other:?}"),
    };
    file.tensors().iter().map(|(name, view)| (name.clone(), (view.shape().to_vec(), numbers(view)))).collect()
}

fn save(path: &Path, arrays: &[(&str, &[usize], &[f64])]) {
    let bytes: Vec<Vec<u8>> = arrays.iter().map(|(_, _, data)| data.iter().flat_map(|x| x.to_le_bytes()).collect()).collect();
    let views = arrays.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
        (*name, TensorView::new(Dtype::F64, shape.to_vec(), bytes).expect("as many numbers as the shape says"))
    });
    fs::write(path, safetensors::serialize(views, None).expect("a file")).expect("written");
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/hamworld_s6").join(name)
}

/// The gradients of the goldens under our names.
fn golden_gradients() -> BTreeMap<String, Vec<f64>> {
    let map = fs::read_to_string(golden("map.json")).expect("map.json");
    let map: BTreeMap<String, serde_json::Value> = serde_json::from_str(&map).expect("map.json");
    let theirs = load(&golden("grads_f64.safetensors"));
    let params = map.iter().filter_map(|(name, place)| Some((name.strip_prefix("param.")?, place)));
    let gradients = params.map(|(path, place)| {
        let (shape, all) =
            &theirs[&format!("grad.{}", place.as_str().unwrap_or_else(|| place["tensor"].as_str().expect("a name")))];
        let rows = place.get("rows").map(|rows| [0, 1].map(|i| rows[i].as_u64().expect("a row") as usize));
        let [from, to] = rows.unwrap_or([0, shape[0]]);
        let row = all.len() / shape[0];
        (format!("grad.{path}"), all[from * row..to * row].to_vec())
    });
    gradients.collect()
}

fn apart(have: &[f64], want: &[f64]) -> f64 {
    assert_eq!(have.len(), want.len());
    let scale = want.iter().fold(0f64, |m, x| m.max(x.abs()));
    have.iter().zip(want).fold(0f64, |m, (a, b)| m.max((a - b).abs())) / scale
}

const SIZES: [&str; 2] = ["--dim", "O=17,A=6"];
const ON_GOLDEN: [&str; 13] = [
    "run",
    "models/hamworld_s6.wm",
    "--entry",
    "train_step",
    "--in",
    "tests/golden/hamworld_s6/inputs_f32.safetensors",
    "--in",
    "tests/golden/hamworld_s6/first.safetensors",
    "--map",
    "tests/golden/hamworld_s6/map.json",
    "--progress",
    "0.65",
    "--json",
];

/// The recipe of docs/guide/run.md.
#[test]
fn the_goldens_through_a_name_map() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("ours.safetensors");
    let mut arguments = ON_GOLDEN.to_vec();
    arguments.extend(SIZES);
    arguments.extend(["--f64", "--grads", "--out", out.to_str().expect("text")]);
    let ran = wmc(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let scalars: BTreeMap<String, f64> = serde_json::from_str(&ran.out).expect("one JSON object");
    let (have, want) = (load(&out), load(&golden("outputs_f64.safetensors")));
    for (ours, theirs) in [("loss.dyn", "loss.dyn"), ("loss.decouple", "loss.dec"), ("objective.main", "loss.total")] {
        assert!(apart(&have[ours].1, &want[theirs].1) < 1e-9, "{ours}");
        assert_eq!(scalars[ours], have[ours].1[0], "{ours}");
    }
    assert!(apart(&have["value.s.Hq"].1, &want["dH_dq"].1) < 1e-9);
    let gradients = load(&golden("grads_f64.safetensors"));
    for (ours, theirs) in [("grad.encoder.0.weight", "grad.enc.0.weight"), ("grad.energy.1.weight", "grad.H.1.weight")] {
        assert_eq!(have[ours].0, gradients[theirs].0, "{ours}");
        assert!(apart(&have[ours].1, &gradients[theirs].1) < 1e-9, "{ours}");
    }
    // The upper rows of one of their matrices are one of ours.
    let (shape, both) = &gradients["grad.mem.0.in_proj"];
    let half = &both[..128 * shape[1]];
    assert!(apart(&have["grad.m.0.v.weight"].1, half) < 1e-9);
}

/// Losses and every gradient through kernels, against the same goldens, in single precision.
#[test]
fn the_goldens_through_kernels() {
    let folder = tempfile::tempdir().expect("a folder");
    let (want, gradients) = (load(&golden("outputs_f64.safetensors")), golden_gradients());
    assert_eq!(gradients.len(), 62, "all parameters of the model");
    for (level, threads) in [("mega", "2"), ("fused", "1")] {
        let out = folder.path().join(level);
        let mut arguments = ON_GOLDEN.to_vec();
        arguments.extend(SIZES);
        arguments.extend(["--level", level, "--threads", threads, "--grads", "--out", out.to_str().expect("text")]);
        let ran = wmc(&arguments);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let have = load(&out);
        for (ours, theirs) in [("loss.dyn", "loss.dyn"), ("loss.decouple", "loss.dec"), ("objective.main", "loss.total")] {
            let d = apart(&have[ours].1, &want[theirs].1);
            assert!(d < 1e-4, "{level} {ours}: {d:e}");
        }
        for (path, want) in &gradients {
            let ours = &have[path].1;
            // Zero by construction: only differences and gradients of the energy are used.
            if path == "grad.energy.2.bias" {
                assert!(ours.iter().all(|g| g.abs() < 1e-5), "{level} {path}: {ours:?}");
                continue;
            }
            let d = apart(ours, want);
            assert!(d < 1e-4, "{level} {path}: {d:e}");
        }
    }
}

/// The same names in and out at every level, and the same complaints.
#[test]
fn levels_take_and_give_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let obs: Vec<f64> = (0..60).map(|i| (i as f64 * 0.7).sin()).collect();
    let (acts, r) = ([0.25; 10], [0.5; 10]);
    let batch = |obs: &[f64]| {
        let data = [("data.obs", &[2, 6, 5][..], obs), ("data.a", &[2, 5, 1], &acts), ("data.r", &[2, 5], &r)];
        save(Path::new(&path("batch")), &data);
    };
    batch(&obs);
    let (input, out) = (path("batch"), path("out"));
    let base = ["run", LEAPFROG, "--dim", "O=5,A=1", "--entry", "train_step", "--in", &input, "--out", &out, "--grads"];
    let run = |more: &[&str]| {
        let ran = wmc(&[&base, more].concat());
        assert_eq!(ran.code, 0, "{more:?}: {}", ran.err);
        load(Path::new(&out))
    };
    let reference = run(&["--level", "reference"]);
    for level in ["eager", "fused", "mega"] {
        let have = run(&["--level", level]);
        assert_eq!(have.keys().collect::<Vec<_>>(), reference.keys().collect::<Vec<_>>(), "{level}");
        for (name, (shape, numbers)) in &have {
            let (want_shape, want) = &reference[name];
            assert_eq!(shape, want_shape, "{level} {name}");
            let largest = want.iter().fold(1e-6f64, |m, x| m.max(x.abs()));
            let off = numbers.iter().zip(want).fold(0f64, |m, (a, b)| m.max((a - b).abs()));
            assert!(off <= 1e-4 * largest, "{level} {name}: {off:e} of {largest:e}");
        }
    }
    refuses(&[&base[..], &["--level", "mega", "--f64"]].concat(), &["single precision", "--level reference"]);
    let mut hole = obs.clone();
    hole[3] = f64::NAN;
    batch(&hole);
    refuses(&[&base[..], &["--level", "mega"]].concat(), &["`data.obs` is not finite", "place 3", "NaN"]);
    assert_eq!(wmc(&[&base[..], &["--level", "mega", "--allow-nan"]].concat()).code, 0);
}

#[test]
fn single_precision_and_a_schedule_by_hand() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("ours.safetensors");
    let mut arguments = ON_GOLDEN[..12].to_vec();
    arguments.extend(SIZES);
    arguments.extend(["--set", "alpha=0.9", "--out", out.to_str().expect("text")]);
    let ran = wmc(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("loss.ham") && ran.out.contains("tensors written to"), "{}", ran.out);
    let bytes = fs::read(&out).expect("a file");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    assert_eq!(file.tensor("loss.dyn").expect("a loss").dtype(), Dtype::F32);
    // Nothing was asked for but losses and the step.
    // Every equation comes out; gradients are asked for.
    let some = |kind: &str| file.names().iter().any(|n| n.starts_with(kind));
    assert!(some("value.") && !some("grad."));
    let want = load(&golden("outputs_f64.safetensors"));
    let have = load(&out);
    assert!(apart(&have["loss.policy"].1, &want["loss.policy"].1) < 1e-4, "alpha does not touch it");
    assert!(apart(&have["loss.dyn"].1, &want["loss.dyn"].1) > 1e-3, "alpha changes it");
}

const LEAPFROG: &str = "dsl/tests/wm/leapfrog.wm";

#[test]
fn entry_points_that_need_no_data() {
    let ran = wmc(&["run", LEAPFROG, "--task", "cartpole-swingup", "--entry", "init", "--seed", "3"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran =
        wmc(&["run", "models/hamworld_s6.wm", "--task", "cheetah-run", "--entry", "schedules", "--progress", "0.65", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let schedules: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert!((schedules["schedule.alpha"].as_f64().expect("a number") - 0.3).abs() < 1e-6, "{schedules}");
}

#[test]
fn what_cannot_be_run() {
    let run = |more: &[&'static str]| [&["run", LEAPFROG, "--dim", "O=5,A=1"], more].concat();
    refuses(&run(&["--entry", "tran_step"]), &["there is no entry point `tran_step`", "did you mean `train_step`?"]);
    refuses(&run(&["--entry", "xyzzy"]), &["there is no entry point", "act, plan, train_step, evaluate"]);
    refuses(&run(&["--entry", "record"]), &["has no record", "it records nothing"]);
    refuses(&run(&["--entry", "init", "--set", "nosuch=1"]), &["there is no schedule or running value `nosuch`"]);
    refuses(&run(&["--entry", "init", "--set", "alpha"]), &["alpha=0.3"]);
    refuses(&run(&["--entry", "init", "--level", "fast"]), &["reference"]);
    refuses(
        &["run", "models/hamworld_s6.wm", "--entry", "init", "--task", "cheetah_run", "--set", "alpah=1"],
        &["did you mean `alpha`?"],
    );
    // Sizes that nobody has given.
    refuses(&["run", LEAPFROG, "--entry", "init"], &["the size of `", "--task"]);
    refuses(&["run", LEAPFROG, "--entry", "init", "--task", "nosuch"], &["nosuch"]);
    refuses(&["run", "models/nosuch.wm", "--entry", "init"], &["models/nosuch.wm"]);
    refuses(&["run", "models/ablations.wm", "--entry", "init", "--dim", "O=5,A=1"], &["several models", "HamWorldA1"]);
}

#[test]
fn files_that_cannot_be_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let with = |more: &[&str]| {
        let base = ["run", LEAPFROG, "--dim", "O=5,A=1", "--entry", "train_step"];
        base.iter().chain(more).map(|s| s.to_string()).collect::<Vec<String>>()
    };
    let refuses = |more: &[&str], words: &[&str]| {
        let arguments = with(more);
        refuses(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), words);
    };
    refuses(&[], &["missing: data.obs", "missing: data.a", "missing: data.r"]);
    refuses(&["--in", &path("nosuch.safetensors")], &["cannot read", "nosuch.safetensors"]);
    refuses(&["--in", folder.path().to_str().expect("text")], &["cannot read"]);
    for (name, bytes) in
        [("empty", &b""[..]), ("text", b"param.energy = 3"), ("huge", &[0xff; 64]), ("cut", &[9, 0, 0, 0, 0, 0, 0, 0, b'{'])]
    {
        fs::write(folder.path().join(name), bytes).expect("written");
        refuses(&["--in", &path(name)], &["is not a safetensors file"]);
    }
    let obs: Vec<f64> = (0..60).map(|i| (i as f64 * 0.7).sin()).collect();
    let batch = |obs: (&[usize], &[f64])| {
        save(
            &folder.path().join("batch"),
            &[("data.obs", obs.0, obs.1), ("data.a", &[2, 5, 1], &[0.25; 10]), ("data.r", &[2, 5], &[0.5; 10])],
        );
    };
    batch((&[2, 6, 4], &obs[..48]));
    refuses(&["--in", &path("batch")], &["misshapen: data.obs has the shape [2, 6, 4] and should have [2, 6, 5]", "wmc show"]);
    let mut hole = obs.clone();
    hole[3] = f64::NAN;
    batch((&[2, 6, 5], &hole));
    refuses(&["--in", &path("batch")], &["`data.obs` is not finite", "place 3", "NaN"]);
    let go_on = with(&["--in", &path("batch"), "--allow-nan", "--json"]);
    let ran = wmc(&go_on.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str::<Value>(&ran.out).expect("JSON, whatever the numbers are");

    batch((&[2, 6, 5], &obs));
    let good = with(&["--in", &path("batch")]);
    assert_eq!(wmc(&good.iter().map(String::as_str).collect::<Vec<_>>()).code, 0);
    refuses(&["--in", &path("batch"), "--out", &path("no/such/folder/x")], &["cannot write"]);
    save(&folder.path().join("more"), &[("param.enregy.0.weight", &[1], &[0.0])]);
    refuses(
        &["--in", &path("batch"), "--in", &path("more")],
        &["unknown: param.enregy.0.weight", "missing: param.energy.0.weight"],
    );

    for (map, words) in [
        ("nonsense", "is not a name map"),
        ("[1]", "is not a name map"),
        (r#"{"data.obs": {"tensor": "data.obs", "row": [0, 1]}}"#, "is not a name map"),
        (r#"{"data.obs": "observations"}"#, "wants `observations` for `data.obs`"),
        (r#"{"data.obs": {"tensor": "data.obs", "rows": [0, 3]}}"#, "cuts 0..3"),
        (r#"{"data.obs": {"tensor": "data.r", "cols": [3, 2]}}"#, "cuts 3..2"),
        (r#"{"data.obs": {"tensor": "data.obs", "transpose": true}}"#, "transposes `data.obs`"),
    ] {
        fs::write(folder.path().join("map.json"), map).expect("written");
        refuses(&["--in", &path("batch"), "--map", &path("map.json")], &[words]);
    }
    refuses(&["--in", &path("batch"), "--map", &path("nosuch.json")], &["cannot read", "nosuch.json"]);
}

/// A map may cut, transpose and shape; what has a name of ours already needs no entry.
#[test]
fn maps_of_tensors() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let out = path("out");
    let run = |input: &str, more: &[&str]| {
        let base = ["run", LEAPFROG, "--dim", "O=5,A=1", "--entry", "train_step", "--f64", "--out", &out, "--in", input];
        let ran = wmc(&base.iter().chain(more).copied().collect::<Vec<_>>());
        assert_eq!(ran.code, 0, "{}", ran.err);
        load(Path::new(&out))
    };
    let obs: Vec<f64> = (0..60).map(|i| (i as f64 * 0.7).sin()).collect();
    let r: Vec<f64> = (0..10).map(|i| i as f64 / 10.0).collect();
    let acts = [0.25; 10];
    save(Path::new(&path("ours")), &[("data.obs", &[2, 6, 5], &obs), ("data.a", &[2, 5, 1], &acts), ("data.r", &[2, 5], &r)]);
    // Rewards as [time, batch], one step too long; observations flat, with a sample in front.
    let turned: Vec<f64> = (0..6).flat_map(|t| [0, 1].map(|b| if t < 5 { r[b * 5 + t] } else { 9.0 })).collect();
    let flat: Vec<f64> = [7.0; 30].iter().chain(&obs).copied().collect();
    save(
        Path::new(&path("theirs")),
        &[("rew", &[6, 2], &turned), ("o", &[3, 30], &flat), ("data.a", &[2, 5, 1], &acts), ("spare", &[1], &[0.0])],
    );
    let map = r#"{
      "data.r": { "tensor": "rew", "rows": [0, 5], "transpose": true },
      "data.obs": { "tensor": "o", "rows": [1, 3], "shape": [2, 6, 5] }
    }"#;
    fs::write(path("map.json"), map).expect("written");
    let (a, b) = (run(&path("ours"), &[]), run(&path("theirs"), &["--map", &path("map.json")]));
    assert_eq!(a, b);
}

#[test]
fn dumps_are_programs() {
    for entry in ["train_step", "plan", "init"] {
        let ran = wmc(&["compile", LEAPFROG, "--task", "cartpole-swingup", "--entry", entry, "--dump", "lower"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let program = compiler::ir::text::parse(&ran.out).unwrap_or_else(|e| panic!("{entry}: {e}"));
        assert_eq!(program.name, entry);
        compiler::ir::verify::verify(&program).unwrap_or_else(|e| panic!("{entry}: {e}"));
        assert!(entry == "init" || ran.out.contains("leapfrog.wm:"), "places in the text");
    }
    let target = compiler::backend::cpu::TARGET;
    for pass in compiler::prepare::names(&target, compiler::kernel::fuse::Level::Mega).into_iter().chain(["prepare"]) {
        let ran = wmc(&["compile", LEAPFROG, "--task", "cartpole-swingup", "--entry", "train_step", "--dump", pass]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let program = compiler::ir::text::parse(&ran.out).unwrap_or_else(|e| panic!("{pass}: {e}"));
        compiler::ir::verify::verify(&program).unwrap_or_else(|e| panic!("{pass}: {e}"));
    }
    for level in ["eager", "fused", "mega"] {
        let dump = ["--entry", "plan", "--dump", "kernels", "--level", level];
        let ran = wmc(&[&["compile", LEAPFROG, "--task", "cartpole-swingup"][..], &dump].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        let program = compiler::kernel::text::parse(&ran.out).unwrap_or_else(|e| panic!("{level}: {e}"));
        compiler::kernel::verify::verify(&program).unwrap_or_else(|e| panic!("{level}: {e}"));
    }
}

#[test]
fn counts_and_what_cannot_be_compiled() {
    let ran = wmc(&["compile", LEAPFROG, "--task", "cartpole-swingup", "--dump", "counts"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for entry in ["act", "plan", "train_step", "evaluate", "init"] {
        assert!(ran.out.contains(&format!("Leapfrog {entry}: ")), "{}", ran.out);
    }
    let compile = |more: &[&'static str]| [&["compile", LEAPFROG, "--dim", "O=5,A=1"], more].concat();
    refuses(&compile(&["--dump", "lowr"]), &["there is no pass `lowr`", "did you mean `lower`?"]);
    refuses(&compile(&["--dump", "xyzzy"]), &["there is no pass `xyzzy`", "the passes are lower", "simplify"]);
    refuses(&compile(&["--entry", "trainstep"]), &["there is no entry point `trainstep`", "train_step"]);
    refuses(&compile(&["--entry", "record"]), &["has no record"]);
    refuses(&["compile", LEAPFROG], &["the size of `"]);
}

/// `grad` of what other equations compute, against the closed forms that `total.wm` states.
#[test]
fn gradients_through_equations() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    // One batch of two segments of four observations with three entries.
    let (batch, steps, width) = (2, 4, 3);
    let obs: Vec<f64> = (0..batch * steps * width).map(|i| (i as f64 * 0.9).sin()).collect();
    save(Path::new(&path("in")), &[("data.obs", &[batch, steps, width], &obs), ("param.gain", &[width], &[0.5, 1.0, -1.5])]);
    let (input, out) = (path("in"), path("out"));
    let ran = wmc(&[
        "run",
        "dsl/tests/wm/total.wm",
        "--dim",
        "O=3,A=1",
        "--entry",
        "train_step",
        "--f64",
        "--in",
        &input,
        "--out",
        &out,
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let have = load(Path::new(&out));

    let x = |b: usize, t: usize| -> Vec<f64> {
        obs[(b * steps + t) * width..][..width].iter().zip([0.5, 1.0, -1.5]).map(|(o, g)| o * g).collect()
    };
    let w = |b, t| x(b, t).iter().map(|v| v * v).sum::<f64>();
    let h = |b, t: usize| (0..=t).fold(0.0, |h: f64, s| (0.5 * h + w(b, s)).tanh());
    let now = |b, t| x(b, t).iter().map(|v| 2.0 * v * w(b, t + 1)).collect::<Vec<f64>>();
    let check = |name: &str, steps: usize, want: &dyn Fn(usize, usize) -> Vec<f64>| {
        let want: Vec<f64> = (0..batch).flat_map(|b| (0..steps).flat_map(move |t| want(b, t))).collect();
        let (shape, have) = &have[&format!("value.{name}")];
        assert_eq!(shape[..2], [batch, steps], "{name}");
        assert!(apart(have, &want) < 1e-12, "{name}: {have:?} should be {want:?}");
    };
    check("now", 3, &now);
    check("then", 3, &|b, t| x(b, t + 1).iter().map(|v| 2.0 * v * w(b, t)).collect());
    check("last", 4, &|b, t| x(b, t).iter().map(|v| 2.0 * v * (1.0 - h(b, t).powi(2))).collect());
    check("curve", 3, &|b, t| {
        let sum: f64 = x(b, t).iter().sum();
        x(b, t + 1).iter().map(|v| 4.0 * v * sum).collect()
    });
    check("step", 3, &|b, t| vec![0.5 * (1.0 - h(b, t + 1).powi(2))]);
    check("both", 4, &|b, t| x(b, t).iter().map(|v| 3.0 * v * v + 4.0 * v * w(b, t)).collect());
    let u = have["value.u"].1.clone();
    let u = |b: usize, t: usize| &u[(b * steps + t) * width..][..width];
    check("drawn", 4, &|b, t| u(b, t).iter().map(|v| 2.0 * v).collect());
    check("sums", 3, &|b, t| vec![(0..=t).flat_map(|s| now(b, s)).sum()]);
}

/// A planner that climbs its score by the gradient, against the same climb by hand.
#[test]
fn a_planner_by_gradients() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let (input, out) = (path("in"), path("out"));
    let (obs, gain, start) = ([0.8, -0.3], [0.9, 0.7], [[0.1, 0.2], [0.3, -0.4], [-0.5, 0.6], [0.7, 0.2]]);
    save(
        Path::new(&input),
        &[("data.obs", &[1, 2], &obs), ("param.gain", &[2], &gain), ("carry.plan.last", &[1, 4, 2], start.as_flattened())],
    );
    let ran = wmc(&["run", "dsl/tests/wm/ascent.wm", "--dim", "A=2", "--entry", "plan", "--f64", "--in", &input, "--out", &out]);
    assert_eq!(ran.code, 0, "{}", ran.err);

    // One dimension at a time, for the gain is diagonal; the plan starts a step on.
    let climbed = |d: usize| {
        let mut u = [start[1][d], start[2][d], start[3][d], 0.0];
        for _ in 0..3 {
            let mut y = [obs[d]; 5];
            for k in 0..4 {
                y[k + 1] = gain[d] * (y[k] + 0.5 * u[k]);
            }
            let (mut back, mut slope) = (0.0, [0.0; 4]);
            for k in (0..4).rev() {
                back = gain[d] * (back - 2.0 * y[k + 1]);
                slope[k] = 0.5 * back;
            }
            u = std::array::from_fn(|k| (u[k] + 0.2 * slope[k]).clamp(-1.0, 1.0));
        }
        u[0]
    };
    let have = &load(Path::new(&out))["action"].1;
    assert!(apart(have, &[climbed(0), climbed(1)]) < 1e-12, "{have:?} should be {:?}", [climbed(0), climbed(1)]);
}
