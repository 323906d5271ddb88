//! `wmc train` and what uses its runs, as built: a run that is killed, faults of disks and files, streams of plans.

mod command;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use command::{ends, refuses, text, wmc};

/// The starter model at sizes for a test.
const SMALL: [&str; 4] = ["train", "src/starter.wm", "--dim", "S=4,H=3,B=4,T=4"];

fn train(out: &Path, set: &[&str]) -> Command {
    let mut command = wmc(&SMALL);
    command.arg("--out").arg(out).args(set.iter().flat_map(|s| ["--set", s]));
    command
}

fn newest(run: &Path) -> Option<(u64, PathBuf)> {
    let entries = fs::read_dir(run.join("checkpoints")).ok()?.flatten().map(|e| e.path());
    entries.filter_map(|p| Some((p.file_name()?.to_str()?.parse().ok()?, p.clone()))).max()
}

fn learnt(run: &Path) -> Vec<u8> {
    fs::read(newest(run).expect("a checkpoint").1.join("learnt.safetensors")).unwrap()
}

/// Kills a training again and again at random moments, resumes it each time, and compares its end with that of one left alone.
fn killed(kills: u32, steps: u64) {
    const SAVE: u64 = 20;
    const EPISODE: u64 = 10;
    let folder = tempfile::tempdir().unwrap();
    let (alone, killed) = (folder.path().join("alone"), folder.path().join("killed"));
    let set = [&format!("steps={steps}"), "seed_steps=50", "eval_every=40", "eval_episodes=1", &format!("length={EPISODE}")];
    let save = SAVE.to_string();
    ends(train(&alone, &set).args(["--quiet", "--save-every", &save]), 0);
    let mut random = 12345u64;
    let mut done = 0;
    let mut command = train(&killed, &set);
    for kill in 0..kills {
        command.args(["--json", "--save-every", &save]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lines = BufReader::new(child.stdout.take().unwrap());
        // Some of the kills hit the start, the others after a few episodes have been told.
        let patience = (random >> 33) % 12;
        let told = std::thread::spawn(move || lines.lines().map_while(Result::ok).collect::<Vec<_>>());
        let before = newest(&killed).map(|n| n.0);
        let moved = |after: Option<u64>| after.unwrap_or(0) >= before.unwrap_or(0) + patience * SAVE;
        while !moved(newest(&killed).map(|n| n.0)) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros((random >> 40) % 30_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let step = |line: &String| serde_json::from_str::<serde_json::Value>(line).ok()?["step"].as_u64();
        let reached = told.join().unwrap().iter().filter_map(step).max().unwrap_or(0);
        let saved = newest(&killed).map_or(0, |n| n.0);
        assert!(saved >= done, "kill {kill}: a checkpoint was lost");
        assert!(reached <= saved + SAVE, "kill {kill}: told of step {reached}, the newest checkpoint is of {saved}");
        done = saved;
        command = match killed.join("run.json").exists() {
            true => {
                let mut command = wmc(&["train", "--resume"]);
                command.arg(&killed);
                command
            }
            // Killed before it had made its folder whole.
            false => {
                let _ = fs::remove_dir_all(&killed);
                train(&killed, &set)
            }
        };
    }
    ends(command.args(["--quiet", "--save-every", &save]).stdout(Stdio::piped()).stderr(Stdio::piped()), 0);
    assert_eq!(newest(&killed).unwrap().0, steps);
    assert!(learnt(&killed) == learnt(&alone), "the killed run has other parameters");
    let world = |run: &Path| fs::read(newest(run).unwrap().1.join("world.safetensors")).unwrap();
    assert!(world(&killed) == world(&alone), "the killed run has another experience");
    let best = |run: &Path| fs::read_to_string(run.join("checkpoints/best")).unwrap();
    assert_eq!(best(&killed), best(&alone));
    // Times aside, the same lines.
    let log = |run: &Path| -> Vec<serde_json::Value> {
        let mut lines: Vec<serde_json::Value> =
            fs::read_to_string(run.join("log.jsonl")).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        lines.iter_mut().filter_map(|line| line.as_object_mut()).for_each(|line| _ = line.remove("seconds"));
        lines
    };
    assert_eq!(log(&killed), log(&alone));
}

#[test]
fn a_killed_run_ends_with_the_same_bits() {
    killed(3, 240);
}

/// `cargo xtask verify resume`.
#[test]
#[ignore = "takes minutes"]
fn a_run_that_is_killed_twenty_times_ends_with_the_same_bits() {
    killed(20, 3000);
}

#[test]
fn a_run_is_used_by_the_other_commands() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let set = ["steps=120", "seed_steps=50", "eval_every=60", "length=30"];
    let told = text(&ends(&mut train(&run, &set), 0).stdout);
    for word in ["step      60", "step     120", "120 of 120 decisions, 70 updates", "area under the curve", "decision", "99 %"] {
        assert!(told.contains(word), "`{word}` is not in\n{told}");
    }
    // Again into the same folder: no.
    refuses(&mut train(&run, &set), &["already there", "--resume"]);
    // Longer, with the change told.
    let output = ends(wmc(&["train", "--set", "steps=160", "--resume"]).arg(&run), 0);
    assert!(text(&output.stderr).contains("steps: 160 instead of 120"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("160 of 160 decisions"));

    let line = text(&ends(wmc(&["runs", "--json"]).arg(folder.path()), 0).stdout);
    let row: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((row["model"].as_str(), row["step"].as_u64(), row["of"].as_u64()), (Some("Starter"), Some(160), Some(160)));
    assert!(text(&ends(wmc(&["runs"]).arg(folder.path()), 0).stdout).contains("pendulum_swingup"));

    let changes = text(&ends(wmc(&["eval", "--ood", "all", "--episodes", "2"]).arg(&run), 0).stdout);
    assert_eq!(changes.lines().count(), 5, "{changes}");
    let once = |change: &str| text(&ends(wmc(&["eval", "--json", "--ood", change]).arg(&run), 0).stdout);
    assert_eq!(once("mass=1"), once("mass=1"));
    refuses(wmc(&["eval", "--ood", "wind=1"]).arg(&run), &["wind=1", "mass=0.7"]);
    refuses(wmc(&["eval", "--ood", "friction=2"]).arg(&run), &["no contacts"]);
    refuses(wmc(&["eval", "--task", "cartpole-swingup"]).arg(&run), &["observations of 5 numbers"]);
    assert!(text(&ends(wmc(&["rollout"]).arg(&run), 0).stdout).contains("foresight"));

    let frames = folder.path().join("frames.svg");
    ends(wmc(&["eval", "--frames"]).arg(&frames).arg(&run), 0);
    // Eight moments in one drawing, the last one after 30 decisions.
    let drawn = fs::read_to_string(&frames).unwrap();
    assert!(drawn.matches("<svg").count() == 9 && drawn.contains(">30: "), "{drawn}");
    refuses(wmc(&["eval", "--frames", "frames.gif"]).arg(&run), &["frames.gif", ".svg or .png"]);

    let svg = folder.path().join("curves.svg");
    ends(wmc(&["plot"]).arg(&run).arg("-o").arg(&svg), 0);
    assert!(fs::read_to_string(&svg).unwrap().contains("Starter on pendulum_swingup (1 seed)"));
    let png = folder.path().join("curves.png");
    ends(wmc(&["plot"]).arg(&run).arg("-o").arg(&png), 0);
    assert!(fs::read(&png).unwrap().starts_with(b"\x89PNG\r\n"));
    refuses(wmc(&["plot"]).arg(&run).args(["-o", "curves.gif"]), &["curves.gif", ".svg or .png"]);
    refuses(wmc(&["plot"]).arg(folder.path().join("no")), &["it is not there"]);
}

#[test]
fn plans_of_a_stream_carry_the_memory_on() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    ends(train(&run, &["steps=60", "seed_steps=50", "eval_every=60", "length=30"]).arg("--quiet"), 0);
    let stream = |input: &str, code: i32| -> Vec<String> {
        let mut command = wmc(&["plan", "--stream"]);
        let mut child = command.arg(&run).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A command that has failed reads no more.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        text(&output.stdout).lines().map(str::to_string).collect()
    };
    let one = text(&ends(wmc(&["plan", "--obs", "1,0,-0.5"]).arg(&run), 0).stdout);
    let lines = stream("[1, 0, -0.5]\n\n[1, 0, -0.5]\n{\"obs\": [1, 0, -0.5], \"first\": true}\n", 0);
    assert_eq!((lines.len(), &lines[0]), (3, &one.trim_end().to_string()));
    assert_ne!(lines[0], lines[1]);
    assert_eq!(stream("[1, 0, 0]\n[1]\n[1, 0, 0]\n", 2).len(), 3);
    assert_eq!(stream("one\n", 2).len(), 1);
    refuses(wmc(&["plan", "--obs", "1,0"]).arg(&run), &["has 2 numbers and should have 3"]);
    refuses(wmc(&["plan", "--obs", "1,0,nan"]).arg(&run), &["no number"]);
}

#[test]
fn bad_input_is_refused_and_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    refuses(&mut train(&run, &["stepps=5"]), &["stepps", "steps, seed_steps"]);
    refuses(&mut train(&run, &["steps=0"]), &["whole number"]);
    refuses(train(&run, &[]).args(["--task", "cheetah-run"]), &["cheetah_run"]);
    refuses(train(&run, &["physics=mujoco"]).args(["--task", "pendulum-swingup"]), &["not one of MuJoCo's"]);
    refuses(wmc(&["train", "models/nothing.wm"]).arg("--out").arg(&run), &["there is no file"]);
    refuses(wmc(&["train", "models/tasks.wm"]).arg("--out").arg(&run), &["no model"]);
    refuses(wmc(&["train", "--resume"]).arg(&run), &["it is not there"]);
    refuses(wmc(&["train", "--resume"]).arg(folder.path()), &["no run.json"]);
    assert!(!run.exists());
    refuses(wmc(&["runs"]).arg(&run), &["cannot look into"]);
    // A file where the folder should be.
    fs::write(folder.path().join("file"), "").unwrap();
    refuses(&mut train(&folder.path().join("file/run"), &[]), &["file/run"]);
}

