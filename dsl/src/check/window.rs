//! Ranges that depend on other indices: `for k in 1..=3, i in 0..T-k`.
//!
//! Such a window shrinks with `k`, so its points are no box. An index that a range reads is therefore written out: there
//! is an equation for each of its values, with a number in its place, and each has a box of its own. A loss or metric
//! becomes one mean over all points, in which each weighs the same.

use hashbrown::HashSet;

use super::Ctx;
use super::objective::Mean;
use super::subscript::walk;
use super::value::{Env, Value};
use crate::ast::{Clause, ClauseKind, Expr, ExprKind, Ident};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{BinaryOp, Dtype, ExprId, Op, ReduceOp, VarId};
use crate::source::Span;

/// As many equations as one may become.
const MOST: usize = 64;

/// Numbers that stand for indices.
pub(super) type Written<'a> = Vec<(&'a Ident, i64)>;

impl<'a> Ctx<'a> {
    /// The values of the indices that are written out, in order; a single empty list where none is. Ranges may read those
    /// of indices that stand before them. None after a mistake.
    pub(super) fn windows(&mut self, clauses: &[&'a [Clause]], env: &Env<'a>) -> Option<Vec<Written<'a>>> {
        let clauses = clauses.iter().copied().flatten();
        let iters: Vec<&'a (Ident, Expr)> =
            clauses.filter_map(|c| if let ClauseKind::For(iters) = &c.kind { Some(iters) } else { None }).flatten().collect();
        let mut read: HashSet<&str> = HashSet::new();
        let mut dependent = vec![false; iters.len()];
        for (at, (name, range)) in iters.iter().enumerate() {
            let mut names = Vec::new();
            walk(range, &mut |e| names.extend(e.as_name()));
            for used in names {
                // The name of a size or number is no index here, even if an index is called the same.
                if env.get(&used.text).is_some() || env.sees_model() && self.is_static(&used.text) {
                    continue;
                }
                let Some(of) = iters.iter().position(|(other, _)| other.text == used.text) else { continue };
                if of >= at {
                    let message = format!("the range of `{}` reads `{}`, which has no value yet", name.text, used.text);
                    let d = Diagnostic::new(Code::UnknownIndex, used.span, message);
                    self.report(
                        d.help(format!("an index before it may be read: `for {} in .., {} in ..`", used.text, name.text)),
                    );
                    return None;
                }
                read.insert(&iters[of].0.text);
                dependent[at] = true;
            }
        }
        if read.is_empty() {
            return Some(vec![Vec::new()]);
        }
        let mut all: Vec<Written<'a>> = vec![Vec::new()];
        for (at, (name, range)) in iters.iter().enumerate() {
            let mut next = Vec::new();
            for written in all {
                if !dependent[at] && !read.contains(&*name.text) {
                    next.push(written);
                    continue;
                }
                let (lo, hi) = self.index_range(range, &numbers(env, &written))?;
                if !read.contains(&*name.text) {
                    // Where the window is closed there is no equation.
                    next.extend((lo < hi).then_some(written));
                    continue;
                }
                if hi.saturating_sub(lo) > MOST as i64 || next.len() + (hi - lo).max(0) as usize > MOST {
                    let message = format!("`{}` would be written out more than {MOST} times", name.text);
                    let d = Diagnostic::new(Code::TooLarge, range.span, message);
                    self.report(d.help("a range that depends on an index makes an equation of each of its values: shorten it"));
                    return None;
                }
                next.extend((lo..hi).map(|n| written.iter().copied().chain([(name, n)]).collect()));
            }
            all = next;
            if all.is_empty() {
                self.report(Diagnostic::new(Code::EmptyDomain, range.span, format!("`{}` would take no value", name.text)));
                return None;
            }
        }
        Some(all)
    }

    /// One mean over the points of several: each point weighs the same.
    pub(super) fn mean_over(&mut self, parts: Vec<Mean>, what: &str, span: Span) -> Option<Mean> {
        for var in parts.iter().flat_map(|part| &part.vars) {
            let decl = &self.draft.vars[var.0 as usize];
            if decl.range.is_none() {
                let (name, at) = (decl.name.clone(), decl.span);
                let message = format!("`{name}` needs a range: others of {what} depend on an index");
                self.report(Diagnostic::new(Code::Unbounded, at, message).help(format!("write `for {name} in ..`")));
                return None;
            }
        }
        let points = parts.iter().map(|part| part.vars.iter().map(|var| self.len_of(*var)).product::<i64>()).sum::<i64>();
        let conditional = parts.iter().any(|part| part.condition.is_some());
        let (mut sum, mut count): (Option<ExprId>, Option<ExprId>) = (None, None);
        for part in &parts {
            let mut value = part.value;
            if let Some(holds) = part.condition {
                let [zero, one] = [0.0, 1.0].map(|c| self.draft.table.constant(c, span));
                value = self.draft.table.select(holds, value, zero, span)?;
                let counted = self.draft.table.select(holds, one, zero, span)?;
                let counted = self.total(counted, &part.vars, true, span);
                count = self.plus(count, counted, span);
            }
            let value = self.total(value, &part.vars, conditional, span);
            sum = self.plus(sum, value, span);
        }
        let sum = sum?;
        let value = match count {
            None => {
                let n = self.draft.table.constant(points as f64, span);
                self.draft.table.binary(BinaryOp::Div, sum, n, span)?
            }
            // Nothing selected: zero.
            Some(count) => {
                let one = self.draft.table.constant(1.0, span);
                let count = self.draft.table.binary(BinaryOp::Max, count, one, span)?;
                self.draft.table.binary(BinaryOp::Div, sum, count, span)?
            }
        };
        let touched = parts.into_iter().flat_map(|part| part.touched).collect();
        Some(Mean { value, condition: None, vars: Vec::new(), touched })
    }

    fn len_of(&self, var: VarId) -> i64 {
        self.draft.vars[var.0 as usize].range.map_or(0, |(lo, hi)| (hi - lo).max(0))
    }

    /// The sum over indices, and the samples of the batch.
    fn total(&mut self, body: ExprId, vars: &[VarId], batch: bool, span: Span) -> ExprId {
        if vars.is_empty() && !batch {
            return body;
        }
        self.draft.table.push(Op::Fold { op: ReduceOp::Sum, vars: vars.to_vec(), batch, body }, Vec::new(), Dtype::Real, span)
    }

    fn plus(&mut self, sum: Option<ExprId>, more: ExprId, span: Span) -> Option<ExprId> {
        match sum {
            None => Some(more),
            Some(sum) => self.draft.table.binary(BinaryOp::Add, sum, more, span),
        }
    }
}

/// A scope in which indices are numbers.
pub(super) fn numbers<'a>(env: &Env<'a>, written: &Written<'a>) -> Env<'a> {
    if written.is_empty() {
        return env.clone();
    }
    let inner = env.child();
    for (name, n) in written {
        inner.set(&*name.text, Value::Num(*n as f64));
    }
    inner
}

/// Whether an expression mentions a name.
pub(super) fn mentions(e: &Expr, name: &str) -> bool {
    let mut found = false;
    walk(e, &mut |e| found |= matches!(&e.kind, ExprKind::Name(n) if n.text == name));
    found
}
