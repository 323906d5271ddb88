//! The order in which a map's vector operations and stores are done.

use micro::math;

use super::Moves;
use super::trace::{self, Id, Trace, Value};
use crate::kernel::{Binary, Instr, Lanes, Map, Mode, Unary};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Step {
    Value(Id),
    /// To the view of this number.
    Store(usize, Id),
    /// Adds a value; adds a product; keeps the larger.
    Sum(usize, Id),
    SumOf(usize, Id, Id),
    Max(usize, Id),
}

/// One lane vector's work.
#[derive(Debug)]
pub(super) struct Steps {
    pub values: Vec<Value>,
    pub order: Vec<Step>,
    /// By view: it is written in place, so that it cannot be read again.
    pub fragile: Vec<bool>,
}

impl Step {
    pub(super) fn operands(&self, values: &[Value]) -> Vec<Id> {
        match *self {
            Step::Value(id) => values[id.0 as usize].operands().collect(),
            Step::Store(_, v) | Step::Sum(_, v) | Step::Max(_, v) => vec![v],
            Step::SumOf(_, a, b) => vec![a, b],
        }
    }
}

impl Steps {
    /// None for what has no straight-line code.
    pub(super) fn new(map: &Map, views: &[Moves]) -> Option<Steps> {
        if map.code.iter().any(|i| matches!(i, Instr::Unary(Unary::Sin, _))) {
            return None;
        }
        let loads = map.loads.len();
        // A product that only a sum needs is not rounded before it is added; as the strip operations do.
        let mut uses = vec![0; map.code.len()];
        map.code.iter().for_each(|i| registers(i).into_iter().for_each(|r| uses[r] += 1));
        map.stores.iter().for_each(|s| uses[s.value.0 as usize] += 1);
        let product = |s: usize| match map.code[map.stores[s].value.0 as usize] {
            Instr::Binary(Binary::Mul, a, b)
                if views[loads + s].folds && map.stores[s].mode == Mode::Sum && uses[map.stores[s].value.0 as usize] == 1 =>
            {
                Some((a.0 as usize, b.0 as usize))
            }
            _ => None,
        };
        let products: Vec<_> = (0..map.stores.len()).map(product).collect();
        let within: Vec<usize> =
            (0..map.stores.len()).filter(|s| products[*s].is_some()).map(|s| map.stores[s].value.0 as usize).collect();
        let (values, regs) = trace::record(|| {
            let mut regs: Vec<Id> = Vec::with_capacity(map.code.len());
            for (i, instr) in map.code.iter().enumerate() {
                // It takes a place, and is never computed.
                let skip = within.contains(&i);
                let id = if skip { *regs.last().expect("a product has operands") } else { written(map, instr, &regs) };
                regs.push(id);
            }
            regs
        });
        let written: Vec<_> = map.stores.iter().map(|s| s.to.base).collect();
        let fragile: Vec<bool> = map.loads.iter().map(|l| written.contains(&l.base)).collect();
        let mut order: Vec<Step> = (0..values.len() as u32).map(|i| Step::Value(Id(i))).collect();
        let mut placed: Vec<(usize, Step)> = Vec::new();
        for (s, store) in map.stores.iter().enumerate() {
            let view = loads + s;
            let id = regs[store.value.0 as usize];
            let (step, ready) = match (views[view].folds, store.mode, products[s]) {
                (true, _, Some((a, b))) => (Step::SumOf(view, regs[a], regs[b]), regs[a].0.max(regs[b].0)),
                (true, Mode::Max, None) => (Step::Max(view, id), id.0),
                (true, _, None) => (Step::Sum(view, id), id.0),
                (false, ..) => (Step::Store(view, id), id.0),
            };
            // As early as it is known, but not before what is there has been read.
            let read = |i: &usize| matches!(values[*i], Value::Load(l) if map.loads[l].base == store.to.base);
            let last_read = (0..values.len()).rev().find(read).unwrap_or(0);
            placed.push((last_read.max(ready as usize), step));
        }
        placed.sort_by_key(|(after, _)| std::cmp::Reverse(*after));
        for (after, step) in placed {
            order.insert(after + 1, step);
        }
        Some(Steps { values, order, fragile })
    }
}

fn registers(instr: &Instr) -> Vec<usize> {
    let regs: &[crate::kernel::Reg] = match instr {
        Instr::Load(_) | Instr::Const(_) => &[],
        Instr::Unary(_, a) => &[*a],
        Instr::Binary(_, a, b) => &[*a, *b],
        Instr::MulAdd(a, b, c) | Instr::Select(a, b, c) => &[*a, *b, *c],
    };
    regs.iter().map(|r| r.0 as usize).collect()
}

/// Writes an instruction down.
fn written(map: &Map, instr: &Instr, regs: &[Id]) -> Id {
    let r = |reg: &crate::kernel::Reg| regs[reg.0 as usize];
    // SAFETY: the "instruction set" is a list, which every machine has.
    unsafe {
        match instr {
            Instr::Load(l) if map.loads[*l as usize].lanes == Lanes::Splat => trace::push(Value::Splat(*l as usize)),
            Instr::Load(l) => trace::push(Value::Load(*l as usize)),
            Instr::Const(c) => trace::push(Value::Bits(c.to_bits())),
            Instr::Unary(f, a) => unary(*f, r(a)),
            Instr::Binary(f, a, b) => binary(*f, r(a), r(b)),
            Instr::MulAdd(a, b, c) => trace::push(Value::Fma(r(a), r(b), r(c))),
            Instr::Select(a, b, c) => math::select::<Trace>(r(a), r(b), r(c)),
        }
    }
}

/// # Safety
/// None needed: that of the functions it calls is the list's.
unsafe fn unary(f: Unary, a: Id) -> Id {
    use micro::simd::Simd;
    // SAFETY: the "instruction set" is a list, which every machine has.
    unsafe {
        match f {
            Unary::Neg => math::neg::<Trace>(a),
            Unary::Exp => math::exp::<Trace>(a),
            Unary::Log => math::log::<Trace>(a),
            Unary::Sin => unreachable!("no straight-line code"),
            Unary::Sqrt => Trace::sqrt(a),
            Unary::Recip => math::recip::<Trace>(a),
            Unary::Floor => Trace::floor(a),
            Unary::Tanh => math::tanh::<Trace>(a),
            Unary::Sigmoid => math::sigmoid::<Trace>(a),
            Unary::Softplus => math::softplus::<Trace>(a),
            Unary::Abs => math::abs::<Trace>(a),
            Unary::Sign => math::sign::<Trace>(a),
            Unary::Silu => math::silu::<Trace>(a),
        }
    }
}

/// # Safety
/// None needed: that of the functions it calls is the list's.
unsafe fn binary(f: Binary, a: Id, b: Id) -> Id {
    use micro::simd::Simd;
    // SAFETY: the "instruction set" is a list, which every machine has.
    unsafe {
        match f {
            Binary::Add => Trace::add(a, b),
            Binary::Sub => Trace::sub(a, b),
            Binary::Mul => Trace::mul(a, b),
            Binary::Max => math::maximum::<Trace>(a, b),
            Binary::Less => math::less::<Trace>(a, b),
        }
    }
}
