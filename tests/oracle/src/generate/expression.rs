//! Expressions of a given type.

use super::*;

impl Writer {
    /// A subscript of a family inside a scope, and by how many steps it reads ahead.
    fn place(&mut self, sc: &mut Scope, f: &Family, own: bool) -> Option<String> {
        let mut at = Vec::new();
        for sub in &f.subs {
            match sub {
                Sub::Time => {
                    let t = sc.time?;
                    let shift = match self.rng.below(20) {
                        0 | 1 if !own => 1,
                        2 if !own => -1,
                        _ => 0,
                    };
                    let (from, to) = (sc.from.max(f.from - shift), sc.to.min(f.to - shift));
                    if to - from < 2 {
                        return None;
                    }
                    (sc.from, sc.to) = (from, to);
                    at.push(match shift {
                        1 => format!("{t}+1"),
                        -1 => format!("{t}-1"),
                        _ => t.to_string(),
                    });
                }
                Sub::Over(dim) => {
                    let fit: Vec<String> =
                        sc.indices.iter().filter(|(_, d)| size(d) <= size(dim)).map(|(n, _)| n.clone()).collect();
                    if fit.is_empty() || !own && self.rng.percent(20) {
                        // A rollout has a last value, too.
                        let places = size(dim) as usize + usize::from(f.kind == Kind::Latent && *dim == "K");
                        at.push(self.rng.below(places).to_string());
                    } else {
                        at.push(self.rng.pick(&fit).clone());
                    }
                }
            }
        }
        sc.read.push(f.name.clone());
        sc.read.extend(f.reads.iter().cloned());
        Some(if at.is_empty() { f.name.clone() } else { format!("{}[{}]", f.name, at.join(", ")) })
    }

    /// Something of this type that is there already: a family's value, a field, a local.
    pub fn leaf(&mut self, sc: &mut Scope, ty: Ty, own: bool) -> Option<String> {
        for _ in 0..6 {
            if !sc.locals.is_empty() && (!sc.families || self.rng.percent(30)) {
                let (name, kind) = self.rng.pick(&sc.locals).clone();
                match kind {
                    Some(t) if t == ty => return Some(name),
                    None => match self.field(ty) {
                        Some(field) => return Some(format!("{name}.{field}")),
                        None => continue,
                    },
                    _ => continue,
                }
            }
            if !sc.families {
                continue;
            }
            // Newer families more often: that makes chains.
            let n = self.families.len();
            let i = n - 1 - self.rng.below(n).min(self.rng.below(n));
            let f = self.families[i].clone();
            let field = match f.kind {
                Kind::Array(t) if t == ty => String::new(),
                Kind::Memory if ty == VM => ".out".to_string(),
                Kind::Latent => match self.field(ty) {
                    Some(field) => format!(".{field}"),
                    None => continue,
                },
                _ => continue,
            };
            // What the memory holds before the first step has no output.
            if let Some(place) = self.place(sc, &f, own || f.kind == Kind::Memory) {
                return Some(place + &field);
            }
        }
        None
    }

