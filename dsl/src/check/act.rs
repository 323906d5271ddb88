//! Acting: the action at a step, and the state that reaches from one step to the next.

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};

use super::targets::{Names, targets};
use super::value::Value;
use super::{ACT, Ctx, Site, TRAIN, time};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, ActState, ExprId, FamilyId, Index, Lhs, Op, StateValue, VarId};
use crate::source::Span;

/// What acting computes, before its system is solved.
pub(super) struct ActBuild {
    pub now: VarId,
    pub train: ExprId,
    pub eval: ExprId,
    values: Vec<(String, ExprId)>,
    /// Where each of the values is written.
    homes: Vec<Span>,
    span: Span,
}

impl ActBuild {
    /// What acting reads of its equations: the values of `act`, and what carries become.
    pub(super) fn sites(&self, next: &[(usize, ExprId)], carries: &[hir::Carry]) -> Vec<time::Site> {
        let site = |value: ExprId, span: Span, what: String| time::Site {
            vars: Vec::new(),
            values: vec![value],
            touched: Vec::new(),
            span,
            what,
        };
        let values =
            self.values.iter().zip(&self.homes).map(|((name, value), home)| site(*value, *home, format!("`act`'s `{name}`")));
        let next = next.iter().map(|(carry, value)| site(*value, self.span, format!("what `{}` becomes", carries[*carry].path)));
        let decided = [self.train, self.eval].map(|value| site(value, self.span, "`act`".into()));
        values.chain(next).chain(decided).collect()
    }
}

