//! Lists the content of a checked model, for people (tables) and for programs (JSON).
//!
//! [`view::view`] turns a model into a [`document`] of plain data; both forms are printed from it alone.

pub(crate) mod counts;
mod document;
#[cfg(test)]
pub(crate) mod sample;
mod scalars;
pub(crate) mod table;
mod text;
mod view;
mod written;

use dsl::Checked;

/// All models as one JSON document; its fields are those of `docs/guide/json.md`.
pub(crate) fn json(file: &str, checked: &Checked) -> String {
    let models: Vec<document::ModelView> = checked.models.iter().map(|m| view::view(m, &checked.sources)).collect();
    let document = document::Document { file: file.to_string(), models };
    // Texts, numbers and lists always have a JSON form.
    serde_json::to_string_pretty(&document).expect("a model as JSON") + "\n"
}

/// All models as tables; with `params` every parameter, carry, draw and running value too.
pub(crate) fn tables(file: &str, checked: &Checked, params: bool) -> String {
    let models: Vec<String> = checked.models.iter().map(|m| text::text(file, &view::view(m, &checked.sources), params)).collect();
    models.join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn tables_of_a_model() {
        insta::assert_snapshot!(tables("sample.wm", &sample::checked(&[("A", 6)]), true));
    }

    #[test]
    fn sizes_are_numbers_or_polynomials() {
        let document: Value = serde_json::from_str(&json("sample.wm", &sample::checked(&[]))).unwrap();
        let model = &document["models"][0];
        assert_eq!(model["parameters"], "8*O + 20*A + 6152");
        assert_eq!(model["params"][0]["path"], "encoder.0.weight");
        assert_eq!(model["params"][0]["count"], "8*O");
        assert_eq!(model["params"][1]["count"], 8);
        assert_eq!(model["params"][0]["axes"][1]["size"], "O");
    }

    /// What is shown of a task keeps the order in which it was written.
    #[test]
    fn tasks_keep_their_order() {
        let document = json("sample.wm", &sample::checked(&[]));
        let [o, a] = ["\"O\": 17", "\"A\": 6"].map(|text| document.find(text).expect("a size of a task"));
        assert!(o < a);
    }

    /// Every field of the document is described.
    #[test]
    fn fields_are_documented() {
        fn fields(value: &Value, into: &mut BTreeSet<String>) {
            match value {
                Value::Object(map) => {
                    for (name, value) in map {
                        into.insert(name.clone());
                        // The names in these are the user's.
                        if name != "dims" || value.is_array() {
                            fields(value, into);
                        }
                    }
                }
                Value::Array(items) => items.iter().for_each(|item| fields(item, into)),
                _ => {}
            }
        }
        let manual = include_str!("../../docs/guide/json.md");
        let mut names = BTreeSet::new();
        fields(&serde_json::from_str(&json("sample.wm", &sample::checked(&[]))).unwrap(), &mut names);
        assert!(names.len() > 50);
        for name in names {
            assert!(manual.contains(&format!("`{name}`")), "docs/guide/json.md says nothing about `{name}`");
        }
    }
}
