//! Tiles: the statements of a row-parallel kernel, ready to run.

use crate::kernel::{self, Gather, Gemm, LANES, Lanes, LoopId, Map, Scatter, Sort, Stmt, Store, Tile, View, packed_len};

use super::Target;
use super::map::{self, MapCode, MapNeeds, Scratch};
use super::place::{Block, LINE, Place, WHOLE, Walk, Worker};
use micro::gemm::Panels;
use micro::kernels::Kernels;
use micro::rows::Segment;

/// A tile kernel, ready to run.
#[derive(Debug)]
pub(super) struct TileCode {
    rows: usize,
    /// Numbers that the locals of one block need.
    arena: usize,
    /// The blocks are cut into so many items, as evenly as can be.
    items: usize,
    /// Blocks that the body takes at a time, as a dimension of its maps; and what the last, fewer, are taken with.
    wide: usize,
    body: Vec<Code>,
    tail: Vec<Code>,
}

/// Blocks that a kernel takes at a time which has nothing but rows (an optimiser's).
const WIDE: usize = 64;

#[derive(Debug)]
enum Code {
    Map(MapCode),
    Gemm(GemmCode),
    Copy(CopyCode),
    Sort(SortCode),
    Gather(GatherCode),
    Scatter(ScatterCode),
    Loop { var: usize, count: usize, reverse: bool, body: Vec<Code> },
}

/// Blocks that share panels of weights, at most.
const TOGETHER: usize = 8;

/// Arena bytes that an item's blocks may have together: what fits in a second-level cache beside the weights.
const ITEM_BYTES: usize = 384 << 10;

impl TileCode {
    pub(super) fn new(tile: &Tile, target: &mut Target, threads: usize) -> TileCode {
        let rows = tile.row_count();
        let blocks = rows.div_ceil(LANES);
        let mut compiled = |tile: &Tile| compile(&tile.body, tile, None, target);
        if let (Some(whole), true) = (widened(tile, WIDE), blocks > 1) {
            let tail = widened(tile, blocks % WIDE).map_or(Vec::new(), |tail| compiled(&tail));
            return TileCode { rows, arena: 0, items: blocks.div_ceil(WIDE), wide: WIDE, body: compiled(&whole), tail };
        }
        let arena = tile.arena * LANES;
        TileCode { rows, arena, items: items(tile, threads), wide: 1, body: compiled(tile), tail: Vec::new() }
    }

    pub(super) fn items(&self) -> usize {
        self.items
    }

    /// Numbers that the arenas of an item need.
    pub(super) fn arena(&self) -> usize {
        arena(self.rows, self.items, self.arena)
    }

    pub(super) fn needs(&self) -> MapNeeds {
        needs(&self.body).max(needs(&self.tail))
    }

    /// Entries that are sorted at a time.
    pub(super) fn sorted(&self) -> usize {
        sorted(&self.body)
    }

    /// # Safety
    /// Views are inside their buffers and locals; the machine has the kernels' instruction set; nobody else writes what
    /// the item's rows read or touches what they write; the worker's arena and scratch are large enough.
    pub(super) unsafe fn run(&self, item: usize, worker: &mut Worker, own: &mut Own, kernels: &Kernels) {
        worker.arena_len = self.arena;
        let total = self.rows.div_ceil(LANES);
        if self.wide > 1 {
            let first = item * self.wide;
            let body = if first + self.wide <= total { &self.body } else { &self.tail };
            // SAFETY: the caller's contract; the maps go through the blocks themselves.
            return unsafe { run(body, Blocks { first, count: 1, rows: self.rows }, worker, own, kernels) };
        }
        let cut = |item: usize| item * total / self.items;
        let blocks = Blocks { first: cut(item), count: cut(item + 1) - cut(item), rows: self.rows };
        // SAFETY: the caller's contract.
        unsafe { run(&self.body, blocks, worker, own, kernels) };
    }
}

/// What a worker keeps from item to item.
#[derive(Debug)]
pub(super) struct Own {
    pub scratch: Scratch,
    /// Keys and places that are being sorted.
    pub keys: Vec<(f32, u32)>,
}

/// The blocks of an item.
#[derive(Debug, Clone, Copy)]
struct Blocks {
    first: usize,
    count: usize,
    rows: usize,
}

