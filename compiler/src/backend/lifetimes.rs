//! The memory plan: lifetimes of the buffers over the steps of a program, and places in one allocation for them.

use crate::kernel::{Base, BufferId, BufferKind, LoopId, Program, Step, Stmt, View, Work};

/// Places of the buffers, in numbers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub offsets: Vec<usize>,
    pub total: usize,
}

/// Places for the buffers that are picked, of these sizes. Buffers that live at the same time get places that do not
/// overlap; large ones choose first, each takes the lowest place that is free.
pub(super) fn plan(program: &Program, sizes: &[usize], pick: impl Fn(usize) -> bool) -> Plan {
    fit(&lifetimes(program), sizes, pick)
}

/// Likewise, with no place for more than one.
#[cfg(feature = "emit")]
pub(super) fn side_by_side(sizes: &[usize], pick: impl Fn(usize) -> bool) -> Plan {
    fit(&vec![Some((0, 0)); sizes.len()], sizes, pick)
}

fn fit(spans: &[Option<Span>], sizes: &[usize], pick: impl Fn(usize) -> bool) -> Plan {
    let mut order: Vec<usize> = (0..sizes.len()).filter(|b| pick(*b) && spans[*b].is_some()).collect();
    order.sort_by_key(|b| (std::cmp::Reverse(sizes[*b]), *b));
    let mut offsets = vec![0; sizes.len()];
    // By their places.
    let mut placed: Vec<usize> = Vec::new();
    for b in order {
        let mut at = 0;
        for other in placed.iter().filter(|other| meet(spans[b], spans[**other])) {
            if at + sizes[b] <= offsets[*other] {
                break;
            }
            at = at.max(offsets[*other] + sizes[*other]);
        }
        offsets[b] = at;
        placed.insert(placed.partition_point(|other| offsets[*other] <= at), b);
    }
    let total = placed.iter().map(|b| offsets[*b] + sizes[*b]).max().unwrap_or(0);
    Plan { offsets, total }
}

/// First and last moment.
type Span = (usize, usize);

fn meet(a: Option<Span>, b: Option<Span>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if a.0 <= b.1 && b.0 <= a.1)
}

/// The sizes of places, given those of the buffers: buffers that are swapped need places of the same size.
pub(super) fn sizes(program: &Program, len: impl Fn(usize) -> usize) -> Vec<usize> {
    let group = swap_groups(program);
    let mut largest = vec![0; group.len()];
    for (b, g) in group.iter().enumerate() {
        largest[*g] = largest[*g].max(len(b));
    }
    group.iter().map(|g| largest[*g]).collect()
}

/// For each buffer the first of those that it ever changes places with.
pub(super) fn swap_groups(program: &Program) -> Vec<usize> {
    fn walk(steps: &[Step], group: &mut [usize]) {
        for step in steps {
            match step {
                Step::Launch(_) => {}
                Step::Loop { body, .. } => walk(body, group),
                Step::Swap(a, b) => {
                    let (a, b) = (group[a.0 as usize], group[b.0 as usize]);
                    group.iter_mut().filter(|g| **g == a.max(b)).for_each(|g| *g = a.min(b));
                }
            }
        }
    }
    let mut group: Vec<usize> = (0..program.buffers.len()).collect();
    walk(&program.prepare, &mut group);
    walk(&program.steps, &mut group);
    group
}

/// When each buffer holds something that is still needed; none: never.
fn lifetimes(program: &Program) -> Vec<Option<Span>> {
    let mut log = Log { now: 0, touches: vec![Vec::new(); program.buffers.len()], loops: Vec::new() };
    log.steps(&program.prepare, &mut Vec::new());
    let prepared = log.now;
    log.steps(&program.steps, &mut Vec::new());
    let end = log.now;
    let mut spans: Vec<Option<Span>> = (0..program.buffers.len())
        .map(|b| {
            let touches = &log.touches[b];
            let first = touches.iter().map(|t| t.at).min();
            let last = touches.iter().map(|t| t.at).max();
            match program.buffers[b].kind {
                BufferKind::Temp => {
                    let (first, last) = (first?, last?);
                    // `steps` run again and again after one `prepare`.
                    if first < prepared && last >= prepared { Some((0, end)) } else { Some(log.lifetime(touches)) }
                }
                BufferKind::Input | BufferKind::Output | BufferKind::Kept | BufferKind::Const(_) => Some((0, end)),
            }
        })
        .collect();
    let group = swap_groups(program);
    let join = |a: Option<Span>, b: Option<Span>| match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    };
    let mut joined: Vec<Option<Span>> = vec![None; group.len()];
    for (b, g) in group.iter().enumerate() {
        joined[*g] = join(joined[*g], spans[b]);
    }
    spans.iter_mut().zip(&group).for_each(|(span, g)| *span = joined[*g]);
    spans
}

