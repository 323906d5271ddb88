//! The library from C and from Python, and the header that they see.

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::process::Command;

use compiler::artefact::{About, Artefact, EntryPoint};
use compiler::kernel::fuse::Level;
use compiler::lower::Entry;
use runtime::checkpoint;
use runtime::run::{Identity, Run, Texts};
use runtime::train::{Config, Trainer};

const STARTER: &str = include_str!("../../../src/starter.wm");

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A run of the starter model, or of one like it, with one checkpoint.
fn run(folder: &Path, text: &str) -> Run {
    let dims: Vec<(String, u64)> = [("S", 4), ("H", 3), ("B", 4), ("T", 4)].map(|(n, s)| (n.to_string(), s)).to_vec();
    let options = dsl::Options { dims: dims.clone(), task: Some("pendulum_swingup".into()), ..dsl::Options::default() };
    let model = dsl::check("starter.wm", text, &dsl::NoLoader, &options).models.remove(0);
    let config = Config::new(model, "pendulum_swingup", 7).unwrap();
    let texts = Texts { file: "starter.wm".into(), text: text.into(), imports: Vec::new() };
    let run = Run::create(folder, &Identity::new("starter.wm", &config, dims, Vec::new()), &texts).unwrap();
    let mut trainer = Trainer::new(run.config.clone()).unwrap();
    (0..10).for_each(|_| drop(trainer.advance().unwrap()));
    let snapshot = trainer.save().unwrap();
    let manifest = checkpoint::manifest(&snapshot, &run.fingerprint, trainer.computes_with(), 0);
    checkpoint::write(&run.checkpoints(), &manifest, &snapshot, 2).unwrap();
    run
}

/// What `wmc compile` writes for the run's model.
fn compiled(run: &Run) -> Artefact {
    let model = &run.config.model;
    let about = About {
        model: model.name.clone(),
        fingerprint: run.fingerprint.clone(),
        compiler: "this build".into(),
        targets: vec!["cpu".into()],
        level: "mega".into(),
        batch: None,
        entries: vec!["plan".into()],
    };
    let plan = EntryPoint::compile(model, Entry::Plan, None, Level::Mega).unwrap();
    Artefact { about, model: model.clone(), entries: vec![plan] }
}

/// The shared library, which cargo builds beside the tests.
fn library() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let name = format!("{}wmc_plan{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let places = exe.ancestors().skip(1).take(2).map(|folder| folder.join(&name));
    places.into_iter().find(|p| p.exists()).unwrap_or_else(|| panic!("no {name} near {}", exe.display()))
}

fn actions(output: std::process::Output) -> Vec<f64> {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?} {told}", output.status);
    String::from_utf8(output.stdout).unwrap().lines().map(|l| l.parse().unwrap()).collect()
}

