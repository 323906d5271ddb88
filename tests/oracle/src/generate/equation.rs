//! Equations: one random family at a time.

use super::*;

impl Writer {
    fn scope(&self) -> Scope {
        Scope { time: Some("t"), families: true, from: 0, to: T, ..Scope::default() }
    }

    fn kind(&mut self) -> Ty {
        self.rng.pick::<Ty>(&[VQ, VQ, VQ, VQ, S, S, VC, TABLE])
    }

    fn push(&mut self, name: &str, subs: Vec<Sub>, kind: Kind, sc: Scope) {
        let mut reads = sc.read;
        reads.sort();
        reads.dedup();
        self.families.push(Family { name: name.into(), subs, kind, from: sc.from, to: sc.to, reads });
    }

    /// Adds one family.
    pub fn equation(&mut self) {
        match self.rng.below(27) {
            0..=2 => self.plain(),
            3 => self.indexed(),
            4..=6 => self.copy(),
            7 => self.scan(true),
            8 => self.scan(false),
            9 => self.rollout(),
            10 => self.remembered(),
            11..=13 => self.slope(),
            14 | 15 => self.again(),
            16 | 17 => self.rows(),
            18 => self.members(),
            19 => self.record(),
            20 => self.behind(),
            21 => self.drawn(),
            22 => self.gathered(),
            23 => self.looped(),
            24 => self.remembered(),
            25 => self.window(),
            _ => self.statistic(),
        }
    }

    fn plain(&mut self) {
        let (name, ty, mut sc) = (self.fresh("x"), self.kind(), self.scope());
        let value = self.expr(&mut sc, ty, 3);
        self.finish(name, vec![Sub::Time], Kind::Array(ty), sc, value);
    }

    /// Writes `name[..] = value`, with ranges where nothing else gives them.
    fn finish(&mut self, name: String, subs: Vec<Sub>, kind: Kind, sc: Scope, value: String) {
        let mut clauses = Vec::new();
        let mut at = Vec::new();
        let bound = sc.read.iter().any(|n| self.families.iter().any(|f| f.name == *n && f.subs.contains(&Sub::Time)));
        for (i, sub) in subs.iter().enumerate() {
            let index = ["t", "i", "j"][i];
            at.push(index);
            match sub {
                Sub::Time if !bound => clauses.push(format!("{index} in {}..{}", sc.from, sc.to)),
                Sub::Time => {}
                Sub::Over(dim) => clauses.push(format!("{index} in {dim}")),
            }
        }
        let place = if at.is_empty() { name.clone() } else { format!("{name}[{}]", at.join(", ")) };
        let clauses = if clauses.is_empty() { String::new() } else { format!("   for {}", clauses.join(", ")) };
        self.members.push(format!("  {place} = {value}{clauses}"));
        self.push(&name, subs, kind, sc);
    }

    fn indexed(&mut self) {
        let (name, ty, mut sc) = (self.fresh("x"), self.kind(), self.scope());
        let dim = *self.rng.pick(&["I", "E", "J", "Q"]);
        sc.indices.push(("i".into(), dim));
        let value = self.expr(&mut sc, ty, 3);
        self.finish(name, vec![Sub::Time, Sub::Over(dim)], Kind::Array(ty), sc, value);
    }

    /// A family that is the same wherever an index, the step or the sample differs.
    fn copy(&mut self) {
        let (name, mut sc) = (self.fresh("c"), self.scope());
        let mut subs = vec![Sub::Time];
        if self.rng.percent(40) {
            let dim = *self.rng.pick(&["I", "J", "Q", "E"]);
            subs.push(Sub::Over(dim));
        }
        let ty = if self.rng.percent(80) { VQ } else { *self.rng.pick(&[S, VC, TABLE]) };
        let value = match self.rng.below(10) {
            0 | 1 => format!("zeros([{}])", ty.join(", ")),
            2 if ty == VQ => "shift".to_string(),
            3 => {
                let n = self.rng.pick(&["0.5", "-0.3", "1.5"]).to_string();
                format!("{n} * ones([{}])", ty.join(", "))
            }
            _ => match self.leaf(&mut sc, ty, true) {
                Some(leaf) => leaf,
                None => format!("ones([{}])", ty.join(", ")),
            },
        };
        if !value.contains('[') && self.rng.percent(30) || value.starts_with("zeros") && self.rng.percent(20) {
            subs = Vec::new();
        }
        self.finish(name, subs, Kind::Array(ty), sc, value);
    }

