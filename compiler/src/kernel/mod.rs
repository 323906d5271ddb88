//! The kernel program: what a device runs, without saying which device.
//!
//! Rows (candidates, batch entries) do not talk to each other inside a [`Tile`] kernel: a worker takes [`LANES`] rows at a
//! time and runs the whole body on them, loops over time included. Everything that a row holds is a list of *lane
//! vectors*: one number for each row of the tile. So elementwise work, sums over a row's own axes and products with
//! weights never cross lanes, whatever the axes; what does cross rows is a kernel of its own ([`Contract`]).
//!
//! ```text
//! Program = prepare (what depends on parameters alone), steps
//! Step    = Launch (kernels that do not depend on each other) | Loop of steps | Swap of two buffers
//! Kernel  = Tile (row-parallel statements) | Contract (sums over rows) | Pack (weights for `gemm`) | Random
//! ```
//!
//! Memory is of two kinds: *buffers* of the whole program, arrays of numbers, and *locals* of a tile, arrays of lane
//! vectors that exist once for each worker. A [`View`] says where a statement finds the entries of an operand; slices,
//! renamed, split and joined axes, steps of a loop are views and cost nothing.

pub mod access;
pub mod cost;
pub mod fuse;
mod instr;
pub mod interp;
mod target;
pub mod text;
pub mod verify;

use std::borrow::Cow;
use std::collections::BTreeMap;

use dsl::source::Span;
use serde::{Deserialize, Serialize};

use crate::ir::Noise;

pub use instr::{Binary, Instr, Reg, Unary};
pub use target::{LANES, PANEL, Target};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BufferId(pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LocalId(pub u32);

/// A loop's variable: the index of the step that runs. Numbers are unique in a program, for loops of steps and of tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LoopId(pub u32);

/// One entry point as kernels.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Program {
    pub name: String,
    pub buffers: Vec<Buffer>,
    /// In the order of the graph program's inputs; each row-major, as the input's axes say.
    pub inputs: Vec<BufferId>,
    /// In the order of the graph program's outputs; row-major.
    pub outputs: Vec<BufferId>,
    /// Names of random draws by [`Random::draw`].
    pub draws: Vec<String>,
    /// What depends on parameters alone: to be run when they have changed.
    pub prepare: Vec<Step>,
    pub steps: Vec<Step>,
    /// The text that buffers come from, for messages. It is not part of the program's own text.
    #[serde(skip)]
    pub origins: BTreeMap<BufferId, Span>,
}

/// An array of the whole program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Buffer {
    pub name: String,
    /// Numbers in it. A backend keeps [`LANES`] more behind them, so that reading a whole lane vector stays inside.
    pub len: usize,
    pub kind: BufferKind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum BufferKind {
    /// Given by the caller; no kernel writes it.
    Input,
    /// Read by the caller after a run.
    Output,
    /// Lives from its first writer to its last reader; may share its place with others.
    Temp,
    /// Lives from run to run: packed weights and what else `prepare` makes.
    Kept,
    /// Numbers known when it was compiled.
    Const(Vec<f32>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// Kernels that neither read nor write what another of them writes.
    Launch(Vec<Kernel>),
    Loop {
        id: LoopId,
        count: usize,
        reverse: bool,
        body: Vec<Step>,
    },
    /// The two buffers change places: the next round's carry is what this one computed.
    Swap(BufferId, BufferId),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    pub name: String,
    pub work: Work,
    pub notes: Notes,
}

/// What `wmc explain` says of a kernel beside its work.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Notes {
    /// Operations of the graph program that are in it, with the text they came from.
    pub ops: Vec<(String, Span)>,
    /// Why it ends where it ends.
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "a program has some hundred kernels: boxes would only be in the way")]
pub enum Work {
    Tile(Tile),
    Contract(Contract),
    Pack(Pack),
    Random(Random),
}

