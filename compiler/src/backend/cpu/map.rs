//! Elementwise work: a map's instructions as strip operations.
//!
//! The innermost dimension is cut into strips of [`STRIP`] lane vectors; each operation runs over the strip before the
//! next one starts, so that what it costs to decode it is paid once a strip, and what it leaves stays in the first-level
//! cache. Operands are read where they are and the last operation before a store writes to its place.

use crate::kernel::{Binary, Instr, LANES, Lanes, Map, Mode, Reg, Store, Tile, Unary, View};

use super::Target;
use super::jit::{Entry, Moves};
use super::memory::Memory;
use super::place::{Block, Place, Worker};
use micro::kernels::Op;
use micro::strip::{Arg, Decay, DecayFn, StripFn};

/// Lane vectors of a strip.
pub(super) const STRIP: usize = 16;

/// A map, ready to run.
#[derive(Debug)]
pub(super) struct MapCode {
    /// Sizes of the outer dimensions, outermost first; of the one around the innermost, and of the innermost.
    outer: Vec<usize>,
    middle: usize,
    inner: usize,
    /// Loads, then stores.
    views: Vec<ViewCode>,
    constants: Vec<f32>,
    /// Strips of intermediate values.
    temporaries: usize,
    code: Vec<OpCode>,
    /// The innermost dimension as machine code.
    entry: Option<Entry>,
}

#[derive(Debug)]
struct ViewCode {
    place: Place,
    /// Steps along the dimensions.
    outer: Vec<usize>,
    middle: usize,
    inner: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Load,
    Set,
    /// Begins with a number wherever all dimensions that it does not have are at their first entry.
    Fold(f32),
}

/// Operands are numbers in the table of arguments: temporaries, then views, then constants.
#[derive(Debug)]
enum OpCode {
    Strip { run: StripFn, to: usize, from: [usize; 3] },
    Decay { run: DecayFn, args: Decay<usize> },
}

/// What the worker keeps for maps, large enough for any of its program's.
#[derive(Debug)]
pub(super) struct Scratch {
    strips: Memory,
    args: Vec<Arg>,
    index: Vec<usize>,
}

/// How much of it, by field.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MapNeeds {
    strips: usize,
    args: usize,
    index: usize,
}

impl MapNeeds {
    pub(super) fn max(self, other: MapNeeds) -> MapNeeds {
        MapNeeds { strips: self.strips.max(other.strips), args: self.args.max(other.args), index: self.index.max(other.index) }
    }
}

impl MapNeeds {
    /// Numbers that the strips take.
    pub(super) fn numbers(self) -> usize {
        self.strips.saturating_mul(STRIP * LANES)
    }
}

impl Scratch {
    pub(super) fn new(needs: MapNeeds) -> Result<Scratch, String> {
        let none = Arg { at: std::ptr::null_mut(), step: 0 };
        Ok(Scratch { strips: Memory::new(needs.numbers())?, args: vec![none; needs.args], index: vec![0; needs.index] })
    }

    pub(super) fn bytes(&self) -> usize {
        self.strips.bytes()
    }
}

impl MapCode {
    pub(super) fn needs(&self) -> MapNeeds {
        let args = self.temporaries + self.views.len() + self.constants.len();
        MapNeeds { strips: self.temporaries, args, index: self.outer.len() }
    }