impl<'a> Ctx<'a> {
    pub(super) fn elaborate_act(&mut self) -> Option<ActBuild> {
        let Some((equations, span)) = self.names.members.act else {
            self.missing("act", "say what the agent does: `act { train ~ pi(obs[t])  eval = pi(obs[t]).mode }`");
            return None;
        };
        // "Now" is step zero: the past is what the base cases and the carries say.
        let now = self.draft.new_var("t", span, Some((0, 1)));
        let env = self.model_env(span.file);
        let (mut train, mut eval) = (None, None);
        let (mut values, mut homes) = (Vec::new(), Vec::new());
        self.gradients.targets = targets(equations.iter().map(|e| (Some(&*e.place.name.text), &e.value))).into();
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
            let value = self.named(&name.text, value, e.value.span);
            arrays(&name.text, &value, &mut values);
            homes.resize(values.len(), e.value.span);
            env.set(&*name.text, value);
        }
        self.gradients.targets = Names::default();
        for (name, found) in [("train", &train), ("eval", &eval)] {
            if found.is_none() {
                let what = if name == "train" { "while training" } else { "while evaluating" };
                let word = Span { hi: span.lo + 3, ..span };
                self.report(
                    Diagnostic::new(Code::ActMissing, word, format!("`act` does not say what to do {what}"))
                        .help(format!("add `{name} = ..`")),
                );
            }
        }
        let (train, eval) = (train.and_then(|v| self.action_value(v)), eval.and_then(|v| self.action_value(v)));
        // Whatever is wrong with the actions, the planner's equations are looked at.
        self.elaborate_read(ACT);
        self.planner_nexts();
        self.elaborate_read(ACT);
        let (train, eval) = (train?, eval?);
        Some(ActBuild { now, train, eval, values, homes, span })
    }

    fn action_value(&mut self, (value, span): (Value<'a>, Span)) -> Option<ExprId> {
        if value.is_error() {
            return None;
        }
        let e = self.as_tensor(&value, span)?;
        let want = self.action_axes();
        if self.same_axes(self.draft.table.axes_of(e), &want) {
            return Some(e);
        }
        if matches!(value, Value::Zeros) {
            return Some(self.draft.table.broadcast(e, &want, span));
        }
        let (have, want) = (self.draft.table.having(self.draft.table.axes_of(e)), self.draft.table.having(&want));
        self.report(Diagnostic::new(Code::ActShape, span, format!("an action has {want}")).here(format!("this has {have}")));
        None
    }

    /// Values of earlier steps that acting needs, found by following the equations back from what it reads.
    pub(super) fn act_state(&mut self, act: &ActBuild) -> (Vec<ActState>, Vec<FamilyId>) {
        let mut search = Search { who: "acting", timeless: self.timeless(), ..Search::default() };
        let written = act.values.iter().map(|(_, e)| *e).zip(act.homes.iter().copied());
        let rest = [act.train, act.eval].into_iter().chain(self.acting.next.iter().map(|(_, e)| *e));
        let rest = rest.chain(self.systems[ACT].defs.iter().flat_map(|d| d.values.iter().copied()));
        for (root, home) in written.chain(rest.map(|e| (e, act.span))) {
            self.follow(root, (act.now, 0), false, (None, home), &mut search);
        }
        self.follow_needs(act.now, &mut search);
        for d in search.faults {
            self.report(d);
        }
        let timeless = self.closure(search.constants);
        (search.state.into_iter().collect(), timeless)
    }

    /// What the steps before a segment need: they come one at a time, as the steps of an agent do.
    pub(super) fn context_reads(&mut self) {
        let mut search = Search { who: "a step of the `context`", ..Search::default() };
        for (id, f) in self.systems[TRAIN].families.iter().enumerate() {
            let defs = || f.defs.iter().map(|d| &self.systems[TRAIN].defs[d.0 as usize]);
            if !defs().any(|d| matches!(d.lhs[..], [Lhs::Var { offset: 0, .. }])) {
                continue;
            }
            for (at, leaves) in defs().filter_map(|d| match d.lhs[..] {
                [Lhs::At(at)] if at < 0 => Some((at, d.values.len())),
                _ => None,
            }) {
                for leaf in 0..leaves {
                    let need = Need { family: FamilyId(id as u32), leaf, after: true, lag: None, asked: f.span };
                    search.need(need);
                    search.need(Need { lag: Some(-at), ..need });
                }
            }
        }
        let now = self.draft.new_var("t", Span::default(), Some((0, 1)));
        self.follow_needs(now, &mut search);
        for d in search.faults {
            self.report(d);
        }
    }

    /// Follows what is needed through the equations of the training, until nothing more is.
    fn follow_needs(&self, now: VarId, search: &mut Search) {
        while let Some(need) = search.needed.pop() {
            let build = &self.systems[TRAIN];
            let f = &build.families[need.family.0 as usize];
            if f.failed {
                continue;
            }
            if f.arity != 1 {
                match self.statistic_of(need.family) {
                    Some(at) => search.statistic(need.asked, at),
                    None => {
                        let message = format!("{} needs `{}`, which is no value of a single step", search.who, f.name);
                        search.fault(need.asked, None, message);
                    }
                }
                continue;
            }
            let defs = f.defs.iter().map(|d| &build.defs[d.0 as usize]);
            if let Some(lag) = need.lag {
                // The start, which a new episode brings back.
                let start = defs.clone().find(|d| d.lhs == [Lhs::At(-lag)]).and_then(|d| d.values.get(need.leaf));
                if let Some(start) = start {
                    self.follow(*start, (now, 0), need.after, (Some(need.asked), f.span), search);
                }
                continue;
            }
            let mut along = defs.clone().filter_map(|d| match d.lhs.first() {
                Some(Lhs::Var { var, offset }) => d.values.get(need.leaf).map(|v| (*var, *offset, *v)),
                _ => None,
            });
            let placed = defs.clone().find(|d| matches!(d.lhs.first(), Some(Lhs::At(at)) if *at >= 0));
            match (along.next(), along.next().is_none(), placed) {
                (Some((var, 0, value)), true, None) => {
                    self.follow(value, (var, 0), need.after, (Some(need.asked), f.span), search);
                }
                _ => search.placed(need.asked, f.span, &f.name),
            }
        }
    }

    /// Follows the reads of an expression, relative to the step that a variable plus an offset is. `asked` is where acting
    /// asked for the value, none where the expression is acting's own; `home` is where its equation stands.
    fn follow(
        &self,
        root: ExprId,
        (var, offset): (VarId, i64),
        after: bool,
        (asked, home): (Option<Span>, Span),
        search: &mut Search,
    ) {
        // The leaves of a memory share nearly all of their expressions: what was walked for one is not for the next.
        let mut walked = search.walked.remove(&(var, offset, after)).unwrap_or_default();
        let mut open = vec![root];
        while let Some(e) = open.pop() {
            if !walked.insert(e) {
                continue;
            }
            let span = self.shown(self.draft.table.nodes[e.0 as usize].span, home);
            let (value, index) = match self.draft.table.op(e) {
                Op::Input { input, index } => (StateValue::Input(*input), std::slice::from_ref(index)),
                Op::Outer { family, leaf, index } => (StateValue::Family { family: *family, leaf: *leaf }, index.as_slice()),
                Op::Read { family, leaf, index } if asked.is_some() => {
                    (StateValue::Family { family: *family, leaf: *leaf }, index.as_slice())
                }
                // Acting takes the other branch.
                Op::Select(c, _, acting) if matches!(self.draft.table.op(*c), Op::Training) => {
                    open.push(*acting);
                    continue;
                }
                Op::Fold { vars, batch, body, .. } | Op::Collect { vars, batch, body, .. } => {
                    if *batch || vars.contains(&var) {
                        search.statistic(asked.unwrap_or(span), span);
                    } else {
                        search.folded.extend(vars.iter().map(|v| (*v, span)));
                        open.push(*body);
                    }
                    continue;
                }
                Op::Index(index) | Op::At { index, .. } if index.terms.iter().any(|(v, _)| *v == var) => {
                    search.counted(asked.unwrap_or(span), span);
                    continue;
                }
                op => {
                    op.operands(|x| open.push(x));
                    continue;
                }
            };
            let at = (asked.unwrap_or(span), asked.map(|_| span));
            if let StateValue::Family { family, .. } = value
                && search.timeless.contains(&family)
                && !index.iter().flat_map(|i| &i.terms).any(|(v, _)| *v == var)
            {
                search.constants.insert(family);
                continue;
            }
            let Some(distance) = distance(index, var, offset) else {
                let vars = || index.iter().flat_map(|i| &i.terms).map(|(v, _)| *v);
                let folded = if vars().any(|v| v == var) { None } else { vars().find_map(|v| search.folded.get(&v).copied()) };
                let statistic = match value {
                    StateValue::Family { family, .. } => folded.or_else(|| self.statistic_of(family)),
                    StateValue::Input(_) => folded,
                };
                match (self.start_at(value, index), statistic) {
                    (Some(start), _) => open.push(start),
                    (None, Some(place)) => search.statistic(at.0, place),
                    (None, None) if vars().next().is_none() => search.fixed_step(at.0, at.1),
                    (None, None) => {
                        search.fault(at.0, at.1, format!("{} reads a value at a step that is not now or before", search.who));
                    }
                }
                continue;
            };
            search.read(self, value, distance, after, at);
        }
        search.walked.insert((var, offset, after), walked);
    }
}

