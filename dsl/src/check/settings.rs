//! Checks `source` and `train`.

use super::Ctx;
use super::value::Value;
use crate::ast::{self, ArgKind, Bind, Expr, ExprKind, Ident};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{Setting, Source, StopRule, Task, Train};
use crate::source::Span;

pub(super) struct Settings {
    pub source: Source,
    pub train: Train,
    pub tasks: Vec<Task>,
}

impl<'a> Ctx<'a> {
    pub(super) fn elaborate_settings(&mut self) -> Option<Settings> {
        let source = self.source();
        let train = self.train();
        let tasks = self.tasks();
        Some(Settings { source: source?, train: train?, tasks })
    }

    fn source(&mut self) -> Option<Source> {
        let Some((call, over)) = self.names.members.source else {
            self.missing("source", "say where the data comes from: `source replay(capacity = 100_000) over [B = 128, T = 8]`");
            return None;
        };
        let names: &[&str] = match call.name.text.as_str() {
            "replay" => &["capacity", "by", "cross", "context"],
            "rollout" => &["steps", "epochs", "minibatch"],
            other => {
                self.report(
                    Diagnostic::new(Code::UnknownName, call.name.span, format!("there is no source `{other}`"))
                        .suggest(other, ["replay", "rollout"])
                        .note("there are `replay` (past experience) and `rollout` (fresh experience)"),
                );
                return None;
            }
        };
        let mut given: Vec<(&'a str, Value<'a>, Span)> = Vec::new();
        for arg in &call.args {
            let ArgKind::Named(label, e) = &arg.kind else {
                self.report(
                    Diagnostic::new(Code::WrongArguments, arg.span, "a source's settings have names")
                        .help(format!("write `{} = ..`", names[0])),
                );
                return None;
            };
            if !names.contains(&label.text.as_str()) {
                self.report(
                    Diagnostic::new(
                        Code::UnknownSetting,
                        label.span,
                        format!("`{}` has no setting `{}`", call.name.text, label.text),
                    )
                    .suggest(&label.text, names.iter().copied())
                    .note(format!("its settings are {}", super::listed(names))),
                );
                return None;
            }
            let env = self.model_env(e.span.file);
            let value = self.eval(e, &env);
            given.push((&label.text, value, e.span));
        }
        let whole = |cx: &mut Self, name: &str, default: u64| match given.iter().find(|(n, _, _)| *n == name) {
            Some((_, v, span)) => cx.positive(&v.clone(), name, *span),
            None => Some(default),
        };
        let dim = |cx: &Self, bind: &Bind| cx.draft.dims.list.iter().find(|d| d.name == bind.name.text).cloned();
        let time = over.last().and_then(|b| dim(self, b))?;
        if let Some(n) = self.draft.table.size(time.axis).value()
            && n < 1
        {
            self.report(
                Diagnostic::new(Code::BadSetting, time.span, format!("a segment cannot have {n} steps"))
                    .help("it has at least one step"),
            );
            return None;
        }
        if call.name.text == "rollout" {
            let steps = whole(self, "steps", 1024)?;
            let epochs = whole(self, "epochs", 4)?;
            let minibatch = whole(self, "minibatch", 128)?;
            if over.len() != 1 {
                let span = over.first().map_or(call.span, |b| b.name.span);
                self.report(
                    Diagnostic::new(Code::WrongArguments, span, "a rollout runs over time alone").help("write `over [T = 1024]`"),
                );
                return None;
            }
            return Some(Source::Rollout { steps, epochs: u32::try_from(epochs).unwrap_or(u32::MAX), minibatch, time });
        }
        if over.len() != 2 {
            let span = over.first().map_or(call.span, |b| b.name.span);
            self.report(
                Diagnostic::new(Code::WrongArguments, span, "a replay runs over the batch and time")
                    .help("write `over [B = 128, T = 8]`"),
            );
            return None;
        }
        let batch = over.first().and_then(|b| dim(self, b))?;
        if self.draft.table.size(batch.axis).value() == Some(0) {
            self.report(
                Diagnostic::new(Code::BadSetting, batch.span, "a batch cannot have 0 samples").help("it has at least one sample"),
            );
            return None;
        }
        let capacity = whole(self, "capacity", 1_000_000)?;
        let context = match given.iter().find(|(n, _, _)| *n == "context") {
            Some((_, v, span)) => {
                let n = self.as_int(&v.clone(), *span)?;
                let Ok(n) = u32::try_from(n) else {
                    self.report(
                        Diagnostic::new(Code::BadSetting, *span, format!("`context` cannot be {n}"))
                            .help("it is a number of observations, zero or more"),
                    );
                    return None;
                };
                n
            }
            None => 0,
        };
        let cross = match given.iter().find(|(n, _, _)| *n == "cross") {
            Some((_, Value::Bool(b), _)) => *b,
            Some((_, _, span)) => {
                self.error(Code::WrongKind, *span, "`cross` is true or false");
                return None;
            }
            None => false,
        };
        let by_episode = match given.iter().find(|(n, _, _)| *n == "by") {
            Some((_, Value::Text(by), span)) if matches!(&**by, "segment" | "episode") => {
                if &**by == "episode" && cross {
                    let message = "`by = \"episode\"` draws an episode first, and with `cross` a segment belongs to several";
                    self.report(Diagnostic::new(Code::BadSetting, *span, message).help("leave one of the two out"));
                    return None;
                }
                &**by == "episode"
            }
            Some((_, _, span)) => {
                let d = Diagnostic::new(Code::BadSetting, *span, "`by` is \"segment\" or \"episode\"");
                self.report(d.help("it says what is drawn with equal chances: a segment, or first its episode"));
                return None;
            }
            None => false,
        };
        Some(Source::Replay { capacity, cross, by_episode, context, batch, time })
    }

