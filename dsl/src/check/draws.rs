//! Random draws, and functions of the action's range.

use super::builtins::Args;
use super::value::{Env, Tensor, Value};
use super::{ACT, Ctx};
use crate::ast;
use crate::diagnostics::Code;
use crate::hir::{self, AxisId, BinaryOp, Dtype, Noise, Op, Size, VarId};
use crate::source::Span;

impl<'a> Ctx<'a> {
    pub(super) fn noise(&mut self, args: &mut Args<'a>, noise: Noise) -> Value<'a> {
        let Some([axes]) = self.take_args(args, ["axes"]) else { return Value::Error };
        let Some(axes) = self.as_axes(&axes.value, axes.span) else { return Value::Error };
        let (from, vars) = (self.place.site.draw_from.clone(), self.place.site.active.clone());
        self.new_draw(noise, axes, vars, from, args.span)
    }

    fn new_draw(&mut self, noise: Noise, axes: Vec<AxisId>, vars: Vec<VarId>, from: super::DrawFrom, span: Span) -> Value<'a> {
        let base = if self.place.site.draw_base.is_empty() { "draw".to_string() } else { self.place.site.draw_base.clone() };
        // Two equations of one name, or an equation and a loss, count on: a name is one stream of random numbers.
        let name = loop {
            let name = if self.place.site.draws == 0 { base.clone() } else { format!("{base}.{}", self.place.site.draws) };
            self.place.site.draws += 1;
            if self.draft.draw_names.insert((self.place.site.system, name.clone())) {
                break name;
            }
        };
        let per_sample = matches!(from, super::DrawFrom::Sample);
        self.draft.draws.push(hir::Draw { name, noise, axes: axes.clone(), vars, per_sample });
        self.draft.draw_from.push(from);
        let id = self.draft.draws.len() - 1;
        Value::tensor(self.draft.table.push(Op::Draw(id), axes, Dtype::Real, span))
    }

    /// `subset(E, 2)`: distinct places of an axis, the same for every sample, and in a planner for every candidate.
    pub(super) fn subset(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([axis, count]) = self.take_args(args, ["axis", "count"]) else { return Value::Error };
        let (Some(of), Some(k)) = (self.as_int(&axis.value, axis.span), self.as_int(&count.value, count.span)) else {
            return Value::Error;
        };
        if k < 1 || k > of || of > i64::from(u32::MAX) {
            return self.error(Code::BadSetting, count.span, format!("there are no {k} distinct places out of {of}"));
        }
        let into = self.draft.table.new_axis("pick", Size::known(k));
        let from = if self.place.site.system == ACT { super::DrawFrom::Sample } else { super::DrawFrom::Shared };
        let vars = self.place.site.active.iter().copied().filter(|v| Some(*v) != self.place.site.candidate).collect();
        self.new_draw(Noise::Subset { of: of as u32 }, vec![into], vars, from, args.span)
    }

    pub(super) fn attach(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([x, extra]) = self.take_args(args, ["x", "extra"]) else { return Value::Error };
        let (Some(expr), Some(extra)) = (self.as_tensor(&x.value, x.span), self.as_tensor(&extra.value, extra.span)) else {
            return Value::Error;
        };
        Value::Tensor(Tensor { expr, attached: Some(extra) })
    }

    pub(super) fn attached(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([x, otherwise]) = self.take_args(args, ["x", "otherwise"]) else { return Value::Error };
        match x.value {
            Value::Tensor(Tensor { attached: Some(extra), .. }) => Value::tensor(extra),
            _ => otherwise.value,
        }
    }

    pub(super) fn bound_of(&mut self, args: &mut Args<'a>, low: bool) -> Value<'a> {
        let Some([range]) = self.take_args(args, ["range"]) else { return Value::Error };
        match range.value {
            Value::Range { lo, hi, .. } => Value::Num(if low { lo } else { hi }),
            other => self.error(Code::WrongKind, range.span, format!("a range is wanted here, and this is {}", other.describe())),
        }
    }

    /// Whether the argument is the action, which has its range at every step.
    pub(super) fn is_action(&mut self, args: &'a [ast::Arg], env: &Env<'a>) -> bool {
        let [ast::Arg { kind: ast::ArgKind::Value(e), .. }] = args else { return false };
        let (Some(name), Some((action, _))) = (e.as_name(), self.names.members.action) else { return false };
        name.text == action.name.text && matches!(self.lookup(name, env), Value::Family(f) if f.prefix.is_empty())
    }

    /// Clipped to the action's range.
    pub(super) fn bounded(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([u]) = self.take_args(args, ["u"]) else { return Value::Error };
        let Some(e) = self.as_tensor(&u.value, u.span) else { return Value::Error };
        let (low, high) = self.action_range();
        let (low, high) = (self.draft.table.constant(low, args.span), self.draft.table.constant(high, args.span));
        let e = self
            .draft
            .table
            .binary(BinaryOp::Max, e, low, args.span)
            .and_then(|e| self.draft.table.binary(BinaryOp::Min, e, high, args.span));
        e.map_or(Value::Error, Value::tensor)
    }
}
