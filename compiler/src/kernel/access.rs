//! What a statement or a kernel touches: one table for all that asks, whatever the statement.

use std::collections::BTreeSet;

use super::{Base, BufferId, Contract, Gemm, Kernel, Mode, Pack, Program, Step, Stmt, Tile, View, Work, packed_len};

/// What happens to the entries of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Read,
    Write,
    /// Read and written: what is added up on top of what was there.
    Update,
}

impl Role {
    pub fn reads(self) -> bool {
        matches!(self, Role::Read | Role::Update)
    }

    pub fn writes(self) -> bool {
        matches!(self, Role::Write | Role::Update)
    }
}

/// The lanes that an operand may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    Unit,
    Splat,
    UnitOrSplat,
    UnitOrStrided,
    Any,
}

/// One operand of a statement.
#[derive(Debug, Clone)]
pub struct Access<'a> {
    pub name: String,
    pub view: &'a View,
    /// The dimensions that `view.strides` goes through.
    pub dims: Vec<usize>,
    /// Entries beyond these dimensions: how many, and how far apart. A place along an axis, a packed weight.
    pub beyond: Option<(usize, usize)>,
    pub role: Role,
    pub allowed: Allowed,
    /// Written in whole lane vectors, so that rows past the last are written too, with anything.
    pub whole: bool,
    /// Dimensions with the stride 0 are reduced: entries meet on purpose.
    pub reduces: bool,
    /// An entry is done with before the next one is touched: what is written may lie in place of what is read.
    pub entrywise: bool,
}

impl<'a> Access<'a> {
    fn new(name: impl Into<String>, role: Role, allowed: Allowed, view: &'a View, dims: &[&[usize]]) -> Access<'a> {
        let whole = role.writes() && allowed == Allowed::Unit;
        let name = name.into();
        let dims = dims.concat();
        Access { name, view, dims, beyond: None, role, allowed, whole, reduces: false, entrywise: false }
    }

    /// Likewise, with entries beyond the dimensions.
    fn with(self, beyond: (usize, usize)) -> Access<'a> {
        Access { beyond: Some(beyond), ..self }
    }

    /// Whether the entries of the two are at the same places, one by one.
    pub fn same_places(&self, other: &Access<'_>) -> bool {
        let strides = |a: &Access<'_>| -> Vec<usize> {
            a.dims.iter().zip(&a.view.strides).filter(|(size, _)| **size > 1).map(|(_, stride)| *stride).collect()
        };
        let rest = |view: &View| (view.base, view.offset, view.loops.clone(), view.lanes.clone());
        rest(self.view) == rest(other.view) && self.dims == other.dims && strides(self) == strides(other)
    }

    pub fn buffer(&self) -> Option<BufferId> {
        match self.view.base {
            Base::Buffer(id) => Some(id),
            Base::Local(_) => None,
        }
    }
}

impl Stmt {
    pub fn name(&self) -> &'static str {
        match self {
            Stmt::Map(_) => "map",
            Stmt::Gemm(_) => "gemm",
            Stmt::Copy(_) => "copy",
            Stmt::Sort(_) => "sort",
            Stmt::Gather(_) => "gather",
            Stmt::Scatter(_) => "scatter",
            Stmt::Loop { .. } => "loop",
        }
    }

    /// What it touches itself, reads first; of a loop nothing, that is its body's.
    pub fn accesses(&self) -> Vec<Access<'_>> {
        use Allowed::{Any, Unit, UnitOrSplat, UnitOrStrided};
        use Role::{Read, Update, Write};
        match self {
            Stmt::Map(map) => {
                let loads = map.loads.iter().enumerate();
                let loads = loads.map(|(i, view)| Access {
                    entrywise: true,
                    ..Access::new(format!("load {i}"), Read, UnitOrSplat, view, &[&map.dims])
                });
                let stores = map.stores.iter().enumerate().map(|(i, store)| Access {
                    reduces: store.mode != Mode::Set,
                    entrywise: store.mode == Mode::Set,
                    ..Access::new(format!("store {i}"), Write, Unit, &store.to, &[&map.dims])
                });
                loads.chain(stores).collect()
            }
            Stmt::Gemm(gemm) => gemm.accesses(),
            Stmt::Copy(copy) => vec![
                Access::new("from", Read, Any, &copy.from, &[&copy.dims]),
                Access::new("to", Write, UnitOrStrided, &copy.to, &[&copy.dims]),
            ],
            Stmt::Sort(sort) => vec![
                Access::new("from", Read, Unit, &sort.from, &[&sort.dims, &[sort.n]]),
                Access::new("to", Write, Unit, &sort.to, &[&sort.dims, &[sort.n]]),
            ],
            Stmt::Gather(gather) => vec![
                Access::new("from", Read, Any, &gather.from, &[&gather.dims]).with((gather.size, gather.stride)),
                Access::new("at", Read, UnitOrSplat, &gather.at, &[&gather.dims]),
                Access::new("to", Write, Unit, &gather.to, &[&gather.dims]),
            ],
            Stmt::Scatter(scatter) => vec![
                Access::new("from", Read, UnitOrSplat, &scatter.from, &[&scatter.dims]),
                Access::new("at", Read, UnitOrSplat, &scatter.at, &[&scatter.dims]),
                Access {
                    // Every row has a place of its own; those past the last have none.
                    whole: false,
                    reduces: true,
                    ..Access::new("to", Update, Unit, &scatter.to, &[&scatter.dims]).with((scatter.size, scatter.stride))
                },
            ],
            Stmt::Loop { .. } => Vec::new(),
        }
    }
}

