//! A small checked model for tests of `wmc show`.

use dsl::hir::Model;
use dsl::{Checked, NoLoader, Options};

pub(crate) const TEXT: &str = include_str!("sample.wm");

/// With these sizes of the task given, as in `("O", 17)`; the others stay symbols.
pub(crate) fn checked(dims: &[(&str, u64)]) -> Checked {
    let dims = dims.iter().map(|(name, size)| (name.to_string(), *size)).collect();
    let checked = dsl::check("sample.wm", TEXT, &NoLoader, &Options { dims, ..Options::default() });
    assert!(checked.diagnostics.is_empty(), "{:?}", checked.diagnostics);
    checked
}

pub(crate) fn model() -> Model {
    checked(&[]).models.remove(0)
}
