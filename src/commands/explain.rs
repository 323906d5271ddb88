//! `wmc explain`: a model's kernels and their cost.

use std::path::Path;

use compiler::artefact::{CompileError, EntryPoint};
use compiler::backend::cpu;
use compiler::kernel::fuse::FuseError;
use compiler::lower::{self, LowerError};
use compiler::memory;
use compiler::simplify::simplify;
use dsl::hir::Model;
use dsl::source::Sources;
use runtime::program::Compute;

use crate::cli::{Explain, Target};
use crate::commands::{device, entries, largest, one_model};
use crate::explain::chart::Chart;
use crate::explain::{self, Document, OnDevice, Origins};
use crate::output::{Exit, Output};

pub(crate) fn run(arguments: &Explain, out: &mut Output) -> Exit {
    if let Some(reason) = arguments.target.and_then(device::missing) {
        out.error(&reason, device::BUILD);
        return Exit::Bad;
    }
    let Some((checked, model)) = one_model(&arguments.what.file, &arguments.what.of, out) else { return Exit::Bad };
    let compiled = match programs(arguments, &model, &checked.sources, out) {
        Some(compiled) => compiled,
        None => return Exit::Bad,
    };
    let file = arguments.what.file.display().to_string();
    let origins = Origins::new(&checked.sources, &file);
    let level = arguments.level.name();
    let mut document = Document { file: file.clone(), model: model.name.clone(), level, entries: Vec::new() };
    let mut chart = Chart::default();
    for compiled in &compiled {
        let program = &compiled.kernels;
        let devices = match on_devices(compiled, arguments.target) {
            Ok(devices) => devices,
            Err(error) => {
                out.error(&error, FAULT);
                return Exit::Bad;
            }
        };
        document.entries.push(explain::entry(program, &model, devices, &origins));
        if arguments.svg.is_some() || arguments.html.is_some() {
            chart.add(format!("{} {}, level {level}", model.name, program.name), program, &origins);
        }
    }
    let svg = arguments.svg.as_ref().map(|path| (path, explain::svg::svg(&chart)));
    let html = arguments.html.as_ref().map(|path| (path, explain::page::page(&document, &chart)));
    if !svg.iter().chain(&html).all(|(path, text)| write(path, text, out)) {
        return Exit::Bad;
    }
    out.say(if arguments.json { explain::json(&document) } else { explain::tables(&document) });
    let threads = Compute::default().threads;
    for EntryPoint { kernels, .. } in &compiled {
        if let Err(refused) = memory::reserve_program(kernels, cpu::needs(kernels, threads)) {
            out.error(&refused.to_string(), &largest(&refused.located(&model), &checked.sources));
            return Exit::Bad;
        }
    }
    Exit::Fine
}

const FAULT: &str = "this is a fault of the compiler, not of the model";

/// What becomes of an entry point on the devices that were asked for.
fn on_devices(compiled: &EntryPoint, target: Option<Target>) -> Result<Vec<OnDevice>, String> {
    let mut devices = Vec::new();
    for target in target.iter().flat_map(|t| t.each()) {
        if let Some(emitted) = device::emitted(compiled, target).map_err(|e| e.to_string())? {
            devices.push(OnDevice::of(target.to_string(), &emitted));
        }
    }
    Ok(devices)
}

/// The entry points that were asked for.
fn programs(arguments: &Explain, model: &Model, sources: &Sources, out: &mut Output) -> Option<Vec<EntryPoint>> {
    let mut programs = Vec::new();
    for entry in entries(arguments.entry.as_deref(), out)? {
        let options = lower::Options { batch: arguments.batch, ..lower::Options::default() };
        let program = match lower::lower(model, entry, options) {
            Ok(program) => program,
            Err(LowerError::NoEntry { .. }) if arguments.entry.is_none() => continue,
            Err(error) => {
                out.error(&error.to_string(), "see `wmc help explain`");
                return None;
            }
        };
        match EntryPoint::of(simplify(program), arguments.level) {
            Ok(compiled) => programs.push(compiled),
            Err(CompileError::Fuse(FuseError::TooLarge(refused))) => {
                out.error(&refused.to_string(), &largest(&refused, sources));
                return None;
            }
            Err(error) => {
                out.error(&error.to_string(), FAULT);
                return None;
            }
        }
    }
    Some(programs)
}

fn write(path: &Path, text: &str, out: &mut Output) -> bool {
    match std::fs::write(path, text) {
        Ok(()) => true,
        Err(error) => {
            out.error(&format!("cannot write `{}`: {error}", path.display()), "choose another place for the drawing");
            false
        }
    }
}
