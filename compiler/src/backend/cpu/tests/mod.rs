//! The backend against the kernel program's interpreter, which is safe and slow and knows nothing of this.

mod maths;
mod programs;
mod random;

use std::collections::BTreeMap;

use super::*;
use crate::interp::Clock;
use crate::kernel::{
    self, Buffer, Copy, Instr, Kernel, LocalId, Map, Mode, Notes, Reg, Store, Tile, interp, verify::verify as check,
};
use crate::testing::Rng;
use micro::kernels::available;

/// A program that grows a buffer and a kernel at a time.
#[derive(Default)]
pub(super) struct Draft {
    pub program: Program,
}

impl Draft {
    pub(super) fn buffer(&mut self, len: usize, kind: BufferKind) -> BufferId {
        let id = BufferId(self.program.buffers.len() as u32);
        match kind {
            BufferKind::Input => self.program.inputs.push(id),
            BufferKind::Output => self.program.outputs.push(id),
            _ => {}
        }
        self.program.buffers.push(Buffer { name: format!("b{}", id.0), len, kind });
        id
    }

    pub(super) fn input(&mut self, len: usize) -> BufferId {
        self.buffer(len, BufferKind::Input)
    }

    pub(super) fn output(&mut self, len: usize) -> BufferId {
        self.buffer(len, BufferKind::Output)
    }

    /// A weight of `n` times `k`, row-major, packed by `prepare`.
    pub(super) fn packed(&mut self, n: usize, k: usize) -> BufferId {
        let from = self.input(n * k);
        let to = self.buffer(kernel::packed_len(n, k), BufferKind::Kept);
        let pack = kernel::Pack { batch: vec![], n, k: vec![k], from: splat(from, 0, &[k, 1]), to };
        self.program.prepare.push(launch(Work::Pack(pack)));
        to
    }
}

pub(super) fn launch(work: Work) -> Step {
    Step::Launch(vec![Kernel { name: "kernel".to_owned(), work, notes: Notes::default() }])
}

pub(super) fn local(id: u32, offset: usize, strides: &[usize]) -> View {
    View { base: Base::Local(LocalId(id)), offset, strides: strides.to_vec(), loops: vec![], lanes: Lanes::Unit }
}

pub(super) fn unit(id: BufferId, offset: usize, strides: &[usize]) -> View {
    View { base: Base::Buffer(id), offset, strides: strides.to_vec(), loops: vec![], lanes: Lanes::Unit }
}

pub(super) fn splat(id: BufferId, offset: usize, strides: &[usize]) -> View {
    View { lanes: Lanes::Splat, ..unit(id, offset, strides) }
}

pub(super) fn strided(id: BufferId, rows: &[usize], strides: &[usize]) -> View {
    View { lanes: Lanes::Strided(rows.to_vec()), ..unit(id, 0, strides) }
}

pub(super) fn tile(rows: &[usize], lens: &[usize], body: Vec<Stmt>) -> Tile {
    let mut arena = 0;
    let locals = lens
        .iter()
        .map(|len| {
            arena += len;
            kernel::Local { len: *len, offset: arena - len }
        })
        .collect();
    Tile { rows: rows.to_vec(), locals, arena, body }
}

pub(super) fn numbers(rng: &mut Rng, len: usize) -> Vec<f32> {
    (0..len).map(|_| rng.between(-1.5, 1.5) as f32).collect()
}

/// Runs it on every instruction set with 1, 2 and 3 workers, twice; all runs of an instruction set have the same bits, and
/// so has generated code where it has the same arithmetic.
pub(super) fn outputs(program: &Program, inputs: &[Vec<f32>]) -> Vec<Vec<Vec<f32>>> {
    available()
        .into_iter()
        .map(|kernels| {
            let ways = if ["avx2", "avx512"].contains(&kernels.name) { &[false, true][..] } else { &[false] };
            let runs: Vec<Vec<Vec<f32>>> = (1..=3)
                .flat_map(|threads| ways.iter().map(move |generate| (threads, *generate)))
                .map(|(threads, generate)| {
                    let mut instance = Instance::with(program, threads, kernels, generate).unwrap_or_else(|e| panic!("{e}"));
                    inputs.iter().enumerate().for_each(|(i, x)| instance.input_mut(i).copy_from_slice(x));
                    instance.prepare();
                    instance.run(7, 3);
                    instance.run(7, 3);
                    (0..program.outputs.len()).map(|o| instance.output(o).to_vec()).collect()
                })
                .collect();
            // Which NaN it is depends on the order of operands, which a compiler may change.
            let number = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
            let bits = |run: &Vec<Vec<f32>>| run.iter().flatten().map(number).collect::<Vec<u32>>();
            for (run, way) in runs.iter().zip((1..=3).flat_map(|threads| ways.iter().map(move |g| (threads, g)))) {
                let (a, b) = (bits(run), bits(&runs[0]));
                let other = a.iter().zip(&b).position(|(a, b)| a != b);
                let found = other.map(|i| (i, f32::from_bits(a[i]), f32::from_bits(b[i])));
                assert!(other.is_none(), "{} differs with (threads, generated) {way:?}: {found:?}", kernels.name);
            }
            runs[0].clone()
        })
        .collect()
}

/// The interpreter and every instruction set agree, relative to the largest number of an output.
pub(super) fn agree(program: &Program, inputs: &[Vec<f32>], tolerance: f64) {
    check(program).unwrap_or_else(|e| panic!("{e}"));
    let exact: Vec<Vec<f64>> = inputs.iter().map(|x| x.iter().map(|x| f64::from(*x)).collect()).collect();
    let clock = Clock { seed: 7, step: 3 };
    let expected = interp::run(program, &exact, &BTreeMap::new(), clock).unwrap_or_else(|e| panic!("{e}"));
    for (found, kernels) in outputs(program, inputs).iter().zip(available()) {
        for (o, (expected, found)) in expected.iter().zip(found).enumerate() {
            let scale = expected.iter().filter(|x| x.is_finite()).fold(1.0_f64, |m, x| m.max(x.abs()));
            for (i, (e, f)) in expected.iter().zip(found).enumerate() {
                let same = (e.is_nan() && f.is_nan()) || (*e as f32) == *f || (e - f64::from(*f)).abs() <= tolerance * scale;
                assert!(same, "{}: output {o} at {i}: {f}, expected {e}", kernels.name);
            }
        }
    }
}
