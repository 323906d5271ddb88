//! Elementwise work of a tile, fused: a map that takes in nodes as long as they fit.

use std::collections::{HashMap, HashSet};

use super::Result;
use super::shape::{Kind, Root, Use};
use super::spot::{At, Spot};
use super::tile::{Block, Operand, TileBuilder};
use crate::ir::{self, AxisId, Composite, Op, Reduction, ValueId};
use crate::kernel::{Binary, Instr, Map, Mode, Reg, Stmt, Store, Unary, View};

/// A map that is being made.
pub(crate) struct Open {
    dims: Vec<usize>,
    loads: Vec<View>,
    code: Vec<Instr>,
    /// The registers of constants.
    constants: Vec<Reg>,
    loaded: HashMap<View, Reg>,
    /// Values in it, and the names of the dimensions for each.
    values: Vec<(ValueId, Reg, Vec<AxisId>)>,
    /// By node: its place among the values.
    value_of: HashMap<ValueId, usize>,
    /// The orders of axes that values have, each once.
    orders: Vec<Vec<AxisId>>,
    reduced: Vec<Reduced>,
    members: HashSet<ValueId>,
}

/// A sum or a maximum of a register: the node it is the value of, the register's axes, and those of them that go.
#[derive(Debug)]
struct Reduced {
    value: ValueId,
    reg: Reg,
    names: Vec<AxisId>,
    over: Vec<AxisId>,
    mode: Mode,
}

impl Open {
    pub(crate) fn value(&self, v: ValueId) -> Option<(Reg, &[AxisId])> {
        let (_, reg, names) = &self.values[*self.value_of.get(&v)?];
        Some((*reg, names))
    }

    /// How many orders of axes its values have.
    pub(crate) fn orders(&self) -> usize {
        self.orders.len()
    }

    pub(crate) fn reduces(&self, v: ValueId) -> bool {
        self.reduced.iter().any(|r| r.value == v)
    }

    fn instr(&mut self, instr: Instr) -> Reg {
        let constant = matches!(instr, Instr::Const(_));
        let reg = Reg(self.code.len() as u32);
        if constant {
            if let Some(same) = self.constants.iter().find(|r| self.code[r.0 as usize] == instr) {
                return *same;
            }
            self.constants.push(reg);
        }
        self.code.push(instr);
        reg
    }

    fn load(&mut self, view: View) -> Reg {
        if let Some(reg) = self.loaded.get(&view) {
            return *reg;
        }
        self.loads.push(view.clone());
        let reg = self.instr(Instr::Load(self.loads.len() as u32 - 1));
        self.loaded.insert(view, reg);
        reg
    }
}

/// What an elementwise node does in a map.
enum Does {
    Elementwise,
    /// Reduces the operands' product, or the one operand, over axes.
    Reduce(Vec<AxisId>, Mode),
}

impl TileBuilder<'_, '_> {
    /// What a node does in a map, its operands, and the axes of its domain. None if it does not go into maps.
    fn in_map(&self, b: &Block<'_>, v: ValueId) -> Option<(Does, Vec<ValueId>, Vec<AxisId>)> {
        let node = b.graph.node(v);
        let mut operands = Vec::new();
        node.op.operands(|x| operands.push(x));
        let does = match &node.op {
            Op::Unary(..) | Op::Add(..) | Op::Mul(..) | Op::Max(..) | Op::Less(..) | Op::Where(..) => Does::Elementwise,
            Op::Composite(..) | Op::Expand(_) | Op::Stop(_) | Op::Id(_) => Does::Elementwise,
            Op::Reduce { op: Reduction::Sum, over, .. } => Does::Reduce(over.clone(), Mode::Sum),
            Op::Reduce { op: Reduction::Max, over, .. } => Does::Reduce(over.clone(), Mode::Max),
            Op::Dot { over, .. } if self.gemm_operands(b, v).is_none() => Does::Reduce(over.clone(), Mode::Sum),
            _ => return None,
        };
        let mut domain = self.features(b, v);
        if let Does::Reduce(over, _) = &does {
            domain.extend(over);
        }
        Some((does, operands, domain))
    }

