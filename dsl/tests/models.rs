//! The models: all of them check clean, at every size that they are meant for, and a variant is as short as it should be.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wmc_dsl::diagnostics::render;
use wmc_dsl::lex::{self, Kind};
use wmc_dsl::{Checked, MapLoader, Options, check};

/// `O` and `A` of the four tasks.
const TASKS: [(&str, u64, u64); 4] =
    [("cartpole_swingup", 5, 1), ("reacher_easy", 6, 2), ("finger_spin", 9, 2), ("cheetah_run", 17, 6)];

/// The `.wm` files of a folder: name without ending, and text.
fn texts(folder: &str) -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let paths: Vec<PathBuf> = files.map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "wm")).collect();
    let named = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_string();
    paths.iter().map(|path| (named(path), std::fs::read_to_string(path).unwrap())).collect()
}

fn loader(texts: &BTreeMap<String, String>) -> MapLoader {
    let mut loader = MapLoader::default();
    for (name, text) in texts {
        loader.0.insert(name.clone(), text.clone());
    }
    loader
}

fn said(checked: &Checked) -> String {
    checked.diagnostics.iter().map(|d| render(&checked.sources, d, false)).collect()
}

#[test]
fn all_models_at_all_four_tasks() {
    let mut texts = texts("../models");
    let loader = loader(&texts);
    texts.extend(self::texts("../models/paper").into_iter().map(|(name, text)| (format!("paper/{name}"), text)));
    // A model that is declared and not checked would go unnoticed.
    let declared = texts.values().flat_map(|text| text.lines()).filter(|line| line.starts_with("model ")).count();
    assert!(declared > 20, "{declared} models");
    for (task, o, a) in TASKS {
        let mut names = Vec::new();
        for (name, text) in &texts {
            let options = Options { task: Some(task.into()), ..Options::default() };
            let checked = check(&format!("{name}.wm"), text, &loader, &options);
            assert!(checked.diagnostics.is_empty(), "{name} at {task}:\n{}", said(&checked));
            for model in checked.models {
                let size = |name: &str| model.dims.iter().find(|d| d.name == name).and_then(|d| model.axis(d.axis).size.value());
                assert_eq!((size("O"), size("A")), (Some(o as i64), Some(a as i64)), "{}", model.name);
                names.push(model.name);
            }
        }
        assert_eq!(names.len(), declared, "{names:?}");
    }
}

/// Each of the models that the language must be able to say, with symbols for sizes and at two tasks.
#[test]
fn what_must_be_writable() {
    let texts = texts("tests/wm");
    for name in ["leapfrog", "dissipation", "lstm", "icem"] {
        assert!(texts.contains_key(name), "{name}");
    }
    for (name, text) in &texts {
        for (o, a) in [(None, None), (Some(5), Some(1)), (Some(17), Some(6))] {
            let named = |name: &str| text.contains(&format!("[{name}]"));
            let dims = [("O", o), ("A", a)].into_iter().filter(|(name, _)| named(name));
            let dims = dims.filter_map(|(name, size)| Some((name.to_string(), size?))).collect();
            let checked = check(&format!("{name}.wm"), text, &loader(&texts), &Options { dims, ..Options::default() });
            assert!(checked.diagnostics.is_empty() && !checked.models.is_empty(), "{name}:\n{}", said(&checked));
        }
    }
    let lstm = check("lstm.wm", &texts["lstm"], &loader(&texts), &Options::default());
    let paths: Vec<&str> = lstm.models[0].carries.iter().map(|c| c.path.as_str()).collect();
    assert_eq!(paths.len(), 2, "{paths:?}");
}

/// Ablations without memory and with another one: a line each.
#[test]
fn a_variant_is_its_difference() {
    let text = &texts("../models")["ablations"];
    for name in ["HamWorldA2", "HamWorldA3"] {
        let (_, body) = text.split_once(&format!("model {name} extends HamWorld {{\n")).unwrap();
        let (body, _) = body.split_once("\n}").unwrap();
        assert_eq!(body.lines().count(), 1, "{name}: {body}");
    }
}

/// Whatever is missing, doubled or cut off, the answer is in the words of the language.
#[test]
fn no_rule_of_the_grammar_is_named() {
    let grammar = include_str!("../src/grammar.pest");
    let name = |line: &'static str| line.split_once('=').map(|(name, _)| name.trim());
    let is_rule = |name: &&str| name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let rules: Vec<&str> = grammar.lines().filter_map(name).filter(is_rule).chain(["EOI", "WHITESPACE", "SOI"]).collect();
    assert!(rules.len() > 40, "{rules:?}");
    let texts = texts("../models");
    let loader = loader(&texts);
    let text = &texts["hamworld_s6"];
    let mut tokens = lex::tokens(text);
    tokens.retain(|t| t.kind != Kind::Comment);
    let mut wrong = 0;
    for (i, token) in tokens.iter().enumerate().step_by(5) {
        let (before, after) = (&text[..token.lo], &text[token.hi..]);
        let shown = token.text(text);
        let damaged = match i / 5 % 3 {
            0 => format!("{before} {after}"),
            1 => format!("{before}{shown} {shown}{after}"),
            _ => before.to_string(),
        };
        let said = said(&check("damaged.wm", &damaged, &loader, &Options::default()));
        wrong += usize::from(!said.is_empty());
        // What is quoted from the text may have any name.
        let is_quote = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
        let words =
            said.lines().filter(|line| !is_quote(line)).flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
        for word in words {
            assert!(!rules.contains(&word), "{word}\n{said}");
        }
    }
    assert!(wrong > 200, "{wrong}");
}
