//! `models/hamworld.wm` against numbers that its authors' own program computed (`tests/golden/published_*`): values,
//! losses, gradients and updates at several moments of a training, and whole searches.

mod support;

use dsl::hir::Model;
use support::{difference, load, model, of_text_in, project};
use wmc_compiler::backend::Device;
use wmc_compiler::kernel::fuse::Level;
use wmc_compiler::lower::Entry;
use wmc_compiler::run::{Call, Kernels, Tensor, Tensors, call};

/// A task of the goldens.
struct Set {
    task: &'static str,
    file: &'static str,
    sizes: [(&'static str, u64); 2],
    /// Files of one update, with the decision that it is made at.
    updates: &'static [(&'static str, f64)],
    iterations: usize,
}

const GENERAL: &[(&str, f64)] = &[
    ("train_20000", 0.2),
    ("train_45000", 0.45),
    ("train_100000", 1.0),
    ("train_nosmall", 1.0),
    ("train_clip", 0.45),
    ("train_explode", 0.45),
];

const SETS: [Set; 3] = [
    Set { task: "reacher", file: "models/hamworld.wm", sizes: [("O", 6), ("A", 2)], updates: GENERAL, iterations: 6 },
    Set { task: "cheetah", file: "models/hamworld.wm", sizes: [("O", 17), ("A", 6)], updates: GENERAL, iterations: 6 },
    Set {
        task: "cartpole",
        file: "models/hamworld_cartpole.wm",
        sizes: [("O", 5), ("A", 1)],
        updates: &[("train_45000", 0.45), ("train_100000", 1.0)],
        iterations: 4,
    },
];

/// What the goldens have besides the model's own equations.
const MORE: &str = "
  raw[t]         = encoder(obs[t])
  length[t]      = norm(raw[t])
  after[t]       = energy(s[t].next.q, s[t].next.p)
  near[t]        = project(s[t].next)
  far[t]         = slow.project(zs[t+1])
  reward_of[t]   = reward(s[t].next).logits
  value_of[t]    = value(z[t]).logits             for t in 0..T-1
  slow_of[t]     = slow.value(sg(z[t])).logits    for t in 0..T-1
  reward_mean[t] = reward(s[t].next).mean
  value_mean[t]  = value(z[t]).mean               for t in 0..T-1
  ahead_mean[t]  = v[t+1]
  guess[t]       = prior(z[t])                    for t in 0..T-1
  small[t]       = select(norm(a[t]) < eps, 1, 0)
";

/// Arrays of the training graph by the authors' names. A latent is in three parts.
const VALUES: [(&str, &str); 26] = [
    ("z", "value.z"),
    ("z_target", "value.zs"),
    ("z_next", "value.s.next"),
    ("memory", "value.m.out"),
    ("dq_net", "value.s.nq"),
    ("dp_net", "value.s.np"),
    ("dq", "value.s.dq"),
    ("dp", "value.s.dp"),
    ("dc", "value.s.dc"),
    ("dH_dq", "value.s.Hq"),
    ("dH_dp", "value.s.Hp"),
    ("energy", "value.s.E"),
    ("lambda_return", "value.ret"),
    ("z_unclipped_norm", "value.length"),
    ("next_energy", "value.after"),
    ("projection", "value.near"),
    ("projection_target", "value.far"),
    ("reward_logits", "value.reward_of"),
    ("value_logits", "value.value_of"),
    ("value_target_logits", "value.slow_of"),
    ("reward_mean", "value.reward_mean"),
    ("value_mean", "value.value_mean"),
    ("value_target_next", "value.ahead_mean"),
    ("policy", "value.guess"),
    ("small_action_mask", "value.small"),
    ("total", "objective.main"),
];

const LOSSES: [(&str, &str); 14] = [
    ("repr_loss", "repr"),
    ("dyn_loss", "dyn"),
    ("roll_loss", "roll"),
    ("reward_loss", "reward"),
    ("value_loss", "value"),
    ("value_ce_loss", "value.ce"),
    ("value_slow_loss", "value.slow"),
    ("policy_prior_loss", "policy"),
    ("sa_loss", "sa"),
    ("energy_loss", "energy"),
    ("hamiltonian_loss", "ham"),
    ("temp_loss", "temp"),
    ("decouple_loss", "decouple"),
    ("c_sparse_loss", "c_sparse"),
];

/// The parts of a latent: its fields and where they are among its 48 numbers.
const FIELDS: [(&str, usize, usize); 3] = [("q", 0, 8), ("p", 8, 16), ("c", 16, 48)];

