//! Acting matches training, through the command as built: batch statistics, running values, the start of an episode, streams.

mod command;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use command::{ends, refuses, text, wmc};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

type Arrays = BTreeMap<String, (Vec<usize>, Vec<f64>)>;

fn load(path: &Path) -> Arrays {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let numbers = |view: &TensorView<'_>| match view.dtype() {
        Dtype::F64 => view.data().as_chunks::<8>().0.iter().map(|c| f64::from_le_bytes(*c)).collect(),
        Dtype::F32 => view.data().as_chunks::<4>().0.iter().map(|c| f64::from(f32::from_le_bytes(*c))).collect(),
        other => panic!("{other:?}"),
    };
    file.tensors().iter().map(|(name, view)| (name.clone(), (view.shape().to_vec(), numbers(view)))).collect()
}

fn save(path: &Path, arrays: &Arrays) {
    let bytes = |data: &[f64]| data.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let held: Vec<_> = arrays.iter().map(|(name, (shape, data))| (name.clone(), shape.clone(), bytes(data))).collect();
    let views = held.iter().map(|(name, shape, data)| (name, TensorView::new(Dtype::F64, shape.clone(), data).unwrap()));
    fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

/// Runs an entry point on some tensors, at double precision.
fn run(model: &str, entry: &str, given: &Arrays, more: &[&str]) -> Arrays {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("in.safetensors"), folder.path().join("out.safetensors"));
    save(&from, given);
    let mut command = wmc(&["run", model, "--entry", entry, "--dim", "O=3,A=1", "--f64", "--in"]);
    ends(command.arg(&from).arg("--out").arg(&to).args(more), 0);
    load(&to)
}

fn newest(run: &Path) -> PathBuf {
    let checkpoints = fs::read_dir(run.join("checkpoints")).unwrap().flatten().map(|e| e.path());
    checkpoints.filter(|p| p.file_name().unwrap().to_str().unwrap().parse::<u64>().is_ok()).max().unwrap()
}

fn near(have: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(have.len(), want.len());
    for (a, b) in have.iter().zip(want) {
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{have:?} instead of {want:?}");
    }
}

#[test]
fn what_acting_cannot_know_is_refused_at_check() {
    let check = |name: &str, words: &[&str]| {
        refuses(&mut wmc(&["check", &format!("tests/acting/{name}.wm")]), words);
        refuses(wmc(&["train", &format!("tests/acting/{name}.wm"), "--out"]).arg("nowhere/at/all"), words);
    };
    check("bn2", &["E0608", "bn2.wm:9:26", "mean(e[t], over = [B, t])", "the statistic", "running mu ="]);
    check("rec3", &["E0609", "rec3.wm:3:10", "source rollout"]);
}

/// `P[4]` of a recursion without time: parameters alone determine it, so acting reads it as training does.
#[test]
fn acting_reads_a_recursion_without_time() {
    let model = "tests/acting/actread.wm";
    let given = Arrays::from([("data.obs".into(), (vec![1, 3], vec![0.1, 0.2, 0.3])), ("param.w".into(), (vec![], vec![3.0]))]);
    let acted = run(model, "act", &given, &[]);
    // Four times x/2 + 1, from 3, times 0.1.
    near(&acted["action"].1, &[0.1 * (3.0 / 16.0 + 1.875)], 1e-12);
}

