//! Places for what a tile holds: arrays whose lifetimes do not meet share them.

use crate::kernel::{Base, Local, Stmt};

/// When an array is first and last touched, in numbers of statements.
#[derive(Clone, Copy)]
struct Life {
    from: usize,
    to: usize,
}

/// Gives every local a place; says how much they need together.
pub(super) fn plan(locals: Vec<Local>, body: &[Stmt]) -> (Vec<Local>, usize) {
    let mut lives: Vec<Option<Life>> = vec![None; locals.len()];
    let mut loops: Vec<Life> = Vec::new();
    let mut clock = 0;
    walk(body, &mut clock, &mut lives, &mut loops);
    // What is alive when a loop begins or ends is alive all through it. Inner loops come first.
    for life in lives.iter_mut().flatten() {
        for l in &loops {
            let inside = life.from >= l.from && life.to <= l.to;
            let apart = life.to < l.from || life.from > l.to;
            if !inside && !apart {
                life.from = life.from.min(l.from);
                life.to = life.to.max(l.to);
            }
        }
    }
    let mut order: Vec<usize> = (0..locals.len()).filter(|i| lives[*i].is_some()).collect();
    // The largest find their places first.
    order.sort_by_key(|i| (std::cmp::Reverse(locals[*i].len), *i));
    let mut placed: Vec<(usize, usize, Life)> = Vec::new();
    let mut locals = locals;
    let mut arena = 0;
    for i in order {
        let Some(life) = lives[i] else { continue };
        let len = locals[i].len;
        let mut taken: Vec<(usize, usize)> = placed
            .iter()
            .filter(|(_, _, other)| life.from <= other.to && other.from <= life.to)
            .map(|(a, b, _)| (*a, *b))
            .collect();
        taken.sort();
        let mut offset = 0;
        for (start, end) in taken {
            if offset + len <= start {
                break;
            }
            offset = offset.max(end);
        }
        locals[i].offset = offset;
        arena = arena.max(offset + len);
        placed.push((offset, offset + len, life));
    }
    (locals, arena)
}

fn walk(body: &[Stmt], clock: &mut usize, lives: &mut [Option<Life>], loops: &mut Vec<Life>) {
    for stmt in body {
        *clock += 1;
        if let Stmt::Loop { body, .. } = stmt {
            let from = *clock;
            walk(body, clock, lives, loops);
            *clock += 1;
            loops.push(Life { from, to: *clock });
            continue;
        }
        let now = *clock;
        for access in stmt.accesses() {
            if let Base::Local(id) = access.view.base {
                let life = lives[id.0 as usize].get_or_insert(Life { from: now, to: now });
                life.to = now;
            }
        }
    }
}