    /// # Safety
    /// The views are inside their buffers and locals for this block; the machine has the kernels' instruction set;
    /// nobody else writes what is read or touches what is written; `scratch` fits.
    pub(super) unsafe fn run(&self, worker: &Worker, block: Block, scratch: &mut Scratch) {
        let Scratch { strips, args, index } = scratch;
        let (temporaries, views) = (self.temporaries, self.views.len());
        for (i, arg) in args[..temporaries].iter_mut().enumerate() {
            *arg = Arg { at: strips.at().wrapping_add(i * STRIP * LANES), step: LANES };
        }
        for (arg, view) in args[temporaries..].iter_mut().zip(&self.views) {
            *arg = Arg { at: view.place.at(worker, block), step: view.inner };
        }
        for (arg, constant) in args[temporaries + views..].iter_mut().zip(&self.constants) {
            *arg = Arg { at: std::ptr::from_ref(constant).cast_mut(), step: 0 };
        }
        let index = &mut index[..self.outer.len()];
        index.fill(0);
        let run = self.entry.and_then(|entry| worker.text.run(entry));
        loop {
            for middle in 0..self.middle {
                // SAFETY: the caller's contract.
                unsafe { self.begin_folds(&args[temporaries..], index, middle) };
                if let Some(run) = run {
                    if self.inner > 0 {
                        // SAFETY: the views are good for the whole dimension, which is not empty.
                        unsafe { run(args[temporaries..].as_ptr(), self.inner) };
                    }
                    args[temporaries..].iter_mut().zip(&self.views).for_each(|(arg, v)| arg.at = arg.at.wrapping_add(v.middle));
                    continue;
                }
                for start in (0..self.inner).step_by(STRIP) {
                    let n = STRIP.min(self.inner - start);
                    for op in &self.code {
                        // SAFETY: arguments are temporaries of STRIP vectors, entries of views, or constants.
                        unsafe { op.run(n, args) };
                    }
                    args[temporaries..][..views].iter_mut().for_each(|arg| arg.at = arg.at.wrapping_add(n * arg.step));
                }
                for (arg, view) in args[temporaries..].iter_mut().zip(&self.views) {
                    arg.at = arg.at.wrapping_add(view.middle).wrapping_sub(self.inner * arg.step);
                }
            }
            let Some(d) = (0..index.len()).rev().find(|d| index[*d] + 1 < self.outer[*d]) else { return };
            for (arg, view) in args[temporaries..].iter_mut().zip(&self.views) {
                let inside: usize = (d + 1..index.len()).map(|d| view.outer[d] * (self.outer[d] - 1)).sum();
                arg.at = arg.at.wrapping_add(view.outer[d]).wrapping_sub(inside + view.middle * self.middle);
            }
            index[d] += 1;
            index[d + 1..].fill(0);
        }
    }

    /// Sums and maxima begin wherever all dimensions that they do not have are at their first entry.
    ///
    /// # Safety
    /// The arguments are the views' at the start of the innermost dimension.
    unsafe fn begin_folds(&self, args: &[Arg], index: &[usize], middle: usize) {
        for (view, arg) in self.views.iter().zip(args) {
            let Kind::Fold(first) = view.kind else { continue };
            let outer = view.outer.iter().zip(index).all(|(step, i)| *step > 0 || *i == 0);
            if outer && (view.middle > 0 || middle == 0) {
                for j in 0..if view.inner == 0 { 1 } else { self.inner } {
                    // SAFETY: an entry of the view.
                    unsafe { *arg.at.add(j * view.inner).cast::<[f32; LANES]>() = [first; LANES] };
                }
            }
        }
    }
}

impl OpCode {
    /// # Safety
    /// The arguments are good for `n` steps, as the operation's function needs them.
    unsafe fn run(&self, n: usize, args: &[Arg]) {
        // SAFETY: the caller's contract.
        unsafe {
            match self {
                OpCode::Strip { run, to, from } => run(n, args[*to], &from.map(|i| args[i])),
                OpCode::Decay { run, args: decay } => run(n, &decay.map(|i| args[i])),
            }
        }
    }
}

