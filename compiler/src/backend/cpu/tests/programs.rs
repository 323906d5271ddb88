//! Small programs, one for each kind of statement and kernel.

use super::*;
use crate::ir::Noise;
use crate::kernel::{Binary, Contract, Gather, Gemm, Random, Scatter, Sort, Unary};

const ROWS: [usize; 5] = [1, 7, 16, 48, 161];

fn padded(rows: usize) -> usize {
    rows.next_multiple_of(kernel::LANES)
}

fn inputs(program: &Program, seed: u64) -> Vec<Vec<f32>> {
    let mut rng = Rng::new(seed);
    program.inputs.iter().map(|id| numbers(&mut rng, program.buffers[id.0 as usize].len)).collect()
}

fn from_rows(input: BufferId, len: usize, to: u32) -> Stmt {
    Stmt::Copy(Copy { dims: vec![len], from: strided(input, &[len], &[1]), to: local(to, 0, &[1]) })
}

fn to_rows(from: u32, len: usize, output: BufferId) -> Stmt {
    Stmt::Copy(Copy { dims: vec![len], from: local(from, 0, &[1]), to: strided(output, &[len], &[1]) })
}

/// `x W1 + b`, silu, `W2`, with a product over an axis of rows' own and accumulation.
#[test]
fn products_with_weights() {
    for rows in ROWS {
        for (m, k, n) in [(1, 5, 7), (3, 16, 12), (2, 37, 6), (1, 1, 1)] {
            let mut d = Draft::default();
            let x = d.input(rows * m * k);
            let bias = d.input(n);
            let w1 = d.packed(n, k);
            let w2 = d.packed(k, n);
            let y = d.output(rows * m * k);
            let gemm = |n, k, from, to, weight, bias, accumulate| {
                Stmt::Gemm(Gemm {
                    batch: vec![],
                    m: vec![m],
                    n,
                    k,
                    src: local(from, 0, &[k, 1]),
                    weight: splat(weight, 0, &[]),
                    bias,
                    dst: local(to, 0, &[n, 1]),
                    accumulate,
                })
            };
            let silu = Stmt::Map(Map {
                dims: vec![m, n],
                loads: vec![local(1, 0, &[n, 1])],
                code: vec![Instr::Load(0), Instr::Unary(Unary::Silu, Reg(0))],
                stores: vec![Store { to: local(1, 0, &[n, 1]), value: Reg(1), mode: Mode::Set }],
            });
            let body = vec![
                from_rows(x, m * k, 0),
                gemm(n, k, 0, 1, w1, Some(splat(bias, 0, &[1])), false),
                silu,
                gemm(k, n, 1, 0, w2, None, true),
                to_rows(0, m * k, y),
            ];
            d.program.steps.push(launch(Work::Tile(tile(&[rows], &[m * k, m * n], body))));
            agree(&d.program, &inputs(&d.program, 1), 2e-6);
        }
    }
}

/// `h = exp(dt A) h + dx B; y = sum of h C`, over time in a tile's loop.
#[test]
fn selective_scan() {
    for (rows, steps, width, state) in [(161, 3, 5, 16), (7, 2, 3, 20), (16, 1, 2, 1), (40, 2, 1, 33)] {
        let mut d = Draft::default();
        let x = d.input(rows * steps * (2 * width + 2 * state));
        let a = d.input(width * state);
        let y = d.output(rows * steps * width);
        let time = LoopId(0);
        let each = 2 * width + 2 * state;
        let moving = |view: View, by: usize| View { loops: vec![(time, by)], ..view };
        let zero = Stmt::Map(Map {
            dims: vec![width * state],
            loads: vec![],
            code: vec![Instr::Const(0.5)],
            stores: vec![Store { to: local(1, 0, &[1]), value: Reg(0), mode: Mode::Set }],
        });
        let h = local(1, 0, &[state, 1]);
        let step = Stmt::Map(Map {
            dims: vec![width, state],
            loads: vec![
                moving(local(0, 0, &[1, 0]), each),
                splat(a, 0, &[state, 1]),
                h.clone(),
                moving(local(0, width, &[1, 0]), each),
                moving(local(0, 2 * width, &[0, 1]), each),
                moving(local(0, 2 * width + state, &[0, 1]), each),
            ],
            code: vec![
                Instr::Load(0),
                Instr::Load(1),
                Instr::Binary(Binary::Mul, Reg(0), Reg(1)),
                Instr::Unary(Unary::Exp, Reg(2)),
                Instr::Load(2),
                Instr::Load(3),
                Instr::Load(4),
                Instr::Binary(Binary::Mul, Reg(5), Reg(6)),
                Instr::MulAdd(Reg(3), Reg(4), Reg(7)),
                Instr::Load(5),
                Instr::Binary(Binary::Mul, Reg(8), Reg(9)),
            ],
            stores: vec![
                Store { to: h, value: Reg(8), mode: Mode::Set },
                Store { to: moving(local(2, 0, &[1, 0]), width), value: Reg(10), mode: Mode::Sum },
            ],
        });
        let body = vec![
            from_rows(x, steps * each, 0),
            zero,
            Stmt::Loop { id: time, count: steps, reverse: false, body: vec![step] },
            to_rows(2, steps * width, y),
        ];
        let lens = [steps * each, width * state, steps * width];
        d.program.steps.push(launch(Work::Tile(tile(&[rows], &lens, body))));
        agree(&d.program, &inputs(&d.program, 2), 2e-6);
    }
}