impl Blocks {
    fn each(self) -> impl Iterator<Item = Block> {
        (0..self.count).map(move |index| {
            let first_row = (self.first + index) * LANES;
            Block { index, first_row, lanes: LANES.min(self.rows - first_row) }
        })
    }
}

/// # Safety
/// That of [`TileCode::run`].
unsafe fn run(body: &[Code], blocks: Blocks, worker: &mut Worker, own: &mut Own, kernels: &Kernels) {
    for code in body {
        // SAFETY: the caller's contract.
        unsafe {
            match code {
                Code::Map(map) => blocks.each().for_each(|block| map.run(worker, block, &mut own.scratch)),
                Code::Gemm(gemm) => gemm.run(blocks, worker, kernels),
                Code::Copy(copy) => blocks.each().for_each(|block| copy.run(worker, block, kernels)),
                Code::Sort(sort) => blocks.each().for_each(|block| sort.run(worker, block, &mut own.keys)),
                Code::Gather(gather) => blocks.each().for_each(|block| gather.run(worker, block)),
                Code::Scatter(scatter) => blocks.each().for_each(|block| scatter.run(worker, block)),
                Code::Loop { var, count, reverse, body } => {
                    for i in 0..*count {
                        worker.vars[*var] = if *reverse { count - 1 - i } else { i };
                        run(body, blocks, worker, own, kernels);
                    }
                }
            }
        }
    }
}

/// `around`: the loop whose body it is, and whether its steps go backwards.
fn compile(body: &[Stmt], tile: &Tile, around: Option<(LoopId, bool)>, target: &mut Target) -> Vec<Code> {
    let mut codes = Vec::new();
    for stmt in body {
        codes.push(match stmt {
            Stmt::Map(map) => {
                codes.extend(map.with_entries().iter().map(|map| Code::Map(map::compile(map, tile, target))));
                continue;
            }
            Stmt::Gemm(gemm) => Code::Gemm(GemmCode::new(gemm, tile)),
            Stmt::Copy(copy) => Code::Copy(CopyCode::new(copy, tile, around)),
            Stmt::Sort(sort) => Code::Sort(SortCode::new(sort, tile)),
            Stmt::Gather(gather) => Code::Gather(GatherCode::new(gather, tile)),
            Stmt::Scatter(scatter) => Code::Scatter(ScatterCode::new(scatter, tile)),
            Stmt::Loop { id, count, reverse, body } => {
                let body = compile(body, tile, Some((*id, *reverse)), target);
                Code::Loop { var: id.0 as usize, count: *count, reverse: *reverse, body }
            }
        });
    }
    codes
}

/// How many items a tile is cut into that takes its blocks one by one.
fn items(tile: &Tile, threads: usize) -> usize {
    let (blocks, arena) = (tile.row_count().div_ceil(LANES), tile.arena * LANES);
    // Blocks of an item share each panel of weights while it is in the cache. No number depends on how many they are.
    let together = if has_gemm(&tile.body) { (ITEM_BYTES / (4 * arena).max(1)).clamp(1, TOGETHER) } else { 1 };
    let rounds = blocks.div_ceil(threads * together);
    blocks.min(rounds * threads)
}

/// Numbers of the arenas of an item, with `arena` numbers for a block.
fn arena(rows: usize, items: usize, arena: usize) -> usize {
    rows.div_ceil(LANES).div_ceil(items.max(1)) * arena
}

/// Bytes that a worker needs for a tile: its locals, and what it sorts.
pub(super) fn worker_bytes(tile: &Tile, threads: usize) -> u64 {
    let mut keys = 0;
    tile.each_stmt(&mut |stmt| {
        if let Stmt::Sort(sort) = stmt {
            keys = keys.max(sort.n);
        }
    });
    let arena = arena(tile.row_count(), items(tile, threads), tile.arena * LANES);
    (arena * size_of::<f32>() + keys * size_of::<(f32, u32)>()) as u64
}

/// Whether several blocks of a kernel's rows may be taken at a time, as a dimension of its maps.
pub(super) fn widens(tile: &Tile) -> bool {
    tile.arena == 0 && tile.body.iter().all(|stmt| matches!(stmt, Stmt::Map(map) if map.dims.is_empty()))
}

