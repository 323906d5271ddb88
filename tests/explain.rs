//! `wmc explain`, as built.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

/// Runs the command in the project's folder; exit code, standard output and standard error.
fn wmc(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_wmc"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .output()
        .expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("ended by itself"), text(output.stdout), text(output.stderr))
}

const LEAPFROG: [&str; 4] = ["explain", "dsl/tests/wm/leapfrog.wm", "--task", "cartpole-swingup"];

fn document(more: &[&str]) -> Value {
    let (code, out, err) = wmc(&[&LEAPFROG[..], &["--json"], more].concat());
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).expect("JSON")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn fewer_launches_and_the_same_products_at_higher_levels() {
    let plans = ["eager", "fused", "mega"].map(|level| document(&["--entry", "plan", "--level", level]));
    let steps: Vec<&Value> = plans.iter().map(|d| &d["entries"][0]["steps"]).collect();
    let launches: Vec<u64> = steps.iter().map(|s| number(&s["launches"])).collect();
    assert!(launches[0] > launches[1] && launches[1] > launches[2], "{launches:?}");
    let written: Vec<u64> = steps.iter().map(|s| number(&s["written"])).collect();
    assert!(written[0] > written[2], "{written:?}");
    for part in &steps {
        let list = part["list"].as_array().expect("a list");
        assert_eq!(number(&part["kernels"]), list.len() as u64);
        let sum = |field: &str| list.iter().map(|k| number(&k[field]) * number(&k["times"])).sum::<u64>();
        for field in ["flops", "products", "transcendental", "read", "written"] {
            assert_eq!(number(&part[field]), sum(field), "{field}");
        }
        assert!(list.iter().all(|k| !k["reason"].as_str().expect("a reason").is_empty()));
        let own = |k: &Value| k["lines"].as_array().is_some_and(|l| l.iter().any(|l| l["file"] == LEAPFROG[1]));
        assert!(list.iter().any(own), "lines of the file itself");
    }
}

/// Every field of the document is described.
#[test]
fn fields_are_documented() {
    fn fields(value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(name, value)| {
                into.insert(name.clone());
                fields(value, into);
            }),
            Value::Array(items) => items.iter().for_each(|item| fields(item, into)),
            _ => {}
        }
    }
    let manual = include_str!("../docs/guide/json.md");
    let mut names = BTreeSet::new();
    fields(&document(&[]), &mut names);
    assert!(names.len() > 20);
    for name in names {
        assert!(manual.contains(&format!("`{name}`")), "docs/guide/json.md says nothing about `{name}`");
    }
}

#[test]
fn tables_name_what_is_there() {
    let (code, out, err) = wmc(&[&LEAPFROG[..], &["--entry", "train_step", "--batch", "4"]].concat());
    assert_eq!(code, 0, "{err}");
    for word in ["Leapfrog train_step, level mega", "a call: ", "launches of", "flop/byte", "memory: ", "ends: ", "leapfrog.wm:"]
    {
        assert!(out.contains(word), "`{word}` is not in\n{out}");
    }
}

#[test]
fn drawings_show_every_kernel() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let (svg, html) = (path("plan.svg"), path("plan.html"));
    let d = document(&["--entry", "plan", "--svg", &svg, "--html", &html]);
    let (svg, html) = (fs::read_to_string(svg).expect("a file"), fs::read_to_string(html).expect("a file"));
    let kernels = d["entries"][0]["steps"]["list"].as_array().expect("a list");
    for kernel in kernels {
        let name = kernel["name"].as_str().expect("a name");
        assert!(svg.contains(name) && html.contains(name), "{name}");
    }
    assert!(svg.contains("prefers-color-scheme:dark") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("leapfrog.wm:"), "operations tell their lines");
    // Nothing is loaded from elsewhere: the only address is the name of the format.
    assert_eq!(html.matches("http").count(), 1);
    let (code, _, err) = wmc(&[&LEAPFROG[..], &["--entry", "plan", "--svg", &path("no/such/folder.svg")]].concat());
    assert!(code == 2 && err.contains("cannot write"), "{err}");
}

#[test]
fn what_cannot_be_explained() {
    for (more, words) in [
        (&["--entry", "pln"][..], "did you mean `plan`?"),
        (&["--level", "reference"], "eager, fused, mega"),
        (&["--entry", "record"], "has no record"),
    ] {
        let (code, out, err) = wmc(&[&LEAPFROG[..], more].concat());
        assert!(code == 2 && out.is_empty() && err.contains(words), "{more:?}: {err}");
    }
}
