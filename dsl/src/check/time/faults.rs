//! Errors in ranges and domains.
//!
//! Equations are judged in clusters that read each other, after the clusters that they read. What follows from a
//! fault that was already reported stays silent: one mistake, one diagnostic.

use super::View;
use super::cover::Cover;
use super::domains::{Domains, restricted};
use super::graph::Graph;
use super::interval::Interval;
use super::reads::{Item, Origin, Read, Target};
use super::report::{Limit, Report};
use crate::diagnostics::Diagnostic;
use crate::hir::{FamilyId, VarId};

#[derive(Debug)]
pub(super) struct Fault {
    /// The cluster of equations it was found in. A circle in the same cluster that cannot be computed is the
    /// better explanation, and replaces it.
    pub(super) cluster: Option<u32>,
    /// What is read there, where a read is at fault.
    read: Option<FamilyId>,
    pub(super) diagnostic: Diagnostic,
}

#[derive(Debug)]
pub(super) struct Judgement {
    pub(super) faults: Vec<Fault>,
    /// By equation: the cluster it is in.
    pub(super) cluster: Vec<u32>,
    /// By cluster: whether ranges in it are not what the author meant.
    pub(super) doubtful: Vec<bool>,
}

pub(super) fn judge(view: &View<'_>, items: &[Item<'_>], domains: &Domains, covers: &[Cover]) -> Judgement {
    let defs = view.system.defs.len();
    let clusters = clusters(view, items);
    let mut judge = Judge {
        view,
        items,
        domains,
        covers,
        report: Report { view, domains },
        restricted: restricted_vars(view, items),
        poisoned: covers.iter().map(Cover::is_empty).collect(),
        unit_of: vec![None; view.system.families.len()],
        reported: vec![false; view.vars.len()],
        faults: Vec::new(),
    };
    let mut cluster = vec![0; defs];
    let mut doubtful = vec![false; clusters.len()];
    for (number, members) in clusters.iter().enumerate() {
        for &def in members {
            cluster[def] = number as u32;
        }
        doubtful[number] = judge.unit(members, Some(number as u32));
    }
    for site in defs..items.len() {
        judge.unit(&[site], None);
    }
    judge.conflicts();
    Judgement { faults: judge.faults, cluster, doubtful }
}

/// Equations that read each other's families, in the order of the text; each cluster after those that it reads.
fn clusters(view: &View<'_>, items: &[Item<'_>]) -> Vec<Vec<usize>> {
    let (defs, families) = (view.system.defs.len(), view.system.families.len());
    let node = |family: FamilyId| defs as u32 + family.0;
    let reads = items[..defs].iter().enumerate().flat_map(|(def, item)| {
        item.reads.iter().filter_map(move |read| match read.target {
            Target::Family(family) => Some((def as u32, node(family))),
            Target::Input(_) | Target::Outer(_) => None,
        })
    });
    let gives = view.system.defs.iter().enumerate().map(|(id, def)| (node(def.family), id as u32));
    let components = Graph::new(defs + families, reads.chain(gives)).components();
    let equations = components.into_iter().map(|members| {
        let mut equations: Vec<usize> = members.into_iter().map(|node| node as usize).filter(|node| *node < defs).collect();
        equations.sort_by_key(|def| (items[*def].span, *def));
        equations
    });
    equations.filter(|equations| !equations.is_empty()).collect()
}

/// By variable: whether some read restricts it.
fn restricted_vars(view: &View<'_>, items: &[Item<'_>]) -> Vec<bool> {
    let mut found = vec![false; view.vars.len()];
    for item in items {
        for index in item.reads.iter().flat_map(|read| read.index) {
            if let Some(var) = restricted(view, item, index) {
                found[var.0 as usize] = true;
            }
        }
    }
    found
}

struct Judge<'a> {
    view: &'a View<'a>,
    items: &'a [Item<'a>],
    domains: &'a Domains,
    covers: &'a [Cover],
    report: Report<'a>,
    restricted: Vec<bool>,
    /// Families whose domain is not to be relied upon: there was a fault, or they have no equation.
    poisoned: Vec<bool>,
    /// By family: the cluster that was last seen to define it.
    unit_of: Vec<Option<u32>>,
    /// Variables with a diagnostic of their own: an index that several equations share has one fault.
    reported: Vec<bool>,
    faults: Vec<Fault>,
}

