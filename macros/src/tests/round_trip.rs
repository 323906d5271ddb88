//! A file and the same text as tokens are one model: same tree, same diagnostics, and every diagnostic finds its tokens.

use std::fmt::Debug;
use std::path::Path;

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use wmc_dsl::Options;
use wmc_dsl::diagnostics::Diagnostic;
use wmc_dsl::folders::Folders;
use wmc_dsl::parse::parse;
use wmc_dsl::source::FileId;

use crate::print::{Printed, print};

/// Every model and every file of the prelude, with its name.
fn texts() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["models", "models/paper", "dsl/tests/wm", "dsl/src/prelude"].map(|f| root.join(f));
    let files = folders.iter().filter_map(|f| f.read_dir().ok()).flatten().flatten().map(|e| e.path());
    let models = files.filter(|p| p.extension().is_some_and(|e| e == "wm"));
    let texts: Vec<_> = models.map(|p| (p.display().to_string(), std::fs::read_to_string(p).unwrap())).collect();
    assert!(texts.len() >= 20, "the models are not where they were");
    texts
}

fn tokens(text: &str) -> TokenStream {
    text.parse().unwrap_or_else(|e| panic!("not Rust tokens: {e}\n{text}"))
}

/// The same tokens, as another macro would make them: without a place.
fn displaced(tokens: TokenStream) -> TokenStream {
    let displace = |tree| match tree {
        TokenTree::Group(group) => Group::new(group.delimiter(), displaced(group.stream())).into(),
        mut tree => {
            TokenTree::set_span(&mut tree, Span::call_site());
            tree
        }
    };
    tokens.into_iter().map(displace).collect()
}

/// A tree or a checked model without its spans.
fn shape(tree: &impl Debug) -> String {
    let shown = format!("{tree:?}");
    let mut rest = shown.as_str();
    let mut shape = String::new();
    while let Some((before, after)) = rest.split_once("Span { ") {
        shape.push_str(before);
        rest = after.split_once('}').expect("a span ends").1;
    }
    shape + rest
}

/// Code, words and the text under the caret: all of a diagnostic but its offsets.
fn told(text: &str, diagnostics: &[Diagnostic]) -> Vec<String> {
    let told = |d: &Diagnostic| {
        let place: String = text[d.primary.span.range()].split_whitespace().collect();
        format!("{:?} {} {place} {} {:?} {:?}", d.code, d.message, d.primary.text, d.notes, d.helps)
    };
    diagnostics.iter().map(told).collect()
}

#[test]
fn a_file_and_its_tokens_have_one_tree() {
    for (name, text) in texts() {
        let (tree, diagnostics) = parse(FileId(0), &text);
        assert!(diagnostics.is_empty(), "{name}");
        for tokens in [tokens(&text), displaced(tokens(&text))] {
            let printed = print(tokens);
            let (again, diagnostics) = parse(FileId(0), &printed.text);
            assert_eq!(told(&printed.text, &diagnostics), [""; 0], "{name}\n{}", printed.text);
            assert!(shape(&again) == shape(&tree), "{name} reads differently:\n{}", printed.text);
        }
    }
}

#[test]
fn a_file_and_its_tokens_are_one_model() {
    for (name, text) in texts() {
        let mut folders = Folders::default();
        let own = Path::new(&name).parent().unwrap();
        folders.add(own, "").and_then(|()| folders.add_above(own)).unwrap();
        let check = |text: &str| wmc_dsl::check("model.wm", text, &folders, &Options::default());
        let (file, inline) = (check(&text), check(&print(tokens(&text)).text));
        assert!(file.diagnostics.is_empty() && inline.diagnostics.is_empty(), "{name}");
        assert_eq!(file.models.len(), inline.models.len());
        for (a, b) in file.models.iter().zip(&inline.models) {
            assert!(shape(a) == shape(b), "{} of {name} differs", a.name);
        }
    }
}

#[test]
fn lines_and_columns_stay_where_they_were() {
    let text = "model Tiny {\n  dim Q = 8, C = 32\n\n  net f(z) -> [Q]   = mlp([8], silu)\n  z[t+1] = 1e-4 * f(z[t]) - 30%\n}\n";
    assert_eq!(print(tokens(text)).text, text);
    // Inside a Rust file everything stands further to the right.
    let indented: String = text.lines().map(|l| format!("        {l}\n")).collect();
    assert_eq!(print(tokens(&indented)).text.lines().nth(1), Some("  dim Q = 8, C = 32"));
}

#[test]
fn marks_cover_all_that_is_printed() {
    for (name, text) in texts() {
        let printed = print(tokens(&text));
        for (at, c) in printed.text.char_indices().filter(|(_, c)| !c.is_whitespace()) {
            let (first, last) = printed.tokens(at..at + c.len_utf8()).expect("a token");
            assert_eq!(first.start(), last.start(), "{name}: `{c}` at {at} lies in two tokens");
        }
    }
}

