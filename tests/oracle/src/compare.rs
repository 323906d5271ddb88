//! A model in the reference interpreter and in the oracle, on the same random inputs.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use compiler::ir::Role;
use compiler::lower::Entry;
use compiler::run::{Call, Tensor, Tensors};
use dsl::ast::{ClauseKind, MemberKind};

use crate::array::Array;
use crate::eval::Oracle;
use crate::family::FAR;
use crate::number::Num;
use crate::value::{R, Stop, Val};

/// Sizes of the task.
pub const SIZES: [(&str, usize); 2] = [("O", 3), ("A", 2)];
/// Environments that act at once.
const ENVIRONMENTS: usize = 2;
/// Sets of numbers that a disagreement has to be found with.
const NUDGES: u64 = 8;
/// Largest difference, relative to a tensor's largest entry.
const BOUND: f64 = 1e-8;
/// A tensor with smaller entries counts as having this size: rounding of what cancels is no difference.
const FLOOR: f64 = 1e-7;

#[derive(Debug, Clone)]
pub enum Outcome {
    /// The checker's codes.
    Refused(Vec<String>),
    /// Tensors that agree.
    Agree(usize),
    Wrong(Vec<Difference>),
    /// An internal error of the compiler, or of the oracle.
    Broken(String),
}

#[derive(Debug, Clone)]
pub struct Difference {
    pub name: String,
    pub apart: f64,
    pub compiled: f64,
    pub oracle: f64,
}

/// Numbers that a comparison is made with.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    seed: u64,
    /// Which of several sets that differ in the ninth digit.
    nudge: u64,
}

impl Numbers {
    /// Numbers from the seed and a name.
    fn random(self, name: &str, n: usize) -> Vec<f64> {
        let stream = |seed| compiler::random::Stream::new(name, seed, "oracle", 0);
        let (base, other) = (stream(self.seed), stream(self.seed ^ self.nudge << 32));
        let by = if self.nudge == 0 { 0.0 } else { 1e-9 };
        (0..n as u64).map(|i| 1.6 * base.uniform(i) - 0.8 + by * other.uniform(i)).collect()
    }

    fn tensor(self, name: &str, shape: Vec<usize>) -> Tensor {
        let data = self.random(name, shape.iter().product());
        Tensor { shape, data }
    }
}

thread_local! {
    /// What the last panic of this thread said, while panics are caught.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a function that may panic; the panic's message and place are the error.
fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let wanted = SAID.with_borrow_mut(|said| said.as_mut().map(|s| *s = info.to_string()).is_some());
            if !wanted {
                before(info);
            }
        }));
    });
    SAID.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(f));
    let said = SAID.take().unwrap_or_default();
    result.map_err(|_| format!("panic: {}", said.replace('\n', " ")))
}

/// Runs both sides.
pub fn compare(text: &str, seed: u64) -> Outcome {
    let options = dsl::Options { dims: SIZES.iter().map(|(n, s)| (n.to_string(), *s as u64)).collect(), ..Default::default() };
    let checked = match caught(|| dsl::check("model.wm", text, &dsl::NoLoader, &options)) {
        Ok(checked) => checked,
        Err(said) => return Outcome::Broken(said),
    };
    if checked.has_errors() {
        let codes = checked.diagnostics.iter().filter(|d| d.is_error());
        return Outcome::Refused(codes.map(|d| format!("{}: {}", d.code.id(), d.message)).collect());
    }
    let Some(model) = checked.models.into_iter().next() else { return Outcome::Broken("no model".into()) };
    let outcome = |nudge| caught(|| both(text, &model, Numbers { seed, nudge })).flatten().unwrap_or_else(Outcome::Broken);
    steady(outcome(0), outcome)
}

/// Drops the differences at ties: entries that `argmax`, `top` and comparisons find equal but for rounding.
///
/// A fault stays when all numbers change in their ninth digit. Rounding of both sides agrees for some of the changes.
fn steady(outcome: Outcome, again: impl Fn(u64) -> Outcome) -> Outcome {
    let Outcome::Wrong(mut wrong) = outcome else { return outcome };
    let mut agree = 0;
    for nudge in 1..=NUDGES {
        match again(nudge) {
            Outcome::Wrong(others) => wrong.retain(|d| others.iter().any(|other| other.name == d.name)),
            Outcome::Agree(tensors) => (agree, wrong) = (tensors, Vec::new()),
            broken => return broken,
        }
        if wrong.is_empty() {
            return Outcome::Agree(agree);
        }
    }
    Outcome::Wrong(wrong)
}

