//! Instructions of maps, and the functions in them.

use std::hash::{Hash, Hasher};
use std::mem::discriminant;

use serde::{Deserialize, Serialize};

/// Index into [`Map::code`](super::Map::code).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reg(pub u32);

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Instr {
    /// The entry of `loads[i]`.
    Load(u32),
    Const(f32),
    Unary(Unary, Reg),
    Binary(Binary, Reg, Reg),
    /// `a b + c`, rounded once where the device can.
    MulAdd(Reg, Reg, Reg),
    /// The second where the first is not zero, else the third.
    Select(Reg, Reg, Reg),
}

impl Instr {
    /// What says all about it in whole numbers, beside which instruction it is.
    fn key(self) -> (u32, Option<Unary>, Option<Binary>, [Reg; 3]) {
        let none = Reg(0);
        match self {
            Instr::Load(load) => (load, None, None, [none; 3]),
            Instr::Const(number) => (number.to_bits(), None, None, [none; 3]),
            Instr::Unary(f, a) => (0, Some(f), None, [a, none, none]),
            Instr::Binary(f, a, b) => (0, None, Some(f), [a, b, none]),
            Instr::MulAdd(a, b, c) | Instr::Select(a, b, c) => (0, None, None, [a, b, c]),
        }
    }
}

/// Constants are equal if their bits are: kernels that differ in the sign of a zero are two kernels.
impl PartialEq for Instr {
    fn eq(&self, other: &Instr) -> bool {
        discriminant(self) == discriminant(other) && self.key() == other.key()
    }
}

impl Eq for Instr {}

impl Hash for Instr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (discriminant(self), self.key()).hash(state);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unary {
    Neg,
    Exp,
    Log,
    Sin,
    Sqrt,
    Recip,
    Floor,
    Tanh,
    Sigmoid,
    Softplus,
    Abs,
    Sign,
    /// `x sigmoid(x)`
    Silu,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// NaN if one is NaN, as the interpreter's.
    Max,
    /// 1 where the first is less than the second, else 0.
    Less,
}

impl Unary {
    /// As programs are printed.
    pub fn name(self) -> &'static str {
        match self {
            Unary::Neg => "neg",
            Unary::Exp => "exp",
            Unary::Log => "log",
            Unary::Sin => "sin",
            Unary::Sqrt => "sqrt",
            Unary::Recip => "recip",
            Unary::Floor => "floor",
            Unary::Tanh => "tanh",
            Unary::Sigmoid => "sigmoid",
            Unary::Softplus => "softplus",
            Unary::Abs => "abs",
            Unary::Sign => "sign",
            Unary::Silu => "silu",
        }
    }
}
