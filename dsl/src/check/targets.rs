//! Names of a body that gradients are taken by.
//!
//! Equal nodes are one node, so `let w = softmax(v)` and another `softmax(v)` beside it would be one variable. A name
//! that a gradient of the body is taken by gets a node of its own instead.

use std::rc::Rc;

use hashbrown::HashSet;

use super::Ctx;
use super::subscript::walk;
use super::value::Value;
use crate::ast::{Arg, ArgKind, Expr, ExprKind, Stmt, StmtKind};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{AxisId, ExprId, Index, Op};
use crate::source::Span;

pub(super) type Names<'a> = Rc<HashSet<&'a str>>;

impl<'a> Ctx<'a> {
    /// The names of a body that gradients are taken by, also under another name.
    pub(super) fn targets_of(&mut self, body: &'a [Stmt]) -> Names<'a> {
        let key = body.as_ptr() as usize;
        if let Some(found) = self.gradients.targets_known.get(&key) {
            return found.clone();
        }
        let mut given = Vec::new();
        expressions(body, &mut |name, e| given.push((name, e)));
        let names = Rc::new(targets(given));
        self.gradients.targets_known.insert(key, names.clone());
        names
    }

    /// The value of `let name = ..`: a variable of its own if a gradient is taken by it. Another name for a variable is the
    /// same variable.
    pub(super) fn named(&mut self, name: &str, value: Value<'a>, span: Span) -> Value<'a> {
        if !self.gradients.targets.contains(name) {
            return value;
        }
        match &value {
            Value::Tensor(t) if t.attached.is_some() => value,
            Value::Tensor(_) | Value::Record(_) => self.map(&value, span, &mut |cx, x| {
                if cx.is_variable(x) {
                    return Some(x);
                }
                let own = cx.draft.table.alias(x, span);
                cx.gradients.own_names.insert(own);
                Some(own)
            }),
            _ => value,
        }
    }

    /// Whether a value has a name: an equation's, an input, a parameter of a function, a `let` that gradients are taken by.
    fn is_variable(&self, e: ExprId) -> bool {
        match self.draft.table.op(e) {
            Op::Alias(..) => true,
            Op::Const(_) | Op::Size(_) => false,
            op => {
                let mut leaf = true;
                op.operands(|_| leaf = false);
                leaf
            }
        }
    }

    /// The array that a value is an entry of, and which entries were taken, the first one first.
    pub(super) fn whole(&self, mut e: ExprId) -> (ExprId, Vec<(AxisId, Index)>) {
        let mut entries = Vec::new();
        while let Op::At { of, axis, index } = self.draft.table.op(e) {
            entries.insert(0, (*axis, index.clone()));
            e = *of;
        }
        (e, entries)
    }

    /// Whether a gradient is taken by what is computed where it stands: all equal expressions would be one variable.
    pub(super) fn by_computed(&mut self, targets: &[ExprId], span: Span) -> bool {
        let computed = targets.iter().any(|e| !self.is_variable(self.whole(*e).0));
        if computed {
            self.report(
                Diagnostic::new(Code::GradTarget, span, "a gradient is taken by a value that has a name")
                    .here("this is computed here")
                    .help("write an equation for it, or a function with `let w = ..` in it, and read it by its name"),
            );
        }
        computed
    }
}

/// The names that gradients are taken by, among expressions and the names that they give.
pub(super) fn targets<'a>(given: impl IntoIterator<Item = (Option<&'a str>, &'a Expr)>) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    let mut copies = Vec::new();
    for (name, e) in given {
        copies.extend(name.zip(base(e)));
        walk(e, &mut |e| names.extend(target(e).map(array).and_then(base)));
    }
    loop {
        let before = names.len();
        for (name, of) in &copies {
            if names.contains(name) {
                names.insert(of);
            }
        }
        if names.len() == before {
            return names;
        }
    }
}

/// What `grad` and `partial` are taken by.
fn target(e: &Expr) -> Option<&Expr> {
    let ExprKind::Call(callee, args) = &e.kind else { return None };
    let named = callee.as_name().is_some_and(|n| n.text == "grad" || n.text == "partial");
    match &args[..] {
        [_, Arg { kind: ArgKind::Value(by), .. }] if named => Some(by),
        _ => None,
    }
}

/// What an expression is an entry of.
fn array(e: &Expr) -> &Expr {
    match &e.kind {
        ExprKind::Index(e, _) => array(e),
        _ => e,
    }
}

/// The name that an expression is, or a field of.
fn base(e: &Expr) -> Option<&str> {
    match &e.kind {
        ExprKind::Name(n) => Some(&n.text),
        ExprKind::Field(e, _) => base(e),
        _ => None,
    }
}

/// Calls `f` with every expression of a body, and the name that it gives.
fn expressions<'a>(body: &'a [Stmt], f: &mut dyn FnMut(Option<&'a str>, &'a Expr)) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Let(name, e) | StmtKind::Assign(name, e) => f(Some(&name.text), e),
            StmtKind::Next(_, e) | StmtKind::Param(_, e) | StmtKind::Return(e) | StmtKind::Require(e, _) => f(None, e),
            StmtKind::Stack { over, body, .. } => {
                f(None, over);
                expressions(body, f);
            }
        }
    }
}