/// Loads and stores that change places, and values that are read after they have been overwritten.
#[test]
fn in_place() {
    let (rows, n) = (19, 18);
    let mut d = Draft::default();
    let x = d.input(rows * 2 * n);
    let y = d.output(rows * (2 * n + 1));
    let (a, b) = (local(0, 0, &[1]), local(0, n, &[1]));
    let exchange = Stmt::Map(Map {
        dims: vec![n],
        loads: vec![a.clone(), b.clone()],
        code: vec![
            Instr::Load(0),
            Instr::Load(1),
            Instr::Binary(Binary::Add, Reg(0), Reg(1)),
            Instr::Binary(Binary::Mul, Reg(0), Reg(1)),
        ],
        stores: vec![
            Store { to: a.clone(), value: Reg(1), mode: Mode::Set },
            Store { to: b.clone(), value: Reg(0), mode: Mode::Set },
            Store { to: local(1, 0, &[0]), value: Reg(3), mode: Mode::Sum },
        ],
    });
    let both = Stmt::Map(Map {
        dims: vec![n],
        loads: vec![a.clone(), b.clone()],
        code: vec![
            Instr::Load(0),
            Instr::Load(1),
            Instr::Binary(Binary::Add, Reg(0), Reg(1)),
            Instr::Binary(Binary::Sub, Reg(0), Reg(2)),
        ],
        stores: vec![Store { to: a, value: Reg(2), mode: Mode::Set }, Store { to: b, value: Reg(3), mode: Mode::Set }],
    });
    let sum =
        Stmt::Copy(Copy { dims: vec![1], from: local(1, 0, &[1]), to: View { offset: 2 * n, ..strided(y, &[2 * n + 1], &[1]) } });
    let out = Stmt::Copy(Copy { dims: vec![2 * n], from: local(0, 0, &[1]), to: strided(y, &[2 * n + 1], &[1]) });
    let body = vec![from_rows(x, 2 * n, 0), exchange, both, out, sum];
    d.program.steps.push(launch(Work::Tile(tile(&[rows], &[2 * n, 1], body))));
    agree(&d.program, &inputs(&d.program, 3), 1e-6);
}

#[test]
fn sums_over_rows() {
    for rows in ROWS {
        for (n, i, k) in [(1, 1, 1), (5, 7, 2), (33, 50, 3), (4, 3, 9)] {
            for (filled, gap) in [(rows, 0), (padded(rows), 0), (rows, 3)] {
                let mut d = Draft::default();
                let stride = filled + gap;
                let a = d.input(n * k * stride + rows);
                let b = d.input(i * k * stride + rows);
                let y = d.output(n * i);
                let s = d.output(n);
                let a = unit(a, 0, &[k * stride, stride]);
                let contract = |n: &[usize], i: &[usize], b: Option<View>, dst: View| Contract {
                    rows,
                    batch: vec![],
                    n: n.to_vec(),
                    i: i.to_vec(),
                    k: vec![k],
                    a: a.clone(),
                    b,
                    dst,
                };
                let b = unit(b, 0, &[k * stride, stride]);
                let product = contract(&[n], &[i], Some(b), splat(y, 0, &[i, 1]));
                let sum = contract(&[n], &[], None, splat(s, 0, &[1]));
                d.program.steps.push(launch(Work::Contract(product)));
                d.program.steps.push(launch(Work::Contract(sum)));
                let mut inputs = inputs(&d.program, 4);
                // What lies between and behind the rows must not matter.
                for x in &mut inputs {
                    let len = x.len();
                    (0..len).filter(|j| j % stride >= rows || j / stride >= len / stride).for_each(|j| x[j] = f32::NAN);
                }
                agree(&d.program, &inputs, 3e-6);
            }
        }
    }
}

