//! Runs the commands of the documents on copies of the files that they name: they succeed, or print the text below them. The
//! trainings of the pages for newcomers run too, cut short; `cargo xtask verify tutorial` runs them whole, from a clone on.

#[path = "../dsl/tests/fences/mod.rs"]
mod fences;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fences::{Extent, Fence, Kind, documents, fences, project, read};

/// What a newcomer reads first, in order.
const START: [&str; 2] = ["docs/start/first-model.md", "docs/start/tutorial.md"];

#[test]
fn commands_print_what_stands_below_them() {
    let folder = tempfile::tempdir().unwrap();
    for part in ["models", "docs/tutorial", "docs/internals"] {
        copy(&project().join(part), &folder.path().join(part));
    }
    let mut wrong = String::new();
    let mut ran = 0;
    for (path, text) in documents() {
        let all = fences(&text).unwrap();
        for (i, fence) in all.iter().enumerate().filter(|(_, f)| f.kind == Kind::Commands) {
            let mut printed = String::new();
            for command in fence.text.lines() {
                let (code, output) = run(command, folder.path());
                printed += &output;
                ran += 1;
                let shown = matches!(all.get(i + 1), Some(Fence { kind: Kind::Output { .. }, .. }));
                if code != 0 && !shown {
                    wrong += &format!("{path}:{}: `{command}` ends with {code}\n{output}\n", fence.line);
                }
            }
            let as_shown = match all.get(i + 1) {
                Some(Fence { kind: Kind::Output { extent }, text, .. }) => match extent {
                    Extent::Whole => printed.trim_end() == text.trim_end(),
                    Extent::Head => printed.starts_with(text.trim_end()),
                    Extent::Part => format!("\n{printed}").contains(&format!("\n{text}")),
                },
                _ => true,
            };
            if !as_shown {
                wrong += &format!("{path}:{}: prints\n{printed}\n", fence.line);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(ran > 15, "{ran} commands");
}

/// Blocks of TOML and JSON can be read.
#[test]
fn data_has_its_form() {
    let mut read = 0;
    for (path, text) in documents() {
        for fence in fences(&text).unwrap() {
            let wrong = match fence.kind {
                Kind::Toml => toml::from_str::<toml::Table>(&fence.text).err().map(|e| e.to_string()),
                Kind::Json => serde_json::from_str::<serde_json::Value>(&fence.text).err().map(|e| e.to_string()),
                _ => continue,
            };
            assert_eq!(wrong, None, "{path}:{}", fence.line);
            read += 1;
        }
    }
    assert!(read >= 4);
}

/// A newcomer trains, plots, evaluates and plans. The trainings are short here, and each still learns or at least ends.
#[test]
fn pages_for_newcomers_train_models() {
    let folder = tempfile::tempdir().unwrap();
    for part in ["models", "docs/tutorial"] {
        copy(&project().join(part), &folder.path().join(part));
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_wmc")).parent().unwrap();
    let mut trained = 0;
    for command in START.iter().flat_map(|page| commands(&read(page), false)) {
        let shorter = match command.as_str() {
            c if c.starts_with("cargo ") => continue,
            c if c.contains("--seed ") => continue,
            c if c.starts_with("wmc train models/mpc.wm") => "--set seed_steps=100 --set steps=120 --set control_steps=200",
            c if c.starts_with("wmc train docs/tutorial/swing.wm") => {
                "--set steps=2500 --set eval_every=2500 --set eval_episodes=1"
            }
            _ => "",
        };
        trained += u32::from(!shorter.is_empty());
        succeeds(&format!("{command} {shorter}"), folder.path(), binary);
    }
    assert_eq!(trained, 2);
    let learnt = last_return(&folder.path().join("runs/swing-pendulum_swingup-7"));
    assert!(learnt > 30.0, "a pendulum with a return of {learnt}");
}

/// The commands of the pages for newcomers, from a clone of this project on, the build included. Further seeds are left out.
#[test]
#[ignore = "minutes: cargo xtask verify tutorial"]
fn from_a_clone_to_trained_models() {
    let folder = tempfile::tempdir().unwrap();
    let (clone, root) = (folder.path().join("wmc"), folder.path().join("installed"));
    let start = Instant::now();
    succeeds(&format!("git clone --quiet '{}' wmc", project().display()), folder.path(), &root);
    let all = START.iter().flat_map(|page| commands(&read(page), true));
    for command in all.filter(|command| !command.contains("--seed ")) {
        let command = match command.strip_prefix("cargo install") {
            Some(rest) => format!("cargo install --quiet --root '{}'{rest}", root.display()),
            None => command,
        };
        let begun = Instant::now();
        // The page announces the errors of its wrong models.
        if !command.contains("docs/tutorial/1_") && !command.contains("docs/tutorial/3_") {
            succeeds(&command, &clone, &root.join("bin"));
        }
        println!("{:6.1} s  {command}", begun.elapsed().as_secs_f64());
    }
    let (seconds, learnt) = (start.elapsed(), last_return(&clone.join("runs/swing-pendulum_swingup-7")));
    println!("{:6.1} s  in all; the pendulum's return is {learnt}", seconds.as_secs_f64());
    assert!(learnt > 80.0);
    assert!(seconds < Duration::from_secs(15 * 60));
}

/// The commands of a page in its order: lines of indented blocks, and with `checked` those of `sh` blocks too.
fn commands(text: &str, checked: bool) -> Vec<String> {
    let (mut fence, mut all) = (None, Vec::new());
    for line in text.lines() {
        match (line.strip_prefix("```"), fence) {
            (Some(_), Some(_)) => fence = None,
            (Some(info), None) => fence = Some(info),
            (None, Some("sh")) if checked => all.push(line.to_string()),
            (None, Some(_)) => {}
            (None, None) => {
                let code = line.strip_prefix("    ").unwrap_or("");
                let code = code.strip_prefix("$ ").unwrap_or(code);
                if code.starts_with("wmc ") || code.starts_with("cargo ") {
                    all.push(code.split("  #").next().unwrap_or(code).trim_end().to_string());
                }
            }
        }
    }
    all
}

/// Runs a line of a shell that finds `wmc` in a folder.
fn succeeds(line: &str, folder: &Path, binary: &Path) {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(folder).env("PATH", format!("{}:{path}", binary.display()));
    // The build of a clone is its own.
    shell.env_remove("CARGO_TARGET_DIR").stdin(std::process::Stdio::null());
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{line}` ends with {}\n{said}", output.status);
}

/// The mean return of the last evaluation of a run.
fn last_return(run: &Path) -> f64 {
    let log = fs::read_to_string(run.join("log.jsonl")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let evaluations: Vec<serde_json::Value> = lines.filter(|line| line.get("returns").is_some()).collect();
    evaluations.last().expect("an evaluation")["mean"].as_f64().expect("a number")
}

/// Runs `wmc ..`; the exit code, and both streams in the order in which they were written.
fn run(command: &str, folder: &Path) -> (i32, String) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let ["wmc", arguments @ ..] = words.as_slice() else { panic!("`{command}` is not a command of this project") };
    let file = tempfile::NamedTempFile::new().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_wmc"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("NO_COLOR")
        .stdin(std::process::Stdio::null())
        .stdout(append(file.path()))
        .stderr(append(file.path()))
        .status()
        .unwrap();
    (status.code().unwrap_or(-1), fs::read_to_string(file.path()).unwrap())
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(|f| f.unwrap().path()).filter(|f| f.extension().is_some_and(|e| e == "wm")) {
        fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

fn append(path: &Path) -> fs::File {
    fs::OpenOptions::new().append(true).open(path).unwrap()
}
