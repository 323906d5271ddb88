//! The `.wm` language: from text to a checked model.
//!
//! The line: [`parse`] (text to [`ast`]), `resolve` (`use`, `extends`, `drop`), `check` (names, axes,
//! time, gradients) and the result, [`hir::Model`]. Everything here is pure: text and values in, values and
//! [`Diagnostic`]s out; the only way to a file is the [`Loader`] that the caller passes in, [`folders`] for one.

pub mod ast;
mod check;
pub mod diagnostics;
pub mod fmt;
pub mod folders;
pub mod hir;
pub mod lex;
pub mod parse;
mod prelude;
mod resolve;
pub mod source;

pub use check::{builtins, check};
use diagnostics::Diagnostic;
use source::Sources;

/// Finds the text of a module named by `use`.
pub trait Loader {
    /// `module` is a plain word: `tasks` in `use tasks::dmc`.
    fn load(&self, module: &str) -> Result<Loaded, LoadError>;
}

/// A module's text and the name that a person knows it by.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub name: String,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// No such module; the modules there are.
    NotFound {
        known: Vec<String>,
    },
    /// It lies outside the folders that were given.
    Outside {
        path: String,
    },
    /// It is there and cannot be read.
    Unreadable {
        path: String,
        reason: String,
    },
    NotUtf8 {
        path: String,
        valid_up_to: usize,
    },
}

/// A loader that knows nothing: for texts that stand alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLoader;

impl Loader for NoLoader {
    fn load(&self, _: &str) -> Result<Loaded, LoadError> {
        Err(LoadError::NotFound { known: Vec::new() })
    }
}

/// Modules held in memory.
#[derive(Debug, Clone, Default)]
pub struct MapLoader(pub std::collections::BTreeMap<String, String>);

impl Loader for MapLoader {
    fn load(&self, module: &str) -> Result<Loaded, LoadError> {
        match self.0.get(module) {
            Some(text) => Ok(Loaded { name: format!("{module}.wm"), text: text.clone() }),
            None => Err(LoadError::NotFound { known: self.0.keys().cloned().collect() }),
        }
    }
}

/// Options of a check.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Sizes bound from outside: `O = 17`; they win over those in the text.
    pub dims: Vec<(String, u64)>,
    /// Take sizes from this task of the model's `tasks`.
    pub task: Option<String>,
    /// Use this protocol (a `tasks` block) instead of the model's own.
    pub protocol: Option<String>,
    /// Check this model alone; all models of the file otherwise.
    pub model: Option<String>,
}

/// The outcome of a check: models where nothing was wrong with them, and everything there is to say.
#[derive(Debug, Clone)]
pub struct Checked {
    pub sources: Sources,
    /// Models without errors, in the order of the file.
    pub models: Vec<hir::Model>,
    /// In the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

impl Checked {
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

#[cfg(test)]
mod tests {
    /// Every `.wm` file there is: the prelude, the models and the test models.
    #[test]
    fn models_parse() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut wrong = String::new();
        for folder in ["src/prelude", "../models", "tests/wm"] {
            let mut files: Vec<_> = std::fs::read_dir(root.join(folder)).unwrap().map(|e| e.unwrap().path()).collect();
            files.retain(|f| f.extension().is_some_and(|e| e == "wm"));
            files.sort();
            assert!(!files.is_empty(), "{folder} has no models");
            for file in files {
                let text = std::fs::read_to_string(&file).unwrap();
                let name = file.display().to_string();
                let mut sources = crate::source::Sources::default();
                let id = sources.add(&name, text.clone(), false);
                let (_, diagnostics) = crate::parse::parse(id, &text);
                for d in &diagnostics {
                    wrong += &crate::diagnostics::render(&sources, d, false);
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }
}
