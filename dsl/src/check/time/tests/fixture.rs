//! A small notation for systems.
//!
//! A line is an equation, `y[i, k+1] = y[i, k], a[i+k] for k in 0..5`: what is read stands on the right, with commas.
//! `each n in 0..4` gives the range of a variable of a fold; a line that starts with `loss` is a site. Index
//! variables belong to their line; a line that starts with `with` is a base case and shares those of the line before it.

use std::collections::BTreeMap;

use super::super::{Problem, Site, VarDecl, solve};
use crate::diagnostics::Diagnostic;
use crate::hir::{AxisId, Def, DefId, Dtype, ExprId, Family, FamilyId, Index, Lhs, Node, Op, System, VarId};
use crate::source::{FileId, Span};

pub(super) struct Solved {
    pub(super) text: String,
    pub(super) exprs: Vec<Node>,
    pub(super) vars: Vec<VarDecl>,
    /// By variable: whether the text left its range open.
    pub(super) inferred: Vec<bool>,
    pub(super) system: System,
    pub(super) sites: Vec<Site>,
    pub(super) inputs: Vec<(String, (i64, i64))>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Solves a system over data such as `a 0..7, z 0..8`.
pub(super) fn solved(inputs: &str, text: &str) -> Solved {
    inside(inputs, None, text)
}

/// The same for a system inside a solved one.
pub(super) fn inside(inputs: &str, outer: Option<&System>, text: &str) -> Solved {
    let named = |input: &str| {
        let (name, over) = input.split_once(' ').unwrap();
        (name.to_owned(), range(over))
    };
    let inputs: Vec<(String, (i64, i64))> = inputs.split(", ").filter(|input| !input.is_empty()).map(named).collect();
    let mut reader = Reader {
        text,
        inputs: &inputs,
        outer,
        exprs: Vec::new(),
        vars: Vec::new(),
        system: System::default(),
        inferred: Vec::new(),
        scope: BTreeMap::new(),
        names: BTreeMap::new(),
        sites: Vec::new(),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| line.contains('=')).collect();
    lines.iter().for_each(|line| reader.declare(line));
    lines.iter().for_each(|line| reader.line(line));

    let Reader { exprs, mut vars, mut system, sites, inferred, .. } = reader;
    let mut diagnostics = Vec::new();
    let problem = Problem {
        exprs: &exprs,
        written_out: &Default::default(),
        vars: &mut vars,
        system: &mut system,
        sites: &sites,
        touched: &[],
        inputs: &inputs,
        outer,
        time: None,
        hidden: &[],
        within: &[],
    };
    solve(problem, &mut diagnostics);
    Solved { text: text.to_owned(), exprs, vars, inferred, system, sites, inputs, diagnostics }
}

fn range(text: &str) -> (i64, i64) {
    let (lo, hi) = text.trim().split_once("..").unwrap();
    (lo.parse().unwrap(), hi.parse().unwrap())
}

/// `y[i, k+1]` as `y` and its subscripts.
fn subscripted(text: &str) -> (&str, Vec<&str>) {
    match text.split_once('[') {
        None => (text, Vec::new()),
        Some((name, rest)) => (name, rest.trim_end_matches(']').split(',').map(str::trim).collect()),
    }
}

/// What stands right of the `=`: the reads, the clauses of `for` and those of `each`.
fn clauses(right: &str) -> (&str, Vec<&str>, Vec<&str>) {
    let (rest, each) = right.split_once(" each ").unwrap_or((right, ""));
    let (reads, over) = rest.split_once(" for ").unwrap_or((rest, ""));
    fn cut(text: &str) -> Vec<&str> {
        text.split(',').map(str::trim).filter(|clause| !clause.is_empty()).collect()
    }
    (reads, cut(over), cut(each))
}

/// Cuts at the commas that stand outside brackets.
fn reads_of(text: &str) -> Vec<&str> {
    let (mut reads, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices().chain([(text.len(), ',')]) {
        match c {
            '[' | ']' => inside = c == '[',
            ',' if !inside => {
                reads.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    reads.retain(|read| !read.is_empty());
    reads
}

struct Reader<'t> {
    text: &'t str,
    inputs: &'t [(String, (i64, i64))],
    outer: Option<&'t System>,
    exprs: Vec<Node>,
    vars: Vec<VarDecl>,
    system: System,
    /// By variable: whether the text leaves its range open.
    inferred: Vec<bool>,
    /// The variables of the line before.
    scope: BTreeMap<&'t str, VarId>,
    names: BTreeMap<String, usize>,
    sites: Vec<Site>,
}

impl<'t> Reader<'t> {
    fn span(&self, part: &str) -> Span {
        let at = part.as_ptr() as usize - self.text.as_ptr() as usize;
        Span::new(FileId(0), at, at + part.len())
    }

    /// Makes the family that a line defines.
    fn declare(&mut self, line: &'t str) {
        let line = line.strip_prefix("with ").unwrap_or(line);
        let (name, subscripts) = subscripted(line.split_once('=').unwrap().0.trim());
        if !name.starts_with("loss ") && !self.names.contains_key(name) {
            self.names.insert(name.to_owned(), self.system.families.len());
            self.system.families.push(Family {
                name: name.to_owned(),
                arity: subscripts.len(),
                leaves: Vec::new(),
                defs: Vec::new(),
                domain: Vec::new(),
            });
        }
    }

    fn line(&mut self, line: &'t str) {
        let (base, mut scope, line) = match line.strip_prefix("with ") {
            Some(line) => (true, std::mem::take(&mut self.scope), line),
            None => (false, BTreeMap::new(), line),
        };
        let (left, right) = line.split_once('=').unwrap();
        let (left, (reads, over, each)) = (left.trim(), clauses(right));
        for clause in over.iter().chain(&each) {
            let (name, over) = clause.split_once(" in ").unwrap();
            scope.insert(name, self.var(name, self.span(clause), Some(range(over))));
        }
        let folded: Vec<VarId> = each.iter().map(|c| scope[c.split_once(" in ").unwrap().0]).collect();

        let mut vars = Vec::new();
        let (name, subscripts) = subscripted(left);
        let lhs = subscripts.into_iter().map(|subscript| {
            let index = self.index(subscript, &mut scope);
            vars.extend(index.terms.iter().map(|(var, _)| *var));
            match index.shifted() {
                Some((var, offset)) => Lhs::Var { var, offset },
                None => Lhs::At(index.constant().unwrap()),
            }
        });
        let lhs: Vec<Lhs> = lhs.collect();
        let reads = reads_of(reads).into_iter().map(|read| self.read(read, &mut scope));
        let parts: Vec<ExprId> = reads.collect();
        let along = vec![Vec::new(); parts.len()];
        let value = self.node(Op::Concat { parts, along, into: AxisId(0) }, self.span(right));
        let (values, span) = (vec![value], self.span(line));
        match left.strip_prefix("loss ") {
            Some(loss) => {
                let vars = scope.values().copied().filter(|var| !folded.contains(var)).collect();
                self.sites.push(Site { vars, values, touched: Vec::new(), span, what: format!("loss `{loss}`") });
            }
            None => {
                let family = FamilyId(self.names[name] as u32);
                let id = DefId(self.system.defs.len() as u32);
                self.system.families[family.0 as usize].defs.push(id);
                self.system.defs.push(Def { base, family, lhs, vars, values, span });
            }
        }
        self.scope = scope;
    }

    fn read(&mut self, text: &'t str, scope: &mut BTreeMap<&'t str, VarId>) -> ExprId {
        let (name, subscripts) = subscripted(text);
        let index: Vec<Index> = subscripts.into_iter().map(|s| self.index(s, scope)).collect();
        let op = if let Some(input) = self.inputs.iter().position(|(input, _)| input == name) {
            Op::Input { input, index: index[0].clone() }
        } else if let Some(family) = self.names.get(name) {
            Op::Read { family: FamilyId(*family as u32), leaf: 0, index }
        } else {
            Op::Outer { family: self.outer.and_then(|outer| outer.find(name)).unwrap(), leaf: 0, index }
        };
        self.node(op, self.span(text))
    }

    /// `i+2*k-1`.
    fn index(&mut self, text: &'t str, scope: &mut BTreeMap<&'t str, VarId>) -> Index {
        let mut terms: BTreeMap<VarId, i64> = BTreeMap::new();
        let mut offset = 0;
        let starts = text.char_indices().skip(1).filter(|(_, c)| "+-".contains(*c)).map(|(at, _)| at);
        let starts: Vec<usize> = [0].into_iter().chain(starts).chain([text.len()]).collect();
        for term in starts.windows(2).map(|w| &text[w[0]..w[1]]) {
            let sign = if term.starts_with('-') { -1 } else { 1 };
            let term = term.trim_start_matches(['+', '-']);
            let (factor, name) = term.split_once('*').map_or((1, term), |(f, n)| (f.parse().unwrap(), n));
            match name.parse::<i64>() {
                Ok(number) => offset += sign * number,
                Err(_) => {
                    let var = match scope.get(name) {
                        Some(var) => *var,
                        None => self.var(name, self.span(name), None),
                    };
                    scope.insert(name, var);
                    *terms.entry(var).or_default() += sign * factor;
                }
            }
        }
        Index { terms: terms.into_iter().collect(), offset }
    }

    fn node(&mut self, op: Op, span: Span) -> ExprId {
        self.exprs.push(Node { op, axes: Vec::new(), dtype: Dtype::Real, span });
        ExprId(self.exprs.len() as u32 - 1)
    }

    fn var(&mut self, name: &str, span: Span, range: Option<(i64, i64)>) -> VarId {
        self.inferred.push(range.is_none());
        self.vars.push(VarDecl { name: name.to_owned(), span, range });
        VarId(self.vars.len() as u32 - 1)
    }
}