    /// A recurrence, forward with or without a reset, or backward.
    fn scan(&mut self, forward: bool) {
        let (name, mut sc) = (self.fresh("h"), self.scope());
        let ty = if self.rng.percent(60) { VQ } else { S };
        let input = self.expr(&mut sc, ty, 2);
        let factor = self.expr(&mut sc, S, 1);
        let before = if forward { format!("{name}[t-1]") } else { format!("{name}[t+1]") };
        let before = match self.rng.below(3) {
            0 => format!("tanh({before})"),
            1 => format!("0.6 * {before}"),
            _ => format!("{before} * sigmoid({factor})"),
        };
        let to = sc.to;
        let (start, last) = (
            format!("zeros([{}])", ty.join(", ")),
            format!("{name}[{}]", if forward { "-1".to_string() } else { to.to_string() }),
        );
        let mut outside = Scope { time: None, ..self.scope() };
        let start = if self.rng.percent(50) { start } else { self.expr(&mut outside, ty, 1) };
        let from = sc.from;
        let mut text = format!("  {name}[t] = {input} + {before}   with {last} = {start}");
        let places: Vec<String> = vec![format!("t in 0..{to}")];
        if from > 0 {
            // Reads of earlier steps would leave a gap behind the base case.
            return self.plain();
        }
        if forward && self.rng.percent(60) {
            text += "   reset first[t]";
        }
        self.members.push(format!("{text}   for {}", places.join(", ")));
        self.push(&name, vec![Sub::Time], Kind::Array(ty), sc);
    }

    /// Several steps ahead from every start.
    fn rollout(&mut self) {
        let name = self.fresh("y");
        let mut locals = Scope { locals: vec![("x".into(), None)], ..Scope::default() };
        let step = self.fresh("step");
        let dq = self.expr(&mut locals, VQ, 2);
        let dp = self.expr(&mut locals, VQ, 1);
        let dp = if self.rng.percent(50) { "-grad(energy(x.q, x.p), x.q)".to_string() } else { dp };
        let add = if self.rng.percent(40) { " + delta(x, u)" } else { "" };
        let act = if add.is_empty() { "x.c + sum(u)" } else { "x.c" };
        self.members
            .push(format!("  fn {step}(x, u) {{ return x {{ q = x.q + 0.3 * {dq}, p = x.p + 0.3 * {dp}, c = {act} }}{add} }}"));
        // The start may be at another step than the one that a gradient is taken at.
        let start = *self.rng.pick(&["z[t]", "z[t]", "z[t]", "z[t+1]", "z[0]"]);
        self.members.push(format!("  {name}[t, 0] = {start}   for t in 0..T-K"));
        self.members.push(format!("  {name}[t, k+1] = {step}({name}[t, k], a[t+k])   for k in 0..K"));
        let sc = Scope { from: 0, to: T - 2, read: vec!["z".into(), "a".into()], ..Scope::default() };
        self.push(&name, vec![Sub::Time, Sub::Over("K")], Kind::Latent, sc);
    }

    /// Several steps ahead from every start, as many as the segment has left, and a loss over all of them.
    fn window(&mut self) {
        let (name, loss) = (self.fresh("y"), self.fresh("w"));
        let mut locals = Scope { locals: vec![("x".into(), None)], ..Scope::default() };
        let step = self.fresh("step");
        let (dq, dp) = (self.expr(&mut locals, VQ, 2), self.expr(&mut locals, VQ, 1));
        self.members
            .push(format!("  fn {step}(x, u) {{ return x {{ q = x.q + 0.3 * {dq}, p = x.p - 0.3 * {dp}, c = x.c + sum(u) }} }}"));
        self.members.push(format!("  {name}[t, 0] = z[t]   for t in 0..T"));
        self.members.push(format!("  {name}[t, k+1] = {step}({name}[t, k], a[t+k])   for k in 0..K, t in 0..T-1-k"));
        let picked = *self.rng.pick(&["", "", "   where r[t] > 0.1", "   where z[t+k].q[0] > 0"]);
        let value = *self.rng.pick(&["sq(Y[t, k] - z[t+k])", "0.9^k * Y[t, k].q @ z[t].p", "sin(sum(Y[t, k].c)) * (k + 1)"]);
        let range = *self.rng.pick(&["k in 1..=K, t in 0..T-K", "k in 1..=K, t in 0..T-k", "k in 0..K, t in k..T-1"]);
        let value = value.replace('Y', &name);
        self.members.push(format!("  loss {loss} 0.5 = {value}{picked}   for {range}"));
    }

