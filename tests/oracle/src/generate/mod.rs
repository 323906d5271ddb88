//! Writes random models.
//!
//! A model is a list of families, each defined by a random equation over the families before it, with losses on top
//! and, for some, a planner. [`Writer`] keeps track of types and of the steps at which a family exists, so that most
//! texts check clean; what the checker refuses is counted by the tests.

mod actor;
mod equation;
mod expression;

use std::fmt::Write;

/// Steps of a segment.
const T: i64 = 4;

/// Sizes that the model declares. `J` is as large as `Q`: the rows of a Jacobian. `W` holds all entries along both.
pub const DIMS: [(&str, i64); 8] = [("Q", 2), ("C", 3), ("J", 2), ("E", 2), ("I", 2), ("K", 2), ("H", 2), ("W", 4)];

pub fn size(dim: &str) -> i64 {
    DIMS.iter().find(|(n, _)| *n == dim).map_or(2, |(_, s)| *s)
}

/// Splitmix64: a model is a function of its seed alone.
#[derive(Debug)]
pub struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn percent(&mut self, p: usize) -> bool {
        self.below(100) < p
    }

    pub fn pick<'x, T>(&mut self, list: &'x [T]) -> &'x T {
        &list[self.below(list.len())]
    }
}

/// The axes of an array.
pub type Ty = &'static [&'static str];
pub const S: Ty = &[];
pub const VQ: Ty = &["Q"];
pub const VC: Ty = &["C"];
pub const VA: Ty = &["A"];
/// What the memory gives out.
pub const VM: Ty = &["M"];
pub const TABLE: Ty = &["J", "Q"];

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    Array(Ty),
    /// A value of the latent `z`.
    Latent,
    Memory,
}

/// One subscript of a family.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sub {
    Time,
    /// Runs over an axis.
    Over(&'static str),
}

#[derive(Clone, Debug)]
pub struct Family {
    pub name: String,
    pub subs: Vec<Sub>,
    pub kind: Kind,
    /// Steps at which it exists, the end excluded.
    pub from: i64,
    pub to: i64,
    /// Families that it reads, at the same step, however indirectly.
    pub reads: Vec<String>,
}

/// What an expression may name.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The index that is the step.
    pub time: Option<&'static str>,
    /// Other indices with the axis that they run over.
    pub indices: Vec<(String, &'static str)>,
    /// Parameters and `let`s of a body.
    pub locals: Vec<(String, Option<Ty>)>,
    /// Families are seen.
    pub families: bool,
    /// Steps that are left, given what was read.
    pub from: i64,
    pub to: i64,
    /// Families read so far.
    pub read: Vec<String>,
    /// How many gradients stand around this place.
    pub order: usize,
}

pub struct Writer {
    pub rng: Rng,
    pub families: Vec<Family>,
    /// Equations and losses.
    members: Vec<String>,
    losses: usize,
    /// Functions of the model: name, parameters, result.
    functions: Vec<(String, Vec<Ty>, Ty)>,
    names: usize,
    memory: bool,
    /// How many optimisers step one after the other.
    sequence: usize,
    /// How many gradients may stand inside each other.
    deepest: usize,
}

/// Nets that a model may call: name, declaration.
const NETS: [(&str, &str); 10] = [
    ("energy", "net energy(x: [Q], y: [Q]) -> []"),
    ("pot", "net pot(x: [Q]) -> []"),
    ("field", "net field(x: [Q], y: [C]) -> [Q]"),
    ("squeeze", "net squeeze(x: [C]) -> []"),
    ("ens", "head ens[E](x: [Q]) -> []"),
    ("fan", "head fan[E](x: [Q]) -> [Q]"),
    ("delta", "net delta(z, a) -> z"),
    ("reward", "net reward(z) -> []"),
    ("critic", "net critic(z, a) -> []"),
    ("actor", "net actor(z) -> [A]"),
];

