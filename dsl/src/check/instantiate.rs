//! Modules as they are declared: what goes into a net, what comes out of it, and its parameters.

use super::bind::Owner;
use super::module::Carries;
use super::module::Decl;
use super::module::Input;
use super::module::InputTy;
use super::module::Instance;
use super::module::Out;
use super::module::State;
use super::value::{Env, Mode, Named, Record, Value};
use super::{Ctx, Site, TRAIN};
use crate::ast::{self, Ident, Item, OutType, ParamDecl, Type, Typed};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{AxisId, Dtype, ModuleKind, Op};
use crate::source::Span;
use hashbrown::HashSet;
use std::rc::Rc;

impl<'a> Ctx<'a> {
    /// Finds a module's types and expands its block once on stand-ins, so that its parameters exist.
    pub(super) fn instantiate(&mut self, module: usize) {
        match self.draft.modules[module].state {
            State::Done => return,
            State::Open => {
                let (name, span) = (self.draft.modules[module].name.clone(), self.draft.modules[module].span);
                self.error(Code::SelfReference, span, format!("the declaration of `{name}` needs itself"));
                return;
            }
            State::Unseen => self.draft.modules[module].state = State::Open,
        }
        let sizes = std::mem::replace(&mut self.place.sizes, super::Sizes::Train);
        let (_, _) = self.at_site(Site::outside(TRAIN), |cx| match cx.draft.modules[module].decl {
            Decl::Net(net) => cx.instantiate_net(module, net),
            Decl::Memory(memory) => cx.instantiate_memory(module, memory),
            Decl::Param(decl, init) => cx.instantiate_param(module, decl, init),
        });
        self.place.sizes = sizes;
        self.draft.modules[module].state = State::Done;
    }

    fn instantiate_param(&mut self, module: usize, decl: &'a Typed, init: &'a ast::Expr) {
        let env = self.model_env(decl.name.span.file);
        self.place.instance = Some(Instance {
            path: String::new(),
            module,
            mode: Mode::Fast,
            ensemble: None,
            carries: Carries::None,
            touched: HashSet::new(),
        });
        self.param_value(decl, init, &decl.name.text.clone(), decl.name.span, &env);
    }

    fn instantiate_net(&mut self, module: usize, net: &'a ast::Net) {
        self.draft.modules[module].inputs = self.input_types(&net.params);
        if let Some(name) = &net.ensemble {
            match self.model_axis(&name.text) {
                Some(axis) => {
                    self.no_batch(&[axis], name.span);
                    self.draft.modules[module].ensemble = Some(axis);
                }
                None => self.unknown_axis(name, None),
            }
        }
        let env = self.model_env(net.name.span.file);
        let out = match &net.out {
            OutType::Shape(shape) => self.shape(shape, &env).map_or(Out::Unknown, Out::Axes),
            OutType::Fields(fields, _) => self.out_fields(fields, &env),
            OutType::Named(call) => self.out_named(call, &env),
        };
        self.draft.modules[module].out = out;
        let args = self.stand_ins(module, net.name.span);
        if let Some(args) = args {
            self.call_net(module, Mode::Fast, args, net.block.span);
        }
    }

    fn instantiate_memory(&mut self, module: usize, memory: &'a ast::Memory) {
        self.draft.modules[module].inputs = self.input_types(&memory.params);
        let Some(args) = self.stand_ins(module, memory.name.span) else { return };
        let Some(block) = self.block_named(&memory.block) else { return };
        let Some(args) = self.net_args(module, args, memory.block.span) else { return };
        let env = self.model_env(memory.name.span.file);
        self.place.instance = Some(Instance {
            path: memory.name.text.clone(),
            module,
            mode: Mode::Fast,
            ensemble: None,
            carries: Carries::Find(Vec::new()),
            touched: HashSet::new(),
        });
        // Axes with a size in the declaration are wanted; a bare letter is whatever the block returns.
        let wanted: Option<Vec<AxisId>> =
            if memory.out.axes.iter().all(|a| a.size.is_some() || self.dim_is_declared(&a.name.text)) {
                // A size in the declaration makes a dim of the model, as a bare letter does.
                memory.out.axes.iter().map(|a| self.axis_decl(a)).collect()
            } else {
                None
            };
        if !self.no_batch(wanted.as_deref().unwrap_or_default(), memory.out.span) {
            return;
        }
        let value = self.call_block(block, args, &memory.block.args, &env, wanted.clone(), memory.block.span);
        let instance = self.place.instance.take();
        let Some(Instance { carries: Carries::Find(found), .. }) = instance else { return };
        self.draft.modules[module].carries = found.iter().map(|(c, _)| *c).collect();
        let Some(out) = self.as_tensor(&value, memory.block.span) else { return };
        let have = self.draft.table.axes_of(out).to_vec();
        if have.len() != memory.out.axes.len() {
            let shown = self.draft.table.having(&have);
            self.report(
                Diagnostic::new(Code::AxesMismatch, memory.out.span, format!("`{}` returns {shown}", memory.block.name.text))
                    .help("name as many axes as it returns"),
            );
            return;
        }
        if wanted.is_some() {
            self.draft.modules[module].memory_out = have;
            return;
        }
        // The letter becomes a dim of the model, with the size that the block returns.
        let mut axes = Vec::new();
        for (letter, axis) in memory.out.axes.iter().zip(have) {
            let size = self.draft.table.size(axis).clone();
            axes.push(self.add_dim(&letter.name.text, size, false, letter.name.span));
        }
        self.draft.modules[module].memory_out = axes;
    }

