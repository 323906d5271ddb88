//! The statements of a row-parallel kernel: nodes of a graph, in an order that lets elementwise work join one map.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use dsl::source::Span;

use super::dims::GraphId;
use super::inward::inward;
use super::open::Open;
use super::partition::row_axes;
use super::shape::{Kind, Root, Shape, Use};
use super::spot::{self, Affine, At, Spot};
use super::{Fuser, Result, Rows, locals};
use crate::ir::{AxisId, Graph, Op, ValueId};
use crate::kernel::{
    Base, Copy, Gather, Instr, Lanes, Local, LocalId, Map, Mode, Reg, Scatter, Sort, Stmt, Store, Target, Tile, View,
};

/// A tile that is being made.
pub(crate) struct TileBuilder<'f, 'p> {
    pub fuser: &'f mut Fuser<'p>,
    rows: Rows,
    pub sizes: Vec<usize>,
    pub locals: Vec<Local>,
    /// Copies of what the caller's arrays hold, made before anything else.
    preamble: Vec<Stmt>,
    /// Statements of the body, and of each loop that is open.
    pub(super) code: Vec<Vec<Stmt>>,
    imported: HashMap<At, At>,
    pub ops: Vec<(String, Span)>,
}

/// A graph whose nodes are being made statements: the nodes of a group, or the body of a loop.
pub(crate) struct Block<'g> {
    pub graph: &'g Graph,
    pub id: GraphId,
    pub shape: Rc<Shape>,
    /// Nodes to do.
    pub nodes: BTreeSet<ValueId>,
    /// Where what is done, or comes from outside, is.
    pub places: HashMap<Root, Spot>,
    /// Where values are wanted, in their own axes.
    pub homes: HashMap<Root, Vec<At>>,
    pub carries: Vec<Carry>,
    pub open: Option<Open>,
    /// How many maps have been closed so far.
    pub closed: usize,
    pub done: HashSet<ValueId>,
    /// Views that have places of their own: joined axes that had to be copied, and other rows of what comes from outside.
    pub moved: HashMap<ValueId, Spot>,
}

/// A carry of the loop whose body a block is.
pub(crate) struct Carry {
    pub params: Vec<ValueId>,
    pub place: At,
    /// The new value, if it is computed here and named as the carry is but for renaming; in its own axes.
    pub next: Option<(Root, At)>,
    /// The new value is in place.
    pub written: bool,
}

/// An operand of a statement.
pub(crate) enum Operand {
    /// In the open map, with the axes that its dimensions have for this value.
    Reg(Reg, Vec<AxisId>),
    Spot(Spot),
}

impl<'f, 'p> TileBuilder<'f, 'p> {
    pub(crate) fn new(fuser: &'f mut Fuser<'p>, rows: Rows, sizes: Vec<usize>) -> Self {
        TileBuilder {
            fuser,
            rows,
            sizes,
            locals: Vec::new(),
            preamble: Vec::new(),
            code: vec![Vec::new()],
            imported: HashMap::new(),
            ops: Vec::new(),
        }
    }

    pub(crate) fn finish(mut self) -> (Tile, Vec<(String, Span)>) {
        let mut body = self.preamble;
        body.extend(self.code.pop().unwrap_or_default());
        inward(&mut body, &mut self.locals, self.fuser.target.carried);
        let (locals, arena) = locals::plan(self.locals, &body);
        (Tile { rows: self.sizes, locals, arena, body }, self.ops)
    }

    pub(crate) fn push(&mut self, stmt: Stmt) {
        self.code.last_mut().expect("a body").push(stmt);
    }

    /// Axes of a value that are not rows.
    pub(crate) fn features(&self, b: &Block<'_>, v: ValueId) -> Vec<AxisId> {
        let rows = row_axes(&self.rows, &self.fuser.dims, b.graph, b.id, v);
        b.graph.axes(v).iter().copied().filter(|a| !rows.contains(&Some(*a))).collect()
    }

    pub(crate) fn fresh(&mut self, axes: &[AxisId]) -> At {
        let len = self.fuser.program.len(axes);
        self.locals.push(Local { len, offset: 0 });
        At::dense(Base::Local(LocalId(self.locals.len() as u32 - 1)), self.fuser.program, axes, 1)
    }

    /// How the rows of an array of the program lie.
    pub(crate) fn lanes(&self, at: &At, rows: &[Option<AxisId>]) -> Lanes {
        lanes(at, rows, &self.sizes)
    }

