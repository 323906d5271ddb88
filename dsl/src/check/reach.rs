//! Gradients: dependencies between values, and the losses that train each parameter.

use hashbrown::HashSet;

use super::call::Arg;
use super::subscript::written;
use super::system::SystemBuild;
use super::table::Table;
use super::through::{Gathered, Through};
use super::value::{Env, Value};
use super::{Ctx, Site, TRAIN};
use crate::ast::{self, ArgKind, ExprKind};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, Dtype, ExprId, Op, ParamId, UnaryOp};
use crate::source::Span;

/// How one value depends on another.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Path {
    Direct,
    /// Through equations, or beside the same family at other points: these are written out for a gradient.
    Across,
    /// Through equations, at the target's own point alone: these are differentiated where they are computed.
    InPlace,
    /// Only through a stop-gradient.
    Stopped(Span),
    /// Through what no gradient follows.
    Blocked(String),
    None,
}

impl Path {
    fn is_there(&self) -> bool {
        matches!(self, Path::Direct | Path::Across | Path::InPlace)
    }
}

/// The path between a value and the target of a gradient.
struct Found {
    path: Path,
    gathered: Vec<Gathered>,
    /// The value with equations written out, if one of them was still being read.
    unfinished: Option<ExprId>,
}

impl Found {
    fn new(path: Path, gathered: Vec<Gathered>) -> Found {
        Found { path, gathered, unfinished: None }
    }
}

/// A gradient that was taken while an equation on the way was still being read.
#[derive(Debug)]
pub(super) struct Unfinished {
    system: usize,
    of: ExprId,
    target: ExprId,
    /// The value at that time.
    value: ExprId,
    in_place: bool,
    span: Span,
}

