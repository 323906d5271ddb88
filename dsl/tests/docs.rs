//! The documents are right: their models check, their mistakes are mistakes, their links lead somewhere, and the tables of the
//! language reference are complete. `tests/docs.rs` of the project runs their commands.

mod fences;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fences::{Fence, Kind, LANGUAGE, documents, fences, project, read};
use wmc_dsl::ast::Item;
use wmc_dsl::diagnostics::render;
use wmc_dsl::source::FileId;
use wmc_dsl::{Checked, MapLoader, Options, hir};

const LIBRARY: &str = "docs/guide/library.md";

/// What `use` finds in the examples: the base of the fragments.
fn modules(all: &[Fence]) -> MapLoader {
    let base = all.iter().find(|f| f.kind == Kind::Base).expect("a block `wm base`");
    MapLoader(BTreeMap::from([("tiny".to_string(), base.text.clone())]))
}

fn codes(checked: &Checked) -> BTreeSet<&str> {
    checked.diagnostics.iter().map(|d| d.code.id()).collect()
}

fn rendered(checked: &Checked) -> String {
    let all: Vec<String> = checked.diagnostics.iter().map(|d| render(&checked.sources, d, false)).collect();
    all.join("\n\n")
}

#[test]
fn every_block_is_what_it_says() {
    let loader = modules(&fences(&read(LANGUAGE)).unwrap());
    let wrong: String = documents().iter().map(|(path, text)| mistakes(path, &fences(text).unwrap(), &loader)).collect();
    assert!(wrong.is_empty(), "{wrong}");
}

/// Blocks of a document that are not what they say.
fn mistakes(path: &str, all: &[Fence], loader: &MapLoader) -> String {
    let mut wrong = String::new();
    let mut say = |fence: &Fence, what: String| wrong += &format!("{path}:{}: {what}\n\n", fence.line);
    for (i, fence) in all.iter().enumerate() {
        let (text, announced, excused): (String, &[String], &[&str]) = match &fence.kind {
            Kind::File { codes } => (fence.text.clone(), codes, &[]),
            Kind::Base => (fence.text.clone(), &[], &[]),
            // An example need not be used.
            Kind::Fragment { codes } => {
                (format!("use tiny::Tiny\nmodel Fragment extends Tiny {{\n{}}}\n", fence.text), codes, &["W0301", "W0302"])
            }
            Kind::Excerpt { path } => {
                if let Err(e) = excerpt(&fence.text, &read(path)) {
                    say(fence, format!("not in {path}: {e}"));
                }
                continue;
            }
            // `tests/docs.rs` of the project has these.
            Kind::Toml | Kind::Json | Kind::Commands | Kind::Output { .. } => continue,
        };
        let checked = wmc_dsl::check("model.wm", &text, loader, &Options::default());
        let mut found = codes(&checked);
        let announced: BTreeSet<&str> = announced.iter().map(String::as_str).collect();
        found.retain(|c| announced.contains(c) || !excused.contains(c));
        if found != announced {
            say(fence, format!("gives {found:?} and announces {announced:?}\n{}", rendered(&checked)));
        }
        for (line, claim) in checked.models.iter().flat_map(|model| claims(&fence.text, model)) {
            say(fence, format!("{line}\nis {claim}"));
        }
        if let Some(Fence { kind: Kind::Output { .. }, text, .. }) = all.get(i + 1)
            && text.trim_end() != rendered(&checked).trim_end()
        {
            say(fence, format!("prints\n{}", rendered(&checked)));
        }
    }
    wrong
}