/// A leaf of a family at the present step; `after` once the action is known.
#[derive(Clone, Copy)]
struct Need {
    family: FamilyId,
    leaf: usize,
    after: bool,
    /// Its start, so many steps before the first, and not the step itself.
    lag: Option<i64>,
    /// Where acting reads what led here.
    asked: Span,
}

#[derive(Default)]
struct Search {
    /// Who reads: acting, or a step of the context.
    who: &'static str,
    needed: Vec<Need>,
    seen: HashSet<(FamilyId, usize, bool, Option<i64>)>,
    /// Expressions whose reads are known, by the step that they were read at.
    walked: HashMap<(VarId, i64, bool), HashSet<ExprId>>,
    state: BTreeSet<ActState>,
    /// Families that parameters alone determine, and those of them that acting reads.
    timeless: BTreeSet<FamilyId>,
    constants: BTreeSet<FamilyId>,
    /// Indices that a reduction runs over, with its place.
    folded: HashMap<VarId, Span>,
    faults: Vec<Diagnostic>,
}

impl Search {
    /// A read that acting cannot make; `because` is the equation's own read, where it is not acting's.
    fn fault(&mut self, asked: Span, because: Option<Span>, message: String) {
        let d = Diagnostic::new(Code::ActFuture, asked, message);
        let d = match because {
            Some(because) if because != asked => d.here("this needs it").label(because, "read here"),
            _ => d,
        };
        self.faults.push(d.help("acting knows the observation of now, and everything before it"));
    }

    /// A statistic of the batch, which one observation does not have.
    fn statistic(&mut self, asked: Span, at: Span) {
        let d = Diagnostic::new(
            Code::ActStatistic,
            asked,
            format!("{} sees one observation, and this needs a whole batch", self.who),
        );
        let d = if at == asked { d.here("a statistic of the batch") } else { d.here("this needs it").label(at, "the statistic") };
        let help = "keep it as a running value, `running mu = lerp(mu, mean(x[t], over = [B, t]), 0.01) init zeros([X])`, and read \
                    that: `if (training) { mean(x[t], over = [B, t]) } else { mu }`";
        self.faults.push(d.help(help));
    }

