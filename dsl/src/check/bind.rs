//! Arguments meet parameters: functions, distributions, blocks, planners and update rules share one way.

use super::Ctx;
use super::call::Arg;
use super::value::{Env, Named, Value};
use crate::ast::ParamDecl;
use crate::diagnostics::{Code, Diagnostic};
use crate::source::Span;

/// Whose parameters are given, for messages.
pub(super) struct Owner<'t> {
    pub name: &'t str,
    /// Settings have names and defaults; a function's parameters are its arguments.
    pub settings: bool,
    /// The call.
    pub span: Span,
}

impl<'a> Ctx<'a> {
    /// Gives every parameter its argument or its default, in order, so that a default may use those before it.
    /// `accept` has the last word on a value, with the place it comes from; the result is what it let through.
    pub(super) fn bind(
        &mut self,
        owner: &Owner,
        params: &[&'a ParamDecl],
        args: Vec<Arg<'a>>,
        scope: &Env<'a>,
        mut accept: impl FnMut(&mut Self, &'a ParamDecl, Value<'a>, Span) -> Option<Value<'a>>,
    ) -> Option<Named<'a>> {
        let slots = self.place_args(owner, params, args)?;
        let mut bound = Vec::new();
        for (param, slot) in params.iter().zip(slots) {
            let (value, at) = match (slot, &param.default) {
                (Some(arg), _) => (arg.value, arg.span),
                (None, Some(e)) => (self.eval(e, scope), e.span),
                (None, None) => {
                    let help = if owner.settings {
                        format!("write `{} = ..`", param.name.text)
                    } else {
                        format!("it takes {}", super::listed(names(params)))
                    };
                    let message = format!("`{}` needs `{}`", owner.name, param.name.text);
                    self.report(Diagnostic::new(Code::WrongArguments, owner.span, message).help(help));
                    return None;
                }
            };
            if value.is_error() {
                return None;
            }
            let value = accept(self, param, value, at).filter(|v| !v.is_error())?;
            scope.set(&*param.name.text, value.clone());
            bound.push((param.name.text.as_str().into(), value));
        }
        Some(bound)
    }

    /// The argument for each parameter: named ones by name, the others in order.
    fn place_args(&mut self, owner: &Owner, params: &[&'a ParamDecl], args: Vec<Arg<'a>>) -> Option<Vec<Option<Arg<'a>>>> {
        let mut slots: Vec<Option<Arg<'a>>> = vec![None; params.len()];
        for arg in args {
            let at = match arg.name {
                Some(label) => params.iter().position(|p| p.name.text == label.text).or_else(|| {
                    let (code, what) =
                        if owner.settings { (Code::UnknownSetting, "setting") } else { (Code::WrongArguments, "parameter") };
                    self.report(
                        Diagnostic::new(code, label.span, format!("`{}` has no {what} `{}`", owner.name, label.text))
                            .suggest(&label.text, names(params))
                            .note(format!("its {what}s are {}", super::listed(names(params)))),
                    );
                    None
                })?,
                None => slots.iter().position(Option::is_none).unwrap_or(params.len()),
            };
            let Some(slot) = slots.get_mut(at) else {
                let what = if owner.settings { "setting" } else { "argument" };
                let message = format!("`{}` takes {}", owner.name, super::module::count(params.len(), what));
                self.report(Diagnostic::new(Code::WrongArguments, arg.span, message).here("this one is too many"));
                return None;
            };
            if slot.is_some() {
                let span = arg.name.map_or(arg.span, |label| label.span);
                self.error(Code::WrongArguments, span, format!("`{}` is given twice", params[at].name.text));
                return None;
            }
            *slot = Some(arg);
        }
        Some(slots)
    }
}

fn names<'t>(params: &'t [&ParamDecl]) -> impl Iterator<Item = &'t str> {
    params.iter().map(|p| p.name.text.as_str())
}
