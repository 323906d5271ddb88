//! What is in a checked model, for people (tables) and for programs (JSON).
//!
//! [`view::view`] turns a model into a [`document`] of plain data; both forms are printed from it alone.

pub(crate) mod counts;
mod document;
#[cfg(test)]
pub(crate) mod sample;
mod scalars;
mod table;
mod text;
mod view;
mod written;

use dsl::Checked;

/// All models as one JSON document; its fields are those of `docs/cli.md`.
pub(crate) fn json(file: &str, checked: &Checked) -> String {
    let models: Vec<document::ModelView> = checked.models.iter().map(|m| view::view(m, &checked.sources)).collect();
    let document = document::Document { file: file.to_string(), models };
    // Texts, numbers and lists always have a JSON form.
    serde_json::to_string_pretty(&document).expect("a model as JSON") + "\n"
}

/// All models as tables; with `params` every parameter, carry, draw and running value too.
pub(crate) fn tables(file: &str, checked: &Checked, params: bool) -> String {
    let models: Vec<String> =
        checked.models.iter().map(|m| text::text(file, &view::view(m, &checked.sources), params)).collect();
    models.join("\n")
}
