//! What a kernel program computes in one call: operations of matrix products, and exponentials.

use compiler::kernel::{Instr, Program, Step, Stmt, Unary, Work};

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Cost {
    /// Multiplications and additions of products with weights and of sums over rows.
    pub(crate) flops: f64,
    /// Exponentials: those of tanh, sigmoid, silu and softplus too.
    pub(crate) exps: f64,
}

impl Cost {
    fn add(&mut self, other: Cost, times: usize) {
        self.flops += other.flops * times as f64;
        self.exps += other.exps * times as f64;
    }
}

/// The cost of a run; packing weights and what depends on parameters alone left out.
pub(crate) fn of(program: &Program) -> Cost {
    of_steps(&program.steps)
}

fn of_steps(steps: &[Step]) -> Cost {
    let mut cost = Cost::default();
    for step in steps {
        match step {
            Step::Launch(kernels) => {
                for kernel in kernels {
                    match &kernel.work {
                        Work::Tile(tile) => cost.add(of_stmts(&tile.body), tile.row_count()),
                        Work::Contract(c) => {
                            let numbers: usize = [&c.batch, &c.n, &c.i, &c.k].into_iter().flatten().product();
                            // Without a second factor it is a sum, and no product.
                            let flops = if c.b.is_some() { 2.0 * numbers as f64 } else { 0.0 };
                            cost.add(Cost { flops, exps: 0.0 }, c.rows);
                        }
                        Work::Pack(_) | Work::Random(_) => {}
                    }
                }
            }
            Step::Loop { count, body, .. } => cost.add(of_steps(body), *count),
            Step::Swap(..) => {}
        }
    }
    cost
}

/// Of one row.
fn of_stmts(body: &[Stmt]) -> Cost {
    let mut cost = Cost::default();
    for stmt in body {
        match stmt {
            Stmt::Gemm(g) => {
                let products: usize = g.batch.iter().chain(&g.m).product::<usize>() * g.n * g.k;
                cost.flops += 2.0 * products as f64;
            }
            Stmt::Map(map) => {
                let exps = map.code.iter().filter(|i| is_exp(i)).count();
                cost.exps += (exps * map.dims.iter().product::<usize>()) as f64;
            }
            Stmt::Loop { count, body, .. } => cost.add(of_stmts(body), *count),
            Stmt::Copy(_) | Stmt::Sort(_) | Stmt::Gather(_) | Stmt::Scatter(_) => {}
        }
    }
    cost
}

fn is_exp(instr: &Instr) -> bool {
    use Unary::{Exp, Sigmoid, Silu, Softplus, Tanh};
    matches!(instr, Instr::Unary(Exp | Tanh | Sigmoid | Softplus | Silu, _))
}
