//! Members by kind and name; dims, inputs, latents.

use hashbrown::HashMap;

use super::protocol::Protocol;
use super::value::Value;
use super::{Ctx, Sizes};
use crate::ast::{self, Bind, Equation, Ident, Member, MemberKind, Type, Typed};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, AxisId, Dtype, Size};
use crate::source::Span;

/// The members of a model, by what they declare.
#[derive(Default)]
pub(super) struct Members<'a> {
    pub inputs: Vec<&'a Typed>,
    pub action: Option<(&'a Typed, &'a ast::Expr)>,
    pub dims: Vec<&'a Bind>,
    pub consts: Vec<&'a Bind>,
    pub latents: Vec<(&'a Ident, &'a [Typed])>,
    pub schedules: Vec<&'a Bind>,
    pub memories: Vec<&'a ast::Memory>,
    pub nets: Vec<&'a ast::Net>,
    pub params: Vec<(&'a Typed, &'a ast::Expr)>,
    pub slows: Vec<(&'a Ident, &'a Bind)>,
    pub runnings: Vec<(&'a Ident, &'a ast::Expr, &'a ast::Expr)>,
    pub fns: HashMap<String, &'a ast::Function>,
    pub source: Option<(&'a ast::Call, &'a [Bind])>,
    pub losses: Vec<(&'a ast::Loss, Span)>,
    pub metrics: Vec<&'a Equation>,
    pub records: Vec<&'a Equation>,
    pub planners: Vec<&'a ast::Planner>,
    pub act: Option<(&'a [Equation], Span)>,
    pub optimizers: Vec<(&'a ast::Optimizer, Span)>,
    pub train: Option<(&'a [Bind], Span)>,
    pub evaluate: Option<(&'a [Bind], Span)>,
    pub diagnose: Vec<&'a ast::Diagnose>,
    pub tasks: Vec<Protocol<'a>>,
    pub equations: Vec<&'a Equation>,
}

/// Sizes with names. The evaluation may give some another size; these have an axis of their own there.
#[derive(Default)]
pub(super) struct Dims {
    pub list: Vec<hir::Dim>,
    index: HashMap<String, usize>,
    /// Axes that differ at the evaluation's sizes.
    evaluate: HashMap<usize, AxisId>,
    /// Being evaluated, to find circles.
    open: Vec<String>,
    pub batch: Option<AxisId>,
    pub time: Option<String>,
}

impl Dims {
    pub(super) fn get(&self, name: &str, sizes: Sizes) -> Option<AxisId> {
        let i = *self.index.get(name)?;
        match sizes {
            Sizes::Evaluate => Some(self.evaluate.get(&i).copied().unwrap_or(self.list[i].axis)),
            Sizes::Train => Some(self.list[i].axis),
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|d| d.name.as_str())
    }
}

/// Fields of the data that the action brings about.
const OUTCOMES: [&str; 3] = ["r", "terminal", "discount"];

impl<'a> Ctx<'a> {
    /// Sorts the members and declares everything that has a shape but no expression.
    pub(super) fn declare(&mut self) {
        let flat = self.flat;
        for member in &flat.members {
            self.sort_member(member);
        }
        self.choose_protocol();
        self.duplicates();
        self.declare_dims();
        self.declare_inputs();
        self.declare_latents();
    }

    fn sort_member(&mut self, member: &'a Member) {
        let m = &mut self.names.members;
        match &member.kind {
            MemberKind::Input(xs) => m.inputs.extend(xs),
            MemberKind::Action { decl, range } => m.action = Some((decl, range)),
            MemberKind::Dims(xs) => m.dims.extend(xs),
            MemberKind::Consts(xs) => m.consts.extend(xs),
            MemberKind::Latent { name, fields } => m.latents.push((name, fields)),
            MemberKind::Schedule(x) => m.schedules.push(x),
            MemberKind::Memory(x) => m.memories.push(x),
            MemberKind::Net(x) => m.nets.push(x),
            MemberKind::Param { decl, init } => m.params.push((decl, init)),
            MemberKind::Slow { nets, setting } => m.slows.extend(nets.iter().map(|n| (n, setting))),
            MemberKind::Running { name, value, init } => m.runnings.push((name, value, init)),
            MemberKind::Fn(x) => {
                m.fns.insert(x.name.text.clone(), x);
            }
            MemberKind::Source { call, over } => m.source = Some((call, over)),
            MemberKind::Loss(x) => m.losses.push((x, member.span)),
            MemberKind::Metric(x) => m.metrics.push(x),
            MemberKind::Record(x) => {
                m.records.push(x);
                m.equations.push(x);
            }
            MemberKind::Planner(x) => m.planners.push(x),
            MemberKind::Act(x) => m.act = Some((x, member.span)),
            MemberKind::Optimizer(x) => m.optimizers.push((x, member.span)),
            MemberKind::Train(x) => m.train = Some((x, member.span)),
            MemberKind::Evaluate(x) => m.evaluate = Some((x, member.span)),
            MemberKind::Diagnose(x) => m.diagnose.push(x),
            MemberKind::Tasks(x) => m.tasks.push(Protocol { block: x, here: &[] }),
            MemberKind::TasksUse(call) => self.use_protocol(call),
            MemberKind::Drop { .. } => {}
            MemberKind::Equation(x) => m.equations.push(x),
        }
    }

    /// One name, one meaning.
    fn duplicates(&mut self) {
        let m = &self.names.members;
        let flat = self.flat;
        // Everything that an expression can name.
        let mut all: Vec<(&Ident, &str)> = Vec::new();
        all.extend(m.inputs.iter().map(|x| (&x.name, "input")));
        all.extend(m.action.iter().map(|(x, _)| (&x.name, "action")));
        all.extend(m.dims.iter().map(|x| (&x.name, "dim")));
        all.extend(m.source.iter().flat_map(|(_, over)| over.iter().map(|x| (&x.name, "size of the source"))));
        all.extend(m.consts.iter().map(|x| (&x.name, "const")));
        all.extend(m.latents.iter().map(|(x, _)| (*x, "latent")));
        all.extend(m.schedules.iter().map(|x| (&x.name, "schedule")));
        all.extend(m.memories.iter().map(|x| (&x.name, "memory")));
        all.extend(m.nets.iter().map(|x| (&x.name, if x.head { "head" } else { "net" })));
        all.extend(m.params.iter().map(|(x, _)| (&x.name, "param")));
        all.extend(m.runnings.iter().map(|(x, _, _)| (*x, "running value")));
        all.extend(flat.members.iter().filter_map(|m| match &m.kind {
            MemberKind::Fn(f) => Some((&f.name, "fn")),
            _ => None,
        }));
        all.extend(m.planners.iter().map(|x| (&x.name, "planner")));
        let mut found = Vec::new();
        for (name, _) in all.iter().filter(|(name, _)| crate::lex::is_reserved(&name.text)) {
            let message = format!("`{}` is a word of the language and cannot be a name", name.text);
            found.push(
                Diagnostic::new(Code::ReservedWord, name.span, message)
                    .help(format!("call it `{}_` or something else", name.text)),
            );
        }
        let clashes = self.twice(all.clone(), "", &mut found);
        // Equations may share the name of a latent or a memory, whose values they are.
        let named: HashMap<&str, (&Ident, &str)> = all.iter().map(|(name, kind)| (name.text.as_str(), (*name, *kind))).collect();
        let mut told: Vec<&str> = Vec::new();
        for e in &m.equations {
            let name = e.place.name.text.as_str();
            if let Some((first, kind)) = named.get(name)
                && !matches!(*kind, "latent" | "memory")
                && !told.contains(&name)
            {
                told.push(name);
                self.twice(vec![(*first, *kind), (&e.place.name, "equation")], "", &mut found);
            }
        }
        // Names of their own, which only settings and reports use.
        let unnamed = |names: Vec<&'a Ident>| names.into_iter().map(|n| (n, "")).collect::<Vec<_>>();
        self.twice(unnamed(m.losses.iter().map(|(x, _)| &x.name).collect()), "loss ", &mut found);
        for (loss, _) in &m.losses {
            self.twice(unnamed(loss.parts.iter().filter_map(|p| p.name.as_ref()).collect()), "part ", &mut found);
        }
        self.twice(unnamed(m.metrics.iter().map(|x| &x.place.name).collect()), "metric ", &mut found);
        let diagnosed = m.diagnose.iter().flat_map(|d| {
            let declared = d.probes.iter().chain(&d.shows).map(|x| &x.name);
            d.series.iter().map(|x| &x.place.name).chain(declared)
        });
        self.twice(unnamed(diagnosed.collect()), "diagnosis ", &mut found);
        self.twice(unnamed(m.optimizers.iter().map(|(x, _)| &x.name).collect()), "optimizer ", &mut found);
        self.twice(unnamed(m.slows.iter().map(|(x, _)| *x).collect()), "the slow copy of ", &mut found);
        let evaluate = m.evaluate.iter().flat_map(|(binds, _)| binds.iter().map(|b| &b.name));
        self.twice(unnamed(evaluate.collect()), "the size ", &mut found);
        for params in m.nets.iter().map(|n| &n.params).chain(m.memories.iter().map(|m| &m.params)) {
            self.twice(unnamed(params.iter().map(|p| &p.name).collect()), "parameter ", &mut found);
        }
        self.singletons(&mut found);
        self.names.clashes.extend(clashes.into_iter().chain(told.into_iter().map(str::to_string)));
        for d in found {
            self.report(d);
        }
    }

    /// Says which names are declared twice: the later one is marked, and what a model inherits comes before its own.
    fn twice(&self, mut names: Vec<(&Ident, &str)>, what: &str, found: &mut Vec<Diagnostic>) -> Vec<String> {
        names.sort_by_key(|(name, _)| (self.flat.owns(name.span), name.span));
        let mut clashes: Vec<String> = Vec::new();
        let mut seen: HashMap<&str, (&Ident, &str)> = HashMap::new();
        for (name, kind) in names {
            let Some((first, before)) = seen.insert(&name.text, (name, kind)) else { continue };
            clashes.push(name.text.clone());
            let d = Diagnostic::new(Code::DuplicateName, name.span, format!("{what}`{}` is declared twice", name.text));
            let d = if kind.is_empty() {
                d.label(first.span, "declared here first")
            } else {
                d.here(format!("{} here", with_article(kind))).label(first.span, format!("{} here", with_article(before)))
            };
            found.push(d.help("rename one of them"));
        }
        clashes
    }

    /// Parts that a model has once.
    fn singletons(&self, found: &mut Vec<Diagnostic>) {
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for member in &self.flat.members {
            let what = match &member.kind {
                MemberKind::Action { .. } => "action",
                MemberKind::Source { .. } => "source",
                MemberKind::Act(_) => "act",
                MemberKind::Train(_) => "train",
                MemberKind::Evaluate(_) => "evaluate",
                _ => continue,
            };
            // The word that starts it says enough.
            let word = Span { hi: member.span.lo + what.len() as u32, ..member.span };
            if let Some(first) = seen.insert(what, word) {
                found.push(
                    Diagnostic::new(Code::DuplicateName, word, format!("a model has one `{what}`"))
                        .here("the second one")
                        .label(first, "the first one")
                        .help("put them together"),
                );
            }
        }
    }

    fn declare_dims(&mut self) {
        let source = self.names.members.source.map(|(_, over)| over.iter().collect::<Vec<_>>()).unwrap_or_default();
        for bind in self.names.members.dims.clone() {
            self.dim(&bind.name.text, Some(bind.name.span));
        }
        for (i, bind) in source.iter().enumerate() {
            self.dim(&bind.name.text, Some(bind.name.span));
            // The last is time; one before it is the batch.
            let axis = self.draft.dims.get(&bind.name.text, Sizes::Train);
            if i + 1 == source.len() {
                self.draft.dims.time = Some(bind.name.text.clone());
            } else {
                self.draft.dims.batch = axis;
            }
        }
        if self.draft.dims.batch.is_none() {
            // An on-policy source has no batch of its own; statistics may still name one.
            self.draft.dims.batch = Some(self.draft.table.new_axis("B", Size::symbol("B")));
        }
        if let Some((binds, _)) = self.names.members.evaluate {
            self.evaluate_sizes(binds);
        }
        self.require_task();
    }

    /// The same dims at the evaluation's sizes: those that come out different get an axis of their own.
    fn evaluate_sizes(&mut self, binds: &'a [Bind]) {
        let mut given: HashMap<String, &'a Bind> = HashMap::new();
        for bind in binds {
            match self.draft.dims.index.get(&bind.name.text) {
                Some(i) if Some(self.draft.dims.list[*i].axis) == self.draft.dims.batch => {
                    let message = format!("`{}` is the batch, which an evaluation shares with the training", bind.name.text);
                    let d = Diagnostic::new(Code::UnknownSetting, bind.name.span, message);
                    self.report(d.help("give the sizes of time and of the model: `evaluate { T = 16 }`"));
                }
                Some(_) => {
                    given.insert(bind.name.text.clone(), bind);
                }
                None => {
                    let names: Vec<String> = self.draft.dims.names().map(str::to_string).collect();
                    self.report(
                        Diagnostic::new(
                            Code::UnknownSetting,
                            bind.name.span,
                            format!("`{}` is not a dim of this model", bind.name.text),
                        )
                        .suggest(&bind.name.text, names.iter().map(String::as_str)),
                    );
                }
            }
        }
        self.place.sizes = Sizes::Evaluate;
        for i in 0..self.draft.dims.list.len() {
            let dim = self.draft.dims.list[i].clone();
            let declared = self.dim_source(&dim.name).map(|b| &b.value);
            let Some(e) = given.get(&dim.name).map(|b| &b.value).or(declared) else { continue };
            let overridden = self.options.dims.iter().any(|(n, _)| *n == dim.name);
            if overridden && !given.contains_key(&dim.name) {
                continue;
            }
            let env = self.model_env(e.span.file);
            let value = self.eval(e, &env);
            let Some(size) = self.as_size(&value, e.span) else { continue };
            if size != *self.draft.table.size(dim.axis) {
                let axis = self.draft.table.new_axis(&dim.name, size);
                self.draft.dims.evaluate.insert(i, axis);
            }
        }
        self.place.sizes = Sizes::Train;
    }

    fn dim_source(&self, name: &str) -> Option<&'a Bind> {
        let own = self.names.members.dims.iter().copied().find(|b| b.name.text == name);
        own.or_else(|| self.names.members.source.and_then(|(_, over)| over.iter().find(|b| b.name.text == name)))
    }

    /// The axis of a declared dim, evaluated on first use.
    fn dim(&mut self, name: &str, at: Option<Span>) -> Option<AxisId> {
        if let Some(axis) = self.draft.dims.get(name, self.place.sizes) {
            return Some(axis);
        }
        let bind = self.dim_source(name)?;
        if self.draft.dims.open.contains(&name.to_string()) {
            self.report(
                Diagnostic::new(Code::SelfReference, bind.name.span, format!("the size of `{name}` needs itself"))
                    .note(format!("the circle is {} -> {name}", self.draft.dims.open.join(" -> "))),
            );
            return Some(self.add_dim(name, Size::known(1), false, bind.name.span));
        }
        self.draft.dims.open.push(name.to_string());
        let bound = self.options.dims.iter().find(|(n, _)| n == name).map(|(_, s)| *s);
        let size = match bound {
            Some(size) => Size::known(i64::try_from(size).unwrap_or(i64::MAX)),
            None => {
                let env = self.model_env(bind.value.span.file);
                let value = self.eval(&bind.value, &env);
                self.as_size(&value, bind.value.span).unwrap_or_else(|| Size::known(1))
            }
        };
        self.draft.dims.open.pop();
        if size.value().is_some_and(|n| n < 0) {
            self.report(
                Diagnostic::new(Code::BadSetting, bind.value.span, format!("`{name}` would have the size {size}"))
                    .help("a size is zero or more"),
            );
            return Some(self.add_dim(name, Size::known(1), false, bind.name.span));
        }
        Some(self.add_dim(name, size, false, at.unwrap_or(bind.name.span)))
    }

    pub(super) fn add_dim(&mut self, name: &str, size: Size, task: bool, span: Span) -> AxisId {
        if let Some(axis) = self.draft.dims.get(name, Sizes::Train) {
            return axis;
        }
        let axis = self.draft.table.new_axis(name, size);
        self.draft.dims.index.insert(name.to_string(), self.draft.dims.list.len());
        self.draft.dims.list.push(hir::Dim { name: name.to_string(), axis, task, span });
        axis
    }

    /// The axis a name stands for at model level: a dim, a memory's output, or a size the task binds.
    pub(super) fn model_axis(&mut self, name: &str) -> Option<AxisId> {
        if let Some(axis) = self.dim(name, None) {
            if !self.names.used.contains(name) {
                self.names.used.insert(name.to_string());
            }
            return Some(axis);
        }
        if self.declare_memory_axis(name) {
            return self.draft.dims.get(name, self.place.sizes);
        }
        None
    }

    /// A size that the task binds: symbolic unless `--dim` or `--task` gives it.
    fn task_dim(&mut self, name: &str, span: Span) -> AxisId {
        let given = self.options.dims.iter().find(|(n, _)| n == name).map(|(_, s)| i64::try_from(*s).unwrap_or(i64::MAX));
        let task = self.options.task.as_ref().and_then(|t| self.task_size(t, name));
        let size = given.or(task).map_or_else(|| Size::symbol(name), Size::known);
        self.add_dim(name, size, true, span)
    }

    fn declare_inputs(&mut self) {
        let action = self.names.members.action;
        let inputs: Vec<(&'a Typed, bool)> = self
            .names
            .members
            .inputs
            .iter()
            .map(|t| (*t, OUTCOMES.contains(&t.name.text.as_str())))
            .chain(action.map(|(t, _)| (t, true)))
            .collect();
        for (decl, outcome) in inputs {
            let (axes, dtype) = match &decl.ty {
                Type::Name(name) if name.text == "bool" => (Vec::new(), Dtype::Bool),
                Type::Name(name) => {
                    self.report(
                        Diagnostic::new(Code::WrongKind, name.span, format!("`{}` is not the type of a data field", name.text))
                            .help("write a shape such as `[O]`, or `bool`"),
                    );
                    (Vec::new(), Dtype::Real)
                }
                Type::Shape(shape) => {
                    let mut axes = Vec::new();
                    for axis in &shape.axes {
                        let known = if axis.size.is_some() { None } else { self.model_axis(&axis.name.text) };
                        let id = match known {
                            Some(id) => id,
                            None if axis.rest || axis.size.is_some() => match self.axis_decl(axis) {
                                Some(id) => id,
                                None => continue,
                            },
                            // Not a dim of the model: the task gives it.
                            None => self.task_dim(&axis.name.text, axis.name.span),
                        };
                        axes.push(id);
                    }
                    self.are_proper(&axes, shape.span);
                    (axes, Dtype::Real)
                }
            };
            if action.is_none_or(|(a, _)| a.name.text != decl.name.text) {
                self.judge_field(decl, &axes, dtype);
            }
            self.draft.inputs.push(hir::Input { name: decl.name.text.clone(), axes, dtype, outcome, span: decl.name.span });
        }
        if action.is_none() {
            self.missing("action", "an agent needs an action: `action a: [A] in -1..1`");
        }
        if self.names.members.inputs.is_empty() {
            self.missing("input", "a model reads data: `input obs: [O], r: [], first: bool`");
        }
    }

    /// Whether a field of the data is one that tasks give, and of the type that they give it.
    fn judge_field(&mut self, decl: &'a Typed, axes: &[AxisId], dtype: Dtype) {
        let name = decl.name.text.as_str();
        let wanted = match name {
            "obs" => (dtype != Dtype::Real).then_some("an array of numbers: `obs: [O]`"),
            "r" | "discount" if dtype != Dtype::Real || !axes.is_empty() => {
                Some(if name == "r" { "one number: `r: []`" } else { "one number: `discount: []`" })
            }
            "r" | "discount" => None,
            "first" | "terminal" if dtype != Dtype::Bool => Some("a truth value: `bool`"),
            "first" | "terminal" => None,
            _ => {
                // With a task it is known that the field will be missing; without one, the data may come from elsewhere.
                let code = if self.options.task.is_some() { Code::FieldMissing } else { Code::FieldUnknown };
                let d = Diagnostic::new(code, decl.name.span, format!("no task gives a field `{name}`"))
                    .note("tasks give `obs`, `r`, `discount`, `first` and `terminal`, and take the action");
                self.report(d.suggest(name, ["obs", "r", "discount", "first", "terminal"]));
                return;
            }
        };
        if let Some(wanted) = wanted {
            let d = Diagnostic::new(Code::FieldType, decl.name.span, format!("`{name}` is {wanted}"));
            self.report(d.help("tasks give it so; declare another array as an equation"));
        }
    }

    pub(super) fn missing(&mut self, what: &str, help: &str) {
        let name = self.flat.name.clone();
        self.report(Diagnostic::new(Code::MissingSection, name.span, format!("`{}` has no `{what}`", name.text)).help(help));
    }

    /// An axis of a latent or an input that is introduced on the spot: `x: [Z = 48]`.
    pub(super) fn axis_decl(&mut self, axis: &'a ast::Axis) -> Option<AxisId> {
        if axis.rest {
            self.report(
                Diagnostic::new(Code::UnknownAxis, axis.name.span, format!("`{}..` has nothing to match here", axis.name.text))
                    .help("name the axes one by one"),
            );
            return None;
        }
        match &axis.size {
            Some(e) => {
                let env = self.model_env(e.span.file);
                let value = self.eval(e, &env);
                let size = self.as_size(&value, e.span)?;
                if let Some(known) = self.draft.dims.get(&axis.name.text, Sizes::Train) {
                    if *self.draft.table.size(known) != size {
                        self.report(
                            Diagnostic::new(
                                Code::SizeMismatch,
                                e.span,
                                format!("`{}` has the size {} already", axis.name.text, self.draft.table.size(known)),
                            )
                            .help("use another letter, or leave out the size"),
                        );
                    }
                    return Some(known);
                }
                Some(self.add_dim(&axis.name.text, size, false, axis.name.span))
            }
            None => match self.model_axis(&axis.name.text) {
                Some(axis) => Some(axis),
                None => {
                    self.unknown_axis(&axis.name, None);
                    None
                }
            },
        }
    }

    fn declare_latents(&mut self) {
        for (name, fields) in self.names.members.latents.clone() {
            let mut latent = hir::Latent { name: name.text.clone(), fields: Vec::new() };
            for field in fields {
                let axes = match &field.ty {
                    Type::Shape(shape) => {
                        let axes: Vec<AxisId> = shape.axes.iter().filter_map(|a| self.axis_decl(a)).collect();
                        self.are_proper(&axes, shape.span);
                        axes
                    }
                    Type::Name(ty) => {
                        self.report(
                            Diagnostic::new(Code::WrongKind, ty.span, "a field of a latent is an array")
                                .help(format!("write its shape: `{}: [..]`", field.name.text)),
                        );
                        Vec::new()
                    }
                };
                if latent.fields.iter().any(|(n, _)| *n == field.name.text) {
                    self.report(
                        Diagnostic::new(
                            Code::DuplicateName,
                            field.name.span,
                            format!("`{}` has two fields `{}`", name.text, field.name.text),
                        )
                        .help("rename one of them"),
                    );
                    continue;
                }
                latent.fields.push((field.name.text.clone(), axes));
            }
            self.draft.latents.push(latent);
        }
    }

    /// The value of a `const`, found on first use.
    pub(super) fn constant(&mut self, name: &str) -> Option<Value<'a>> {
        let bind = self.names.members.consts.iter().copied().find(|b| b.name.text == name)?;
        let key = (name.to_string(), self.place.sizes == Sizes::Evaluate);
        if let Some(value) = self.constants.values.get(&key) {
            return Some(value.clone());
        }
        if self.constants.open.contains(&key.0) {
            return Some(self.error(Code::SelfReference, bind.name.span, format!("the value of `{name}` needs itself")));
        }
        self.constants.open.push(name.to_string());
        let env = self.model_env(bind.value.span.file);
        let value = self.eval(&bind.value, &env);
        self.constants.open.pop();
        let value = match value {
            Value::Tensor(_) | Value::Record(_) | Value::Dist(_) | Value::Memory(_) | Value::Index(_) => {
                self.report(
                    Diagnostic::new(Code::NotStatic, bind.value.span, format!("`{name}` is not known when compiling"))
                        .help("a `const` is a number, a list or a function; write an equation or a `schedule` for anything else"),
                );
                Value::Error
            }
            value => value,
        };
        self.constants.values.insert(key, value.clone());
        Some(value)
    }
}

fn with_article(kind: &str) -> String {
    match kind.chars().next() {
        Some('a' | 'e' | 'i' | 'o' | 'u') => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}
