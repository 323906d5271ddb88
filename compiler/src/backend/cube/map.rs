//! Maps: fused elementwise work, with sums and maxima.

use crate::kernel::{Instr, Mode, Reg, Store};

use super::builder::{Code, Val, Var, index, number};
use super::math::{binary, folded, unary};
use super::phase::{MapPhase, needed};
use super::tile::{Emitter, unravel};

fn value(values: &[Option<Val>], store: &Store) -> Val {
    values[store.value.0 as usize].expect("a store's value is needed")
}

/// What sums and maxima start with.
fn neutral(code: &mut Code, map: &MapPhase) -> Vec<Var> {
    let mut start = |fold: &Store| {
        let start = code.constant(if fold.mode == Mode::Max { f32::NEG_INFINITY } else { 0.0 });
        code.var(start)
    };
    map.folds.iter().map(&mut start).collect()
}

impl Emitter<'_> {
    /// The registers of an entry that the stores need.
    fn registers(&self, code: &mut Code, map: &MapPhase, at: &[Val], row: Val) -> Vec<Option<Val>> {
        let stores: Vec<&Store> = map.sets.iter().chain(&map.folds).collect();
        let needed = needed(&map.code, &stores);
        let mut values: Vec<Option<Val>> = Vec::new();
        for (instr, needed) in map.code.iter().zip(needed) {
            if !needed {
                values.push(None);
                continue;
            }
            let of = |r: Reg| values[r.0 as usize].expect("operands of what is needed are needed");
            values.push(Some(match *instr {
                Instr::Load(load) => self.read(code, &map.loads[load as usize], at, row),
                Instr::Const(x) => code.constant(x),
                Instr::Unary(op, a) => unary(code, op, of(a)),
                Instr::Binary(op, a, b) => binary(code, op, of(a), of(b)),
                Instr::MulAdd(a, b, c) => code.mul_add(of(a), of(b), of(c)),
                Instr::Select(c, a, b) => {
                    let cond = code.differ(of(c), number(0.0));
                    code.select(cond, of(a), of(b))
                }
            }));
        }
        values
    }

    pub(super) fn map(&self, code: &mut Code, map: &MapPhase) {
        let kept: Vec<usize> = map.kept.iter().map(|d| map.dims[*d]).collect();
        let reduced: Vec<usize> = map.reduced.iter().map(|d| map.dims[*d]).collect();
        let results = map.results() * self.each;
        if results == 0 {
            return;
        }
        if map.folds.is_empty() {
            return self.entries(code, &map.dims, |code, at, row| {
                let values = self.registers(code, map, at, row);
                map.sets.iter().for_each(|store| self.write(code, &store.to, at, row, value(&values, store)));
            });
        }
        if map.in_plane {
            return self.map_in_planes(code, map, &kept, &reduced, results);
        }
        code.items(results * map.split, |code, item| {
            let (result, part) = match map.split {
                1 => (item, index(0)),
                _ => (code.rem(item, index(results)), code.div(item, index(results))),
            };
            let (entry, row) = self.row_of(code, result);
            self.on_row(code, row, |code| {
                let at = self.outer(code, map, entry, &kept);
                let sums = neutral(code, map);
                self.fold(code, map, &sums, part, &at, &reduced, row);
                for (s, (fold, sum)) in map.folds.iter().zip(&sums).enumerate() {
                    let sum = code.get(*sum);
                    if map.split == 1 {
                        self.write(code, &fold.to, &at, row, sum);
                    } else {
                        // Of one part after the other, all results: where the item is.
                        let place = code.add(item, index(self.plan.scratch_start() + s * map.split * results));
                        let shared = code.shared();
                        code.store(shared, place, sum);
                    }
                }
            });
        });
    }

    /// Parts of a sum are in neighbouring units of a plane, all of which go along: those without a result hand on nothing.
    fn map_in_planes(&self, code: &mut Code, map: &MapPhase, kept: &[usize], reduced: &[usize], results: usize) {
        let items = results * map.split;
        let whole = items.next_multiple_of(self.plan.plane);
        code.items(whole, |code, item| {
            let (result, part) = (code.div(item, index(map.split)), code.rem(item, index(map.split)));
            let (entry, row) = self.row_of(code, result);
            let at = self.outer(code, map, entry, kept);
            let sums = neutral(code, map);
            let when_there = |code: &mut Code, body: &mut dyn FnMut(&mut Code)| match whole == items {
                true => self.on_row(code, row, body),
                false => {
                    let there = code.less(item, index(items));
                    code.when(there, |code| self.on_row(code, row, body));
                }
            };
            when_there(code, &mut |code| self.fold(code, map, &sums, part, &at, reduced, row));
            let mut bits = map.split / 2;
            while bits > 0 {
                for (fold, sum) in map.folds.iter().zip(&sums) {
                    let mine = code.get(*sum);
                    let other = code.across(mine, bits);
                    let both = folded(code, fold.mode, mine, other);
                    code.set(*sum, both);
                }
                bits /= 2;
            }
            let first = code.equal(part, index(0));
            code.when(first, |code| {
                when_there(code, &mut |code| {
                    for (fold, sum) in map.folds.iter().zip(&sums) {
                        let sum = code.get(*sum);
                        self.write(code, &fold.to, &at, row, sum);
                    }
                });
            });
        });
    }

    /// The index over all dimensions, 0 where it is reduced.
    fn outer(&self, code: &mut Code, map: &MapPhase, entry: Val, kept: &[usize]) -> Vec<Val> {
        let outer = unravel(code, entry, kept);
        let mut at = vec![index(0); map.dims.len()];
        map.kept.iter().zip(outer).for_each(|(d, i)| at[*d] = i);
        at
    }

    /// A part of what a result sums.
    #[expect(clippy::too_many_arguments, reason = "a result, by all its indices")]
    fn fold(&self, code: &mut Code, map: &MapPhase, sums: &[Var], part: Val, at: &[Val], reduced: &[usize], row: Val) {
        code.range(part, index(map.length()), map.split, |code, i| {
            let inner = unravel(code, i, reduced);
            let mut at = at.to_vec();
            map.reduced.iter().zip(inner).for_each(|(d, i)| at[*d] = i);
            let values = self.registers(code, map, &at, row);
            for (fold, sum) in map.folds.iter().zip(sums) {
                let so_far = code.get(*sum);
                let next = folded(code, fold.mode, so_far, value(&values, fold));
                code.set(*sum, next);
            }
            map.sets.iter().for_each(|store| self.write(code, &store.to, &at, row, value(&values, store)));
        });
    }

    pub(super) fn map_sum(&self, code: &mut Code, map: &MapPhase) {
        let kept: Vec<usize> = map.kept.iter().map(|d| map.dims[*d]).collect();
        let results = map.results() * self.each;
        code.items(results, |code, item| {
            let (entry, row) = self.row_of(code, item);
            self.on_row(code, row, |code| {
                let at = self.outer(code, map, entry, &kept);
                for (s, fold) in map.folds.iter().enumerate() {
                    let first = self.plan.scratch_start() + s * map.split * results;
                    let sum = self.partial_sums(code, fold.mode, item, first, map.split, results);
                    self.write(code, &fold.to, &at, row, sum);
                }
            });
        });
    }
}
