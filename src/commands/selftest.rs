//! `wmc selftest`: kernels of models on a device, against the reference interpreter.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use compiler::backend::{self, DeviceError, Resident};
use compiler::interp::{self, Array, Clock, RunOptions};
use compiler::ir;
use compiler::kernel::cost;
use compiler::kernel::fuse::{FuseError, fuse};
use compiler::lower::{Entry, LowerError};
use compiler::run::{Call, CallError, Tensors, arrays};
use dsl::hir::Model;
use runtime::program::Compute;
use serde::Serialize;

use crate::bench::completed;
use crate::cli::{Chosen, Selftest};
use crate::commands::{entries, one_model};
use crate::files;
use crate::output::{Exit, Output};
use crate::show::table::{Align, table};

/// The folder of the models that come with wmc.
const SHIPPED: &str = "models";
const CLOCK: Clock = Clock { seed: 0, step: 0 };

/// An entry point, compared.
#[derive(Debug, Serialize)]
struct Row {
    model: String,
    entry: &'static str,
    launches: u64,
    outputs: usize,
    /// The largest difference, relative to the largest number of its output.
    difference: f64,
    /// The output that has it.
    at: String,
    seconds: f64,
    fine: bool,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    device: String,
    name: &'a str,
    tolerance: f64,
    fine: bool,
    rows: &'a [Row],
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Fuse(#[from] FuseError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("the interpreter: {0}")]
    Interpreter(#[from] interp::RunError),
}

pub(crate) fn run(arguments: &Selftest, out: &mut Output) -> Exit {
    compiler::pass::verify_always();
    let Some(compute) = arguments.computed.compute(out) else { return Exit::Bad };
    let Some(entries) = entries(arguments.entry.as_deref(), out) else { return Exit::Bad };
    let Some(models) = models(arguments, out) else { return Exit::Bad };
    let mut rows = Vec::new();
    let mut name = String::new();
    for model in &models {
        for entry in &entries {
            out.tell(format!("{} {}\n", model.name, entry.name()));
            match compare(model, *entry, arguments, compute, &mut name) {
                Ok(row) => rows.extend(row),
                Err(error) => {
                    out.error(&format!("{} {}: {error}", model.name, entry.name()), "see `wmc help selftest`");
                    return Exit::Bad;
                }
            }
        }
    }
    if rows.is_empty() {
        out.error("no model has such an entry point", "leave out `--entry`");
        return Exit::Bad;
    }
    let fine = rows.iter().all(|row| row.fine);
    if arguments.json {
        let tolerance = arguments.tolerance;
        let document = Document { device: compute.device.to_string(), name: &name, tolerance, fine, rows: &rows };
        // A record of texts and numbers always has a JSON form.
        out.say(serde_json::to_string_pretty(&document).expect("a document as JSON") + "\n");
    } else {
        out.say(shown(&rows));
        let wrong = rows.iter().filter(|row| !row.fine).count();
        let told = format!("{} entry points on {} ({name}), within {:.0e}", rows.len(), compute.device, arguments.tolerance);
        out.say(if fine { format!("{told}: all agree\n") } else { format!("{told}: {wrong} differ\n") });
    }
    if fine { Exit::Fine } else { Exit::No }
}

/// The models of the files, each at the sizes of a task. Returns `None` after reporting the error.
fn models(arguments: &Selftest, out: &mut Output) -> Option<Vec<Model>> {
    let mut paths = arguments.files.clone();
    if paths.is_empty() {
        let files = std::fs::read_dir(SHIPPED).into_iter().flatten().flatten().map(|file| file.path());
        paths = files.filter(|path| path.extension().is_some_and(|e| e == "wm")).collect();
        paths.sort();
    }
    if paths.is_empty() {
        out.error(&format!("there is no folder `{SHIPPED}` here"), "name the files to test, or go to the folder of wmc's text");
        return None;
    }
    let mut models = Vec::new();
    for path in &paths {
        let Some(named) = named(path, &arguments.of).filter(|named| !named.is_empty()) else {
            // Read for good, which says what is wrong with it.
            models.push(one_model(path, &arguments.of, out)?.1);
            continue;
        };
        for (name, task) in named {
            let sizes = match (arguments.of.sizes.options(None).task, task) {
                (None, Some(task)) => arguments.of.sizes.at(&task),
                _ => arguments.of.sizes.clone(),
            };
            let of = Chosen { model: Some(name), sizes, ..arguments.of.clone() };
            models.push(one_model(path, &of, out)?.1);
        }
    }
    Some(models)
}

/// The models of a file that are meant, with the first task of each. None of a file that cannot be read, an empty list of one with mistakes.
fn named(path: &Path, of: &Chosen) -> Option<Vec<(String, Option<String>)>> {
    let text = files::read(path).ok()?;
    let folders = files::folders(path, &of.roots.roots).ok()?;
    let options = of.sizes.without_task().options(of.model.clone());
    let checked = dsl::check(&path.display().to_string(), &text, &folders, &options);
    Some(checked.models.iter().map(|m| (m.name.clone(), m.tasks.first().map(|t| t.name.clone()))).collect())
}

/// Runs an entry point on the device and through the interpreter; none where the model does not have it.
fn compare(
    model: &Model,
    entry: Entry,
    arguments: &Selftest,
    compute: Compute,
    name: &mut String,
) -> Result<Option<Row>, Failure> {
    let call = Call { entry, batch: arguments.batch, ..Call::default() };
    let program = match compiler::run::program(model, &call, &Tensors::new()) {
        Ok(program) if program.outputs.is_empty() => return Ok(None),
        Ok(program) => program,
        Err(CallError::Lower(LowerError::NoEntry { .. })) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let kernels = fuse(&program, &compute.device.target(), compute.level)?;
    let start = Instant::now();
    let mut executable = backend::open(compute.device, &kernels, &Resident::of(&program), compute.threads)?;
    *name = executable.computes_with().to_string();
    let given = completed(&program, model, &Tensors::new());
    let (inputs, _) = arrays::<f64>(model, &call, &program, &given)?;
    for (i, array) in inputs.iter().enumerate() {
        executable.input_mut(i)?.iter_mut().zip(&array.data).for_each(|(to, from)| *to = *from as f32);
    }
    executable.prepare()?;
    executable.run(CLOCK.seed, CLOCK.step)?;
    let all: Vec<usize> = (0..program.outputs.len()).collect();
    let found = executable.outputs(&all)?;
    let seconds = start.elapsed().as_secs_f64();
    let expected = interp::run_with(&program, &inputs, &BTreeMap::new(), CLOCK, RunOptions { check: false })?;
    let (difference, at) = largest(&program, &found, &expected);
    Ok(Some(Row {
        model: model.name.clone(),
        entry: entry.name(),
        launches: cost::totals(&kernels, &kernels.steps).launches,
        outputs: program.outputs.len(),
        difference,
        at,
        seconds,
        fine: difference <= arguments.tolerance,
    }))
}

/// The largest difference and the output that has it. What an optimiser divides by its own size magnifies rounding, so that of
/// parameters their gradients are compared, which its slots have.
fn largest(program: &ir::Program, found: &[Vec<f32>], expected: &[Array<f64>]) -> (f64, String) {
    let size = |numbers: &[f64]| numbers.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    // A gradient that is tiny beside the others is rounding.
    let mut of_kind: BTreeMap<String, f64> = BTreeMap::new();
    for (output, array) in program.outputs.iter().zip(expected) {
        let largest = of_kind.entry(kind(&output.name)).or_default();
        *largest = largest.max(size(&array.data));
    }
    let mut worst = (0.0, String::new());
    for ((output, found), expected) in program.outputs.iter().zip(found).zip(expected) {
        let magnified = ["next.param.", "next.slow."].iter().any(|start| output.name.starts_with(start));
        if magnified && program.outputs.iter().any(|o| o.name.starts_with("next.slot.")) {
            continue;
        }
        let scale = size(&expected.data).max(1e-5 * of_kind[&kind(&output.name)]).max(1e-9);
        let differences = found.iter().zip(&expected.data).map(|(x, y)| (f64::from(*x) - y).abs() / scale);
        // What is no number differs most.
        let difference = differences.fold(0.0, |m: f64, d| if d <= m { m } else { d });
        if difference.is_nan() || difference > worst.0 {
            worst = (if difference.is_nan() { f64::INFINITY } else { difference }, output.name.clone());
        }
    }
    worst
}

/// `next.slot.main.m`: what outputs of a kind have in common.
fn kind(name: &str) -> String {
    let parts = if name.starts_with("next.slot.") { 4 } else { 2 };
    name.split('.').take(parts).collect::<Vec<_>>().join(".")
}

fn shown(rows: &[Row]) -> String {
    let head = ["model", "entry", "launches", "outputs", "seconds", "difference", "", "of"];
    let mut lines = vec![head.map(String::from).to_vec()];
    for row in rows {
        lines.push(vec![
            row.model.clone(),
            row.entry.to_string(),
            row.launches.to_string(),
            row.outputs.to_string(),
            format!("{:.1}", row.seconds),
            format!("{:.1e}", row.difference),
            if row.fine { "" } else { "WRONG" }.to_string(),
            row.at.clone(),
        ]);
    }
    use Align::{Left, Right};
    table(&[Left, Left, Right, Right, Right, Right, Left, Left], &lines)
}
