//! Maps: fused elementwise work, with sums and maxima.

use crate::kernel::{Instr, Mode, Reg, Store};

use super::builder::{Code, Val, index, number};
use super::math::{binary, folded, unary};
use super::phase::{MapPhase, needed};
use super::tile::{Emitter, unravel};

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
        let value = |values: &[Option<Val>], store: &Store| values[store.value.0 as usize].expect("a store's value is needed");
        if map.folds.is_empty() {
            return self.entries(code, &map.dims, |code, at, row| {
                let values = self.registers(code, map, at, row);
                map.sets.iter().for_each(|store| self.write(code, &store.to, at, row, value(&values, store)));
            });
        }
        code.items(results * map.split, |code, item| {
            let (result, part) = match map.split {
                1 => (item, index(0)),
                _ => (code.rem(item, index(results)), code.div(item, index(results))),
            };
            let (entry, row) = self.row_of(code, result);
            self.on_row(code, row, |code| {
                let outer = unravel(code, entry, &kept);
                let mut at = vec![index(0); map.dims.len()];
                map.kept.iter().zip(outer).for_each(|(d, i)| at[*d] = i);
                let start = |mode: Mode| if mode == Mode::Max { f32::NEG_INFINITY } else { 0.0 };
                let sums = map.folds.iter().map(|fold| {
                    let start = code.constant(start(fold.mode));
                    code.var(start)
                });
                let sums: Vec<_> = sums.collect();
                code.range(part, index(map.length()), map.split, |code, i| {
                    let inner = unravel(code, i, &reduced);
                    let mut at = at.clone();
                    map.reduced.iter().zip(inner).for_each(|(d, i)| at[*d] = i);
                    let values = self.registers(code, map, &at, row);
                    for (fold, sum) in map.folds.iter().zip(&sums) {
                        let so_far = code.get(*sum);
                        let next = folded(code, fold.mode, so_far, value(&values, fold));
                        code.set(*sum, next);
                    }
                    map.sets.iter().for_each(|store| self.write(code, &store.to, &at, row, value(&values, store)));
                });
                for (s, (fold, sum)) in map.folds.iter().zip(&sums).enumerate() {
                    let sum = code.get(*sum);
                    if map.split == 1 {
                        self.write(code, &fold.to, &at, row, sum);
                    } else {
                        // Of one part after the other, all results: where the item is.
                        let place = code.add(item, index(self.plan.locals() + s * map.split * results));
                        let shared = code.shared();
                        code.store(shared, place, sum);
                    }
                }
            });
        });
    }

    pub(super) fn map_sum(&self, code: &mut Code, map: &MapPhase) {
        let kept: Vec<usize> = map.kept.iter().map(|d| map.dims[*d]).collect();
        let results = map.results() * self.each;
        code.items(results, |code, item| {
            let (entry, row) = self.row_of(code, item);
            self.on_row(code, row, |code| {
                let outer = unravel(code, entry, &kept);
                let mut at = vec![index(0); map.dims.len()];
                map.kept.iter().zip(outer).for_each(|(d, i)| at[*d] = i);
                for (s, fold) in map.folds.iter().enumerate() {
                    let first = self.plan.locals() + s * map.split * results;
                    let sum = self.partial_sums(code, fold.mode, item, first, map.split, results);
                    self.write(code, &fold.to, &at, row, sum);
                }
            });
        });
    }
}
