//! Reads of equations.

use super::equation::count_given;
use super::equation::subscripts;
use super::system::FamilyKind;
use super::system::FamilyRef;
use super::system::short;
use super::value::Value;
use super::{ACT, Ctx};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{ExprId, FamilyId, Index, Op};
use crate::source::Span;

impl<'a> Ctx<'a> {
    /// A family whose subscripts are all given by its scope.
    pub(super) fn read_plain(&mut self, f: &FamilyRef, span: Span) -> Value<'a> {
        self.read(f, Vec::new(), span)
    }

    pub(super) fn read(&mut self, f: &FamilyRef, given: Vec<Index>, span: Span) -> Value<'a> {
        if given.len() != f.missing() {
            let name = self.family_name(f);
            let want = f.missing();
            let mut d = Diagnostic::new(
                Code::WrongIndexCount,
                span,
                format!("`{name}` has {}, and {} here", subscripts(want), count_given(given.len())),
            );
            if given.is_empty() {
                let known: Vec<&str> = self.place.site.vars.iter().map(|(n, _)| n.as_str()).collect();
                let shown = match known.get(known.len().wrapping_sub(want)..) {
                    Some(last) if want > 0 => last.join(", "),
                    _ => (*["t", "t, k", "i, n, k"].get(want.saturating_sub(1)).unwrap_or(&"..")).to_string(),
                };
                d = d.help(format!("say at which step: `{name}[{shown}]`"));
            } else if want == 0 {
                d = d.help(format!("for one entry of an axis, write `take({name}, place, over = AXIS)`"));
            }
            self.report(d);
            return Value::Error;
        }
        let index: Vec<Index> = f.prefix.iter().cloned().chain(given).collect();
        match f.kind {
            FamilyKind::Input(input) => {
                let (axes, dtype) = (self.draft.inputs[input].axes.clone(), self.draft.inputs[input].dtype);
                let index = index.into_iter().next().unwrap_or_default();
                let e = self.draft.table.push(Op::Input { input, index }, axes, dtype, span);
                self.place.site.touched.push(e);
                Value::tensor(e)
            }
            FamilyKind::Family { system, id } => {
                if self.systems[system].families[id].ty.is_none() {
                    self.find_type(system, id);
                }
                self.systems[system].families[id].used = true;
                let Some(ty) = self.systems[system].families[id].ty.clone() else {
                    return self.untyped(system, id, &index, span);
                };
                let outer = self.place.site.system == ACT && system != ACT;
                let family = FamilyId(id as u32);
                let leaves = self.systems[system].families[id].leaves.clone();
                let mut nodes = Vec::with_capacity(leaves.len());
                for (leaf, l) in leaves.iter().enumerate() {
                    let op = if outer {
                        Op::Outer { family, leaf, index: index.clone() }
                    } else {
                        Op::Read { family, leaf, index: index.clone() }
                    };
                    nodes.push(self.draft.table.push(op, l.axes.clone(), l.dtype, span));
                }
                self.place.site.touched.extend(nodes.first());
                self.reset_reads(family, &mut nodes, &index, span);
                self.rebuild(&ty, &mut nodes.into_iter())
            }
        }
    }

    /// Inside an equation with `reset c`, the past is replaced by its base where c holds.
    fn reset_reads(&mut self, family: FamilyId, nodes: &mut [ExprId], index: &[Index], span: Span) {
        let Some(reset) = &self.place.site.reset else { return };
        let condition = reset.condition;
        let Some(base) = reset.bases.iter().find(|b| b.family == family).cloned() else { return };
        if base.index.as_deref() == Some(index) {
            return;
        }
        for (leaf, node) in nodes.iter_mut().enumerate() {
            let start = match (&base.index, base.memory) {
                (Some(index), _) => {
                    let (axes, dtype) = (self.draft.table.axes_of(*node).to_vec(), self.draft.table.dtype(*node));
                    self.draft.table.push(Op::Read { family, leaf, index: index.clone() }, axes, dtype, span)
                }
                (None, Some(module)) if leaf > 0 => {
                    let carry = self.draft.modules[module].carries[leaf - 1];
                    self.draft.carries[carry].init
                }
                _ => continue,
            };
            *node = self.draft.table.select(condition, start, *node, span).unwrap_or(*node);
        }
    }

    fn untyped(&mut self, system: usize, id: usize, index: &[Index], span: Span) -> Value<'a> {
        let family = &self.systems[system].families[id];
        // After an error in its equations there is nothing more to say.
        if !family.busy || family.failed {
            return Value::Error;
        }
        let name = short(&family.name).to_string();
        // Before the first step for one that reads the past, at the last for one that reads the future.
        let last = self.draft.dims.time.as_ref().filter(|_| system != ACT).map_or("..".to_string(), |time| format!("{time}-1"));
        let start: Vec<String> = index[family.hidden().min(index.len())..]
            .iter()
            .map(|i| match (i.offset.signum(), i.terms.as_slice()) {
                (1, _) => last.clone(),
                (0, [(var, 1)]) => self.draft.vars[var.0 as usize].name.clone(),
                _ => "-1".to_string(),
            })
            .collect();
        let start = start.join(", ");
        self.report(
            Diagnostic::new(
                Code::SelfReference,
                span,
                format!("`{name}` is defined by itself, and nothing says where it starts"),
            )
            .help(format!("give it a start: `with {name}[{start}] = ..`, or an equation at a fixed index")),
        );
        Value::Error
    }

    pub(super) fn family_name(&self, f: &FamilyRef) -> String {
        match f.kind {
            FamilyKind::Input(i) => self.draft.inputs[i].name.clone(),
            FamilyKind::Family { system, id } => short(&self.systems[system].families[id].name).to_string(),
        }
    }
}