    /// The names of a value's dimensions if it is in the open map under no more than other names.
    fn peek(&self, b: &Block<'_>, v: ValueId) -> Peek {
        match &b.shape.kinds[v.0 as usize] {
            Kind::Free(_) => Peek::Outside,
            Kind::View(_) if b.moved.contains_key(&v) => Peek::Outside,
            Kind::View(of) => match (self.peek(b, *of), &b.graph.node(v).op) {
                (Peek::Inside(names), Op::Expand(_) | Op::Stop(_) | Op::Id(_)) => Peek::Inside(names),
                (Peek::Inside(names), Op::Rename { from, to, .. }) => {
                    Peek::Inside(names.iter().map(|a| if a == from { *to } else { *a }).collect())
                }
                (Peek::Inside(_) | Peek::Later, _) => Peek::Later,
                (Peek::Outside, Op::Join { .. }) => Peek::Later,
                (Peek::Outside, _) => Peek::Outside,
            },
            Kind::Source => Peek::Outside,
            Kind::Work => {
                let Some(root) = b.shape.roots[v.0 as usize] else { return Peek::Outside };
                match &b.open {
                    _ if b.places.contains_key(&root) => Peek::Outside,
                    Some(open) => match open.value(root.0) {
                        Some((_, names)) => Peek::Inside(names.to_vec()),
                        None => Peek::Later,
                    },
                    None => Peek::Later,
                }
            }
        }
    }

    /// Whether a node fits into the open map.
    pub(crate) fn fit(&self, b: &Block<'_>, open: &Open, v: ValueId) -> Fit {
        let Some((_, operands, domain)) = self.in_map(b, v) else { return Fit::Misfit };
        self.names(b, open, &operands, &domain, v).err().unwrap_or(Fit::Joins)
    }

    /// Whether a node reads what is computed in the open map.
    pub(crate) fn reads_open(&self, b: &Block<'_>, v: ValueId) -> bool {
        let mut operands = Vec::new();
        b.graph.node(v).op.operands(|x| operands.push(x));
        operands.iter().any(|x| matches!(self.peek(b, *x), Peek::Inside(_)))
    }

    /// The names of the open map's dimensions for a node that fits into it, or why it does not.
    fn names(
        &self,
        b: &Block<'_>,
        open: &Open,
        operands: &[ValueId],
        domain: &[AxisId],
        v: ValueId,
    ) -> std::result::Result<Vec<AxisId>, Fit> {
        let mut found: Option<Vec<AxisId>> = None;
        for x in operands {
            match self.peek(b, *x) {
                Peek::Later => return Err(Fit::Misfit),
                Peek::Outside => {}
                Peek::Inside(names) => match &found {
                    Some(other) if *other != names => return Err(Fit::Misfit),
                    _ => found = Some(names),
                },
            }
        }
        let same = |names: &[AxisId]| names.len() == domain.len() && domain.iter().all(|a| names.contains(a));
        match found {
            Some(names) => same(&names).then_some(names).ok_or(Fit::Misfit),
            None => {
                self.serves(b, open, v)?;
                // In the order that others in the map have these axes in.
                let as_others = open.orders.iter().find(|names| same(names)).cloned();
                as_others.or_else(|| (self.dims(domain) == open.dims).then(|| domain.to_vec())).ok_or(Fit::Misfit)
            }
        }
    }

    /// Whether a reader of a node could follow it into the open map. If not, what it computes would only be held for long.
    fn serves(&self, b: &Block<'_>, open: &Open, v: ValueId) -> std::result::Result<(), Fit> {
        let mut waits = Vec::new();
        for u in b.shape.uses(Root(v, 0)) {
            let Use::Node(c) = u else { continue };
            if !b.nodes.contains(c) {
                continue;
            }
            let there = |r: &Root| r.0 == v || !b.nodes.contains(&r.0) || b.places.contains_key(r) || open.members.contains(&r.0);
            match b.shape.reads[c].iter().find(|r| !there(r)) {
                Some(missing) => waits.push(missing.0),
                None => return Ok(()),
            }
        }
        Err(Fit::Alone(waits))
    }

