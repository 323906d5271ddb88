//! Which axes of which values are the same rows: classes of dimensions.
//!
//! A dimension is an axis of one value. Operations that line values up, or give an axis another name, make dimensions
//! one class, but for names that tell samples from each other: where a value has an axis under both names, the rename is
//! one that crosses rows. A class along which almost all the work is done independently makes good rows: [`Dims::parallel`].

use std::collections::{HashMap, HashSet};

use crate::ir::{AxisId, Composite, Graph, Op, Program, Role, Scan, ValueId};

/// A class of dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Class(u32);

/// A graph of the program: the whole program's, or the body of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GraphId(pub u32);

/// The classes of all dimensions of a program.
#[derive(Debug)]
pub(crate) struct Dims {
    /// By graph: the number of each value's first dimension.
    first: Vec<Vec<u32>>,
    /// The graphs of scans: by the graph and the value.
    bodies: HashMap<(GraphId, ValueId), GraphId>,
    /// By dimension: the number of its value's first one.
    values: Vec<u32>,
    parent: Vec<u32>,
    sizes: Vec<usize>,
    /// Renames between two classes.
    apart: HashSet<(GraphId, ValueId)>,
    /// Classes that a loop runs along, or that a parameter has.
    taken: Vec<bool>,
    parallel: Vec<Class>,
}

/// An axis that has got another name, by the classes that both have otherwise.
struct Renamed {
    node: (GraphId, ValueId),
    from: Class,
    to: Class,
}

/// A class is worth being rows if this part of all products is done along it; one of several, if almost all are: where
/// there are rows enough, axes that only a part of the work has had better share weights inside a row.
const SHARE: f64 = 0.3;
const SHARE_OF_MORE: f64 = 0.8;

impl Dims {
    pub(crate) fn new(program: &Program) -> Dims {
        let mut dims = Dims {
            first: Vec::new(),
            bodies: HashMap::new(),
            values: Vec::new(),
            parent: Vec::new(),
            sizes: Vec::new(),
            apart: HashSet::new(),
            taken: Vec::new(),
            parallel: Vec::new(),
        };
        dims.number(program, &program.graph);
        dims.taken = vec![false; dims.parent.len()];
        let mut renames = Vec::new();
        dims.unite(&program.graph, ROOT, &mut renames);
        dims.unite_renamed(renames);
        for at in 0..dims.parent.len() as u32 {
            dims.parent[at as usize] = dims.find(at).0;
        }
        dims.take(program, &program.graph, ROOT);
        dims.parallel = dims.choose(program);
        dims
    }

    /// The classes that make up rows, in order of their first appearance.
    pub(crate) fn parallel(&self) -> &[Class] {
        &self.parallel
    }

    /// The axes that are rows of some value.
    pub(crate) fn row_axes(&self, program: &Program) -> Vec<AxisId> {
        fn collect(dims: &Dims, graph: &Graph, id: GraphId, found: &mut Vec<AxisId>) {
            for (v, node) in graph.ids().zip(&graph.nodes) {
                let rows = node.axes.iter().filter(|a| dims.class(graph, id, v, **a).is_some_and(|c| dims.parallel.contains(&c)));
                found.extend(rows);
                if let Op::Scan(scan) = &node.op {
                    collect(dims, &scan.body, dims.body(id, v), found);
                }
            }
        }
        let mut found = Vec::new();
        collect(self, &program.graph, ROOT, &mut found);
        found.sort();
        found.dedup();
        found
    }

    pub(crate) fn size(&self, class: Class) -> usize {
        self.sizes[class.0 as usize]
    }

    pub(crate) fn body(&self, graph: GraphId, scan: ValueId) -> GraphId {
        self.bodies[&(graph, scan)]
    }

    /// The class of an axis of a value.
    pub(crate) fn class(&self, graph: &Graph, id: GraphId, v: ValueId, axis: AxisId) -> Option<Class> {
        let at = graph.axes(v).iter().position(|a| *a == axis)?;
        Some(self.find(self.first[id.0 as usize][v.0 as usize] + at as u32))
    }

    /// The axis of a value that belongs to a class.
    pub(crate) fn axis(&self, graph: &Graph, id: GraphId, v: ValueId, class: Class) -> Option<AxisId> {
        graph.axes(v).iter().copied().find(|a| self.class(graph, id, v, *a) == Some(class))
    }