/// The running values, the loss of an update and the action, against numbers computed here.
#[test]
fn running_vectors_agree_with_a_computation_by_hand() {
    let (model, rate) = ("tests/acting/exact.wm", 0.25);
    let (batch, time, size) = (4, 3, 3);
    let obs: Vec<f64> = (0..batch * time * size).map(|i| ((i * i) as f64 * 0.37).sin() * 2.0 + (i % size) as f64).collect();
    let start = Arrays::from([
        ("running.mu".into(), (vec![size], vec![0.5, -1.0, 2.0])),
        ("running.sigma".into(), (vec![size], vec![1.5, 0.7, 2.5])),
    ]);
    let mut given = start.clone();
    given.insert("data.obs".into(), (vec![batch, time, size], obs.clone()));
    given.insert("data.a".into(), (vec![batch, time - 1, 1], vec![0.1; batch * (time - 1)]));
    let updated = run(model, "train_step", &given, &["--seed", "1"]);

    let count = (batch * time) as f64;
    let mean = |f: &dyn Fn(usize, f64) -> f64| -> Vec<f64> {
        (0..size).map(|o| obs.iter().skip(o).step_by(size).map(|x| f(o, *x)).sum::<f64>() / count).collect()
    };
    let blend = |old: &[f64], new: &[f64]| -> Vec<f64> { old.iter().zip(new).map(|(a, b)| a + rate * (b - a)).collect() };
    let mu = blend(&start["running.mu"].1, &mean(&|_, x| x));
    let sigma = blend(&start["running.sigma"].1, &mean(&|o, x| (x - mu[o]).powi(2)));
    near(&updated["next.running.mu"].1, &mu, 1e-12);
    near(&updated["next.running.sigma"].1, &sigma, 1e-12);
    // The update sees the new values, and the mean of its own batch.
    let centre = mean(&|o, x| (x - mu[o]) / sigma[o].sqrt());
    let loss: f64 = mean(&|o, x| ((x - mu[o]) / sigma[o].sqrt() - centre[o]).powi(2)).iter().sum();
    near(&updated["loss.y"].1, &[loss], 1e-12);

    // Acting sees what it is given: the running values as they are, and the constant in place of the batch's mean.
    let mut given = Arrays::from([("data.obs".into(), (vec![2, size], vec![0.3, -0.2, 1.0, 2.0, 0.4, -1.5]))]);
    given.extend(
        updated
            .iter()
            .filter_map(|(n, t)| Some((n.strip_prefix("next.").filter(|n| n.starts_with("running"))?.into(), t.clone()))),
    );
    let acted = run(model, "plan", &given, &[]);
    let action = |seen: &[f64]| seen.iter().enumerate().map(|(o, x)| (x - mu[o]) / sigma[o].sqrt() - 0.5).sum::<f64>();
    near(&acted["action"].1, &[action(&[0.3, -0.2, 1.0]), action(&[2.0, 0.4, -1.5])], 1e-12);
}

/// Batch normalisation with an acting mode: trained, resumed to the same bits, and awake to what it sees.
#[test]
fn a_normalised_model_trains_resumes_and_acts() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("run");
    let train = ["train", "tests/acting/norm.wm", "--quiet", "--save-every", "40", "--out"];
    ends(wmc(&train).arg(&place), 0);
    let last = newest(&place);
    let whole = fs::read(last.join("learnt.safetensors")).unwrap();
    let learnt = load(&last.join("learnt.safetensors"));
    for (name, size) in [("mu", 3), ("sigma", 3), ("centre", 4), ("spread", 4)] {
        let (shape, data) = &learnt[&format!("running.{name}")];
        assert_eq!(shape, &[size], "{name}");
        assert!(data.iter().all(|x| *x != 0.0 && *x != 1.0), "{name} never moved: {data:?}");
    }
    fs::remove_dir_all(&last).unwrap();
    ends(wmc(&["train", "--quiet", "--resume"]).arg(&place), 0);
    assert!(fs::read(newest(&place).join("learnt.safetensors")).unwrap() == whole, "resumed to other bits");
    let plan = |obs: &str| text(&ends(wmc(&["plan", "--obs", obs]).arg(&place), 0).stdout);
    assert_ne!(plan("1,0,0.5"), plan("0.2,0.9,-2"));
    // The command's kernels and the reference agree on the action.
    let mut given: Arrays = learnt.iter().map(|(n, t)| (n.clone(), t.clone())).collect();
    given.insert("data.obs".into(), (vec![1, 3], vec![1.0, 0.0, 0.5]));
    given.retain(|name, _| name.starts_with("param.") || name.starts_with("running.") || name.starts_with("data."));
    let acted = run("tests/acting/norm.wm", "plan", &given, &[]);
    let told: Vec<f64> = serde_json::from_str(&plan("1,0,0.5")).unwrap();
    near(&told, &acted["action"].1, 1e-5);
}

/// Dropout and `training` act in updates alone; records may use the whole rollout.
#[test]
fn training_holds_in_updates_alone() {
    let model = "tests/acting/phases.wm";
    let acted = run(model, "plan", &Arrays::from([("data.obs".into(), (vec![1, 3], vec![0.25, 0.5, -0.125]))]), &[]);
    near(&acted["action"].1, &[0.625], 1e-12);
    let obs: Vec<f64> = (0..15).map(f64::from).collect();
    let given = Arrays::from([
        ("data.obs".into(), (vec![5, 3], obs)),
        ("data.a".into(), (vec![4, 1], vec![0.0; 4])),
        ("data.r".into(), (vec![4], vec![0.5, 1.5, 2.5, 3.5])),
    ]);
    let recorded = run(model, "record", &given, &[]);
    near(&recorded["record.mode"].1, &[1.5, 2.5, 3.5, 4.5], 1e-12);
    // The mean of 0 + 1 + 2, 3 + 4 + 5, and so on, over the four steps.
    near(&recorded["record.level"].1, &[16.5; 4], 1e-12);
}