#[test]
fn a_broken_checkpoint_gives_way_to_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let set = ["steps=100", "seed_steps=50", "eval_every=100", "length=30"];
    ends(train(&run, &set).args(["--quiet", "--save-every", "40"]), 0);
    let whole = learnt(&run);
    let (step, place) = newest(&run).unwrap();
    assert_eq!(step, 100);
    let file = place.join("world.safetensors");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let output = ends(wmc(&["eval"]).arg(&run), 0);
    assert!(text(&output.stderr).contains("cut off or edited"), "{}", text(&output.stderr));
    // Trained on from the one before, to the same end.
    let output = ends(wmc(&["train", "--resume"]).arg(&run), 0);
    assert!(text(&output.stderr).contains("going on from step 80"), "{}", text(&output.stderr));
    assert!(learnt(&run) == whole);
    // An edited model made none of them.
    let model = run.join("model/starter.wm");
    let edited = fs::read_to_string(&model).unwrap().replace("gamma = 0.97", "gamma = 0.98");
    fs::write(&model, edited).unwrap();
    refuses(wmc(&["eval"]).arg(&run), &["another model"]);
    refuses(wmc(&["train", "--resume"]).arg(&run), &["another model"]);
}

/// Runs a script in a namespace of its own, with a disk of 400 KiB mounted at the folder. None where that cannot be done.
#[cfg(target_os = "linux")]
fn on_a_small_disk(script: &str) -> Option<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    let inside = |script: &str| Command::new("unshare").args(["-Urm", "sh", "-c", script]).output();
    let mount = format!("mount -t tmpfs -o size=400k tmpfs {place}");
    if !inside(&mount).is_ok_and(|o| o.status.success()) {
        eprintln!("SKIPPED, a disk cannot be mounted here");
        return None;
    }
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/starter.wm");
    let train = format!("train {} --dim S=4,H=3,B=4,T=4 --quiet", model.display());
    let script =
        script.replace("TRAIN", &train).replace("wmc ", &format!("{} ", env!("CARGO_BIN_EXE_wmc"))).replace("DISK", &place);
    let output = inside(&format!("{mount} && cd {place}\n{script}")).unwrap();
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert!(!told.contains("panicked"), "{told}");
    Some((said, told))
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_ends_the_run_and_keeps_what_was_saved() {
    let script = "wmc TRAIN --out run --save-every 20 --set steps=20000 --set seed_steps=19000 --set eval_every=20000
        echo ended $?
        wmc eval run --episodes 1; echo used $?";
    let Some((said, told)) = on_a_small_disk(script) else { return };
    assert!(said.contains("ended 2") && said.contains("used 0"), "{said}{told}");
    assert!(told.contains("No space left"), "{told}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_cannot_be_written_ends_the_run_and_keeps_what_was_saved() {
    let set = "--set steps=60 --set seed_steps=50 --set eval_every=60 --set length=30";
    let script = format!(
        "wmc TRAIN {set} --out run; echo trained $?
        mount -o remount,ro DISK
        wmc TRAIN {set} --out other; echo started $?
        wmc train --resume run --set steps=80; echo resumed $?
        wmc eval run --episodes 1; echo used $?"
    );
    let Some((said, told)) = on_a_small_disk(&script) else { return };
    for outcome in ["trained 0", "started 2", "resumed 2", "used 0"] {
        assert!(said.contains(outcome), "{outcome}: {said}{told}");
    }
    assert!(told.matches("Read-only file system").count() == 2, "{told}");
}

#[test]
#[cfg(unix)]
fn ctrl_c_saves_and_the_run_goes_on_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let (alone, stopped) = (folder.path().join("alone"), folder.path().join("stopped"));
    let set = ["steps=2000", "seed_steps=50", "eval_every=2000", "eval_episodes=1", "length=10"];
    ends(train(&alone, &set).arg("--quiet"), 0);
    let mut child = train(&stopped, &set).arg("--json").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // In the middle: it has decided, and there is no checkpoint yet.
    for _ in 0..20 {
        lines.next().unwrap().unwrap();
    }
    assert!(newest(&stopped).is_none());
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let (step, _) = newest(&stopped).unwrap();
    assert!((100..2000).contains(&step), "stopped at {step}");
    ends(wmc(&["train", "--quiet", "--resume"]).arg(&stopped), 0);
    assert!(learnt(&stopped) == learnt(&alone), "the stopped run has other parameters");
}

