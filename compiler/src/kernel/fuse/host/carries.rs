//! Loops of steps: loops whose bodies cross rows, and the buffers of what they carry.

use super::super::dims::GraphId;
use super::super::partition::{How, row_axes};
use super::super::shape::Root;
use super::super::spot::{At, Spot};
use super::super::tile::named_back;
use super::super::{Fuser, Result, Rows};
use super::{Host, Want, padded, side_by_side, steps};
use crate::ir::{AxisId, Direction, Op, Scan, ValueId};
use crate::kernel::{Base, BufferKind, Kernel, Step};

impl Host<'_> {
    /// Buffers for the carries of loops of steps. What they begin with is wanted there.
    pub(super) fn begin_loops(&mut self, fuser: &mut Fuser<'_>) {
        let loops: Vec<ValueId> = self.parts.groups.iter().filter(|g| g.how == How::Loop).map(|g| g.nodes[0]).collect();
        for v in loops {
            let Op::Scan(scan) = &self.graph.node(v).op else { continue };
            let inner = fuser.dims.body(self.id, v);
            for (i, x) in scan.init.iter().enumerate() {
                let result = scan.body.results[i];
                if is_unread(fuser, scan, i) {
                    // Only what the last step writes counts, so all steps write where that is wanted.
                    let home = self.homes.get(&Root(v, i as u32)).and_then(|homes| homes.first()).cloned();
                    let at = match home {
                        Some((want, at)) => {
                            self.written.insert(want);
                            at
                        }
                        None => self.carried(fuser, scan, inner, result, None),
                    };
                    self.carries.insert((v, i), (at.clone(), at));
                    continue;
                }
                let now = self.carried(fuser, scan, inner, result, None);
                let next = self.carried(fuser, scan, inner, result, None);
                // What has more rows than the value itself is copied.
                let same = now.strides.len() == self.graph.axes(*x).len();
                if let Some((root, at)) = named_back(self.graph, &self.shape, *x, &now).filter(|_| same) {
                    self.homes.entry(root).or_default().push((Want::Begin(v, i), at));
                }
                self.carries.insert((v, i), (now, next));
            }
        }
    }

    /// Whether a node is a loop of steps that reads a value to begin with it, and for nothing else.
    pub(super) fn only_begins(&self, v: ValueId, root: Root, wants: &[Want]) -> bool {
        let begins = wants.iter().filter(|want| matches!(want, Want::Begin(of, _) if *of == v)).count();
        let mut reads = 0;
        self.graph.node(v).op.operands(|x| reads += usize::from(self.shape.roots[x.0 as usize] == Some(root)));
        begins > 0 && begins == reads
    }

    /// A loop of steps.
    pub(super) fn scan(
        &mut self,
        fuser: &mut Fuser<'_>,
        v: ValueId,
        out: &mut Vec<Step>,
        before: &mut Vec<Kernel>,
    ) -> Result<()> {
        let Op::Scan(scan) = &self.graph.node(v).op else { return Err("no loop".to_string()) };
        let scan: &Scan = scan;
        let count = fuser.program.size(scan.axis);
        let id = fuser.new_loop(count);
        let inner = fuser.dims.body(self.id, v);
        let carries = scan.init.len();
        let mut params = Vec::new();
        let mut wanted = Vec::new();
        let mut swaps = Vec::new();
        for (i, x) in scan.init.iter().enumerate() {
            let (now, next) = self.carries.remove(&(v, i)).ok_or("a loop without its carries")?;
            if !self.written.contains(&Want::Begin(v, i)) && !is_unread(fuser, scan, i) {
                let from = self.spot(fuser, *x, before)?;
                before.push(self.copy(fuser, *x, &from, &now, "what a loop starts with"));
            }
            if let (Base::Buffer(a), Base::Buffer(b)) = (now.base, next.base)
                && a != b
            {
                swaps.push(Step::Swap(a, b));
            }
            self.places.insert(Root(v, i as u32), Spot::At(now.clone()));
            params.push(Spot::At(now));
            wanted.push(next);
        }
        for x in &scan.xs {
            params.push(self.spot(fuser, *x, before)?.step(fuser.program, scan.axis, id));
        }
        for x in &scan.consts {
            params.push(self.spot(fuser, *x, before)?);
        }
        for (i, result) in scan.body.results.iter().enumerate().skip(carries) {
            let all = self.carried(fuser, scan, inner, *result, Some(count));
            self.places.insert(Root(v, i as u32), Spot::At(all.clone()));
            wanted.push(all.step(scan.axis, id));
        }
        // Nothing is prepared inside a loop.
        let (_, mut body) = steps(fuser, &scan.body, inner, &params, &wanted)?;
        body.extend(swaps);
        out.push(Step::Loop { id, count, reverse: scan.direction == Direction::Backward, body });
        Ok(())
    }

    /// A buffer for a value of a loop's body, or for all its steps, with its rows side by side.
    pub(super) fn carried(
        &self,
        fuser: &mut Fuser<'_>,
        scan: &Scan,
        inner: GraphId,
        result: ValueId,
        steps: Option<usize>,
    ) -> At {
        let rows = Rows::Classes(fuser.dims.parallel().to_vec());
        let axes = row_axes(&rows, &fuser.dims, &scan.body, inner, result);
        let here: Vec<Option<AxisId>> = axes.into_iter().filter(Option::is_some).collect();
        let sizes: Vec<usize> = here.iter().flatten().map(|a| fuser.program.size(*a)).collect();
        let all = scan.body.axes(result).iter();
        let features: Vec<AxisId> = all.copied().filter(|a| !here.contains(&Some(*a))).collect();
        let features = match steps {
            Some(_) => [&[scan.axis], &features[..]].concat(),
            None => features,
        };
        let len = if here.is_empty() { 1 } else { padded(fuser, &sizes) };
        let origin = Some(scan.body.node(result).span);
        let id = fuser.buffer("carry", fuser.program.len(&features) * len, BufferKind::Temp, origin);
        match here.is_empty() {
            true => At::dense(Base::Buffer(id), fuser.program, &features, 1),
            false => side_by_side(fuser, Base::Buffer(id), &features, &here, &sizes),
        }
    }
}

/// Whether no step of a loop reads what the one before made of a carry.
fn is_unread(fuser: &Fuser<'_>, scan: &Scan, carry: usize) -> bool {
    fuser.program.size(scan.axis) > 0
        && !scan.body.nodes.iter().any(|node| matches!(node.op, Op::Param(p) if p as usize == carry))
}
