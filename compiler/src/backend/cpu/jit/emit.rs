//! Encoding, x86-64: AVX2 with FMA, or AVX-512. A lane vector is two registers of the first and one of the second; parts
//! have the same instructions. Both encode an instruction by the same three numbers.

#![allow(clippy::useless_conversion, reason = "the assembler's macro converts register numbers")]

use dynasmrt::{DynasmApi, DynasmLabelApi, dynasm, x64::Assembler};
use micro::LANES;
use micro::strip::Arg;

use super::Moves;
use super::allocate::{Allocated, File, Ins, Mem, Reg, Rm, Total, allocate};
use super::steps::Steps;
use super::trace::{One, Two};
use crate::rules::Rule;

/// The vectors of an instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    Avx2,
    Avx512,
}

impl Set {
    /// Bytes of a register.
    fn bytes(self) -> i32 {
        match self {
            Set::Avx2 => 32,
            Set::Avx512 => 64,
        }
    }

    /// Registers that are a lane vector.
    fn parts(self) -> usize {
        LANES * size_of::<f32>() / self.bytes() as usize
    }

    fn file(self) -> File {
        match self {
            Set::Avx2 => File { registers: 16, parts: self.parts(), kept: 2 },
            Set::Avx512 => File { registers: 32, parts: self.parts(), kept: 8 },
        }
    }
}

/// Registers for the addresses of views: rcx, rbx, rbp, r8 to r15. `rdi` has the arguments, `rsi` counts, `rdx` has the
/// constants, `rax` is for addresses of more views.
const POINTERS: [u8; 11] = [1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15];

/// Inner dimensions from this length on ask for what comes next: they go through arrays that are too short for the machine
/// to see it coming.
const LONG: usize = 64;
/// Lane vectors that they ask ahead.
const AHEAD: usize = 3;

/// Bytes of the stack that a function may take. It does not touch its pages one by one, so more could step over the end of
/// a thread's stack.
const FRAME: usize = 32 << 10;

/// Appends a function of the type [`super::Run`], for `inner` lane vectors. Appends nothing and says no where a distance
/// does not fit an instruction, or the values in between do not fit the stack: the map then runs as strip operations.
pub(super) fn emit(asm: &mut Assembler, set: Set, steps: &Steps, views: &[Moves], inner: usize) -> bool {
    let encodes = |bytes: Option<usize>| bytes.is_some_and(|bytes| i32::try_from(bytes).is_ok());
    let furthest = views.iter().map(|view| view.step).max().unwrap_or(0);
    if !encodes(furthest.checked_mul(AHEAD * size_of::<f32>())) && !Rule::EncodedStep.left_out() {
        return false;
    }
    let allocated = allocate(steps, |view| views[view].step, set.file());
    let mut used: Vec<usize> = allocated.before.iter().chain(&allocated.code).filter_map(view).collect();
    used.extend(&allocated.kept);
    used.sort_unstable();
    used.dedup();
    let frame = allocated.slots.saturating_mul(set.bytes() as usize).saturating_add(used.len() * 8);
    let pool = allocated.pool.len().saturating_mul(set.bytes() as usize);
    if frame > FRAME || !encodes(Some(pool)) || !encodes(views.len().checked_mul(size_of::<Arg>())) {
        return false;
    }
    Emit { asm, set, allocated: &allocated, views, used, part: 0 }.function(inner >= LONG);
    true
}

/// The view that an instruction reads or writes.
fn view(ins: &Ins) -> Option<usize> {
    let of = |mem: &Mem| if let Mem::View(view) = mem { Some(*view) } else { None };
    match ins {
        Ins::Broadcast { view, .. } => Some(*view),
        Ins::Load { from, .. } => of(from),
        Ins::Store { to, .. } => of(to),
        Ins::Two { b: Rm::Mem(m), .. }
        | Ins::Fma231 { b: Rm::Mem(m), .. }
        | Ins::Fma213 { b: Rm::Mem(m), .. }
        | Ins::Fma132 { b: Rm::Mem(m), .. }
        | Ins::Select { yes: Rm::Mem(m), .. }
        | Ins::Sum { of: Rm::Mem(m), .. }
        | Ins::SumOf { b: Rm::Mem(m), .. } => of(m),
        _ => None,
    }
}

/// What an instruction is encoded by: the map of opcodes, the prefix that belongs to it, the opcode.
#[derive(Debug, Clone, Copy)]
struct Code(u8, u8, u8);

