//! `wmc compile` and `wmc snapshot`, as built: artefacts, what is refused, and what a change does to kernels.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use compiler::artefact::Artefact;

const SIZES: [&str; 4] = ["--task", "pendulum-swingup", "--dim", "S=4,H=3,B=4,T=4"];
const ARTEFACT: &str = "starter-pendulum_swingup.wmx";

/// The starter model in a folder of its own.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        fs::write(folder.path("starter.wm"), include_str!("../src/starter.wm")).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn wmc(&self, arguments: &[&str], code: i32) -> Output {
        let output = Command::new(env!("CARGO_BIN_EXE_wmc")).current_dir(self.0.path()).args(arguments).output().unwrap();
        let told = text(&output.stderr);
        assert!(!told.contains("panicked"), "{arguments:?}: {told}");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}{told}", text(&output.stdout));
        output
    }

    fn compile(&self, more: &[&str], code: i32) -> Output {
        self.wmc(&[&["compile", "starter.wm"], &SIZES[..], more].concat(), code)
    }

    fn snapshot(&self, more: &[&str], code: i32) -> Output {
        self.wmc(&[&["snapshot", "starter.wm"], &SIZES[..], more].concat(), code)
    }

    fn change(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.path("starter.wm")).unwrap();
        assert!(text.contains(from));
        fs::write(self.path("starter.wm"), text.replace(from, to)).unwrap();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn says(output: &[u8], words: &[&str]) {
    let said = text(output);
    for word in words {
        assert!(said.contains(word), "`{word}` is not in\n{said}");
    }
}

#[test]
fn a_second_compile_has_nothing_to_do() {
    let folder = Folder::new();
    let first = folder.compile(&["-o", "build"], 0);
    says(&first.stdout, &["entry", "train_step", "launches", "wrote build/starter-pendulum_swingup.wmx"]);
    let bytes = fs::read(folder.path("build").join(ARTEFACT)).unwrap();
    let second = folder.compile(&["-o", "build"], 0);
    says(&second.stdout, &["train_step", "is up to date"]);
    // The same table, whether it was just made or read.
    let table = |o: &Output| text(&o.stdout).lines().take_while(|l| !l.contains("build/")).map(String::from).collect::<Vec<_>>();
    assert_eq!(table(&first), table(&second));
    // Another batch, another text, a file that was damaged: made anew.
    says(&folder.compile(&["-o", "build", "--batch", "2"], 0).stdout, &["wrote"]);
    says(&folder.compile(&["-o", "build"], 0).stdout, &["wrote"]);
    folder.change("gamma = 0.97", "gamma = 0.96");
    says(&folder.compile(&["-o", "build"], 0).stdout, &["wrote"]);
    folder.change("gamma = 0.96", "gamma = 0.97");
    fs::write(folder.path("build").join(ARTEFACT), &bytes[..1000]).unwrap();
    says(&folder.compile(&["-o", "build"], 0).stdout, &["wrote"]);
    assert!(fs::read(folder.path("build").join(ARTEFACT)).unwrap() == bytes, "the same text makes the same bytes");
}

#[test]
fn texts_to_read() {
    let folder = Folder::new();
    folder.compile(&["--emit", "ir,graph,kernels", "--entry", "plan"], 0);
    for kind in ["ir", "graph"] {
        let program = fs::read_to_string(folder.path(&format!("starter-pendulum_swingup.plan.{kind}"))).unwrap();
        compiler::ir::text::parse(&program).unwrap_or_else(|e| panic!("{kind}: {e}"));
    }
    let kernels = fs::read_to_string(folder.path("starter-pendulum_swingup.plan.kernels")).unwrap();
    let program = compiler::kernel::text::parse(&kernels).unwrap();
    compiler::kernel::verify::verify(&program).unwrap();
}

