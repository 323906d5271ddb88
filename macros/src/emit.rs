//! A checked model as a Rust module.

use std::collections::BTreeMap;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use wmc_dsl::folders::Import;
use wmc_dsl::hir::{AxisId, Model};

use crate::names;

/// What a module carries so that its model can be checked again when the program runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Embedded<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    pub(crate) imports: &'a BTreeMap<String, Import>,
}

/// A module for each model, named after it; `place` is where in the user's text its name stands.
pub(crate) fn modules(models: &[Model], embedded: Embedded<'_>, place: impl Fn(&Model) -> Span) -> TokenStream {
    let names = names::modules(models.iter().map(|m| m.name.as_str()));
    let named = models.iter().zip(names).map(|(model, mut name)| {
        name.set_span(Span::call_site().located_at(place(model)));
        module(&name, model, embedded)
    });
    named.collect()
}

/// Makes cargo compile the user's crate again when one of the files changes. A path that is not UTF-8 cannot be
/// written in Rust and is left out.
pub(crate) fn track<'a>(paths: impl IntoIterator<Item = &'a std::path::Path>) -> TokenStream {
    let paths = paths.into_iter().filter_map(|p| p.to_str());
    quote!(#(const _: &[u8] = ::core::include_bytes!(#paths);)*)
}

fn module(name: &Ident, model: &Model, embedded: Embedded<'_>) -> TokenStream {
    let Embedded { name: file, text, imports } = embedded;
    let imports = imports.iter().map(|(module, import)| (module, &import.text)).map(|(m, t)| quote!((#m, #t)));
    let model_name = &model.name;
    let doc = format!("The model `{model_name}`, checked when this crate was compiled.");
    let losses = model.losses.iter().map(|l| (l.name.as_str(), String::new(), l.name.as_str()));
    let points = model.entry_points().into_iter().map(|name| (name, String::new(), name));
    let params = model.params.iter().map(|p| (p.path.as_str(), shape(model, &p.axes), p.path.as_str()));
    let dims = model.dims.iter().filter_map(|dim| {
        let size = model.axis(dim.axis).size.value()?;
        Some((dim.name.as_str(), String::new(), u64::try_from(size).ok()?))
    });
    let dims = constants(quote!(u64), dims);
    let param_paths = list(params.clone());
    let params = constants(quote!(&str), params);
    let loss_names = list(losses.clone());
    let losses = constants(quote!(&str), losses);
    let point_names = list(points.clone());
    let points = constants(quote!(&str), points);

    quote! {
        #[doc = #doc]
        #[allow(dead_code, unreachable_pub)]
        pub mod #name {
            /// The name of the model.
            pub const NAME: &str = #model_name;
            /// The text that was checked.
            pub const SOURCE: &str = #text;
            /// The modules that the text uses, with their texts.
            pub const IMPORTS: &[(&str, &str)] = &[#(#imports),*];
            /// The paths of all parameters, in the order of the model.
            pub const PARAM_PATHS: &[&str] = #param_paths;
            /// The names of all losses, in the order of the model.
            pub const LOSSES: &[&str] = #loss_names;
            /// The names of all entry points of the compiled model.
            pub const ENTRY_POINTS: &[&str] = #point_names;

            /// Sizes that the model fixes; those that a task gives are not among them.
            pub mod dims { #dims }
            /// Paths of the parameters.
            pub mod params { #params }
            /// Names of the losses.
            pub mod losses { #losses }
            /// Names of the entry points.
            pub mod entry_points { #points }

            /// The checked model. The first call checks the text once more; it passes, since it passed when this
            /// crate was compiled.
            pub fn model() -> &'static ::wmc_dsl::hir::Model {
                static MODEL: ::std::sync::LazyLock<::wmc_dsl::hir::Model> = ::std::sync::LazyLock::new(|| {
                    let mut imports = ::wmc_dsl::MapLoader::default();
                    for (module, text) in IMPORTS {
                        imports.0.insert(::std::string::String::from(*module), ::std::string::String::from(*text));
                    }
                    let mut options = ::wmc_dsl::Options::default();
                    options.model = ::core::option::Option::Some(::std::string::String::from(NAME));
                    let mut models = ::wmc_dsl::check(#file, SOURCE, &imports, &options).models;
                    models.retain(|model| model.name == NAME);
                    models.pop().expect("the crates `macros` and `dsl` are of one version")
                });
                &MODEL
            }
        }
    }
}

/// `[Q = 8, A]`.
fn shape(model: &Model, axes: &[AxisId]) -> String {
    let axes = axes.iter().map(|id| model.axis(*id)).map(|axis| {
        let size = axis.size.to_string();
        if size == axis.name { size } else { format!("{} = {size}", axis.name) }
    });
    format!("`[{}]`", axes.collect::<Vec<_>>().join(", "))
}

/// A constant for each `(name, doc, value)`.
fn constants<'a, T: ToTokens>(ty: TokenStream, items: impl Iterator<Item = (&'a str, String, T)> + Clone) -> TokenStream {
    let names = names::constants(items.clone().map(|(name, ..)| name));
    let items = names.into_iter().zip(items).map(|(constant, (name, doc, value))| {
        let doc = format!("`{name}` {doc}");
        let doc = doc.trim_end();
        quote!(#[doc = #doc] pub const #constant: #ty = #value;)
    });
    items.collect()
}

fn list<'a>(items: impl Iterator<Item = (&'a str, String, &'a str)>) -> TokenStream {
    let values = items.map(|(.., value)| value);
    quote!(&[#(#values),*])
}
