//! `--device`, as built: what runs on a device agrees with the processor, and what cannot run says why.
//!
//! Mesa's Vulkan driver in software will do (`.ci/vulkan`); where there is no driver the tests say that they were skipped, and
//! `REQUIRE_VULKAN=1` makes that a failure.

mod command;

use std::path::Path;
use std::process::Command;

use command::{ends, refuses, text, wmc};

const TRAIN: [&str; 8] =
    ["train", "src/starter.wm", "--quiet", "--dim", "S=4,H=3,B=4,T=4", "--set", "seed_steps=10", "--threads=1"];
const SHORT: [&str; 8] = ["--set", "steps=30", "--set", "eval_every=30", "--set", "eval_episodes=1", "--set", "length=25"];

/// A short training on a device, and its folder.
fn train(folder: &Path, device: &str, code: i32) -> (String, String) {
    let run = folder.join(device.replace(':', "-")).display().to_string();
    let output = ends(&mut wmc(&[&TRAIN[..], &SHORT, &["--out", &run, "--device", device]].concat()), code);
    (run, text(&output.stderr))
}

fn plan(run: &str, device: &str) -> Command {
    wmc(&["plan", run, "--obs", "0.6,-0.8,0.5", "--device", device])
}

#[cfg(not(feature = "vulkan"))]
#[test]
fn a_build_without_devices_says_which_has_them() {
    let folder = tempfile::tempdir().unwrap();
    for device in ["vulkan", "cuda:1"] {
        let told = train(folder.path(), device, 2).1;
        let kind = device.trim_end_matches(":1");
        assert!(told.contains(&format!("cargo build --release --features {kind}")), "{told}");
        assert!(!folder.path().join(device.replace(':', "-")).exists(), "what cannot work leaves nothing behind");
    }
    // The best that there is is the processor.
    assert!(train(folder.path(), "auto", 0).1.contains("device: cpu"));
}

#[test]
fn devices_that_nobody_has() {
    for wrong in ["gpu", "cpu:1", "cuda:x", "vulkan:0:tf32", "cuda:0:f16"] {
        refuses(&mut plan("runs/none", wrong), &["is no device", "auto"]);
    }
    let run = ["run", "models/sac.wm", "--task", "cartpole-swingup", "--entry", "act"];
    refuses(&mut wmc(&[&run[..], &["--device", "cuda:99"]].concat()), &["cuda"]);
}

#[cfg(feature = "cuda")]
#[test]
fn no_cuda() {
    // A machine that has it is none to test this on.
    if ["libcuda.so.1", "libcuda.so"].iter().any(|name| Path::new("/usr/lib/x86_64-linux-gnu").join(name).exists()) {
        return;
    }
    let mut command = wmc(&["selftest", "models/sac.wm", "--device", "cuda"]);
    refuses(&mut command, &["there is no CUDA device 0", "libcuda.so.1", "--device cpu"]);
}

#[cfg(feature = "vulkan")]
mod vulkan {
    use super::*;

    /// Whether there is a device, which `wmc doctor` says.
    fn there() -> bool {
        let doctor = text(&ends(&mut wmc(&["doctor"]), 0).stdout);
        let found = doctor.contains("vulkan:0 is ");
        if !found {
            assert!(std::env::var("REQUIRE_VULKAN").is_err(), "there is no Vulkan device; .ci/vulkan installs one in software");
            eprintln!("SKIPPED: there is no Vulkan device; .ci/vulkan installs one in software");
        }
        found
    }

    fn numbers(output: &[u8]) -> Vec<f64> {
        serde_json::from_slice(output).unwrap()
    }

