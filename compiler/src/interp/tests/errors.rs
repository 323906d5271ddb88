//! What is reported, and where it points.

use dsl::source::{FileId, Span};

use super::super::{RunOptions, run_with};
use super::*;
use crate::ir::{Direction, Graph, Op, Scan, Unary};

const HERE: Span = Span { file: FileId(0), lo: 7, hi: 9 };

fn checked(program: &Program, inputs: &[Array<f64>]) -> Result<Vec<Array<f64>>, RunError> {
    run_with(program, inputs, &BTreeMap::new(), Clock::default(), RunOptions { check: true })
}

#[test]
fn inputs_must_be_there_and_fit() {
    let mut d = Draft::new();
    let [a, b] = [("a", 2), ("b", 3)].map(|(name, size)| d.axis(name, size));
    let x = d.input("x", &[a, b]);
    let y = d.input("y", &[]);
    let sum = d.graph.add(x, y, NOWHERE);
    let program = d.finish(&[sum]);
    let good = Array { axes: vec![a, b], data: vec![0.0; 6] };
    let message = |inputs: &[Array<f64>]| results(&program, inputs).unwrap_err().to_string();
    assert_eq!(message(&[]), "the input `x` of `draft` is missing");
    assert_eq!(message(std::slice::from_ref(&good)), "the input `y` of `draft` is missing");
    let one = Array::scalar(1.0);
    assert_eq!(message(&[good.clone(), one.clone(), one.clone()]), "`draft` takes 2 inputs, not 3");
    assert_eq!(message(&[one.clone(), one.clone()]), "`x` has the axes [], but [a 2, b 3] are needed");
    let turned = Array { axes: vec![b, a], data: vec![0.0; 6] };
    assert_eq!(message(&[turned.clone(), one.clone()]), "`x` has the axes [b 3, a 2], but [a 2, b 3] are needed");
    let short = Array { axes: vec![a, b], data: vec![0.0; 5] };
    assert_eq!(message(&[short, one.clone()]), "`x` has 5 numbers, but 6 are needed: [a 2, b 3]");
    let arranged = turned.arranged(&program, &[a, b], "x").unwrap();
    assert!(results(&program, &[arranged, one.clone()]).is_ok());
    assert!(one.arranged(&program, &[a], "y").is_err());
}

/// A gather reads NaN where an index names no entry, which a check traces to the text; a scatter adds nothing there.
#[test]
fn indices_out_of_range_point_at_the_text() {
    for index in [-1.0, 3.0, 2.5, -0.75, f64::INFINITY] {
        for scatter in [false, true] {
            let mut d = Draft::new();
            let [n, k] = [("n", 3), ("k", 2)].map(|(name, size)| d.axis(name, size));
            let x = d.input("x", &[if scatter { k } else { n }]);
            let at = d.input("at", &[k]);
            let y = if scatter { d.graph.scatter(x, at, &[k], n, HERE) } else { d.graph.gather(x, n, at, HERE) };
            let len = if scatter { 2 } else { 3 };
            let inputs = [Array { axes: d.graph.axes(x).to_vec(), data: vec![1.0; len] }, d.array(&[k], &[2.0, index])];
            let program = d.finish(&[y]);
            let data = results(&program, &inputs).unwrap().remove(0).data;
            if scatter {
                assert_eq!(data, [0.0, 0.0, 1.0]);
                continue;
            }
            assert!(data[0] == 1.0 && data[1].is_nan(), "{data:?}");
            if index.is_finite() {
                let error = checked(&program, &inputs).unwrap_err();
                assert_eq!(error.span(), Some(HERE));
                let said = format!("the index {index} names none of 3 entries");
                assert!(error.to_string().ends_with(&said), "{error}");
            }
        }
    }
}

#[test]
fn a_nan_in_the_data_is_named() {
    let mut d = Draft::new();
    let n = d.axis("n", 2);
    let x = d.input("obs", &[n]);
    let program = d.finish(&[x]);
    let inputs = [Array { axes: vec![n], data: vec![1.0, f64::NAN] }];
    assert_eq!(checked(&program, &inputs).unwrap_err().to_string(), "`obs` is not finite: the number at place 1 is NaN");
    assert!(results(&program, &inputs).unwrap()[0].data[1].is_nan());
}

