//! `docs/internals/passes.md` is made of the lists of passes. `BLESS=1 cargo test --test passes` writes it.

use std::fmt::Write;
use std::path::Path;

use wmc_compiler::backend::{cpu, cube};
use wmc_compiler::kernel::Target;
use wmc_compiler::kernel::fuse::Level;
use wmc_compiler::pass::Pass;
use wmc_compiler::prepare::kernel_passes;
use wmc_compiler::simplify::SIMPLIFY;

const TARGETS: [Target; 3] = [cpu::TARGET, cube::CUDA, cube::WGSL];

/// A row for each pass, where it stands first.
fn table(passes: &[Pass]) -> String {
    let mut text = "| pass | what it does |\n|---|---|\n".to_string();
    for (i, pass) in passes.iter().enumerate() {
        if passes[..i].iter().all(|earlier| earlier.name != pass.name) {
            writeln!(text, "| `{}` | {} |", pass.name, pass.about).unwrap();
        }
    }
    text
}

/// The passes in order, in lines of at most 100 characters.
fn order(passes: &[Pass]) -> String {
    let mut lines = vec![String::new()];
    for (i, pass) in passes.iter().enumerate() {
        let end = if i + 1 == passes.len() { "." } else { "," };
        let word = format!("`{}`{end}", pass.name);
        let line = lines.last_mut().unwrap();
        match line.len() + 1 + word.len() {
            _ if line.is_empty() => *line = word,
            0..=100 => *line += &format!(" {word}"),
            _ => lines.push(word),
        }
    }
    lines.join("\n") + "\n"
}

fn page() -> String {
    let mut text = "# Passes

A pass changes a graph program and keeps its numbers. This page is generated from the code: run
`BLESS=1 cargo test --test passes` after you change a pass.

To see what a pass does to a model, print the program behind it:

    wmc compile models/hamworld.wm --task cheetah-run --entry plan --dump interchange

The verifier runs behind every pass in debug builds, in tests and in `wmc selftest`. Each pass has
cases in `compiler/tests/filetests`. To add a pass, write a file with a `PASS`, put it in its list,
add a case, and generate this page.

## Simplification

Every program goes through this list until nothing changes. The list is `SIMPLIFY` in
`compiler/src/simplify/mod.rs`.

"
    .to_string();
    text += &table(SIMPLIFY);
    text += "
## Preparation for kernels

Programs that become kernels go through one more list, once. It depends on the target and the level:
`kernel_passes` in `compiler/src/prepare/mod.rs`.

";
    let all: Vec<Pass> = TARGETS.iter().flat_map(|target| kernel_passes(target, Level::Mega)).collect();
    let own: Vec<Pass> = all.into_iter().filter(|pass| SIMPLIFY.iter().all(|other| other.name != pass.name)).collect();
    text += &table(&own);
    for level in Level::ALL {
        let orders = TARGETS.map(|target| order(&kernel_passes(&target, level)));
        for (i, this) in orders.iter().enumerate().filter(|(i, this)| !orders[..*i].contains(this)) {
            let same = TARGETS.iter().zip(&orders).skip(i).filter(|(_, other)| *other == this);
            let names: Vec<&str> = same.map(|(target, _)| target.name).collect();
            write!(text, "\nAt the level `{}`, for {}:\n\n{this}", level.name(), names.join(", ")).unwrap();
        }
    }
    text
}

#[test]
fn the_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/internals/passes.md");
    let page = page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        return std::fs::write(&path, page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/internals/passes.md is out of date: run `BLESS=1 cargo test --test passes`");
}

/// Descriptions are sentences that fit a table.
#[test]
fn passes_describe_themselves() {
    for pass in SIMPLIFY.iter().chain(&kernel_passes(&cpu::TARGET, Level::Mega)) {
        assert!(pass.about.ends_with('.') && pass.about.len() <= 100, "{}: {}", pass.name, pass.about);
    }
}
