//! The keywords that start a statement, with their layout rules.

use super::outline::Shape;

/// The tokens that a statement must contain before another can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    Define,
    Body,
    DefineOrBody,
}

/// Places of a statement that form columns with its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    /// What follows the leading word.
    Rest,
    Arrow,
    /// A loss's weight.
    Weight,
    /// A loss's `warmup` or `for`.
    Extra,
    /// The first `=` or `~`.
    Define,
    /// The first of `with`, `for`, `where`, `reset`.
    Clause,
    /// The brace of a body.
    Body,
}

#[derive(Debug)]
pub(super) struct Lead {
    pub word: &'static str,
    /// Statements of one family share their columns.
    pub family: &'static str,
    pub needs: Needs,
    /// The content of a brace after the head.
    pub body: Option<Shape>,
    /// Words of the language in the tail of this statement only, in their order.
    pub tails: &'static [&'static str],
    pub columns: &'static [Column],
}

const fn lead(word: &'static str, family: &'static str, needs: Needs, columns: &'static [Column]) -> Lead {
    Lead { word, family, needs, body: None, tails: &[], columns }
}

impl Lead {
    const fn body(mut self, shape: Shape) -> Lead {
        self.body = Some(shape);
        self
    }

    const fn tails(mut self, tails: &'static [&'static str]) -> Lead {
        self.tails = tails;
        self
    }
}

/// A statement that starts with a name: `x[t] = e`, `y = layer(y)`, a task.
pub(super) static EQUATION: Lead = lead("", "equation", Needs::Nothing, &[Column::Define, Column::Clause]);

/// An item between commas: a field, an argument, a setting.
pub(super) static ITEM: Lead = lead("", "item", Needs::Nothing, &[Column::Define, Column::Clause]);

/// A word that declares something in `diagnose`, where a name follows it.
pub(super) const DECLARES: [&str; 2] = ["probe", "show"];

/// Words of [`LEADS`] that are words of the language only before `{`.
const BEFORE_BRACE: [&str; 4] = ["act", "train", "evaluate", "diagnose"];

#[rustfmt::skip]
static LEADS: [Lead; 36] = {
    use Column::{Arrow, Body, Clause, Define, Extra, Rest, Weight};
    [
        lead("use",       "use",       Needs::Nothing,      &[]),
        lead("model",     "model",     Needs::Body,         &[]).body(Shape::Block).tails(&["extends"]),
        lead("block",     "block",     Needs::Body,         &[]).body(Shape::Block).tails(&["carry"]),
        lead("fn",        "fn",        Needs::Body,         &[Body]).body(Shape::Block),
        lead("dist",      "dist",      Needs::Body,         &[]).body(Shape::Block).tails(&["of"]),
        lead("planner",   "planner",   Needs::Body,         &[]).body(Shape::Block),
        lead("optimizer", "optimizer", Needs::DefineOrBody, &[Define]).body(Shape::Block).tails(&["on", "except", "scale", "after", "only"]),
        lead("tasks",     "tasks",     Needs::Nothing,      &[]).body(Shape::Block),
        lead("input",     "field",     Needs::Nothing,      &[Rest]),
        lead("action",    "field",     Needs::Nothing,      &[Rest]),
        lead("dim",       "size",      Needs::Nothing,      &[Rest, Define]),
        lead("const",     "size",      Needs::Nothing,      &[Rest, Define]),
        lead("latent",    "latent",    Needs::Body,         &[Body]).body(Shape::Record),
        lead("schedule",  "schedule",  Needs::Define,       &[Define]),
        lead("memory",    "memory",    Needs::Define,       &[Arrow, Define]),
        lead("net",       "net",       Needs::Define,       &[Rest, Arrow, Define]).tails(&["via"]),
        lead("head",      "net",       Needs::Define,       &[Rest, Arrow, Define]).tails(&["via"]),
        lead("param",     "param",     Needs::Define,       &[Define]),
        lead("slow",      "slow",      Needs::Nothing,      &[]),
        lead("running",   "running",   Needs::Define,       &[Define]).tails(&["init"]),
        lead("source",    "source",    Needs::Nothing,      &[]).tails(&["over"]),
        lead("loss",      "loss",      Needs::DefineOrBody, &[Weight, Extra, Define, Clause]).body(Shape::Record).tails(&["warmup"]),
        lead("metric",    "metric",    Needs::Define,       &[Define, Clause]),
        lead("record",    "record",    Needs::Define,       &[Define, Clause]),
        lead("act",       "act",       Needs::Body,         &[]).body(Shape::Block),
        lead("train",     "train",     Needs::Body,         &[]).body(Shape::Settings),
        lead("evaluate",  "evaluate",  Needs::Body,         &[]).body(Shape::Settings),
        lead("diagnose",  "diagnose",  Needs::Body,         &[]).body(Shape::Settings),
        lead("drop",      "drop",      Needs::Nothing,      &[]),
        lead("let",       "local",     Needs::Define,       &[Define]),
        lead("next",      "local",     Needs::Define,       &[Define]),
        lead("return",    "return",    Needs::Nothing,      &[]),
        lead("stack",     "stack",     Needs::Body,         &[]).body(Shape::Block),
        lead("require",   "require",   Needs::Nothing,      &[]),
        lead("slot",      "slot",      Needs::Nothing,      &[]),
        lead("carry",     "carry",     Needs::Nothing,      &[]),
    ]
};

/// The lead of a statement that starts with `word` and goes on with `next`.
pub(super) fn of(word: &str, next: &str) -> &'static Lead {
    let found = LEADS.iter().find(|l| l.word == word && (next == "{" || !BEFORE_BRACE.contains(&word)));
    found.unwrap_or(&EQUATION)
}
