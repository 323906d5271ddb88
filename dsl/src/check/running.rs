//! Running statistics: values of any shape that every update renews from its batch.
//!
//! The start says the shape, so the starts are elaborated before anything that may read a statistic. The rule is
//! elaborated with the losses. Inside its own rule a statistic is the old value; everywhere else in an update it is the new
//! one, so a rule may not need its own result.

use hashbrown::HashSet;

use super::{Ctx, Site, TRAIN, time};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, ExprId, Op, VarId};

impl<'a> Ctx<'a> {
    /// Names, starts and axes; the rules follow in [`Ctx::elaborate_running`].
    pub(super) fn running_starts(&mut self) {
        let mut running = Vec::new();
        for (name, _, init) in self.names.members.runnings.clone() {
            let env = self.model_env(name.span.file);
            let (start, _) = self.at_site(Site::outside(TRAIN), |cx| cx.eval(init, &env));
            let start = if start.is_error() { None } else { self.as_tensor(&start, init.span) };
            let init = start.unwrap_or_else(|| self.draft.table.constant(0.0, init.span));
            let axes = self.draft.table.axes_of(init).to_vec();
            running.push(hir::Running { name: name.text.clone(), axes, value: init, init, vars: Vec::new(), span: name.span });
        }
        self.draft.running = running;
    }

    pub(super) fn elaborate_running(&mut self, sites: &mut Vec<time::Site>) {
        for (i, (name, value, init)) in self.names.members.runnings.clone().into_iter().enumerate() {
            let Some(mean) = self.mean(TRAIN, &name.text, value, &[], &[], false) else { continue };
            let (want, have) = (self.draft.running[i].axes.clone(), self.draft.table.axes_of(mean.value).to_vec());
            if !have.iter().all(|axis| want.contains(axis)) {
                let (want, have) = (self.draft.table.having(&want), self.draft.table.having(&have));
                self.report(
                    Diagnostic::new(Code::AxesMismatch, value.span, format!("`{}` starts with other axes", name.text))
                        .here(format!("this has {have}"))
                        .label(init.span, format!("the start has {want}"))
                        .help("give the start the same axes: `init zeros([O])`"),
                );
                continue;
            }
            if self.is_open(mean.value) {
                let message = format!("`{}` is one value for the whole batch", name.text);
                let over = if self.is_rollout() { "[t]" } else { "[B, t]" };
                self.report(
                    Diagnostic::new(Code::OverMissing, value.span, message)
                        .here("this has one for each sample or step")
                        .help(format!("reduce over all of them: `mean(x[t], over = {over})`")),
                );
            }
            sites.push(mean.site(format!("the running value `{}`", name.text), value.span));
            self.draft.running[i].value = mean.value;
            self.draft.running[i].vars = mean.vars;
        }
    }

    /// A rule that needs its own result, through an equation or another statistic.
    pub(super) fn running_circles(&mut self) {
        for i in 0..self.draft.running.len() {
            let mut open = vec![(self.draft.running[i].value, true)];
            let mut seen = HashSet::new();
            while let Some((e, own)) = open.pop() {
                if !seen.insert((e, own)) {
                    continue;
                }
                match self.draft.table.op(e) {
                    Op::Running(j) if *j == i && !own => {
                        let name = self.draft.running[i].name.clone();
                        let d = Diagnostic::new(
                            Code::SelfReference,
                            self.draft.running[i].span,
                            format!("the running value `{name}` needs its own new value"),
                        )
                        .label(self.draft.table.nodes[e.0 as usize].span, "read here")
                        .help(format!(
                            "an equation that its rule reads cannot read `{name}`: compute the statistic of what comes before"
                        ));
                        self.report(d);
                        break;
                    }
                    Op::Running(j) if *j != i => open.push((self.draft.running[*j].value, false)),
                    Op::Running(_) => {}
                    Op::Read { family, leaf, .. } => {
                        let build = &self.systems[TRAIN];
                        let defs = build.families[family.0 as usize].defs.iter().map(|d| &build.defs[d.0 as usize]);
                        open.extend(defs.filter_map(|d| Some((*d.values.get(*leaf)?, false))));
                    }
                    op => op.operands(|x| open.push((x, own))),
                }
            }
        }
    }

    /// Whether a value still differs between samples or steps: it reads some that nothing reduces over.
    fn is_open(&self, value: ExprId) -> bool {
        // Each with what is reduced over around it: the batch, which on-policy data does not have, and indices (all of them
        // inside another equation).
        let mut open: Vec<(ExprId, bool, Option<Vec<VarId>>)> = vec![(value, self.is_rollout(), Some(Vec::new()))];
        let mut seen = HashSet::new();
        while let Some((e, batch, vars)) = open.pop() {
            if !seen.insert((e, batch, vars.clone())) {
                continue;
            }
            let with = |more: &[VarId]| vars.as_ref().map(|v| v.iter().chain(more).copied().collect());
            let free = |index: &[hir::Index]| {
                vars.as_ref().is_some_and(|known| index.iter().flat_map(|i| &i.terms).any(|(v, _)| !known.contains(v)))
            };
            match self.draft.table.op(e) {
                Op::Input { index, .. } if !batch || free(std::slice::from_ref(index)) => return true,
                Op::Read { index, .. } if free(index) => return true,
                Op::Read { family, leaf, .. } if !batch => {
                    let build = &self.systems[TRAIN];
                    let defs = build.families[family.0 as usize].defs.iter().map(|d| &build.defs[d.0 as usize]);
                    open.extend(defs.filter_map(|d| Some((*d.values.get(*leaf)?, batch, None))));
                }
                Op::Fold { vars: over, batch: all, body, .. } | Op::Collect { vars: over, batch: all, body, .. } => {
                    open.push((*body, batch || *all, with(over)));
                }
                Op::Each { var, body, .. } => open.push((*body, batch, with(&[*var]))),
                op => op.operands(|x| open.push((x, batch, vars.clone()))),
            }
        }
        false
    }
}
