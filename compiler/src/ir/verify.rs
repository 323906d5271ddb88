//! The verifier: every invariant of a graph program that a later stage relies on, checked between passes.
//!
//! Axes are checked as sets: arrays line up by name, so each node is free to say its own storage order. The order counts
//! in two places: an input node has the axes of its declaration in their order, and the axes of a random node are its
//! counter (any order is one), with a subset along the last of them. An output that updates an input has that input's
//! axes; [`simplify`](crate::simplify) brings them into its order.

use std::collections::HashSet;

use dsl::source::Span;

use super::{AxisId, Composite, Graph, Node, Noise, Op, Program, Scan, ValueId};

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", self.place())]
pub struct VerifyError {
    /// The scans around the node, outermost first.
    pub scans: Vec<ValueId>,
    /// None for what concerns the whole program or body.
    pub node: Option<(ValueId, &'static str)>,
    pub span: Span,
    pub message: String,
}

impl VerifyError {
    /// `in scan %2: %5 (add): `
    fn place(&self) -> String {
        let scans = self.scans.iter().map(|scan| format!("in scan %{}: ", scan.0));
        let node = self.node.iter().map(|(id, op)| format!("%{} ({op}): ", id.0));
        scans.chain(node).collect()
    }
}

/// The first invariant that does not hold, if one does not.
pub fn verify(program: &Program) -> Result<(), VerifyError> {
    let whole = |message| VerifyError { scans: Vec::new(), node: None, span: Span::default(), message };
    let check = Check { program };
    check.interface().map_err(whole)?;
    check.graph(&program.graph, None).map_err(|mut error| {
        error.scans.reverse();
        error
    })?;
    check.outputs().map_err(whole)
}

type Checked = Result<(), String>;

/// Fails with a message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err(format!($($message)*));
        }
    };
}

struct Check<'a> {
    program: &'a Program,
}

