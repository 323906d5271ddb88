//! Which constructs of the language a text uses, found from its syntax tree and not from what wrote it.

use std::collections::{BTreeMap, BTreeSet};

use dsl::ast::{
    Arg, ArgKind, Clause, ClauseKind, Equation, Expr, ExprKind, File, Item, MemberKind, Stmt, StmtKind, without_spans,
};

use crate::family::{reads, walk};

/// What every batch of generated models must hold, each in at least 2 % of the models.
pub const WANTED: [&str; 44] = [
    "family of several subscripts",
    "copy",
    "constant target",
    "subscript at another step",
    "scan forward",
    "scan backward",
    "memory",
    "rollout",
    "reset",
    "fold",
    "each",
    "ensemble",
    "sg",
    "gradient of order one",
    "gradient of order two",
    "gradient by index",
    "Hessian by index",
    "gradient for each member",
    "planner with a gradient",
    "gradient in a function",
    "gradient by an entry",
    "expression beside a `let` of it",
    "gradient behind an equation, differentiated again",
    "running",
    "if (training)",
    "batch statistic",
    "planner carry",
    "memory that acting reads",
    "draw",
    "optimizer after another",
    "window that shrinks",
    "loss over a window",
    "NaN replaced",
    "range of the action",
    "gradient of order three",
    "gradient of a statistic",
    "gradient by two axes",
    "gradient by the memory",
    "gradient in a loss",
    "`partial`",
    "`take` at a computed place",
    "`sort` or `top`",
    "`frozen`",
    "loop past an axis",
];

struct Seen<'a> {
    found: BTreeSet<&'static str>,
    reads: BTreeMap<String, BTreeSet<String>>,
    /// Families whose equations are mere reads or constants.
    constant: BTreeSet<&'a str>,
    ensembles: BTreeSet<&'a str>,
    /// By family: what its gradients are taken by.
    targets: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// By family: how many gradients stand inside each other in it.
    orders: BTreeMap<&'a str, usize>,
    /// Families along two axes.
    tables: BTreeSet<&'a str>,
    /// The family whose equation is being looked at.
    of: &'a str,
}

/// The constructs in a file.
pub fn constructs(file: &File) -> BTreeSet<&'static str> {
    let mut seen = Seen {
        found: BTreeSet::new(),
        reads: reads(file),
        constant: BTreeSet::new(),
        ensembles: BTreeSet::new(),
        targets: BTreeMap::new(),
        orders: BTreeMap::new(),
        tables: BTreeSet::new(),
        of: "",
    };
    for item in &file.items {
        match item {
            Item::Planner(p) => {
                if !p.carries.is_empty() {
                    seen.found.insert("planner carry");
                }
                let before = seen.found.clone();
                p.equations.iter().for_each(|e| seen.equation(e));
                if seen.found.contains("gradient of order one") {
                    seen.found.insert("planner with a gradient");
                }
                seen.found.extend(before);
            }
            Item::Model(m) => {
                for member in &m.members {
                    match &member.kind {
                        MemberKind::Net(n) if n.ensemble.is_some() => {
                            seen.ensembles.insert(&n.name.text);
                        }
                        MemberKind::Running { .. } => drop(seen.found.insert("running")),
                        MemberKind::Planner(p) if p.params.iter().any(|p| p.name.text == "m") => {
                            seen.found.insert("memory that acting reads");
                        }
                        MemberKind::Optimizer(o) if !o.after.is_empty() => drop(seen.found.insert("optimizer after another")),
                        MemberKind::Memory(m) => {
                            seen.found.insert("memory");
                            if m.reset.is_some() {
                                seen.found.insert("reset");
                            }
                        }
                        _ => {}
                    }
                }
                for member in &m.members {
                    match &member.kind {
                        MemberKind::Equation(e) => seen.equation(e),
                        MemberKind::Act(list) => list.iter().for_each(|e| seen.equation(e)),
                        MemberKind::Planner(p) => p.equations.iter().for_each(|e| seen.equation(e)),
                        MemberKind::Loss(l) => {
                            if l.parts.iter().any(|p| dependent(l.clauses.iter().chain(&p.clauses))) {
                                seen.found.insert("loss over a window");
                            }
                            for p in &l.parts {
                                walk(&p.value, &mut |e| {
                                    if is_call(e, "grad").is_some() {
                                        seen.found.insert("gradient in a loss");
                                    }
                                });
                                seen.expr(&p.value, &[]);
                            }
                        }
                        MemberKind::Fn(f) => seen.body(&f.body),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    seen.found
}

fn is_call<'a>(e: &'a Expr, name: &str) -> Option<Vec<&'a Expr>> {
    let ExprKind::Call(f, args) = &e.kind else { return None };
    let args = args.iter().filter_map(|a| if let ArgKind::Value(e) = &a.kind { Some(e) } else { None });
    f.as_name().filter(|n| n.text == name).map(|_| args.collect())
}

/// Whether the range of an index names another one.
fn dependent<'c>(clauses: impl Iterator<Item = &'c Clause>) -> bool {
    let iters: Vec<_> = clauses.filter_map(|c| if let ClauseKind::For(i) = &c.kind { Some(i) } else { None }).flatten().collect();
    let mut found = false;
    for (_, range) in &iters {
        walk(range, &mut |e| found |= e.as_name().is_some_and(|n| iters.iter().any(|(name, _)| name.text == n.text)));
    }
    found
}

fn over_batch(list: &Expr) -> bool {
    let mut found = false;
    walk(list, &mut |e| found |= e.as_name().is_some_and(|n| n.text == "B"));
    found
}

/// A read of something else, or a constant.
fn trivial(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Name(_) | ExprKind::Number(_) => true,
        ExprKind::Index(base, _) | ExprKind::Field(base, _) => trivial(base),
        ExprKind::Binary(_, l, r) => trivial(l) && trivial(r) && (l.as_name().is_none() && r.as_name().is_none()),
        _ => is_call(e, "zeros").is_some() || is_call(e, "ones").is_some(),
    }
}

