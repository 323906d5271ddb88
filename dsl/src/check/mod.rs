//! From a flat model to a checked one.
//!
//! Checking is elaboration: functions, blocks, distributions and planners are expanded into the expression table
//! with every axis known, equation by equation and only on demand, so that an equation may stand before what it
//! reads. Then [`time`] finds the domains and the order of computation, and [`reach`] sees which losses train what.
//!
//! | file | subject |
//! |---|---|
//! | `declare` | members by kind and name; inputs, latents, dims |
//! | `module`, `instantiate`, `net`, `param` | nets, heads and memories: as they are declared, what they are, calls of them, their parameters |
//! | `system`, `equation`, `read`, `ty` | equations: all of them, each one, reads of them, what they hold |
//! | `planner` | planners and their rollouts |
//! | `expr`, `names`, `operators`, `record`, `fold`, `subscript` | expressions |
//! | `call`, `bind`, `body`, `block`, `dist` | calls: arguments meet parameters; functions, blocks, distributions |
//! | `builtins`, `elementwise`, `reductions`, `arrays`, `draws`, `derivatives` | the functions that Rust knows |
//! | `shape` | shapes, conversions, axes that must agree |
//! | `state` | the state of a check by theme: the model so far, names, diagnostics |
//! | `value`, `table` | values while a model is checked, and the table of its expressions |
//! | `budget` | what a check may cost |
//! | `objective` | losses, metrics, optimisers |
//! | `diagnose` | series, probes, and what is shown of them |
//! | `running` | running statistics |
//! | `settings`, `protocol` | source and training loop; tasks |
//! | `act`, `acting`, `phase` | acting, the state it needs, what it may read, and `training` |
//! | `reach`, `through` | gradients: what depends on what, and through which equations |
//! | `time` | domains and recurrences |
//! | `finish` | the model as a plain value |

mod act;
mod acting;
mod arrays;
mod bind;
mod block;
mod body;
mod budget;
mod builtins;
mod call;
mod declare;
mod derivatives;
mod diagnose;
mod dist;
mod draws;
mod elementwise;
mod equation;
mod expr;
mod finish;
mod fold;
mod instantiate;
mod module;
mod names;
mod net;
mod objective;
mod operators;
mod param;
mod phase;
mod planner;
mod points;
mod protocol;
mod reach;
mod read;
mod record;
mod reductions;
mod running;
mod settings;
mod shape;
mod sizes;
mod state;
mod subscript;
mod system;
mod table;
mod targets;
mod through;
pub(crate) mod time;
mod ty;
mod value;
mod window;

use hashbrown::HashSet;

use crate::ast::Item;
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, ExprId, VarId};
use crate::resolve::{self, Flat, Program};
use crate::source::{FileId, Sources, Span};
use crate::{Checked, Loader, Options};
use budget::{STEP, Spent};
use state::{Acting, Constants, Draft, Gradients, Names, Place, Sink};
use system::SystemBuild;
use value::{Env, Sees, Value};

/// Calls inside calls.
const MAX_CALLS: usize = 64;
/// Errors for one file, and warnings; more help nobody.
const MAX_DIAGNOSTICS: usize = 100;