    pub(super) fn positive(&mut self, value: &Value<'a>, name: &str, span: Span) -> Option<u64> {
        let n = self.as_int(value, span)?;
        match u64::try_from(n) {
            Ok(n) if n > 0 => Some(n),
            _ => {
                self.report(
                    Diagnostic::new(Code::BadSetting, span, format!("`{name}` cannot be {n}"))
                        .help("it is a whole number, one or more"),
                );
                None
            }
        }
    }

    fn train(&mut self) -> Option<Train> {
        let Some((binds, span)) = self.names.members.train else {
            self.missing("train", "say how long: `train { steps = 100_000, seed_steps = 5_000, every = 2, updates = 1, eval_every = 5_000, seeds = [7] }`");
            return None;
        };
        const NAMES: [&str; 9] =
            ["steps", "seed_steps", "every", "updates", "eval_every", "eval_episodes", "ood_episodes", "seeds", "stop_epoch"];
        let mut train = Train {
            steps: 0,
            seed_steps: 0,
            every: 1,
            updates: 1,
            eval_every: 5_000,
            eval_episodes: 3,
            ood_episodes: None,
            seeds: vec![1],
            stop_epoch: None,
        };
        let mut ok = true;
        let mut seen: Vec<&str> = Vec::new();
        // The protocol gives what `train` leaves out.
        let own: Vec<(&'a Ident, &'a Expr)> = binds.iter().map(|b| (&b.name, &b.value)).collect();
        let mut given: Vec<(&'a Ident, &'a Expr)> = Vec::new();
        for (name, value) in self.loop_settings() {
            if own.iter().chain(&given).all(|(known, _)| known.text != name.text) {
                given.push((name, value));
            }
        }
        for (label, value) in own.into_iter().chain(given) {
            let name = label.text.as_str();
            if seen.contains(&name) {
                self.report(
                    Diagnostic::new(Code::DuplicateName, label.span, format!("`{name}` is set twice"))
                        .help("leave one of them out"),
                );
                ok = false;
                continue;
            }
            seen.push(name);
            let env = self.model_env(value.span.file);
            let span = value.span;
            let slot = match name {
                "steps" => &mut train.steps,
                "every" => &mut train.every,
                "updates" => &mut train.updates,
                "eval_every" => &mut train.eval_every,
                "eval_episodes" => &mut train.eval_episodes,
                "ood_episodes" => train.ood_episodes.get_or_insert(0),
                "seed_steps" => {
                    let value = self.eval(value, &env);
                    match self.as_int(&value, span).and_then(|n| u64::try_from(n).ok()) {
                        Some(n) => train.seed_steps = n,
                        None => {
                            self.report(Diagnostic::new(Code::BadSetting, span, "`seed_steps` is a whole number, zero or more"));
                            ok = false;
                        }
                    }
                    continue;
                }
                "seeds" => {
                    match self.eval(value, &env) {
                        Value::List(items) => {
                            train.seeds =
                                items.iter().filter_map(|v| self.as_int(v, span)).filter_map(|n| u64::try_from(n).ok()).collect();
                            if train.seeds.is_empty() {
                                self.report(
                                    Diagnostic::new(Code::BadSetting, span, "at least one seed is needed")
                                        .help("write `seeds = [7, 8, 9]`"),
                                );
                                ok = false;
                            }
                        }
                        Value::Error => ok = false,
                        other => {
                            self.report(
                                Diagnostic::new(
                                    Code::WrongKind,
                                    span,
                                    format!("`seeds` is a list, and this is {}", other.describe()),
                                )
                                .help("write `seeds = [7, 8, 9]`"),
                            );
                            ok = false;
                        }
                    }
                    continue;
                }
                "stop_epoch" => {
                    match self.stop_rule(value) {
                        Some(rule) => train.stop_epoch = Some(rule),
                        None => ok = false,
                    }
                    continue;
                }
                _ => {
                    self.report(
                        Diagnostic::new(Code::UnknownSetting, label.span, format!("`train` has no setting `{name}`"))
                            .suggest(name, NAMES)
                            .note(format!("its settings are {}", super::listed(NAMES))),
                    );
                    ok = false;
                    continue;
                }
            };
            let value = self.eval(value, &env);
            match self.positive(&value, name, span) {
                Some(n) if Train::EPISODES.contains(&name) && n > Train::MAX_EPISODES => {
                    let most = super::thousands(&Train::MAX_EPISODES.to_string());
                    self.report(
                        Diagnostic::new(Code::TooMany, span, format!("an evaluation has at most {most} episodes"))
                            .help("they run at the same time; ten are usual"),
                    );
                    ok = false;
                }
                Some(n) => *slot = n,
                None => ok = false,
            }
        }
        if ok && !seen.contains(&"steps") {
            self.report(Diagnostic::new(Code::MissingSection, span, "`train` needs `steps`").help("write `steps = 100_000`"));
            ok = false;
        }
        if ok && train.seed_steps >= train.steps {
            let at = binds.iter().find(|b| b.name.text == "seed_steps").map_or(span, |b| b.value.span);
            let [seed, all] = [train.seed_steps, train.steps].map(|n| super::thousands(&n.to_string()));
            self.report(
                Diagnostic::new(
                    Code::ScheduleRange,
                    at,
                    format!("the training would be over before it starts: {seed} seed steps of {all}"),
                )
                .help("`seed_steps` is a part of `steps`"),
            );
            ok = false;
        }
        ok.then_some(train)
    }

