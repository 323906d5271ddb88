//! Protocols: the `tasks` blocks, which say what a model is trained on and how it is evaluated.
//!
//! A setting may stand in three places. A task's own line wins over the place where the model uses the protocol, and
//! that over the head of the block:
//!
//! ```text
//! tasks paper(reward = "sum") { reacher_easy(O = 6, A = 2, repeat = 4, control_steps = 200) }
//! model M { .. tasks paper(limit = "terminal") }
//! ```

use super::Ctx;
use crate::ast::{self, Arg, ArgKind, Expr, Ident};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{Setting, Task};

/// Settings of a protocol that belong to the training loop; the model's own `train` wins over them.
const LOOP: [&str; 4] = ["eval_every", "eval_episodes", "ood_episodes", "seeds"];

/// Two ways to say how long an episode is. A task has one of them.
const LENGTHS: [&str; 2] = ["length", "control_steps"];

/// A `tasks` block as a model uses it.
#[derive(Clone, Copy)]
pub(super) struct Protocol<'a> {
    pub block: &'a ast::Tasks,
    /// Settings that the model adds where it uses the block.
    pub here: &'a [Arg],
}

impl<'a> Ctx<'a> {
    /// `tasks NAME`, in a model.
    pub(super) fn use_protocol(&mut self, call: &'a ast::Call) {
        let name = &call.name;
        match self.program.find(name.span.file, &name.text) {
            Some(ast::Item::Tasks(block)) => self.names.members.tasks.push(Protocol { block, here: &call.args }),
            _ => self.report(
                Diagnostic::new(Code::UnknownName, name.span, format!("there are no tasks `{}`", name.text))
                    .help(format!("bring them in with `use FILE::{}`, or list them: `tasks {} {{ .. }}`", name.text, name.text)),
            ),
        }
    }

    /// Replaces the model's protocol by the one that was asked for: another block of the same model, of the file that
    /// its own comes from, or of the model's file. What the model adds to its own protocol holds for that one too.
    pub(super) fn choose_protocol(&mut self) {
        let Some(wanted) = &self.options.protocol else { return };
        let own = &self.names.members.tasks;
        let here = own.first().map_or(&[][..], |p| p.here);
        let in_model = own.iter().find(|p| p.block.name.text == *wanted).copied();
        let program = self.program;
        let files = own.iter().map(|p| p.block.name.span.file).chain([self.flat.name.span.file]);
        let found = in_model.or_else(|| {
            files.clone().find_map(|file| match program.find(file, wanted) {
                Some(ast::Item::Tasks(block)) => Some(Protocol { block, here }),
                _ => None,
            })
        });
        if let Some(protocol) = found {
            self.names.members.tasks = vec![protocol];
            return;
        }
        let is_block = |file, name: &str| matches!(program.find(file, name), Some(ast::Item::Tasks(_)));
        let mut known: Vec<String> =
            files.flat_map(|file| program.names(file).filter(move |n| is_block(file, n)).map(str::to_string)).collect();
        known.extend(own.iter().map(|p| p.block.name.text.clone()));
        known.sort();
        known.dedup();
        let span = own.first().map_or(self.flat.name.span, |p| p.block.name.span);
        let message = format!("`{}` has no protocol `{wanted}`", self.flat.name.text);
        let known_note = format!("its protocols are {}", super::listed(&known));
        self.report(
            Diagnostic::new(Code::UnknownName, span, message).suggest(wanted, known.iter().map(String::as_str)).note(known_note),
        );
    }

    /// Reports a task that was asked for and is not there.
    pub(super) fn require_task(&mut self) {
        let Some(task) = &self.options.task else { return };
        if self.task_call(task).is_some() {
            return;
        }
        let known: Vec<String> = self.task_calls().map(|(_, c)| c.name.text.clone()).collect();
        let span = self.names.members.tasks.first().map_or(self.flat.name.span, |p| p.block.name.span);
        self.report(
            Diagnostic::new(Code::UnknownName, span, format!("`{}` has no task `{task}`", self.flat.name.text))
                .suggest(task, known.iter().map(String::as_str))
                .note(format!("its tasks are {}", super::listed(&known))),
        );
    }

    /// The size that a task gives to a dim.
    pub(super) fn task_size(&self, task: &str, dim: &str) -> Option<i64> {
        let call = self.task_call(task)?;
        call.args.iter().find_map(|a| match &a.kind {
            ArgKind::Named(name, e) if name.text == dim => match e.kind {
                ast::ExprKind::Number(n) if n >= 0.0 && n.fract() == 0.0 => Some(n as i64),
                _ => None,
            },
            _ => None,
        })
    }