    fn field(&mut self, ty: Ty) -> Option<&'static str> {
        match ty {
            ["Q"] => Some(if self.rng.percent(60) { "q" } else { "p" }),
            ["C"] => Some("c"),
            _ => None,
        }
    }

    fn number(&mut self, sc: &Scope) -> String {
        if !sc.indices.is_empty() && self.rng.percent(50) {
            let (index, _) = self.rng.pick(&sc.indices).clone();
            return self.rng.pick(&["(0.5 + X)", "0.3^X", "(1 + 0.5 * X)"]).replace('X', &index);
        }
        self.rng.pick(&["0.3", "0.7", "1.5", "-0.4"]).to_string()
    }

    /// Any expression of a type.
    pub fn expr(&mut self, sc: &mut Scope, ty: Ty, depth: usize) -> String {
        if depth == 0 {
            return match self.leaf(sc, ty, false) {
                Some(leaf) => leaf,
                None => self.constant(sc, ty),
            };
        }
        let d = depth - 1;
        match self.rng.below(12) {
            0 | 1 => {
                let x = self.expr(sc, ty, d);
                self.unary(&x)
            }
            2 => format!("({} + {})", self.expr(sc, ty, d), self.expr(sc, ty, d)),
            3 => format!("({} * {})", self.expr(sc, ty, d), self.expr(sc, S, d)),
            4 => format!("({} - {} * {})", self.expr(sc, ty, d), self.number(sc), self.expr(sc, ty, d)),
            5 => match self.rng.below(4) {
                0 => format!("sg({})", self.expr(sc, ty, d)),
                1 => format!("({} / (1.5 + {}^2))", self.expr(sc, ty, d), self.expr(sc, S, d)),
                // Equal sides have no derivative: shift one.
                2 => format!("max({}, 0.3 * {} + 0.07)", self.expr(sc, ty, d), self.expr(sc, ty, d)),
                // A condition that is known when compiling leaves one side unread; this one is not.
                _ => match self.leaf(sc, S, false) {
                    Some(c) => format!("select({c} > 0.1, {}, {})", self.expr(sc, ty, d), self.expr(sc, ty, d)),
                    None => self.special(sc, ty, d),
                },
            },
            6 => self.fold(sc, ty, d),
            7 | 8 if sc.order < self.deepest => self.gradient(sc, ty, d).unwrap_or_else(|| self.special(sc, ty, d)),
            9 => match self.leaf(sc, ty, false) {
                Some(leaf) => leaf,
                None => self.constant(sc, ty),
            },
            _ => self.special(sc, ty, d),
        }
    }

    fn constant(&mut self, sc: &mut Scope, ty: Ty) -> String {
        let n = match self.rng.below(8) {
            0 if sc.families => "0.2 * (high(a) - low(a))".to_string(),
            _ => self.number(sc),
        };
        if ty.is_empty() { n } else { format!("({n} * ones([{}]))", ty.join(", ")) }
    }

    pub fn unary(&mut self, x: &str) -> String {
        let form = self.rng.pick(&[
            "tanh(X)",
            "sin(X)",
            "sigmoid(X)",
            "softplus(X)",
            "exp(sin(X))",
            "X^2",
            "-X",
            "cos(X)",
            "silu(X)",
            "finite(X)",
            "(X + finite(sg(log(sin(X) - 2)), 0.3))",
            "(X * finite(sg(X * 1e30 * 1e30), 0, 0.5))",
            "log(2 + X^2)",
        ]);
        let x = if form.contains("X^") || form.starts_with('-') { format!("({x})") } else { x.to_string() };
        form.replace('X', &x)
    }

    /// What only values of this type have: nets, reductions, entries, `each`.
    fn special(&mut self, sc: &mut Scope, ty: Ty, d: usize) -> String {
        if let Some(call) = self.called(sc, ty, d) {
            return call;
        }
        match ty {
            [] => {
                let v = *self.rng.pick::<Ty>(&[VQ, VQ, VQ, VQ, VQ, VQ, VC, VC, TABLE, VM]);
                let x = match v {
                    ["M"] => self.leaf(sc, VM, false),
                    _ => Some(self.expr(sc, v, d)),
                };
                match x {
                    Some(x) => self.scalar(sc, v, &x, d),
                    None => self.number(sc),
                }
            }
            ["Q"] => match self.rng.below(16) {
                0 | 1 => format!("{}({}, {})", self.net("field"), self.expr(sc, VQ, d), self.expr(sc, VC, d)),
                2 => format!("softmax({})", self.expr(sc, VQ, d)),
                3 => format!("mean(fan({}), over = E)", self.expr(sc, VQ, d)),
                4 => format!("fan({})[{}]", self.expr(sc, VQ, d), self.index(sc, "E")),
                5 => format!("take(fan({}), {}, over = E)", self.expr(sc, VQ, d), self.chosen(sc, d)),
                6 => format!("sort({}, over = Q)", self.expr(sc, VQ, d)),
                7 => format!("take({}, {}, over = J)", self.expr(sc, TABLE, d), self.chosen(sc, d)),
                8 => format!("hot(argmax({}), Q)", self.expr(sc, VQ, d)),
                9 => format!("ahead({}, Q)", self.expr(sc, VQ, d)),
                10 => format!("concat([{}, {}], Q)", self.expr(sc, S, d), self.expr(sc, S, d)),
                11 => format!("slice({}, C, {}, Q)", self.expr(sc, VC, d), self.rng.pick(&["0..2", "1..3"])),
                12 => match self.rng.below(3) {
                    0 => format!("{}[{}]", self.bracketed(sc, TABLE, d), self.index(sc, "J")),
                    1 => format!("sum({}, over = J)", self.expr(sc, TABLE, d)),
                    _ => format!("max({}, over = J)", self.expr(sc, TABLE, d)),
                },
                13 if sc.order < self.deepest => self.held(sc, d),
                _ => self.each(sc, "Q", d),
            },
            ["C"] => match self.rng.below(3) {
                0 => format!("concat([{}, {}], C)", self.expr(sc, VQ, d), self.expr(sc, S, d)),
                _ => self.each(sc, "C", d),
            },
            ["J", "Q"] => match self.rng.below(5) {
                0 => format!("outer({}, {})", self.rows_of(sc, d), self.expr(sc, VQ, d)),
                1 => format!("concat([{}, {}], J)", self.expr(sc, VQ, d), self.expr(sc, VQ, d)),
                2 => format!("split(join({}, [J, Q], W), W, [J, Q])", self.expr(sc, TABLE, d)),
                _ => {
                    let var = self.fresh("k");
                    sc.indices.push((var.clone(), "J"));
                    let body = self.expr(sc, VQ, d);
                    sc.indices.pop();
                    format!("(each {var} in J {{ {body} }})")
                }
            },
            _ => match self.leaf(sc, ty, false) {
                Some(leaf) => leaf,
                None => self.constant(sc, ty),
            },
        }
    }

    /// A net, sometimes with its parameters stopped.
    fn net(&mut self, name: &str) -> String {
        if self.rng.percent(8) { format!("frozen({name})") } else { name.to_string() }
    }

    /// A vector along `J`.
    fn rows_of(&mut self, sc: &mut Scope, d: usize) -> String {
        match self.rng.below(3) {
            0 => format!("({} + iota(J))", self.expr(sc, S, d.min(1))),
            1 => format!("rename({}, Q -> J)", self.expr(sc, VQ, d.min(1))),
            _ => {
                let var = self.fresh("k");
                sc.indices.push((var.clone(), "J"));
                let body = self.expr(sc, S, d.min(1));
                sc.indices.pop();
                format!("(each {var} in J {{ {body} }})")
            }
        }
    }

    /// A place that is computed: 0 or 1.
    fn chosen(&mut self, sc: &mut Scope, d: usize) -> String {
        match (self.rng.below(3), self.leaf(sc, S, false)) {
            (0, Some(x)) => format!("select({x} > 0.1, 0, 1)"),
            (1, Some(x)) => format!("floor(1.5 + 0.5 * tanh({x}))"),
            _ => format!("argmax({})", self.expr(sc, VQ, d.min(1))),
        }
    }

    fn bracketed(&mut self, sc: &mut Scope, ty: Ty, d: usize) -> String {
        format!("({})", self.expr(sc, ty, d))
    }

    /// The derivative of a call by one of its arguments.
    fn held(&mut self, sc: &mut Scope, d: usize) -> String {
        let by = match self.leaf(sc, VQ, false) {
            Some(leaf) if self.rng.percent(60) => leaf,
            Some(leaf) => self.rng.pick(&["tanh(X)", "(0.7 * X)"]).replace('X', &leaf),
            None => return self.each(sc, "Q", d),
        };
        sc.order += 1;
        let other = self.expr(sc, VQ, d.min(1));
        let call = if self.rng.percent(50) { format!("energy({by}, {other})") } else { format!("energy({other}, {by})") };
        sc.order -= 1;
        format!("partial({call}, {by})")
    }

    fn called(&mut self, sc: &mut Scope, ty: Ty, d: usize) -> Option<String> {
        let fit: Vec<_> = self.functions.iter().filter(|f| f.2 == ty).cloned().collect();
        if fit.is_empty() || !self.rng.percent(25) {
            return None;
        }
        let (name, params, _) = self.rng.pick(&fit).clone();
        let args: Vec<String> = params.iter().map(|p| self.expr(sc, p, d.min(1))).collect();
        Some(format!("{name}({})", args.join(", ")))
    }

    /// An index of the scope that an axis has, or a number.
    pub fn index(&mut self, sc: &Scope, dim: &str) -> String {
        let fit: Vec<String> = sc.indices.iter().filter(|(_, d)| size(d) <= size(dim)).map(|(n, _)| n.clone()).collect();
        if fit.is_empty() || self.rng.percent(10) {
            self.rng.below(size(dim) as usize).to_string()
        } else {
            self.rng.pick(&fit).clone()
        }
    }

    /// A number that depends on `x`.
    pub fn scalar(&mut self, sc: &mut Scope, ty: Ty, x: &str, d: usize) -> String {
        match ty {
            [] => self.unary(x),
            ["Q"] => match self.rng.below(14) {
                0 | 1 => format!("{}({x}, {})", self.net("energy"), self.expr(sc, VQ, d)),
                2 => format!("energy({}, {x})", self.expr(sc, VQ, d)),
                3 => format!("{}({x})", self.net("pot")),
                4 => format!("ens({x})[{}]", self.index(sc, "E")),
                10 => format!("take(ens({x}), {}, over = E)", self.chosen(sc, d)),
                11 => format!("take({x}, {}, over = Q)", self.chosen(sc, d)),
                12 => format!("sort({x}, over = Q)[{}]", self.index(sc, "Q")),
                13 => format!("(take({x}, top({}, I, over = Q), over = Q) @ (0.3 + iota(I)))", self.expr(sc, VQ, d.min(1))),
                5 => format!("({x} @ {})", self.expr(sc, VQ, d)),
                6 | 7 => format!("{x}[{}]", self.index(sc, "Q")),
                8 => format!("max(ens({x}), over = E)"),
                _ => self.rng.pick(&["sq(X)", "logsumexp(X)", "sum(X)", "prod(X)", "mean(X)"]).replace('X', x),
            },
            ["C"] => match self.rng.below(3) {
                0 => format!("squeeze({x})"),
                1 => format!("{x}[{}]", self.index(sc, "C")),
                _ => self.rng.pick(&["sq(X)", "logsumexp(X)", "mean(X)"]).replace('X', x),
            },
            ["J", "Q"] => match self.rng.below(4) {
                0 => format!("pot(({x})[{}])", self.index(sc, "J")),
                1 => format!("(({x}) @ {})[{}]", self.expr(sc, VQ, d), self.index(sc, "J")),
                2 => format!("({x})[{}][{}]", self.index(sc, "J"), self.index(sc, "Q")),
                _ => self.rng.pick(&["sq(X)", "logsumexp(X)", "sum(sin(X))"]).replace('X', x),
            },
            _ => self.rng.pick(&["sq(X)", "logsumexp(X)", "sum(X)"]).replace('X', x),
        }
    }

    /// A fold whose variable the body may read.
    fn fold(&mut self, sc: &mut Scope, ty: Ty, d: usize) -> String {
        let var = self.fresh("k");
        // Past both ends of the axis, where there are no entries.
        if ty.is_empty() && self.rng.percent(30) {
            let x = self.expr(sc, VQ, d);
            return format!("(sum {var} in -1..Q+1 {{ select({var} < 0, 0.1, select({var} < Q, ({x})[{var}], 0.2)) }})");
        }
        let (over, dim) = *self.rng.pick(&[("0..2", "I"), ("Q", "Q"), ("E", "E"), ("[0, 1]", "I"), ("0..=1", "I")]);
        sc.indices.push((var.clone(), dim));
        let body = self.expr(sc, ty, d);
        sc.indices.pop();
        let op = self.rng.pick(&["sum", "mean", "sum", "prod"]);
        format!("({op} {var} in {over} {{ {body} }})")
    }

    fn each(&mut self, sc: &mut Scope, dim: &'static str, d: usize) -> String {
        let var = self.fresh("k");
        sc.indices.push((var.clone(), dim));
        let body = self.expr(sc, S, d);
        sc.indices.pop();
        format!("(each {var} in {dim} {{ {body} }})")
    }

    /// `grad(e, v)` of this type.
    pub fn gradient(&mut self, sc: &mut Scope, ty: Ty, d: usize) -> Option<String> {
        let own = self.rng.percent(80);
        // A number: by a number, or by an entry of an array.
        let entry = ty.is_empty() && self.rng.percent(40);
        let row = ty == VQ && self.rng.percent(8);
        let (whole, dim) = if entry { (VQ, "Q") } else { (if row { TABLE } else { ty }, "J") };
        let v = self.leaf(sc, whole, own);
        let (v, entry, ty) = match v {
            Some(v) => (v, entry || row, whole),
            None => (self.leaf(sc, ty, own)?, false, ty),
        };
        sc.order += 1;
        let e = self.about(sc, ty, &v, d);
        sc.order -= 1;
        let at = if entry { format!("[{}]", self.index(sc, dim)) } else { String::new() };
        Some(format!("grad({e}, {v}{at})"))
    }

    /// A number that reads `v`.
    pub fn about(&mut self, sc: &mut Scope, ty: Ty, v: &str, d: usize) -> String {
        let name: String = v.chars().take_while(|c| c.is_alphanumeric()).collect();
        let x = match self.rng.below(4) {
            0 => format!("({v} + {})", self.expr(sc, ty, d.min(1))),
            1 => format!("({v} * {})", self.expr(sc, S, d.min(1))),
            _ => v.to_string(),
        };
        let direct = self.scalar(sc, ty, &x, d);
        // Through the equations of other families.
        let behind: Vec<Family> = self.families.iter().filter(|f| sc.families && f.reads.contains(&name)).cloned().collect();
        let more = if !behind.is_empty() && self.rng.percent(60) {
            let f = self.rng.pick(&behind).clone();
            match (f.kind, self.place(sc, &f, true)) {
                (Kind::Array(t), Some(x)) => self.scalar(sc, t, &x, d.min(1)),
                (Kind::Latent, Some(x)) => format!("energy({x}.q, {x}.p)"),
                (Kind::Memory, Some(x)) => format!("sq({x}.out)"),
                _ => self.expr(sc, S, d),
            }
        } else {
            self.expr(sc, S, d)
        };
        match self.rng.below(4) {
            0 => direct,
            1 => format!("{direct} + {more}"),
            _ => format!("{direct} * {more}"),
        }
    }
}
