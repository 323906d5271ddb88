//! Sets of places: what a view covers, and whether two of them meet.

use std::collections::BTreeMap;

use super::super::access::{Access, indices};
use super::super::{LANES, Lanes, LoopId};
use super::limits::Meter;

/// How many times each loop around goes round.
pub(super) type Counts = BTreeMap<LoopId, usize>;

/// The places `offset + sum of index * stride`, for all indices; some of the loops around move the whole of it.
#[derive(Debug, Clone)]
pub(super) struct Region {
    offset: usize,
    /// Sizes and strides; those of one entry are left out.
    dims: Vec<(usize, usize)>,
    /// Likewise of the rows; None where all rows see the same.
    rows: Option<Vec<(usize, usize)>>,
    /// The loops that are at one and the same step when two regions are compared.
    shared: BTreeMap<LoopId, usize>,
}

/// Rows with those that fill the last tile up.
pub(super) fn padded(rows: usize) -> usize {
    rows.next_multiple_of(LANES)
}

impl Region {
    /// What an operand covers, at one step of the loops `shared` and over all steps of the others. None if it has no entry.
    pub(super) fn of(access: &Access<'_>, rows: &[usize], counts: &Counts, shared: &Counts) -> Option<Region> {
        let view = access.view;
        let mut dims: Vec<(usize, usize)> = access.dims.iter().copied().zip(view.strides.iter().copied()).collect();
        dims.extend(access.beyond);
        if access.reduces {
            // Reduced: of no entries as well there is a result.
            dims.iter_mut().filter(|(_, stride)| *stride == 0).for_each(|(size, _)| *size = 1);
        }
        let count = rows.iter().product();
        let rows = match &view.lanes {
            _ if access.buffer().is_none() => Some(Vec::new()),
            Lanes::Unit => Some(vec![(if access.whole { padded(count) } else { count }, 1)]),
            Lanes::Splat => None,
            Lanes::Strided(strides) => Some(rows.iter().copied().zip(strides.iter().copied()).collect()),
        };
        let (moved, free): (Vec<_>, Vec<_>) = view.loops.iter().copied().partition(|(id, _)| shared.contains_key(id));
        dims.extend(free.into_iter().map(|(id, stride)| (counts[&id], stride)));
        let mut all = dims.iter().chain(rows.iter().flatten());
        if all.any(|(size, _)| *size == 0) || moved.iter().any(|(id, _)| counts[id] == 0) {
            return None;
        }
        dims.retain(|(size, _)| *size > 1);
        Some(Region { offset: view.offset, dims, rows, shared: moved.into_iter().collect() })
    }

    /// All of an array.
    pub(super) fn whole(len: usize) -> Region {
        Region { offset: 0, dims: vec![(len, 1)], rows: None, shared: BTreeMap::new() }
    }

    /// The last place at any step of the shared loops; at most `usize::MAX`.
    pub(super) fn last(&self, counts: &Counts) -> usize {
        let shared = self.shared.iter().map(|(id, stride)| (counts[id], *stride));
        span(self.all().into_iter().chain(shared)).saturating_add(self.offset)
    }

    /// No place comes twice. Asked of strides that nest, as those of arrays and their parts do; others are refused.
    pub(super) fn distinct(&self) -> bool {
        let mut dims = self.all();
        dims.retain(|(size, _)| *size > 1);
        dims.sort_by_key(|(size, stride)| (*stride, *size));
        (0..dims.len()).all(|i| dims[i].1 > span(dims[..i].iter().copied()))
    }

