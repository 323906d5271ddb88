//! Where the entries of a value are, by axis: what `rename`, `slice`, `split` and their like change instead of numbers.

use crate::ir::{AxisId, Op, Program, Reduction, ValueId};
use crate::kernel::{Base, LoopId};

/// Where a value is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Spot {
    /// Nowhere: it is `start + sum of factor * index`, known when it is compiled. Constants and `iota`.
    Affine(Affine),
    At(At),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Affine {
    pub start: f64,
    pub axes: Vec<(AxisId, f64)>,
    pub loops: Vec<(LoopId, f64)>,
    /// At most what all loops together add.
    pub looped: f64,
}

/// A place in memory. Axes that are not named do not move it. At host level the strides are of all axes, rows as well;
/// inside a tile of the axes that are not rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct At {
    pub base: Base,
    pub offset: usize,
    pub strides: Vec<(AxisId, usize)>,
    pub loops: Vec<(LoopId, usize)>,
    /// Inside a tile: one number for all rows.
    pub splat: bool,
}

impl At {
    pub(crate) fn stride(&self, axis: AxisId) -> usize {
        self.strides.iter().find(|(a, _)| *a == axis).map_or(0, |(_, s)| *s)
    }

    /// Row-major along `axes`.
    pub(crate) fn dense(base: Base, program: &Program, axes: &[AxisId], unit: usize) -> At {
        let mut stride = unit;
        let mut strides: Vec<(AxisId, usize)> = Vec::with_capacity(axes.len());
        for a in axes.iter().rev() {
            strides.push((*a, stride));
            stride *= program.size(*a);
        }
        strides.reverse();
        At { base, offset: 0, strides, loops: Vec::new(), splat: false }
    }

    /// One step of a loop along an axis.
    pub(crate) fn step(&self, axis: AxisId, id: LoopId) -> At {
        let mut at = self.clone();
        if let Some(i) = at.strides.iter().position(|(a, _)| *a == axis) {
            let (_, stride) = at.strides.remove(i);
            at.loops.push((id, stride));
        }
        at
    }

    fn renamed(&self, from: AxisId, to: AxisId) -> At {
        let mut at = self.clone();
        at.strides.iter_mut().filter(|(a, _)| *a == from).for_each(|(a, _)| *a = to);
        at
    }
}

impl Affine {
    pub(crate) fn constant(value: f64) -> Affine {
        Affine { start: value, ..Affine::default() }
    }

    pub(crate) fn as_const(&self) -> Option<f64> {
        (self.axes.is_empty() && self.loops.is_empty()).then_some(self.start)
    }

    /// Whether it can be places that a view goes through: whole numbers that do not fall.
    pub(crate) fn is_stride(&self) -> bool {
        let factors = self.axes.iter().map(|(_, f)| *f).chain(self.loops.iter().map(|(_, f)| *f));
        factors.chain([self.start]).all(|f| f >= 0.0 && f.fract() == 0.0)
    }

    /// Whether all its values are below `size`.
    pub(crate) fn is_below(&self, program: &Program, size: usize) -> bool {
        let last = |(a, f): &(AxisId, f64)| f * program.size(*a).saturating_sub(1) as f64;
        self.start + self.looped + self.axes.iter().map(last).sum::<f64>() < size as f64
    }

    fn factor(&self, axis: AxisId) -> f64 {
        self.axes.iter().find(|(a, _)| *a == axis).map_or(0.0, |(_, f)| *f)
    }

    fn without(&self, axis: AxisId) -> Affine {
        Affine { axes: self.axes.iter().filter(|(a, _)| *a != axis).copied().collect(), ..self.clone() }
    }

    fn with(mut self, axis: AxisId, factor: f64) -> Affine {
        if factor != 0.0 {
            match self.axes.iter_mut().find(|(a, _)| *a == axis) {
                Some((_, f)) => *f += factor,
                None => self.axes.push((axis, factor)),
            }
        }
        self
    }

    fn plus(&self, other: &Affine) -> Affine {
        let mut sum = self.clone();
        sum.start += other.start;
        sum.looped += other.looped;
        for (a, f) in &other.axes {
            sum = sum.with(*a, *f);
        }
        for (l, f) in &other.loops {
            match sum.loops.iter_mut().find(|(x, _)| x == l) {
                Some((_, g)) => *g += f,
                None => sum.loops.push((*l, *f)),
            }
        }
        sum
    }

    fn times(&self, factor: f64) -> Affine {
        Affine {
            start: self.start * factor,
            axes: self.axes.iter().map(|(a, f)| (*a, f * factor)).collect(),
            loops: self.loops.iter().map(|(l, f)| (*l, f * factor)).collect(),
            // Of falling values the largest is not followed.
            looped: if factor >= 0.0 || self.loops.is_empty() { self.looped * factor } else { f64::INFINITY },
        }
    }
}

impl Spot {
    pub(crate) fn constant(value: f64) -> Spot {
        Spot::Affine(Affine::constant(value))
    }

    /// One step of a loop along an axis.
    pub(crate) fn step(&self, program: &Program, axis: AxisId, id: LoopId) -> Spot {
        match self {
            Spot::At(at) => Spot::At(at.step(axis, id)),
            Spot::Affine(a) => {
                let factor = a.factor(axis);
                let mut step = a.without(axis);
                if factor != 0.0 {
                    step.loops.push((id, factor));
                    step.looped += (factor * program.size(axis).saturating_sub(1) as f64).max(0.0);
                }
                Spot::Affine(step)
            }
        }
    }
}

