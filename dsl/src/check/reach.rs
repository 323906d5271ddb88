//! Gradients: what depends on what, and which losses train which parameters.

use std::collections::HashSet;

use super::call::Arg;
use super::system::SystemBuild;
use super::table::Table;
use super::value::Value;
use super::{Ctx, TRAIN};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, Dtype, ExprId, Op, ParamId, UnaryOp};
use crate::source::Span;

/// How one value depends on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    Direct,
    /// Only through a stop-gradient.
    Stopped,
    /// Through an equation that is being defined: a recurrence.
    Recurrent,
    None,
}

impl<'a> Ctx<'a> {
    /// `grad(of, wrt)`: checked, and as a node for every array of `wrt`.
    pub(super) fn grad(&mut self, of: &Arg<'a>, wrt: &Arg<'a>, partial: bool, span: Span) -> Value<'a> {
        let Some(e) = self.as_tensor(&of.value, of.span) else { return Value::Error };
        if !self.table.axes_of(e).is_empty() {
            let shown = self.table.show(self.table.axes_of(e));
            self.report(
                Diagnostic::new(Code::GradNotScalar, of.span, "the gradient of something that is not a scalar")
                    .here(format!("this has axes {shown}"))
                    .help("reduce it first, for example with `sum(..)`"),
            );
            return Value::Error;
        }
        if !matches!(wrt.value, Value::Tensor(_) | Value::Record(_) | Value::Family(_)) {
            self.report(
                Diagnostic::new(
                    Code::GradTarget,
                    wrt.span,
                    format!("a gradient is taken by a variable or a field, and this is {}", wrt.value.describe()),
                )
                .help("write `grad(E, z.q)` with a value that E is computed from"),
            );
            return Value::Error;
        }
        let Some(targets) = self.leaves(&wrt.value, wrt.span) else { return Value::Error };
        let mut any = false;
        let mut worst = Path::None;
        let mut two_paths = false;
        let of_expr = e;
        let result = self.map(&wrt.value, wrt.span, &mut |cx, mut target| {
            let mut path = cx.path(of_expr, target);
            if path == Path::None
                && let Op::Alias(inner, _) = *cx.table.op(target)
            {
                // E was computed outside from the same value.
                path = cx.path(of_expr, inner);
                if path != Path::None {
                    target = inner;
                }
            }
            any |= path == Path::Direct;
            if path != Path::None {
                worst = path;
            }
            if path == Path::Direct && !partial {
                two_paths |= cx.reaches_twice(of_expr, target);
            }
            let axes = cx.table.axes_of(target).to_vec();
            Some(match path {
                Path::Direct => cx.table.push(Op::Grad { of: of_expr, wrt: target }, axes, Dtype::Real, span),
                // A field of a record that E does not read: its derivative is zero.
                _ => {
                    let zero = cx.table.constant(0.0, span);
                    cx.table.broadcast(zero, &axes, span)
                }
            })
        });
        if two_paths {
            self.report(
                Diagnostic::new(Code::TwoPaths, wrt.span, "this value reaches the result through two arguments")
                    .note("`grad` follows both; `partial(f(x, y), x)` holds the other arguments")
                    .help("write `partial` if one argument is meant, as in a leapfrog step; keep `grad` if both are"),
            );
        }
        if any || targets.is_empty() {
            return result;
        }
        match worst {
            Path::Stopped => self.report(
                Diagnostic::new(Code::GradStopped, of.span, "a stop-gradient lies between the two")
                    .label(wrt.span, "the gradient by this would always be zero")
                    .help("take the gradient before `sg(..)`"),
            ),
            Path::Recurrent => self.report(
                Diagnostic::new(Code::GradThroughScan, span, "a gradient cannot follow a recurrence")
                    .help("take it inside one step: of a function of that step's values"),
            ),
            _ => self.report(
                Diagnostic::new(Code::GradIndependent, wrt.span, "the value does not depend on this")
                    .label(of.span, "this one")
                    .help("its gradient would always be zero; differentiate by something it is computed from"),
            ),
        }
        Value::Error
    }

    fn reaches_twice(&mut self, of: ExprId, target: ExprId) -> bool {
        let Some(args) = self.call_args.get(&of).cloned() else { return false };
        let mut reached = 0;
        for arg in args {
            if arg.iter().any(|leaf| *leaf == target || self.path(*leaf, target) == Path::Direct) {
                reached += 1;
            }
        }
        reached > 1
    }

    /// Whether `of` is computed from `target`.
    fn path(&mut self, of: ExprId, target: ExprId) -> Path {
        if of == target {
            return Path::Direct;
        }
        // Equations are followed only where the target itself is a value of the data or of an equation.
        let through = matches!(self.table.op(target), Op::Read { .. } | Op::Input { .. });
        let mut recurrent = false;
        if self.search(of, target, false, through, &mut recurrent) {
            return Path::Direct;
        }
        if self.search(of, target, true, through, &mut recurrent) {
            return Path::Stopped;
        }
        if recurrent { Path::Recurrent } else { Path::None }
    }

    fn search(&mut self, of: ExprId, target: ExprId, stops: bool, through: bool, recurrent: &mut bool) -> bool {
        let mut seen = HashSet::new();
        let mut open = vec![of];
        while let Some(e) = open.pop() {
            if e == target {
                return true;
            }
            // The table is in order: nothing before the target depends on it, unless through equations.
            if (e < target && !through) || !seen.insert(e) {
                continue;
            }
            match self.table.op(e).clone() {
                Op::Stop(inner) => {
                    if stops {
                        open.push(inner);
                    }
                }
                Op::Read { family, leaf, .. } if through => {
                    let (system, id) = (self.site.system, family.0 as usize);
                    if self.systems[system].families[id].is_busy() {
                        *recurrent = true;
                        continue;
                    }
                    self.elaborate_family(system, id);
                    let build = &self.systems[system];
                    for def in &build.families[id].defs {
                        open.extend(build.defs[def.0 as usize].values.get(leaf));
                    }
                }
                op => op.operands(|x| open.push(x)),
            }
        }
        false
    }

    // ---- reachability

    /// Parameters that the optimiser's own losses reach; the others stay as they start.
    pub(super) fn unreached(&mut self, losses: &[hir::Loss], optimizers: &[hir::Optimizer]) {
        let records: Vec<bool> = self.systems[TRAIN].families.iter().map(|f| f.record).collect();
        let mut by_optimizer: Vec<HashSet<ParamId>> = Vec::new();
        for (i, _) in optimizers.iter().enumerate() {
            let roots =
                losses.iter().filter(|l| l.optimizer.is_none_or(|o| o == i)).flat_map(|l| l.parts.iter().map(|p| p.value));
            by_optimizer.push(reached(&self.table, &self.systems[TRAIN], &records, roots));
        }
        for module in 0..self.modules.len() {
            let params = self.modules[module].params.clone();
            if params.is_empty() {
                continue;
            }
            let missing: Vec<ParamId> = params
                .iter()
                .copied()
                .filter(|p| {
                    !optimizers.iter().zip(&by_optimizer).any(|(o, set)| o.params.iter().any(|(q, _)| q == p) && set.contains(p))
                })
                .collect();
            if missing.is_empty() {
                continue;
            }
            let (name, span) = (self.modules[module].name.clone(), self.modules[module].span);
            let count =
                missing.iter().fold(hir::Size::known(0), |n, p| n.add(&self.table.total(&self.params[p.0 as usize].axes)));
            let d = if missing.len() == params.len() {
                let kind = if self.is_param(module) {
                    "param"
                } else if self.modules[module].kind == hir::ModuleKind::Memory {
                    "memory"
                } else {
                    "net"
                };
                Diagnostic::new(Code::Unreached, span, format!("no loss reaches `{name}`"))
                    .note(format!("its {} parameters would stay at their initial values", thousands(&count.to_string())))
                    .help(format!("add a loss, or `drop {kind} {name}`"))
            } else {
                let paths: Vec<&str> = missing.iter().map(|p| self.params[p.0 as usize].path.as_str()).collect();
                Diagnostic::new(Code::Unreached, span, format!("no loss reaches a part of `{name}`"))
                    .note(format!("{} would stay at their initial values", super::listed(paths)))
                    .help("see whether a `sg(..)` stands where it should not")
            };
            self.report(d);
        }
    }
}

