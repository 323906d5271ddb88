//! Loops over time inside a tile: where their values are, and what their carries become.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::Result;
use super::shape::{Root, Shape};
use super::spot::{At, Spot};
use super::tile::{Block, Carry, TileBuilder, named_back};
use crate::ir::{Direction, Graph, Op, Scan, ValueId};
use crate::kernel::{Base, LoopId, Stmt};

impl TileBuilder<'_, '_> {
    /// A loop over time inside the tile.
    pub(super) fn scan(&mut self, b: &mut Block<'_>, v: ValueId, scan: &Scan) -> Result<()> {
        self.close(b)?;
        let steps = self.fuser.program.size(scan.axis);
        let id = self.fuser.new_loop(steps);
        let inner = self.fuser.dims.body(b.id, v);
        let carries = scan.init.len();
        let operands: Vec<Spot> =
            scan.init.iter().chain(&scan.xs).chain(&scan.consts).map(|x| self.spot(b, *x)).collect::<Result<_>>()?;
        let known = |p: u32| {
            let p = p as usize;
            match &operands[p] {
                Spot::Affine(a) if p >= carries => {
                    let spot = Spot::Affine(a.clone());
                    let spot = if p < carries + scan.xs.len() { spot.step(self.fuser.program, scan.axis, id) } else { spot };
                    if let Spot::Affine(a) = spot { Some(a) } else { None }
                }
                _ => None,
            }
        };
        let shape = Shape::new(self.fuser.program, &scan.body, &known);
        let nodes = shape.work().collect();
        let mut inside = Block::new(&scan.body, inner, Rc::new(shape), nodes);
        self.loop_params(&mut inside, scan, &operands, id);

        // Outputs: where they are wanted, or here.
        let mut finals: Vec<At> = inside.carries.iter().map(|c| c.place.clone()).collect();
        let mut copied = Vec::new();
        for (i, result) in scan.body.results.iter().enumerate().skip(carries) {
            let features = self.features(&inside, *result);
            let root = Root(v, i as u32);
            let place = match b.homes.get(&root).and_then(|h| h.first()) {
                Some(home) => home.clone(),
                None => self.fresh(&[&[scan.axis], &features[..]].concat()),
            };
            finals.push(place.clone());
            let step = place.step(scan.axis, id);
            match named_back(&scan.body, &inside.shape, *result, &step) {
                Some((of, at)) if inside.nodes.contains(&of.0) && !is_carry(&scan.body, of) => {
                    inside.homes.entry(of).or_default().push(at);
                }
                _ => copied.push((*result, step)),
            }
        }

        self.code.push(Vec::new());
        // What a carry was has to be kept before it is written in place.
        let (early, late): (Vec<_>, Vec<_>) = copied
            .into_iter()
            .partition(|(result, _)| inside.shape.roots[result.0 as usize].is_none_or(|r| !inside.nodes.contains(&r.0)));
        for (result, at) in early {
            let from = self.spot(&mut inside, result)?;
            let axes = self.features(&inside, result);
            self.copy(&from, &at, &axes);
        }
        self.block(&mut inside)?;
        for (result, at) in late {
            let from = self.spot(&mut inside, result)?;
            let axes = self.features(&inside, result);
            self.copy(&from, &at, &axes);
        }
        self.next_carries(&mut inside, scan)?;
        let body = self.code.pop().expect("the loop's body");
        self.push(Stmt::Loop { id, count: steps, reverse: scan.direction == Direction::Backward, body });
        for (i, at) in finals.into_iter().enumerate() {
            let root = Root(v, i as u32);
            let result = scan.body.results[i];
            let axes = {
                let features = self.features(&inside, result);
                if i < carries { features } else { [&[scan.axis], &features[..]].concat() }
            };
            // A final carry keeps the names of its parameter, which are those of its value.
            for home in b.homes.get(&root).cloned().unwrap_or_default() {
                if home != at && !b.shape.uses(root).is_empty() {
                    self.copy(&Spot::At(at.clone()), &home, &axes);
                }
            }
            b.places.insert(root, Spot::At(at));
        }
        Ok(())
    }

    /// Places of a body's parameters; carries start as they are given.
    fn loop_params(&mut self, inside: &mut Block<'_>, scan: &Scan, operands: &[Spot], id: LoopId) {
        let carries = scan.init.len();
        let body = inside.graph;
        let mut params: BTreeMap<usize, Vec<ValueId>> = BTreeMap::new();
        for p in body.ids() {
            if let Op::Param(number) = body.node(p).op {
                params.entry(number as usize).or_default().push(p);
            }
        }
        for (i, operand) in operands.iter().enumerate().take(carries) {
            let result = body.results[i];
            let features = self.features(inside, result);
            let place = self.fresh(&features);
            self.copy(operand, &place, &features);
            let of = params.get(&i).cloned().unwrap_or_default();
            for p in &of {
                inside.places.insert(Root(*p, 0), Spot::At(place.clone()));
            }
            let next = named_back(body, &inside.shape, result, &place)
                .filter(|(root, _)| inside.nodes.contains(&root.0) && !matches!(body.node(root.0).op, Op::Scan(_)));
            inside.carries.push(Carry { params: of, place, next, written: false });
        }
        for (number, of) in params.range(carries..) {
            let spot = match *number < carries + scan.xs.len() {
                true => operands[*number].step(self.fuser.program, scan.axis, id),
                false => operands[*number].clone(),
            };
            for p in of {
                inside.places.insert(Root(*p, 0), spot.clone());
            }
        }
    }

    /// At the end of a step the carries that are not yet in place get their new values.
    fn next_carries(&mut self, inside: &mut Block<'_>, scan: &Scan) -> Result<()> {
        let mut moves = Vec::new();
        for i in 0..scan.init.len() {
            if inside.carries[i].written {
                continue;
            }
            let result = scan.body.results[i];
            let from = self.spot(inside, result)?;
            let to = inside.carries[i].place.clone();
            let axes = self.features(inside, result);
            if matches!(&from, Spot::At(at) if self.view(at, &axes) == self.view(&to, &axes)) {
                continue;
            }
            moves.push((from, to, axes));
        }
        // A new value that is another's old one is saved first.
        let carried: Vec<Base> = inside.carries.iter().map(|c| c.place.base).collect();
        for (from, _, axes) in &mut moves {
            if let Spot::At(at) = from
                && carried.contains(&at.base)
            {
                let saved = self.fresh(axes);
                self.copy(from, &saved, axes);
                *from = Spot::At(saved);
            }
        }
        for (from, to, axes) in moves {
            self.copy(&from, &to, &axes);
        }
        Ok(())
    }
}

/// Whether a value is what a loop ends with, and not what it gives out step by step.
fn is_carry(graph: &Graph, root: Root) -> bool {
    matches!(&graph.node(root.0).op, Op::Scan(scan) if (root.1 as usize) < scan.init.len())
}