/// Rules that the reference states and that no block of it shows.
#[test]
fn rules_without_an_example() {
    let loader = modules(&fences(&read(LANGUAGE)).unwrap());
    let plan = "x[0] = z  x[k+1] = x[k] + sum(u[k])  score = sum(x[H])";
    let cases = [
        ("E0210", "slow m with tau = 0.1".to_string()),
        ("E0210", "diagnose { q = z[t].q where first[t] }".to_string()),
        ("E0202", "dim T = 3".to_string()),
        ("E0203", "fn f(x: [Q]) { return sum(x) }  loss f 1.0 = f(z[t].c)".to_string()),
        ("E0203", "net f(z) -> [Q, C] via sum = mlp([8])".to_string()),
        (
            "E0203",
            format!(
                "planner plan(z: [C]) = cem(horizon = H) {{ {plan} }} act {{ f = plan(z[t].q)  train = f.mean  eval = f.mean }}"
            ),
        ),
        (
            "",
            format!(
                "planner plan(z: [C]) = cem(horizon = H) {{ {plan} }} act {{ f = plan(z[t].c)  train = f.mean  eval = f.mean }}"
            ),
        ),
        ("", "memory m(z, a) -> [M = 16] = gru(width = 16)  loss l 1.0 = sum(m[t].out * ones([M]))".to_string()),
        ("", "fn f(x: [Q], y: [X, Q]) { return sum(y * x) }  loss f 1.0 = f(1, outer(z[t].c, z[t].q))".to_string()),
        (
            "",
            "seen = mean t in 0..5 { mean(r[t], over = [B]) }  running R = lerp(R, seen, 0.1) init 0  loss l 1.0 = R".to_string(),
        ),
        ("", "dim N = B  loss l 1.0 = sum(iota(N) * size(B) * r[t])".to_string()),
        ("E0227", "head v[B](z) -> [] = mlp([8])  loss l 1.0 = v(z[t])[0]".to_string()),
        ("E0227", "memory n(z) -> [B] = gru(width = 8)  n[t] = memory(z[t], n[t-1])  loss l 1.0 = sq(n[t].out)".to_string()),
        ("E0227", "dim N = B  loss l 1.0 = sq(rename(iota(N), N -> B)) * r[t]".to_string()),
        ("E0226", "seen = mean t in 0..5 { r[t] }  running R = lerp(R, seen, 0.1) init 0  loss l 1.0 = R".to_string()),
    ];
    for (code, members) in cases {
        let text = format!("use tiny::Tiny\nmodel Fragment extends Tiny {{ {members} }}");
        let checked = wmc_dsl::check("model.wm", &text, &loader, &Options::default());
        let mut found = codes(&checked);
        found.retain(|c| !["W0301", "W0302"].contains(c));
        assert_eq!(found, code.split_whitespace().collect(), "{members}\n{}", rendered(&checked));
    }
}

/// A net's arguments are laid out in the order of their declared axes, whatever the order of the value's.
#[test]
fn inputs_lie_in_their_declared_order() {
    let loader = modules(&fences(&read(LANGUAGE)).unwrap());
    let text = "use tiny::Tiny
        model Fragment extends Tiny {
          net f(x: [Q, C]) -> [] = mlp([8])
          loss f 1.0 = f(outer(z[t].c, z[t].q))
        }";
    let checked = wmc_dsl::check("model.wm", text, &loader, &Options::default());
    let model = checked.models.first().unwrap_or_else(|| panic!("{}", rendered(&checked)));
    let names = |axes: &[hir::AxisId]| axes.iter().map(|a| model.axis(*a).name.clone()).collect::<Vec<_>>();
    // The net is expanded on a stand-in first: both times the same order.
    let mut values = BTreeSet::new();
    for node in &model.exprs {
        if let hir::Op::Concat { parts, along, .. } = &node.op
            && let ([part], [axes]) = (parts.as_slice(), along.as_slice())
            && axes.len() == 2
        {
            assert_eq!(names(axes), ["Q", "C"]);
            values.insert(names(&model.node(*part).axes));
        }
    }
    assert!(values.contains(&["C".to_string(), "Q".to_string()][..]), "{values:?}");
}

/// Comments behind equations and losses that say axes, `// [Q, C]`, or ranges, `// t in 0..5`: those that are not so, with
/// what is.
fn claims<'t>(text: &'t str, model: &hir::Model) -> Vec<(&'t str, String)> {
    let mut wrong = Vec::new();
    for line in text.lines() {
        let Some((code, claim)) = line.split_once("//") else { continue };
        let (words, claim) = (code.split_whitespace().collect::<Vec<_>>(), claim.trim());
        let ranges = |vars: &[hir::VarId]| -> String {
            let one = |v: &hir::VarId| {
                let v = model.var(*v);
                format!("{} in {}..{}", v.name, v.lo, v.hi)
            };
            vars.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        let is = match words.as_slice() {
            ["loss", name, ..] => {
                let loss = model.losses.iter().find(|l| l.name == *name).expect("the loss");
                ranges(&loss.parts[0].vars)
            }
            [first, ..] => {
                let name = first.split('[').next().unwrap_or(first);
                let Some(family) = model.train.find(name) else { continue };
                let family = model.train.family(family);
                if claim.starts_with('[') {
                    let axes = family.leaves[0].axes.iter().map(|a| model.axis(*a).name.as_str());
                    format!("[{}]", axes.collect::<Vec<_>>().join(", "))
                } else {
                    let vars = family.defs.iter().map(|d| &model.train.def(*d).vars).find(|v| !v.is_empty());
                    ranges(vars.map_or(&[], Vec::as_slice))
                }
            }
            [] => continue,
        };
        if (claim.starts_with('[') || claim.contains(" in ")) && !claim.starts_with(&is) {
            wrong.push((line, is));
        }
    }
    wrong
}

/// Whether a text's lines stand in a file one after the other, whatever their columns.
fn excerpt(text: &str, file: &str) -> Result<(), String> {
    let words =
        |text: &str| -> Vec<String> { text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect() };
    let (wanted, lines) = (words(text), words(file));
    if lines.windows(wanted.len()).any(|w| w == wanted) {
        return Ok(());
    }
    let missing = wanted.iter().find(|l| !lines.contains(l));
    Err(missing.map_or_else(|| "the lines stand there in another order".to_string(), Clone::clone))
}

/// The part of the document under a heading, up to the next of its rank.
fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let start = text.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no heading `{heading}`")) + 1;
    let rank = heading.split(' ').next().unwrap();
    let rest = &text[start + heading.len()..];
    &rest[..rest.find(&format!("\n{rank} ")).unwrap_or(rest.len())]
}

