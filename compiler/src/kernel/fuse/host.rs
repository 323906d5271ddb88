//! The steps of a graph: kernels in the order of their stages, loops whose bodies cross rows (`carries`), and the buffers
//! and copies between (`copies`). `whole` has kernels without rows of their own, `reasons` the
//! words for `wmc explain`.

mod carries;
mod copies;
mod reasons;
mod whole;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use dsl::source::Span;

use super::dims::GraphId;
use super::launches;
use super::partition::{Group, How, Partition, partition, row_axes};
use super::shape::{Kind, Root, Shape, Use};
use super::spot::{At, Spot};
use super::tile::{Block, TileBuilder, has_room, lanes, named_back};
use super::{Fuser, Result, Rows};
use crate::ir::{AxisId, Graph, Op, ValueId};
use crate::kernel::{Base, BufferKind, Copy, Kernel, Lanes, Notes, Step, Stmt, View, Work};

/// The steps of a graph whose inputs, or parameters, are at `params` and whose results are wanted at `wanted`: those that
/// depend on parameters of the model alone, and the others.
pub(crate) fn steps(
    fuser: &mut Fuser<'_>,
    graph: &Graph,
    id: GraphId,
    params: &[Spot],
    wanted: &[At],
) -> Result<(Vec<Step>, Vec<Step>)> {
    let known = |p: u32| match &params[p as usize] {
        Spot::Affine(a) => Some(a.clone()),
        Spot::At(_) => None,
    };
    let shape = Rc::new(Shape::new(fuser.program, graph, &known));
    let parts = partition(fuser.program, &fuser.dims, fuser.level, graph, id, &shape);
    let mut host = Host {
        graph,
        id,
        shape,
        parts,
        places: HashMap::new(),
        homes: HashMap::new(),
        results: wanted.to_vec(),
        views: HashMap::new(),
        carries: HashMap::new(),
        written: HashSet::new(),
    };
    for v in graph.ids() {
        if let Op::Input(p) | Op::Param(p) = graph.node(v).op {
            host.places.insert(Root(v, 0), params[p as usize].clone());
        }
    }
    for (i, (v, at)) in graph.results.iter().zip(wanted).enumerate() {
        if let Some((root, at)) = named_back(graph, &host.shape, *v, at) {
            host.homes.entry(root).or_default().push((Want::Result(i), at));
        } else if let (Kind::View(_), Some(root)) = (&host.shape.kinds[v.0 as usize], host.shape.roots[v.0 as usize]) {
            host.views.entry(root.0).or_default().push(i);
        }
    }
    host.begin_loops(fuser);
    let mut stages: BTreeMap<(bool, usize), Vec<usize>> = BTreeMap::new();
    for (g, group) in host.parts.groups.iter().enumerate() {
        stages.entry((!group.prepared, group.stage)).or_default().push(g);
    }
    let (mut prepare, mut steps) = (Vec::new(), Vec::new());
    for ((not_prepared, _), groups) in stages {
        let out = if not_prepared { &mut steps } else { &mut prepare };
        host.stage(fuser, &groups, out)?;
    }
    let mut copies = Vec::new();
    for (i, (v, to)) in graph.results.iter().zip(wanted).enumerate() {
        if !host.written.contains(&Want::Result(i)) {
            let from = host.spot(fuser, *v, &mut copies)?;
            copies.push(host.copy(fuser, *v, &from, to, "an array of the caller is given as it is"));
        }
    }
    launches::launch(copies, &mut steps);
    Ok((prepare, launches::gather(steps)))
}

/// What a kernel reads of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Outside {
    Root(Root),
    View(ValueId),
}

type Import = (Outside, Spot, Vec<Option<AxisId>>);

struct Host<'g> {
    graph: &'g Graph,
    id: GraphId,
    shape: Rc<Shape>,
    parts: Partition,
    places: HashMap<Root, Spot>,
    /// Where values are wanted: by whom, and the places in the axes of what computes them.
    homes: HashMap<Root, Vec<(Want, At)>>,
    /// Where the graph's results are wanted.
    results: Vec<At>,
    /// Results that are views and have no home, by the node that computes what they see.
    views: HashMap<ValueId, Vec<usize>>,
    /// The buffers of loops of steps, by loop and carry: what a step reads, and what it writes.
    carries: HashMap<(ValueId, usize), (At, At)>,
    /// What is where it is wanted.
    written: HashSet<Want>,
}