/// The gradient of this one is zero by construction: only differences and derivatives of the energy are used.
const FREE: &str = "energy.2.bias";

impl Set {
    fn model(&self) -> Model {
        model(&project(self.file), &[&self.sizes[..], &[("B", 6)]].concat())
    }

    /// The model with members of a test's own.
    fn with(&self, members: &str) -> Model {
        let text = std::fs::read_to_string(project(self.file)).expect("a model");
        let name = if self.task == "cartpole" { "HamWorldCartpole" } else { "HamWorld" };
        let text = format!("{text}\nmodel More extends {name} {{\n{members}\n}}\n");
        of_text_in("models", &text, &[&self.sizes[..], &[("B", 6)]].concat())
    }

    fn file(&self, name: &str) -> Tensors {
        load(&project(&format!("tests/golden/published_{}/{name}.safetensors", self.task)))
    }

    /// Parameters and slow copies under our names, with the energy's last weight times a number.
    fn params(&self, steeper: f64) -> Tensors {
        let theirs = self.file("params_f32");
        let mut params: Tensors = names().into_iter().map(|(ours, name)| (ours, theirs[&name].clone())).collect();
        params.get_mut("param.energy.2.weight").expect("a weight").data.iter_mut().for_each(|x| *x *= steeper);
        params
    }

    /// What an update is given.
    fn given(&self, update: &str) -> Tensors {
        let steeper = match update {
            "train_clip" => 16.0,
            "train_explode" => 128.0,
            _ => 1.0,
        };
        let batch = self.file("batch_f32");
        let pick = |name: &str, other: &str, when: &str| batch[if update == when { other } else { name }].clone();
        let scalar = |name: &str| {
            let mut t = batch[name].clone();
            t.shape.truncate(2);
            t
        };
        let mut given = self.params(steeper);
        given.insert("data.obs".into(), pick("observations", "observations_far", "train_clip"));
        given.insert("data.a".into(), pick("actions", "actions_nosmall", "train_nosmall"));
        given.insert("data.r".into(), scalar("rewards"));
        given.insert("data.discount".into(), scalar("discounts"));
        given.insert("data.first".into(), Tensor { shape: vec![6, 9], data: vec![0.0; 54] });
        given
    }
}

/// Our names of parameters and slow copies, and the authors'.
fn names() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(project("tests/golden/published_names.json")).expect("names");
    let names: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).expect("names");
    names.into_iter().map(|(ours, theirs)| (ours, theirs.as_str().expect("a name").to_string())).collect()
}

fn close(what: &str, have: &Tensor, want: &Tensor, bound: f64) {
    let flat = |t: &Tensor| Tensor { shape: vec![t.data.len()], data: t.data.clone() };
    let apart = difference(&flat(have), &flat(want));
    assert!(apart <= bound, "{what} is off by {apart:.1e}, allowed is {bound:.0e}");
}

/// Entries of the last axis.
fn part(t: &Tensor, from: usize, to: usize) -> Tensor {
    let n = *t.shape.last().expect("an axis");
    let data = t.data.chunks(n).flat_map(|row| row[from..to].to_vec()).collect();
    Tensor { shape: [&t.shape[..t.shape.len() - 1], &[to - from]].concat(), data }
}

/// The goldens' 19 numbers of a tensor: its sum, its length, a weighted sum and its first entries.
fn summary(t: &Tensor) -> Tensor {
    let f = &t.data;
    let weighted = f.iter().enumerate().map(|(i, x)| x * (i as f64).cos()).sum();
    let mut data = vec![f.iter().sum(), f.iter().map(|x| x * x).sum::<f64>().sqrt(), weighted];
    data.extend((0..16).map(|i| f.get(i).copied().unwrap_or(0.0)));
    Tensor { shape: vec![19], data }
}

/// Summaries are compared relative to the tensor's length. In single precision a sum of n entries may be off by root n
/// times as much as the tensor.
fn close_summary(what: &str, have: &Tensor, want: &Tensor, bound: f64) {
    let slack = if bound < 1e-6 { 1.0 } else { (have.data.len() as f64).sqrt() };
    let have = summary(have);
    for (i, (a, b)) in have.data.iter().zip(&want.data).enumerate() {
        let bound = if i == 0 || i == 2 { bound * slack } else { bound };
        let apart = (a - b).abs() / want.data[1].max(1e-300);
        assert!(apart <= bound, "{what}: number {i} is off by {apart:.1e}, allowed is {bound:.0e}");
    }
}

