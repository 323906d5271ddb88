//! Maps: elementwise code whose numbers stay small.

use super::body::Body;
use crate::kernel::{Base, Binary, Instr, Lanes, Map, Mode, Reg, Stmt, Store, Unary, View};

/// How large a function's values get where its operand is at most so large.
type Bound = fn(f64) -> f64;

/// Functions that are smooth everywhere.
const SMOOTH: [(Unary, Bound); 5] = [
    (Unary::Tanh, |_| 1.0),
    (Unary::Sigmoid, |_| 1.0),
    (Unary::Softplus, |x| x + 1.0),
    (Unary::Silu, |x| x),
    (Unary::Sin, |_| 1.0),
];

/// What is known of a register.
#[derive(Debug, Clone, Copy)]
struct Known {
    reg: Reg,
    bound: f64,
    exact: bool,
}

struct Code<'b, 'k> {
    body: &'b mut Body<'k>,
    map: Map,
    known: Vec<Known>,
}

/// A map into new locals, in place, or both.
pub(super) fn map(body: &mut Body<'_>, stmts: &mut Vec<Stmt>) {
    let dims = body.dims(3);
    let map = Map { dims: dims.clone(), loads: Vec::new(), code: Vec::new(), stores: Vec::new() };
    let mut code = Code { body, map, known: Vec::new() };
    let in_place = code.load_whole();
    for _ in 0..1 + code.body.rng().below(3) {
        code.load();
    }
    for _ in 0..code.body.rng().below(10) {
        code.instr();
    }
    if let Some(to) = in_place {
        let value = code.small();
        code.map.stores.push(Store { to: to.clone(), value: value.reg, mode: Mode::Set });
        code.body.readable.retain(|source| source.base != to.base);
        code.body.made(&to, 2.0, false);
    }
    let mut made = Vec::new();
    for _ in 0..1 + code.body.rng().below(2) {
        let value = code.pick(|_| true);
        let to = code.body.local(&dims);
        code.map.stores.push(Store { to: to.clone(), value: value.reg, mode: Mode::Set });
        made.push((to, value.bound, value.exact));
    }
    if code.body.rng().one_in(2) {
        let (to, value, mode) = code.reduction();
        let entries = dims.iter().product::<usize>() as f64;
        made.push((to.clone(), value.bound * entries, value.exact && mode == Mode::Max));
        code.map.stores.push(Store { to, value: value.reg, mode });
    }
    let map = code.map;
    made.into_iter().for_each(|(to, bound, exact)| body.made(&to, bound, exact));
    stmts.push(Stmt::Map(map));
}

/// A map of one dimension whose values are at most 1, to a given place.
pub(super) fn squashed(body: &mut Body<'_>, entries: usize, to: View) -> Map {
    let map = Map { dims: vec![entries], loads: Vec::new(), code: Vec::new(), stores: Vec::new() };
    let mut code = Code { body, map, known: Vec::new() };
    code.load();
    let x = code.pick(|_| true);
    let value = code.emit(Instr::Unary(Unary::Tanh, x.reg), 1.0, false);
    code.map.stores.push(Store { to, value: value.reg, mode: Mode::Set });
    code.map
}

impl Code<'_, '_> {
    fn emit(&mut self, instr: Instr, bound: f64, exact: bool) -> Known {
        let reg = Reg(self.map.code.len() as u32);
        self.map.code.push(instr);
        let known = Known { reg, bound, exact };
        self.known.push(known);
        known
    }

    fn pick(&mut self, wanted: impl Fn(&Known) -> bool) -> Known {
        let fitting: Vec<Known> = self.known.iter().copied().filter(wanted).collect();
        if fitting.is_empty() {
            return self.emit(Instr::Const(0.75), 0.75, true);
        }
        self.body.rng().pick(&fitting)
    }

    /// At most 2.
    fn small(&mut self) -> Known {
        self.pick(|known| known.bound <= 2.0)
    }

    fn load(&mut self) {
        let Some(source) = self.body.pick(|s| matches!(s.lanes, Lanes::Unit | Lanes::Splat)) else { return };
        let dims = self.map.dims.clone();
        let view = self.body.view(&source, &dims);
        self.load_view(view, source.bound, source.exact);
    }

    fn load_view(&mut self, view: View, bound: f64, exact: bool) {
        self.map.loads.push(view);
        let load = self.map.loads.len() as u32 - 1;
        let x = self.emit(Instr::Load(load), bound, exact);
        if bound > 8.0 {
            self.emit(Instr::Unary(Unary::Tanh, x.reg), 1.0, false);
        }
    }