    /// The parallel classes that a node's work goes along without crossing rows, and whether it crosses any.
    pub(crate) fn rows(&self, graph: &Graph, id: GraphId, v: ValueId) -> (Vec<Class>, bool) {
        let crossed = self.crossed(graph, id, v);
        let rows = |c: &&Class| self.axis(graph, id, v, **c).is_some() && !crossed.contains(c);
        (self.parallel.iter().filter(rows).copied().collect(), !crossed.is_empty())
    }

    /// The parallel classes that a node crosses.
    pub(crate) fn crossed(&self, graph: &Graph, id: GraphId, v: ValueId) -> Vec<Class> {
        let mut crossed = Vec::new();
        let mut cross = |of: ValueId, axis: AxisId| {
            if let Some(c) = self.class(graph, id, of, axis)
                && self.parallel.contains(&c)
                && !crossed.contains(&c)
            {
                crossed.push(c);
            }
        };
        match &graph.node(v).op {
            Op::Reduce { of, over, .. } => over.iter().for_each(|a| cross(*of, *a)),
            Op::Dot { a, b, over } => over.iter().for_each(|x| {
                cross(*a, *x);
                cross(*b, *x);
            }),
            Op::Composite(Composite::Softmax(a) | Composite::LogSoftmax(a) | Composite::LogSumExp(a), of) => cross(*of, *a),
            Op::Slice { of, axis, into, .. } | Op::Pad { of, axis, into, .. } => {
                cross(*of, *axis);
                cross(v, *into);
            }
            Op::Split { of, axis, into } => {
                cross(*of, *axis);
                into.iter().for_each(|a| cross(v, *a));
            }
            Op::Join { of, axes, into } => {
                axes.iter().for_each(|a| cross(*of, *a));
                cross(v, *into);
            }
            Op::Concat { parts, along, into } => {
                parts.iter().zip(along).for_each(|(p, a)| cross(*p, *a));
                cross(v, *into);
            }
            Op::Gather { of, axis, .. } => cross(*of, *axis),
            Op::Scatter { at, over, into, .. } => {
                over.iter().for_each(|a| cross(*at, *a));
                cross(v, *into);
            }
            Op::Argsort { of, axis } => cross(*of, *axis),
            Op::Rename { of, from, to } => {
                if self.apart.contains(&(id, v)) {
                    cross(*of, *from);
                    cross(v, *to);
                }
            }
            Op::Scan(scan) => {
                let inner = self.body(id, v);
                for b in scan.body.ids() {
                    for c in self.crossed(&scan.body, inner, b) {
                        if !crossed.contains(&c) {
                            crossed.push(c);
                        }
                    }
                }
            }
            Op::Input(_)
            | Op::Param(_)
            | Op::Const(_)
            | Op::Iota(_)
            | Op::Random { .. }
            | Op::Unary(..)
            | Op::Add(..)
            | Op::Mul(..)
            | Op::Max(..)
            | Op::Less(..)
            | Op::Where(..)
            | Op::Composite(..)
            | Op::Expand(_)
            | Op::Out { .. }
            | Op::Stop(_)
            | Op::Id(_) => {}
        }
        crossed
    }

    /// All parallel classes that occur in a graph's values.
    pub(crate) fn inside(&self, graph: &Graph, id: GraphId) -> Vec<Class> {
        let occurs = |c: &&Class| {
            graph.ids().any(|v| {
                let nested = matches!(&graph.node(v).op, Op::Scan(s) if self.inside(&s.body, self.body(id, v)).contains(c));
                nested || self.axis(graph, id, v, **c).is_some()
            })
        };
        self.parallel.iter().filter(occurs).copied().collect()
    }

