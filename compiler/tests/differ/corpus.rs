//! The models that mutants are made of: every `.wm` file of the project, at sizes that run in milliseconds.

use std::collections::BTreeMap;

use dsl::lex::{self, Kind};

use crate::support::project;

const FOLDERS: [&str; 6] =
    ["models", "docs/tutorial", "dsl/tests/wm", "tests/reference/variants", "benches", "compiler/tests/differ/found"];

/// File names without their ending, and texts.
pub(crate) type Texts = BTreeMap<String, String>;

/// All files, with small numbers instead of large ones.
pub(crate) fn texts() -> Texts {
    let mut texts = Texts::new();
    for folder in FOLDERS {
        let files = std::fs::read_dir(project(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
        for path in files.map(|f| f.expect("a file").path()).filter(|p| p.extension().is_some_and(|e| e == "wm")) {
            let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let name = path.file_stem().and_then(|n| n.to_str()).expect("a name").to_string();
            texts.entry(name).or_insert_with(|| shrunk(&text));
        }
    }
    texts
}

pub(crate) struct Loader<'a>(pub(crate) &'a Texts);

impl dsl::Loader for Loader<'_> {
    fn load(&self, module: &str) -> Result<dsl::Loaded, dsl::LoadError> {
        match self.0.get(module) {
            Some(text) => Ok(dsl::Loaded { name: format!("{module}.wm"), text: text.clone() }),
            None => Err(dsl::LoadError::NotFound { known: Vec::new() }),
        }
    }
}

/// Widths, horizons and batches become small; what divided evenly still does.
fn shrunk(text: &str) -> String {
    let mut out = String::new();
    let mut at = 0;
    for token in lex::tokens(text) {
        let small = match token.kind {
            Kind::Number => token.text(text).parse::<u64>().ok().filter(|n| *n > 8).map(|n| match n {
                101 | 255 => 5,
                _ if n % 8 == 0 => 8,
                _ => 4 + n % 4,
            }),
            _ => None,
        };
        if let Some(small) = small {
            out += &text[at..token.lo];
            out += &small.to_string();
            at = token.hi;
        }
    }
    out + &text[at..]
}
