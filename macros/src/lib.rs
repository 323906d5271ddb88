//! World models in Rust source: [`world_model!`] holds one, [`include_model!`] names a `.wm` file. Either is checked
//! while the crate is compiled, and becomes a module for each model.
//!
//! The language is the one of `.wm` files; nothing is read here. [`world_model!`] prints its tokens to a text, with
//! the way back from bytes to tokens, and hands it to `wmc_dsl::check` like any file; diagnostics come back to the tokens.
//! For that to work every token of the language is a token of Rust.
//!
//! The expansion names the checker's crate as `::wmc_dsl`. A crate that uses the macros depends on both:
//!
//! ```toml
//! [dependencies]
//! wmc-dsl = { path = ".." }
//! wmc-macros = { path = ".." }
//! ```
//!
//! # What a model becomes
//!
//! `model HamWorld { .. }` becomes `pub mod ham_world` with
//!
//! | item | |
//! |---|---|
//! | `NAME`, `SOURCE`, `IMPORTS` | the model's name, the text that was checked, the modules it uses |
//! | `fn model() -> &'static wmc_dsl::hir::Model` | the checked model; checked once more on the first call |
//! | `dims::Q: u64` | every size that the model fixes |
//! | `params::CORE_0_WEIGHT: &str`, `PARAM_PATHS` | the path of every parameter: `"core.0.weight"` |
//! | `losses::DYN: &str`, `LOSSES` | the name of every loss |
//! | `entry_points::TRAIN_STEP: &str`, `ENTRY_POINTS` | what a compiled model can be asked for |
//!
//! Where two names would give one constant, the later one gets a number: `Q`, `Q_2`.

mod emit;
mod include;
mod inline;
mod names;
mod print;
mod report;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use proc_macro::TokenStream;
use proc_macro2::Span;

/// A model, written in place.
///
/// ```ignore
/// wmc_macros::world_model! {
///     use_from = "../models";
///
///     use tasks::dmc
///
///     model Tiny {
///         dim Q = 8
///         // ..
///     }
/// }
///
/// assert_eq!(tiny::dims::Q, 8);
/// ```
///
/// The text is what a `.wm` file holds. Before it may stand one setting, ended by `;`: `use_from` is the folder in
/// which `use` looks for files, relative to the folder of the crate's Cargo.toml. Without it there is nothing to use
/// but the prelude.
///
/// An error is shown at the tokens it is about. A warning is shown as the use of a deprecated constant, since a macro
/// on stable Rust cannot warn; `#[allow(deprecated)]` on a module around the macro silences it.
#[proc_macro]
pub fn world_model(input: TokenStream) -> TokenStream {
    expand(input, inline::expand)
}

/// The models of a `.wm` file.
///
/// ```ignore
/// wmc_macros::include_model!("../models/hamworld.wm");
/// ```
///
/// The path is relative to the folder of the crate's Cargo.toml. `use` finds files in the folder of that file and
/// nowhere else; neither a path nor a link leads out of it. Cargo compiles the crate again when one of the files
/// changes. An error is shown at the path, with the place and the line of the file in its text.
#[proc_macro]
pub fn include_model(input: TokenStream) -> TokenStream {
    expand(input, include::expand)
}

type Expand = fn(proc_macro2::TokenStream, &Path) -> syn::Result<proc_macro2::TokenStream>;

/// Runs an expansion; whatever goes wrong is a `compile_error!`.
fn expand(input: TokenStream, expand: Expand) -> TokenStream {
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let expansion = catch_unwind(AssertUnwindSafe(|| expand(input.into(), &manifest)));
    let failed = || Err(syn::Error::new(Span::call_site(), "the checker of `wmc` failed on this model: a bug, please report it"));
    expansion.unwrap_or_else(|_| failed()).unwrap_or_else(syn::Error::into_compile_error).into()
}
