//! Gradients through equations: `grad(y[t], z[t].q)` where `y` is computed from `z` by equations of their own.
//!
//! A derivative is taken inside one expression. So the equations between are written out: a read of an equation that
//! leads to the target becomes that equation's value at the subscript of the read, and the target becomes a variable
//! of its own, which keeps it apart from the same family at other points:
//!
//! ```text
//! w[s] = z[s] * z[s+1]
//! y[t] = grad(w[t], z[t])       becomes       y[t] = grad(x * z[t+1], x)   with x for z[t]
//! ```
//!
//! A recurrence is written out for two rounds. Further rounds are looked at as one, whose subscripts are those of the
//! first of them plus an unknown number of steps:
//!
//! ```text
//! h[s] = h[s-1] + x[s]
//! y[t] = grad(h[t], x[t])       h[t] and h[t-1] are written out, then h[t-2-n] reads x[t-2-n], which is never x[t]
//! ```
//!
//! If none of them can meet the target, the recurrence goes on as it stands. If one can, the recurrence is not written
//! out.
//!
//! What cannot be written out (a recurrence that reads the target in every step, draws) is followed as it stands where
//! the target's family is read at the target's own point alone: then the derivative of all values by all points is, at
//! each point, that of the one value by the one point.

use hashbrown::HashMap;

use super::Ctx;
use super::budget::OPERATION;
use super::system::{SystemBuild, short};
use crate::hir::{Def, ExprId, FamilyId, Index, Lhs, Op, VarId};
use crate::source::Span;

/// How often one recurrence is written out.
const ROUNDS: usize = 2;

/// How many recurrences inside each other are looked at beyond these rounds.
const DEEPEST: usize = 3;

/// What stands for the variables of an equation that is written out, sorted by variable.
type Bound = Vec<(VarId, Index)>;

/// What was found on the way from a value to the target.
#[derive(Debug, Default)]
pub(super) struct Through {
    /// The value with equations written out; nothing where it does not depend on the target.
    pub value: Option<ExprId>,
    /// Whether more than the expression itself had to be looked at: then the target needs a name of its own.
    pub crossed: bool,
    /// Whether nothing is written out, and the gradient is taken where the equations are computed.
    pub in_place: bool,
    /// A stop in front of the target.
    pub stop: Option<Span>,
    /// An equation that is being read right now: whether it depends on the target is not known.
    pub unfinished: Option<String>,
    /// What leads to the target and cannot be followed.
    pub blocked: Option<String>,
    /// Whether it cannot be followed in place either.
    pub refused: bool,
    /// Folds and collections that the target goes into.
    pub gathered: Vec<Gathered>,
}

/// A fold or a collection that reads a value at many points: along index variables, and of all samples.
#[derive(Debug, Clone)]
pub(super) struct Gathered {
    pub vars: Vec<VarId>,
    pub samples: bool,
    pub body: ExprId,
    pub span: Span,
}

/// A value under a substitution.
#[derive(Debug, Clone, Copy)]
struct Seen {
    expr: ExprId,
    depends: bool,
    /// Draws of an equation are that equation's own.
    draws: bool,
}

struct Walk {
    target: ExprId,
    stand_in: ExprId,
    /// Targets of gradients around the present place, each with the variable that stands for it.
    pinned: Vec<((ExprId, Bound), Seen)>,
    /// Families that are being written out, outermost first, each with where its subscript stands.
    open: Vec<(FamilyId, Vec<Index>)>,
    memo: HashMap<(ExprId, Bound), Seen>,
    /// An equation on the way reads another part of the value that the target is a part of.
    beside: bool,
    found: Through,
    /// Whether the target's family is read at another point than the target.
    apart: bool,
    /// Whether one read of the target's family is at several points.
    scattered: bool,
    /// The further rounds that are being looked at, outermost first.
    further: Vec<Further>,
    /// Index variables of the folds and collections around the present place.
    folded: Vec<VarId>,
}

/// Rounds of a recurrence that are not written out.
struct Further {
    /// How many steps there are between the first of them and the one that is meant.
    rounds: VarId,
    /// Where they begin among the families that are open.
    from: usize,
}

