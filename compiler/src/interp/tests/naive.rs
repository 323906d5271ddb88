//! The twin: every operation by its definition, entry by entry, on maps from axes to places. Slow and plain, it shares
//! nothing with the interpreter's loops.

use std::collections::{BTreeMap, HashMap};

use super::super::{Array, Clock, Ran, RunOptions, View, run, run_watched};
use crate::ir::{AxisId, Composite, Op, Program, Reduction, Unary};
use crate::testing::random_program;

type Place = HashMap<AxisId, usize>;

/// Every place of an array over `axes`, in storage order.
fn places(program: &Program, axes: &[AxisId]) -> Vec<Place> {
    axes.iter().fold(vec![Place::new()], |places, axis| {
        places
            .into_iter()
            .flat_map(|place| {
                (0..program.size(*axis)).map(move |i| {
                    let mut place = place.clone();
                    place.insert(*axis, i);
                    place
                })
            })
            .collect()
    })
}

/// The entry of an array at a place, which may have more axes than it.
fn at(program: &Program, view: View<'_, f64>, place: &Place) -> f64 {
    view.data[view.axes.iter().fold(0, |index, axis| index * program.size(*axis) + place[axis])]
}

fn with(place: &Place, changes: &[(AxisId, usize)]) -> Place {
    let mut place = place.clone();
    place.extend(changes.iter().copied());
    place
}

/// The entry of a node's value at a place.
fn entry(program: &Program, ran: &Ran<'_, f64>, place: &Place) -> f64 {
    let operands = ran.operands;
    let x = |i: usize| at(program, operands[i], place);
    let first = |place: &Place| at(program, operands[0], place);
    // The places of the first operand that differ from this one along some axes only.
    let over = |axes: &[AxisId]| -> Vec<f64> {
        places(program, axes).iter().map(|p| first(&with(place, &p.iter().map(|(a, i)| (*a, *i)).collect::<Vec<_>>()))).collect()
    };
    match &ran.node.op {
        Op::Input(_) | Op::Param(_) | Op::Random { .. } | Op::Scan(_) | Op::Out { .. } => unreachable!("not watched"),
        Op::Const(c) => *c,
        Op::Iota(axis) => place[axis] as f64,
        Op::Unary(f, _) => match f {
            Unary::Exp => x(0).exp(),
            Unary::Log => x(0).ln(),
            Unary::Sin => x(0).sin(),
            Unary::Sqrt => x(0).sqrt(),
            Unary::Recip => 1.0 / x(0),
            Unary::Floor => x(0).floor(),
        },
        Op::Add(..) => x(0) + x(1),
        Op::Mul(..) => x(0) * x(1),
        Op::Max(..) => x(0).max(x(1)),
        Op::Less(..) => f64::from(x(0) < x(1)),
        Op::Where(..) => {
            if x(0) == 0.0 {
                x(2)
            } else {
                x(1)
            }
        }
        Op::Composite(f, _) => match f {
            Composite::Tanh => x(0).tanh(),
            Composite::Sigmoid => 1.0 / (1.0 + (-x(0)).exp()),
            Composite::Softplus => (1.0 + x(0).exp()).ln(),
            Composite::Abs => x(0).abs(),
            Composite::Sign => x(0).signum(),
            Composite::Softmax(axis) => x(0).exp() / over(&[*axis]).iter().map(|v| v.exp()).sum::<f64>(),
            Composite::LogSoftmax(axis) => x(0) - over(&[*axis]).iter().map(|v| v.exp()).sum::<f64>().ln(),
            Composite::LogSumExp(axis) => over(&[*axis]).iter().map(|v| v.exp()).sum::<f64>().ln(),
        },
        Op::Expand(_) | Op::Stop(_) | Op::Id(_) => x(0),
        Op::Rename { from, to, .. } => first(&with(place, &[(*from, place[to])])),
        Op::Reduce { op: Reduction::Sum, over: axes, .. } => over(axes).iter().sum(),
        Op::Reduce { op: Reduction::Max, over: axes, .. } => over(axes).into_iter().fold(f64::NEG_INFINITY, f64::max),
        Op::Dot { over: axes, .. } => {
            let products = places(program, axes).into_iter().map(|p| {
                let place = with(place, &p.into_iter().collect::<Vec<_>>());
                at(program, operands[0], &place) * at(program, operands[1], &place)
            });
            products.sum()
        }
        Op::Split { axis, into, .. } => {
            let whole = into.iter().fold(0, |index, a| index * program.size(*a) + place[a]);
            first(&with(place, &[(*axis, whole)]))
        }
        Op::Join { axes, into, .. } => {
            let mut rest = place[into];
            let mut parts = Vec::new();
            for axis in axes.iter().rev() {
                parts.push((*axis, rest % program.size(*axis)));
                rest /= program.size(*axis);
            }
            first(&with(place, &parts))
        }
        Op::Slice { axis, start, into, .. } => first(&with(place, &[(*axis, place[into] + start)])),
        Op::Pad { axis, start, into, .. } => match place[into].checked_sub(*start) {
            Some(i) if i < program.size(*axis) => first(&with(place, &[(*axis, i)])),
            _ => 0.0,
        },
        Op::Concat { along, into, .. } => {
            let mut i = place[into];
            for (part, axis) in operands.iter().zip(along) {
                if i < program.size(*axis) {
                    return at(program, *part, &with(place, &[(*axis, i)]));
                }
                i -= program.size(*axis);
            }
            unreachable!("the parts make up the whole")
        }
        Op::Gather { axis, .. } => first(&with(place, &[(*axis, x(1) as usize)])),
        Op::Scatter { over: axes, into, .. } => {
            let sources = places(program, axes).into_iter().map(|p| with(place, &p.into_iter().collect::<Vec<_>>()));
            let here = sources.filter(|p| at(program, operands[1], p) == place[into] as f64);
            here.map(|p| first(&p)).sum()
        }
        Op::Argsort { axis, .. } => {
            // The entry that has as many before it as this place says.
            let row = over(&[*axis]);
            let before = |i: usize| {
                let less = |j: &usize| row[*j] < row[i] || (row[*j] == row[i] && *j < i);
                (0..row.len()).filter(less).count()
            };
            (0..row.len()).find(|i| before(*i) == place[axis]).unwrap() as f64
        }
    }
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    a == b || (a - b).abs() <= tolerance * (1.0 + a.abs().max(b.abs()))
}

