//! Bounds on sizes, so that later products of sizes cannot overflow.

use super::{Ctx, thousands};
use crate::diagnostics::{Code, Diagnostic};
use crate::source::Span;

/// The largest size of an axis.
const MAX_SIZE: i64 = i32::MAX as i64;

/// Entries of an array at most.
const MAX_ENTRIES: i64 = 1 << 46;

impl Ctx<'_> {
    /// Reports axes and parameters that are too large to compute with.
    pub(super) fn judge_sizes(&mut self) {
        let dims = self.draft.dims.list.iter().map(|dim| (dim.axis, dim.span));
        let params = self
            .draft
            .params
            .iter()
            .flat_map(|param| param.axes.iter().map(|axis| (*axis, self.draft.modules[param.module].span)));
        let model = self.flat.name.span;
        // Axes without a text of their own come last and are reported at the model's name.
        let others = (0..self.draft.table.axes.len() as u32).map(|id| (crate::hir::AxisId(id), model));
        let all: Vec<_> = dims.chain(params).chain(others).collect();
        if let Some((axis, span)) = all.iter().find(|(axis, _)| self.draft.table.size(*axis).value().is_some_and(|n| n < 0)) {
            let message = format!("`{}` would have the size {}", self.draft.table.name(*axis), self.draft.table.size(*axis));
            let help = "a size is zero or more";
            self.report(Diagnostic::new(Code::BadSetting, *span, message).help(help));
            return;
        }
        let too_large = all.into_iter().find(|(axis, _)| self.draft.table.size(*axis).value().is_some_and(|n| n > MAX_SIZE));
        if let Some((axis, span)) = too_large {
            let (name, size) = (self.draft.table.name(axis), self.draft.table.size(axis).to_string());
            let message = format!("`{name}` would have the size {}", thousands(&size));
            let most = thousands(&MAX_SIZE.to_string());
            self.report(Diagnostic::new(Code::SizeOverflow, span, message).help(format!("a size is at most {most}")));
            return;
        }
        let entries = |axes: &[crate::hir::AxisId]| self.draft.table.total(axes).value();
        let large = self.draft.params.iter().find(|param| entries(&param.axes).is_some_and(|n| n > MAX_ENTRIES));
        let found: Option<(Span, String)> = large.map(|param| {
            let count = entries(&param.axes).map(|n| thousands(&n.to_string())).unwrap_or_default();
            (
                self.draft.modules[param.module].span,
                format!("the parameter `{}` has {count} entries: no machine has that much memory", param.path),
            )
        });
        if let Some((span, message)) = found {
            self.report(Diagnostic::new(Code::TooMuchMemory, span, message).help("make one of its axes smaller"));
        }
    }
}