    fn remembered(&mut self) {
        if self.memory {
            return self.plain();
        }
        self.memory = true;
        self.members.push("  m[t] = memory(z[t], a[t], m[t-1])".into());
        let sc = Scope { from: 0, to: T - 1, read: vec!["z".into(), "a".into()], ..Scope::default() };
        self.push("m", vec![Sub::Time], Kind::Memory, sc);
    }

    /// A gradient as a family of its own, with an index or without.
    fn slope(&mut self) {
        let (name, mut sc) = (self.fresh("g"), self.scope());
        let mut subs = vec![Sub::Time];
        if self.rng.percent(35) {
            let dim = *self.rng.pick(&["I", "J", "Q", "E"]);
            sc.indices.push(("i".into(), dim));
            subs.push(Sub::Over(dim));
        }
        if self.rng.percent(8) {
            let w = self.expr(&mut sc, S, 1);
            let latents: Vec<Family> = self.families.iter().filter(|f| f.kind == Kind::Latent).cloned().collect();
            let of = self.rng.pick(&latents).clone();
            let Some(v) = self.place_of(&mut sc, &of) else { return self.plain() };
            let more = if self.rng.percent(50) { format!(" + squeeze({v}.c)") } else { String::new() };
            return self.finish(name, subs, Kind::Latent, sc, format!("grad(energy({v}.q, {v}.p) * {w}{more}, {v})"));
        }
        let remembers = self.families.iter().any(|f| f.kind == Kind::Memory) && self.rng.percent(60);
        let ty = if remembers {
            VM
        } else if self.rng.percent(70) {
            VQ
        } else {
            *self.rng.pick(&[S, VC, VA, TABLE])
        };
        match self.gradient(&mut sc, ty, 2) {
            Some(value) => self.finish(name, subs, Kind::Array(ty), sc, value),
            None => self.plain(),
        }
    }

    /// The gradient of something that holds a gradient.
    fn again(&mut self) {
        let slopes: Vec<Family> =
            self.families.iter().filter(|f| f.name.starts_with('g') && matches!(f.kind, Kind::Array(_))).cloned().collect();
        let (name, mut sc) = (self.fresh("y"), self.scope());
        let inner = if slopes.is_empty() || self.rng.percent(25) {
            sc.order += 1;
            let g = self.gradient(&mut sc, VQ, 1);
            sc.order -= 1;
            match g {
                Some(g) => (g, VQ),
                None => return self.slope(),
            }
        } else {
            let f = self.rng.pick(&slopes).clone();
            match (self.place_of(&mut sc, &f), f.kind) {
                (Some(place), Kind::Array(ty)) => (place, ty),
                _ => return self.slope(),
            }
        };
        let near = self.scalar(&mut sc, inner.1, &inner.0, 1);
        let ty = if self.rng.percent(80) { VQ } else { VC };
        let Some(v) = self.leaf(&mut sc, ty, true) else { return self.slope() };
        let value = match self.rng.below(3) {
            0 => format!("grad({near}, {v})"),
            _ => {
                sc.order += 2;
                let e = self.about(&mut sc, ty, &v, 1);
                format!("grad({near} * {e}, {v})")
            }
        };
        self.finish(name, vec![Sub::Time], Kind::Array(ty), sc, value);
    }

    /// A gradient by what is computed from a value, differentiated again by that value.
    fn behind(&mut self) {
        let (copy, slope, name, mut sc) = (self.fresh("c"), self.fresh("g"), self.fresh("y"), self.scope());
        let Some(v) = self.leaf(&mut sc, VQ, true) else { return self.slope() };
        let from = self.rng.pick(&["X", "X", "tanh(X)", "X * r[t]", "0.5 * X"]).replace('X', &v);
        if from.contains("r[t]") {
            sc.to = sc.to.min(T - 1);
            sc.read.push("r".into());
        }
        if !sc.read.iter().any(|n| self.families.iter().any(|f| f.name == *n && f.subs.contains(&Sub::Time))) {
            return self.slope();
        }
        self.finish(copy.clone(), vec![Sub::Time], Kind::Array(VQ), sc.clone(), from);
        sc.read.push(copy.clone());
        sc.order += 1;
        let by = format!("{copy}[t]");
        let (near, far) = (self.scalar(&mut sc, VQ, &by, 1), self.scalar(&mut sc, VQ, &v, 1));
        self.finish(slope.clone(), vec![Sub::Time], Kind::Array(VQ), sc.clone(), format!("grad({near} * {far}, {by})"));
        sc.read.push(slope.clone());
        let near = self.scalar(&mut sc, VQ, &format!("{slope}[t]"), 1);
        sc.order -= 1;
        self.finish(name, vec![Sub::Time], Kind::Array(VQ), sc, format!("grad({near}, {v})"));
    }

