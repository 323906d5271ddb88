//! The steps of a graph: kernels in the order of their stages, loops whose bodies cross rows, and the buffers between.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use dsl::source::Span;

use super::dims::GraphId;
use super::launches;
use super::partition::{Group, How, Partition, partition, row_axes};
use super::shape::{Kind, Root, Shape, Use};
use super::spot::{self, Affine, At, Spot};
use super::tile::{Block, TileBuilder, has_room, lanes, named_back};
use super::{Fuser, Result, Rows};
use crate::ir::{AxisId, Direction, Graph, Noise, Op, Scan, ValueId};
use crate::kernel::{Base, BufferKind, Contract, Copy, Kernel, LANES, Lanes, Notes, Random, Step, Stmt, Tile, View, Work};

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
        let padded = padded(&sizes);
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
                    Lanes::Unit if has_room(at, &rows, &sizes) => match want {
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
                homes.push(rowed(fuser, Base::Buffer(id), &features, &rows, &sizes));
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

    /// A sum over rows.
    fn contract(&mut self, fuser: &mut Fuser<'_>, g: usize, group: &Group, before: &mut Vec<Kernel>) -> Result<Kernel> {
        let v = group.nodes[0];
        let node = self.graph.node(v);
        let (a, b, over) = match &node.op {
            Op::Dot { a, b, over } => (*a, Some(*b), over.clone()),
            Op::Reduce { of, over, .. } => (*of, None, over.clone()),
            _ => return Err("a sum over rows is a sum or a product".to_string()),
        };
        let sizes = sizes(fuser, &group.rows);
        let rows_of = |f: &Fuser<'_>, x: ValueId| row_axes(&group.rows, &f.dims, self.graph, self.id, x);
        let a_rows = rows_of(fuser, a);
        let k: Vec<AxisId> = over.iter().copied().filter(|x| !a_rows.contains(&Some(*x))).collect();
        let has = |x: Option<ValueId>, axis: &AxisId| x.is_some_and(|x| self.graph.axes(x).contains(axis));
        let kept = self.graph.axes(v).to_vec();
        let batch: Vec<AxisId> = kept.iter().copied().filter(|x| has(Some(a), x) && has(b, x)).collect();
        let n: Vec<AxisId> = kept.iter().copied().filter(|x| has(Some(a), x) && !has(b, x)).collect();
        let i: Vec<AxisId> = kept.iter().copied().filter(|x| !has(Some(a), x) && has(b, x)).collect();
        let operand = |host: &mut Self, fuser: &mut Fuser<'_>, x: ValueId, own: &[AxisId], before: &mut Vec<Kernel>| {
            let rows = row_axes(&group.rows, &fuser.dims, host.graph, host.id, x);
            let at = host.rowed(fuser, x, &group.rows, &rows, &sizes, before)?;
            let dims = [&batch[..], own, &k[..]].concat();
            Ok::<View, String>(view(&At { strides: without(&at.strides, &rows), splat: false, ..at }, &dims))
        };
        let a_view = operand(self, fuser, a, &n, before)?;
        let b_view = b.map(|b| operand(self, fuser, b, &i, before)).transpose()?;
        let root = Root(v, 0);
        let result = self.wanted(group, root).into_iter().find(|(want, _)| matches!(want, Want::Result(_)));
        let dst = match result {
            Some((want, at)) => {
                self.written.insert(want);
                at
            }
            None => {
                let kind = if group.prepared { BufferKind::Kept } else { BufferKind::Temp };
                let id = fuser.buffer(&self.name(root), fuser.program.len(&kept), kind, self.origin(v));
                At::dense(Base::Buffer(id), fuser.program, &kept, 1)
            }
        };
        self.places.insert(root, Spot::At(dst.clone()));
        let dims = |axes: &[AxisId]| axes.iter().map(|x| fuser.program.size(*x)).collect::<Vec<_>>();
        let out = [&batch[..], &n[..], &i[..]].concat();
        let contract = Contract {
            rows: sizes.iter().product(),
            batch: dims(&batch),
            n: dims(&n),
            i: dims(&i),
            k: dims(&k),
            a: a_view,
            b: b_view,
            dst: View { lanes: Lanes::Splat, ..view(&dst, &out) },
        };
        let notes = Notes { ops: vec![(node.op.name().to_string(), node.span)], reason: self.reason(g) };
        Ok(Kernel { name: self.kernel_name(group), work: Work::Contract(contract), notes })
    }

    fn random(&mut self, fuser: &mut Fuser<'_>, g: usize, v: ValueId) -> Result<Kernel> {
        if self.id != super::dims::ROOT {
            return Err("a draw inside a loop".to_string());
        }
        let node = self.graph.node(v);
        let Op::Random { draw, noise } = node.op else { return Err("no draw".to_string()) };
        let name = fuser.program.draws[draw as usize].clone();
        let to = fuser.buffer(&name, fuser.program.len(&node.axes), BufferKind::Temp, Some(node.span));
        let at = At::dense(Base::Buffer(to), fuser.program, &node.axes, 1);
        self.places.insert(Root(v, 0), Spot::At(at));
        let last = match noise {
            Noise::Subset { .. } => node.axes.last().map_or(1, |a| fuser.program.size(*a).max(1)),
            Noise::Gaussian | Noise::Uniform => 1,
        };
        let notes = Notes { ops: vec![("random".to_string(), node.span)], reason: self.reason(g) };
        Ok(Kernel { name, work: Work::Random(Random { draw, noise, last, to }), notes })
    }

    /// Buffers for the carries of loops of steps. What they begin with is wanted there.
    fn begin_loops(&mut self, fuser: &mut Fuser<'_>) {
        let loops: Vec<ValueId> = self.parts.groups.iter().filter(|g| g.how == How::Loop).map(|g| g.nodes[0]).collect();
        for v in loops {
            let Op::Scan(scan) = &self.graph.node(v).op else { continue };
            let inner = fuser.dims.body(self.id, v);
            for (i, x) in scan.init.iter().enumerate() {
                let result = scan.body.results[i];
                if is_unread(fuser, scan, i) {
                    // Only what the last step writes counts, so all steps write where that is wanted.
                    let home = self.homes.get(&Root(v, i as u32)).and_then(|homes| homes.first()).cloned();
                    let at = match home {
                        Some((want, at)) => {
                            self.written.insert(want);
                            at
                        }
                        None => self.carried(fuser, scan, inner, result, None),
                    };
                    self.carries.insert((v, i), (at.clone(), at));
                    continue;
                }
                let now = self.carried(fuser, scan, inner, result, None);
                let next = self.carried(fuser, scan, inner, result, None);
                // What has more rows than the value itself is copied.
                let same = now.strides.len() == self.graph.axes(*x).len();
                if let Some((root, at)) = named_back(self.graph, &self.shape, *x, &now).filter(|_| same) {
                    self.homes.entry(root).or_default().push((Want::Begin(v, i), at));
                }
                self.carries.insert((v, i), (now, next));
            }
        }
    }

    /// Whether a node is a loop of steps that reads a value to begin with it, and for nothing else.
    fn only_begins(&self, v: ValueId, root: Root, wants: &[Want]) -> bool {
        let begins = wants.iter().filter(|want| matches!(want, Want::Begin(of, _) if *of == v)).count();
        let mut reads = 0;
        self.graph.node(v).op.operands(|x| reads += usize::from(self.shape.roots[x.0 as usize] == Some(root)));
        begins > 0 && begins == reads
    }

    /// A loop of steps.
    fn scan(&mut self, fuser: &mut Fuser<'_>, v: ValueId, out: &mut Vec<Step>, before: &mut Vec<Kernel>) -> Result<()> {
        let Op::Scan(scan) = &self.graph.node(v).op else { return Err("no loop".to_string()) };
        let scan: &Scan = scan;
        let count = fuser.program.size(scan.axis);
        let id = fuser.new_loop(count);
        let inner = fuser.dims.body(self.id, v);
        let carries = scan.init.len();
        let mut params = Vec::new();
        let mut wanted = Vec::new();
        let mut swaps = Vec::new();
        for (i, x) in scan.init.iter().enumerate() {
            let (now, next) = self.carries.remove(&(v, i)).ok_or("a loop without its carries")?;
            if !self.written.contains(&Want::Begin(v, i)) && !is_unread(fuser, scan, i) {
                let from = self.spot(fuser, *x, before)?;
                before.push(self.copy(fuser, *x, &from, &now, "what a loop starts with"));
            }
            if let (Base::Buffer(a), Base::Buffer(b)) = (now.base, next.base)
                && a != b
            {
                swaps.push(Step::Swap(a, b));
            }
            self.places.insert(Root(v, i as u32), Spot::At(now.clone()));
            params.push(Spot::At(now));
            wanted.push(next);
        }
        for x in &scan.xs {
            params.push(self.spot(fuser, *x, before)?.step(fuser.program, scan.axis, id));
        }
        for x in &scan.consts {
            params.push(self.spot(fuser, *x, before)?);
        }
        for (i, result) in scan.body.results.iter().enumerate().skip(carries) {
            let all = self.carried(fuser, scan, inner, *result, Some(count));
            self.places.insert(Root(v, i as u32), Spot::At(all.clone()));
            wanted.push(all.step(scan.axis, id));
        }
        // Nothing is prepared inside a loop.
        let (_, mut body) = steps(fuser, &scan.body, inner, &params, &wanted)?;
        body.extend(swaps);
        out.push(Step::Loop { id, count, reverse: scan.direction == Direction::Backward, body });
        Ok(())
    }

    /// A buffer for a value of a loop's body, or for all its steps, with its rows side by side.
    fn carried(&self, fuser: &mut Fuser<'_>, scan: &Scan, inner: GraphId, result: ValueId, steps: Option<usize>) -> At {
        let rows = Rows::Classes(fuser.dims.parallel().to_vec());
        let axes = row_axes(&rows, &fuser.dims, &scan.body, inner, result);
        let here: Vec<Option<AxisId>> = axes.into_iter().filter(Option::is_some).collect();
        let sizes: Vec<usize> = here.iter().flatten().map(|a| fuser.program.size(*a)).collect();
        let all = scan.body.axes(result).iter();
        let features: Vec<AxisId> = all.copied().filter(|a| !here.contains(&Some(*a))).collect();
        let features = match steps {
            Some(_) => [&[scan.axis], &features[..]].concat(),
            None => features,
        };
        let len = if here.is_empty() { 1 } else { padded(&sizes) };
        let origin = Some(scan.body.node(result).span);
        let id = fuser.buffer("carry", fuser.program.len(&features) * len, BufferKind::Temp, origin);
        match here.is_empty() {
            true => At::dense(Base::Buffer(id), fuser.program, &features, 1),
            false => rowed(fuser, Base::Buffer(id), &features, &here, &sizes),
        }
    }

    /// Where a value is, seen from outside of kernels.
    fn spot(&mut self, fuser: &mut Fuser<'_>, v: ValueId, before: &mut Vec<Kernel>) -> Result<Spot> {
        match self.shape.kinds[v.0 as usize].clone() {
            Kind::Free(a) => Ok(Spot::Affine(a)),
            Kind::View(of) => {
                let from = self.spot(fuser, of, before)?;
                let op = &self.graph.node(v).op;
                let places: Option<Affine> = match op {
                    Op::Gather { at, .. } => match &self.shape.kinds[at.0 as usize] {
                        Kind::Free(a) => Some(a.clone()),
                        _ => None,
                    },
                    _ => None,
                };
                if let Some(spot) = spot::view(fuser.program, op, &from, places.as_ref()) {
                    return Ok(spot);
                }
                let Op::Join { axes, into, .. } = op else { return Err(format!("`{}` is not a view here", op.name())) };
                let all = self.graph.axes(v).to_vec();
                let id = fuser.buffer("joined", fuser.program.len(&all), BufferKind::Temp, self.origin(v));
                let to = At::dense(Base::Buffer(id), fuser.program, &all, 1);
                let split = Op::Split { of, axis: *into, into: axes.clone() };
                let Some(Spot::At(apart)) = spot::view(fuser.program, &split, &Spot::At(to.clone()), None) else {
                    return Err("an axis does not split".to_string());
                };
                before.push(self.copy(fuser, of, &from, &apart, "joined axes"));
                Ok(Spot::At(to))
            }
            Kind::Source | Kind::Work => {
                let root = self.shape.roots[v.0 as usize].ok_or("a value without a root")?;
                self.places.get(&root).cloned().ok_or_else(|| "a value is used before it is computed".to_string())
            }
        }
    }

    /// A value with these rows side by side, copied if they are not.
    fn rowed(
        &mut self,
        fuser: &mut Fuser<'_>,
        v: ValueId,
        of: &Rows,
        rows: &[Option<AxisId>],
        sizes: &[usize],
        before: &mut Vec<Kernel>,
    ) -> Result<At> {
        let from = self.spot(fuser, v, before)?;
        if let Spot::At(at) = &from
            && lanes(at, rows, sizes) == Lanes::Unit
        {
            return Ok(at.clone());
        }
        let features: Vec<AxisId> = self.graph.axes(v).iter().copied().filter(|a| !rows.contains(&Some(*a))).collect();
        let id = fuser.buffer("rows", fuser.program.len(&features) * padded(sizes), BufferKind::Temp, self.origin(v));
        let to = rowed(fuser, Base::Buffer(id), &features, rows, sizes);
        before.push(self.copy_rows(fuser, v, &from, &to, of, "rows are laid side by side"));
        Ok(to)
    }

    /// A kernel that copies a value.
    fn copy(&self, fuser: &mut Fuser<'_>, v: ValueId, from: &Spot, to: &At, reason: &str) -> Kernel {
        let (rows, _) = fuser.dims.rows(self.graph, self.id, v);
        let rows = if rows.is_empty() { Rows::Axes(self.graph.axes(v).to_vec()) } else { Rows::Classes(rows) };
        self.copy_rows(fuser, v, from, to, &rows, reason)
    }

    fn copy_rows(&self, fuser: &mut Fuser<'_>, v: ValueId, from: &Spot, to: &At, rows: &Rows, reason: &str) -> Kernel {
        let sizes = sizes(fuser, rows);
        let axes = row_axes(rows, &fuser.dims, self.graph, self.id, v);
        let features: Vec<AxisId> = self.graph.axes(v).iter().copied().filter(|a| !axes.contains(&Some(*a))).collect();
        let from = match from {
            Spot::At(at) => at.clone(),
            Spot::Affine(a) => fuser.numbers(a),
        };
        let seen = |at: &At| {
            let strides = axes.iter().map(|a| a.map_or(0, |a| at.stride(a))).collect();
            View { lanes: Lanes::Strided(strides), ..view(at, &features) }
        };
        let dims = features.iter().map(|a| fuser.program.size(*a)).collect();
        let copy = Stmt::Copy(Copy { dims, from: seen(&from), to: seen(to) });
        let tile = Tile { rows: sizes, locals: Vec::new(), arena: 0, body: vec![copy] };
        let notes = Notes { ops: Vec::new(), reason: reason.to_string() };
        Kernel { name: "copy".to_string(), work: Work::Tile(tile), notes }
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

    fn name(&self, root: Root) -> String {
        format!("{}.{}", self.graph.node(root.0).op.name(), root.0.0)
    }

    fn kernel_name(&self, group: &Group) -> String {
        let has = |name: &str| group.nodes.iter().any(|v| self.graph.node(*v).op.name() == name);
        let what = match group.how {
            How::Contract => "contract",
            How::Random => "random",
            How::Loop => "loop",
            How::Tile if has("scan") => "rollout",
            How::Tile if has("argsort") => "select",
            How::Tile if has("dot") => "dense",
            How::Tile => "map",
        };
        format!("{what}.{}", group.nodes[0].0)
    }

    /// Why a group ends where it ends: what its first reader needs that it does not have.
    fn reason(&self, g: usize) -> String {
        let group = &self.parts.groups[g];
        let of = |root: &Root| self.shape.uses(*root).iter();
        let reader = self.roots(group).iter().flat_map(of).find_map(|u| match u {
            Use::Node(c) => self.parts.group_of.get(c).filter(|of| **of != g).map(|of| (*c, *of)),
            Use::Result(_) => None,
        });
        let Some((reader, next)) = reader else { return "the program ends".to_string() };
        let next = &self.parts.groups[next];
        let op = self.graph.node(reader).op.name();
        match (next.how, group.prepared) {
            (_, true) => "it depends on parameters alone".to_string(),
            (How::Contract, _) => format!("`{op}` sums over rows"),
            (How::Loop, _) => format!("`{op}` is a loop whose body crosses rows"),
            (How::Random, _) => "random numbers come first".to_string(),
            (How::Tile, _) if next.rows != group.rows => format!("`{op}` goes along other rows"),
            (How::Tile, _) => "something that crosses rows lies between".to_string(),
        }
    }
}

