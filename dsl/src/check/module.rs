//! Nets, heads, memories and parameters: blocks instantiated once, which every call shares.

use super::Ctx;
use super::value::{Callable, Env, Mode, Named, Value};
use crate::ast::{self, Ident, Typed};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{AxisId, Dtype, ExprId, ModuleKind, Op, ParamId, SlowCopy, VarId};
use crate::source::Span;
use hashbrown::{HashMap, HashSet};

pub(super) struct ModuleBuild<'a> {
    pub name: String,
    pub kind: ModuleKind,
    pub decl: Decl<'a>,
    pub state: State,
    pub inputs: Vec<Input>,
    pub out: Out<'a>,
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
pub(super) enum State {
    Unseen,
    Open,
    Done,
}

/// The type of a net's parameter.
#[derive(Clone)]
pub(super) struct Input {
    pub name: String,
    pub ty: InputTy,
}

#[derive(Clone)]
pub(super) enum InputTy {
    Axes(Vec<AxisId>),
    Latent(usize),
    Memory(usize),
    /// Reported already.
    Unknown,
}

/// The output of a net.
#[derive(Clone)]
pub(super) enum Out<'a> {
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
        for net in &self.names.members.nets {
            let kind = if net.head { ModuleKind::Head } else { ModuleKind::Net };
            all.push((net.name.text.clone(), kind, Decl::Net(net), net.name.span));
        }
        for memory in &self.names.members.memories {
            all.push((memory.name.text.clone(), ModuleKind::Memory, Decl::Memory(memory), memory.name.span));
        }
        for (decl, init) in &self.names.members.params {
            all.push((decl.name.text.clone(), ModuleKind::Param, Decl::Param(decl, init), decl.name.span));
        }
        // In the order of the text, so that parameters are listed as they are written.
        all.sort_by_key(|(_, _, _, span)| (span.file, span.lo));
        let order: Vec<String> = self.member_order();
        all.sort_by_key(|(name, ..)| order.iter().position(|n| n == name).unwrap_or(usize::MAX));
        for (name, kind, decl, span) in all {
            self.draft.modules.push(ModuleBuild {
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
        for module in 0..self.draft.modules.len() {
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
        for (name, setting) in self.names.members.slows.clone() {
            let Some(module) = self.module_named(&name.text) else {
                let names: Vec<String> = self.draft.modules.iter().map(|m| m.name.clone()).collect();
                self.report(
                    Diagnostic::new(Code::UnknownName, name.span, format!("there is no net `{}`", name.text))
                        .suggest(&name.text, names.iter().map(String::as_str)),
                );
                continue;
            };
            if !matches!(self.draft.modules[module].kind, ModuleKind::Net | ModuleKind::Head) {
                let kind = if self.draft.modules[module].kind == ModuleKind::Param { "a param" } else { "a memory" };
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
            self.draft.modules[module].slow = Some(SlowCopy { tau });
        }
    }

    pub(super) fn module_named(&self, name: &str) -> Option<usize> {
        self.draft.modules.iter().position(|m| m.name == name)
    }

    /// A memory's module, its carries found.
    pub(super) fn memory_by_name(&mut self, name: &str) -> Option<usize> {
        let module = self.draft.modules.iter().position(|m| m.kind == ModuleKind::Memory && m.name == name)?;
        self.instantiate(module);
        Some(module)
    }

    pub(super) fn memory_reset(&self, module: usize) -> Option<&'a ast::Expr> {
        match self.draft.modules[module].decl {
            Decl::Memory(m) => m.reset.as_ref(),
            _ => None,
        }
    }

    /// Whether a name is the output axis of a memory; if so, the memory is looked at and the axis made.
    pub(super) fn declare_memory_axis(&mut self, name: &str) -> bool {
        let found = self.draft.modules.iter().position(|m| match m.decl {
            Decl::Memory(m) => m.out.axes.iter().any(|a| a.name.text == name),
            _ => false,
        });
        match found {
            Some(module) if self.draft.modules[module].state == State::Unseen => {
                self.instantiate(module);
                true
            }
            Some(module) => self.draft.modules[module].state == State::Done,
            None => false,
        }
    }

    /// The value of a module's name in an expression.
    pub(super) fn module_value(&mut self, module: usize, span: Span) -> Value<'a> {
        self.draft.modules[module].used = true;
        self.instantiate(module);
        match self.draft.modules[module].kind {
            ModuleKind::Param => {
                let Some(id) = self.draft.modules[module].params.first().copied() else { return Value::Error };
                let axes = self.draft.params[id.0 as usize].axes.clone();
                Value::tensor(self.draft.table.push(Op::Param(id), axes, Dtype::Real, span))
            }
            ModuleKind::Memory => Value::Callable(Callable::Memory { module }),
            ModuleKind::Net | ModuleKind::Head => Value::Callable(Callable::Net { module, mode: Mode::Fast }),
        }
    }

    /// `slow.f`.
    pub(super) fn slow(&mut self, name: &Ident) -> Value<'a> {
        match self.module_named(&name.text) {
            Some(module) if self.draft.modules[module].slow.is_some() => {
                self.names.used.insert(format!("slow.{}", name.text));
                self.draft.modules[module].used = true;
                self.instantiate(module);
                Value::Callable(Callable::Net { module, mode: Mode::Slow })
            }
            found => {
                let slow: Vec<String> = self.draft.modules.iter().filter(|m| m.slow.is_some()).map(|m| m.name.clone()).collect();
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
        let several = self.draft.modules.iter().filter(|m| m.kind == ModuleKind::Memory).count() > 1;
        if let Some(ast::Arg { kind: ast::ArgKind::Value(last), .. }) = args.last()
            && several
            && let Value::Memory(m) = self.eval(last, env)
        {
            self.draft.modules[m.module].used = true;
            return Value::Callable(Callable::Memory { module: m.module });
        }
        self.memory_named(None, span)
    }

    pub(super) fn memory_named(&mut self, name: Option<&Ident>, span: Span) -> Value<'a> {
        let memories: Vec<usize> =
            (0..self.draft.modules.len()).filter(|m| self.draft.modules[*m].kind == ModuleKind::Memory).collect();
        let found = match name {
            Some(name) => memories.iter().copied().find(|m| self.draft.modules[*m].name == name.text),
            None if memories.len() == 1 => memories.first().copied(),
            None => None,
        };
        match found {
            Some(module) => {
                self.draft.modules[module].used = true;
                self.instantiate(module);
                Value::Callable(Callable::Memory { module })
            }
            None => {
                let names: Vec<String> = memories.iter().map(|m| self.draft.modules[*m].name.clone()).collect();
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

    /// What a module looks like to a person: `(z, a, m) -> [Q, A]`.
    pub(super) fn signature(&self, module: usize) -> String {
        let m = &self.draft.modules[module];
        let inputs: Vec<&str> = m.inputs.iter().map(|i| i.name.as_str()).collect();
        let shape = |axes: &[AxisId]| {
            let names: Vec<&str> = axes.iter().map(|a| self.draft.table.name(*a)).collect();
            format!("[{}]", names.join(", "))
        };
        let out = match (&m.out, m.decl) {
            (Out::Axes(axes), _) => shape(axes),
            (Out::Fields { latent: Some(i), .. }, _) => self.draft.latents[*i].name.clone(),
            (Out::Fields { fields, .. }, _) => {
                let fields: Vec<String> = fields.iter().map(|(n, a)| format!("{n}: {}", shape(a))).collect();
                format!("{{ {} }}", fields.join(", "))
            }
            (Out::Dist { def, .. }, _) => def.name.text.clone(),
            (Out::Unknown, Decl::Memory(_)) => shape(&m.memory_out),
            (Out::Unknown, Decl::Param(..)) => {
                return m.params.first().map_or_else(String::new, |p| shape(&self.draft.params[p.0 as usize].axes));
            }
            (Out::Unknown, _) => "?".to_string(),
        };
        let ensemble = m.ensemble.map_or_else(String::new, |a| format!("[{}]", self.draft.table.name(a)));
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
