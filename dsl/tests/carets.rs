//! Caret fixtures: small wrong texts, each with what must be said about it and where.
//!
//! A fixture is a fenced block of a Markdown file under `carets/`: ```` ```wm ```` holds members of a model that extends
//! the small one of `wmc help tiny`, ```` ```wm file ```` a whole file (with others behind a line `// ---- other.wm`).
//! Under a line stand comments with what is said about it:
//!
//! ```text
//!   let dq = f.dq + grad(E, z.c)
//!                 //^^^^^^^^^^^^ E0203 axes do not line up: this has axes [C = 8]
//!          //---- this has axes [Q = 4]
//!                 // help: q moves along dE/dp: did you mean `grad(E, z.p)`?
//! ```
//!
//! Everything that is said must be there, and nothing else: codes, carets, labels, notes and helps. `UPDATE_CARETS=1
//! cargo test --test carets` writes them anew; read the difference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wmc_dsl::diagnostics::{Diagnostic, TINY};
use wmc_dsl::source::Span;
use wmc_dsl::{Checked, LoadError, Loaded, Loader, MapLoader, Options, check};

const HEAD: &str = "use tiny::Tiny\nmodel Mine extends Tiny {\n";

/// A block of a Markdown file.
struct Fixture {
    name: String,
    /// The lines between the fences, counted from 0.
    first: usize,
    text: String,
    members: bool,
}

fn fixtures(markdown: &str) -> Vec<Fixture> {
    let mut found = Vec::new();
    let mut name = String::new();
    let mut open: Option<Fixture> = None;
    for (number, line) in markdown.lines().enumerate() {
        match (&mut open, line) {
            (None, "```wm" | "```wm file") => {
                let members = line == "```wm";
                open = Some(Fixture { name: name.clone(), first: number + 1, text: String::new(), members });
            }
            (Some(_), "```") => found.extend(open.take()),
            (Some(fixture), line) => fixture.text += &format!("{line}\n"),
            (None, line) => {
                if let Some(title) = line.strip_prefix("## ") {
                    name = title.to_string();
                }
            }
        }
    }
    found
}

/// The modules of a fixture; `elsewhere` and `latin` cannot be read.
struct Modules(MapLoader);

impl Loader for Modules {
    fn load(&self, module: &str) -> Result<Loaded, LoadError> {
        match module {
            "elsewhere" => Err(LoadError::Outside { path: "/etc/elsewhere.wm".into() }),
            "latin" => Err(LoadError::NotUtf8 { path: "latin.wm".into(), valid_up_to: 3 }),
            _ => self.0.load(module),
        }
    }
}

impl Fixture {
    /// The text without what is expected of it.
    fn plain(&self) -> String {
        self.text.lines().filter(|line| !is_expectation(line)).map(|line| format!("{line}\n")).collect()
    }

    fn check(&self) -> Checked {
        let plain = self.plain();
        let mut modules = MapLoader::default();
        modules.0.insert("tiny".into(), TINY.into());
        let mut files = vec![("main".to_string(), String::new())];
        for line in plain.lines() {
            match line.strip_prefix("// ---- ").and_then(|rest| rest.strip_suffix(".wm")) {
                Some(name) => files.push((name.to_string(), String::new())),
                None => files.last_mut().unwrap().1 += &format!("{line}\n"),
            }
        }
        modules.0.extend(files.iter().skip(1).cloned());
        let text = if self.members { format!("{HEAD}{}}}\n", files[0].1) } else { files[0].1.clone() };
        check("main.wm", &text, &Modules(modules), &Options::default())
    }

    /// The text with everything that is said about it, each under its line.
    fn annotated(&self) -> String {
        let checked = self.check();
        let skipped = if self.members { HEAD.lines().count() } else { 0 };
        let main = checked.sources.files.iter().position(|f| f.name == "main.wm").unwrap();
        let mut under: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        let mut elsewhere = Vec::new();
        for d in &checked.diagnostics {
            let mut put = |span: Span, mark: &str, words: String| {
                if span.file.0 as usize != main {
                    elsewhere.push(format!("// {}: {words}", checked.sources.file(span.file).name));
                    return;
                }
                if checked.sources.line_col(span.file, span.lo).line as usize <= skipped {
                    elsewhere.push(format!("// Mine: {words}"));
                    return;
                }
                let (start, end) = (checked.sources.line_col(span.file, span.lo), checked.sources.line_col(span.file, span.hi));
                let line = checked.sources.file(span.file).text.lines().nth(start.line as usize - 1).unwrap_or("");
                let end = if end.line == start.line { end.column } else { line.chars().count() as u32 + 1 };
                let width = (end.saturating_sub(start.column)).max(1) as usize;
                let column = start.column as usize - 1;
                assert!(column >= 2, "{}: a mark needs two columns before it\n{d:#?}", self.name);
                let text = format!("{}//{} {words}", " ".repeat(column - 2), mark.repeat(width));
                under.entry(start.line as usize - 1 - skipped).or_default().push(text);
            };
            let label = if d.primary.text.is_empty() { String::new() } else { format!(": {}", d.primary.text) };
            put(d.primary.span, "^", format!("{} {}{label}", d.code.id(), d.message));
            for label in &d.secondary {
                put(label.span, "-", label.text.clone());
            }
            let line = checked.sources.line_col(d.primary.span.file, d.primary.span.lo);
            let place = d.primary.span.file.0 as usize == main && line.line as usize > skipped;
            for (what, words) in said(d) {
                if place {
                    let indent = " ".repeat(line.column as usize - 3);
                    under.entry(line.line as usize - 1 - skipped).or_default().push(format!("{indent}// {what}: {words}"));
                } else {
                    elsewhere.push(format!("// {what}: {words}"));
                }
            }
        }
        let mut out = String::new();
        for (number, line) in self.plain().lines().enumerate() {
            out += &format!("{line}\n");
            for said in under.get(&number).into_iter().flatten() {
                out += &format!("{said}\n");
            }
        }
        out + &elsewhere.iter().map(|line| format!("{line}\n")).collect::<String>()
    }
}