    /// Entries that a node's map goes through; None if it does not go into maps.
    pub(crate) fn entries(&self, b: &Block<'_>, v: ValueId) -> Option<usize> {
        self.in_map(b, v).map(|(_, _, domain)| self.dims(&domain).iter().product())
    }

    pub(crate) fn goes_into_maps(&self, b: &Block<'_>, v: ValueId) -> bool {
        self.in_map(b, v).is_some()
    }

    /// Puts a node into the open map, or into a new one.
    pub(crate) fn elementwise(&mut self, b: &mut Block<'_>, v: ValueId) -> Result<()> {
        let Some((does, operands, domain)) = self.in_map(b, v) else {
            return Err(format!("`{}` has no statement", b.graph.node(v).op.name()));
        };
        let names = b.open.as_ref().and_then(|open| self.names(b, open, &operands, &domain, v).ok());
        let names = match names {
            Some(names) => names,
            None => {
                self.close(b)?;
                // What a view needs moved is moved before the map starts.
                for x in &operands {
                    self.spot(b, *x)?;
                }
                b.open = Some(Open {
                    dims: self.dims(&domain),
                    loads: Vec::new(),
                    code: Vec::new(),
                    constants: Vec::new(),
                    loaded: HashMap::new(),
                    values: Vec::new(),
                    value_of: HashMap::new(),
                    orders: Vec::new(),
                    reduced: Vec::new(),
                    members: HashSet::new(),
                });
                domain
            }
        };
        let mut regs = Vec::with_capacity(operands.len());
        for x in &operands {
            let operand = self.operand(b, *x)?;
            let reg = match operand {
                Operand::Reg(reg, _) => reg,
                Operand::Spot(spot) => self.load(b, &spot, &names)?,
            };
            regs.push(reg);
        }
        let Some(open) = &mut b.open else { return Err("a map that is being made was closed".to_string()) };
        open.members.insert(v);
        match does {
            Does::Elementwise => {
                let reg = compute(open, &b.graph.node(v).op, &regs);
                open.value_of.insert(v, open.values.len());
                if !open.orders.contains(&names) {
                    open.orders.push(names.clone());
                }
                open.values.push((v, reg, names));
            }
            Does::Reduce(over, mode) => {
                let reg = match regs[..] {
                    [a, b] => open.instr(Instr::Binary(Binary::Mul, a, b)),
                    _ => regs[0],
                };
                open.reduced.push(Reduced { value: v, reg, names, over, mode });
            }
        }
        Ok(())
    }

    fn load(&mut self, b: &mut Block<'_>, spot: &Spot, names: &[AxisId]) -> Result<Reg> {
        let view = match spot {
            Spot::At(at) => self.view(at, names),
            Spot::Affine(a) => match a.as_const() {
                Some(c) => {
                    let Some(open) = &mut b.open else { return Err("no open map".to_string()) };
                    return Ok(open.instr(Instr::Const(c as f32)));
                }
                None => {
                    let at = self.fuser.numbers(a);
                    self.view(&at, names)
                }
            },
        };
        let Some(open) = &mut b.open else { return Err("no open map".to_string()) };
        Ok(open.load(view))
    }

