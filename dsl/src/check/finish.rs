//! The end of a check: time, reachability, and the model as a plain value.

use hashbrown::{HashMap, HashSet};

use super::act::ActBuild;
use super::objective::Objective;
use super::settings::Settings;
use super::system::SystemBuild;
use super::{ACT, Ctx, DrawFrom, EVALUATE, TRAIN, time};
use crate::ast::Ident;
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, ExprId, Family, Index, Op, ParamId, System, VarId};
use crate::source::Span;

impl<'a> Ctx<'a> {
    pub(super) fn finish(
        &mut self,
        objective: Objective,
        act: Option<ActBuild>,
        settings: Option<Settings>,
    ) -> Option<hir::Model> {
        if !self.sink.diagnostics.iter().any(Diagnostic::is_error) {
            self.unfinished_gradients();
        }
        let mut systems: Vec<System> = Vec::new();
        for id in [TRAIN, EVALUATE, ACT] {
            let build = std::mem::take(&mut self.systems[id]);
            systems.push(plain(&build));
            self.systems[id] = build;
        }
        self.judge_sizes();
        // Time needs equations that could be read; what was wrong with the others has been said.
        let clean = !self.sink.diagnostics.iter().any(Diagnostic::is_error);
        if clean {
            let decided = act.as_ref().map_or(Vec::new(), |build| build.sites(&self.acting.next, &self.draft.carries));
            self.solve(&mut systems, &objective, &decided);
            for (id, system) in systems.iter().enumerate() {
                self.gradients_in_loops(system, &system.stages, &[]);
                self.statistics_in_loops(system, &system.stages, &[]);
                self.gradients_into_loops(id, system);
            }
        }
        if clean {
            self.pointwise(TRAIN, &systems[TRAIN], &objective.train_sites);
            self.pointwise(EVALUATE, &systems[EVALUATE], &objective.evaluate_sites);
        }
        if clean {
            self.running_circles();
            self.records_fit();
            if settings.as_ref().is_some_and(|s| matches!(s.source, hir::Source::Replay { context, .. } if context > 0)) {
                self.context_reads();
            }
        }
        let act = act.map(|build| {
            let state = self.act_state(&build);
            let next = std::mem::take(&mut self.acting.next);
            (build, state, next)
        });
        if self.names.members.losses.is_empty() && !self.draft.params.is_empty() {
            self.missing("loss", "nothing would be learned: `loss dyn 1.0 = ..`");
        }
        // A mistake may be why something is not reached.
        if !self.sink.diagnostics.iter().any(Diagnostic::is_error) {
            self.unreached(&objective.losses, &objective.optimizers);
            self.unused();
        }
        if self.sink.diagnostics.iter().any(Diagnostic::is_error) {
            return None;
        }
        self.shared_draws(&systems[TRAIN], &systems[EVALUATE]);
        let settings = settings?;
        let (build, state, next) = act?;
        let records = self.systems[TRAIN]
            .families
            .iter()
            .enumerate()
            .filter(|(_, f)| f.record)
            .map(|(i, _)| hir::FamilyId(i as u32))
            .collect();
        let act_system = systems.pop().unwrap_or_default();
        let evaluate = systems.pop().unwrap_or_default();
        let train = systems.pop().unwrap_or_default();
        let (low, high) = self.action_range();
        let action_name = self.names.members.action.map(|(t, _)| t.name.text.clone())?;
        let action = hir::Action { input: self.draft.inputs.iter().position(|i| i.name == action_name)?, low, high };
        let vars = self
            .draft
            .vars
            .iter()
            .map(|v| hir::Var { name: v.name.clone(), lo: v.range.map_or(0, |r| r.0), hi: v.range.map_or(0, |r| r.1) })
            .collect();
        let modules = (0..self.draft.modules.len())
            .map(|i| {
                let m = &self.draft.modules[i];
                hir::Module {
                    name: m.name.clone(),
                    kind: m.kind,
                    signature: self.signature(i),
                    params: m.params.clone(),
                    ensemble: m.ensemble,
                    slow: m.slow,
                    span: m.span,
                }
            })
            .collect();
        let mut model = hir::Model {
            name: self.flat.name.text.clone(),
            axes: std::mem::take(&mut self.draft.table.axes),
            dims: std::mem::take(&mut self.draft.dims.list),
            inputs: std::mem::take(&mut self.draft.inputs),
            action,
            latents: std::mem::take(&mut self.draft.latents),
            modules,
            params: std::mem::take(&mut self.draft.params),
            carries: std::mem::take(&mut self.draft.carries),
            schedules: std::mem::take(&mut self.draft.schedules),
            draws: std::mem::take(&mut self.draft.draws),
            exprs: std::mem::take(&mut self.draft.table.nodes),
            vars,
            train,
            running: std::mem::take(&mut self.draft.running),
            losses: objective.losses,
            records,
            evaluate,
            metrics: objective.metrics,
            diagnose: objective.diagnose,
            quantities: objective.quantities,
            probes: objective.probes,
            shows: objective.shows,
            act: Some(super::act::finished(build, act_system, state, next)),
            optimizers: objective.optimizers,
            source: settings.source,
            settings: settings.train,
            tasks: settings.tasks,
        };
        bind_counts(&mut model);
        order_params(&mut model);
        Some(model)
    }