    fn dim_is_declared(&self, name: &str) -> bool {
        self.draft.dims.get(name, super::Sizes::Train).is_some() || self.names.members.dims.iter().any(|b| b.name.text == name)
    }

    /// Types of a net's parameters; an untyped one is looked up by name.
    fn input_types(&mut self, params: &'a [ParamDecl]) -> Vec<Input> {
        params
            .iter()
            .map(|p| {
                let ty = match &p.ty {
                    Some(Type::Shape(shape)) => {
                        let env = self.model_env(shape.span.file);
                        self.shape(shape, &env).map_or(InputTy::Unknown, InputTy::Axes)
                    }
                    Some(Type::Name(name)) => self.type_named(name),
                    None => self.type_named(&p.name),
                };
                Input { name: p.name.text.clone(), ty }
            })
            .collect()
    }

    /// A type by name: a data field, the action, a latent, a latent's field, a memory.
    fn type_named(&mut self, name: &Ident) -> InputTy {
        let text = &name.text;
        let mut found: Vec<(InputTy, String)> = Vec::new();
        if let Some(i) = self.draft.inputs.iter().position(|i| i.name == *text) {
            found.push((InputTy::Axes(self.draft.inputs[i].axes.clone()), format!("the data field `{text}`")));
        }
        if let Some(i) = self.draft.latents.iter().position(|l| l.name == *text) {
            found.push((InputTy::Latent(i), format!("the latent `{text}`")));
        }
        for latent in &self.draft.latents {
            if let Some((_, axes)) = latent.fields.iter().find(|(n, _)| n == text) {
                found.push((InputTy::Axes(axes.clone()), format!("the field `{}.{text}`", latent.name)));
            }
        }
        if let Some(module) = self.memory_by_name(text) {
            found.push((InputTy::Memory(module), format!("the memory `{text}`")));
        }
        match found.len() {
            1 => found.remove(0).0,
            0 => {
                let mut known: Vec<String> = self.draft.inputs.iter().map(|i| i.name.clone()).collect();
                known.extend(self.draft.latents.iter().map(|l| l.name.clone()));
                known.extend(self.draft.latents.iter().flat_map(|l| l.fields.iter().map(|(n, _)| n.clone())));
                known.extend(self.draft.modules.iter().filter(|m| m.kind == ModuleKind::Memory).map(|m| m.name.clone()));
                self.report(
                    Diagnostic::new(Code::UnknownName, name.span, format!("nothing says what `{text}` is"))
                        .suggest(text, known.iter().map(String::as_str))
                        .or_help(format!("give its shape: `{text}: [..]`")),
                );
                InputTy::Unknown
            }
            _ => {
                let names: Vec<String> = found.into_iter().map(|(_, n)| n).collect();
                self.report(
                    Diagnostic::new(Code::AmbiguousName, name.span, format!("`{text}` could be {}", names.join(" or ")))
                        .help(format!("give its shape: `{text}: [..]`")),
                );
                InputTy::Unknown
            }
        }
    }