    /// Ends the open map: what is needed elsewhere is stored.
    pub(crate) fn close(&mut self, b: &mut Block<'_>) -> Result<()> {
        let Some(open) = b.open.take() else { return Ok(()) };
        b.closed += 1;
        let mut stores: Vec<Store> = Vec::new();
        for (v, reg, names) in &open.values {
            let root = Root(*v, 0);
            let mut places = b.homes.get(&root).cloned().unwrap_or_default();
            places.extend(self.in_place(b, &open, root, names));
            let elsewhere = b.shape.uses(root).iter().any(|u| match u {
                Use::Node(c) => !open.members.contains(c),
                // What a loop's body gives out has a home, or is copied from here.
                Use::Result(_) => true,
            });
            if places.is_empty() {
                if !elsewhere {
                    continue;
                }
                places.push(self.fresh(names));
            }
            stores.extend(places.iter().map(|at| Store { to: self.view(at, names), value: *reg, mode: Mode::Set }));
            b.places.insert(root, Spot::At(places.swap_remove(0)));
        }
        for Reduced { value: v, reg, names, over, mode } in &open.reduced {
            let root = Root(*v, 0);
            let mut places = b.homes.get(&root).cloned().unwrap_or_default();
            if places.is_empty() {
                let kept: Vec<AxisId> = names.iter().copied().filter(|a| !over.contains(a)).collect();
                places.push(self.fresh(&kept));
            }
            stores.extend(places.iter().map(|at| Store { to: self.view(at, names), value: *reg, mode: *mode }));
            b.places.insert(root, Spot::At(places.swap_remove(0)));
        }
        let map = tidy(Map { dims: open.dims, loads: open.loads, code: open.code, stores });
        self.push(Stmt::Map(map));
        Ok(())
    }

    /// The carry that a value is the next of, if it may be written now.
    fn in_place(&self, b: &mut Block<'_>, open: &Open, root: Root, names: &[AxisId]) -> Vec<At> {
        let mut places = Vec::new();
        for i in 0..b.carries.len() {
            let Some((of, at)) = b.carries[i].next.clone() else { continue };
            if of != root || b.carries[i].written || !b.may_write(&b.carries[i], &open.members) {
                continue;
            }
            let store = self.view(&at, names);
            let clean = |v: &View| v.base != store.base || *v == store;
            if open.loads.iter().all(clean) {
                b.carries[i].written = true;
                places.push(at);
            }
        }
        places
    }
}

/// Whether a node fits into the open map.
pub(crate) enum Fit {
    Joins,
    /// Its operands, or its dimensions, do not fit.
    Misfit,
    /// None of its readers could follow. They wait for these nodes.
    Alone(Vec<ValueId>),
}

enum Peek {
    Inside(Vec<AxisId>),
    /// In memory, or known when compiled.
    Outside,
    /// Only after the open map has ended.
    Later,
}

fn compute(open: &mut Open, op: &Op, regs: &[Reg]) -> Reg {
    let unary = |u: Unary| Instr::Unary(u, regs[0]);
    let binary = |u: Binary| Instr::Binary(u, regs[0], regs[1]);
    let instr = match op {
        Op::Unary(u, _) => unary(match u {
            ir::Unary::Exp => Unary::Exp,
            ir::Unary::Log => Unary::Log,
            ir::Unary::Sin => Unary::Sin,
            ir::Unary::Sqrt => Unary::Sqrt,
            ir::Unary::Recip => Unary::Recip,
            ir::Unary::Floor => Unary::Floor,
        }),
        Op::Add(..) => binary(Binary::Add),
        Op::Mul(..) => binary(Binary::Mul),
        Op::Max(..) => binary(Binary::Max),
        Op::Less(..) => binary(Binary::Less),
        Op::Where(..) => Instr::Select(regs[0], regs[1], regs[2]),
        Op::Composite(Composite::Tanh, _) => unary(Unary::Tanh),
        Op::Composite(Composite::Sigmoid, _) => unary(Unary::Sigmoid),
        Op::Composite(Composite::Softplus, _) => unary(Unary::Softplus),
        Op::Composite(Composite::Abs, _) => unary(Unary::Abs),
        Op::Composite(Composite::Sign, _) => unary(Unary::Sign),
        // The value itself.
        _ => return regs[0],
    };
    open.instr(instr)
}