    fn task_calls(&self) -> impl Iterator<Item = (Protocol<'a>, &'a ast::Call)> + use<'a, '_> {
        self.names.members.tasks.iter().flat_map(|p| p.block.tasks.iter().map(|call| (*p, call)))
    }

    fn task_call(&self, task: &str) -> Option<&'a ast::Call> {
        let wanted = task.replace('-', "_");
        self.task_calls().map(|(_, call)| call).find(|call| call.name.text == wanted)
    }

    /// The protocol's settings of the training loop, most specific first.
    pub(super) fn loop_settings(&self) -> Vec<(&'a Ident, &'a Expr)> {
        let protocol = self.names.members.tasks.first();
        let layers = protocol.into_iter().flat_map(|p| p.here.iter().chain(&p.block.args));
        let named = layers.filter_map(|arg| match &arg.kind {
            ArgKind::Named(name, e) if LOOP.contains(&name.text.as_str()) => Some((name, e)),
            _ => None,
        });
        named.collect()
    }

    /// All tasks with their sizes and settings.
    pub(super) fn tasks(&mut self) -> Vec<Task> {
        let calls: Vec<_> = self.task_calls().collect();
        let mut heads: Vec<(Protocol<'a>, Vec<(String, Setting)>)> = Vec::new();
        for protocol in self.names.members.tasks.clone() {
            let mut settings = Vec::new();
            for layer in [&protocol.block.args[..], protocol.here] {
                self.layer(layer, &mut Vec::new(), &mut settings);
            }
            settings.retain(|(name, _)| !LOOP.contains(&name.as_str()));
            heads.push((protocol, settings));
        }
        calls.into_iter().map(|(protocol, call)| self.task(protocol, call, &heads)).collect()
    }

    fn task(&mut self, protocol: Protocol<'a>, call: &'a ast::Call, heads: &[(Protocol<'a>, Vec<(String, Setting)>)]) -> Task {
        let head = heads.iter().find(|(p, _)| std::ptr::eq(p.block, protocol.block));
        let mut settings = head.map(|(_, settings)| settings.clone()).unwrap_or_default();
        let mut dims = Vec::new();
        self.layer(&call.args, &mut dims, &mut settings);
        let missing: Vec<String> = self
            .draft
            .dims
            .list
            .iter()
            .filter(|d| d.task && !dims.iter().any(|(n, _)| *n == d.name))
            .map(|d| d.name.clone())
            .collect();
        if !missing.is_empty() {
            let message = format!("the task `{}` does not give {}", call.name.text, super::listed(&missing));
            self.report(
                Diagnostic::new(Code::WrongArguments, call.span, message)
                    .help(format!("write `{}({} = .., ..)`", call.name.text, missing[0])),
            );
        }
        Task { name: call.name.text.clone(), protocol: protocol.block.name.text.clone(), dims, settings }
    }

    /// Adds settings that win over those that are there.
    fn layer(&mut self, args: &'a [Arg], dims: &mut Vec<(String, u64)>, settings: &mut Vec<(String, Setting)>) {
        let mut length: Option<&str> = None;
        for arg in args {
            let ArgKind::Named(label, e) = &arg.kind else {
                self.report(
                    Diagnostic::new(Code::WrongArguments, arg.span, "a task's settings have names").help("write `repeat = 4`"),
                );
                continue;
            };
            let name = label.text.as_str();
            let is_dim = self.draft.dims.list.iter().any(|d| d.task && d.name == name);
            let env = self.model_env(e.span.file);
            let value = self.eval(e, &env);
            if is_dim {
                dims.extend(self.positive(&value, name, e.span).map(|n| (name.to_string(), n)));
                continue;
            }
            let is_length = LENGTHS.contains(&name);
            if is_length && length.replace(name).is_some_and(|other| other != name) {
                self.report(
                    Diagnostic::new(Code::BadSetting, label.span, "an episode has one length, and here are two")
                        .note("`length` counts decisions; `control_steps` counts steps of the simulator, `repeat` of them per decision")
                        .help("leave one of them out"),
                );
                continue;
            }
            if let Some(setting) = self.setting(&value, e.span) {
                settings.retain(|(known, _)| known != name && !(is_length && LENGTHS.contains(&known.as_str())));
                settings.push((name.to_string(), setting));
            }
        }
    }
}