/// Predictions of the re-rolls, by start and then by step, as the goldens have them.
fn rerolled(have: &Tensors) -> Tensor {
    let mut data = Vec::new();
    for (b, start) in (0..6).flat_map(|b| (0..8).map(move |start| (b, start))) {
        for (k, (f, from, to)) in (1..=3.min(8 - start)).flat_map(|k| FIELDS.map(|field| (k, field))) {
            let (t, n, starts) = (&have[&format!("value.w[:, {k}].{f}")], to - from, 9 - k);
            assert_eq!(t.shape, [6, starts, 1, n]);
            data.extend(&t.data[(b * starts + start) * n..][..n]);
        }
    }
    Tensor { shape: vec![6, 21, 48], data }
}

/// One update: all that the goldens have of it.
fn update(set: &Set, (name, progress): (&str, f64), double: bool, kernels: Option<Kernels>, bound: f64) {
    let at = |what: &str| format!("{} {name}: {what}", set.task);
    let want = set.file(&format!("{name}_f64"));
    let run = Call { entry: Entry::TrainStep, observe: true, double, kernels, progress, ..Call::default() };
    let (model, given) = (set.with(MORE), set.given(name));
    let have = call(&model, &run, &given).unwrap_or_else(|e| panic!("{}", at(&e.to_string())));
    let mine = |name: &str| have.get(name).unwrap_or_else(|| panic!("{name} is not given out"));
    let mut compared = 0;
    for (theirs, ours) in VALUES {
        let Some(want) = want.get(theirs) else { continue };
        compared += 1;
        if want.shape.last() == Some(&48) {
            for (field, from, to) in FIELDS {
                close(&at(ours), mine(&format!("{ours}.{field}")), &part(want, from, to), bound);
            }
        } else {
            close(&at(ours), mine(ours), want, bound);
        }
    }
    assert!(compared >= 1, "{compared} values of {name}");
    for (theirs, ours) in LOSSES {
        let want = &want[&format!("loss.{theirs}")];
        let ours = mine(&format!("loss.{ours}"));
        if want.data[0] == 0.0 {
            assert_eq!(ours.data[0], 0.0, "{}", at(theirs));
        } else {
            close(&at(theirs), ours, want, bound);
        }
    }
    if let Some(want) = want.get("reroll") {
        close(&at("reroll"), &rerolled(&have), want, bound);
    }
    // Cartpole's gradients are there as summaries alone.
    let full = (name == "train_45000" && set.task != "cartpole").then(|| set.file("grads_45000_f64"));
    let gradients = names().into_iter().filter_map(|(ours, theirs)| Some((ours.strip_prefix("param.")?.to_string(), theirs)));
    let gradients: Vec<(String, String)> = gradients.collect();
    let largest = gradients.iter().flat_map(|(path, _)| &mine(&format!("grad.{path}")).data).fold(0f64, |m, x| m.max(x.abs()));
    let norm = gradients.iter().flat_map(|(path, _)| &mine(&format!("grad.{path}")).data).map(|x| x * x).sum::<f64>().sqrt();
    close(&at("grad_norm"), &Tensor { shape: vec![1], data: vec![norm] }, &want["grad_norm"], bound);
    for (path, theirs) in &gradients {
        let gradient = mine(&format!("grad.{path}"));
        if path == FREE {
            assert!(gradient.data[0].abs() < 1e-6 * largest, "{}", at(path));
        } else if let Some(want) = want.get(&format!("gradsum.{theirs}")) {
            close_summary(&at(path), gradient, want, bound);
        }
        if let Some(want) = full.as_ref().and_then(|full| full.get(&format!("grad.{theirs}"))).filter(|_| path != FREE) {
            close(&at(path), gradient, want, bound);
        }
    }
    let clip = (10.0 / (norm + 1e-6)).min(1.0);
    close(&at("clip_coefficient"), &Tensor { shape: vec![1], data: vec![clip] }, &want["clip_coefficient"], bound);
    for layer in 0..2 {
        let Some(want) = want.get("memory_state_before") else { continue };
        let (state, steps) = (mine(&format!("value.m.carry.{layer}.h")), 8);
        for (b, t) in (0..6).flat_map(|b| (1..steps).map(move |t| (b, t))) {
            let have = Tensor { shape: vec![128], data: state.data[(b * steps + t - 1) * 128..][..128].to_vec() };
            let want = want.data[((b * steps + t) * 2 + layer) * 128..][..128].to_vec();
            close(&at("memory_state"), &have, &Tensor { shape: vec![128], data: want }, bound);
        }
    }
    let stepped = |have: &Tensors, step: &str| {
        for (ours, theirs) in names() {
            if let Some(want) = want.get(&format!("{step}.{theirs}")) {
                close_summary(&at(&format!("{step} {ours}")), &have[&format!("next.{ours}")], want, bound);
            }
        }
    };
    stepped(&have, "step1");
    // A second update goes on from what the first one left.
    if let Some(total) = want.get("total_second").filter(|_| double) {
        let mut given = given;
        given.extend(have.iter().filter_map(|(name, t)| Some((name.strip_prefix("next.")?.to_string(), t.clone()))));
        let have = call(&model, &Call { step: 1, ..run }, &given).unwrap_or_else(|e| panic!("{}", at(&e.to_string())));
        close(&at("total_second"), &have["objective.main"], total, bound);
        stepped(&have, "step2");
    }
}

