//! Kernels that are no tiles: sums over rows, and random numbers.

use super::super::partition::{Group, row_axes};
use super::super::shape::Root;
use super::super::spot::{At, Spot};
use super::super::{Fuser, Result};
use super::{Host, Want, sizes, view, without};
use crate::ir::{AxisId, Noise, Op, ValueId};
use crate::kernel::{Base, BufferKind, Contract, Kernel, Lanes, Notes, Random, View, Work};

impl Host<'_> {
    /// A sum over rows.
    pub(super) fn contract(
        &mut self,
        fuser: &mut Fuser<'_>,
        g: usize,
        group: &Group,
        before: &mut Vec<Kernel>,
    ) -> Result<Kernel> {
        let v = group.nodes[0];
        let node = self.graph.node(v);
        let (a, b, over) = match &node.op {
            Op::Dot { a, b, over } => (*a, Some(*b), over.clone()),
            Op::Reduce { of, over, .. } => (*of, None, over.clone()),
            _ => return Err("a sum over rows is a sum or a product".to_string()),
        };
        let sizes = sizes(fuser, &group.rows);
        let rows_of = |f: &Fuser<'_>, x: ValueId| row_axes(&group.rows, &f.dims, self.graph, self.id, x);
        let a_rows = rows_of(fuser, a);
        let k: Vec<AxisId> = over.iter().copied().filter(|x| !a_rows.contains(&Some(*x))).collect();
        let has = |x: Option<ValueId>, axis: &AxisId| x.is_some_and(|x| self.graph.axes(x).contains(axis));
        let kept = self.graph.axes(v).to_vec();
        let batch: Vec<AxisId> = kept.iter().copied().filter(|x| has(Some(a), x) && has(b, x)).collect();
        let n: Vec<AxisId> = kept.iter().copied().filter(|x| has(Some(a), x) && !has(b, x)).collect();
        let i: Vec<AxisId> = kept.iter().copied().filter(|x| !has(Some(a), x) && has(b, x)).collect();
        let operand = |host: &mut Self, fuser: &mut Fuser<'_>, x: ValueId, own: &[AxisId], before: &mut Vec<Kernel>| {
            let rows = row_axes(&group.rows, &fuser.dims, host.graph, host.id, x);
            let at = host.rowed(fuser, x, &group.rows, &rows, &sizes, before)?;
            let dims = [&batch[..], own, &k[..]].concat();
            Ok::<View, String>(view(&At { strides: without(&at.strides, &rows), splat: false, ..at }, &dims))
        };
        let a_view = operand(self, fuser, a, &n, before)?;
        let b_view = b.map(|b| operand(self, fuser, b, &i, before)).transpose()?;
        let root = Root(v, 0);
        let result = self.wanted(group, root).into_iter().find(|(want, _)| matches!(want, Want::Result(_)));
        let dst = match result {
            Some((want, at)) => {
                self.written.insert(want);
                at
            }
            None => {
                let kind = if group.prepared { BufferKind::Kept } else { BufferKind::Temp };
                let id = fuser.buffer(&self.name(root), fuser.program.len(&kept), kind, self.origin(v));
                At::dense(Base::Buffer(id), fuser.program, &kept, 1)
            }
        };
        self.places.insert(root, Spot::At(dst.clone()));
        let dims = |axes: &[AxisId]| axes.iter().map(|x| fuser.program.size(*x)).collect::<Vec<_>>();
        let out = [&batch[..], &n[..], &i[..]].concat();
        let contract = Contract {
            rows: sizes.iter().product(),
            batch: dims(&batch),
            n: dims(&n),
            i: dims(&i),
            k: dims(&k),
            a: a_view,
            b: b_view,
            dst: View { lanes: Lanes::Splat, ..view(&dst, &out) },
        };
        let notes = Notes { ops: vec![(node.op.name().to_string(), node.span)], reason: self.reason(g) };
        Ok(Kernel { name: self.kernel_name(group), work: Work::Contract(contract), notes })
    }

    pub(super) fn random(&mut self, fuser: &mut Fuser<'_>, g: usize, v: ValueId) -> Result<Kernel> {
        if self.id != super::super::dims::ROOT {
            return Err("a draw inside a loop".to_string());
        }
        let node = self.graph.node(v);
        let Op::Random { draw, noise } = node.op else { return Err("no draw".to_string()) };
        let name = fuser.program.draws[draw as usize].clone();
        let to = fuser.buffer(&name, fuser.program.len(&node.axes), BufferKind::Temp, Some(node.span));
        let at = At::dense(Base::Buffer(to), fuser.program, &node.axes, 1);
        self.places.insert(Root(v, 0), Spot::At(at));
        let last = match noise {
            Noise::Subset { .. } => node.axes.last().map_or(1, |a| fuser.program.size(*a).max(1)),
            Noise::Gaussian | Noise::Uniform => 1,
        };
        let notes = Notes { ops: vec![("random".to_string(), node.span)], reason: self.reason(g) };
        Ok(Kernel { name, work: Work::Random(Random { draw, noise, last, to }), notes })
    }
}