impl Ctx<'_> {
    /// Writes out what lies between a value and the read `target`, with `stand_in` in the target's place.
    pub(super) fn through(&mut self, of: ExprId, target: ExprId, stand_in: ExprId) -> Through {
        let mut walk = Walk::new(target, stand_in);
        let seen = self.written_out(of, &Bound::new(), &mut walk);
        walk.found.value = seen.depends.then_some(seen.expr);
        let alone = !walk.scattered && !walk.apart && !walk.beside;
        if seen.depends && walk.found.blocked.is_some() && !walk.found.refused && alone {
            return Through { value: Some(of), in_place: true, gathered: walk.found.gathered, ..Through::default() };
        }
        walk.found
    }

    fn written_out(&mut self, e: ExprId, bound: &Bound, walk: &mut Walk) -> Seen {
        let key = (e, bound.clone());
        if let Some(seen) = walk.memo.get(&key) {
            return *seen;
        }
        let span = self.draft.table.nodes[e.0 as usize].span;
        let seen = if self.spend_work(OPERATION, span) {
            stacker::maybe_grow(128 << 10, 4 << 20, || self.write_out(e, bound, walk))
        } else {
            Seen { expr: e, depends: false, draws: false }
        };
        walk.memo.insert(key, seen);
        seen
    }

    fn write_out(&mut self, e: ExprId, bound: &Bound, walk: &mut Walk) -> Seen {
        let node = self.draft.table.nodes[e.0 as usize].clone();
        if let Op::Grad { of, wrt } = node.op {
            return self.write_out_grad(e, of, wrt, bound, walk);
        }
        let mut inner = bound.clone();
        let op = match node.op {
            Op::Each { var, .. } => {
                inner.retain(|(v, _)| *v != var);
                node.op
            }
            Op::Fold { ref vars, .. } | Op::Collect { ref vars, .. } => {
                inner.retain(|(v, _)| !vars.contains(v));
                node.op
            }
            Op::Index(index) => Op::Index(substituted(&index, bound)),
            Op::At { of, axis, index } => Op::At { of, axis, index: substituted(&index, bound) },
            Op::Input { input, index } => Op::Input { input, index: substituted(&index, bound) },
            Op::Outer { family, leaf, index } => {
                Op::Outer { family, leaf, index: index.iter().map(|i| substituted(i, bound)).collect() }
            }
            Op::Read { family, leaf, index } => {
                Op::Read { family, leaf, index: index.iter().map(|i| substituted(i, bound)).collect() }
            }
            op => op,
        };
        let mut seen = Seen { expr: e, depends: false, draws: false };
        if let Op::Draw(d) = op {
            seen.draws = !self.draft.draws[d].vars.is_empty();
        }
        // Inside a fold the same read means the points of all its terms.
        let around = walk.folded.len();
        let mut outside = None;
        if let Op::Fold { vars, .. } | Op::Collect { vars, .. } = &op {
            walk.folded.extend(vars);
            outside = Some(std::mem::replace(&mut walk.memo, walk.pinned.iter().cloned().collect()));
        }
        let op = op.map_operands(|x| {
            let part = self.written_out(x, &inner, walk);
            seen.depends |= part.depends;
            seen.draws |= part.draws;
            part.expr
        });
        walk.folded.truncate(around);
        if let Some(memo) = outside {
            walk.memo = memo;
        }
        if op != self.draft.table.nodes[e.0 as usize].op {
            seen.expr = self.draft.table.push(op.clone(), node.axes, node.dtype, node.span);
        }
        if seen.expr == walk.target {
            if let Op::Read { family, leaf, index } = op {
                self.read_between_terms(family, leaf, &index, walk);
            }
            return Seen { expr: walk.stand_in, depends: true, draws: false };
        }
        match op {
            Op::Stop(_) if seen.depends => {
                walk.found.stop.get_or_insert(node.span);
                Seen { depends: false, ..seen }
            }
            Op::Input { input, index } => {
                if let Op::Input { input: i, index: at } = self.draft.table.op(walk.target).clone()
                    && i == input
                {
                    walk.measure(&[index], &[at], &self.draft.inputs[input].name);
                }
                seen
            }
            Op::Read { family, leaf, index } => self.read_out(seen, family, leaf, &index, walk),
            Op::Fold { vars, batch, body, .. } | Op::Collect { vars, batch, body, .. } if seen.depends => {
                walk.found.gathered.push(Gathered { vars, samples: batch, body, span: node.span });
                seen
            }
            _ => seen,
        }
    }

    /// A gradient on the way keeps a variable of its own: with equations written out, its target may have become what
    /// other parts of its value are computed from.
    fn write_out_grad(&mut self, e: ExprId, of: ExprId, wrt: ExprId, bound: &Bound, walk: &mut Walk) -> Seen {
        let node = self.draft.table.nodes[e.0 as usize].clone();
        let by = self.written_out(wrt, bound, walk);
        // Variables of gradients around this one stay what they are, so this one must not lie behind them.
        let around: Vec<ExprId> = walk.pinned.iter().map(|((around, _), _)| *around).filter(|around| *around != wrt).collect();
        let hidden = by.depends && around.into_iter().any(|around| self.behind(around, wrt, false).contains(&wrt));
        if hidden || !by.depends && self.passes_target(e, by.expr, bound, walk) {
            let name = match self.draft.table.op(walk.target) {
                Op::Read { family, .. } if !hidden => {
                    format!("`{}`", short(&self.systems[self.place.site.system].families[family.0 as usize].name))
                }
                _ => "the target".to_string(),
            };
            walk.found.blocked.get_or_insert(format!("a gradient by what {name} is computed from"));
            walk.found.refused = true;
            return Seen { expr: e, depends: true, draws: by.draws };
        }
        let mut target = by.expr;
        let value = if by.depends {
            target = self.draft.table.alias(by.expr, node.span);
            walk.pinned.push(((wrt, bound.clone()), Seen { expr: target, ..by }));
            let memo = std::mem::replace(&mut walk.memo, walk.pinned.iter().cloned().collect());
            let value = self.written_out(of, bound, walk);
            walk.memo = memo;
            walk.pinned.pop();
            value
        } else {
            self.written_out(of, bound, walk)
        };
        let depends = by.depends || value.depends;
        if depends && self.gradients.in_place.contains_key(&e) {
            walk.found.blocked.get_or_insert("a gradient through a recurrence".to_string());
            return Seen { expr: e, depends, draws: false };
        }
        let mut expr = e;
        if (value.expr, target) != (of, wrt) {
            expr = self.draft.table.push(Op::Grad { of: value.expr, wrt: target }, node.axes, node.dtype, node.span);
            self.same_way(e, expr, bound);
        }
        Seen { expr, depends, draws: by.draws || value.draws }
    }

    /// What is known about how a gradient was taken holds for what it has become at other subscripts.
    fn same_way(&mut self, grad: ExprId, new: ExprId, bound: &Bound) {
        if let Some(system) = self.gradients.in_place.get(&grad).copied() {
            self.gradients.in_place.insert(new, system);
        }
        if let Some(&of) = self.gradients.written_out.get(&grad) {
            // Nothing is this target, so nothing is written out.
            let nothing = self.draft.table.alias(of, self.draft.table.nodes[of.0 as usize].span);
            let of = self.written_out(of, bound, &mut Walk::new(nothing, nothing)).expr;
            self.gradients.written_out.insert(new, of);
        }
    }

    /// Whether the equations between the ends of a gradient inside the value lead through the target: then the gradient
    /// depends on the target, and neither what was written out nor what is differentiated where it is computed shows it.
    fn passes_target(&mut self, grad: ExprId, by: ExprId, bound: &Bound, walk: &Walk) -> bool {
        let of = match (self.gradients.written_out.get(&grad), self.draft.table.op(grad)) {
            (Some(of), _) => *of,
            (None, Op::Grad { of, .. }) if self.gradients.in_place.contains_key(&grad) => *of,
            _ => return false,
        };
        if !matches!(self.draft.table.op(walk.target), Op::Read { .. }) {
            return false;
        }
        let mut before = Walk::new(walk.target, walk.target);
        // At points that may be the target's own, too.
        if !self.written_out(of, bound, &mut before).depends && !before.scattered {
            return false;
        }
        let mut variable = by;
        while let Op::Alias(inner, _) = *self.draft.table.op(variable) {
            variable = inner;
        }
        let found = self.through(walk.target, variable, variable);
        found.value.is_some() || found.blocked.is_some() || found.unfinished.is_some()
    }

    /// Whether an equation is a recurrence.
    fn reads_itself(&self, family: FamilyId) -> bool {
        let build = &self.systems[self.place.site.system];
        let values = |f: FamilyId| {
            let defs = build.families[f.0 as usize].defs.iter().map(|def| &build.defs[def.0 as usize]);
            defs.flat_map(|def| def.values.clone()).collect::<Vec<ExprId>>()
        };
        let found = self.draft.table.closure(&values(family), values);
        found.iter().any(|e| matches!(self.draft.table.op(*e), Op::Read { family: f, .. } if *f == family))
    }

    /// A read of an equation: its value, where that leads to the target.
    fn read_out(&mut self, read: Seen, family: FamilyId, leaf: usize, index: &[Index], walk: &mut Walk) -> Seen {
        let (system, id) = (self.place.site.system, family.0 as usize);
        let name = short(&self.systems[system].families[id].name).to_string();
        if let Op::Read { family: f, leaf: l, index: at } = self.draft.table.op(walk.target).clone()
            && f == family
        {
            // Another part of the very value that the target is a part of does not depend on it.
            if at == index {
                self.read_between_terms(family, leaf, index, walk);
                // Behind an equation, and computed from the target at other points: only a name tells the two apart.
                if l != leaf && !walk.open.is_empty() && self.reads_itself(family) {
                    walk.found.crossed = true;
                    walk.beside = true;
                }
                return read;
            }
            if l == leaf {
                walk.measure(index, &at, &name);
            }
        }
        if self.systems[system].families[id].record {
            return read;
        }
        if self.systems[system].families[id].is_busy() {
            walk.found.unfinished.get_or_insert(format!("the recurrence of `{name}`"));
            return read;
        }
        let from = walk.further.last().map_or(0, |further| further.from);
        let rounds: Vec<Vec<Index>> = walk.open[from..].iter().filter(|(f, _)| *f == family).map(|(_, at)| at.clone()).collect();
        if rounds.last().is_some_and(|before| walk.is_among(index, before)) {
            return read;
        }
        // A fixed point is no further round: a base case, to which a reset goes back from every round.
        let fixed = rounds.len() < 2 * ROUNDS
            && index.iter().any(|i| i.terms.is_empty())
            && rounds.iter().all(|before| steps(index, before).is_none());
        if let (Some(before), true, false) = (rounds.last(), rounds.len() >= ROUNDS, fixed) {
            return self.further_rounds(read, family, leaf, index, before, walk);
        }
        let ways = self.ways(family, leaf, index, walk);
        if !ways.iter().any(|way| way.depends) {
            return read;
        }
        walk.found.crossed = true;
        if let [way] = ways[..]
            && !way.draws
        {
            return way;
        }
        let what = match ways.len() {
            _ if !rounds.is_empty() => format!("the recurrence of `{name}`"),
            1 => format!("the draws of `{name}`"),
            _ => format!("`{name}`, which several equations give"),
        };
        walk.found.blocked.get_or_insert(what);
        Seen { depends: true, ..read }
    }

    /// Refuses a sum whose terms are what the target is, where one of them is computed from another.
    fn read_between_terms(&mut self, family: FamilyId, leaf: usize, index: &[Index], walk: &mut Walk) {
        let found = &self.systems[self.place.site.system].families[family.0 as usize];
        if !walk.is_folded(index) || found.record {
            return;
        }
        let (busy, what) = (found.is_busy(), format!("the recurrence of `{}` between the terms of a sum", short(&found.name)));
        let mut behind = Walk { folded: walk.folded.clone(), ..Walk::new(walk.target, walk.stand_in) };
        if !busy {
            self.ways(family, leaf, index, &mut behind);
        }
        if busy || behind.found.refused {
            walk.refuse(what);
        }
    }

    /// The values of the equations that may give a family at a subscript, written out.
    fn ways(&mut self, family: FamilyId, leaf: usize, index: &[Index], walk: &mut Walk) -> Vec<Seen> {
        let (system, id) = (self.place.site.system, family.0 as usize);
        self.elaborate_family(system, id);
        walk.open.push((family, index.to_vec()));
        let mut ways = Vec::new();
        for (def, bound) in giving(&self.systems[system], family, index, walk) {
            if let Some(value) = self.systems[system].defs[def].values.get(leaf).copied() {
                ways.push(self.written_out(value, &bound, walk));
            }
        }
        walk.open.pop();
        ways
    }

    /// A read of a recurrence behind the rounds that are written out: whether one of the further rounds meets the target.
    fn further_rounds(
        &mut self,
        read: Seen,
        family: FamilyId,
        leaf: usize,
        index: &[Index],
        before: &[Index],
        walk: &mut Walk,
    ) -> Seen {
        let known =
            steps(index, before).map(|step| direction(&step)).filter(|way| !way.is_empty() && walk.further.len() < DEEPEST);
        let meets = match known {
            Some(way) => {
                let depth = walk.further.len();
                while self.gradients.rounds.len() <= depth {
                    let rounds = self.draft.new_var("", self.draft.table.nodes[read.expr.0 as usize].span, Some((0, 0)));
                    self.gradients.rounds.push(rounds);
                }
                let rounds = self.gradients.rounds[depth];
                let moved = |(at, by): (&Index, &i64)| {
                    let mut at = at.clone();
                    at.terms.extend(Some((rounds, *by)).filter(|(_, by)| *by != 0));
                    at.terms.sort_unstable();
                    at
                };
                let index: Vec<Index> = index.iter().zip(&way).map(moved).collect();
                walk.further.push(Further { rounds, from: walk.open.len() });
                // What is found inside holds for these rounds alone.
                let memo = std::mem::replace(&mut walk.memo, walk.pinned.iter().cloned().collect());
                let ways = self.ways(family, leaf, &index, walk);
                walk.memo = memo;
                walk.further.pop();
                ways.iter().any(|way| way.depends)
            }
            None => {
                walk.scattered = true;
                true
            }
        };
        if meets {
            walk.found.crossed = true;
            let name = &self.systems[self.place.site.system].families[family.0 as usize].name;
            walk.found.blocked.get_or_insert(format!("the recurrence of `{}`", short(name)));
        }
        Seen { depends: meets, ..read }
    }
}