/// A kernel of maps that have no dimension, with `blocks` blocks of rows as one. All of them are in buffers, which have
/// room for whole lane vectors.
fn widened(tile: &Tile, blocks: usize) -> Option<Tile> {
    let wide = |view: &View| {
        let stride = if view.lanes == Lanes::Unit { LANES } else { 0 };
        View { strides: vec![stride], ..view.clone() }
    };
    let body = tile.body.iter().map(|stmt| match stmt {
        Stmt::Map(map) if widens(tile) => Some(Stmt::Map(Map {
            dims: vec![blocks],
            loads: map.loads.iter().map(wide).collect(),
            code: map.code.clone(),
            stores: map.stores.iter().map(|s| Store { to: wide(&s.to), ..s.clone() }).collect(),
        })),
        _ => None,
    });
    Some(Tile { body: body.collect::<Option<_>>()?, ..tile.clone() })
}

fn has_gemm(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::Gemm(_) => true,
        Stmt::Loop { body, .. } => has_gemm(body),
        _ => false,
    })
}

fn needs(body: &[Code]) -> MapNeeds {
    body.iter().fold(MapNeeds::default(), |all, code| match code {
        Code::Map(map) => all.max(map.needs()),
        Code::Loop { body, .. } => all.max(needs(body)),
        _ => all,
    })
}

fn sorted(body: &[Code]) -> usize {
    let of = |code: &Code| match code {
        Code::Sort(sort) => sort.n,
        Code::Loop { body, .. } => sorted(body),
        _ => 0,
    };
    body.iter().map(of).max().unwrap_or(0)
}

/// A product with weights.
#[derive(Debug)]
struct GemmCode {
    n: usize,
    k: usize,
    src: Place,
    weight: Place,
    bias: Option<Place>,
    dst: Place,
    /// Offsets of src, weight, bias, dst.
    batch: Vec<[usize; 4]>,
    /// Offsets of src, dst.
    m: Vec<[usize; 2]>,
    src_step: usize,
    bias_step: usize,
    dst_step: usize,
    accumulate: bool,
}

impl GemmCode {
    fn new(gemm: &Gemm, tile: &Tile) -> GemmCode {
        let (nb, nm) = (gemm.batch.len(), gemm.m.len());
        let [src, weight, dst] = [&gemm.src, &gemm.weight, &gemm.dst].map(Place::strides);
        let bias = gemm.bias.as_ref().map_or(vec![0; nb + 1], Place::strides);
        let batch = [&src, &weight, &bias, &dst].map(|s| s[..nb].to_vec());
        let m = [&src, &dst].map(|s| s[nb..nb + nm].to_vec());
        GemmCode {
            n: gemm.n,
            k: gemm.k,
            src: Place::new(&gemm.src, Some(tile)),
            weight: Place::new(&gemm.weight, Some(tile)),
            bias: gemm.bias.as_ref().map(|bias| Place::new(bias, Some(tile))),
            dst: Place::new(&gemm.dst, Some(tile)),
            batch: Walk::new(&gemm.batch, batch).offsets(),
            m: Walk::new(&gemm.m, m).offsets(),
            src_step: src[nb + nm],
            bias_step: bias[nb],
            dst_step: dst[nb + nm],
            accumulate: gemm.accumulate,
        }
    }

    /// Every panel of weights with all that the item's rows multiply by it, before the next one.
    ///
    /// # Safety
    /// That of [`TileCode::run`].
    unsafe fn run(&self, blocks: Blocks, worker: &Worker, kernels: &Kernels) {
        let mut at = [(std::ptr::null_mut(), std::ptr::null_mut()); TOGETHER];
        for first in (0..blocks.count).step_by(TOGETHER) {
            let count = TOGETHER.min(blocks.count - first);
            let blocks = blocks.each().skip(first);
            at.iter_mut().zip(blocks).for_each(|(at, block)| *at = (self.src.at(worker, block), self.dst.at(worker, block)));
            // SAFETY: the caller's contract.
            unsafe { self.together(&at[..count], worker, kernels) };
        }
    }

