//! Numbers with derivatives: a tower of dual numbers.
//!
//! A dual number carries a tag and one tangent for each direction of its variable. Tags grow: the variable
//! that was opened last is the outermost level, so nested derivatives never mix.

use std::rc::Rc;

#[derive(Clone, Debug)]
pub enum Num {
    Plain(f64),
    Dual(Rc<Dual>),
}

#[derive(Debug)]
pub struct Dual {
    tag: u32,
    value: Num,
    tangents: Vec<Num>,
}

use Num::Plain;

impl Num {
    pub const ZERO: Num = Plain(0.0);

    /// A number that moves by `tangents` as the variable `tag` moves.
    pub fn variable(tag: u32, value: Num, tangents: Vec<Num>) -> Num {
        if tangents.iter().all(Num::is_zero) {
            return value;
        }
        Num::Dual(Rc::new(Dual { tag, value, tangents }))
    }

    /// The value without any derivative.
    pub fn real(&self) -> f64 {
        match self {
            Plain(x) => *x,
            Num::Dual(d) => d.value.real(),
        }
    }

    /// The derivative in direction `i` of the variable `tag`, which is the newest one that is open.
    pub fn tangent(&self, tag: u32, i: usize) -> Num {
        match self {
            Num::Dual(d) if d.tag == tag => d.tangents[i].clone(),
            _ => Num::ZERO,
        }
    }

    /// A zero without derivatives; products with it are left out.
    fn is_zero(&self) -> bool {
        matches!(self, Plain(0.0))
    }

    fn tag(&self) -> Option<u32> {
        match self {
            Plain(_) => None,
            Num::Dual(d) => Some(d.tag),
        }
    }

    /// Value and tangents at a level of the tower.
    fn at(&self, tag: u32) -> (&Num, Option<&[Num]>) {
        match self {
            Num::Dual(d) if d.tag == tag => (&d.value, Some(&d.tangents)),
            other => (other, None),
        }
    }

    /// `value` of the inner level, and how the tangents follow from those of both sides.
    fn join(&self, other: &Num, value: impl Fn(&Num, &Num) -> Num, tangent: impl Fn(&Num, &Num, &Num, &Num) -> Num) -> Num {
        let Some(tag) = self.tag().max(other.tag()) else { unreachable!("plain numbers are handled before") };
        let ((a, da), (b, db)) = (self.at(tag), other.at(tag));
        let n = da.or(db).map_or(0, <[Num]>::len);
        let zero = Num::ZERO;
        let tangents = (0..n).map(|i| tangent(a, da.map_or(&zero, |d| &d[i]), b, db.map_or(&zero, |d| &d[i]))).collect();
        Num::variable(tag, value(a, b), tangents)
    }

    /// A smooth function by its value and its derivative, given argument and value.
    fn smooth(&self, plain: impl Fn(f64) -> f64, whole: impl Fn(&Num) -> Num, slope: impl Fn(&Num, &Num) -> Num) -> Num {
        match self {
            Plain(x) => Plain(plain(*x)),
            Num::Dual(d) => {
                let y = whole(&d.value);
                let slope = slope(&d.value, &y);
                Num::variable(d.tag, y, d.tangents.iter().map(|t| t.mul(&slope)).collect())
            }
        }
    }

    pub fn add(&self, other: &Num) -> Num {
        match (self, other) {
            (Plain(a), Plain(b)) => Plain(a + b),
            (a, b) if a.is_zero() => b.clone(),
            (a, b) if b.is_zero() => a.clone(),
            (a, b) => a.join(b, Num::add, |_, da, _, db| da.add(db)),
        }
    }

    pub fn neg(&self) -> Num {
        self.mul(&Plain(-1.0))
    }

    pub fn sub(&self, other: &Num) -> Num {
        self.add(&other.neg())
    }

    pub fn mul(&self, other: &Num) -> Num {
        match (self, other) {
            (Plain(a), Plain(b)) => Plain(a * b),
            (a, b) if a.is_zero() || b.is_zero() => Num::ZERO,
            (a, b) => a.join(b, Num::mul, |a, da, b, db| da.mul(b).add(&a.mul(db))),
        }
    }

    pub fn div(&self, other: &Num) -> Num {
        match (self, other) {
            (Plain(a), Plain(b)) => Plain(a / b),
            (a, b) => a.mul(&b.powf(-1.0)),
        }
    }

    pub fn exp(&self) -> Num {
        self.smooth(f64::exp, Num::exp, |_, y| y.clone())
    }

    pub fn log(&self) -> Num {
        self.smooth(f64::ln, Num::log, |x, _| Plain(1.0).div(x))
    }

    pub fn sin(&self) -> Num {
        self.smooth(f64::sin, Num::sin, |x, _| x.cos())
    }

    pub fn cos(&self) -> Num {
        self.smooth(f64::cos, Num::cos, |x, _| x.sin().neg())
    }

    pub fn sqrt(&self) -> Num {
        self.smooth(f64::sqrt, Num::sqrt, |_, y| Plain(0.5).div(y))
    }

    pub fn tanh(&self) -> Num {
        self.smooth(f64::tanh, Num::tanh, |_, y| Plain(1.0).sub(&y.mul(y)))
    }

    pub fn sigmoid(&self) -> Num {
        self.smooth(|x| 1.0 / (1.0 + (-x).exp()), Num::sigmoid, |_, y| y.mul(&Plain(1.0).sub(y)))
    }

    pub fn softplus(&self) -> Num {
        self.smooth(|x| x.max(0.0) + (-x.abs()).exp().ln_1p(), Num::softplus, |x, _| x.sigmoid())
    }

    pub fn abs(&self) -> Num {
        if self.real() < 0.0 { self.neg() } else { self.clone() }
    }

    /// A power with a plain exponent.
    pub fn powf(&self, n: f64) -> Num {
        if n == 0.0 {
            return Plain(1.0);
        }
        if n == 1.0 {
            return self.clone();
        }
        self.smooth(
            |x| if n.fract() == 0.0 { x.powi(n as i32) } else { x.powf(n) },
            |x| x.powf(n),
            |x, _| x.powf(n - 1.0).mul(&Plain(n)),
        )
    }

    pub fn pow(&self, other: &Num) -> Num {
        match other {
            Plain(n) => self.powf(*n),
            _ => other.mul(&self.log()).exp(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The third derivative of tanh(x)^2 and a mixed one, against formulas.
    #[test]
    fn nested() {
        let x = 0.3;
        let tower = (1..=3).fold(Plain(x), |v, tag| Num::variable(tag, v, vec![Plain(1.0)]));
        let y = tower.tanh().mul(&tower.tanh());
        let third = y.tangent(3, 0).tangent(2, 0).tangent(1, 0).real();
        let t = x.tanh();
        let s = 1.0 - t * t;
        // (t^2)' = 2 t s; '' = 2 s (1 - 3 t^2) ; ''' = s (-16 t + 24 t^3).
        assert!((third - s * (-16.0 * t + 24.0 * t.powi(3))).abs() < 1e-12, "{third}");
        let (a, b) = (Num::variable(1, Plain(2.0), vec![Plain(1.0)]), Num::variable(2, Plain(3.0), vec![Plain(1.0)]));
        let mixed = a.mul(&b).exp().tangent(2, 0).tangent(1, 0).real();
        assert!((mixed - 7.0 * 6f64.exp()).abs() < 1e-9);
    }
}