impl<'a> Seen<'a> {
    fn equation(&mut self, e: &'a Equation) {
        let name = e.place.name.text.as_str();
        self.of = name;
        if e.place.indices.len() > 1 {
            self.found.insert("family of several subscripts");
        }
        if dependent(e.clauses.iter()) {
            self.found.insert("window that shrinks");
        }
        if trivial(&e.value) {
            self.found.insert("copy");
            self.constant.insert(name);
        }
        for c in &e.clauses {
            match &c.kind {
                ClauseKind::Reset(_) => drop(self.found.insert("reset")),
                ClauseKind::With(cases) => cases.iter().for_each(|(_, v)| self.expr(v, &[])),
                _ => {}
            }
        }
        walk(&e.value, &mut |r| {
            let ExprKind::Index(base, at) = &r.kind else { return };
            let Some(base) = base.as_name() else { return };
            for (i, s) in at.iter().enumerate() {
                let ExprKind::Binary(op, ..) = &s.kind else { continue };
                self.found.insert("subscript at another step");
                if base.text == name && i == 0 && at.len() == 1 {
                    self.found.insert(if *op == dsl::ast::BinaryOp::Sub { "scan forward" } else { "scan backward" });
                }
            }
            let moved = e.place.indices.iter().any(|p| matches!(p.kind, ExprKind::Binary(..)));
            if base.text == name && moved {
                self.found.insert("rollout");
            }
        });
        let order = self.order(&e.value);
        self.orders.insert(name, order);
        if order > 2 {
            self.found.insert("gradient of order three");
        }
        if self.table(&e.value) {
            self.tables.insert(name);
        }
        let indices: Vec<&str> = e.place.indices.iter().skip(1).filter_map(|e| e.as_name().map(|n| n.text.as_str())).collect();
        self.expr(&e.value, &indices);
    }

    /// Whether a value lies along two axes, as far as its form shows.
    fn table(&self, e: &Expr) -> bool {
        let axes = |e: &Expr| matches!(&e.kind, ExprKind::List(l) if l.len() == 2);
        match &e.kind {
            ExprKind::Fold { op, over, .. } => op.text == "each" && over.as_name().is_some_and(|n| n.text == "J"),
            ExprKind::Binary(op, l, r) => *op != dsl::ast::BinaryOp::Dot && (self.table(l) || self.table(r)),
            ExprKind::Unary(_, e) => self.table(e),
            ExprKind::Index(e, _) => e.as_name().is_some_and(|n| self.tables.contains(n.text.as_str())),
            ExprKind::Call(f, args) => match (f.as_name().map_or("", |n| &n.text), &args[..]) {
                ("split" | "outer", _) => true,
                ("zeros" | "ones", [Arg { kind: ArgKind::Value(list), .. }]) => axes(list),
                (
                    "tanh" | "sin" | "sigmoid" | "softplus" | "exp" | "cos" | "silu" | "log",
                    [Arg { kind: ArgKind::Value(e), .. }],
                ) => self.table(e),
                _ => false,
            },
            _ => false,
        }
    }

    /// How many gradients stand inside each other, behind equations that come before too.
    fn order(&self, e: &Expr) -> usize {
        let mut inner = 0;
        crate::family::children(e, &mut |c| inner = inner.max(self.order(c)));
        let behind = e.as_name().and_then(|n| self.orders.get(n.text.as_str())).copied().unwrap_or(0);
        let own = is_call(e, "grad").or_else(|| is_call(e, "partial")).is_some();
        inner.max(behind) + usize::from(own)
    }

    fn body(&mut self, stmts: &'a [Stmt]) {
        let mut lets: Vec<String> = Vec::new();
        for s in stmts {
            if let StmtKind::Let(_, e) | StmtKind::Return(e) = &s.kind {
                walk(e, &mut |e| {
                    if !lets.is_empty() && lets.contains(&without_spans(e)) {
                        self.found.insert("expression beside a `let` of it");
                    }
                });
                if matches!(s.kind, StmtKind::Let(..)) && !trivial(e) {
                    lets.push(without_spans(e));
                }
            }
            if let StmtKind::Let(_, e) | StmtKind::Return(e) | StmtKind::Assign(_, e) | StmtKind::Next(_, e) = &s.kind {
                walk(e, &mut |e| {
                    if is_call(e, "grad").is_some() {
                        self.found.insert("gradient in a function");
                    }
                });
                self.expr(e, &[]);
            }
        }
    }

