//! Local rewrites: a table of rules, one equation a rule.
//!
//! The pass builds each graph anew, node by node, operands first. A node that is about to be made is offered to the rules
//! for its operation; the first that matches makes its other side instead, whose nodes are offered in turn. A rule sees
//! a node and what it is made of, never its users, so the outcome does not depend on the order of visits; the cost is
//! linear in the nodes. What nobody uses any more is left out.
//!
//! Every rule makes the work or the values smaller, or brings a node into the form that other rules know: constants
//! second, `expand` outside of everything that it can be moved out of, names given as early as possible.
//!
//! Which equations hold is a question of numbers that are not real ones:
//! - Rounding may differ, and does where constants are brought together. Constants are folded in double precision.
//! - The sign of a zero is not kept: `x + 0 = x`.
//! - A NaN or infinity that comes from outside is never hidden: `x 0 = 0` holds only where x is finite whatever the
//!   inputs are (`facts.rs`), `x - x = 0` likewise. `where` and `less` are taken at their word: what `where` does not take
//!   and what is compared with itself has no say.
//! - Numbers that are not finite only because of the order of computation may become finite (`log(exp x) = x`), never
//!   the other way round: constants are brought together only if the result is a normal single-precision number.

mod arith;
mod axes;
mod contract;
mod cx;
mod expand;
mod facts;
mod parts;
mod places;
mod scans;
mod select;

use std::collections::{BTreeMap, HashMap};

use self::cx::Cx;
use super::dce::sweep;
use crate::ir::{Axis, Graph, Node, Op, Program, ValueId};
use crate::pass::{Pass, change};

/// One equation: what it says, the operations that its left side can be, and the right side, if it applies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    equation: &'static str,
    on: &'static [&'static str],
    apply: fn(&mut Cx<'_>, &Node) -> Option<ValueId>,
}

/// The rules by theme. The first that matches is taken.
const THEMES: &[&[Rule]] =
    &[expand::RULES, arith::RULES, select::RULES, axes::RULES, contract::RULES, parts::RULES, places::RULES, scans::RULES];

/// How often each equation was used.
pub type Log = BTreeMap<&'static str, usize>;

/// The pass as it stands in its list.
pub(crate) const PASS: Pass = Pass {
    name: "rewrite",
    about: "Peephole rules: replaces an operation and its operands by something simpler, one equation a rule.",
    run: |program, _| rewrite(program),
};

/// Applies the rules throughout a program.
pub fn rewrite(program: &mut Program) {
    rewrite_logged(program);
}

/// [`rewrite`], telling which rules were used.
pub fn rewrite_logged(program: &mut Program) -> Log {
    let mut log = Log::new();
    change(program, |axes, graph| Walk { axes, index: &index(), log: &mut log }.graph(graph));
    log
}

/// All equations, by theme.
pub fn equations() -> impl Iterator<Item = &'static str> {
    THEMES.iter().flat_map(|rules| rules.iter().map(|r| r.equation))
}

/// The rules for each operation.
type Index = HashMap<&'static str, Vec<Rule>>;

fn index() -> Index {
    let mut index = Index::new();
    for rule in THEMES.iter().copied().flatten() {
        for op in rule.on {
            index.entry(op).or_default().push(*rule);
        }
    }
    index
}

struct Walk<'p> {
    axes: &'p mut Vec<Axis>,
    index: &'p Index,
    log: &'p mut Log,
}

impl Walk<'_> {
    fn graph(&mut self, old: Graph) -> Graph {
        let mut nodes = Vec::with_capacity(old.nodes.len());
        for mut node in old.nodes {
            if let Op::Scan(scan) = &mut node.op {
                let body = std::mem::take(&mut scan.body);
                scan.body = self.graph(body);
            }
            nodes.push(node);
        }
        let mut cx = Cx::new(self.axes, self.index, self.log);
        let mut new_of: Vec<ValueId> = Vec::with_capacity(nodes.len());
        for node in nodes {
            cx.span = node.span;
            let op = node.op.map_operands(|v| new_of[v.0 as usize]);
            new_of.push(cx.emit(op, node.axes));
        }
        let mut graph = cx.graph;
        graph.results = old.results.iter().map(|v| new_of[v.0 as usize]).collect();
        sweep(&mut graph);
        graph
    }
}
