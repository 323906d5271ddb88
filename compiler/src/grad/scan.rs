//! The transpose of a scan: a scan in the other direction.
//!
//! Its carries are the cotangents of the forward carries and the running sums of the cotangents of the constants. At
//! each step it has the carries that the forward step started from, its `xs`, and the cotangents of its outputs; it
//! computes the step again and pulls the cotangents through it. The forward scan is made to give out its carries, and
//! the results of its products as well as long as they fit [`SAVE_BYTES`]: products are read back, elementwise work is
//! done again.

use std::collections::HashMap;

use dsl::source::Span;

use super::{Pull, backward, spread};
use crate::ir::{AxisId, Direction, Graph, Op, Scan, ValueId};

/// How much one scan may keep of its products for the way back, in bytes of single precision. Beyond that, the largest
/// are computed again.
pub(super) const SAVE_BYTES: usize = 512 << 20;

pub(super) fn pull(pull: &mut Pull<'_>, at: ValueId, scan: &Scan, outs: &[(u32, ValueId)], span: Span) {
    let (carries, xs, consts) = (scan.init.len(), scan.xs.len(), scan.consts.len());
    let ys = scan.body.results.len() - carries;
    let active = active_params(pull, scan);
    let wanted = |param: usize| active[param];
    // The axes of cotangents: those of the values, and those that the values are spread along.
    let along = spread::params(&pull.spread, scan);
    let inside = spread::body(scan, &along);
    let with = |mut axes: Vec<AxisId>, more: &[AxisId]| {
        axes.extend(more);
        axes
    };

    // ---- the forward scan gives out what the way back needs
    let mut forward = scan.clone();
    let saved = saved_products(pull, scan);
    let first_extra = forward.body.results.len();
    let params = find_params(&mut forward.body, carries + xs + consts, scan, pull.graph);
    forward.body.results.extend(params[..carries].iter().copied());
    forward.body.results.extend(saved.iter().copied());
    let body_axes = |v: ValueId| -> Vec<AxisId> {
        let mut axes = vec![scan.axis];
        axes.extend(forward.body.axes(v));
        axes
    };
    let extra_axes: Vec<Vec<AxisId>> = forward.body.results[first_extra..].iter().map(|v| body_axes(*v)).collect();
    pull.graph.nodes[at.0 as usize].op = Op::Scan(Box::new(forward));
    let extra: Vec<ValueId> =
        extra_axes.into_iter().enumerate().map(|(i, axes)| pull.graph.out(at, first_extra + i, axes, span)).collect();
    let (kept_carries, kept_products) = extra.split_at(carries);

    // ---- cotangents that come in
    let mut final_carry: Vec<Option<ValueId>> = vec![None; carries];
    let mut outputs: Vec<Option<ValueId>> = vec![None; ys];
    for (index, g) in outs {
        let index = *index as usize;
        let slot = if index < carries { &mut final_carry[index] } else { &mut outputs[index - carries] };
        *slot = Some(match *slot {
            Some(old) => pull.graph.add(old, *g, span),
            None => *g,
        });
    }

    // ---- the body of the way back
    let back_carries: Vec<usize> = (0..carries).filter(|c| wanted(*c)).collect();
    let back_consts: Vec<usize> = (0..consts).filter(|k| wanted(carries + xs + k)).collect();
    let back_xs: Vec<usize> = (0..xs).filter(|x| wanted(carries + x)).collect();
    let given_ys: Vec<usize> = (0..ys).filter(|y| outputs[*y].is_some()).collect();

    let mut body = Graph::default();
    let mut number = 0;
    let mut param = |body: &mut Graph, axes: Vec<AxisId>| {
        number += 1;
        body.push(Op::Param(number - 1), axes, span)
    };
    let step_axes = |axes: &[AxisId]| axes.iter().copied().filter(|a| *a != scan.axis).collect::<Vec<_>>();
    let carry_axes: Vec<Vec<AxisId>> = scan.init.iter().map(|v| pull.graph.axes(*v).to_vec()).collect();
    let const_axes: Vec<Vec<AxisId>> = scan.consts.iter().map(|v| pull.graph.axes(*v).to_vec()).collect();
    let x_axes: Vec<Vec<AxisId>> = scan.xs.iter().map(|v| step_axes(pull.graph.axes(*v))).collect();

    let d_carry_axes: Vec<Vec<AxisId>> = (0..carries).map(|c| with(carry_axes[c].clone(), &along[c])).collect();
    let d_const_axes: Vec<Vec<AxisId>> = (0..consts).map(|k| with(const_axes[k].clone(), &along[carries + xs + k])).collect();

    let d_carries: Vec<ValueId> = back_carries.iter().map(|c| param(&mut body, d_carry_axes[*c].clone())).collect();
    let sums: Vec<ValueId> = back_consts.iter().map(|k| param(&mut body, d_const_axes[*k].clone())).collect();
    let carry_in: Vec<ValueId> = carry_axes.iter().map(|axes| param(&mut body, axes.clone())).collect();
    let x_in: Vec<ValueId> = x_axes.iter().map(|axes| param(&mut body, axes.clone())).collect();
    let product_in: Vec<ValueId> = saved.iter().map(|v| param(&mut body, scan.body.axes(*v).to_vec())).collect();
    let d_outputs: Vec<ValueId> = given_ys
        .iter()
        .map(|y| scan.body.results[carries + y])
        .map(|v| param(&mut body, with(scan.body.axes(v).to_vec(), inside.of(v))))
        .collect();
    let const_in: Vec<ValueId> = const_axes.iter().map(|axes| param(&mut body, axes.clone())).collect();

    // The step again, with products read back. Their operands stay in the graph: the gradient needs them.
    let inner: Vec<ValueId> = carry_in.iter().chain(&x_in).chain(&const_in).copied().collect();
    let read_back: HashMap<ValueId, ValueId> = saved.iter().copied().zip(product_in.iter().copied()).collect();
    let mut new_of: Vec<ValueId> = Vec::with_capacity(scan.body.nodes.len());
    for node in &scan.body.nodes {
        let new = match node.op {
            Op::Param(p) => inner[p as usize],
            ref op => {
                let op = op.clone().map_operands(|v| new_of[v.0 as usize]);
                body.push(op, node.axes.clone(), node.span)
            }
        };
        new_of.push(new);
    }
    // Cotangents flow through the recomputed nodes; only their values are taken from what was kept.
    let mut seeds: Vec<(ValueId, ValueId)> = Vec::new();
    for (c, d) in back_carries.iter().zip(&d_carries) {
        seeds.push((new_of[scan.body.results[*c].0 as usize], *d));
    }
    for (y, d) in given_ys.iter().zip(&d_outputs) {
        seeds.push((new_of[scan.body.results[carries + y].0 as usize], *d));
    }
    let wrt: Vec<(ValueId, Vec<AxisId>)> = back_carries
        .iter()
        .map(|c| (carry_in[*c], along[*c].clone()))
        .chain(back_xs.iter().map(|x| (x_in[*x], along[carries + x].clone())))
        .chain(back_consts.iter().map(|k| (const_in[*k], along[carries + xs + k].clone())))
        .collect();
    let found = backward(pull.axes, &mut body, &seeds, &wrt);
    let value = |body: &mut Graph, i: usize| match found[i] {
        Some(g) => g,
        None => {
            let zero = body.constant(0.0, span);
            let axes = with(body.axes(wrt[i].0).to_vec(), &wrt[i].1);
            body.expand(zero, &axes, span)
        }
    };
    let mut results = Vec::new();
    for i in 0..back_carries.len() {
        results.push(value(&mut body, i));
    }
    for (i, sum) in sums.iter().enumerate() {
        let part = value(&mut body, back_carries.len() + back_xs.len() + i);
        results.push(body.add(*sum, part, span));
    }
    for i in 0..back_xs.len() {
        results.push(value(&mut body, back_carries.len() + i));
    }
    body.results = results;
    let substitution: HashMap<ValueId, ValueId> = read_back.iter().map(|(old, kept)| (new_of[old.0 as usize], *kept)).collect();
    substitute(&mut body, &substitution);

    // ---- the scan of the way back
    let mut init = Vec::new();
    for c in &back_carries {
        init.push(match final_carry[*c] {
            Some(g) => g,
            None => zeros(pull.graph, &d_carry_axes[*c], span),
        });
    }
    for k in &back_consts {
        init.push(zeros(pull.graph, &d_const_axes[*k], span));
    }
    let mut back_inputs: Vec<ValueId> = kept_carries.to_vec();
    back_inputs.extend(&scan.xs);
    back_inputs.extend(kept_products);
    back_inputs.extend(given_ys.iter().filter_map(|y| outputs[*y]));
    let back = Scan {
        axis: scan.axis,
        direction: match scan.direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        },
        init,
        xs: back_inputs,
        consts: scan.consts.clone(),
        body,
    };
    let node = pull.graph.push(Op::Scan(Box::new(back)), Vec::new(), span);

    // ---- cotangents that go out
    let mut index = 0;
    for c in &back_carries {
        let d = pull.graph.out(node, index, d_carry_axes[*c].clone(), span);
        pull.add(scan.init[*c], d);
        index += 1;
    }
    for k in &back_consts {
        let d = pull.graph.out(node, index, d_const_axes[*k].clone(), span);
        pull.add(scan.consts[*k], d);
        index += 1;
    }
    for x in &back_xs {
        let mut axes = vec![scan.axis];
        axes.extend(&x_axes[*x]);
        axes.extend(&along[carries + x]);
        let d = pull.graph.out(node, index, axes, span);
        pull.add(scan.xs[*x], d);
        index += 1;
    }
}