impl Walk {
    fn new(target: ExprId, stand_in: ExprId) -> Walk {
        Walk {
            target,
            stand_in,
            pinned: Vec::new(),
            open: Vec::new(),
            memo: HashMap::new(),
            found: Through::default(),
            apart: false,
            scattered: false,
            beside: false,
            further: Vec::new(),
            folded: Vec::new(),
        }
    }

    /// Notes a read of what the target is a part of.
    fn measure(&mut self, index: &[Index], target: &[Index], name: &str) {
        self.found.crossed |= !index.is_empty();
        let first = |i: &Index| Index { terms: i.terms.iter().copied().filter(|(v, _)| !self.is_rounds(*v)).collect(), ..*i };
        let known = steps(&index.iter().map(first).collect::<Vec<_>>(), target);
        // After some number of further rounds it may be the target, unless one subscript moves away from it or stays.
        let away = |(index, d): (&Index, &i64)| *d != 0 && self.by_rounds(index).all(|by| by.signum() != -d.signum());
        // What one term of a fold reads at another point is the target of another term.
        if index.iter().zip(target).any(|(at, by)| at != by && self.is_folded(std::slice::from_ref(by))) {
            return self.refuse(format!("`{}` at other points of a sum", short(name)));
        }
        match known {
            Some(known) if index.iter().zip(&known).any(away) => self.apart = true,
            _ => {
                self.scattered = true;
                self.found.blocked.get_or_insert(format!("`{}` at several points at once", short(name)));
            }
        }
    }