/// A model, the same for the same seed.
pub fn model(seed: u64) -> String {
    let mut rng = Rng(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let deepest = if rng.percent(20) { 3 } else { 2 };
    let mut w = Writer {
        rng,
        families: Vec::new(),
        members: Vec::new(),
        losses: 0,
        functions: Vec::new(),
        names: 0,
        memory: false,
        sequence: if seed % 6 == 5 { 2 + (seed / 6) as usize % 2 } else { 1 },
        deepest,
    };
    w.write()
}

impl Writer {
    fn fresh(&mut self, stem: &str) -> String {
        self.names += 1;
        format!("{stem}{}", self.names)
    }

    fn write(&mut self) -> String {
        let base =
            |name: &str, kind, to| Family { name: name.into(), subs: vec![Sub::Time], kind, from: 0, to, reads: Vec::new() };
        self.families.push(base("z", Kind::Latent, T));
        self.families.push(base("r", Kind::Array(S), T - 1));
        self.families.push(base("discount", Kind::Array(S), T - 1));
        self.families.push(base("a", Kind::Array(VA), T - 1));
        for _ in 0..self.rng.below(3) {
            self.function();
        }
        for _ in 0..2 + self.rng.below(4) {
            self.equation();
        }
        let (algorithm, acting) = self.acting();
        let written = format!("{}\n{acting}", self.members.join("\n"));
        let mut modules = vec!["encoder"];
        modules.extend(NETS.iter().map(|(name, _)| *name).filter(|name| written.contains(&format!("{name}("))));
        modules.extend(written.contains("shift").then_some("shift"));
        modules.extend(self.memory.then_some("m"));
        self.sequence = self.sequence.min(modules.len());
        let mut losses = String::new();
        for i in 4..self.families.len() {
            let f = self.families[i].clone();
            let inner = self.families[i + 1..].iter().any(|g| g.reads.contains(&f.name));
            if !inner || self.rng.percent(30) {
                let _ = writeln!(losses, "  {}", self.loss(&f));
            }
        }
        if losses.is_empty() {
            losses = "  loss l0 1.0 = sq(z[t])\n".into();
        }
        let body = format!("{}\n{losses}{acting}", self.members.join("\n"));
        let mut text =
            format!("{algorithm}model M {{\n  input  obs: [O], r: [], discount: [], first: bool\n  action a: [A] in -1..1\n");
        let dims: Vec<String> = DIMS.iter().map(|(n, s)| format!("{n} = {s}")).collect();
        let _ = writeln!(text, "  dim    {}", dims.join(", "));
        text += "  latent z { q: [Q], p: [Q], c: [C] }\n  net encoder(obs) -> z = mlp([2], tanh)\n";
        for (name, declared) in NETS {
            if body.contains(&format!("{name}(")) || body.contains(&format!("({name})")) {
                let act = self.rng.pick(&["tanh", "silu", "softplus", "sin"]);
                let hidden = self.rng.pick(&["[2]", "[3]", "[2, 2]"]);
                let _ = writeln!(text, "  {declared} = mlp({hidden}, {act})");
            }
        }
        if body.contains("shift") {
            text += "  param shift: [Q] = zeros([Q])\n";
        }
        if self.memory {
            let reset = if self.rng.percent(60) { " reset first" } else { "" };
            let _ = writeln!(text, "  memory m(z, a) -> [M] = gru(width = 2){reset}");
        }
        let _ = writeln!(text, "  source replay(capacity = 1000) over [B = 2, T = {T}]");
        text += match self.rng.below(10) {
            0 => "  running mu = lerp(mu, mean(obs[t], over = [B, t]), 0.1) init zeros([O])\n  z[t] = encoder(obs[t] - mu)\n",
            1 => {
                "  running mu = lerp(mu, mean(obs[t], over = [B, t]), 0.1) init zeros([O])\n  z[t] = encoder(obs[t] - (if (training) { mean(obs[t], over = [B, t]) } else { mu }))\n"
            }
            _ => "  z[t] = encoder(obs[t])\n",
        };
        text += &body;
        text += &self.optimizers(&modules);
        text += "  train { steps = 1000 }\n}\n";
        text
    }

    /// One optimiser, or several that step one after the other; losses belong to one of them or to all.
    fn optimizers(&mut self, modules: &[&str]) -> String {
        if self.sequence < 2 {
            return "  optimizer main = adam(lr = 1e-3) on all\n".into();
        }
        let mut text = String::new();
        let names = &["one", "two", "three"][..self.sequence];
        for (i, name) in names.iter().enumerate() {
            // The first has the encoder, what is left over goes to the last.
            let own: Vec<&str> = if i + 1 == names.len() { modules[i..].to_vec() } else { vec![modules[i]] };
            let mut after = match i {
                0 => String::new(),
                2 if self.rng.percent(30) => " after one, two".into(),
                2 if self.rng.percent(30) => " after one".into(),
                _ => format!(" after {}", names[i - 1]),
            };
            if i > 0 && self.rng.percent(30) {
                let seen = if after.contains("one") || names.len() < 3 { modules[0] } else { modules[1] };
                after += &format!(" only {seen}");
            }
            let rule = self.rng.pick(&["sgd(lr = 0.3)", "sgd(lr = 0.2)", "adam(lr = 0.1)"]);
            let _ = writeln!(text, "  optimizer {name} = {rule} on {}{after}", own.join(", "));
        }
        text
    }

    fn loss(&mut self, f: &Family) -> String {
        self.losses += 1;
        let mut indices = Vec::new();
        let mut folds = Vec::new();
        let mut clause = String::new();
        for (i, sub) in f.subs.iter().enumerate() {
            let name = ["t", "i", "j"][i];
            match sub {
                Sub::Time => indices.push(name.to_string()),
                Sub::Over(dim) => {
                    indices.push(name.to_string());
                    match self.rng.below(3) {
                        0 => folds.push(format!("sum {name} in {dim}")),
                        1 => folds.push(format!("mean {name} in 0..{dim}")),
                        _ if clause.is_empty() => clause = format!(" for {name} in {dim}"),
                        _ => clause += &format!(", {name} in {dim}"),
                    }
                }
            }
        }
        let place = if indices.is_empty() { f.name.clone() } else { format!("{}[{}]", f.name, indices.join(", ")) };
        let place = if f.kind == Kind::Memory { format!("{place}.out") } else { place };
        let vector = matches!(f.kind, Kind::Array(ty) if ty == VQ);
        let mut value = match self.rng.below(3) {
            _ if vector && self.rng.percent(15) => {
                let e =
                    self.rng.pick(&["pot(X)", "energy(X, 0.5 * X)", "prod(X)", "sum(sin(X) * ones([Q]))"]).replace('X', &place);
                format!("sq(grad({e}, {place}))")
            }
            0 if matches!(f.kind, Kind::Array([])) => format!("sin({place})"),
            1 => format!("sqrt(1 + sq({place}))"),
            _ => format!("sq({place})"),
        };
        for fold in folds.iter().rev() {
            value = format!("{fold} {{ {value} }}");
        }
        let weight = self.rng.pick(&["1.0", "0.5", "0.2"]);
        let optimizer = match self.sequence {
            3 if self.rng.percent(30) => " for three",
            2.. if self.rng.percent(40) => " for two",
            2.. if self.rng.percent(40) => " for one",
            _ => "",
        };
        format!("loss l{} {weight}{optimizer} = {value}{clause}", self.losses)
    }
}
