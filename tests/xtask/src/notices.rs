//! Writes `THIRD-PARTY-NOTICES.md`: the licences of the crates that a build of `wmc` contains.
//!
//! The list follows the normal dependencies of the command and of the C library with all features, as `cargo metadata`
//! reports them. Build and test dependencies are not part of a binary. Texts are those that the crates ship.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The packages whose binaries we ship.
const SHIPPED: &[&str] = &["wmc", "wmc-plan"];
const FILE: &str = "THIRD-PARTY-NOTICES.md";

struct Package {
    name: String,
    version: String,
    licence: String,
    repository: String,
    /// Texts of its licences; empty where the crate ships none.
    texts: Vec<String>,
}

/// Writes the file, or with `check` says whether it is up to date.
pub(crate) fn run(root: &Path, check: bool) -> Result<(), String> {
    let text = render(&shipped(&metadata(root)?)?);
    let path = root.join(FILE);
    if !check {
        return fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()));
    }
    match fs::read_to_string(&path) {
        Ok(found) if found == text => Ok(()),
        _ => Err(format!("{FILE} is out of date: run `cargo xtask notices`")),
    }
}

fn metadata(root: &Path) -> Result<Value, String> {
    let output = Command::new("cargo")
        .args(["metadata", "--locked", "--format-version", "1", "--all-features"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())
}

/// The packages outside of this workspace that the shipped ones contain.
fn shipped(metadata: &Value) -> Result<Vec<Package>, String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let packages: BTreeMap<String, Value> = list(&metadata["packages"]).into_iter().map(|p| (text(&p["id"]), p)).collect();
    let nodes: BTreeMap<String, Value> = list(&metadata["resolve"]["nodes"]).into_iter().map(|n| (text(&n["id"]), n)).collect();

    let mut open: Vec<String> =
        packages.iter().filter(|(_, p)| SHIPPED.contains(&text(&p["name"]).as_str())).map(|(id, _)| id.clone()).collect();
    if open.len() != SHIPPED.len() {
        return Err(format!("not all of {SHIPPED:?} are in the workspace"));
    }
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        for dependency in list(&nodes[&id]["deps"]) {
            if list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()) {
                open.push(text(&dependency["pkg"]));
            }
        }
    }
    let mut found: Vec<Package> = Vec::new();
    for package in seen.iter().map(|id| &packages[id]).filter(|p| !p["source"].is_null()) {
        let manifest = text(&package["manifest_path"]);
        let folder = Path::new(&manifest).parent().ok_or("a manifest without a folder")?;
        found.push(Package {
            name: text(&package["name"]),
            version: text(&package["version"]),
            licence: text(&package["license"]),
            repository: text(&package["repository"]),
            texts: texts(folder, &text(&package["license"]))?,
        });
    }
    found.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(found)
}

/// The licence texts of a crate: the MIT one where it offers a choice, otherwise all of them. They are in its folder, or
/// beside the fonts or other data that they belong to.
fn texts(folder: &Path, licence: &str) -> Result<Vec<String>, String> {
    let mut files = licence_files(folder)?;
    if files.is_empty() {
        for inner in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
            files.extend(licence_files(&inner)?);
        }
    }
    let choice = licence.contains("MIT") && !licence.contains("AND");
    if let Some(mit) = files.iter().find(|f| upper_name(f).contains("MIT")).filter(|_| choice) {
        files = vec![mit.clone()];
    }
    if files.is_empty() && licence == "MPL-2.0" {
        return Ok(vec![plain(include_str!("../licences/MPL-2.0.txt"))]);
    }
    files.iter().map(|f| fs::read_to_string(f).map(|t| plain(&t)).map_err(|e| format!("{}: {e}", f.display()))).collect()
}

fn licence_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    const STARTS: [&str; 7] = ["LICENSE", "LICENCE", "COPYING", "UNLICENSE", "NOTICE", "OFL.", "UFL."];
    let named = |path: &PathBuf| path.is_file() && STARTS.iter().any(|start| upper_name(path).starts_with(start));
    Ok(entries(folder)?.into_iter().filter(named).collect())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let read = fs::read_dir(folder).map_err(|e| format!("cannot read {}: {e}", folder.display()))?;
    let mut found: Vec<PathBuf> = read.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.sort();
    Ok(found)
}

fn upper_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().to_uppercase()
}

/// A text without trailing space, so that equal texts are one.
fn plain(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim().to_string()
}

fn render(packages: &[Package]) -> String {
    let mut out = String::from(
        "# Third-party notices\n\n\
         `wmc` and `libwmc_plan` contain the crates below, each under its own licence. Features that you leave out leave\n\
         out their crates. `cargo xtask notices` writes this file; `cargo xtask notices --check` compares it.\n\n\
         | crate | version | licence | repository |\n|---|---|---|---|\n",
    );
    for p in packages {
        let _ = writeln!(out, "| {} | {} | {} | {} |", p.name, p.version, p.licence, p.repository);
    }
    let mut by_text: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for p in packages {
        for text in &p.texts {
            by_text.entry(text).or_default().push(format!("{} {}", p.name, p.version));
        }
    }
    let mut groups: Vec<(Vec<String>, &str)> = by_text.into_iter().map(|(text, names)| (names, text)).collect();
    groups.sort();
    out.push_str("\n# Licence texts\n");
    for (names, text) in groups {
        let _ = write!(out, "\n## {}\n\n```text\n{text}\n```\n", names.join(", "));
    }
    let without: Vec<String> =
        packages.iter().filter(|p| p.texts.is_empty()).map(|p| format!("{} ({})", p.name, p.licence)).collect();
    if !without.is_empty() {
        let _ = write!(
            out,
            "\n## Without a text\n\nThese crates ship no text of their licence: {}. Those under MIT or Apache-2.0 are\nused under the text of [LICENSE-APACHE](LICENSE-APACHE).\n",
            without.join(", ")
        );
    }
    out
}
