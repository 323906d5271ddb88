//! Dead code: nodes that no result needs, and of scans the outputs, carries and operands that nobody reads.
//!
//! What is needed is found from the results on, through scans: a value taken out of a scan needs one result of its body;
//! a parameter that is read needs its operand, and if it is a carry, the result that it goes on with. So a carry that
//! only feeds itself is not needed. The interface (inputs, outputs, draws) and the axes stay as they are.

use std::collections::HashMap;

use crate::ir::{Graph, Node, Op, Program, Scan, ValueId};
use crate::pass::Pass;

/// The pass as it stands in its list.
pub(crate) const PASS: Pass = Pass {
    name: "dce",
    about: "Dead code elimination: removes what no output needs, carries and results of loops among it.",
    run: |program, _| dce(program),
};

/// Removes what no output needs.
pub fn dce(program: &mut Program) {
    let mut needs = Needs { levels: Vec::new(), work: Vec::new() };
    needs.enter(&program.graph, None);
    for i in 0..program.graph.results.len() {
        needs.result(0, i);
    }
    while let Some((level, v)) = needs.work.pop() {
        needs.value(level, v);
    }
    program.graph = needs.rebuild(0);
}

/// Removes the nodes of one graph that no result needs; scans stay whole.
pub(super) fn sweep(graph: &mut Graph) {
    let mut needed = vec![false; graph.nodes.len()];
    graph.results.iter().for_each(|v| needed[v.0 as usize] = true);
    for (i, node) in graph.nodes.iter().enumerate().rev() {
        if needed[i] {
            node.op.operands(|v| needed[v.0 as usize] = true);
        }
    }
    let mut new_of = Vec::with_capacity(graph.nodes.len());
    let mut kept = 0;
    for needed in &needed {
        new_of.push(ValueId(kept));
        kept += u32::from(*needed);
    }
    let new = |v: ValueId| new_of[v.0 as usize];
    let nodes = std::mem::take(&mut graph.nodes).into_iter().zip(needed).filter(|(_, needed)| *needed);
    graph.nodes = nodes.map(|(n, _)| Node { op: n.op.map_operands(new), ..n }).collect();
    graph.results.iter_mut().for_each(|v| *v = new(*v));
}

/// One graph: the program's own or the body of a scan.
struct Level<'g> {
    graph: &'g Graph,
    /// The level and the scan that it is the body of.
    outer: Option<(usize, &'g Scan)>,
    nodes: Vec<bool>,
    results: Vec<bool>,
    /// By number; for bodies.
    params: Vec<bool>,
    /// Levels of the bodies of its scans.
    bodies: HashMap<ValueId, usize>,
}

struct Needs<'g> {
    levels: Vec<Level<'g>>,
    work: Vec<(usize, ValueId)>,
}

impl<'g> Needs<'g> {
    fn enter(&mut self, graph: &'g Graph, outer: Option<(usize, &'g Scan)>) -> usize {
        let level = self.levels.len();
        let params = outer.map_or(0, |(_, scan)| scan.init.len() + scan.xs.len() + scan.consts.len());
        self.levels.push(Level {
            graph,
            outer,
            nodes: vec![false; graph.nodes.len()],
            results: vec![false; graph.results.len()],
            params: vec![false; params],
            bodies: HashMap::new(),
        });
        for (i, node) in graph.nodes.iter().enumerate() {
            if let Op::Scan(scan) = &node.op {
                let body = self.enter(&scan.body, Some((level, scan)));
                self.levels[level].bodies.insert(ValueId(i as u32), body);
            }
        }
        level
    }

    /// A result is needed; if it is what a carry goes on with, so is what the carry starts from.
    fn result(&mut self, level: usize, index: usize) {
        let here = &mut self.levels[level];
        if std::mem::replace(&mut here.results[index], true) {
            return;
        }
        self.work.push((level, here.graph.results[index]));
        if let Some((outer, scan)) = here.outer
            && let Some(init) = scan.init.get(index)
        {
            self.work.push((outer, *init));
        }
    }

    fn value(&mut self, level: usize, v: ValueId) {
        let here = &mut self.levels[level];
        if std::mem::replace(&mut here.nodes[v.0 as usize], true) {
            return;
        }
        match &here.graph.node(v).op {
            Op::Out { scan, index } => {
                here.nodes[scan.0 as usize] = true;
                let body = here.bodies[scan];
                self.result(body, *index as usize);
            }
            Op::Param(p) => {
                let Some((outer, scan)) = here.outer else { return };
                let p = *p as usize;
                here.params[p] = true;
                match p.checked_sub(scan.init.len()) {
                    None => self.result(level, p),
                    Some(p) => self.work.extend(scan.xs.iter().chain(&scan.consts).nth(p).map(|v| (outer, *v))),
                }
            }
            op => op.operands(|v| self.work.push((level, v))),
        }
    }

    fn rebuild(&self, level: usize) -> Graph {
        let here = &self.levels[level];
        let mut graph = Graph::default();
        let mut new_of = vec![ValueId(0); here.nodes.len()];
        for (i, node) in here.graph.nodes.iter().enumerate() {
            if !here.nodes[i] {
                continue;
            }
            let op = match &node.op {
                Op::Scan(scan) => Op::Scan(Box::new(self.scan(here.bodies[&ValueId(i as u32)], scan, &new_of))),
                Op::Out { scan, index } => {
                    let results = &self.levels[here.bodies[scan]].results;
                    Op::Out { scan: new_of[scan.0 as usize], index: place(results, *index as usize) }
                }
                Op::Param(p) => Op::Param(place(&self.given(level), *p as usize)),
                op => op.clone().map_operands(|v| new_of[v.0 as usize]),
            };
            new_of[i] = graph.push(op, node.axes.clone(), node.span);
        }
        let results = here.graph.results.iter().zip(&here.results).filter(|(_, needed)| **needed);
        graph.results = results.map(|(v, _)| new_of[v.0 as usize]).collect();
        graph
    }

    fn scan(&self, body: usize, scan: &Scan, new_of: &[ValueId]) -> Scan {
        let given = self.given(body);
        let (carries, steps) = (scan.init.len(), scan.init.len() + scan.xs.len());
        let kept = |values: &[ValueId], needed: &[bool]| -> Vec<ValueId> {
            values.iter().zip(needed).filter(|(_, needed)| **needed).map(|(v, _)| new_of[v.0 as usize]).collect()
        };
        Scan {
            axis: scan.axis,
            direction: scan.direction,
            init: kept(&scan.init, &given[..carries]),
            xs: kept(&scan.xs, &given[carries..steps]),
            consts: kept(&scan.consts, &given[steps..]),
            body: self.rebuild(body),
        }
    }

    /// Which parameters a body is still given: carries that go on, and others that are read.
    fn given(&self, level: usize) -> Vec<bool> {
        let here = &self.levels[level];
        let carries = here.outer.map_or(0, |(_, scan)| scan.init.len());
        [&here.results[..carries], &here.params[carries..]].concat()
    }
}

/// The new number of something that is kept.
fn place(kept: &[bool], old: usize) -> u32 {
    kept[..old].iter().filter(|k| **k).count() as u32
}