    /// A value and noise on it.
    fn drawn(&mut self) {
        let (name, mut sc) = (self.fresh("n"), self.scope());
        let x = self.expr(&mut sc, VQ, 1);
        if sc.from > 0 {
            return self.plain();
        }
        let value = self.rng.pick(&["X + 0.3 * gaussian([Q])", "X * gaussian([Q])", "tanh(X - gaussian([Q]))"]).replace('X', &x);
        self.members.push(format!("  {name}[t] = {value}   for t in 0..{}", sc.to));
        self.push(&name, vec![Sub::Time], Kind::Array(VQ), sc);
    }

    /// A value and a statistic of the batch, of the segment, or a running one.
    fn statistic(&mut self) {
        let (name, mut sc) = (self.fresh("b"), self.scope());
        let Some(x) = self.leaf(&mut sc, VQ, true) else { return self.plain() };
        if !x.contains("[t]") || x.contains("t, ") {
            return self.plain();
        }
        let over = self.rng.pick(&["[B, t]", "B", "[t]"]).to_string();
        let op = self.rng.pick(&["mean", "sum", "mean", "max"]).to_string();
        let value = match self.rng.below(4) {
            0 => format!("{x} - {op}({x}, over = {over})"),
            1 => format!("{x} * sg({op}({x}, over = {over}))"),
            2 => format!("{x} - 0.5 * (if (training) {{ {op}({x}, over = {over}) }} else {{ zeros([Q]) }})"),
            _ => {
                let mu = self.fresh("mu");
                self.members.push(format!("  running {mu} = lerp({mu}, mean({x}, over = [B, t]), 0.2)   init zeros([Q])"));
                format!("{x} * {mu}")
            }
        };
        self.finish(name, vec![Sub::Time], Kind::Array(VQ), sc, value);
    }

    /// The gradient of one number of all samples or steps, which statistics may stand in.
    fn gathered(&mut self) {
        let (name, mut sc) = (self.fresh("g"), self.scope());
        let Some(v) = self.leaf(&mut sc, VQ, true) else { return self.plain() };
        if !v.contains("[t]") {
            return self.plain();
        }
        sc.order += 1;
        // Where the steps run, what is summed must exist wherever the gradient does.
        let (of, over) = if self.rng.percent(30) {
            let of = self.rng.pick(&["pot(X)", "sq(X)", "energy(X, sin(X))", "prod(X)"]).replace('X', &v);
            (of, self.rng.pick(&["[t]", "[B, t]"]).to_string())
        } else {
            let near = self.rng.pick(&["X", "(X - mean(X, over = B))", "tanh(X * mean(X, over = B))"]).replace('X', &v);
            (self.about(&mut sc, VQ, &near, 1), "B".to_string())
        };
        sc.order -= 1;
        self.finish(name, vec![Sub::Time], Kind::Array(VQ), sc, format!("grad(sum({of}, over = {over}), {v})"));
    }

    /// A loop that is written out, in a function that differentiates by what goes through it.
    fn looped(&mut self) {
        let (f, name, mut sc) = (self.fresh("f"), self.fresh("x"), self.scope());
        let mut inner = Scope { locals: vec![("u".into(), Some(VQ)), ("w".into(), Some(VQ))], ..Scope::default() };
        let step = self.expr(&mut inner, VQ, 1);
        inner.order += 1;
        let e = self.about(&mut inner, VQ, "w", 1);
        let by = *self.rng.pick(&["u", "w", "w"]);
        let text = format!(
            "  fn {f}(u) {{\n    let w = sin(u)\n    stack i in 0..2 {{ w = {step} + 0.3 * w }}\n    let e = {e} + 0.1 * sq(w)\n    return grad(e, {by})\n  }}"
        );
        let Some(x) = self.leaf(&mut sc, VQ, true) else { return self.plain() };
        self.members.push(text);
        self.finish(name, vec![Sub::Time], Kind::Array(VQ), sc, format!("{f}({x})"));
    }

    fn place_of(&mut self, sc: &mut Scope, f: &Family) -> Option<String> {
        let sub = f.subs.iter().map(|s| match s {
            Sub::Time => "t".to_string(),
            Sub::Over(dim) => self.rng.below(size(dim) as usize).to_string(),
        });
        let at: Vec<String> = sub.collect();
        (sc.from, sc.to) = (sc.from.max(f.from), sc.to.min(f.to));
        if sc.to - sc.from < 2 {
            return None;
        }
        sc.read.push(f.name.clone());
        sc.read.extend(f.reads.iter().cloned());
        Some(if at.is_empty() { f.name.clone() } else { format!("{}[{}]", f.name, at.join(", ")) })
    }

