//! Encoding, x86-64 with AVX2 and FMA. A lane vector is two registers; both parts have the same instructions.

#![allow(clippy::useless_conversion, reason = "the assembler's macro converts register numbers")]

use dynasmrt::{DynasmApi, DynasmLabelApi, dynasm, x64::Assembler};
use micro::LANES;
use micro::strip::Arg;

use super::Moves;
use super::allocate::{Allocated, Ins, Mem, Rm, Total, allocate};
use super::steps::Steps;
use super::trace::{One, Two};

/// Numbers and bytes of a vector register, and how many of them are a lane vector.
const WIDTH: usize = 8;
const BYTES: i32 = 32;
const PARTS: usize = LANES / WIDTH;

/// Registers for the addresses of views: rcx, rbx, rbp, r8 to r15. `rdi` has the arguments, `rsi` counts, `rdx` has the
/// constants, `rax` is for addresses of more views.
const POINTERS: [u8; 11] = [1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15];

/// Appends a function of the type [`super::Run`].
pub(super) fn emit(asm: &mut Assembler, steps: &Steps, views: &[Moves]) {
    let allocated = allocate(steps, |view| views[view].step, PARTS);
    let mut used: Vec<usize> = allocated.code.iter().filter_map(view).collect();
    used.extend(&allocated.kept);
    used.sort_unstable();
    used.dedup();
    Emit { asm, allocated: &allocated, views, used, part: 0 }.function();
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

struct Emit<'a> {
    asm: &'a mut Assembler,
    allocated: &'a Allocated,
    views: &'a [Moves],
    /// Views in the order of their pointers: first those in registers, then those on the stack.
    used: Vec<usize>,
    /// Of the lane vector.
    part: usize,
}

/// An instruction with its last operand in a register or in memory.
macro_rules! with_rm {
    ($self:ident, $rm:expr, $op:ident $to:ident, $a:ident) => {{
        match $rm {
            Rm::Reg(r) => dynasm!($self.asm ; .arch x64 ; $op Ry($to), Ry($a), Ry(r)),
            Rm::Mem(mem) => {
                let (base, offset) = $self.address(mem);
                dynasm!($self.asm ; .arch x64 ; $op Ry($to), Ry($a), [Rq(base) + offset])
            }
        }
    }};
}

