//! Products of rows and weights, and the packing of the weights.

use super::shape::{Kind, Root, Use};
use super::spot::{self, At, Spot};
use super::tile::{Block, TileBuilder};
use super::{Fuser, Result};
use crate::ir::{AxisId, Op, ValueId};
use crate::kernel::{Base, BufferKind, Gemm, Kernel, Lanes, Notes, Pack, Stmt, View, Work, packed_len};

/// A weight and how a product uses it: where it is, the axes with a weight each, the outputs, the axes that are summed.
pub(crate) type PackKey = (At, Vec<AxisId>, Option<AxisId>, Vec<AxisId>);

impl TileBuilder<'_, '_> {
    /// Where a value is, if that is known without doing anything.
    fn glance(&self, b: &Block<'_>, v: ValueId) -> Option<Spot> {
        match &b.shape.kinds[v.0 as usize] {
            Kind::Free(a) => Some(Spot::Affine(a.clone())),
            Kind::View(_) if b.moved.contains_key(&v) => b.moved.get(&v).cloned(),
            Kind::View(of) => {
                let op = &b.graph.node(v).op;
                let places = match op {
                    Op::Gather { at, .. } => match &b.shape.kinds[at.0 as usize] {
                        Kind::Free(a) if self.by_row(b, *at, a) => return None,
                        Kind::Free(a) => Some(a),
                        _ => None,
                    },
                    _ => None,
                };
                spot::view(self.fuser.program, op, &self.glance(b, *of)?, places)
            }
            Kind::Source | Kind::Work => b.places.get(&b.shape.roots[v.0 as usize]?).cloned(),
        }
    }

    /// Of a product of rows and a weight: the rows, and the weight.
    pub(crate) fn gemm_operands(&self, b: &Block<'_>, v: ValueId) -> Option<(ValueId, ValueId)> {
        let Op::Dot { a, b: other, .. } = &b.graph.node(v).op else { return None };
        let weight = |x: ValueId| matches!(self.glance(b, x), Some(Spot::At(At { splat: true, base: Base::Buffer(_), .. })));
        match (weight(*a), weight(*other)) {
            (false, true) => Some((*a, *other)),
            (true, false) => Some((*other, *a)),
            _ => None,
        }
    }

    /// A product. Says which other node is done with it: the addition of a bias.
    pub(crate) fn dot(&mut self, b: &mut Block<'_>, v: ValueId) -> Result<Option<ValueId>> {
        let Some((x, w)) = self.gemm_operands(b, v) else { return self.elementwise(b, v).map(|()| None) };
        let Op::Dot { over, .. } = &b.graph.node(v).op else { return Ok(None) };
        let program = self.fuser.program;
        let weight = self.at(b, w)?;
        let mut src = match self.spot(b, x)? {
            Spot::At(at) => at,
            Spot::Affine(a) => self.fuser.numbers(&a),
        };
        self.close(b)?;

        let rows = self.features(b, x);
        let columns = b.graph.axes(w).to_vec();
        let mut batch: Vec<AxisId> = columns.iter().copied().filter(|a| rows.contains(a) && !over.contains(a)).collect();
        let mut outputs: Vec<AxisId> = columns.iter().copied().filter(|a| !rows.contains(a) && !over.contains(a)).collect();
        let m: Vec<AxisId> = rows.iter().copied().filter(|a| !columns.contains(a) && !over.contains(a)).collect();
        // One axis of outputs; the others have a weight each.
        let n = outputs.iter().copied().max_by_key(|a| (program.size(*a), std::cmp::Reverse(*a)));
        outputs.retain(|a| Some(*a) != n);
        batch.extend(outputs);

        let mut k = over.clone();
        k.sort_by_key(|a| std::cmp::Reverse((src.stride(*a), *a)));
        if src.splat || !nested(program, &src, &k) {
            let axes = [&rows.iter().copied().filter(|a| !over.contains(a)).collect::<Vec<_>>()[..], &k[..]].concat();
            let dense = self.fresh(&axes);
            self.copy(&Spot::At(src), &dense, &axes);
            src = dense;
        }

        let (bias, added) = self.bias(b, v, n, &batch);
        let result = added.unwrap_or(v);
        let dst = self.destination(b, result)?;
        let (n_len, k_len) = (n.map_or(1, |a| program.size(a)), program.len(&k));
        let packed = self.fuser.pack(&weight, &batch, n, &k);
        let with = |axes: &[AxisId], last: &[AxisId]| [&batch[..], axes, last].concat();
        let mut src_view = self.view(&src, &with(&m, &k[k.len().saturating_sub(1)..]));
        if k.is_empty() {
            src_view.strides.push(0);
        }
        let mut dst_view = self.view(&dst, &with(&m, n.as_slice()));
        if n.is_none() {
            dst_view.strides.push(0);
        }
        let bias = bias.map(|at| {
            let mut view = self.view(&at, &with(&[], n.as_slice()));
            if n.is_none() {
                view.strides.push(0);
            }
            view
        });
        let gemm = Gemm {
            batch: self.dims(&batch),
            m: self.dims(&m),
            n: n_len,
            k: k_len,
            src: src_view,
            weight: self.view(&packed, &batch),
            bias,
            dst: dst_view,
            accumulate: false,
        };
        self.push(Stmt::Gemm(gemm));
        if let Some(add) = added {
            let node = b.graph.node(add);
            self.ops.push((node.op.name().to_string(), node.span));
        }
        self.settle(b, result, dst)?;
        Ok(added)
    }

