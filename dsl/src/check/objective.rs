//! Losses, metrics and the optimisers that act on them.

use super::bind::Owner;
use super::value::{Env, Found, Sees, Value};
use super::window::{Written, numbers};
use super::{Ctx, EVALUATE, Site, TRAIN};
use crate::ast::{self, Clause, ClauseKind, Expr, Item};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, Dtype, ExprId, Op, ParamId, Size, VarId};
use crate::source::Span;

/// Losses, metrics and schedules.
#[derive(Default)]
pub(super) struct Objective {
    pub losses: Vec<hir::Loss>,
    pub metrics: Vec<hir::Metric>,
    pub diagnose: Vec<hir::Diagnosis>,
    pub quantities: Vec<hir::Quantity>,
    pub probes: Vec<hir::Probe>,
    pub shows: Vec<hir::Show>,
    pub optimizers: Vec<hir::Optimizer>,
    /// Where each stands, for the time check: name for messages, variables, values.
    pub train_sites: Vec<super::time::Site>,
    pub evaluate_sites: Vec<super::time::Site>,
}

/// A mean: its value, its condition, its free indices.
pub(super) struct Mean {
    pub value: ExprId,
    pub condition: Option<ExprId>,
    pub vars: Vec<VarId>,
    pub touched: Vec<ExprId>,
}

/// An expression whose mean is asked for.
pub(super) struct Asked<'a, 't> {
    pub system: usize,
    pub name: &'t str,
    pub value: &'a Expr,
    pub clauses: &'t [&'a [Clause]],
    /// Indices that stand for it already.
    pub bound: &'t [(String, VarId)],
    pub scalar: bool,
}

impl Mean {
    /// Where it stands, for the time check.
    pub(super) fn site(&self, what: String, span: Span) -> super::time::Site {
        let values = [self.value].into_iter().chain(self.condition).collect();
        super::time::Site { vars: self.vars.clone(), values, touched: self.touched.clone(), span, what }
    }
}

impl<'a> Ctx<'a> {
    pub(super) fn elaborate_schedules(&mut self) {
        for bind in self.names.members.schedules.clone() {
            let env = self.model_env(bind.value.span.file);
            let (value, _) = self.at_site(Site::outside(TRAIN), |cx| cx.eval(&bind.value, &env));
            let shown = value.describe();
            let value_is_number = !matches!(value, Value::Bool(_) | Value::Record(_));
            let e = if value.is_error() { None } else { self.as_tensor(&value, bind.value.span) };
            let value_is_number = value_is_number && e.is_none_or(|e| self.draft.table.dtype(e) != Dtype::Bool);
            let value = e.unwrap_or_else(|| self.draft.table.constant(0.0, bind.value.span));
            if !self.draft.table.axes_of(value).is_empty() {
                let shown = self.draft.table.having(self.draft.table.axes_of(value));
                self.report(
                    Diagnostic::new(Code::NotScalar, bind.value.span, format!("the schedule `{}` is one number", bind.name.text))
                        .here(format!("this has {shown}")),
                );
            }
            if !value_is_number {
                let message = format!("the schedule `{}` is a number, and this is {shown}", bind.name.text);
                self.report(Diagnostic::new(Code::WrongKind, bind.value.span, message).help("write a number or `ramp(1, 0)`"));
            }
            self.draft.schedules.push(hir::Schedule { name: bind.name.text.clone(), value, span: bind.name.span });
        }
        self.judge_schedules();
    }

