//! Nets, heads, memories and parameters: blocks instantiated once, which every call shares.

use hashbrown::{HashMap, HashSet};
use std::rc::Rc;

use super::bind::Owner;
use super::value::{Callable, Env, MemoryValue, Mode, Named, Record, Value};
use super::{Ctx, DrawFrom, Site, TRAIN};
use crate::ast::{self, Ident, Item, OutType, ParamDecl, Type, Typed};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, AxisId, Dtype, ExprId, Index, ModuleKind, Op, ParamId, Size, SlowCopy, VarId};
use crate::source::Span;

pub(super) struct ModuleBuild<'a> {
    pub name: String,
    pub kind: ModuleKind,
    pub decl: Decl<'a>,
    state: State,
    inputs: Vec<Input>,
    out: Out<'a>,
    pub params: Vec<ParamId>,
    /// A memory's carries, and the axes of its output.
    pub carries: Vec<usize>,
    pub memory_out: Vec<AxisId>,
    pub ensemble: Option<AxisId>,
    pub slow: Option<SlowCopy>,
    pub used: bool,
    pub span: Span,
}

#[derive(Clone, Copy)]
pub(super) enum Decl<'a> {
    Net(&'a ast::Net),
    Memory(&'a ast::Memory),
    Param(&'a Typed, &'a ast::Expr),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unseen,
    Open,
    Done,
}

/// What a net's parameter takes.
#[derive(Clone)]
struct Input {
    name: String,
    ty: InputTy,
}

#[derive(Clone)]
enum InputTy {
    Axes(Vec<AxisId>),
    Latent(usize),
    Memory(usize),
    /// Reported already.
    Unknown,
}

/// What a net gives.
#[derive(Clone)]
enum Out<'a> {
    Axes(Vec<AxisId>),
    Fields { latent: Option<usize>, fields: Vec<(String, Vec<AxisId>)> },
    Dist { def: &'a ast::Dist, settings: Named<'a>, letters: Named<'a>, raw: Vec<(String, Vec<AxisId>)> },
    Unknown,
}

/// A block being expanded on behalf of a module.
pub(super) struct Instance {
    pub path: String,
    pub module: usize,
    pub mode: Mode,
    /// The ensemble's axis and the variable that runs over it.
    pub ensemble: Option<(AxisId, VarId)>,
    pub carries: Carries,
    /// Parameters seen in this expansion: a second one of the same path is a mistake.
    pub touched: HashSet<String>,
}

pub(super) enum Carries {
    /// A net: carries have no place to go.
    None,
    /// The first expansion of a memory, which finds its carries.
    Find(Vec<(usize, ExprId)>),
    /// Given values by carry, and the new ones.
    Step { given: HashMap<usize, ExprId>, next: HashMap<usize, ExprId> },
}

impl<'a> Ctx<'a> {
    pub(super) fn declare_modules(&mut self) {
        let mut all: Vec<(String, ModuleKind, Decl<'a>, Span)> = Vec::new();
        for net in &self.members.nets {
            let kind = if net.head { ModuleKind::Head } else { ModuleKind::Net };
            all.push((net.name.text.clone(), kind, Decl::Net(net), net.name.span));
        }
        for memory in &self.members.memories {
            all.push((memory.name.text.clone(), ModuleKind::Memory, Decl::Memory(memory), memory.name.span));
        }
        for (decl, init) in &self.members.params {
            all.push((decl.name.text.clone(), ModuleKind::Param, Decl::Param(decl, init), decl.name.span));
        }
        // In the order of the text, so that parameters are listed as they are written.
        all.sort_by_key(|(_, _, _, span)| (span.file, span.lo));
        let order: Vec<String> = self.member_order();
        all.sort_by_key(|(name, ..)| order.iter().position(|n| n == name).unwrap_or(usize::MAX));
        for (name, kind, decl, span) in all {
            self.modules.push(ModuleBuild {
                name,
                kind,
                decl,
                state: State::Unseen,
                inputs: Vec::new(),
                out: Out::Unknown,
                params: Vec::new(),
                carries: Vec::new(),
                memory_out: Vec::new(),
                ensemble: None,
                slow: None,
                used: false,
                span,
            });
        }
        self.declare_slow();
        for module in 0..self.modules.len() {
            self.instantiate(module);
        }
    }

    fn member_order(&self) -> Vec<String> {
        self.flat
            .members
            .iter()
            .filter_map(|m| match &m.kind {
                ast::MemberKind::Net(n) => Some(n.name.text.clone()),
                ast::MemberKind::Memory(m) => Some(m.name.text.clone()),
                ast::MemberKind::Param { decl, .. } => Some(decl.name.text.clone()),
                _ => None,
            })
            .collect()
    }

    fn declare_slow(&mut self) {
        for (name, setting) in self.members.slows.clone() {
            let Some(module) = self.module_named(&name.text) else {
                let names: Vec<String> = self.modules.iter().map(|m| m.name.clone()).collect();
                self.report(
                    Diagnostic::new(Code::UnknownName, name.span, format!("there is no net `{}`", name.text))
                        .suggest(&name.text, names.iter().map(String::as_str)),
                );
                continue;
            };
            if !matches!(self.modules[module].kind, ModuleKind::Net | ModuleKind::Head) {
                let kind = if self.modules[module].kind == ModuleKind::Param { "a param" } else { "a memory" };
                self.report(
                    Diagnostic::new(
                        Code::WrongKind,
                        name.span,
                        format!("only nets and heads have slow copies, and this is {kind}"),
                    )
                    .help("a slow copy is called: `slow.value(z)`"),
                );
                continue;
            }
            if setting.name.text != "tau" {
                self.report(
                    Diagnostic::new(
                        Code::UnknownSetting,
                        setting.name.span,
                        format!("a slow copy has no setting `{}`", setting.name.text),
                    )
                    .help("write `with tau = 0.01`"),
                );
                continue;
            }
            let env = self.model_env(setting.value.span.file);
            let value = self.eval(&setting.value, &env);
            let Some(tau) = self.as_number(&value, setting.value.span) else { continue };
            if !(0.0..=1.0).contains(&tau) {
                self.report(
                    Diagnostic::new(Code::BadSetting, setting.value.span, format!("`tau` cannot be {tau}"))
                        .help("it is the share of the fast copy in each update: between 0 and 1, mostly 0.01"),
                );
            }
            self.modules[module].slow = Some(SlowCopy { tau });
        }
    }

    pub(super) fn module_named(&self, name: &str) -> Option<usize> {
        self.modules.iter().position(|m| m.name == name)
    }

    /// A memory's module, its carries found.
    pub(super) fn memory_by_name(&mut self, name: &str) -> Option<usize> {
        let module = self.modules.iter().position(|m| m.kind == ModuleKind::Memory && m.name == name)?;
        self.instantiate(module);
        Some(module)
    }

    pub(super) fn memory_reset(&self, module: usize) -> Option<&'a ast::Expr> {
        match self.modules[module].decl {
            Decl::Memory(m) => m.reset.as_ref(),
            _ => None,
        }
    }

    /// Whether a name is the output axis of a memory; if so, the memory is looked at and the axis made.
    pub(super) fn declare_memory_axis(&mut self, name: &str) -> bool {
        let found = self.modules.iter().position(|m| match m.decl {
            Decl::Memory(m) => m.out.axes.iter().any(|a| a.name.text == name),
            _ => false,
        });
        match found {
            Some(module) if self.modules[module].state == State::Unseen => {
                self.instantiate(module);
                true
            }
            Some(module) => self.modules[module].state == State::Done,
            None => false,
        }
    }

    /// What a module's name means in an expression.
    pub(super) fn module_value(&mut self, module: usize, span: Span) -> Value<'a> {
        self.modules[module].used = true;
        self.instantiate(module);
        match self.modules[module].kind {
            ModuleKind::Param => {
                let Some(id) = self.modules[module].params.first().copied() else { return Value::Error };
                let axes = self.params[id.0 as usize].axes.clone();
                Value::tensor(self.table.push(Op::Param(id), axes, Dtype::Real, span))
            }
            ModuleKind::Memory => Value::Callable(Callable::Memory { module }),
            ModuleKind::Net | ModuleKind::Head => Value::Callable(Callable::Net { module, mode: Mode::Fast }),
        }
    }

    /// `slow.f`.
    pub(super) fn slow(&mut self, name: &Ident) -> Value<'a> {
        match self.module_named(&name.text) {
            Some(module) if self.modules[module].slow.is_some() => {
                self.used.insert(format!("slow.{}", name.text));
                self.modules[module].used = true;
                self.instantiate(module);
                Value::Callable(Callable::Net { module, mode: Mode::Slow })
            }
            found => {
                let slow: Vec<String> = self.modules.iter().filter(|m| m.slow.is_some()).map(|m| m.name.clone()).collect();
                let d = Diagnostic::new(Code::UnknownName, name.span, format!("`{}` has no slow copy", name.text))
                    .suggest(&name.text, slow.iter().map(String::as_str));
                self.report(if found.is_some() {
                    d.help(format!("declare it: `slow {} with tau = 0.01`", name.text))
                } else {
                    d
                });
                Value::Error
            }
        }
    }

    /// `memory` where there is one, `memory.m` where there are several.
    /// `memory(..)`: the model's only one, or the one whose value is its last argument.
    pub(super) fn memory_called(&mut self, args: &'a [ast::Arg], env: &Env<'a>, span: Span) -> Value<'a> {
        let several = self.modules.iter().filter(|m| m.kind == ModuleKind::Memory).count() > 1;
        if let Some(ast::Arg { kind: ast::ArgKind::Value(last), .. }) = args.last()
            && several
            && let Value::Memory(m) = self.eval(last, env)
        {
            self.modules[m.module].used = true;
            return Value::Callable(Callable::Memory { module: m.module });
        }
        self.memory_named(None, span)
    }

    pub(super) fn memory_named(&mut self, name: Option<&Ident>, span: Span) -> Value<'a> {
        let memories: Vec<usize> = (0..self.modules.len()).filter(|m| self.modules[*m].kind == ModuleKind::Memory).collect();
        let found = match name {
            Some(name) => memories.iter().copied().find(|m| self.modules[*m].name == name.text),
            None if memories.len() == 1 => memories.first().copied(),
            None => None,
        };
        match found {
            Some(module) => {
                self.modules[module].used = true;
                self.instantiate(module);
                Value::Callable(Callable::Memory { module })
            }
            None => {
                let names: Vec<String> = memories.iter().map(|m| self.modules[*m].name.clone()).collect();
                let d = match (name, names.as_slice()) {
                    (_, []) => Diagnostic::new(Code::UnknownName, span, "this model has no memory")
                        .help("declare one: `memory m(z, a) -> [M] = gru(width = 64) reset first`"),
                    (Some(name), _) => {
                        Diagnostic::new(Code::UnknownName, name.span, format!("there is no memory `{}`", name.text))
                            .suggest(&name.text, names.iter().map(String::as_str))
                    }
                    (None, _) => Diagnostic::new(Code::AmbiguousName, span, "this model has several memories")
                        .note("what it remembers, its last argument, does not say which is meant")
                        .help(format!(
                            "say it: {}",
                            names.iter().map(|n| format!("`memory.{n}(..)`")).collect::<Vec<_>>().join(" or ")
                        )),
                };
                self.report(d);
                Value::Error
            }
        }
    }

    // ---- instantiation

    /// Finds a module's types and expands its block once on stand-ins, so that its parameters exist.
    pub(super) fn instantiate(&mut self, module: usize) {
        match self.modules[module].state {
            State::Done => return,
            State::Open => {
                let (name, span) = (self.modules[module].name.clone(), self.modules[module].span);
                self.error(Code::SelfReference, span, format!("the declaration of `{name}` needs itself"));
                return;
            }
            State::Unseen => self.modules[module].state = State::Open,
        }
        let sizes = std::mem::replace(&mut self.sizes, super::Sizes::Train);
        let (_, _) = self.at_site(Site::outside(TRAIN), |cx| match cx.modules[module].decl {
            Decl::Net(net) => cx.instantiate_net(module, net),
            Decl::Memory(memory) => cx.instantiate_memory(module, memory),
            Decl::Param(decl, init) => cx.instantiate_param(module, decl, init),
        });
        self.sizes = sizes;
        self.modules[module].state = State::Done;
    }

    fn instantiate_param(&mut self, module: usize, decl: &'a Typed, init: &'a ast::Expr) {
        let env = self.model_env(decl.name.span.file);
        self.instance = Some(Instance {
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
        self.modules[module].inputs = self.input_types(&net.params);
        if let Some(name) = &net.ensemble {
            match self.model_axis(&name.text) {
                Some(axis) => self.modules[module].ensemble = Some(axis),
                None => self.unknown_axis(name, None),
            }
        }
        let env = self.model_env(net.name.span.file);
        let out = match &net.out {
            OutType::Shape(shape) => self.shape(shape, &env).map_or(Out::Unknown, Out::Axes),
            OutType::Fields(fields, _) => self.out_fields(fields, &env),
            OutType::Named(call) => self.out_named(call, &env),
        };
        self.modules[module].out = out;
        let args = self.stand_ins(module, net.name.span);
        if let Some(args) = args {
            self.call_net(module, Mode::Fast, args, net.block.span);
        }
    }

    fn instantiate_memory(&mut self, module: usize, memory: &'a ast::Memory) {
        self.modules[module].inputs = self.input_types(&memory.params);
        let Some(args) = self.stand_ins(module, memory.name.span) else { return };
        let Some(block) = self.block_named(&memory.block) else { return };
        let Some(args) = self.net_args(module, args, memory.block.span) else { return };
        let env = self.model_env(memory.name.span.file);
        self.instance = Some(Instance {
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
        let value = self.call_block(block, args, &memory.block.args, &env, wanted.clone(), memory.block.span);
        let instance = self.instance.take();
        let Some(Instance { carries: Carries::Find(found), .. }) = instance else { return };
        self.modules[module].carries = found.iter().map(|(c, _)| *c).collect();
        let Some(out) = self.as_tensor(&value, memory.block.span) else { return };
        let have = self.table.axes_of(out).to_vec();
        if have.len() != memory.out.axes.len() {
            let shown = self.table.having(&have);
            self.report(
                Diagnostic::new(Code::AxesMismatch, memory.out.span, format!("`{}` returns {shown}", memory.block.name.text))
                    .help("name as many axes as it returns"),
            );
            return;
        }
        if wanted.is_some() {
            self.modules[module].memory_out = have;
            return;
        }
        // The letter becomes a dim of the model, with the size that the block returns.
        let mut axes = Vec::new();
        for (letter, axis) in memory.out.axes.iter().zip(have) {
            let size = self.table.size(axis).clone();
            axes.push(self.add_dim(&letter.name.text, size, false, letter.name.span));
        }
        self.modules[module].memory_out = axes;
    }

    fn dim_is_declared(&self, name: &str) -> bool {
        self.dims.get(name, super::Sizes::Train).is_some() || self.members.dims.iter().any(|b| b.name.text == name)
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
        if let Some(i) = self.inputs.iter().position(|i| i.name == *text) {
            found.push((InputTy::Axes(self.inputs[i].axes.clone()), format!("the data field `{text}`")));
        }
        if let Some(i) = self.latents.iter().position(|l| l.name == *text) {
            found.push((InputTy::Latent(i), format!("the latent `{text}`")));
        }
        for latent in &self.latents {
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
                let mut known: Vec<String> = self.inputs.iter().map(|i| i.name.clone()).collect();
                known.extend(self.latents.iter().map(|l| l.name.clone()));
                known.extend(self.latents.iter().flat_map(|l| l.fields.iter().map(|(n, _)| n.clone())));
                known.extend(self.modules.iter().filter(|m| m.kind == ModuleKind::Memory).map(|m| m.name.clone()));
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
            if let Some(i) = self.latents.iter().position(|l| l.name == call.name.text) {
                return Out::Fields { latent: Some(i), fields: self.latents[i].fields.clone() };
            }
            if let Some(input) = self.inputs.iter().find(|i| i.name == call.name.text) {
                return Out::Axes(input.axes.clone());
            }
        }
        match self.program.find(call.name.span.file, &call.name.text) {
            Some(Item::Dist(def)) => self.out_dist(def, call, env),
            _ => {
                let mut known: Vec<String> = self.latents.iter().map(|l| l.name.clone()).collect();
                known.extend(self.inputs.iter().map(|i| i.name.clone()));
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
            let value = match e.as_name().and_then(|n| self.inputs.iter().find(|i| i.name == n.text)) {
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
        let inputs = self.modules[module].inputs.clone();
        let mut args = Vec::new();
        for input in inputs {
            let value = match input.ty {
                InputTy::Axes(axes) => self.hole(axes, span),
                InputTy::Latent(i) => {
                    let fields = self.latents[i].fields.clone();
                    let fields = fields.into_iter().map(|(n, axes)| (n, self.hole(axes, span))).collect();
                    Value::Record(Rc::new(Record { latent: Some(i), fields }))
                }
                InputTy::Memory(m) => {
                    let axes = self.modules[m].memory_out.clone();
                    self.hole(axes, span)
                }
                InputTy::Unknown => return None,
            };
            args.push((value, span));
        }
        Some(args)
    }

    fn hole(&mut self, axes: Vec<AxisId>, span: Span) -> Value<'a> {
        self.holes += 1;
        Value::tensor(self.table.push(Op::Hole(self.holes), axes, Dtype::Real, span))
    }

    // ---- calls

    fn block_named(&mut self, call: &'a ast::Call) -> Option<&'a ast::Block> {
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
    fn net_args(&mut self, module: usize, args: Vec<(Value<'a>, Span)>, span: Span) -> Option<Vec<Value<'a>>> {
        let inputs = self.modules[module].inputs.clone();
        let name = self.modules[module].name.clone();
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
        let block = match self.modules[module].decl {
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
                let fields = self.latents[*i].fields.clone();
                let want = format!("to be a value of the latent `{}`", self.latents[*i].name);
                let Value::Record(r) = arg else { return wrong(self, format!("this is {}", arg.describe()), want) };
                let r = r.clone();
                let mut parts = Vec::new();
                for (name, axes) in &fields {
                    let Some((_, v)) = r.fields.iter().find(|(n, _)| n == name) else {
                        return wrong(self, format!("this has no field `{name}`"), want);
                    };
                    let e = self.as_tensor(v, span)?;
                    if !self.same_axes(self.table.axes_of(e), axes) {
                        let have = self.table.having(self.table.axes_of(e));
                        return wrong(self, format!("`{name}` of this has {have}"), want);
                    }
                    parts.push((e, axes.clone()));
                }
                Some(parts)
            }
            InputTy::Axes(axes) => {
                let e = self.as_tensor(arg, span)?;
                if !self.same_axes(self.table.axes_of(e), axes) {
                    let (have, want) = (self.table.having(self.table.axes_of(e)), self.table.having(axes));
                    return wrong(self, format!("this has {have}"), format!("with {want}"));
                }
                Some(vec![(e, axes.clone())])
            }
            InputTy::Memory(m) => {
                let axes = self.modules[*m].memory_out.clone();
                let e = self.as_tensor(arg, span)?;
                if !self.same_axes(self.table.axes_of(e), &axes) {
                    let (have, want) = (self.table.having(self.table.axes_of(e)), self.table.having(&axes));
                    return wrong(self, format!("this has {have}"), format!("with {want}"));
                }
                Some(vec![(e, axes)])
            }
        }
    }

    pub(super) fn call_net(&mut self, module: usize, mode: Mode, args: Vec<(Value<'a>, Span)>, span: Span) -> Value<'a> {
        let Decl::Net(net) = self.modules[module].decl else { return Value::Error };
        let out = self.modules[module].out.clone();
        let raw: Vec<Vec<AxisId>> = match &out {
            Out::Axes(axes) => vec![axes.clone()],
            Out::Fields { fields, .. } => fields.iter().map(|(_, a)| a.clone()).collect(),
            Out::Dist { raw, .. } => raw.iter().map(|(_, a)| a.clone()).collect(),
            Out::Unknown => return Value::Error,
        };
        let tracked: Vec<Vec<ExprId>> = args.iter().map(|(a, _)| self.leaves_quietly(a)).collect();
        let Some(args) = self.net_args(module, args, span) else { return Value::Error };
        let Some(block) = self.block_named(&net.block) else { return Value::Error };
        let ensemble = match self.modules[module].ensemble {
            Some(axis) => {
                let size = self.table.size(axis).clone();
                let Some(n) = size.value() else {
                    self.unbound(&size, span);
                    return Value::Error;
                };
                let name = self.table.name(axis).to_lowercase();
                Some((axis, self.new_var(&name, span, Some((0, n)))))
            }
            None => None,
        };
        // The net's own scope: it must not see where it is called from, but for what it draws.
        let env = self.model_env(net.name.span.file);
        let instance =
            Instance { path: net.name.text.clone(), module, mode, ensemble, carries: Carries::None, touched: HashSet::new() };
        let outer = self.instance.replace(instance);
        let held = self.held_by.take();
        let expected = self.expected.take();
        let training = self.site.training;
        self.site.training = training && mode != Mode::Slow;
        if let Some((_, var)) = ensemble {
            self.site.active.push(var);
        }
        // All outputs in one vector, cut afterwards.
        let flat = if let [axes] = raw.as_slice()
            && let [axis] = axes[..]
        {
            axis
        } else {
            let size = raw.iter().fold(Size::known(0), |n, axes| n.add(&self.table.total(axes)));
            self.table.new_axis("out", size)
        };
        let value = self.call_block(block, args, &net.block.args, &env, Some(vec![flat]), net.block.span);
        let parts = self.cut(&value, &raw, flat, span).and_then(|parts| match &net.via {
            Some(via) => parts.into_iter().zip(&raw).map(|(part, axes)| self.via(via, part, axes, &env)).collect(),
            None => Some(parts),
        });
        if ensemble.is_some() {
            self.site.active.pop();
        }
        self.site.training = training;
        self.expected = expected;
        self.held_by = held;
        self.instance = outer;
        let Some(mut parts) = parts else { return Value::Error };
        if let Some((axis, var)) = ensemble {
            for part in &mut parts {
                *part = self.table.each(var, axis, *part, span);
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
            self.call_args.entry(t.expr).or_insert(args);
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
            return Some(vec![if axes[..] == [flat] { e } else { self.table.split(e, flat, axes.clone(), span) }]);
        }
        let mut start = Size::known(0);
        let mut parts = Vec::new();
        for axes in raw {
            let size = self.table.total(axes);
            let into = self.table.new_axis("part", size.clone());
            let piece = self.table.slice(e, flat, start.clone(), into, span);
            parts.push(self.table.split(piece, into, axes.clone(), span));
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
        if self.same_axes(self.table.axes_of(e), axes) {
            return Some(e);
        }
        let (have, want) = (self.table.show(self.table.axes_of(e)), self.table.show(axes));
        self.report(
            Diagnostic::new(Code::AxesMismatch, via.span, format!("the net gives axes {want}"))
                .here(format!("this turns them into {have}"))
                .help("`via` is for functions that keep the axes, such as `tanh`; call any other where the net is called"),
        );
        None
    }

    /// `memory(z, a, carry)`.
    pub(super) fn call_memory(&mut self, module: usize, mut args: Vec<(Value<'a>, Span)>, span: Span) -> Value<'a> {
        let Decl::Memory(memory) = self.modules[module].decl else { return Value::Error };
        let want = self.modules[module].inputs.len() + 1;
        if args.len() != want {
            let names: Vec<&str> = self.modules[module].inputs.iter().map(|i| i.name.as_str()).collect();
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
        let carries = self.modules[module].carries.clone();
        let given = match &last {
            Value::Memory(m) if m.module == module => m.carries.clone(),
            Value::Zeros | Value::Num(_) => carries.iter().map(|c| self.carries[*c].init).collect(),
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
        let outer = self.instance.replace(instance);
        let held = self.held_by.take();
        let expected = self.expected.take();
        let wanted = self.modules[module].memory_out.clone();
        let value = self.call_block(block, args, &memory.block.args, &env, Some(wanted), memory.block.span);
        let instance = std::mem::replace(&mut self.instance, outer);
        self.held_by = held;
        self.expected = expected;
        let Some(Instance { carries: Carries::Step { next, .. }, .. }) = instance else { return Value::Error };
        let Some(out) = self.as_tensor(&value, span) else { return Value::Error };
        let carries = carries.iter().zip(given).map(|(c, old)| next.get(c).copied().unwrap_or(old)).collect();
        Value::Memory(Rc::new(MemoryValue { module, out, carries }))
    }

    // ---- parameters

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
        let Some(instance) = &mut self.instance else {
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
        let id = match self.param_index.get(path) {
            Some(id) => *id,
            None => {
                let Some(id) = self.new_param(decl, init, path, &axes, module, ensemble, env) else { return Value::Error };
                id
            }
        };
        let mut stored = self.params[id.0 as usize].axes.clone();
        let op = if mode == Mode::Slow { Op::Slow(id) } else { Op::Param(id) };
        let mut e = self.table.push(op, stored.clone(), Dtype::Real, span);
        if let Some((axis, var)) = ensemble {
            e = self.table.at(e, axis, Index { terms: vec![(var, 1)], offset: 0 }, span);
            stored.remove(0);
        }
        if stored.len() != axes.len() || stored.iter().zip(&axes).any(|(a, b)| self.table.size(*a) != self.table.size(*b)) {
            let (have, want) = (self.table.show(&stored), self.table.show(&axes));
            return self.error(Code::SizeMismatch, span, format!("`{path}` has the shape {have} elsewhere, and {want} here"));
        }
        e = self.table.rename_all(e, &stored, &axes, span);
        if mode == Mode::Frozen {
            e = self.table.stop(e, span);
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
        let calls = self.calls.clone();
        let (value, _) = self.at_site(site, |cx| {
            cx.calls = calls;
            cx.eval(init, env)
        });
        let value = if value.is_error() { return None } else { self.as_tensor(&value, init.span)? };
        if let Some(extra) = self.table.axes_of(value).iter().find(|a| !axes.contains(a)) {
            let (extra, want) = (self.table.show_axis(*extra), self.table.having(axes));
            self.report(
                Diagnostic::new(Code::AxesMismatch, init.span, "the initial value has an axis that the parameter has not")
                    .here(format!("has the axis {extra}"))
                    .label(decl.name.span, format!("has {want}")),
            );
            return None;
        }
        let mut stored = axes.to_vec();
        let mut start = self.table.broadcast(value, axes, init.span);
        if let Some((axis, var)) = ensemble {
            stored.insert(0, axis);
            start = self.table.each(var, axis, start, init.span);
        }
        let id = ParamId(self.params.len() as u32);
        self.params.push(hir::Param { path: path.to_string(), axes: stored, init: start, module, span: decl.name.span });
        self.param_index.insert(path.to_string(), id);
        self.modules[module].params.push(id);
        Some(id)
    }

    /// What a module looks like to a person: `(z, a, m) -> [Q, A]`.
    pub(super) fn signature(&self, module: usize) -> String {
        let m = &self.modules[module];
        let inputs: Vec<&str> = m.inputs.iter().map(|i| i.name.as_str()).collect();
        let shape = |axes: &[AxisId]| {
            let names: Vec<&str> = axes.iter().map(|a| self.table.name(*a)).collect();
            format!("[{}]", names.join(", "))
        };
        let out = match (&m.out, m.decl) {
            (Out::Axes(axes), _) => shape(axes),
            (Out::Fields { latent: Some(i), .. }, _) => self.latents[*i].name.clone(),
            (Out::Fields { fields, .. }, _) => {
                let fields: Vec<String> = fields.iter().map(|(n, a)| format!("{n}: {}", shape(a))).collect();
                format!("{{ {} }}", fields.join(", "))
            }
            (Out::Dist { def, .. }, _) => def.name.text.clone(),
            (Out::Unknown, Decl::Memory(_)) => shape(&m.memory_out),
            (Out::Unknown, Decl::Param(..)) => {
                return m.params.first().map_or_else(String::new, |p| shape(&self.params[p.0 as usize].axes));
            }
            (Out::Unknown, _) => "?".to_string(),
        };
        let ensemble = m.ensemble.map_or_else(String::new, |a| format!("[{}]", self.table.name(a)));
        format!("{ensemble}({}) -> {out}", inputs.join(", "))
    }
}

pub(super) fn count(n: usize, what: &str) -> String {
    match (n, what) {
        (1, _) => format!("one {what}"),
        (n, "axis") => format!("{n} axes"),
        (n, _) => format!("{n} {what}s"),
    }
}
