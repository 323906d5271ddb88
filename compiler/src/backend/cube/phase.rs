//! Phases: what the units of a cube do between two points at which they might have to wait for each other.
//!
//! A statement is one phase or two: the second adds up what several units found. Who does which item is said here once; the
//! code (`tile`) and the places of barriers (`barrier`) both follow from it.

use crate::kernel::{Copy, Gather, Gemm, Instr, Map, Mode, Reg, Scatter, Sort, Store, View};

use super::plan::{Limits, SCRATCH, Weight};
use super::tensor::TensorPhase;

/// What units do, item by item: item i is done by unit `i % units`.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    Map(MapPhase),
    MapSum(MapPhase),
    Gemm(GemmPhase),
    GemmSum(GemmPhase),
    /// With barriers of its own.
    Tensor(TensorPhase),
    Copy(Copy),
    Sort(Sort),
    Gather(Gather),
    Scatter(ScatterPhase),
}

/// A map, or the part of it whose sums and maxima go along the same dimensions.
#[derive(Debug, Clone)]
pub(super) struct MapPhase {
    /// Dimensions with an item each, and those that an item goes through, as indices into `dims`.
    pub(super) kept: Vec<usize>,
    pub(super) reduced: Vec<usize>,
    pub(super) dims: Vec<usize>,
    pub(super) loads: Vec<View>,
    pub(super) code: Vec<Instr>,
    pub(super) sets: Vec<Store>,
    pub(super) folds: Vec<Store>,
    /// Units that share an item's sum; each has a part of it.
    pub(super) split: usize,
    /// They are of one plane and hand their parts to each other; else the phase after adds them up.
    pub(super) in_plane: bool,
}

impl MapPhase {
    /// The item that does a part of a result, of so many results for all rows.
    pub(super) fn item(&self, result: usize, part: usize, results: usize) -> usize {
        if self.in_plane { result * self.split + part } else { part * results + result }
    }

    /// Results for each row of the cube.
    pub(super) fn results(&self) -> usize {
        self.kept.iter().map(|d| self.dims[*d]).product()
    }

    /// Entries that each result sums.
    pub(super) fn length(&self) -> usize {
        self.reduced.iter().map(|d| self.dims[*d]).product()
    }
}

/// A product: items are blocks of `block` rows by four outputs.
#[derive(Debug, Clone)]
pub(super) struct GemmPhase {
    pub(super) gemm: Gemm,
    pub(super) weight: Weight,
    /// Rows of the cube times the dimensions that share the weight.
    pub(super) m: usize,
    pub(super) block: usize,
    /// Groups of four outputs, all panels together.
    pub(super) groups: usize,
    /// Units that share an item's sum.
    pub(super) split: usize,
}

impl GemmPhase {
    pub(super) fn batch(&self) -> usize {
        self.gemm.batch.iter().product()
    }

    pub(super) fn blocks(&self) -> usize {
        self.m.div_ceil(self.block)
    }

    /// Entries of the sum that a unit takes.
    pub(super) fn chunk(&self) -> usize {
        self.gemm.k.div_ceil(self.split)
    }

    pub(super) fn items(&self) -> usize {
        self.batch() * self.blocks() * self.groups * self.split
    }

    /// Numbers that the phase computes.
    pub(super) fn results(&self) -> usize {
        self.batch() * self.m * self.gemm.n
    }

    /// Where a unit's part of a result is among all of them.
    pub(super) fn partial(&self, part: usize, batch: usize, m: usize, n: usize) -> usize {
        ((part * self.batch() + batch) * self.m + m) * self.gemm.n + n
    }

    /// The outputs of a group: the first, and how many of the four there are.
    pub(super) fn outputs(&self, group: usize) -> (usize, usize) {
        let in_panel = self.weight.pitch / 4;
        let (panel, place) = (group / in_panel, group % in_panel * 4);
        let first = panel * self.weight.panel + place;
        let end = ((panel + 1) * self.weight.panel).min(self.gemm.n);
        (first, end.saturating_sub(first).min(4))
    }
}

/// Entries that may meet are gone through by one unit, in order.
#[derive(Debug, Clone)]
pub(super) struct ScatterPhase {
    pub(super) scatter: Scatter,
    pub(super) kept: Vec<usize>,
    pub(super) serial: Vec<usize>,
}

/// The phases of a map. Sums along other dimensions than those of the stores are phases before: what they read has not been
/// overwritten yet.
pub(super) fn map(map: &Map, rows: usize, limits: &Limits) -> Vec<Phase> {
    let map = merged(map);
    let reduced_by = |store: &Store| -> Vec<usize> {
        if store.mode == Mode::Set {
            return Vec::new();
        }
        (0..map.dims.len()).filter(|d| store.to.strides[*d] == 0 && map.dims[*d] != 1).collect()
    };
    let (sets, folds): (Vec<Store>, Vec<Store>) = map.stores.iter().cloned().partition(|s| s.mode == Mode::Set);
    let mut ways: Vec<(Vec<usize>, Vec<Store>)> = Vec::new();
    for fold in folds {
        let reduced = reduced_by(&fold);
        match ways.iter_mut().find(|(way, _)| *way == reduced) {
            Some((_, stores)) => stores.push(fold),
            None => ways.push((reduced, vec![fold])),
        }
    }
    if ways.is_empty() {
        ways.push((Vec::new(), Vec::new()));
    }
    let last = ways.len() - 1;
    let mut phases = Vec::new();
    for (i, (reduced, folds)) in ways.into_iter().enumerate() {
        let sets = if i == last { sets.clone() } else { Vec::new() };
        let kept = (0..map.dims.len()).filter(|d| !reduced.contains(d)).collect();
        let code = map.code.clone();
        let (dims, loads) = (map.dims.clone(), map.loads.clone());
        let mut phase = MapPhase { kept, reduced, dims, loads, code, sets, folds, split: 1, in_plane: false };
        (phase.split, phase.in_plane) = split(phase.results() * rows, phase.length(), phase.folds.len(), limits);
        let sums = phase.split > 1 && !phase.in_plane;
        phases.push(Phase::Map(phase.clone()));
        if sums {
            phases.push(Phase::MapSum(phase));
        }
    }
    phases
}