fn both(text: &str, model: &dsl::hir::Model, numbers: Numbers) -> Result<Outcome, String> {
    let (file, _) = dsl::parse::parse(dsl::source::FileId(0), text);
    let mut params = Tensors::new();
    for (name, t) in compiler::run::initial(model, 1).map_err(|e| format!("init: {e}"))? {
        if name.starts_with("param.") {
            params.insert(name.clone(), numbers.tensor(&name, t.shape));
        }
    }
    let mut report = Report::default();
    train(&file, model, numbers, &params, &mut report)?;
    for (entry, which) in [(Entry::Plan, "eval"), (Entry::Act, "train")] {
        act(&file, model, numbers, &params, entry, which, &mut report)?;
    }
    report.wrong.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(if report.wrong.is_empty() { Outcome::Agree(report.agree) } else { Outcome::Wrong(report.wrong) })
}

#[derive(Default)]
struct Report {
    agree: usize,
    wrong: Vec<Difference>,
}

impl Report {
    /// Compares entries; `floor` is the size below which a tensor counts as zero.
    fn hold(&mut self, name: &str, compiled: &[f64], oracle: &[f64], floor: f64) {
        let scale = oracle.iter().chain(compiled).fold(floor, |m, x| m.max(x.abs()));
        let mut worst = Difference { name: name.to_string(), apart: 0.0, compiled: 0.0, oracle: 0.0 };
        for (c, o) in compiled.iter().zip(oracle) {
            let apart = (c - o).abs() / scale;
            if apart > worst.apart || apart.is_nan() {
                worst = Difference { name: name.to_string(), apart, compiled: *c, oracle: *o };
            }
        }
        if worst.apart <= BOUND { self.agree += 1 } else { self.wrong.push(worst) }
    }
}

/// Values for every input that the entry point must be given.
fn inputs(model: &dsl::hir::Model, numbers: Numbers, call: &Call, params: &Tensors) -> Result<Tensors, String> {
    let mut given = params.clone();
    let program = compiler::run::program(model, call, &given).map_err(|e| format!("{:?}: {e}", call.entry))?;
    for input in &program.inputs {
        let shape: Vec<usize> = input.axes.iter().map(|a| program.size(*a)).collect();
        if matches!(input.role, Role::Data | Role::Carry | Role::Running) {
            let mut t = numbers.tensor(&input.name, shape);
            if input.name == "data.first" {
                t.data.iter_mut().for_each(|x| *x = f64::from(*x < -0.3));
            }
            given.insert(input.name.clone(), t);
        }
    }
    for (name, axes) in compiler::run::draw_axes(&program) {
        let name = format!("draw.{name}");
        let shape = axes.iter().map(|a| program.size(*a)).collect();
        given.insert(name.clone(), numbers.tensor(&name, shape));
    }
    given.retain(|n, _| !n.starts_with("param.") || program.inputs.iter().any(|i| i.name == *n) || params.contains_key(n));
    Ok(given)
}

fn said(stop: Stop) -> String {
    match stop {
        Stop::NoPoint(p) => format!("oracle: no point {p}"),
        Stop::Unknown(u) => format!("oracle: {u}"),
    }
}

fn dim(oracle: &Oracle<'_>, name: &str) -> usize {
    oracle.dims.borrow().get(name).map_or(0, |a| a.size)
}