#[test]
fn doc_comments_become_comments() {
    let text = "/// A model.\nmodel Tiny { /// of size\n  dim Q = 8 //! eight\n /** two\n lines */ dim C = 2 }";
    let plain = "model Tiny { dim Q = 8 dim C = 2 }";
    for tokens in [tokens(text), displaced(tokens(text))] {
        let printed = print(tokens).text;
        assert_eq!(shape(&parse(FileId(0), &printed).0), shape(&parse(FileId(0), plain).0), "{printed}");
        for comment in ["// A model.", "// of size", "// eight", "// two", "// lines"] {
            assert!(printed.contains(comment), "{printed}");
        }
    }
}

#[test]
fn invisible_groups_bind_as_parentheses_do() {
    let sum = Group::new(proc_macro2::Delimiter::None, tokens("a + b"));
    let name = Group::new(proc_macro2::Delimiter::None, tokens("c"));
    assert_eq!(print(quote::quote!(2 * #sum * #name)).text, "2 * ( a + b ) * c\n");
}

/// Mistakes that rustc's own lexer lets pass, one to each line.
const WRONG: &str = "
model A { dim Q = = 8 }
model A { dim Q = 8; dim C = 2 }
model A { net f(z) -> [Q] mlp([8]) }
model A { x[t] = 3 + }
model A { input obs [O] }
model A { latent model { q: [Q] } }
model A { loss l 1.0 = (a + ) * b }
modle A { dim Q = 8 }
model A { x[t] = a # b }
model A { x = $y }
model A { x = 'a }
model A { x = 1.5f32 }
model A { x = r\"raw\" }
model A { x = a | b }
model A { x = \"two
lines\" }
model { }
model A
}";

#[test]
fn mistakes_are_told_alike() {
    let models: Vec<String> = WRONG.split("\nmod").skip(1).map(|m| format!("mod{m}")).collect();
    for text in models.iter().filter(|text| text.parse::<TokenStream>().is_ok()) {
        let from_file = told(text, &parse(FileId(0), text).1);
        assert!(!from_file.is_empty(), "{text}");
        for tokens in [tokens(text), displaced(tokens(text))] {
            let printed = print(tokens);
            assert_eq!(told(&printed.text, &parse(FileId(0), &printed.text).1), from_file, "{text}");
        }
    }
}

#[test]
fn one_mistake_does_not_hide_the_next() {
    let text = "model A {\n  dim Q = = 8\n  net f(z) -> [Q] mlp([8])\n  x[t] = 3 +\n  loss l 1.0 = x[t]\n}";
    let printed = print(tokens(text));
    let (_, diagnostics) = parse(FileId(0), &printed.text);
    let places: Vec<_> = diagnostics.iter().map(|d| place(&printed, d).start().line).collect();
    assert_eq!(places, [2, 3, 4]);
    // Without lines the declarations still come apart; `x[t] = ..` cannot be told from what is before it.
    let printed = print(displaced(tokens(text)));
    assert!(parse(FileId(0), &printed.text).1.len() >= 2, "{}", printed.text);
}

fn place(printed: &Printed, diagnostic: &Diagnostic) -> Span {
    printed.tokens(diagnostic.primary.span.range()).expect("a token").0
}

/// HaM-World with one token less, at many places: never a panic, always a place in the source.
#[test]
fn a_missing_token_has_a_place() {
    let (_, text) = texts().into_iter().find(|(name, _)| name.ends_with("hamworld_s6.wm")).unwrap();
    let found = wmc_dsl::lex::tokens(&text);
    for token in found.iter().step_by(23) {
        let broken = format!("{}{}", &text[..token.lo], &text[token.hi..]);
        let Ok(tokens) = broken.parse::<TokenStream>() else {
            continue;
        };
        let printed = print(tokens);
        for diagnostic in parse(FileId(0), &printed.text).1 {
            let line = place(&printed, &diagnostic).start().line;
            assert!((1..=broken.lines().count()).contains(&line), "{}", diagnostic.message);
        }
    }
}

#[test]
fn nothing_prints_as_nothing() {
    let printed = print(TokenStream::new());
    assert_eq!(printed.text, "\n");
    assert!(printed.tokens(0..1).is_none());
}

#[test]
fn deep_nesting_is_reported_and_does_not_overflow() {
    let text = format!("model A {{ x = {}1{} }}", "(".repeat(2000), ")".repeat(2000));
    let printed = print(tokens(&text));
    let (_, diagnostics) = parse(FileId(0), &printed.text);
    assert_eq!(diagnostics.len(), 1);
    assert_eq!(place(&printed, &diagnostics[0]).start().line, 1);
}