const LOAD: Code = Code(1, 0, 0x10);
const STORE: Code = Code(1, 0, 0x11);
const MOVE: Code = Code(1, 0, 0x28);
const BROADCAST: Code = Code(2, 1, 0x18);
const ADD: Code = Code(1, 0, 0x58);
const MAX: Code = Code(1, 0, 0x5f);
const FMA132: Code = Code(2, 1, 0x98);
const FMA213: Code = Code(2, 1, 0xa8);
const FMA231: Code = Code(2, 1, 0xb8);
const COMPARE: Code = Code(1, 0, 0xc2);
const SHIFT: Code = Code(1, 1, 0x72);
/// By the signs of a register.
const BLEND: Code = Code(3, 1, 0x4a);
/// By a mask; a mask of what has bits; bits by a table of three operands.
const BLEND_MASK: Code = Code(2, 1, 0x65);
const TEST: Code = Code(2, 1, 0x27);
const TABLE: Code = Code(3, 1, 0x25);

/// The last operand.
#[derive(Debug, Clone, Copy)]
enum Last {
    Reg(Reg),
    /// Behind an address, or one number there for all lanes.
    At {
        base: u8,
        offset: i32,
        one: bool,
    },
}

/// The mask that comparisons and choices go through.
const MASK: u8 = 1;

struct Emit<'a> {
    asm: &'a mut Assembler,
    set: Set,
    allocated: &'a Allocated,
    views: &'a [Moves],
    /// Views in the order of their pointers: first those in registers, then those on the stack.
    used: Vec<usize>,
    /// Of the lane vector.
    part: usize,
}

