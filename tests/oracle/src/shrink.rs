//! Makes a model that disagrees small, whatever wrote it.
//!
//! Cuts work on the text by the spans of its syntax tree: members, statements and clauses go, expressions give way to
//! their parts or to constants. A cut stays if the smaller model fails in the same way.

use std::ops::Range;

use dsl::ast::{Clause, Equation, Expr, ExprKind, File, Item, MemberKind, Stmt, StmtKind};
use dsl::source::Span;

use crate::compare::{Outcome, compare};
use crate::family::{children, walk};

/// A replacement of a part of the text.
type Cut = (Range<usize>, String);

/// How a model fails; a smaller one must fail alike.
#[derive(PartialEq, Eq)]
enum Failure {
    Wrong,
    Broken(String),
}

fn failure(outcome: &Outcome) -> Option<Failure> {
    match outcome {
        Outcome::Wrong(_) => Some(Failure::Wrong),
        // Names and numbers differ from model to model; the first words of a message do not.
        Outcome::Broken(m) => Some(Failure::Broken(m.chars().filter(|c| !c.is_numeric()).take(40).collect())),
        _ => None,
    }
}

/// The smallest model found that fails as this one does, within so many comparisons.
pub fn shrink(text: &str, seed: u64, tries: usize) -> String {
    let mut text = text.to_string();
    let Some(wanted) = failure(&compare(&text, seed)) else { return text };
    let mut left = tries;
    loop {
        let (file, _) = dsl::parse::parse(dsl::source::FileId(0), &text);
        let mut cuts = cuts(&file, &text);
        // The largest cuts first.
        cuts.sort_by_key(|(range, with)| std::cmp::Reverse(range.len() as i64 - with.len() as i64));
        let smaller = cuts.into_iter().find_map(|(range, with)| {
            if with.len() >= range.len() || left == 0 {
                return None;
            }
            left -= 1;
            let candidate = format!("{}{with}{}", &text[..range.start], &text[range.end..]);
            (failure(&compare(&candidate, seed)).as_ref() == Some(&wanted)).then_some(candidate)
        });
        match smaller {
            Some(smaller) => text = smaller,
            None => return without_blank_lines(&text),
        }
    }
}

fn without_blank_lines(text: &str) -> String {
    text.lines().filter(|l| !l.trim().is_empty()).map(|l| format!("{l}\n")).collect()
}

fn range(span: Span) -> Range<usize> {
    span.lo as usize..span.hi as usize
}

fn cuts(file: &File, text: &str) -> Vec<Cut> {
    let mut all = Vec::new();
    let mut planner = None;
    for item in &file.items {
        match item {
            Item::Planner(p) => {
                planner = Some(p.span);
                p.equations.iter().for_each(|e| equation(e, text, &mut all));
            }
            Item::Model(m) => {
                let mut acting = Vec::new();
                for member in &m.members {
                    match &member.kind {
                        MemberKind::Act(list) => {
                            acting.push((range(member.span), "act { train = zeros  eval = zeros }".to_string()));
                            list.iter().for_each(|e| equation(e, text, &mut all));
                            continue;
                        }
                        MemberKind::Equation(e) => equation(e, text, &mut all),
                        MemberKind::Fn(f) => f.body.iter().for_each(|s| statement(s, text, &mut all)),
                        MemberKind::Loss(l) => {
                            l.parts.iter().for_each(|p| expression(&p.value, text, &mut all));
                            clauses(&l.clauses, &mut all);
                        }
                        MemberKind::Planner(p) => {
                            acting.push((range(member.span), String::new()));
                            p.equations.iter().for_each(|e| equation(e, text, &mut all));
                        }
                        _ => {}
                    }
                    all.push((range(member.span), String::new()));
                }
                // Without the planner, all that goes with it.
                if let (Some(span), [..]) = (planner, &acting[..]) {
                    acting.push((range(span), String::new()));
                    acting.sort_by_key(|c| c.0.start);
                    let (from, to) = (acting[0].0.start, acting[acting.len() - 1].0.end);
                    let mut with = text[from..to].to_string();
                    for (r, new) in acting.iter().rev() {
                        with.replace_range(r.start - from..r.end - from, new);
                    }
                    all.push((from..to, with));
                }
                all.extend(acting);
            }
            _ => {}
        }
    }
    all
}

fn equation(e: &Equation, text: &str, into: &mut Vec<Cut>) {
    into.push((range(e.span), String::new()));
    clauses(&e.clauses, into);
    let whole = range(e.value.span);
    let from = into.len();
    expression(&e.value, text, into);
    // A family of numbers with base cases along axes would be another question.
    let mut at = 0;
    into.retain(|(r, with)| {
        at += 1;
        at <= from || *r != whole || with != "1"
    });
}

fn clauses(list: &[Clause], into: &mut Vec<Cut>) {
    into.extend(list.iter().map(|c| (range(c.span), String::new())));
}

fn statement(s: &Stmt, text: &str, into: &mut Vec<Cut>) {
    into.push((range(s.span), String::new()));
    if let StmtKind::Let(_, e) | StmtKind::Return(e) | StmtKind::Assign(_, e) | StmtKind::Next(_, e) = &s.kind {
        expression(e, text, into);
    }
}

fn expression(e: &Expr, text: &str, into: &mut Vec<Cut>) {
    walk(e, &mut |e| {
        if matches!(e.kind, ExprKind::Number(_) | ExprKind::Name(_)) {
            return;
        }
        let mut parts = Vec::new();
        children(e, &mut |c| {
            parts.push(c);
            children(c, &mut |d| parts.push(d));
        });
        into.extend(parts.iter().map(|c| (range(e.span), text[range(c.span)].to_string())));
        into.extend(["1", "zeros([Q])", "ones([Q])"].map(|c| (range(e.span), c.to_string())));
    });
}
