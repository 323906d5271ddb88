//! Whether a program is smooth near given inputs, so that finite differences mean something.

use std::collections::BTreeMap;

use crate::interp::{Array, Axes, Clock, Ran, RunError, RunOptions, View, arrange, run_watched};
use crate::ir::{AxisId, Composite, Op, Program, Reduction, Unary};

/// How close to a kink or a jump a value may be.
const MARGIN: f64 = 5e-3;
/// The smallest argument of a logarithm, a root or a reciprocal.
const SMALLEST: f64 = 0.1;
const LARGEST: f64 = 200.0;

/// The first thing that makes the program rough near these inputs: a value next to a kink, a logarithm of next to
/// nothing, a number that is very large. None if it is smooth.
pub fn roughness(program: &Program, inputs: &[Array<f64>], clock: Clock) -> Result<Option<String>, RunError> {
    let sizes = Axes(&program.axes);
    let mut first = None;
    run_watched(program, inputs, &BTreeMap::new(), clock, RunOptions::default(), &mut |ran| {
        if first.is_none() {
            first = rough(sizes, ran);
        }
    })?;
    Ok(first)
}

fn rough(sizes: Axes<'_>, ran: &Ran<'_, f64>) -> Option<String> {
    let complain = |what: &str| Some(format!("`{}` {what}", ran.node.op.name()));
    if !ran.value.data.iter().all(|x| x.abs() <= LARGEST) {
        return complain("is large");
    }
    let close = |x: f64, y: f64| (x - y).abs() < MARGIN;
    let first = ran.operands.first().map_or(&[][..], |v| v.data);
    let kink = match &ran.node.op {
        Op::Unary(Unary::Log | Unary::Sqrt, _) if first.iter().any(|x| *x < SMALLEST) => return complain("of too little"),
        Op::Unary(Unary::Recip, _) if first.iter().any(|x| x.abs() < SMALLEST) => return complain("of too little"),
        Op::Unary(Unary::Floor, _) => first.iter().any(|x| close(*x, x.round())),
        Op::Composite(Composite::Abs | Composite::Sign, _) => first.iter().any(|x| close(*x, 0.0)),
        Op::Max(..) | Op::Less(..) => {
            let [a, b] = [0, 1].map(|i| over(sizes, ran.operands[i], ran.value.axes));
            a.iter().zip(&b).any(|(x, y)| close(*x, *y))
        }
        Op::Reduce { op: Reduction::Max, over: axes, .. } => {
            rows(sizes, ran.operands[0], axes).iter().any(|row| row.windows(2).next_back().is_some_and(|w| close(w[0], w[1])))
        }
        Op::Argsort { axis, .. } => {
            rows(sizes, ran.operands[0], &[*axis]).iter().any(|row| row.windows(2).any(|w| close(w[0], w[1])))
        }
        _ => false,
    };
    if kink { complain("next to a kink") } else { None }
}

/// The array repeated along `axes`.
fn over(sizes: Axes<'_>, view: View<'_, f64>, axes: &[AxisId]) -> Vec<f64> {
    arrange(sizes, view.axes, view.data, axes)
}

/// The numbers along `axes`, sorted, for each place along the others.
fn rows(sizes: Axes<'_>, view: View<'_, f64>, axes: &[AxisId]) -> Vec<Vec<f64>> {
    let rest: Vec<AxisId> = view.axes.iter().copied().filter(|a| !axes.contains(a)).collect();
    let data = over(sizes, view, &[&rest[..], axes].concat());
    let n = sizes.len(axes);
    let mut rows: Vec<Vec<f64>> = data.chunks(n.max(1)).map(<[f64]>::to_vec).collect();
    rows.iter_mut().for_each(|row| row.sort_by(f64::total_cmp));
    rows
}
