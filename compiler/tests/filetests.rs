//! Filetests of the passes: `filetests/*.ir`.
//!
//! A file holds cases. `test PASS: title` starts one; PASS is a pass of either list, several passes separated by `+`, or
//! `simplify`. The program before follows, then a line `===`, then the program after. `BLESS=1 cargo test --test
//! filetests` writes what the passes say into the files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use wmc_compiler::backend::cpu::TARGET;
use wmc_compiler::interp::Array;
use wmc_compiler::ir::text::{parse, print};
use wmc_compiler::ir::verify::verify;
use wmc_compiler::ir::{AxisId, Program, ValueId};
use wmc_compiler::kernel::Target;
use wmc_compiler::kernel::fuse::Level;
use wmc_compiler::pass::{Context, Pass};
use wmc_compiler::prepare::kernel_passes;
use wmc_compiler::simplify;
use wmc_compiler::testing::Rng;

#[path = "support/agree.rs"]
mod agree;

struct Case {
    passes: String,
    title: String,
    before: String,
    after: String,
}

fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut is_after = false;
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("test ") {
            let (passes, title) = head.split_once(':').unwrap_or((head, ""));
            let [passes, title] = [passes, title].map(|s| s.trim().to_string());
            cases.push(Case { passes, title, before: String::new(), after: String::new() });
            is_after = false;
        } else if line == "===" {
            is_after = true;
        } else if let Some(case) = cases.last_mut() {
            let part = if is_after { &mut case.after } else { &mut case.before };
            part.push_str(line);
            part.push('\n');
        }
    }
    cases
}

fn files() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests");
    let mut paths: Vec<_> = fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|p| (p.display().to_string(), fs::read_to_string(&p).unwrap())).collect()
}

fn run(program: &mut Program, passes: &str) {
    for name in passes.split('+').map(str::trim) {
        if name == "simplify" {
            *program = simplify::simplify(std::mem::take(program).into()).into_program();
            continue;
        }
        let pass = all_passes().into_iter().find(|pass| pass.name == name);
        let pass = pass.unwrap_or_else(|| panic!("there is no pass `{name}`"));
        pass.run(program, &mut context(program)).unwrap_or_else(|e| panic!("{e}\n{}", print(program, None)));
    }
}

fn all_passes() -> Vec<Pass> {
    [simplify::SIMPLIFY, &kernel_passes(&TARGET, Level::Mega)].concat()
}

/// What passes for kernels find in a small program: rows are the axes named `B`, every loop crosses them, and all that a
/// loop carries is too much.
fn context(program: &Program) -> Context {
    let rows = (0..program.axes.len() as u32).map(AxisId).filter(|a| program.axes[a.0 as usize].name == "B").collect();
    let crossing = |program: &Program| {
        let is_loop = |v: &ValueId| program.graph.node(*v).op.name() == "scan";
        program.graph.ids().filter(is_loop).collect()
    };
    Context { rows, crossing, ..Context::new(Target { carried: 0, ..TARGET }) }
}

fn before(file: &str, case: &Case) -> Program {
    let program = parse(&case.before).unwrap_or_else(|e| panic!("{file}: {}: {e}\n{}", case.title, case.before));
    verify(&program).unwrap_or_else(|e| panic!("{file}: {}: {e}\n{}", case.title, case.before));
    program
}

#[test]
fn filetests() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = Vec::new();
    for (file, text) in files() {
        let mut blessed = String::new();
        for case in cases(&text) {
            let mut program = before(&file, &case);
            run(&mut program, &case.passes);
            let after = print(&program, None);
            if after.trim() != case.after.trim() {
                wrong.push(format!("{file}: {}\n--- expected\n{}\n--- found\n{after}", case.title, case.after.trim()));
            }
            let [before, after] = [&case.before, &after].map(|t| t.trim());
            blessed += &format!("test {}: {}\n\n{before}\n\n===\n\n{after}\n\n", case.passes, case.title);
        }
        if bless {
            fs::write(&file, blessed.trim_end().to_string() + "\n").unwrap();
        }
    }
    assert!(bless || wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Passes do nothing to what they have already done.
#[test]
fn passes_come_to_rest() {
    for (file, text) in files() {
        for case in cases(&text) {
            let mut program = before(&file, &case);
            run(&mut program, "simplify");
            let once = print(&program, None);
            for pass in simplify::SIMPLIFY {
                run(&mut program, pass.name);
                assert_eq!(print(&program, None), once, "{file}: {}: {} changes what is simplified", case.title, pass.name);
            }
        }
    }
}

/// Every pass has a case of its own.
#[test]
fn every_pass_is_tested() {
    let tested: BTreeSet<String> = files().iter().flat_map(|(_, text)| cases(text)).map(|case| case.passes).collect();
    let untested: Vec<&str> = all_passes().iter().map(|pass| pass.name).filter(|name| !tested.contains(*name)).collect();
    assert!(untested.is_empty(), "no case tests {untested:?}");
}

/// Every rule of the rewrite table has a case.
#[test]
fn every_rule_is_tested() {
    let mut used = BTreeSet::new();
    for (file, text) in files() {
        for case in cases(&text).iter().filter(|c| c.passes == "rewrite") {
            used.extend(simplify::rewrite::rewrite_logged(&mut before(&file, case)).into_keys());
        }
    }
    let unused: Vec<_> = simplify::rewrite::equations().filter(|e| !used.contains(e)).collect();
    assert!(unused.is_empty(), "no case uses {unused:#?}");
}

/// The programs before and after give the same numbers.
#[test]
fn numbers_agree() {
    for (file, text) in files() {
        for case in cases(&text) {
            let before = before(&file, &case);
            let after = parse(&case.after).unwrap_or_else(|e| panic!("{file}: {}: {e}", case.title));
            for seed in 0..3 {
                agree::agree(&before, &after, &inputs(&before, seed)).unwrap_or_else(|e| panic!("{file}: {}: {e}", case.title));
            }
        }
    }
}

/// Numbers for a program's inputs. Those that are called `at` are places.
fn inputs(program: &Program, seed: u64) -> Vec<Array<f64>> {
    let mut rng = Rng::new(seed);
    let mut number = |place: bool| if place { rng.below(3) as f64 } else { rng.between(-2.0, 2.0) };
    let array = |input: &wmc_compiler::ir::Input| Array {
        axes: input.axes.clone(),
        data: (0..program.len(&input.axes)).map(|_| number(input.name == "at")).collect(),
    };
    program.inputs.iter().map(array).collect()
}
