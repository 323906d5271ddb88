//! The formatter: it keeps tokens and meaning, it is idempotent, it never panics; and what it looks like.

mod generate;

use std::path::{Path, PathBuf};

use generate::{Hand, Rng, damage, program};
use wmc_dsl::fmt::format;
use wmc_dsl::lex::{self, Kind};
use wmc_dsl::{ast, parse, source};

/// All `.wm` texts of the project.
fn files() -> Vec<(PathBuf, String)> {
    let dsl = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders =
        [dsl.join("src/prelude"), dsl.join("tests/wm"), dsl.join("../models"), dsl.join("../src"), dsl.join("../src/show")];
    let mut paths: Vec<PathBuf> =
        folders.iter().flat_map(|f| std::fs::read_dir(f).unwrap()).map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "wm"));
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// All tokens; of a comment, white space at its end does not count.
fn tokens(text: &str) -> Vec<(Kind, &str)> {
    let shown = |t: &lex::Token| {
        if t.kind == Kind::Comment { t.text(text).trim_ascii_end() } else { t.text(text) }
    };
    lex::tokens(text).iter().map(|t| (t.kind, shown(t))).collect()
}

/// Formats, and checks what holds for every text.
#[track_caller]
fn checked(text: &str) -> String {
    let once = format(text);
    assert_eq!(tokens(text), tokens(&once), "tokens change in\n{text}\n-- formatted\n{once}");
    let twice = format(&once);
    assert_eq!(once, twice, "not idempotent:\n{text}");
    assert!(!once.contains("\n\n\n") && !once.starts_with('\n'), "blank lines in\n{once}");
    assert!(once.is_empty() || once.ends_with('\n') && !once.ends_with("\n\n"), "the end of\n{once}");
    let unclosed = lex::tokens(text).iter().any(|t| t.kind == Kind::UnclosedText);
    assert!(unclosed || once.lines().all(|l| l.trim_ascii_end() == l), "white space at a line's end in\n{once}");
    once
}

/// The syntax tree of a text without mistakes, printed without its spans.
fn tree(text: &str) -> Option<String> {
    let (tree, diagnostics) = parse::parse(source::FileId(0), text);
    diagnostics.is_empty().then(|| ast::without_spans(&tree))
}

#[test]
fn files_are_formatted() {
    let files = files();
    assert!(files.len() > 20, "{files:?}");
    for (path, text) in files {
        assert!(tree(&text).is_some(), "{} does not parse", path.display());
        assert!(checked(&text) == text, "{} is not formatted: `wmc fmt` it", path.display());
    }
}

#[test]
fn generated_programs_keep_their_meaning() {
    for seed in 0..300 {
        let text = program(seed, Hand::Wild).text;
        let formatted = checked(&text);
        let before = tree(&text).unwrap_or_else(|| panic!("the generator wrote what does not parse:\n{text}"));
        assert_eq!(Some(before), tree(&formatted), "{text}");
    }
}

#[test]
fn generated_programs_hold() {
    for seed in 0..4_000 {
        checked(&program(seed, Hand::Wild).text);
    }
}

#[test]
fn every_statement_is_found() {
    for seed in 0..1_000 {
        let program = program(seed, Hand::Tidy);
        let formatted = checked(&program.text);
        for (line, depth) in formatted.lines().zip(&program.depths) {
            let indent = line.len() - line.trim_start().len();
            assert_eq!(indent, 2 * depth, "`{line}` in\n{formatted}\nfrom\n{}", program.text);
        }
    }
}

#[test]
fn damaged_texts_hold() {
    let mut rng = Rng::new(7);
    let files = files();
    for case in 0..20_000 {
        checked(&damage(&mut rng, &files[case % files.len()].1));
    }
}

/// What a text becomes.
#[track_caller]
fn gives(text: &str, expected: &str) {
    let formatted = checked(text);
    assert_eq!(formatted, expected, "\n{formatted}");
}

#[test]
fn messy_text() {
    let messy = include_str!("messy.wm");
    assert!(tree(messy).is_some(), "the fixture parses");
    insta::assert_snapshot!(checked(messy));
}

#[test]
fn spaces() {
    gives("x=a+b*c@d/e-f", "x = a + b * c @ d / e - f\n");
    gives("x = - a ^ 2 * - b + ! c ^ - 1", "x = -a^2 * -b + !c^-1\n");
    gives("x=a==b&&c<d||e>=f", "x = a == b && c < d || e >= f\n");
    gives("y[ i ,k + 1 ]=z[ 2*i - 1 ][ (t + 1) * 2 ]", "y[i, k+1] = z[2*i-1][(t+1)*2]\n");
    gives("y = s[min(low+1, n-1)]", "y = s[min(low + 1, n - 1)]\n");
    gives("x = f(0 .. T - 1, T-K ..= T, 30 % .. 60 %, - 20..20, a-b)", "x = f(0..T-1, T-K..=T, 30%..60%, -20..20, a - b)\n");
    gives("x = sum k in 0..T - 1 { k } - 1", "x = sum k in 0..T-1 { k } - 1\n");
    gives("param w:[O ,N=16,X ..]=init( [O] ,size( I ) )", "param w: [O, N = 16, X..] = init([O], size(I))\n");
    gives("x=z{q=1,p}.q", "x = z { q = 1, p }.q\n");
    gives("x = f( { } , [ ] , ( ) )", "x = f({}, [], ())\n");
    gives("x = rename(y,Q->Q2)  @linear(h)->[D]", "x = rename(y, Q -> Q2) @ linear(h) -> [D]\n");
    gives("x = if(a){b}else if(c){d}else{e}", "x = if (a) { b } else if (c) { d } else { e }\n");
    gives("x = frozen (q) (obs , u) [e] . mean", "x = frozen(q)(obs, u)[e].mean\n");
    gives("use  a :: b use c", "use a::b  use c\n");
}

