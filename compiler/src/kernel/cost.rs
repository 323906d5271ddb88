//! What kernels cost, by counting: work, traffic with buffers, room on chip.
//!
//! - Work is counted for the rows that there are, not for those that fill the last tile up.
//! - A multiply-add is two flops; so are the products of `gemm` and `contract`. Other instructions and every addition of a
//!   sum are one. Functions that a device computes by a polynomial or a table ([`is_transcendental`]) are counted apart.
//! - A buffer's number is moved once for each view that a kernel has of it: locals hold what is used again, and weights,
//!   which all rows share, count once a kernel. Views that overlap cannot move more than the whole buffer.
//! - Loops inside a kernel multiply its work, and its traffic where they move the view; loops of steps multiply launches.

use std::collections::{BTreeMap, HashSet};
use std::iter::Sum;
use std::ops::{Add, Mul};

use serde::{Deserialize, Serialize};

use super::access::Access;
use super::{
    Binary, Buffer, BufferId, Contract, Gemm, Instr, Kernel, LANES, Lanes, LoopId, Map, Mode, Program, Sort, Step, Stmt, Tile,
    Unary, View, Work,
};

/// Bytes of a number.
const NUMBER: u64 = size_of::<f32>() as u64;

/// What one run of a kernel, or of several, does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cost {
    pub flops: u64,
    /// Those among the flops that are of `gemm` and of `contract` with two factors: what a library's matrix product would do.
    pub products: u64,
    /// exp, log, sin, tanh, sigmoid, softplus, silu.
    pub transcendental: u64,
    /// Bytes read from buffers.
    pub read: u64,
    /// Bytes written to buffers.
    pub written: u64,
}

/// What a part of a program does in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Kernels in the program.
    pub kernels: u64,
    /// Times that the workers are called, loops of steps multiplied.
    pub launches: u64,
    pub cost: Cost,
}

impl Cost {
    pub fn bytes(self) -> u64 {
        self.read + self.written
    }

    /// Flops for each byte that is moved; None where nothing is.
    pub fn intensity(self) -> Option<f64> {
        (self.bytes() > 0).then(|| self.flops as f64 / self.bytes() as f64)
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            flops: self.flops + other.flops,
            products: self.products + other.products,
            transcendental: self.transcendental + other.transcendental,
            read: self.read + other.read,
            written: self.written + other.written,
        }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(all: I) -> Cost {
        all.fold(Cost::default(), Cost::add)
    }
}

impl Mul<u64> for Cost {
    type Output = Cost;

    fn mul(self, times: u64) -> Cost {
        Cost {
            flops: self.flops * times,
            products: self.products * times,
            transcendental: self.transcendental * times,
            read: self.read * times,
            written: self.written * times,
        }
    }
}

/// All of `steps`, with loops multiplied.
pub fn totals(program: &Program, steps: &[Step]) -> Totals {
    let mut totals = Totals::default();
    each_launch(steps, &mut |kernels, times| {
        totals.launches += times;
        totals.kernels += kernels.len() as u64;
        totals.cost = totals.cost + kernels.iter().map(|k| kernel(program, k)).sum::<Cost>() * times;
    });
    totals
}

/// Calls `f` with every launch and how often it happens.
pub fn each_launch<'p>(steps: &'p [Step], f: &mut impl FnMut(&'p [Kernel], u64)) {
    fn walk<'p>(steps: &'p [Step], times: u64, f: &mut impl FnMut(&'p [Kernel], u64)) {
        for step in steps {
            match step {
                Step::Launch(kernels) => f(kernels, times),
                Step::Loop { count, body, .. } => walk(body, times * *count as u64, f),
                Step::Swap(..) => {}
            }
        }
    }
    walk(steps, 1, f);
}

/// One run of a kernel.
pub fn kernel(program: &Program, kernel: &Kernel) -> Cost {
    let mut count =
        Count { program, cost: Cost::default(), loops: BTreeMap::new(), seen: HashSet::new(), moved: BTreeMap::new() };
    match &kernel.work {
        Work::Tile(tile) => count.body(&tile.body, tile),
        Work::Contract(contract) => {
            let flops = contract_flops(contract);
            count.cost.flops += flops;
            count.cost.products += if contract.b.is_some() { flops } else { 0 };
            contract.accesses().iter().for_each(|a| count.access(a, &[contract.rows]));
        }
        Work::Pack(pack) => {
            count.access(&pack.from_access(), &[]);
            count.moves(pack.to, true, pack.len() as u64);
        }
        Work::Random(random) => count.moves(random.to, true, u64::MAX),
    }
    count.finish()
}

