//! Tile kernels: a cube takes some rows through all statements; a local is entries times rows in shared memory.

use crate::kernel::{Base, BufferId, Copy, Gather, Lanes, LoopId, Mode, Sort, Stmt, Tile, View};

use super::barrier::{self, Node};
use super::builder::{Code, Fun, List, LoopVars, Val, index, number};
use super::emitted::{Arena, Precision, Scalar};
use super::math::{folded, precedes};
use super::phase::{self, Phase, ScatterPhase};
use super::plan::{Around, Buffers, Home, Layout, Limits, layout};

/// A tile kernel, planned.
#[derive(Debug, Clone)]
pub(super) struct TilePlan {
    pub(super) tile: Tile,
    pub(super) layout: Layout,
    body: Vec<Node>,
    /// Where the cubes' spilled locals start in the workspace.
    pub(super) spill: usize,
    /// Units of a plane.
    pub(super) plane: usize,
}

impl TilePlan {
    pub(super) fn new(tile: &Tile, limits: &Limits, buffers: &Buffers, around: &Around) -> TilePlan {
        let mut layout = layout(tile, limits);
        let units = limits.units as usize;
        let mut body = nodes(&tile.body, &layout, buffers, limits);
        let [tensor, all] = products(&body);
        if limits.precision != Precision::F32 && all > 0 {
            let (rows, name) = (layout.rows_per_cube, limits.precision.name());
            let note = format!("{tensor} of {all} products are on tensor cores in {name}, with {rows} rows in a cube");
            layout.notes.push(note);
        }
        barrier::place(&mut body, tile, &layout, units, around);
        TilePlan { tile: tile.clone(), layout, body, spill: 0, plane: limits.plane as usize }
    }

    /// Shared memory, in numbers of four bytes and of two: locals of all rows and partial sums; buffers for tensor cores.
    pub(super) fn shared(&self) -> [usize; 2] {
        let rows = self.layout.rows_per_cube;
        match scratch(&self.body, rows) {
            0 => [self.layout.shared * rows, 0],
            sums => [self.scratch_start() + sums, halves(&self.body)],
        }
    }

    /// Where partial sums start: behind all locals, where a matrix may start.
    pub(super) fn scratch_start(&self) -> usize {
        (self.layout.shared * self.layout.rows_per_cube).next_multiple_of(8)
    }

    /// Numbers of the workspace that all cubes need for locals.
    pub(super) fn spilled(&self) -> usize {
        self.layout.spilled * self.layout.rows_per_cube * self.layout.cubes
    }

    pub(super) fn emit(&self, code: &mut Code, cube: Val, buffers: &Buffers, loops: &LoopVars) {
        let rows = self.tile.row_count();
        let each = self.layout.rows_per_cube;
        let first = code.mul(cube, index(each));
        let here = (!rows.is_multiple_of(each)).then(|| {
            let left = code.sub(index(rows), first);
            code.min(left, index(each))
        });
        let spilled = code.mul(cube, index(self.layout.spilled * each));
        let spilled = code.add(spilled, index(self.spill));
        let mut emitter = Emitter { plan: self, buffers, loops: loops.clone(), each, first, here, spilled };
        emitter.nodes(code, &self.body);
    }
}

fn nodes(body: &[Stmt], layout: &Layout, buffers: &Buffers, limits: &Limits) -> Vec<Node> {
    let rows = layout.rows_per_cube;
    let mut nodes = Vec::new();
    for stmt in body {
        let phases = match stmt {
            Stmt::Map(map) => phase::map(map, rows, limits),
            Stmt::Gemm(gemm) => {
                let Base::Buffer(id) = gemm.weight.base else { unreachable!("the verifier lets only buffers pass") };
                phase::gemm(gemm, buffers.weights[&id], rows, limits)
            }
            Stmt::Copy(copy) => vec![Phase::Copy(copy.clone())],
            Stmt::Sort(sort) => vec![Phase::Sort(sort.clone())],
            Stmt::Gather(gather) => vec![Phase::Gather(gather.clone())],
            Stmt::Scatter(scatter) => vec![phase::scatter(scatter)],
            Stmt::Loop { id, count, reverse, body } => {
                let body = self::nodes(body, layout, buffers, limits);
                nodes.push(Node::Loop { id: *id, count: *count, reverse: *reverse, body });
                continue;
            }
        };
        nodes.extend(phases.into_iter().map(|phase| Node::Phase { phase, waits: false }));
    }
    nodes
}

