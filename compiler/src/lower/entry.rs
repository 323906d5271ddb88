//! The programs of a model.

use super::family::Want;
use super::{Entry, Lower, LowerError, Result, Which};
use crate::ir::{AxisId, Op, ValueId};
use dsl::hir::{self, FamilyId};
use dsl::source::Span;

impl Lower<'_> {
    pub(super) fn run(&mut self, entry: Entry) -> Result<()> {
        match entry {
            Entry::TrainStep => self.train_step(),
            Entry::Evaluate => self.evaluate(),
            Entry::Act => self.act(true),
            Entry::Plan => self.act(false),
            Entry::Record => self.record(),
            Entry::Context => self.context(),
            Entry::Schedules => self.schedules(),
            Entry::Init => self.init(),
        }
    }

    pub(super) fn no_entry<T>(&self, why: &'static str) -> Result<T> {
        Err(LowerError::NoEntry { model: self.model.name.clone(), entry: self.entry.name(), why })
    }

    /// Gives out every equation of a system: its values over the subscripts of its own equations, base cases left out. Where
    /// these are no box, each equation is given out by itself: `y[:, 2]`.
    pub(super) fn observe(&mut self, which: Which) -> Result<()> {
        self.which = which;
        let system = self.system();
        for (i, family) in system.families.iter().enumerate() {
            let id = FamilyId(i as u32);
            let boxes: Vec<Vec<(i64, i64)>> =
                family.defs.iter().map(|d| system.def(*d)).filter(|d| !d.base).map(|d| self.range_of_def(d)).collect();
            let Some(first) = boxes.first() else { continue };
            let hull = boxes
                .iter()
                .fold(first.clone(), |hull, points| hull.iter().zip(points).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))).collect());
            if self.observe_box(id, "", &hull)? {
                continue;
            }
            let fixed = |d: &hir::Def| d.lhs.iter().any(|lhs| matches!(lhs, hir::Lhs::At(_)));
            for def in family.defs.iter().map(|d| system.def(*d)).filter(|d| !d.base && fixed(d)) {
                let label = |lhs: &hir::Lhs| if let hir::Lhs::At(at) = lhs { at.to_string() } else { ":".to_string() };
                let label = def.lhs.iter().map(label).collect::<Vec<_>>().join(", ");
                self.observe_box(id, &format!("[{label}]"), &self.range_of_def(def))?;
            }
        }
        Ok(())
    }

    /// The points that an equation gives, along each subscript.
    fn range_of_def(&self, def: &hir::Def) -> Vec<(i64, i64)> {
        let along = |lhs: &hir::Lhs| match lhs {
            hir::Lhs::At(at) => (*at, at + 1),
            hir::Lhs::Var { var, offset } => {
                let (lo, hi) = self.var_range(*var);
                (lo + offset, hi + offset)
            }
        };
        def.lhs.iter().map(along).collect()
    }

    /// Gives out a family's values over a box; false where some of them are not computed.
    fn observe_box(&mut self, id: FamilyId, label: &str, ranges: &[(i64, i64)]) -> Result<bool> {
        let family = self.system().family(id);
        for leaf in 0..family.leaves.len() {
            let mut axes: Vec<AxisId> = Vec::new();
            let wants: Vec<Want> = ranges
                .iter()
                .map(|(lo, hi)| {
                    let axis = self.program.new_axis("at", (hi - lo) as usize);
                    axes.push(axis);
                    Want::Along { axis, lo: *lo, size: hi - lo }
                })
                .collect();
            let span = Span::default();
            let Ok(value) = self.read_box(id, leaf, &wants, span) else { return Ok(false) };
            let own = self.axes(&family.leaves[leaf].axes.clone())?;
            let batch: Vec<AxisId> = self.batch.into_iter().filter(|b| self.graph().axes(value).contains(b)).collect();
            let order: Vec<AxisId> = batch.into_iter().chain(axes).chain(own).collect();
            let value = self.ensure(value, &order, span);
            let value = self.ordered(value, &order, span);
            let path = &family.leaves[leaf].path;
            let dot = if path.is_empty() { "" } else { "." };
            self.output(format!("value.{}{label}{dot}{path}", family.name), value, None);
        }
        Ok(true)
    }

    /// The same value with its axes in a given order.
    pub(super) fn ordered(&mut self, v: ValueId, order: &[AxisId], span: Span) -> ValueId {
        if self.graph().axes(v) == order {
            return v;
        }
        self.graph().push(Op::Id(v), order.to_vec(), span)
    }

    pub(super) fn evaluate(&mut self) -> Result<()> {
        if self.model.metrics.is_empty() && self.model.diagnose.is_empty() {
            return self.no_entry("it has no metrics and no `diagnose`");
        }
        self.metrics()?;
        if self.options.observe {
            self.observe(Which::Evaluate)?;
        }
        Ok(())
    }

    pub(super) fn metrics(&mut self) -> Result<()> {
        let outer = std::mem::replace(&mut self.which, Which::Evaluate);
        self.lower_system()?;
        for metric in &self.model.metrics {
            let mean = self.mean(metric.value, metric.condition, &metric.vars, &metric.kept, metric.span)?;
            self.output(format!("metric.{}", metric.name), mean, None);
        }
        for d in &self.model.diagnose {
            for var in &d.vars {
                self.bind_var(*var);
            }
            let v = self.expr(d.value)?;
            let mut order: Vec<AxisId> = self.batch.into_iter().filter(|b| self.graph().axes(v).contains(b)).collect();
            order.extend(d.vars.iter().map(|var| self.bind_var(*var).0).collect::<Vec<_>>());
            order.extend(self.axes(&self.model.node(d.value).axes.clone())?);
            let span = self.model.node(d.value).span;
            let v = self.ensure(v, &order, span);
            let v = self.ordered(v, &order, span);
            self.output(format!("diagnose.{}", d.name), v, None);
        }
        self.which = outer;
        Ok(())
    }

    fn record(&mut self) -> Result<()> {
        if self.model.records.is_empty() {
            return self.no_entry("it records nothing");
        }
        self.lower_system()?;
        for id in &self.model.records {
            let family = self.model.train.family(*id);
            let (lo, hi) = family.domain.first().copied().unwrap_or((0, 0));
            for leaf in 0..family.leaves.len() {
                let axis = self.program.new_axis("T", (hi - lo) as usize);
                let value = self.read_box(*id, leaf, &[Want::Along { axis, lo, size: hi - lo }], Span::default())?;
                let mut order = vec![axis];
                order.extend(self.axes(&family.leaves[leaf].axes.clone())?);
                let value = self.ensure(value, &order, Span::default());
                let value = self.ordered(value, &order, Span::default());
                self.output(format!("record.{}", self.leaf_name(*id, leaf)), value, None);
            }
        }
        Ok(())
    }

    pub(super) fn schedules(&mut self) -> Result<()> {
        for s in &self.model.schedules {
            let value = self.expr(s.value)?;
            self.output(format!("schedule.{}", s.name), value, None);
        }
        Ok(())
    }

    fn init(&mut self) -> Result<()> {
        self.batch = None;
        for p in &self.model.params {
            let value = self.expr(p.init)?;
            let axes = self.axes(&p.axes)?;
            let value = self.ensure(value, &axes, p.span);
            let value = self.ordered(value, &axes, p.span);
            self.output(format!("param.{}", p.path), value, None);
        }
        for c in &self.model.carries {
            let value = self.expr(c.init)?;
            let axes = self.axes(&c.axes)?;
            let span = self.model.node(c.init).span;
            let value = self.ensure(value, &axes, span);
            let value = self.ordered(value, &axes, span);
            self.output(format!("carry.{}", c.path), value, None);
        }
        for r in &self.model.running {
            let value = self.expr(r.init)?;
            let axes = self.axes(&r.axes)?;
            let value = self.ensure(value, &axes, r.span);
            let value = self.ordered(value, &axes, r.span);
            self.output(format!("running.{}", r.name), value, None);
        }
        Ok(())
    }
}
