//! `wmc compile --dump`: the graph program of an entry point after a pass, or its kernels, as text.

use std::time::{Duration, Instant};

use compiler::ir;
use compiler::kernel;
use compiler::lower::{self, LowerError};
use compiler::simplify;
use dsl::diagnostics::closest;

use crate::cli::Compile;
use crate::commands::{entries, one_model};
use crate::output::{Exit, Output};

pub(super) fn run(arguments: &Compile, pass: &str, out: &mut Output) -> Exit {
    let Some((checked, model)) = one_model(&arguments.what.file, &arguments.what.of, out) else {
        return Exit::Bad;
    };
    let Some(entries) = entries(arguments.entry.as_deref(), out) else { return Exit::Bad };
    let mut times = Vec::new();
    for entry in entries {
        let start = Instant::now();
        let mut program =
            match lower::lower(&model, entry, lower::Options { batch: arguments.batch, ..lower::Options::default() }) {
                Ok(program) => program,
                Err(LowerError::NoEntry { .. }) if arguments.entry.is_none() => continue,
                Err(error) => {
                    out.error(&error.to_string(), "see `wmc help compile`");
                    return Exit::Bad;
                }
            };
        let lowered = start.elapsed();
        match pass {
            "counts" => {
                let start = Instant::now();
                simplify::simplify(&mut program);
                times.push((entry, lowered, start.elapsed()));
                let counts: Vec<String> = program.counts().iter().map(|(n, c)| format!("{n} {c}")).collect();
                let total: usize = program.counts().values().sum();
                out.say(format!("{} {}: {total} operations ({})\n", model.name, entry.name(), counts.join(", ")));
                loops(&program, out);
            }
            "simplify" => {
                simplify::simplify(&mut program);
                out.say(ir::text::print(&program, Some(&checked.sources)));
            }
            "kernels" => {
                simplify::simplify(&mut program);
                match kernel::fuse::fuse(&program, arguments.level) {
                    Ok(kernels) => out.say(kernel::text::print(&kernels)),
                    Err(error) => {
                        out.error(&error.to_string(), "this is a fault of the compiler, not of the model");
                        return Exit::Bad;
                    }
                }
            }
            "lower" => out.say(ir::text::print(&program, Some(&checked.sources))),
            pass => {
                let known: Vec<&str> = simplify::PASSES.iter().map(|p| p.0).collect();
                if !known.contains(&pass) {
                    let help = match closest(pass, known.iter().copied().chain(["lower", "simplify", "counts", "kernels"])) {
                        Some(best) => format!("did you mean `{best}`?"),
                        None => format!("the passes are lower, {}, simplify, counts, kernels", known.join(", ")),
                    };
                    out.error(&format!("there is no pass `{pass}`"), &help);
                    return Exit::Bad;
                }
                simplify::run_until(&mut program, pass);
                out.say(ir::text::print(&program, Some(&checked.sources)));
            }
        }
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

/// The loops of a program, and what each gives out, in single precision: of a loop with a gradient that is also what it keeps
/// for the way back.
fn loops(program: &ir::Program, out: &mut Output) {
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
        out.say(format!("  scan {name} {way}: {steps} steps, {carries} carries, gives out {kb:.1} KB\n"));
    }
}
