//! Stands in for the checker and the formatter until they are merged: parses, follows `use` one step,
//! checks nothing and formats nothing.

use crate::ast::Item;
use crate::diagnostics::{Code, Diagnostic};
use crate::source::Sources;
use crate::{Checked, LoadError, Loader, Options};

pub fn check(name: &str, text: &str, loader: &dyn Loader, _: &Options) -> Checked {
    let mut sources = Sources::default();
    let id = sources.add(name, text, false);
    let (file, mut diagnostics) = crate::parse::parse(id, text);
    for item in &file.items {
        let Item::Use(used) = item else { continue };
        let module = used.path[0].text.as_str();
        let code = match loader.load(module) {
            Ok(loaded) => {
                sources.add(loaded.name, loaded.text, false);
                continue;
            }
            Err(LoadError::Outside { .. }) => Code::ImportOutside,
            Err(LoadError::NotUtf8 { .. }) => Code::NotUtf8,
            Err(LoadError::NotFound { .. } | LoadError::Unreadable { .. }) => Code::ImportNotFound,
        };
        diagnostics.push(Diagnostic::new(code, used.span, format!("cannot use `{module}`")));
    }
    Checked { sources, models: Vec::new(), diagnostics }
}

pub mod fmt {
    pub fn format(text: &str) -> String {
        text.to_string()
    }
}