impl Check<'_> {
    fn interface(&self) -> Checked {
        let p = self.program;
        unique("input", p.inputs.iter().map(|i| i.name.as_str()))?;
        unique("output", p.outputs.iter().map(|o| o.name.as_str()))?;
        unique("draw", p.draws.iter().map(String::as_str))?;
        for input in &p.inputs {
            self.axis_list(&input.axes).map_err(|m| format!("input `{}`: {m}", input.name))?;
        }
        Ok(())
    }

    fn outputs(&self) -> Checked {
        let p = self.program;
        let (results, outputs) = (p.graph.results.len(), p.outputs.len());
        ensure!(results == outputs, "the graph has {results} results, the program {outputs} outputs");
        for (output, value) in p.outputs.iter().zip(&p.graph.results) {
            let Some(updates) = output.updates else { continue };
            let name = &output.name;
            let Some(input) = p.inputs.get(updates) else {
                return Err(format!("output `{name}` updates input {updates}; there are {}", p.inputs.len()));
            };
            let axes = p.graph.axes(*value);
            ensure!(
                same(axes, &input.axes),
                "output `{name}` has the axes {}, `{}`, which it updates, {}",
                self.show(axes),
                input.name,
                self.show(&input.axes)
            );
        }
        Ok(())
    }

    /// A graph and the bodies in it. `scan` is the one whose body it is, with the axes of its operands.
    fn graph(&self, graph: &Graph, scan: Option<(&Scan, &[&[AxisId]])>) -> Result<(), VerifyError> {
        for (i, node) in graph.nodes.iter().enumerate() {
            let id = ValueId(i as u32);
            self.node(graph, id, node, scan).map_err(|message| VerifyError {
                scans: Vec::new(),
                node: Some((id, node.op.name())),
                span: node.span,
                message,
            })?;
            if let Op::Scan(inner) = &node.op {
                self.scan(graph, inner).map_err(|mut error| {
                    error.scans.push(id);
                    if error.span == Span::default() {
                        error.span = node.span;
                    }
                    error
                })?;
            }
        }
        for result in &graph.results {
            let bad = match graph.nodes.get(result.0 as usize) {
                None => format!("the result %{} does not exist", result.0),
                Some(Node { op: Op::Scan(_), .. }) => {
                    format!("the result %{} is a scan; take one of its values by `out`", result.0)
                }
                Some(_) => continue,
            };
            return Err(VerifyError { scans: Vec::new(), node: None, span: Span::default(), message: bad });
        }
        Ok(())
    }

    /// A scan's body, and what goes in and out of it.
    fn scan(&self, graph: &Graph, scan: &Scan) -> Result<(), VerifyError> {
        let operands: Vec<&[AxisId]> = scan.init.iter().chain(&scan.xs).chain(&scan.consts).map(|v| graph.axes(*v)).collect();
        self.graph(&scan.body, Some((scan, &operands)))?;
        let results = || -> Checked {
            let results = &scan.body.results;
            let carries = scan.init.len();
            ensure!(results.len() >= carries, "the body has {} results for {carries} carries", results.len());
            for (i, (result, init)) in results.iter().zip(&operands[..carries]).enumerate() {
                let axes = scan.body.axes(*result);
                ensure!(
                    same(axes, init),
                    "carry {i} starts with the axes {} and goes on with {}",
                    self.show(init),
                    self.show(axes)
                );
            }
            for (i, result) in results.iter().enumerate().skip(carries) {
                let axes = scan.body.axes(*result);
                ensure!(!axes.contains(&scan.axis), "result {i} has the scan's own axis {}", self.name(scan.axis));
            }
            Ok(())
        };
        results().map_err(|message| VerifyError { scans: Vec::new(), node: None, span: Span::default(), message })
    }

    fn node(&self, graph: &Graph, id: ValueId, node: &Node, scan: Option<(&Scan, &[&[AxisId]])>) -> Checked {
        let mut early = Ok(());
        node.op.operands(|v| {
            if early.is_ok() {
                early = operand(graph, id, v, matches!(node.op, Op::Out { .. }));
            }
        });
        early?;
        self.axis_list(&node.axes)?;
        let entries = node.axes.iter().try_fold(1usize, |n, a| n.checked_mul(self.program.size(*a)));
        ensure!(entries.is_some_and(|n| n <= isize::MAX as usize), "it has more entries than can be counted");
        self.op(graph, node, scan)
    }

    /// What each operation says about its operands and its value. All operands exist.
    fn op(&self, graph: &Graph, node: &Node, scan: Option<(&Scan, &[&[AxisId]])>) -> Checked {
        let axes = |v: ValueId| graph.axes(v);
        match &node.op {
            Op::Input(i) => {
                ensure!(scan.is_none(), "an input stands only at the top, not in the body of a scan");
                let Some(input) = self.program.inputs.get(*i as usize) else {
                    return Err(format!("there is no input {i}; there are {}", self.program.inputs.len()));
                };
                self.exactly(node, &input.axes, &format!("those of input `{}`", input.name))
            }
            Op::Param(i) => {
                let Some((scan, operands)) = scan else {
                    return Err("a parameter stands only in the body of a scan".to_string());
                };
                let Some(given) = operands.get(*i as usize) else {
                    return Err(format!("there is no parameter {i}; the scan gives {}", operands.len()));
                };
                let is_x = (scan.init.len()..scan.init.len() + scan.xs.len()).contains(&(*i as usize));
                let step: Vec<AxisId> = given.iter().copied().filter(|a| !(is_x && *a == scan.axis)).collect();
                self.as_set(node, &step, &format!("what the scan gives as parameter {i}"))
            }
            Op::Const(_) => self.exactly(node, &[], "none"),
            Op::Iota(axis) => self.exactly(node, &[*axis], "the one that it counts"),
            Op::Random { draw, noise } => {
                let draws = self.program.draws.len();
                ensure!((*draw as usize) < draws, "there is no draw {draw}; there are {draws}");
                match noise {
                    Noise::Gaussian | Noise::Uniform => Ok(()),
                    Noise::Subset { of } => {
                        let Some(last) = node.axes.last() else {
                            return Err("a subset lies along its last axis; it has none".to_string());
                        };
                        let size = self.program.size(*last);
                        ensure!(size <= *of as usize, "a subset of {of} cannot have {size} entries");
                        Ok(())
                    }
                }
            }
            Op::Unary(_, a) | Op::Stop(a) | Op::Id(a) => self.as_set(node, axes(*a), "its operand's"),
            Op::Add(a, b) | Op::Mul(a, b) | Op::Max(a, b) | Op::Less(a, b) => self.union(node, graph, &[*a, *b]),
            Op::Where(c, a, b) => self.union(node, graph, &[*c, *a, *b]),
            Op::Composite(composite, a) => match composite {
                Composite::Tanh | Composite::Sigmoid | Composite::Softplus | Composite::Abs | Composite::Sign => {
                    self.as_set(node, axes(*a), "its operand's")
                }
                Composite::Softmax(axis) | Composite::LogSoftmax(axis) => {
                    self.has(axes(*a), &[*axis])?;
                    self.as_set(node, axes(*a), "its operand's")
                }
                Composite::LogSumExp(axis) => {
                    self.has(axes(*a), &[*axis])?;
                    self.as_set(node, &without(axes(*a), &[*axis]), "its operand's without the one summed over")
                }
            },
            Op::Expand(a) => {
                let missing: Vec<AxisId> = without(axes(*a), &node.axes);
                ensure!(missing.is_empty(), "the value lacks its operand's axes {}", self.show(&missing));
                Ok(())
            }
            Op::Rename { of, from, to } => {
                self.has(axes(*of), &[*from])?;
                self.axis_list(&[*to])?;
                let [a, b] = [*from, *to].map(|x| self.program.size(x));
                ensure!(a == b, "{} has {a} entries, {} has {b}", self.name(*from), self.name(*to));
                self.as_set(node, &replace(axes(*of), *from, &[*to]), "its operand's, renamed")
            }
            Op::Reduce { of, over, .. } => {
                self.has(axes(*of), over)?;
                self.as_set(node, &without(axes(*of), over), "its operand's without those reduced")
            }
            Op::Dot { a, b, over } => {
                self.has(axes(*a), over)?;
                self.has(axes(*b), over)?;
                let mut expected = without(axes(*a), over);
                expected.extend(without(axes(*b), over).iter().filter(|x| !axes(*a).contains(x)));
                self.as_set(node, &expected, "those of both operands without the contracted ones")
            }
            Op::Split { of, axis, into } => {
                self.has(axes(*of), &[*axis])?;
                self.axis_list(into)?;
                self.product(into, *axis)?;
                self.as_set(node, &replace(axes(*of), *axis, into), "its operand's with the parts in place of the whole")
            }
            Op::Join { of, axes: joined, into } => {
                self.has(axes(*of), joined)?;
                self.axis_list(&[*into])?;
                self.product(joined, *into)?;
                let Some((first, rest)) = joined.split_first() else { return Err("it joins no axes".to_string()) };
                let expected = replace(&without(axes(*of), rest), *first, &[*into]);
                self.as_set(node, &expected, "its operand's with the whole in place of the first part")
            }
            Op::Slice { of, axis, start, into } => {
                self.has(axes(*of), &[*axis])?;
                self.fits(*into, *start, *axis)?;
                self.as_set(node, &replace(axes(*of), *axis, &[*into]), "its operand's with the slice in place of the whole")
            }
            Op::Pad { of, axis, start, into } => {
                self.has(axes(*of), &[*axis])?;
                self.fits(*axis, *start, *into)?;
                self.as_set(node, &replace(axes(*of), *axis, &[*into]), "its operand's with the whole in place of the part")
            }
            Op::Concat { parts, along, into } => self.concat(graph, node, parts, along, *into),
            Op::Gather { of, axis, at } => {
                self.has(axes(*of), &[*axis])?;
                ensure!(!axes(*at).contains(axis), "the places have the axis {} that they pick from", self.name(*axis));
                let others = without(axes(*of), &[*axis]);
                let expected = [without(axes(*at), &others), others].concat();
                self.as_set(node, &expected, "those of the places, and its operand's without the one picked from")
            }
            Op::Scatter { of, at, over, into } => {
                self.has(axes(*at), over)?;
                self.axis_list(&[*into])?;
                let mut expected = without(axes(*of), over);
                expected.extend(without(axes(*at), over).iter().filter(|x| !axes(*of).contains(x)));
                ensure!(!expected.contains(into), "{} is there already", self.name(*into));
                expected.push(*into);
                self.as_set(node, &expected, "those of values and places without those that go, and the new one")
            }
            Op::Argsort { of, axis } => {
                self.has(axes(*of), &[*axis])?;
                self.as_set(node, axes(*of), "its operand's")
            }
            Op::Scan(scan) => {
                self.axis_list(&[scan.axis])?;
                for x in &scan.xs {
                    let has = axes(*x).contains(&scan.axis);
                    ensure!(has, "%{}, which it steps along, has no axis {}", x.0, self.name(scan.axis));
                }
                self.exactly(node, &[], "none: its values are taken by `out`")
            }
            Op::Out { scan, index } => {
                let Op::Scan(scan) = &graph.node(*scan).op else { return Err(format!("%{} is no scan", scan.0)) };
                let Some(result) = scan.body.results.get(*index as usize) else {
                    return Err(format!("the scan has no value {index}; it has {}", scan.body.results.len()));
                };
                let step = scan.body.axes(*result);
                if (*index as usize) < scan.init.len() {
                    return self.as_set(node, step, "those of the carry");
                }
                let expected: Vec<AxisId> = [scan.axis].iter().chain(step).copied().collect();
                self.as_set(node, &expected, "the scan's axis and those of the body's result")
            }
        }
    }

    fn concat(&self, graph: &Graph, node: &Node, parts: &[ValueId], along: &[AxisId], into: AxisId) -> Checked {
        let axes = |v: ValueId| graph.axes(v);
        self.axis_list(&[into])?;
        ensure!(parts.len() == along.len(), "{} parts lie along {} axes", parts.len(), along.len());
        let (Some(first), Some(axis)) = (parts.first(), along.first()) else { return Err("it has no parts".to_string()) };
        let others = without(axes(*first), &[*axis]);
        for (part, axis) in parts.iter().zip(along) {
            self.has(axes(*part), &[*axis])?;
            let own = without(axes(*part), &[*axis]);
            ensure!(
                same(&own, &others),
                "its parts differ in their other axes: %{} has {}, %{} has {}",
                first.0,
                self.show(&others),
                part.0,
                self.show(&own)
            );
        }
        let total = along.iter().try_fold(0usize, |n, a| n.checked_add(self.program.size(*a)));
        let size = self.program.size(into);
        ensure!(total == Some(size), "{} has {size} entries, its parts have {}", self.name(into), total.unwrap_or(usize::MAX));
        self.as_set(node, &replace(axes(*first), *axis, &[into]), "its first part's with the whole in place of the part")
    }

    // ---- parts of the rules

    /// Axes that are declared, each once.
    fn axis_list(&self, axes: &[AxisId]) -> Checked {
        for (i, axis) in axes.iter().enumerate() {
            ensure!((axis.0 as usize) < self.program.axes.len(), "axis {} is not declared", axis.0);
            ensure!(!axes[..i].contains(axis), "the axis {} is there twice", self.name(*axis));
        }
        Ok(())
    }

    /// The operand has the axes that the operation names, each named once.
    fn has(&self, axes: &[AxisId], named: &[AxisId]) -> Checked {
        self.axis_list(named)?;
        let missing = without(named, axes);
        ensure!(missing.is_empty(), "an operand with the axes {} lacks {}", self.show(axes), self.show(&missing));
        Ok(())
    }

    fn union(&self, node: &Node, graph: &Graph, operands: &[ValueId]) -> Checked {
        self.as_set(node, &graph.union(operands), "the union of its operands'")
    }

    fn exactly(&self, node: &Node, expected: &[AxisId], which: &str) -> Checked {
        ensure!(node.axes == expected, "its axes are {}, not {}: {which}", self.show(&node.axes), self.show(expected));
        Ok(())
    }

    fn as_set(&self, node: &Node, expected: &[AxisId], which: &str) -> Checked {
        ensure!(same(&node.axes, expected), "its axes are {}, not {}: {which}", self.show(&node.axes), self.show(expected));
        Ok(())
    }

    /// The parts' sizes multiply to the whole's.
    fn product(&self, parts: &[AxisId], whole: AxisId) -> Checked {
        let product = parts.iter().try_fold(1usize, |n, a| n.checked_mul(self.program.size(*a)));
        let size = self.program.size(whole);
        ensure!(
            product == Some(size),
            "{} has {size} entries, its parts {} do not multiply to it",
            self.name(whole),
            self.show(parts)
        );
        Ok(())
    }

    /// The part lies within the whole from `start` on.
    fn fits(&self, part: AxisId, start: usize, whole: AxisId) -> Checked {
        self.axis_list(&[part])?;
        self.axis_list(&[whole])?;
        let [size, of] = [part, whole].map(|a| self.program.size(a));
        let fits = start.checked_add(size).is_some_and(|end| end <= of);
        ensure!(fits, "{size} entries from {start} on do not fit into the {of} of {}", self.name(whole));
        Ok(())
    }

    fn name(&self, axis: AxisId) -> String {
        format!("`{}#{}`", self.program.axis_name(axis), axis.0)
    }

    fn show(&self, axes: &[AxisId]) -> String {
        let name = |a: &AxisId| match self.program.axes.get(a.0 as usize) {
            Some(axis) => format!("{}#{}", axis.name, a.0),
            None => format!("#{}", a.0),
        };
        format!("[{}]", axes.iter().map(name).collect::<Vec<_>>().join(", "))
    }
}

