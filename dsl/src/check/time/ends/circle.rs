//! The least solution of ends that need each other.
//!
//! Counting up to it would take as many rounds as the longest loop has steps. Instead each *most* chooses one of its
//! parts; for fixed choices the system is solved by relaxation like shortest paths; then every *most* that another
//! part would serve better chooses again (strategy iteration). Two or three rounds are usual.

use std::collections::VecDeque;

use super::super::interval::{FAR, add, divide};
use super::NOWHERE;

/// An end of a circle: what comes from outside is folded into one number.
pub(super) enum Knot {
    Least {
        cap: i64,
        uses: Vec<Use>,
    },
    Most {
        floor: i64,
        parts: Vec<Use>,
        /// The part it takes; its floor where none is chosen.
        choice: Option<usize>,
    },
}

/// `(knot + plus) / by`.
pub(super) struct Use {
    pub(super) knot: usize,
    pub(super) plus: i64,
    pub(super) by: i64,
}

impl Use {
    fn of(&self, values: &[i64]) -> i64 {
        divide(add(values[self.knot], self.plus), self.by)
    }
}

/// Ends that need each other.
pub(super) struct Circle {
    knots: Vec<Knot>,
    pub(super) values: Vec<i64>,
    /// For every knot, those that use it, with the number of the use.
    users: Vec<Vec<(usize, usize)>>,
}

impl Circle {
    pub(super) fn new(knots: Vec<Knot>) -> Circle {
        let mut users = vec![Vec::new(); knots.len()];
        for (user, knot) in knots.iter().enumerate() {
            let (Knot::Least { uses, .. } | Knot::Most { parts: uses, .. }) = knot;
            for (number, used) in uses.iter().enumerate() {
                users[used.knot].push((user, number));
            }
        }
        Circle { values: vec![NOWHERE; knots.len()], knots, users }
    }

    /// Finds the values.
    pub(super) fn solve(&mut self) {
        let order = self.found();
        let mut founded = vec![false; self.knots.len()];
        for &knot in &order {
            founded[knot] = true;
        }
        loop {
            self.evaluate(&order);
            if !self.improve(&founded) {
                break;
            }
        }
        self.guess(&founded);
    }

    /// The knots that follow from outside at all, each after those that it follows from; every *most* among them
    /// chooses what founded it, so that the first choices contain no circle.
    fn found(&mut self) -> Vec<usize> {
        let mut waits = vec![0; self.knots.len()];
        let mut order = Vec::new();
        let mut founded = vec![false; self.knots.len()];
        for (number, knot) in self.knots.iter().enumerate() {
            founded[number] = match knot {
                Knot::Least { uses, .. } => {
                    waits[number] = uses.len();
                    uses.is_empty()
                }
                Knot::Most { floor, .. } => *floor > NOWHERE,
            };
            if founded[number] {
                order.push(number);
            }
        }
        let mut next = 0;
        while let Some(&knot) = order.get(next) {
            next += 1;
            for &(user, number) in &self.users[knot] {
                let ready = match &mut self.knots[user] {
                    Knot::Least { .. } => {
                        waits[user] -= 1;
                        waits[user] == 0
                    }
                    Knot::Most { choice, .. } => {
                        if !founded[user] {
                            *choice = Some(number);
                        }
                        true
                    }
                };
                if ready && !founded[user] {
                    founded[user] = true;
                    order.push(user);
                }
            }
        }
        order
    }

    /// Greatest values for the choices as they are, from above. It ends: no circle of choices loses on its way round,
    /// since the first choices have no circle and a later one is only made because it gains.
    fn evaluate(&mut self, order: &[usize]) {
        for &knot in order {
            self.values[knot] = FAR;
        }
        let mut queue: VecDeque<usize> = order.iter().copied().collect();
        let mut queued = vec![false; self.knots.len()];
        for &knot in order {
            queued[knot] = true;
        }
        while let Some(number) = queue.pop_front() {
            queued[number] = false;
            let value = match &self.knots[number] {
                Knot::Least { cap, uses } => uses.iter().map(|used| used.of(&self.values)).fold(*cap, i64::min),
                Knot::Most { floor, choice: None, .. } => *floor,
                Knot::Most { parts, choice: Some(part), .. } => parts[*part].of(&self.values),
            };
            if value < self.values[number] {
                self.values[number] = value;
                for &(user, _) in &self.users[number] {
                    // What is not founded has no value to follow with.
                    if self.values[user] > NOWHERE && !std::mem::replace(&mut queued[user], true) {
                        queue.push_back(user);
                    }
                }
            }
        }
    }

    fn improve(&mut self, founded: &[bool]) -> bool {
        let mut changed = false;
        for (knot, &current) in self.knots.iter_mut().zip(&self.values) {
            let Knot::Most { floor, parts, choice } = knot else {
                continue;
            };
            let mut best = current;
            if *floor > best {
                (best, *choice) = (*floor, None);
            }
            for (number, part) in parts.iter().enumerate().filter(|(_, part)| founded[part.knot]) {
                let value = part.of(&self.values);
                if value > best {
                    (best, *choice) = (value, Some(number));
                }
            }
            changed |= best > current;
        }
        changed
    }

    /// Ends that follow only from themselves: a recurrence that never starts. They get what the rest allows, so that
    /// the read that lacks its start can be shown.
    fn guess(&mut self, founded: &[bool]) {
        for (number, knot) in self.knots.iter().enumerate().filter(|(number, _)| !founded[*number]) {
            if let Knot::Least { cap, uses } = knot {
                let known = uses.iter().filter(|used| founded[used.knot]);
                self.values[number] = known.map(|used| used.of(&self.values)).fold(*cap, i64::min);
            }
        }
        for (number, knot) in self.knots.iter().enumerate().filter(|(number, _)| !founded[*number]) {
            if let Knot::Most { parts, .. } = knot {
                self.values[number] = parts.iter().map(|part| part.of(&self.values)).max().unwrap_or(NOWHERE);
            }
        }
    }
}
