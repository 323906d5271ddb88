//! The numbers that the interpreter computes with.

use std::fmt::{Debug, Display};
use std::ops::{Add, Div, Mul, Neg, Sub};

use super::gemm::Gemm;

/// `f32` or `f64`, and nothing else: the product that it must have is named nowhere outside.
pub trait Real:
    Copy
    + PartialOrd
    + Default
    + Debug
    + Display
    + Neg<Output = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Gemm
    + 'static
{
    const ZERO: Self;
    const ONE: Self;
    const NEG_INFINITY: Self;

    fn from_f64(x: f64) -> Self;
    fn to_f64(self) -> f64;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn ln_1p(self) -> Self;
    fn sin(self) -> Self;
    fn tanh(self) -> Self;
    fn sqrt(self) -> Self;
    fn recip(self) -> Self;
    fn floor(self) -> Self;
    fn abs(self) -> Self;
    fn is_nan(self) -> bool;
    fn is_finite(self) -> bool;

    /// The larger; NaN if either is. Which of two equal zeros it gives is left open.
    fn larger(self, other: Self) -> Self {
        if self > other || self.is_nan() { self } else { other }
    }

    /// `1 / (1 + exp(-x))`, the exponential taken of what is not positive.
    fn sigmoid(self) -> Self {
        let e = (-self.abs()).exp();
        (if self < Self::ZERO { e } else { Self::ONE }) / (Self::ONE + e)
    }

    /// `log(1 + exp(x))`, likewise.
    fn softplus(self) -> Self {
        self.larger(Self::ZERO) + (-self.abs()).exp().ln_1p()
    }

    /// -1, 0 or 1; 0 for NaN.
    fn sign(self) -> Self {
        if self > Self::ZERO {
            Self::ONE
        } else if self < Self::ZERO {
            -Self::ONE
        } else {
            Self::ZERO
        }
    }
}

macro_rules! real {
    ($t:ident) => {
        impl Real for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = $t::NEG_INFINITY;

            fn from_f64(x: f64) -> Self {
                x as $t
            }
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            fn exp(self) -> Self {
                self.exp()
            }
            fn ln(self) -> Self {
                self.ln()
            }
            fn ln_1p(self) -> Self {
                self.ln_1p()
            }
            fn sin(self) -> Self {
                self.sin()
            }
            fn tanh(self) -> Self {
                self.tanh()
            }
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            fn recip(self) -> Self {
                self.recip()
            }
            fn floor(self) -> Self {
                self.floor()
            }
            fn abs(self) -> Self {
                self.abs()
            }
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            fn is_finite(self) -> bool {
                self.is_finite()
            }
        }
    };
}

real!(f32);
real!(f64);