/// An operand exists, comes before its user, and is an array.
fn operand(graph: &Graph, user: ValueId, v: ValueId, of_out: bool) -> Checked {
    let Some(node) = graph.nodes.get(v.0 as usize) else { return Err(format!("its operand %{} does not exist", v.0)) };
    ensure!(v < user, "its operand %{} does not come before it", v.0);
    let is_scan = matches!(node.op, Op::Scan(_));
    ensure!(!is_scan || of_out, "its operand %{} is a scan; take one of its values by `out`", v.0);
    Ok(())
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Checked {
    let mut seen = HashSet::new();
    for name in names {
        ensure!(seen.insert(name), "two {what}s are called `{name}`");
    }
    Ok(())
}

/// The same axes in any order; `a` has none twice.
fn same(a: &[AxisId], b: &[AxisId]) -> bool {
    a.len() == b.len() && a.iter().all(|x| b.contains(x))
}

fn without(axes: &[AxisId], gone: &[AxisId]) -> Vec<AxisId> {
    axes.iter().copied().filter(|a| !gone.contains(a)).collect()
}

fn replace(axes: &[AxisId], axis: AxisId, by: &[AxisId]) -> Vec<AxisId> {
    axes.iter().flat_map(|a| if *a == axis { by } else { std::slice::from_ref(a) }).copied().collect()
}
