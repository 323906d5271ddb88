//! A map's arithmetic, written down by the micro-kernels' own functions.
//!
//! [`Trace`] is an instruction set whose vectors are numbers of a list: `math::exp::<Trace>` computes nothing and leaves
//! the operations of an exponential on the list. So there is one text of each function, and generated code has the bits
//! of the micro-kernels. What is computed twice is found on the list and stands there once.

use std::cell::RefCell;
use std::collections::HashMap;

use micro::simd::Simd;

/// A place on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id(pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Value {
    /// A lane vector of a view; one number of a view in all lanes; the bits of a number in all lanes.
    Load(usize),
    Splat(usize),
    Bits(u32),
    Two(Two, Id, Id),
    One(One, Id),
    /// `a b + c`
    Fma(Id, Id, Id),
    /// The second where the first is true, else the third.
    Select(Id, Id, Id),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Two {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    Less,
    IntAdd,
    And,
    Xor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum One {
    Sqrt,
    Floor,
    IsNan,
    Left(i32),
    Right(i32),
    ToFloat,
}

impl Value {
    pub(super) fn operands(&self) -> impl Iterator<Item = Id> {
        let (list, n) = match *self {
            Value::Load(_) | Value::Splat(_) | Value::Bits(_) => ([Id(0); 3], 0),
            Value::One(_, a) => ([a; 3], 1),
            Value::Two(_, a, b) => ([a, b, b], 2),
            Value::Fma(a, b, c) | Value::Select(a, b, c) => ([a, b, c], 3),
        };
        list.into_iter().take(n)
    }
}

#[derive(Debug, Default)]
struct List {
    values: Vec<Value>,
    known: HashMap<Value, Id>,
}

thread_local! {
    static LIST: RefCell<List> = RefCell::default();
}

/// What `f` writes down, with its result.
pub(super) fn record<R>(f: impl FnOnce() -> R) -> (Vec<Value>, R) {
    LIST.take();
    let result = f();
    (LIST.take().values, result)
}

pub(super) fn push(value: Value) -> Id {
    LIST.with_borrow_mut(|list| {
        let next = Id(list.values.len() as u32);
        let id = *list.known.entry(value).or_insert(next);
        if id == next {
            list.values.push(value);
        }
        id
    })
}

fn two(op: Two, a: Id, b: Id) -> Id {
    push(Value::Two(op, a, b))
}

fn one(op: One, a: Id) -> Id {
    push(Value::One(op, a))
}

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trace;

impl Simd for Trace {
    const W: usize = micro::LANES;
    type V = Id;
    type I = Id;
    type M = Id;

    unsafe fn load(_: *const f32) -> Id {
        unreachable!("views are on the list from the start")
    }
    unsafe fn store(_: *mut f32, _: Id) {
        unreachable!("stores are not on the list")
    }
    unsafe fn load_some(_: *const f32, _: usize) -> Id {
        unreachable!("a map takes whole lane vectors")
    }
    unsafe fn sum(_: Id) -> f32 {
        unreachable!("a map does not cross lanes")
    }
    unsafe fn any(_: Id) -> bool {
        unreachable!("what decides by numbers has no list")
    }

    unsafe fn splat(x: f32) -> Id {
        push(Value::Bits(x.to_bits()))
    }
    unsafe fn int(x: i32) -> Id {
        push(Value::Bits(x as u32))
    }
    unsafe fn add(a: Id, b: Id) -> Id {
        two(Two::Add, a, b)
    }
    unsafe fn sub(a: Id, b: Id) -> Id {
        two(Two::Sub, a, b)
    }
    unsafe fn mul(a: Id, b: Id) -> Id {
        two(Two::Mul, a, b)
    }
    unsafe fn div(a: Id, b: Id) -> Id {
        two(Two::Div, a, b)
    }
    unsafe fn fma(a: Id, b: Id, c: Id) -> Id {
        push(Value::Fma(a, b, c))
    }
    unsafe fn min(a: Id, b: Id) -> Id {
        two(Two::Min, a, b)
    }
    unsafe fn max(a: Id, b: Id) -> Id {
        two(Two::Max, a, b)
    }
    unsafe fn sqrt(a: Id) -> Id {
        one(One::Sqrt, a)
    }
    unsafe fn floor(a: Id) -> Id {
        one(One::Floor, a)
    }
    unsafe fn less(a: Id, b: Id) -> Id {
        two(Two::Less, a, b)
    }
    unsafe fn is_nan(a: Id) -> Id {
        one(One::IsNan, a)
    }
    unsafe fn select(m: Id, a: Id, b: Id) -> Id {
        push(Value::Select(m, a, b))
    }
    unsafe fn bits(a: Id) -> Id {
        a
    }
    unsafe fn of_bits(a: Id) -> Id {
        a
    }
    unsafe fn int_add(a: Id, b: Id) -> Id {
        two(Two::IntAdd, a, b)
    }
    unsafe fn int_and(a: Id, b: Id) -> Id {
        two(Two::And, a, b)
    }
    unsafe fn int_xor(a: Id, b: Id) -> Id {
        two(Two::Xor, a, b)
    }
    unsafe fn shift_left<const N: i32>(a: Id) -> Id {
        one(One::Left(N), a)
    }
    unsafe fn shift_right<const N: i32>(a: Id) -> Id {
        one(One::Right(N), a)
    }
    unsafe fn to_float(a: Id) -> Id {
        one(One::ToFloat, a)
    }
}
