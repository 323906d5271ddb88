//! Expressions: operands and operators in a row, grouped into a tree.
//!
//! Loosest first: `||`, `&&`, comparisons, `..`, `+ -`, `* / @`, a sign or `!` before, `^`. All group from the left but
//! `^`, which groups from the right; comparisons and ranges do not chain. What stands behind an operand (`[..]`, `(..)`,
//! `.f`, `{..}`, `-> [..]`) binds tightest and is part of its pair.

use std::iter::Peekable;

use pest::iterators::Pairs;

use super::Rule;
use super::build::{Build, Children, P, unquote};
use crate::ast::*;
use crate::diagnostics::{Code, Diagnostic};
use crate::source::Span;

/// Operands and operators, one after the other.
type Row<'i> = Peekable<Pairs<'i, Rule>>;

/// How tightly an operator between two operands binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Or,
    And,
    Compare,
    Range,
    Sum,
    Product,
    Power,
}

impl Level {
    fn of(operator: &P<'_>) -> Level {
        match operator.as_str() {
            "||" => Level::Or,
            "&&" => Level::And,
            ".." | "..=" => Level::Range,
            "+" | "-" => Level::Sum,
            "*" | "/" | "@" => Level::Product,
            "^" => Level::Power,
            _ => Level::Compare,
        }
    }
}

fn binary(operator: &str) -> BinaryOp {
    match operator {
        "||" => BinaryOp::Or,
        "&&" => BinaryOp::And,
        "+" => BinaryOp::Add,
        "-" => BinaryOp::Sub,
        "*" => BinaryOp::Mul,
        "/" => BinaryOp::Div,
        "@" => BinaryOp::Dot,
        "<=" => BinaryOp::Le,
        ">=" => BinaryOp::Ge,
        "==" => BinaryOp::Eq,
        "!=" => BinaryOp::Ne,
        "<" => BinaryOp::Lt,
        _ => BinaryOp::Gt,
    }
}

/// What stands behind a primary.
fn is_behind(rule: Rule) -> bool {
    matches!(rule, Rule::index | Rule::args | Rule::field | Rule::update | Rule::arrow)
}