fn train(
    file: &dsl::ast::File,
    model: &dsl::hir::Model,
    numbers: Numbers,
    params: &Tensors,
    report: &mut Report,
) -> Result<(), String> {
    let call = Call { entry: Entry::TrainStep, observe: true, double: true, seed: numbers.seed, ..Call::default() };
    let given = inputs(model, numbers, &call, params)?;
    let have = compiler::run::call(model, &call, &given).map_err(|e| format!("train_step: {e}"))?;
    let given = given.into_iter().filter(|(n, _)| !n.starts_with("param.")).collect();
    let mut oracle = Oracle::new(file, &SIZES, given, Some(0)).map_err(said)?;
    let steps = dim(&oracle, "T");
    oracle.steps = Some(steps);
    // Fields that the compiled program has no use for.
    for (name, (ty, consequence)) in oracle.data.clone() {
        let axes = oracle.shape(&oracle.site(0), ty).map_err(said)?;
        let shape = [vec![dim(&oracle, "B"), steps - usize::from(consequence)], axes.iter().map(|a| a.size).collect()].concat();
        oracle.given.entry(format!("data.{name}")).or_insert_with(|| numbers.tensor(&format!("data.{name}"), shape));
    }
    let batch = dim(&oracle, "B");
    let directions: BTreeMap<&str, Vec<f64>> = params
        .iter()
        .map(|(name, t)| (&name["param.".len()..], numbers.random(&format!("direction of {name}"), t.data.len())))
        .collect();
    // In the order in which they step, each with the parameters that it sees.
    let sequence = crate::sequence::sequence(oracle.model, directions.keys().copied()).map_err(said)?;
    let mut gradients: Vec<(&str, f64, f64, f64)> = Vec::new();
    let mut told = BTreeSet::new();
    for step in &sequence {
        set_weights(&oracle, params, &directions, |path| {
            step.sees.contains(path).then(|| have.get(&format!("next.param.{path}")))
        });
        let objective = losses(&oracle, batch, &have, step.name, &mut told, report).map_err(said)?;
        let own = step.trains.iter().filter_map(|path| have.get(&format!("grad.{path}")));
        // The rule's own bound on the norm of all gradients.
        let norm = own.flat_map(|t| &t.data).map(|g| g * g).sum::<f64>().sqrt();
        let bound = (1e30 / (norm + 1e-6)).min(1.0);
        for (i, (path, direction)) in directions.iter().enumerate().filter(|(_, (path, _))| step.trains.contains(**path)) {
            let mine = objective.tangent(0, i).real();
            let theirs = have.get(&format!("grad.{path}")).map_or(&[][..], |t| &t.data);
            let sum = theirs.iter().zip(direction).map(|(g, d)| g * d).sum::<f64>();
            let size = theirs.iter().zip(direction).map(|(g, d)| (g * d).abs()).sum::<f64>();
            gradients.push((path, sum, mine, size));
            // Plain gradient descent needs no evaluator.
            if let (Some(rate), Some(new)) = (step.descent, have.get(&format!("next.param.{path}"))) {
                let old = &params[&format!("param.{path}")].data;
                let mine: Vec<f64> = old.iter().zip(theirs).map(|(w, g)| w - rate * g * bound).collect();
                report.hold(&format!("next.param.{path}"), &new.data, &mine, FLOOR);
            }
        }
    }
    let largest = gradients.iter().fold(1e-9, |m: f64, g| m.max(g.3));
    for (path, theirs, mine, size) in gradients {
        report.hold(&format!("grad.{path}"), &[theirs], &[mine], size.max(1e-5 * largest).max(FLOOR));
    }
    // What no loss reads, and the equations, are as the step finds them.
    set_weights(&oracle, params, &directions, |_| None);
    for name in oracle.running.keys() {
        let Some(t) = have.get(&format!("next.running.{name}")) else { return Err(format!("no new {name}")) };
        let mine = oracle.name(&oracle.site(0), name).and_then(|v| v.array()).map_err(said)?;
        report.hold(&format!("running.{name}"), &t.data, &mine.data.iter().map(Num::real).collect::<Vec<_>>(), FLOOR);
    }
    oracle.updated.borrow_mut().clear();
    oracle.root.memo.borrow_mut().clear();
    for (name, t) in have.iter().filter(|(n, _)| n.starts_with("value.")) {
        let mut parts = name["value.".len()..].split('.');
        let family = parts.next().unwrap_or_default();
        // `y[:, 2]` is a part of a family, at these subscripts.
        let (family, part) = family.split_once('[').unwrap_or((family, ""));
        let part: Vec<Option<i64>> = part.trim_end_matches(']').split(", ").map(|at| at.parse().ok()).collect();
        if oracle.space.equations.contains_key(family) {
            let path: Vec<&str> = parts.collect();
            values(&oracle, family, (&part, &path), batch, name, t, report).map_err(said)?;
        }
    }
    Ok(())
}

