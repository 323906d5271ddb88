//! From a checked model to the document that is shown.

use compiler::artefact;
use compiler::backend::cpu;
use compiler::kernel::cost;
use compiler::kernel::fuse::Level;
use compiler::lower::Entry;
use dsl::hir::{self, AxisId, Model, Noise, VarId};
use dsl::source::Sources;

use super::counts;
use super::document::*;
use super::scalars::{MOMENTS, Scalars};
use super::written::{Written, written};

pub(super) fn view(model: &Model, sources: &Sources) -> ModelView {
    let scalars = Scalars::of(model);
    let written = written(sources, &model.name);
    ModelView {
        name: model.name.clone(),
        tensors: model.params.len(),
        parameters: Size(counts::total(model)),
        dims: model.dims.iter().map(|d| Dim { name: d.name.clone(), size: axis(model, d.axis).size, task: d.task }).collect(),
        inputs: model
            .inputs
            .iter()
            .map(|i| Input { name: i.name.clone(), axes: axes(model, &i.axes), dtype: i.dtype, outcome: i.outcome })
            .collect(),
        action: Action {
            input: model.inputs.get(model.action.input).map(|i| i.name.clone()).unwrap_or_default(),
            low: model.action.low,
            high: model.action.high,
        },
        latents: model.latents.iter().map(|l| latent(model, l)).collect(),
        modules: modules(model),
        schedules: model.schedules.iter().map(|s| schedule(s, &scalars, &written)).collect(),
        losses: model.losses.iter().map(|l| loss(model, l, &scalars, &written)).collect(),
        metrics: model.metrics.iter().map(|m| metric(model, m)).collect(),
        diagnose: model.diagnose.iter().map(|d| d.name.clone()).collect(),
        planners: written.planners.iter().map(|(name, text)| Planner { name: name.clone(), written: text.clone() }).collect(),
        act: model.act.as_ref().map(|a| act(model, a)),
        optimizers: model.optimizers.iter().map(|o| optimizer(model, o, &written)).collect(),
        source: source(model),
        train: model.settings.clone(),
        tasks: model.tasks.iter().map(task).collect(),
        entry_points: entry_points(model, &written),
        params: params(model),
        carries: model.carries.iter().map(|c| Carry { path: c.path.clone(), axes: axes(model, &c.axes) }).collect(),
        draws: model.draws.iter().map(|d| draw(model, d)).collect(),
        running: model.running.iter().map(|r| Running { name: r.name.clone(), axes: axes(model, &r.axes) }).collect(),
        records: records(model),
    }
}

fn axis(model: &Model, id: AxisId) -> Axis {
    let axis = model.axis(id);
    Axis { name: axis.name.clone(), size: Size(axis.size.clone()) }
}

fn axes(model: &Model, ids: &[AxisId]) -> Vec<Axis> {
    ids.iter().map(|id| axis(model, *id)).collect()
}

fn latent(model: &Model, latent: &hir::Latent) -> Latent {
    let size = latent.fields.iter().fold(hir::Size::default(), |sum, (_, a)| sum.add(&counts::entries(model, a)));
    let fields = latent.fields.iter().map(|(name, a)| Field { name: name.clone(), axes: axes(model, a) }).collect();
    Latent { name: latent.name.clone(), size: Size(size), fields }
}

fn modules(model: &Model) -> Vec<Module> {
    let module = |m: &hir::Module| Module {
        name: m.name.clone(),
        kind: m.kind,
        signature: m.signature.clone(),
        ensemble: m.ensemble.map(|a| axis(model, a)),
        slow: m.slow.map(|s| s.tau),
        tensors: m.params.len(),
        parameters: Size(sum(model, m.params.iter().copied())),
    };
    model.modules.iter().map(module).collect()
}

fn sum(model: &Model, params: impl Iterator<Item = hir::ParamId>) -> hir::Size {
    params.fold(hir::Size::default(), |sum, p| sum.add(&counts::entries(model, &model.params[p.0 as usize].axes)))
}

fn schedule(schedule: &hir::Schedule, scalars: &Scalars, written: &Written) -> Schedule {
    Schedule {
        name: schedule.name.clone(),
        written: written.schedules.get(&schedule.name).cloned().unwrap_or_default(),
        values: scalars.values(schedule.value).map(|values| MOMENTS.into_iter().zip(values).collect()),
    }
}

fn loss(model: &Model, loss: &hir::Loss, scalars: &Scalars, written: &Written) -> Loss {
    Loss {
        name: loss.name.clone(),
        weight: scalars.constant(loss.weight),
        written: written.weights.get(&loss.name).cloned().unwrap_or_default(),
        warmup: loss.warmup,
        optimizer: loss.optimizer.and_then(|o| model.optimizers.get(o)).map(|o| o.name.clone()),
        parts: loss.parts.iter().map(|p| p.name.clone()).collect(),
    }
}

/// `drift[t]`, with the indices that stay.
fn metric(model: &Model, metric: &hir::Metric) -> String {
    let kept: Vec<&str> = metric.kept.iter().map(|v| model.var(*v).name.as_str()).collect();
    match kept.is_empty() || metric.name.contains('[') {
        true => metric.name.clone(),
        false => format!("{}[{}]", metric.name, kept.join(", ")),
    }
}