    /// Notes what leads to the target and cannot be followed in any way.
    fn refuse(&mut self, what: String) {
        self.found.crossed = true;
        self.found.blocked = Some(what);
        self.found.refused = true;
    }

    /// Whether a subscript runs over the terms of a fold or collection around the present place.
    fn is_folded(&self, index: &[Index]) -> bool {
        index.iter().flat_map(|i| &i.terms).any(|(var, _)| self.folded.contains(var))
    }

    /// How a subscript moves with each further round, of all that are being looked at.
    fn by_rounds<'i>(&'i self, index: &'i Index) -> impl Iterator<Item = i64> + 'i {
        index.terms.iter().filter(|(v, _)| self.is_rounds(*v)).map(|(_, by)| *by)
    }

    fn is_rounds(&self, var: VarId) -> bool {
        self.further.iter().any(|further| further.rounds == var)
    }

    /// The largest number that a subscript can be, where that is known.
    fn most(&self, index: &Index) -> Option<i64> {
        index.terms.iter().all(|(v, by)| *by < 0 && self.is_rounds(*v)).then_some(index.offset)
    }

    /// Whether a subscript lies where further rounds go from another one.
    fn is_among(&self, index: &[Index], before: &[Index]) -> bool {
        let Some(step) = steps(index, before) else { return false };
        let way = direction(&step);
        let by = |f: &Further, i: &Index| i.terms.iter().find(|(v, _)| *v == f.rounds).map_or(0, |(_, by)| *by);
        !way.is_empty() && self.further.iter().any(|f| before.iter().map(|i| by(f, i)).eq(way.iter().copied()))
    }
}