    #[test]
    fn train_eval_rollout_plan() {
        if !there() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (run, _) = train(folder.path(), "vulkan", 0);
        for more in [&["eval"][..], &["rollout"]] {
            let of = |device| {
                let arguments = [more, &[run.as_str(), "--episodes", "1", "--json", "--device", device]].concat();
                let said = text(&ends(&mut wmc(&arguments), 0).stdout);
                serde_json::from_str::<serde_json::Value>(&said).unwrap()
            };
            let (cpu, vulkan) = (of("cpu"), of("vulkan"));
            assert_eq!(cpu["step"], vulkan["step"]);
            if let (Some(a), Some(b)) = (cpu["mean"].as_f64(), vulkan["mean"].as_f64()) {
                assert!((a - b).abs() < 0.05 * a.abs().max(1.0), "{a} {b}");
            }
        }
        let of = |device| numbers(&ends(&mut plan(&run, device), 0).stdout);
        let (cpu, vulkan) = (of("cpu"), of("vulkan:0"));
        assert!((cpu[0] - vulkan[0]).abs() < 2e-3, "{cpu:?} {vulkan:?}");

        // An artefact runs where it was compiled for.
        let compiled = folder.path().display().to_string();
        let sizes = ["--task", "pendulum-swingup", "--dim", "S=4,H=3,B=4,T=4", "-o", &compiled];
        let compile = |target: &str| {
            ends(&mut wmc(&[&["compile", "src/starter.wm", "--entry", "plan", "--target", target], &sizes[..]].concat()), 0);
        };
        let checkpoints = std::fs::read_dir(Path::new(&run).join("checkpoints")).unwrap().flatten();
        let checkpoint = checkpoints.map(|c| c.path()).filter(|c| c.is_dir()).max().expect("a checkpoint").display().to_string();
        let artefact = folder.path().join("starter-pendulum_swingup.wmx").display().to_string();
        let seed = std::fs::read_to_string(Path::new(&run).join("run.json")).unwrap();
        let seed: serde_json::Value = serde_json::from_str(&seed).unwrap();
        let seed = seed["identity"]["seed"].to_string();
        let planned = |device: &str| {
            let given = ["--artefact", &artefact, "--seed", &seed, "--obs", "0.6,-0.8,0.5", "--device", device];
            wmc(&[&["plan", &checkpoint], &given[..]].concat())
        };
        compile("cpu");
        assert_eq!(numbers(&ends(&mut planned("cpu"), 0).stdout), cpu);
        refuses(&mut planned("vulkan"), &["compiled for cpu", "--target vulkan"]);
        compile("cpu,vulkan");
        assert_eq!(numbers(&ends(&mut planned("vulkan"), 0).stdout), vulkan);
        compile("cuda:sm_86");
        refuses(&mut planned("cpu"), &["compiled for cuda:sm_86", "--target cpu"]);
    }

    #[test]
    fn a_device_against_the_interpreter() {
        if !there() {
            return;
        }
        let small = ["selftest", "src/starter.wm", "--dim", "S=4,H=3,B=4,T=4", "--device", "vulkan"];
        let said = text(&ends(&mut wmc(&[&small[..], &["--json"]].concat()), 0).stdout);
        let document: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(document["fine"], true, "{said}");
        let entries: Vec<&str> = document["rows"].as_array().unwrap().iter().filter_map(|r| r["entry"].as_str()).collect();
        assert!(["act", "plan", "train_step", "evaluate"].iter().all(|e| entries.contains(e)), "{entries:?}");
        // What nobody can meet is not met.
        let said = text(&ends(&mut wmc(&[&small[..], &["--entry", "plan", "--tolerance", "0"]].concat()), 1).stdout);
        assert!(said.contains("WRONG") && said.contains("1 differ"), "{said}");
    }

    #[test]
    fn measured_on_a_device() {
        if !there() {
            return;
        }
        let arguments = ["bench", "--cases", "scan8", "--levels", "mega", "--rounds", "1", "--json", "--device", "vulkan"];
        let said = text(&ends(&mut wmc(&[&arguments[..], &["--compare", "eager"]].concat()), 0).stdout);
        let document: serde_json::Value = serde_json::from_str(&said).unwrap();
        let variants = document["cases"][0]["variants"].as_array().unwrap();
        let names: Vec<&str> = variants.iter().filter_map(|v| v["name"].as_str()).collect();
        assert_eq!(names, ["eager", "mega"]);
        assert!(variants.iter().all(|v| v["differs"].as_f64().is_none_or(|d| d < 1e-3)), "{said}");
        refuses(&mut wmc(&[&arguments[..], &["--compare", "torch"]].concat()), &["--python"]);
    }

    #[test]
    fn one_entry_point() {
        if !there() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made.safetensors").display().to_string();
        let run = ["run", "benches/hgrad.wm", "--entry", "init", "--out", &made];
        ends(&mut wmc(&run), 0);
        let run = ["run", "benches/hgrad.wm", "--entry", "init", "--device", "vulkan", "--level", "reference"];
        refuses(&mut wmc(&run), &["the interpreter does not run on vulkan:0"]);
    }

    #[test]
    fn no_driver() {
        let none = |mut command: Command| {
            command.env("VK_DRIVER_FILES", "/nowhere.json").env("VK_ICD_FILENAMES", "/nowhere.json");
            command
        };
        let selftest = ["selftest", "models/sac.wm", "--device", "vulkan"];
        refuses(&mut none(wmc(&selftest)), &["there is no Vulkan device 0", "no Vulkan driver", "--device cpu"]);
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run").display().to_string();
        let train = wmc(&[&TRAIN[..], &SHORT, &["--out", &run, "--device", "auto"]].concat());
        assert!(text(&ends(&mut none(train), 0).stderr).contains("device: cpu"));
        refuses(&mut plan(&run, "vulkan:77"), &["there is no Vulkan device 77"]);
    }
}
