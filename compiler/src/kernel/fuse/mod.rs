//! From graph program to kernel program.
//!
//! | step | |
//! |---|---|
//! | `dims` | which axes of which values are the same rows |
//! | `partition` | which nodes make one kernel, at each level |
//! | `host` | the steps of a graph: kernels, loops of steps, buffers between them |
//! | `launches` | kernels that can be called for together |
//! | `tile` | the statements of a row-parallel kernel |
//! | `loops` | loops over time inside of it |
//! | `open` | elementwise work fused into maps |
//! | `product` | products with weights, and the packing of weights |
//! | `inward` | large work into the loop that it is for |
//! | `locals` | places for what a tile holds |
//!
//! The three levels differ in what `partition` lets into one kernel and in nothing else, so that they compute the same.

pub(crate) mod dims;
mod host;
mod inward;
mod launches;
mod locals;
mod loops;
mod open;
mod order;
mod partition;
mod product;
mod shape;
mod spot;
mod tile;

use std::collections::{BTreeMap, HashMap};

use dsl::source::Span;
use serde::{Deserialize, Serialize};

use self::dims::{Class, Dims, ROOT};
use self::spot::{Affine, At, Spot};
use super::{Base, Buffer, BufferId, BufferKind, Kernel, LoopId, Program, Target};
use crate::ir::{self, AxisId, Role};
use crate::memory::{self, TooLarge};
use crate::pass::Broken;
use crate::prepare::prepare;
use crate::stage::Simplified;

/// How much goes into one kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// An operation a kernel.
    Eager,
    /// Elementwise chains, reductions, and what follows a product.
    Fused,
    /// Row-parallel regions, loops over time included.
    #[default]
    Mega,
}

impl Level {
    pub const ALL: [Level; 3] = [Level::Eager, Level::Fused, Level::Mega];

    pub fn name(self) -> &'static str {
        match self {
            Level::Eager => "eager",
            Level::Fused => "fused",
            Level::Mega => "mega",
        }
    }
}

/// The axes that a kernel's rows are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rows {
    /// The axes of these classes, whatever their names.
    Classes(Vec<Class>),
    Axes(Vec<AxisId>),
}

/// Why there are no kernels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FuseError {
    /// A fault of the compiler, told instead of a panic.
    #[error("cannot make kernels of `{program}`: {what}")]
    Fault { program: String, what: String },
    #[error(transparent)]
    Pass(#[from] Broken),
    /// Numbers that are known when compiling do not fit into memory.
    #[error(transparent)]
    TooLarge(#[from] Box<TooLarge>),
}

/// Makes kernels of a graph program for a target.
pub fn fuse(program: &Simplified, target: &Target, level: Level) -> std::result::Result<Program, FuseError> {
    let ready = prepare(program, target, level)?;
    let program: &ir::Program = &ready;
    let dims = Dims::new(program);
    let mut fuser = Fuser {
        program,
        target,
        dims,
        level,
        buffers: Vec::new(),
        origins: BTreeMap::new(),
        loops: Vec::new(),
        packs: HashMap::new(),
        packing: Vec::new(),
        prepared_packing: Vec::new(),
        numbers: HashMap::new(),
        too_large: None,
    };
    let made = fuser.run();
    if let Some(mut refused) = fuser.too_large.take() {
        // Numbers have no text of their own; what they are for is about as large.
        let origin = memory::largest_value(program, &program.graph).map(|(.., span)| span);
        refused.largest.iter_mut().for_each(|array| array.origin = origin);
        return Err(refused.into());
    }
    made.map_err(|what| FuseError::Fault { program: program.name.clone(), what })
}

pub(crate) struct Fuser<'p> {
    program: &'p ir::Program,
    target: &'p Target,
    dims: Dims,
    level: Level,
    buffers: Vec<Buffer>,
    origins: BTreeMap<BufferId, Span>,
    /// Steps of each loop.
    loops: Vec<usize>,
    /// Packed weights, by where the weight is and how it is used.
    packs: HashMap<product::PackKey, At>,
    /// Kernels that pack weights, to be run before the kernel that is being made.
    packing: Vec<Kernel>,
    prepared_packing: Vec<Kernel>,
    /// Buffers of numbers known when compiled.
    numbers: HashMap<Vec<u32>, BufferId>,
    /// Why such numbers were left out: they do not fit into memory.
    too_large: Option<Box<TooLarge>>,
}

pub(crate) type Result<T> = std::result::Result<T, String>;