/// A buffer is read or written.
#[derive(Debug, Clone)]
struct Touch {
    at: usize,
    writes: bool,
    /// Loops of steps around it, outermost first.
    around: Vec<usize>,
    /// Which part it is depends on the loops.
    moves: Vec<LoopId>,
}

struct Log {
    now: usize,
    touches: Vec<Vec<Touch>>,
    /// Loops of steps: when they start and end.
    loops: Vec<(LoopId, Span)>,
}

impl Log {
    fn steps(&mut self, steps: &[Step], around: &mut Vec<usize>) {
        for step in steps {
            self.now += 1;
            match step {
                Step::Launch(kernels) => kernels.iter().for_each(|kernel| self.work(&kernel.work, around)),
                Step::Loop { id, body, .. } => {
                    let start = self.now;
                    let index = self.loops.len();
                    self.loops.push((*id, (start, start)));
                    around.push(index);
                    self.steps(body, around);
                    around.pop();
                    self.now += 1;
                    self.loops[index].1.1 = self.now;
                }
                Step::Swap(a, b) => {
                    for buffer in [a, b] {
                        self.touch(*buffer, false, Vec::new(), around);
                        self.touch(*buffer, true, Vec::new(), around);
                    }
                }
            }
        }
        self.now += 1;
    }

    fn work(&mut self, work: &Work, around: &[usize]) {
        match work {
            Work::Tile(tile) => self.stmts(&tile.body, around),
            Work::Contract(c) => {
                self.view(&c.a, false, around);
                c.b.iter().for_each(|b| self.view(b, false, around));
                self.view(&c.dst, true, around);
            }
            Work::Pack(p) => {
                self.view(&p.from, false, around);
                self.touch(p.to, true, Vec::new(), around);
            }
            Work::Random(r) => self.touch(r.to, true, Vec::new(), around),
        }
    }

    fn stmts(&mut self, stmts: &[Stmt], around: &[usize]) {
        for stmt in stmts {
            match stmt {
                Stmt::Map(map) => {
                    map.loads.iter().for_each(|v| self.view(v, false, around));
                    map.stores.iter().for_each(|s| self.view(&s.to, true, around));
                }
                Stmt::Gemm(gemm) => {
                    let read = [&gemm.src, &gemm.weight].into_iter().chain(&gemm.bias);
                    read.chain(gemm.accumulate.then_some(&gemm.dst)).for_each(|v| self.view(v, false, around));
                    self.view(&gemm.dst, true, around);
                }
                Stmt::Copy(copy) => {
                    self.view(&copy.from, false, around);
                    self.view(&copy.to, true, around);
                }
                Stmt::Sort(sort) => {
                    self.view(&sort.from, false, around);
                    self.view(&sort.to, true, around);
                }
                Stmt::Gather(gather) => {
                    [&gather.from, &gather.at].into_iter().for_each(|v| self.view(v, false, around));
                    self.view(&gather.to, true, around);
                }
                Stmt::Scatter(scatter) => {
                    [&scatter.from, &scatter.at, &scatter.to].into_iter().for_each(|v| self.view(v, false, around));
                    self.view(&scatter.to, true, around);
                }
                Stmt::Loop { body, .. } => self.stmts(body, around),
            }
        }
    }

    fn view(&mut self, view: &View, writes: bool, around: &[usize]) {
        if let Base::Buffer(buffer) = view.base {
            self.touch(buffer, writes, view.loops.iter().map(|(id, _)| *id).collect(), around);
        }
    }

    fn touch(&mut self, buffer: BufferId, writes: bool, moves: Vec<LoopId>, around: &[usize]) {
        self.touches[buffer.0 as usize].push(Touch { at: self.now, writes, around: around.to_vec(), moves });
    }

    /// From the first to the last touch; and for the whole of a loop around a touch, unless every round of it makes
    /// the buffer anew: all touches are inside, none depends on the round, and all writes come before all reads.
    fn lifetime(&self, touches: &[Touch]) -> Span {
        let mut span = (usize::MAX, 0);
        for touch in touches {
            span = (span.0.min(touch.at), span.1.max(touch.at));
        }
        for index in touches.iter().flat_map(|t| &t.around) {
            let (id, whole) = self.loops[*index];
            let inside = |t: &Touch| t.around.contains(index) && !t.moves.contains(&id);
            let first_read = touches.iter().position(|t| !t.writes).unwrap_or(touches.len());
            let anew = first_read > 0 && touches.iter().all(inside) && touches[first_read..].iter().all(|t| !t.writes);
            if !anew {
                span = (span.0.min(whole.0), span.1.max(whole.1));
            }
        }
        span
    }
}