/// Checks a text and everything it uses. Never panics, whatever the text.
pub fn check(name: &str, text: &str, loader: &dyn Loader, options: &Options) -> Checked {
    let mut sources = Sources::default();
    let mut diagnostics = Vec::new();
    let (program, file) = resolve::load(name, text, loader, &mut sources, &mut diagnostics);
    let mut models = Vec::new();
    // Diagnostics beyond what is told, and models that nobody looked at.
    let (mut left_out, mut unseen) = (0, 0);
    // A text that could not be read whole would give errors about what is missing from it.
    if !diagnostics.iter().any(Diagnostic::is_error) {
        let mut wanted = program.files[file.0 as usize].items.iter().filter_map(|item| match item {
            Item::Model(m) if options.model.as_ref().is_none_or(|name| *name == m.name.text) => Some(m),
            _ => None,
        });
        let mut any = false;
        let mut spent = Spent::default();
        while let Some(model) = wanted.next() {
            any = true;
            let mut found = Vec::new();
            let Some(flat) = resolve::flatten(&program, file, model, &mut found) else {
                diagnostics.append(&mut found);
                continue;
            };
            spent.work += STEP * flat.inherited;
            let checked = check_model(&program, &flat, options, &mut spent, &mut found);
            if !found.iter().any(Diagnostic::is_error) {
                models.extend(checked);
            }
            diagnostics.extend(found.into_iter().map(|d| inherited(&program, &flat, d)));
            if spent.all() || diagnostics.iter().filter(|d| d.is_error()).count() >= MAX_DIAGNOSTICS {
                unseen = wanted.by_ref().count();
            }
        }
        left_out = spent.left_out;
        if !diagnostics.iter().any(Diagnostic::is_error) {
            diagnostics.extend(unknown_dims(file, &models, options));
        }
        if !any {
            let items = &program.files[file.0 as usize].items;
            match &options.model {
                Some(name) => diagnostics.push(
                    Diagnostic::new(Code::NoModel, Span::new(file, 0, 0), format!("this file has no model `{name}`")).suggest(
                        name,
                        items.iter().filter_map(|i| if let Item::Model(m) = i { Some(m.name.text.as_str()) } else { None }),
                    ),
                ),
                // A file of blocks, functions or tasks is fine on its own; an empty one is a mistake.
                None if items.is_empty() => {
                    diagnostics.push(
                        Diagnostic::new(Code::NoModel, Span::new(file, 0, 0), "this file is empty")
                            .help("start one with `wmc new NAME`"),
                    );
                }
                None => {}
            }
        }
    }
    // Models of one file may share an inherited mistake: it is told once, of the model that makes it.
    diagnostics.sort_by_key(|d| (d.primary.span.file != file, d.primary.span.file, d.primary.span.lo, d.notes.len()));
    let mut seen = HashSet::new();
    diagnostics.retain(|d| seen.insert((d.code, d.primary.span, d.message.clone())));
    leave_out(&mut diagnostics, left_out, unseen);
    Checked { sources, models, diagnostics }
}

/// Sizes from outside for dims that no model of the file has.
fn unknown_dims(file: FileId, models: &[hir::Model], options: &Options) -> Vec<Diagnostic> {
    let known: Vec<&str> = models.iter().flat_map(|m| &m.dims).map(|d| d.name.as_str()).collect();
    let unknown = options.dims.iter().filter(|(name, _)| !models.is_empty() && !known.contains(&name.as_str()));
    let tell = |(name, size): &(String, u64)| {
        let message = format!("there is no dim `{name}` to give the size {size}");
        Diagnostic::new(Code::UnknownDim, Span::new(file, 0, 0), message)
            .suggest(name, known.iter().copied())
            .note(format!("the dims are {}", listed(known.iter().collect::<std::collections::BTreeSet<_>>())))
    };
    unknown.map(tell).collect()
}

/// Keeps as many errors and warnings as a person reads, errors before warnings, and says how many there were.
fn leave_out(diagnostics: &mut Vec<Diagnostic>, mut left_out: usize, unseen: usize) {
    let errors = diagnostics.iter().filter(|d| d.is_error()).count();
    let mut room = [MAX_DIAGNOSTICS.saturating_sub(errors), MAX_DIAGNOSTICS];
    diagnostics.retain(|d| {
        let room = &mut room[usize::from(d.is_error())];
        let kept = *room > 0;
        *room = room.saturating_sub(1);
        left_out += usize::from(!kept);
        kept
    });
    let mut notes = Vec::new();
    if left_out > 0 {
        notes.push(format!("at least {} more are left out", thousands(&left_out.to_string())));
    }
    if unseen > 0 {
        notes.push(format!("{} more of the file's models were not looked at", thousands(&unseen.to_string())));
    }
    if let Some(last) = diagnostics.last_mut() {
        last.notes.append(&mut notes);
    }
}