/// Bytes that a worker's locals take.
pub fn on_chip(work: &Work) -> u64 {
    match work {
        Work::Tile(tile) => (tile.arena * LANES) as u64 * NUMBER,
        Work::Contract(_) | Work::Pack(_) | Work::Random(_) => 0,
    }
}

/// Whether a function is computed by a polynomial or a table.
pub fn is_transcendental(op: Unary) -> bool {
    match op {
        Unary::Exp | Unary::Log | Unary::Sin | Unary::Tanh | Unary::Sigmoid | Unary::Softplus | Unary::Silu => true,
        Unary::Neg | Unary::Sqrt | Unary::Recip | Unary::Floor | Unary::Abs | Unary::Sign => false,
    }
}

struct Count<'p> {
    program: &'p Program,
    cost: Cost,
    /// Steps of the kernel's own loops around.
    loops: BTreeMap<LoopId, u64>,
    /// What has been counted: a view with its dimensions, and whether it is written.
    seen: HashSet<(View, Vec<usize>, bool)>,
    /// Numbers of each buffer, read or written.
    moved: BTreeMap<(BufferId, bool), u64>,
}

impl Count<'_> {
    fn body(&mut self, body: &[Stmt], tile: &Tile) {
        for stmt in body {
            if let Stmt::Loop { id, count, body, .. } = stmt {
                self.loops.insert(*id, *count as u64);
                self.body(body, tile);
                self.loops.remove(id);
                continue;
            }
            let times = self.loops.values().product::<u64>() * tile.row_count() as u64;
            self.cost = self.cost + work(stmt) * times;
            stmt.accesses().iter().for_each(|access| self.access(access, &tile.rows));
        }
    }

    fn access(&mut self, access: &Access<'_>, rows: &[usize]) {
        let Some(buffer) = access.buffer() else { return };
        let view = access.view;
        let dims = access.dims.iter().copied().zip(view.strides.iter().copied());
        let rows: u64 = match &view.lanes {
            Lanes::Unit => product(rows),
            Lanes::Splat => 1,
            Lanes::Strided(strides) => distinct(rows.iter().copied().zip(strides.iter().copied())),
        };
        // A loop of steps around the kernel stands still while it runs.
        let steps: u64 = view.loops.iter().filter(|(_, stride)| *stride > 0).filter_map(|(id, _)| self.loops.get(id)).product();
        let places = distinct(dims) * rows * steps;
        let numbers = match access.beyond {
            None => places,
            // A packed weight is used whole; of an axis that is gathered from, one entry for each place.
            Some((size, _)) if access.dims.is_empty() || view.lanes == Lanes::Splat => places * size as u64,
            Some((size, _)) => (places * size as u64).min(product(&access.dims) * rows * steps),
        };
        for (writes, does) in [(false, access.role.reads()), (true, access.role.writes())] {
            if does && self.seen.insert((view.clone(), access.dims.clone(), writes)) {
                self.moves(buffer, writes, numbers);
            }
        }
    }

    fn moves(&mut self, buffer: BufferId, writes: bool, numbers: u64) {
        let moved = self.moved.entry((buffer, writes)).or_default();
        *moved = moved.saturating_add(numbers);
    }

    fn finish(self) -> Cost {
        let bytes = |writes: bool| -> u64 {
            let of = self.moved.iter().filter(|((_, w), _)| *w == writes);
            of.map(|((id, _), numbers)| (*numbers).min(len(&self.program.buffers[id.0 as usize])) * NUMBER).sum()
        };
        Cost { read: bytes(false), written: bytes(true), ..self.cost }
    }
}

fn len(buffer: &Buffer) -> u64 {
    buffer.len as u64
}

/// The work of a statement for one row.
fn work(stmt: &Stmt) -> Cost {
    let flops = |flops: u64| Cost { flops, ..Cost::default() };
    match stmt {
        Stmt::Map(map) => map_work(map),
        Stmt::Gemm(gemm) => gemm_work(gemm),
        Stmt::Sort(sort) => flops(sort_flops(sort)),
        Stmt::Scatter(scatter) => flops(product(&scatter.dims)),
        Stmt::Copy(_) | Stmt::Gather(_) | Stmt::Loop { .. } => Cost::default(),
    }
}

fn map_work(map: &Map) -> Cost {
    let mut one = Cost::default();
    for instr in &map.code {
        match instr {
            Instr::Load(_) | Instr::Const(_) => {}
            Instr::Unary(op, _) => {
                let transcendental = is_transcendental(*op);
                one.transcendental += u64::from(transcendental);
                // `silu` multiplies besides.
                one.flops += u64::from(!transcendental || *op == Unary::Silu);
            }
            Instr::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Max | Binary::Less, ..) => one.flops += 1,
            Instr::MulAdd(..) => one.flops += 2,
            Instr::Select(..) => one.flops += 1,
        }
    }
    one.flops += map.stores.iter().filter(|store| store.mode != Mode::Set).count() as u64;
    one * product(&map.dims)
}