#[test]
fn what_cannot_be_compiled() {
    let folder = Folder::new();
    says(&folder.compile(&["--target", "tpu"], 2).stderr, &["`tpu` is no target", "cuda:sm_86"]);
    for wrong in ["cuda:sm_7", "cuda:sm_86:fp8", "vulkan:tf32"] {
        says(&folder.compile(&["--target", wrong], 2).stderr, &["is no target", "cuda:sm_86:tf32 for tensor cores"]);
    }
    says(&folder.compile(&["--emit", "asm"], 2).stderr, &["asm", "kernels"]);
    says(&folder.compile(&["-o", "starter.wm/x"], 2).stderr, &["cannot write", "-o"]);
    says(&folder.compile(&["--entry", "record"], 2).stderr, &["has no record"]);
    if cfg!(feature = "emit") {
        says(&folder.compile(&["--emit", "cuda"], 2).stderr, &["no target has a text `cuda`", "add `--target cuda:sm_86`"]);
        says(&folder.compile(&["--target", "all", "--entry", "plan", "--emit", "all"], 0).stdout, &["cuda:sm_86", "vulkan"]);
        says(&folder.compile(&["--target", "cuda:sm_86:tf32", "--entry", "plan"], 0).stdout, &["cuda:sm_86:tf32"]);
        let texts = fs::read_dir(folder.path("starter-pendulum_swingup.plan")).unwrap().flatten();
        let names: Vec<String> = texts.map(|f| f.file_name().to_string_lossy().into_owned()).collect();
        assert!(names.iter().any(|n| n.ends_with(".cu")) && names.iter().any(|n| n.ends_with(".wgsl")), "{names:?}");
    } else {
        let refused = folder.compile(&["--target", "cuda:sm_86"], 2);
        says(&refused.stderr, &["compiles for the processor alone", "cargo build --release --features emit"]);
        let refused = folder.compile(&["--emit", "cuda"], 2);
        says(&refused.stderr, &["it has no text `cuda`", "--features emit", "--target cuda:sm_86"]);
    }
}

/// A run of a few steps, and the folder of its checkpoint.
fn trained(folder: &Folder) -> PathBuf {
    let set = ["steps=30", "seed_steps=10", "eval_every=30", "eval_episodes=1", "length=10"];
    let mut arguments = vec!["train", "starter.wm", "--quiet", "--out", "run", "--dim", "S=4,H=3,B=4,T=4"];
    arguments.extend(set.iter().flat_map(|s| ["--set", s]));
    folder.wmc(&arguments, 0);
    let checkpoints = fs::read_dir(folder.path("run/checkpoints")).unwrap().flatten();
    checkpoints.map(|c| c.path()).filter(|c| c.is_dir()).max().expect("a checkpoint")
}

#[test]
fn a_plan_without_the_text() {
    let folder = Folder::new();
    let checkpoint = trained(&folder);
    folder.compile(&[], 0);
    let obs = ["--obs", "0.6,-0.8,0.5"];
    let seed = fs::read_to_string(folder.path("run/run.json")).unwrap();
    let seed = seed.lines().find_map(|l| l.trim().strip_prefix("\"seed\": ")).expect("a seed").trim_end_matches(',').to_string();
    let of_run = folder.wmc(&[&["plan", "run"], &obs[..]].concat(), 0);
    // The checkpoint and the artefact, and nothing else.
    let place = folder.path("elsewhere");
    fs::rename(&checkpoint, &place).unwrap();
    fs::remove_file(folder.path("starter.wm")).unwrap();
    fs::remove_dir_all(folder.path("run")).unwrap();
    let plan = |artefact: &Path, code| {
        let artefact = artefact.to_str().unwrap();
        folder.wmc(&[&["plan", "elsewhere", "--artefact", artefact, "--seed", &seed], &obs[..]].concat(), code)
    };
    assert_eq!(text(&plan(Path::new(ARTEFACT), 0).stdout), text(&of_run.stdout));

    let bytes = fs::read(folder.path(ARTEFACT)).unwrap();
    let refused = |bytes: &[u8], words: &[&str]| {
        fs::write(folder.path("other.wmx"), bytes).unwrap();
        says(&plan(Path::new("other.wmx"), 2).stderr, words);
    };
    let mut edited = bytes.clone();
    edited[bytes.len() / 2] ^= 1;
    refused(&edited, &["other.wmx", "cut off or edited"]);
    refused(&bytes[..bytes.len() - 10], &["cut off or edited"]);
    refused(b"a text", &["it is no artefact"]);
    refused(&[b"wmx 9\n", &bytes[6..]].concat(), &["its format is 9", "compile the model again"]);
    says(&plan(Path::new("nowhere.wmx"), 2).stderr, &["nowhere.wmx"]);
}