/// Numbers that partial sums need at most.
fn scratch(nodes: &[Node], rows: usize) -> usize {
    let of = |node: &Node| match node {
        Node::Phase { phase: Phase::MapSum(map), .. } => map.split * map.folds.len() * map.results() * rows,
        Node::Phase { phase: Phase::GemmSum(gemm), .. } => gemm.split * gemm.results(),
        Node::Phase { phase: Phase::Tensor(gemm), .. } => gemm.scratch(),
        Node::Phase { .. } => 0,
        Node::Loop { body, .. } => scratch(body, rows),
    };
    nodes.iter().map(of).max().unwrap_or(0)
}

/// Numbers of two bytes that buffers for tensor cores need at most.
fn halves(nodes: &[Node]) -> usize {
    let of = |node: &Node| match node {
        Node::Phase { phase: Phase::Tensor(gemm), .. } => gemm.halves(),
        Node::Phase { .. } => 0,
        Node::Loop { body, .. } => halves(body),
    };
    nodes.iter().map(of).max().unwrap_or(0)
}

/// Products on tensor cores, and all.
fn products(nodes: &[Node]) -> [usize; 2] {
    let mut count = [0; 2];
    for node in nodes {
        let [tensor, all] = match node {
            Node::Phase { phase: Phase::Tensor(_), .. } => [1, 1],
            Node::Phase { phase: Phase::Gemm(_), .. } => [0, 1],
            Node::Phase { .. } => [0, 0],
            Node::Loop { body, .. } => products(body),
        };
        count = [count[0] + tensor, count[1] + all];
    }
    count
}

pub(super) struct Emitter<'a> {
    pub(super) plan: &'a TilePlan,
    pub(super) buffers: &'a Buffers,
    pub(super) loops: LoopVars,
    /// Rows of a cube.
    pub(super) each: usize,
    /// The cube's first row.
    first: Val,
    /// Rows that this cube has, if it may be fewer.
    pub(super) here: Option<Val>,
    /// Where the cube's spilled locals start.
    spilled: Val,
}