/// Who wants a value in a place of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Want {
    /// The graph, as this result.
    Result(usize),
    /// A loop of steps, to begin this carry with. The loop overwrites it.
    Begin(ValueId, usize),
}

impl Host<'_> {
    fn stage(&mut self, fuser: &mut Fuser<'_>, groups: &[usize], out: &mut Vec<Step>) -> Result<()> {
        let (mut kernels, mut before, mut loops) = (Vec::new(), Vec::new(), Vec::new());
        for g in groups {
            let group = self.parts.groups[*g].clone();
            match group.how {
                How::Tile => kernels.push(self.tile(fuser, *g, &group)?),
                How::Contract => {
                    let kernel = self.contract(fuser, *g, &group, &mut before)?;
                    kernels.push(kernel);
                }
                How::Random => kernels.push(self.random(fuser, *g, group.nodes[0])?),
                How::Loop => {
                    // Weights that are packed for kernels out here are packed out here.
                    let packing = std::mem::take(&mut fuser.packing);
                    let mut steps = Vec::new();
                    self.scan(fuser, group.nodes[0], &mut steps, &mut before)?;
                    loops.extend(steps);
                    fuser.packing = packing;
                }
            }
        }
        before.append(&mut fuser.packing);
        // What is prepared may be a product itself.
        if self.id == super::dims::ROOT && groups.iter().any(|g| self.parts.groups[*g].prepared) {
            before.append(&mut fuser.prepared_packing);
        }
        launches::launch(before, out);
        launches::launch(kernels, out);
        out.extend(loops);
        Ok(())
    }

    /// A row-parallel kernel.
    fn tile(&mut self, fuser: &mut Fuser<'_>, g: usize, group: &Group) -> Result<Kernel> {
        let sizes = sizes(fuser, &group.rows);
        let padded = padded(fuser, &sizes);
        let nodes = group.nodes.iter().chain(&group.riders).copied().collect();
        let mut block = Block::new(self.graph, self.id, self.shape.clone(), nodes);
        let mut strided: Vec<(Root, At, Lanes)> = Vec::new();
        let mut given: Vec<(Root, At)> = Vec::new();
        let cut = self.cut(fuser, group, &sizes);
        for root in self.roots(group) {
            let (axes, rows) = self.axes(fuser, &group.rows, root);
            let features: Vec<AxisId> = axes.iter().copied().filter(|a| !rows.contains(&Some(*a))).collect();
            // What several rows have in common is given out by a kernel without rows.
            let common = rows.iter().zip(&sizes).any(|(axis, size)| axis.is_none() && *size > 1);
            let wanted = if common { Vec::new() } else { self.wanted(group, root) };
            // Where it stays, and where a loop that begins with it takes it from.
            let (mut homes, mut begins) = (Vec::new(), Vec::new());
            for (want, at) in &wanted {
                match lanes(at, &rows, &sizes) {
                    Lanes::Unit if has_room(fuser.target, at, &rows, &sizes) => match want {
                        Want::Result(_) => homes.push(at.clone()),
                        Want::Begin(..) => begins.push(at.clone()),
                    },
                    _ => {
                        let strides = rows.iter().map(|a| a.map_or(0, |a| at.stride(a))).collect();
                        strided.push((root, at.clone(), Lanes::Strided(strides)));
                    }
                }
                self.written.insert(*want);
            }
            let wants: Vec<Want> = wanted.into_iter().map(|(want, _)| want).collect();
            let outside = |u: &Use| match u {
                Use::Node(c) => self.parts.group_of.get(c) != Some(&g) && !self.only_begins(*c, root, &wants),
                Use::Result(i) => !wants.contains(&Want::Result(*i)) && !cut.contains(i),
            };
            if homes.is_empty() && self.shape.uses(root).iter().any(outside) {
                let kind = if group.prepared { BufferKind::Kept } else { BufferKind::Temp };
                let id = fuser.buffer(&self.name(root), fuser.program.len(&features) * padded, kind, self.origin(root.0));
                homes.push(side_by_side(fuser, Base::Buffer(id), &features, &rows, &sizes));
            }
            given.extend(homes.first().map(|first| (root, first.clone())));
            homes.append(&mut begins);
            if !homes.is_empty() {
                let inner = |at: &At| At { strides: without(&at.strides, &rows), splat: false, ..at.clone() };
                block.homes.insert(root, homes.iter().map(inner).collect());
            }
        }
        let outside = self.outside(fuser, group, &block)?;
        let mut tile = TileBuilder::new(fuser, group.rows.clone(), sizes);
        for (of, spot, rows) in outside {
            let spot = match spot {
                Spot::At(at) => Spot::At(tile.import(&at, &rows)),
                Spot::Affine(a) => Spot::Affine(a),
            };
            match of {
                Outside::Root(root) => drop(block.places.insert(root, spot)),
                Outside::View(v) => drop(block.moved.insert(v, spot)),
            }
        }
        tile.block(&mut block)?;
        for (root, at, lanes) in strided {
            let Some(Spot::At(from)) = block.places.get(&root).cloned() else {
                return Err("a result has no place".to_string());
            };
            let (axes, rows) = self.axes(tile.fuser, &group.rows, root);
            let features: Vec<AxisId> = axes.iter().copied().filter(|a| !rows.contains(&Some(*a))).collect();
            let to = View { lanes, ..tile.view(&at, &features) };
            let (dims, from) = (tile.dims(&features), tile.view(&from, &features));
            tile.push(Stmt::Copy(Copy { dims, from, to }));
        }
        for i in cut {
            let v = self.graph.results[i];
            let from = tile.at(&mut block, v)?;
            let features = tile.features(&block, v);
            let at = &self.results[i];
            let rows = row_axes(&group.rows, &tile.fuser.dims, self.graph, self.id, v);
            let strides = rows.iter().map(|a| a.map_or(0, |a| at.stride(a))).collect();
            let to = View { lanes: Lanes::Strided(strides), ..tile.view(at, &features) };
            let (dims, from) = (tile.dims(&features), tile.view(&from, &features));
            tile.push(Stmt::Copy(Copy { dims, from, to }));
            self.written.insert(Want::Result(i));
        }
        let (tile, ops) = tile.finish();
        for (root, at) in given {
            self.places.insert(root, Spot::At(At { splat: false, ..at }));
        }
        let name = self.kernel_name(group);
        Ok(Kernel { name, work: Work::Tile(tile), notes: Notes { ops, reason: self.reason(g) } })
    }

    /// Results of the graph that are a part of what a group computes, or have it in another order, with the same rows: its kernel
    /// gives them out, too.
    fn cut(&self, fuser: &Fuser<'_>, group: &Group, sizes: &[usize]) -> Vec<usize> {
        let own = |v: ValueId| {
            let rows = row_axes(&group.rows, &fuser.dims, self.graph, self.id, v);
            !self.rows_change(fuser, &group.rows, v) && rows.iter().zip(sizes).all(|(axis, size)| axis.is_some() || *size == 1)
        };
        if group.prepared {
            return Vec::new();
        }
        let read = group.nodes.iter().flat_map(|v| self.views.get(v)).flatten();
        let mut found: Vec<usize> = read.copied().filter(|i| own(self.graph.results[*i])).collect();
        found.sort_unstable();
        found
    }

    /// What a group reads of others, where it is, and which axes are rows. Where rows change their names or number on the
    /// way, it is the view that is read.
    fn outside(&mut self, fuser: &mut Fuser<'_>, group: &Group, block: &Block<'_>) -> Result<Vec<Import>> {
        let mut found: Vec<Import> = Vec::new();
        let mut seen = HashSet::new();
        for v in &block.nodes {
            let mut operands = Vec::new();
            self.graph.node(*v).op.operands(|x| operands.push(x));
            for x in operands {
                let Some(root) = self.shape.roots[x.0 as usize] else { continue };
                if block.nodes.contains(&root.0) {
                    continue;
                }
                let (of, spot, rows) = match self.rows_change(fuser, &group.rows, x) {
                    true => {
                        let mut copies = Vec::new();
                        let spot = self.spot(fuser, x, &mut copies)?;
                        fuser.packing.append(&mut copies);
                        (Outside::View(x), spot, row_axes(&group.rows, &fuser.dims, self.graph, self.id, x))
                    }
                    false => {
                        let spot = self.places.get(&root).cloned().ok_or("a kernel reads what no kernel wrote")?;
                        (Outside::Root(root), spot, self.axes(fuser, &group.rows, root).1)
                    }
                };
                if seen.insert(of) {
                    found.push((of, spot, rows));
                }
            }
        }
        Ok(found)
    }

    /// Whether a view changes what its rows are.
    fn rows_change(&self, fuser: &Fuser<'_>, rows: &Rows, v: ValueId) -> bool {
        match (&self.shape.kinds[v.0 as usize], rows) {
            (Kind::View(_), Rows::Axes(axes)) => !axes.is_empty(),
            (Kind::View(of), Rows::Classes(_)) => {
                // Places that a gather takes may bring rows that what it takes from does not have.
                let has = |x: ValueId| {
                    row_axes(rows, &fuser.dims, self.graph, self.id, x).iter().map(Option::is_some).collect::<Vec<_>>()
                };
                let crosses = !fuser.dims.crossed(self.graph, self.id, v).is_empty();
                crosses || has(v) != has(*of) || self.rows_change(fuser, rows, *of)
            }
            _ => false,
        }
    }

    /// Where results that a group computes are wanted. What is prepared once is not given out each time by what computes it.
    fn wanted(&self, group: &Group, root: Root) -> Vec<(Want, At)> {
        if group.prepared { Vec::new() } else { self.homes.get(&root).cloned().unwrap_or_default() }
    }

    /// What a group computes.
    fn roots(&self, group: &Group) -> Vec<Root> {
        let of = |v: &ValueId| {
            let count = match &self.graph.node(*v).op {
                Op::Scan(scan) => scan.body.results.len() as u32,
                _ => 1,
            };
            let v = *v;
            (0..count).map(move |i| Root(v, i))
        };
        group.nodes.iter().flat_map(of).collect()
    }

    /// The axes of what a root is, and which of them are rows.
    fn axes(&self, fuser: &Fuser<'_>, rows: &Rows, root: Root) -> (Vec<AxisId>, Vec<Option<AxisId>>) {
        match &self.graph.node(root.0).op {
            Op::Scan(scan) => {
                let inner = fuser.dims.body(self.id, root.0);
                let result = scan.body.results[root.1 as usize];
                let mut axes = scan.body.axes(result).to_vec();
                if root.1 as usize >= scan.init.len() {
                    axes.insert(0, scan.axis);
                }
                let rows = match rows {
                    // The steps may be rows of what reads them.
                    Rows::Axes(of) => of.iter().map(|a| axes.contains(a).then_some(*a)).collect(),
                    Rows::Classes(_) => row_axes(rows, &fuser.dims, &scan.body, inner, result),
                };
                (axes, rows)
            }
            _ => (self.graph.axes(root.0).to_vec(), row_axes(rows, &fuser.dims, self.graph, self.id, root.0)),
        }
    }

    /// The text that a value comes from.
    fn origin(&self, v: ValueId) -> Option<Span> {
        Some(self.graph.node(v).span)
    }
}