fn act(model: &Model, act: &hir::Act) -> Act {
    let state = act.state.iter().filter_map(|s| match s.value {
        hir::StateValue::Family { family, leaf } => {
            let family = model.train.families.get(family.0 as usize)?;
            let leaf = family.leaves.get(leaf)?;
            let dot = if leaf.path.is_empty() { "" } else { "." };
            Some(ActState { value: format!("{}{dot}{}", family.name, leaf.path), axes: axes(model, &leaf.axes), lag: s.lag })
        }
        hir::StateValue::Input(input) => {
            let input = model.inputs.get(input)?;
            Some(ActState { value: input.name.clone(), axes: axes(model, &input.axes), lag: s.lag })
        }
    });
    let carries = act.next.iter().filter_map(|(carry, _)| model.carries.get(*carry)).map(|c| c.path.clone());
    Act { state: state.collect(), carries: carries.collect() }
}

fn optimizer(model: &Model, optimizer: &hir::Optimizer, written: &Written) -> Optimizer {
    let mut trains: Vec<Trained> = Vec::new();
    for (id, scale) in &optimizer.params {
        let module = module_name(model, model.params[id.0 as usize].module);
        // Parameters come module by module.
        match trains.last_mut() {
            Some(last) if last.module == module && last.scale == *scale => last.tensors += 1,
            _ => trains.push(Trained { module, scale: *scale, tensors: 1 }),
        }
    }
    Optimizer {
        name: optimizer.name.clone(),
        written: written.rules.get(&optimizer.name).cloned().unwrap_or_default(),
        slots: optimizer.rule.slots.clone(),
        tensors: optimizer.params.len(),
        parameters: Size(sum(model, optimizer.params.iter().map(|(id, _)| *id))),
        trains,
        after: optimizer.after.iter().filter_map(|o| model.optimizers.get(*o)).map(|o| o.name.clone()).collect(),
    }
}

fn module_name(model: &Model, module: usize) -> String {
    model.modules.get(module).map(|m| m.name.clone()).unwrap_or_default()
}

fn source(model: &Model) -> Source {
    match &model.source {
        hir::Source::Replay { capacity, cross, by_episode, context, batch, time } => Source::Replay {
            capacity: *capacity,
            cross: *cross,
            by_episode: *by_episode,
            context: *context,
            batch: axis(model, batch.axis),
            time: axis(model, time.axis),
        },
        hir::Source::Rollout { steps, epochs, minibatch, time } => {
            Source::Rollout { steps: *steps, epochs: *epochs, minibatch: *minibatch, time: axis(model, time.axis) }
        }
    }
}

fn task(task: &hir::Task) -> Task {
    Task { name: task.name.clone(), protocol: task.protocol.clone(), dims: task.dims.clone(), settings: task.settings.clone() }
}

/// The functions that a compiled model has, and what each gives.
fn entry_points(model: &Model, written: &Written) -> Vec<EntryPoint> {
    let gives = |name: &str| match name {
        "act" => vec!["train".to_string(), "eval".to_string()],
        "plan" => written.planners.iter().map(|(name, _)| name.clone()).collect(),
        "train_step" => model.losses.iter().flat_map(|l| &l.parts).map(|p| p.name.clone()).collect(),
        "evaluate" => {
            model.metrics.iter().map(|m| metric(model, m)).chain(model.diagnose.iter().map(|d| d.name.clone())).collect()
        }
        "record" => records(model),
        _ => Vec::new(),
    };
    let entry_point = |name: &'static str| {
        let (memory, flops) = memory_and_work(model, name).unzip();
        EntryPoint { name, gives: gives(name), memory, flops }
    };
    model.entry_points().into_iter().map(entry_point).collect()
}

/// Bytes and flops of an entry point as kernels, where all sizes are known. Nothing is allocated.
fn memory_and_work(model: &Model, name: &str) -> Option<(u64, u64)> {
    let compiled = artefact::EntryPoint::compile(model, Entry::parse(name)?, None, Level::default()).ok()?;
    let flops = cost::totals(&compiled.kernels, &compiled.kernels.steps).cost.flops;
    Some((cpu::needs(&compiled.kernels, 1).bytes(), flops))
}

fn params(model: &Model) -> Vec<Param> {
    let param = |p: &hir::Param| Param {
        path: p.path.clone(),
        module: module_name(model, p.module),
        axes: axes(model, &p.axes),
        count: Size(counts::entries(model, &p.axes)),
    };
    model.params.iter().map(param).collect()
}

fn draw(model: &Model, draw: &hir::Draw) -> Draw {
    let (noise, of) = match draw.noise {
        Noise::Gaussian => ("gaussian", None),
        Noise::Uniform => ("uniform", None),
        Noise::Subset { of } => ("subset", Some(of)),
    };
    Draw {
        name: draw.name.clone(),
        noise,
        of,
        indices: draw.vars.iter().map(|v| index(model, *v)).collect(),
        axes: axes(model, &draw.axes),
        per_sample: draw.per_sample,
    }
}

fn index(model: &Model, id: VarId) -> Index {
    let var = model.var(id);
    Index { name: var.name.clone(), from: var.lo, to: var.hi }
}

fn records(model: &Model) -> Vec<String> {
    model.records.iter().filter_map(|id| model.train.families.get(id.0 as usize)).map(|f| f.name.clone()).collect()
}
