//! `wmc compile`: an artefact that runs without the model's text, and texts to read.

mod dump;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use compiler::artefact::{self, About, Artefact, CompileError, EXTENSION, EntryPoint};
use compiler::backend::cpu;
use compiler::backend::cube::Emitted;
use compiler::ir;
use compiler::kernel::cost;
use compiler::kernel::fuse::FuseError;
use compiler::kernel::text;
use compiler::lower::{self, LowerError};
use compiler::memory;
use compiler::simplify::simplify;
use dsl::Checked;
use dsl::hir::Model;
use dsl::source::Sources;
use runtime::program::Compute;

use crate::cli::{Compile, Emit, ModelFile, Target};
use crate::commands::{device, entries, largest, one_model, stem, write_whole};
use crate::explain::{bytes, count};
use crate::files;
use crate::output::{Exit, Output};
use crate::show::table::{Align, table};

pub(crate) fn run(arguments: &Compile, out: &mut Output) -> Exit {
    if let Some(pass) = &arguments.dump {
        return dump::run(arguments, pass, out);
    }
    // What is wrong has been said.
    compile(arguments, out).map_or(Exit::Bad, |()| Exit::Fine)
}

fn compile(arguments: &Compile, out: &mut Output) -> Option<()> {
    let start = Instant::now();
    let targets = targets(&arguments.target);
    if let Some((told, fix)) = device::refused(&targets, &arguments.emit, device::EMITS) {
        out.error(&told, &fix);
        return None;
    }
    let (checked, model) = one_model(&arguments.what.file, &arguments.what.of, out)?;
    let folder = &arguments.out;
    let stem = stem(&arguments.what);
    let path = folder.join(format!("{stem}.{EXTENSION}"));
    let about = about(arguments, &model, &targets, out)?;
    if arguments.emit.is_empty()
        && let Some(same) = same(&path, &about)
    {
        out.say(summary(&same, &Registers::new()));
        out.say(format!("{} is up to date\n", path.display()));
        return Some(());
    }
    let mut used = Registers::new();
    let mut artefact = Artefact { about, model: model.clone(), entries: Vec::new() };
    for entry in entries(arguments.entry.as_deref(), out)? {
        let options = lower::Options { batch: arguments.batch, ..lower::Options::default() };
        let graph = match lower::lower(&model, entry, options) {
            Ok(graph) => graph,
            Err(LowerError::NoEntry { .. }) if arguments.entry.is_none() => continue,
            Err(error) => {
                out.error(&error.to_string(), "see `wmc help compile`");
                return None;
            }
        };
        let lowered = wants(arguments, Emit::Ir).then(|| printed(&graph, &checked));
        let graph = simplify(graph);
        let simplified = wants(arguments, Emit::Graph).then(|| printed(&graph, &checked));
        let mut compiled = EntryPoint::of(graph, arguments.level).map_err(|e| refusal(&e, &checked.sources, out)).ok()?;
        let needs = cpu::needs(&compiled.kernels, Compute::default().threads);
        if let Err(refused) = memory::reserve_program(&compiled.kernels, needs) {
            out.error(&refused.to_string(), &largest(&refused.located(&model), &checked.sources));
            return None;
        }
        for target in &targets {
            compiled.emitted.extend(device::emitted(&compiled, *target).map_err(|e| fault(&e, out)).ok()?);
        }
        let kernels = wants(arguments, Emit::Kernels).then(|| text::print(&compiled.kernels));
        for (kind, written) in [("ir", lowered), ("graph", simplified), ("kernels", kernels)] {
            if let Some(written) = written {
                write_whole(&folder.join(format!("{stem}.{}.{kind}", entry.name())), written.as_bytes(), out)?;
            }
        }
        for emitted in compiled.emitted.iter().filter(|_| wants(arguments, Emit::Ptx)) {
            let Some(assembled) = assembled(emitted, arguments, out)? else { continue };
            for (kernel, made) in emitted.kernels.iter().zip(&assembled) {
                let name = format!("{stem}.{}/{}.ptx", entry.name(), kernel.name);
                write_whole(&folder.join(name), made.ptx.as_bytes(), out)?;
            }
            let registers = assembled.iter().map(|a| a.registers).max().unwrap_or(0);
            let spills: usize = assembled.iter().map(|a| a.spills).sum();
            used.insert((entry.name().to_string(), device::target(emitted)), (registers, spills));
        }
        for emitted in &compiled.emitted {
            let (kind, ending) = device::language(emitted);
            for kernel in emitted.kernels.iter().filter(|_| wants(arguments, kind)) {
                let name = format!("{stem}.{}/{}.{ending}", entry.name(), kernel.name);
                write_whole(&folder.join(name), kernel.source.as_bytes(), out)?;
            }
        }
        artefact.entries.push(compiled);
    }
    artefact.about.entries = artefact.entries.iter().map(|e| e.name().to_string()).collect();
    let written = artefact.write().map_err(|e| fault(&e, out)).ok()?;
    write_whole(&path, &written, out)?;
    out.say(summary(&artefact, &used));
    let seconds = start.elapsed().as_secs_f64();
    out.say(format!("wrote {} ({}) in {seconds:.1} s\n", path.display(), bytes(written.len() as u64)));
    Some(())
}

/// What was asked for, each once, in a fixed order.
fn targets(wanted: &[Target]) -> Vec<Target> {
    let mut targets: Vec<Target> = wanted.iter().flat_map(|t| t.each()).collect();
    targets.sort();
    targets.dedup();
    targets
}

fn wants(arguments: &Compile, text: Emit) -> bool {
    arguments.emit.iter().any(|e| *e == text || *e == Emit::All)
}