impl Emitter<'_> {
    fn nodes(&mut self, code: &mut Code, nodes: &[Node]) {
        for node in nodes {
            match node {
                Node::Phase { phase, waits } => {
                    if *waits {
                        code.barrier();
                    }
                    self.phase(code, phase);
                }
                Node::Loop { id, count, reverse, body } => self.looped(code, *id, *count, *reverse, body),
            }
        }
    }

    fn looped(&mut self, code: &mut Code, id: LoopId, count: usize, reverse: bool, body: &[Node]) {
        code.unrolled(1, index(0), index(count), 1, |code, round| {
            let round = if reverse { code.sub(index(count.saturating_sub(1)), round) } else { round };
            self.loops.insert(id, round);
            self.nodes(code, body);
            self.loops.remove(&id);
        });
    }

    fn phase(&mut self, code: &mut Code, phase: &Phase) {
        match phase {
            Phase::Map(map) => self.map(code, map),
            Phase::MapSum(map) => self.map_sum(code, map),
            Phase::Gemm(gemm) => self.gemm(code, gemm),
            Phase::GemmSum(gemm) => self.gemm_sum(code, gemm),
            Phase::Tensor(gemm) => self.tensor(code, gemm),
            Phase::Copy(copy) => self.copy(code, copy),
            Phase::Sort(sort) => self.sort(code, sort),
            Phase::Gather(gather) => self.gather(code, gather),
            Phase::Scatter(scatter) => self.scatter(code, scatter),
        }
    }

    /// Does what follows for a row that there is.
    pub(super) fn on_row(&self, code: &mut Code, row: Val, body: impl FnOnce(&mut Code)) {
        match self.here {
            None => body(code),
            Some(here) => {
                let there = code.less(row, here);
                code.when(there, body);
            }
        }
    }

    /// Items are entries times rows, a row apart from the next: gives the index of the entry and the row.
    pub(super) fn entries(&self, code: &mut Code, dims: &[usize], body: impl FnOnce(&mut Code, &[Val], Val)) {
        let count = dims.iter().product::<usize>() * self.each;
        if count == 0 {
            return;
        }
        code.items(count, |code, item| {
            let (entry, row) = self.row_of(code, item);
            self.on_row(code, row, |code| {
                let at = unravel(code, entry, dims);
                body(code, &at, row);
            });
        });
    }

    /// The entry and the row of an item.
    pub(super) fn row_of(&self, code: &mut Code, item: Val) -> (Val, Val) {
        (code.div(item, index(self.each)), code.rem(item, index(self.each)))
    }

    /// The array that an operand is in, and where in it the entry is.
    pub(super) fn place(&self, code: &mut Code, view: &View, at: &[Val], row: Val) -> (List, Val) {
        // What operands have in common comes first and is computed once; what is known is added last.
        let mut place = index(0);
        let mut step = |code: &mut Code, by: Val, stride: usize| {
            let by = code.mul(by, index(self.apart(view, stride)));
            place = code.add(by, place);
        };
        view.strides.iter().zip(at).for_each(|(stride, i)| step(code, *i, *stride));
        view.loops.iter().for_each(|(id, stride)| step(code, self.loops[id], *stride));
        match view.base {
            Base::Local(id) => {
                let place = code.add(place, row);
                let known = |home: usize| index((home + view.offset) * self.each);
                match self.plan.layout.homes[id.0 as usize] {
                    Home::Shared(home) => (code.shared(), code.add(place, known(home))),
                    Home::Spilled(home) => {
                        let place = code.add(place, self.spilled);
                        (code.arena(Arena::Work), code.add(place, known(home)))
                    }
                }
            }
            Base::Buffer(id) => {
                let further = self.further(code, &view.lanes, row);
                let place = code.add(place, further);
                let (list, start) = start(code, self.buffers, id);
                let known = code.add(start, index(view.offset));
                (list, code.add(place, known))
            }
        }
    }

    /// Numbers for a stride of an operand: a local has all rows of an entry side by side.
    pub(super) fn apart(&self, view: &View, stride: usize) -> usize {
        if matches!(view.base, Base::Local(_)) { stride * self.each } else { stride }
    }

    /// How much further than the first row of all a row of the cube is.
    fn further(&self, code: &mut Code, lanes: &Lanes, row: Val) -> Val {
        match lanes {
            Lanes::Splat => index(0),
            Lanes::Unit => code.add(self.first, row),
            Lanes::Strided(strides) => {
                let row = code.add(self.first, row);
                let places = unravel(code, row, &self.plan.tile.rows);
                places.into_iter().zip(strides).fold(index(0), |sum, (i, stride)| {
                    let by = code.mul(i, index(*stride));
                    code.add(sum, by)
                })
            }
        }
    }

    pub(super) fn read(&self, code: &mut Code, view: &View, at: &[Val], row: Val) -> Val {
        let (list, place) = self.place(code, view, at, row);
        code.load(list, place)
    }

    pub(super) fn write(&self, code: &mut Code, view: &View, at: &[Val], row: Val, value: Val) {
        let (list, place) = self.place(code, view, at, row);
        code.store(list, place, value);
    }

    fn copy(&self, code: &mut Code, copy: &Copy) {
        self.entries(code, &copy.dims, |code, at, row| {
            let value = self.read(code, &copy.from, at, row);
            self.write(code, &copy.to, at, row, value);
        });
    }

    /// Parts of a result, in order; each is `apart` from the next.
    pub(super) fn partial_sums(&self, code: &mut Code, mode: Mode, item: Val, first: usize, parts: usize, apart: usize) -> Val {
        let shared = code.shared();
        let place = code.add(item, index(first));
        let start = code.load(shared, place);
        let sum = code.var(start);
        code.range(index(1), index(parts), 1, |code, part| {
            let by = code.mul(part, index(apart));
            let place = code.add(by, place);
            let next = code.load(shared, place);
            let so_far = code.get(sum);
            let next = folded(code, mode, so_far, next);
            code.set(sum, next);
        });
        code.get(sum)
    }

    /// Every entry finds its own place: as many as come before it.
    fn sort(&self, code: &mut Code, sort: &Sort) {
        let dims = [&sort.dims[..], &[sort.n]].concat();
        self.entries(code, &dims, |code, at, row| {
            let (mine, around) = at.split_last().expect("the sorted dimension");
            let value = self.read(code, &sort.from, at, row);
            let before = code.var(index(0));
            code.range(index(0), index(sort.n), 1, |code, i| {
                let other = self.read(code, &sort.from, &[around, &[i]].concat(), row);
                let smaller = precedes(code, other, value);
                let larger = precedes(code, value, other);
                let same = code.not(larger);
                let earlier = code.less(i, *mine);
                let tie = code.and(same, earlier);
                let comes = code.or(smaller, tie);
                let one = code.select(comes, index(1), index(0));
                let so_far = code.get(before);
                let next = code.add(so_far, one);
                code.set(before, next);
            });
            let place = code.get(before);
            let mine = code.number_of(*mine);
            self.write(code, &sort.to, &[around, &[place]].concat(), row, mine);
        });
    }

    /// Whether a number names an entry of an axis, and how far that is from the first one. The nearest entry counts,
    /// halves upwards; where there is none, the offset is that of the first.
    fn along(&self, code: &mut Code, x: Val, view: &View, size: usize, stride: usize) -> (Val, Val) {
        let below = code.fun(Fun::Floor, x);
        let part = code.sub(x, below);
        let low = code.less(part, number(0.5));
        let above = code.add(below, number(1.0));
        let nearest = code.select(low, below, above);
        let from = code.less(number(-1.0), nearest);
        let to = code.less(nearest, number(size as f32));
        let names = code.and(from, to);
        let nearest = code.select(names, nearest, number(0.0));
        let place = code.index_of(nearest);
        // The last entry of an axis that is too long for its indices.
        let place = code.min(place, index(size.saturating_sub(1)));
        (names, code.mul(place, index(self.apart(view, stride))))
    }

    fn gather(&self, code: &mut Code, gather: &Gather) {
        self.entries(code, &gather.dims, |code, at, row| {
            let x = self.read(code, &gather.at, at, row);
            let (names, further) = self.along(code, x, &gather.from, gather.size, gather.stride);
            let (list, place) = self.place(code, &gather.from, at, row);
            let place = code.add(place, further);
            let value = code.load(list, place);
            let nan = code.constant(f32::NAN);
            let value = code.select(names, value, nan);
            self.write(code, &gather.to, at, row, value);
        });
    }

    fn scatter(&self, code: &mut Code, phase: &ScatterPhase) {
        let scatter = &phase.scatter;
        let sizes = |of: &[usize]| of.iter().map(|d| scatter.dims[*d]).collect::<Vec<_>>();
        let (kept, serial) = (sizes(&phase.kept), sizes(&phase.serial));
        self.entries(code, &kept, |code, outer, row| {
            code.range(index(0), index(serial.iter().product()), 1, |code, i| {
                let mut at = vec![index(0); scatter.dims.len()];
                phase.kept.iter().zip(outer).for_each(|(d, i)| at[*d] = *i);
                let inner = unravel(code, i, &serial);
                phase.serial.iter().zip(inner).for_each(|(d, i)| at[*d] = i);
                let x = self.read(code, &scatter.at, &at, row);
                let (names, further) = self.along(code, x, &scatter.to, scatter.size, scatter.stride);
                let value = self.read(code, &scatter.from, &at, row);
                let value = code.select(names, value, number(0.0));
                let (list, place) = self.place(code, &scatter.to, &at, row);
                let place = code.add(place, further);
                let before = code.load(list, place);
                let sum = code.add(before, value);
                code.store(list, place, sum);
            });
        });
    }
}

/// The arena that a buffer is in, and where it starts.
pub(super) fn start(code: &mut Code, buffers: &Buffers, id: BufferId) -> (List, Val) {
    let place = buffers.places[id.0 as usize];
    let start = match (buffers.swapped[id.0 as usize], code.start(id)) {
        (true, _) => code.scalar(Scalar::Offset(id)),
        (false, Some(start)) => start,
        (false, None) => index(place.offset),
    };
    (code.arena(place.arena), start)
}

/// The index along each dimension of what is at `flat` of all, the last dimension moving fastest.
pub(super) fn unravel(code: &mut Code, flat: Val, dims: &[usize]) -> Vec<Val> {
    let mut left = flat;
    let mut at = vec![index(0); dims.len()];
    for d in (0..dims.len()).rev() {
        // Nothing is left over for dimensions of one entry.
        if dims[..d].iter().all(|size| *size == 1) {
            at[d] = if dims[d] == 1 { index(0) } else { left };
            break;
        }
        at[d] = code.rem(left, index(dims[d]));
        left = code.div(left, index(dims[d]));
    }
    at
}