    /// An array of the program as seen from the tile; copied if its rows do not lie side by side.
    pub(crate) fn import(&mut self, at: &At, rows: &[Option<AxisId>]) -> At {
        let lanes = self.lanes(at, rows);
        let inner = At {
            strides: at.strides.iter().copied().filter(|(a, _)| !rows.contains(&Some(*a))).collect(),
            splat: lanes == Lanes::Splat,
            ..at.clone()
        };
        if !matches!(lanes, Lanes::Strided(_)) {
            return inner;
        }
        if let Some(local) = self.imported.get(at) {
            return local.clone();
        }
        // Steps of loops of the program around are one step here; what a loop of the tile moves over is copied whole.
        let axes: Vec<AxisId> = inner.strides.iter().map(|(a, _)| *a).collect();
        let to = self.fresh(&axes);
        let dims: Vec<usize> = axes.iter().map(|a| self.fuser.program.size(*a)).collect();
        let from = View { lanes, ..self.view(&inner, &axes) };
        let copy = Stmt::Copy(Copy { dims, from, to: self.view(&to, &axes) });
        self.preamble.push(copy);
        self.imported.insert(at.clone(), to.clone());
        to
    }

    /// A place as seen along dimensions.
    pub(crate) fn view(&self, at: &At, dims: &[AxisId]) -> View {
        View {
            base: at.base,
            offset: at.offset,
            strides: dims.iter().map(|a| at.stride(*a)).collect(),
            loops: at.loops.clone(),
            lanes: if at.splat { Lanes::Splat } else { Lanes::Unit },
        }
    }

    pub(crate) fn dims(&self, axes: &[AxisId]) -> Vec<usize> {
        axes.iter().map(|a| self.fuser.program.size(*a)).collect()
    }

    /// Copies between places along axes.
    pub(crate) fn copy(&mut self, from: &Spot, to: &At, axes: &[AxisId]) {
        let (loads, code) = match from {
            Spot::Affine(a) => match a.as_const() {
                Some(c) => (Vec::new(), vec![Instr::Const(c as f32)]),
                None => {
                    let at = self.fuser.numbers(a);
                    (vec![self.view(&at, axes)], vec![Instr::Load(0)])
                }
            },
            Spot::At(at) => (vec![self.view(at, axes)], vec![Instr::Load(0)]),
        };
        let store = Store { to: self.view(to, axes), value: Reg(0), mode: Mode::Set };
        let map = Map { dims: self.dims(axes), loads, code, stores: vec![store] };
        self.push(Stmt::Map(map));
    }

    /// Parts of a concatenation are computed where they belong.
    pub(super) fn concat_homes(&mut self, b: &mut Block<'_>) {
        for v in b.nodes.clone() {
            let Op::Concat { parts, along, into } = &b.graph.node(v).op else { continue };
            let features = self.features(b, v);
            let root = Root(v, 0);
            let place = match b.homes.get(&root).and_then(|h| h.first()) {
                Some(home) => home.clone(),
                None => {
                    let fresh = self.fresh(&features);
                    b.homes.insert(root, vec![fresh.clone()]);
                    fresh
                }
            };
            let mut start = 0;
            for (part, axis) in parts.iter().zip(along) {
                let size = self.fuser.program.size(*axis);
                if let Some((of, at)) = named_back(b.graph, &b.shape, *part, &part_of(&place, *into, *axis, start))
                    && matches!(b.shape.kinds[of.0.0 as usize], Kind::Work)
                    && b.nodes.contains(&of.0)
                    && !matches!(b.graph.node(of.0).op, Op::Scan(_) | Op::Concat { .. })
                    && !b.homes.contains_key(&of)
                {
                    b.homes.insert(of, vec![at]);
                }
                start += size;
            }
        }
    }