/// A mistake in a member that the model inherits: says so, since the member alone may look fine.
fn inherited(program: &Program, flat: &Flat, d: Diagnostic) -> Diagnostic {
    let at = d.primary.span;
    let parent = program.files[at.file.0 as usize].items.iter().find_map(|item| match item {
        Item::Model(m) if m.span.contains(at) => Some(m),
        _ => None,
    });
    match parent {
        Some(parent) if !flat.owns(at) => {
            let note = format!("`{}` inherits this from `{}`", flat.name.text, parent.name.text);
            d.note(note)
        }
        _ => d,
    }
}

/// Names of the functions that the language itself has; all others are prelude text.
pub fn builtins() -> impl Iterator<Item = &'static str> {
    builtins::Builtin::ALL.iter().map(|b| b.name())
}

fn check_model(
    program: &Program,
    flat: &Flat,
    options: &Options,
    spent: &mut Spent,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<hir::Model> {
    let mut cx = Ctx::new(program, flat, options, *spent);
    let model = stacker::maybe_grow(1 << 20, 8 << 20, || cx.model());
    diagnostics.append(&mut cx.sink.diagnostics);
    // The nodes of a model without mistakes have moved into it.
    let nodes = model.as_ref().map_or(cx.draft.table.nodes.len(), |m| m.exprs.len());
    *spent = Spent { nodes: spent.nodes + nodes, left_out: spent.left_out + cx.sink.left_out, ..cx.spent };
    model
}

/// Which of a model's sizes hold: the training's or the evaluation's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sizes {
    Train,
    Evaluate,
}

/// Where an expression stands: its index variables, its system, and the name of its draws.
pub(crate) struct Site {
    /// Names of index variables, innermost last.
    pub vars: Vec<(String, VarId)>,
    /// Variables that a draw here varies over.
    pub active: Vec<VarId>,
    /// The last subscript of the rollout that an equation of a planner stands in: its candidates.
    pub candidate: Option<VarId>,
    pub draw_base: String,
    pub draws: usize,
    /// Parts of the distribution that a draw comes from, and whether each sample has its own.
    pub draw_from: DrawFrom,
    pub system: usize,
    /// Inside a loss or an equation of the training, where dropout acts.
    pub training: bool,
    /// Inside an equation of the training, which acting may read too: `training` is decided by the entry point.
    pub acts: bool,
    /// `reset c` of the equation with its `with` families: reads of these see the base where c holds.
    pub reset: Option<Reset>,
    /// Everything that was read, whether or not the value needs it in the end.
    pub touched: Vec<ExprId>,
}

#[derive(Clone, Default)]
pub(crate) enum DrawFrom {
    /// One draw for each sample.
    #[default]
    Sample,
    /// One for each sample if one of these differs between samples; otherwise one for all.
    Values(Vec<ExprId>),
    /// One for all.
    Shared,
}

pub(crate) struct Reset {
    pub condition: ExprId,
    /// What each family with a base goes back to.
    pub bases: Vec<equation::Base>,
}

/// The check of one model. Each field is the state of one theme; see [`state`].
pub(crate) struct Ctx<'a> {
    program: &'a Program,
    flat: &'a Flat,
    options: &'a Options,
    sink: Sink<'a>,
    names: Names<'a>,
    draft: Draft<'a>,
    constants: Constants<'a>,
    /// The training's, the evaluation's and the acting system.
    systems: [SystemBuild<'a>; 3],
    place: Place<'a>,
    gradients: Gradients<'a>,
    acting: Acting<'a>,
    spent: Spent,
}

pub(crate) const TRAIN: usize = 0;
pub(crate) const EVALUATE: usize = 1;
pub(crate) const ACT: usize = 2;

impl<'a> Ctx<'a> {
    fn new(program: &'a Program, flat: &'a Flat, options: &'a Options, spent: Spent) -> Ctx<'a> {
        Ctx {
            program,
            flat,
            options,
            sink: Sink::default(),
            names: Names::default(),
            draft: Draft::default(),
            constants: Constants::default(),
            systems: Default::default(),
            place: Place::default(),
            gradients: Gradients::default(),
            acting: Acting::default(),
            spent,
        }
    }

    /// Reports a diagnostic once; see [`Sink::report`].
    fn report(&mut self, diagnostic: Diagnostic) {
        self.sink.report(diagnostic, self.place.sizes == Sizes::Evaluate);
    }

    /// Runs `f` on behalf of something the user wrote: a mistake in the prelude's text is shown there.
    fn on_behalf<T>(&mut self, name: &'a str, span: Span, f: impl FnOnce(&mut Self) -> T) -> T {
        self.sink.calls.push((name, span));
        let result = f(self);
        self.sink.calls.pop();
        result
    }

    fn error(&mut self, code: Code, span: Span, message: impl Into<String>) -> Value<'a> {
        self.report(Diagnostic::new(code, span, message));
        Value::Error
    }

