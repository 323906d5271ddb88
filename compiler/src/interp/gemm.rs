//! One matrix product: the only foreign and unsafe call of the interpreter.

/// A matrix that starts at the first entry of `data`, with the distances between its rows and between its columns.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<D> {
    pub data: D,
    pub row: usize,
    pub column: usize,
}

impl<D> Matrix<D> {
    /// Whether the last entry of a matrix of this size, and so every entry, lies among `len` numbers.
    fn fits(&self, len: usize, rows: usize, columns: usize) -> bool {
        let last = (rows - 1).checked_mul(self.row).zip((columns - 1).checked_mul(self.column));
        last.and_then(|(r, c)| r.checked_add(c)).is_some_and(|last| last < len)
    }
}

pub trait Gemm: Sized {
    /// `c = a b` for `a` of m rows and k columns and `b` of k rows and n columns. Panics if an entry lies outside of its
    /// slice. Nothing is written where a size is zero.
    fn gemm(size: [usize; 3], a: Matrix<&[Self]>, b: Matrix<&[Self]>, c: Matrix<&mut [Self]>);
}

macro_rules! gemm {
    ($t:ident, $gemm:path) => {
        impl Gemm for $t {
            fn gemm([m, k, n]: [usize; 3], a: Matrix<&[Self]>, b: Matrix<&[Self]>, c: Matrix<&mut [Self]>) {
                if m == 0 || k == 0 || n == 0 {
                    return;
                }
                assert!(a.fits(a.data.len(), m, k) && b.fits(b.data.len(), k, n) && c.fits(c.data.len(), m, n));
                let [rsa, csa, rsb, csb, rsc, csc] = [a.row, a.column, b.row, b.column, c.row, c.column].map(|s| s as isize);
                let (a, b, c) = (a.data.as_ptr(), b.data.as_ptr(), c.data.as_mut_ptr());
                // SAFETY: as just asserted, every entry of the three matrices lies inside its slice; `c` is borrowed
                // alone, so it overlaps neither `a` nor `b`.
                unsafe { $gemm(m, k, n, 1.0, a, rsa, csa, b, rsb, csb, 0.0, c, rsc, csc) };
            }
        }
    };
}

gemm!(f32, matrixmultiply::sgemm);
gemm!(f64, matrixmultiply::dgemm);
