//! The editor's files: they parse, know every word of the language, and fit what the command prints.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("dsl/editors/vscode")
}

fn json(name: &str) -> Value {
    let text = fs::read_to_string(folder().join(name)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn grammar() -> Value {
    json("syntaxes/wm.tmLanguage.json")
}

/// All patterns of a grammar, as text.
fn patterns(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(pattern) if matches!(key.as_str(), "match" | "begin" | "end") => into.push(pattern.clone()),
                    _ => patterns(value, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| patterns(item, into)),
        _ => {}
    }
}

/// Words that stand as an alternative of their own in some pattern.
fn words() -> BTreeSet<String> {
    let mut all = Vec::new();
    patterns(&grammar(), &mut all);
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
    // `\b` and its like are no words.
    let plain = all.iter().map(|p| p.replace("\\b", "|").replace("\\w", "|").replace("\\s", "|").replace("\\d", "|"));
    plain.flat_map(|p| p.split(|c| !inside(c)).map(String::from).collect::<Vec<_>>()).collect()
}

#[test]
fn every_word_of_the_language_is_highlighted() {
    let words = words();
    for word in dsl::lex::RESERVED.iter().chain(&dsl::lex::MEMBER_WORDS).chain(&dsl::lex::ITEM_WORDS) {
        assert!(words.contains(*word), "the grammar does not know `{word}`");
    }
}

/// The functions of the language, no more and no fewer: those of the prelude are calls like a user's.
#[test]
fn every_builtin_is_highlighted() {
    let pattern = grammar()["repository"]["builtin"]["match"].as_str().unwrap().to_string();
    let (_, rest) = pattern.split_once('(').unwrap();
    let known: BTreeSet<&str> = rest.split_once(')').unwrap().0.split('|').collect();
    assert_eq!(known, dsl::builtins().collect());
}

#[test]
fn what_is_included_exists() {
    fn includes(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                into.extend(map.get("include").and_then(Value::as_str).map(String::from));
                map.values().for_each(|v| includes(v, into));
            }
            Value::Array(items) => items.iter().for_each(|item| includes(item, into)),
            _ => {}
        }
    }
    let grammar = grammar();
    let repository = grammar["repository"].as_object().unwrap();
    let mut names = Vec::new();
    includes(&grammar, &mut names);
    for name in &names {
        assert!(repository.contains_key(name.trim_start_matches('#')), "{name}");
    }
    assert_eq!(names.len(), repository.len(), "a rule that nothing includes");
}

#[test]
fn the_files_of_the_package_exist() {
    let package = json("package.json");
    json("language-configuration.json");
    let contributes = &package["contributes"];
    let paths = [&package["main"], &contributes["languages"][0]["configuration"], &contributes["grammars"][0]["path"]];
    for path in paths {
        assert!(folder().join(path.as_str().unwrap()).is_file(), "{path}");
    }
    assert_eq!(contributes["languages"][0]["extensions"][0], ".wm");
    assert_eq!(contributes["grammars"][0]["scopeName"], grammar()["scopeName"]);
}

/// The problem matcher reads a line `error[E0101]: ..` and, right under it, a line ` --> file:line:column`.
#[test]
fn the_problem_matcher_fits_the_plain_output() {
    let matcher = &json("package.json")["contributes"]["problemMatchers"][0]["pattern"];
    assert_eq!(matcher[0]["regexp"], r"^(error|warning)\[([EW]\d{4})\]: (.*)$");
    assert_eq!(matcher[1]["regexp"], r"^\s*--> (.+):(\d+):(\d+)$");

    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.wm"), "model X {\n  dim Q = \n}\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_wmc")).args(["check", "x.wm"]).current_dir(folder.path()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let mut lines = told.lines();
    let (first, second) = (lines.next().unwrap(), lines.next().unwrap());
    let rest = first.strip_prefix("error[E").unwrap();
    assert!(rest[..4].bytes().all(|b| b.is_ascii_digit()) && rest[4..].starts_with("]: "), "{first}");
    let place: Vec<&str> = second.trim_start().strip_prefix("--> ").unwrap().split(':').collect();
    assert_eq!(place[0], "x.wm");
    assert!(place.len() == 3 && place[1..].iter().all(|n| n.parse::<u32>().is_ok()), "{second}");
}