/// Statements that every row goes through by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Tile {
    /// Sizes of the axes that make up the rows, outermost first. None: one row.
    pub rows: Vec<usize>,
    pub locals: Vec<Local>,
    /// Lane vectors that the locals need together.
    pub arena: usize,
    pub body: Vec<Stmt>,
}

/// An array of lane vectors of a tile, at its planned place in the worker's arena. Lifetimes that do not meet share
/// places.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Local {
    pub len: usize,
    pub offset: usize,
}

/// Where the entries of an operand are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct View {
    pub base: Base,
    /// In lane vectors for a local, in numbers for a buffer; so are the strides.
    pub offset: usize,
    /// Distance between neighbours along each dimension of the statement; 0 where the operand does not have it.
    pub strides: Vec<usize>,
    /// Distance for each step of the loops around that move it.
    pub loops: Vec<(LoopId, usize)>,
    pub lanes: Lanes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Base {
    Local(LocalId),
    Buffer(BufferId),
}

/// How the rows of an operand lie.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Lanes {
    /// Side by side: all locals; of a buffer, row r is r numbers further.
    Unit,
    /// One number for all rows. Buffers only.
    Splat,
    /// A stride for each of the tile's row axes. Buffers only, in `copy` and `gather`.
    Strided(Vec<usize>),
}

impl Lanes {
    /// How much further than the first row a row is, of rows along axes of these sizes.
    pub fn row(&self, rows: &[usize], row: usize) -> usize {
        match self {
            Lanes::Unit => row,
            Lanes::Splat => 0,
            Lanes::Strided(strides) => {
                let axes = rows.iter().zip(strides).rev();
                axes.fold((0, row), |(at, left), (size, stride)| (at + left % size * stride, left / size)).0
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stmt {
    Map(Map),
    Gemm(Gemm),
    Copy(Copy),
    Sort(Sort),
    Gather(Gather),
    Scatter(Scatter),
    Loop { id: LoopId, count: usize, reverse: bool, body: Vec<Stmt> },
}

/// Fused elementwise work over `dims`, with sums and maxima of its values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Map {
    /// Outermost first; none: one entry.
    pub dims: Vec<usize>,
    /// Unit or splat.
    pub loads: Vec<View>,
    /// Instruction i computes register i.
    pub code: Vec<Instr>,
    /// Unit. What is written in place of a load has the very view of the load; else nothing that is written is read.
    pub stores: Vec<Store>,
}

impl Map {
    /// The same work as maps that have entries: where a dimension has none, sums and maxima only begin.
    pub fn with_entries(&self) -> Cow<'_, [Map]> {
        if !self.dims.contains(&0) {
            return Cow::Borrowed(std::slice::from_ref(self));
        }
        let begun = |store: &Store| {
            let start = match store.mode {
                Mode::Set => return None,
                Mode::Sum => 0.0,
                Mode::Max => f32::NEG_INFINITY,
            };
            let kept: Vec<usize> = (0..self.dims.len()).filter(|d| store.to.strides[*d] > 0 || self.dims[*d] > 0).collect();
            let to = View { strides: kept.iter().map(|d| store.to.strides[*d]).collect(), ..store.to.clone() };
            let dims: Vec<usize> = kept.iter().map(|d| self.dims[*d]).collect();
            let stores = vec![Store { to, value: Reg(0), mode: Mode::Max }];
            (!dims.contains(&0)).then(|| Map { dims, loads: Vec::new(), code: vec![Instr::Const(start)], stores })
        };
        Cow::Owned(self.stores.iter().filter_map(begun).collect())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Store {
    pub to: View,
    pub value: Reg,
    pub mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    Set,
    /// Along dimensions where `to` has the stride 0 the values are added up; what was there before does not count.
    Sum,
    /// Likewise, the largest (NaN if one is NaN).
    Max,
}

/// `dst[b, m, n] = bias[b, n] + sum over k of src[b, m, k] weight[b, n, k]`, for every row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Gemm {
    /// Dimensions with a weight each (an ensemble's).
    pub batch: Vec<usize>,
    /// Dimensions of the rows that share the weight (time).
    pub m: Vec<usize>,
    pub n: usize,
    pub k: usize,
    /// Over batch, m, k; unit.
    pub src: View,
    /// Over batch; a packed buffer.
    pub weight: View,
    /// Over batch, n; splat.
    pub bias: Option<View>,
    /// Over batch, m, n; unit. Nothing else of the statement overlaps it.
    pub dst: View,
    /// Adds to what `dst` holds.
    pub accumulate: bool,
}

/// Moves entries between any two layouts. Rows past the last are read as zero and not written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Copy {
    pub dims: Vec<usize>,
    pub from: View,
    pub to: View,
}

/// For every entry of `dims` and every row: places 0..n in the order that sorts, ascending, ties by place, NaN last.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sort {
    pub dims: Vec<usize>,
    pub n: usize,
    /// Over dims, n; unit.
    pub from: View,
    /// Over dims, n; unit.
    pub to: View,
}

/// `to[d] = from[d, at[d]]`: the place along an axis of `size` entries, `stride` apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Gather {
    pub dims: Vec<usize>,
    /// Over dims; any lanes.
    pub from: View,
    pub stride: usize,
    pub size: usize,
    /// Over dims; unit or splat.
    pub at: View,
    /// Over dims; unit.
    pub to: View,
}