    /// `decided` is what acting computes of its equations.
    fn solve(&mut self, systems: &mut [System], objective: &Objective, decided: &[time::Site]) {
        for (id, sites) in [(TRAIN, objective.train_sites.as_slice()), (EVALUATE, &objective.evaluate_sites), (ACT, decided)] {
            self.place.sizes = if id == EVALUATE { super::Sizes::Evaluate } else { super::Sizes::Train };
            let inputs: Vec<(String, (i64, i64))> =
                (0..self.draft.inputs.len()).map(|i| (self.draft.inputs[i].name.clone(), self.input_domain(i))).collect();
            systems[id].inputs = inputs.iter().map(|(_, domain)| *domain).collect();
            let mut found = Vec::new();
            // Acting reads the training's values at "now", which `act_state` follows itself.
            let inputs =
                if id == ACT { inputs.into_iter().map(|(n, _)| (n, (i64::MIN / 4, i64::MAX / 4))).collect() } else { inputs };
            let time = self.draft.dims.time.clone().filter(|_| id != ACT).and_then(|name| {
                let axis = self.draft.dims.get(&name, self.place.sizes)?;
                Some((name, self.draft.table.size(axis).value()?))
            });
            // The losses and metrics of an on-policy source run over transitions, the steps that have an action.
            let within: Vec<(VarId, (i64, i64))> = match self.transitions(&systems[id]).filter(|_| id != ACT) {
                Some(steps) => sites.iter().filter_map(|site| Some((*site.vars.first()?, steps))).collect(),
                None => Vec::new(),
            };
            let hidden: Vec<usize> = self.systems[id].families.iter().map(super::system::FamilyBuild::hidden).collect();
            time::solve(
                time::Problem {
                    exprs: &self.draft.table.nodes,
                    written_out: &self.gradients.written_out,
                    vars: &mut self.draft.vars,
                    system: &mut systems[id],
                    sites,
                    touched: &self.systems[id].touched,
                    inputs: &inputs,
                    outer: None,
                    time: time.as_ref().map(|(name, steps)| (name.as_str(), *steps)),
                    hidden: &hidden,
                    within: &within,
                },
                &mut found,
            );
            // The text of a planner's algorithm may be the prelude's.
            let planner = self.systems[id].families.iter().find_map(|f| self.planner_of(&f.name));
            self.sink.calls.extend(planner.filter(|_| id == ACT));
            for d in found {
                self.report(d);
            }
            self.sink.calls.clear();
        }
        self.place.sizes = super::Sizes::Train;
    }

