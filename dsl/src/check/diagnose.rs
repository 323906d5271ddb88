//! `diagnose`: series, the probes that sample them, and the figures and numbers about them.

use hashbrown::HashMap;

use super::objective::{Asked, Objective};
use super::value::Value;
use super::{Ctx, EVALUATE};
use crate::ast::{self, Arg, ArgKind, ClauseKind, Expr, ExprKind, Ident, ListItem};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, Actions, AxisId, Dtype, Form, Op, Setting, VarId};
use crate::source::Span;

/// The type of a series at one decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Number,
    Truth,
    Array,
    NumberOrArray,
    /// A number for each step of a prediction.
    Steps,
}

impl Takes {
    fn described(self) -> &'static str {
        match self {
            Takes::Number => "one number at each decision",
            Takes::Truth => "a condition at each decision",
            Takes::Array => "an array at each decision",
            Takes::NumberOrArray => "a number or an array at each decision",
            Takes::Steps => "a number for each step behind a decision",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Series(Takes),
    Probe,
    /// Whole numbers, zero or more.
    Counts,
    /// Numbers between 0 and 1.
    Shares,
    Flag,
}

/// An argument of a form.
#[derive(Debug, Clone, Copy)]
struct Argument {
    name: &'static str,
    what: What,
    least: usize,
    most: usize,
    /// Given by its place; the others by their name.
    placed: bool,
}

/// Series or probes that one argument can name.
const MANY: usize = 8;

const fn named(name: &'static str, what: What, least: usize, most: usize) -> Argument {
    Argument { name, what, least, most, placed: false }
}

const fn placed(what: What, least: usize, most: usize) -> Argument {
    Argument { name: "series", what, least, most, placed: true }
}

const ALONG: Argument = named("along", What::Probe, 1, MANY);
const ALONG_ONE: Argument = named("along", What::Probe, 1, 1);
const ENTRY: Argument = named("entry", What::Counts, 0, 1);

/// The arguments of each form, those without a name first.
fn arguments(form: Form) -> &'static [Argument] {
    use Takes::{Array, Number, NumberOrArray, Steps, Truth};
    use What::{Counts, Flag, Probe, Series, Shares};
    match form {
        Form::Trace => const { &[placed(Series(NumberOrArray), 1, MANY), ALONG_ONE, ENTRY] },
        Form::Bands => const { &[placed(Series(NumberOrArray), 1, 1), ALONG, named("from_start", Flag, 0, 1), ENTRY] },
        Form::Slice => {
            const {
                &[
                    placed(Series(Number), 1, 1),
                    named("over", Series(Array), 2, 2),
                    named("flow", Series(Array), 0, 2),
                    named("colour", Series(Number), 0, 1),
                    ALONG_ONE,
                ]
            }
        }
        Form::Components => const { &[placed(Series(Array), 1, 1), ALONG] },
        Form::Expansion => const { &[named("state", Series(Array), 1, MANY), named("next", Series(Array), 1, MANY), ALONG] },
        Form::Mean => const { &[placed(Series(Number), 1, 1), named("where", Series(Truth), 0, 1), ALONG] },
        Form::Fraction => const { &[placed(Series(Truth), 1, 1), ALONG] },
        Form::Drift => const { &[placed(Series(Number), 1, 1), ALONG_ONE, named("against", Probe, 1, 1)] },
        Form::Departure => const { &[placed(Series(Number), 1, 1), ALONG] },
        Form::Correlation => const { &[placed(Series(Number), 2, 2), named("absolute", Flag, 0, 1), ALONG] },
        Form::Balance => const { &[placed(Series(Number), 1, 1), named("parts", Series(Number), 1, MANY), ALONG] },
        Form::Crossings => {
            const {
                &[
                    named("over", Series(Array), 2, 2),
                    named("normal", Series(Array), 2, 2),
                    named("by", Series(Number), 1, 1),
                    named("quantiles", Shares, 0, 20),
                    ALONG_ONE,
                ]
            }
        }
        Form::Horizon => const { &[placed(Series(Steps), 1, 1), named("at", Counts, 0, 20), ALONG] },
    }
}

/// Arguments that line up with others, entry by entry.
const PAIRED: [(Form, &str, &str); 3] =
    [(Form::Slice, "flow", "over"), (Form::Crossings, "normal", "over"), (Form::Expansion, "next", "state")];