impl Stmt {
    /// Calls `f` with this statement and, of a loop, with all inside.
    pub fn each<'a>(&'a self, f: &mut dyn FnMut(&'a Stmt)) {
        f(self);
        if let Stmt::Loop { body, .. } = self {
            body.iter().for_each(|stmt| stmt.each(f));
        }
    }

    /// Calls `f` with all views, those of a loop's body among them.
    pub fn each_view_mut(&mut self, f: &mut dyn FnMut(&mut View)) {
        match self {
            Stmt::Map(m) => m.loads.iter_mut().chain(m.stores.iter_mut().map(|s| &mut s.to)).for_each(f),
            Stmt::Gemm(g) => {
                [&mut g.src, &mut g.weight].into_iter().chain(&mut g.bias).chain([&mut g.dst]).for_each(f);
            }
            Stmt::Copy(c) => [&mut c.from, &mut c.to].into_iter().for_each(f),
            Stmt::Sort(s) => [&mut s.from, &mut s.to].into_iter().for_each(f),
            Stmt::Gather(g) => [&mut g.from, &mut g.at, &mut g.to].into_iter().for_each(f),
            Stmt::Scatter(s) => [&mut s.from, &mut s.at, &mut s.to].into_iter().for_each(f),
            Stmt::Loop { body, .. } => body.iter_mut().for_each(|stmt| stmt.each_view_mut(f)),
        }
    }
}

impl Tile {
    /// Calls `f` with all statements in order, loops before what is inside of them.
    pub fn each_stmt<'a>(&'a self, f: &mut dyn FnMut(&'a Stmt)) {
        self.body.iter().for_each(|stmt| stmt.each(f));
    }
}

impl Program {
    /// Calls `f` with all kernels, those of `prepare` first.
    pub fn each_kernel<'a>(&'a self, f: &mut dyn FnMut(&'a Kernel)) {
        fn walk<'a>(steps: &'a [Step], f: &mut dyn FnMut(&'a Kernel)) {
            for step in steps {
                match step {
                    Step::Launch(kernels) => kernels.iter().for_each(&mut *f),
                    Step::Loop { body, .. } => walk(body, f),
                    Step::Swap(..) => {}
                }
            }
        }
        walk(&self.prepare, f);
        walk(&self.steps, f);
    }

    /// Likewise, to be changed.
    pub fn each_kernel_mut(&mut self, f: &mut dyn FnMut(&mut Kernel)) {
        fn walk(steps: &mut [Step], f: &mut dyn FnMut(&mut Kernel)) {
            for step in steps {
                match step {
                    Step::Launch(kernels) => kernels.iter_mut().for_each(&mut *f),
                    Step::Loop { body, .. } => walk(body, f),
                    Step::Swap(..) => {}
                }
            }
        }
        walk(&mut self.prepare, f);
        walk(&mut self.steps, f);
    }
}

