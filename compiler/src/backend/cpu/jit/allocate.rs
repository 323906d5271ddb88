//! Registers for a map's values: in order, and where there are not enough, what is needed last makes room.

use std::collections::VecDeque;

use super::steps::{Step, Steps};
use super::trace::{Id, One, Two, Value};

/// A vector register.
pub(super) type Reg = u8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mem {
    /// Where a view is.
    View(usize),
    /// A constant; a value that had to make room.
    Pool(usize),
    Slot(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rm {
    Reg(Reg),
    Mem(Mem),
}

/// What a sum or maximum is gathered in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Total {
    /// The register of a fold that keeps one through the loop.
    Kept(usize),
    /// A register that was loaded for it.
    Loaded(Reg),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ins {
    Load {
        to: Reg,
        from: Mem,
    },
    Broadcast {
        to: Reg,
        view: usize,
    },
    Store {
        to: Mem,
        from: Reg,
    },
    Move {
        to: Reg,
        from: Reg,
    },
    Two {
        op: Two,
        to: Reg,
        a: Reg,
        b: Rm,
    },
    One {
        op: One,
        to: Reg,
        a: Reg,
    },
    /// `to = a b + to`; `to = to a + b`; `to = to b + a`
    Fma231 {
        to: Reg,
        a: Reg,
        b: Rm,
    },
    Fma213 {
        to: Reg,
        a: Reg,
        b: Rm,
    },
    Fma132 {
        to: Reg,
        a: Reg,
        b: Rm,
    },
    Select {
        to: Reg,
        mask: Reg,
        yes: Rm,
        no: Reg,
    },
    Sum {
        to: Total,
        of: Rm,
    },
    SumOf {
        to: Total,
        a: Reg,
        b: Rm,
    },
    /// With two registers to work in.
    Max {
        to: Total,
        of: Reg,
        work: [Reg; 2],
    },
}

/// One lane vector's instructions; they are the same for each part of it.
#[derive(Debug, Default)]
pub(super) struct Allocated {
    /// Before the first: what is the same for all, left in slots.
    pub before: Vec<Ins>,
    pub code: Vec<Ins>,
    pub pool: Vec<u32>,
    pub slots: usize,
    /// Views of the folds that keep a register.
    pub kept: Vec<usize>,
}

/// The registers of a machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct File {
    pub registers: Reg,
    /// Registers that make up a lane vector.
    pub parts: usize,
    /// Folds that may keep their totals in registers, at most.
    pub kept: usize,
}

/// `moves(view)` is how far a view moves in a step.
pub(super) fn allocate(steps: &Steps, moves: impl Fn(usize) -> usize, file: File) -> Allocated {
    let folds = steps.order.iter().filter_map(|s| match s {
        Step::Sum(view, _) | Step::SumOf(view, ..) | Step::Max(view, _) if moves(*view) == 0 => Some(*view),
        _ => None,
    });
    let kept: Vec<usize> = folds.take(file.kept).collect();
    let mut uses = vec![VecDeque::new(); steps.values.len()];
    for (i, step) in steps.order.iter().enumerate() {
        for id in step.operands(&steps.values) {
            let uses: &mut VecDeque<usize> = &mut uses[id.0 as usize];
            if uses.back() != Some(&i) {
                uses.push_back(i);
            }
        }
    }
    let mut a = Allocator {
        steps,
        uses,
        reg: vec![None; steps.values.len()],
        slot: vec![None; steps.values.len()],
        held: vec![None; file.registers as usize - file.parts * kept.len()],
        locked: Vec::new(),
        out: Allocated { kept, ..Allocated::default() },
    };
    let same = same_for_all(steps, moves);
    let once = |step: &Step| matches!(step, Step::Value(id) if same[id.0 as usize]);
    for (i, step) in steps.order.iter().enumerate().filter(|(_, s)| once(s)) {
        a.step(i, *step);
    }
    a.keep();
    for (i, step) in steps.order.iter().enumerate().filter(|(_, s)| !once(s)) {
        a.step(i, *step);
    }
    a.out
}

/// The values that are computed from constants and from numbers that do not change: bias corrections of an optimiser.
fn same_for_all(steps: &Steps, moves: impl Fn(usize) -> usize) -> Vec<bool> {
    let mut leaf = vec![false; steps.values.len()];
    let mut same = vec![false; steps.values.len()];
    for (i, value) in steps.values.iter().enumerate() {
        match value {
            Value::Bits(_) => leaf[i] = true,
            Value::Splat(view) => leaf[i] = moves(*view) == 0 && !steps.fragile[*view],
            Value::Load(_) => {}
            value => same[i] = value.operands().all(|v| leaf[v.0 as usize] || same[v.0 as usize]),
        }
    }
    same
}

struct Allocator<'a> {
    steps: &'a Steps,
    /// Steps that still need each value.
    uses: Vec<VecDeque<usize>>,
    reg: Vec<Option<Reg>>,
    slot: Vec<Option<usize>>,
    held: Vec<Option<Id>>,
    /// Registers that this step needs.
    locked: Vec<Reg>,
    out: Allocated,
}

