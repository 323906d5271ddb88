//! Runs the stages of a solved system, point by point, with sets in the place of numbers.

use std::collections::HashSet;

use super::fixture::Solved;
use crate::hir::{DefId, Direction, FamilyId, Index, Lhs, Op, Stage, VarId};

type Point = (FamilyId, Vec<i64>);

/// Checks that every point is given once, and after everything that it reads.
pub(super) fn run(solved: &Solved) {
    let mut done = HashSet::new();
    let mut loops = Vec::new();
    for stage in &solved.system.stages {
        execute(solved, stage, &mut loops, &mut done);
    }
    for id in 0..solved.system.defs.len() {
        for point in points(solved, DefId(id as u32)) {
            let at = given(solved, DefId(id as u32), &point);
            assert!(done.contains(&at), "{at:?} was never computed");
        }
    }
}

fn execute(solved: &Solved, stage: &Stage, loops: &mut Vec<(usize, i64)>, done: &mut HashSet<Point>) {
    match stage {
        Stage::Scan { position, direction, lo, hi, body, .. } => {
            let mut steps: Vec<i64> = (*lo..*hi).collect();
            if *direction == Direction::Backward {
                steps.reverse();
            }
            for step in steps {
                loops.push((*position, step));
                for stage in body {
                    execute(solved, stage, loops, done);
                }
                loops.pop();
            }
        }
        Stage::Map(id) => {
            let now = |at: &Point| loops.iter().all(|(position, step)| at.1[*position] == *step);
            let all: Vec<Vec<(VarId, i64)>> =
                points(solved, *id).into_iter().filter(|point| now(&given(solved, *id, point))).collect();
            for point in &all {
                for read in reads(solved, *id, point) {
                    assert!(done.contains(&read), "{:?} reads {read:?} too early", given(solved, *id, point));
                }
            }
            for point in &all {
                let at = given(solved, *id, point);
                assert!(done.insert(at.clone()), "{at:?} is computed twice");
            }
        }
    }
}

/// All values of the variables of an equation.
fn points(solved: &Solved, id: DefId) -> Vec<Vec<(VarId, i64)>> {
    over(solved, &solved.system.def(id).vars)
}

fn over(solved: &Solved, vars: &[VarId]) -> Vec<Vec<(VarId, i64)>> {
    vars.iter().fold(vec![Vec::new()], |points, var| {
        let (lo, hi) = solved.vars[var.0 as usize].range.unwrap();
        let with = |point: &Vec<(VarId, i64)>, at| point.iter().copied().chain([(*var, at)]).collect();
        points.iter().flat_map(|point| (lo..hi).map(move |at| with(point, at))).collect()
    })
}

fn given(solved: &Solved, id: DefId, point: &[(VarId, i64)]) -> Point {
    let def = solved.system.def(id);
    let at = def.lhs.iter().map(|lhs| match lhs {
        Lhs::At(at) => *at,
        Lhs::Var { var, offset } => value(*var, point) + offset,
    });
    (def.family, at.collect())
}

fn value(var: VarId, point: &[(VarId, i64)]) -> i64 {
    point.iter().find(|(v, _)| *v == var).unwrap().1
}

/// The points that an equation reads at one of its own, for all values of the variables of folds.
fn reads(solved: &Solved, id: DefId, point: &[(VarId, i64)]) -> Vec<Point> {
    let mut found = Vec::new();
    for value in &solved.system.def(id).values {
        let Op::Concat { parts, .. } = &solved.exprs[value.0 as usize].op else {
            continue;
        };
        for part in parts {
            let Op::Read { family, index, .. } = &solved.exprs[part.0 as usize].op else {
                continue;
            };
            let mut folded: Vec<VarId> = index.iter().flat_map(|i| &i.terms).map(|(var, _)| *var).collect();
            folded.retain(|var| point.iter().all(|(v, _)| v != var));
            folded.sort_unstable();
            folded.dedup();
            for more in over(solved, &folded) {
                let all: Vec<(VarId, i64)> = point.iter().copied().chain(more).collect();
                found.push((*family, index.iter().map(|index| number(index, &all)).collect()));
            }
        }
    }
    found
}

fn number(index: &Index, point: &[(VarId, i64)]) -> i64 {
    index.offset + index.terms.iter().map(|(var, factor)| factor * value(*var, point)).sum::<i64>()
}