/// All levels on one thread.
fn levels() -> impl Iterator<Item = Option<Kernels>> {
    Level::ALL.into_iter().map(|level| Some(Kernels { level, threads: 1, device: Device::Cpu }))
}

#[test]
fn updates_in_double_precision() {
    SETS.iter().for_each(|set| set.updates.iter().for_each(|name| update(set, *name, true, None, 1e-9)));
}

#[test]
fn updates_by_kernels() {
    for set in &SETS {
        set.updates.iter().for_each(|name| levels().for_each(|kernels| update(set, *name, false, kernels, 1e-4)));
    }
}

/// A search of the goldens: what it starts from and what it comes to.
struct Search {
    name: &'static str,
    /// Whether there was a search before, the first one.
    begun: bool,
    observation: usize,
}

const SEARCHES: [Search; 2] =
    [Search { name: "first", begun: false, observation: 0 }, Search { name: "warm", begun: true, observation: 3 }];

/// Entry i of the first axis.
fn row(t: &Tensor, i: usize) -> Tensor {
    let inner: usize = t.shape[1..].iter().product();
    Tensor { shape: t.shape[1..].to_vec(), data: t.data[i * inner..][..inner].to_vec() }
}

/// The same numbers with axes of one entry before them.
fn with_axes(t: &Tensor, ones: usize) -> Tensor {
    Tensor { shape: [&vec![1; ones], &t.shape[..]].concat(), data: t.data.clone() }
}

/// Parameters, observation, memory and last plan.
fn before(set: &Set, search: &Search, golden: &Tensors) -> Tensors {
    let obs = set.sizes[0].1 as usize;
    let mut given = set.params(1.0);
    let batch = set.file("batch_f32");
    let observation = batch["observations"].data[search.observation * obs..][..obs].to_vec();
    given.insert("data.obs".into(), Tensor { shape: vec![1, obs], data: observation });
    given.insert("data.first".into(), Tensor { shape: vec![1], data: vec![0.0] });
    for layer in 0..2 {
        let state = golden[&format!("{}.memory_state", search.name)].data[128 * layer..][..128].to_vec();
        given.insert(format!("carry.m.{layer}.h"), Tensor { shape: vec![1, 128], data: state });
    }
    let mut last = with_axes(&golden["first.final_mean"], 1);
    if !search.begun {
        last.data.fill(0.0);
    }
    given.insert("carry.plan.last".into(), last);
    given.insert("carry.plan.begun".into(), Tensor { shape: vec![1], data: vec![f64::from(search.begun)] });
    given
}

/// The candidates' noise in a round, around the mean first.
fn noise(golden: &Tensors, name: &str, round: usize) -> Tensor {
    let [random, policy] = ["random", "policy"].map(|kind| row(&golden[&format!("{name}.noise_{kind}")], round));
    let count = random.shape[0] + policy.shape[0];
    Tensor { shape: [&[count], &random.shape[1..]].concat(), data: [random.data, policy.data].concat() }
}