/// Parameters that a gradient of the roots flows into.
fn reached(table: &Table, system: &SystemBuild<'_>, records: &[bool], roots: impl Iterator<Item = ExprId>) -> HashSet<ParamId> {
    let mut params = HashSet::new();
    let mut seen = HashSet::new();
    let mut open: Vec<ExprId> = roots.collect();
    while let Some(e) = open.pop() {
        if !seen.insert(e) {
            continue;
        }
        match table.op(e) {
            Op::Param(p) => {
                params.insert(*p);
            }
            Op::Stop(_) | Op::ArgMax { .. } | Op::Top { .. } => {}
            Op::Unary(UnaryOp::Floor | UnaryOp::Sign | UnaryOp::Not, _) => {}
            Op::Binary(op, ..) if super::table::says_truth(*op) => {}
            Op::Read { family, leaf, .. } => {
                let id = family.0 as usize;
                if !records[id] {
                    for def in &system.families[id].defs {
                        open.extend(system.defs[def.0 as usize].values.get(*leaf));
                    }
                }
            }
            op => op.operands(|x| open.push(x)),
        }
    }
    params
}

/// `7046` as `7,046`.
fn thousands(number: &str) -> String {
    if number.len() < 4 || !number.bytes().all(|b| b.is_ascii_digit()) {
        return number.to_string();
    }
    let digits: Vec<char> = number.chars().collect();
    let mut out = String::new();
    for (i, c) in digits.iter().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(*c);
    }
    out
}
