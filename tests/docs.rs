//! Runs the commands of the documents on copies of the files that they name: they succeed, or print what stands below them.

#[path = "../dsl/tests/fences/mod.rs"]
mod fences;

use std::fs;
use std::path::Path;
use std::process::Command;

use fences::{Fence, Kind, documents, fences, project};

#[test]
fn commands_print_what_stands_below_them() {
    let folder = tempfile::tempdir().unwrap();
    for part in ["models", "docs/tutorial"] {
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
                Some(Fence { kind: Kind::Output { head: true }, text, .. }) => printed.starts_with(text.trim_end()),
                Some(Fence { kind: Kind::Output { head: false }, text, .. }) => printed.trim_end() == text.trim_end(),
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
