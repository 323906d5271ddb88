//! Solves for ends of ranges that depend on each other.
//!
//! Every range has two ends. Written so that growing means larger (`hi` for the upper end, `-lo` for the lower one),
//! both obey the same two rules: an index goes as far as everything it reads, which is a *least* of ends,
//! and a family reaches as far as the furthest of its equations, which is a *most* of ends. Reads go in circles, so
//! this is a system of equations; wanted is its least solution, in which no range is there only because it
//! says so itself:
//!
//! ```text
//! y[i, 0]   = z[i]     for i in 0..3        hi(y) = most(2, hi(i))
//! y[i, k+1] = y[i, k]  for k in 0..5        hi(i) = least(hi(y))          so hi(y) = 2, not anything above
//! ```
//!
//! [`circle`] finds that solution.

mod circle;

use circle::{Circle, Knot, Use};

use super::graph::Graph;
use super::interval::{FAR, add, divide, multiply};

/// Number of an end.
pub(super) type End = u32;

/// An end that nothing supports.
const NOWHERE: i64 = -FAR;

#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    Known(i64),
    End(End),
}

/// The bound `(of - minus - sum of others) / by`, rounded down.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) of: Of,
    pub(super) minus: i64,
    /// Ends of the other variables of the subscript, with positive factors. The further they are, the nearer this one.
    pub(super) others: Vec<(End, i64)>,
    /// Positive.
    pub(super) by: i64,
}

/// `of + plus`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) of: Of,
    pub(super) plus: i64,
}

/// How an end follows from others.
#[derive(Debug)]
pub(super) enum Rule {
    Known(i64),
    Least(Vec<Term>),
    Most(Vec<Part>),
    /// An index of an equation that reads nothing with it, as `t` in `w[t, -1] = 1`. It goes as far as the other
    /// equations of the families that it helps to define: `(end of the family, offset)`.
    Free(Vec<(End, i64)>),
}

/// The value of every end; [`FAR`] where nothing bounds it.
pub(super) fn solve(rules: &[Rule]) -> Vec<i64> {
    let edges = rules.iter().enumerate().flat_map(|(end, rule)| needs(rule).map(move |to| (end as u32, to)));
    let components = Graph::new(rules.len(), edges).components();
    let mut solver =
        Solver { rules, values: vec![NOWHERE; rules.len()], component: vec![0; rules.len()], place: vec![0; rules.len()] };
    for (number, members) in components.iter().enumerate() {
        for &end in members {
            solver.component[end as usize] = number as u32;
        }
    }
    for members in &components {
        match members.as_slice() {
            [end] if needs(&rules[*end as usize]).all(|to| to != *end) => solver.values[*end as usize] = solver.direct(*end),
            _ => solver.circle(members),
        }
    }
    solver.values
}

fn needs(rule: &Rule) -> impl Iterator<Item = End> + Clone + '_ {
    let (terms, parts, homes): (&[Term], &[Part], &[(End, i64)]) = match rule {
        Rule::Known(_) => (&[], &[], &[]),
        Rule::Least(terms) => (terms, &[], &[]),
        Rule::Most(parts) => (&[], parts, &[]),
        Rule::Free(homes) => (&[], &[], homes),
    };
    let end = |of: Of| match of {
        Of::Known(_) => None,
        Of::End(end) => Some(end),
    };
    let of_terms = terms.iter().flat_map(move |term| end(term.of).into_iter().chain(term.others.iter().map(|(other, _)| *other)));
    of_terms.chain(parts.iter().filter_map(move |part| end(part.of))).chain(homes.iter().map(|(home, _)| *home))
}

struct Solver<'r> {
    rules: &'r [Rule],
    values: Vec<i64>,
    component: Vec<u32>,
    /// Where a member of the circle at hand stands among its members.
    place: Vec<u32>,
}

