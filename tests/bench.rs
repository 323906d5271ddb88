//! `wmc bench`: the lines of a worker, numbers against the goldens, and the document.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::Value;

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn golden(name: &str) -> PathBuf {
    project().join("tests/golden/hamworld_s6").join(name)
}

fn wmc(arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_wmc"))
        .args(arguments)
        .current_dir(project())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The lines of a worker that answered.
fn lines(arguments: &[&str], stdin: &str) -> Vec<Value> {
    let output = wmc(arguments, stdin);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// A golden file's numbers by name.
fn tensor(file: &str, name: &str) -> Vec<f64> {
    let bytes = fs::read(golden(file)).unwrap();
    let all = SafeTensors::deserialize(&bytes).unwrap();
    all.tensor(name).unwrap().data().as_chunks::<8>().0.iter().map(|c| f64::from_le_bytes(*c)).collect()
}

#[test]
fn a_worker_answers_every_number_with_as_many_times() {
    let said = lines(&["bench", "--worker", "elite"], "3\n1\n");
    assert_eq!(said.len(), 3);
    assert!(said[0]["first_call_s"].as_f64().unwrap() > 0.0);
    assert_eq!(numbers(&said[0]["value"]).len(), 6);
    assert_eq!((numbers(&said[1]).len(), numbers(&said[2]).len()), (3, 1));
    assert!(numbers(&said[1]).iter().all(|ms| *ms > 0.0));
}

#[test]
fn a_worker_says_what_it_cannot_read() {
    for (arguments, message) in [
        (&["bench", "--worker", "elites"][..], "did you mean `elite`?"),
        (&["bench", "--worker", "plan"], "give a FILE"),
        (&["bench", "--worker", "elite", "--params", "nowhere.safetensors"], "cannot read `nowhere.safetensors`"),
        (&["bench", "--cases", "hgrad", "--double", "K"], "its sizes: "),
    ] {
        let output = wmc(arguments, "");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said.contains(message), "{arguments:?}: {said}");
    }
    assert_eq!(wmc(&["bench", "--worker", "elite"], "many\n").status.code(), Some(2));
}

/// A file of the goldens' inputs and more tensors, with a map in its metadata.
fn inputs(path: &Path, map: &BTreeMap<String, Value>, more: &[&str]) {
    let mut files: Vec<Vec<u8>> = vec![fs::read(golden("inputs_f32.safetensors")).unwrap()];
    files.extend(more.iter().map(|name| fs::read(golden(name)).unwrap()));
    let parsed: Vec<SafeTensors> = files.iter().map(|bytes| SafeTensors::deserialize(bytes).unwrap()).collect();
    let progress = 0.65f64.to_le_bytes();
    let mut all: BTreeMap<String, TensorView> = parsed.iter().flat_map(|file| file.tensors()).collect();
    all.insert("progress".into(), TensorView::new(safetensors::Dtype::F64, vec![1], &progress).unwrap());
    let metadata = [("wmc.map".to_string(), serde_json::to_string(map).unwrap())].into();
    safetensors::serialize_to_file(all, Some(metadata), path).unwrap();
}

fn map() -> BTreeMap<String, Value> {
    serde_json::from_str(&fs::read_to_string(golden("map.json")).unwrap()).unwrap()
}

fn worker(case: &str, file: &Path) -> Vec<f64> {
    let model = ["bench", "models/hamworld_s6.wm", "--task", "cheetah-run"];
    let arguments = [&model[..], &["--worker", case, "--params", file.to_str().unwrap()]].concat();
    numbers(&lines(&arguments, "")[0]["value"])
}

#[test]
fn a_train_step_computes_the_goldens_loss() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("train.safetensors");
    inputs(&file, &map(), &[]);
    let (ours, theirs) = (worker("train", &file), tensor("outputs_f64.safetensors", "loss.total"));
    assert!((ours[0] - theirs[0]).abs() < 1e-5 * theirs[0].abs(), "{ours:?} {theirs:?}");
}