    /// Blocks by where their inputs and outputs are.
    ///
    /// # Safety
    /// That of [`TileCode::run`].
    unsafe fn together(&self, blocks: &[(*mut f32, *mut f32)], worker: &Worker, kernels: &Kernels) {
        // Weights and biases are the same for all rows.
        let weight = self.weight.at(worker, WHOLE);
        let bias = self.bias.as_ref().map(|bias| bias.at(worker, WHOLE));
        // What has one list of inputs takes all panels at once.
        let outputs = if blocks.len() * self.m.len() == 1 { self.n.max(1) } else { kernels.together };
        for [src_at, weight_at, bias_at, dst_at] in &self.batch {
            for first in (0..self.n).step_by(outputs) {
                let mut panels = Panels {
                    k: self.k,
                    outputs: outputs.min(self.n - first),
                    src: std::ptr::null(),
                    src_step: self.src_step,
                    weight: weight.wrapping_add(weight_at + packed_len(first, self.k)),
                    bias: bias.map_or(std::ptr::null(), |bias| bias.wrapping_add(bias_at + first * self.bias_step)),
                    bias_step: self.bias_step,
                    dst: std::ptr::null_mut(),
                    dst_step: self.dst_step,
                    accumulate: self.accumulate,
                };
                for (src, dst) in blocks {
                    for [src_m, dst_m] in &self.m {
                        panels.src = src.wrapping_add(src_at + src_m);
                        panels.dst = dst.wrapping_add(dst_at + first * self.dst_step + dst_m);
                        // SAFETY: the caller's contract; these are the statement's views.
                        unsafe { (kernels.panels)(&panels) };
                    }
                }
            }
        }
    }
}

/// Where the rows of a block are, from the view's address on.
#[derive(Debug)]
enum RowOffsets {
    Unit,
    Splat,
    /// Sizes and strides of the tile's row axes.
    Strided(Vec<(usize, usize)>),
}

impl RowOffsets {
    fn new(view: &View, tile: &Tile) -> RowOffsets {
        match &view.lanes {
            Lanes::Unit => RowOffsets::Unit,
            Lanes::Splat => RowOffsets::Splat,
            Lanes::Strided(strides) => RowOffsets::Strided(tile.rows.iter().copied().zip(strides.iter().copied()).collect()),
        }
    }

    fn of(&self, block: Block) -> [usize; LANES] {
        match self {
            RowOffsets::Unit => std::array::from_fn(|lane| lane),
            RowOffsets::Splat => [0; LANES],
            RowOffsets::Strided(axes) => std::array::from_fn(|lane| {
                let mut row = block.first_row + lane.min(block.lanes - 1);
                let mut offset = 0;
                for (size, stride) in axes.iter().rev() {
                    offset += row % size * stride;
                    row /= size;
                }
                offset
            }),
        }
    }
}

#[derive(Debug)]
struct CopyCode {
    from: Place,
    from_rows: RowOffsets,
    to: Place,
    to_rows: RowOffsets,
    /// Offsets of from, to.
    walk: Walk<2>,
    /// How far the next step of the loop around is from this one, in what has a line of the cache for each row.
    ahead: Option<isize>,
}

impl CopyCode {
    fn new(copy: &kernel::Copy, tile: &Tile, around: Option<(LoopId, bool)>) -> CopyCode {
        let strided = [&copy.from, &copy.to].into_iter().find(|view| matches!(view.lanes, Lanes::Strided(_)));
        let ahead = strided.zip(around).and_then(|(view, (id, reverse))| {
            let (_, step) = view.loops.iter().find(|(of, _)| *of == id)?;
            Some(if reverse { -(*step as isize) } else { *step as isize })
        });
        CopyCode {
            ahead,
            from: Place::new(&copy.from, Some(tile)),
            from_rows: RowOffsets::new(&copy.from, tile),
            to: Place::new(&copy.to, Some(tile)),
            to_rows: RowOffsets::new(&copy.to, tile),
            walk: Walk::new(&copy.dims, [&copy.from, &copy.to].map(Place::strides)),
        }
    }