/// Arguments that are put in place by hand: plain reads of an equation.
const PUT: [(Form, &str); 2] = [(Form::Slice, "over"), (Form::Expansion, "state")];

/// A call that shows how a form is written.
fn example(form: Form) -> &'static str {
    match form {
        Form::Trace => "trace(level, along = trained)",
        Form::Bands => "bands(level, along = [free, shaken])",
        Form::Slice => "slice(level, over = [x, y], along = trained)",
        Form::Components => "components(x, along = [free, trained])",
        Form::Expansion => "expansion(state = [x, y], next = [next_x, next_y], along = trained)",
        Form::Mean => "mean(lost, along = stored)",
        Form::Fraction => "fraction(small, along = stored)",
        Form::Drift => "drift(level, along = free, against = shaken)",
        Form::Departure => "departure(level, along = free)",
        Form::Correlation => "correlation(change, work, along = trained)",
        Form::Balance => "balance(change, parts = [work, heat], along = trained)",
        Form::Crossings => "crossings(over = [x, y], normal = [slope_x, slope_y], by = work, along = trained)",
        Form::Horizon => "horizon(error, along = stored)",
    }
}

const KINDS: [(&str, Actions); 4] =
    [("passive", Actions::Passive), ("random", Actions::Random), ("policy", Actions::Policy), ("replay", Actions::Replay)];

/// Settings of the task that a probe may set otherwise.
const SETTINGS: [&str; 3] = ["repeat", "length", "control_steps"];
/// Changes of the task, and the least that each may be.
const CHANGES: [&str; 7] = ["kick", "damping", "mass", "actuator", "friction", "delay", "mask"];
/// Episodes of a probe.
const MOST_EPISODES: u64 = 1_000_000;

/// A series, as what is shown needs to know it.
#[derive(Debug, Clone)]
struct Series {
    span: Span,
    axes: Vec<AxisId>,
    truth: bool,
    steps: bool,
    /// A plain read of an equation at the decision.
    read: bool,
}

impl Series {
    fn is(&self, takes: Takes) -> bool {
        match takes {
            Takes::Number => !self.steps && !self.truth && self.axes.is_empty(),
            Takes::Truth => !self.steps && self.truth && self.axes.is_empty(),
            Takes::Array => !self.steps && !self.truth && !self.axes.is_empty(),
            Takes::NumberOrArray => !self.steps && !self.truth,
            Takes::Steps => self.steps && !self.truth && self.axes.is_empty(),
        }
    }

    fn described(&self) -> &'static str {
        match (self.steps, self.truth, self.axes.is_empty()) {
            (true, false, true) => Takes::Steps.described(),
            (true, ..) => "something else for each step behind a decision",
            (false, true, true) => Takes::Truth.described(),
            (false, true, false) => "several conditions at each decision",
            (false, false, true) => Takes::Number.described(),
            (false, false, false) => Takes::Array.described(),
        }
    }
}

/// What a model declares. A series or probe whose own declaration is wrong has nothing behind its name.
#[derive(Default)]
struct Declared<'a> {
    series: HashMap<&'a str, Option<Series>>,
    probes: HashMap<&'a str, ()>,
}

impl<'a> Ctx<'a> {
    pub(super) fn diagnose(&mut self, objective: &mut Objective) {
        let mut declared = Declared::default();
        for block in self.names.members.diagnose.clone() {
            for e in &block.series {
                let found = self.series(e, objective);
                declared.series.insert(&e.place.name.text, found);
            }
            for probe in &block.probes {
                objective.probes.extend(self.probe(probe));
                declared.probes.insert(&probe.name.text, ());
            }
        }
        for show in self.names.members.diagnose.clone().iter().flat_map(|block| &block.shows) {
            objective.shows.extend(self.show(show, &declared));
        }
    }

