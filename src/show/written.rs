//! How members were written. The checked model has functions, planners and rules expanded; a person wants to see
//! `cem(horizon = 6)` and `adamw(lr = 1e-4)`, so this reads them off the text again.

use std::collections::HashMap;

use dsl::ast::{self, Item, MemberKind};
use dsl::source::{FileId, Sources, Span};

/// The members of a model, its parents' included, as they stand in the text.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// `plan(z, m) = cem(horizon = H)`, by name.
    pub(super) planners: Vec<(String, String)>,
    /// `adamw(lr = 1e-4)`, by the optimiser's name.
    pub(super) rules: HashMap<String, String>,
    /// The right-hand side of a schedule, by its name.
    pub(super) schedules: HashMap<String, String>,
    /// The weight of a loss, by its name.
    pub(super) weights: HashMap<String, String>,
}

pub(super) fn written(sources: &Sources, model: &str) -> Written {
    let models = models(sources);
    let mut found = Written::default();
    let mut dropped: Vec<&str> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let mut next = Some(model);
    // From the model to its parents: what is found first hides what comes after.
    while let Some(at) = next.filter(|at| !seen.contains(at)).and_then(|at| models.get(at)) {
        seen.push(at.name.text.as_str());
        for member in &at.members {
            read(sources, member, &dropped, &mut found);
        }
        dropped.extend(at.members.iter().flat_map(|m| match &m.kind {
            MemberKind::Drop { kind, names } if kind.text == "planner" => names.iter().map(|n| n.text.as_str()).collect(),
            _ => Vec::new(),
        }));
        next = at.extends.as_ref().map(|parent| parent.text.as_str());
    }
    found
}

fn read(sources: &Sources, member: &ast::Member, dropped: &[&str], found: &mut Written) {
    let text = |span: Span| one_line(sources.text(span));
    let mut keep = |map: fn(&mut Written) -> &mut HashMap<String, String>, name: &ast::Ident, span: Span| {
        map(found).entry(name.text.clone()).or_insert_with(|| text(span));
    };
    match &member.kind {
        MemberKind::Schedule(bind) => keep(|w| &mut w.schedules, &bind.name, bind.value.span),
        MemberKind::Loss(loss) => keep(|w| &mut w.weights, &loss.name, loss.weight.span),
        MemberKind::Optimizer(optimizer) => keep(|w| &mut w.rules, &optimizer.name, optimizer.rule.span),
        MemberKind::Planner(planner) => {
            let name = planner.name.text.as_str();
            if !dropped.contains(&name) && !found.planners.iter().any(|(n, _)| n == name) {
                let head = text(planner.name.span.to(planner.algorithm.span));
                found.planners.push((name.to_string(), head));
            }
        }
        _ => {}
    }
}

/// All models of all files; the file that was asked for comes first and wins.
fn models(sources: &Sources) -> HashMap<String, ast::Model> {
    let mut models = HashMap::new();
    for (i, file) in sources.files.iter().enumerate().filter(|(_, file)| !file.prelude) {
        let (tree, _) = dsl::parse::parse(FileId(i as u32), &file.text);
        for item in tree.items {
            if let Item::Model(model) = item {
                models.entry(model.name.text.clone()).or_insert(model);
            }
        }
    }
    models
}

/// Without comments and line breaks.
fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
    lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        model Base {
          schedule alpha = ramp(0.1, 0.5)
          loss one 2 * alpha = x[t]
          planner plan(z) = cem(horizon = 3, // how far
                                samples = 8) { score = 0 }
          planner other(z) = mppi(horizon = 2) { score = 0 }
          optimizer main = adam(lr = 1e-3) on all
        }
        model Child extends Base {
          drop planner other
          optimizer main = sgd(lr = 1) on all
        }";

    #[test]
    fn a_child_shows_its_own_and_its_parents() {
        let mut sources = Sources::default();
        sources.add("x.wm", TEXT, false);
        let child = written(&sources, "Child");
        let plan = "plan(z) = cem(horizon = 3, samples = 8)".to_string();
        assert_eq!(child.planners, [("plan".to_string(), plan)]);
        assert_eq!(child.rules["main"], "sgd(lr = 1)");
        assert_eq!(child.schedules["alpha"], "ramp(0.1, 0.5)");
        assert_eq!(child.weights["one"], "2 * alpha");
        assert_eq!(written(&sources, "Base").planners.len(), 2);
        assert!(written(&sources, "Nobody").planners.is_empty());
    }

    #[test]
    fn a_circle_ends() {
        let mut sources = Sources::default();
        sources.add("x.wm", "model A extends B {} model B extends A {}", false);
        assert!(written(&sources, "A").planners.is_empty());
    }
}