/// The shortest step in the direction of another one; nothing if it stays.
fn direction(step: &[i64]) -> Vec<i64> {
    let whole = step.iter().fold(0, |a, b| gcd(a, b.abs()));
    if whole == 0 { Vec::new() } else { step.iter().map(|d| d / whole).collect() }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// How far subscripts are from others; nothing where that is not one number for each.
fn steps(a: &[Index], b: &[Index]) -> Option<Vec<i64>> {
    a.iter().zip(b).map(|(a, b)| (a.terms == b.terms).then(|| a.offset - b.offset)).collect()
}

/// A subscript with variables replaced.
fn substituted(index: &Index, bound: &Bound) -> Index {
    let mut terms: Vec<(VarId, i64)> = Vec::new();
    let mut offset = index.offset;
    for &(var, factor) in &index.terms {
        match bound.iter().find(|(v, _)| *v == var) {
            Some((_, by)) => {
                terms.extend(by.terms.iter().map(|(v, f)| (*v, f.saturating_mul(factor))));
                offset = offset.saturating_add(by.offset.saturating_mul(factor));
            }
            None => terms.push((var, factor)),
        }
    }
    terms.sort_unstable();
    let mut sum: Vec<(VarId, i64)> = Vec::new();
    for (var, factor) in terms {
        match sum.last_mut() {
            Some((v, f)) if *v == var => *f = f.saturating_add(factor),
            _ => sum.push((var, factor)),
        }
    }
    sum.retain(|(_, factor)| *factor != 0);
    Index { terms: sum, offset }
}

/// The equations that may give a family at a subscript, each with what its variables are there. Indices count from zero.
fn giving(build: &SystemBuild<'_>, family: FamilyId, index: &[Index], walk: &Walk) -> Vec<(usize, Bound)> {
    let fits = |def: &Def| {
        let mut bound = Bound::new();
        for (lhs, at) in def.lhs.iter().zip(index) {
            match (*lhs, at.constant()) {
                (Lhs::At(point), Some(at)) if point != at => return None,
                (Lhs::At(point), None) if at.offset > point && at.terms.iter().all(|(_, f)| *f > 0) => return None,
                (Lhs::At(point), None) if walk.most(at).is_some_and(|most| most < point) => return None,
                (Lhs::At(_), _) => {}
                (Lhs::Var { offset, .. }, _) if walk.most(at).is_some_and(|most| most < offset) => return None,
                (Lhs::Var { var, offset }, _) => bound.push((var, Index { terms: at.terms.clone(), offset: at.offset - offset })),
            }
        }
        bound.sort();
        Some(bound)
    };
    let defs = build.families[family.0 as usize].defs.iter().map(|def| def.0 as usize);
    defs.filter_map(|def| Some((def, fits(&build.defs[def])?))).collect()
}
