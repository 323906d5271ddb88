use std::collections::{BTreeMap, BTreeSet};

use super::random_kernels;
use crate::kernel::text::print;
use crate::kernel::{Program, Stmt, Work};

/// What a program has in it, by names made up here.
fn features(program: &Program, count: &mut impl FnMut(&str)) {
    program.each_kernel(&mut |kernel| match &kernel.work {
        Work::Contract(c) => count(if c.b.is_some() { "contract" } else { "contract without b" }),
        Work::Pack(_) | Work::Random(_) => {}
        Work::Tile(tile) => {
            let places: BTreeSet<usize> = tile.locals.iter().map(|local| local.offset).collect();
            if places.len() < tile.locals.len() {
                count("shared places");
            }
            tile.each_stmt(&mut |stmt| {
                count(stmt.name());
                let accesses = stmt.accesses();
                if accesses.iter().any(|a| !a.view.loops.is_empty()) {
                    count("moved by a loop");
                }
                match stmt {
                    Stmt::Map(map) => {
                        let in_place = map.stores.iter().any(|s| map.loads.contains(&s.to));
                        count(if in_place { "map in place" } else { "map elsewhere" });
                    }
                    Stmt::Gemm(gemm) => {
                        let names = [
                            (gemm.accumulate, "gemm accumulates"),
                            (gemm.bias.is_some(), "gemm with bias"),
                            (gemm.batch.iter().any(|b| *b > 1), "gemm with batch"),
                            (!gemm.m.is_empty(), "gemm with m"),
                        ];
                        names.into_iter().filter(|(has, _)| *has).for_each(|(_, name)| count(name));
                    }
                    Stmt::Copy(_) | Stmt::Sort(_) | Stmt::Gather(_) | Stmt::Scatter(_) | Stmt::Loop { .. } => {}
                }
            });
        }
    });
    let text = print(program);
    for word in
        [" splat", "sum $", "max $", "reverse {", "swap ", "select ", " rows [161]", " rows [7]", " rows [16]", "tile tile arena"]
    {
        if text.contains(word) {
            count(word);
        }
    }
}

/// The generator is worth something only if it makes everything.
#[test]
fn random_kernels_cover_every_statement() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..200 {
        features(&random_kernels(seed), &mut |name| *counts.entry(name.to_string()).or_default() += 1);
    }
    let wanted = "map,gemm,copy,sort,gather,scatter,loop,map in place,gemm accumulates,gemm with bias,gemm with batch,\
        gemm with m,contract,contract without b,shared places,moved by a loop, splat,sum $,max $,reverse {,swap ,select , \
        rows [161], rows [7], rows [16],tile tile arena";
    for name in wanted.split(',') {
        assert!(counts.get(name).is_some_and(|n| *n >= 5), "`{name}` is rare: {counts:?}");
    }
}
