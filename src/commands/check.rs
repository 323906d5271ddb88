//! `wmc check`: diagnostics, and one line a file that says how it went.

use std::path::Path;

use dsl::Checked;

use crate::cli::Check;
use crate::files::{self, Unread};
use crate::output::{Exit, Output};
use crate::report::{Report, tally};
use crate::show::counts;

pub(crate) fn run(arguments: &Check, out: &mut Output) -> Exit {
    let mut report = Report::new(arguments.json);
    let mut worst = Exit::Fine;
    for path in &arguments.files {
        let name = path.display().to_string();
        let exit = match checked(path, arguments) {
            Ok(checked) => {
                report.diagnostics(out, &checked.sources, &checked.diagnostics);
                if !arguments.json {
                    out.say(format!("{name}: {}\n", summary(&checked)));
                }
                verdict(&checked, arguments.deny_warnings)
            }
            Err(unread) => {
                report.unread(out, &name, unread);
                Exit::Bad
            }
        };
        worst = worst.max(exit);
    }
    report.finish(out);
    worst
}

fn checked(path: &Path, arguments: &Check) -> Result<Checked, Unread> {
    let text = files::read(path)?;
    let loader = files::folders(path, &arguments.roots.roots)?;
    Ok(dsl::check(&path.display().to_string(), &text, &loader, &arguments.sizes.options(None)))
}

fn verdict(checked: &Checked, deny_warnings: bool) -> Exit {
    match checked.has_errors() {
        true => Exit::Bad,
        false if deny_warnings && !checked.diagnostics.is_empty() => Exit::No,
        false => Exit::Fine,
    }
}

/// `HamWorld ok, 60 parameter tensors, 486,945 parameters; 1 warning`.
fn summary(checked: &Checked) -> String {
    let mut parts: Vec<String> = Vec::new();
    if !checked.has_errors() && checked.models.is_empty() {
        parts.push("ok, no model in it".into());
    }
    parts.extend(checked.models.iter().map(|model| format!("{} ok, {}", model.name, counts::described(model))));
    if !checked.diagnostics.is_empty() {
        parts.push(tally(&checked.diagnostics));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use dsl::diagnostics::{Code, Diagnostic};
    use dsl::source::{Sources, Span};

    use super::*;
    use crate::show::sample;

    fn with(codes: &[Code]) -> Checked {
        let mut sources = Sources::default();
        sources.add("x.wm", "model M {}", false);
        let diagnostics = codes.iter().map(|code| Diagnostic::new(*code, Span::default(), "so")).collect();
        Checked { sources, models: vec![sample::model()], diagnostics }
    }

    #[test]
    fn one_line_says_it_all() {
        assert_eq!(summary(&with(&[])), "Sample ok, 29 parameter tensors, 8*O + 20*A + 6,152 parameters");
        let told = summary(&with(&[Code::Unused, Code::Syntax, Code::Syntax]));
        assert!(told.ends_with("parameters; 2 errors, 1 warning"), "{told}");
    }

    #[test]
    fn warnings_are_fine_unless_denied() {
        let warned = with(&[Code::Unused]);
        assert_eq!(verdict(&warned, false), Exit::Fine);
        assert_eq!(verdict(&warned, true), Exit::No);
        assert_eq!(verdict(&with(&[Code::Unused, Code::Syntax]), true), Exit::Bad);
        assert_eq!(verdict(&with(&[]), true), Exit::Fine);
    }
}
