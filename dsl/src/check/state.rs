//! The state of a check, by theme.
//!
//! [`Ctx`](super::Ctx) owns one of each. [`Draft`] becomes the [`hir::Model`]; the rest ends with the check.

use hashbrown::{HashMap, HashSet};

use super::declare::{Dims, Members};
use super::module::{Instance, ModuleBuild};
use super::table::Table;
use super::time::VarDecl;
use super::value::Value;
use super::{DrawFrom, MAX_DIAGNOSTICS, Site, Sizes, TRAIN, planner, reach, targets};
use crate::diagnostics::Diagnostic;
use crate::hir::{self, AxisId, ExprId, VarId};
use crate::source::Span;

/// What the model consists of.
#[derive(Default)]
pub(super) struct Draft<'a> {
    pub table: Table,
    pub dims: Dims,
    pub inputs: Vec<hir::Input>,
    pub latents: Vec<hir::Latent>,
    pub modules: Vec<ModuleBuild<'a>>,
    pub params: Vec<hir::Param>,
    pub param_index: HashMap<String, hir::ParamId>,
    pub carries: Vec<hir::Carry>,
    pub carry_index: HashMap<String, usize>,
    pub schedules: Vec<hir::Schedule>,
    pub running: Vec<hir::Running>,
    pub draws: Vec<hir::Draw>,
    /// Names of draws that are taken, by system.
    pub draw_names: HashSet<(usize, String)>,
    /// The origin of each draw, to find whether samples share it.
    pub draw_from: Vec<DrawFrom>,
    pub vars: Vec<VarDecl>,
    /// The axes of collections, by the indices they run over and whether they run over the batch.
    pub collections: HashMap<(bool, Vec<VarId>), AxisId>,
    /// Axes of unknown size that mistakes have left.
    pub holes: u32,
}

impl Draft<'_> {
    pub(super) fn new_carry(&mut self, carry: hir::Carry) -> usize {
        let id = self.carries.len();
        self.carry_index.entry(carry.path.clone()).or_insert(id);
        self.carries.push(carry);
        id
    }

    pub(super) fn new_var(&mut self, name: &str, span: Span, range: Option<(i64, i64)>) -> VarId {
        self.vars.push(VarDecl { name: name.to_string(), span, range });
        VarId(self.vars.len() as u32 - 1)
    }
}

/// The names that the model declares.
#[derive(Default)]
pub(super) struct Names<'a> {
    pub members: Members<'a>,
    /// Names with two meanings: reported once, and silent wherever they are used.
    pub clashes: HashSet<String>,
    /// Names of the model that something reads.
    pub used: HashSet<String>,
}

/// The place of the text that is being elaborated.
pub(super) struct Place<'a> {
    pub site: Site,
    pub sizes: Sizes,
    pub instance: Option<Instance>,
    /// The `let` that holds the expression, for paths.
    pub held_by: Option<&'a str>,
    /// The output shape that `->` gives to the next block call.
    pub expected: Option<Vec<AxisId>>,
}

impl Default for Place<'_> {
    fn default() -> Self {
        Place { site: Site::outside(TRAIN), sizes: Sizes::Train, instance: None, held_by: None, expected: None }
    }
}

/// What gradients have to remember of the values they are taken of.
#[derive(Default)]
pub(super) struct Gradients<'a> {
    /// Arguments of the call that computed a value: candidates for "did you mean".
    pub call_args: HashMap<ExprId, Vec<Vec<ExprId>>>,
    /// By gradient that was taken through equations: the value as it was written. Where these hold, it exists.
    pub written_out: HashMap<ExprId, ExprId>,
    /// Gradients through equations that are not written out: they must be computed where these are.
    pub in_place: HashMap<ExprId, usize>,
    /// How many rounds of a recurrence a gradient leaves out: unknown numbers, one for each recurrence inside another.
    pub rounds: Vec<VarId>,
    /// Gradients that were taken while an equation on the way was still being read.
    pub unfinished: Vec<reach::Unfinished>,
    /// Stand-ins for gradients without a meaning: misfits because of them are not reported again.
    pub doubtful: HashSet<ExprId>,
    /// Names of the body that gradients are taken by, and those of all bodies that were looked at, by address.
    pub targets: targets::Names<'a>,
    pub targets_known: HashMap<usize, targets::Names<'a>>,
    /// Values of such names: nothing outside is computed from them.
    pub own_names: HashSet<ExprId>,
}

/// New values of carries, which planners give.
#[derive(Default)]
pub(super) struct Acting<'a> {
    pub next: Vec<(usize, ExprId)>,
    pub pending: Vec<planner::PendingNext<'a>>,
}

/// Constants by name and kind, and those that are being computed.
#[derive(Default)]
pub(super) struct Constants<'a> {
    pub values: HashMap<(String, bool), Value<'a>>,
    pub open: Vec<String>,
}

/// Collects diagnostics: each once, and no more than a person reads.
#[derive(Default)]
pub(super) struct Sink<'a> {
    pub diagnostics: Vec<Diagnostic>,
    /// Functions being expanded, for recursion and for messages that start in the prelude.
    pub calls: Vec<(&'a str, Span)>,
    /// Diagnostics beyond the bound.
    pub left_out: usize,
    /// The budget is used up, or as many errors are known as are reported.
    pub stopped: bool,
}

impl Sink<'_> {
    /// Reports a diagnostic once. A mistake inside a function of the prelude is shown where the user called it.
    ///
    /// `again`: the equations are being read a second time, at the evaluation's sizes.
    pub(super) fn report(&mut self, mut d: Diagnostic, mut again: bool) {
        let in_prelude = |s: Span| crate::prelude::holds(s.file);
        if in_prelude(d.primary.span)
            && let Some((name, call)) = self.calls.iter().rev().find(|(_, s)| !in_prelude(*s)).cloned()
        {
            let inner = d.primary.clone();
            d.primary.span = call;
            d.primary.text = if inner.text.is_empty() {
                format!("in this use of `{name}`")
            } else {
                format!("in this use of `{name}`: {}", inner.text)
            };
            d.secondary.retain(|l| !in_prelude(l.span));
            again = true;
        }
        // The evaluation repeats the training's equations at other sizes; one use of the prelude is one mistake.
        let told = |other: &Diagnostic| *other == d || again && (other.code, other.primary.span) == (d.code, d.primary.span);
        if self.diagnostics.iter().any(told) {
            return;
        }
        // Warnings leave room for errors: a model that has one is never called right.
        let same = self.diagnostics.iter().filter(|other| other.is_error() == d.is_error()).count();
        if same < MAX_DIAGNOSTICS {
            self.diagnostics.push(d);
        } else {
            self.left_out += 1;
            self.stopped |= d.is_error();
        }
    }
}