#[test]
fn every_node_of_random_programs_is_what_its_definition_says() {
    let mut compared = 0;
    for seed in 0..400 {
        let (program, inputs) = random_program(seed);
        let mut wrong = None;
        let options = RunOptions { check: true };
        run_watched(&program, &inputs, &BTreeMap::new(), Clock::default(), options, &mut |ran| {
            for (place, found) in places(&program, ran.value.axes).iter().zip(ran.value.data) {
                let expected = entry(&program, ran, place);
                if !close(*found, expected, 1e-12) && wrong.is_none() {
                    wrong = Some(format!("seed {seed}: {:?} at {place:?}: {found}, not {expected}", ran.node));
                }
                compared += 1;
            }
        })
        .unwrap();
        assert_eq!(wrong, None);
    }
    assert!(compared > 50_000, "{compared}");
}

/// Single precision sees the same draws and takes the same branches.
#[test]
fn single_precision_follows_double_precision() {
    for seed in 0..200 {
        let (program, inputs) = random_program(seed);
        let double = run(&program, &inputs, &BTreeMap::new(), Clock::default()).unwrap();
        let inputs: Vec<Array<f32>> = inputs.iter().map(Array::cast).collect();
        let single = run(&program, &inputs, &BTreeMap::new(), Clock::default()).unwrap();
        for (d, s) in double.iter().zip(&single) {
            assert_eq!(d.axes, s.axes);
            let scale = d.data.iter().fold(1.0, |a: f64, b| a.max(b.abs()));
            for (x, y) in d.data.iter().zip(&s.data) {
                assert!((x - f64::from(*y)).abs() < 1e-4 * scale, "seed {seed}: {x} {y}");
            }
        }
    }
}