/// What one kernel leaves for the next by rows lies in blocks of them: read by another tile, step by step, and summed up over rows.
#[test]
fn rows_in_blocks() {
    for rows in ROWS {
        for (steps, width) in [(1, 1), (3, 5), (2, 33)] {
            let gap = if rows == padded(rows) { kernel::LANES } else { padded(rows) };
            let (pitch, entries) = (padded(rows) + gap, steps * width);
            let mut d = Draft::default();
            let x = d.input(rows * entries);
            let other = d.input(steps * pitch);
            let between = d.buffer(entries * pitch, BufferKind::Temp);
            let [y, products, squares, sums] = [rows * entries, width, width * width, width].map(|len| d.output(len));
            let give = Stmt::Map(Map {
                dims: vec![entries],
                loads: vec![local(0, 0, &[1])],
                code: vec![Instr::Load(0), Instr::Binary(Binary::Mul, Reg(0), Reg(0))],
                stores: vec![Store { to: unit(between, 0, &[pitch]), value: Reg(1), mode: Mode::Set }],
            });
            d.program.steps.push(launch(Work::Tile(tile(&[rows], &[entries], vec![from_rows(x, entries, 0), give]))));
            let time = LoopId(0);
            let step = Stmt::Map(Map {
                dims: vec![width],
                loads: vec![View { loops: vec![(time, width * pitch)], ..unit(between, 0, &[pitch]) }],
                code: vec![Instr::Load(0), Instr::Unary(Unary::Neg, Reg(0))],
                stores: vec![Store {
                    to: View { loops: vec![(time, width)], ..local(0, 0, &[1]) },
                    value: Reg(1),
                    mode: Mode::Set,
                }],
            });
            let body = vec![Stmt::Loop { id: time, count: steps, reverse: true, body: vec![step] }, to_rows(0, entries, y)];
            d.program.steps.push(launch(Work::Tile(tile(&[rows], &[entries], body))));
            let of = unit(between, 0, &[pitch, width * pitch]);
            for (i, b, dst) in [
                (vec![], Some(unit(other, 0, &[pitch])), splat(products, 0, &[1])),
                (vec![width], Some(of.clone()), splat(squares, 0, &[width, 1])),
                (vec![], None, splat(sums, 0, &[1])),
            ] {
                let contract = Contract { rows, batch: vec![], n: vec![width], i, k: vec![steps], a: of.clone(), b, dst };
                d.program.steps.push(launch(Work::Contract(contract)));
            }
            let (_, distances) = super::super::blocks::lay_out(&d.program).unwrap();
            let expected = if entries > 1 { entries * kernel::LANES } else { kernel::LANES };
            assert_eq!(distances[between.0 as usize], expected, "{rows} rows of {entries} entries");
            agree(&d.program, &inputs(&d.program, 6), 5e-6);
        }
    }
}

#[test]
fn sort_gather_scatter() {
    for rows in [1, 7, 33] {
        let n = 21;
        let mut d = Draft::default();
        let x = d.input(rows * n);
        let table = d.input(n * 2);
        let y = d.output(rows * n);
        let z = d.output(rows * 3 * n);
        let body = vec![
            from_rows(x, n, 0),
            Stmt::Sort(Sort { dims: vec![], n, from: local(0, 0, &[1]), to: local(1, 0, &[1]) }),
            Stmt::Gather(Gather {
                dims: vec![n],
                from: local(0, 0, &[0]),
                stride: 1,
                size: n,
                at: local(1, 0, &[1]),
                to: local(2, 0, &[1]),
            }),
            Stmt::Gather(Gather {
                dims: vec![n],
                from: strided(x, &[n], &[0]),
                stride: 1,
                size: n,
                at: local(1, 0, &[1]),
                to: local(2, n, &[1]),
            }),
            Stmt::Gather(Gather {
                dims: vec![n],
                from: splat(table, 1, &[0]),
                stride: 2,
                size: n,
                at: local(1, 0, &[1]),
                to: local(2, 2 * n, &[1]),
            }),
            Stmt::Map(Map {
                dims: vec![n],
                loads: vec![],
                code: vec![Instr::Const(0.25)],
                stores: vec![Store { to: local(0, 0, &[1]), value: Reg(0), mode: Mode::Set }],
            }),
            Stmt::Scatter(Scatter {
                dims: vec![3, n],
                from: local(2, 0, &[n, 1]),
                at: local(1, 0, &[0, 1]),
                to: local(0, 0, &[0, 0]),
                stride: 1,
                size: n,
            }),
            to_rows(0, n, y),
            to_rows(2, 3 * n, z),
        ];
        d.program.steps.push(launch(Work::Tile(tile(&[rows], &[n, n, 3 * n], body))));
        let mut inputs = inputs(&d.program, 5);
        (0..rows).for_each(|row| (inputs[0][row * n + 3], inputs[0][row * n + 4]) = (f32::NAN, inputs[0][row * n]));
        agree(&d.program, &inputs, 1e-6);
    }
}