/// Chooses operations and places for a map's instructions.
pub(super) fn compile(map: &Map, tile: &Tile, target: &mut Target) -> MapCode {
    let all: Vec<&View> = map.loads.iter().chain(map.stores.iter().map(|s| &s.to)).collect();
    let (mut sizes, mut strides) = near_inside(merged(&map.dims, &all));
    long_inside(&mut sizes, &mut strides);
    let inner = sizes.pop().unwrap_or(1);
    let middle = sizes.pop().unwrap_or(1);
    let kinds = map.loads.iter().map(|_| Kind::Load).chain(map.stores.iter().map(|s| kind(s, &map.dims)));
    let views: Vec<ViewCode> = all
        .iter()
        .zip(kinds)
        .enumerate()
        .map(|(v, (view, kind))| ViewCode {
            place: Place::new(view, Some(tile)),
            // Without dimensions there is one entry and no next one.
            inner: strides[v].pop().unwrap_or(LANES),
            middle: strides[v].pop().unwrap_or(0),
            outer: std::mem::take(&mut strides[v]),
            kind,
        })
        .collect();
    let moves: Vec<Moves> = views.iter().map(|v| Moves { step: v.inner, folds: matches!(v.kind, Kind::Fold(_)) }).collect();
    let entry = target.jit.compile(map, &moves, inner);
    let kernels = target.kernels;
    let mut emit = Emit::new(map, views);
    emit.emit();
    emit.decays();
    let Emit { views, constants, ops, temporaries, .. } = emit;
    let table = |at: At| match at {
        At::Temporary(i) => i,
        At::View(v) => temporaries + v,
        At::Constant(c) => temporaries + views.len() + c,
    };
    let code = ops.iter().map(|op| match *op {
        Emitted::Strip { op, splats, to, from } => {
            OpCode::Strip { run: (kernels.strip)(op, splats), to: table(to), from: from.map(table) }
        }
        Emitted::Decay { splat, args } => OpCode::Decay { run: (kernels.decay)(splat), args: args.map(table) },
    });
    let code = code.collect();
    MapCode { outer: sizes, middle, inner, views, constants, temporaries, code, entry }
}

/// Dimensions along which the views move furthest come first, so that the inner loops stay in few lines of the cache.
fn near_inside((sizes, strides): (Vec<usize>, Vec<Vec<usize>>)) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|d| std::cmp::Reverse(strides.iter().map(|s| s[*d]).sum::<usize>()));
    let sorted = |list: &Vec<usize>| order.iter().map(|d| list[*d]).collect();
    (sorted(&sizes), strides.iter().map(sorted).collect())
}

/// A dimension that is too short for a strip changes places with the longest.
fn long_inside(sizes: &mut [usize], strides: &mut [Vec<usize>]) {
    let Some(last) = sizes.len().checked_sub(1) else { return };
    let longest = (0..sizes.len()).max_by_key(|d| (sizes[*d], *d)).unwrap_or(last);
    if (1..STRIP / 2).contains(&sizes[last]) && sizes[longest] >= 2 * sizes[last] {
        sizes.swap(longest, last);
        strides.iter_mut().for_each(|s| s.swap(longest, last));
    }
}

/// A sum or maximum that has every dimension is a plain store.
fn kind(store: &Store, dims: &[usize]) -> Kind {
    let folds = dims.iter().zip(&store.to.strides).any(|(size, stride)| *size > 1 && *stride == 0);
    match store.mode {
        Mode::Sum if folds => Kind::Fold(0.0),
        Mode::Max if folds => Kind::Fold(f32::NEG_INFINITY),
        _ => Kind::Set,
    }
}

/// The dimensions without those of one entry, neighbours merged where all views allow; strides in numbers.
fn merged(dims: &[usize], views: &[&View]) -> (Vec<usize>, Vec<Vec<usize>>) {
    let given: Vec<Vec<usize>> = views.iter().map(|view| Place::strides(view)).collect();
    let mut sizes: Vec<usize> = Vec::new();
    let mut strides: Vec<Vec<usize>> = vec![Vec::new(); views.len()];
    for d in (0..dims.len()).filter(|d| dims[*d] != 1) {
        let fits = |v: usize| strides[v].last() == Some(&(given[v][d] * dims[d]));
        match sizes.last_mut() {
            Some(size) if (0..views.len()).all(fits) => {
                *size *= dims[d];
                strides.iter_mut().zip(&given).for_each(|(s, given)| *s.last_mut().expect("it has the size") = given[d]);
            }
            _ => {
                sizes.push(dims[d]);
                strides.iter_mut().zip(&given).for_each(|(s, given)| s.push(given[d]));
            }
        }
    }
    (sizes, strides)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Temporary(usize),
    View(usize),
    Constant(usize),
}

#[derive(Debug, Clone, Copy)]
enum Emitted {
    Strip { op: Op, splats: [bool; 3], to: At, from: [At; 3] },
    Decay { splat: bool, args: Decay<At> },
}

impl Emitted {
    fn to(&self) -> At {
        match self {
            Emitted::Strip { to, .. } => *to,
            Emitted::Decay { args, .. } => args.to,
        }
    }

