//! `wmc compile`: today the graph program of an entry point after a pass, as text.

use compiler::ir;
use compiler::lower::{self, Entry, LowerError};
use compiler::simplify;
use dsl::diagnostics::closest;

use crate::cli::Compile;
use crate::commands::one_model;
use crate::output::{Exit, Output};

pub(crate) fn run(arguments: &Compile, out: &mut Output) -> Exit {
    let Some((checked, model)) = one_model(&arguments.file, arguments.model.clone(), &arguments.sizes, &arguments.roots, out)
    else {
        return Exit::Bad;
    };
    let entries: Vec<Entry> = match &arguments.entry {
        Some(name) => match Entry::parse(name) {
            Some(entry) => vec![entry],
            None => {
                let names: Vec<&str> = Entry::ALL.iter().map(|e| e.name()).collect();
                out.error(&format!("there is no entry point `{name}`"), &format!("the entry points are {}", names.join(", ")));
                return Exit::Bad;
            }
        },
        None => Entry::ALL.to_vec(),
    };
    for entry in entries {
        let mut program =
            match lower::lower(&model, entry, lower::Options { batch: arguments.batch, ..lower::Options::default() }) {
                Ok(program) => program,
                Err(LowerError::NoEntry { .. }) if arguments.entry.is_none() => continue,
                Err(error) => {
                    out.error(&error.to_string(), "see `wmc help compile`");
                    return Exit::Bad;
                }
            };
        match arguments.dump.as_deref() {
            None => {
                simplify::simplify(&mut program);
                let counts: Vec<String> = program.counts().iter().map(|(n, c)| format!("{n} {c}")).collect();
                let total: usize = program.counts().values().sum();
                out.say(format!("{} {}: {total} operations ({})\n", model.name, entry.name(), counts.join(", ")));
            }
            Some("lower") => out.say(ir::text::print(&program, Some(&checked.sources))),
            Some(pass) => {
                let known: Vec<&str> = simplify::PASSES.iter().map(|p| p.0).collect();
                if !known.contains(&pass) {
                    let help = match closest(pass, known.iter().copied().chain(["lower"])) {
                        Some(best) => format!("did you mean `{best}`?"),
                        None => format!("the passes are lower, {}", known.join(", ")),
                    };
                    out.error(&format!("there is no pass `{pass}`"), &help);
                    return Exit::Bad;
                }
                simplify::run_until(&mut program, pass);
                out.say(ir::text::print(&program, Some(&checked.sources)));
            }
        }
    }
    Exit::Fine
}
