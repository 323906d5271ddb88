//! Blocks: arguments under axes of their own, carries, the shape they return.

use super::Ctx;
use super::bind::Owner;
use super::call::Arg;
use super::module::{Carries, Instance};
use super::value::{Env, Found, Sees, Value};
use crate::ast::{self, Ident, ParamDecl, Type};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, AxisId};
use crate::source::Span;

impl<'a> Ctx<'a> {
    /// A block inside another block: its path goes on from the `let` that holds it.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn nested_block(
        &mut self,
        block: &'a ast::Block,
        tensors: Vec<Value<'a>>,
        rest: Vec<Arg<'a>>,
        env: &Env<'a>,
        expected: Option<Vec<AxisId>>,
        segment: Option<&'a str>,
        span: Span,
    ) -> Value<'a> {
        let Some(path) = self.place.instance.as_ref().map(|i| i.path.clone()) else { return Value::Error };
        if let (Some(i), Some(segment)) = (&mut self.place.instance, &segment) {
            i.path = format!("{path}.{segment}");
        }
        let value = self.expand_block(block, tensors, rest, env, expected, span);
        if let Some(i) = &mut self.place.instance {
            i.path = path;
        }
        self.place.held_by = segment;
        value
    }

    /// A net's or memory's block: arguments as written in the declaration fill the parameters behind the first.
    pub(super) fn call_block(
        &mut self,
        block: &'a ast::Block,
        tensors: Vec<Value<'a>>,
        settings: &'a [ast::Arg],
        env: &Env<'a>,
        expected: Option<Vec<AxisId>>,
        span: Span,
    ) -> Value<'a> {
        let Some(rest) = self.eval_args(settings, env) else { return Value::Error };
        self.expand_block(block, tensors, rest, &Env::root(block.span.file, Sees::Items), expected, span)
    }

    fn expand_block(
        &mut self,
        block: &'a ast::Block,
        tensors: Vec<Value<'a>>,
        rest: Vec<Arg<'a>>,
        env: &Env<'a>,
        expected: Option<Vec<AxisId>>,
        span: Span,
    ) -> Value<'a> {
        if !self.enter(&block.name.text, span) {
            return Value::Error;
        }
        let value = self.block_body(block, tensors, rest, &env.child(), expected, span);
        self.sink.calls.pop();
        value
    }

    fn block_body(
        &mut self,
        block: &'a ast::Block,
        tensors: Vec<Value<'a>>,
        rest: Vec<Arg<'a>>,
        env: &Env<'a>,
        expected: Option<Vec<AxisId>>,
        span: Span,
    ) -> Value<'a> {
        let name = &block.name.text;
        let raw: Vec<&'a ParamDecl> = block.params.iter().filter(|p| p.default.is_none()).collect();
        let statics: Vec<&'a ParamDecl> = block.params.iter().filter(|p| p.default.is_some()).collect();
        if raw.len() != tensors.len() {
            self.report(
                Diagnostic::new(
                    Code::WrongArguments,
                    span,
                    format!("`{name}` reads {} and gets {}", super::module::count(raw.len(), "array"), tensors.len()),
                )
                .note(format!("they are {}", super::listed(raw.iter().map(|p| p.name.text.as_str())))),
            );
            return Value::Error;
        }
        // A block's letters are its own: its arguments come in under fresh axes and go out under the caller's.
        let mut letters: Vec<(&'a str, AxisId, AxisId)> = Vec::new();
        for (param, value) in raw.iter().zip(tensors) {
            let Some(value) = self.block_arg(name, param, value, &mut letters, env, span) else { return Value::Error };
            // A gradient in the block is taken by its own parameter.
            let own = self.targets_of(&block.body).contains(&*param.name.text);
            let value = if own { self.aliased(&value, span) } else { value };
            env.set(&*param.name.text, value);
        }
        let owner = Owner { name, settings: true, span };
        if self.bind(&owner, &statics, rest, env, |_, _, value, _| Some(value)).is_none() {
            return Value::Error;
        }
        // Letters that the carries make (`carry h: [D = width]`) may be those of the output.
        for axis in block.carries.iter().flat_map(|c| &c.shape.axes) {
            if let Some(e) = &axis.size
                && self.local_axis(&axis.name, e, env).is_none()
            {
                return Value::Error;
            }
        }
        let Some((out, back)) = self.block_out(block, &letters, expected, env, span) else { return Value::Error };
        if self.open_carries(block, env).is_none() {
            return Value::Error;
        }
        let value = self.run(&block.body, env, &block.name);
        if value.is_error() {
            return Value::Error;
        }
        let Some(e) = self.as_tensor(&value, span) else { return Value::Error };
        if !self.same_axes(self.draft.table.axes_of(e), &out) {
            let (have, want) = (self.draft.table.having(self.draft.table.axes_of(e)), self.draft.table.having(&out));
            let d = Diagnostic::new(Code::AxesMismatch, block.name.span, format!("`{name}` returns {have}"));
            self.report(match &block.out {
                Some(shape) => d.label(shape.span, format!("but says {want}")),
                None => d.note(format!("it should return {want}")),
            });
            return Value::Error;
        }
        let mut e = e;
        for (local, outer) in back {
            e = self.draft.table.split(e, local, outer, span);
        }
        Value::tensor(e)
    }

    /// An array argument of a block, under the block's own axes.
    fn block_arg(
        &mut self,
        name: &str,
        param: &'a ParamDecl,
        value: Value<'a>,
        letters: &mut Vec<(&'a str, AxisId, AxisId)>,
        env: &Env<'a>,
        span: Span,
    ) -> Option<Value<'a>> {
        let Some(Type::Shape(shape)) = &param.ty else {
            return Some(value);
        };
        let leaves = self.leaves(&value, span)?;
        let (mut e, have) = match leaves.as_slice() {
            [one] if self.draft.table.axes_of(*one).len() == shape.axes.len() => (*one, self.draft.table.axes_of(*one).to_vec()),
            _ if shape.axes.len() == 1 => {
                let parts = leaves.into_iter().map(|e| (e, self.draft.table.axes_of(e).to_vec())).collect();
                let (e, axis) = self.as_vector(parts, span);
                (e, vec![axis])
            }
            _ => {
                let shown = leaves.first().map(|e| self.draft.table.having(self.draft.table.axes_of(*e))).unwrap_or_default();
                self.report(
                    Diagnostic::new(
                        Code::AxesMismatch,
                        span,
                        format!("`{name}` wants {} with {}", param.name.text, super::module::count(shape.axes.len(), "axis")),
                    )
                    .here(format!("this has {shown}")),
                );
                return None;
            }
        };
        for (axis, outer) in shape.axes.iter().zip(have) {
            let letter = axis.name.text.as_str();
            let local = match letters.iter().find(|(n, _, _)| *n == letter) {
                Some((_, local, known)) if *known == outer => *local,
                Some((_, _, known)) => {
                    let (one, other) = (self.draft.table.show_axis(*known), self.draft.table.show_axis(outer));
                    self.report(
                        Diagnostic::new(Code::AxesMismatch, span, format!("`{name}` uses `{letter}` for one axis, and gets two"))
                            .here(format!("{one} and {other}")),
                    );
                    return None;
                }
                None => {
                    let size = self.draft.table.size(outer).clone();
                    let local = self.draft.table.new_axis(letter, size);
                    letters.push((letter, local, outer));
                    env.set(letter, Value::Dim(local));
                    local
                }
            };
            e = self.draft.table.rename(e, outer, local, span);
        }
        Some(Value::tensor(e))
    }

    /// The block's output axes, and what each becomes outside.
    #[allow(clippy::type_complexity)]
    fn block_out(
        &mut self,
        block: &'a ast::Block,
        letters: &[(&'a str, AxisId, AxisId)],
        expected: Option<Vec<AxisId>>,
        env: &Env<'a>,
        span: Span,
    ) -> Option<(Vec<AxisId>, Vec<(AxisId, Vec<AxisId>)>)> {
        let name = &block.name.text;
        let Some(shape) = &block.out else {
            return Some((Vec::new(), Vec::new()));
        };
        let mut out = Vec::new();
        let mut back = Vec::new();
        // One open letter may stand for any shape; several stand for as many axes.
        let one = shape.axes.len() == 1;
        if let Some(expected) = &expected
            && !one
            && expected.len() != shape.axes.len()
        {
            let shown = self.draft.table.show(expected);
            self.report(
                Diagnostic::new(
                    Code::AxesMismatch,
                    span,
                    format!("`{name}` returns {}", super::module::count(shape.axes.len(), "axis")),
                )
                .here(format!("{shown} is wanted here")),
            );
            return None;
        }
        for (i, axis) in shape.axes.iter().enumerate() {
            let want: Option<Vec<AxisId>> = expected.as_ref().map(|e| if one { e.clone() } else { vec![e[i]] });
            let letter = axis.name.text.as_str();
            let (local, own) = match (&axis.size, letters.iter().find(|(n, _, _)| *n == letter)) {
                (None, Some((_, local, outer))) => (*local, Some(vec![*outer])),
                (Some(e), _) => (self.local_axis(&axis.name, e, env)?, None),
                (None, None) => {
                    if let Some(Found::Value(Value::Dim(made))) = env.get_here(letter) {
                        (made, None)
                    } else {
                        let Some(want) = &want else {
                            self.report(
                                Diagnostic::new(
                                    Code::OutputUnknown,
                                    span,
                                    format!("nothing says what shape `{name}` should return"),
                                )
                                .help(format!("write it behind the call: `{name}(..) -> [D]`")),
                            );
                            return None;
                        };
                        let size = self.draft.table.total(want);
                        let local = self.draft.table.new_axis(letter, size);
                        env.set(letter, Value::Dim(local));
                        (local, None)
                    }
                }
            };
            let outer = match (want, own) {
                (Some(want), _) => {
                    let (have, total) = (self.draft.table.size(local).clone(), self.draft.table.total(&want));
                    if have != total {
                        let shown = self.draft.table.show(&want);
                        self.report(
                            Diagnostic::new(Code::SizeMismatch, span, format!("`{name}` returns {have} entries"))
                                .here(format!("{shown} has {total}"))
                                .help("change its width, or the shape that is wanted"),
                        );
                        return None;
                    }
                    want
                }
                (None, Some(own)) => own,
                (None, None) => vec![local],
            };
            if outer != [local] {
                back.push((local, outer));
            }
            out.push(local);
        }
        Some((out, back))
    }

    fn open_carries(&mut self, block: &'a ast::Block, env: &Env<'a>) -> Option<()> {
        for carry in &block.carries {
            let axes = self.shape(&carry.shape, env)?;
            let path = match &self.place.instance {
                Some(i) => format!("{}.{}", i.path, carry.name.text),
                None => return None,
            };
            let known = self.draft.carry_index.get(&path).copied();
            let value = match self.place.instance.as_ref().map(|i| &i.carries) {
                Some(Carries::Step { given, .. }) => {
                    let id = known?;
                    let stored = self.draft.carries[id].axes.clone();
                    let e = *given.get(&id)?;
                    self.draft.table.rename_all(e, &stored, &axes, carry.span)
                }
                Some(Carries::Find(_)) => {
                    let value = self.eval(&carry.init, env);
                    let e = self.as_tensor(&value, carry.init.span)?;
                    if self.draft.table.axes_of(e).iter().any(|a| !axes.contains(a)) {
                        let (have, want) = (self.draft.table.having(self.draft.table.axes_of(e)), self.draft.table.having(&axes));
                        self.report(
                            Diagnostic::new(Code::AxesMismatch, carry.init.span, format!("the carry has {want}"))
                                .here(format!("its start has {have}")),
                        );
                        return None;
                    }
                    let init = self.draft.table.broadcast(e, &axes, carry.span);
                    let id = self.draft.new_carry(hir::Carry { path, axes: axes.clone(), init });
                    self.draft.holes += 1;
                    let e = self.draft.table.push(hir::Op::Hole(self.draft.holes), axes.clone(), hir::Dtype::Real, carry.span);
                    if let Some(Instance { carries: Carries::Find(found), .. }) = &mut self.place.instance {
                        found.push((id, e));
                    }
                    e
                }
                _ => {
                    let module =
                        self.place.instance.as_ref().map(|i| self.draft.modules[i.module].name.clone()).unwrap_or_default();
                    self.report(
                        Diagnostic::new(
                            Code::WrongKind,
                            block.name.span,
                            format!("`{}` has a carry, and `{module}` has none to give", block.name.text),
                        )
                        .help("use it as a memory: `memory m(z, a) -> [M] = ..`"),
                    );
                    return None;
                }
            };
            env.set(&*carry.name.text, Value::tensor(value));
            // The axes and the place of the carry, for `next`.
            env.set(format!("axes of {}", carry.name.text), Value::Axes(axes.into()));
        }
        Some(())
    }

    pub(super) fn set_next(&mut self, name: &'a Ident, value: Value<'a>, span: Span, env: &Env<'a>) {
        if value.is_error() {
            env.set(format!("next {}", name.text), Value::Error);
            return;
        }
        let axes = match env.get(&format!("axes of {}", name.text)) {
            Some(Found::Value(Value::Axes(axes))) => axes,
            _ => {
                self.report(
                    Diagnostic::new(Code::UnknownName, name.span, format!("there is no carry `{}`", name.text))
                        .help(format!("declare it: `carry {}: [..] = zeros([..])`", name.text)),
                );
                return;
            }
        };
        let Some(e) = self.as_tensor(&value, span) else { return };
        if self.draft.table.axes_of(e).iter().any(|a| !axes.contains(a))
            || (self.draft.table.axes_of(e).len() != axes.len() && !matches!(value, Value::Num(_) | Value::Zeros))
        {
            let (have, want) = (self.draft.table.having(self.draft.table.axes_of(e)), self.draft.table.having(&axes));
            self.report(
                Diagnostic::new(Code::AxesMismatch, span, format!("the carry `{}` has {want}", name.text))
                    .here(format!("this has {have}")),
            );
            env.set(format!("next {}", name.text), Value::Error);
            return;
        }
        let e = self.draft.table.broadcast(e, &axes, span);
        env.set(format!("next {}", name.text), Value::tensor(e));
        // Slots of an update rule have no instance; their new values are read from the scope.
        let Some(instance) = &self.place.instance else { return };
        let path = format!("{}.{}", instance.path, name.text);
        let Some(&id) = self.draft.carry_index.get(&path) else { return };
        let stored = self.draft.carries[id].axes.clone();
        let e = self.draft.table.rename_all(e, &axes, &stored, span);
        if let Some(Instance { carries: Carries::Step { next, .. }, .. }) = &mut self.place.instance {
            next.entry(id).or_insert(e);
        }
    }

    pub(super) fn next_value(&mut self, name: &'a Ident, env: &Env<'a>) -> Value<'a> {
        match env.get(&format!("next {}", name.text)) {
            Some(Found::Value(v)) => v,
            _ => {
                self.report(
                    Diagnostic::new(Code::UnknownName, name.span, format!("`{}` has no new value yet", name.text))
                        .help(format!("write `next {} = ..` before this line", name.text)),
                );
                Value::Error
            }
        }
    }
}