    fn series(&mut self, e: &'a ast::Equation, objective: &mut Objective) -> Option<Series> {
        let name = &e.place.name;
        for clause in &e.clauses {
            if let ClauseKind::Where(c) = &clause.kind {
                self.error(Code::WrongKind, c.span, "`where` belongs to losses and metrics");
            }
        }
        if let Some(of) = self.quantity(&e.value) {
            objective.quantities.push(hir::Quantity { name: name.text.clone(), of });
            return Some(Series { span: name.span, axes: Vec::new(), truth: false, steps: false, read: false });
        }
        let mut kept: Vec<(String, VarId)> = Vec::new();
        for index in &e.place.indices {
            let Some(n) = index.as_name() else {
                self.report(
                    Diagnostic::new(Code::NotAnIndex, index.span, "a series' subscript is an index")
                        .help(format!("write `{}[t] = ..`", name.text)),
                );
                return None;
            };
            let id = self.draft.new_var(&n.text, n.span, None);
            kept.push((n.text.clone(), id));
        }
        let env = self.model_env(e.value.span.file);
        let clauses = &[&*e.clauses];
        let asked = Asked { system: EVALUATE, name: &name.text, value: &e.value, clauses, bound: &kept, scalar: false };
        let mean = self.mean_in(&asked, &env)?;
        objective.evaluate_sites.push(mean.site(format!("`{}` of `diagnose`", name.text), e.value.span));
        let mistake = match mean.vars.len() {
            0 => Some(("has no value at each decision", "read it at a step, as in `z[t]`".to_string())),
            1 => None,
            2 if !kept.is_empty() => None,
            2 => Some(("has two indices", format!("name them, the decision first: `{}[i, k] = ..`", name.text))),
            _ => Some((
                "has more than two indices",
                "a series has one for the decision, and perhaps one for the step of a prediction".to_string(),
            )),
        };
        if let Some((what, help)) = mistake {
            self.report(
                Diagnostic::new(Code::SeriesShape, e.value.span, format!("the series `{}` {what}", name.text)).help(help),
            );
            return None;
        }
        let read = matches!(self.draft.table.op(mean.value), Op::Read { index, .. }
            if matches!(&index[..], [i] if i.offset == 0 && i.terms == [(mean.vars[0], 1)]));
        let found = Series {
            span: name.span,
            axes: self.draft.table.axes_of(mean.value).to_vec(),
            truth: self.draft.table.dtype(mean.value) == Dtype::Bool,
            steps: mean.vars.len() == 2,
            read,
        };
        objective.diagnose.push(hir::Diagnosis { name: name.text.clone(), value: mean.value, vars: mean.vars });
        Some(found)
    }

    /// `task("..")`: what the task itself measures.
    fn quantity(&mut self, e: &'a Expr) -> Option<String> {
        let ExprKind::Call(callee, args) = &e.kind else { return None };
        if callee.as_name().is_none_or(|n| n.text != "task" || self.names.members.fns.contains_key("task")) {
            return None;
        }
        match &args[..] {
            [Arg { kind: ArgKind::Value(Expr { kind: ExprKind::Text(of), .. }), .. }] => Some(of.clone()),
            _ => None,
        }
    }

    fn probe(&mut self, probe: &'a ast::Declared) -> Option<hir::Probe> {
        let call = &probe.call;
        let Some((_, actions)) = KINDS.iter().find(|(name, _)| *name == call.name.text) else {
            let known = KINDS.map(|(name, _)| name);
            self.report(
                Diagnostic::new(Code::UnknownName, call.name.span, format!("there is no probe `{}`", call.name.text))
                    .suggest(&call.name.text, known)
                    .note(super::there_are(&known)),
            );
            return None;
        };
        let mut found = hir::Probe {
            name: probe.name.text.clone(),
            title: None,
            actions: *actions,
            episodes: None,
            settings: Vec::new(),
            changes: Vec::new(),
            span: probe.name.span,
        };
        let stored = *actions == Actions::Replay;
        let own: Vec<&str> = match stored {
            true => vec!["episodes", "title"],
            false => ["episodes"].into_iter().chain(SETTINGS).chain(CHANGES).chain(["title"]).collect(),
        };
        let mut seen: Vec<&Ident> = Vec::new();
        for arg in &call.args {
            let (label, e) = self.setting_of(arg, "a probe's settings have names", "write `episodes = 10`")?;
            if seen.iter().any(|s| s.text == label.text) {
                self.twice_given(label);
                return None;
            }
            seen.push(label);
            let name = label.text.as_str();
            if !own.contains(&name) {
                self.unknown_setting(&format!("the probe `{}`", call.name.text), label, &own);
                return None;
            }
            let env = self.model_env(e.span.file);
            let value = self.eval(e, &env);
            match name {
                "title" => found.title = Some(self.text(&value, name, e.span)?),
                "episodes" => found.episodes = Some(self.positive(&value, name, e.span)?.min(MOST_EPISODES)),
                _ if SETTINGS.contains(&name) => {
                    let n = self.positive(&value, name, e.span)?;
                    found.settings.push((name.to_string(), Setting::Number(n as f64)));
                }
                _ => {
                    let x = self.as_number(&value, e.span)?;
                    let fits = match name {
                        "mass" => x > 0.0,
                        "delay" => (0.0..=1000.0).contains(&x) && x.fract() == 0.0,
                        "mask" => (0.0..=1.0).contains(&x),
                        _ => x >= 0.0,
                    };
                    if !fits || !x.is_finite() {
                        let help = match name {
                            "kick" => "joints start at most this fast, in the task's units",
                            "mass" => "it multiplies the masses and is above 0",
                            "delay" => "it is a number of decisions",
                            "mask" => "it is the share of entries that are hidden, 0 to 1",
                            _ => "it multiplies what the task has and is 0 or more",
                        };
                        self.report(Diagnostic::new(Code::BadSetting, e.span, format!("`{name}` cannot be {x}")).help(help));
                        return None;
                    }
                    found.changes.push((name.to_string(), x));
                }
            }
        }
        let set = |name: &str| seen.iter().find(|s| s.text == name);
        if let (Some(_), Some(other)) = (set("length"), set("control_steps")) {
            self.report(
                Diagnostic::new(Code::BadSetting, other.span, "an episode has `length` or `control_steps`, not both")
                    .help("`length` counts decisions; a decision is `repeat` control steps"),
            );
            return None;
        }
        Some(found)
    }

