//! The one module that knows CubeCL's intermediate form: a builder of kernels, and (in `text`) what makes text of them.
//!
//! Everything above it says `add`, `load`, `range`; a new version of CubeCL changes this module and no other. Indices are
//! folded while they are built, so that what is known is not computed on the device, and computed once where they are open to
//! see: kernels are half as long for it.

#[cfg(any(feature = "cuda", feature = "vulkan"))]
pub(super) mod task;
mod text;

use std::collections::{BTreeMap, HashMap, HashSet};

use cubecl::ir::{
    AddressType, Arithmetic, AtomicOp, BinaryOperator, Bitwise, Branch, Builtin, Comparison, ConstantValue, CoopMma, ElemType,
    FloatKind, FmaOperator, If, IndexAssignOperator, IndexOperator, Instruction, Matrix, MatrixIdent, MatrixLayout, NonSemantic,
    Operation, Operator, Plane, RangeLoop, Scope, Select, StorageType, Synchronization, Type, UIntKind, UnaryOperator, Variable,
    VariableKind, VectorInitOperator,
};
use cubecl::prelude::{CubeDim, KernelBuilder, KernelSettings};
use cubecl_runtime::kernel::KernelDefinition;

use super::emitted::{Arena, Binding, Precision, Scalar};
use crate::kernel::{BufferId, LoopId};

pub(super) use text::text;

const F32: Type = Type::Scalar(StorageType::Scalar(ElemType::Float(FloatKind::F32)));
const U32: Type = Type::Scalar(StorageType::Scalar(ElemType::UInt(UIntKind::U32)));
/// Bytes that arrays in shared memory are aligned to; matrices for tensor cores have to be.
const ALIGNED: usize = 32;
const BOOL: Type = Type::Scalar(StorageType::Scalar(ElemType::Bool));

/// A value of a unit: a number, an index or a condition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Val(Variable);

/// A variable of a unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Var(Variable);

/// An array that units index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct List(Variable);

/// A matrix that the units of a plane hold together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fragment(Variable);

/// Which matrix of `c = a b + c` it is. In memory, `a` has its columns one after the other, `b` and `c` their rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    A,
    B,
    C,
}

/// What tensor cores multiply.
fn element(precision: Precision) -> StorageType {
    StorageType::Scalar(ElemType::Float(match precision {
        Precision::F32 => FloatKind::F32,
        Precision::Tf32 => FloatKind::TF32,
        Precision::Bf16 => FloatKind::BF16,
    }))
}

pub(super) fn index(i: usize) -> Val {
    Val(Variable::constant(ConstantValue::UInt(i as u64), U32))
}

/// A number that is finite.
pub(super) fn number(x: f32) -> Val {
    Val(Variable::constant(ConstantValue::Float(f64::from(x)), F32))
}

impl Val {
    fn known(self) -> Option<u64> {
        match self.0.kind {
            VariableKind::Constant(ConstantValue::UInt(value)) => Some(value),
            _ => None,
        }
    }
}

/// Functions of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fun {
    Neg,
    Exp,
    Log,
    Log1p,
    Sin,
    Cos,
    Sqrt,
    Recip,
    Floor,
    Tanh,
    Abs,
}

/// A kernel in the making: bindings, scalars, shared memory, and the scopes that are open.
pub(super) struct Code {
    kernel: KernelBuilder,
    /// Open scopes; the last gets the instructions. The first stands in for the kernel's own.
    scopes: Vec<Scope>,
    bound: Vec<(Binding, List)>,
    scalars: Vec<(Scalar, Val)>,
    shared: Option<List>,
    /// Shared memory for numbers of two bytes.
    halves: Option<List>,
    units: u32,
    /// Where buffers start that are elsewhere for each of several kernels with the same code.
    starts: BTreeMap<BufferId, Val>,
    /// Indices that have been computed, for the kernel's own scope and each that is open.
    computed: Vec<HashMap<(Reckoned, Variable, Variable), Val>>,
    /// Indices that change: what is computed with them is computed again.
    changing: HashSet<Variable>,
}