/// The report is about the operation that made the number, not about those that passed it on.
#[test]
fn what_made_a_nan_is_named() {
    let mut d = Draft::new();
    let n = d.axis("n", 2);
    let x = d.input("x", &[n]);
    let log = d.graph.unary(Unary::Log, x, HERE);
    let more = d.graph.add(log, x, NOWHERE);
    let sum = d.graph.sum(more, &[n], NOWHERE);
    let program = d.finish(&[x, sum]);
    let error = checked(&program, &[Array { axes: vec![n], data: vec![1.0, -1.0] }]).unwrap_err();
    assert_eq!(error.span(), Some(HERE));
    assert_eq!(error.to_string(), "`1` is not finite: `log` made NaN of finite numbers");
    assert!(checked(&program, &[Array { axes: vec![n], data: vec![1.0, 2.0] }]).is_ok());
}

/// A number that a `where` leaves out does no harm.
#[test]
fn infinities_that_reach_nothing_are_no_error() {
    let mut d = Draft::new();
    let n = d.axis("n", 2);
    let x = d.input("x", &[n]);
    let zero = d.graph.constant(0.0, NOWHERE);
    let positive = d.graph.less(zero, x, NOWHERE);
    let log = d.graph.unary(Unary::Log, x, HERE);
    let safe = d.graph.select(positive, log, zero, NOWHERE);
    let found = checked(&d.finish(&[safe]), &[Array { axes: vec![n], data: vec![1.0, 0.0] }]).unwrap();
    assert_eq!(found[0].data, [0.0, 0.0]);
}

#[test]
fn a_fault_in_a_scan_is_carried_to_the_end() {
    let mut d = Draft::new();
    let t = d.axis("t", 4);
    let x = d.input("x", &[t]);
    let start = d.graph.constant(1.0, NOWHERE);
    let mut body = Graph::default();
    let carry = body.push(Op::Param(0), vec![], NOWHERE);
    let step = body.push(Op::Param(1), vec![], NOWHERE);
    let sum = body.add(carry, step, NOWHERE);
    let new = body.unary(Unary::Recip, sum, HERE);
    body.results = vec![new, new];
    let scan = Scan { axis: t, direction: Direction::Forward, init: vec![start], xs: vec![x], consts: vec![], body };
    let scan = d.scan(scan);
    let outs = [d.graph.out(scan, 0, vec![], NOWHERE), d.graph.out(scan, 1, vec![t], NOWHERE)];
    let inputs = [d.array(&[t], &[0.0, -1.0, 1.0, 1.0])];
    // The last carry is finite again; the outputs hold an infinity.
    let message = |outs: &[ValueId]| {
        let program = Program { graph: Graph { results: outs.to_vec(), ..d.graph.clone() }, ..d.program.clone() };
        checked(&program, &inputs).map_err(|e| (e.to_string(), e.span()))
    };
    assert_eq!(message(&outs[..1]).unwrap()[0].data, [1.0]);
    assert_eq!(
        message(&outs).unwrap_err(),
        ("`result 1` is not finite: `recip` made inf of finite numbers".to_string(), Some(HERE))
    );
}

/// A place that is NaN because of something earlier is reported as that.
#[test]
fn a_nan_as_a_place_is_traced() {
    let mut d = Draft::new();
    let n = d.axis("n", 2);
    let x = d.input("x", &[n]);
    let at = d.input("at", &[]);
    let root = d.graph.unary(Unary::Sqrt, at, HERE);
    let y = d.graph.gather(x, n, root, NOWHERE);
    let inputs = [d.array(&[n], &[1.0, 2.0]), Array::scalar(-1.0)];
    let error = checked(&d.finish(&[y]), &inputs).unwrap_err();
    assert_eq!(error.to_string(), "`0` is not finite: `sqrt` made NaN of finite numbers");
}

/// What nobody reads does not run.
#[test]
fn dead_nodes_do_not_run() {
    let mut d = Draft::new();
    let n = d.axis("n", 2);
    let x = d.input("x", &[n]);
    let far = d.graph.constant(5.0, NOWHERE);
    let dead = d.graph.gather(x, n, far, NOWHERE);
    let _ = dead;
    let inputs = [d.array(&[n], &[1.0, 2.0])];
    assert_eq!(results(&d.finish(&[x]), &inputs).unwrap()[0].data, [1.0, 2.0]);
}
