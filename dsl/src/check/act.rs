//! Acting: the action at a step, and the state that reaches from one step to the next.

use std::collections::{BTreeSet, HashSet};

use super::value::Value;
use super::{ACT, Ctx, Site, TRAIN};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, ActState, ExprId, FamilyId, Index, Lhs, Op, StateValue, VarId};
use crate::source::Span;

/// What acting computes, before its system is solved.
pub(super) struct ActBuild {
    pub now: VarId,
    pub train: ExprId,
    pub eval: ExprId,
    pub span: Span,
}

impl<'a> Ctx<'a> {
    pub(super) fn elaborate_act(&mut self) -> Option<ActBuild> {
        let Some((equations, span)) = self.members.act else {
            self.missing("act", "say what the agent does: `act { train ~ pi(obs[t])  eval = pi(obs[t]).mode }`");
            return None;
        };
        // "Now" is step zero: the past is what the base cases and the carries say.
        let now = self.new_var("t", span, Some((0, 1)));
        let env = self.model_env(span.file);
        let (mut train, mut eval) = (None, None);
        for e in equations {
            let name = &e.place.name;
            if let Some(index) = e.place.indices.first() {
                self.report(
                    Diagnostic::new(Code::NotAnIndex, index.span, "acting happens now: its values have no subscripts")
                        .help(format!("write `{} = ..`", name.text)),
                );
                continue;
            }
            for clause in &e.clauses {
                self.error(Code::WrongKind, clause.span, "values of `act` have no clauses");
            }
            let site = Site { vars: vec![("t".to_string(), now)], ..Site::of(ACT, &format!("act.{}", name.text)) };
            let (value, _) = self.at_site(site, |cx| if e.draw { cx.draw(&e.value, &env) } else { cx.eval(&e.value, &env) });
            match name.text.as_str() {
                "train" => train = Some((value.clone(), e.value.span)),
                "eval" => eval = Some((value.clone(), e.value.span)),
                _ => {}
            }
            env.set(&name.text, value);
        }
        for (name, found) in [("train", &train), ("eval", &eval)] {
            if found.is_none() {
                let what = if name == "train" { "while training" } else { "while evaluating" };
                self.report(
                    Diagnostic::new(Code::ActMissing, span, format!("`act` does not say what to do {what}"))
                        .help(format!("add `{name} = ..`")),
                );
            }
        }
        let (train, eval) = (self.action_value(train?)?, self.action_value(eval?)?);
        self.elaborate_read(ACT);
        self.planner_nexts();
        self.elaborate_read(ACT);
        Some(ActBuild { now, train, eval, span })
    }