    fn reads(&self) -> Vec<At> {
        match self {
            Emitted::Strip { from, .. } => from.to_vec(),
            Emitted::Decay { args, .. } => {
                let read = args.read.iter().flatten();
                args.rate.iter().chain(&args.input).chain([&args.state]).chain(read).copied().collect()
            }
        }
    }
}

/// Instructions to operations.
struct Emit<'a> {
    map: &'a Map,
    views: Vec<ViewCode>,
    constants: Vec<f32>,
    ops: Vec<Emitted>,
    /// Where each register is, once it is computed.
    at: Vec<Option<At>>,
    /// Instructions and stores that still need each register; stores come after all instructions.
    uses: Vec<Vec<usize>>,
    /// The instruction that computes the register on the way, as a part of its own operation.
    within: Vec<Option<usize>>,
    free: Vec<usize>,
    temporaries: usize,
}

impl<'a> Emit<'a> {
    fn new(map: &'a Map, views: Vec<ViewCode>) -> Emit<'a> {
        let count = map.code.len();
        let mut uses = vec![Vec::new(); count];
        for (s, store) in map.stores.iter().enumerate() {
            uses[store.value.0 as usize].push(count + s);
        }
        for i in (0..count).rev() {
            if !uses[i].is_empty() {
                operands(&map.code[i]).iter().for_each(|r| uses[r.0 as usize].push(i));
            }
        }
        let mut emit = Emit {
            map,
            views,
            constants: Vec::new(),
            ops: Vec::new(),
            at: vec![None; count],
            uses,
            within: vec![None; count],
            free: Vec::new(),
            temporaries: 0,
        };
        emit.join();
        emit
    }

    /// Products that nothing else needs and that the next operation can take over: in `exp(a b)` and in sums of `a b`.
    fn join(&mut self) {
        let count = self.map.code.len();
        for i in 0..count {
            let (Instr::Binary(Binary::Mul, a, b), [user]) = (self.map.code[i], &self.uses[i][..]) else {
                continue;
            };
            let user = *user;
            let takes = match user.checked_sub(count) {
                Some(store) => self.view(store).kind == Kind::Fold(0.0),
                None => matches!(self.map.code[user], Instr::Unary(Unary::Exp, _)),
            };
            if takes {
                self.within[i] = Some(user);
                [a, b].iter().for_each(|r| {
                    self.uses[r.0 as usize].iter_mut().filter(|u| **u == i).for_each(|u| *u = user);
                });
            }
        }
    }

    fn view(&self, store: usize) -> &ViewCode {
        &self.views[self.map.loads.len() + store]
    }

    fn emit(&mut self) {
        let count = self.map.code.len();
        for i in 0..count {
            if self.uses[i].is_empty() || self.within[i].is_some() {
                continue;
            }
            self.at[i] = match self.map.code[i] {
                Instr::Load(l) => Some(At::View(l as usize)),
                Instr::Const(c) => Some(self.constant(c)),
                instr => {
                    let (op, from) = self.operation(instr);
                    let direct = self.direct_store(i);
                    let to = direct.map(|s| At::View(self.map.loads.len() + s));
                    if direct.is_some() {
                        self.uses[i].retain(|u| Some(*u) != direct.map(|s| count + s));
                    }
                    Some(self.push(op, to, &from, i))
                }
            };
        }
        // Sums first: they read what the plain stores may overwrite.
        let stores = 0..self.map.stores.len();
        for s in stores.clone().filter(|s| self.view(*s).kind != Kind::Set).collect::<Vec<_>>() {
            self.store(s, count + s);
        }
        for s in stores.clone() {
            self.save_overwritten(s);
        }
        for s in stores.filter(|s| self.view(*s).kind == Kind::Set).collect::<Vec<_>>() {
            self.store(s, count + s);
        }
    }

    /// Joins the operations of a recurrence's step where nothing else needs what they leave in between.
    fn decays(&mut self) {
        let mut i = 0;
        while i < self.ops.len() {
            if let Some((joined, count)) = decay(&self.ops[i..]) {
                let between = [i, i + 1].map(|i| self.ops[i].to());
                if between.iter().all(|to| matches!(to, At::Temporary(_)) && !self.read_after(i + 3, *to)) {
                    self.ops.splice(i..i + count, [joined]);
                }
            }
            i += 1;
        }
    }

    /// Whether an operation from `from` on reads what is at a place now.
    fn read_after(&self, from: usize, at: At) -> bool {
        for op in &self.ops[from..] {
            if op.reads().contains(&at) {
                return true;
            }
            if op.to() == at {
                return false;
            }
        }
        false
    }

    /// The operation of an instruction and its registers.
    fn operation(&self, instr: Instr) -> (Op, Vec<Reg>) {
        let product = |r: Reg| match self.map.code[r.0 as usize] {
            Instr::Binary(_, a, b) if self.within[r.0 as usize].is_some() => Some(vec![a, b]),
            _ => None,
        };
        match instr {
            Instr::Unary(Unary::Exp, a) if product(a).is_some() => (Op::ExpMul, product(a).unwrap_or_default()),
            Instr::Unary(f, a) => (Op::Unary(f), vec![a]),
            Instr::Binary(f, a, b) => (Op::Binary(f), vec![a, b]),
            Instr::MulAdd(a, b, c) => (Op::MulAdd, vec![a, b, c]),
            Instr::Select(a, b, c) => (Op::Select, vec![a, b, c]),
            Instr::Load(_) | Instr::Const(_) => unreachable!("operands, not operations"),
        }
    }

    /// The store whose place the register can be computed at: nothing that comes later reads what was there before.
    fn direct_store(&self, i: usize) -> Option<usize> {
        let count = self.map.code.len();
        let store = self.uses[i].iter().filter_map(|u| u.checked_sub(count)).find(|s| self.view(*s).kind == Kind::Set)?;
        let view = &self.map.stores[store].to;
        let read_later = (0..count).any(|r| match self.map.code[r] {
            Instr::Load(l) => self.map.loads[l as usize].base == view.base && self.uses[r].iter().any(|u| *u > i),
            _ => false,
        });
        (!read_later && self.view(store).inner > 0).then_some(store)
    }

    /// What a store still takes from a load's place goes to a temporary if another store writes there.
    fn save_overwritten(&mut self, s: usize) {
        let user = self.map.code.len() + s;
        let value = self.map.stores[s].value;
        let r = value.0 as usize;
        if let Some(At::View(v)) = self.at[r]
            && self.uses[r].contains(&user)
            && v < self.map.loads.len()
            && self.map.stores.iter().enumerate().any(|(o, other)| o != s && other.to.base == self.map.loads[v].base)
        {
            let uses = self.uses[r].clone();
            // A user that there is not: the register's own uses come after.
            self.at[r] = Some(self.push(Op::Move, None, &[value], usize::MAX));
            self.uses[r] = uses;
        }
    }

    fn store(&mut self, s: usize, user: usize) {
        let Store { value, .. } = self.map.stores[s];
        let to = At::View(self.map.loads.len() + s);
        let r = value.0 as usize;
        // Computed there already.
        if self.at[r].is_some() && !self.uses[r].contains(&user) {
            return;
        }
        let product = match self.map.code[r] {
            Instr::Binary(_, a, b) if self.within[r] == Some(user) => Some([a, b]),
            _ => None,
        };
        let folds = self.view(s).inner == 0;
        let (op, from) = match (self.view(s).kind, product, folds) {
            (Kind::Fold(first), Some([a, b]), folds) => {
                debug_assert_eq!(first, 0.0);
                (if folds { Op::SumMul } else { Op::MulAdd }, vec![a, b])
            }
            (Kind::Fold(0.0), None, true) => (Op::Sum, vec![value]),
            (Kind::Fold(_), None, true) => (Op::MaxOf, vec![value]),
            (Kind::Fold(0.0), None, false) => (Op::Binary(Binary::Add), vec![value]),
            (Kind::Fold(_), None, false) => (Op::Binary(Binary::Max), vec![value]),
            (Kind::Set | Kind::Load, ..) => (Op::Move, vec![value]),
        };
        self.push(op, Some(to), &from, user);
    }

    /// Appends an operation; where it goes, unless said, is a temporary. Operations that take what is there before read
    /// it as their last operand.
    fn push(&mut self, op: Op, to: Option<At>, from: &[Reg], user: usize) -> At {
        let mut args: Vec<At> = from.iter().map(|r| self.at[r.0 as usize].expect("computed before it is used")).collect();
        for r in from {
            let uses = &mut self.uses[r.0 as usize];
            uses.retain(|u| *u != user);
            if let (true, Some(At::Temporary(t))) = (uses.is_empty(), self.at[r.0 as usize])
                && !self.free.contains(&t)
            {
                self.free.push(t);
            }
        }
        let to = to.unwrap_or_else(|| {
            At::Temporary(self.free.pop().unwrap_or_else(|| {
                self.temporaries += 1;
                self.temporaries - 1
            }))
        });
        if arity(op) > args.len() {
            args.push(to);
        }
        let splat = |at: At| match at {
            At::Temporary(_) => false,
            At::View(v) => v < self.map.loads.len() && self.map.loads[v].lanes == Lanes::Splat,
            At::Constant(_) => true,
        };
        let from: [At; 3] = std::array::from_fn(|i| *args.get(i).unwrap_or(&args[0]));
        let splats = std::array::from_fn(|i| i < args.len() && splat(from[i]));
        self.ops.push(Emitted::Strip { op, splats, to, from });
        to
    }

    fn constant(&mut self, c: f32) -> At {
        let known = self.constants.iter().position(|x| x.to_bits() == c.to_bits());
        At::Constant(known.unwrap_or_else(|| {
            self.constants.push(c);
            self.constants.len() - 1
        }))
    }
}

/// Four operations in a row that are a recurrence's step, or three of them without the sum:
/// `t = exp(a b); u = c d; h = t h + u; y += h f`, the first two in any order.
fn decay(ops: &[Emitted]) -> Option<(Emitted, usize)> {
    let strip = |i: usize| match ops.get(i) {
        Some(Emitted::Strip { op, splats, to, from }) => Some((*op, *splats, *to, *from)),
        _ => None,
    };
    let (first, second, (op, splats, to, [x, y, z])) = (strip(0)?, strip(1)?, strip(2)?);
    let (exp, mul) = if first.0 == Op::ExpMul { (first, second) } else { (second, first) };
    let state = if x == exp.2 { y } else { x };
    let vectors = |splats: [bool; 3]| !splats.contains(&true);
    let fits = (exp.0, mul.0, op) == (Op::ExpMul, Op::Binary(Binary::Mul), Op::MulAdd)
        && (x == exp.2 || y == exp.2)
        && z == mul.2
        && exp.2 != mul.2
        && state != exp.2
        && state != mul.2
        && vectors(mul.1)
        && vectors(splats)
        && !(exp.1[0] && exp.1[1])
        // What the first operation leaves is not read by the second.
        && !second.3.contains(&first.2);
    if !fits {
        return None;
    }
    let rate = if exp.1[0] { [exp.3[1], exp.3[0]] } else { [exp.3[0], exp.3[1]] };
    let read = strip(3).and_then(|(op, splats, sum, [a, b, _])| {
        let factor = if a == to { b } else { a };
        let fits = op == Op::SumMul && (a == to || b == to) && factor != to && vectors(splats);
        fits.then_some([factor, sum])
    });
    let args = Decay { rate, state, input: [mul.3[0], mul.3[1]], to, read };
    Some((Emitted::Decay { splat: exp.1[0] || exp.1[1], args }, if read.is_some() { 4 } else { 3 }))
}

fn arity(op: Op) -> usize {
    match op {
        Op::Move | Op::Unary(_) | Op::Sum | Op::MaxOf => 1,
        Op::Binary(_) | Op::ExpMul | Op::SumMul => 2,
        Op::MulAdd | Op::Select => 3,
    }
}

fn operands(instr: &Instr) -> Vec<Reg> {
    match *instr {
        Instr::Load(_) | Instr::Const(_) => Vec::new(),
        Instr::Unary(_, a) => vec![a],
        Instr::Binary(_, a, b) => vec![a, b],
        Instr::MulAdd(a, b, c) | Instr::Select(a, b, c) => vec![a, b, c],
    }
}