/// Arithmetic of indices that is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Reckoned {
    Add,
    Mul,
    Div,
    Rem,
}

impl Code {
    /// A kernel with these bindings and scalars, numbers of shared memory (of four bytes and of two) and so many units a cube.
    pub(super) fn new(bindings: &[Binding], scalars: &[Scalar], [shared, halves]: [usize; 2], units: u32) -> Code {
        let mut kernel = KernelBuilder::default();
        AddressType::U32.register(&mut kernel.scope);
        let mut bound = Vec::new();
        for binding in bindings {
            let item = binding_type(binding);
            let list = if binding.writes { kernel.output_array(item) } else { kernel.input_array(item) };
            bound.push((*binding, List(*list)));
        }
        let scalars = scalars.iter().map(|s| (*s, Val(*kernel.scalar(UIntKind::U32.into())))).collect();
        let mut array = |ty: Type, len: usize| (len > 0).then(|| List(*kernel.scope.create_shared_array(ty, len, Some(ALIGNED))));
        let shared = array(F32, shared);
        let halves = array(Type::new(element(Precision::Bf16)), halves);
        Code {
            kernel,
            scopes: Vec::new(),
            bound,
            scalars,
            shared,
            halves,
            units,
            starts: BTreeMap::new(),
            computed: vec![HashMap::new()],
            changing: HashSet::new(),
        }
    }

    pub(super) fn arena(&self, arena: Arena) -> List {
        self.bound.iter().find(|(b, _)| b.arena == arena).expect("what a kernel touches is bound").1
    }

    pub(super) fn scalar(&self, scalar: Scalar) -> Val {
        self.scalars.iter().find(|(s, _)| *s == scalar).expect("what a kernel needs is passed").1
    }

    /// Where a buffer starts, if that is not the same for all cubes.
    pub(super) fn start(&self, buffer: BufferId) -> Option<Val> {
        self.starts.get(&buffer).copied()
    }

    pub(super) fn set_starts(&mut self, starts: BTreeMap<BufferId, Val>) {
        self.starts = starts;
    }

    /// An entry of a list of known numbers.
    pub(super) fn lookup(&mut self, numbers: &[usize], at: Val) -> Val {
        let steps: Vec<isize> = numbers.windows(2).map(|w| w[1] as isize - w[0] as isize).collect();
        // Evenly spaced: computed. Negative steps wrap round, as indices do.
        if steps.windows(2).all(|w| w[0] == w[1]) {
            let step = steps.first().map_or(0, |step| *step as u32 as usize);
            let by = self.mul(at, index(step));
            return self.add(by, index(numbers[0]));
        }
        let values = numbers.iter().map(|n| index(*n).0).collect();
        let list = List(*self.scope().create_const_array(U32, values));
        self.load(list, at)
    }

    pub(super) fn shared(&self) -> List {
        self.shared.expect("a kernel with locals has shared memory")
    }

    /// Shared memory for numbers of two bytes.
    pub(super) fn halves(&self) -> List {
        self.halves.expect("a kernel with rounded numbers has memory for them")
    }

    pub(super) fn unit(&self) -> Val {
        Val(Variable::builtin(Builtin::UnitPosX, UIntKind::U32.into()))
    }

    pub(super) fn cube(&self) -> Val {
        Val(Variable::builtin(Builtin::CubePosX, UIntKind::U32.into()))
    }

    pub(super) fn units(&self) -> usize {
        self.units as usize
    }

    fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().unwrap_or(&mut self.kernel.scope)
    }

    fn open(&mut self) {
        let child = self.scope().child();
        self.scopes.push(child);
        self.computed.push(HashMap::new());
    }

    fn close(&mut self) -> Scope {
        self.computed.pop();
        self.scopes.pop().expect("the scope that was opened")
    }

    fn compute(&mut self, ty: Type, operation: impl Into<Operation>) -> Val {
        let scope = self.scope();
        let out = *scope.create_local(ty);
        scope.register(Instruction::new(operation, out));
        Val(out)
    }

    fn binary(&mut self, make: fn(BinaryOperator) -> Arithmetic, a: Val, b: Val) -> Val {
        let ty = if a.0.ty.vector_size() >= b.0.ty.vector_size() { a.0.ty } else { b.0.ty };
        self.compute(ty, make(BinaryOperator { lhs: a.0, rhs: b.0 }))
    }

    /// Arithmetic, done once where its operands are indices.
    fn reckon(&mut self, what: Reckoned, a: Val, b: Val) -> Val {
        let make = match what {
            Reckoned::Add => Arithmetic::Add,
            Reckoned::Mul => Arithmetic::Mul,
            Reckoned::Div => Arithmetic::Div,
            Reckoned::Rem => Arithmetic::Modulo,
        };
        let changes = |x: Val| x.0.ty != U32 || self.changing.contains(&x.0);
        if changes(a) || changes(b) {
            return self.binary(make, a, b);
        }
        let key = (what, a.0, b.0);
        if let Some(known) = self.computed.iter().rev().find_map(|scope| scope.get(&key)) {
            return *known;
        }
        let value = self.binary(make, a, b);
        self.computed.last_mut().expect("the kernel's own scope").insert(key, value);
        value
    }

    pub(super) fn add(&mut self, a: Val, b: Val) -> Val {
        match (a.known(), b.known()) {
            (Some(x), Some(y)) => index((x + y) as usize),
            (Some(0), _) => b,
            (_, Some(0)) => a,
            _ => self.reckon(Reckoned::Add, a, b),
        }
    }

    pub(super) fn sub(&mut self, a: Val, b: Val) -> Val {
        match (a.known(), b.known()) {
            (Some(x), Some(y)) => index((x - y) as usize),
            (_, Some(0)) => a,
            _ => self.binary(Arithmetic::Sub, a, b),
        }
    }

    pub(super) fn mul(&mut self, a: Val, b: Val) -> Val {
        match (a.known(), b.known()) {
            (Some(x), Some(y)) => index((x * y) as usize),
            (Some(0), _) | (_, Some(0)) => index(0),
            (Some(1), _) => b,
            (_, Some(1)) => a,
            _ => self.reckon(Reckoned::Mul, a, b),
        }
    }

    pub(super) fn div(&mut self, a: Val, b: Val) -> Val {
        match (a.known(), b.known()) {
            (Some(x), Some(y)) => index((x / y) as usize),
            (_, Some(1)) => a,
            _ => self.reckon(Reckoned::Div, a, b),
        }
    }

    pub(super) fn rem(&mut self, a: Val, b: Val) -> Val {
        match (a.known(), b.known()) {
            (Some(x), Some(y)) => index((x % y) as usize),
            (_, Some(1)) => index(0),
            _ => self.reckon(Reckoned::Rem, a, b),
        }
    }

    pub(super) fn min(&mut self, a: Val, b: Val) -> Val {
        self.binary(Arithmetic::Min, a, b)
    }

    /// Of numbers that are not NaN.
    pub(super) fn max(&mut self, a: Val, b: Val) -> Val {
        self.binary(Arithmetic::Max, a, b)
    }

    /// The upper half of a product of indices.
    pub(super) fn mul_high(&mut self, a: Val, b: Val) -> Val {
        self.binary(Arithmetic::MulHi, a, b)
    }

    /// `a b + c`; of vectors as well.
    pub(super) fn mul_add(&mut self, a: Val, b: Val, c: Val) -> Val {
        self.compute(c.0.ty, Arithmetic::Fma(FmaOperator { a: a.0, b: b.0, c: c.0 }))
    }

    pub(super) fn fun(&mut self, fun: Fun, x: Val) -> Val {
        let make = match fun {
            Fun::Neg => Arithmetic::Neg,
            Fun::Exp => Arithmetic::Exp,
            Fun::Log => Arithmetic::Log,
            Fun::Log1p => Arithmetic::Log1p,
            Fun::Sin => Arithmetic::Sin,
            Fun::Cos => Arithmetic::Cos,
            Fun::Sqrt => Arithmetic::Sqrt,
            Fun::Recip => Arithmetic::Recip,
            Fun::Floor => Arithmetic::Floor,
            Fun::Tanh => Arithmetic::Tanh,
            Fun::Abs => Arithmetic::Abs,
        };
        self.compute(x.0.ty, make(UnaryOperator { input: x.0 }))
    }

    fn compare(&mut self, make: fn(BinaryOperator) -> Comparison, a: Val, b: Val) -> Val {
        self.compute(BOOL, make(BinaryOperator { lhs: a.0, rhs: b.0 }))
    }

    pub(super) fn less(&mut self, a: Val, b: Val) -> Val {
        self.compare(Comparison::Lower, a, b)
    }

    pub(super) fn equal(&mut self, a: Val, b: Val) -> Val {
        self.compare(Comparison::Equal, a, b)
    }

    pub(super) fn differ(&mut self, a: Val, b: Val) -> Val {
        self.compare(Comparison::NotEqual, a, b)
    }

    pub(super) fn is_nan(&mut self, x: Val) -> Val {
        self.compute(BOOL, Comparison::IsNan(UnaryOperator { input: x.0 }))
    }

    pub(super) fn and(&mut self, a: Val, b: Val) -> Val {
        self.compute(BOOL, Operator::And(BinaryOperator { lhs: a.0, rhs: b.0 }))
    }

    pub(super) fn or(&mut self, a: Val, b: Val) -> Val {
        self.compute(BOOL, Operator::Or(BinaryOperator { lhs: a.0, rhs: b.0 }))
    }

    pub(super) fn not(&mut self, a: Val) -> Val {
        self.compute(BOOL, Operator::Not(UnaryOperator { input: a.0 }))
    }

    pub(super) fn select(&mut self, cond: Val, then: Val, or_else: Val) -> Val {
        self.compute(then.0.ty, Operator::Select(Select { cond: cond.0, then: then.0, or_else: or_else.0 }))
    }

    pub(super) fn xor(&mut self, a: Val, b: Val) -> Val {
        self.compute(U32, Bitwise::BitwiseXor(BinaryOperator { lhs: a.0, rhs: b.0 }))
    }

    pub(super) fn shift_right(&mut self, a: Val, by: usize) -> Val {
        self.compute(U32, Bitwise::ShiftRight(BinaryOperator { lhs: a.0, rhs: index(by).0 }))
    }

    /// An index as a number, or a number, rounded towards zero, as an index.
    pub(super) fn number_of(&mut self, i: Val) -> Val {
        self.compute(F32, Operator::Cast(UnaryOperator { input: i.0 }))
    }

    pub(super) fn index_of(&mut self, x: Val) -> Val {
        self.compute(U32, Operator::Cast(UnaryOperator { input: x.0 }))
    }

    /// Any number: languages have no literals for those that are not finite, so they are made of their bits.
    pub(super) fn constant(&mut self, x: f32) -> Val {
        if x.is_finite() {
            return number(x);
        }
        let bits = self.var(index(x.to_bits() as usize));
        let bits = self.get(bits);
        self.compute(F32, Operator::Reinterpret(UnaryOperator { input: bits.0 }))
    }

    /// Four numbers that are all the same.
    pub(super) fn spread(&mut self, x: Val) -> Val {
        self.compute(F32.with_vector_size(4), Operator::Cast(UnaryOperator { input: x.0 }))
    }

    /// Four numbers.
    pub(super) fn four(&mut self, parts: [Val; 4]) -> Val {
        let operator = VectorInitOperator { inputs: parts.iter().map(|part| part.0).collect() };
        self.compute(F32.with_vector_size(4), Operator::InitVector(operator))
    }

    /// A number of four.
    pub(super) fn part(&mut self, vector: Val, i: usize) -> Val {
        let operator = IndexOperator { list: vector.0, index: index(i).0, vector_size: 0, unroll_factor: 1 };
        self.compute(F32, Operator::Index(operator))
    }

    pub(super) fn load(&mut self, list: List, at: Val) -> Val {
        let operator = IndexOperator { list: list.0, index: at.0, vector_size: 0, unroll_factor: 1 };
        self.compute(list.0.ty, Operator::Index(operator))
    }

    pub(super) fn store(&mut self, list: List, at: Val, value: Val) {
        let operator = IndexAssignOperator { index: at.0, value: value.0, vector_size: 0, unroll_factor: 1 };
        self.scope().register(Instruction::new(Operator::IndexAssign(operator), list.0));
    }

    /// Adds to a number that other cubes add to as well. CUDA alone has it.
    pub(super) fn add_atomically(&mut self, list: List, at: Val, value: Val) {
        let operator = IndexOperator { list: list.0, index: at.0, vector_size: 0, unroll_factor: 1 };
        let place = self.compute(Type::new(StorageType::Atomic(ElemType::Float(FloatKind::F32))), Operator::Index(operator));
        self.compute(F32, AtomicOp::Add(BinaryOperator { lhs: place.0, rhs: value.0 }));
    }

    /// A variable with its first value.
    pub(super) fn var(&mut self, first: Val) -> Var {
        let scope = self.scope();
        // Not from the pool, which hands variables out again while they are in use.
        let variable = *scope.create_local_restricted(first.0.ty);
        scope.add_local_mut(variable);
        self.changing.insert(variable);
        self.set(Var(variable), first);
        Var(variable)
    }

    pub(super) fn set(&mut self, var: Var, value: Val) {
        self.scope().register(Instruction::new(Operation::Copy(value.0), var.0));
    }

    pub(super) fn get(&self, var: Var) -> Val {
        Val(var.0)
    }

    /// The number of the unit whose place in the plane differs in these bits. All units of the plane have to be here.
    pub(super) fn across(&mut self, x: Val, bits: usize) -> Val {
        self.compute(x.0.ty, Plane::ShuffleXor(BinaryOperator { lhs: x.0, rhs: index(bits).0 }))
    }

    /// A matrix of `c = a b + c`, by the shape of the product: m, n, k.
    pub(super) fn fragment(&mut self, side: Side, [m, n, k]: [usize; 3], precision: Precision) -> Fragment {
        let (ident, storage, layout) = match side {
            Side::A => (MatrixIdent::A, element(precision), MatrixLayout::ColMajor),
            Side::B => (MatrixIdent::B, element(precision), MatrixLayout::RowMajor),
            Side::C => (MatrixIdent::Accumulator, element(Precision::F32), MatrixLayout::Undefined),
        };
        Fragment(*self.scope().create_matrix(Matrix { ident, m, n, k, storage, layout }))
    }

    pub(super) fn clear(&mut self, fragment: Fragment) {
        self.scope().register(Instruction::new(CoopMma::Fill { value: number(0.0).0 }, fragment.0));
    }

    /// Reads a matrix of factors whose rows or columns are `apart`. All units of the plane have to be here, now and below.
    pub(super) fn gather_fragment(&mut self, fragment: Fragment, from: List, at: Val, apart: usize) {
        let load = CoopMma::Load { value: from.0, stride: index(apart).0, offset: at.0, layout: None };
        self.scope().register(Instruction::new(load, fragment.0));
    }

    /// `c = a b + c`
    pub(super) fn multiply_fragments(&mut self, a: Fragment, b: Fragment, c: Fragment) {
        let execute = CoopMma::Execute { mat_a: a.0, mat_b: b.0, mat_c: c.0 };
        self.scope().register(Instruction::new(execute, c.0));
    }

    /// Writes a matrix of sums.
    pub(super) fn spread_fragment(&mut self, fragment: Fragment, to: List, at: Val, apart: usize) {
        let layout = MatrixLayout::RowMajor;
        let store = CoopMma::Store { mat: fragment.0, stride: index(apart).0, offset: at.0, layout };
        self.scope().register(Instruction::new(store, to.0));
    }

    /// A number as tensor cores multiply it.
    pub(super) fn rounded(&mut self, x: Val, precision: Precision) -> Val {
        self.compute(Type::new(element(precision)), Operator::Cast(UnaryOperator { input: x.0 }))
    }

    /// All units of the cube wait for each other, and see what the others wrote.
    pub(super) fn barrier(&mut self) {
        self.scope().register(Synchronization::SyncCube);
    }

    pub(super) fn comment(&mut self, text: &str) {
        self.scope().register(NonSemantic::Comment { content: text.into() });
    }

    /// `for i in start .. end`, by `step`, with short rounds: two at a time. Left to itself the compiler would make one piece of
    /// all rounds wherever it knows their number, and run out of registers.
    pub(super) fn range(&mut self, start: Val, end: Val, step: usize, body: impl FnOnce(&mut Code, Val)) {
        self.unrolled(2, start, end, step, body);
    }

    /// A range of which so many rounds become one: 1 where rounds are long, or there are other units to fill the time; more
    /// where a round waits for what it loads.
    pub(super) fn unrolled(&mut self, by: usize, start: Val, end: Val, step: usize, body: impl FnOnce(&mut Code, Val)) {
        self.comment(&format!("{}{by}", text::UNROLL));
        self.open();
        let i = *self.scope().create_local_restricted(U32);
        body(self, Val(i));
        let scope = self.close();
        let step = (step != 1).then(|| index(step).0);
        let range = RangeLoop { i, start: start.0, end: end.0, step, inclusive: false, scope };
        self.scope().register(Branch::RangeLoop(Box::new(range)));
    }

    pub(super) fn when(&mut self, cond: Val, body: impl FnOnce(&mut Code)) {
        self.open();
        body(self);
        let scope = self.close();
        self.scope().register(Branch::If(Box::new(If { cond: cond.0, scope })));
    }

    /// Items `0 .. count`, spread over the units of the cube: item i is done by unit `i % units`.
    pub(super) fn items(&mut self, count: usize, body: impl FnOnce(&mut Code, Val)) {
        let (unit, units) = (self.unit(), self.units());
        match count.cmp(&units) {
            std::cmp::Ordering::Equal => body(self, unit),
            std::cmp::Ordering::Less => {
                let mine = self.less(unit, index(count));
                self.when(mine, |code| body(code, unit));
            }
            std::cmp::Ordering::Greater => self.unrolled(1, unit, index(count), units, body),
        }
    }

    /// The kernel that has been built.
    pub(super) fn finish(self, name: &str) -> KernelDefinition {
        self.kernel.build(settings(self.units, name))
    }
}

/// How a kernel is launched.
pub(super) fn settings(units: u32, name: &str) -> KernelSettings {
    KernelSettings::default().cube_dim(CubeDim::new_1d(units)).kernel_name(name)
}

/// What an arena is an array of.
pub(super) fn binding_type(binding: &Binding) -> Type {
    if binding.vector == 1 { F32 } else { F32.with_vector_size(binding.vector as usize) }
}

/// Places are counted with 32 bits.
pub(super) fn address_type() -> StorageType {
    AddressType::U32.unsigned_type()
}

/// Variables of loops that are open, by their number.
pub(super) type LoopVars = BTreeMap<LoopId, Val>;