    /// A gradient through equations that are not written out is taken where they are computed: in the same loop, or in none.
    fn gradients_in_loops(&mut self, system: &System, stages: &[hir::Stage], inside: &[hir::FamilyId]) {
        if self.gradients.in_place.is_empty() {
            return;
        }
        for stage in stages {
            match stage {
                hir::Stage::Scan { body, .. } => {
                    let mut families = Vec::new();
                    computed(system, body, &mut families);
                    self.gradients_in_loops(system, body, &families);
                }
                hir::Stage::Map(def) if !inside.is_empty() => {
                    let mut open = system.def(*def).values.clone();
                    let mut seen = HashSet::new();
                    while let Some(e) = open.pop() {
                        if !seen.insert(e) {
                            continue;
                        }
                        let op = self.draft.table.op(e);
                        op.operands(|x| open.push(x));
                        let Op::Grad { wrt, .. } = *op else { continue };
                        let here = matches!(self.draft.table.op(wrt), Op::Read { family, .. } if inside.contains(family));
                        if self.gradients.in_place.contains_key(&e) && !here {
                            let span = self.draft.table.nodes[e.0 as usize].span;
                            self.report(
                                Diagnostic::new(
                                    Code::GradThroughScan,
                                    span,
                                    "a gradient cannot leave the loop that it is taken in",
                                )
                                .help("give it an equation of its own, `g[t] = grad(..)`, and read that"),
                            );
                        }
                    }
                }
                hir::Stage::Map(_) => {}
            }
        }
    }

    /// Where an on-policy source has an action, `lo..hi`; none for other sources.
    fn transitions(&self, system: &System) -> Option<(i64, i64)> {
        let (action, _) = self.names.members.action.filter(|_| self.is_rollout())?;
        let input = self.draft.inputs.iter().position(|i| i.name == action.name.text)?;
        system.inputs.get(input).copied()
    }

    /// An on-policy update sees minibatches of transitions, in any order. So losses and equations read no other step, do
    /// not know their own, and exist at all transitions.
    fn pointwise(&mut self, id: usize, system: &System, sites: &[time::Site]) {
        let Some(steps) = self.transitions(system) else { return };
        let recorded = |family: hir::FamilyId| self.systems[id].families[family.0 as usize].record;
        // Values with their step, and whether it may go beyond the transitions: a record may read the last observation's.
        let mut values: Vec<(ExprId, Option<VarId>, bool)> = Vec::new();
        for def in system.defs.iter().filter(|def| !recorded(def.family)) {
            values.extend(def.values.iter().map(|v| (*v, def.vars.first().copied(), true)));
        }
        for site in sites {
            values.extend(site.values.iter().map(|v| (*v, site.vars.first().copied(), false)));
        }
        let mut found: Vec<Diagnostic> = Vec::new();
        let mut short = None;
        let mut seen = HashSet::new();
        for (root, var, wider) in values {
            let range = var.and_then(|v| self.draft.vars[v.0 as usize].range);
            let covers = range.is_none_or(|r| r == steps || wider && r.0 <= steps.0 && steps.1 <= r.1);
            let mut open = vec![root];
            while let Some(e) = open.pop() {
                if !seen.insert((e, var)) {
                    continue;
                }
                let span = self.draft.table.nodes[e.0 as usize].span;
                let (index, name): (&[Index], &str) = match self.draft.table.op(e) {
                    Op::Input { index, input } => (std::slice::from_ref(index), &self.draft.inputs[*input].name),
                    Op::Read { index, family, .. } => (index, &system.families[family.0 as usize].name),
                    Op::Index(index) if covers && index.terms.iter().any(|(v, _)| Some(*v) == var) => {
                        let message = "an on-policy update sees single steps, and does not know their numbers";
                        let d = Diagnostic::new(Code::NotPointwise, span, message);
                        found.push(d.help("compute it when the data is collected: `record x[t] = ..`"));
                        continue;
                    }
                    op => {
                        op.operands(|x| open.push(x));
                        continue;
                    }
                };
                if index.iter().any(|i| i.shifted().is_none_or(|(v, c)| Some(v) != var || c != 0)) {
                    let message = format!("an on-policy update sees single steps, and this reads another step of `{name}`");
                    let d = Diagnostic::new(Code::NotPointwise, span, message);
                    found.push(d.help("compute it when the data is collected: `record x[t] = ..`"));
                } else if let Some((lo, hi)) = range.filter(|_| !covers) {
                    let (first, last) = steps;
                    let message = format!(
                        "an on-policy update runs over the transitions {first}..{last}, and this reads `{name}` at {lo}..{hi}"
                    );
                    short.get_or_insert(Diagnostic::new(Code::NotPointwise, span, message).help(
                        "leave out the range, and select steps with `where`; a recorded value must exist at every transition",
                    ));
                }
            }
        }
        // A read of another step is why a range is short.
        if found.is_empty() {
            found.extend(short);
        }
        let mut told: Vec<Span> = Vec::new();
        for d in found {
            if !told.contains(&d.primary.span) {
                told.push(d.primary.span);
                self.report(d);
            }
        }
    }

