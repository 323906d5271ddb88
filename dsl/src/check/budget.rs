//! The budget of a check. It covers a whole run, all models of the file together, so that no text keeps
//! the checker busy for long: about two seconds at most on a machine of today.

use super::Ctx;
use super::value::Value;
use crate::ast::MemberKind;
use crate::diagnostics::{Code, Diagnostic};
use crate::source::Span;

/// Operations that the models of a file may expand to; a large world model has twenty thousand.
const MAX_NODES: usize = 1_000_000;
/// Units of work: ten for an expression that is evaluated, one for an operation that a search comes by.
const MAX_WORK: usize = 40_000_000;
/// The work of evaluating an expression, or of inheriting a member.
pub(super) const STEP: usize = 10;

/// The work of an equation beside its expressions: its type, its subscripts, its place in the order.
pub(super) const EQUATION: usize = 400;
/// The work of writing out an operation once more, for a gradient through equations.
pub(super) const OPERATION: usize = 40;
/// Names that a model may declare beside its equations, losses and metrics: some are looked for one by one.
const MAX_NAMES: usize = 4_000;

/// Values that a record or a list may hold, those of its fields and entries among them.
const MAX_PARTS: usize = 10_000;

/// The cost of the models before this one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    pub work: usize,
    pub nodes: usize,
    /// Diagnostics that were too many.
    pub left_out: usize,
}

impl Spent {
    pub(super) fn all(&self) -> bool {
        self.work > MAX_WORK || self.nodes > MAX_NODES
    }
}

impl<'a> Ctx<'a> {
    /// Whether the model declares no more names than can be looked for.
    pub(super) fn names_fit(&mut self) -> bool {
        let names = self.flat.members.iter().map(|member| match &member.kind {
            MemberKind::Equation(_) | MemberKind::Record(_) | MemberKind::Loss(_) | MemberKind::Metric(_) => 0,
            MemberKind::Latent { fields, .. } => fields.len(),
            _ => 1,
        });
        let names: usize = names.sum();
        if names > MAX_NAMES {
            let [names, most] = [names, MAX_NAMES].map(|n| super::thousands(&n.to_string()));
            let name = &self.flat.name;
            self.report(
                Diagnostic::new(Code::TooLarge, name.span, format!("`{}` declares {names} names", name.text))
                    .note(format!("a model may declare {most} beside its equations, losses and metrics"))
                    .help("a `block` repeats layers, `net f[E](..)` repeats a net, a list holds many constants"),
            );
        }
        names <= MAX_NAMES
    }

    /// A record or a list that was just made, unless it holds too many values.
    pub(super) fn held(&mut self, value: Value<'a>, span: Span) -> Value<'a> {
        let parts = value.parts(MAX_PARTS + 1);
        if parts > MAX_PARTS {
            let most = super::thousands(&MAX_PARTS.to_string());
            return self.error(Code::TooLarge, span, format!("this holds more than {most} values"));
        }
        self.spend_work(parts, span);
        value
    }

    /// Counts the evaluation of an expression; false where there is nothing left to spend, or enough has been told.
    pub(super) fn spend(&mut self, span: Span) -> bool {
        self.spend_work(STEP, span)
    }

    pub(super) fn spend_work(&mut self, work: usize, span: Span) -> bool {
        self.spent.work += work;
        if self.sink.stopped {
            return false;
        }
        let nodes = self.spent.nodes + self.draft.table.nodes.len();
        if nodes <= MAX_NODES && self.spent.work <= MAX_WORK {
            return true;
        }
        let [shown, most, steps] = [nodes, MAX_NODES, MAX_WORK / STEP].map(|n| super::thousands(&n.to_string()));
        let note = if nodes > MAX_NODES {
            format!("the models of a file may expand to {most} operations")
        } else {
            format!("it has expanded to {shown} operations so far, and finding them has used up all {steps} steps of the check")
        };
        self.report(
            Diagnostic::new(Code::TooLarge, span, "this model grows too large to check").note(note).help(
                "look for functions that call others several times, for long `stack` loops, or for many models in one file",
            ),
        );
        self.sink.stopped = true;
        false
    }
}
