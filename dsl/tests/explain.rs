//! The pages of `wmc help`: every code has one, its wrong example gives that code and nothing else, its right example
//! nothing at all. What is said about each wrong example is a snapshot.

use wmc_dsl::diagnostics::{CODES, Code, Example, TINY, render};
use wmc_dsl::{Checked, LoadError, Loaded, Loader, MapLoader, Options, check};

/// The files of an example and the small model, and the two modules that no text can be.
struct Modules(MapLoader);

impl Loader for Modules {
    fn load(&self, module: &str) -> Result<Loaded, LoadError> {
        match module {
            "latin" => Err(LoadError::NotUtf8 { path: "models/latin.wm".into(), valid_up_to: 31 }),
            "elsewhere" => Err(LoadError::Outside { path: "/home/ada/other/elsewhere.wm".into() }),
            _ => self.0.load(module),
        }
    }
}

fn run(code: Code, example: &Example) -> Checked {
    let files = example.files();
    let mut modules = MapLoader::default();
    modules.0.insert("tiny".into(), TINY.into());
    for (name, text) in &files {
        modules.0.insert(name.trim_end_matches(".wm").into(), text.clone());
    }
    let (name, text) = &files[0];
    let text = if code == Code::FileTooLarge && !example.right { text.repeat(40_000) } else { text.clone() };
    let mut options = Options::default();
    match code {
        Code::FieldMissing => options.task = Some("pendulum_swingup".into()),
        Code::UnknownDim if !example.right => options.dims.push(("q".into(), 8)),
        _ => {}
    }
    check(name, &text, &Modules(modules), &options)
}

fn told(checked: &Checked) -> String {
    checked.diagnostics.iter().map(|d| render(&checked.sources, d, false) + "\n").collect()
}

/// The wrong and the right example of a page.
fn examples(code: Code) -> (Example, Example) {
    let examples = code.explanation().examples();
    match examples.as_slice() {
        [wrong, right] if !wrong.right && right.right => (wrong.clone(), right.clone()),
        _ => panic!("{}: a page has one wrong example, and then a right one", code.id()),
    }
}

#[test]
fn every_code_has_a_page_of_its_own() {
    for code in CODES {
        let page = code.explanation().page;
        assert!(page.starts_with(&format!("# {}: {}\n\n", code.id(), code.title())), "{}: the title differs", code.id());
        let words: Vec<&str> = page.lines().skip(1).take_while(|line| !line.starts_with("```")).collect();
        let words = words.join(" ");
        let sentences = words.split_whitespace().filter(|word| word.ends_with('.') && !word.ends_with("..")).count();
        assert!((2..=6).contains(&sentences), "{}: two to six sentences\n{words}", code.id());
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/diagnostics/explain");
    let pages = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let strays: Vec<String> = pages
        .filter(|name| !matches!(name.as_str(), "README.md" | "tiny.wm") && Code::parse(name.trim_end_matches(".md")).is_none())
        .collect();
    assert!(strays.is_empty(), "pages of no code: {strays:?}");
}

#[test]
fn codes_have_numbers_of_their_own() {
    let mut ids: Vec<&str> = CODES.iter().map(|c| c.id()).collect();
    assert!(ids.len() >= 60);
    assert!(ids.is_sorted());
    ids.dedup();
    assert_eq!(ids.len(), CODES.len());
}

#[test]
fn wrong_examples_give_their_code_and_no_other() {
    let mut wrong = String::new();
    for code in CODES {
        let checked = run(*code, &examples(*code).0);
        if checked.diagnostics.is_empty() || checked.diagnostics.iter().any(|d| d.code != *code) {
            wrong += &format!("---- {}\n{}", code.id(), told(&checked));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn right_examples_are_clean() {
    let mut wrong = String::new();
    for code in CODES {
        let checked = run(*code, &examples(*code).1);
        if !checked.diagnostics.is_empty() {
            wrong += &format!("---- {}\n{}", code.id(), told(&checked));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// One mistake is one diagnostic, but where a page shows two of a kind.
#[test]
fn one_mistake_is_told_once() {
    for code in CODES {
        let checked = run(*code, &examples(*code).0);
        let most = match code {
            Code::BadCharacter => 2,
            _ => 1,
        };
        assert!(checked.diagnostics.len() <= most, "{}\n{}", code.id(), told(&checked));
    }
}

#[test]
fn snapshots() {
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        for code in CODES {
            let (wrong, _) = examples(*code);
            let said = told(&run(*code, &wrong));
            insta::assert_snapshot!(code.id(), format!("{}\n{}", wrong.text, said));
        }
    });
}

/// Names of the grammar's rules are for those who read the grammar.
#[test]
fn no_rule_of_the_grammar_is_named() {
    let grammar = include_str!("../src/grammar.pest");
    let rules: Vec<&str> = grammar
        .lines()
        .filter_map(|line| line.split_once('=').map(|(name, _)| name.trim()))
        .filter(|name| name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        .collect();
    assert!(rules.contains(&"model_head") && rules.contains(&"param_decl"));
    for code in CODES {
        let said = told(&run(*code, &examples(*code).0));
        for rule in &rules {
            assert!(!said.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == *rule), "{rule}\n{said}");
        }
    }
}