    /// A draw whose distribution is the same for every sample is drawn once for all.
    fn shared_draws(&mut self, train: &System, evaluate: &System) {
        if !self.draft.draw_from.iter().any(|from| matches!(from, DrawFrom::Values(_))) {
            return;
        }
        let [a, b] = [train, evaluate].map(|system| per_sample(&self.draft.table.nodes, system));
        for (draw, from) in self.draft.draws.iter_mut().zip(&self.draft.draw_from) {
            if let DrawFrom::Values(parts) = from {
                // A part's families are those of the system it was elaborated in: the larger set decides.
                draw.per_sample = parts.iter().any(|e| a[e.0 as usize] || b[e.0 as usize]);
            }
        }
    }

    /// What the model itself declares and nothing reads. What it inherits and does not need costs nothing.
    fn unused(&mut self) {
        let mut found = Vec::new();
        let mut tell = |what: &str, name: &Ident, help: &str| {
            if self.flat.owns(name.span) {
                let message = format!("nothing {what} `{}`", name.text);
                found.push(Diagnostic::new(Code::Unused, name.span, message).help(help));
            }
        };
        for f in &self.systems[TRAIN].families {
            let input = self.draft.inputs.iter().any(|i| i.name == f.name);
            let evaluated = self.systems[EVALUATE].find(&f.name).map(|id| &self.systems[EVALUATE].families[id]);
            if !(f.used || input || evaluated.is_some_and(|f| f.used)) {
                tell("reads", &Ident { text: f.name.clone(), span: f.span }, "use it in a loss, or leave it out");
            }
        }
        let m = &self.names.members;
        let named = [
            ("reads the dim", m.dims.iter().map(|b| &b.name).collect::<Vec<_>>()),
            ("reads the const", m.consts.iter().map(|b| &b.name).collect()),
            ("reads the schedule", m.schedules.iter().map(|b| &b.name).collect()),
            ("calls the function", m.fns.values().map(|f| &f.name).collect()),
            ("calls the planner", m.planners.iter().map(|p| &p.name).collect()),
        ];
        for (what, names) in named {
            for name in names.into_iter().filter(|name| !self.names.used.contains(&name.text)) {
                tell(what, name, "leave it out, or see whether another name was meant");
            }
        }
        for (name, _) in m.slows.iter().filter(|(name, _)| !self.names.used.contains(&format!("slow.{}", name.text))) {
            tell("calls the slow copy of", name, &format!("write `slow.{}(..)`, or leave it out", name.text));
        }
        found.sort_by_key(|d| d.primary.span);
        for d in found {
            self.report(d);
        }
    }
}