#[test]
fn words_of_the_language_as_names() {
    gives("init[t] = init(1)\nscale = over[t] - on", "init[t] = init(1)\nscale   = over[t] - on\n");
    gives(
        "running R = x init(1)\nsource f() over[B = 1]\nover = 1",
        "running R = x init (1)\nsource f() over [B = 1]\nover = 1\n",
    );
    gives("optimizer o = adam() on all\nscale = 1", "optimizer o = adam() on all\nscale = 1\n");
    gives("x = s.next + s.if(y) + f(for = 1, if = 2)\ny = 1", "x = s.next + s.if(y) + f(for = 1, if = 2)\ny = 1\n");
    gives("drop equation x , next\nx = 1", "drop equation x, next\nx = 1\n");
    gives("loss for (a+b) for if = x\nloss loss -1=y", "loss for  (a + b) for if = x\nloss loss -1             = y\n");
}

#[test]
fn indentation() {
    gives("fn f() {\nlet y = [\n1,\n2\n+ 3,\n]\n}", "fn f() {\n  let y = [\n    1,\n    2\n      + 3,\n  ]\n}\n");
    gives("y = f(a,\nb\n+ c,\nd)", "y = f(a,\n      b\n        + c,\n      d)\n");
    gives("y = a * (b\n+ c)\nwith y[0] = 1", "y = a * (b\n         + c)\n  with y[0] = 1\n");
    gives("y = f(if (a) {\nb\n} else {\nc\n})", "y = f(if (a) {\n  b\n} else {\n  c\n})\n");
    gives("y = a\n+ f(\nb\n)\nz = 1", "y = a\n  + f(\n    b\n  )\nz = 1\n");
    gives("y = f(\ng(\na\n))", "y = f(\n  g(\n    a\n))\n");
    gives(
        "block b(x)\ncarry h: [D] = zeros([D]) -> [D] {\nreturn h\n}",
        "block b(x)\n  carry h: [D] = zeros([D]) -> [D] {\n  return h\n}\n",
    );
    gives("fn f(a,\nb) {\nreturn a\n}", "fn f(a,\n     b) {\n  return a\n}\n");
    let far = "a".repeat(90);
    gives(&format!("y = {far}(b,\nc)"), &format!("y = {far}(b,\n  c)\n"));
}

#[test]
fn blank_lines_and_comments() {
    gives("", "");
    gives(" \n\n\t\r\n", "");
    gives("\n\n// a\n\n\n\n// b  \n\n", "// a\n\n// b\n");
    gives("fn f() { // why\n\n\nlet y = 1 // one\n\n// last\n\n}", "fn f() {  // why\n  let y = 1  // one\n\n  // last\n}\n");
    gives("fn f() {\n\n// first\n\nreturn 1\n}", "fn f() {\n  // first\n\n  return 1\n}\n");
    gives("y = a // sum\n// of two\n+ b", "y = a  // sum\n  // of two\n  + b\n");
    gives("x = 1 // a\nlong_name = 2 // b\n\nx = 1 // c", "x         = 1  // a\nlong_name = 2  // b\n\nx = 1  // c\n");
}

#[test]
fn columns_end() {
    // At a blank line, another kind, a second statement on the line.
    gives("a = 1\n\nbcd = 2", "a = 1\n\nbcd = 2\n");
    gives("a = 1\n// c\n\nbcd = 2", "a = 1\n// c\n\nbcd = 2\n");
    gives("let a = 1\nbcd = 2", "let a = 1\nbcd = 2\n");
    gives("a = 1\nb = 2  c = 3\nbcd = 2", "a = 1\nb = 2  c = 3\nbcd = 2\n");
    // Not at a comment, nor at a statement that goes on below.
    gives("a = 1\n// c\nbcd = 2", "a   = 1\n// c\nbcd = 2\n");
    gives("a = {\nx = 1,\nlong = 2,\n}\nbcd = 2", "a   = {\n  x    = 1,\n  long = 2,\n}\nbcd = 2\n");
    // Lines that lie too far apart have columns of their own.
    let far = "f".repeat(60);
    gives(&format!("a = 1\n{far} = 1\nbcd = 1\n{far}g = 1"), &format!("a   = 1\n{far}  = 1\nbcd = 1\n{far}g = 1\n"));
}

/// No text may grow out of proportion: levels and columns are bounded.
#[test]
fn the_result_is_linear_in_the_text() {
    let long = format!("x = {}(\"", "y".repeat(50_000));
    let aligned = format!("x = {}(a,\n{}", "y".repeat(50_000), "b,\n".repeat(50_000));
    let columns = (0..20_000).map(|i| format!("{} = 1 // c\n", "z".repeat(i % 200 + 1))).collect::<String>();
    for text in ["(\n".repeat(50_000), "{ a\n".repeat(50_000), "[".repeat(100_000), ")\n".repeat(50_000), long, aligned, columns]
    {
        let formatted = checked(&text);
        let lines = text.lines().count();
        assert!(formatted.len() <= text.len() * 3 + lines * 140, "{} bytes became {}", text.len(), formatted.len());
    }
}
