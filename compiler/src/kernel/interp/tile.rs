//! Tiles: lane vectors, one number for each row.

use std::array::from_fn;

use super::super::access::indices;
use super::super::{
    Base, Binary, Copy, Gather, Gemm, Instr, LANES, Lanes, LocalId, Map, Mode, Scatter, Sort, Stmt, Tile, Unary, View,
};
use super::kernels::packed_place;
use super::{Machine, Ran, rounds};
use crate::interp::{Real, ascending, place};

type Vector<T> = [T; LANES];

impl<T: Real> Machine<'_, T> {
    pub(super) fn tile(&mut self, tile: &Tile) -> Ran<()> {
        let rows = tile.row_count();
        for first in (0..rows).step_by(LANES) {
            let arena = vec![([T::from_f64(f64::NAN); LANES], None); tile.arena];
            let mut worker = Worker { machine: self, tile, first, rows: LANES.min(rows - first), arena };
            worker.body(&tile.body)?;
        }
        Ok(())
    }
}

/// One tile of rows.
struct Worker<'w, 'm, T> {
    machine: &'w mut Machine<'m, T>,
    tile: &'w Tile,
    first: usize,
    /// Rows that it has, of [`LANES`].
    rows: usize,
    /// Lane vectors, and the local that wrote each of them last.
    arena: Vec<(Vector<T>, Option<LocalId>)>,
}

impl<T: Real> Worker<'_, '_, T> {
    fn body(&mut self, body: &[Stmt]) -> Ran<()> {
        for stmt in body {
            match stmt {
                Stmt::Map(map) => self.map(map),
                Stmt::Gemm(gemm) => self.gemm(gemm),
                Stmt::Copy(copy) => self.copy(copy),
                Stmt::Sort(sort) => self.sort(sort),
                Stmt::Gather(gather) => self.gather(gather),
                Stmt::Scatter(scatter) => self.scatter(scatter),
                Stmt::Loop { id, count, reverse, body } => {
                    for round in rounds(*count, *reverse) {
                        self.machine.rounds.insert(*id, round);
                        self.body(body)?;
                    }
                    self.machine.rounds.remove(id);
                    continue;
                }
            }
            .map_err(|message| format!("{}: {message}", stmt.name()))?;
        }
        Ok(())
    }

    fn map(&mut self, map: &Map) -> Ran<()> {
        // Sums and maxima so far, by the dimensions that are not reduced.
        let reduced = |view: &View| -> Vec<usize> {
            let sizes = map.dims.iter().zip(&view.strides);
            sizes.map(|(size, stride)| if *stride == 0 { 1 } else { *size }).collect()
        };
        let start = |mode: Mode| if mode == Mode::Max { f64::NEG_INFINITY } else { 0.0 };
        let mut folds: Vec<Vec<[f64; LANES]>> = Vec::new();
        for store in &map.stores {
            let entries = if store.mode == Mode::Set { 0 } else { reduced(&store.to).iter().product() };
            folds.push(vec![[start(store.mode); LANES]; entries]);
        }
        for index in indices(&map.dims) {
            let mut registers: Vec<Vector<T>> = Vec::with_capacity(map.code.len());
            for instr in &map.code {
                let value = match instr {
                    Instr::Load(load) => self.read(&map.loads[*load as usize], &index)?,
                    instr => from_fn(|lane| compute(*instr, |r| registers[r][lane])),
                };
                registers.push(value);
            }
            for (store, fold) in map.stores.iter().zip(&mut folds) {
                let value = registers[store.value.0 as usize];
                if store.mode == Mode::Set {
                    self.write(&store.to, &index, value);
                    continue;
                }
                let sizes = reduced(&store.to);
                let entry = index.iter().zip(&sizes).fold(0, |at, (i, size)| at * size + i.min(&(size - 1)));
                for (so_far, x) in fold[entry].iter_mut().zip(value) {
                    *so_far = match store.mode {
                        Mode::Max => so_far.larger(x.to_f64()),
                        Mode::Sum | Mode::Set => *so_far + x.to_f64(),
                    };
                }
            }
        }
        for (store, fold) in map.stores.iter().zip(folds) {
            for (index, value) in indices(&reduced(&store.to)).zip(fold) {
                self.write(&store.to, &index, value.map(T::from_f64));
            }
        }
        Ok(())
    }

