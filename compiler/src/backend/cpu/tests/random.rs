//! Random tiles: arrays over up to two dimensions, maps that read some of them (broadcast along what they do not have)
//! and write new ones or in place, sums and maxima, products with weights.

use super::*;
use crate::kernel::{Binary, Gemm, Unary};

struct Arrays {
    /// Sizes along the two dimensions; 1 where an array does not have one.
    shapes: Vec<[usize; 2]>,
    full: [usize; 2],
}

impl Arrays {
    /// The whole of an array in a statement over both dimensions.
    fn view(&self, array: usize) -> View {
        let [p, q] = self.shapes[array];
        local(array as u32, 0, &[if p == 1 { 0 } else { q }, if q == 1 { 0 } else { 1 }])
    }

    fn add(&mut self, shape: [usize; 2]) -> usize {
        self.shapes.push(shape);
        self.shapes.len() - 1
    }

    fn some_shape(&self, rng: &mut Rng) -> [usize; 2] {
        [0, 1].map(|d| if rng.one_in(3) { 1 } else { self.full[d] })
    }
}

fn map(rng: &mut Rng, arrays: &mut Arrays) -> Stmt {
    let loaded: Vec<usize> = (0..1 + rng.below(4)).map(|_| rng.below(arrays.shapes.len())).collect();
    let mut code: Vec<Instr> = (0..loaded.len()).map(|l| Instr::Load(l as u32)).collect();
    let inputs = code.len();
    code.push(Instr::Const(rng.between(-1.0, 1.0) as f32));
    for _ in 0..1 + rng.below(8) {
        let reg = |rng: &mut Rng| Reg(rng.below(code.len()) as u32);
        let (a, b, c) = (reg(rng), reg(rng), reg(rng));
        let exact = Reg(rng.below(inputs) as u32);
        let instr = match rng.below(14) {
            0 => Instr::Unary(Unary::Tanh, a),
            1 => Instr::Unary(Unary::Sigmoid, a),
            2 => Instr::Unary(Unary::Softplus, a),
            3 => Instr::Unary(Unary::Silu, a),
            4 => Instr::Unary(Unary::Abs, a),
            5 => Instr::Unary(Unary::Sin, a),
            6 => Instr::Unary(Unary::Neg, a),
            7 => Instr::Binary(Binary::Add, a, b),
            8 => Instr::Binary(Binary::Sub, a, b),
            9 => Instr::Binary(Binary::Max, a, b),
            10 => Instr::Binary(Binary::Less, exact, Reg(inputs as u32)),
            11 => Instr::Select(Reg(inputs as u32), b, c),
            12 => Instr::MulAdd(a, b, c),
            _ => Instr::Binary(Binary::Mul, a, b),
        };
        code.push(instr);
    }
    // Kept small, so that programs of any length stay in range; sums of products and exponentials of products occur.
    let last = Reg(code.len() as u32 - 1);
    code.push(Instr::Unary(Unary::Tanh, last));
    let value = Reg(code.len() as u32 - 1);
    let factor = Reg(rng.below(code.len()) as u32);
    code.push(Instr::Binary(Binary::Mul, value, value));
    code.push(Instr::Unary(Unary::Neg, Reg(code.len() as u32 - 1)));
    code.push(Instr::Unary(Unary::Abs, factor));
    code.push(Instr::Binary(Binary::Mul, Reg(code.len() as u32 - 2), Reg(code.len() as u32 - 1)));
    code.push(Instr::Unary(Unary::Exp, Reg(code.len() as u32 - 1)));
    let decay = Reg(code.len() as u32 - 1);
    code.push(Instr::Binary(Binary::Mul, value, decay));
    let product = Reg(code.len() as u32 - 1);
    let loads = loaded.iter().map(|a| arrays.view(*a)).collect();
    let mut stores = Vec::new();
    let in_place = loaded.iter().find(|a| arrays.shapes[**a] == arrays.full);
    if let (Some(array), true) = (in_place, rng.one_in(2)) {
        stores.push(Store { to: arrays.view(*array), value: decay, mode: Mode::Set });
    }
    for _ in 0..1 + rng.below(2) {
        let mode = if rng.one_in(2) { Mode::Sum } else { Mode::Max };
        let shape = arrays.some_shape(rng);
        let mode = if shape == arrays.full { Mode::Set } else { mode };
        let array = arrays.add(shape);
        stores.push(Store { to: arrays.view(array), value: if rng.one_in(2) { product } else { value }, mode });
    }
    Stmt::Map(Map { dims: arrays.full.to_vec(), loads, code, stores })
}

fn gemm(rng: &mut Rng, arrays: &mut Arrays, draft: &mut Draft) -> Stmt {
    let from = rng.below(arrays.shapes.len());
    let [m, k] = arrays.shapes[from];
    let n = arrays.full[1];
    let weight = draft.packed(n, k);
    let bias = rng.one_in(2).then(|| splat(draft.input(n), 0, &[1]));
    let to = arrays.add([m, n]);
    Stmt::Gemm(Gemm {
        batch: vec![],
        m: vec![m],
        n,
        k,
        src: local(from as u32, 0, &[k, 1]),
        weight: splat(weight, 0, &[]),
        bias,
        dst: local(to as u32, 0, &[n, 1]),
        accumulate: false,
    })
}

#[test]
fn random_tiles_agree_with_the_interpreter() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let rows = rng.pick(&[1, 7, 16, 33, 50]);
        let full = [rng.pick(&[2, 3, 5]), rng.pick(&[2, 6, 17, 33])];
        let mut arrays = Arrays { shapes: vec![full, [full[0], 1], [1, full[1]], [1, 1]], full };
        let mut draft = Draft::default();
        let mut body = Vec::new();
        for (array, [p, q]) in arrays.shapes.clone().into_iter().enumerate() {
            let input = draft.input(rows * p * q);
            let (from, to) = (strided(input, &[p * q], &[1]), local(array as u32, 0, &[1]));
            body.push(Stmt::Copy(Copy { dims: vec![p * q], from, to }));
        }
        for _ in 0..rng.below(6) + 1 {
            let stmt = if rng.one_in(4) { gemm(&mut rng, &mut arrays, &mut draft) } else { map(&mut rng, &mut arrays) };
            body.push(stmt);
        }
        let lens: Vec<usize> = arrays.shapes.iter().map(|[p, q]| p * q).collect();
        for (array, len) in lens.iter().enumerate() {
            let output = draft.output(rows * len);
            let (from, to) = (local(array as u32, 0, &[1]), strided(output, &[*len], &[1]));
            body.push(Stmt::Copy(Copy { dims: vec![*len], from, to }));
        }
        draft.program.steps.push(launch(Work::Tile(tile(&[rows], &lens, body))));
        let inputs: Vec<Vec<f32>> =
            draft.program.inputs.iter().map(|id| numbers(&mut rng, draft.program.buffers[id.0 as usize].len)).collect();
        println!("seed {seed}");
        agree(&draft.program, &inputs, 2e-4);
    }
}
