//! Arrays along named axes.

use crate::number::Num;

/// An axis: an identity with a size.
#[derive(Clone, Copy, Debug)]
pub struct Ax {
    pub id: u32,
    pub size: usize,
}

impl PartialEq for Ax {
    fn eq(&self, other: &Ax) -> bool {
        self.id == other.id
    }
}

#[derive(Clone, Debug)]
pub struct Array {
    pub axes: Vec<Ax>,
    /// Row-major.
    pub data: Vec<Num>,
}

/// All places along axes, in row-major order.
pub fn places(axes: &[Ax]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for axis in axes {
        all = all
            .into_iter()
            .flat_map(|p| {
                (0..axis.size).map(move |i| {
                    let mut p = p.clone();
                    p.push(i);
                    p
                })
            })
            .collect();
    }
    all
}

impl Array {
    pub fn scalar(x: Num) -> Array {
        Array { axes: Vec::new(), data: vec![x] }
    }

    pub fn fill(axes: Vec<Ax>, x: f64) -> Array {
        let n = axes.iter().map(|a| a.size).product();
        Array { axes, data: vec![Num::Plain(x); n] }
    }

    pub fn has(&self, axis: Ax) -> bool {
        self.axes.contains(&axis)
    }

    pub fn map(&self, f: impl Fn(&Num) -> Num) -> Array {
        Array { axes: self.axes.clone(), data: self.data.iter().map(f).collect() }
    }

    /// The entry at a place that is named by axes; axes that this array lacks are ignored.
    fn entry(&self, axes: &[Ax], place: &[usize]) -> &Num {
        let mut at = 0;
        for axis in &self.axes {
            let i = axes.iter().position(|a| a == axis).map_or(0, |i| place[i]);
            at = at * axis.size + i;
        }
        &self.data[at]
    }

    /// The same value with axes in another order, or spread along more.
    pub fn spread(&self, axes: &[Ax]) -> Array {
        Array { axes: axes.to_vec(), data: places(axes).iter().map(|p| self.entry(axes, p).clone()).collect() }
    }

    pub fn zip(&self, other: &Array, f: impl Fn(&Num, &Num) -> Num) -> Result<Array, String> {
        let axes = if self.axes.len() >= other.axes.len() { &self.axes } else { &other.axes };
        if !self.axes.iter().chain(&other.axes).all(|a| axes.contains(a)) {
            return Err(format!("axes {:?} against {:?}", self.axes, other.axes));
        }
        let data = places(axes).iter().map(|p| f(self.entry(axes, p), other.entry(axes, p))).collect();
        Ok(Array { axes: axes.clone(), data })
    }

    pub fn outer(&self, other: &Array) -> Array {
        let axes: Vec<Ax> = self.axes.iter().chain(&other.axes).copied().collect();
        let data = places(&axes).iter().map(|p| self.entry(&axes, p).mul(other.entry(&axes, p))).collect();
        Array { axes, data }
    }

    /// Folds over axes.
    pub fn reduce(&self, over: &[Ax], f: impl Fn(&[Num]) -> Num) -> Array {
        let keep: Vec<Ax> = self.axes.iter().filter(|a| !over.contains(a)).copied().collect();
        let gone: Vec<Ax> = self.axes.iter().filter(|a| over.contains(a)).copied().collect();
        let all: Vec<Ax> = keep.iter().chain(&gone).copied().collect();
        let n: usize = gone.iter().map(|a| a.size).product();
        let data = self.spread(&all).data.chunks(n.max(1)).map(f).collect();
        Array { axes: keep, data }
    }

    /// The product, summed over shared axes.
    pub fn dot(&self, other: &Array) -> Result<Array, String> {
        let shared: Vec<Ax> = self.axes.iter().filter(|a| other.has(**a)).copied().collect();
        if shared.is_empty() {
            return Err("`@` without a shared axis".into());
        }
        let mut axes = self.axes.clone();
        axes.extend(other.axes.iter().filter(|a| !self.has(**a)));
        let data = places(&axes).iter().map(|p| self.entry(&axes, p).mul(other.entry(&axes, p))).collect();
        Ok(Array { axes, data }.reduce(&shared, total))
    }

    /// An entry along the first axis.
    pub fn first(&self, i: i64) -> Result<Array, String> {
        let axis = *self.axes.first().ok_or("an entry of a number")?;
        Ok(self.pick(axis, i))
    }