    /// Does a node; says which nodes are done with it.
    pub(super) fn node(&mut self, b: &mut Block<'_>, v: ValueId) -> Result<Vec<ValueId>> {
        let node = b.graph.node(v);
        self.ops.push((node.op.name().to_string(), node.span));
        let mut done = vec![v];
        match &node.op {
            Op::Dot { .. } => {
                if let Some(also) = self.dot(b, v)? {
                    done.push(also);
                }
            }
            Op::Scan(scan) => self.scan(b, v, scan)?,
            Op::Concat { parts, along, into } => self.concat(b, v, parts, along, *into)?,
            Op::Pad { of, axis, start, into } => {
                let from = self.spot(b, *of)?;
                let to = self.destination(b, v)?;
                let axes = self.features(b, v);
                self.copy(&Spot::constant(0.0), &to, &axes);
                let inner = part_of(&to, *into, *axis, *start);
                let axes = self.features(b, *of);
                self.copy(&from, &inner, &axes);
                self.settle(b, v, to)?;
            }
            Op::Argsort { of, axis } => {
                let from = self.at(b, *of)?;
                let to = self.destination(b, v)?;
                let mut axes = self.features(b, v);
                axes.retain(|a| a != axis);
                let dims = self.dims(&axes);
                axes.push(*axis);
                let from = self.lane_view(b, *of, &from, &axes);
                let n = self.fuser.program.size(*axis);
                let to_view = self.view(&to, &axes);
                self.push(Stmt::Sort(Sort { dims, n, from, to: to_view }));
                self.settle(b, v, to)?;
            }
            Op::Gather { of, axis, at } => {
                let (from, places) = (self.at(b, *of)?, self.at(b, *at)?);
                let to = self.destination(b, v)?;
                let axes = self.features(b, v);
                self.gather(*axis, &from, &places, &to, &axes);
                self.settle(b, v, to)?;
            }
            Op::Scatter { of, at, over, into } => {
                let (from, places) = (self.at(b, *of)?, self.at(b, *at)?);
                let to = self.destination(b, v)?;
                let axes = self.features(b, v);
                self.copy(&Spot::constant(0.0), &to, &axes);
                let mut dims = axes;
                dims.retain(|a| a != into);
                dims.extend(over);
                // What is scattered is placed by `at` alone, even where the new axis has the name of an old one.
                let mut base = to.clone();
                base.strides.retain(|(a, _)| a != into);
                let scatter = Scatter {
                    dims: self.dims(&dims),
                    from: self.view(&from, &dims),
                    at: self.view(&places, &dims),
                    to: self.view(&base, &dims),
                    stride: to.stride(*into),
                    size: self.fuser.program.size(*into),
                };
                self.push(Stmt::Scatter(scatter));
                self.settle(b, v, to)?;
            }
            Op::Join { of, axes, into } => {
                let from = self.spot(b, *of)?;
                let to = self.destination(b, v)?;
                self.join(b, *of, &from, &to, axes, *into);
                self.settle(b, v, to)?;
            }
            _ => self.elementwise(b, v)?,
        }
        b.done.extend(&done);
        Ok(done)
    }

    /// Where a node that is no map puts its value.
    pub(crate) fn destination(&mut self, b: &mut Block<'_>, v: ValueId) -> Result<At> {
        self.close(b)?;
        let home = b.homes.get(&Root(v, 0)).and_then(|h| h.first()).cloned();
        Ok(match home {
            Some(at) => at,
            None => {
                let axes = self.features(b, v);
                self.fresh(&axes)
            }
        })
    }

    /// A value is at its place; other homes get copies.
    pub(crate) fn settle(&mut self, b: &mut Block<'_>, v: ValueId, at: At) -> Result<()> {
        let root = Root(v, 0);
        let axes = self.features(b, v);
        for home in b.homes.get(&root).cloned().unwrap_or_default() {
            if home != at {
                self.copy(&Spot::At(at.clone()), &home, &axes);
            }
        }
        b.places.insert(root, Spot::At(at));
        Ok(())
    }

    fn concat(&mut self, b: &mut Block<'_>, v: ValueId, parts: &[ValueId], along: &[AxisId], into: AxisId) -> Result<()> {
        let to = self.destination(b, v)?;
        let mut start = 0;
        for (part, axis) in parts.iter().zip(along) {
            let from = self.spot(b, *part)?;
            let slot = part_of(&to, into, *axis, start);
            let axes = self.features(b, *part);
            let there = matches!(&from, Spot::At(at) if self.view(at, &axes) == self.view(&slot, &axes));
            if !there {
                self.copy(&from, &slot, &axes);
            }
            start += self.fuser.program.size(*axis);
        }
        self.settle(b, v, to)
    }

    /// Copies a value to where its joined axis is one.
    fn join(&mut self, b: &Block<'_>, of: ValueId, from: &Spot, to: &At, axes: &[AxisId], into: AxisId) {
        let split = Op::Split { of, axis: into, into: axes.to_vec() };
        let Some(Spot::At(split)) = spot::view(self.fuser.program, &split, &Spot::At(to.clone()), None) else { return };
        let dims = self.features(b, of);
        self.copy(from, &split, &dims);
    }