/// Shorter code for the same numbers: `a + (-1) b` is a difference, `x sigmoid(x)` one function, `a b + c` one step.
fn tidy(mut map: Map) -> Map {
    let minus_one = |code: &[Instr], r: Reg| code[r.0 as usize] == Instr::Const(-1.0);
    let uses = uses(&map);
    // A sigmoid that is needed by itself is not computed again.
    let silu = |code: &[Instr], x: Reg, s: Reg| code[s.0 as usize] == Instr::Unary(Unary::Sigmoid, x) && uses[s.0 as usize] == 1;
    for i in 0..map.code.len() {
        map.code[i] = match map.code[i] {
            Instr::Binary(Binary::Mul, a, b) if minus_one(&map.code, b) => Instr::Unary(Unary::Neg, a),
            Instr::Binary(Binary::Mul, a, b) if minus_one(&map.code, a) => Instr::Unary(Unary::Neg, b),
            Instr::Binary(Binary::Mul, a, b) if silu(&map.code, a, b) => Instr::Unary(Unary::Silu, a),
            Instr::Binary(Binary::Mul, a, b) if silu(&map.code, b, a) => Instr::Unary(Unary::Silu, b),
            Instr::Binary(Binary::Add, a, b) => match (map.code[a.0 as usize], map.code[b.0 as usize]) {
                (_, Instr::Unary(Unary::Neg, x)) => Instr::Binary(Binary::Sub, a, x),
                (Instr::Unary(Unary::Neg, x), _) => Instr::Binary(Binary::Sub, b, x),
                _ => Instr::Binary(Binary::Add, a, b),
            },
            other => other,
        };
    }
    let uses = self::uses(&map);
    for i in 0..map.code.len() {
        if let Instr::Binary(Binary::Add, a, b) = map.code[i] {
            let product = |r: Reg| match map.code[r.0 as usize] {
                Instr::Binary(Binary::Mul, x, y) if uses[r.0 as usize] == 1 => Some((x, y)),
                _ => None,
            };
            if let Some((x, y)) = product(a) {
                map.code[i] = Instr::MulAdd(x, y, b);
            } else if let Some((x, y)) = product(b) {
                map.code[i] = Instr::MulAdd(x, y, a);
            }
        }
    }
    drop_dead(map)
}

/// How often each register is needed.
fn uses(map: &Map) -> Vec<usize> {
    let mut uses = vec![0; map.code.len()];
    map.code.iter().for_each(|i| operands(i).for_each(|r| uses[r.0 as usize] += 1));
    map.stores.iter().for_each(|s| uses[s.value.0 as usize] += 1);
    uses
}

fn operands(instr: &Instr) -> impl Iterator<Item = Reg> {
    let all = match *instr {
        Instr::Load(_) | Instr::Const(_) => [None; 3],
        Instr::Unary(_, a) => [Some(a), None, None],
        Instr::Binary(_, a, b) => [Some(a), Some(b), None],
        Instr::MulAdd(a, b, c) | Instr::Select(a, b, c) => [Some(a), Some(b), Some(c)],
    };
    all.into_iter().flatten()
}

/// Leaves out instructions and loads that no store needs.
fn drop_dead(map: Map) -> Map {
    let mut needed = vec![false; map.code.len()];
    map.stores.iter().for_each(|s| needed[s.value.0 as usize] = true);
    for i in (0..map.code.len()).rev() {
        if needed[i] {
            operands(&map.code[i]).for_each(|r| needed[r.0 as usize] = true);
        }
    }
    let mut new_of = vec![Reg(0); map.code.len()];
    let (mut code, mut loads) = (Vec::new(), Vec::new());
    for (i, instr) in map.code.iter().enumerate() {
        if !needed[i] {
            continue;
        }
        let reg = |r: Reg| new_of[r.0 as usize];
        let instr = match *instr {
            Instr::Load(l) => {
                loads.push(map.loads[l as usize].clone());
                Instr::Load(loads.len() as u32 - 1)
            }
            Instr::Const(c) => Instr::Const(c),
            Instr::Unary(u, a) => Instr::Unary(u, reg(a)),
            Instr::Binary(u, a, b) => Instr::Binary(u, reg(a), reg(b)),
            Instr::MulAdd(a, b, c) => Instr::MulAdd(reg(a), reg(b), reg(c)),
            Instr::Select(a, b, c) => Instr::Select(reg(a), reg(b), reg(c)),
        };
        code.push(instr);
        new_of[i] = Reg(code.len() as u32 - 1);
    }
    let stores = map.stores.into_iter().map(|s| Store { value: new_of[s.value.0 as usize], ..s }).collect();
    Map { dims: map.dims, loads, code, stores }
}