impl Allocator<'_> {
    fn step(&mut self, i: usize, step: Step) {
        self.locked.clear();
        match step {
            Step::Value(id) => self.value(i, id),
            Step::Store(view, v) => {
                let from = self.fetch(v);
                self.out.code.push(Ins::Store { to: Mem::View(view), from });
                self.used(i, &[v]);
            }
            Step::Sum(view, v) => {
                let of = self.rm(v);
                self.fold(view, |_, to| Ins::Sum { to, of });
                self.used(i, &[v]);
            }
            Step::SumOf(view, x, y) => {
                let (x, y) = self.memory_last(x, y);
                let (a, b) = (self.fetch(x), self.rm(y));
                self.fold(view, |_, to| Ins::SumOf { to, a, b });
                self.used(i, &[x, y]);
            }
            Step::Max(view, v) => {
                let of = self.fetch(v);
                self.fold(view, |s, to| Ins::Max { to, of, work: [s.work(), s.work()] });
                self.used(i, &[v]);
            }
        }
    }

    fn fold(&mut self, view: usize, ins: impl FnOnce(&mut Self, Total) -> Ins) {
        if let Some(kept) = self.out.kept.iter().position(|v| *v == view) {
            let ins = ins(self, Total::Kept(kept));
            self.out.code.push(ins);
            return;
        }
        let total = self.work();
        self.out.code.push(Ins::Load { to: total, from: Mem::View(view) });
        let ins = ins(self, Total::Loaded(total));
        self.out.code.push(ins);
        self.out.code.push(Ins::Store { to: Mem::View(view), from: total });
    }

    fn value(&mut self, i: usize, id: Id) {
        if self.uses[id.0 as usize].is_empty() {
            return;
        }
        match self.steps.values[id.0 as usize] {
            // Read when they are needed, but for what will be overwritten.
            Value::Load(view) if self.steps.fragile[view] => {
                let to = self.free();
                self.out.code.push(Ins::Load { to, from: Mem::View(view) });
                self.hold(id, to);
            }
            Value::Load(_) | Value::Splat(_) | Value::Bits(_) => {}
            Value::One(op, a) => {
                let from = self.fetch(a);
                self.used(i, &[a]);
                let to = self.free();
                self.out.code.push(Ins::One { op, to, a: from });
                self.hold(id, to);
            }
            Value::Two(op, a, b) => {
                let commutes = matches!(op, Two::Add | Two::Mul | Two::IntAdd | Two::And | Two::Xor);
                let (a, b) = if commutes { self.memory_last(a, b) } else { (a, b) };
                let (x, y) = (self.fetch(a), self.rm(b));
                self.used(i, &[a, b]);
                let to = self.free();
                self.out.code.push(Ins::Two { op, to, a: x, b: y });
                self.hold(id, to);
            }
            Value::Select(mask, yes, no) => {
                let (m, n) = (self.fetch(mask), self.fetch(no));
                let y = self.rm(yes);
                self.used(i, &[mask, yes, no]);
                let to = self.free();
                self.out.code.push(Ins::Select { to, mask: m, yes: y, no: n });
                self.hold(id, to);
            }
            Value::Fma(a, b, c) => self.fma(i, id, a, b, c),
        }
    }

    /// The result takes the register of an operand that is not needed any more, or of a copy.
    fn fma(&mut self, i: usize, id: Id, a: Id, b: Id, c: Id) {
        let (a, b) = self.memory_last(a, b);
        let ends = |s: &Self, v: Id| s.reg[v.0 as usize].is_some() && s.uses[v.0 as usize].len() == 1;
        if ends(self, c) && c != a && c != b {
            let to = self.fetch(c);
            let (x, y) = (self.fetch(a), self.rm(b));
            self.out.code.push(Ins::Fma231 { to, a: x, b: y });
            self.used(i, &[a, b, c]);
            return self.take(id, to);
        }
        let (a, b) = if ends(self, b) && !ends(self, a) { (b, a) } else { (a, b) };
        let x = self.fetch(a);
        // One of the two others may be in memory.
        let constant = matches!(self.steps.values[c.0 as usize], Value::Bits(_)) && self.reg[c.0 as usize].is_none();
        let (other, last, by_product) = match constant {
            true => (self.fetch(b), self.rm(c), false),
            false => (self.fetch(c), self.rm(b), true),
        };
        let to = if ends(self, a) && a != c && a != b {
            x
        } else {
            let to = self.free();
            self.out.code.push(Ins::Move { to, from: x });
            to
        };
        self.out.code.push(match by_product {
            true => Ins::Fma132 { to, a: other, b: last },
            false => Ins::Fma213 { to, a: other, b: last },
        });
        self.used(i, &[a, b, c]);
        self.take(id, to);
    }

    /// Of two operands in any order: what may stay in memory comes last.
    fn memory_last(&self, a: Id, b: Id) -> (Id, Id) {
        let memory = |v: Id| self.reg[v.0 as usize].is_none() && !matches!(self.steps.values[v.0 as usize], Value::Splat(_));
        if memory(a) && !memory(b) { (b, a) } else { (a, b) }
    }

    /// The value in a register, which this step keeps.
    fn fetch(&mut self, id: Id) -> Reg {
        if let Some(reg) = self.reg[id.0 as usize] {
            self.locked.push(reg);
            return reg;
        }
        let to = self.free();
        let ins = match (self.slot[id.0 as usize], self.steps.values[id.0 as usize]) {
            (Some(slot), _) => Ins::Load { to, from: Mem::Slot(slot) },
            (None, Value::Splat(view)) => Ins::Broadcast { to, view },
            (None, Value::Load(view)) => Ins::Load { to, from: Mem::View(view) },
            (None, Value::Bits(bits)) => Ins::Load { to, from: self.constant(bits) },
            (None, _) => unreachable!("a computed value is in a register or in a slot"),
        };
        self.out.code.push(ins);
        self.hold(id, to);
        self.locked.push(to);
        to
    }

    /// The value where it is, if that is good for an operand.
    fn rm(&mut self, id: Id) -> Rm {
        let v = id.0 as usize;
        let last = self.uses[v].len() == 1;
        match (self.reg[v], self.slot[v], self.steps.values[v]) {
            (None, _, Value::Bits(bits)) => Rm::Mem(self.constant(bits)),
            (None, None, Value::Load(view)) if last => Rm::Mem(Mem::View(view)),
            (None, Some(slot), _) if last => Rm::Mem(Mem::Slot(slot)),
            _ => Rm::Reg(self.fetch(id)),
        }
    }

    fn constant(&mut self, bits: u32) -> Mem {
        let known = self.out.pool.iter().position(|x| *x == bits);
        Mem::Pool(known.unwrap_or_else(|| {
            self.out.pool.push(bits);
            self.out.pool.len() - 1
        }))
    }

    /// A free register; what is needed last makes room.
    fn free(&mut self) -> Reg {
        if let Some(r) = (0..self.held.len()).find(|r| self.held[*r].is_none() && !self.locked.contains(&(*r as Reg))) {
            return r as Reg;
        }
        let next = |r: usize| self.held[r].and_then(|id| self.uses[id.0 as usize].front().copied());
        let victim = (0..self.held.len())
            .filter(|r| !self.locked.contains(&(*r as Reg)) && self.held[*r].is_some())
            .max_by_key(|r| next(*r))
            .expect("a step locks fewer registers than there are");
        self.evict(victim);
        victim as Reg
    }

    fn evict(&mut self, r: usize) {
        let Some(id) = self.held[r].take() else { return };
        let v = id.0 as usize;
        self.reg[v] = None;
        let again = match self.steps.values[v] {
            Value::Load(view) => !self.steps.fragile[view],
            Value::Splat(_) | Value::Bits(_) => true,
            _ => false,
        };
        if !again && self.slot[v].is_none() && !self.uses[v].is_empty() {
            let slot = self.out.slots;
            self.out.slots += 1;
            self.slot[v] = Some(slot);
            self.out.code.push(Ins::Store { to: Mem::Slot(slot), from: r as Reg });
        }
    }

    /// Ends what comes before the first: all that is needed later is in slots, and no register is taken.
    fn keep(&mut self) {
        (0..self.held.len()).for_each(|r| self.evict(r));
        self.out.before = std::mem::take(&mut self.out.code);
    }

    /// A register to work in, for this step.
    fn work(&mut self) -> Reg {
        let r = self.free();
        self.locked.push(r);
        r
    }

    fn hold(&mut self, id: Id, r: Reg) {
        self.held[r as usize] = Some(id);
        self.reg[id.0 as usize] = Some(r);
    }

    /// The register of an operand that ended, or a new one, becomes a value's.
    fn take(&mut self, id: Id, r: Reg) {
        debug_assert!(self.held[r as usize].is_none());
        self.hold(id, r);
    }

    /// The step has used its operands: registers of those that no step needs any more are free.
    fn used(&mut self, i: usize, ids: &[Id]) {
        for id in ids {
            let v = id.0 as usize;
            // What is computed before the first is not in order.
            self.uses[v].retain(|step| *step != i);
            if self.uses[v].is_empty()
                && let Some(r) = self.reg[v].take()
            {
                self.held[r as usize] = None;
            }
        }
        self.locked.clear();
    }
}
