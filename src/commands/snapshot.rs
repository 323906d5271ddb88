//! `wmc snapshot`: a model's kernels as they were accepted, against those of now.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use compiler::artefact::{CompileError, EntryPoint};
use compiler::backend::cube::{Numerics, Precision, Sums};
use compiler::kernel::cost;
use compiler::kernel::fuse::Level;
use compiler::kernel::text;
use compiler::lower::LowerError;
use dsl::hir::Model;
use similar::TextDiff;

use crate::cli::{Snapshot, Target};
use crate::commands::{device, entries, one_model, stem, write_whole};
use crate::explain::{bytes, count};
use crate::output::{Exit, Output};

/// What is kept of every entry point beside its tile program, in builds that have it.
const DEVICES: [Target; 2] = [Target::Cuda(86, Numerics { precision: Precision::F32, sums: Sums::Ordered }), Target::Vulkan];

pub(crate) fn run(arguments: &Snapshot, out: &mut Output) -> Exit {
    let Some((_, model)) = one_model(&arguments.what.file, &arguments.what.of, out) else {
        return Exit::Bad;
    };
    let Some(now) = kernels(arguments, &model, out) else { return Exit::Bad };
    let beside = || arguments.what.file.parent().unwrap_or(Path::new("")).join("snapshots");
    let folder = arguments.out.clone().unwrap_or_else(beside);
    let folder = folder.join(stem(&arguments.what));
    let Some(kept) = kept(&folder, arguments.entry.as_deref(), out) else { return Exit::Bad };
    if arguments.accept { accept(&folder, &kept, &now, out) } else { compare(&folder, &kept, &now, arguments.context, out) }
}

/// Texts by the names of their files. Returns `None` after reporting the error.
fn kernels(arguments: &Snapshot, model: &Model, out: &mut Output) -> Option<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    let fault = "this is a fault of the compiler, not of the model";
    for entry in entries(arguments.entry.as_deref(), out)? {
        let compiled = match EntryPoint::compile(model, entry, None, Level::Mega) {
            Ok(compiled) => compiled,
            Err(CompileError::Lower(LowerError::NoEntry { .. })) if arguments.entry.is_none() => continue,
            Err(CompileError::Lower(error)) => {
                out.error(&error.to_string(), "see `wmc help snapshot`");
                return None;
            }
            Err(error) => {
                out.error(&error.to_string(), fault);
                return None;
            }
        };
        texts.insert(format!("{}.kernels", entry.name()), summary(model, &compiled) + &text::print(&compiled.kernels));
        for target in DEVICES {
            let emitted = device::emitted(&compiled, target).map_err(|e| out.error(&e.to_string(), fault)).ok()?;
            let Some(emitted) = emitted.filter(|e| !e.kernels.is_empty()) else { continue };
            let all: String =
                emitted.kernels.iter().map(|k| format!("// kernel {}\n{}\n", k.name, k.source.trim_end())).collect();
            texts.insert(format!("{}.{}", entry.name(), device::language(&emitted).1), all);
        }
    }
    Some(texts)
}

/// A comment above a tile program: a change of it says at once what a change of the model costs.
fn summary(model: &Model, entry: &EntryPoint) -> String {
    let totals = cost::totals(&entry.kernels, &entry.kernels.steps);
    format!(
        "; {} {}: {} operations, {} kernels, {} launches, {}flop, {} moved\n",
        model.name,
        entry.name(),
        entry.operations,
        totals.kernels,
        totals.launches,
        count(totals.cost.flops),
        bytes(totals.cost.bytes())
    )
}

/// What was accepted before and this build would make: all, or that of one entry point.
fn kept(folder: &Path, entry: Option<&str>, out: &mut Output) -> Option<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    let Ok(files) = std::fs::read_dir(folder) else { return Some(texts) };
    let endings: &[&str] = if device::missing(DEVICES[0]).is_none() { &["kernels", "cu", "wgsl"] } else { &["kernels"] };
    let mut paths: Vec<PathBuf> = files.flatten().map(|f| f.path()).collect();
    paths.sort();
    for path in paths {
        let (stem, ending) = (path.file_stem().and_then(|s| s.to_str()), path.extension().and_then(|s| s.to_str()));
        if !ending.is_some_and(|e| endings.contains(&e)) || entry.is_some_and(|e| stem != Some(e)) {
            continue;
        }
        let cannot =
            |e| out.error(&format!("cannot read `{}`: {e}", path.display()), "remove it, or `--accept` the kernels anew");
        let text = std::fs::read_to_string(&path).map_err(cannot).ok()?;
        texts.insert(path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned()), text);
    }
    Some(texts)
}

fn accept(folder: &Path, kept: &BTreeMap<String, String>, now: &BTreeMap<String, String>, out: &mut Output) -> Exit {
    for (name, text) in now.iter().filter(|(name, text)| kept.get(*name) != Some(*text)) {
        if write_whole(&folder.join(name), text.as_bytes(), out).is_none() {
            return Exit::Bad;
        }
        out.say(format!("kept {}\n", folder.join(name).display()));
    }
    for name in kept.keys().filter(|name| !now.contains_key(*name)) {
        if let Err(error) = std::fs::remove_file(folder.join(name)) {
            out.error(&format!("cannot remove `{}`: {error}", folder.join(name).display()), "remove it by hand");
            return Exit::Bad;
        }
        out.say(format!("removed {}\n", folder.join(name).display()));
    }
    out.say(format!("{} files in {} are as the model is now\n", now.len(), folder.display()));
    Exit::Fine
}

fn compare(
    folder: &Path,
    kept: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
    context: usize,
    out: &mut Output,
) -> Exit {
    let mut changed = 0;
    let names: std::collections::BTreeSet<&String> = kept.keys().chain(now.keys()).collect();
    for name in &names {
        let (before, after) = (kept.get(*name), now.get(*name));
        if before == after {
            continue;
        }
        changed += 1;
        let place = folder.join(name);
        match (before, after) {
            (Some(before), Some(after)) => {
                let diff = TextDiff::from_lines(before.as_str(), after.as_str());
                let heads = (format!("{} (kept)", place.display()), format!("{} (now)", place.display()));
                out.say(diff.unified_diff().context_radius(context).header(&heads.0, &heads.1).to_string());
            }
            (None, _) => out.say(format!("{} is new\n", place.display())),
            (Some(_), None) => out.say(format!("{} is gone\n", place.display())),
        }
    }
    if changed == 0 {
        out.say(format!("{} files in {} are as the model is now\n", names.len(), folder.display()));
        return Exit::Fine;
    }
    out.tell(format!("{changed} of {} files differ; `--accept` keeps what is now\n", names.len()));
    Exit::No
}