    /// An operand for a map: a register if it is in the open one.
    pub(crate) fn operand(&mut self, b: &mut Block<'_>, v: ValueId) -> Result<Operand> {
        match b.shape.kinds[v.0 as usize].clone() {
            Kind::Free(a) => Ok(Operand::Spot(self.known(b, v, a))),
            Kind::View(_) if b.moved.contains_key(&v) => Ok(Operand::Spot(b.moved[&v].clone())),
            Kind::View(of) => {
                let op = &b.graph.node(v).op;
                if let Operand::Reg(reg, names) = self.operand(b, of)? {
                    match op {
                        Op::Expand(_) | Op::Stop(_) | Op::Id(_) => return Ok(Operand::Reg(reg, names)),
                        Op::Rename { from, to, .. } => {
                            return Ok(Operand::Reg(reg, names.iter().map(|a| if a == from { *to } else { *a }).collect()));
                        }
                        _ => {}
                    }
                }
                self.spot(b, v).map(Operand::Spot)
            }
            Kind::Source | Kind::Work => {
                let root = b.shape.roots[v.0 as usize].expect("work has a root");
                if let Some(spot) = b.places.get(&root) {
                    return Ok(Operand::Spot(spot.clone()));
                }
                if let Some(open) = &b.open {
                    if let Some((reg, names)) = open.value(root.0) {
                        return Ok(Operand::Reg(reg, names.to_vec()));
                    }
                    if open.reduces(root.0) {
                        self.close(b)?;
                        return self.operand(b, v);
                    }
                }
                Err(format!("`{}` is used before it is computed", b.graph.node(v).op.name()))
            }
        }
    }

    /// A value that is known when compiled; one that depends on the row is an array.
    fn known(&mut self, b: &Block<'_>, v: ValueId, a: Affine) -> Spot {
        if !self.by_row(b, v, &a) {
            return Spot::Affine(a);
        }
        let rows = row_axes(&self.rows, &self.fuser.dims, b.graph, b.id, v);
        let at = self.fuser.numbers(&a);
        Spot::At(self.import(&at, &rows))
    }

    /// Whether a value that is known when compiled depends on the row.
    pub(crate) fn by_row(&self, b: &Block<'_>, v: ValueId, a: &Affine) -> bool {
        let rows = row_axes(&self.rows, &self.fuser.dims, b.graph, b.id, v);
        a.axes.iter().any(|(axis, _)| rows.contains(&Some(*axis)))
    }

    fn gather(&mut self, axis: AxisId, from: &At, at: &At, to: &At, axes: &[AxisId]) {
        let gather = Gather {
            dims: self.dims(axes),
            from: self.view(from, axes),
            stride: from.stride(axis),
            size: self.fuser.program.size(axis),
            at: self.view(at, axes),
            to: self.view(to, axes),
        };
        self.push(Stmt::Gather(gather));
    }

    /// Where a value is in memory; ends the open map if it is in there.
    pub(crate) fn spot(&mut self, b: &mut Block<'_>, v: ValueId) -> Result<Spot> {
        match b.shape.kinds[v.0 as usize].clone() {
            Kind::View(of) => {
                if let Some(spot) = b.moved.get(&v) {
                    return Ok(spot.clone());
                }
                let from = self.spot(b, of)?;
                let op = &b.graph.node(v).op;
                let places = match op {
                    Op::Gather { at, .. } => match &b.shape.kinds[at.0 as usize] {
                        Kind::Free(a) => Some(a.clone()),
                        _ => None,
                    },
                    _ => None,
                };
                // Each row takes another entry: views inside a tile are the same for all rows.
                if let (Op::Gather { axis, at, .. }, Spot::At(from), Some(places)) = (op, &from, &places)
                    && self.by_row(b, *at, places)
                {
                    self.close(b)?;
                    let index = self.at(b, *at)?;
                    let axes = self.features(b, v);
                    let to = self.fresh(&axes);
                    self.gather(*axis, from, &index, &to, &axes);
                    b.moved.insert(v, Spot::At(to.clone()));
                    return Ok(Spot::At(to));
                }
                if let Some(spot) = spot::view(self.fuser.program, op, &from, places.as_ref()) {
                    return Ok(spot);
                }
                let Op::Join { axes, into, .. } = op else {
                    return Err(format!("`{}` of these places is not a view", op.name()));
                };
                self.close(b)?;
                let features = self.features(b, v);
                let to = self.fresh(&features);
                self.join(b, of, &from, &to, axes, *into);
                b.moved.insert(v, Spot::At(to.clone()));
                Ok(Spot::At(to))
            }
            _ => match self.operand(b, v)? {
                Operand::Spot(spot) => Ok(spot),
                Operand::Reg(..) => {
                    self.close(b)?;
                    match self.operand(b, v)? {
                        Operand::Spot(spot) => Ok(spot),
                        Operand::Reg(..) => Err("a closed map still holds a value".to_string()),
                    }
                }
            },
        }
    }