    fn out_fields(&mut self, fields: &'a [Typed], env: &Env<'a>) -> Out<'a> {
        let mut out = Vec::new();
        for field in fields {
            match &field.ty {
                Type::Shape(shape) => match self.shape(shape, env) {
                    Some(axes) => out.push((field.name.text.clone(), axes)),
                    None => return Out::Unknown,
                },
                Type::Name(name) => match self.type_named(name) {
                    InputTy::Axes(axes) => out.push((field.name.text.clone(), axes)),
                    _ => {
                        self.report(
                            Diagnostic::new(Code::WrongKind, name.span, "a field of a net's output is an array")
                                .help("write its shape"),
                        );
                        return Out::Unknown;
                    }
                },
            }
        }
        Out::Fields { latent: None, fields: out }
    }

    /// `-> z`, `-> a`, `-> twohot(..)`.
    fn out_named(&mut self, call: &'a ast::Call, env: &Env<'a>) -> Out<'a> {
        if call.args.is_empty() {
            if let Some(i) = self.draft.latents.iter().position(|l| l.name == call.name.text) {
                return Out::Fields { latent: Some(i), fields: self.draft.latents[i].fields.clone() };
            }
            if let Some(input) = self.draft.inputs.iter().find(|i| i.name == call.name.text) {
                return Out::Axes(input.axes.clone());
            }
        }
        match self.program.find(call.name.span.file, &call.name.text) {
            Some(Item::Dist(def)) => self.out_dist(def, call, env),
            _ => {
                let mut known: Vec<String> = self.draft.latents.iter().map(|l| l.name.clone()).collect();
                known.extend(self.draft.inputs.iter().map(|i| i.name.clone()));
                known.extend(
                    self.program
                        .names(call.name.span.file)
                        .filter(|n| matches!(self.program.find(call.name.span.file, n), Some(Item::Dist(_))))
                        .map(str::to_string),
                );
                self.report(
                    Diagnostic::new(
                        Code::UnknownName,
                        call.name.span,
                        format!("`{}` is neither a latent nor a distribution", call.name.text),
                    )
                    .suggest(&call.name.text, known.iter().map(String::as_str)),
                );
                Out::Unknown
            }
        }
    }

    /// A head's distribution: its settings, and the arrays that the net must compute for it.
    fn out_dist(&mut self, def: &'a ast::Dist, call: &'a ast::Call, env: &Env<'a>) -> Out<'a> {
        let raw: Vec<&'a ParamDecl> = def.params.iter().filter(|p| p.default.is_none()).collect();
        let scope = Env::root(def.span.file, super::value::Sees::Items);
        let mut args = call.args.as_slice();
        let mut letters: Named<'a> = Vec::new();
        // The event's shape comes first, where the distribution has one of any shape.
        let wants_event = def.event.as_ref().is_some_and(|s| !s.axes.is_empty());
        if wants_event {
            let event = args.first().and_then(|a| if let ast::ArgKind::Value(e) = &a.kind { Some(e) } else { None });
            let Some(e) = event else {
                self.report(
                    Diagnostic::new(
                        Code::WrongArguments,
                        call.span,
                        format!("`{}` needs the shape of what it describes", def.name.text),
                    )
                    .help(format!("write `{}([A], ..)`", def.name.text)),
                );
                return Out::Unknown;
            };
            let value = match e.as_name().and_then(|n| self.draft.inputs.iter().find(|i| i.name == n.text)) {
                Some(input) => Value::Axes(input.axes.clone().into()),
                None => self.eval(e, env),
            };
            let Some(axes) = self.as_axes(&value, e.span) else { return Out::Unknown };
            let Some(shape) = &def.event else { return Out::Unknown };
            let Some(bound) = self.match_letters(shape, &axes, e.span) else { return Out::Unknown };
            for (letter, value) in bound {
                scope.set(letter, value.clone());
                letters.push((letter.into(), value));
            }
            args = &args[1..];
        }
        let statics: Vec<&'a ParamDecl> = def.params.iter().filter(|p| p.default.is_some()).collect();
        let Some(args) = self.eval_args(args, env) else { return Out::Unknown };
        let owner = Owner { name: &def.name.text, settings: true, span: call.span };
        let Some(settings) = self.bind(&owner, &statics, args, &scope, |_, _, value, _| Some(value)) else {
            return Out::Unknown;
        };
        let mut shapes = Vec::new();
        for p in raw {
            let Some(Type::Shape(shape)) = &p.ty else {
                self.report(Diagnostic::new(
                    Code::WrongKind,
                    p.span,
                    format!("`{}` needs a shape to be a head's distribution", p.name.text),
                ));
                return Out::Unknown;
            };
            let Some(axes) = self.shape(shape, &scope) else { return Out::Unknown };
            shapes.push((p.name.text.clone(), axes));
        }
        // Letters that the shapes made (`[K = bins]`) belong to the head, so that all its calls share them.
        for (name, slot) in scope.0.vars.borrow().iter() {
            if let super::value::Slot::Value(v @ Value::Dim(_)) = slot
                && !letters.iter().any(|(n, _)| n == name)
                && !settings.iter().any(|(n, _)| n == name)
            {
                letters.push((name.clone(), v.clone()));
            }
        }
        Out::Dist { def, settings, letters, raw: shapes }
    }

    /// Stand-ins for a module's arguments.
    fn stand_ins(&mut self, module: usize, span: Span) -> Option<Vec<(Value<'a>, Span)>> {
        let inputs = self.draft.modules[module].inputs.clone();
        let mut args = Vec::new();
        for input in inputs {
            let value = match input.ty {
                InputTy::Axes(axes) => self.hole(axes, span),
                InputTy::Latent(i) => {
                    let fields = self.draft.latents[i].fields.clone();
                    let fields = fields.into_iter().map(|(n, axes)| (n, self.hole(axes, span))).collect();
                    Value::Record(Rc::new(Record { latent: Some(i), fields }))
                }
                InputTy::Memory(m) => {
                    let axes = self.draft.modules[m].memory_out.clone();
                    self.hole(axes, span)
                }
                InputTy::Unknown => return None,
            };
            args.push((value, span));
        }
        Some(args)
    }

    pub(super) fn hole(&mut self, axes: Vec<AxisId>, span: Span) -> Value<'a> {
        self.draft.holes += 1;
        Value::tensor(self.draft.table.push(Op::Hole(self.draft.holes), axes, Dtype::Real, span))
    }
}