impl Fuser<'_> {
    fn run(&mut self) -> Result<Program> {
        let program = self.program;
        let mut inputs = Vec::new();
        let mut spots = Vec::new();
        for input in &program.inputs {
            let id = self.buffer(&input.name, program.len(&input.axes), BufferKind::Input, None);
            inputs.push(id);
            spots.push(Spot::At(At::dense(Base::Buffer(id), program, &input.axes, 1)));
        }
        let mut outputs = Vec::new();
        let mut wanted = Vec::new();
        for (output, v) in program.outputs.iter().zip(&program.graph.results) {
            let axes = program.graph.axes(*v);
            let id = self.buffer(&output.name, program.len(axes), BufferKind::Output, Some(program.graph.node(*v).span));
            outputs.push(id);
            wanted.push(At::dense(Base::Buffer(id), program, axes, 1));
        }
        for node in &program.graph.nodes {
            if let ir::Op::Input(i) = node.op {
                self.origins.insert(inputs[i as usize], node.span);
            }
        }
        let (mut prepare, steps) = host::steps(self, &program.graph, ROOT, &spots, &wanted)?;
        if !self.prepared_packing.is_empty() {
            prepare.push(super::Step::Launch(std::mem::take(&mut self.prepared_packing)));
        }
        let buffers = std::mem::take(&mut self.buffers);
        let origins = std::mem::take(&mut self.origins);
        let (name, draws) = (program.name.clone(), program.draws.clone());
        Ok(Program { name, buffers, inputs, outputs, draws, prepare, steps, origins })
    }

    /// A new buffer. `origin` is the text that it comes from.
    fn buffer(&mut self, name: &str, len: usize, kind: BufferKind, origin: Option<Span>) -> BufferId {
        let id = BufferId(self.buffers.len() as u32);
        self.buffers.push(Buffer { name: name.to_string(), len, kind });
        self.origins.extend(origin.map(|span| (id, span)));
        id
    }

    fn new_loop(&mut self, count: usize) -> LoopId {
        self.loops.push(count);
        LoopId(self.loops.len() as u32 - 1)
    }

    /// Whether a buffer depends on parameters alone.
    fn is_prepared(&self, id: BufferId) -> bool {
        match self.buffers[id.0 as usize].kind {
            BufferKind::Input => {
                let role = self.program.inputs.get(id.0 as usize).map(|i| i.role);
                matches!(role, Some(Role::Param | Role::Slow))
            }
            BufferKind::Kept | BufferKind::Const(_) => true,
            BufferKind::Output | BufferKind::Temp => false,
        }
    }

    /// A buffer of known numbers, along the axes and loops that they depend on.
    fn numbers(&mut self, of: &Affine) -> At {
        let dims: Vec<(usize, f64)> = of
            .axes
            .iter()
            .map(|(a, f)| (self.program.size(*a), *f))
            .chain(of.loops.iter().map(|(l, f)| (self.loops[l.0 as usize], *f)))
            .collect();
        let len = dims.iter().fold(1u64, |len, (size, _)| len.saturating_mul(*size as u64));
        let array = || vec![memory::Array { name: "numbers".into(), bytes: len.saturating_mul(4), origin: None }];
        // Both precisions, the key and the buffer are there at the same time.
        let room = memory::reserve(&format!("`{}`", self.program.name), len.saturating_mul(24), array);
        let fits = room.map(drop).map_err(|refused| self.too_large = Some(refused)).is_ok();
        let mut data = vec![of.start];
        for (size, factor) in dims.iter().filter(|_| fits) {
            data = data.iter().flat_map(|x| (0..*size).map(move |i| x + factor * i as f64)).collect();
        }
        let data: Vec<f32> = data.into_iter().map(|x| x as f32).collect();
        let key: Vec<u32> = data.iter().map(|x| x.to_bits()).collect();
        let id = match self.numbers.get(&key) {
            Some(id) => *id,
            None => {
                let id = self.buffer("numbers", data.len(), BufferKind::Const(data), None);
                self.numbers.insert(key, id);
                id
            }
        };
        let mut stride = 1;
        let mut strides = vec![0; dims.len()];
        for (i, (size, _)) in dims.iter().enumerate().rev() {
            strides[i] = stride;
            stride *= size;
        }
        let axes = of.axes.iter().zip(&strides).map(|((a, _), s)| (*a, *s)).collect();
        let loops = of.loops.iter().zip(&strides[of.axes.len()..]).map(|((l, _), s)| (*l, *s)).collect();
        At { base: Base::Buffer(id), offset: 0, strides: axes, loops, splat: true }
    }
}
