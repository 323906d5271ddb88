//! Diagnostics as something that rustc shows.
//!
//! An error becomes a `compile_error!` whose tokens carry the spans it is about. A macro on stable Rust cannot warn:
//! a warning becomes the use of a constant that is deprecated with the warning as its note, so that
//! `#[allow(deprecated)]` silences it and `-D warnings` does not let it pass.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use wmc_dsl::diagnostics::{Code, Diagnostic, Label, render};
use wmc_dsl::source::{FileId, Sources, Span as Bytes};
use wmc_dsl::{Checked, LoadError};

use crate::print::Printed;

/// Longest piece of source that a message repeats.
const MAX_EXCERPT: usize = 48;

/// All diagnostics of a text inside `world_model!`, at their tokens.
pub(crate) fn inline(checked: &Checked, printed: &Printed) -> TokenStream {
    let inline = Inline { sources: &checked.sources, printed };
    checked.diagnostics.iter().map(|d| inline.diagnostic(d)).collect()
}

/// All diagnostics of a file, at the literal that names it, with the lines of the file.
pub(crate) fn included(checked: &Checked, literal: Span) -> TokenStream {
    checked.diagnostics.iter().map(|d| tell(d, (literal, literal), &snippet(&checked.sources, d))).collect()
}

/// A text without a model is no mistake of the language, and of no use to a macro.
pub(crate) fn no_model(at: Span) -> TokenStream {
    let text = format!("{}: there is no model in it\nhelp: write `model Name {{ .. }}`", Code::NoModel.id());
    syn::Error::new(at, text).into_compile_error()
}

/// Why a file could not be read, in a sentence.
pub(crate) fn unreadable(error: &LoadError, path: &str) -> String {
    match error {
        LoadError::NotFound { .. } => {
            format!("there is no file `{path}`\nthe path starts at the folder of this crate's Cargo.toml")
        }
        LoadError::Outside { .. } => format!("`{path}` leads out of its folder"),
        LoadError::Unreadable { reason, .. } => format!("`{path}` cannot be read: {reason}"),
        LoadError::NotUtf8 { valid_up_to, .. } => format!(
            "E0001: `{path}` is not UTF-8 text\nnote: the first byte that is not text stands at offset {valid_up_to}\n\
             help: save the file as UTF-8"
        ),
    }
}

fn tell(diagnostic: &Diagnostic, (first, last): (Span, Span), text: &str) -> TokenStream {
    let code = diagnostic.code.id();
    if diagnostic.is_error() {
        // rustc marks everything from the first token to the last, even where spans cannot be joined.
        let (first, last) = (Ident::new(code, first), Ident::new(code, last));
        return syn::Error::new_spanned(quote!(#first #last), text).into_compile_error();
    }
    let (declared, used) = (Ident::new(code, Span::call_site()), Ident::new(code, Span::call_site().located_at(first)));
    quote! {
        const _: () = {
            #[deprecated(note = #text)]
            const #declared: () = ();
            #used
        };
    }
}

/// `E0203: ..` and the lines of the file below it.
fn snippet(sources: &Sources, diagnostic: &Diagnostic) -> String {
    let text = render(sources, diagnostic, false);
    let code = diagnostic.code.id();
    let after = text.split_once(&format!("[{code}]: ")).map(|(_, after)| after);
    format!("{code}: {}", after.unwrap_or(&diagnostic.message).trim_end())
}

struct Inline<'a> {
    sources: &'a Sources,
    printed: &'a Printed,
}

impl Inline<'_> {
    fn diagnostic(&self, diagnostic: &Diagnostic) -> TokenStream {
        let at = diagnostic.primary.span;
        if !self.is_printed(at.file) {
            return tell(diagnostic, self.import(diagnostic), &snippet(self.sources, diagnostic));
        }
        tell(diagnostic, self.place(at), &self.message(diagnostic))
    }

    /// Code, sentence, labels, notes and helps, a line each; rustc shows the source itself.
    fn message(&self, diagnostic: &Diagnostic) -> String {
        let mut lines = vec![format!("{}: {}", diagnostic.code.id(), diagnostic.message)];
        if !diagnostic.primary.text.is_empty() {
            lines.push(format!("here: {}", diagnostic.primary.text));
        }
        lines.extend(diagnostic.secondary.iter().map(|label| self.label(label)));
        lines.extend(diagnostic.notes.iter().map(|note| format!("note: {note}")));
        lines.extend(diagnostic.helps.iter().map(|help| format!("help: {help}")));
        lines.join("\n")
    }

    fn label(&self, label: &Label) -> String {
        let source = self.sources.text(label.span);
        let mut excerpt: String = source.lines().next().unwrap_or("").chars().take(MAX_EXCERPT).collect();
        if excerpt.len() < source.len() {
            excerpt.push_str(" ..");
        }
        format!("{}, `{excerpt}`: {}", self.line(label.span), label.text)
    }

    /// `line 12` of the Rust file, or the place in a file that was used.
    fn line(&self, at: Bytes) -> String {
        if self.is_printed(at.file) {
            return match self.place(at).0.start().line {
                0 => "there".to_string(),
                line => format!("line {line}"),
            };
        }
        match self.sources.files.get(at.file.0 as usize) {
            Some(file) => {
                let place = self.sources.line_col(at.file, at.lo);
                format!("{}:{}:{}", file.name, place.line, place.column)
            }
            None => "there".to_string(),
        }
    }

    fn is_printed(&self, file: FileId) -> bool {
        self.sources.files.get(file.0 as usize).is_some_and(|f| !f.prelude && f.text == self.printed.text)
    }

    fn place(&self, at: Bytes) -> (Span, Span) {
        self.printed.tokens(at.range()).unwrap_or((Span::call_site(), Span::call_site()))
    }

    /// Where the macro's own text leads to a diagnostic of another file: a label of its own, or the `use`.
    fn import(&self, diagnostic: &Diagnostic) -> (Span, Span) {
        if let Some(label) = diagnostic.secondary.iter().find(|l| self.is_printed(l.span.file)) {
            return self.place(label.span);
        }
        let file = self.sources.files.get(diagnostic.primary.span.file.0 as usize);
        let module = file.and_then(|f| std::path::Path::new(&f.name).file_stem()?.to_str());
        match module.and_then(|m| self.printed.following("use", m)) {
            Some(span) => (span, span),
            None => self.place(Bytes::default()),
        }
    }
}