/// A loop of steps whose carry changes places, over buffers that the plan lets share memory.
#[test]
fn loops_and_swaps() {
    for (rows, count) in [(16, 1), (48, 5), (20, 4)] {
        let mut d = Draft::default();
        let wide = padded(rows);
        let x = d.input(wide);
        let [a, b, c] = [0; 3].map(|_| d.buffer(wide, BufferKind::Temp));
        let log = d.buffer(wide * count, BufferKind::Temp);
        let y = d.output(wide);
        let z = d.output(wide * count);
        let id = LoopId(3);
        let map = |dims: &[usize], from: View, to: View, scale: f32| {
            let map = Map {
                dims: dims.to_vec(),
                loads: vec![from],
                code: vec![Instr::Load(0), Instr::Const(scale), Instr::Binary(Binary::Mul, Reg(0), Reg(1))],
                stores: vec![Store { to, value: Reg(2), mode: Mode::Set }],
            };
            launch(Work::Tile(tile(&[wide], &[], vec![Stmt::Map(map)])))
        };
        let body = vec![
            map(&[], unit(a, 0, &[]), unit(c, 0, &[]), 1.5),
            map(&[], unit(c, 0, &[]), unit(b, 0, &[]), -1.0),
            map(&[], unit(a, 0, &[]), View { loops: vec![(id, wide)], ..unit(log, 0, &[]) }, 1.0),
            Step::Swap(a, b),
        ];
        d.program.steps = vec![
            map(&[], unit(x, 0, &[]), unit(a, 0, &[]), 1.0),
            Step::Loop { id, count, reverse: true, body },
            map(&[], unit(a, 0, &[]), unit(y, 0, &[]), 1.0),
            map(&[count], unit(log, 0, &[wide]), unit(z, 0, &[wide]), 1.0),
        ];
        agree(&d.program, &inputs(&d.program, 6), 1e-6);
    }
}

/// The very numbers of [`crate::random`], generated in pieces; or those that are given.
#[test]
fn draws() {
    let mut d = Draft::default();
    let subset = Noise::Subset { of: 11 };
    d.program.draws = vec!["g".to_owned(), "u".to_owned(), "s".to_owned()];
    d.program.name = "plan".to_owned();
    let noises = [(Noise::Gaussian, 5000, 1), (Noise::Uniform, 10, 1), (subset, 4000, 8)];
    let kernels = noises.iter().enumerate().map(|(draw, (noise, len, last))| {
        let to = d.output(*len);
        let random = Random { draw: draw as u32, noise: *noise, last: *last, to };
        Kernel { name: format!("draw{draw}"), work: Work::Random(random), notes: Notes::default() }
    });
    let kernels = kernels.collect();
    d.program.steps.push(Step::Launch(kernels));
    agree(&d.program, &[], 0.0);

    let mut instance = Instance::new(&d.program, 2).expect("it is valid");
    let given: Vec<f32> = (0..10).map(|i| i as f32).collect();
    assert_eq!(instance.set_draw("v", None), Err(Error::NoDraw("v".to_owned())));
    let name = "u".to_owned();
    assert_eq!(instance.set_draw("u", Some(&[1.0])), Err(Error::DrawLength { name, expected: 10, found: 1 }));
    instance.set_draw("u", Some(&given)).expect("it fits");
    instance.run(1, 2);
    assert_eq!(instance.output(1), given);
    instance.set_draw("u", None).expect("nothing to fit");
    instance.run(1, 2);
    assert_ne!(instance.output(1), given);
}

/// A memory of no states is a model's right: nothing is written along an empty dimension, and a sum over it is zero.
#[test]
fn nothing() {
    let mut d = Draft::default();
    let x = d.input(7 * 3);
    let y = d.output(7 * 3);
    let store = |to: View, mode: Mode| vec![Store { to, value: Reg(0), mode }];
    let none = Stmt::Map(Map {
        dims: vec![0],
        loads: vec![local(0, 0, &[1])],
        code: vec![Instr::Load(0)],
        stores: store(local(1, 0, &[1]), Mode::Set),
    });
    let sum = Stmt::Map(Map {
        dims: vec![0, 3],
        loads: vec![local(0, 0, &[0, 1])],
        code: vec![Instr::Load(0)],
        stores: store(local(2, 0, &[0, 1]), Mode::Sum),
    });
    let body = vec![from_rows(x, 3, 0), none, sum, to_rows(2, 3, y)];
    d.program.steps.push(launch(Work::Tile(tile(&[7], &[3, 0, 3], body))));
    agree(&d.program, &inputs(&d.program, 1), 0.0);
}