#[test]
fn a_task_at_fault_ends_the_run_and_keeps_what_was_saved() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    ends(train(&run, &["steps=60", "seed_steps=50", "eval_every=60", "length=30"]).arg("--quiet"), 0);
    let before = learnt(&run);
    // Rewards that no single-precision number can hold.
    let resume = |set: &[&str]| {
        let mut command = wmc(&["train", "--resume"]);
        command.arg(&run).args(set.iter().flat_map(|s| ["--set", s]));
        command
    };
    refuses(&mut resume(&["steps=90", "reward_scale=1e300"]), &["as reward at step", "the task is at fault", "as it was"]);
    assert!(learnt(&run) == before);
    // Episodes of one decision.
    let other = folder.path().join("other");
    refuses(&mut train(&other, &["steps=500", "seed_steps=50", "length=1"]), &["no episode has the 4 observations", "--dim T="]);
}

#[test]
fn a_users_own_mjcf_model_is_trained_on() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let xml = r#"<mujoco><worldbody><body><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body></worldbody>
        <actuator><motor joint="x" ctrllimited="true" ctrlrange="-1 1"/></actuator><sensor><jointvel name="speed" joint="x"/></sensor></mujoco>"#;
    fs::write(folder.path().join("my-slider.xml"), xml).unwrap();
    let task = format!("mjcf:{}", folder.path().join("my-slider.xml").display());
    let train = |task: &str| {
        let mut command = train(&run, &["steps=60", "seed_steps=50", "eval_every=60"]);
        command.args(["--quiet", "--task", task]);
        command
    };
    refuses(&mut train("mjcf:nowhere.xml"), &["nowhere.xml"]);
    refuses(&mut train(&task), &["my-slider.toml"]);
    fs::write(folder.path().join("my-slider.toml"), "length = 30\nrewards = { speed = 1 }\n").unwrap();
    if !text(&ends(&mut wmc(&["doctor"]), 0).stdout).contains("3.17.0 in ") {
        eprintln!("SKIPPED, MuJoCo is not installed: `wmc tasks install`");
        return;
    }
    ends(&mut train(&task), 0);
    ends(wmc(&["eval", "--ood", "mass=2"]).arg(&run), 0);
    // Another task is not the one that was learnt.
    fs::write(folder.path().join("my-slider.toml"), "length = 30\nrewards = { speed = 2 }\n").unwrap();
    refuses(wmc(&["eval"]).arg(&run), &["another model"]);
}

#[test]
fn tasks_and_doctor_say_what_there_is() {
    let tasks = text(&ends(&mut wmc(&["tasks"]), 0).stdout);
    assert!(tasks.contains("cartpole_swingup") && tasks.contains("cheetah_run"), "{tasks}");
    // A library that is no library.
    let folder = tempfile::tempdir().unwrap();
    let doctor = |folder: &Path| text(&ends(wmc(&["doctor"]).env("WMC_MUJOCO", folder), 0).stdout);
    assert!(doctor(folder.path()).contains("wmc tasks install"));
    fs::create_dir_all(folder.path().join("mujoco")).unwrap();
    fs::create_dir_all(folder.path().join("dm_control/suite")).unwrap();
    fs::write(folder.path().join("mujoco/libmujoco.so.3.17.0"), "no library").unwrap();
    fs::write(folder.path().join("dm_control/suite/cheetah.xml"), "").unwrap();
    assert!(doctor(folder.path()).contains("cannot open"));
    let mut command = wmc(&["train", "models/sac.wm", "--task", "cheetah-run", "--out"]);
    refuses(command.arg(folder.path().join("run")).env("WMC_MUJOCO", folder.path()), &["cannot open"]);
}