/// `to[d, at[d]] += from[d]`: entries that meet are added up, in order of `dims`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scatter {
    pub dims: Vec<usize>,
    /// Over dims; unit or splat.
    pub from: View,
    /// Over dims; unit or splat.
    pub at: View,
    /// Over dims; unit.
    pub to: View,
    pub stride: usize,
    pub size: usize,
}

/// `dst[b, n, i] = sum over k and rows of a[b, n, k, row] b[b, i, k, row]`; without `b`, the sum of a.
/// The order of the sum does not depend on the number of workers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Contract {
    pub rows: usize,
    pub batch: Vec<usize>,
    pub n: Vec<usize>,
    pub i: Vec<usize>,
    pub k: Vec<usize>,
    /// Over batch, n, k; a buffer, unit.
    pub a: View,
    /// Over batch, i, k; a buffer, unit.
    pub b: Option<View>,
    /// Over batch, n, i; a buffer, splat.
    pub dst: View,
}

/// Packs weights for [`Gemm`]: for every batch entry, panels of [`PANEL`] outputs, `[panel][k][PANEL]`, the last filled up
/// with zeros: `ceil(n / PANEL) * PANEL * k` numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pack {
    pub batch: Vec<usize>,
    pub n: usize,
    /// The dimensions that the product sums over, flattened row-major in the packed weight.
    pub k: Vec<usize>,
    /// Over batch, n, k; a buffer, splat.
    pub from: View,
    pub to: BufferId,
}

/// Fills a buffer with a draw's numbers, in storage order, as [`crate::random`] says.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Random {
    /// Index into [`Program::draws`].
    pub draw: u32,
    pub noise: Noise,
    /// Of a subset: entries of one permutation.
    pub last: usize,
    pub to: BufferId,
}

impl Program {
    /// Buffers whose numbers were known when it was compiled.
    pub fn constants(&self) -> Vec<(BufferId, Vec<f32>)> {
        let constant = |(buffer, id): (&Buffer, u32)| match &buffer.kind {
            BufferKind::Const(numbers) => Some((BufferId(id), numbers.clone())),
            _ => None,
        };
        self.buffers.iter().zip(0..).filter_map(constant).collect()
    }
}

/// Numbers that one packed weight takes.
pub fn packed_len(n: usize, k: usize) -> usize {
    n.div_ceil(PANEL) * PANEL * k
}

impl Tile {
    pub fn row_count(&self) -> usize {
        self.rows.iter().product()
    }
}