#[test]
fn a_plan_computes_the_goldens_action() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.safetensors");
    // The batch of the training is none of the planner's business.
    let mut map: BTreeMap<String, Value> = map().into_iter().filter(|(name, _)| !name.starts_with("data.")).collect();
    map.insert("value.plan.mean".into(), "planner.plan.mean".into());
    inputs(&file, &map, &["plan.safetensors"]);
    let (ours, theirs) = (worker("plan", &file), tensor("outputs_f64.safetensors", "plan.action"));
    assert_eq!(ours.len(), theirs.len());
    for (a, b) in ours.iter().zip(&theirs) {
        assert!((a - b).abs() < 1e-4, "{ours:?} {theirs:?}");
    }
}

fn document(arguments: &[&str]) -> Value {
    let output = wmc(&[&["bench", "--json", "--rounds", "2"], arguments].concat(), "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn levels_agree_and_the_drawing_has_a_bar_for_each() {
    let folder = tempfile::tempdir().unwrap();
    let plot = folder.path().join("bars.svg");
    let document = document(&["--cases", "scan2,hgrad", "--plot", plot.to_str().unwrap()]);
    let cases = document["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for case in cases {
        let variants = case["variants"].as_array().unwrap();
        assert_eq!(variants.len(), 3);
        for variant in variants {
            assert!(variant["differs"].as_f64().unwrap() < 1e-5, "{variant}");
            assert_eq!(variant["samples"].as_array().unwrap().len(), 2);
        }
    }
    // 4096 rows through two layers of 128 and back: 303 MFLOP.
    assert!((cases[1]["gflop"].as_f64().unwrap() - 0.304).abs() < 0.01, "{}", cases[1]["gflop"]);
    // A step of the scan has an exponential for each of 128 x 16 states.
    assert_eq!(cases[0]["mexp"].as_f64().unwrap(), (128 * 2 * 128 * 16) as f64 / 1e6);
    let drawing = fs::read_to_string(plot).unwrap();
    assert_eq!(drawing.matches("<rect x=").count(), 6);
    assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"));
    assert_eq!(drawing.matches("<text").count(), drawing.matches("</text>").count());
}

/// Every field of the document is described.
#[test]
fn fields_are_documented() {
    fn fields(value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(name, value)| {
                into.insert(name.clone());
                fields(value, into);
            }),
            Value::Array(items) => items.iter().for_each(|item| fields(item, into)),
            _ => {}
        }
    }
    let manual = include_str!("../docs/guide/json.md");
    let (_, manual) = manual.split_once("## `wmc bench --json`").unwrap();
    let manual = manual.split("\n## ").next().unwrap();
    let mut names = BTreeSet::new();
    fields(&document(&["--cases", "elite"]), &mut names);
    assert!(names.len() > 20);
    for name in names {
        assert!(manual.contains(&format!("`{name}`")), "docs/guide/json.md says nothing about `{name}`");
    }
}

#[test]
fn larger_sizes_and_more_threads_are_told() {
    let arguments = ["bench", "--cases", "scan1", "--levels", "mega", "--rounds", "2", "--threads", "1,2", "--double", "T,B"];
    let output = wmc(&arguments, "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    for (size, work) in [("T = 2", "2.00"), ("T = 4", "4.00"), ("B = 256", "2.00"), ("B = 512", "4.00")] {
        let row = text.lines().find(|l| l.starts_with(&format!("| {size} |"))).unwrap_or_else(|| panic!("{size}: {text}"));
        assert_eq!(row.split('|').nth(4).map(str::trim), Some(work), "{row}");
    }
    assert!(text.contains("From 1 to 2 threads: "), "{text}");
}

