//! Which nodes make one kernel: groups of a graph's work.
//!
//! A node goes to the rows that its work is independent along. Nodes over the same rows are one group unless something
//! lies between them that crosses rows or has other rows; a stage counts how often that happened on the way from the
//! inputs. So groups are as large as they can be, and those of one stage do not depend on each other.

use std::collections::{BTreeMap, BTreeSet};

use super::dims::{Class, Dims, GraphId, ROOT};
use super::shape::{Kind, Root, Shape, Use};
use super::{Level, Rows};
use crate::ir::{AxisId, Composite, Graph, Op, Program, Reduction, Role, ValueId};

/// How a group's work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum How {
    Tile,
    /// A sum over rows.
    Contract,
    Random,
    /// A loop of steps.
    Loop,
}

#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub how: How,
    pub rows: Rows,
    pub nodes: Vec<ValueId>,
    /// Numbers of others that it computes for itself.
    pub riders: BTreeSet<ValueId>,
    /// Depends on parameters alone.
    pub prepared: bool,
    pub stage: usize,
}

#[derive(Debug)]
pub(crate) struct Partition {
    pub groups: Vec<Group>,
    /// The group of each work node.
    pub group_of: BTreeMap<ValueId, usize>,
}

/// What two nodes must agree in to be one group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    not_prepared: bool,
    stage: usize,
    how: How,
    rows: Rows,
    /// The node itself where nothing may join it.
    lone: Option<ValueId>,
}

/// Nodes by what they must agree in.
struct Stages {
    keys: BTreeMap<ValueId, Key>,
    groups: BTreeMap<Key, Vec<ValueId>>,
}

pub(crate) fn partition(program: &Program, dims: &Dims, level: Level, graph: &Graph, id: GraphId, shape: &Shape) -> Partition {
    let ctx = Ctx { program, dims, level, graph, id, shape };
    let prepared = ctx.prepared();
    let riders = ctx.riders(&prepared);
    let mut stages = ctx.stages(&prepared, &riders, &BTreeMap::new());
    let mut least = BTreeMap::new();
    for _ in 0..stages.groups.len() {
        let Some(late) = ctx.late(&stages) else { break };
        least.extend(late);
        stages = ctx.stages(&prepared, &riders, &least);
    }
    let Stages { keys, groups } = stages;
    let tiles = |v: ValueId| keys.get(&v).is_some_and(|key| key.how == How::Tile);
    let groups: Vec<Group> = groups
        .into_iter()
        .map(|(Key { not_prepared, stage, how, rows, .. }, mut nodes)| {
            nodes.retain(|v| !riders.contains(v) || ctx.stands_alone(*v, &tiles));
            let own = nodes.iter().copied().filter(|_| how == How::Tile).collect();
            let riders = ctx.closure(own, &riders);
            Group { how, rows, nodes, riders, prepared: !not_prepared, stage }
        })
        .filter(|group| !group.nodes.is_empty())
        .collect();
    let group_of = groups.iter().enumerate().flat_map(|(g, group)| group.nodes.iter().map(move |v| (*v, g))).collect();
    Partition { groups, group_of }
}

struct Ctx<'a> {
    program: &'a Program,
    dims: &'a Dims,
    level: Level,
    graph: &'a Graph,
    id: GraphId,
    shape: &'a Shape,
}