    fn show(&mut self, show: &'a ast::Declared, declared: &Declared<'a>) -> Option<hir::Show> {
        let call = &show.call;
        let Some(form) = Form::ALL.iter().copied().find(|form| form.name() == call.name.text) else {
            let known: Vec<&str> = Form::ALL.iter().map(|form| form.name()).collect();
            self.report(
                Diagnostic::new(
                    Code::UnknownName,
                    call.name.span,
                    format!("there is nothing to show called `{}`", call.name.text),
                )
                .suggest(&call.name.text, known.iter().copied())
                .note(super::there_are(&known)),
            );
            return None;
        };
        let arguments = arguments(form);
        let mut found = hir::Show {
            name: show.name.text.clone(),
            form,
            title: None,
            unit: None,
            series: Vec::new(),
            probes: Vec::new(),
            numbers: Vec::new(),
            span: show.name.span,
        };
        let mut positional: Vec<&'a Expr> = Vec::new();
        let mut given: Vec<(&'static Argument, Vec<&'a Expr>, Span)> = Vec::new();
        let mut seen: Vec<&Ident> = Vec::new();
        let own: Vec<&str> = arguments.iter().filter(|a| !a.placed).map(|a| a.name).chain(["title", "unit"]).collect();
        for arg in &call.args {
            let (label, e) = match &arg.kind {
                ArgKind::Value(e) => {
                    positional.push(e);
                    continue;
                }
                _ => self.setting_of(arg, "an argument is a series or `name = value`", &format!("as in `{}`", example(form)))?,
            };
            if seen.iter().any(|s| s.text == label.text) {
                self.twice_given(label);
                return None;
            }
            seen.push(label);
            if matches!(label.text.as_str(), "title" | "unit") {
                let env = self.model_env(e.span.file);
                let value = self.eval(e, &env);
                let text = self.text(&value, &label.text, e.span)?;
                *(if label.text == "title" { &mut found.title } else { &mut found.unit }) = Some(text);
                continue;
            }
            let Some(argument) = arguments.iter().find(|a| !a.placed && a.name == label.text) else {
                self.unknown_setting(&format!("`{}`", form.name()), label, &own);
                return None;
            };
            given.push((argument, listed(e), e.span));
        }
        if let Some(argument) = arguments.iter().find(|a| a.placed) {
            given.insert(0, (argument, std::mem::take(&mut positional), call.name.span));
        }
        if let Some(e) = positional.first() {
            self.report(
                Diagnostic::new(Code::WrongArguments, e.span, format!("the arguments of `{}` have names", form.name()))
                    .help(format!("as in `{}`", example(form))),
            );
            return None;
        }
        let mut used: HashMap<&str, Vec<Series>> = HashMap::new();
        for argument in arguments {
            let (values, span) = match given.iter().find(|(a, ..)| a.name == argument.name) {
                Some((_, values, span)) => (values.clone(), *span),
                None => (Vec::new(), call.name.span),
            };
            let absent = values.is_empty() && argument.least == 0;
            // What may be left out is there with all its entries, or not at all.
            let least = if argument.name == "flow" { 2 } else { argument.least };
            if !absent && !(least..=argument.most).contains(&values.len()) {
                self.miscounted(form, argument, values.len(), span);
                return None;
            }
            match argument.what {
                What::Series(takes) => {
                    let series: Option<Vec<(String, Series)>> =
                        values.iter().map(|e| self.series_named(e, takes, form, declared)).collect();
                    let series = series?;
                    if PUT.contains(&(form, argument.name))
                        && let Some(i) = series.iter().position(|(_, s)| !s.read)
                    {
                        let message = format!("`{}` is no part of the model's state", series[i].0);
                        self.report(
                            Diagnostic::new(Code::SeriesShape, values[i].span, message)
                                .label(series[i].1.span, "computed here")
                                .help("states are put in place by hand: name an equation's own value, as `x = z[t].x`"),
                        );
                        return None;
                    }
                    found.series.push((argument.name.to_string(), series.iter().map(|(name, _)| name.clone()).collect()));
                    used.insert(argument.name, series.into_iter().map(|(_, s)| s).collect());
                }
                What::Probe => {
                    let probes: Option<Vec<String>> = values.iter().map(|e| self.probe_named(e, declared)).collect();
                    found.probes.push((argument.name.to_string(), probes?));
                }
                What::Counts | What::Shares | What::Flag => {
                    let numbers: Option<Vec<f64>> = values.iter().map(|e| self.number_for(argument, e)).collect();
                    found.numbers.push((argument.name.to_string(), numbers?));
                }
            }
        }
        if let (Form::Crossings, Some([a, b])) = (form, used.get("over").map(Vec::as_slice))
            && a.axes != b.axes
        {
            let span = given.iter().find(|(a, ..)| a.name == "over").map_or(call.span, |(_, _, span)| *span);
            let message = "`over` of `crossings` takes two arrays with the same axes: conjugate coordinates";
            self.report(
                Diagnostic::new(Code::SeriesShape, span, message)
                    .label(a.span, "the first")
                    .label(b.span, "the second")
                    .help("the flow of a slice is the gradient turned by a right angle, entry by entry"),
            );
            return None;
        }
        for (_, argument, other) in PAIRED.iter().filter(|(of, ..)| *of == form) {
            let (Some(these), Some(those)) = (used.get(argument), used.get(other)) else { continue };
            let fits = these.is_empty() || these.len() == those.len() && these.iter().zip(those).all(|(a, b)| a.axes == b.axes);
            if !fits {
                let span = given.iter().find(|(a, ..)| a.name == *argument).map_or(call.span, |(_, _, span)| *span);
                let message = format!("`{argument}` and `{other}` of `{}` must have the same axes, one by one", form.name());
                self.report(Diagnostic::new(Code::SeriesShape, span, message).help(format!("as in `{}`", example(form))));
                return None;
            }
        }
        Some(found)
    }