impl Build<'_> {
    fn node(&mut self, kind: ExprKind, span: Span) -> Expr {
        let expr = Expr::new(kind, span);
        if expr.depth <= MAX_DEPTH {
            return expr;
        }
        if !self.told.iter().any(|d| d.code == Code::TooDeep) {
            self.report(
                Diagnostic::new(Code::TooDeep, span, "this expression is too long to read")
                    .help("name a part of it with `let` or an equation of its own"),
            );
        }
        Expr::new(ExprKind::Error, span)
    }

    /// An expression, a bound, or the size of an axis.
    pub(super) fn expr(&mut self, pair: P<'_>) -> Expr {
        let mut row = pair.into_inner().peekable();
        let first = self.powers(&mut row);
        self.chain(first, &mut row, Level::Or)
    }

    /// Joins a part with what follows and binds at least as tightly as `level`.
    fn chain(&mut self, mut left: Expr, row: &mut Row<'_>, level: Level) -> Expr {
        let mut before: Option<P<'_>> = None;
        while let Some(operator) = row.next_if(|p| Level::of(p) >= level) {
            let own = Level::of(&operator);
            let mut right = self.powers(row);
            while let Some(tighter) = row.peek().map(Level::of).filter(|next| *next > own) {
                right = self.chain(right, row, tighter);
            }
            if let Some(first) = before.filter(|b| Level::of(b) == own && matches!(own, Level::Compare | Level::Range)) {
                self.does_not_chain(&first, &operator);
            }
            left = self.join(left, &operator, right);
            before = Some(operator);
        }
        left
    }

    fn join(&mut self, left: Expr, operator: &P<'_>, right: Expr) -> Expr {
        let span = left.span.to(right.span);
        let (l, r) = (Box::new(left), Box::new(right));
        match operator.as_str() {
            range @ (".." | "..=") => self.node(ExprKind::Range { lo: l, hi: r, inclusive: range == "..=" }, span),
            other => self.node(ExprKind::Binary(binary(other), l, r), span),
        }
    }

    fn does_not_chain(&mut self, first: &P<'_>, second: &P<'_>) {
        let help = match Level::of(second) {
            Level::Range => "a range has two ends",
            _ => "join two comparisons with `&&`",
        };
        let (first, place) = (self.span(first), self.span(second));
        self.report(
            Diagnostic::new(Code::Syntax, place, format!("did not expect `{}` here", second.as_str()))
                .label(first, "after this one")
                .help(help),
        );
    }

    /// `-x^2` is `-(x^2)`, and `x^-y^2` is `x^(-(y^2))`.
    fn powers(&mut self, row: &mut Row<'_>) -> Expr {
        let mut bases = Vec::new();
        let (mut signs, mut last) = self.signed(row);
        while row.next_if(|p| p.as_str() == "^").is_some() {
            let (next_signs, next) = self.signed(row);
            bases.push((std::mem::replace(&mut signs, next_signs), std::mem::replace(&mut last, next)));
        }
        let mut power = self.apply(signs, last);
        for (signs, base) in bases.into_iter().rev() {
            let span = base.span.to(power.span);
            let raised = self.node(ExprKind::Binary(BinaryOp::Pow, Box::new(base), Box::new(power)), span);
            power = self.apply(signs, raised);
        }
        power
    }

    fn signed<'i>(&mut self, row: &mut Row<'i>) -> (Vec<P<'i>>, Expr) {
        let mut signs = Vec::new();
        while let Some(sign) = row.next_if(|p| matches!(p.as_rule(), Rule::minus | Rule::not)) {
            signs.push(sign);
        }
        (signs, self.operand(row))
    }

    fn apply(&mut self, signs: Vec<P<'_>>, to: Expr) -> Expr {
        signs.into_iter().rev().fold(to, |expr, sign| {
            let span = self.span(&sign).to(expr.span);
            let op = if sign.as_rule() == Rule::minus { UnaryOp::Neg } else { UnaryOp::Not };
            self.node(ExprKind::Unary(op, Box::new(expr)), span)
        })
    }

    /// A primary and what stands behind it. Brackets around an expression are part of its place.
    fn operand(&mut self, row: &mut Row<'_>) -> Expr {
        let first = row.next().expect("operands stand around every operator");
        let mut span = self.span(&first);
        let mut expr = match first.as_rule() {
            Rule::group => Expr { span, ..self.expr(Children::of(first).take()) },
            Rule::name => {
                let name = self.ident(first);
                match row.next_if(|p| p.as_rule() == Rule::fold_tail) {
                    Some(tail) => {
                        span = span.to(self.span(&tail));
                        self.fold(name, tail, span)
                    }
                    None => self.node(ExprKind::Name(name), span),
                }
            }
            Rule::number => {
                let sign = row.next_if(|p| p.as_rule() == Rule::percent_sign);
                span = sign.as_ref().map_or(span, |sign| span.to(self.span(sign)));
                let value = self.number(&first, span);
                let kind = if sign.is_some() { ExprKind::Percent(value / 100.0) } else { ExprKind::Number(value) };
                self.node(kind, span)
            }
            _ => self.primary(first, span),
        };
        while let Some(p) = row.next_if(|p| is_behind(p.as_rule())) {
            let span = expr.span.to(self.span(&p));
            let e = Box::new(expr);
            let kind = match p.as_rule() {
                Rule::index => ExprKind::Index(e, p.into_inner().map(|p| self.expr(p)).collect()),
                Rule::field => ExprKind::Field(e, self.ident(Children::of(p).take())),
                Rule::args => ExprKind::Call(e, self.args(p)),
                Rule::update => ExprKind::Update(e, self.rec_items(p)),
                _ => ExprKind::Arrow(e, self.shape(Children::of(p).take())),
            };
            expr = self.node(kind, span);
        }
        expr
    }

    fn fold(&mut self, op: Ident, tail: P<'_>, span: Span) -> Expr {
        let mut c = Children::of(tail);
        let var = self.ident(c.take());
        let over = Box::new(self.domain(c.take()));
        let body = Box::new(self.expr(c.take()));
        self.node(ExprKind::Fold { op, var, over, body }, span)
    }

    fn primary(&mut self, pair: P<'_>, span: Span) -> Expr {
        let kind = match pair.as_rule() {
            Rule::string => ExprKind::Text(unquote(pair.as_str())),
            Rule::callee_word => {
                let word = pair.into_inner().next().expect("a word");
                ExprKind::Name(self.ident(word))
            }
            Rule::next_ref => ExprKind::Next(self.ident(Children::of(pair).take())),
            Rule::list => ExprKind::List(pair.into_inner().map(|p| self.list_item(p)).collect()),
            Rule::record_lit => ExprKind::Record(self.rec_items(pair)),
            Rule::rollout => ExprKind::Rollout(Children::of(pair).rest().map(|p| self.equation(p)).collect()),
            Rule::conditional => return self.conditional(pair, span),
            other => unreachable!("not an expression: {other:?}"),
        };
        self.node(kind, span)
    }

    /// `if (c) { x } else if (d) { y } else { z }`, the last branch innermost.
    fn conditional(&mut self, pair: P<'_>, span: Span) -> Expr {
        let mut branches = Vec::new();
        let mut c = pair.into_inner().filter(|p| p.as_rule() != Rule::kw_else);
        loop {
            let first = c.next().expect("a branch or the last value");
            if first.as_rule() != Rule::kw_if {
                let last = self.expr(first);
                return branches.into_iter().rev().fold(last, |other, (start, cond, then): (Span, Expr, Expr)| {
                    let kind = ExprKind::If { cond: Box::new(cond), then: Box::new(then), other: Box::new(other) };
                    self.node(kind, Span { lo: start.lo, ..span })
                });
            }
            let start = self.span(&first);
            let mut value = || self.expr(c.next().expect("a condition and a value"));
            branches.push((start, value(), value()));
        }
    }

    fn list_item(&mut self, pair: P<'_>) -> ListItem {
        match pair.as_rule() {
            Rule::list_axis => {
                let mut c = Children::of(pair);
                ListItem::Axis(self.ident(c.take()), self.expr(c.take()))
            }
            Rule::list_rest => ListItem::Rest(self.ident(Children::of(pair).take())),
            _ => ListItem::Value(self.expr(pair)),
        }
    }

    fn rec_items(&mut self, pair: P<'_>) -> Vec<(Ident, Expr)> {
        pair.into_inner()
            .map(|p| {
                let mut c = Children::of(p);
                let name = self.ident(c.take());
                let value = match c.next_if(Rule::expr) {
                    Some(p) => self.expr(p),
                    None => Expr::new(ExprKind::Name(name.clone()), name.span),
                };
                (name, value)
            })
            .collect()
    }

    pub(super) fn bound_range(&mut self, pair: P<'_>) -> Expr {
        let span = self.span(&pair);
        let mut c = Children::of(pair);
        let lo = self.expr(c.take());
        self.range_behind(lo, c, span)
    }

    /// `lo..hi`, a list, or one bound.
    pub(super) fn domain(&mut self, pair: P<'_>) -> Expr {
        let span = self.span(&pair);
        let mut c = Children::of(pair);
        let first = c.take();
        if first.as_rule() == Rule::list {
            let span = self.span(&first);
            return self.primary(first, span);
        }
        let lo = self.expr(first);
        self.range_behind(lo, c, span)
    }

    /// `lo`, or `lo..hi` where a range operator and an end follow.
    fn range_behind(&mut self, lo: Expr, mut c: Children<'_>, span: Span) -> Expr {
        match c.next_if(Rule::op_range) {
            Some(op) => {
                let hi = Box::new(self.expr(c.take()));
                self.node(ExprKind::Range { lo: Box::new(lo), hi, inclusive: op.as_str() == "..=" }, span)
            }
            None => lo,
        }
    }

    pub(super) fn percent(&mut self, pair: P<'_>) -> Expr {
        let span = self.span(&pair);
        let value = self.number(&Children::of(pair).take(), span);
        self.node(ExprKind::Percent(value / 100.0), span)
    }

    fn number(&mut self, pair: &P<'_>, span: Span) -> f64 {
        let text = self.shown(pair);
        match text.replace('_', "").parse::<f64>() {
            Ok(value) if value.is_finite() => value,
            _ => {
                let message = format!("`{text}` is too large for a number");
                self.report(Diagnostic::new(Code::BadNumber, span, message).help("the largest number is about 1.8e308"));
                0.0
            }
        }
    }
}
