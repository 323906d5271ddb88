//! `wmc run`: one entry point on given tensors.

use compiler::kernel::fuse::Level;
use compiler::run::{Call, CallError, Kernels, Tensor, Tensors};
use dsl::Checked;
use dsl::diagnostics::closest;
use dsl::hir::Model;
use dsl::source::Span;
use runtime::device::Device;

use crate::cli::{Run, Through};
use crate::commands::{entry_named, largest, one_model};
use crate::output::{Exit, Output};
use crate::tensors::{self, TensorError};

pub(crate) fn run(arguments: &Run, out: &mut Output) -> Exit {
    let Some((checked, model)) = one_model(&arguments.what.file, &arguments.what.of, out) else {
        return Exit::Bad;
    };
    let Some(entry) = entry_named(&arguments.entry, out) else { return Exit::Bad };
    let given = match given(arguments, &model) {
        Ok(given) => given,
        Err(message) => {
            out.error(&message, "see `wmc show FILE --params` for the names of all tensors");
            return Exit::Bad;
        }
    };
    let Some(device) = arguments.place.choose(out) else { return Exit::Bad };
    // Devices run kernels; the interpreter is the processor's.
    let through =
        arguments.level.unwrap_or(if device == Device::Cpu { Through::Reference } else { Through::Kernels(Level::Mega) });
    if through == Through::Reference && device != Device::Cpu {
        out.error(&format!("the interpreter does not run on {device}"), "choose another `--level`");
        return Exit::Bad;
    }
    let call = Call {
        entry,
        observe: true,
        double: arguments.f64,
        seed: arguments.seed,
        step: arguments.step,
        progress: arguments.progress,
        check: !arguments.allow_nan,
        kernels: match through {
            Through::Reference => None,
            Through::Kernels(level) => Some(Kernels { level, threads: threads(arguments.threads), device }),
        },
        ..Call::default()
    };
    let mut result = match compiler::run::call(&model, &call, &given) {
        Ok(result) => result,
        Err(error) => {
            tell(&error, &checked, out);
            return Exit::Bad;
        }
    };
    result.retain(|name, _| arguments.grads || !name.starts_with("grad."));
    if let Some(path) = &arguments.output
        && let Err(error) = tensors::write(path, &result, arguments.f64)
    {
        out.error(&error.to_string(), "choose another place for `--out`");
        return Exit::Bad;
    }
    summary(&result, arguments, out);
    Exit::Fine
}

/// Those that were asked for, or as many as the machine can run at once.
fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
}

/// The tensors of the file, under our names, and what `--set` says.
fn given(arguments: &Run, model: &Model) -> Result<Tensors, String> {
    let mut given = Tensors::new();
    let error = |e: TensorError| e.to_string();
    for path in &arguments.input {
        given.extend(tensors::read(path).map_err(error)?);
    }
    if let Some(map) = &arguments.map {
        given = tensors::mapped(&given, map, &compiler::run::known_names(model)).map_err(error)?;
    }
    for (name, value) in &arguments.set {
        let known: Vec<&str> =
            model.schedules.iter().map(|s| s.name.as_str()).chain(model.running.iter().map(|r| r.name.as_str())).collect();
        let full = if model.schedules.iter().any(|s| s.name == *name) {
            format!("schedule.{name}")
        } else if model.running.iter().any(|r| r.name == *name) {
            format!("running.{name}")
        } else if name == "progress" || name.contains('.') {
            name.clone()
        } else {
            let hint = closest(name, known.iter().copied())
                .map_or_else(|| format!("there are: {}", known.join(", ")), |b| format!("did you mean `{b}`?"));
            return Err(format!("there is no schedule or running value `{name}`; {hint}"));
        };
        given.insert(full, Tensor { shape: Vec::new(), data: vec![*value] });
    }
    Ok(given)
}

fn tell(error: &CallError, checked: &Checked, out: &mut Output) {
    let place = |span: Span| {
        let at = checked.sources.line_col(span.file, span.lo);
        format!("{}:{}:{}", checked.sources.file(span.file).name, at.line, at.column)
    };
    if let Some(refused) = error.too_large() {
        return out.error(&error.to_string(), &largest(refused, &checked.sources));
    }
    let help = match error {
        CallError::Lower(
            compiler::lower::LowerError::Uncountable { span, .. } | compiler::lower::LowerError::Batch { span, .. },
        ) => {
            format!("at {}", place(*span))
        }
        CallError::Misfit(_) => "see `wmc show FILE --params` for names, axes and storage order".to_string(),
        CallError::Lower(compiler::lower::LowerError::Unsupported { span, .. }) => format!("at {}", place(*span)),
        CallError::Lower(compiler::lower::LowerError::Unbound(_)) => "bind it with `--task` or `--dim`".to_string(),
        CallError::Lower(compiler::lower::LowerError::NoEntry { .. }) => "choose another `--entry`".to_string(),
        CallError::Double => "leave out `--f64`, or take `--level reference`".to_string(),
        CallError::Lower(compiler::lower::LowerError::TooLarge(_))
        | CallError::TooLarge(_)
        | CallError::Fuse(_)
        | CallError::Device(_)
        | CallError::NotFinite { .. } => "`--level reference` computes it with the interpreter".to_string(),
        CallError::Run(e) => match e.span() {
            Some(span) => format!("at {}", place(span)),
            None => "see `wmc show FILE --params` for the names of all tensors".to_string(),
        },
    };
    out.error(&error.to_string(), &help);
}

/// Scalars with their values; of the rest, how many there are.
fn summary(result: &Tensors, arguments: &Run, out: &mut Output) {
    if arguments.json {
        let scalars: serde_json::Map<String, serde_json::Value> =
            result.iter().filter(|(_, t)| t.data.len() == 1).map(|(n, t)| (n.clone(), t.data[0].into())).collect();
        out.say(format!("{}\n", serde_json::Value::Object(scalars)));
        return;
    }
    let width = result.iter().filter(|(_, t)| t.data.len() == 1).map(|(n, _)| n.len()).max().unwrap_or(0);
    for (name, tensor) in result.iter().filter(|(n, t)| t.data.len() == 1 && !n.starts_with("next.") && !n.starts_with("grad.")) {
        out.say(format!("{name:width$}  {}\n", tensor.data[0]));
    }
    let arrays = result.values().filter(|t| t.data.len() != 1).count();
    match &arguments.output {
        Some(path) => out.say(format!("{} tensors written to {}\n", result.len(), path.display())),
        None => out.say(format!("{arrays} arrays not shown; `--out FILE.safetensors` writes them\n")),
    }
}
