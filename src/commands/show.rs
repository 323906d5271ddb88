//! `wmc show`: the content of a model.

use dsl::Checked;
use dsl::ast::Item;
use dsl::diagnostics::{Diagnostic, closest};
use dsl::source::FileId;

use crate::cli::Show;
use crate::files::{self, Unread};
use crate::output::{Exit, Output};
use crate::report::Report;
use crate::show;

pub(crate) fn run(arguments: &Show, out: &mut Output) -> Exit {
    let file = arguments.what.file.display().to_string();
    let mut report = Report::new(false);
    match checked(arguments) {
        Err(unread) => report.unread(out, &file, unread),
        Ok(checked) if checked.has_errors() => {
            let errors: Vec<Diagnostic> = checked.diagnostics.into_iter().filter(Diagnostic::is_error).collect();
            report.diagnostics(out, &checked.sources, &errors);
            report.finish(out);
        }
        Ok(checked) if checked.models.is_empty() => nothing(&file, arguments.what.of.model.as_deref(), &checked, out),
        Ok(checked) => {
            let text = match arguments.json {
                true => show::json(&file, &checked),
                false => show::tables(&file, &checked, arguments.params),
            };
            out.say(text);
            return Exit::Fine;
        }
    }
    Exit::Bad
}

fn checked(arguments: &Show) -> Result<Checked, Unread> {
    let path = arguments.what.file.as_path();
    let text = files::read(path)?;
    let loader = files::folders(path, &arguments.what.of.roots.roots)?;
    let options = arguments.what.of.sizes.options(arguments.what.of.model.clone());
    Ok(dsl::check(&path.display().to_string(), &text, &loader, &options))
}

/// There is no model, or none of that name.
fn nothing(file: &str, model: Option<&str>, checked: &Checked, out: &mut Output) {
    let Some(model) = model else {
        return out.error(&format!("there is no model in `{file}`"), "a file to show has a `model NAME { .. }`");
    };
    let text = checked.sources.files.first().map_or("", |f| f.text.as_str());
    let (tree, _) = dsl::parse::parse(FileId(0), text);
    let names: Vec<&str> = tree
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Model(model) => Some(model.name.text.as_str()),
            _ => None,
        })
        .collect();
    let help = match closest(model, names.iter().copied()) {
        Some(best) => format!("did you mean `{best}`?"),
        None => format!("its models: {}", names.join(", ")),
    };
    out.error(&format!("there is no model `{model}` in `{file}`"), &help);
}