impl<'a> Ctx<'a> {
    /// `grad(of, wrt)`: checked, and as a node for every array of `wrt`.
    pub(super) fn grad(&mut self, of: &Arg<'a>, wrt: &Arg<'a>, partial: bool, span: Span) -> Value<'a> {
        let Some(e) = self.as_tensor(&of.value, of.span) else { return Value::Error };
        if !self.draft.table.axes_of(e).is_empty() {
            let shown = self.draft.table.having(self.draft.table.axes_of(e));
            self.report(
                Diagnostic::new(Code::GradNotScalar, of.span, "the gradient of something that is not a scalar")
                    .here(format!("this has {shown}"))
                    .help("reduce it first, for example with `sum(..)`"),
            );
            return Value::Error;
        }
        if !matches!(wrt.value, Value::Tensor(_) | Value::Record(_) | Value::Family(_)) {
            self.report(
                Diagnostic::new(
                    Code::GradTarget,
                    wrt.span,
                    format!("a gradient is taken by a variable or a field, and this is {}", wrt.value.describe()),
                )
                .help("write `grad(E, z.q)` with a value that E is computed from"),
            );
            return Value::Error;
        }
        let Some(targets) = self.leaves(&wrt.value, wrt.span) else { return Value::Error };
        if self.by_parameter(e, &targets, wrt.span)
            || self.by_computed(&targets, wrt.span)
            || self.by_what_equations_read(e, &targets, wrt.span)
        {
            return Value::Error;
        }
        let mut any = false;
        let mut worst = Path::None;
        let mut blocked = None;
        let mut two_paths = false;
        let of_expr = e;
        let mut others = false;
        let result = self.map(&wrt.value, wrt.span, &mut |cx, target| {
            // By an entry: that entry of the gradient by the whole array.
            let (mut target, entries) = cx.whole(target);
            let mut found = cx.path(of_expr, target);
            if found.path == Path::None
                && let Op::Alias(inner, _) = *cx.draft.table.op(target)
                && !cx.draft.table.is_constant(inner)
                && !cx.gradients.own_names.contains(&target)
            {
                // E was computed outside from the same value.
                let outside = cx.path(of_expr, inner);
                if outside.path != Path::None {
                    target = inner;
                    found = outside;
                }
            }
            let Found { path, gathered, unfinished } = found;
            if let (Some(value), true) = (unfinished, path.is_there()) {
                let (system, in_place) = (cx.place.site.system, path == Path::InPlace);
                cx.gradients.unfinished.push(Unfinished { system, of: of_expr, target, value, in_place, span });
            }
            any |= path.is_there();
            others |= path.is_there() && !others && cx.reads_other_points(of_expr, &gathered, wrt.span);
            if path.is_there() && !partial {
                two_paths |= cx.reaches_twice(of_expr, target);
            }
            let axes = cx.draft.table.axes_of(target).to_vec();
            let result = match path {
                Path::Direct => cx.draft.table.push(Op::Grad { of: of_expr, wrt: target }, axes, Dtype::Real, span),
                Path::Across => cx.grad_across(of_expr, target, span),
                Path::InPlace => {
                    let grad = cx.draft.table.push(Op::Grad { of: of_expr, wrt: target }, axes, Dtype::Real, span);
                    cx.gradients.in_place.insert(grad, cx.place.site.system);
                    grad
                }
                // A field of a record that E does not read: its derivative is zero.
                _ => {
                    let zero = cx.draft.table.constant(0.0, span);
                    cx.draft.table.broadcast(zero, &axes, span)
                }
            };
            match path {
                Path::None => {}
                Path::Blocked(_) => blocked = blocked.take().or(Some(path)),
                _ => worst = path,
            }
            Some(entries.into_iter().fold(result, |result, (axis, index)| cx.draft.table.at(result, axis, index, span)))
        });
        if others {
            return Value::Error;
        }
        // A part that cannot be followed is missing from the whole.
        if let Some(path) = blocked {
            (worst, any) = (path, false);
        }
        if two_paths {
            self.report(
                Diagnostic::new(Code::TwoPaths, wrt.span, "this value reaches the result through two arguments")
                    .note("`grad` follows both; `partial(f(x, y), x)` holds the other arguments")
                    .help("write `partial` if one argument is meant, as in a leapfrog step; keep `grad` if both are"),
            );
        }
        if any || targets.is_empty() {
            return result;
        }
        match worst {
            Path::Stopped(stop) => {
                let d = Diagnostic::new(Code::GradStopped, stop, "the gradient stops on the way")
                    .here("here")
                    .label(wrt.span, "the gradient by this would always be zero")
                    .help("take the gradient before `sg(..)`, and stop its result instead: `sg(grad(..))`");
                self.report(d);
            }
            Path::Blocked(what) => {
                self.report(
                    Diagnostic::new(Code::GradThroughScan, span, format!("a gradient cannot follow {what}"))
                        .help("take it inside one step: of a function of that step's values"),
                );
            }
            _ => {
                self.report(
                    Diagnostic::new(Code::GradIndependent, wrt.span, "the value does not depend on this")
                        .label(of.span, "this one")
                        .help("its gradient would always be zero; differentiate by something it is computed from"),
                );
                // Its axes are known: what goes wrong because of them may say more.
                return self.map(&wrt.value, wrt.span, &mut |cx, target| {
                    let zero = cx.draft.table.constant(0.0, span);
                    let axes = cx.draft.table.axes_of(target).to_vec();
                    let zero = cx.draft.table.broadcast(zero, &axes, span);
                    let stand_in = cx.draft.table.alias(zero, span);
                    cx.gradients.doubtful.insert(stand_in);
                    Some(stand_in)
                });
            }
        }
        Value::Error
    }

    /// Puts the names that were written into what was just said about a gradient, and what could have been meant.
    pub(super) fn name_grad(&mut self, before: usize, args: &'a [ast::Arg], env: &Env<'a>) {
        let [ast::Arg { kind: ArgKind::Value(of), .. }, ast::Arg { kind: ArgKind::Value(by), .. }] = args else { return };
        // Of this gradient, and not of one inside it.
        let said = |cx: &Self, code| {
            let own = |i: &usize| cx.sink.diagnostics[*i].code == code && cx.sink.diagnostics[*i].primary.span == by.span;
            (before..cx.sink.diagnostics.len()).find(own)
        };
        if let (Some(at), Some(by)) = (said(self, Code::TwoPaths), written(by)) {
            let of = match &of.kind {
                ExprKind::Call(callee, _) => written(callee),
                _ => written(of),
            };
            let of = of.map_or_else(|| "the result".to_string(), |of| format!("`{of}`"));
            self.sink.diagnostics[at].message = format!("`{by}` reaches {of} through two arguments");
        }
        let Some(at) = said(self, Code::GradIndependent) else { return };
        if let (Some(of), Some(by)) = (written(of), written(by)) {
            self.sink.diagnostics[at].message = format!("`{of}` does not depend on `{by}`");
            self.sink.diagnostics[at].secondary.clear();
        }
        let ExprKind::Field(base, field) = &by.kind else { return };
        let (value, record) = (self.eval(of, env), self.eval(base, env));
        let (Value::Record(r), Some(name)) = (record, written(base)) else { return };
        let Some(e) = self.as_tensor(&value, of.span) else { return };
        let mut others = Vec::new();
        for (n, v) in r.fields.iter().filter(|(n, _)| *n != field.text) {
            let leaves = self.leaves(v, base.span).unwrap_or_default();
            if leaves.iter().any(|leaf| self.path(e, *leaf).path.is_there()) {
                others.push(format!("{name}.{n}"));
            }
        }
        if !others.is_empty() {
            self.sink.diagnostics[at].helps = vec![format!("it depends on {}", super::listed(others))];
        }
    }

    fn reaches_twice(&mut self, of: ExprId, target: ExprId) -> bool {
        let Some(args) = self.gradients.call_args.get(&of).cloned() else { return false };
        let mut reached = 0;
        for arg in args {
            if arg.iter().any(|leaf| self.path(*leaf, target).path.is_there()) {
                reached += 1;
            }
        }
        reached > 1
    }

    /// The gradient by a read that lies behind equations: of the value with these written out, by a name for the read.
    fn grad_across(&mut self, of: ExprId, target: ExprId, span: Span) -> ExprId {
        let wrt = self.draft.table.alias(target, span);
        let value = self.through(of, target, wrt).value.unwrap_or(of);
        let axes = self.draft.table.axes_of(target).to_vec();
        let grad = self.draft.table.push(Op::Grad { of: value, wrt }, axes, Dtype::Real, span);
        self.gradients.written_out.insert(grad, of);
        grad
    }

    /// Whether `of` is computed from `target`, and the folds and collections on the way.
    fn path(&mut self, of: ExprId, target: ExprId) -> Found {
        if of == target {
            return Found::new(Path::Direct, Vec::new());
        }
        // Equations are followed where they can see the target: a value of the data or of an equation.
        if matches!(self.draft.table.op(target), Op::Read { .. } | Op::Input { .. }) {
            let Through { value, crossed, in_place, stop, unfinished, blocked, gathered, .. } = self.through(of, target, target);
            let open = value.filter(|_| unfinished.is_some());
            let path = match (blocked, value, stop, unfinished) {
                (Some(what), ..) => Path::Blocked(what),
                (_, Some(_), ..) if in_place => Path::InPlace,
                (_, Some(_), ..) if crossed => Path::Across,
                (_, Some(_), ..) => Path::Direct,
                (_, _, Some(stop), _) => Path::Stopped(stop),
                (_, _, _, Some(what)) => Path::Blocked(what),
                _ => Path::None,
            };
            return Found { path, gathered, unfinished: open };
        }
        if self.behind(of, target, false).contains(&target) {
            let gathered = self.gathered(of, target);
            return Found::new(Path::Direct, gathered);
        }
        for e in self.behind(of, target, true) {
            if let Op::Stop(inner) = *self.draft.table.op(e)
                && self.behind(inner, target, true).contains(&target)
            {
                return Found::new(Path::Stopped(self.draft.table.nodes[e.0 as usize].span), Vec::new());
            }
        }
        Found::new(Path::None, Vec::new())
    }

    /// Looks again at gradients that were taken while an equation on the way was still being read. Where it leads to the
    /// target too, that part of the gradient is missing.
    pub(super) fn unfinished_gradients(&mut self) {
        for Unfinished { system, of, target, value, in_place, span } in std::mem::take(&mut self.gradients.unfinished) {
            let (now, _) = self.at_site(Site::outside(system), |cx| cx.through(of, target, target));
            if now.value == Some(value) && now.in_place == in_place && now.blocked.is_none() {
                continue;
            }
            let what = now.blocked.unwrap_or_else(|| "an equation that holds it".to_string());
            self.report(
                Diagnostic::new(Code::GradThroughScan, span, format!("a gradient cannot follow {what}"))
                    .help("take it inside one step: of a function of that step's values"),
            );
        }
    }

    /// What a value is computed from in its own equation or function, down to the target; with `stops`, past stops too.
    pub(super) fn behind(&mut self, of: ExprId, target: ExprId, stops: bool) -> Vec<ExprId> {
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        let mut open = vec![of];
        while let Some(e) = open.pop() {
            // The table is in order: nothing before the target depends on it.
            if e < target || !seen.insert(e) {
                continue;
            }
            if !self.spend_work(1, self.draft.table.nodes[of.0 as usize].span) {
                break;
            }
            found.push(e);
            match self.draft.table.op(e) {
                Op::Stop(_) if !stops => {}
                op => op.operands(|x| open.push(x)),
            }
        }
        found
    }

    // ---- reachability

    /// Parameters that the optimiser's own losses reach; the others stay as they start.
    pub(super) fn unreached(&mut self, losses: &[hir::Loss], optimizers: &[hir::Optimizer]) {
        let anything = |stops: bool, cx: &Self, records: &[bool]| {
            let roots = losses.iter().flat_map(|l| l.parts.iter().map(|p| p.value));
            reached(&cx.draft.table, &cx.systems[TRAIN], records, roots, stops)
        };
        let records: Vec<bool> = self.systems[TRAIN].families.iter().map(|f| f.record).collect();
        let mut trained: HashSet<ParamId> = HashSet::new();
        for (i, optimizer) in optimizers.iter().enumerate() {
            let roots =
                losses.iter().filter(|l| l.optimizer.is_none_or(|o| o == i)).flat_map(|l| l.parts.iter().map(|p| p.value));
            let set = reached(&self.draft.table, &self.systems[TRAIN], &records, roots, false);
            trained.extend(optimizer.params.iter().map(|(p, _)| *p).filter(|p| set.contains(p)));
        }
        let (by_any, past_stops) = (anything(false, self, &records), anything(true, self, &records));
        for module in 0..self.draft.modules.len() {
            let params = self.draft.modules[module].params.clone();
            if params.is_empty() {
                continue;
            }
            let missing: Vec<ParamId> = params.iter().copied().filter(|p| !trained.contains(p)).collect();
            if missing.is_empty() {
                continue;
            }
            let (name, span) = (self.draft.modules[module].name.clone(), self.draft.modules[module].span);
            let count = missing
                .iter()
                .fold(hir::Size::known(0), |n, p| n.add(&self.draft.table.total(&self.draft.params[p.0 as usize].axes)));
            let d = if missing.len() == params.len() {
                let kind = match self.draft.modules[module].kind {
                    hir::ModuleKind::Param => "param",
                    hir::ModuleKind::Memory => "memory",
                    hir::ModuleKind::Head => "head",
                    hir::ModuleKind::Net => "net",
                };
                let (count, inherited) = (super::thousands(&count.to_string()), !self.flat.owns(span));
                let out = if inherited { format!("`drop {kind} {name}`") } else { "leave it out".to_string() };
                let all = |set: &HashSet<ParamId>| params.iter().any(|p| set.contains(p));
                let message = if all(&by_any) {
                    format!("no loss of its own optimiser reaches `{name}`")
                } else {
                    format!("no loss reaches `{name}`")
                };
                let d = Diagnostic::new(Code::Unreached, span, message).note(if count == "1" {
                    "it would stay at its initial value".to_string()
                } else {
                    format!("its {count} parameters would stay at their initial values")
                });
                if all(&by_any) {
                    d.help("leave out the `for` of a loss that reads it, or let another optimiser train it")
                } else if all(&past_stops) {
                    d.help(
                        "losses read it only through `sg(..)`, `frozen(..)` or a choice; take one of these away, or add a loss",
                    )
                } else {
                    d.help(format!("add a loss or {out}"))
                }
            } else {
                let paths: Vec<&str> = missing.iter().map(|p| self.draft.params[p.0 as usize].path.as_str()).collect();
                Diagnostic::new(Code::Unreached, span, format!("no loss reaches a part of `{name}`"))
                    .note(format!("{} would stay at their initial values", super::listed(paths)))
                    .help("see whether a `sg(..)` stands where it should not")
            };
            self.report(d);
        }
    }
}

/// Parameters that a gradient of the roots flows into; with `stops`, those that the roots are computed from at all.
fn reached(
    table: &Table,
    system: &SystemBuild<'_>,
    records: &[bool],
    roots: impl Iterator<Item = ExprId>,
    stops: bool,
) -> HashSet<ParamId> {
    let mut params = HashSet::new();
    let mut seen = HashSet::new();
    let mut open: Vec<ExprId> = roots.collect();
    while let Some(e) = open.pop() {
        if !seen.insert(e) {
            continue;
        }
        match table.op(e) {
            Op::Param(p) => {
                params.insert(*p);
            }
            Op::Stop(_) | Op::ArgMax { .. } | Op::Top { .. } if !stops => {}
            Op::Unary(UnaryOp::Floor | UnaryOp::Sign | UnaryOp::Not, _) if !stops => {}
            Op::Binary(op, ..) if !stops && super::table::says_truth(*op) => {}
            Op::Read { family, leaf, .. } => {
                let id = family.0 as usize;
                if !records[id] {
                    for def in &system.families[id].defs {
                        open.extend(system.defs[def.0 as usize].values.get(*leaf));
                    }
                }
            }
            op => op.operands(|x| open.push(x)),
        }
    }
    params
}
