//! What the macros expand to, as tokens.

use std::path::{Path, PathBuf};

use proc_macro2::{Span, TokenStream};
use syn::parse::Parser;
use wmc_dsl::diagnostics::{Code, Diagnostic};
use wmc_dsl::folders::Folders;
use wmc_dsl::source::{FileId, Sources, Span as Bytes};
use wmc_dsl::{Checked, LoadError, Loader};

use crate::emit::{self, Embedded};
use crate::{include, inline, print, report};

/// A complete model, and the file it uses.
const TINY: &str = include_str!("../../tests/ui/models/tiny.wm");
const TASKS: &str = include_str!("../../tests/ui/models/tasks.wm");

/// A folder that is gone after the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        let path = std::env::temp_dir().join(format!("wmc-macros-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Temporary(path.canonicalize().unwrap())
    }

    fn write(&self, file: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Left behind is better than a failed test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The texts of all `compile_error!`s in an expansion, or of the one that it fails with.
fn errors(expansion: syn::Result<TokenStream>) -> Vec<String> {
    let tokens = expansion.unwrap_or_else(syn::Error::into_compile_error);
    let trees: Vec<_> = tokens.into_iter().collect();
    let calls = trees.windows(3).filter(|w| w[0].to_string() == "compile_error");
    let text = |w: &[proc_macro2::TokenTree]| {
        let proc_macro2::TokenTree::Group(group) = &w[2] else { panic!("not a call") };
        let text = |input: syn::parse::ParseStream<'_>| input.parse::<syn::LitStr>();
        text.parse2(group.stream()).unwrap().value()
    };
    calls.map(text).collect()
}

fn inlined(text: &str, manifest: &Path) -> syn::Result<TokenStream> {
    inline::expand(text.parse().unwrap(), manifest)
}

fn included(path: &str, manifest: &Path) -> syn::Result<TokenStream> {
    include::expand(quote::quote!(#path), manifest)
}

#[test]
fn every_error_is_told() {
    let errors = errors(inlined("model A {\n dim Q = = 8\n net f(z) -> [Q] mlp([8])\n}", Path::new("")));
    assert!(errors.len() >= 2, "{errors:#?}");
    assert!(errors[0].starts_with("E0101: did not expect `=` here\nhere: expected"), "{}", errors[0]);
}

#[test]
fn settings_come_first_and_are_known() {
    let folder = Temporary::new("settings");
    folder.write("parts/tasks.wm", TASKS);
    folder.write("file", "");
    let first = |settings: &str| errors(inlined(&format!("{settings} {TINY}"), &folder.0)).swap_remove(0);
    assert_eq!(errors(inlined(&format!("use_from = \"parts\"; {TINY}"), &folder.0)), [""; 0]);
    assert_eq!(first("use_form = \"parts\";"), "there is no setting `use_form`, only `use_from`");
    assert_eq!(first("use_from = \"parts\"; use_from = \"parts\";"), "`use_from` is set twice");
    assert!(first("use_from = \"nowhere\";").starts_with("there is no folder `nowhere`\n"));
    assert!(first("use_from = \"file\";").starts_with("`file` is not a folder\n"));
    assert_eq!(first("use_from = 3;"), "expected string literal");
}

#[test]
fn what_was_used_is_embedded_and_tracked() {
    let folder = Temporary::new("tracked");
    folder.write("tiny.wm", TINY);
    folder.write("tasks.wm", TASKS);
    let inline = inlined(&format!("use_from = \".\"; {TINY}"), &folder.0).unwrap().to_string();
    let include = included("tiny.wm", &folder.0).unwrap().to_string();
    for (expansion, files) in [(&inline, 1), (&include, 2)] {
        assert!(expansion.contains("pub mod tiny"), "{expansion}");
        assert!(expansion.contains(&format!("(\"tasks\" , {TASKS:?})")), "{expansion}");
        assert_eq!(expansion.matches("include_bytes").count(), files, "{expansion}");
    }
}

#[test]
fn a_mistake_in_a_used_file_is_shown_at_its_use() {
    let folder = Temporary::new("used");
    folder.write("tasks.wm", "tasks mine {\n  one(O = )\n}");
    let expansion = inlined(&format!("use_from = \".\"; {TINY}"), &folder.0);
    let errors = errors(expansion);
    let text = errors.iter().find(|e| e.contains("tasks.wm:2:11")).expect("the used file's line");
    assert!(text.starts_with("E0101: "), "{text}");
    assert!(text.contains("one(O = )"), "{text}");
}

#[test]
fn an_included_file_is_told_with_its_lines() {
    let folder = Temporary::new("lines");
    folder.write("models/tiny.wm", "model Tiny {\n  dim Q = = 8\n}");
    let text = errors(included("models/tiny.wm", &folder.0)).swap_remove(0);
    assert!(text.starts_with("E0101: did not expect `=` here\n"), "{text}");
    assert!(text.contains("--> models/tiny.wm:2:11"), "{text}");
    assert!(text.contains("2 |   dim Q = = 8"), "{text}");
}

#[test]
fn files_that_cannot_be_read_are_told() {
    let folder = Temporary::new("unreadable");
    folder.write("latin.wm", b"model A { // caf\xe9\n}");
    folder.write("large.wm", vec![b' '; wmc_dsl::parse::MAX_BYTES + 1]);
    let first = |path: &str| errors(included(path, &folder.0)).swap_remove(0);
    assert!(first("missing.wm").starts_with("there is no file `missing.wm`\n"));
    assert!(
        first("latin.wm")
            .starts_with("E0001: `latin.wm` is not UTF-8 text\nnote: the first byte that is not text stands at offset 16")
    );
    assert!(first("large.wm").starts_with("E0002: "));
    assert_eq!(first("."), "`.` cannot be read: it is not a file");
    let wrong = errors(include::expand(quote::quote!(tiny), &folder.0)).swap_remove(0);
    assert!(wrong.starts_with("expected the path of a model"), "{wrong}");
}

#[test]
fn nothing_leads_out_of_the_folder() {
    let folder = Temporary::new("outside");
    folder.write("secret.wm", "tasks secret { }");
    folder.write("models/own.wm", "tasks own { }");
    let mut loader = Folders::default();
    loader.add(&folder.0.join("models"), "models").unwrap();
    assert!(loader.load("own").is_ok());
    assert!(matches!(loader.load("secret"), Err(LoadError::NotFound { known }) if known == ["own"]));
    for module in ["../secret", "/etc/passwd", "", "own.wm/../../secret", "own\0"] {
        assert!(matches!(loader.load(module), Err(LoadError::NotFound { .. })), "{module}");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../secret.wm", folder.0.join("models/link.wm")).unwrap();
        std::os::unix::fs::symlink("own.wm", folder.0.join("models/alias.wm")).unwrap();
        assert_eq!(loader.load("link").unwrap_err(), LoadError::Outside { path: "models/link.wm".to_string() });
        assert!(loader.load("alias").is_ok());
    }
    assert!(!loader.into_imports().contains_key("link"));
}

/// Labels in the macro's own text, in a used file and in the prelude.
#[test]
fn a_message_names_all_its_places() {
    let printed = print::print("model Tiny {\n  x = a + b\n}".parse().unwrap());
    let mut sources = Sources::default();
    let prelude = sources.add("prelude/math.wm", "fn sq(x) { return sum(x * x) }", true);
    let own = sources.add("world_model!", printed.text.as_str(), false);
    let at = |file: FileId, text: &str| {
        let lo = sources.file(file).text.find(text).unwrap();
        Bytes::new(file, lo, lo + text.len())
    };
    let error = Diagnostic::new(Code::AxesMismatch, at(own, "b"), "axes do not line up")
        .here("this has axes [C = 32]")
        .label(at(own, "a + b"), "in this sum")
        .label(at(prelude, "sum(x * x)"), "summed here")
        .note("equal sizes do not make equal axes")
        .help("write `outer(a, b)`");
    let warning = Diagnostic::new(Code::Unreached, at(own, "a"), "no loss reaches `a`");
    let checked = Checked { sources: sources.clone(), models: Vec::new(), diagnostics: vec![error, warning] };
    let expansion = report::inline(&checked, &printed);
    assert_eq!(
        errors(Ok(expansion.clone())),
        ["E0203: axes do not line up\nhere: this has axes [C = 32]\nline 2, `a + b`: in this sum\n\
          prelude/math.wm:1:19, `sum(x * x)`: summed here\nnote: equal sizes do not make equal axes\nhelp: write `outer(a, b)`"]
    );
    assert!(expansion.to_string().contains("# [deprecated (note = \"W0301: no loss reaches `a`\")]"), "{expansion}");
}

#[test]
fn a_model_becomes_a_module() {
    let folder = Temporary::new("module");
    folder.write("tasks.wm", TASKS);
    let mut loader = Folders::default();
    loader.add(&folder.0, "").unwrap();
    let mut models = wmc_dsl::check("tiny.wm", TINY, &loader, &wmc_dsl::Options::default()).models;
    let model = models.first_mut().expect("a checked model");
    model.params.clear();
    let axis = model.dims.iter().find(|d| d.name == "Q").expect("a dim").axis;
    for path in ["core.0.weight", "core_0.weight"] {
        let (axes, init) = (vec![axis], wmc_dsl::hir::ExprId(0));
        model.params.push(wmc_dsl::hir::Param { path: path.to_string(), axes, init, module: 0, span: Bytes::default() });
    }
    let embedded = Embedded { name: "tiny.wm", text: TINY, imports: &Default::default() };
    let module = emit::modules(&models, embedded, |_| Span::call_site()).to_string();
    for part in [
        "pub mod tiny {",
        "pub const NAME : & str = \"Tiny\" ;",
        "# [doc = \"`Q`\"] pub const Q : u64 = 8u64 ;",
        "# [doc = \"`core.0.weight` `[Q = 8]`\"] pub const CORE_0_WEIGHT : & str = \"core.0.weight\" ;",
        "pub const CORE_0_WEIGHT_2 : & str = \"core_0.weight\" ;",
        "pub const PARAM_PATHS : & [& str] = & [\"core.0.weight\" , \"core_0.weight\"] ;",
        "pub const DYN : & str = \"dyn\" ;",
        "pub const TRAIN_STEP : & str = \"train_step\" ;",
    ] {
        assert!(module.contains(part), "no `{part}` in\n{module}");
    }
}