/// Texts in backticks.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_built_in_function_has_its_line() {
    let source = read("dsl/src/check/builtins.rs");
    let start = source.find("\nbuiltins! {").expect("the list of built-in functions");
    let list = &source[start..start + source[start..].find("\n}").unwrap()];
    let names: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    assert!(names.len() > 40, "{names:?}");
    let text = read(LIBRARY);
    let described = quoted(section(&text, "## Built-in functions"));
    for name in names {
        assert!(described.iter().any(|d| d.starts_with(&format!("{name}("))), "`{name}` has no line under Built-in functions");
    }
    for word in ["training", "progress", "pi", "inf", "true", "false"] {
        assert!(described.contains(word), "{word}");
    }
}

#[test]
fn every_item_of_the_prelude_has_its_line() {
    let text = read(LIBRARY);
    let prelude = section(&text, "## The prelude");
    let mut count = 0;
    for file in ["math", "layers", "distributions", "planners", "optimizers"] {
        let source = read(&format!("dsl/src/prelude/{file}.wm"));
        let (tree, diagnostics) = wmc_dsl::parse::parse(FileId(0), &source);
        assert!(diagnostics.is_empty());
        for item in &tree.items {
            let (name, methods) = match item {
                Item::Fn(f) => (&f.name, [].as_slice()),
                Item::Block(b) => (&b.name, [].as_slice()),
                Item::Planner(p) => (&p.name, [].as_slice()),
                Item::Optimizer(o) => (&o.name, [].as_slice()),
                Item::Dist(d) => (&d.name, d.methods.as_slice()),
                Item::Use(_) | Item::Model(_) | Item::Tasks(_) => continue,
            };
            let signature = signature(&source[name.span.lo as usize..]);
            let line = prelude
                .lines()
                .find(|l| quoted(l).contains(signature.as_str()))
                .unwrap_or_else(|| panic!("no line for `{signature}`"));
            for method in methods {
                let shown = format!("`.{}", method.name.text);
                assert!(line.contains(&shown), "`{}` without its method `{}`", name.text, method.name.text);
            }
            count += 1;
        }
    }
    let lines = prelude.lines().filter(|l| l.starts_with("| `") || l.starts_with("| block `")).count();
    assert_eq!(lines, count, "a line for something that the prelude does not have");
}

/// A name with its parameters, on one line.
fn signature(text: &str) -> String {
    let mut depth = 0;
    let end = text.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ')' && depth == 0
    });
    text[..=end.expect("parameters")].split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn lists_of_words_are_complete() {
    let text = read(LANGUAGE);
    let reserved = section(&text, "## Text");
    let list = &reserved[reserved.find("Reserved words").unwrap()..reserved.find("They may be labels").unwrap()];
    assert_eq!(quoted(list), wmc_dsl::lex::RESERVED.into_iter().collect());

    let grammar = read("dsl/src/grammar.pest");
    let rule = grammar.lines().find(|l| l.starts_with("drop_kind")).unwrap();
    let kinds: BTreeSet<&str> = rule.split('"').skip(1).step_by(2).map(|word| word.trim().trim_start_matches('\'')).collect();
    let inheritance = section(&text, "## Inheritance");
    let list = &inheritance[inheritance.find("Kinds:").unwrap()..inheritance.find("A missing member").unwrap()];
    assert_eq!(quoted(list), kinds);

    for word in wmc_dsl::lex::MEMBER_WORDS {
        let members = section(&text, "## Members of a model");
        let shown = members.lines().any(|l| l.starts_with(&format!("| `{word} ")) || l.starts_with(&format!("| `{word} {{")));
        assert!(shown, "`{word}` is not among the members");
    }
}

/// The settings that the checker lists when it is given one that it does not know.
#[test]
fn settings_are_complete() {
    let text = read(LANGUAGE);
    let loader = modules(&fences(&text).unwrap());
    for (heading, members) in [
        ("## Training and tasks", "train { steps = 10, nothing = 1 }"),
        ("## Sources", "source replay(nothing = 1) over [B = 8, T = 6]"),
        ("## Sources", "source rollout(nothing = 1) over [T = 6]"),
    ] {
        let model = format!("use tiny::Tiny\nmodel M extends Tiny {{ {members} }}");
        let checked = wmc_dsl::check("model.wm", &model, &loader, &Options::default());
        let note = checked.diagnostics.iter().filter(|d| d.code.id() == "E0506").flat_map(|d| &d.notes).next();
        let names = quoted(note.unwrap_or_else(|| panic!("{}", rendered(&checked))));
        let described = quoted(section(&text, heading));
        assert!(!names.is_empty() && names.is_subset(&described), "{names:?} under {heading}");
    }
}