    fn number(&mut self, program: &Program, graph: &Graph) -> GraphId {
        let id = GraphId(self.first.len() as u32);
        self.first.push(Vec::new());
        let mut first = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            first.push(self.parent.len() as u32);
            let next = self.parent.len() as u32;
            self.parent.extend(next..next + node.axes.len() as u32);
            self.values.extend(node.axes.iter().map(|_| next));
            self.sizes.extend(node.axes.iter().map(|a| program.size(*a)));
        }
        self.first[id.0 as usize] = first;
        for (v, node) in graph.ids().zip(&graph.nodes) {
            if let Op::Scan(scan) = &node.op {
                let body = self.number(program, &scan.body);
                self.bodies.insert((id, v), body);
            }
        }
        id
    }

    fn find(&self, mut at: u32) -> Class {
        while self.parent[at as usize] != at {
            at = self.parent[at as usize];
        }
        Class(at)
    }

    fn join(&mut self, a: Option<Class>, b: Option<Class>) {
        if let (Some(a), Some(b)) = (a, b) {
            let (low, high) = (a.0.min(b.0), a.0.max(b.0));
            self.parent[high as usize] = low;
        }
    }

    /// Makes one class of the axis `x` of `a` in one graph and `y` of `b` in another.
    fn same(&mut self, (g, i, a, x): (&Graph, GraphId, ValueId, AxisId), (h, j, b, y): (&Graph, GraphId, ValueId, AxisId)) {
        let (left, right) = (self.class(g, i, a, x), self.class(h, j, b, y));
        self.join(left, right);
    }

    /// Leaves aside what has got another name.
    fn unite(&mut self, graph: &Graph, id: GraphId, renames: &mut Vec<Renamed>) {
        for (v, node) in graph.ids().zip(&graph.nodes) {
            // Axes that go, or come, by themselves; all others stay what they are.
            match &node.op {
                Op::Rename { of, from, to } => {
                    if let (Some(from), Some(to)) = (self.class(graph, id, *of, *from), self.class(graph, id, v, *to)) {
                        renames.push(Renamed { node: (id, v), from, to });
                    }
                    self.stay(graph, id, *of, v, &[*from, *to]);
                }
                Op::Dot { a, b, over } => {
                    over.iter().for_each(|x| self.same((graph, id, *a, *x), (graph, id, *b, *x)));
                    self.stay(graph, id, *a, v, over);
                    self.stay(graph, id, *b, v, over);
                }
                Op::Reduce { of, over, .. } => self.stay(graph, id, *of, v, over),
                Op::Split { of, axis, into } => self.stay(graph, id, *of, v, &[&[*axis], &into[..]].concat()),
                Op::Join { of, axes, into } => self.stay(graph, id, *of, v, &[&axes[..], &[*into]].concat()),
                Op::Slice { of, axis, into, .. } | Op::Pad { of, axis, into, .. } => {
                    self.stay(graph, id, *of, v, &[*axis, *into]);
                }
                Op::Concat { parts, along, into } => {
                    for (p, a) in parts.iter().zip(along) {
                        self.stay(graph, id, *p, v, &[*a, *into]);
                    }
                }
                Op::Gather { of, axis, at } => {
                    self.stay(graph, id, *of, v, &[*axis]);
                    self.stay(graph, id, *at, v, &[]);
                }
                Op::Scatter { of, at, over, into } => {
                    self.stay(graph, id, *of, v, &[&over[..], &[*into]].concat());
                    self.stay(graph, id, *at, v, &[&over[..], &[*into]].concat());
                    for a in graph.axes(*at) {
                        self.same((graph, id, *at, *a), (graph, id, *of, *a));
                    }
                }
                Op::Scan(scan) => self.unite_scan(graph, id, v, scan, renames),
                Op::Out { scan, index } => {
                    let Op::Scan(s) = &graph.node(*scan).op else { continue };
                    let body = self.body(id, *scan);
                    let result = s.body.results[*index as usize];
                    for a in &node.axes {
                        self.same((graph, id, v, *a), (&s.body, body, result, *a));
                    }
                }
                op => op.operands(|x| self.stay(graph, id, x, v, &[])),
            }
        }
    }

    /// Axes of an operand that the value has too are the same, but for some.
    fn stay(&mut self, graph: &Graph, id: GraphId, of: ValueId, v: ValueId, but: &[AxisId]) {
        for a in graph.axes(of) {
            if !but.contains(a) {
                self.same((graph, id, of, *a), (graph, id, v, *a));
            }
        }
    }

    /// An axis under another name is the same, unless some value has both.
    fn unite_renamed(&mut self, renames: Vec<Renamed>) {
        let mut values: HashMap<Class, HashSet<u32>> = HashMap::new();
        for (dim, value) in (0..).zip(&self.values) {
            values.entry(self.find(dim)).or_default().insert(*value);
        }
        for Renamed { node, from, to } in renames {
            let (a, b) = (self.find(from.0), self.find(to.0));
            if a == b {
                continue;
            }
            let [x, y] = [a, b].map(|class| values.remove(&class).unwrap_or_default());
            if x.is_disjoint(&y) {
                self.join(Some(a), Some(b));
                let (mut more, fewer) = if x.len() < y.len() { (y, x) } else { (x, y) };
                more.extend(fewer);
                values.insert(self.find(a.0), more);
            } else {
                self.apart.insert(node);
                values.extend([(a, x), (b, y)]);
            }
        }
    }

    fn unite_scan(&mut self, graph: &Graph, id: GraphId, v: ValueId, scan: &Scan, renames: &mut Vec<Renamed>) {
        let body = self.body(id, v);
        self.unite(&scan.body, body, renames);
        let operands: Vec<ValueId> = scan.init.iter().chain(&scan.xs).chain(&scan.consts).copied().collect();
        for (p, node) in scan.body.ids().zip(&scan.body.nodes) {
            if let Op::Param(number) = node.op {
                let of = operands[number as usize];
                for a in graph.axes(of) {
                    self.same((graph, id, of, *a), (&scan.body, body, p, *a));
                }
                if let Some(result) = scan.body.results.get(number as usize).filter(|_| (number as usize) < scan.init.len()) {
                    for a in scan.body.axes(*result) {
                        self.same((&scan.body, body, *result, *a), (&scan.body, body, p, *a));
                    }
                }
            }
        }
    }

    fn take(&mut self, program: &Program, graph: &Graph, id: GraphId) {
        for (v, node) in graph.ids().zip(&graph.nodes) {
            let mut classes = Vec::new();
            match &node.op {
                Op::Input(i) => {
                    let role = program.inputs[*i as usize].role;
                    if matches!(role, Role::Param | Role::Slow | Role::Slot) {
                        classes.extend(node.axes.iter().map(|a| self.class(graph, id, v, *a)));
                    }
                }
                Op::Scan(scan) => {
                    classes.extend(scan.xs.iter().map(|x| self.class(graph, id, *x, scan.axis)));
                    self.take(program, &scan.body, self.body(id, v));
                }
                Op::Out { scan, .. } => {
                    if let Op::Scan(s) = &graph.node(*scan).op {
                        classes.push(self.class(graph, id, v, s.axis));
                    }
                }
                _ => {}
            }
            // A class that a value has twice cannot be told from itself.
            let all: Vec<Class> = node.axes.iter().filter_map(|a| self.class(graph, id, v, *a)).collect();
            classes.extend(all.iter().filter(|c| all.iter().filter(|d| d == c).count() > 1).map(|c| Some(*c)));
            for class in classes.into_iter().flatten() {
                self.taken[class.0 as usize] = true;
            }
        }
    }

    /// Multiplications done along each class, and in all.
    fn choose(&self, program: &Program) -> Vec<Class> {
        let mut along: HashMap<Class, f64> = HashMap::new();
        let mut total = 0.0;
        self.count(program, &program.graph, ROOT, 1.0, &mut along, &mut total);
        let mut free: Vec<(Class, f64)> = along.into_iter().filter(|(c, _)| !self.taken[c.0 as usize]).collect();
        free.sort_by(|(c, x), (d, y)| y.total_cmp(x).then(c.cmp(d)));
        let worth = |(i, (_, work)): &(usize, (Class, f64))| *work >= if *i == 0 { SHARE } else { SHARE_OF_MORE } * total;
        let mut chosen: Vec<Class> = free.into_iter().enumerate().filter(worth).map(|(_, (c, _))| c).collect();
        chosen.sort();
        chosen
    }

    fn count(&self, program: &Program, graph: &Graph, id: GraphId, times: f64, along: &mut HashMap<Class, f64>, total: &mut f64) {
        for (v, node) in graph.ids().zip(&graph.nodes) {
            match &node.op {
                Op::Dot { over, .. } => {
                    let work = times * (program.len(&node.axes) * program.len(over)) as f64;
                    *total += work;
                    for a in &node.axes {
                        if let Some(c) = self.class(graph, id, v, *a) {
                            *along.entry(c).or_default() += work;
                        }
                    }
                }
                Op::Scan(scan) => {
                    let steps = program.size(scan.axis) as f64;
                    self.count(program, &scan.body, self.body(id, v), times * steps, along, total);
                }
                _ => {}
            }
        }
    }
}

/// The program's own graph.
pub(crate) const ROOT: GraphId = GraphId(0);