fn plain(build: &SystemBuild<'_>) -> System {
    let families = build
        .families
        .iter()
        .map(|f| Family {
            name: f.name.clone(),
            arity: f.arity,
            leaves: f.leaves.clone(),
            defs: f.defs.clone(),
            domain: Vec::new(),
        })
        .collect();
    System { families, defs: build.defs.clone(), stages: Vec::new(), inputs: Vec::new() }
}

/// Which expressions differ between samples: whatever an input, a carry or the training's values flow into. Each
/// expression and each family is marked once and hands the mark on once.
fn per_sample(nodes: &[hir::Node], system: &System) -> Vec<bool> {
    let mut users: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
    let mut reads: Vec<Vec<u32>> = vec![Vec::new(); system.families.len()];
    let mut open: Vec<u32> = Vec::new();
    for (i, node) in (0..).zip(nodes) {
        match &node.op {
            Op::Input { .. } | Op::Carry(_) | Op::Outer { .. } => open.push(i),
            Op::Read { family, .. } => reads.get_mut(family.0 as usize).into_iter().for_each(|r| r.push(i)),
            // One value for the whole batch.
            Op::Fold { batch: true, .. } | Op::Collect { batch: true, .. } => {}
            op => op.operands(|x| users[x.0 as usize].push(i)),
        }
    }
    let mut defines: HashMap<u32, Vec<usize>> = HashMap::new();
    for def in &system.defs {
        def.values.iter().for_each(|v| defines.entry(v.0).or_default().push(def.family.0 as usize));
    }
    let mut varies = vec![false; nodes.len()];
    while let Some(i) = open.pop() {
        if std::mem::replace(&mut varies[i as usize], true) {
            continue;
        }
        open.append(&mut users[i as usize]);
        for family in defines.get(&i).into_iter().flatten() {
            open.append(&mut reads[*family]);
        }
    }
    varies
}

/// Counts of points that were not known while elaborating (`#12` in a size) are known now.
/// The families that stages give.
fn computed(system: &System, stages: &[hir::Stage], families: &mut Vec<hir::FamilyId>) {
    for stage in stages {
        match stage {
            hir::Stage::Map(def) => families.push(system.def(*def).family),
            hir::Stage::Scan { body, .. } => computed(system, body, families),
        }
    }
}

fn bind_counts(model: &mut hir::Model) {
    let counts: Vec<i64> = model.vars.iter().map(hir::Var::len).collect();
    let bind = |name: &str| name.strip_prefix('#').and_then(|n| n.parse::<usize>().ok()).and_then(|n| counts.get(n).copied());
    for axis in &mut model.axes {
        if axis.size.symbols().iter().any(|s| s.starts_with('#')) {
            axis.size = axis.size.bind(&bind);
        }
    }
}

/// Parameters in the order of their modules, whatever was needed first.
fn order_params(model: &mut hir::Model) {
    let mut order: Vec<usize> = (0..model.params.len()).collect();
    order.sort_by_key(|i| model.params[*i].module);
    let new: HashMap<u32, u32> = order.iter().enumerate().map(|(new, old)| (*old as u32, new as u32)).collect();
    let map = |p: &mut ParamId| {
        if let Some(n) = new.get(&p.0) {
            p.0 = *n;
        }
    };
    model.params = order.iter().map(|i| model.params[*i].clone()).collect();
    for module in &mut model.modules {
        module.params.iter_mut().for_each(map);
    }
    for o in &mut model.optimizers {
        o.params.iter_mut().for_each(|(p, _)| map(p));
        o.params.sort_by_key(|(p, _)| *p);
        o.sees.iter_mut().for_each(map);
        o.sees.sort();
    }
    for node in &mut model.exprs {
        if let Op::Param(p) | Op::Slow(p) = &mut node.op {
            map(p);
        }
    }
}