    fn gemm(&mut self, gemm: &Gemm) -> Ran<()> {
        let Base::Buffer(weights) = gemm.weight.base else { unreachable!("the verifier lets only buffers pass") };
        for batch in indices(&gemm.batch) {
            let packed = self.machine.place(&gemm.weight, &batch);
            for m in indices(&gemm.m) {
                let row = [&batch[..], &m].concat();
                for n in 0..gemm.n {
                    let at = [&row[..], &[n]].concat();
                    let mut sum = [0.0; LANES];
                    let mut add = |value: Vector<T>, weight: f64| {
                        sum.iter_mut().zip(value).for_each(|(sum, x)| *sum += x.to_f64() * weight);
                    };
                    if gemm.accumulate {
                        add(self.read(&gemm.dst, &at)?, 1.0);
                    }
                    if let Some(bias) = &gemm.bias {
                        add(self.read(bias, &[&batch[..], &[n]].concat())?, 1.0);
                    }
                    for k in 0..gemm.k {
                        let weight = self.machine.number(weights, packed + packed_place(n, k, gemm.k))?;
                        add(self.read(&gemm.src, &[&row[..], &[k]].concat())?, weight.to_f64());
                    }
                    self.write(&gemm.dst, &at, sum.map(T::from_f64));
                }
            }
        }
        Ok(())
    }

    fn copy(&mut self, copy: &Copy) -> Ran<()> {
        for index in indices(&copy.dims) {
            let mut value = self.read(&copy.from, &index)?;
            value[self.rows..].fill(T::ZERO);
            self.write_rows(&copy.to, &index, value);
        }
        Ok(())
    }

    fn sort(&mut self, sort: &Sort) -> Ran<()> {
        for index in indices(&sort.dims) {
            let at = |place: usize| [&index[..], &[place]].concat();
            let values = (0..sort.n).map(|i| self.read(&sort.from, &at(i))).collect::<Ran<Vec<_>>>()?;
            let mut places: Vec<Vector<T>> = vec![[T::ZERO; LANES]; sort.n];
            for lane in 0..LANES {
                let mut order: Vec<usize> = (0..sort.n).collect();
                order.sort_by(|i, j| ascending(values[*i][lane], values[*j][lane]));
                order.iter().enumerate().for_each(|(i, place)| places[i][lane] = T::from_f64(*place as f64));
            }
            places.into_iter().enumerate().for_each(|(i, value)| self.write(&sort.to, &at(i), value));
        }
        Ok(())
    }

    fn gather(&mut self, gather: &Gather) -> Ran<()> {
        for index in indices(&gather.dims) {
            let at = self.read(&gather.at, &index)?;
            let from = self.machine.place(&gather.from, &index);
            let mut value = [T::from_f64(f64::NAN); LANES];
            for (lane, value) in value.iter_mut().enumerate().take(self.rows) {
                if let Some(place) = place(at[lane].to_f64(), gather.size) {
                    *value = self.read_at(&gather.from, from + place * gather.stride)?[lane];
                }
            }
            self.write(&gather.to, &index, value);
        }
        Ok(())
    }

    fn scatter(&mut self, scatter: &Scatter) -> Ran<()> {
        for index in indices(&scatter.dims) {
            let at = self.read(&scatter.at, &index)?;
            let from = self.read(&scatter.from, &index)?;
            let to = self.machine.place(&scatter.to, &index);
            for lane in 0..self.rows {
                let Some(place) = place(at[lane].to_f64(), scatter.size) else { continue };
                let to = to + place * scatter.stride;
                let mut value = self.read_at(&scatter.to, to)?;
                value[lane] = value[lane] + from[lane];
                self.write_at(&scatter.to, to, value, false);
            }
        }
        Ok(())
    }