/// What the artefact is made of. Two that agree in this are the same.
fn about(arguments: &Compile, model: &Model, targets: &[Target], out: &mut Output) -> Option<About> {
    let ModelFile { file, of } = &arguments.what;
    let options = of.sizes.options(of.model.clone());
    // Just now both were read without errors.
    let text = files::read(file).ok()?;
    let folders = files::folders(file, &of.roots.roots).ok()?;
    dsl::check(&file.display().to_string(), &text, &folders, &options);
    let imports = folders.into_imports().into_values().map(|import| import.text);
    let task = options.task.unwrap_or_default();
    Some(About {
        model: model.name.clone(),
        fingerprint: runtime::run::fingerprint(&model.name, &task, &of.sizes.dims(), text, imports),
        compiler: build(out)?,
        targets: targets.iter().map(Target::to_string).collect(),
        level: arguments.level.name().to_string(),
        batch: arguments.batch,
        entries: Vec::new(),
    })
}

/// Which build this is: another one may make other kernels of the same text.
fn build(out: &mut Output) -> Option<String> {
    let read = std::env::current_exe().and_then(std::fs::read);
    let program = read.map_err(|e| out.error(&format!("cannot read wmc itself: {e}"), "install it anew")).ok()?;
    Some(format!("{} {}", env!("CARGO_PKG_VERSION"), runtime::checkpoint::sha256(&program)))
}

/// The artefact that is there, if it is what would be made.
fn same(path: &Path, about: &About) -> Option<Artefact> {
    let bytes = std::fs::read(path).ok()?;
    let there = artefact::about(&bytes).ok()?;
    // Those that it has; all, or the one that was asked for.
    let wanted = About { entries: there.entries.clone(), ..about.clone() };
    if there != wanted { None } else { Artefact::read(&bytes).ok() }
}

fn printed(graph: &ir::Program, checked: &Checked) -> String {
    ir::text::print(graph, Some(&checked.sources))
}

/// What was compiled, a line for each entry point.
fn summary(artefact: &Artefact, used: &Registers) -> String {
    let head = ["entry", "operations", "kernels", "launches", "flop", "moved", "on chip"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for entry in &artefact.entries {
        let program = &entry.kernels;
        let totals = cost::totals(program, &program.steps);
        let mut on_chip = 0;
        cost::each_launch(&program.steps, &mut |kernels, _| {
            on_chip = kernels.iter().map(|k| cost::on_chip(&k.work)).fold(on_chip, u64::max);
        });
        rows.push(vec![
            entry.name().to_string(),
            entry.operations.to_string(),
            totals.kernels.to_string(),
            totals.launches.to_string(),
            count(totals.cost.flops).trim_end().to_string(),
            bytes(totals.cost.bytes()),
            bytes(on_chip),
        ]);
    }
    table(&[&[Align::Left][..], &[Align::Right; 6]].concat(), &rows) + &devices(artefact, used)
}

/// What NVRTC makes of the kernels. Where it is not installed that is an error, if PTX was asked for by name.
fn assembled(emitted: &Emitted, arguments: &Compile, out: &mut Output) -> Option<Option<Vec<device::Assembled>>> {
    let made = device::assembled(emitted).map_err(|e| fault(&e, out)).ok()?;
    let cuda = matches!(device::target(emitted), Target::Cuda(..));
    if made.is_none() && cuda && arguments.emit.contains(&Emit::Ptx) {
        let help = "install CUDA, or fetch its compiler alone: `python3 tests/nvrtc/nvrtc.py install`";
        out.error("there is no NVRTC on this machine, which makes PTX of CUDA text", help);
        return None;
    }
    Some(made)
}

/// What NVRTC's assembler says: most registers of a kernel, bytes that are spilled.
type Registers = BTreeMap<(String, Target), (usize, usize)>;

/// What devices get, a line for each entry point and target.
fn devices(artefact: &Artefact, used: &Registers) -> String {
    let head = ["entry", "target", "launches", "texts", "lines", "units", "shared", "registers", "spilled"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for entry in &artefact.entries {
        for emitted in entry.emitted.iter().filter(|e| !e.kernels.is_empty()) {
            let lines: usize = emitted.kernels.iter().map(|k| k.source.lines().count()).sum();
            let units = emitted.kernels.iter().map(|k| k.cube_dim).max().unwrap_or(0);
            let shared = emitted.kernels.iter().map(|k| k.shared_bytes).max().unwrap_or(0);
            let target = device::target(emitted);
            let used = used.get(&(entry.name().to_string(), target));
            rows.push(vec![
                entry.name().to_string(),
                target.to_string(),
                Emitted::launches(&emitted.steps).to_string(),
                emitted.kernels.len().to_string(),
                lines.to_string(),
                units.to_string(),
                bytes(shared as u64),
                used.map_or_else(String::new, |(registers, _)| registers.to_string()),
                used.map_or_else(String::new, |(_, spills)| bytes(*spills as u64)),
            ]);
        }
    }
    if rows.len() == 1 {
        return String::new();
    }
    if used.is_empty() {
        rows.iter_mut().for_each(|row| row.truncate(7));
    }
    format!("\n{}", table(&[&[Align::Left; 2][..], &[Align::Right; 7]].concat(), &rows))
}

/// Says why an entry point has no kernels.
fn refusal(error: &CompileError, sources: &Sources, out: &mut Output) {
    match error {
        CompileError::Fuse(FuseError::TooLarge(refused)) => out.error(&refused.to_string(), &largest(refused, sources)),
        other => fault(other, out),
    }
}

fn fault(error: &dyn std::fmt::Display, out: &mut Output) {
    out.error(&error.to_string(), "this is a fault of the compiler, not of the model");
}
