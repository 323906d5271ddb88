//! Tiles: statements, rows that keep to themselves, locals that live side by side.

use std::collections::{BTreeMap, BTreeSet};

use super::super::access::Access;
use super::super::{Base, Gemm, Instr, LANES, Lanes, LocalId, Map, PANEL, Reg, Stmt, Tile};
use super::limits::Meter;
use super::region::{Counts, Region, in_step};
use super::{Check, Checked, countable, each_stmt, ensure, limits, show};
use crate::budget::NUMBERS;

impl Check<'_> {
    pub(super) fn tile(&mut self, tile: &Tile) -> Checked {
        ensure!(countable(&tile.rows), "it has more rows than can be counted");
        ensure!(tile.arena <= NUMBERS / LANES, "its arena is larger than can be counted");
        for (i, local) in tile.locals.iter().enumerate() {
            let end = local.offset.checked_add(local.len);
            ensure!(end.is_some_and(|end| end <= tile.arena), "local ${i} ends past the arena of {}", tile.arena);
        }
        let lens: Vec<usize> = tile.locals.iter().map(|l| l.len).collect();
        self.body(&tile.body, tile, &lens)?;
        self.own_rows(tile)?;
        lifetimes(tile, &self.meter)
    }

    fn body(&mut self, body: &[Stmt], tile: &Tile, lens: &[usize]) -> Checked {
        for stmt in body {
            if let Stmt::Loop { id, count, body, .. } = stmt {
                self.enter(*id, *count)?;
                self.body(body, tile, lens)?;
                self.counts.remove(id);
                continue;
            }
            self.stmt(stmt, tile, lens).map_err(|message| format!("{}: {message}", stmt.name()))?;
        }
        Ok(())
    }

    fn stmt(&self, stmt: &Stmt, tile: &Tile, lens: &[usize]) -> Checked {
        limits::stmt(stmt, &self.meter)?;
        let accesses = stmt.accesses();
        accesses.iter().try_for_each(|access| self.access_in(access, &tile.rows, Some(lens)))?;
        // A tile without rows is not run.
        if !tile.rows.contains(&0) {
            self.apart(&accesses, &tile.rows)?;
        }
        match stmt {
            Stmt::Map(map) => code(map),
            Stmt::Gemm(gemm) => self.weight(gemm),
            Stmt::Copy(_) | Stmt::Sort(_) | Stmt::Gather(_) | Stmt::Scatter(_) | Stmt::Loop { .. } => Ok(()),
        }
    }

    /// The weight is packed for this `k`, and starts with a panel.
    fn weight(&self, gemm: &Gemm) -> Checked {
        let Base::Buffer(id) = gemm.weight.base else { return Err("weight: it is not a buffer".to_string()) };
        let Some(pack) = self.packs.get(&id) else { return Err(format!("weight: nothing packs {}", show(id))) };
        let (k, packed) = (gemm.k, pack.k.iter().product::<usize>());
        ensure!(k == packed, "weight: {} is packed for sums of {packed}, not {k}", show(id));
        let batch = gemm.batch.iter().copied().zip(gemm.weight.strides.iter().copied());
        let loops = gemm.weight.loops.iter().map(|(id, stride)| (self.counts[id], *stride));
        let moves = batch.chain(loops).filter(|(size, _)| *size > 1).map(|(_, stride)| stride);
        for distance in moves.chain([gemm.weight.offset]) {
            ensure!(k == 0 || distance % (PANEL * k) == 0, "weight: {distance} is not the start of a panel of {}", PANEL * k);
        }
        Ok(())
    }

    /// Rows run in any order and at once: none may see what another writes.
    fn own_rows(&self, tile: &Tile) -> Checked {
        let count = tile.row_count();
        if count < 2 {
            return Ok(());
        }
        // Every touch of a buffer, with the loops around it, over all their steps.
        let mut touches: Vec<(&'static str, Access<'_>, Counts)> = Vec::new();
        collect(&tile.body, &mut self.counts.clone(), &mut touches);
        let mut by_base: BTreeMap<Base, Vec<usize>> = BTreeMap::new();
        for (i, (stmt_a, a, counts_a)) in touches.iter().enumerate() {
            let same_base = by_base.entry(a.view.base).or_default();
            same_base.push(i);
            for (stmt_b, b, counts_b) in same_base.iter().map(|j| &touches[*j]) {
                if !(a.role.writes() || b.role.writes()) {
                    continue;
                }
                let mut counts = counts_a.clone();
                counts.extend(counts_b);
                let unit = [a, b].iter().all(|access| access.view.lanes == Lanes::Unit);
                if unit && in_step(a, b, count, &counts) {
                    continue;
                }
                let [x, y] = [a, b].map(|access| Region::of(access, &tile.rows, &counts, &self.counts));
                let (Some(x), Some(y)) = (x, y) else { continue };
                if a.same_places(b) && x.rows_apart() {
                    continue;
                }
                // Each place has one row that writes it, else `a` and itself meet; so the writer's rows are looked up.
                let (written, other) = if a.role.writes() { (x, y) } else { (y, x) };
                let meets = written.meets(&other, &counts, &self.meter)? && written.rows_meet(&other, &counts, &self.meter)?;
                let buffer = a.buffer().map(show).unwrap_or_default();
                let (a, b) = (&a.name, &b.name);
                ensure!(!meets, "rows meet in {buffer}: {stmt_b}'s {b} and {stmt_a}'s {a}");
            }
        }
        Ok(())
    }
}