    /// A place in memory even for what is known when compiled.
    pub(crate) fn at(&mut self, b: &mut Block<'_>, v: ValueId) -> Result<At> {
        Ok(match self.spot(b, v)? {
            Spot::At(at) => at,
            Spot::Affine(a) => self.fuser.numbers(&a),
        })
    }

    /// A view with a number for each lane, copied if there is one for all.
    fn lane_view(&mut self, b: &Block<'_>, v: ValueId, at: &At, axes: &[AxisId]) -> View {
        if !at.splat {
            return self.view(at, axes);
        }
        let features = self.features(b, v);
        let to = self.fresh(&features);
        self.copy(&Spot::At(at.clone()), &to, &features);
        self.view(&to, axes)
    }
}

impl<'g> Block<'g> {
    pub(crate) fn new(graph: &'g Graph, id: GraphId, shape: Rc<Shape>, nodes: BTreeSet<ValueId>) -> Block<'g> {
        Block {
            graph,
            id,
            shape,
            nodes,
            places: HashMap::new(),
            homes: HashMap::new(),
            carries: Vec::new(),
            open: None,
            closed: 0,
            done: HashSet::new(),
            moved: HashMap::new(),
        }
    }

    /// Whether a carry may be written now, by a map of these nodes: nobody else reads what it was.
    pub(crate) fn may_write(&self, carry: &Carry, members: &HashSet<ValueId>) -> bool {
        let uses = carry.params.iter().flat_map(|p| self.shape.uses(Root(*p, 0)));
        uses.into_iter().all(|u| match u {
            Use::Node(c) => self.done.contains(c) || members.contains(c),
            Use::Result(i) => *i >= self.carries.len(),
        })
    }
}

/// The place of a part of an axis, under the part's own axis.
pub(crate) fn part_of(at: &At, axis: AxisId, part: AxisId, start: usize) -> At {
    let mut at = at.clone();
    at.offset += start * at.stride(axis);
    at.strides.iter_mut().filter(|(a, _)| *a == axis).for_each(|(a, _)| *a = part);
    at
}

/// What a value is under other names, and a place of the value under those names. None if more than names differ.
pub(crate) fn named_back(graph: &Graph, shape: &Shape, v: ValueId, at: &At) -> Option<(Root, At)> {
    let (mut v, mut at) = (v, at.clone());
    loop {
        match (&shape.kinds[v.0 as usize], &graph.node(v).op) {
            (Kind::View(of), Op::Rename { from, to, .. }) => {
                at.strides.iter_mut().filter(|(a, _)| a == to).for_each(|(a, _)| *a = *from);
                v = *of;
            }
            (Kind::View(of), Op::Expand(_) | Op::Stop(_) | Op::Id(_)) if graph.axes(*of).len() == graph.axes(v).len() => {
                v = *of;
            }
            (Kind::Source | Kind::Free(_) | Kind::View(_), _) => return None,
            (Kind::Work, Op::Out { scan, index }) => return Some((Root(*scan, *index), at)),
            (Kind::Work, _) => return Some((Root(v, 0), at)),
        }
    }
}

/// How rows lie, given the axes that they are.
pub(crate) fn lanes(at: &At, rows: &[Option<AxisId>], sizes: &[usize]) -> Lanes {
    let strides: Vec<usize> = rows.iter().map(|a| a.map_or(0, |a| at.stride(a))).collect();
    let moving = || strides.iter().zip(sizes).filter(|(_, size)| **size > 1);
    if moving().all(|(s, _)| *s == 0) {
        return Lanes::Splat;
    }
    let mut unit = 1;
    for (s, size) in strides.iter().zip(sizes).rev() {
        if *size > 1 && *s != unit {
            return Lanes::Strided(strides);
        }
        unit *= size;
    }
    Lanes::Unit
}

/// Whether whole lane vectors may be written to a place whose rows lie side by side: the rows of one entry are not
/// followed at once by those of the next.
pub(crate) fn has_room(target: &Target, at: &At, rows: &[Option<AxisId>], sizes: &[usize]) -> bool {
    let count: usize = sizes.iter().product();
    let padded = count.next_multiple_of(target.lanes);
    let entries = at.strides.iter().filter(|(a, _)| !rows.contains(&Some(*a))).map(|(_, s)| *s);
    count == padded || entries.chain(at.loops.iter().map(|(_, s)| *s)).all(|s| s == 0 || s >= padded)
}