    /// Runs `f` at another place of the text, and comes back.
    fn at_site<T>(&mut self, site: Site, f: impl FnOnce(&mut Self) -> T) -> (T, Site) {
        let there = Place { site, sizes: self.place.sizes, instance: None, held_by: None, expected: None };
        let outer = std::mem::replace(&mut self.place, there);
        let calls = std::mem::take(&mut self.sink.calls);
        let result = f(self);
        self.sink.calls = calls;
        (result, std::mem::replace(&mut self.place, outer).site)
    }

    /// Names of a file's items of one kind, for suggestions.
    fn items_named(&self, file: FileId, kind: impl Fn(&Item) -> bool) -> Vec<&'a str> {
        let program = self.program;
        program.names(file).filter(|n| program.find(file, n).is_some_and(&kind)).collect()
    }

    fn model_env(&self, file: FileId) -> Env<'a> {
        Env::root(file, Sees::Equation)
    }

    /// The whole check, in order.
    fn model(&mut self) -> Option<hir::Model> {
        if !self.names_fit() {
            return None;
        }
        self.declare();
        self.declare_modules();
        self.declare_systems();
        self.running_starts();
        self.elaborate_schedules();
        self.elaborate_system(TRAIN);
        let objective = self.elaborate_objective();
        let act = self.elaborate_act();
        let settings = self.elaborate_settings();
        self.finish(objective, act, settings)
    }
}

impl Site {
    /// An equation, a loss or a metric, of which every sample has its own; `name` names its draws.
    pub(crate) fn of(system: usize, name: &str) -> Site {
        Site { draw_base: name.to_string(), draw_from: DrawFrom::Sample, training: system == TRAIN, ..Site::outside(system) }
    }

    /// A place without index variables: declarations, initial values, schedules.
    pub(crate) fn outside(system: usize) -> Site {
        Site {
            vars: Vec::new(),
            active: Vec::new(),
            candidate: None,
            draw_base: String::new(),
            draws: 0,
            draw_from: DrawFrom::Shared,
            system,
            training: false,
            acts: false,
            reset: None,
            touched: Vec::new(),
        }
    }
}

/// Shows a value's names in a message: `` `a`, `b` and `c` ``.
fn listed<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let names: Vec<String> = names.into_iter().map(|n| format!("`{}`", n.as_ref())).collect();
    match names.as_slice() {
        [] => "nothing".to_string(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

/// `there is `a``, `there are `a` and `b``.
fn there_are<S: AsRef<str>>(names: &[S]) -> String {
    let listed = listed(names);
    if names.len() == 1 { format!("there is {listed}") } else { format!("there are {listed}") }
}

/// The items of a file that are of use to an expression.
fn item_value<'a>(item: &'a Item) -> Option<Value<'a>> {
    use value::Callable;
    Some(Value::Callable(match item {
        Item::Fn(f) => Callable::Fn(f),
        Item::Block(b) => Callable::Block(b),
        Item::Dist(d) => Callable::Dist(d),
        Item::Use(_) | Item::Model(_) | Item::Planner(_) | Item::Optimizer(_) | Item::Tasks(_) => return None,
    }))
}

/// Numbers in a text as people read them: `16*O + 7046` as `16*O + 7,046`.
fn thousands(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        out.push_str(&rest[..start]);
        let number = rest[start..].split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        for (i, digit) in number.char_indices() {
            if i > 0 && (number.len() - i).is_multiple_of(3) {
                out.push(',');
            }
            out.push(digit);
        }
        rest = &rest[start + number.len()..];
    }
    out + rest
}
