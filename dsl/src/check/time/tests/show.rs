//! A solved system as text, to compare with.

use super::super::VarDecl;
use super::fixture::Solved;
use crate::hir::{Def, Direction, Stage, VarId};
use crate::source::Span;

impl Solved {
    /// The same, where nothing may be wrong; the stages are run, and no range could be larger.
    pub(super) fn clean(self) -> Solved {
        assert!(self.diagnostics.is_empty(), "{}", self.told());
        super::run::run(&self);
        super::largest::largest(&self);
        self
    }

    /// `0..3, 0..6`.
    pub(super) fn domain(&self, family: &str) -> String {
        let family = self.system.family(self.system.find(family).unwrap());
        family.domain.iter().map(|(lo, hi)| format!("{lo}..{hi}")).collect::<Vec<_>>().join(", ")
    }

    /// The ranges of the equation or loss with this left side: `i 0..3, k 0..5`.
    pub(super) fn ranges(&self, left: &str) -> String {
        let def = self.system.defs.iter().find(|def| self.left(def) == left).map(|def| &def.vars);
        let site = self.sites.iter().find(|site| site.what.replace('`', "") == left).map(|site| &site.vars);
        let range = |var: &VarId| match &self.vars[var.0 as usize] {
            VarDecl { name, range: Some((lo, hi)), .. } => format!("{name} {lo}..{hi}"),
            VarDecl { name, .. } => format!("{name} ?"),
        };
        def.or(site).unwrap().iter().map(range).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn left<'s>(&'s self, def: &Def) -> &'s str {
        self.text[def.span.range()].split('=').next().unwrap().trim()
    }

    /// The stages, as text: `m[-1]  forward 0 of 0..7 reach 1 { m[t] }`.
    pub(super) fn stages(&self) -> String {
        self.show(&self.system.stages)
    }

    fn show(&self, stages: &[Stage]) -> String {
        let show = |stage: &Stage| match stage {
            Stage::Map(def) => self.left(self.system.def(*def)).to_owned(),
            Stage::Scan { position, direction, lo, hi, reach, body } => {
                let direction = match direction {
                    Direction::Forward => "forward",
                    Direction::Backward => "backward",
                };
                format!("{direction} {position} of {lo}..{hi} reach {reach} {{ {} }}", self.show(body))
            }
        };
        stages.iter().map(show).collect::<Vec<_>>().join("; ")
    }

    /// The diagnostics, as text: code, the words under the caret with their place, the message, labels, helps.
    pub(super) fn told(&self) -> String {
        let mut told = String::new();
        for d in &self.diagnostics {
            let place = |span: Span| &self.text[span.range()];
            told += &format!("{} {}\n  {}: {}\n", d.code.id(), d.message, place(d.primary.span), d.primary.text);
            for label in &d.secondary {
                told += &format!("  {}: {}\n", place(label.span), label.text);
            }
            for help in &d.helps {
                told += &format!("  help: {help}\n");
            }
        }
        told
    }
}