/// All pages for readers.
fn pages() -> Vec<PathBuf> {
    fn under(folder: &Path, all: &mut Vec<PathBuf>) {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                under(&path, all);
            } else if path.extension().is_some_and(|e| e == "md") {
                all.push(path);
            }
        }
    }
    let mut all = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| project().join(name)).to_vec();
    under(&project().join("docs"), &mut all);
    all
}

#[test]
fn links_lead_somewhere() {
    let anchors = |text: &str| -> BTreeSet<String> {
        let mut code = false;
        let headings = text.lines().filter(|l| {
            code ^= l.starts_with("```");
            !code && l.starts_with('#')
        });
        let anchor = |h: &str| -> String {
            let words = h.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            words.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
        };
        headings.map(anchor).collect()
    };
    let mut checked = 0;
    for path in pages() {
        let text = std::fs::read_to_string(&path).unwrap();
        // The account is printed as a part of docs/results.md.
        let page = if path.ends_with("results/account.md") { project().join("docs/results.md") } else { path.clone() };
        // Outside of code, where brackets may stand together too.
        let prose: String = text.split('`').step_by(2).collect();
        for link in prose.split("](").skip(1).filter_map(|l| l.split(')').next()).filter(|l| !l.starts_with("http")) {
            let (to, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if to.is_empty() { page.clone() } else { page.parent().unwrap().join(to) };
            assert!(target.exists(), "{}: {link} leads to no file", path.display());
            if !anchor.is_empty() {
                let there = std::fs::read_to_string(&target).unwrap();
                assert!(anchors(&there).contains(anchor), "{}: {link} leads to no heading", path.display());
            }
            checked += 1;
        }
    }
    assert!(checked > 150);
}

/// A link such as [`parse`](../../dsl/src/parse/mod.rs) names an item that its file declares.
#[test]
fn linked_items_exist() {
    let mut checked = 0;
    for path in pages() {
        let text = std::fs::read_to_string(&path).unwrap();
        let links = text.split("[`").skip(1).filter_map(|l| l.split_once("`](")).filter(|(name, _)| !name.contains('\n'));
        for (name, rest) in links {
            let file = rest.split(')').next().unwrap();
            if !file.ends_with(".rs") {
                continue;
            }
            let source = std::fs::read_to_string(path.parent().unwrap().join(file)).unwrap_or_default();
            let item = name.trim_end_matches("()").rsplit("::").next().unwrap();
            let declared = ["fn", "struct", "enum", "trait", "const", "static", "mod", "type"].iter().any(|kind| {
                let words = format!("{kind} {item}");
                source
                    .match_indices(&words)
                    .map(|(at, m)| &source[at + m.len()..])
                    .any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
            });
            assert!(declared, "{}: `{name}` is not in {file}", path.display());
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked} items");
}

/// Lines have at most 100 characters; tables, code and pages that a command writes are exempt.
#[test]
fn lines_are_short() {
    let exempt = ["docs/results.md", "results/account.md"];
    for path in pages().into_iter().filter(|p| !exempt.iter().any(|e| p.ends_with(e))) {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut code = false;
        for (at, line) in text.lines().enumerate() {
            code ^= line.starts_with("```");
            let free = code || ["|", "    ", "!["].iter().any(|start| line.starts_with(start));
            assert!(free || line.chars().count() <= 100, "{}:{}: a long line", path.display(), at + 1);
        }
    }
}

/// The models of the tutorial are tidy; those that are not meant to be wrong check clean.
#[test]
fn tutorial_models() {
    let folder = project().join("docs/tutorial");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 8);
    let tutorial = read("docs/start/tutorial.md");
    let swing = std::fs::read_to_string(folder.join("swing.wm")).unwrap();
    let loader = MapLoader(BTreeMap::from([("swing".to_string(), swing)]));
    for file in files {
        let name = file.file_name().and_then(|n| n.to_str()).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(wmc_dsl::fmt::format(&text), text, "{name} is not tidy");
        let checked = wmc_dsl::check(name, &text, &loader, &Options::default());
        let wrong = ["1_parts.wm", "3_axes.wm", "3_time.wm"].contains(&name);
        assert_eq!(checked.diagnostics.is_empty(), !wrong, "{name}\n{}", rendered(&checked));
        let shown = tutorial.contains(&format!("docs/tutorial/{name}"));
        assert!(shown, "{name} is not in the tutorial");
    }
}
