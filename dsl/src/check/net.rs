//! Calls of nets, heads and memories.

use super::Ctx;
use super::module::Carries;
use super::module::Decl;
use super::module::Input;
use super::module::InputTy;
use super::module::Instance;
use super::module::Out;
use super::module::count;
use super::value::{Env, MemoryValue, Mode, Named, Record, Value};
use crate::ast::{self, Item, OutType};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{AxisId, ExprId, Size};
use crate::source::Span;
use hashbrown::{HashMap, HashSet};
use std::rc::Rc;

impl<'a> Ctx<'a> {
    pub(super) fn block_named(&mut self, call: &'a ast::Call) -> Option<&'a ast::Block> {
        match self.program.find(call.name.span.file, &call.name.text) {
            Some(Item::Block(block)) => Some(block),
            other => {
                let d = if other.is_some() {
                    Diagnostic::new(Code::WrongKind, call.name.span, format!("`{}` is not a block", call.name.text))
                        .help("a net is built from a `block`, such as `mlp([256], silu)`")
                } else {
                    let file = call.name.span.file;
                    let blocks = self.items_named(file, |i| matches!(i, Item::Block(_)));
                    Diagnostic::new(Code::UnknownName, call.name.span, format!("there is no block `{}`", call.name.text))
                        .suggest(&call.name.text, blocks.iter().copied())
                };
                self.report(d);
                None
            }
        }
    }

    /// Checks arguments against a module's parameters; their arrays, laid side by side where the block reads one vector.
    pub(super) fn net_args(&mut self, module: usize, args: Vec<(Value<'a>, Span)>, span: Span) -> Option<Vec<Value<'a>>> {
        let inputs = self.draft.modules[module].inputs.clone();
        let name = self.draft.modules[module].name.clone();
        if args.len() != inputs.len() {
            let names: Vec<&str> = inputs.iter().map(|i| i.name.as_str()).collect();
            self.report(
                Diagnostic::new(
                    Code::WrongArguments,
                    span,
                    format!("`{name}` takes {} and gets {}", count(inputs.len(), "argument"), args.len()),
                )
                .note(format!("its parameters are {}", super::listed(names))),
            );
            return None;
        }
        let mut parts: Vec<Vec<(ExprId, Vec<AxisId>)>> = Vec::new();
        for (input, (arg, at)) in inputs.iter().zip(&args) {
            if arg.is_error() {
                return None;
            }
            parts.push(self.net_arg(&name, input, arg, *at)?);
        }
        let block = match self.draft.modules[module].decl {
            Decl::Net(net) => self.block_named(&net.block)?,
            Decl::Memory(memory) => self.block_named(&memory.block)?,
            Decl::Param(..) => return None,
        };
        let wants = block.params.iter().filter(|p| p.default.is_none()).count();
        if wants > 1 && wants == parts.len() {
            // One array for each of the block's own parameters.
            return Some(
                parts
                    .into_iter()
                    .map(|p| {
                        let (e, _) = self.as_vector(p, span);
                        Value::tensor(e)
                    })
                    .collect(),
            );
        }
        if wants != 1 {
            self.report(
                Diagnostic::new(
                    Code::WrongArguments,
                    span,
                    format!("`{}` reads {}, and `{name}` gives {}", block.name.text, count(wants, "array"), parts.len()),
                )
                .help("a block reads one vector, or as many arrays as the net has parameters"),
            );
            return None;
        }
        let (e, _) = self.as_vector(parts.into_iter().flatten().collect(), span);
        Some(vec![Value::tensor(e)])
    }

    /// An argument's arrays, each with its axes in the order of the declaration.
    fn net_arg(&mut self, net: &str, input: &Input, arg: &Value<'a>, span: Span) -> Option<Vec<(ExprId, Vec<AxisId>)>> {
        let wrong = |cx: &mut Self, have: String, want: String| {
            cx.report(Diagnostic::new(Code::AxesMismatch, span, format!("`{net}` wants `{}` {want}", input.name)).here(have));
            None
        };
        match &input.ty {
            InputTy::Unknown => None,
            InputTy::Latent(i) => {
                let fields = self.draft.latents[*i].fields.clone();
                let want = format!("to be a value of the latent `{}`", self.draft.latents[*i].name);
                let Value::Record(r) = arg else { return wrong(self, format!("this is {}", arg.describe()), want) };
                let r = r.clone();
                let mut parts = Vec::new();
                for (name, axes) in &fields {
                    let Some((_, v)) = r.fields.iter().find(|(n, _)| n == name) else {
                        return wrong(self, format!("this has no field `{name}`"), want);
                    };
                    let e = self.as_tensor(v, span)?;
                    if !self.same_axes(self.draft.table.axes_of(e), axes) {
                        let have = self.draft.table.having(self.draft.table.axes_of(e));
                        return wrong(self, format!("`{name}` of this has {have}"), want);
                    }
                    parts.push((e, axes.clone()));
                }
                Some(parts)
            }
            InputTy::Axes(axes) => {
                let e = self.as_tensor(arg, span)?;
                if !self.same_axes(self.draft.table.axes_of(e), axes) {
                    let (have, want) = (self.draft.table.having(self.draft.table.axes_of(e)), self.draft.table.having(axes));
                    return wrong(self, format!("this has {have}"), format!("with {want}"));
                }
                Some(vec![(e, axes.clone())])
            }
            InputTy::Memory(m) => {
                let axes = self.draft.modules[*m].memory_out.clone();
                let e = self.as_tensor(arg, span)?;
                if !self.same_axes(self.draft.table.axes_of(e), &axes) {
                    let (have, want) = (self.draft.table.having(self.draft.table.axes_of(e)), self.draft.table.having(&axes));
                    return wrong(self, format!("this has {have}"), format!("with {want}"));
                }
                Some(vec![(e, axes)])
            }
        }
    }

    pub(super) fn call_net(&mut self, module: usize, mode: Mode, args: Vec<(Value<'a>, Span)>, span: Span) -> Value<'a> {
        let Decl::Net(net) = self.draft.modules[module].decl else { return Value::Error };
        let out = self.draft.modules[module].out.clone();
        let raw: Vec<Vec<AxisId>> = match &out {
            Out::Axes(axes) => vec![axes.clone()],
            Out::Fields { fields, .. } => fields.iter().map(|(_, a)| a.clone()).collect(),
            Out::Dist { raw, .. } => raw.iter().map(|(_, a)| a.clone()).collect(),
            Out::Unknown => return Value::Error,
        };
        let tracked: Vec<Vec<ExprId>> = args.iter().map(|(a, _)| self.leaves_quietly(a)).collect();
        let Some(args) = self.net_args(module, args, span) else { return Value::Error };
        let Some(block) = self.block_named(&net.block) else { return Value::Error };
        let ensemble = match self.draft.modules[module].ensemble {
            Some(axis) => {
                let size = self.draft.table.size(axis).clone();
                let Some(n) = size.value() else {
                    self.unbound(&size, span);
                    return Value::Error;
                };
                let name = self.draft.table.name(axis).to_lowercase();
                Some((axis, self.draft.new_var(&name, span, Some((0, n)))))
            }
            None => None,
        };
        // The net's own scope: it must not see where it is called from, but for what it draws.
        let env = self.model_env(net.name.span.file);
        let instance =
            Instance { path: net.name.text.clone(), module, mode, ensemble, carries: Carries::None, touched: HashSet::new() };
        let outer = self.place.instance.replace(instance);
        let held = self.place.held_by.take();
        let expected = self.place.expected.take();
        let training = self.place.site.training;
        self.place.site.training = training && mode != Mode::Slow;
        if let Some((_, var)) = ensemble {
            self.place.site.active.push(var);
        }
        // All outputs in one vector, cut afterwards.
        let flat = if let [axes] = raw.as_slice()
            && let [axis] = axes[..]
        {
            axis
        } else {
            let size = raw.iter().fold(Size::known(0), |n, axes| n.add(&self.draft.table.total(axes)));
            self.draft.table.new_axis("out", size)
        };
        let value = self.call_block(block, args, &net.block.args, &env, Some(vec![flat]), net.block.span);
        let parts = self.cut(&value, &raw, flat, span).and_then(|parts| match &net.via {
            Some(via) => parts.into_iter().zip(&raw).map(|(part, axes)| self.via(via, part, axes, &env)).collect(),
            None => Some(parts),
        });
        if ensemble.is_some() {
            self.place.site.active.pop();
        }
        self.place.site.training = training;
        self.place.expected = expected;
        self.place.held_by = held;
        self.place.instance = outer;
        let Some(mut parts) = parts else { return Value::Error };
        if let Some((axis, var)) = ensemble {
            for part in &mut parts {
                *part = self.draft.table.each(var, axis, *part, span);
            }
        }
        let result = match out {
            Out::Axes(_) => return self.note_call(Value::tensor(parts[0]), tracked),
            Out::Fields { latent, fields } => {
                let fields = fields.into_iter().zip(parts).map(|((n, _), e)| (n, Value::tensor(e))).collect();
                Value::Record(Rc::new(Record { latent, fields }))
            }
            Out::Dist { def, settings, letters, raw } => {
                let mut args: Named<'a> = raw.into_iter().zip(parts).map(|((n, _), e)| (n.into(), Value::tensor(e))).collect();
                args.extend(settings);
                let at = if let OutType::Named(call) = &net.out { call.span } else { span };
                self.on_behalf(&def.name.text, at, |cx| cx.make_dist(def, args, letters, Some((module, mode))))
            }
            Out::Unknown => Value::Error,
        };
        match ensemble {
            Some((axis, _)) if !result.is_error() => Value::Ensemble(axis, Rc::new(result)),
            _ => result,
        }
    }

    /// Remembers what a scalar was computed from, to see which of two arguments a `grad` means.
    pub(super) fn note_call(&mut self, value: Value<'a>, args: Vec<Vec<ExprId>>) -> Value<'a> {
        if let Value::Tensor(t) = &value
            && args.len() > 1
        {
            self.gradients.call_args.entry(t.expr).or_insert(args);
        }
        value
    }

    /// The arrays of an argument, without a word where it has none.
    pub(super) fn leaves_quietly(&mut self, value: &Value<'a>) -> Vec<ExprId> {
        match value {
            Value::Tensor(t) => vec![t.expr],
            Value::Memory(m) => vec![m.out],
            Value::Record(r) => r.clone().fields.iter().flat_map(|(_, v)| self.leaves_quietly(v)).collect(),
            _ => Vec::new(),
        }
    }

    /// The parts of a net's output vector, each under the axes that are declared for it.
    fn cut(&mut self, value: &Value<'a>, raw: &[Vec<AxisId>], flat: AxisId, span: Span) -> Option<Vec<ExprId>> {
        let e = self.as_tensor(value, span)?;
        if let [axes] = raw {
            return Some(vec![if axes[..] == [flat] { e } else { self.draft.table.split(e, flat, axes.clone(), span) }]);
        }
        let mut start = Size::known(0);
        let mut parts = Vec::new();
        for axes in raw {
            let size = self.draft.table.total(axes);
            let into = self.draft.table.new_axis("part", size.clone());
            let piece = self.draft.table.slice(e, flat, start.clone(), into, span);
            parts.push(self.draft.table.split(piece, into, axes.clone(), span));
            start = start.add(&size);
        }
        Some(parts)
    }

    /// `via f`: f of an output array, which keeps its axes.
    fn via(&mut self, via: &'a ast::Call, part: ExprId, axes: &[AxisId], env: &Env<'a>) -> Option<ExprId> {
        let callee = self.lookup(&via.name, env);
        let Value::Callable(callable) = callee else {
            if !callee.is_error() {
                self.report(
                    Diagnostic::new(Code::NotCallable, via.name.span, format!("`{}` is {}", via.name.text, callee.describe()))
                        .help("`via` wants a function, such as `tanh`"),
                );
            }
            return None;
        };
        let mut args = self.eval_args(&via.args, env)?;
        args.insert(0, super::call::Arg { name: None, value: Value::tensor(part), span: via.span });
        let value = self.call(&callable, args, via.span);
        let e = self.as_tensor(&value, via.span)?;
        if self.same_axes(self.draft.table.axes_of(e), axes) {
            return Some(e);
        }
        let (have, want) = (self.draft.table.show(self.draft.table.axes_of(e)), self.draft.table.show(axes));
        self.report(
            Diagnostic::new(Code::AxesMismatch, via.span, format!("the net gives axes {want}"))
                .here(format!("this turns them into {have}"))
                .help("`via` is for functions that keep the axes, such as `tanh`; call any other where the net is called"),
        );
        None
    }

    /// `memory(z, a, carry)`.
    pub(super) fn call_memory(&mut self, module: usize, mut args: Vec<(Value<'a>, Span)>, span: Span) -> Value<'a> {
        let Decl::Memory(memory) = self.draft.modules[module].decl else { return Value::Error };
        // What is wrong with its declaration has been told.
        if self.draft.modules[module].memory_out.len() != memory.out.axes.len() {
            return Value::Error;
        }
        let want = self.draft.modules[module].inputs.len() + 1;
        if args.len() != want {
            let names: Vec<&str> = self.draft.modules[module].inputs.iter().map(|i| i.name.as_str()).collect();
            let d = Diagnostic::new(
                Code::WrongArguments,
                span,
                format!("`memory` takes {} and gets {}", count(want, "argument"), args.len()),
            )
            .note(format!("{}, and last what it remembers, as in `{}[t-1]`", super::listed(names), memory.name.text));
            self.report(d);
            return Value::Error;
        }
        let (last, at) = args.pop().unwrap_or((Value::Error, span));
        let carries = self.draft.modules[module].carries.clone();
        let given = match &last {
            Value::Memory(m) if m.module == module => m.carries.clone(),
            Value::Zeros | Value::Num(_) => carries.iter().map(|c| self.draft.carries[*c].init).collect(),
            Value::Error => return Value::Error,
            other => {
                let d = Diagnostic::new(
                    Code::WrongKind,
                    at,
                    format!("the last argument of `memory` is what it remembers, and this is {}", other.describe()),
                )
                .help(format!("write `{}[t-1]`, or `zeros` to start anew", memory.name.text));
                self.report(d);
                return Value::Error;
            }
        };
        let Some(args) = self.net_args(module, args, span) else { return Value::Error };
        let Some(block) = self.block_named(&memory.block) else { return Value::Error };
        let env = self.model_env(memory.name.span.file);
        let step = Carries::Step { given: carries.iter().copied().zip(given.iter().copied()).collect(), next: HashMap::new() };
        let instance = Instance {
            path: memory.name.text.clone(),
            module,
            mode: Mode::Fast,
            ensemble: None,
            carries: step,
            touched: HashSet::new(),
        };
        let outer = self.place.instance.replace(instance);
        let held = self.place.held_by.take();
        let expected = self.place.expected.take();
        let wanted = self.draft.modules[module].memory_out.clone();
        let value = self.call_block(block, args, &memory.block.args, &env, Some(wanted), memory.block.span);
        let instance = std::mem::replace(&mut self.place.instance, outer);
        self.place.held_by = held;
        self.place.expected = expected;
        let Some(Instance { carries: Carries::Step { next, .. }, .. }) = instance else { return Value::Error };
        let Some(out) = self.as_tensor(&value, span) else { return Value::Error };
        let carries = carries.iter().zip(given).map(|(c, old)| next.get(c).copied().unwrap_or(old)).collect();
        Value::Memory(Rc::new(MemoryValue { module, out, carries }))
    }
}
