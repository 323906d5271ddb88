//! Trained models as folders to share, and parameters that others have trained.

mod command;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use command::{ends, refuses, text, wmc};
use serde_json::Value;

/// A short run of a small model.
fn trained(folder: &Path) -> PathBuf {
    let run = folder.join("run");
    let settings = ["steps=60", "seed_steps=50", "eval_every=30", "length=30"].map(|s| ["--set", s]).concat();
    ends(
        wmc(&["train", "src/starter.wm", "--seed", "3", "--quiet", "--dim", "S=4,H=3,B=4,T=4"])
            .args(settings)
            .arg("--out")
            .arg(&run),
        0,
    );
    run
}

/// It opens, is small, has a card, and decides.
fn opens(folder: &Path) {
    let run = runtime::run::Run::open(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut policy = run.policy().unwrap();
    let action = policy.plan(&vec![0.1; policy.observation_size()]).unwrap();
    assert!(action.len() == policy.action_size() && action.iter().all(|x| x.abs() <= 1.0), "{action:?}");
    let card = fs::read_to_string(folder.join("README.md")).unwrap();
    for part in
        [run.identity.model.as_str(), &run.identity.task, run.identity.protocol(), "over 30 episodes", "wmc train", "commit"]
    {
        assert!(card.contains(part), "{}: `{part}` is not in\n{card}", folder.display());
    }
    assert!(run.starts.iter().all(|start| start.host.is_empty()), "{}", folder.display());
    let bytes: u64 = files(folder).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(bytes <= 4 << 20, "{} has {bytes} bytes", folder.display());
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn an_exported_model_does_what_its_run_does() {
    let folder = tempfile::tempdir().unwrap();
    let (run, model) = (trained(folder.path()), folder.path().join("model"));
    let told = text(&ends(wmc(&["export"]).arg(&run).arg(&model), 0).stdout);
    assert!(told.contains("over 30 episodes"), "{told}");
    opens(&model);
    let both = |words: &[&str]| [&run, &model].map(|from| text(&ends(wmc(words).arg(from), 0).stdout));
    let [first, second] = both(&["eval", "--episodes", "3", "--json"]);
    assert_eq!(first, second);
    let [first, second] = both(&["plan", "--obs", "0.5,0.5,0.1"]);
    assert_eq!(first, second);
    // Nothing of this machine is in it: neither names nor places.
    let place = folder.path().display().to_string();
    for path in files(&model) {
        assert!(!String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(&place), "{}", path.display());
    }
    // Its evaluations are there, and no replay or optimiser.
    let log = fs::read_to_string(model.join("log.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 2, "{log}");
    let output = ends(wmc(&["report", "--markdown"]).arg(folder.path().join("page.md")).arg(&model), 0);
    assert!(!text(&output.stderr).contains("warning"), "{}", text(&output.stderr));
    refuses(wmc(&["train", "--resume"]).arg(&model), &["it was exported", "no replay", "--from"]);
    refuses(wmc(&["export"]).arg(&run).arg(&model), &["already there"]);

    // Another training starts with its parameters.
    let learnt = model.join("checkpoints/000000000060/learnt.safetensors");
    let next = folder.path().join("next");
    let small = ["--dim", "S=4,H=3,B=4,T=4", "--until", "0", "--quiet"];
    ends(wmc(&["train", "src/starter.wm", "--seed", "4"]).args(small).arg("--from").arg(&learnt).arg("--out").arg(&next), 0);
    let (old, new) = (tensors(&learnt), tensors(&next.join("checkpoints/000000000000/learnt.safetensors")));
    assert!(old.keys().any(|name| name.starts_with("param.")));
    for (name, tensor) in &old {
        assert_eq!(new.get(name), Some(tensor), "{name}");
    }
}

/// The models of the repository.
#[test]
fn every_trained_model_opens_and_plans() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/trained");
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .for_each(|p| opens(&p));
}

/// Shapes and bytes by name.
fn tensors(path: &Path) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
    let bytes = fs::read(path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    file.tensors().into_iter().map(|(name, t)| (name, (t.shape().to_vec(), t.data().to_vec()))).collect()
}

const PARAMS: &str = "tests/golden/published_reacher/params_f32.safetensors";
const NAMES: &str = "tests/golden/published_names.json";
const MODEL: [&str; 3] = ["models/hamworld.wm", "--task", "reacher-easy"];
/// Small sizes of what is no parameter, so that it is quick.
const QUICK: [&str; 4] = ["--dim", "B=4", "--set", "steps=20"];

/// The map without the names that have one of these in them.
fn map_without(folder: &Path, part: &str) -> PathBuf {
    let map: BTreeMap<String, Value> = serde_json::from_str(&fs::read_to_string(NAMES).unwrap()).unwrap();
    let rest: BTreeMap<_, _> = map.into_iter().filter(|(name, _)| !name.contains(part)).collect();
    let path = folder.join("names.json");
    fs::write(&path, serde_json::to_string(&rest).unwrap()).unwrap();
    path
}

#[test]
fn a_training_starts_with_the_parameters_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let train = |task: [&str; 3], map: &str| {
        let mut command = wmc(&["train"]);
        command.args(task).args(QUICK).args(["--set", "seed_steps=5", "--until", "0", "--from", PARAMS, "--map", map]);
        command.arg("--out").arg(&run);
        command
    };
    // Both sides of what does not fit are named, and no folder is left.
    refuses(
        &mut train(["models/hamworld.wm", "--task", "cheetah-run"], NAMES),
        &["`param.encoder.0.weight` is [256, 17] in the model", "`encoder.net.0.weight` of", "is [256, 6]", "more"],
    );
    let map = map_without(folder.path(), "param.energy").display().to_string();
    refuses(&mut train(MODEL, &map), &["does not have `param.energy.0.bias`, `param.energy.0.weight`", "--keep-initial"]);
    let wrong = folder.path().join("wrong.json");
    fs::write(&wrong, r#"{ "param.encodr.0.weight": "encoder.net.0.weight" }"#).unwrap();
    refuses(
        &mut train(MODEL, &wrong.display().to_string()),
        &["`param.encodr.0.weight`", "did you mean `param.encoder.0.weight`?"],
    );
    refuses(
        wmc(&["train"]).args(MODEL).args(QUICK).args(["--from", PARAMS]).arg("--out").arg(&run),
        &["has no parameter of the model", "`aux_updater.delta_head.bias`", "--map"],
    );
    assert!(!run.exists());

    let told = text(&ends(train(MODEL, &map).arg("--keep-initial"), 0).stderr);
    assert!(
        told.contains("these keep their initial values: `param.energy.0.bias`") && told.contains("are not used: `energy"),
        "{told}"
    );
    fs::remove_dir_all(&run).unwrap();
    ends(&mut train(MODEL, NAMES), 0);
    let names: BTreeMap<String, String> = serde_json::from_str(&fs::read_to_string(NAMES).unwrap()).unwrap();
    let (ours, theirs) = (tensors(&run.join("checkpoints/000000000000/learnt.safetensors")), tensors(Path::new(PARAMS)));
    for (ours_name, theirs_name) in &names {
        assert_eq!(ours[ours_name], theirs[theirs_name], "{ours_name}");
    }
    let known = fs::read_to_string(run.join("run.json")).unwrap();
    let known: Value = serde_json::from_str(&known).unwrap();
    assert_eq!(known["identity"]["from"].as_str().map(str::len), Some(64));
    // It goes on without the file; what it started with cannot come from anywhere else.
    ends(wmc(&["train", "--until", "3", "--quiet", "--resume"]).arg(&run), 0);
    fs::remove_dir_all(run.join("checkpoints")).unwrap();
    refuses(wmc(&["train", "--resume"]).arg(&run), &["no checkpoint of"]);
}

#[test]
fn the_parameters_of_others_decide() {
    let observation = "0.1,0.2,0.05,-0.1,0,0.3";
    let plan = |seed: &str| {
        let mut command = wmc(&["plan"]);
        command.args(MODEL).args(["--params", PARAMS, "--map", NAMES, "--seed", seed, "--obs", observation]);
        let action: Vec<f64> = serde_json::from_slice(&ends(&mut command, 0).stdout).unwrap();
        assert!(action.len() == 2 && action.iter().all(|x| x.abs() <= 1.0), "{action:?}");
        action
    };
    let (first, again, other) = (plan("1"), plan("1"), plan("2"));
    assert!(first == again && first != other, "{first:?} {other:?}");
    refuses(wmc(&["plan"]).args(MODEL).args(["--obs", observation]), &["`.wm` file", "--task"]);
    refuses(
        wmc(&["plan"]).args(MODEL).args(["--params", PARAMS, "--obs", observation]),
        &["has no parameter of the model", "--map"],
    );
    refuses(&mut wmc(&["plan", "runs/none", "--seed", "1", "--obs", "1"]), &["--artefact"]);
}