    /// # Safety
    /// That of [`TileCode::run`].
    unsafe fn run(&self, worker: &Worker, block: Block, kernels: &Kernels) {
        let (from, to) = (self.from.at(worker, block), self.to.at(worker, block));
        let (from_rows, to_rows) = (self.from_rows.of(block), self.to_rows.of(block));
        // A local has places for all lanes; elsewhere what is behind the last row is not ours.
        let local = !self.to.has_rows() && matches!(self.to_rows, RowOffsets::Unit);
        let (outer, inner, [from_step, to_step]) = self.walk.inner();
        // Rows that have their entries side by side become entries that have their rows side by side, or the other way round.
        let turns = match (&self.from_rows, &self.to_rows) {
            (RowOffsets::Strided(_), RowOffsets::Unit) => from_step == 1,
            (RowOffsets::Unit, RowOffsets::Strided(_)) => to_step == 1,
            _ => false,
        };
        let turned = if turns && block.lanes == LANES { inner - inner % LANES } else { 0 };
        outer.each(|[from_at, to_at]| {
            // SAFETY: entries of the two views, by the caller's contract.
            unsafe {
                let (from, to) = (from.add(from_at), to.add(to_at));
                // Rows are far apart: more streams than the machine sees coming.
                if let Some(ahead) = self.ahead {
                    let (at, rows) = match self.to_rows {
                        RowOffsets::Unit => (from.cast_const(), &from_rows),
                        _ => (to.cast_const(), &to_rows),
                    };
                    for row in rows {
                        let next = at.wrapping_add(*row).wrapping_offset(ahead);
                        (0..turned).step_by(LINE).for_each(|i| micro::prefetch(next.wrapping_add(i)));
                    }
                }
                let together = if turned > 0 && matches!(self.to_rows, RowOffsets::Unit) && to_step == LANES {
                    let rows = from_rows.map(|row| from.wrapping_add(row).cast_const());
                    (kernels.turn)(&rows, &[Segment { list: 0, turned: 0, len: turned }], to);
                    turned
                } else {
                    0
                };
                for first in (together..turned).step_by(LANES) {
                    let (from, to) = (from.add(first * from_step), to.add(first * to_step));
                    match self.to_rows {
                        RowOffsets::Unit => turn(kernels, from, |row| from_rows[row], to, |entry| entry * to_step),
                        _ => turn(kernels, from, |entry| entry * from_step, to, |row| to_rows[row]),
                    }
                }
                // Lanes that are far from each other are gone through one after the other, each for a line of the cache.
                for first in (turned..inner).step_by(LINE) {
                    let count = LINE.min(inner - first);
                    let (from, to) = (from.add(first * from_step), to.add(first * to_step));
                    for lane in 0..block.lanes {
                        let (from, to) = (from.add(from_rows[lane]), to.add(to_rows[lane]));
                        (0..count).for_each(|i| *to.add(i * to_step) = *from.add(i * from_step));
                    }
                    if local {
                        (block.lanes..LANES).for_each(|lane| (0..count).for_each(|i| *to.add(i * to_step + lane) = 0.0));
                    }
                }
            }
        });
    }
}

/// `to[i][j] = from[j][i]`, [`LANES`] times as many numbers; `from_at` and `to_at` say where the lines begin.
///
/// # Safety
/// The lines are good for [`LANES`] numbers, and the machine has the kernels' instruction set.
unsafe fn turn(
    kernels: &Kernels,
    from: *const f32,
    from_at: impl Fn(usize) -> usize,
    to: *mut f32,
    to_at: impl Fn(usize) -> usize,
) {
    let lines = std::array::from_fn(|j| from.wrapping_add(from_at(j)));
    let mut turned = [[0f32; LANES]; LANES];
    // SAFETY: the caller's contract.
    unsafe {
        (kernels.turn)(&lines, &[Segment { list: 0, turned: 0, len: LANES }], turned.as_mut_ptr().cast());
        turned.iter().enumerate().for_each(|(i, line)| *to.add(to_at(i)).cast() = *line);
    }
}

#[derive(Debug)]
struct SortCode {
    n: usize,
    from: Place,
    to: Place,
    steps: [usize; 2],
    walk: Walk<2>,
}

impl SortCode {
    fn new(sort: &Sort, tile: &Tile) -> SortCode {
        let mut strides = [&sort.from, &sort.to].map(Place::strides);
        let steps = std::array::from_fn(|i| strides[i].pop().unwrap_or(0));
        SortCode {
            n: sort.n,
            from: Place::new(&sort.from, Some(tile)),
            to: Place::new(&sort.to, Some(tile)),
            steps,
            walk: Walk::new(&sort.dims, strides),
        }
    }

