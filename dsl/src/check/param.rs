//! Parameters: one array for each path, made on first sight.

use super::value::{Env, Mode, Value};
use super::{Ctx, DrawFrom, Site, TRAIN};
use crate::ast::{self, Type, Typed};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, AxisId, Dtype, Index, Op, ParamId, VarId};
use crate::source::Span;

impl<'a> Ctx<'a> {
    /// A parameter's array, made on first sight of its path.
    pub(super) fn param_value(
        &mut self,
        decl: &'a Typed,
        init: &'a ast::Expr,
        path: &str,
        span: Span,
        env: &Env<'a>,
    ) -> Value<'a> {
        let Type::Shape(shape) = &decl.ty else {
            return self.error(Code::WrongKind, decl.name.span, "a parameter needs a shape, such as `[O, I]`");
        };
        let Some(axes) = self.shape(shape, env) else { return Value::Error };
        let Some(instance) = &mut self.place.instance else {
            return self.error(Code::BareBlock, span, "a parameter belongs to a net, a head or a memory");
        };
        let (module, mode, ensemble) = (instance.module, instance.mode, instance.ensemble);
        if !instance.touched.insert(path.to_string()) {
            self.report(
                Diagnostic::new(Code::ParameterClash, span, format!("two parameters would be called `{path}`"))
                    .help("hold each of the two calls in a `let` of its own: the name of the `let` becomes part of the path"),
            );
            return Value::Error;
        }
        let id = match self.draft.param_index.get(path) {
            Some(id) => *id,
            None => {
                let Some(id) = self.new_param(decl, init, path, &axes, module, ensemble, env) else { return Value::Error };
                id
            }
        };
        let mut stored = self.draft.params[id.0 as usize].axes.clone();
        let op = if mode == Mode::Slow { Op::Slow(id) } else { Op::Param(id) };
        let mut e = self.draft.table.push(op, stored.clone(), Dtype::Real, span);
        if let Some((axis, var)) = ensemble {
            e = self.draft.table.at(e, axis, Index { terms: vec![(var, 1)], offset: 0 }, span);
            stored.remove(0);
        }
        if stored.len() != axes.len()
            || stored.iter().zip(&axes).any(|(a, b)| self.draft.table.size(*a) != self.draft.table.size(*b))
        {
            let (have, want) = (self.draft.table.show(&stored), self.draft.table.show(&axes));
            return self.error(Code::SizeMismatch, span, format!("`{path}` has the shape {have} elsewhere, and {want} here"));
        }
        e = self.draft.table.rename_all(e, &stored, &axes, span);
        if mode == Mode::Frozen {
            e = self.draft.table.stop(e, span);
        }
        Value::tensor(e)
    }

    #[allow(clippy::too_many_arguments)]
    fn new_param(
        &mut self,
        decl: &'a Typed,
        init: &'a ast::Expr,
        path: &str,
        axes: &[AxisId],
        module: usize,
        ensemble: Option<(AxisId, VarId)>,
        env: &Env<'a>,
    ) -> Option<ParamId> {
        let mut site = Site::outside(TRAIN);
        site.draw_base = path.to_string();
        site.draw_from = DrawFrom::Shared;
        // Every member of an ensemble starts from draws of its own.
        site.active.extend(ensemble.map(|(_, var)| var));
        // The initial value is part of the block that is being called.
        let calls = self.sink.calls.clone();
        let (value, _) = self.at_site(site, |cx| {
            cx.sink.calls = calls;
            cx.eval(init, env)
        });
        let value = if value.is_error() { return None } else { self.as_tensor(&value, init.span)? };
        if let Some(extra) = self.draft.table.axes_of(value).iter().find(|a| !axes.contains(a)) {
            let (extra, want) = (self.draft.table.show_axis(*extra), self.draft.table.having(axes));
            self.report(
                Diagnostic::new(Code::AxesMismatch, init.span, "the initial value has an axis that the parameter has not")
                    .here(format!("has the axis {extra}"))
                    .label(decl.name.span, format!("has {want}")),
            );
            return None;
        }
        let mut stored = axes.to_vec();
        let mut start = self.draft.table.broadcast(value, axes, init.span);
        if let Some((axis, var)) = ensemble {
            stored.insert(0, axis);
            start = self.draft.table.each(var, axis, start, init.span);
        }
        let id = ParamId(self.draft.params.len() as u32);
        self.draft.params.push(hir::Param { path: path.to_string(), axes: stored, init: start, module, span: decl.name.span });
        self.draft.param_index.insert(path.to_string(), id);
        self.draft.modules[module].params.push(id);
        Some(id)
    }
}