fn zeros(graph: &mut Graph, axes: &[AxisId], span: Span) -> ValueId {
    let zero = graph.constant(0.0, span);
    graph.expand(zero, axes, span)
}

/// Which parameters of the body carry a derivative: those given one from outside, and the carries these flow into.
fn active_params(pull: &Pull<'_>, scan: &Scan) -> Vec<bool> {
    let carries = scan.init.len();
    let mut active: Vec<bool> = scan.init.iter().chain(&scan.xs).chain(&scan.consts).map(|v| pull.is_active(*v)).collect();
    loop {
        let wrt: Vec<ValueId> =
            scan.body.ids().filter(|v| matches!(scan.body.node(*v).op, Op::Param(p) if active[p as usize])).collect();
        let reached = super::active(&scan.body, &wrt, scan.body.nodes.len());
        let mut changed = false;
        for c in 0..carries {
            if !active[c] && reached[scan.body.results[c].0 as usize] {
                active[c] = true;
                changed = true;
            }
        }
        if !changed {
            return active;
        }
    }
}

/// The body's parameters as values, made where the body does not read them.
fn find_params(body: &mut Graph, count: usize, scan: &Scan, outer: &Graph) -> Vec<ValueId> {
    let mut found: Vec<Option<ValueId>> = vec![None; count];
    for v in body.ids() {
        if let Op::Param(p) = body.node(v).op {
            found[p as usize].get_or_insert(v);
        }
    }
    let operands: Vec<ValueId> = scan.init.iter().chain(&scan.xs).chain(&scan.consts).copied().collect();
    let carries = scan.init.len();
    let xs = scan.xs.len();
    found
        .into_iter()
        .enumerate()
        .map(|(p, v)| {
            v.unwrap_or_else(|| {
                let mut axes = outer.axes(operands[p]).to_vec();
                if (carries..carries + xs).contains(&p) {
                    axes.retain(|a| *a != scan.axis);
                }
                body.push(Op::Param(p as u32), axes, outer.node(operands[p]).span)
            })
        })
        .collect()
}

/// Products of the body worth keeping, smallest first until the budget is used up, in the order of the body.
fn saved_products(pull: &Pull<'_>, scan: &Scan) -> Vec<ValueId> {
    let steps = pull.axes[scan.axis.0 as usize].size;
    let bytes =
        |v: ValueId| -> usize { 4 * steps * scan.body.axes(v).iter().map(|a| pull.axes[a.0 as usize].size).product::<usize>() };
    let mut products: Vec<ValueId> = scan.body.ids().filter(|v| matches!(scan.body.node(*v).op, Op::Dot { .. })).collect();
    products.sort_by_key(|v| (bytes(*v), *v));
    let mut used = 0;
    products.retain(|v| {
        used += bytes(*v);
        used <= SAVE_BYTES
    });
    products.sort_unstable();
    products
}

/// Uses of some values become uses of others.
fn substitute(graph: &mut Graph, new_of: &HashMap<ValueId, ValueId>) {
    let new = |v: ValueId| new_of.get(&v).copied().unwrap_or(v);
    for node in &mut graph.nodes {
        let op = std::mem::replace(&mut node.op, Op::Const(0.0));
        node.op = op.map_operands(new);
    }
    for r in &mut graph.results {
        *r = new(*r);
    }
}
