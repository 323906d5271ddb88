//! Name resolution: the meaning of a name at its place.

use super::builtins::Builtin;
use super::value::{Callable, Env, Found, Value};
use super::{Ctx, item_value};
use crate::ast::Ident;
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{Dtype, Index, Op};
use crate::source::Span;

/// Functions of other libraries that the language does not have, and the way out.
const ELSEWHERE: [(&str, &str); 4] = [
    ("cumsum", "write the running sum as an equation: `c[k+1] = c[k] + x[k]`"),
    ("cumprod", "write the running product as an equation: `c[k+1] = c[k] * x[k]`"),
    ("erf", "the language has no `erf`: write an approximation as a `fn`, of `exp` and `tanh`"),
    ("lgamma", "the language has no `lgamma`: write an approximation as a `fn`, of `log`"),
];

impl<'a> Ctx<'a> {
    pub(super) fn lookup(&mut self, name: &Ident, env: &Env<'a>) -> Value<'a> {
        let text = name.text.as_str();
        match env.get(text) {
            Some(Found::Value(v)) => return v,
            Some(Found::Lazy(lazy, scope)) => return self.force(&lazy, &scope, name.span),
            None => {}
        }
        if env.sees_indices()
            && let Some((_, var)) = self.place.site.vars.iter().rev().find(|(n, _)| n == text)
        {
            return Value::Index(Index { terms: vec![(*var, 1)], offset: 0 });
        }
        if env.sees_model()
            && let Some(value) = self.model_name(text, name.span)
        {
            return value;
        }
        if let Some(value) = self.program.find(env.file(), text).and_then(item_value) {
            return value;
        }
        if let Some(value) = self.builtin_name(text) {
            return value;
        }
        self.unknown_name(name, env)
    }

    /// A small letter in a subscript that means nothing here.
    pub(super) fn unknown_index(&mut self, name: &Ident, env: &Env<'a>) {
        let known: Vec<String> = self.place.site.vars.iter().map(|(n, _)| n.clone()).collect();
        let d = Diagnostic::new(Code::UnknownIndex, name.span, format!("nothing binds the index `{}`", name.text));
        self.report(match known.as_slice() {
            _ if !env.sees_indices() => d.help("a function sees no indices: hand in the value at that step as an argument"),
            [] => d.help(format!("put it on the left, or fold over it: `sum {} in 0..N {{ .. }}`", name.text)),
            [one] => d.note(format!("the index here is `{one}`")),
            _ => d.note(format!("the indices here are {}", super::listed(known))),
        });
    }

    /// Whether a name means nothing at all here.
    pub(super) fn means_nothing(&mut self, name: &Ident, env: &Env<'a>) -> bool {
        !(env.get(&name.text).is_some()
            || env.sees_indices() && self.place.site.vars.iter().any(|(n, _)| *n == name.text)
            || env.sees_model() && self.model_name(&name.text, name.span).is_some()
            || self.program.find(env.file(), &name.text).and_then(item_value).is_some()
            || self.builtin_name(&name.text).is_some())
    }

    fn unknown_name(&mut self, name: &Ident, env: &Env<'a>) -> Value<'a> {
        // Declared, but looked for before there are any values: in a size or a setting.
        let m = &self.names.members;
        let later = m.inputs.iter().any(|t| t.name.text == name.text)
            || m.action.is_some_and(|(t, _)| t.name.text == name.text)
            || m.equations.iter().any(|e| e.place.name.text == name.text)
            || m.nets.iter().any(|n| n.name.text == name.text);
        if later && env.sees_model() {
            return self.error(
                Code::NotStatic,
                name.span,
                format!("this must be known when compiling, and `{}` is not", name.text),
            );
        }
        let mut known = env.names();
        if env.sees_model() {
            known.extend(self.model_names());
        }
        known.extend(self.place.site.vars.iter().map(|(n, _)| n.clone()));
        known.extend(self.program.names(env.file()).map(str::to_string));
        known.extend(Builtin::ALL.iter().map(|b| b.name().to_string()));
        let d = Diagnostic::new(Code::UnknownName, name.span, format!("there is nothing called `{}` here", name.text));
        let mut d = match ELSEWHERE.iter().find(|(word, _)| *word == name.text) {
            Some((_, instead)) => d.help(*instead),
            None => d.suggest(&name.text, known.iter().map(String::as_str)),
        };
        if d.helps.is_empty() && matches!(name.text.as_str(), "i" | "j" | "k" | "l" | "n" | "t") {
            d = d.help(format!("an index needs a range: `for {} in 0..T`, or a subscript on the left", name.text));
        }
        self.report(d);
        Value::Error
    }

    /// The meaning of a name in the model itself.
    fn model_name(&mut self, text: &str, span: Span) -> Option<Value<'a>> {
        if self.names.clashes.contains(text) {
            return Some(Value::Error);
        }
        let value = self.model_value(text, span)?;
        if !self.names.used.contains(text) {
            self.names.used.insert(text.to_string());
        }
        Some(value)
    }

    fn model_value(&mut self, text: &str, span: Span) -> Option<Value<'a>> {
        if let Some(f) = self.family_named(text) {
            return Some(Value::Family(f));
        }
        if let Some(i) = self.draft.latents.iter().position(|l| l.name == text) {
            return Some(Value::Latent(i));
        }
        if let Some(axis) = self.model_axis(text) {
            return Some(Value::Dim(axis));
        }
        if let Some(value) = self.constant(text) {
            return Some(value);
        }
        if let Some(f) = self.names.members.fns.get(text) {
            return Some(Value::Callable(Callable::Fn(f)));
        }
        if let Some(module) = self.module_named(text) {
            return Some(self.module_value(module, span));
        }
        if let Some(i) = self.names.members.schedules.iter().position(|s| s.name.text == text) {
            return Some(Value::tensor(self.draft.table.push(Op::Schedule(i), Vec::new(), Dtype::Real, span)));
        }
        if let Some(i) = self.names.members.runnings.iter().position(|(n, _, _)| n.text == text) {
            let Some(axes) = self.draft.running.get(i).map(|r| r.axes.clone()) else {
                let message = format!("the start of a running value cannot read the running value `{text}`");
                return Some(self.error(Code::NotStatic, span, message));
            };
            return Some(Value::tensor(self.draft.table.push(Op::Running(i), axes, Dtype::Real, span)));
        }
        if let Some(planner) = self.names.members.planners.iter().position(|p| p.name.text == text) {
            return Some(Value::Callable(Callable::Planner { planner }));
        }
        match text {
            "slow" => Some(Value::Word("slow")),
            "memory" => Some(Value::Word("memory")),
            _ => None,
        }
    }

    fn model_names(&self) -> Vec<String> {
        let m = &self.names.members;
        let mut names: Vec<String> = self.systems[self.place.site.system.min(super::EVALUATE)].names();
        names.extend(self.draft.dims.names().map(str::to_string));
        names.extend(m.consts.iter().map(|b| b.name.text.clone()));
        names.extend(m.fns.keys().cloned());
        names.extend(self.draft.modules.iter().map(|x| x.name.clone()));
        names.extend(m.schedules.iter().map(|b| b.name.text.clone()));
        names.extend(m.runnings.iter().map(|(n, _, _)| n.text.clone()));
        names.extend(m.planners.iter().map(|p| p.name.text.clone()));
        names.extend(self.draft.inputs.iter().map(|i| i.name.clone()));
        names.extend(self.draft.latents.iter().map(|l| l.name.clone()));
        names
    }
}
