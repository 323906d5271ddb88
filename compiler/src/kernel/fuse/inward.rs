//! Large work into the loop that it is for.
//!
//! What a loop reads step by step may be made for all steps before it begins, and what it leaves step by step may be given out
//! for all steps when it has ended. Where that is more than a cache holds, each step does its own part instead:
//!
//! ```text
//! copy [T, D]: $0[D, 1] = ..          for t in T {
//! for t in T {                          copy [D]: $0[1] = ..{t: ..}
//!   .. $0[1]{t: D} ..          =>       .. $0[1] ..
//! }                                   }
//! ```

use std::collections::{BTreeSet, HashMap};

use super::super::access::Access;
use super::super::{Base, Copy, Local, LocalId, LoopId, Map, Mode, Stmt, Store, View};

/// Moves what can be moved; arrays that hold one step instead of all become shorter. An array of `many` entries is large:
/// no step should have to work on more.
pub(super) fn inward(body: &mut Vec<Stmt>, locals: &mut [Local], many: usize) {
    let large = |stmt: &Stmt| large_target(stmt, locals, many).is_some() || large_source(stmt, locals, many).is_some();
    if !body.iter().any(large) {
        return;
    }
    let mut users = Users::of(body);
    let mut at = body.len();
    // Backwards, so that what only another moved statement reads can follow it.
    while at > 0 {
        at -= 1;
        if let Some(array) = large_target(&body[at], locals, many)
            && let Some(into) = reader(body, at, array, &users)
            && can_precede(body, at, into, &users)
        {
            users.merge(&body[at], at, into);
            let moved = body.remove(at);
            let Stmt::Loop { id, body: inside, .. } = &mut body[into - 1] else { unreachable!("it is a loop") };
            let arrays = targets(&moved);
            inside.insert(0, step_of(moved, *id));
            arrays.into_iter().for_each(|array| shorten(inside, *id, array, locals));
        }
    }
    let mut at = 0;
    while at < body.len() {
        match large_source(&body[at], locals, many).and_then(|array| writer(body, at, array, &users)) {
            Some(from) => {
                users.merge(&body[at], at, from);
                let moved = body.remove(at);
                let Stmt::Copy(Copy { from: View { base: Base::Local(array), .. }, .. }) = moved else { unreachable!("a copy") };
                let Stmt::Loop { id, body: inside, .. } = &mut body[from] else { unreachable!("it is a loop") };
                inside.push(step_of(moved, *id));
                shorten(inside, *id, array, locals);
            }
            None => at += 1,
        }
    }
}

/// The statements of a body by the arrays that they touch, so that no search passes the whole body.
struct Users {
    /// Statements keep their first number when others are moved; these are the numbers of those still there, in order.
    numbers: Vec<usize>,
    by_base: HashMap<Base, BTreeSet<usize>>,
}

impl Users {
    fn of(body: &[Stmt]) -> Users {
        let mut by_base: HashMap<Base, BTreeSet<usize>> = HashMap::new();
        for (number, stmt) in body.iter().enumerate() {
            for base in bases(stmt) {
                by_base.entry(base).or_default().insert(number);
            }
        }
        Users { numbers: (0..body.len()).collect(), by_base }
    }

    /// Where in the body the statements are that touch an array, in order.
    fn places(&self, base: Base) -> impl Iterator<Item = usize> {
        self.by_base.get(&base).into_iter().flatten().filter_map(|number| self.numbers.binary_search(number).ok())
    }

    /// The statement at `at` becomes a part of the one at `into`.
    fn merge(&mut self, stmt: &Stmt, at: usize, into: usize) {
        let (gone, host) = (self.numbers[at], self.numbers[into]);
        for base in bases(stmt) {
            let users = self.by_base.entry(base).or_default();
            users.remove(&gone);
            users.insert(host);
        }
        self.numbers.remove(at);
    }
}

fn bases(stmt: &Stmt) -> Vec<Base> {
    let mut found = Vec::new();
    stmt.each(&mut |stmt| found.extend(stmt.accesses().iter().map(|a| a.view.base)));
    found
}

