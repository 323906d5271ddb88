//! The instructions of a map as strip operations: which, and where each operand is.

use super::map::{Kind, ViewCode};
use crate::kernel::{Binary, Instr, Lanes, Map, Reg, Store, Unary};
use micro::kernels::Op;
use micro::strip::Decay;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    Temporary(usize),
    View(usize),
    Constant(usize),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Emitted {
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
pub(super) struct Emit<'a> {
    map: &'a Map,
    pub(super) views: Vec<ViewCode>,
    pub(super) constants: Vec<f32>,
    pub(super) ops: Vec<Emitted>,
    /// Where each register is, once it is computed.
    at: Vec<Option<At>>,
    /// Instructions and stores that still need each register; stores come after all instructions.
    uses: Vec<Vec<usize>>,
    /// The instruction that computes the register on the way, as a part of its own operation.
    within: Vec<Option<usize>>,
    free: Vec<usize>,
    pub(super) temporaries: usize,
}

impl<'a> Emit<'a> {
    pub(super) fn new(map: &'a Map, views: Vec<ViewCode>) -> Emit<'a> {
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

    pub(super) fn emit(&mut self) {
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

    /// Joins the operations of a recurrence's step where nothing else needs what they leave in between. It stays a special
    /// case: a strip operation has three operands and one result, so no general rule joins these seven operands and two results.
    pub(super) fn decays(&mut self) {
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
            Instr::Unary(f, a) => (f.into(), vec![a]),
            Instr::Binary(f, a, b) => (f.into(), vec![a, b]),
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
            (Kind::Fold(0.0), None, false) => (Op::Add, vec![value]),
            (Kind::Fold(_), None, false) => (Op::Max, vec![value]),
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
        if op.arity() > args.len() {
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
    let fits = (exp.0, mul.0, op) == (Op::ExpMul, Op::Mul, Op::MulAdd)
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

fn operands(instr: &Instr) -> Vec<Reg> {
    match *instr {
        Instr::Load(_) | Instr::Const(_) => Vec::new(),
        Instr::Unary(_, a) => vec![a],
        Instr::Binary(_, a, b) => vec![a, b],
        Instr::MulAdd(a, b, c) | Instr::Select(a, b, c) => vec![a, b, c],
    }
}

impl From<Unary> for Op {
    fn from(f: Unary) -> Op {
        match f {
            Unary::Neg => Op::Neg,
            Unary::Exp => Op::Exp,
            Unary::Log => Op::Log,
            Unary::Sin => Op::Sin,
            Unary::Sqrt => Op::Sqrt,
            Unary::Recip => Op::Recip,
            Unary::Floor => Op::Floor,
            Unary::Tanh => Op::Tanh,
            Unary::Sigmoid => Op::Sigmoid,
            Unary::Softplus => Op::Softplus,
            Unary::Abs => Op::Abs,
            Unary::Sign => Op::Sign,
            Unary::Silu => Op::Silu,
        }
    }
}

impl From<Binary> for Op {
    fn from(f: Binary) -> Op {
        match f {
            Binary::Add => Op::Add,
            Binary::Sub => Op::Sub,
            Binary::Mul => Op::Mul,
            Binary::Max => Op::Max,
            Binary::Less => Op::Less,
        }
    }
}