/// A program that plays Python: it exports a file that is there and answers as a peer does, unless it is `broken`.
#[cfg(unix)]
#[test]
fn peers_are_heard() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (inputs, python) = (path("inputs.safetensors"), path("python"));
    let score: Vec<u8> = (0..160).flat_map(|i| ((i * 37 % 101) as f64 / 101.0).to_le_bytes()).collect();
    let view = TensorView::new(safetensors::Dtype::F64, vec![1, 1, 160], &score).unwrap();
    safetensors::serialize_to_file([("data.score", view)], None, Path::new(&inputs)).unwrap();
    let value = &lines(&["bench", "--worker", "elite", "--params", &inputs], "")[0]["value"];
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in\n*export.py) cp '{inputs}' \"$3\"; exit;;\nesac\n\
         if [ \"$3\" = broken ]; then echo 'no such framework' >&2; exit 1; fi\n\
         echo '{{\"first_call_s\": 1.5, \"value\": {value}}}'\n\
         while read n; do echo '{{\"t\": [7.5, 8.5], \"flt\": 0}}'; done\n"
    );
    fs::write(&python, script).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let document = document(&["--cases", "elite", "--levels", "mega", "--python", &python, "--compare", "jax,broken,candle"]);
    let case = &document["cases"][0];
    let peer = &case["variants"][1];
    assert_eq!((&peer["name"], &peer["kind"]), (&"jax".into(), &"peer".into()));
    assert_eq!((peer["ms"]["median"].as_f64(), peer["first_s"].as_f64()), (Some(8.0), Some(1.5)));
    assert_eq!(peer["differs"].as_f64(), Some(0.0));
    assert!(peer["ratio"].as_f64().unwrap() > 1.0);
    let failed = case["failed"].to_string();
    assert!(failed.contains("no such framework") && failed.contains("it computes no elite"), "{failed}");
}

/// The document of `wmc bench train-loop`.
fn train_loop(arguments: &[&str]) -> Value {
    let all = [&["bench", "train-loop", "--json"], arguments].concat();
    let output = wmc(&all, "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The parts of a decision's time by name, and the share of what is around deciding and learning.
fn parts(document: &Value) -> (BTreeMap<String, f64>, f64) {
    let parts = document["parts"].as_array().unwrap();
    let named = |p: &Value| (p["part"].as_str().unwrap().to_string(), p["share"].as_f64().unwrap());
    (parts.iter().map(named).collect(), document["around"].as_f64().unwrap())
}

#[test]
fn a_decisions_time_is_told_part_by_part() {
    let small = ["src/starter.wm", "--dim", "S=4,H=3,B=4,T=4", "--steps", "40", "--fill", "60", "--set", "length=30"];
    let (parts, around) = parts(&train_loop(&small));
    let names = ["environment", "evaluate", "other", "plan", "records", "replay", "update"];
    assert_eq!(parts.keys().map(String::as_str).collect::<Vec<_>>(), names);
    assert!((parts.values().sum::<f64>() - 1.0).abs() < 1e-9 && parts.values().all(|x| *x > 0.0), "{parts:?}");
    assert!((around - parts["environment"] - parts["replay"] - parts["records"]).abs() < 1e-9);
    // The same as a picture.
    let output = wmc(&[&["bench", "train-loop"], &small[..]].concat(), "");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("Starter on pendulum_swingup: 40 decisions with 40 updates, after 60 random ones"), "{said}");
    assert!(said.contains('█') && said.contains("environment, replay, records together"), "{said}");
    // What is wrong is said.
    let output = wmc(&["bench", "train-loop", "src/starter.wm", "--set", "stepps=1"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("stepps"));
}

/// `cargo xtask verify loop`.
#[test]
#[ignore = "takes minutes"]
fn a_loop_at_paper_size_spends_its_time_deciding_and_learning() {
    for task in ["cartpole-swingup", "reacher-easy"] {
        let (parts, around) = parts(&train_loop(&["models/hamworld_s6.wm", "--task", task, "--fill", "20000"]));
        println!("{task}: {:.2} % {parts:?}", 100.0 * around);
        assert!(around < 0.1, "{task}: {parts:?}");
    }
}

/// `cargo xtask verify memory`: more decisions than the replay holds, then some hundred updates, an evaluation and a checkpoint.
#[test]
#[ignore = "takes minutes"]
#[cfg(target_os = "linux")]
fn memory_at_paper_size_stays_below_a_gibibyte_and_does_not_grow_when_the_replay_is_full() {
    let document = train_loop(&["models/hamworld_s6.wm", "--task", "cartpole-swingup", "--fill", "101000", "--steps", "300"]);
    println!("{}", document["resident"]);
    let [filled, end, peak] = ["filled", "end", "peak"].map(|n| document["resident"][n].as_f64().unwrap());
    assert!(peak < 1024.0 && end - filled < 16.0, "{filled} MiB, {end} MiB, at most {peak} MiB");
}