    /// `indices` are those of folds and families around an expression.
    fn expr(&mut self, e: &'a Expr, indices: &[&'a str]) {
        if let ExprKind::If { .. } = &e.kind {
            self.found.insert("if (training)");
        }
        if let ExprKind::Call(_, args) = &e.kind
            && args.iter().any(|a| matches!(&a.kind, ArgKind::Named(n, list) if n.text == "over" && over_batch(list)))
        {
            self.found.insert("batch statistic");
        }
        if is_call(e, "finite").is_some_and(|args| args.len() > 1) {
            self.found.insert("NaN replaced");
        }
        if is_call(e, "high").is_some() {
            self.found.insert("range of the action");
        }
        if is_call(e, "gaussian").is_some() {
            self.found.insert("draw");
        }
        let calls = [
            ("sg", "sg"),
            ("partial", "`partial`"),
            ("sort", "`sort` or `top`"),
            ("top", "`sort` or `top`"),
            ("frozen", "`frozen`"),
        ];
        self.found.extend(calls.iter().filter(|(name, _)| is_call(e, name).is_some()).map(|(_, what)| *what));
        if is_call(e, "take").is_some_and(|args| matches!(args[..], [_, at] if matches!(at.kind, ExprKind::Call(..)))) {
            self.found.insert("`take` at a computed place");
        }
        if let ExprKind::Call(f, _) = &e.kind
            && f.as_name().is_some_and(|n| self.ensembles.contains(n.text.as_str()))
        {
            self.found.insert("ensemble");
        }
        if let ExprKind::Fold { op, var, body, over } = &e.kind {
            self.found.insert(if op.text == "each" { "each" } else { "fold" });
            if let ExprKind::Range { lo, .. } = &over.kind
                && matches!(lo.kind, ExprKind::Unary(..))
            {
                self.found.insert("loop past an axis");
            }
            self.expr(over, indices);
            return self.expr(body, &[indices, &[&var.text]].concat());
        }
        if let Some(args) = is_call(e, "grad")
            && let [value, by] = args[..]
        {
            self.found.insert("gradient of order one");
            let mut twice = false;
            let mut by_index = false;
            let mut member = false;
            walk(value, &mut |v| {
                twice |= is_call(v, "grad").is_some();
                if let Some(n) = v.as_name() {
                    twice |= self.reads.get(&n.text).is_some_and(|r| r.contains("grad"));
                }
                if let ExprKind::Index(base, at) = &v.kind
                    && base.as_name().is_none()
                    && at.iter().any(|s| s.as_name().is_some_and(|n| indices.contains(&n.text.as_str())))
                {
                    by_index = true;
                    member |= matches!(&base.kind, ExprKind::Call(f, _) if f.as_name().is_some_and(|n| self.ensembles.contains(n.text.as_str())));
                }
            });
            if let ExprKind::Index(array, _) = &by.kind
                && (array.as_name().is_none()
                    || !self.reads.contains_key(&array.as_name().map_or(String::new(), |n| n.text.clone())))
            {
                self.found.insert("gradient by an entry");
            }
            let mut base = by;
            while let ExprKind::Field(inner, _) | ExprKind::Index(inner, _) = &base.kind {
                base = inner;
            }
            if let Some(v) = base.as_name() {
                self.targets.entry(self.of).or_default().insert(&v.text);
                walk(value, &mut |x| {
                    let inner = x.as_name().and_then(|n| self.targets.get(n.text.as_str()));
                    let behind = |c: &str| c != v.text && self.reads.get(c).is_some_and(|r| r.contains(&v.text));
                    if inner.is_some_and(|targets| targets.iter().any(|c| behind(c))) {
                        self.found.insert("gradient behind an equation, differentiated again");
                    }
                });
            }
            let of_batch = |args: &[Arg]| args.iter().any(|a| matches!(&a.kind, ArgKind::Named(n, _) if n.text == "over"));
            if matches!(&value.kind, ExprKind::Call(_, args) if of_batch(args)) {
                self.found.insert("gradient of a statistic");
            }
            if base.as_name().is_some_and(|n| self.tables.contains(n.text.as_str())) {
                self.found.insert("gradient by two axes");
            }
            if base.as_name().is_some_and(|n| n.text == "m") {
                self.found.insert("gradient by the memory");
            }
            if base.as_name().is_some_and(|n| self.constant.contains(n.text.as_str())) {
                self.found.insert("constant target");
            }
            for (is, what) in [
                (twice, "gradient of order two"),
                (by_index, "gradient by index"),
                (by_index && twice, "Hessian by index"),
                (member, "gradient for each member"),
            ] {
                if is {
                    self.found.insert(what);
                }
            }
        }
        crate::family::children(e, &mut |c| self.expr(c, indices));
    }
}