fn collect<'a>(body: &'a [Stmt], counts: &mut Counts, touches: &mut Vec<(&'static str, Access<'a>, Counts)>) {
    for stmt in body {
        if let Stmt::Loop { id, count, body, .. } = stmt {
            counts.insert(*id, *count);
            collect(body, counts, touches);
            counts.remove(id);
        }
        let accesses = stmt.accesses().into_iter().filter(|access| access.buffer().is_some());
        touches.extend(accesses.map(|access| (stmt.name(), access, counts.clone())));
    }
}

/// Every register is computed before it is used.
fn code(map: &Map) -> Checked {
    for (i, instr) in map.code.iter().enumerate() {
        let operands = match instr {
            Instr::Load(load) => {
                let loads = map.loads.len();
                ensure!((*load as usize) < loads, "there is no load {load}; there are {loads}");
                vec![]
            }
            Instr::Const(_) => vec![],
            Instr::Unary(_, a) => vec![a],
            Instr::Binary(_, a, b) => vec![a, b],
            Instr::MulAdd(a, b, c) | Instr::Select(a, b, c) => vec![a, b, c],
        };
        for Reg(r) in operands {
            ensure!((*r as usize) < i, "register r{r} is used for r{i}, before it is computed");
        }
    }
    for (i, store) in map.stores.iter().enumerate() {
        let (Reg(r), registers) = (store.value, map.code.len());
        ensure!((r as usize) < registers, "store {i}: there is no register r{r}; there are {registers}");
    }
    Ok(())
}

/// A local's uses: statements are counted as they stand.
struct Life {
    first: usize,
    last: usize,
    uses: Vec<usize>,
}

/// Locals are written before they are read, and those that share a place do not live at once.
fn lifetimes(tile: &Tile, meter: &Meter) -> Checked {
    let mut lives: Vec<Option<Life>> = tile.locals.iter().map(|_| None).collect();
    let mut written: BTreeSet<LocalId> = BTreeSet::new();
    let mut at = 0;
    let mut early = Ok(());
    each_stmt(&tile.body, &mut Counts::new(), &mut |stmt, _| {
        let accesses = stmt.accesses();
        let local = |access: &Access<'_>| match access.view.base {
            Base::Local(id) => Some(id),
            Base::Buffer(_) => None,
        };
        for (access, id) in accesses.iter().filter_map(|a| local(a).map(|id| (a, id))) {
            if access.role.reads() && !written.contains(&id) && early.is_ok() {
                early = Err(format!("{}: {}: local ${} is read before it is written", stmt.name(), access.name, id.0));
            }
            let life = lives[id.0 as usize].get_or_insert(Life { first: at, last: at, uses: Vec::new() });
            life.last = at;
            life.uses.push(at);
        }
        written.extend(accesses.iter().filter(|a| a.role.writes()).filter_map(local));
        at += 1;
    });
    early?;

    // Innermost loops first: what grows to the whole of a loop is used in the loop around it as well.
    let mut loops = Vec::new();
    spans(&tile.body, &mut 0, &mut loops);
    let uses: usize = lives.iter().flatten().map(|life| life.uses.len()).sum();
    meter.steps((loops.len() as u64).saturating_mul(uses as u64))?;
    meter.steps((lives.len() as u64).saturating_mul(lives.len() as u64))?;
    for (start, end) in loops {
        for life in lives.iter_mut().flatten() {
            let inside = |at: &usize| (start..end).contains(at);
            if life.uses.iter().any(inside) && !life.uses.iter().all(inside) {
                life.first = life.first.min(start);
                life.last = life.last.max(end - 1);
            }
        }
    }
    for (i, a) in lives.iter().enumerate() {
        for (j, b) in lives[..i].iter().enumerate() {
            let (Some(a), Some(b)) = (a, b) else { continue };
            let (x, y) = (&tile.locals[i], &tile.locals[j]);
            let together = a.first <= b.last && b.first <= a.last;
            let place = x.offset < y.offset + y.len && y.offset < x.offset + x.len;
            ensure!(!(together && place), "locals ${j} and ${i} live at the same time at the same place");
        }
    }
    Ok(())
}

/// The statements of each loop, inner loops before the outer; `at` counts statements that are no loop.
fn spans(body: &[Stmt], at: &mut usize, loops: &mut Vec<(usize, usize)>) {
    for stmt in body {
        match stmt {
            Stmt::Loop { body, .. } => {
                let start = *at;
                spans(body, at, loops);
                if *at > start {
                    loops.push((start, *at));
                }
            }
            _ => *at += 1,
        }
    }
}