    /// `kl > 0.05`, or `last(kl) > 0.05`.
    fn stop_rule(&mut self, e: &'a ast::Expr) -> Option<StopRule> {
        let metric = |left: &'a ast::Expr| match &left.kind {
            ExprKind::Call(f, args) if f.as_name().is_some_and(|n| n.text == "last") => match args.as_slice() {
                [ast::Arg { kind: ArgKind::Value(e), .. }] => Some((e.as_name()?, true)),
                _ => None,
            },
            _ => Some((left.as_name()?, false)),
        };
        if let ExprKind::Binary(ast::BinaryOp::Gt, left, right) = &e.kind
            && let Some((name, last)) = metric(left)
        {
            if !self.names.members.metrics.iter().any(|m| m.place.name.text == name.text) {
                let known: Vec<String> = self.names.members.metrics.iter().map(|m| m.place.name.text.clone()).collect();
                self.report(
                    Diagnostic::new(Code::UnknownName, name.span, format!("there is no metric `{}`", name.text))
                        .suggest(&name.text, known.iter().map(String::as_str)),
                );
                return None;
            }
            let env = self.model_env(right.span.file);
            let value = self.eval(right, &env);
            let above = self.as_number(&value, right.span)?;
            return Some(StopRule { metric: name.text.clone(), last, above });
        }
        self.report(
            Diagnostic::new(Code::BadSetting, e.span, "`stop_epoch` compares a metric with a number")
                .help("write `stop_epoch = kl > 0.05`, or `last(kl) > 0.05` for the last minibatch alone"),
        );
        None
    }

    pub(super) fn setting(&mut self, value: &Value<'a>, span: Span) -> Option<Setting> {
        Some(match value {
            Value::Num(n) => Setting::Number(*n),
            Value::Bool(b) => Setting::Flag(*b),
            Value::Text(t) => Setting::Text(t.to_string()),
            Value::List(items) => {
                let items = items.clone();
                Setting::List(items.iter().filter_map(|v| self.setting(v, span)).collect())
            }
            Value::Error => return None,
            other => {
                self.error(
                    Code::WrongKind,
                    span,
                    format!("a task's setting is a number, a truth value, a text or a list, and this is {}", other.describe()),
                );
                return None;
            }
        })
    }
}