impl Judge<'_> {
    /// Judges items that stand and fall together; true if their ranges are doubtful.
    fn unit(&mut self, members: &[usize], cluster: Option<u32>) -> bool {
        let items = self.items;
        let own: Vec<FamilyId> = members.iter().filter_map(|member| self.family(*member)).collect();
        for family in &own {
            self.unit_of[family.0 as usize] = cluster;
        }
        let mut reads = members.iter().flat_map(|member| &items[*member].reads);
        let derived = reads.any(|read| self.is_poisoned(read));

        let mut endless = Vec::new();
        let mut empty = Vec::new();
        for &member in members {
            for &var in items[member].vars {
                let range = self.domains.range(var);
                let follows = !self.view.is_explicit(var) && !self.restricted[var.0 as usize];
                if !range.is_bounded() {
                    endless.push((member, var, follows));
                } else if range.is_empty() && !follows {
                    empty.push((member, var));
                }
            }
        }
        let doubtful = derived || !endless.is_empty() || !empty.is_empty();
        if !derived {
            // An index that reads nothing is where the range is missing; without one any is as good.
            let missing = endless.iter().any(|(.., follows)| *follows);
            let roots = endless.iter().filter(|(.., follows)| *follows || !missing);
            for &(member, var, follows) in roots.take(if missing { usize::MAX } else { 1 }) {
                self.endless(member, var, follows, cluster);
            }
            if let (true, Some(&(member, var))) = (endless.is_empty(), empty.first()) {
                self.empty(member, var, cluster);
            }
        }

        for &member in members {
            for read in &items[member].reads {
                if self.can_judge(read, doubtful, cluster) {
                    self.read(member, read, cluster);
                }
            }
        }
        if doubtful {
            for family in own {
                self.poisoned[family.0 as usize] = true;
            }
        }
        doubtful
    }

    fn family(&self, member: usize) -> Option<FamilyId> {
        match self.items[member].origin {
            Origin::Def(def) => Some(self.view.system.def(def).family),
            Origin::Site(_) => None,
        }
    }

    fn is_poisoned(&self, read: &Read<'_>) -> bool {
        matches!(read.target, Target::Family(family) if self.poisoned[family.0 as usize])
    }

    /// Whether a read is of a family that the same cluster defines.
    fn is_own(&self, read: &Read<'_>, cluster: Option<u32>) -> bool {
        matches!(read.target, Target::Family(family) if cluster.is_some() && self.unit_of[family.0 as usize] == cluster)
    }

    /// Where ranges are in doubt, only what the author wrote in numbers can be judged.
    fn can_judge(&self, read: &Read<'_>, doubtful: bool, cluster: Option<u32>) -> bool {
        let mut vars = read.index.iter().flat_map(|index| &index.terms).map(|(var, _)| *var);
        !self.is_poisoned(read) && (!doubtful || !self.is_own(read, cluster) && vars.all(|var| self.view.is_explicit(var)))
    }

    fn fault(&mut self, cluster: Option<u32>, diagnostic: Diagnostic) {
        self.faults.push(Fault { cluster, read: None, diagnostic });
    }

    fn endless(&mut self, member: usize, var: VarId, follows: bool, cluster: Option<u32>) {
        if !std::mem::replace(&mut self.reported[var.0 as usize], true) {
            self.fault(cluster, self.report.endless(&self.items[member], var, follows));
        }
    }

    fn empty(&mut self, member: usize, var: VarId, cluster: Option<u32>) {
        if std::mem::replace(&mut self.reported[var.0 as usize], true) {
            return;
        }
        if self.view.is_explicit(var) {
            return self.fault(cluster, self.report.empty_clause(&self.items[member], var));
        }
        // All equations with this index, which may be more than those that were judged with it.
        let mut limits: Vec<Limit<'_>> = Vec::new();
        for item in self.items.iter().filter(|item| item.vars.contains(&var)) {
            for read in &item.reads {
                for (position, index) in read.index.iter().enumerate() {
                    if restricted(self.view, item, index) == Some(var)
                        && let Some(domain) = self.domains.domain(self.view, read.target, position)
                        // Its own family is empty because it is.
                        && !(domain.is_empty() && self.is_own(read, cluster))
                    {
                        let allowed = domain.allowed(index, var, |v| self.domains.range(v));
                        limits.push(Limit { item, read, index, domain, allowed });
                    }
                }
            }
        }
        let diagnostic = match limits.iter().find(|limit| limit.allowed.is_empty()) {
            Some(limit) => self.report.too_wide(limit, var),
            None => self.report.empty(limits.first().map_or(&self.items[member], |limit| limit.item), var, &limits),
        };
        self.fault(cluster, diagnostic);
    }

    /// Judges a read whose variables have their ranges.
    fn read(&mut self, member: usize, read: &Read<'_>, cluster: Option<u32>) {
        let Some(touched) = self.domains.touched(read) else {
            return;
        };
        let along = |position| self.domains.domain(self.view, read.target, position);
        let Some(domain) = (0..touched.len()).map(along).collect::<Option<Vec<Interval>>>() else {
            return;
        };
        let item = &self.items[member];
        if let Some(position) = (0..touched.len()).find(|p| !domain[*p].contains(touched[*p])) {
            let starts = self.is_own(read, cluster);
            let diagnostic = self.report.outside(item, read, position, &touched, &domain, starts);
            let read = if let Target::Family(family) = read.target { Some(family) } else { None };
            return self.faults.push(Fault { cluster, read, diagnostic });
        }
        let Target::Family(family) = read.target else {
            return;
        };
        if touched.len() != self.view.system.family(family).arity {
            return; // The wrong number of subscripts is told elsewhere.
        }
        if let Some(at) = self.covers[family.0 as usize].missing(&touched) {
            let diagnostic = self.report.hole(item, read, &touched, &at);
            self.faults.push(Fault { cluster, read: Some(family), diagnostic });
        }
    }

    fn conflicts(&mut self) {
        for (id, cover) in self.covers.iter().enumerate().filter(|(id, _)| !self.poisoned[*id]) {
            let family = FamilyId(id as u32);
            let found = cover.conflicts();
            if !found.is_empty() {
                // Equations that overlap are not the ones that were meant, and so are the reads of them.
                self.faults.retain(|fault| fault.read != Some(family));
            }
            for (a, b, at) in found {
                let diagnostic = self.report.twice(family, a, b, &at);
                self.faults.push(Fault { cluster: None, read: None, diagnostic });
            }
        }
    }
}