    fn miscounted(&mut self, form: Form, argument: &Argument, found: usize, span: Span) {
        let Argument { name, what, least, most, .. } = *argument;
        let noun = match what {
            What::Series(_) => "series",
            What::Probe => "probes",
            What::Counts | What::Shares | What::Flag => "numbers",
        };
        let wanted = match (least, most) {
            (_, most) if name == "flow" || least == most => format!("{most}"),
            (least, most) => format!("{least} to {most}"),
        };
        let of = if argument.placed { String::new() } else { format!(" in `{name}`") };
        let message = format!("`{}` takes {wanted} {noun}{of}, and {found} are given", form.name());
        self.report(Diagnostic::new(Code::WrongArguments, span, message).help(format!("as in `{}`", example(form))));
    }

    fn series_named(&mut self, e: &'a Expr, takes: Takes, form: Form, declared: &Declared<'a>) -> Option<(String, Series)> {
        let name = self.name_of(e, "a series", "declare it: `size = norm(z[t])`, and write its name here")?;
        let Some(found) = declared.series.get(name.text.as_str()) else {
            let known: Vec<&str> = declared.series.keys().copied().collect();
            self.unknown("series", name, known, &format!("declare it above: `{} = z[t]`", name.text));
            return None;
        };
        let found = found.clone()?;
        if !found.is(takes) {
            let message = format!("`{}` takes {} here", form.name(), takes.described());
            let mut d = Diagnostic::new(Code::SeriesShape, e.span, message)
                .here(format!("this is {}", found.described()))
                .label(found.span, "declared here");
            if takes == Takes::Steps {
                d = d.help(format!("declare it with two indices: `{}[i, k] = sq(y[i, k] - z[i+k])`", name.text));
            } else if takes == Takes::Truth {
                d = d.help("declare a condition: `small = norm(a[t]) < 0.1`");
            }
            self.report(d);
            return None;
        }
        Some((name.text.clone(), found))
    }