    fn action_value(&mut self, (value, span): (Value<'a>, Span)) -> Option<ExprId> {
        if value.is_error() {
            return None;
        }
        let e = self.as_tensor(&value, span)?;
        let want = self.action_axes();
        if self.same_axes(self.table.axes_of(e), &want) {
            return Some(e);
        }
        let (have, want) = (self.table.show(self.table.axes_of(e)), self.table.show(&want));
        self.report(
            Diagnostic::new(Code::ActShape, span, format!("an action has axes {want}")).here(format!("this has axes {have}")),
        );
        None
    }

    /// Values of earlier steps that acting needs, found by following the equations back from what it reads.
    pub(super) fn act_state(&mut self, act: &ActBuild) -> Vec<ActState> {
        let mut search = Search { needed: Vec::new(), seen: HashSet::new(), state: BTreeSet::new(), faults: Vec::new() };
        let mut roots = vec![act.train, act.eval];
        roots.extend(self.act_next.iter().map(|(_, e)| *e));
        roots.extend(self.systems[ACT].defs.iter().flat_map(|d| d.values.iter().copied()));
        self.follow(&roots, act.now, 0, false, true, &mut search);
        while let Some((family, leaf, after)) = search.needed.pop() {
            let build = &self.systems[TRAIN];
            let f = &build.families[family.0 as usize];
            if f.arity != 1 {
                let name = f.name.clone();
                search.faults.push((act.span, format!("acting needs `{name}`, which is no value of a single step")));
                continue;
            }
            let defs: Vec<(VarId, i64, ExprId)> = f
                .defs
                .iter()
                .map(|d| &build.defs[d.0 as usize])
                .filter_map(|d| match d.lhs.first() {
                    Some(Lhs::Var { var, offset }) => d.values.get(leaf).map(|v| (*var, *offset, *v)),
                    _ => None,
                })
                .collect();
            for (var, offset, value) in defs {
                self.follow(&[value], var, offset, after, false, &mut search);
            }
        }
        for (span, message) in search.faults {
            self.report(
                Diagnostic::new(Code::ActFuture, span, message)
                    .help("acting knows the observation of now, and everything before it"),
            );
        }
        search.state.into_iter().collect()
    }

    /// Reads of an expression, relative to the step that `var` plus `offset` is.
    fn follow(&self, roots: &[ExprId], var: VarId, offset: i64, after: bool, acting: bool, search: &mut Search) {
        let mut seen = HashSet::new();
        let mut open = roots.to_vec();
        while let Some(e) = open.pop() {
            if !seen.insert(e) {
                continue;
            }
            let span = self.table.nodes[e.0 as usize].span;
            let (value, index) = match self.table.op(e) {
                Op::Input { input, index } => (StateValue::Input(*input), std::slice::from_ref(index)),
                Op::Outer { family, leaf, index } => (StateValue::Family { family: *family, leaf: *leaf }, index.as_slice()),
                Op::Read { family, leaf, index } if !acting => {
                    (StateValue::Family { family: *family, leaf: *leaf }, index.as_slice())
                }
                op => {
                    op.operands(|x| open.push(x));
                    continue;
                }
            };
            let Some(distance) = distance(index, var, offset) else {
                // A base case at a fixed step: the carry holds it.
                if index.iter().any(|i| i.constant().is_none()) {
                    search.faults.push((span, "acting reads a value at a step that is not now or before".to_string()));
                }
                continue;
            };
            search.read(self, value, distance, after, span);
        }
    }
}

struct Search {
    /// Leaves of families at the present step; `true` once the action is known.
    needed: Vec<(FamilyId, usize, bool)>,
    seen: HashSet<(FamilyId, usize, bool)>,
    state: BTreeSet<ActState>,
    faults: Vec<(Span, String)>,
}

impl Search {
    fn read(&mut self, cx: &Ctx<'_>, value: StateValue, distance: i64, after: bool, span: Span) {
        if distance > 0 {
            self.faults.push((span, "acting would need the next step".to_string()));
            return;
        }
        if distance < 0 {
            if self.state.insert(ActState { value, lag: -distance })
                && let StateValue::Family { family, leaf } = value
            {
                // The next step needs it: it is computed once the action is known.
                self.need(family, leaf, true);
            }
            return;
        }
        match value {
            StateValue::Input(input) => {
                if cx.inputs[input].outcome && !after {
                    let name = &cx.inputs[input].name;
                    self.faults.push((span, format!("acting would need `{name}` of now, which it decides or brings about")));
                }
            }
            StateValue::Family { family, leaf } => self.need(family, leaf, after),
        }
    }

    fn need(&mut self, family: FamilyId, leaf: usize, after: bool) {
        if self.seen.insert((family, leaf, after)) {
            self.needed.push((family, leaf, after));
        }
    }
}

/// How many steps ahead of the present a subscript lies.
fn distance(index: &[Index], var: VarId, offset: i64) -> Option<i64> {
    let [index] = index else { return None };
    let (v, c) = index.shifted()?;
    (v == var).then_some(c - offset)
}

/// The acting system as the model has it.
pub(super) fn finished(build: ActBuild, system: hir::System, state: Vec<ActState>, next: Vec<(usize, ExprId)>) -> hir::Act {
    hir::Act { system, now: build.now, train: build.train, eval: build.eval, state, next }
}