    /// The bias that is added to a product and to nothing else, and the node that adds it.
    fn bias(&self, b: &Block<'_>, v: ValueId, n: Option<AxisId>, batch: &[AxisId]) -> (Option<At>, Option<ValueId>) {
        let none = (None, None);
        let [Use::Node(add)] = b.shape.uses(Root(v, 0)) else { return none };
        let Op::Add(x, y) = b.graph.node(*add).op else { return none };
        if !b.nodes.contains(add) || b.homes.contains_key(&Root(v, 0)) || x == y {
            return none;
        }
        let bias = if x == v { y } else { x };
        let fits = (x == v || y == v) && b.graph.axes(bias).iter().all(|a| Some(*a) == n || batch.contains(a));
        match self.glance(b, bias) {
            Some(Spot::At(at)) if fits && at.splat => (Some(at), Some(*add)),
            _ => none,
        }
    }
}

/// Whether axes, outermost first, are one to a place.
fn nested(program: &crate::ir::Program, at: &At, axes: &[AxisId]) -> bool {
    axes.windows(2).all(|w| at.stride(w[0]) == at.stride(w[1]) * program.size(w[1]))
}

impl Fuser<'_> {
    /// A weight packed for products, along the axes with a weight each and the loops that move it.
    fn pack(&mut self, weight: &At, batch: &[AxisId], n: Option<AxisId>, k: &[AxisId]) -> At {
        let key: PackKey = (weight.clone(), batch.to_vec(), n, k.to_vec());
        if let Some(packed) = self.packs.get(&key) {
            return packed.clone();
        }
        let size = |a: &AxisId| self.program.size(*a);
        let counts: Vec<usize> = weight.loops.iter().map(|(l, _)| self.loops[l.0 as usize]).collect();
        let dims: Vec<usize> = counts.iter().copied().chain(batch.iter().map(size)).collect();
        let (n_len, k_dims) = (n.as_ref().map_or(1, size), k.iter().map(size).collect::<Vec<_>>());
        let one = packed_len(n_len, k_dims.iter().product());
        let Base::Buffer(of) = weight.base else { unreachable!("weights are arrays of the program") };
        let prepared = self.is_prepared(of);
        let name = format!("packed {}", self.buffers[of.0 as usize].name);
        let kind = if prepared { BufferKind::Kept } else { BufferKind::Temp };
        let origin = self.origins.get(&of).copied();
        let to = self.buffer(&name, one * dims.iter().product::<usize>(), kind, origin);

        let mut strides: Vec<usize> = weight.loops.iter().map(|(_, s)| *s).collect();
        strides.extend(batch.iter().chain(n.as_slice()).map(|a| weight.stride(*a)));
        if n.is_none() {
            strides.push(0);
        }
        strides.extend(k.iter().map(|a| weight.stride(*a)));
        let from = View { base: weight.base, offset: weight.offset, strides, loops: Vec::new(), lanes: Lanes::Splat };
        let work = Work::Pack(Pack { batch: dims.clone(), n: n_len, k: k_dims, from, to });
        let kernel = Kernel { name, work, notes: Notes { ops: Vec::new(), reason: "weights change with the parameters".into() } };
        if prepared { &mut self.prepared_packing } else { &mut self.packing }.push(kernel);

        let mut stride = one;
        let mut by_dim = vec![0; dims.len()];
        for (i, d) in dims.iter().enumerate().rev() {
            by_dim[i] = stride;
            stride *= d;
        }
        let loops = weight.loops.iter().zip(&by_dim).map(|((l, _), s)| (*l, *s)).collect();
        let strides = batch.iter().zip(&by_dim[counts.len()..]).map(|(a, s)| (*a, *s)).collect();
        let packed = At { base: Base::Buffer(to), offset: 0, strides, loops, splat: true };
        // A weight that kernels compute may be another the next time round.
        if prepared {
            self.packs.insert(key, packed.clone());
        }
        packed
    }
}