impl Emit<'_> {
    fn function(&mut self) {
        let pool = self.asm.new_dynamic_label();
        let next = self.asm.new_dynamic_label();
        let frame = self.allocated.slots as i32 * BYTES + self.used.len().saturating_sub(POINTERS.len()) as i32 * 8;
        dynasm!(self.asm ; .arch x64
            ; push rbx ; push rbp ; push r12 ; push r13 ; push r14 ; push r15
            ; sub rsp, frame
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
        self.totals(|emit, r, base, offset| dynasm!(emit.asm ; .arch x64 ; vmovups Ry(r), [Rq(base) + offset]));
        dynasm!(self.asm ; .arch x64 ; .align 16 ; =>next);
        for part in 0..PARTS {
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
        self.totals(|emit, r, base, offset| dynasm!(emit.asm ; .arch x64 ; vmovups [Rq(base) + offset], Ry(r)));
        dynasm!(self.asm ; .arch x64
            ; vzeroupper
            ; add rsp, frame
            ; pop r15 ; pop r14 ; pop r13 ; pop r12 ; pop rbp ; pop rbx
            ; ret
            ; .align 32
            ; =>pool
        );
        for bits in &self.allocated.pool {
            (0..WIDTH).for_each(|_| self.asm.push_u32(*bits));
        }
    }

    fn on_stack(&self, i: usize) -> i32 {
        self.allocated.slots as i32 * BYTES + (i - POINTERS.len()) as i32 * 8
    }

    /// The registers of all kept totals, and where they are in memory.
    fn totals(&mut self, f: impl Fn(&mut Self, u8, u8, i32)) {
        for (kept, view) in self.allocated.kept.iter().enumerate() {
            for part in 0..PARTS {
                self.part = part;
                let (base, offset) = self.address(Mem::View(*view));
                let r = self.total(Total::Kept(kept));
                f(self, r, base, offset);
            }
        }
    }

    fn total(&self, total: Total) -> u8 {
        match total {
            Total::Kept(kept) => 15 - (kept * PARTS + self.part) as u8,
            Total::Loaded(r) => r,
        }
    }

    /// A register and an offset from it, for the part.
    fn address(&mut self, mem: Mem) -> (u8, i32) {
        const RAX: u8 = 0;
        const RDX: u8 = 2;
        const RSP: u8 = 4;
        match mem {
            Mem::Pool(i) => (RDX, i as i32 * BYTES),
            Mem::Slot(i) => (RSP, i as i32 * BYTES),
            Mem::View(view) => {
                let i = self.used.binary_search(&view).expect("collected before");
                let offset = self.part as i32 * BYTES;
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

    /// A comparison; `how` is 0x11 for "less", 3 for "one is NaN", both quiet.
    fn compare(&mut self, how: u8, to: u8, a: u8, b: Rm) {
        match b {
            Rm::Reg(b) => self.vex(1, 0, 0xc2, to, a, None, b),
            Rm::Mem(mem) => {
                let at = self.address(mem);
                self.vex(1, 0, 0xc2, to, a, Some(at), 0);
            }
        }
        self.asm.push(how);
    }

    /// An instruction on 256 bits, encoded by hand where the assembler's own encoding is wrong (5.1: `vbroadcastss` from
    /// memory leaves the upper half zero, `vcmpps` swaps its operands).
    #[expect(clippy::too_many_arguments, reason = "the fields of an encoding")]
    fn vex(&mut self, map: u8, prefix: u8, opcode: u8, to: u8, a: u8, memory: Option<(u8, i32)>, b: u8) {
        let last = memory.map_or(b, |(base, _)| base);
        let high = |r: u8| u8::from(r < 8);
        self.asm.push(0xc4);
        self.asm.push(high(to) << 7 | 0x40 | high(last) << 5 | map);
        self.asm.push((!a & 15) << 3 | 4 | prefix);
        self.asm.push(opcode);
        match memory {
            None => self.asm.push(0xc0 | (to & 7) << 3 | (b & 7)),
            Some((base, offset)) => {
                self.asm.push(0x84 | (to & 7) << 3);
                self.asm.push(0x20 | (base & 7));
                self.asm.push_i32(offset);
            }
        }
    }

    fn ins(&mut self, ins: Ins) {
        match ins {
            Ins::Load { to, from } => {
                let (base, offset) = self.address(from);
                dynasm!(self.asm ; .arch x64 ; vmovups Ry(to), [Rq(base) + offset]);
            }
            Ins::Broadcast { to, view } => {
                // One number for all lanes: the same for each part.
                let (base, offset) = self.address(Mem::View(view));
                let first = offset - self.part as i32 * BYTES;
                self.vex(2, 1, 0x18, to, 0, Some((base, first)), 0);
            }
            Ins::Store { to, from } => {
                let (base, offset) = self.address(to);
                dynasm!(self.asm ; .arch x64 ; vmovups [Rq(base) + offset], Ry(from));
            }
            Ins::Move { to, from } => dynasm!(self.asm ; .arch x64 ; vmovaps Ry(to), Ry(from)),
            Ins::Two { op, to, a, b } => match op {
                Two::Add => with_rm!(self, b, vaddps to, a),
                Two::Sub => with_rm!(self, b, vsubps to, a),
                Two::Mul => with_rm!(self, b, vmulps to, a),
                Two::Div => with_rm!(self, b, vdivps to, a),
                Two::Min => with_rm!(self, b, vminps to, a),
                Two::Max => with_rm!(self, b, vmaxps to, a),
                Two::Less => self.compare(0x11, to, a, b),
                Two::IntAdd => with_rm!(self, b, vpaddd to, a),
                Two::And => with_rm!(self, b, vpand to, a),
                Two::Xor => with_rm!(self, b, vpxor to, a),
            },
            Ins::One { op, to, a } => match op {
                One::Sqrt => dynasm!(self.asm ; .arch x64 ; vsqrtps Ry(to), Ry(a)),
                // Down, quiet.
                One::Floor => dynasm!(self.asm ; .arch x64 ; vroundps Ry(to), Ry(a), 0x9),
                One::IsNan => self.compare(3, to, a, Rm::Reg(a)),
                One::Left(n) => dynasm!(self.asm ; .arch x64 ; vpslld Ry(to), Ry(a), n as i8),
                One::Right(n) => dynasm!(self.asm ; .arch x64 ; vpsrld Ry(to), Ry(a), n as i8),
                One::ToFloat => dynasm!(self.asm ; .arch x64 ; vcvtdq2ps Ry(to), Ry(a)),
            },
            Ins::Fma231 { to, a, b } => with_rm!(self, b, vfmadd231ps to, a),
            Ins::Fma213 { to, a, b } => with_rm!(self, b, vfmadd213ps to, a),
            Ins::Fma132 { to, a, b } => with_rm!(self, b, vfmadd132ps to, a),
            Ins::Select { to, mask, yes, no } => match yes {
                Rm::Reg(yes) => dynasm!(self.asm ; .arch x64 ; vblendvps Ry(to), Ry(no), Ry(yes), Ry(mask)),
                Rm::Mem(mem) => {
                    let (base, offset) = self.address(mem);
                    dynasm!(self.asm ; .arch x64 ; vblendvps Ry(to), Ry(no), [Rq(base) + offset], Ry(mask));
                }
            },
            Ins::Sum { to, of } => {
                let total = self.total(to);
                with_rm!(self, of, vaddps total, total)
            }
            Ins::SumOf { to, a, b } => {
                let total = self.total(to);
                with_rm!(self, b, vfmadd231ps total, a)
            }
            Ins::Max { to, of, work: [nan, larger] } => {
                let total = self.total(to);
                self.compare(3, nan, total, Rm::Reg(total));
                dynasm!(self.asm ; .arch x64
                    ; vmaxps Ry(larger), Ry(total), Ry(of)
                    ; vblendvps Ry(total), Ry(larger), Ry(total), Ry(nan)
                );
            }
        }
    }
}