    /// A schedule is a function of `progress`: it reads no data and no parameters, draws nothing, and does not need itself.
    fn judge_schedules(&mut self) {
        let mut circular = hashbrown::HashSet::new();
        for start in 0..self.draft.schedules.len() {
            let span = self.names.members.schedules[start].value.span;
            let name = self.draft.schedules[start].name.clone();
            let (mut open, mut seen) = (vec![self.draft.schedules[start].value], hashbrown::HashSet::new());
            while let Some(e) = open.pop() {
                if !seen.insert(e) {
                    continue;
                }
                let what = match self.draft.table.op(e) {
                    // A circle is told at its first schedule.
                    Op::Schedule(again) if circular.contains(again) => break,
                    Op::Schedule(again) if *again == start => {
                        circular.insert(start);
                        self.report(
                            Diagnostic::new(Code::SelfReference, span, format!("the schedule `{name}` needs itself"))
                                .help("write it with `progress`: `ramp(1, 0)`"),
                        );
                        break;
                    }
                    Op::Schedule(other) => {
                        open.extend(self.draft.schedules.get(*other).map(|s| s.value));
                        continue;
                    }
                    Op::Draw(_) => "draws random numbers",
                    Op::Input { .. } | Op::Read { .. } | Op::Outer { .. } | Op::Carry(_) => "reads data",
                    Op::Param(_) | Op::Slow(_) => "reads a parameter",
                    Op::Running(_) => "reads a running value",
                    op => {
                        op.operands(|x| open.push(x));
                        continue;
                    }
                };
                self.report(
                    Diagnostic::new(Code::NotASchedule, span, format!("the schedule `{name}` {what}"))
                        .help("a schedule depends on `progress` alone; write an equation or a `running` value for anything else"),
                );
                break;
            }
        }
    }

    pub(super) fn elaborate_objective(&mut self) -> Objective {
        let mut objective = Objective { optimizers: self.optimizers(), ..Objective::default() };
        self.elaborate_running(&mut objective.train_sites);
        for (loss, span) in self.names.members.losses.clone() {
            self.loss(loss, span, &mut objective);
        }
        self.place.sizes = super::Sizes::Evaluate;
        for metric in self.names.members.metrics.clone() {
            self.metric(metric, &mut objective);
        }
        self.diagnose(&mut objective);
        self.elaborate_read(EVALUATE);
        self.place.sizes = super::Sizes::Train;
        objective
    }