/// Whether no step of a loop reads what the one before made of a carry.
fn is_unread(fuser: &Fuser<'_>, scan: &Scan, carry: usize) -> bool {
    fuser.program.size(scan.axis) > 0
        && !scan.body.nodes.iter().any(|node| matches!(node.op, Op::Param(p) if p as usize == carry))
}

fn sizes(fuser: &Fuser<'_>, rows: &Rows) -> Vec<usize> {
    match rows {
        Rows::Classes(classes) => classes.iter().map(|c| fuser.dims.size(*c)).collect(),
        Rows::Axes(axes) => axes.iter().map(|a| fuser.program.size(*a)).collect(),
    }
}

/// Numbers from one entry's rows to the next one's: an odd number of lane vectors, so that the same rows of many entries
/// do not fall into the same few sets of a cache. Where the last vector is not full, the vectors that are there.
fn padded(sizes: &[usize]) -> usize {
    let rows: usize = sizes.iter().product();
    if rows.is_multiple_of(LANES) { ((rows / LANES) | 1) * LANES } else { rows.next_multiple_of(LANES) }
}

/// The layout that kernels like: each entry's rows side by side.
fn rowed(fuser: &Fuser<'_>, base: Base, features: &[AxisId], rows: &[Option<AxisId>], sizes: &[usize]) -> At {
    let mut at = At::dense(base, fuser.program, features, padded(sizes));
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