impl Ctx<'_> {
    /// Every node as early as it can be, but no earlier than `least` says.
    fn stages(&self, prepared: &[bool], riders: &BTreeSet<ValueId>, least: &BTreeMap<ValueId, usize>) -> Stages {
        let mut keys: BTreeMap<ValueId, Key> = BTreeMap::new();
        let mut groups: BTreeMap<Key, Vec<ValueId>> = BTreeMap::new();
        for v in self.shape.work() {
            let (how, rows) = self.how(v);
            let not_prepared = !prepared[v.0 as usize];
            let lone = (self.level == Level::Eager || how != How::Tile).then_some(v);
            let starts = self.level == Level::Fused && self.product(v, &rows);
            let mut stage = least.get(&v).copied().unwrap_or(0);
            for root in &self.shape.reads[&v] {
                if let Some(of) = keys.get(&root.0) {
                    if !of.not_prepared && not_prepared || how == How::Tile && riders.contains(&root.0) {
                        continue;
                    }
                    let same = of.how == how && of.rows == rows && !self.other_rows(v, *root, &rows);
                    let joins = !starts && lone.is_none() && of.lone.is_none() && same;
                    stage = stage.max(of.stage + usize::from(!joins));
                }
            }
            let key = Key { not_prepared, stage, how, rows, lone };
            groups.entry(key.clone()).or_default().push(v);
            keys.insert(v, key);
        }
        Stages { keys, groups }
    }

    /// Two groups over the same rows become one where the second waits for little of the first: what crosses rows on the way
    /// between them (how many rows a loss counts, say) is computed from that little, and the rest of the first group waits, too.
    /// Then what one leaves for the other stays near. The nodes that are to wait, with their stage.
    fn late(&self, stages: &Stages) -> Option<BTreeMap<ValueId, usize>> {
        if self.level != Level::Mega {
            return None;
        }
        let over_rows = |key: &Key| key.how == How::Tile && key.not_prepared && matches!(key.rows, Rows::Classes(_));
        let tiles = stages.groups.keys().filter(|key| over_rows(key));
        tiles.clone().find_map(|first| {
            let second = tiles.clone().find(|next| next.rows == first.rows && next.stage > first.stage)?;
            let (early, near) = self.near(&stages.keys, first, second);
            let rest: BTreeMap<_, _> =
                stages.groups[first].iter().filter(|v| !early.contains(v)).map(|v| (*v, second.stage)).collect();
            let reads = |v: &ValueId| self.shape.reads[v].iter().any(|root| rest.contains_key(&root.0));
            let heavy = |v: &ValueId| matches!(self.graph.node(*v).op, Op::Scan(_) | Op::Dot { .. });
            (near.iter().any(reads) && near.iter().any(heavy)).then_some(rest)
        })
    }

    /// The nodes of the second group that wait for no more than a little of the first by way of others, and that little.
    fn near(&self, keys: &BTreeMap<ValueId, Key>, first: &Key, second: &Key) -> (BTreeSet<ValueId>, Vec<ValueId>) {
        // What nodes need of the first group apart from it; none where that is not little.
        let mut needs: BTreeMap<ValueId, Option<BTreeSet<ValueId>>> = BTreeMap::new();
        let mut near = Vec::new();
        for (v, key) in keys {
            let own = key == first;
            let mut need = (!own || self.is_little(*v)).then(BTreeSet::new);
            for root in &self.shape.reads[v] {
                let joins = key == second && keys.get(&root.0) == Some(first) && !self.other_rows(*v, *root, &key.rows);
                if let (Some(of), false) = (needs.get(&root.0), joins) {
                    need = need.zip(of.as_ref()).map(|(a, b)| a.union(b).copied().collect());
                }
            }
            if own && let Some(need) = &mut need {
                need.insert(*v);
            }
            if key == second && need.is_some() {
                near.push(*v);
            }
            needs.insert(*v, need);
        }
        let early = near.iter().filter_map(|v| needs[v].as_ref()).flatten().copied().collect();
        (early, near)
    }

    /// Whether it is no effort to compute a value apart from its group.
    fn is_little(&self, v: ValueId) -> bool {
        let plain = matches!(
            self.graph.node(v).op,
            Op::Unary(..) | Op::Add(..) | Op::Mul(..) | Op::Max(..) | Op::Less(..) | Op::Where(..) | Op::Reduce { .. }
        );
        plain && self.is_few(v)
    }

    /// A few numbers a row.
    fn is_few(&self, v: ValueId) -> bool {
        let rows = self.classes(v);
        let entries = self.graph.axes(v).iter().filter(|a| {
            let class = self.dims.class(self.graph, self.id, v, **a);
            class.is_none_or(|class| !rows.contains(&class))
        });
        entries.map(|a| self.program.size(*a)).product::<usize>() <= RIDER
    }

    /// Which values depend on nothing but parameters. Inside a loop of steps none count: they would have left it.
    fn prepared(&self) -> Vec<bool> {
        if self.id != ROOT {
            return vec![false; self.graph.nodes.len()];
        }
        let mut prepared: Vec<bool> = Vec::with_capacity(self.graph.nodes.len());
        for (v, node) in self.graph.ids().zip(&self.graph.nodes) {
            let known = match &node.op {
                // The buffers of a loop of steps are not kept.
                Op::Scan(_) if self.how(v).0 == How::Loop => false,
                Op::Input(i) => matches!(self.program.inputs[*i as usize].role, Role::Param | Role::Slow),
                Op::Param(_) | Op::Random { .. } => false,
                op => {
                    let mut all = true;
                    op.operands(|x| all &= prepared[x.0 as usize]);
                    all
                }
            };
            prepared.push(known);
        }
        prepared
    }

    /// Small values made of what is there from the start, such as `1 - alpha`, or a planner's deviation that all its candidates
    /// read. A kernel that reads one computes it for itself, rather than wait for another kernel to do so.
    fn riders(&self, prepared: &[bool]) -> BTreeSet<ValueId> {
        let mut riders = BTreeSet::new();
        if self.level != Level::Mega {
            return riders;
        }
        for v in self.shape.work() {
            let op = &self.graph.node(v).op;
            let plain = matches!(op, Op::Unary(..) | Op::Add(..) | Op::Mul(..) | Op::Max(..) | Op::Less(..) | Op::Where(..));
            let there =
                |x: ValueId| prepared[x.0 as usize] || self.shape.kinds[x.0 as usize] == Kind::Source || riders.contains(&x);
            let from_start = plain && !prepared[v.0 as usize] && self.shape.reads[&v].iter().all(|root| there(root.0));
            if from_start && (self.is_number(v) || self.is_small_for_all(v)) {
                riders.insert(v);
            }
        }
        riders
    }

    /// A single number of single numbers.
    fn is_number(&self, v: ValueId) -> bool {
        let number = |v: ValueId| self.graph.axes(v).is_empty();
        number(v) && self.shape.reads[&v].iter().all(|root| number(root.0))
    }

    /// A few numbers a row, read by kernels with more rows and by nobody else.
    fn is_small_for_all(&self, v: ValueId) -> bool {
        let own = self.classes(v);
        let more = |u: &Use| match u {
            Use::Result(_) => false,
            Use::Node(c) => match self.how(*c) {
                (How::Tile, Rows::Classes(rows)) => rows.len() > own.len() && own.iter().all(|class| rows.contains(class)),
                _ => false,
            },
        };
        let uses = self.shape.uses(Root(v, 0));
        self.is_few(v) && !own.is_empty() && !uses.is_empty() && uses.iter().all(more)
    }

    /// Whether somebody needs a rider who cannot compute it: a result, or a loop of steps.
    fn stands_alone(&self, v: ValueId, tiles: &dyn Fn(ValueId) -> bool) -> bool {
        self.shape.uses(Root(v, 0)).iter().any(|u| match u {
            Use::Result(_) => true,
            Use::Node(c) => !tiles(*c),
        })
    }

    /// The riders that these nodes need and are not.
    fn closure(&self, nodes: Vec<ValueId>, riders: &BTreeSet<ValueId>) -> BTreeSet<ValueId> {
        let mut found = BTreeSet::new();
        let nodes: BTreeSet<ValueId> = nodes.into_iter().collect();
        let mut open: Vec<ValueId> = nodes.iter().copied().collect();
        while let Some(v) = open.pop() {
            let more = self.shape.reads[&v].iter().map(|root| root.0).filter(|x| riders.contains(x) && !nodes.contains(x));
            open.extend(more.filter(|x| found.insert(*x)));
        }
        found
    }

    fn how(&self, v: ValueId) -> (How, Rows) {
        let (graph, id) = (self.graph, self.id);
        let node = graph.node(v);
        let (rows, crosses) = self.dims.rows(graph, id, v);
        match &node.op {
            Op::Random { .. } => return (How::Random, Rows::Axes(Vec::new())),
            Op::Scan(scan) => {
                let inside = self.dims.inside(&scan.body, self.dims.body(id, v));
                return match self.level == Level::Mega && !crosses {
                    true if inside.is_empty() => (How::Tile, Rows::Axes(Vec::new())),
                    true => (How::Tile, Rows::Classes(inside)),
                    false => (How::Loop, Rows::Axes(Vec::new())),
                };
            }
            Op::Dot { a, b, over } if crosses && rows.is_empty() => {
                let crossed = self.dims.crossed(graph, id, v);
                let all = |x: ValueId| self.classes(x) == crossed && over.iter().all(|o| graph.axes(x).contains(o));
                if all(*a) && all(*b) {
                    return (How::Contract, Rows::Classes(crossed));
                }
            }
            Op::Reduce { op: Reduction::Sum, of, over } => {
                let crossed = self.dims.crossed(graph, id, v);
                if crosses && rows.is_empty() && self.classes(*of) == crossed {
                    return (How::Contract, Rows::Classes(crossed));
                }
                let axes = graph.axes(*of);
                let trailing = axes[axes.len() - over.len()..].iter().all(|a| over.contains(a));
                if rows.is_empty() && !crosses && trailing && self.program.len(over) >= CONTRACT {
                    let rows = axes[axes.len() - over.len()..].to_vec();
                    return (How::Contract, Rows::Axes(rows));
                }
            }
            _ => {}
        }
        if !rows.is_empty() {
            return (How::Tile, Rows::Classes(rows));
        }
        let flat = match &node.op {
            Op::Unary(..) | Op::Add(..) | Op::Mul(..) | Op::Max(..) | Op::Less(..) | Op::Where(..) => true,
            Op::Composite(c, _) => !matches!(c, Composite::Softmax(_) | Composite::LogSoftmax(_) | Composite::LogSumExp(_)),
            Op::Reduce { .. } | Op::Dot { .. } => true,
            _ => false,
        };
        (How::Tile, Rows::Axes(if flat { node.axes.clone() } else { Vec::new() }))
    }

    fn classes(&self, v: ValueId) -> Vec<Class> {
        self.dims.parallel().iter().copied().filter(|c| self.dims.axis(self.graph, self.id, v, *c).is_some()).collect()
    }

    /// Whether a node reads other rows of a value than its own: those that a cut of them leaves, or one for all.
    fn other_rows(&self, v: ValueId, root: Root, rows: &Rows) -> bool {
        let moves = |x: ValueId| match rows {
            Rows::Classes(rows) => self.dims.crossed(self.graph, self.id, x).iter().any(|class| rows.contains(class)),
            Rows::Axes(rows) => match &self.graph.node(x).op {
                Op::Slice { axis, .. } | Op::Pad { axis, .. } | Op::Gather { axis, .. } | Op::Split { axis, .. } => {
                    rows.contains(axis)
                }
                Op::Rename { from, .. } => rows.contains(from),
                Op::Join { axes, .. } => axes.iter().any(|a| rows.contains(a)),
                _ => false,
            },
        };
        let mut other = false;
        self.graph.node(v).op.operands(|x| {
            let mut x = x;
            while self.shape.roots[x.0 as usize] == Some(root)
                && let Kind::View(of) = self.shape.kinds[x.0 as usize]
            {
                other |= moves(x);
                x = of;
            }
        });
        other
    }

    /// Whether a node is a product of rows and weights, which the level `fused` starts a kernel with.
    fn product(&self, v: ValueId, rows: &Rows) -> bool {
        let Op::Dot { a, b, .. } = &self.graph.node(v).op else { return false };
        let Rows::Classes(_) = rows else { return false };
        let weight = |x: ValueId| self.classes(x).is_empty() && !matches!(self.shape.kinds[x.0 as usize], Kind::Free(_));
        weight(*a) || weight(*b)
    }
}

/// Numbers of a row that are computed again rather than waited for.
const RIDER: usize = 64;

/// Sums of fewer entries are not worth a kernel of their own kind.
const CONTRACT: usize = 64;

/// Rows as axes, those of a value.
pub(crate) fn row_axes(rows: &Rows, dims: &Dims, graph: &Graph, id: GraphId, v: ValueId) -> Vec<Option<AxisId>> {
    match rows {
        Rows::Classes(classes) => classes.iter().map(|c| dims.axis(graph, id, v, *c)).collect(),
        Rows::Axes(axes) => axes.iter().map(|a| graph.axes(v).contains(a).then_some(*a)).collect(),
    }
}
