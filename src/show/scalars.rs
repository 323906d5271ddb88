//! Values of the scalar expressions that depend on nothing but the progress of the training: schedules and weights.

use dsl::hir::{BinaryOp, ExprId, Model, Op, UnaryOp};

/// Moments of the training at which schedules are shown.
pub(super) const MOMENTS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// Values of all expressions at all [`MOMENTS`].
pub(super) struct Scalars(Vec<Vec<Option<f64>>>);

impl Scalars {
    pub(super) fn of(model: &Model) -> Scalars {
        Scalars(MOMENTS.iter().map(|progress| at(model, *progress)).collect())
    }

    /// The values at the moments, where all of them are known.
    pub(super) fn values(&self, id: ExprId) -> Option<Vec<f64>> {
        self.0.iter().map(|values| values.get(id.0 as usize).copied().flatten()).collect()
    }

    /// The value, where it is the same at all times.
    pub(super) fn constant(&self, id: ExprId) -> Option<f64> {
        let values = self.values(id)?;
        values.iter().all(|v| *v == values[0]).then_some(values[0])
    }
}

/// One pass over the table, which is in dependency order: no recursion on what a user wrote.
fn at(model: &Model, progress: f64) -> Vec<Option<f64>> {
    let mut values: Vec<Option<f64>> = Vec::with_capacity(model.exprs.len());
    for node in &model.exprs {
        let get = |id: &ExprId| values.get(id.0 as usize).copied().flatten();
        let value = match &node.op {
            _ if !node.axes.is_empty() => None,
            Op::Const(value) => Some(value.0),
            Op::Size(size) => size.value().map(|v| v as f64),
            Op::Progress => Some(progress),
            Op::Schedule(schedule) => model.schedules.get(*schedule).and_then(|s| get(&s.value)),
            Op::Unary(op, a) => get(a).map(|a| unary(*op, a)),
            Op::Binary(op, a, b) => get(a).zip(get(b)).map(|(a, b)| binary(*op, a, b)),
            Op::Select(c, a, b) => get(c).and_then(|c| if c != 0.0 { get(a) } else { get(b) }),
            Op::Broadcast(a) | Op::Stop(a) | Op::Alias(a, _) => get(a),
            _ => None,
        };
        values.push(value);
    }
    values
}

fn unary(op: UnaryOp, a: f64) -> f64 {
    match op {
        UnaryOp::Neg => -a,
        UnaryOp::Not => f64::from(a == 0.0),
        UnaryOp::Exp => a.exp(),
        UnaryOp::Log => a.ln(),
        UnaryOp::Sin => a.sin(),
        UnaryOp::Cos => a.cos(),
        UnaryOp::Sqrt => a.sqrt(),
        UnaryOp::Abs => a.abs(),
        UnaryOp::Sign => {
            if a == 0.0 {
                0.0
            } else {
                a.signum()
            }
        }
        UnaryOp::Floor => a.floor(),
        UnaryOp::Tanh => a.tanh(),
        UnaryOp::Sigmoid => 1.0 / (1.0 + (-a).exp()),
        UnaryOp::Softplus => a.max(0.0) + (-a.abs()).exp().ln_1p(),
    }
}

fn binary(op: BinaryOp, a: f64, b: f64) -> f64 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::Pow => a.powf(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::Min => a.min(b),
        BinaryOp::Rem => a.rem_euclid(b),
        BinaryOp::Lt => f64::from(a < b),
        BinaryOp::Le => f64::from(a <= b),
        BinaryOp::Gt => f64::from(a > b),
        BinaryOp::Ge => f64::from(a >= b),
        BinaryOp::Eq => f64::from(a == b),
        BinaryOp::Ne => f64::from(a != b),
        BinaryOp::And => f64::from(a != 0.0 && b != 0.0),
        BinaryOp::Or => f64::from(a != 0.0 || b != 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::sample;

    #[test]
    fn a_ramp_and_a_constant() {
        let model = sample::model();
        let scalars = Scalars::of(&model);
        assert_eq!(scalars.values(model.schedules[0].value), Some(vec![0.0, 0.125, 0.25, 0.375, 0.5]));
        assert_eq!(scalars.values(model.losses[0].weight), Some(vec![1.0, 1.125, 1.25, 1.375, 1.5]));
        assert_eq!(scalars.constant(model.losses[1].weight), Some(0.5));
        assert_eq!(scalars.constant(model.schedules[0].value), None);
    }
}