    /// An expression whose free subscripts are averaged over.
    pub(super) fn mean(
        &mut self,
        system: usize,
        name: &str,
        value: &'a Expr,
        clauses: &[&'a [Clause]],
        bound: &[(String, VarId)],
        scalar: bool,
    ) -> Option<Mean> {
        let env = self.model_env(value.span.file);
        self.mean_in(&Asked { system, name, value, clauses, bound, scalar }, &env)
    }

    pub(super) fn mean_in(&mut self, asked: &Asked<'a, '_>, env: &Env<'a>) -> Option<Mean> {
        let &Asked { name, value, clauses, bound, scalar, .. } = asked;
        let all = self.windows(clauses, env)?;
        if let [none] = &all[..]
            && none.is_empty()
        {
            return self.mean_at(asked, none, env);
        }
        if !scalar || !bound.is_empty() {
            let message = format!("`{name}` has a value at each point, and its ranges depend on an index");
            self.report(Diagnostic::new(Code::WrongKind, value.span, message).help("use ranges that all of its points share"));
            return None;
        }
        let parts: Vec<Mean> = all.iter().map(|written| self.mean_at(asked, written, env)).collect::<Option<_>>()?;
        self.mean_over(parts, &format!("`{name}`"), value.span)
    }

    /// With numbers in place of some indices.
    fn mean_at(&mut self, asked: &Asked<'a, '_>, written: &Written<'a>, env: &Env<'a>) -> Option<Mean> {
        let &Asked { system, name, value, clauses, bound, scalar } = asked;
        let env = &numbers(env, written);
        let site = Site { vars: bound.to_vec(), active: bound.iter().map(|(_, v)| *v).collect(), ..Site::of(system, name) };
        let (result, site) = self.at_site(site, |cx| {
            for clause in clauses.iter().copied().flatten() {
                if let ClauseKind::For(iters) = &clause.kind {
                    for (var, domain) in iters.iter().filter(|(var, _)| written.iter().all(|(w, _)| w.text != var.text)) {
                        cx.for_clause(var, domain, env, true);
                    }
                }
            }
            cx.free_indices(value, env);
            for clause in clauses.iter().copied().flatten() {
                if let ClauseKind::Where(c) = &clause.kind {
                    cx.free_indices(c, env);
                }
            }
            let v = cx.eval(value, env);
            let e = if v.is_error() { None } else { cx.as_tensor(&v, value.span) };
            let mut condition = None;
            for clause in clauses.iter().copied().flatten() {
                match &clause.kind {
                    ClauseKind::Where(c) => {
                        let v = cx.eval(c, env);
                        let c_expr = cx.as_condition(&v, c.span)?;
                        if !cx.draft.table.axes_of(c_expr).is_empty() {
                            let shown = cx.draft.table.having(cx.draft.table.axes_of(c_expr));
                            cx.report(
                                Diagnostic::new(
                                    Code::NotScalar,
                                    c.span,
                                    "a condition is one truth value for each sample and step",
                                )
                                .here(format!("this has {shown}")),
                            );
                            return None;
                        }
                        condition = Some(c_expr);
                    }
                    ClauseKind::With(_) | ClauseKind::Reset(_) => {
                        cx.report(
                            Diagnostic::new(Code::WrongKind, clause.span, "only an equation has a start")
                                .help("move it to the equation that it belongs to"),
                        );
                    }
                    ClauseKind::For(_) => {}
                }
            }
            Some((e?, condition))
        });
        let (e, condition) = result?;
        if scalar && !self.draft.table.axes_of(e).is_empty() {
            let shown = self.draft.table.having(self.draft.table.axes_of(e));
            let ensemble = self.draft.modules.iter().filter_map(|m| m.ensemble).find(|a| self.draft.table.axes_of(e).contains(a));
            let d = Diagnostic::new(Code::NotScalar, value.span, format!("`{name}` must be one number for each sample and step"))
                .here(format!("this has {shown}"));
            self.report(match ensemble.map(|a| self.draft.table.name(a)) {
                Some(axis) => d.help(format!("it is one for each member of an ensemble: `mean e in 0..{axis} {{ ..[e] }}`")),
                None => d.help("say how they are reduced: `sum(..)`, `mean(..)`, or `sq(..)` for a squared norm"),
            });
            return None;
        }
        Some(Mean { value: e, condition, vars: site.vars.into_iter().map(|(_, v)| v).collect(), touched: site.touched })
    }

    fn loss(&mut self, loss: &'a ast::Loss, span: Span, objective: &mut Objective) {
        let env = self.model_env(loss.name.span.file);
        let (weight, _) = self.at_site(Site::outside(TRAIN), |cx| cx.eval(&loss.weight, &env));
        let weight = if weight.is_error() { None } else { self.as_tensor(&weight, loss.weight.span) };
        let weight = weight.unwrap_or_else(|| self.draft.table.constant(1.0, loss.weight.span));
        if !self.draft.table.axes_of(weight).is_empty() {
            self.error(Code::NotScalar, loss.weight.span, "a weight is one number");
        }
        let warmup = loss.warmup.as_ref().and_then(|(a, b)| {
            let (x, y) = (self.eval(a, &env), self.eval(b, &env));
            let (x, y) = (self.as_number(&x, a.span)?, self.as_number(&y, b.span)?);
            if x >= y {
                self.report(
                    Diagnostic::new(Code::ScheduleRange, a.span.to(b.span), "a warm-up must end after it starts")
                        .here(format!("from {}% to {}%", x * 100.0, y * 100.0))
                        .help("write the earlier moment first"),
                );
                return None;
            }
            Some((x, y))
        });
        let optimizer = loss.optimizer.as_ref().and_then(|name| self.optimizer_named(name));
        let mut parts = Vec::new();
        for part in &loss.parts {
            let name = match &part.name {
                Some(p) => format!("{}.{}", loss.name.text, p.text),
                None => loss.name.text.clone(),
            };
            let Some(mean) = self.mean(TRAIN, &name, &part.value, &[&loss.clauses, &part.clauses], &[], true) else { continue };
            objective.train_sites.push(mean.site(format!("loss `{name}`"), part.value.span));
            parts.push(hir::LossPart { name, value: mean.value, condition: mean.condition, vars: mean.vars });
        }
        objective.losses.push(hir::Loss { name: loss.name.text.clone(), weight, warmup, optimizer, parts, span });
    }

    /// `metric mse[k] = .. for k in [3, 5, 7]` is three metrics; `metric drift[t] = ..` is one over t.
    fn metric(&mut self, metric: &'a ast::Equation, objective: &mut Objective) {
        let name = metric.place.name.text.clone();
        let listed = metric.clauses.iter().find_map(|c| match &c.kind {
            ClauseKind::For(iters) => iters.iter().find(|(_, d)| matches!(d.kind, ast::ExprKind::List(_))),
            _ => None,
        });
        if let Some((var, domain)) = listed {
            let env = self.model_env(domain.span.file);
            let Value::List(items) = self.eval(domain, &env) else { return };
            for item in items.iter() {
                let Some(n) = self.as_int(item, domain.span) else { continue };
                let env = self.model_env(metric.span.file);
                env.set(&*var.text, Value::Num(n as f64));
                self.one_metric(format!("{name}[{n}]"), metric, Some(&var.text), &env, objective);
            }
            return;
        }
        let env = self.model_env(metric.span.file);
        self.one_metric(name, metric, None, &env, objective);
    }

    fn one_metric(
        &mut self,
        name: String,
        metric: &'a ast::Equation,
        fixed: Option<&str>,
        env: &Env<'a>,
        objective: &mut Objective,
    ) {
        let mut kept = Vec::new();
        for index in &metric.place.indices {
            match index.as_name() {
                Some(n) if Some(n.text.as_str()) == fixed => {}
                Some(n) => {
                    let id = self.draft.new_var(&n.text, n.span, None);
                    kept.push((n.text.clone(), id));
                }
                None => {
                    self.report(
                        Diagnostic::new(Code::NotAnIndex, index.span, "a metric's subscript is an index")
                            .help("write `metric drift[t] = ..`"),
                    );
                    return;
                }
            }
        }
        // The list of a `for` is used up; what is left are ranges.
        let clauses: Vec<&'a [Clause]> = metric
            .clauses
            .iter()
            .filter(|c| !matches!(&c.kind, ClauseKind::For(iters) if iters.iter().any(|(_, d)| matches!(d.kind, ast::ExprKind::List(_)))))
            .map(std::slice::from_ref)
            .collect();
        let asked = Asked { system: EVALUATE, name: &name, value: &metric.value, clauses: &clauses, bound: &kept, scalar: true };
        let Some(mean) = self.mean_in(&asked, env) else { return };
        objective.evaluate_sites.push(mean.site(format!("metric `{name}`"), metric.value.span));
        objective.metrics.push(hir::Metric {
            name,
            value: mean.value,
            condition: mean.condition,
            vars: mean.vars,
            kept: kept.into_iter().map(|(_, v)| v).collect(),
            span: metric.span,
        });
    }

    // ---- optimisers

    fn optimizers(&mut self) -> Vec<hir::Optimizer> {
        if self.names.members.optimizers.is_empty() && !self.draft.params.is_empty() {
            self.missing("optimizer", "parameters need one: `optimizer main = adam(lr = 3e-4) on all`");
        }
        let mut out = Vec::new();
        for (o, span) in self.names.members.optimizers.clone() {
            let rule = self.rule(o);
            let params = self.trained(o);
            if let (Some(rule), Some(params)) = (rule, params) {
                out.push(hir::Optimizer { name: o.name.text.clone(), rule, params, after: Vec::new(), sees: Vec::new(), span });
            } else {
                // Keep the place: losses refer to it by number.
                let e = self.draft.table.constant(0.0, span);
                let entries = self.draft.table.new_axis("entries", Size::symbol("entries"));
                out.push(hir::Optimizer {
                    name: o.name.text.clone(),
                    rule: hir::Rule { entries, slots: Vec::new(), next: Vec::new(), value: e },
                    params: Vec::new(),
                    after: Vec::new(),
                    sees: Vec::new(),
                    span,
                });
            }
        }
        self.sequence(&mut out);
        if !out.is_empty() && !self.sink.diagnostics.iter().any(Diagnostic::is_error) {
            self.coverage(&out);
        }
        out
    }

    /// Which optimisers step before which, and what the later ones see of it.
    fn sequence(&mut self, optimizers: &mut [hir::Optimizer]) {
        let members = self.names.members.optimizers.clone();
        for (i, (o, _)) in members.iter().enumerate() {
            for name in &o.after {
                if let Some(before) = self.optimizer_named(name) {
                    optimizers[i].after.push(before);
                }
            }
        }
        let circles: Vec<usize> = (0..members.len()).filter(|i| steps_before(optimizers, *i).contains(i)).collect();
        // A circle is told once, at its first optimiser.
        if let Some(first) = circles.first() {
            let (o, _) = members[*first];
            let others: Vec<String> = circles[1..].iter().map(|i| optimizers[*i].name.clone()).collect();
            let message = match others.is_empty() {
                true => format!("`{}` cannot step after itself", o.name.text),
                false => format!("`{}` waits for {}, which waits for it", o.name.text, super::listed(others)),
            };
            let span = o.after.first().map_or(o.name.span, |n| n.span);
            self.report(
                Diagnostic::new(Code::OptimizerCycle, span, message).help("take away the `after` of the one that steps first"),
            );
            optimizers.iter_mut().for_each(|o| o.after.clear());
            return;
        }
        for (i, (o, _)) in members.iter().enumerate() {
            let before = steps_before(optimizers, i);
            let trained: Vec<ParamId> = before.iter().flat_map(|b| &optimizers[*b].params).map(|(p, _)| *p).collect();
            if o.only.is_empty() {
                optimizers[i].sees = trained;
                continue;
            }
            for name in &o.only {
                let Some(module) = self.module_to_train(name) else { continue };
                let params: Vec<ParamId> =
                    self.draft.modules[module].params.iter().copied().filter(|p| trained.contains(p)).collect();
                if params.is_empty() && !trained.is_empty() {
                    let listed = super::listed(before.iter().map(|b| optimizers[*b].name.as_str()).collect::<Vec<_>>());
                    self.report(
                        Diagnostic::new(Code::NothingToTrain, name.span, format!("{listed} does not train `{}`", name.text))
                            .help("behind `only` stand nets, heads, memories and params that change before this optimiser steps"),
                    );
                }
                optimizers[i].sees.extend(params);
            }
        }
    }

    /// The optimiser of this name, which must exist.
    fn optimizer_named(&mut self, name: &ast::Ident) -> Option<usize> {
        let found = self.names.members.optimizers.iter().position(|(o, _)| o.name.text == name.text);
        if found.is_none() {
            let known: Vec<String> = self.names.members.optimizers.iter().map(|(o, _)| o.name.text.clone()).collect();
            self.report(
                Diagnostic::new(Code::UnknownOptimizer, name.span, format!("there is no optimiser `{}`", name.text))
                    .suggest(&name.text, known.iter().map(String::as_str))
                    .note(super::there_are(&known)),
            );
        }
        found
    }

    /// Every parameter has one optimiser.
    fn coverage(&mut self, optimizers: &[hir::Optimizer]) {
        for module in 0..self.draft.modules.len() {
            let (name, span) = (self.draft.modules[module].name.clone(), self.draft.modules[module].span);
            let Some(first) = self.draft.modules[module].params.first().copied() else { continue };
            let by: Vec<&hir::Optimizer> = optimizers.iter().filter(|o| o.params.iter().any(|(p, _)| *p == first)).collect();
            // What the model itself says is where to mend it, not what it inherits.
            let own = |o: &&hir::Optimizer| !self.flat.owns(span) && self.flat.owns(o.span);
            let d = match by.as_slice() {
                [_] => continue,
                [] => {
                    let message = format!("no optimiser trains `{name}`");
                    let d = match optimizers.iter().find(own) {
                        Some(o) => Diagnostic::new(Code::NoOptimizer, o.span, message)
                            .here("this one does not")
                            .label(span, "declared here"),
                        None => Diagnostic::new(Code::NoOptimizer, span, message),
                    };
                    let out = if self.flat.owns(span) { "leave it out" } else { "drop it" };
                    d.help(format!("add it to one: `on .., {name}`, or {out}"))
                }
                [a, b, ..] => {
                    let message = format!("two optimisers train `{name}`");
                    let (first, second) = if own(a) && !own(b) { (b, a) } else { (a, b) };
                    Diagnostic::new(Code::TwoOptimizers, second.span, message)
                        .here(format!("`{}` does", second.name))
                        .label(first.span, format!("and so does `{}`", first.name))
                        .label(span, "declared here")
                        .help(format!("leave it out of one: `on all except {name}`"))
                }
            };
            self.report(d);
        }
    }

    /// The module of this name, which must exist.
    fn module_to_train(&mut self, name: &ast::Ident) -> Option<usize> {
        let found = self.module_named(&name.text);
        if found.is_none() {
            let names: Vec<String> = self.draft.modules.iter().map(|m| m.name.clone()).collect();
            self.report(
                Diagnostic::new(Code::UnknownName, name.span, format!("there is nothing to train called `{}`", name.text))
                    .suggest(&name.text, names.iter().map(String::as_str).chain(["all"]))
                    .or_help("name nets, heads, memories and params, or `all`"),
            );
        }
        found
    }

    /// The parameters an optimiser trains, with the factors of their rates.
    fn trained(&mut self, o: &'a ast::Optimizer) -> Option<Vec<(ParamId, f64)>> {
        let mut modules: Vec<usize> = Vec::new();
        for name in &o.on {
            if name.text == "all" {
                modules.extend(0..self.draft.modules.len());
            } else {
                modules.push(self.module_to_train(name)?);
            }
        }
        for name in &o.except {
            let module = self.module_to_train(name)?;
            modules.retain(|m| *m != module);
        }
        modules.sort_unstable();
        modules.dedup();
        let mut scale: Vec<(usize, f64)> = Vec::new();
        for bind in &o.scale {
            let module = self.module_to_train(&bind.name)?;
            let env = self.model_env(bind.value.span.file);
            let value = self.eval(&bind.value, &env);
            let factor = self.as_number(&value, bind.value.span)?;
            if !modules.contains(&module) {
                self.report(
                    Diagnostic::new(
                        Code::NothingToTrain,
                        bind.name.span,
                        format!("`{}` does not train `{}`", o.name.text, bind.name.text),
                    )
                    .help("scale what it trains, or let it train this too"),
                );
                return None;
            }
            if !factor.is_finite() || factor < 0.0 {
                self.report(
                    Diagnostic::new(Code::BadSetting, bind.value.span, format!("a rate cannot be scaled by {factor}"))
                        .help("use a number from 0 upwards"),
                );
                return None;
            }
            scale.push((module, factor));
        }
        let mut params = Vec::new();
        for m in &modules {
            let factor = scale.iter().find(|(s, _)| s == m).map_or(1.0, |(_, f)| *f);
            params.extend(self.draft.modules[*m].params.iter().map(|p| (*p, factor)));
        }
        if params.is_empty() && !self.draft.params.is_empty() {
            let span = o.on.first().map_or(o.name.span, |n| n.span);
            self.report(
                Diagnostic::new(Code::NothingToTrain, span, format!("`{}` has nothing to train", o.name.text))
                    .help("name something with parameters, or `all`"),
            );
            return None;
        }
        Some(params)
    }

    /// An update rule, over one abstract axis of entries.
    fn rule(&mut self, o: &'a ast::Optimizer) -> Option<hir::Rule> {
        let file = o.rule.name.span.file;
        let Some(Item::Optimizer(def)) = self.program.find(file, &o.rule.name.text) else {
            let known = self.items_named(file, |i| matches!(i, Item::Optimizer(_)));
            self.report(
                Diagnostic::new(
                    Code::UnknownName,
                    o.rule.name.span,
                    format!("there is no optimiser rule `{}`", o.rule.name.text),
                )
                .suggest(&o.rule.name.text, known.iter().copied())
                .note(super::there_are(&known)),
            );
            return None;
        };
        let entries = self.draft.table.new_axis("entries", Size::symbol("entries"));
        let env = Env::root(def.span.file, Sees::Items);
        let model = self.model_env(file);
        let args = self.eval_args(&o.rule.args, &model)?;
        self.rule_settings(def, &o.rule, args, &env)?;
        let span = o.rule.span;
        let vector = |cx: &mut Self, op: Op| Value::tensor(cx.draft.table.push(op, vec![entries], Dtype::Real, span));
        let scalar = |cx: &mut Self, op: Op| Value::tensor(cx.draft.table.push(op, Vec::new(), Dtype::Real, span));
        let (weight, gradient) = (vector(self, Op::Weight), vector(self, Op::Gradient));
        env.set("weight", weight);
        env.set("gradient", gradient);
        let (norm, count, scale) = (scalar(self, Op::TotalNorm), scalar(self, Op::Count), scalar(self, Op::Scale));
        env.set("total_norm", norm);
        env.set("count", count);
        env.set("scale", scale);
        for (i, slot) in def.slots.iter().enumerate() {
            let value = vector(self, Op::Slot(i));
            env.set(&*slot.text, value);
            env.set(format!("axes of {}", slot.text), Value::Axes(vec![entries].into()));
        }
        let (value, _) = self.at_site(Site::outside(TRAIN), |cx| {
            cx.sink.calls.push((&def.name.text, span));
            let value = cx.run(&def.body, &env, &def.name);
            cx.sink.calls.pop();
            value
        });
        let value = if value.is_error() { return None } else { self.as_tensor(&value, span)? };
        if !self.same_axes(self.draft.table.axes_of(value), &[entries]) {
            self.error(
                Code::AxesMismatch,
                def.name.span,
                format!("`{}` must return the new weight, entry by entry", def.name.text),
            );
            return None;
        }
        let mut next = Vec::new();
        for (i, slot) in def.slots.iter().enumerate() {
            let new = match env.get_here(&format!("next {}", slot.text)) {
                Some(Found::Value(Value::Tensor(t))) => t.expr,
                _ => self.draft.table.push(Op::Slot(i), vec![entries], Dtype::Real, span),
            };
            next.push(new);
        }
        Some(hir::Rule { entries, slots: def.slots.iter().map(|s| s.text.clone()).collect(), next, value })
    }

    /// Whether a setting is of the kind of its default: a number where that is one, a list where that is a list.
    fn fits_default(&self, param: &ast::ParamDecl, value: &Value<'a>) -> bool {
        let number = |v: &Value<'a>| match v {
            Value::Num(_) | Value::Size(_) | Value::Dim(_) | Value::Error => true,
            Value::Tensor(t) => self.draft.table.axes_of(t.expr).is_empty() && self.draft.table.dtype(t.expr) != Dtype::Bool,
            _ => false,
        };
        match param.default.as_ref().map(|d| &d.kind) {
            None if param.name.text == "lr" => number(value),
            Some(ast::ExprKind::Number(_)) => number(value),
            Some(ast::ExprKind::List(_)) => matches!(value, Value::List(items) if items.iter().all(number)),
            _ => true,
        }
    }

