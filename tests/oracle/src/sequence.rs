//! Optimisers that step one after the other: in which order, and what each sees of the steps before it.

use std::collections::BTreeSet;

use dsl::ast::{ArgKind, Expr, ExprKind, Ident, MemberKind, Model, Optimizer};

use crate::value::{R, Stop};

/// One optimiser's step.
pub struct Step<'a> {
    pub name: &'a str,
    /// Paths of the parameters that it trains.
    pub trains: BTreeSet<String>,
    /// Paths of the parameters that have changed for its losses.
    pub sees: BTreeSet<String>,
    /// The rate of plain gradient descent, where that is its rule.
    pub descent: Option<f64>,
}

/// The steps of an update, in order.
pub fn sequence<'a>(model: &'a Model, paths: impl Iterator<Item = &'a str>) -> R<Vec<Step<'a>>> {
    let paths: Vec<&str> = paths.collect();
    let all: Vec<&'a Optimizer> =
        model.members.iter().filter_map(|m| if let MemberKind::Optimizer(o) = &m.kind { Some(o) } else { None }).collect();
    // A module's parameters are called by its name.
    let of = |modules: &[Ident], path: &str| {
        modules.iter().any(|m| m.text == "all" || path == m.text || path.starts_with(&format!("{}.", m.text)))
    };
    let mut steps: Vec<(Step<'a>, BTreeSet<&'a str>)> = Vec::new();
    while steps.len() < all.len() {
        let done = |name: &str| steps.iter().any(|(s, _)| s.name == name);
        let Some(o) = all.iter().find(|o| !done(&o.name.text) && o.after.iter().all(|a| done(&a.text))) else {
            return Err(Stop::Unknown("optimisers in a circle".into()));
        };
        let mut before: BTreeSet<&str> = BTreeSet::new();
        let mut sees = BTreeSet::new();
        for (step, waited) in steps.iter().filter(|(s, _)| o.after.iter().any(|a| a.text == s.name)) {
            before.insert(step.name);
            before.extend(waited);
        }
        for (step, _) in steps.iter().filter(|(s, _)| before.contains(s.name)) {
            sees.extend(step.trains.iter().filter(|p| o.only.is_empty() || of(&o.only, p)).cloned());
        }
        let trains = paths.iter().filter(|p| of(&o.on, p) && !of(&o.except, p)).map(|p| p.to_string()).collect();
        let descent = match o.rule.args.as_slice() {
            [arg] if o.rule.name.text == "sgd" && o.scale.is_empty() => match &arg.kind {
                ArgKind::Named(_, Expr { kind: ExprKind::Number(rate), .. }) => Some(*rate),
                _ => None,
            },
            _ => None,
        };
        steps.push((Step { name: &o.name.text, trains, sees, descent }, before));
    }
    Ok(steps.into_iter().map(|(step, _)| step).collect())
}
