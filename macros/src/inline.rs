//! `world_model! { .. }`.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use proc_macro2::{Span, TokenStream};
use syn::parse::{Parse, ParseStream};
use wmc_dsl::folders::Folders;
use wmc_dsl::{LoadError, Loaded, Loader, Options};

use crate::emit::{self, Embedded};
use crate::{print, report};

const NAME: &str = "world_model!";

/// Settings, then a model as it would stand in a file.
struct Input {
    use_from: Option<syn::LitStr>,
    text: TokenStream,
}

impl Parse for Input {
    fn parse(input: ParseStream<'_>) -> syn::Result<Input> {
        let mut use_from = None;
        // Every item of the language starts with a word of its own and no `=` behind it.
        while input.peek(syn::Ident) && input.peek2(syn::Token![=]) {
            let name: syn::Ident = input.parse()?;
            if name != "use_from" {
                return Err(syn::Error::new(name.span(), format!("there is no setting `{name}`, only `use_from`")));
            }
            if use_from.is_some() {
                return Err(syn::Error::new(name.span(), "`use_from` is set twice"));
            }
            input.parse::<syn::Token![=]>()?;
            use_from = Some(input.parse()?);
            input.parse::<syn::Token![;]>()?;
        }
        Ok(Input { use_from, text: input.parse()? })
    }
}

/// What `use` meets where the macro has no `use_from`.
struct NoFolder;

impl Loader for NoFolder {
    fn load(&self, module: &str) -> Result<Loaded, LoadError> {
        let reason = "there is no folder to look in: write `use_from = \"models\";` before the model".to_string();
        Err(LoadError::Unreadable { path: format!("{module}.wm"), reason })
    }
}

/// `manifest` is the folder of the user's Cargo.toml.
pub(crate) fn expand(tokens: TokenStream, manifest: &Path) -> syn::Result<TokenStream> {
    let input: Input = syn::parse2(tokens)?;
    if input.text.is_empty() {
        return Ok(report::no_model(Span::call_site()));
    }
    let folder = input.use_from.map(|path| open(&path, manifest)).transpose()?;
    let printed = print::print(input.text);
    let loader: &dyn Loader = folder.as_ref().map_or(&NoFolder, |folder| folder);
    let checked = wmc_dsl::check(NAME, &printed.text, loader, &Options::default());

    let imports = folder.map_or_else(BTreeMap::new, Folders::into_imports);
    let embedded = Embedded { name: NAME, text: &printed.text, imports: &imports };
    let place = |name: &str| printed.following("model", name).unwrap_or_else(Span::call_site);
    let mut expansion = report::inline(&checked, &printed);
    if checked.models.is_empty() && !checked.has_errors() {
        expansion.extend(report::no_model(Span::call_site()));
    }
    expansion.extend(emit::modules(&checked.models, embedded, |model| place(&model.name)));
    expansion.extend(emit::track(imports.values().map(|i| i.path.as_path())));
    Ok(expansion)
}

fn open(path: &syn::LitStr, manifest: &Path) -> syn::Result<Folders> {
    let shown = path.value();
    let mut folders = Folders::default();
    folders.add(&manifest.join(&shown), &shown).map_err(|error| {
        let what = match error.kind() {
            ErrorKind::NotADirectory => format!("`{shown}` is not a folder"),
            _ => format!("there is no folder `{shown}`"),
        };
        syn::Error::new(path.span(), format!("{what}\nthe path starts at the folder of this crate's Cargo.toml"))
    })?;
    Ok(folders)
}