    fn rule_settings(
        &mut self,
        def: &'a ast::OptimizerDef,
        call: &'a ast::Call,
        args: Vec<super::call::Arg<'a>>,
        env: &Env<'a>,
    ) -> Option<()> {
        let owner = Owner { name: &def.name.text, settings: true, span: call.span };
        let params: Vec<&'a ast::ParamDecl> = def.params.iter().collect();
        self.bind(&owner, &params, args, env, |cx, param, value, at| {
            if !cx.fits_default(param, &value) {
                let wanted = if matches!(param.default.as_ref().map(|d| &d.kind), Some(ast::ExprKind::List(_))) {
                    "a list of numbers"
                } else {
                    "a number"
                };
                let message = format!("`{}` is {wanted}, and this is {}", param.name.text, value.describe());
                cx.report(Diagnostic::new(Code::WrongKind, at, message).help("write a number such as 3e-4, or a schedule"));
                return None;
            }
            if let ("lr", Value::Num(n)) = (param.name.text.as_str(), &value)
                && (*n <= 0.0 || !n.is_finite())
            {
                cx.report(
                    Diagnostic::new(Code::BadSetting, at, format!("a learning rate cannot be {n}"))
                        .help("it is a small number above zero, such as 3e-4"),
                );
            }
            Some(value)
        })?;
        Some(())
    }
}

/// The optimisers that step before one, directly or through others, each once.
fn steps_before(optimizers: &[hir::Optimizer], of: usize) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    let mut open = optimizers[of].after.clone();
    while let Some(o) = open.pop() {
        if !found.contains(&o) {
            found.push(o);
            open.extend(&optimizers[o].after);
        }
    }
    found.sort_unstable();
    found
}