    /// # Safety
    /// That of [`TileCode::run`].
    unsafe fn run(&self, worker: &Worker, block: Block, keys: &mut [(f32, u32)]) {
        let (from, to) = (self.from.at(worker, block), self.to.at(worker, block));
        let keys = &mut keys[..self.n];
        self.walk.each(|[from_at, to_at]| {
            for lane in 0..block.lanes {
                for (i, key) in keys.iter_mut().enumerate() {
                    // SAFETY: an entry of the view, by the caller's contract.
                    *key = (unsafe { *from.add(from_at + i * self.steps[0] + lane) }, i as u32);
                }
                keys.sort_unstable_by(|a, b| {
                    let order = a.0.partial_cmp(&b.0).unwrap_or_else(|| a.0.is_nan().cmp(&b.0.is_nan()));
                    order.then(a.1.cmp(&b.1))
                });
                for (i, (_, place)) in keys.iter().enumerate() {
                    // SAFETY: an entry of the view, by the caller's contract.
                    unsafe { *to.add(to_at + i * self.steps[1] + lane) = *place as f32 };
                }
            }
        });
    }
}

/// The entry that a number names, of `size`: the nearest, halves upwards. None where there is no such entry.
fn place(x: f32, size: usize) -> Option<usize> {
    let below = x as usize;
    let nearest = below.saturating_add(usize::from(x - below as f32 >= 0.5));
    (x >= -0.5 && nearest < size).then_some(nearest)
}

#[derive(Debug)]
struct GatherCode {
    from: Place,
    from_rows: RowOffsets,
    at: Place,
    at_rows: RowOffsets,
    to: Place,
    stride: usize,
    size: usize,
    walk: Walk<3>,
}

impl GatherCode {
    fn new(gather: &Gather, tile: &Tile) -> GatherCode {
        GatherCode {
            from: Place::new(&gather.from, Some(tile)),
            from_rows: RowOffsets::new(&gather.from, tile),
            at: Place::new(&gather.at, Some(tile)),
            at_rows: RowOffsets::new(&gather.at, tile),
            to: Place::new(&gather.to, Some(tile)),
            stride: gather.stride * Place::unit(&gather.from),
            size: gather.size,
            walk: Walk::new(&gather.dims, [&gather.from, &gather.at, &gather.to].map(Place::strides)),
        }
    }

    /// # Safety
    /// That of [`TileCode::run`].
    unsafe fn run(&self, worker: &Worker, block: Block) {
        let [from, at, to] = [&self.from, &self.at, &self.to].map(|place| place.at(worker, block));
        let (from_rows, at_rows) = (self.from_rows.of(block), self.at_rows.of(block));
        self.walk.each(|[from_at, at_at, to_at]| {
            for lane in 0..block.lanes {
                // SAFETY: entries of the views, by the caller's contract; the place is one of the axis.
                unsafe {
                    let place = place(*at.add(at_at + at_rows[lane]), self.size);
                    *to.add(to_at + lane) = match place {
                        Some(place) => *from.add(from_at + from_rows[lane] + place * self.stride),
                        None => f32::NAN,
                    };
                }
            }
        });
    }
}

#[derive(Debug)]
struct ScatterCode {
    from: Place,
    from_rows: RowOffsets,
    at: Place,
    at_rows: RowOffsets,
    to: Place,
    stride: usize,
    size: usize,
    walk: Walk<3>,
}

impl ScatterCode {
    fn new(scatter: &Scatter, tile: &Tile) -> ScatterCode {
        ScatterCode {
            from: Place::new(&scatter.from, Some(tile)),
            from_rows: RowOffsets::new(&scatter.from, tile),
            at: Place::new(&scatter.at, Some(tile)),
            at_rows: RowOffsets::new(&scatter.at, tile),
            to: Place::new(&scatter.to, Some(tile)),
            stride: scatter.stride * Place::unit(&scatter.to),
            size: scatter.size,
            walk: Walk::new(&scatter.dims, [&scatter.from, &scatter.at, &scatter.to].map(Place::strides)),
        }
    }

    /// # Safety
    /// That of [`TileCode::run`].
    unsafe fn run(&self, worker: &Worker, block: Block) {
        let [from, at, to] = [&self.from, &self.at, &self.to].map(|place| place.at(worker, block));
        let (from_rows, at_rows) = (self.from_rows.of(block), self.at_rows.of(block));
        self.walk.each(|[from_at, at_at, to_at]| {
            for lane in 0..block.lanes {
                // SAFETY: entries of the views, by the caller's contract; the place is one of the axis.
                unsafe {
                    if let Some(place) = place(*at.add(at_at + at_rows[lane]), self.size) {
                        *to.add(to_at + lane + place * self.stride) += *from.add(from_at + from_rows[lane]);
                    }
                }
            }
        });
    }
}