/// What an operation on numbers known when compiled gives, if that is affine as well.
pub(crate) fn affine(op: &Op, mut of: impl FnMut(ValueId) -> Option<Affine>) -> Option<Affine> {
    match op {
        Op::Const(c) => Some(Affine::constant(*c)),
        Op::Iota(axis) => Some(Affine::default().with(*axis, 1.0)),
        Op::Add(a, b) => Some(of(*a)?.plus(&of(*b)?)),
        Op::Mul(a, b) => {
            let (a, b) = (of(*a)?, of(*b)?);
            match (a.as_const(), b.as_const()) {
                (Some(c), _) => Some(b.times(c)),
                (_, Some(c)) => Some(a.times(c)),
                (None, None) => None,
            }
        }
        _ => None,
    }
}

/// Whether an operation only arranges entries, so that it may be a view. `at_is_affine` tells of a gather's places.
pub(crate) fn arranges(program: &Program, op: &Op, at_is_affine: impl Fn(ValueId, AxisId) -> bool) -> bool {
    match op {
        Op::Expand(_) | Op::Stop(_) | Op::Id(_) | Op::Rename { .. } | Op::Slice { .. } | Op::Split { .. } | Op::Join { .. } => {
            true
        }
        Op::Reduce { over, op: Reduction::Sum | Reduction::Max, .. } => over.iter().all(|a| program.size(*a) == 1),
        Op::Gather { at, axis, .. } => at_is_affine(*at, *axis),
        _ => false,
    }
}

/// Where the value of an arranging operation is, if no number has to move. `places` are a gather's.
pub(crate) fn view(program: &Program, op: &Op, of: &Spot, places: Option<&Affine>) -> Option<Spot> {
    match of {
        Spot::At(at) => view_at(program, op, at, places).map(Spot::At),
        Spot::Affine(a) => view_affine(program, op, a, places).map(Spot::Affine),
    }
}

fn view_at(program: &Program, op: &Op, of: &At, places: Option<&Affine>) -> Option<At> {
    Some(match op {
        Op::Expand(_) | Op::Stop(_) | Op::Id(_) => of.clone(),
        Op::Rename { from, to, .. } => of.renamed(*from, *to),
        Op::Slice { axis, start, into, .. } => {
            let mut at = of.renamed(*axis, *into);
            at.offset += start * of.stride(*axis);
            at
        }
        Op::Split { axis, into, .. } => {
            let mut at = of.clone();
            let mut stride = of.stride(*axis);
            at.strides.retain(|(a, _)| a != axis);
            for a in into.iter().rev() {
                if stride > 0 {
                    at.strides.push((*a, stride));
                }
                stride *= program.size(*a);
            }
            at
        }
        Op::Join { axes, into, .. } => {
            let moving: Vec<AxisId> = axes.iter().copied().filter(|a| program.size(*a) > 1).collect();
            let inner = moving.last().map_or(0, |a| of.stride(*a));
            let mut wanted = inner;
            for a in moving.iter().rev() {
                if of.stride(*a) != wanted {
                    return None;
                }
                wanted *= program.size(*a);
            }
            let mut at = of.clone();
            at.strides.retain(|(a, _)| !axes.contains(a));
            if inner > 0 {
                at.strides.push((*into, inner));
            }
            at
        }
        Op::Reduce { over, .. } => {
            let mut at = of.clone();
            at.strides.retain(|(a, _)| !over.contains(a));
            at
        }
        Op::Gather { axis, .. } => {
            let places = places?;
            let stride = of.stride(*axis);
            let whole = |f: f64| (f >= 0.0 && f.fract() == 0.0).then_some(f as usize);
            let mut at = of.clone();
            at.strides.retain(|(a, _)| a != axis);
            at.offset += whole(places.start)? * stride;
            for (a, f) in &places.axes {
                let more = whole(*f)? * stride;
                match at.strides.iter_mut().find(|(x, _)| x == a) {
                    Some((_, s)) => *s += more,
                    None => at.strides.push((*a, more)),
                }
            }
            for (l, f) in &places.loops {
                let more = whole(*f)? * stride;
                match at.loops.iter_mut().find(|(x, _)| x == l) {
                    Some((_, s)) => *s += more,
                    None => at.loops.push((*l, more)),
                }
            }
            at
        }
        _ => return None,
    })
}

fn view_affine(program: &Program, op: &Op, of: &Affine, places: Option<&Affine>) -> Option<Affine> {
    Some(match op {
        Op::Expand(_) | Op::Stop(_) | Op::Id(_) => of.clone(),
        Op::Rename { from, to, .. } => of.without(*from).with(*to, of.factor(*from)),
        Op::Slice { axis, start, into, .. } => {
            let factor = of.factor(*axis);
            let mut sliced = of.without(*axis).with(*into, factor);
            sliced.start += factor * *start as f64;
            sliced
        }
        Op::Split { axis, into, .. } => {
            let mut factor = of.factor(*axis);
            let mut split = of.without(*axis);
            for a in into.iter().rev() {
                split = split.with(*a, factor);
                factor *= program.size(*a) as f64;
            }
            split
        }
        Op::Join { axes, into, .. } => {
            let moving: Vec<AxisId> = axes.iter().copied().filter(|a| program.size(*a) > 1).collect();
            let inner = moving.last().map_or(0.0, |a| of.factor(*a));
            let mut wanted = inner;
            for a in moving.iter().rev() {
                if of.factor(*a) != wanted {
                    return None;
                }
                wanted *= program.size(*a) as f64;
            }
            axes.iter().fold(of.clone(), |x, a| x.without(*a)).with(*into, inner)
        }
        Op::Reduce { over, .. } => over.iter().fold(of.clone(), |x, a| x.without(*a)),
        Op::Gather { axis, .. } => {
            let factor = of.factor(*axis);
            of.without(*axis).plus(&places?.times(factor))
        }
        _ => return None,
    })
}