fn sizes(fuser: &Fuser<'_>, rows: &Rows) -> Vec<usize> {
    match rows {
        Rows::Classes(classes) => classes.iter().map(|c| fuser.dims.size(*c)).collect(),
        Rows::Axes(axes) => axes.iter().map(|a| fuser.program.size(*a)).collect(),
    }
}

/// Numbers from one entry's rows to the next one's.
fn padded(fuser: &Fuser<'_>, sizes: &[usize]) -> usize {
    fuser.target.pitch(sizes.iter().product())
}

/// The layout that kernels like: each entry's rows side by side.
fn side_by_side(fuser: &Fuser<'_>, base: Base, features: &[AxisId], rows: &[Option<AxisId>], sizes: &[usize]) -> At {
    let mut at = At::dense(base, fuser.program, features, padded(fuser, sizes));
    let mut stride = 1;
    for (axis, size) in rows.iter().zip(sizes).rev() {
        if let Some(axis) = axis {
            at.strides.push((*axis, stride));
        }
        stride *= size;
    }
    at
}

fn without(strides: &[(AxisId, usize)], rows: &[Option<AxisId>]) -> Vec<(AxisId, usize)> {
    strides.iter().copied().filter(|(a, _)| !rows.contains(&Some(*a))).collect()
}

fn view(at: &At, dims: &[AxisId]) -> View {
    let strides = dims.iter().map(|a| at.stride(*a)).collect();
    let lanes = if at.splat { Lanes::Splat } else { Lanes::Unit };
    View { base: at.base, offset: at.offset, strides, loops: at.loops.clone(), lanes }
}