impl Solver<'_> {
    fn value(&self, of: Of) -> i64 {
        match of {
            Of::Known(value) => value,
            Of::End(end) => self.values[end as usize],
        }
    }

    /// An end whose needs are all solved.
    fn direct(&self, end: End) -> i64 {
        match &self.rules[end as usize] {
            Rule::Known(value) => *value,
            Rule::Least(terms) => terms.iter().map(|term| self.bound(term, |e| self.values[e as usize])).min().unwrap_or(FAR),
            Rule::Most(parts) => parts.iter().map(|part| add(self.value(part.of), part.plus)).max().unwrap_or(NOWHERE),
            Rule::Free(_) => FAR,
        }
    }

    /// The bound of a term with a solved `of`; an unknown or endless neighbour gives none.
    fn bound(&self, term: &Term, other: impl Fn(End) -> i64) -> i64 {
        match (self.value(term.of), minus(term, other)) {
            (NOWHERE, _) | (_, None) => FAR,
            (of, Some(minus)) => divide(add(of, -minus), term.by),
        }
    }

    /// Solves ends that need each other.
    fn circle(&mut self, members: &[End]) {
        for (place, &end) in members.iter().enumerate() {
            self.place[end as usize] = place as u32;
            self.values[end as usize] = if matches!(self.rules[end as usize], Rule::Free(_)) { FAR } else { NOWHERE };
        }
        // A free index starts as endless; once its family is known by other equations it is known too, which may
        // make more known.
        loop {
            self.relax(members);
            let found: Vec<(End, i64)> = members.iter().filter_map(|&end| Some((end, self.room(end)?))).collect();
            if found.is_empty() {
                break;
            }
            for (end, value) in found {
                self.values[end as usize] = value;
            }
        }
    }

    /// How far the families of a free index go by their other equations.
    fn room(&self, end: End) -> Option<i64> {
        let Rule::Free(homes) = &self.rules[end as usize] else {
            return None;
        };
        if self.values[end as usize] != FAR {
            return None;
        }
        let open = |of: Of| match of {
            Of::End(e) => self.values[e as usize] == FAR && matches!(self.rules[e as usize], Rule::Free(_)),
            Of::Known(_) => false,
        };
        let rooms = homes.iter().filter_map(|&(home, offset)| {
            let Rule::Most(parts) = &self.rules[home as usize] else {
                return None;
            };
            let known = parts.iter().filter(|part| !open(part.of)).map(|part| add(self.value(part.of), part.plus)).max()?;
            (known.abs() != FAR).then(|| add(known, -offset))
        });
        rooms.min()
    }

    /// Least solution of a circle in which the free ends have the values they have.
    fn relax(&mut self, members: &[End]) {
        let mut circle = Circle::new(members.iter().map(|&end| self.knot(end)).collect());
        circle.solve();
        for (&end, value) in members.iter().zip(circle.values) {
            if !matches!(self.rules[end as usize], Rule::Free(_)) {
                self.values[end as usize] = value;
            }
        }
    }

    fn knot(&self, end: End) -> Knot {
        let home = self.component[end as usize];
        let inside = |of: Of| match of {
            Of::End(e) if self.component[e as usize] == home => Some(self.place[e as usize] as usize),
            _ => None,
        };
        match &self.rules[end as usize] {
            Rule::Known(value) => Knot::Least { cap: *value, uses: Vec::new() },
            Rule::Free(_) => Knot::Least { cap: self.values[end as usize], uses: Vec::new() },
            Rule::Least(terms) => {
                let (mut cap, mut uses) = (FAR, Vec::new());
                for term in terms {
                    // A neighbour in the same circle would pull the other way at every step: it counts as far as
                    // the outside lets it, which is safe and does not depend on any order.
                    let other = |e: End| {
                        if self.component[e as usize] == home { self.outside(e) } else { self.values[e as usize] }
                    };
                    match inside(term.of) {
                        None => cap = cap.min(self.bound(term, other)),
                        Some(knot) => uses.extend(minus(term, other).map(|minus| Use { knot, plus: -minus, by: term.by })),
                    }
                }
                Knot::Least { cap, uses }
            }
            Rule::Most(parts) => {
                let (mut floor, mut inner) = (NOWHERE, Vec::new());
                for part in parts {
                    match inside(part.of) {
                        None => floor = floor.max(add(self.value(part.of), part.plus)),
                        Some(knot) => inner.push(Use { knot, plus: part.plus, by: 1 }),
                    }
                }
                Knot::Most { floor, parts: inner, choice: None }
            }
        }
    }

    /// How far an index goes by what it reads outside its circle.
    fn outside(&self, end: End) -> i64 {
        let home = self.component[end as usize];
        let far = |e: End| self.component[e as usize] != home;
        match &self.rules[end as usize] {
            Rule::Least(terms) => {
                let known = terms.iter().filter(|term| match term.of {
                    Of::Known(_) => term.others.iter().all(|(e, _)| far(*e)),
                    Of::End(of) => far(of) && term.others.iter().all(|(e, _)| far(*e)),
                });
                known.map(|term| self.bound(term, |e| self.values[e as usize])).min().unwrap_or(FAR)
            }
            _ => self.values[end as usize],
        }
    }
}

/// The offset that a term subtracts; zero for an endless neighbour.
fn minus(term: &Term, other: impl Fn(End) -> i64) -> Option<i64> {
    term.others.iter().try_fold(term.minus, |sum, &(end, factor)| {
        let value = other(end);
        (value.abs() != FAR).then(|| add(sum, multiply(value, factor)))
    })
}