impl Emit<'_> {
    fn function(&mut self, asks: bool) {
        let pool = self.asm.new_dynamic_label();
        let next = self.asm.new_dynamic_label();
        // Slots, pointers, the stack as it was. Slots are aligned as registers are.
        let stack = self.on_stack(self.used.len().max(POINTERS.len()));
        let frame = stack + 8 + self.set.bytes();
        dynasm!(self.asm ; .arch x64
            ; push rbx ; push rbp ; push r12 ; push r13 ; push r14 ; push r15
            ; mov rax, rsp
            ; sub rsp, frame
            ; and rsp, -self.set.bytes()
            ; mov [rsp + stack], rax
            ; lea rdx, [=>pool]
        );
        for (i, view) in self.used.iter().enumerate() {
            let at = (view * size_of::<Arg>()) as i32;
            match POINTERS.get(i) {
                Some(r) => dynasm!(self.asm ; .arch x64 ; mov Rq(*r), [rdi + at]),
                None => {
                    let on_stack = self.on_stack(i);
                    dynasm!(self.asm ; .arch x64 ; mov rax, [rdi + at] ; mov [rsp + on_stack], rax)
                }
            }
        }
        self.totals(|emit, r, view| emit.vector(LOAD, r, 0, Rm::Mem(view)));
        self.part = 0;
        for ins in &self.allocated.before {
            self.ins(*ins);
        }
        dynasm!(self.asm ; .arch x64 ; .align 16 ; =>next);
        if asks {
            self.ask();
        }
        for part in 0..self.set.parts() {
            self.part = part;
            for ins in &self.allocated.code {
                self.ins(*ins);
            }
        }
        for (i, view) in self.used.iter().enumerate() {
            let step = (self.views[*view].step * size_of::<f32>()) as i32;
            match POINTERS.get(i) {
                _ if step == 0 => {}
                Some(r) => dynasm!(self.asm ; .arch x64 ; add Rq(*r), step),
                None => {
                    let on_stack = self.on_stack(i);
                    dynasm!(self.asm ; .arch x64 ; add QWORD [rsp + on_stack], step)
                }
            }
        }
        dynasm!(self.asm ; .arch x64 ; dec rsi ; jnz =>next);
        self.totals(|emit, r, view| emit.vector(STORE, r, 0, Rm::Mem(view)));
        dynasm!(self.asm ; .arch x64
            ; vzeroupper
            ; mov rsp, [rsp + stack]
            ; pop r15 ; pop r14 ; pop r13 ; pop r12 ; pop rbp ; pop rbx
            ; ret
            ; .align 32
            ; =>pool
        );
        // A number is read into all lanes, or is there for all of them.
        let times = if self.set == Set::Avx512 { 1 } else { self.set.bytes() / 4 };
        for bits in &self.allocated.pool {
            (0..times).for_each(|_| self.asm.push_u32(*bits));
        }
    }

    /// Asks for the lines of lane vectors that come later.
    fn ask(&mut self) {
        self.part = 0;
        for i in 0..self.used.len() {
            let view = self.used[i];
            let step = self.views[view].step;
            if step >= LANES {
                let (base, _) = self.address(Mem::View(view));
                let far = (AHEAD * step * size_of::<f32>()) as i32;
                dynasm!(self.asm ; .arch x64 ; prefetcht0 [Rq(base) + far]);
            }
        }
    }

    /// Where the address of a view is that has no register for it.
    fn on_stack(&self, i: usize) -> i32 {
        self.allocated.slots as i32 * self.set.bytes() + (i - POINTERS.len()) as i32 * 8
    }

    /// The registers of all kept totals, and where they are in memory.
    fn totals(&mut self, f: impl Fn(&mut Self, Reg, Mem)) {
        for (kept, view) in self.allocated.kept.iter().enumerate() {
            for part in 0..self.set.parts() {
                self.part = part;
                let r = self.total(Total::Kept(kept));
                f(self, r, Mem::View(*view));
            }
        }
    }

    fn total(&self, total: Total) -> Reg {
        match total {
            Total::Kept(kept) => self.set.file().registers - 1 - (kept * self.set.parts() + self.part) as Reg,
            Total::Loaded(r) => r,
        }
    }

    /// A register and an offset from it, for the part.
    fn address(&mut self, mem: Mem) -> (u8, i32) {
        const RAX: u8 = 0;
        const RDX: u8 = 2;
        const RSP: u8 = 4;
        match mem {
            Mem::Pool(i) => (RDX, i as i32 * if self.set == Set::Avx512 { 4 } else { self.set.bytes() }),
            Mem::Slot(i) => (RSP, i as i32 * self.set.bytes()),
            Mem::View(view) => {
                let i = self.used.binary_search(&view).expect("collected before");
                let offset = self.part as i32 * self.set.bytes();
                match POINTERS.get(i) {
                    Some(r) => (*r, offset),
                    None => {
                        let on_stack = self.on_stack(i);
                        dynasm!(self.asm ; .arch x64 ; mov rax, [rsp + on_stack]);
                        (RAX, offset)
                    }
                }
            }
        }
    }

    /// `to = a op b`; without `a` it is 0.
    fn vector(&mut self, code: Code, to: Reg, a: Reg, b: Rm) {
        self.masked(code, to, a, b, 0);
    }

    /// An instruction that is told a mask, too, if it is not 0.
    fn masked(&mut self, code: Code, to: Reg, a: Reg, b: Rm, mask: u8) {
        let last = match b {
            Rm::Reg(r) => Last::Reg(r),
            Rm::Mem(mem) => {
                let (base, offset) = self.address(mem);
                Last::At { base, offset, one: self.set == Set::Avx512 && matches!(mem, Mem::Pool(_)) }
            }
        };
        self.encode(code, to, a, last, mask);
    }

    /// Encoded here because the assembler has no AVX-512, and its `vbroadcastss` from memory and its `vcmpps` are wrong (5.1).
    fn encode(&mut self, Code(map, prefix, opcode): Code, to: Reg, a: Reg, last: Last, mask: u8) {
        let clear = |r: u8, bit: u8| u8::from(r >> bit & 1 == 0);
        let (r, one) = match last {
            Last::Reg(r) => (r, false),
            Last::At { base, one, .. } => (base, one),
        };
        match self.set {
            Set::Avx2 => {
                self.asm.push(0xc4);
                self.asm.push(clear(to, 3) << 7 | 0x40 | clear(r, 3) << 5 | map);
                self.asm.push((!a & 15) << 3 | 4 | prefix);
            }
            Set::Avx512 => {
                self.asm.push(0x62);
                self.asm.push(clear(to, 3) << 7 | clear(r, 4) << 6 | clear(r, 3) << 5 | clear(to, 4) << 4 | map);
                self.asm.push((!a & 15) << 3 | 4 | prefix);
                self.asm.push(2 << 5 | u8::from(one) << 4 | clear(a, 4) << 3 | mask);
            }
        }
        self.asm.push(opcode);
        match last {
            Last::Reg(r) => self.asm.push(0xc0 | (to & 7) << 3 | (r & 7)),
            Last::At { base, offset, .. } => {
                self.asm.push(0x84 | (to & 7) << 3);
                self.asm.push(0x20 | (base & 7));
                self.asm.push_i32(offset);
            }
        }
    }

    /// A comparison; `how` is 0x11 for "less", 3 for "one is NaN", both quiet. All bits of a lane are set where it holds.
    fn compare(&mut self, how: u8, to: Reg, a: Reg, b: Rm) {
        match self.set {
            Set::Avx2 => {
                self.vector(COMPARE, to, a, b);
                self.asm.push(how);
            }
            Set::Avx512 => {
                self.vector(COMPARE, MASK, a, b);
                self.asm.push(how);
                // All ones, and zeros where the mask has none: `z` is the highest bit of what is told of the mask.
                self.masked(TABLE, to, to, Rm::Reg(to), 0x80 | MASK);
                self.asm.push(0xff);
            }
        }
    }

    /// `yes` where the mask has bits, else `no`.
    fn select(&mut self, to: Reg, mask: Reg, yes: Rm, no: Reg) {
        match self.set {
            Set::Avx2 => {
                self.vector(BLEND, to, no, yes);
                self.asm.push(mask << 4);
            }
            Set::Avx512 => {
                self.vector(TEST, MASK, mask, Rm::Reg(mask));
                self.masked(BLEND_MASK, to, no, yes, MASK);
            }
        }
    }

    fn ins(&mut self, ins: Ins) {
        match ins {
            Ins::Load { to, from: from @ Mem::Pool(_) } if self.set == Set::Avx512 => self.broadcast(to, from),
            Ins::Load { to, from } => self.vector(LOAD, to, 0, Rm::Mem(from)),
            Ins::Broadcast { to, view } => self.broadcast(to, Mem::View(view)),
            Ins::Store { to, from } => self.vector(STORE, from, 0, Rm::Mem(to)),
            Ins::Move { to, from } => self.vector(MOVE, to, 0, Rm::Reg(from)),
            Ins::Two { op, to, a, b } => match op {
                Two::Add => self.vector(ADD, to, a, b),
                Two::Sub => self.vector(Code(1, 0, 0x5c), to, a, b),
                Two::Mul => self.vector(Code(1, 0, 0x59), to, a, b),
                Two::Div => self.vector(Code(1, 0, 0x5e), to, a, b),
                Two::Min => self.vector(Code(1, 0, 0x5d), to, a, b),
                Two::Max => self.vector(MAX, to, a, b),
                Two::Less => self.compare(0x11, to, a, b),
                Two::IntAdd => self.vector(Code(1, 1, 0xfe), to, a, b),
                Two::And => self.vector(Code(1, 1, 0xdb), to, a, b),
                Two::Xor => self.vector(Code(1, 1, 0xef), to, a, b),
            },
            Ins::One { op, to, a } => match op {
                One::Sqrt => self.vector(Code(1, 0, 0x51), to, 0, Rm::Reg(a)),
                One::Floor => {
                    self.vector(Code(3, 1, 0x08), to, 0, Rm::Reg(a));
                    // Down, quiet.
                    self.asm.push(0x9);
                }
                One::IsNan => self.compare(3, to, a, Rm::Reg(a)),
                One::Left(n) => self.shift(6, to, a, n),
                One::Right(n) => self.shift(2, to, a, n),
                One::ToFloat => self.vector(Code(1, 0, 0x5b), to, 0, Rm::Reg(a)),
            },
            Ins::Fma231 { to, a, b } => self.vector(FMA231, to, a, b),
            Ins::Fma213 { to, a, b } => self.vector(FMA213, to, a, b),
            Ins::Fma132 { to, a, b } => self.vector(FMA132, to, a, b),
            Ins::Select { to, mask, yes, no } => self.select(to, mask, yes, no),
            Ins::Sum { to, of } => {
                let total = self.total(to);
                self.vector(ADD, total, total, of);
            }
            Ins::SumOf { to, a, b } => {
                let total = self.total(to);
                self.vector(FMA231, total, a, b);
            }
            Ins::Max { to, of, work: [nan, larger] } => {
                let total = self.total(to);
                self.compare(3, nan, total, Rm::Reg(total));
                self.vector(MAX, larger, total, Rm::Reg(of));
                self.select(total, nan, Rm::Reg(total), larger);
            }
        }
    }

    /// One number for all lanes: the same for each part.
    fn broadcast(&mut self, to: Reg, from: Mem) {
        let part = std::mem::take(&mut self.part);
        let (base, offset) = self.address(from);
        self.part = part;
        self.encode(BROADCAST, to, 0, Last::At { base, offset, one: false }, 0);
    }

    /// The number of the shift stands where other instructions have their first register, which stands with the operand.
    fn shift(&mut self, which: u8, to: Reg, a: Reg, n: i32) {
        self.vector(SHIFT, which, to, Rm::Reg(a));
        self.asm.push(n as u8);
    }
}
