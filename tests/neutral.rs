//! No Rust code that diagnoses or reports knows a particular model: what is followed, drawn and tabled is declared.

use std::fs;
use std::path::{Path, PathBuf};

/// Files and folders that look at trained models.
const PLACES: [&str; 8] = [
    "src/diagnose",
    "src/results",
    "src/commands/diagnose.rs",
    "src/commands/report.rs",
    "runtime/src/diagnose.rs",
    "runtime/src/diagnose",
    "dsl/src/check/diagnose.rs",
    "dsl/src/hir/diagnose.rs",
];

/// What a model of one kind calls its values.
const NAMES: [&str; 9] = ["energy", "leak", "curvature", "hamilton", "\"q\"", "\"p\"", "[q, p]", "`q`", "`p`"];

fn files(place: &Path) -> Vec<PathBuf> {
    match fs::read_dir(place) {
        Ok(entries) => entries.flat_map(|entry| files(&entry.unwrap().path())).collect(),
        Err(_) => vec![place.to_path_buf()],
    }
}

#[test]
fn diagnostics_and_reports_know_no_model() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for file in PLACES.iter().flat_map(|place| files(&project.join(place))).filter(|f| f.extension().is_some_and(|e| e == "rs")) {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for (number, line) in code.lines().enumerate() {
            let lower = line.to_lowercase();
            // A method of that name adds to a list.
            let pushed = lower.replace(".push(", "").contains("push");
            let named = NAMES.iter().find(|name| lower.contains(**name)).copied().or(pushed.then_some("push"));
            assert!(named.is_none(), "{}:{} names {named:?}: {line}", file.display(), number + 1);
        }
        seen += 1;
    }
    assert!(seen > 15, "{seen} files");
}
