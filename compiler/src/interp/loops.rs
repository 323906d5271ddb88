//! Nested loops over several arrays at once, each with a stride of its own along each dimension.

/// One dimension: its size, and what one step along it means in each of the arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dim<const N: usize> {
    pub(crate) size: usize,
    pub(crate) strides: [usize; N],
}

/// Loops over dimensions, outermost first. The innermost is left to the caller, who can make a tight loop of it.
#[derive(Debug)]
pub(crate) struct Loops<const N: usize> {
    outer: Vec<Dim<N>>,
    pub(crate) inner: Dim<N>,
}

impl<const N: usize> Loops<N> {
    /// Dimensions of one entry go, and neighbours that all arrays pass through in one stride become one.
    pub(crate) fn new(dims: impl IntoIterator<Item = Dim<N>>) -> Loops<N> {
        let mut outer: Vec<Dim<N>> = Vec::new();
        for dim in dims {
            match outer.last_mut() {
                _ if dim.size == 1 => {}
                Some(last) if last.strides == dim.strides.map(|s| s * dim.size) => {
                    *last = Dim { size: last.size * dim.size, strides: dim.strides };
                }
                _ => outer.push(dim),
            }
        }
        let inner = outer.pop().unwrap_or(Dim { size: 1, strides: [1; N] });
        Loops { outer, inner }
    }

    /// Calls `f` with the offsets at which each innermost row starts, in order.
    pub(crate) fn rows(&self, mut f: impl FnMut([usize; N])) {
        if self.inner.size == 0 || self.outer.iter().any(|d| d.size == 0) {
            return;
        }
        let mut index = vec![0; self.outer.len()];
        let mut at = [0; N];
        loop {
            f(at);
            let mut d = self.outer.len();
            loop {
                if d == 0 {
                    return;
                }
                d -= 1;
                let dim = self.outer[d];
                index[d] += 1;
                if index[d] < dim.size {
                    at.iter_mut().zip(dim.strides).for_each(|(a, s)| *a += s);
                    break;
                }
                index[d] = 0;
                at.iter_mut().zip(dim.strides).for_each(|(a, s)| *a -= s * (dim.size - 1));
            }
        }
    }

    /// Calls `f` with the offsets of every entry, in order.
    pub(crate) fn entries(&self, mut f: impl FnMut([usize; N])) {
        self.rows(|mut at| {
            for _ in 0..self.inner.size {
                f(at);
                at.iter_mut().zip(self.inner.strides).for_each(|(a, s)| *a += s);
            }
        });
    }

    /// The one stride of an array through all of the dimensions, if it has one.
    pub(crate) fn single(&self) -> Option<[usize; N]> {
        self.outer.is_empty().then_some(self.inner.strides)
    }
}