/// Gives the oracle its parameters: new values that do not move, or its own with one direction for each tensor.
fn set_weights<'t>(
    oracle: &Oracle<'_>,
    params: &Tensors,
    directions: &BTreeMap<&str, Vec<f64>>,
    new: impl Fn(&str) -> Option<Option<&'t Tensor>>,
) {
    for (i, (path, direction)) in directions.iter().enumerate() {
        let numbers = match new(path) {
            Some(t) => t.map_or(Vec::new(), |t| t.data.iter().map(|x| Num::Plain(*x)).collect()),
            None => {
                let moving = |(x, d): (&f64, &f64)| {
                    let mut tangents = vec![Num::ZERO; directions.len()];
                    tangents[i] = Num::Plain(*d);
                    Num::variable(0, Num::Plain(*x), tangents)
                };
                params[&format!("param.{path}")].data.iter().zip(direction).map(moving).collect()
            }
        };
        oracle.weights.borrow_mut().insert(path.to_string(), numbers);
    }
    oracle.root.memo.borrow_mut().clear();
}

/// The losses of an optimiser, and its objective as a number that knows its derivatives. `told` are the losses that
/// were compared before.
fn losses<'a>(
    oracle: &Oracle<'a>,
    batch: usize,
    have: &Tensors,
    optimizer: &str,
    told: &mut BTreeSet<&'a str>,
    report: &mut Report,
) -> R<Num> {
    let mut objective = Num::ZERO;
    for member in &oracle.model.members {
        let MemberKind::Loss(loss) = &member.kind else { continue };
        if loss.optimizer.as_ref().is_some_and(|o| o.text != optimizer) {
            continue;
        }
        let weight = oracle.eval(&oracle.site(0), &loss.weight)?.real()?;
        let mut sum = Num::ZERO;
        for part in &loss.parts {
            let clauses: Vec<_> = part.clauses.iter().chain(&loss.clauses).collect();
            let condition = clauses.iter().find_map(|c| if let ClauseKind::Where(e) = &c.kind { Some(e) } else { None });
            let (names, points, inferred) = oracle.points(&clauses, &part.value)?;
            if points.is_empty() {
                return Err(Stop::Unknown(format!("loss {} holds nowhere", loss.name.text)));
            }
            let (mut total, mut count) = (Num::ZERO, 0);
            for sample in 0..batch {
                for point in &points {
                    let cx = oracle.at(&oracle.site(sample), &names, point, &inferred);
                    if let Some(condition) = condition
                        && oracle.eval(&cx, condition)?.real()? == 0.0
                    {
                        continue;
                    }
                    total = total.add(&oracle.eval(&cx, &part.value)?.array()?.data[0]);
                    count += 1;
                }
            }
            sum = sum.add(&total.mul(&Num::Plain(1.0 / f64::from(count.max(1)))));
        }
        let name = format!("loss.{}", loss.name.text);
        match have.get(&name) {
            Some(_) if !told.insert(&loss.name.text) => {}
            Some(t) => report.hold(&name, &t.data, &[sum.real()], FLOOR),
            None => return Err(Stop::Unknown(format!("{name} is not given out"))),
        }
        objective = objective.add(&sum.mul(&Num::Plain(weight)));
    }
    Ok(objective)
}