impl Gemm {
    fn accesses(&self) -> Vec<Access<'_>> {
        use Allowed::{Splat, Unit};
        let (batch, m, n, k) = (&self.batch[..], &self.m[..], &[self.n][..], &[self.k][..]);
        let weight = Access::new("weight", Role::Read, Splat, &self.weight, &[batch]);
        let role = if self.accumulate { Role::Update } else { Role::Write };
        let mut list =
            vec![Access::new("src", Role::Read, Unit, &self.src, &[batch, m, k]), weight.with((packed_len(self.n, self.k), 1))];
        list.extend(self.bias.iter().map(|bias| Access::new("bias", Role::Read, Splat, bias, &[batch, n])));
        list.push(Access::new("dst", role, Unit, &self.dst, &[batch, m, n]));
        list
    }
}

impl Contract {
    pub fn accesses(&self) -> Vec<Access<'_>> {
        use Allowed::{Splat, Unit};
        let mut list = vec![Access::new("a", Role::Read, Unit, &self.a, &[&self.batch, &self.n, &self.k])];
        list.extend(self.b.iter().map(|b| Access::new("b", Role::Read, Unit, b, &[&self.batch, &self.i, &self.k])));
        list.push(Access::new("dst", Role::Write, Splat, &self.dst, &[&self.batch, &self.n, &self.i]));
        list
    }
}

impl Pack {
    pub fn from_access(&self) -> Access<'_> {
        Access::new("from", Role::Read, Allowed::Splat, &self.from, &[&self.batch, &[self.n], &self.k])
    }

    /// Numbers that it writes, from the start of its buffer.
    pub fn len(&self) -> usize {
        let product = |dims: &[usize]| dims.iter().product::<usize>();
        product(&self.batch) * packed_len(self.n, product(&self.k))
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Work {
    /// The buffers that it reads.
    pub fn reads(&self) -> BTreeSet<BufferId> {
        self.touched(|role| role.reads())
    }

    /// The buffers that it writes.
    pub fn writes(&self) -> BTreeSet<BufferId> {
        self.touched(|role| role.writes()).into_iter().chain(self.fills()).collect()
    }

    fn touched(&self, how: impl Fn(Role) -> bool) -> BTreeSet<BufferId> {
        fn body(stmts: &[Stmt], found: &mut Vec<(BufferId, Role)>) {
            for stmt in stmts {
                found.extend(stmt.accesses().iter().filter_map(|a| Some((a.buffer()?, a.role))));
                if let Stmt::Loop { body: inner, .. } = stmt {
                    body(inner, found);
                }
            }
        }
        let mut found = Vec::new();
        match self {
            Work::Tile(tile) => body(&tile.body, &mut found),
            Work::Contract(c) => found.extend(c.accesses().iter().filter_map(|a| Some((a.buffer()?, a.role)))),
            Work::Pack(pack) => found.extend(pack.from_access().buffer().map(|id| (id, Role::Read))),
            Work::Random(_) => {}
        }
        found.into_iter().filter(|(_, role)| how(*role)).map(|(id, _)| id).collect()
    }

    /// Calls `f` with every buffer that it names, as often as it does.
    pub fn each_buffer_mut(&mut self, f: &mut dyn FnMut(&mut BufferId)) {
        let mut of_view = |view: &mut View| {
            if let Base::Buffer(id) = &mut view.base {
                f(id);
            }
        };
        match self {
            Work::Tile(tile) => tile.body.iter_mut().for_each(|stmt| stmt.each_view_mut(&mut of_view)),
            Work::Contract(c) => [&mut c.a].into_iter().chain(&mut c.b).chain([&mut c.dst]).for_each(of_view),
            Work::Pack(pack) => {
                of_view(&mut pack.from);
                f(&mut pack.to);
            }
            Work::Random(random) => f(&mut random.to),
        }
    }

    /// The buffer that is filled from its start, not by way of a view.
    pub fn fills(&self) -> Option<BufferId> {
        match self {
            Work::Tile(_) | Work::Contract(_) => None,
            Work::Pack(pack) => Some(pack.to),
            Work::Random(random) => Some(random.to),
        }
    }
}

/// All indices over dimensions, the last moving fastest.
pub(super) fn indices(dims: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    let first = (!dims.contains(&0)).then(|| vec![0; dims.len()]);
    std::iter::successors(first, |index| {
        let d = (0..dims.len()).rev().find(|d| index[*d] + 1 < dims[*d])?;
        let mut next = index.clone();
        next[d] += 1;
        next[d + 1..].fill(0);
        Some(next)
    })
}