    fn probe_named(&mut self, e: &'a Expr, declared: &Declared<'a>) -> Option<String> {
        let name = self.name_of(e, "a probe", "declare it: `probe free = passive()`, and write its name here")?;
        if !declared.probes.contains_key(name.text.as_str()) {
            let known: Vec<&str> = declared.probes.keys().copied().collect();
            self.unknown("probe", name, known, &format!("declare it: `probe {} = policy()`", name.text));
            return None;
        }
        Some(name.text.clone())
    }

    fn unknown(&mut self, what: &str, name: &Ident, mut known: Vec<&str>, help: &str) {
        known.sort_unstable();
        let d = Diagnostic::new(Code::UnknownName, name.span, format!("there is no {what} `{}`", name.text));
        self.report(d.suggest(&name.text, known).or_help(help));
    }

    fn name_of(&mut self, e: &'a Expr, what: &str, help: &str) -> Option<&'a Ident> {
        let name = e.as_name();
        if name.is_none() {
            self.report(Diagnostic::new(Code::WrongKind, e.span, format!("{what} is given by its name")).help(help));
        }
        name
    }

    fn number_for(&mut self, argument: &Argument, e: &'a Expr) -> Option<f64> {
        let env = self.model_env(e.span.file);
        let value = self.eval(e, &env);
        let wrong = |cx: &mut Self, what: &str| {
            cx.report(Diagnostic::new(Code::BadSetting, e.span, format!("`{}` is {what}", argument.name)));
            None
        };
        match (argument.what, &value) {
            (_, Value::Error) => None,
            (What::Flag, Value::Bool(b)) => Some(f64::from(u8::from(*b))),
            (What::Flag, _) => wrong(self, "true or false"),
            (What::Counts, _) => match self.as_int(&value, e.span)? {
                n if n >= 0 => Some(n as f64),
                _ => wrong(self, "a whole number, zero or more"),
            },
            _ => match self.as_number(&value, e.span)? {
                x if (0.0..=1.0).contains(&x) => Some(x),
                _ => wrong(self, "between 0 and 1"),
            },
        }
    }

    fn setting_of(&mut self, arg: &'a Arg, message: &str, help: &str) -> Option<(&'a Ident, &'a Expr)> {
        match &arg.kind {
            ArgKind::Named(label, e) => Some((label, e)),
            _ => {
                self.report(Diagnostic::new(Code::WrongArguments, arg.span, message).help(help));
                None
            }
        }
    }

    fn twice_given(&mut self, label: &Ident) {
        self.report(
            Diagnostic::new(Code::DuplicateName, label.span, format!("`{}` is set twice", label.text))
                .help("leave one of them out"),
        );
    }

    fn unknown_setting(&mut self, of: &str, label: &Ident, known: &[&str]) {
        self.report(
            Diagnostic::new(Code::UnknownSetting, label.span, format!("{of} has no setting `{}`", label.text))
                .suggest(&label.text, known.iter().copied())
                .note(format!("its settings are {}", super::listed(known))),
        );
    }

    fn text(&mut self, value: &Value<'a>, name: &str, span: Span) -> Option<String> {
        match value {
            Value::Text(text) => Some(text.to_string()),
            Value::Error => None,
            other => {
                let message = format!("`{name}` is a text, and this is {}", other.describe());
                self.report(Diagnostic::new(Code::WrongKind, span, message).help(format!("write `{name} = \"..\"`")));
                None
            }
        }
    }
}

/// `[a, b]`, or one alone.
fn listed(e: &Expr) -> Vec<&Expr> {
    match &e.kind {
        ExprKind::List(items) => items
            .iter()
            .map(|item| match item {
                ListItem::Value(e) => e,
                // An axis or a rest is no name; what is wrong is said of the whole list.
                ListItem::Axis(..) | ListItem::Rest(_) => e,
            })
            .collect(),
        _ => vec![e],
    }
}