/// `first` brings memory and planner back to their starts before the planner reads them.
#[test]
fn first_resets_before_planning() {
    let model = "src/starter.wm";
    let small = &["--dim", "S=4,H=3", "--seed", "3"];
    let obs = Arrays::from([("data.obs".into(), (vec![1, 3], vec![0.6, -0.8, 0.5]))]);
    let fresh = run(model, "plan", &obs, small);
    let carries: Arrays = fresh.iter().filter_map(|(n, t)| Some((n.strip_prefix("next.")?.to_string(), t.clone()))).collect();
    assert!(carries.keys().any(|n| n == "carry.m.0.h"), "{:?}", carries.keys());
    assert!(carries.keys().any(|n| n.starts_with("carry.plan")), "{:?}", carries.keys());
    let marked = |first: f64| {
        let mut given = obs.clone();
        let used = carries.iter().map(|(n, (shape, data))| (n.clone(), (shape.clone(), data.iter().map(|x| x + 0.7).collect())));
        given.extend(used);
        given.insert("data.first".into(), (vec![1], vec![first]));
        run(model, "plan", &given, small)
    };
    let (begins, goes_on) = (marked(1.0), marked(0.0));
    for (name, (_, want)) in &fresh {
        near(&begins[name].1, want, 1e-12);
    }
    assert!((goes_on["action"].1[0] - fresh["action"].1[0]).abs() > 1e-6, "the memory does not matter");
}

/// The lines of a stream, and how it ended.
fn stream(run: &Path, input: &[u8], code: i32) -> (Vec<String>, String) {
    let mut command = wmc(&["plan", "--stream"]);
    let mut child = command.arg(run).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{told}");
    (text(&output.stdout).lines().map(str::to_string).collect(), told)
}

#[test]
fn a_stream_goes_on_after_a_bad_line() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("run");
    let train = ["train", "src/starter.wm", "--dim", "S=4,H=3,B=4,T=4", "--quiet", "--set", "steps=60", "--set", "seed_steps=50"];
    ends(wmc(&train).args(["--set", "eval_every=60", "--set", "length=30", "--out"]).arg(&place), 0);

    // A line that fails is as if it had not been there.
    let good = stream(&place, b"[1, 0, -0.5]\n[0, 1, 2]\n[1, 0, 0]\n", 0).0;
    let bad: [&[u8]; 5] = [b"[1, 0]", b"[1, 0, 1e300]", b"one", b"[1, 0, NaN]", b"\xff\xfe"];
    let mut lines: Vec<u8> = b"[1, 0, -0.5]\n".to_vec();
    bad.iter().for_each(|line| lines.extend([line, b"\n".as_slice()].concat()));
    lines.extend(b"[0, 1, 2]\n");
    // A line without end is skipped, not kept.
    lines.extend(std::iter::repeat_n(b'7', (16 << 20) + 5));
    lines.extend(b"\n[1, 0, 0]\n");
    let (answers, told) = stream(&place, &lines, 2);
    assert_eq!(answers.len(), 1 + bad.len() + 1 + 1 + 1);
    assert_eq!([&answers[0], &answers[6], &answers[8]], [&good[0], &good[1], &good[2]]);
    for (number, line) in [2, 3, 4, 5, 6, 8].map(|n| (n, &answers[n - 1])) {
        let answer: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(answer["error"].as_str().unwrap().starts_with(&format!("line {number}: ")), "{line}");
        assert!(told.contains(&format!("line {number}: ")), "{told}");
    }
    assert!(told.contains("bytes") && told.len() < 4000, "{told}");

    // Another past of the same length, and an episode that starts: the same action.
    let after = |past: &str| {
        let input = format!("{past}\n{{\"obs\": [1, 0, 0], \"first\": true}}\n[0, 1, 0]\n");
        stream(&place, input.as_bytes(), 0).0[1..].to_vec()
    };
    assert_eq!(after("[1, 0, -0.5]"), after("[0, 1, 3]"));
}