#[test]
fn searches_in_double_precision() {
    for (set, search) in SETS.iter().flat_map(|set| SEARCHES.iter().map(move |search| (set, search))) {
        let at = |what: &str| format!("{} {}: {what}", set.task, search.name);
        let golden = set.file("plan_f64");
        let of = |what: &str| &golden[&format!("{}.{what}", search.name)];
        let mut given = before(set, search, &golden);
        let rounds: Vec<Tensor> = (0..set.iterations).map(|round| noise(&golden, search.name, round)).collect();
        let shape = [&[1, set.iterations], &rounds[0].shape[..]].concat();
        let data = rounds.into_iter().flat_map(|round| round.data).collect();
        given.insert("draw.plan.noise".into(), Tensor { shape, data });
        let run = Call { entry: Entry::Plan, observe: true, double: true, progress: 0.45, ..Call::default() };
        let have = call(&set.model(), &run, &given).unwrap_or_else(|e| panic!("{e}"));
        let [mean, std, score] = ["mean", "std", "score"].map(|name| row(&have[&format!("value.plan.{name}")], 0));
        close(&at("start"), &row(&mean, 0), of("start_mean"), 1e-9);
        for round in 0..set.iterations {
            close(&at("mean"), &row(&mean, round + 1), &row(of("mean"), round), 1e-9);
            close(&at("std"), &row(&std, round + 1), &row(of("std"), round), 1e-9);
            close(&at("scores"), &row(&score, round), &row(of("values"), round), 1e-9);
        }
        close(&at("action"), &have["action"], of("action"), 1e-9);
    }
}

/// Three decisions of an episode from its start, each on what the one before left.
#[test]
fn decisions_in_double_precision() {
    for set in &SETS {
        let golden = set.file("act_f64");
        let mut given = set.params(1.0);
        for (decision, bound) in [1e-9, 1e-9, 1e-8].into_iter().enumerate() {
            let at = |what: &str| format!("{} decision {decision}: {what}", set.task);
            let of = |what: &str| golden.get(&format!("{decision}.{what}"));
            let rounds: Vec<Tensor> = (0..set.iterations).map(|round| noise(&golden, &decision.to_string(), round)).collect();
            let shape = [&[1, set.iterations], &rounds[0].shape[..]].concat();
            let data = rounds.into_iter().flat_map(|round| round.data).collect();
            given.insert("draw.plan.noise".into(), Tensor { shape, data });
            given.insert("data.obs".into(), with_axes(of("observation").expect("an observation"), 1));
            given.insert("data.first".into(), Tensor { shape: vec![1], data: vec![f64::from(decision == 0)] });
            let entry = match of("noise_exploration") {
                Some(noise) => {
                    given.insert("draw.act.train".into(), with_axes(noise, 1));
                    Entry::Act
                }
                None => Entry::Plan,
            };
            for layer in 0..2 {
                let Some(state) = given.get(&format!("carry.m.{layer}.h")) else { continue };
                let want = of("memory_state").expect("a memory").data[128 * layer..][..128].to_vec();
                close(&at("memory"), state, &Tensor { shape: vec![128], data: want }, bound);
            }
            let run = Call { entry, observe: true, double: true, progress: 0.45, batch: Some(1), ..Call::default() };
            let have = call(&set.model(), &run, &given).unwrap_or_else(|e| panic!("{}", at(&e.to_string())));
            close(&at("action"), &have["action"], of("action").expect("an action"), bound);
            // The plan that the next search starts from, one step on.
            let (size, last) = (set.sizes[1].1 as usize, &have["next.carry.plan.last"]);
            let data = last.data[size..].iter().copied().chain(vec![0.0; size]).collect();
            let moved = Tensor { shape: last.shape.clone(), data };
            close(&at("next plan"), &moved, of("next_init_mean").expect("a plan"), bound);
            given.extend(have.iter().filter_map(|(name, t)| Some((name.strip_prefix("next.")?.to_string(), t.clone()))));
        }
    }
}

