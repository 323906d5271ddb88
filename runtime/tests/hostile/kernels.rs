//! Mutants of random kernel programs.

use compiler::backend::cpu::Instance;
use compiler::backend::cpu::guard::{Side, guard};
use compiler::kernel::verify::operations;
use compiler::kernel::{Base, BufferKind, Lanes, Program, Stmt, Work, text};
use compiler::testing::{Rng, random_kernels};

use crate::campaign::{Ended, Runner};
use crate::text::mutated;

pub(crate) struct Kernels;

/// Operations that a test has time for.
pub(crate) const WORK: u64 = 20_000_000;

impl Runner for Kernels {
    fn mutant(&mut self, number: u64) -> Ended {
        let mut rng = Rng::new(number ^ 0x6057_11e5);
        let mut program = random_kernels(rng.word() % 100_000);
        if rng.one_in(4) {
            stretch(&mut rng, &mut program);
        }
        let mut written = text::print(&program);
        for _ in 0..rng.below(4) {
            written = mutated(&mut rng, &written);
        }
        let Ok(mut program) = text::parse(&written) else { return Ended::Refused };
        if rng.one_in(3) {
            grow(&mut rng, &mut program);
        }
        if operations(&program) > WORK {
            return Ended::Long;
        }
        guard(Some(if number.is_multiple_of(2) { Side::End } else { Side::Start }));
        let open = if (number / 2).is_multiple_of(2) { Instance::new } else { Instance::of_strips };
        let Ok(mut instance) = open(&program, 1 + rng.below(2)) else { return Ended::Refused };
        for input in 0..program.inputs.len() {
            let numbers = instance.input_mut(input);
            let some = numbers.len().min(1 << 16);
            numbers[..some].iter_mut().for_each(|x| *x = odd(&mut rng));
        }
        instance.prepare();
        (0..2).for_each(|step| instance.run(number, step));
        Ended::Ran
    }
}

/// A number, seldom a reasonable one: places are computed from it.
pub(crate) fn odd(rng: &mut Rng) -> f32 {
    match rng.below(8) {
        0 => rng.pick(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -0.0, 1e9, 4e9, 1.7e10, -1e9]),
        1 => rng.below(1 << 20) as f32,
        _ => rng.between(-4.0, 40.0) as f32,
    }
}

/// Buffers with more room, so that more of what is mutated is in bounds.
fn grow(rng: &mut Rng, program: &mut Program) {
    let factor = rng.pick(&[2, 16, 256]);
    for buffer in &mut program.buffers {
        if !matches!(buffer.kind, BufferKind::Const(_) | BufferKind::Kept) {
            buffer.len = buffer.len.saturating_mul(factor);
        }
    }
}

/// The entries of one operand of a map lie as far apart as a large array's do, and there is room for them.
fn stretch(rng: &mut Rng, program: &mut Program) {
    let mut maps = 0;
    program.each_kernel(&mut |kernel| {
        if let Work::Tile(tile) = &kernel.work {
            tile.each_stmt(&mut |stmt| maps += usize::from(matches!(stmt, Stmt::Map(_))));
        }
    });
    let (mut left, far) = (rng.below(maps.max(1)), rng.pick(&[1 << 27, 1 << 28, 1 << 29]));
    let choice = rng.word() as usize;
    let mut stretched = None;
    program.each_kernel_mut(&mut |kernel| {
        let Work::Tile(tile) = &mut kernel.work else { return };
        each_map(&mut tile.body, &mut |map| {
            let chosen = left == 0;
            left = left.wrapping_sub(1);
            let (false, true) = (map.dims.is_empty(), chosen) else { return };
            let dim = choice % map.dims.len();
            map.dims[dim] = map.dims[dim].min(2);
            let views = map.loads.iter_mut().chain(map.stores.iter_mut().map(|s| &mut s.to));
            let mut views: Vec<_> = views.filter(|v| v.lanes == Lanes::Unit && v.strides[dim] > 0).collect();
            let count = views.len().max(1);
            let Some(view) = views.get_mut(choice / 64 % count) else { return };
            if let Base::Buffer(id) = view.base {
                view.strides[dim] = far;
                stretched = Some(id);
            }
        });
    });
    if let Some(buffer) = stretched.and_then(|id| program.buffers.get_mut(id.0 as usize))
        && !matches!(buffer.kind, BufferKind::Const(_))
    {
        buffer.len += far;
    }
}

fn each_map(body: &mut [Stmt], f: &mut dyn FnMut(&mut compiler::kernel::Map)) {
    for stmt in body {
        match stmt {
            Stmt::Map(map) => f(map),
            Stmt::Loop { body, .. } => each_map(body, f),
            _ => {}
        }
    }
}