/// Units that share each of some sums, and whether they are of one plane: as many as would be idle, but no more than the sum is
/// worth or partial sums fit.
fn split(results: usize, length: usize, sums: usize, limits: &Limits) -> (usize, bool) {
    if results == 0 || sums == 0 {
        return (1, false);
    }
    let most = (limits.units as usize / results).min(length / 4);
    let plane = limits.plane as usize;
    let most = if plane > 1 { most.min(plane) } else { most.min(SCRATCH / (results * sums)) };
    if most < 2 { (1, false) } else { (1 << most.ilog2(), plane > 1) }
}

/// Neighbouring dimensions that every view goes through as one become one; those of one entry go.
fn merged(map: &Map) -> Map {
    let mut map = map.clone();
    let views = |map: &Map| -> Vec<Vec<usize>> {
        map.loads.iter().chain(map.stores.iter().map(|s| &s.to)).map(|v| v.strides.clone()).collect()
    };
    let remove = |map: &mut Map, d: usize| {
        map.dims.remove(d);
        map.loads.iter_mut().chain(map.stores.iter_mut().map(|s| &mut s.to)).for_each(|v| {
            v.strides.remove(d);
        });
    };
    while let Some(d) = map.dims.iter().position(|size| *size == 1) {
        remove(&mut map, d);
    }
    let mut d = 0;
    while d + 1 < map.dims.len() {
        let (outer, inner) = (map.dims[d], map.dims[d + 1]);
        if views(&map).iter().all(|strides| strides[d] == strides[d + 1] * inner) {
            map.dims[d + 1] = outer * inner;
            remove(&mut map, d);
        } else {
            d += 1;
        }
    }
    map
}

/// Registers of a map that some stores need.
pub(super) fn needed(code: &[Instr], stores: &[&Store]) -> Vec<bool> {
    let mut needed = vec![false; code.len()];
    stores.iter().for_each(|s| needed[s.value.0 as usize] = true);
    for i in (0..code.len()).rev() {
        if !needed[i] {
            continue;
        }
        let of: Vec<Reg> = match code[i] {
            Instr::Load(_) | Instr::Const(_) => vec![],
            Instr::Unary(_, a) => vec![a],
            Instr::Binary(_, a, b) => vec![a, b],
            Instr::MulAdd(a, b, c) | Instr::Select(a, b, c) => vec![a, b, c],
        };
        of.iter().for_each(|r| needed[r.0 as usize] = true);
    }
    needed
}

/// The phases of a product.
pub(super) fn gemm(gemm: &Gemm, weight: Weight, rows: usize, limits: &Limits) -> Vec<Phase> {
    let units = limits.units as usize;
    let m = gemm.m.iter().product::<usize>() * rows;
    if let Some(phase) = TensorPhase::new(gemm, weight, m, limits) {
        return vec![Phase::Tensor(phase)];
    }
    // Blocks that leave no row over, unless they would be small.
    let whole = (1..=8.min(m.max(1))).rev().find(|b| m.is_multiple_of(*b)).unwrap_or(1);
    let block = if 2 * whole > 8.min(m) { whole } else { 4 };
    let groups = gemm.n.div_ceil(weight.panel) * (weight.pitch / 4);
    // The last panel may end before its last group.
    let groups = if weight.panels() == 1 { gemm.n.div_ceil(4) } else { groups };
    let mut phase = GemmPhase { gemm: gemm.clone(), weight, m, block, groups, split: 1 };
    let items = phase.items().max(1);
    let most = (units / items).min(gemm.k / 8).min(SCRATCH / phase.results().max(1));
    if most >= 2 {
        phase.split = 1 << most.ilog2();
        return vec![Phase::Gemm(phase.clone()), Phase::GemmSum(phase)];
    }
    vec![Phase::Gemm(phase)]
}

/// The phase of a scatter. Dimensions along which places cannot meet have an item each: those whose stride is longer than
/// all that lies below it, as long as all above them are, too.
pub(super) fn scatter(scatter: &Scatter) -> Phase {
    let mut order: Vec<usize> = (0..scatter.dims.len()).filter(|d| scatter.dims[*d] > 1).collect();
    order.sort_by_key(|d| scatter.to.strides[*d]);
    let mut span = scatter.size.saturating_sub(1) * scatter.stride;
    let mut kept = Vec::new();
    for d in order {
        let stride = scatter.to.strides[d];
        if stride > span {
            kept.push(d);
        } else {
            kept.clear();
        }
        span += (scatter.dims[d] - 1) * stride;
    }
    kept.sort_unstable();
    let serial = (0..scatter.dims.len()).filter(|d| !kept.contains(d)).collect();
    Phase::Scatter(ScatterPhase { scatter: scatter.clone(), kept, serial })
}