fn gemm_work(gemm: &Gemm) -> Cost {
    let outputs = product(&gemm.batch) * product(&gemm.m) * gemm.n as u64;
    let products = outputs * 2 * gemm.k as u64;
    let bias = if gemm.bias.is_some() { outputs } else { 0 };
    Cost { flops: products + bias, products, ..Cost::default() }
}

fn contract_flops(contract: &Contract) -> u64 {
    let outputs = product(&contract.batch) * product(&contract.n) * product(&contract.i);
    let each = if contract.b.is_some() { 2 } else { 1 };
    outputs * product(&contract.k) * contract.rows as u64 * each
}

/// Comparisons of a sort that merges.
fn sort_flops(sort: &Sort) -> u64 {
    let n = sort.n as u64;
    product(&sort.dims) * n * u64::from(n.max(1).next_power_of_two().ilog2())
}

fn product(dims: &[usize]) -> u64 {
    dims.iter().map(|d| *d as u64).product()
}

/// Places along dimensions, given as sizes and strides; a stride of 0 stays where it is.
fn distinct(dims: impl Iterator<Item = (usize, usize)>) -> u64 {
    dims.map(|(size, stride)| if stride == 0 { size.min(1) as u64 } else { size as u64 }).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::text::parse;

    fn program(text: &str) -> Program {
        parse(text).unwrap_or_else(|e| panic!("{e}"))
    }

    const DENSE: &str = "program p
buffer %0 x: input 160
buffer %1 w: input 1500
buffer %2 w.packed: kept 1500
buffer %3 y: output 4800
input %0, %1
output %3
prepare {
  launch {
    pack w n 30 k [50]: %2 = %1[50, 1] splat
  }
}
steps {
  for t0 in 4 {
    launch {
      tile head rows [20] arena 80 {
        local $0: 50 @ 0
        local $1: 30 @ 50
        copy [8]: $0[1] = %0[1] rows [8]
        for t1 in 3 {
          gemm n 30 k 50: $1[1] = $0[1] * %2[] splat
          map [30] {
            r0 = load $1[1]
            r1 = tanh r0
            r2 = mul r1, r0
            store $1[1] = r2
          }
        }
        copy [30]: %3[1] rows [30] = $1[1]
      }
    }
  }
}
";

    #[test]
    fn loops_rows_and_weights() {
        let p = program(DENSE);
        let mut costs = Vec::new();
        each_launch(&p.steps, &mut |kernels, times| {
            costs.extend(kernels.iter().map(|k| (kernel(&p, k), on_chip(&k.work), times)))
        });
        let [(cost, on_chip, times)] = costs[..] else { panic!("{costs:?}") };
        assert_eq!(times, 4);
        assert_eq!(cost.flops, 20 * 3 * (2 * 30 * 50 + 30));
        assert_eq!(cost.products, 20 * 3 * 2 * 30 * 50);
        assert_eq!(cost.transcendental, 20 * 3 * 30);
        // The inputs of 20 rows, and the weights once, however often the loop goes round.
        assert_eq!(cost.read, 4 * (20 * 8 + 1500));
        assert_eq!(cost.written, 4 * 20 * 30);
        assert_eq!(on_chip, 80 * LANES as u64 * 4);
        assert_eq!(cost.intensity(), Some(cost.flops as f64 / (cost.read + cost.written) as f64));
    }

    #[test]
    fn totals_multiply_loops_of_steps() {
        let p = program(DENSE);
        let (all, prepare) = (totals(&p, &p.steps), totals(&p, &p.prepare));
        assert_eq!((all.launches, all.kernels), (4, 1));
        assert_eq!(all.cost.transcendental, 4 * 1800);
        assert_eq!((prepare.launches, prepare.kernels), (1, 1));
        assert_eq!(prepare.cost, Cost { read: 6000, written: 6000, ..Cost::default() });
    }

    #[test]
    fn sums_over_rows_and_views_that_overlap() {
        let p = program(
            "program p
buffer %0 a: input 960
buffer %1 b: input 640
buffer %2 c: output 6
input %0, %1
output %2
steps {
  launch {
    contract sum rows 320 n [3] i [2]: %2[2, 1] splat = %0[320] * %1[320]
  }
}
",
        );
        let all = totals(&p, &p.steps);
        assert_eq!(all.cost, Cost { flops: 2 * 6 * 320, products: 2 * 6 * 320, transcendental: 0, read: 4 * 1600, written: 24 });
        assert_eq!(Cost::default().intensity(), None);
    }
}