    /// Whether a place is in both, at some step of the loops that they share.
    pub(super) fn meets(&self, other: &Region, counts: &Counts, meter: &Meter) -> Result<bool, String> {
        let dims = [self, other].map(|region| {
            let mut dims = region.all();
            // Along these nothing moves.
            dims.retain(|(_, stride)| *stride > 0);
            dims
        });
        for offsets in self.apart_by(other, counts, meter)? {
            if meet(offsets, [&dims[0], &dims[1]], meter)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// No two rows have a place in common. Asked of strides that nest; others are taken to meet.
    pub(super) fn rows_apart(&self) -> bool {
        let dims = self.dims.iter().copied().filter(|(_, stride)| *stride > 0).collect();
        Region { dims, ..self.clone() }.distinct()
    }

    /// Whether a row of the other touches a place that another row of this, a written one, has.
    pub(super) fn rows_meet(&self, other: &Region, counts: &Counts, meter: &Meter) -> Result<bool, String> {
        // Places are listed with the number of their row, from 1.
        let by_row = |region: &Region, offset: usize, f: &mut dyn FnMut(usize, Option<u32>)| match &region.rows {
            None => each_place(offset, &region.dims, &mut |place| f(place, None)),
            Some(rows) => {
                let mut row = 0;
                each_place(0, rows, &mut |further| {
                    row += 1;
                    each_place(offset + further, &region.dims, &mut |place| f(place, Some(row)));
                });
            }
        };
        let span = span(self.all());
        for [mine, others] in self.apart_by(other, counts, meter)? {
            let steps = entries(&self.all()).saturating_add(entries(&other.all()));
            meter.spend((span as u64).saturating_mul(4).saturating_add(steps))?;
            let mut rows: Vec<u32> = vec![0; span + 1];
            by_row(self, mine, &mut |place, row| rows[place - mine] = row.unwrap_or(u32::MAX));
            let mut met = false;
            by_row(other, others, &mut |place, row| {
                let found = place.checked_sub(mine).and_then(|at| rows.get(at)).copied().unwrap_or(0);
                met = met || (found != 0 && row != Some(found));
            });
            if met {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn all(&self) -> Vec<(usize, usize)> {
        self.dims.iter().chain(self.rows.iter().flatten()).copied().collect()
    }

    /// The offsets of both, for every way in which the loops that they share set them apart.
    fn apart_by(&self, other: &Region, counts: &Counts, meter: &Meter) -> Result<Vec<[usize; 2]>, String> {
        // Loops that move both alike change nothing.
        let mut moves: Vec<(usize, [usize; 2])> = Vec::new();
        for id in self.shared.keys().chain(other.shared.keys().filter(|id| !self.shared.contains_key(id))) {
            let strides = [self, other].map(|r| r.shared.get(id).copied().unwrap_or(0));
            if strides[0] != strides[1] {
                moves.push((counts[id], strides));
            }
        }
        meter.spend(entries(&moves.iter().map(|(count, _)| (*count, 0)).collect::<Vec<_>>()).saturating_mul(16))?;
        let sizes: Vec<usize> = moves.iter().map(|(count, _)| *count).collect();
        let offsets = indices(&sizes).map(|index| {
            let at = |side: usize| index.iter().zip(&moves).map(|(i, (_, strides))| i * strides[side]).sum::<usize>();
            [self.offset + at(0), other.offset + at(1)]
        });
        Ok(offsets.collect())
    }
}

/// Lane vectors of the two, side by side in a buffer, are either the same or as far apart as there are rows, at any step of
/// the loops: so a row meets no other row.
pub(super) fn in_step(a: &Access<'_>, b: &Access<'_>, rows: usize, counts: &Counts) -> bool {
    let strides = |access: &Access<'_>| -> Vec<usize> {
        let dims = access.dims.iter().copied().zip(access.view.strides.iter().copied()).chain(access.beyond);
        let loops = access.view.loops.iter().map(|(id, stride)| (counts[id], *stride));
        dims.chain(loops).filter(|(size, _)| *size > 1).map(|(_, stride)| stride).collect()
    };
    let needed = if a.whole || b.whole { padded(rows) } else { rows };
    let apart = a.view.offset.abs_diff(b.view.offset);
    let common = strides(a).into_iter().chain(strides(b)).fold(apart, gcd);
    common == 0 || common >= needed
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// From the first place to the last.
fn span(dims: impl IntoIterator<Item = (usize, usize)>) -> usize {
    dims.into_iter().fold(0, |sum: usize, (size, stride)| sum.saturating_add(size.saturating_sub(1).saturating_mul(stride)))
}

/// Indices over dimensions.
fn entries(dims: &[(usize, usize)]) -> u64 {
    dims.iter().fold(1, |n: u64, (size, _)| n.saturating_mul(*size as u64))
}

fn meet(offsets: [usize; 2], dims: [&[(usize, usize)]; 2], meter: &Meter) -> Result<bool, String> {
    let ends = [0, 1].map(|i| offsets[i].saturating_add(span(dims[i].iter().copied())));
    let (low, high) = (offsets[0].max(offsets[1]), ends[0].min(ends[1]));
    if low > high {
        return Ok(false);
    }
    meter.spend(((high - low) as u64).saturating_add(entries(dims[0])).saturating_add(entries(dims[1])))?;
    // Parts of rows lie interleaved: mark the places of the one, look them up for the other.
    let mut marked = vec![false; high - low + 1];
    each_place(offsets[0], dims[0], &mut |place| {
        if (low..=high).contains(&place) {
            marked[place - low] = true;
        }
    });
    let mut met = false;
    each_place(offsets[1], dims[1], &mut |place| met = met || ((low..=high).contains(&place) && marked[place - low]));
    Ok(met)
}

fn each_place(offset: usize, dims: &[(usize, usize)], f: &mut impl FnMut(usize)) {
    match dims {
        [] => f(offset),
        [(size, stride), inner @ ..] => (0..*size).for_each(|i| each_place(offset + i * stride, inner, f)),
    }
}