    /// A value at a fixed step of a segment, which an agent does not keep.
    fn fixed_step(&mut self, asked: Span, because: Option<Span>) {
        let d = Diagnostic::new(Code::ActFixedStep, asked, format!("{} reads a value at a fixed step of a segment", self.who));
        let d = match because {
            Some(because) if because != asked => d.here("this needs it").label(because, "read here"),
            _ => d,
        };
        self.faults.push(d.help("an agent is at step `t` of an episode: read the value at `t` or before"));
    }

    /// A family whose equation depends on the place in a segment.
    fn placed(&mut self, asked: Span, family: Span, name: &str) {
        let message = format!("{} needs one equation for `{name}[t]`, and it has another at some steps of a segment", self.who);
        self.faults.push(
            Diagnostic::new(Code::ActPlace, asked, message)
                .here("this needs it")
                .label(family, "its equations")
                .help(format!("write one equation that looks back: `{name}[t] = .. {name}[t-1] .. with {name}[-1] = ..`")),
        );
    }

    /// The number of a step.
    fn counted(&mut self, asked: Span, at: Span) {
        let d = Diagnostic::new(Code::ActPlace, asked, format!("{} does not know which step of a segment this is", self.who));
        let d = if at == asked { d.here("the number of the step") } else { d.here("this needs it").label(at, "counts steps") };
        self.faults.push(d.help("count the steps yourself: `n[t] = n[t-1] + 1 with n[-1] = 0 reset first[t]`"));
    }

    fn read(&mut self, cx: &Ctx<'_>, value: StateValue, distance: i64, after: bool, (asked, because): (Span, Option<Span>)) {
        let name = match value {
            StateValue::Input(input) => &cx.draft.inputs[input].name,
            StateValue::Family { family, .. } => &cx.systems[TRAIN].families[family.0 as usize].name,
        };
        if distance > 0 {
            self.fault(asked, because, format!("{} would need `{name}[t+{distance}]`, which is not there yet", self.who));
            return;
        }
        if distance < 0 {
            if self.state.insert(ActState { value, lag: -distance })
                && let StateValue::Family { family, leaf } = value
            {
                // The next step needs it: it is computed once the action is known.
                self.need(Need { family, leaf, after: true, lag: None, asked });
                self.need(Need { family, leaf, after: false, lag: Some(-distance), asked });
            }
            return;
        }
        match value {
            StateValue::Input(input) => {
                if cx.draft.inputs[input].outcome && !after {
                    let action = cx.names.members.action.is_some_and(|(a, _)| a.name.text == *name);
                    let why = if action { "which is what it decides" } else { "which its action brings about" };
                    self.fault(asked, because, format!("acting would need `{name}[t]`, {why}"));
                }
            }
            StateValue::Family { family, leaf } => self.need(Need { family, leaf, after, lag: None, asked }),
        }
    }

    fn need(&mut self, need: Need) {
        if self.seen.insert((need.family, need.leaf, need.after, need.lag)) {
            self.needed.push(need);
        }
    }
}

/// The arrays of a value under their paths. What is no array (a distribution, a number) has none.
fn arrays(path: &str, value: &Value<'_>, found: &mut Vec<(String, ExprId)>) {
    match value {
        Value::Tensor(t) => found.push((path.to_string(), t.expr)),
        Value::Record(r) => r.fields.iter().for_each(|(name, field)| arrays(&format!("{path}.{name}"), field, found)),
        _ => {}
    }
}

/// How many steps ahead of the present a subscript lies.
fn distance(index: &[Index], var: VarId, offset: i64) -> Option<i64> {
    let [index] = index else { return None };
    let (v, c) = index.shifted()?;
    (v == var).then_some(c - offset)
}

/// The acting system as the model has it.
pub(super) fn finished(
    build: ActBuild,
    system: hir::System,
    (state, timeless): (Vec<ActState>, Vec<FamilyId>),
    next: Vec<(usize, ExprId)>,
) -> hir::Act {
    hir::Act { system, now: build.now, train: build.train, eval: build.eval, values: build.values, state, timeless, next }
}