    /// Loads a local from end to end, to be written in place: then no other load of this map may see it, nor any place
    /// that was sorted into it be used again.
    fn load_whole(&mut self) -> Option<View> {
        let entries: usize = self.map.dims.iter().product();
        let whole = |s: &super::Source| matches!(s.base, Base::Local(_)) && s.entries == entries && !s.exact;
        if !self.body.rng().one_in(2) {
            return None;
        }
        let source = self.body.pick(whole)?;
        let dims = self.map.dims.clone();
        let view = super::contiguous(self.body.rng(), source.base, Lanes::Unit, &dims, 1);
        self.body.readable.retain(|other| other.base != source.base);
        self.load_view(view.clone(), source.bound, source.exact);
        Some(view)
    }

    fn instr(&mut self) {
        let x = self.pick(|known| known.bound <= 8.0);
        match self.body.rng().below(12) {
            0..3 => {
                let (op, bound) = self.body.rng().pick(&SMOOTH);
                self.emit(Instr::Unary(op, x.reg), bound(x.bound), false);
            }
            3 => {
                let x = self.small();
                self.emit(Instr::Unary(Unary::Exp, x.reg), x.bound.exp(), false);
            }
            4 => {
                // The logarithm, root and reciprocal of what is at least a half.
                let size = self.emit(Instr::Unary(Unary::Abs, x.reg), x.bound, x.exact);
                let half = self.emit(Instr::Const(0.5), 0.5, true);
                let positive = self.emit(Instr::Binary(Binary::Add, size.reg, half.reg), x.bound + 0.5, false);
                let op = self.body.rng().pick(&[Unary::Log, Unary::Sqrt, Unary::Recip]);
                self.emit(Instr::Unary(op, positive.reg), x.bound + 2.0, false);
            }
            5 => {
                // What jumps, of numbers that are the same everywhere.
                let [a, b] = [0, 1].map(|_| self.pick(|known| known.exact));
                let less = self.emit(Instr::Binary(Binary::Less, a.reg, b.reg), 1.0, true);
                let (op, bound) = self.body.rng().pick(&[(Unary::Floor, a.bound + 1.0), (Unary::Sign, 1.0)]);
                let jump = self.emit(Instr::Unary(op, a.reg), bound, true);
                let bound = x.bound.max(jump.bound);
                self.emit(Instr::Select(less.reg, x.reg, jump.reg), bound, x.exact);
            }
            6 => {
                let op = self.body.rng().pick(&[Unary::Neg, Unary::Abs]);
                self.emit(Instr::Unary(op, x.reg), x.bound, x.exact);
            }
            7 => {
                let c = self.body.rng().between(-2.0, 2.0);
                self.emit(Instr::Const(c as f32), c.abs(), true);
            }
            8 => {
                let [y, z] = [0, 1].map(|_| self.small());
                self.emit(Instr::MulAdd(x.reg, y.reg, z.reg), x.bound * y.bound + z.bound, false);
            }
            _ => {
                let y = self.pick(|known| known.bound <= 8.0);
                let sum = x.bound + y.bound;
                let (op, bound) = self.body.rng().pick(&[
                    (Binary::Add, sum),
                    (Binary::Sub, sum),
                    (Binary::Mul, x.bound * y.bound),
                    (Binary::Max, x.bound.max(y.bound)),
                ]);
                self.emit(Instr::Binary(op, x.reg, y.reg), bound, op == Binary::Max && x.exact && y.exact);
            }
        }
    }

    /// A sum or a maximum along some of the dimensions, into a new local.
    fn reduction(&mut self) -> (View, Known, Mode) {
        let kept: Vec<bool> = self.map.dims.iter().map(|_| self.body.kernels.rng.one_in(2)).collect();
        let sizes: Vec<usize> = self.map.dims.iter().zip(&kept).map(|(size, kept)| if *kept { *size } else { 1 }).collect();
        let mut to = self.body.local(&sizes);
        to.strides.iter_mut().zip(&kept).filter(|(_, kept)| !**kept).for_each(|(stride, _)| *stride = 0);
        let mode = self.body.rng().pick(&[Mode::Sum, Mode::Max]);
        (to, self.pick(|known| known.bound <= 8.0), mode)
    }
}