/// A program in C with the library.
fn built(source: &Path, library: &Path, folder: &Path) -> PathBuf {
    let program = folder.join("program");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-I"]).arg(here().join("include")).arg(source).arg(library);
    let output = cc.arg("-o").arg(&program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// None, said aloud, where the machine has no such program.
fn has(program: &str) -> Option<()> {
    let found = Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    found.then_some(()).or_else(|| {
        eprintln!("SKIPPED, there is no `{program}` here");
        None
    })
}

#[test]
fn c_and_python_plan_as_rust_does() {
    let folder = tempfile::tempdir().unwrap();
    let with_last_reward = STARTER
        .replace("encoder(obs)  ->", "encoder(obs, prev: []) ->")
        .replace("z[t]    = encoder(obs[t])", "z[t]    = encoder(obs[t], r[t-1])   with r[-1] = 0   for t in 0..T");
    for (name, text) in [("plain", STARTER), ("rewarded", &with_last_reward)] {
        let run = run(&folder.path().join(name), text);
        same_from(&run, folder.path(), name == "rewarded");
    }
}

/// A run's actions, from Rust and from elsewhere.
fn same_from(run: &Run, folder: &Path, rewarded: bool) {
    let mut policy = run.policy().unwrap();
    assert_eq!(policy.needs_outcome(), rewarded);
    let seen = [0.6, -0.8, 0.5];
    let mut wanted = policy.plan(&seen).unwrap();
    policy.outcome(0.75, false).unwrap();
    wanted.extend(policy.plan(&seen).unwrap());
    policy.reset().unwrap();
    wanted.extend(policy.plan(&seen).unwrap());
    // A new episode begins the same way, whatever was before it.
    let mut other = run.policy().unwrap();
    for _ in 0..2 {
        other.plan(&[0.0, 1.0, 3.0]).unwrap();
        other.outcome(-2.0, false).unwrap();
    }
    other.reset().unwrap();
    assert_eq!(other.plan(&seen).unwrap(), wanted[2..]);
    let library = library();
    if has("python3").is_some() {
        let script = here().join("tests/plan.py");
        let output = Command::new("python3").arg(script).arg(&library).arg(&run.folder).output().unwrap();
        assert_eq!(actions(output), wanted);
    }
    if has("cc").is_some() {
        let search = library.parent().unwrap();
        let example = built(&here().join("../../examples/plan.c"), &library, folder);
        let mut command = Command::new(&example);
        command.arg(&run.folder).args(seen.map(|x| x.to_string())).env("LD_LIBRARY_PATH", search);
        assert_eq!(actions(command.output().unwrap()), wanted[..1]);
        let program = built(&here().join("tests/plan.c"), &library, folder);
        let output = Command::new(&program).arg(&run.folder).env("LD_LIBRARY_PATH", search).output().unwrap();
        assert_eq!(actions(output), wanted);
        // The same from a folder whose name is no UTF-8.
        #[cfg(unix)]
        {
            let odd = folder.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"run-\xff"));
            std::fs::rename(&run.folder, &odd).unwrap();
            let output = Command::new(&program).arg(&odd).env("LD_LIBRARY_PATH", search).output().unwrap();
            std::fs::rename(&odd, &run.folder).unwrap();
            assert_eq!(actions(output), wanted);
        }
        // The same without the model's text.
        let (artefact, checkpoint) = (run.folder.join("starter.wmx"), run.newest().unwrap().0);
        std::fs::write(&artefact, compiled(run).write().unwrap()).unwrap();
        std::fs::remove_dir_all(run.folder.join("model")).unwrap();
        let mut command = Command::new(&program);
        command.args([&run.folder, &artefact, &checkpoint]).env("LD_LIBRARY_PATH", search);
        assert_eq!(actions(command.output().unwrap()), wanted);
    }
}

/// Artefacts that were made to do harm end in a text for the caller.
#[test]
fn crafted_artefacts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(&folder.path().join("run"), STARTER);
    let checkpoint = run.newest().unwrap().0;
    let c = |path: &Path| CString::new(path.to_str().unwrap()).unwrap();
    for one in compiler::testing::crafted(&compiled(&run)) {
        let path = folder.path().join("x.wmx");
        std::fs::write(&path, &one.bytes).unwrap();
        let mut error = [0u8; 400];
        let (artefact, checkpoint, room) = (c(&path), c(&checkpoint), error.len());
        let text = error.as_mut_ptr().cast();
        // SAFETY: texts that end with a zero, and a buffer of the length that is said.
        let policy =
            unsafe { wmc_plan::wm_load_artefact(artefact.as_ptr(), checkpoint.as_ptr(), 3, std::ptr::null(), text, room) };
        assert_eq!(policy.is_null(), one.refused.is_some(), "{}", one.name);
        // SAFETY: it comes from `wm_load_artefact`, or is null.
        unsafe { wmc_plan::wm_free(policy) };
        let said = CStr::from_bytes_until_nul(&error).unwrap().to_str().unwrap();
        assert!(said.contains(one.refused.unwrap_or("")), "{}: {said}", one.name);
    }
}

#[test]
fn the_header_is_what_the_source_says() {
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new().with_config(config).with_src(here().join("src/lib.rs")).generate().unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    let path = here().join("include/wmc_plan.h");
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read(&path).unwrap_or_default();
    assert!(made == kept, "the header is out of date: UPDATE_HEADER=1 cargo test -p wmc-plan writes it");
}