fn said(d: &Diagnostic) -> impl Iterator<Item = (&'static str, &str)> {
    d.notes.iter().map(|n| ("note", n.as_str())).chain(d.helps.iter().map(|h| ("help", h.as_str())))
}

fn is_expectation(line: &str) -> bool {
    let line = line.trim_start();
    ["//^", "//-", "// help: ", "// note: ", "// Mine: ", "// tiny.wm: ", "// other.wm: "]
        .iter()
        .any(|start| line.starts_with(start))
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/carets");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn carets() {
    let update = std::env::var_os("UPDATE_CARETS").is_some();
    let mut wrong = String::new();
    let (mut cases, mut several) = (0, 0);
    for file in files() {
        let markdown = std::fs::read_to_string(&file).unwrap();
        let mut lines: Vec<String> = markdown.lines().map(str::to_string).collect();
        for fixture in fixtures(&markdown).into_iter().rev() {
            let said = fixture.annotated();
            cases += 1;
            several += usize::from(said.lines().filter(|line| line.trim_start().starts_with("//^")).count() > 1);
            if said == fixture.text {
                continue;
            }
            if update {
                let length = fixture.text.lines().count();
                lines.splice(fixture.first..fixture.first + length, said.lines().map(str::to_string));
            } else {
                let name = file.file_name().unwrap().to_string_lossy();
                wrong += &format!("==== {name}:{} {}\nexpected\n{}said\n{said}", fixture.first, fixture.name, fixture.text);
            }
        }
        if update {
            std::fs::write(&file, lines.join("\n") + "\n").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(cases >= 60, "{cases} cases");
    assert!(several >= 5, "{several} cases with several mistakes");
}

/// Every fixture is a mistake, and says so.
#[test]
fn every_fixture_expects_something() {
    for file in files() {
        for fixture in fixtures(&std::fs::read_to_string(&file).unwrap()) {
            assert!(fixture.text.lines().any(is_expectation), "{}: {}", file.display(), fixture.name);
        }
    }
}

/// What is said of a text that stands beside `models/hamworld_s6.wm` and `models/tasks.wm`, at the sizes of a task.
fn beside_the_models(name: &str, text: &str) -> String {
    let modules = ["hamworld_s6", "tasks"].map(|module| (module.to_string(), model(module)));
    let options = Options { task: Some("cheetah_run".into()), ..Options::default() };
    let checked = check(name, text, &MapLoader(BTreeMap::from(modules)), &options);
    checked.diagnostics.iter().map(|d| wmc_dsl::diagnostics::render(&checked.sources, d, false) + "\n").collect()
}

fn model(name: &str) -> String {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
    std::fs::read_to_string(models.join(name).with_extension("wm")).unwrap()
}

/// The three diagnostics that the proposal of the language aims at, on the model that it has them from.
#[test]
fn the_proposals_examples() {
    let changed = |from: &str, to: &str| {
        let text = model("hamworld_s6");
        assert!(text.contains(from), "hamworld_s6.wm has no `{from}`");
        beside_the_models("hamworld_s6.wm", &text.replacen(from, to, 1))
    };
    insta::assert_snapshot!(changed("f.dq + alpha * Hp\n", "f.dq + alpha * grad(E, z.c)\n"), @r"
    error[E0203]: axes do not line up
      --> hamworld_s6.wm:50:35
       |
    50 |     let dq = (1 - alpha) * f.dq + alpha * grad(E, z.c)
       |              ------------------   ^^^^^^^^^^^^^^^^^^^^ this has axes [C = 32]
       |              |
       |              this has axes [Q = 8]
       |
       = help: q moves along dE/dp: did you mean `grad(E, z.p)`?
    ");
    insta::assert_snapshot!(
        changed("gamma * ((1 - lambda) * v[t+1] + lambda * ret[t+1])", "gamma * ret[t+1] + 0.1 * ret[t-1]"),
        @r"
    error[E0311]: `ret` refers to its past and to its future
      --> hamworld_s6.wm:85:27
       |
    85 |   ret[t] = r[t] + gamma * ret[t+1] + 0.1 * ret[t-1]   with ret[T-1] = v[T-1]
       |                           ^^^^^^^^         -------- forward
       |                           |
       |                           backward
       |
       = help: a recurrence runs in one direction; split it into two equations
    "
    );
    let child = "use hamworld_s6::HamWorldS6\n\nmodel NoPolicy extends HamWorldS6 {\n  drop loss policy\n}\n";
    insta::assert_snapshot!(beside_the_models("no_policy.wm", child), @r"
    warning[W0301]: no loss reaches `prior`
      --> hamworld_s6.wm:32:7
       |
    32 |   net prior(z)         -> a via tanh           = mlp([128], silu)
       |       ^^^^^
       |
       = note: its 7,046 parameters would stay at their initial values
       = note: `NoPolicy` inherits this from `HamWorldS6`
       = help: add a loss or `drop net prior`
    ");
}
