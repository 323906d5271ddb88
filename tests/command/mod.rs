//! The command as built, and how it ends.

use std::process::{Command, Output};

pub(crate) fn wmc(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wmc"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments);
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs to the end with the given exit code.
pub(crate) fn ends(command: &mut Command, code: i32) -> Output {
    let output = command.output().unwrap();
    let told = text(&output.stderr);
    assert!(!told.contains("panicked"), "{command:?}: {told}");
    assert_eq!(output.status.code(), Some(code), "{command:?}: {}{told}", text(&output.stdout));
    output
}

/// Ends with exit code 2 and says all of these words.
pub(crate) fn refuses(command: &mut Command, words: &[&str]) {
    let told = text(&ends(command, 2).stderr);
    for word in words {
        assert!(told.contains(word), "{command:?}: `{word}` is not in\n{told}");
    }
}