/// An equation's values at every point where it holds.
fn values(
    oracle: &Oracle<'_>,
    family: &str,
    (part, path): (&[Option<i64>], &[&str]),
    batch: usize,
    name: &str,
    have: &Tensor,
    report: &mut Report,
) -> R<()> {
    let rules = &oracle.space.equations[family];
    let indices = rules[0].equation.place.indices.len();
    let mut points: Vec<Vec<i64>> = vec![Vec::new()];
    for i in 0..indices {
        let all = part.get(i).copied().flatten().map_or(0..=FAR, |at| at..=at);
        points = points.into_iter().flat_map(|p| all.clone().map(move |i| [p.clone(), vec![i]].concat())).collect();
    }
    let read = |sample, at: &[i64]| -> R<Option<Array>> {
        match oracle.read(&oracle.root, &oracle.space, family, sample, at) {
            Ok(v) => {
                if let (Val::Mem(m), Some(("carry", rest))) = (&v, path.split_first().map(|(a, b)| (*a, b))) {
                    return Ok(m.1.get(&format!("{family}.{}", rest.join("."))).cloned());
                }
                let v = path.iter().try_fold(v, |v, f| v.field(f))?;
                Ok(Some(match v {
                    Val::Mem(m) => m.0.clone(),
                    v => v.array()?,
                }))
            }
            Err(Stop::NoPoint(_)) => Ok(None),
            Err(e) => Err(e),
        }
    };
    let mut kept: Vec<(Vec<i64>, Array)> = Vec::new();
    for p in points {
        // Base cases are not given out.
        if oracle.base_case(&oracle.site(0), &oracle.space, family, &p)?.is_some() {
            continue;
        }
        if let Some(a) = read(0, &p)? {
            let sizes = |a: &Array| a.axes.iter().map(|x| x.size).collect::<Vec<_>>();
            if kept.first().is_some_and(|(_, b)| sizes(&a) != sizes(b)) {
                return Err(Stop::Unknown(format!("{family} has several shapes")));
            }
            kept.push((p, a));
        }
    }
    let Some((_, first)) = kept.first() else { return Ok(()) };
    let own = first.data.len();
    let whole = batch * kept.len() * own;
    let mut mine = Vec::new();
    // A value that is the same for all samples may be given out once.
    let samples = if have.data.len() == whole { batch } else { 1 };
    if have.data.len() * batch != whole * if samples == 1 { 1 } else { batch } && own > 0 {
        return Err(Stop::Unknown(format!("{name} has the shape {:?}, and {} points of {own} entries", have.shape, kept.len())));
    }
    let axes = first.axes.clone();
    for sample in 0..samples {
        for (p, _) in &kept {
            let Some(a) = read(sample, p)? else { continue };
            mine.push(if a.axes.iter().all(|x| axes.contains(x)) {
                a.spread(&axes)
            } else {
                Array { axes: axes.clone(), data: a.data }
            });
        }
    }
    // The order of a value's own axes is not said by the language: any that fits the shape will do.
    let tail = &have.shape[have.shape.len() - axes.len().min(have.shape.len())..];
    let mut best: Option<Report> = None;
    for order in orders(axes.len()) {
        let turned: Vec<_> = order.iter().map(|i| axes[*i]).collect();
        if turned.iter().map(|a| a.size).ne(tail.iter().copied()) {
            continue;
        }
        let mut trial = Report::default();
        let data: Vec<f64> = mine.iter().flat_map(|a| a.spread(&turned).data).map(|x| x.real()).collect();
        trial.hold(name, &have.data, &data, FLOOR);
        let better = |b: &Report| b.wrong.first().is_some_and(|w| trial.wrong.first().is_none_or(|t| t.apart < w.apart));
        if best.as_ref().is_none_or(better) {
            best = Some(trial);
        }
    }
    match best {
        Some(trial) => {
            report.agree += trial.agree;
            report.wrong.extend(trial.wrong);
        }
        None => return Err(Stop::Unknown(format!("{name} has the shape {:?}", have.shape))),
    }
    Ok(())
}

fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(n - 1);
    (0..n)
        .flat_map(|at| {
            shorter.iter().map(move |s| {
                let mut s = s.clone();
                s.insert(at, n - 1);
                s
            })
        })
        .collect()
}

fn act(
    file: &dsl::ast::File,
    model: &dsl::hir::Model,
    numbers: Numbers,
    params: &Tensors,
    entry: Entry,
    which: &str,
    report: &mut Report,
) -> Result<(), String> {
    let call = Call { entry, observe: true, double: true, seed: numbers.seed, batch: Some(ENVIRONMENTS), ..Call::default() };
    let given = inputs(model, numbers, &call, params)?;
    let have = compiler::run::call(model, &call, &given).map_err(|e| format!("{which}: {e}"))?;
    let given = given.into_iter().filter(|(n, _)| !n.starts_with("param.")).collect();
    let oracle = Oracle::new(file, &SIZES, given, None).map_err(said)?;
    for (name, t) in params {
        let numbers = t.data.iter().map(|x| Num::Plain(*x)).collect();
        oracle.weights.borrow_mut().insert(name["param.".len()..].to_string(), numbers);
    }
    let mut mine = Vec::new();
    let mut kept: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for sample in 0..ENVIRONMENTS {
        let a = oracle.act(which, sample).and_then(|v| v.array()).map_err(said)?;
        mine.extend(a.data.iter().map(Num::real));
        for (name, a) in oracle.nexts().map_err(said)? {
            kept.entry(name).or_default().extend(a.data.iter().map(Num::real));
        }
    }
    for (name, mine) in &kept {
        // A carry exists if something reads it.
        if let Some(t) = have.get(name) {
            report.hold(name, &t.data, mine, FLOOR);
        }
    }
    let Some(action) = have.get("action") else { return Err("no action".into()) };
    report.hold(&format!("act.{which}"), &action.data, &mine, FLOOR);
    Ok(())
}
