//! Explains cycles that no loop can compute.

use std::collections::VecDeque;

use super::super::words;
use super::{Circle, Edge, Ordering, Way};
use crate::diagnostics::{Code, Diagnostic};

impl<'a> Ordering<'a> {
    /// What is wrong with a circle, by how its reads lie along each subscript.
    pub(super) fn no_loop(&self, circle: &Circle, ways: &[Way]) -> Diagnostic {
        let both = ways.iter().find_map(|way| match way {
            Way::Both { past, future } => Some((*past, *future)),
            Way::Still | Way::Loop { .. } | Way::Varying(_) => None,
        });
        if let Some((past, future)) = both {
            return self.both_directions(circle, past, future);
        }
        let varying: Option<Vec<Edge>> =
            ways.iter().map(|way| if let Way::Varying(edge) = way { Some(*edge) } else { None }).collect();
        match varying.as_deref() {
            Some([first, ..]) => self.two_indices(circle, *first),
            _ => self.self_reference(circle),
        }
    }

    fn both_directions(&self, circle: &Circle, past: Edge, future: Edge) -> Diagnostic {
        let (past, future) = (self.read(past).span, self.read(future).span);
        let names = self.names(circle.defs.iter().copied());
        let message = match names.as_slice() {
            [name] => format!("`{name}` refers to its past and to its future"),
            names => format!("{} refer to their past and to their future", words::list(names)),
        };
        let diagnostic = Diagnostic::new(Code::BothDirections, past.min(future), message);
        let labelled = if past < future {
            diagnostic.here("forward").label(future, "backward")
        } else {
            diagnostic.here("backward").label(past, "forward")
        };
        labelled.help("a recurrence runs in one direction; split it into two equations")
    }

    fn two_indices(&self, circle: &Circle, edge: Edge) -> Diagnostic {
        let (left, read) = self.need(edge);
        let names = words::list(&self.names(circle.defs.iter().copied()));
        let message = format!("there is no subscript along which {names} can be computed step by step");
        Diagnostic::new(Code::TwoIndices, self.read(edge).span, message)
            .here(format!("not at a fixed distance from `{left}`"))
            .label(self.items[edge.from as usize].span, format!("`{left}` needs `{read}`"))
            .help(
                "a recurrence runs along one subscript, the same in all its equations: \
                 there each value is read at a fixed number of steps from what it defines",
            )
    }

    fn self_reference(&self, circle: &Circle) -> Diagnostic {
        let round = self.round(circle);
        let names = self.names(round.iter().map(|edge| edge.from));
        let message = match names.as_slice() {
            [name] => format!("`{name}` needs itself"),
            [shown @ .., _] if names.len() > 6 => {
                let shown: Vec<String> = shown[..5].iter().map(|name| format!("`{name}` needs ")).collect();
                format!("{}.. {} more, which need `{}`", shown.concat(), names.len() - 5, names[0])
            }
            names => {
                let all: Vec<String> = names.iter().chain(&names[..1]).map(|name| format!("`{name}`")).collect();
                all.join(" needs ")
            }
        };
        let mut diagnostic = Diagnostic::new(Code::SelfReference, self.read(round[0]).span, message);
        for (number, &edge) in round.iter().enumerate().take(4) {
            let (left, read) = self.need(edge);
            let needs = format!("`{left}` needs `{read}`");
            diagnostic = if number == 0 { diagnostic.here(needs) } else { diagnostic.label(self.read(edge).span, needs) };
        }
        diagnostic.help("read an earlier step of one of them, or take one of the reads away")
    }

    /// A shortest way round, from the first equation in the text back to it.
    fn round(&self, circle: &Circle) -> Vec<Edge> {
        let start = circle.defs[0];
        let mut out: Vec<Vec<Edge>> = vec![Vec::new(); circle.defs.len()];
        let place = |def: u32| circle.defs.binary_search_by_key(&self.text(def), |d| self.text(*d)).unwrap_or(0);
        for &edge in &circle.edges {
            out[place(edge.from)].push(edge);
        }
        let mut came: Vec<Option<Edge>> = vec![None; circle.defs.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(def) = queue.pop_front() {
            for &edge in &out[place(def)] {
                if came[place(edge.to)].is_none() {
                    came[place(edge.to)] = Some(edge);
                    queue.push_back(edge.to);
                }
            }
        }
        let mut round = Vec::new();
        let mut at = start;
        while let Some(edge) = came[place(at)] {
            round.push(edge);
            at = edge.from;
            if at == start {
                break;
            }
        }
        round.reverse();
        round
    }

    /// The dependencies of the cycle, in words.
    fn need(&self, edge: Edge) -> (String, String) {
        let def = self.def(edge.from);
        (words::left(self.view, def), words::read(self.view, &def.vars, self.read(edge)))
    }

    /// Names of the families that equations define, each once, in the order given.
    fn names(&self, defs: impl Iterator<Item = u32>) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        let mut seen = vec![false; self.view.system.families.len()];
        for def in defs {
            let family = self.def(def).family;
            if !std::mem::replace(&mut seen[family.0 as usize], true) {
                names.push(words::short(&self.view.system.family(family).name));
            }
        }
        names
    }
}