    fn read(&self, view: &View, index: &[usize]) -> Ran<Vector<T>> {
        self.read_at(view, self.machine.place(view, index))
    }

    fn read_at(&self, view: &View, at: usize) -> Ran<Vector<T>> {
        let id = match view.base {
            Base::Local(id) => return self.read_local(id, at),
            Base::Buffer(id) => id,
        };
        let mut value = [T::from_f64(f64::NAN); LANES];
        if view.lanes == Lanes::Splat {
            return Ok([self.machine.number(id, at)?; LANES]);
        }
        for (lane, value) in value.iter_mut().enumerate().take(self.rows) {
            *value = self.machine.number(id, at + view.lanes.row(&self.tile.rows, self.first + lane))?;
        }
        Ok(value)
    }

    fn read_local(&self, id: LocalId, at: usize) -> Ran<Vector<T>> {
        let (value, owner) = self.arena[self.tile.locals[id.0 as usize].offset + at];
        match owner {
            Some(owner) if owner == id => Ok(value),
            None => Err(format!("it reads the vector at {at} of ${}, which has not been written", id.0)),
            Some(other) => Err(format!("it reads the vector at {at} of ${}, where ${} has been written since", id.0, other.0)),
        }
    }

    /// Writes a whole lane vector.
    fn write(&mut self, view: &View, index: &[usize], value: Vector<T>) {
        self.write_at(view, self.machine.place(view, index), value, true);
    }

    /// Writes the rows that there are; of a local, all lanes.
    fn write_rows(&mut self, view: &View, index: &[usize], value: Vector<T>) {
        self.write_at(view, self.machine.place(view, index), value, false);
    }

    fn write_at(&mut self, view: &View, at: usize, value: Vector<T>, whole: bool) {
        let id = match view.base {
            Base::Local(id) => {
                self.arena[self.tile.locals[id.0 as usize].offset + at] = (value, Some(id));
                return;
            }
            Base::Buffer(id) => id,
        };
        for (lane, x) in value.into_iter().enumerate().take(self.rows) {
            let row = view.lanes.row(&self.tile.rows, self.first + lane);
            self.machine.set_number(id, at + row, x);
        }
        // A backend writes something here, or in the room behind the buffer.
        let known = &mut self.machine.buffers[id.0 as usize].known;
        if whole {
            let end = (at + self.first + LANES).min(known.len());
            known[(at + self.first + self.rows).min(end)..end].fill(false);
        }
    }
}

/// One instruction but a load, of one row.
fn compute<T: Real>(instr: Instr, value: impl Fn(usize) -> T) -> T {
    let of = |r: super::super::Reg| value(r.0 as usize);
    match instr {
        Instr::Load(_) => unreachable!("loads are read by the worker"),
        Instr::Const(c) => T::from_f64(f64::from(c)),
        Instr::Unary(op, a) => unary(op, of(a)),
        Instr::Binary(op, a, b) => {
            let (a, b) = (of(a), of(b));
            match op {
                Binary::Add => a + b,
                Binary::Sub => a - b,
                Binary::Mul => a * b,
                Binary::Max => a.larger(b),
                Binary::Less if a < b => T::ONE,
                Binary::Less => T::ZERO,
            }
        }
        Instr::MulAdd(a, b, c) => T::from_f64(of(a).to_f64().mul_add(of(b).to_f64(), of(c).to_f64())),
        Instr::Select(c, a, b) => of(if of(c) != T::ZERO { a } else { b }),
    }
}

fn unary<T: Real>(op: Unary, x: T) -> T {
    match op {
        Unary::Neg => -x,
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Sin => x.sin(),
        Unary::Sqrt => x.sqrt(),
        Unary::Recip => x.recip(),
        Unary::Floor => x.floor(),
        Unary::Tanh => x.tanh(),
        Unary::Sigmoid => x.sigmoid(),
        Unary::Softplus => x.softplus(),
        Unary::Abs => x.abs(),
        Unary::Sign => x.sign(),
        Unary::Silu => x * x.sigmoid(),
    }
}
