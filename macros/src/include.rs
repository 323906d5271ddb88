//! `include_model!("path.wm")`.

use std::path::Path;

use proc_macro2::TokenStream;
use wmc_dsl::folders::{self, Folders};
use wmc_dsl::{LoadError, Options};

use crate::emit::{self, Embedded};
use crate::report;

/// `manifest` is the folder of the user's Cargo.toml.
pub(crate) fn expand(tokens: TokenStream, manifest: &Path) -> syn::Result<TokenStream> {
    let literal: syn::LitStr = syn::parse2(tokens)
        .map_err(|e| syn::Error::new(e.span(), "expected the path of a model: `include_model!(\"models/tiny.wm\")`"))?;
    let shown = literal.value();
    let error = |error: LoadError| syn::Error::new(literal.span(), report::unreadable(&error, &shown));
    // The folder of the file itself, not of a link to it.
    let path = manifest.join(&shown).canonicalize().map_err(|e| {
        error(match e.kind() {
            std::io::ErrorKind::NotFound => LoadError::NotFound { known: Vec::new() },
            _ => LoadError::Unreadable { path: shown.clone(), reason: e.to_string() },
        })
    })?;
    let text = folders::read_text(&path, &shown).map_err(error)?;
    let mut folders = Folders::default();
    folders
        .add(path.parent().unwrap_or(manifest), Path::new(&shown).parent().unwrap_or(Path::new("")))
        .map_err(|e| error(LoadError::Unreadable { path: shown.clone(), reason: e.to_string() }))?;
    // As the command does: shared modules may stand one folder up. What cannot be opened has none to offer.
    let _ = folders.add_above(path.parent().unwrap_or(manifest));
    let checked = wmc_dsl::check(&shown, &text, &folders, &Options::default());

    let imports = folders.into_imports();
    let embedded = Embedded { name: &shown, text: &text, imports: &imports };
    let mut expansion = report::included(&checked, literal.span());
    if checked.models.is_empty() && !checked.has_errors() {
        expansion.extend(report::no_model(literal.span()));
    }
    expansion.extend(emit::modules(&checked.models, embedded, |_| literal.span()));
    expansion.extend(emit::track(std::iter::once(path.as_path()).chain(imports.values().map(|i| i.path.as_path()))));
    Ok(expansion)
}