fn targets(stmt: &Stmt) -> Vec<LocalId> {
    let local = |view: &View| if let Base::Local(id) = view.base { Some(id) } else { None };
    match stmt {
        Stmt::Map(map) => map.stores.iter().filter_map(|s| local(&s.to)).collect(),
        Stmt::Copy(copy) => local(&copy.to).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// A large array that the statement makes, if it makes nothing but arrays of the tile, entry by entry.
fn large_target(stmt: &Stmt, locals: &[Local], many: usize) -> Option<LocalId> {
    let made = targets(stmt);
    let whole = match stmt {
        Stmt::Map(map) => made.len() == map.stores.len() && map.stores.iter().all(|s| s.mode == Mode::Set),
        _ => !made.is_empty(),
    };
    made.into_iter().find(|id| whole && locals[id.0 as usize].len >= many)
}

/// A large array that the statement gives out.
fn large_source(stmt: &Stmt, locals: &[Local], many: usize) -> Option<LocalId> {
    match stmt {
        Stmt::Copy(Copy { from: View { base: Base::Local(id), .. }, to: View { base: Base::Buffer(_), .. }, .. }) => {
            Some(*id).filter(|id| locals[id.0 as usize].len >= many)
        }
        _ => None,
    }
}

/// The only statement behind that reads an array, if it is a loop.
fn reader(body: &[Stmt], at: usize, array: LocalId, users: &Users) -> Option<usize> {
    let mut others = users.places(Base::Local(array)).filter(|i| *i != at);
    let into = others.next().filter(|into| *into > at && matches!(body[*into], Stmt::Loop { .. }))?;
    others.next().is_none().then_some(into)
}

/// Whether a statement may be done step by step in a loop behind it.
fn can_precede(body: &[Stmt], at: usize, into: usize, users: &Users) -> bool {
    let Stmt::Loop { id, count, .. } = &body[into] else { return false };
    let accesses = body[at].accesses();
    let made = targets(&body[at]);
    let steps = accesses.iter().all(|a| a.dims.first() == Some(count));
    let alone =
        made.iter().enumerate().all(|(i, array)| !made[..i].contains(array) && reader(body, at, *array, users) == Some(into));
    let stays = |a: &Access<'_>| {
        let mut behind = users.places(a.view.base).filter(|i| *i > at);
        !behind.any(|i| touches(&body[i], a.view.base, |other| other.role.writes()))
    };
    steps
        && alone
        && accesses.iter().filter(|a| a.role.reads()).all(stays)
        && accesses.iter().filter(|a| a.role.writes()).all(|written| {
            let step = written.view.strides[0];
            written.view.loops.is_empty()
                && extent(&written.dims[1..], &written.view.strides[1..]) + written.view.offset < step
                && only_steps(&body[into], written.view.base, *id, step, |a| !a.role.writes())
        })
}

/// The loop before that alone writes an array, and may give it out step by step.
fn writer(body: &[Stmt], at: usize, array: LocalId, users: &Users) -> Option<usize> {
    let Stmt::Copy(copy) = &body[at] else { return None };
    let mut others = users.places(Base::Local(array)).filter(|i| *i != at);
    let from = others.next().filter(|from| *from < at && others.next().is_none())?;
    let Stmt::Loop { id, count, .. } = &body[from] else { return None };
    let step = *copy.from.strides.first()?;
    let fits = copy.dims[0] == *count
        && copy.from.loops.is_empty()
        && extent(&copy.dims[1..], &copy.from.strides[1..]) + copy.from.offset < step
        && only_steps(&body[from], copy.from.base, *id, step, |_| true)
        && !users.places(copy.to.base).any(|i| (from..at).contains(&i));
    fits.then_some(from)
}

fn touches(stmt: &Stmt, base: Base, how: impl Fn(&Access<'_>) -> bool) -> bool {
    let mut found = false;
    stmt.each(&mut |stmt| found |= stmt.accesses().iter().any(|a| a.view.base == base && how(a)));
    found
}

/// Whether a loop touches nothing of an array but what belongs to the step that runs.
fn only_steps(stmt: &Stmt, base: Base, id: LoopId, step: usize, how: impl Fn(&Access<'_>) -> bool) -> bool {
    let mut counts: HashMap<LoopId, usize> = HashMap::new();
    stmt.each(&mut |stmt| {
        if let Stmt::Loop { id, count, .. } = stmt {
            counts.insert(*id, *count);
        }
    });
    let inside = |a: &Access<'_>| {
        let (this, others): (Vec<_>, Vec<_>) = a.view.loops.iter().partition(|(l, _)| *l == id);
        // What a loop around this one moves is not held step by step.
        let sizes: Option<Vec<usize>> = others.iter().map(|(l, _)| counts.get(l).copied()).collect();
        let steps: Vec<usize> = others.iter().map(|(_, s)| *s).collect();
        a.beyond.is_none()
            && this == [(id, step)]
            && sizes.is_some_and(|sizes| a.view.offset + extent(&a.dims, &a.view.strides) + extent(&sizes, &steps) < step)
    };
    !touches(stmt, base, |a| !(inside(a) && how(a)))
}

/// How far the last entry is from the first.
fn extent(dims: &[usize], strides: &[usize]) -> usize {
    dims.iter().zip(strides).map(|(size, stride)| size.saturating_sub(1) * stride).sum()
}

/// What a statement does in one step of its first dimension.
fn step_of(stmt: Stmt, id: LoopId) -> Stmt {
    let along = |mut view: View| {
        let step = view.strides.remove(0);
        if step > 0 {
            view.loops.push((id, step));
        }
        view
    };
    match stmt {
        Stmt::Map(map) => Stmt::Map(Map {
            dims: map.dims[1..].to_vec(),
            loads: map.loads.into_iter().map(along).collect(),
            stores: map.stores.into_iter().map(|s| Store { to: along(s.to), ..s }).collect(),
            ..map
        }),
        Stmt::Copy(copy) => Stmt::Copy(Copy { dims: copy.dims[1..].to_vec(), from: along(copy.from), to: along(copy.to) }),
        other => other,
    }
}

/// An array holds one step of a loop and no longer all.
fn shorten(inside: &mut [Stmt], id: LoopId, array: LocalId, locals: &mut [Local]) {
    let mut len = locals[array.0 as usize].len;
    for stmt in inside {
        stmt.each_view_mut(&mut |view| {
            if view.base == Base::Local(array) {
                view.loops.iter().filter(|(l, _)| *l == id).for_each(|(_, step)| len = *step);
                view.loops.retain(|(l, _)| *l != id);
            }
        });
    }
    locals[array.0 as usize].len = len;
}
