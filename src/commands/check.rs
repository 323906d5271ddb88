//! `wmc check`: diagnostics, and one line a file that says how it went.

use std::path::Path;

use dsl::Checked;

use crate::cli::Check;
use crate::files::{self, Unread};
use crate::output::{Exit, Output};
use crate::remember::Question;
use crate::report::{Report, tally};
use crate::show::counts;

pub(crate) fn run(arguments: &Check, out: &mut Output) -> Exit {
    let mut report = Report::new(arguments.json);
    let mut worst = Exit::Fine;
    for path in &arguments.files {
        let exit = file(path, arguments, &mut report, out).unwrap_or_else(|unread| {
            report.unread(out, &path.display().to_string(), unread);
            Exit::Bad
        });
        worst = worst.max(exit);
    }
    report.finish(out);
    worst
}

fn file(path: &Path, arguments: &Check, report: &mut Report, out: &mut Output) -> Result<Exit, Unread> {
    let name = path.display().to_string();
    let text = files::read(path)?;
    let loader = files::folders(path, &arguments.roots.roots)?;
    let options = arguments.sizes.options(None);
    let question = Question::new(path, &text, &arguments.roots.roots, &options);
    let (told, exit) = match question.as_ref().and_then(|question| question.recall(&loader)) {
        Some(told) => (told, Exit::Fine),
        None => {
            let checked = dsl::check(&name, &text, &loader, &options);
            report.diagnostics(out, &checked.sources, &checked.diagnostics);
            let told = summary(&checked);
            if let Some(question) = question.filter(|_| checked.diagnostics.is_empty()) {
                question.remember(loader, &told);
            }
            (told, verdict(&checked, arguments.deny_warnings))
        }
    };
    if !arguments.json {
        out.say(format!("{name}: {told}\n"));
    }
    Ok(exit)
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