/// Every round of a search by itself, from the goldens' mean and deviation.
#[test]
fn rounds_by_kernels() {
    for set in &SETS {
        let text = std::fs::read_to_string(project(set.file)).expect("a model");
        let one = text.replace(&format!("iterations = {}", set.iterations), "iterations = 1");
        let model = of_text_in("models", &one, &set.sizes);
        let golden = set.file("plan_f64");
        let mut others = 0;
        for (search, round) in SEARCHES.iter().flat_map(|search| (0..set.iterations).map(move |round| (search, round))) {
            let of = |what: &str| &golden[&format!("{}.{what}", search.name)];
            let mut given = before(set, search, &golden);
            given.insert("draw.plan.noise".into(), with_axes(&noise(&golden, search.name, round), 2));
            if round > 0 {
                given.insert("value.plan.mean".into(), with_axes(&row(of("mean"), round - 1), 1));
                given.insert("value.plan.std".into(), with_axes(&row(of("std"), round - 1), 1));
            }
            for kernels in levels() {
                let at = |what: &str| format!("{} {}, round {round}, {kernels:?}: {what}", set.task, search.name);
                let run = Call { entry: Entry::Plan, observe: true, kernels, progress: 0.45, ..Call::default() };
                let have = call(&model, &run, &given).unwrap_or_else(|e| panic!("{}", at(&e.to_string())));
                let [mean, std, score] = ["mean", "std", "score"].map(|name| row(&have[&format!("value.plan.{name}")], 0));
                close(&at("scores"), &row(&score, 0), &row(of("values"), round), 1e-4);
                if round == 0 {
                    close(&at("start"), &row(&mean, 0), of("start_mean"), 1e-4);
                }
                if best(&row(&score, 0), of("elite_index").shape[1]) != chosen(&row(of("elite_index"), round)) {
                    let gap = of("elite_gap").data[round];
                    assert!(gap < 1e-3, "{}", at("another elite"));
                    others += 1;
                    continue;
                }
                close(&at("mean"), &row(&mean, 1), &row(of("mean"), round), 1e-4);
                close(&at("std"), &row(&std, 1), &row(of("std"), round), 1e-4);
            }
        }
        println!("{}: another elite in {others} rounds", set.task);
    }
}

/// Errors of predictions 1 to 15 steps ahead from every decision, the memory from the episode's start.
#[test]
fn errors_ahead_in_double_precision() {
    for set in &SETS[..2] {
        let text = std::fs::read_to_string(project(set.file)).expect("a model");
        // One segment holds an episode and what its last predictions would be compared with.
        let [rows, ahead] = [25, 15];
        let long = text.replace("evaluate { T = 24, K = 15 }", &format!("evaluate {{ T = {}, K = {ahead} }}", rows + ahead));
        assert_ne!(long, text, "the model's evaluation has other sizes");
        let model = of_text_in("models", &long, &[&set.sizes[..], &[("B", 4)]].concat());
        let golden = set.file("mse");
        let mut given = set.params(1.0);
        let data = |name: &str, steps: usize| {
            let from = &golden[name];
            let [episodes, there, width] = from.shape[..] else { panic!("{:?}", from.shape) };
            let row = |i: usize| match (i / steps, i % steps) {
                (episode, t) if t < there => from.data[(episode * there + t) * width..][..width].to_vec(),
                _ => vec![0.0; width],
            };
            Tensor { shape: vec![episodes, steps, width], data: (0..episodes * steps).flat_map(row).collect() }
        };
        let steps = rows + ahead;
        given.insert("data.obs".into(), data("observations", steps));
        given.insert("data.a".into(), data("actions", steps - 1));
        for (name, steps) in [("r", steps - 1), ("discount", steps - 1), ("first", steps)] {
            given.insert(format!("data.{name}"), Tensor { shape: vec![4, steps], data: vec![0.0; 4 * steps] });
        }
        let run = Call { entry: Entry::Evaluate, double: true, progress: 1.0, ..Call::default() };
        let have = call(&model, &run, &given).unwrap_or_else(|e| panic!("{}: {e}", set.task));
        let error = &have["diagnose.error"];
        assert_eq!(error.shape, [4, rows, ahead], "{}", set.task);
        let mut each = Vec::new();
        for k in 1..=ahead {
            for episode in 0..4 {
                let starts: Vec<f64> = (0..rows - k).map(|i| error.data[(episode * rows + i) * ahead + k - 1]).collect();
                each.push(starts.iter().sum::<f64>() / starts.len() as f64);
            }
        }
        let mean = each.chunks(4).map(|episodes| episodes.iter().sum::<f64>() / 4.0).collect();
        close(set.task, &Tensor { shape: vec![ahead, 4], data: each }, &golden["mse_per_episode"], 1e-9);
        close(set.task, &Tensor { shape: vec![ahead], data: mean }, &golden["mse"], 1e-9);
    }
}

/// The places of the largest scores, in order of place.
fn best(scores: &Tensor, count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..scores.data.len()).collect();
    places.sort_by(|a, b| scores.data[*b].total_cmp(&scores.data[*a]));
    places.truncate(count);
    places.sort_unstable();
    places
}

fn chosen(index: &Tensor) -> Vec<usize> {
    let mut places: Vec<usize> = index.data.iter().map(|x| *x as usize).collect();
    places.sort_unstable();
    places
}