    /// Jacobians and Hessians: a row for each index.
    fn rows(&mut self) {
        let (name, mut sc) = (self.fresh("j"), self.scope());
        let Some(v) = self.leaf(&mut sc, VQ, true) else { return self.slope() };
        sc.order += 1;
        let of = match self.rng.below(4) {
            0 => {
                let w = self.expr(&mut sc, S, 1);
                format!("grad(energy({v}, {}) * {w}, {v})", self.expr(&mut sc, VQ, 1))
            }
            1 => format!("tanh(field({v}, {}))", self.expr(&mut sc, VC, 1)),
            2 => format!("({v} * {})", self.expr(&mut sc, VQ, 1)),
            _ => match self.leaf(&mut sc, VQ, true) {
                Some(x) if x != v => format!("({x} * field({v}, 0.5 * ones([C])))"),
                _ => format!("softmax({v})"),
            },
        };
        let (row, ty): (String, Ty) = match self.rng.below(3) {
            0 => (format!("each i in J {{ grad({of}[i], {v}) }}"), &["J", "Q"]),
            1 => (format!("each i in Q {{ grad({of}[i], {v}) @ {} }}", self.expr(&mut sc, VQ, 0)), VQ),
            _ => {
                sc.order -= 1;
                sc.indices.push(("i".into(), "J"));
                let value = format!("grad({of}[i], {v})");
                return self.finish(name, vec![Sub::Time, Sub::Over("J")], Kind::Array(VQ), sc, value);
            }
        };
        sc.order -= 1;
        self.finish(name, vec![Sub::Time], Kind::Array(ty), sc, row);
    }

    /// A gradient for each member of an ensemble.
    fn members(&mut self) {
        let (name, mut sc) = (self.fresh("w"), self.scope());
        let Some(v) = self.leaf(&mut sc, VQ, true) else { return self.slope() };
        let e = match self.rng.below(3) {
            0 => format!("ens({v})[e]"),
            1 => format!("sq(fan({v})[e])"),
            _ => format!("ens({v})[e] * {}", self.expr(&mut sc, S, 1)),
        };
        let (value, ty): (String, Ty) = match self.rng.below(3) {
            0 => (format!("each e in E {{ grad({e}, {v}) }}"), &["E", "Q"]),
            1 => (format!("mean e in E {{ grad({e}, {v}) }}"), VQ),
            _ => (format!("max e in E {{ tanh(grad({e}, {v})) }}"), VQ),
        };
        self.finish(name, vec![Sub::Time], Kind::Array(ty), sc, value);
    }

    /// A latent with fields changed.
    fn record(&mut self) {
        let (name, mut sc) = (self.fresh("s"), self.scope());
        let (q, p) = (self.expr(&mut sc, VQ, 2), self.expr(&mut sc, VQ, 2));
        sc.read.push("z".into());
        let value = format!("z[t] {{ q = {q}, p = {p} }}");
        self.finish(name, vec![Sub::Time], Kind::Latent, sc, value);
    }

    /// A function of the model: some of them differentiate by a parameter or by a `let`.
    pub fn function(&mut self) {
        let name = self.fresh("f");
        let ty = if self.rng.percent(60) { VQ } else { S };
        let mut sc = Scope { locals: vec![("u".into(), Some(VQ)), ("v".into(), Some(VQ))], ..Scope::default() };
        let mut text = format!("  fn {name}(u, v) {{\n");
        let inner = self.expr(&mut sc, VQ, 1);
        text += &format!("    let w = {inner}\n");
        sc.locals.push(("w".into(), Some(VQ)));
        let result = match self.rng.below(3) {
            0 => self.expr(&mut sc, ty, 2),
            _ => {
                let v = self.rng.pick(&["u", "v", "w"]).to_string();
                sc.order += 1;
                let e = self.about(&mut sc, VQ, &v, 1);
                // What `w` is computed by stands beside it, and is no part of it.
                let beside = if self.rng.percent(30) { format!(" + energy(w, {inner})") } else { String::new() };
                text += &format!("    let e = {e}{beside}\n");
                if ty.is_empty() { format!("sq(grad(e, {v}))") } else { format!("grad(e, {v})") }
            }
        };
        // Both arguments count, so that where a call exists does not hang on what is left out.
        let both = if ty.is_empty() { "u @ v" } else { "u * v" };
        text += &format!("    return {result} + 0.1 * {both}\n  }}");
        self.members.push(text);
        self.functions.push((name, vec![VQ, VQ], ty));
    }
}
