//! The built command, run in temporary folders: exit codes, streams, files.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A model that parses.
const SMALL: &str = "model Small {\n  dim Q = 8\n}\n";

struct Run {
    code: i32,
    out: String,
    err: String,
}

/// A folder with files, in which the command runs.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(files: &[(&str, &str)]) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        for (name, text) in files {
            folder.write(name, text);
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Run {
        self.run_with(arguments, "")
    }

    fn run_with(&self, arguments: &[&str], stdin: &str) -> Run {
        let mut child = wmc(self.0.path())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that does not read its input may be gone by now.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        let output = child.wait_with_output().unwrap();
        let run = Run {
            code: output.status.code().expect("ended by itself"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(!run.err.contains("panicked"), "{arguments:?}: {}", run.err);
        assert!(!run.out.contains('\x1b') && !run.err.contains('\x1b'), "colours into a pipe");
        run
    }
}

fn wmc(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wmc"));
    // Nothing is remembered from one test to the next.
    command.current_dir(folder).env("WMC_CACHE", "");
    command
}

/// A check that found nothing is told again, and forgotten when the text changes.
#[test]
fn checks_are_remembered() {
    let folder = Folder::with(&[("twice.wm", "fn twice(x) { return 2 * x }\n")]);
    let kept = tempfile::tempdir().unwrap();
    let check = || {
        let output = wmc(folder.0.path()).args(["check", "twice.wm"]).env("WMC_CACHE", kept.path()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let first = check();
    assert_eq!(first.0, Some(0), "{}", first.1);
    let answers = || fs::read_dir(kept.path().join("checks")).map_or(0, Iterator::count);
    assert_eq!(answers(), 1);
    assert_eq!(check(), first);
    folder.write("twice.wm", "fn twice(x) { return 2 * }\n");
    assert_eq!(check().0, Some(2));
    assert_eq!(answers(), 1, "a check with errors is not remembered");
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

#[test]
fn version_and_usage() {
    let folder = Folder::with(&[]);
    assert_eq!(folder.run(&["--version"]).code, 0);
    assert_eq!(folder.run(&[]).code, 2);
    assert_eq!(folder.run(&["check"]).code, 2);
    assert_eq!(folder.run(&["check", "x.wm", "--dim", "O=many"]).code, 2);
    let slip = folder.run(&["chekc", "x.wm"]);
    assert_eq!(slip.code, 2);
    assert!(slip.err.contains("check"), "{}", slip.err);
}

#[test]
fn help_tells_the_exit_codes_and_has_examples() {
    let folder = Folder::with(&[]);
    let help = folder.run(&["--help"]);
    assert_eq!(help.code, 0);
    assert!(help.out.contains("Exit codes:") && help.out.contains("Examples:"));
    for command in [
        "check",
        "fmt",
        "show",
        "run",
        "compile",
        "snapshot",
        "explain",
        "train",
        "eval",
        "export",
        "plan",
        "rollout",
        "runs",
        "plot",
        "tasks",
        "doctor",
        "new",
        "help",
        "completions",
    ] {
        let page = folder.run(&["help", command]);
        assert_eq!(page.code, 0);
        assert!(page.out.contains(&format!("wmc {command}")) && page.out.contains("Examples:"), "{}", page.out);
        assert_eq!(folder.run(&[command, "--help"]).out.trim_end(), page.out.trim_end());
    }
    assert_eq!(folder.run(&["help"]).out.trim_end(), help.out.trim_end());
}

#[test]
fn pages_of_codes() {
    let folder = Folder::with(&[]);
    let page = folder.run(&["help", "e0203"]);
    assert_eq!(page.code, 0);
    assert!(page.out.starts_with("E0203: "), "{}", page.out);
    assert!(page.out.contains("wmc help tiny"), "{}", page.out);
    // The examples are whole files beside the model that they extend.
    fs::write(folder.path("tiny.wm"), folder.run(&["help", "tiny"]).out).expect("written");
    assert_eq!(folder.run(&["check", "tiny.wm"]).code, 0);
    let list = folder.run(&["help", "codes"]);
    assert_eq!(list.out.lines().count(), dsl::diagnostics::CODES.len());
    for code in dsl::diagnostics::CODES {
        assert!(list.out.contains(&format!("{}  {}\n", code.id(), code.title())));
        assert_eq!(folder.run(&["help", code.id()]).code, 0);
    }
}

#[test]
fn an_unknown_code_gets_a_suggestion() {
    let folder = Folder::with(&[]);
    let page = folder.run(&["help", "E9203"]);
    assert_eq!(page.code, 2);
    assert!(page.out.is_empty() && page.err.contains("did you mean `wmc help E0203`?"), "{}", page.err);
    assert_eq!(folder.run(&["help", "nonsense"]).code, 2);
}

#[test]
fn syntax_errors_are_bad_input() {
    let folder = Folder::with(&[("x.wm", "model X {\n  dim Q = \n}\n"), ("y.wm", SMALL)]);
    let run = folder.run(&["check", "x.wm"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("x.wm:") && run.err.contains("error[E0"), "{}", run.err);
    assert!(run.err.contains("wmc help E0"), "{}", run.err);
    assert!(run.out.starts_with("x.wm: ") && run.out.contains("error"), "{}", run.out);
    // All files are looked at, and the worst one decides.
    let both = folder.run(&["check", "x.wm", "y.wm"]);
    assert_eq!(both.code, 2);
    assert_eq!(both.out.lines().count(), 2);
}

#[test]
fn files_that_cannot_be_read() {
    let folder = Folder::with(&[("models/small.wm", SMALL)]);
    folder.write("bytes.wm", b"model \xff\xfe {}");
    for command in ["check", "fmt", "show"] {
        let missing = folder.run(&[command, "models/smal.wm"]);
        assert_eq!(missing.code, 2);
        assert!(missing.err.contains("there is no file `models/smal.wm`"), "{}", missing.err);
        assert!(missing.err.contains("did you mean `models/small.wm`?"), "{}", missing.err);

        let elsewhere = folder.run(&[command, "nowhere/small.wm"]);
        assert_eq!(elsewhere.code, 2);
        assert!(elsewhere.err.contains("no folder `nowhere`"), "{}", elsewhere.err);

        let directory = folder.run(&[command, "models"]);
        assert_eq!(directory.code, 2);
        assert!(directory.err.contains("`models` is a folder") && directory.err.contains("models/*.wm"), "{}", directory.err);

        let bytes = folder.run(&[command, "bytes.wm"]);
        assert_eq!(bytes.code, 2);
        assert!(bytes.err.contains("E0001") && bytes.err.contains("bytes.wm:1:7"), "{}", bytes.err);
    }
    assert_eq!(fs::read(folder.path("bytes.wm")).unwrap(), b"model \xff\xfe {}");
}

#[test]
fn texts_that_are_too_much() {
    let folder = Folder::with(&[]);
    folder.write("large.wm", " ".repeat(10 << 20));
    folder.write("deep.wm", format!("model M {{ x = {}1{} }}", "(".repeat(100_000), ")".repeat(100_000)));
    for (file, code) in [("large.wm", "E0002"), ("deep.wm", "E0003")] {
        for command in ["check", "fmt", "show"] {
            let run = folder.run(&[command, file]);
            assert_eq!(run.code, 2);
            assert!(run.err.contains(code), "{command} {file}: {}", &run.err[..run.err.len().min(400)]);
        }
    }
}

#[test]
fn json_is_one_object_a_line() {
    let folder = Folder::with(&[("x.wm", "model X {\n  dim Q = \n}\nmodel Y {\n  net = 3\n}\n")]);
    let run = folder.run(&["check", "x.wm", "gone.wm", "--json"]);
    assert_eq!(run.code, 2);
    assert!(run.err.is_empty(), "{}", run.err);
    let lines = json_lines(&run.out);
    assert!(lines.len() >= 3, "{}", run.out);
    for line in &lines {
        for field in [
            "code",
            "severity",
            "message",
            "file",
            "line",
            "column",
            "end_line",
            "end_column",
            "label",
            "related",
            "notes",
            "helps",
        ] {
            assert!(line.get(field).is_some(), "{field} in {line}");
        }
        assert_eq!(line["severity"], "error");
        assert!(line["line"].as_u64().unwrap() >= 1 && line["column"].as_u64().unwrap() >= 1);
    }
    let gone = lines.last().unwrap();
    assert_eq!((gone["code"].as_str(), gone["file"].as_str()), (Some("file"), Some("gone.wm")));
    // The manual names every field.
    let manual = include_str!("../docs/guide/json.md");
    for field in lines[0].as_object().unwrap().keys() {
        assert!(manual.contains(&format!("`{field}`")), "docs/guide/json.md says nothing about `{field}`");
    }
}

#[test]
fn modules_beside_the_file_and_in_roots() {
    let tasks = "tasks dmc {\n  hop(O = 3, A = 1, repeat = 2, length = 100)\n}\n";
    let folder = Folder::with(&[
        ("here/a.wm", "use near::dmc\nmodel A {}\n"),
        ("here/near.wm", tasks),
        ("here/b.wm", "use far::dmc\nmodel B {}\n"),
        ("there/far.wm", tasks),
    ]);
    let unused = |run: &Run| run.err.contains("E0106") || run.err.contains("E0108");
    assert!(!unused(&folder.run(&["check", "here/a.wm"])));
    let lost = folder.run(&["check", "here/b.wm"]);
    assert_eq!(lost.code, 2);
    assert!(lost.err.contains("E0106"), "{}", lost.err);
    assert!(!unused(&folder.run(&["check", "here/b.wm", "--root", "there"])));
    assert!(!unused(&folder.run(&["show", "here/b.wm", "--root", "there"])));
    let no_root = folder.run(&["check", "here/b.wm", "--root", "nowhere"]);
    assert_eq!(no_root.code, 2);
    assert!(no_root.err.contains("`nowhere`") && no_root.err.contains("--root"), "{}", no_root.err);
}

#[cfg(unix)]
#[test]
fn modules_do_not_leave_the_roots() {
    use std::os::unix::fs::symlink;
    let folder = Folder::with(&[("here/a.wm", "use secret\nmodel A {}\n"), ("there/secret.wm", "fn f(x) { return x }\n")]);
    symlink(folder.path("there/secret.wm"), folder.path("here/secret.wm")).unwrap();
    let refused = folder.run(&["check", "here/a.wm"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("E0108"), "{}", refused.err);
    assert!(!refused.err.contains("return x"), "nothing of the file is shown");
    // With its real folder among the roots the link is fine.
    let offered = folder.run(&["check", "here/a.wm", "--root", "there"]);
    assert!(!offered.err.contains("E0108") && !offered.err.contains("E0106"), "{}", offered.err);

    // Links that lead nowhere, to folders, round in circles, to devices.
    for (target, code) in [("nothing.wm", "E0106"), ("loop.wm", "E0106"), ("/dev/zero", "E0108"), (".", "E0106")] {
        let link = folder.path("here/secret.wm");
        fs::remove_file(&link).unwrap();
        symlink(if target == "loop.wm" { "secret.wm" } else { target }, &link).unwrap();
        let run = folder.run(&["check", "here/a.wm"]);
        assert_eq!(run.code, 2);
        assert!(run.err.contains(code), "{target}: {}", run.err);
    }
}

#[test]
fn fmt_leaves_a_broken_file_alone() {
    let broken = "model X {\n      dim Q = \n}\n";
    let folder = Folder::with(&[("x.wm", broken)]);
    for arguments in [vec!["fmt", "x.wm"], vec!["fmt", "--check", "x.wm"]] {
        let run = folder.run(&arguments);
        assert_eq!(run.code, 2);
        assert!(run.err.contains("error[E0") && run.err.contains("left as it is"), "{}", run.err);
        assert!(run.out.is_empty());
    }
    assert_eq!(folder.read("x.wm"), broken);
    let piped = folder.run_with(&["fmt", "-"], broken);
    assert_eq!(piped.code, 2);
    assert!(piped.out.is_empty() && piped.err.contains("<stdin>"), "{}", piped.err);
}

#[test]
fn fmt_twice_is_fmt_once() {
    let folder = Folder::with(&[("x.wm", SMALL)]);
    assert_eq!(folder.run(&["fmt", "x.wm"]).code, 0);
    let once = folder.read("x.wm");
    assert_eq!(folder.run(&["fmt", "--check", "x.wm"]).code, 0);
    let piped = folder.run_with(&["fmt", "-"], &once);
    assert_eq!((piped.code, piped.out), (0, once.clone()));
    assert_eq!(folder.read("x.wm"), once);
}

#[test]
fn new_writes_a_model_once() {
    let folder = Folder::with(&[]);
    let run = folder.run(&["new", "my_world"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let text = folder.read("my_world.wm");
    assert!(text.contains("model MyWorld {") && text.contains("pendulum_swingup(O = 3, A = 1"));
    assert_eq!(folder.run(&["check", "my_world.wm"]).code, 0);

    folder.write("my_world.wm", "mine");
    let again = folder.run(&["new", "my_world"]);
    assert_eq!(again.code, 2);
    assert!(again.err.contains("my_world.wm"), "{}", again.err);
    assert_eq!(folder.read("my_world.wm"), "mine");
}

#[test]
fn new_refuses_what_is_no_name() {
    let folder = Folder::with(&[]);
    for name in ["my-world", "../up", "2fast", "model", "a/b", "x.wm", ""] {
        let run = folder.run(&["new", name]);
        assert_eq!(run.code, 2, "{name}");
    }
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 0);
    assert!(folder.run(&["new", "my-world"]).err.contains("`my_world`"));
}

#[test]
fn completions_for_every_shell() {
    let folder = Folder::with(&[]);
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let run = folder.run(&["completions", shell]);
        assert_eq!(run.code, 0);
        assert!(run.out.contains("wmc") && run.out.contains("deny-warnings"), "{shell}");
    }
    assert_eq!(folder.run(&["completions", "tcl"]).code, 2);
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let folder = Folder::with(&[]);
    for arguments in [vec!["help", "codes"], vec!["completions", "zsh"], vec!["--help"]] {
        let mut child = wmc(folder.0.path()).args(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// `.ci/run` runs what the README says, and both its commands exist.
#[test]
fn the_readme_holds() {
    let readme = include_str!("../README.md");
    // Of a command with a preparation, what it prepares for.
    let last = |line: &'static str| line.strip_prefix("    ")?.split(" && ").last()?.strip_prefix("cargo ");
    let commands: Vec<&str> = readme.lines().filter_map(last).collect();
    let [train, test] = commands.as_slice() else { panic!("two commands: {commands:?}") };
    assert!(include_str!("../.ci/run").lines().any(|line| line == format!("stage suite cargo {test} \"$@\"")));
    let words: Vec<&str> = train.strip_prefix("run --release -- ").unwrap().split(' ').collect();
    // The same, for a few decisions.
    let folder = tempfile::tempdir().unwrap();
    let few = ["steps=24", "seed_steps=20", "eval_every=24", "length=20"].into_iter().flat_map(|s| ["--set", s]);
    let mut command = wmc(Path::new(env!("CARGO_MANIFEST_DIR")));
    let run = command.args(words).args(few).arg("--out").arg(folder.path().join("run")).output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
}

fn project(path: &str) -> String {
    format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn fmt_changes_what_is_untidy() {
    let untidy = "model   X{\ndim Q=8 // eight\n}";
    let folder = Folder::with(&[("x.wm", untidy), ("y.wm", untidy)]);
    let asked = folder.run(&["fmt", "--check", "x.wm", "y.wm"]);
    assert_eq!((asked.code, asked.out.as_str()), (1, "x.wm\ny.wm\n"));
    assert_eq!(folder.read("x.wm"), untidy);
    assert_eq!(folder.run(&["fmt", "x.wm"]).code, 0);
    let tidy = folder.read("x.wm");
    assert!(tidy != untidy && tidy.contains("// eight"));
    assert_eq!(folder.run_with(&["fmt", "-"], untidy).out, tidy);
    assert_eq!(folder.run_with(&["fmt", "--check", "-"], untidy).code, 1);
    assert_eq!(folder.run(&["fmt", "--check", "x.wm"]).code, 0);
}

#[test]
fn the_starter_is_tidy_checks_clean_and_shows() {
    let folder = Folder::with(&[]);
    assert_eq!(folder.run(&["new", "pendulum"]).code, 0);
    for arguments in [vec!["check", "pendulum.wm", "--deny-warnings"], vec!["fmt", "--check", "pendulum.wm"]] {
        let run = folder.run(&arguments);
        assert_eq!(run.code, 0, "{arguments:?}: {}{}", run.out, run.err);
    }
    let at = folder.run(&["check", "pendulum.wm", "--task", "pendulum-swingup"]);
    assert!(at.code == 0 && at.out.starts_with("pendulum.wm: Pendulum ok, "), "{}{}", at.out, at.err);
    let shown = folder.run(&["show", "pendulum.wm", "--params"]);
    assert_eq!(shown.code, 0);
    assert!(shown.out.contains("plan(z, m) = cem(horizon = H"), "{}", shown.out);
}

/// A memory of the user's own: a leaky average with a learned rate.
const LEAKY: &str = "
block leaky(x: [I], width = 16) carry h: [D = width] = zeros([D]) -> [D] {
  param rate: [D] = zeros([D])
  let y  = linear(x) -> [D]
  next h = lerp(h, y, sigmoid(rate))
  return next h
}
";

/// Another memory is another right-hand side of one line, whatever has been written about `m`.
#[test]
fn any_memory_fits() {
    let memories = ["none()", "gru(width = 24)", "gru(layers = 2, width = 16)", "mamba(layers = 1, width = 32, state = 4)"];
    let more = [
        "s6(layers = 2)",
        "ssd(width = 32)",
        "mamba2(layers = 1, width = 32)",
        "ssm(layers = 2, width = 32)",
        "leaky()",
        "leaky(width = 48)",
    ];
    let folder = Folder::with(&[("tasks.wm", include_str!("../models/tasks.wm"))]);
    for text in [include_str!("../models/hamworld_s6.wm"), include_str!("../src/starter.wm")] {
        let line = text.lines().find(|line| line.starts_with("  memory ")).unwrap();
        let (left, _) = line.split_once(" = ").unwrap();
        for memory in memories.iter().chain(&more) {
            folder.write("world.wm", text.replace(line, &format!("{left} = {memory} reset first")) + LEAKY);
            let run = folder.run(&["check", "world.wm", "--deny-warnings"]);
            assert_eq!(run.code, 0, "{memory}: {}", run.err);
        }
    }
}

#[test]
fn hamworld_with_and_without_a_task() {
    let folder = Folder::with(&[]);
    let file = project("models/hamworld_s6.wm");
    let literal = folder.run(&["check", &project("models/hamworld_literal.wm"), "--task", "cheetah_run"]);
    assert!(literal.out.contains(" 572,961 parameters"), "{}{}", literal.out, literal.err);
    let symbolic = folder.run(&["check", &file]);
    assert_eq!(symbolic.code, 0, "{}", symbolic.err);
    assert!(symbolic.out.contains("*O") && symbolic.out.contains("*A"), "{}", symbolic.out);
    let task = folder.run(&["check", &file, "--task", "cheetah-run"]);
    assert!(task.out.contains("HamWorldS6 ok, 62 parameter tensors, 486,945 parameters"), "{}", task.out);
    assert_eq!(folder.run(&["check", &file, "--dim", "O=17,A=6"]).out, task.out);
    assert_eq!(folder.run(&["check", &file, "--task", "walk_on_water"]).code, 2);
}

#[test]
fn warnings_are_denied_on_demand() {
    // A dim that nothing reads.
    let folder = Folder::with(&[]);
    folder.run(&["new", "pendulum"]);
    let text = folder.read("pendulum.wm").replace("dim   S = 16,", "dim   UNUSED = 3, S = 16,");
    folder.write("pendulum.wm", text);
    let fine = folder.run(&["check", "pendulum.wm"]);
    assert!(fine.code == 0 && fine.err.contains("W0302"), "{}", fine.err);
    assert_eq!(folder.run(&["check", "pendulum.wm", "--deny-warnings"]).code, 1);
    let json = folder.run(&["check", "pendulum.wm", "--deny-warnings", "--json"]);
    assert_eq!((json.code, json_lines(&json.out)[0]["severity"].as_str()), (1, Some("warning")));
}

#[test]
fn show_as_json() {
    let folder = Folder::with(&[]);
    let file = project("models/hamworld_s6.wm");
    let run = folder.run(&["show", &file, "--task", "cheetah-run", "--json"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let document: Value = serde_json::from_str(&run.out).unwrap();
    let model = &document["models"][0];
    assert_eq!(model["name"], "HamWorldS6");
    let params = model["params"].as_array().unwrap();
    let total: i64 = params.iter().map(|p| p["count"].as_i64().unwrap()).sum();
    assert_eq!(model["parameters"].as_i64(), Some(total));
    assert_eq!(model["tensors"].as_u64(), Some(params.len() as u64));
    assert!(model["planners"][0]["written"].as_str().unwrap().starts_with("plan(z, m) = cem("));
    assert_eq!(model["optimizers"][0]["tensors"], model["tensors"]);
    assert!(model["draws"].as_array().unwrap().iter().any(|d| d["name"].as_str().unwrap().contains("noise")));
    assert!(model["carries"].as_array().unwrap().iter().any(|c| c["path"] == "m.0.h"));
    let schedule = &model["schedules"][0];
    assert_eq!(schedule["name"], "alpha");
    assert_eq!(schedule["values"][4], serde_json::json!([1.0, 0.5]));
}

#[test]
fn show_one_model_of_several() {
    let folder = Folder::with(&[]);
    folder.run(&["new", "base"]);
    let text = folder.read("base.wm") + "\nmodel Child extends Base {\n  dim H = 4\n}\n";
    folder.write("base.wm", text);
    let names = |run: &Run| -> Vec<String> {
        let document: Value = serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}: {}", run.err));
        document["models"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(names(&folder.run(&["show", "base.wm", "--json"])), ["Base", "Child"]);
    let child = folder.run(&["show", "base.wm", "--model", "Child", "--json"]);
    assert_eq!(names(&child), ["Child"]);
    assert!(child.out.contains("plan(z, m) = cem("), "the planner of the parent");
    let slip = folder.run(&["show", "base.wm", "--model", "Chidl"]);
    assert_eq!(slip.code, 2);
    assert!(slip.err.contains("`Child`"), "{}", slip.err);
}

#[test]
fn a_missing_module_names_those_there_are() {
    let folder = Folder::with(&[("a.wm", "use taks::dmc\nmodel A {}\n"), ("tasks.wm", "tasks dmc {}\n")]);
    let run = folder.run(&["check", "a.wm"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("E0106") && run.err.contains("tasks"), "{}", run.err);
}

#[test]
fn modules_that_are_no_text() {
    let folder = Folder::with(&[("a.wm", "use bytes\nmodel A {}\n")]);
    folder.write("bytes.wm", b"fn \xff");
    let run = folder.run(&["check", "a.wm"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("E0001") && run.err.contains("bytes.wm"), "{}", run.err);
}
