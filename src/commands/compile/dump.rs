//! `wmc compile --dump`: the graph program of an entry point after a pass, or its kernels, as text.

use std::time::{Duration, Instant};

use compiler::backend::cpu::TARGET;
use compiler::ir;
use compiler::kernel::{self, fuse::fuse};
use compiler::lower::{self, LowerError};
use compiler::prepare;
use compiler::simplify::simplify;
use dsl::diagnostics::closest;

use crate::cli::Compile;
use crate::commands::{entries, one_model};
use crate::output::{Exit, Output};

pub(super) fn run(arguments: &Compile, pass: &str, out: &mut Output) -> Exit {
    let Some((checked, model)) = one_model(&arguments.what.file, &arguments.what.of, out) else {
        return Exit::Bad;
    };
    let Some(entries) = entries(arguments.entry.as_deref(), out) else { return Exit::Bad };
    let passes = prepare::names(&TARGET, arguments.level);
    let known: Vec<&str> = [&["lower"][..], &passes, &["simplify", "prepare", "counts", "kernels"]].concat();
    if !known.contains(&pass) {
        let help = match closest(pass, known.iter().copied()) {
            Some(best) => format!("did you mean `{best}`?"),
            None => format!("at the level `{}` the passes are {}", arguments.level.name(), known.join(", ")),
        };
        out.error(&format!("there is no pass `{pass}`"), &help);
        return Exit::Bad;
    }
    let mut times = Vec::new();
    for entry in entries {
        let start = Instant::now();
        let options = lower::Options { batch: arguments.batch, ..lower::Options::default() };
        let program = match lower::lower(&model, entry, options) {
            Ok(program) => program,
            Err(LowerError::NoEntry { .. }) if arguments.entry.is_none() => continue,
            Err(error) => {
                out.error(&error.to_string(), "see `wmc help compile`");
                return Exit::Bad;
            }
        };
        let lowered = start.elapsed();
        let printed = |program: &ir::Program| ir::text::print(program, Some(&checked.sources));
        let text = match pass {
            "counts" => {
                let start = Instant::now();
                let program = simplify(program);
                times.push((entry, lowered, start.elapsed()));
                counts(&model.name, &program)
            }
            "lower" => printed(&program),
            "simplify" => printed(&simplify(program)),
            "kernels" => match fuse(&simplify(program), &TARGET, arguments.level) {
                Ok(kernels) => kernel::text::print(&kernels),
                Err(error) => return fault(&error, out),
            },
            "prepare" => match prepare::prepare(&simplify(program), &TARGET, arguments.level) {
                Ok(program) => printed(&program),
                Err(error) => return fault(&error, out),
            },
            pass => match prepare::until(program, pass, &TARGET, arguments.level) {
                Ok(program) => program.as_ref().map_or(String::new(), printed),
                Err(error) => return fault(&error, out),
            },
        };
        out.say(text);
    }
    if arguments.time {
        let total: Duration = times.iter().map(|(_, a, b)| *a + *b).sum();
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        for (entry, lowered, simplified) in &times {
            let name = entry.name();
            out.say(format!("{name:10}  lowered {:6.1} ms  simplified {:6.1} ms\n", ms(*lowered), ms(*simplified)));
        }
        out.say(format!("{:10}  {:.1} ms\n", "all", ms(total)));
    }
    Exit::Fine
}

fn fault(error: &dyn std::fmt::Display, out: &mut Output) -> Exit {
    out.error(&error.to_string(), "this is a fault of the compiler, not of the model");
    Exit::Bad
}

/// How often each operation occurs. Then the loops, and what each gives out, in single precision: of a loop with a gradient
/// that is also what it keeps for the way back.
fn counts(model: &str, program: &ir::Program) -> String {
    let counts: Vec<String> = program.counts().iter().map(|(n, c)| format!("{n} {c}")).collect();
    let total: usize = program.counts().values().sum();
    let mut text = format!("{model} {}: {total} operations ({})\n", program.name, counts.join(", "));
    for node in &program.graph.nodes {
        let ir::Op::Scan(scan) = &node.op else { continue };
        let steps = program.size(scan.axis);
        let outputs = &scan.body.results[scan.init.len()..];
        let numbers: usize = outputs.iter().map(|v| program.len(scan.body.axes(*v))).sum();
        let way = match scan.direction {
            ir::Direction::Forward => "forward",
            ir::Direction::Backward => "backward",
        };
        let (name, carries, kb) =
            (&program.axes[scan.axis.0 as usize].name, scan.init.len(), (4 * steps * numbers) as f64 / 1024.0);
        text += &format!("  scan {name} {way}: {steps} steps, {carries} carries, gives out {kb:.1} KB\n");
    }
    text
}