/// Artefacts that were made to do harm: a message and exit code 2, or the honest action.
#[test]
fn crafted_artefacts() {
    let folder = Folder::new();
    let checkpoint = trained(&folder);
    folder.compile(&[], 0);
    let place = checkpoint.to_str().unwrap();
    let plan =
        |artefact: &str, code| folder.wmc(&["plan", place, "--artefact", artefact, "--seed", "3", "--obs", "1000,0.25,1"], code);
    let wanted = text(&plan(ARTEFACT, 0).stdout);
    let honest = Artefact::read(&fs::read(folder.path(ARTEFACT)).unwrap()).unwrap();
    for one in compiler::testing::crafted(&honest) {
        fs::write(folder.path("x.wmx"), &one.bytes).unwrap();
        match one.refused {
            Some(words) => says(&plan("x.wmx", 2).stderr, &["x.wmx", words]),
            None => assert_eq!(text(&plan("x.wmx", 0).stdout), wanted, "{}", one.name),
        }
    }
}

#[test]
fn an_artefact_of_another_text() {
    let folder = Folder::new();
    let checkpoint = trained(&folder);
    folder.change("gamma = 0.97", "gamma = 0.96");
    folder.compile(&[], 0);
    let place = checkpoint.to_str().unwrap();
    let refused = folder.wmc(&["plan", place, "--artefact", ARTEFACT, "--obs", "0.6,-0.8,0.5"], 2);
    says(&refused.stderr, &["another model", "the text, task and sizes of the run"]);
    folder.change("gamma = 0.96", "gamma = 0.97");
    folder.compile(&["--batch", "3"], 0);
    let refused = folder.wmc(&["plan", place, "--artefact", ARTEFACT, "--obs", "0.6,-0.8,0.5"], 2);
    says(&refused.stderr, &["3 environments at once"]);
    folder.compile(&["--entry", "train_step"], 0);
    let refused = folder.wmc(&["plan", place, "--artefact", ARTEFACT, "--obs", "0.6,-0.8,0.5"], 2);
    says(&refused.stderr, &["no entry point `plan`"]);
}

#[test]
fn what_a_change_does_to_kernels() {
    let folder = Folder::new();
    let kept = |name: &str| folder.path("snapshots/starter-pendulum_swingup").join(name);
    says(&folder.snapshot(&[], 1).stdout, &["plan.kernels is new"]);
    assert!(!folder.path("snapshots").exists(), "nothing is written without --accept");
    says(&folder.snapshot(&["--accept"], 0).stdout, &["kept ", "train_step.kernels"]);
    says(&folder.snapshot(&[], 0).stdout, &["are as the model is now"]);
    let program = fs::read_to_string(kept("plan.kernels")).unwrap();
    compiler::kernel::text::parse(&program).unwrap();
    assert!(program.starts_with("; Starter plan: "), "{}", program.lines().next().unwrap_or_default());

    // A wider layer: its sizes change, in the entry points that have it.
    folder.change("net  move(z, a, m) -> [S] = mlp([64], silu)", "net  move(z, a, m) -> [S] = mlp([48], silu)");
    let changed = folder.snapshot(&["--entry", "plan", "--context", "0"], 1);
    says(&changed.stdout, &["plan.kernels (kept)", "plan.kernels (now)", "gemm n 48", "gemm n 64", "@@"]);
    assert!(!text(&changed.stdout).contains("train_step"));
    says(&changed.stderr, &["1 of 1 files differ", "--accept"].map(|w| if cfg!(feature = "emit") { "differ" } else { w }));
    folder.snapshot(&["--entry", "plan", "--accept"], 0);
    folder.snapshot(&["--entry", "plan"], 0);
    says(&folder.snapshot(&[], 1).stdout, &["train_step.kernels (now)"]);

    // An entry point that is gone.
    fs::write(kept("record.kernels"), "program record\n").unwrap();
    says(&folder.snapshot(&[], 1).stdout, &["record.kernels is gone"]);
    says(&folder.snapshot(&["--accept"], 0).stdout, &["removed "]);
    assert!(!kept("record.kernels").exists());
    folder.snapshot(&[], 0);
    says(&folder.snapshot(&["--entry", "plam"], 2).stderr, &["did you mean `plan`?"]);
}