    /// An entry along an axis, NaN outside it.
    pub fn pick(&self, axis: Ax, i: i64) -> Array {
        let keep: Vec<Ax> = self.axes.iter().filter(|a| **a != axis).copied().collect();
        let Some(i) = usize::try_from(i).ok().filter(|i| *i < axis.size) else { return Array::fill(keep, f64::NAN) };
        let mut axes = vec![axis];
        axes.extend(&keep);
        let data = places(&keep)
            .iter()
            .map(|p| {
                let mut place = vec![i];
                place.extend(p);
                self.entry(&axes, &place).clone()
            })
            .collect();
        Array { axes: keep, data }
    }

    /// The vectors along an axis become others, along `to`.
    pub fn along(&self, axis: Ax, to: Ax, f: impl Fn(&[Num]) -> Vec<Num>) -> Array {
        let keep: Vec<Ax> = self.axes.iter().filter(|a| **a != axis).copied().collect();
        let turned = self.spread(&[&keep[..], &[axis]].concat());
        let data = turned.data.chunks(axis.size.max(1)).flat_map(f).collect();
        Array { axes: [&keep[..], &[to]].concat(), data }
    }

    /// Entries at computed places of an axis: the nearest one each, NaN where there is none.
    pub fn take(&self, axis: Ax, at: &Array) -> Array {
        let keep: Vec<Ax> = self.axes.iter().filter(|a| **a != axis).copied().collect();
        let axes: Vec<Ax> = keep.iter().copied().chain(at.axes.iter().filter(|a| !keep.contains(a)).copied()).collect();
        let mine = [&keep[..], &[axis]].concat();
        let entry = |place: Vec<usize>| {
            let index = (at.entry(&axes, &place).real() + 0.5).floor();
            if !(0.0..axis.size as f64).contains(&index) {
                return Num::Plain(f64::NAN);
            }
            self.entry(&mine, &[&place[..keep.len()], &[index as usize]].concat()).clone()
        };
        Array { data: places(&axes).into_iter().map(entry).collect(), axes }
    }

    /// What is left of each part beside the axes that all have, end to end along an axis, which comes first.
    pub fn concat(parts: &[Array], axis: Ax) -> Array {
        let Some(first) = parts.first() else { return Array::fill(vec![axis], 0.0) };
        let shared: Vec<Ax> = first.axes.iter().filter(|a| parts.iter().all(|p| p.has(**a))).copied().collect();
        let rows = |p: &Array| {
            let own: Vec<Ax> = p.axes.iter().filter(|a| !shared.contains(a)).copied().collect();
            let n = own.iter().map(|a| a.size).product::<usize>();
            (p.spread(&[&shared[..], &own[..]].concat()).data, n)
        };
        let parts: Vec<_> = parts.iter().map(rows).collect();
        let data = (0..places(&shared).len()).flat_map(|i| parts.iter().flat_map(move |(d, n)| d[i * n..(i + 1) * n].to_vec()));
        let joined = Array { data: data.collect(), axes: [&shared[..], &[axis]].concat() };
        joined.spread(&[&[axis], &shared[..]].concat())
    }

    /// Arrays with the same axes along a new first one.
    pub fn stack(axis: Ax, parts: &[Array]) -> Array {
        let Some(first) = parts.first() else { return Array { axes: vec![axis], data: Vec::new() } };
        let mut axes = vec![axis];
        axes.extend(&first.axes);
        Array { axes, data: parts.iter().flat_map(|p| p.spread(&first.axes).data).collect() }
    }
}

pub fn total(xs: &[Num]) -> Num {
    xs.iter().fold(Num::ZERO, |a, b| a.add(b))
}

/// The entry that is the largest.
pub fn largest(xs: &[Num]) -> Num {
    xs.iter().skip(1).fold(xs[0].clone(), |a, b| if b.real() > a.real() { b.clone() } else { a })
}

/// Places of the entries, the smallest entry first; of equal ones the first.
pub fn ascending(xs: &[Num]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..xs.len()).collect();
    order.sort_by(|a, b| xs[*a].real().total_cmp(&xs[*b].real()));
    order
}

/// The place of the largest entry, of equal ones the first.
pub fn place_of_largest(xs: &[Num]) -> Num {
    Num::Plain((1..xs.len()).fold(0, |a, b| if xs[b].real() > xs[a].real() { b } else { a }) as f64)
}

pub fn log_sum_exp(xs: &[Num]) -> Num {
    let top = Num::Plain(largest(xs).real());
    total(&xs.iter().map(|x| x.sub(&top).exp()).collect::<Vec<_>>()).log().add(&top)
}
