//! A model's document as tables for people.

use dsl::hir::{Dtype, ModuleKind, Setting};

use super::counts;
use super::document::*;
use super::table::Align::{Left, Right};
use super::table::{Align, table};
use crate::explain::{bytes, count};

pub(super) fn text(file: &str, model: &ModelView, params: bool) -> String {
    let mut text = format!("{} ({file})\n", model.name);
    let mut section = |title: &str, align: &[Align], rows: Vec<Vec<String>>| {
        if !rows.is_empty() {
            text += &format!("\n{title}\n{}", table(align, &rows));
        }
    };
    section("dims", &[Left, Right], dims(model));
    section("inputs", &[], inputs(model));
    section("latents", &[], latents(model));
    section("nets, heads, memories", &[Left, Left, Left, Right, Right], modules(model));
    section("schedules", &[Left, Right, Right, Right, Right, Right], schedules(model));
    section("losses", &[Left, Right], losses(model));
    section("metrics", &[], names(&model.metrics));
    section("diagnosed", &[], names(&model.diagnose));
    section("planners", &[], model.planners.iter().flat_map(|p| wrapped(&p.written)).map(|line| vec![line]).collect());
    section("state of acting", &[], act(model));
    section("optimisers", &[], optimizers(model));
    section("training", &[], training(model));
    section("tasks", &[], tasks(model));
    section("entry points", &[], entry_points(model));
    if params {
        section("parameters", &[Left, Left, Right], parameters(model));
        section("carries", &[], model.carries.iter().map(|c| vec![c.path.clone(), shape(&c.axes)]).collect());
        section("draws", &[], draws(model));
        section("running values", &[], model.running.iter().map(|r| vec![r.name.clone(), shape(&r.axes)]).collect());
        section("records", &[], names(&model.records));
    }
    if model.parameters.0.value().is_none() {
        let symbols = model.parameters.0.symbols().join(", ");
        text += &format!("\nSizes of the task ({symbols}) are symbols; `--task` or `--dim` gives them.\n");
    }
    text
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(String::from).to_vec()
}

fn names(names: &[String]) -> Vec<Vec<String>> {
    if names.is_empty() { Vec::new() } else { vec![vec![names.join(", ")]] }
}

fn size(size: &Size) -> String {
    counts::grouped(&size.0)
}

/// `[O = 17, H = 256]`; an axis that is its own symbol stands alone.
fn shape(axes: &[Axis]) -> String {
    let axis = |axis: &Axis| match size(&axis.size) {
        size if size == axis.name => size,
        size => format!("{} = {size}", axis.name),
    };
    format!("[{}]", axes.iter().map(axis).collect::<Vec<_>>().join(", "))
}

fn dims(model: &ModelView) -> Vec<Vec<String>> {
    let given = |dim: &Dim| match (dim.task, dim.size.0.value()) {
        (false, _) => "",
        (true, None) => "the task's",
        (true, Some(_)) => "given",
    };
    model.dims.iter().map(|d| row([&d.name, &size(&d.size), given(d)])).collect()
}

fn inputs(model: &ModelView) -> Vec<Vec<String>> {
    let input = |input: &Input| {
        let ty = if input.dtype == Dtype::Bool { "bool".into() } else { shape(&input.axes) };
        let action = &model.action;
        let note = match input.outcome {
            _ if input.name == action.input => format!("action in {}..{}", action.low, action.high),
            true => "arrives with the next observation".into(),
            false => String::new(),
        };
        row([&input.name, &ty, &note])
    };
    model.inputs.iter().map(input).collect()
}

fn latents(model: &ModelView) -> Vec<Vec<String>> {
    let latent = |latent: &Latent| {
        let fields: Vec<String> = latent.fields.iter().map(|f| format!("{}: {}", f.name, shape(&f.axes))).collect();
        let numbers = format!("{} numbers", size(&latent.size));
        row([&latent.name, &format!("{{ {} }}", fields.join(", ")), &numbers])
    };
    model.latents.iter().map(latent).collect()
}

fn modules(model: &ModelView) -> Vec<Vec<String>> {
    let mut rows = vec![row(["kind", "name", "signature", "tensors", "parameters", ""])];
    rows.extend(model.modules.iter().map(|module| {
        let kind = match module.kind {
            ModuleKind::Net => "net",
            ModuleKind::Head => "head",
            ModuleKind::Memory => "memory",
            ModuleKind::Param => "param",
        };
        let (name, signature) = match &module.ensemble {
            Some(axis) => {
                let rest = module.signature.strip_prefix(&format!("[{}]", axis.name));
                (module.name.clone() + &shape(std::slice::from_ref(axis)), rest.unwrap_or(&module.signature))
            }
            None => (module.name.clone(), module.signature.as_str()),
        };
        let slow = module.slow.map(|tau| format!("slow copy, tau = {tau}")).unwrap_or_default();
        row([kind, &name, signature, &module.tensors.to_string(), &size(&module.parameters), &slow])
    }));
    rows.push(row(["", "", "all", &model.tensors.to_string(), &size(&model.parameters), ""]));
    rows
}

fn schedules(model: &ModelView) -> Vec<Vec<String>> {
    if model.schedules.is_empty() {
        return Vec::new();
    }
    let moments = super::scalars::MOMENTS;
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(moments.map(percent));
    rows.extend(model.schedules.iter().map(|schedule| {
        let values = match &schedule.values {
            Some(values) => values.iter().map(|(_, value)| number(*value)).collect(),
            None => vec![String::new(); moments.len()],
        };
        [vec![schedule.name.clone()], values, vec![schedule.written.clone()]].concat()
    }));
    rows
}

fn losses(model: &ModelView) -> Vec<Vec<String>> {
    let loss = |loss: &Loss| {
        let weight = loss.weight.map_or_else(|| loss.written.clone(), number);
        let warmup = loss.warmup.map(|(from, to)| format!("warm-up {}..{}", percent(from), percent(to)));
        let only = loss.optimizer.as_ref().map(|o| format!("for {o}")).unwrap_or_default();
        let parts = if loss.parts.len() > 1 { loss.parts.join(", ") } else { String::new() };
        row([&loss.name, &weight, &warmup.unwrap_or_default(), &only, &parts])
    };
    model.losses.iter().map(loss).collect()
}

fn act(model: &ModelView) -> Vec<Vec<String>> {
    let Some(act) = &model.act else {
        return Vec::new();
    };
    let ago = |lag| if lag == 1 { "of the step before".to_string() } else { format!("of {lag} steps before") };
    let read = act.state.iter().map(|state| row([&state.value, &shape(&state.axes), &ago(state.lag)]));
    let axes = |path: &str| model.carries.iter().find(|c| c.path == path).map(|c| shape(&c.axes)).unwrap_or_default();
    let kept = act.carries.iter().map(|carry| row([carry, &axes(carry), "kept by the planner"]));
    read.chain(kept).collect()
}

fn optimizers(model: &ModelView) -> Vec<Vec<String>> {
    let optimizer = |optimizer: &Optimizer| {
        let counted = format!("{}, {} parameters", plural(optimizer.tensors as u64, "tensor"), size(&optimizer.parameters));
        let after = if optimizer.after.is_empty() { String::new() } else { format!("after {}", optimizer.after.join(", ")) };
        row([&optimizer.name, &optimizer.written, &counted, &trained(model, optimizer), &after])
    };
    model.optimizers.iter().map(optimizer).collect()
}

/// `all`, or the modules with their factors.
fn trained(model: &ModelView, optimizer: &Optimizer) -> String {
    if optimizer.tensors == model.tensors && optimizer.trains.iter().all(|t| t.scale == 1.0) {
        return "all".into();
    }
    let module = |t: &Trained| {
        let whole = model.modules.iter().any(|m| m.name == t.module && m.tensors == t.tensors);
        let part = if whole { String::new() } else { format!(" ({})", plural(t.tensors as u64, "tensor")) };
        let scale = if t.scale == 1.0 { String::new() } else { format!(" x {}", t.scale) };
        format!("{}{part}{scale}", t.module)
    };
    optimizer.trains.iter().map(module).collect::<Vec<_>>().join(", ")
}

fn training(model: &ModelView) -> Vec<Vec<String>> {
    let grouped = |n: u64| counts::group(&n.to_string());
    let source = match &model.source {
        Source::Replay { capacity, cross, by_episode, context, batch, time } => {
            let cross = if *cross { ", across episodes" } else { "" };
            let by = if *by_episode { ", by episode" } else { "" };
            let context = if *context > 0 { format!(", context {context}") } else { String::new() };
            format!("replay of {} over {}{cross}{by}{context}", grouped(*capacity), shape(&[batch.clone(), time.clone()]))
        }
        Source::Rollout { steps, epochs, minibatch, time } => format!(
            "rollout of {} over {}, {} of minibatches of {}",
            grouped(*steps),
            shape(std::slice::from_ref(time)),
            plural(u64::from(*epochs), "epoch"),
            grouped(*minibatch)
        ),
    };
    let train = &model.train;
    let steps = format!(
        "{}, the first {} at random; {} every {}",
        grouped(train.steps),
        grouped(train.seed_steps),
        plural(train.updates, "update"),
        if train.every == 1 { "step".to_string() } else { plural(train.every, "step") },
    );
    let seeds: Vec<String> = train.seeds.iter().map(u64::to_string).collect();
    let tests = format!("{} every {}", plural(train.eval_episodes, "episode"), plural(train.eval_every, "step"));
    let mut rows =
        vec![row(["source", &source]), row(["steps", &steps]), row(["evaluation", &tests]), row(["seeds", &seeds.join(", ")])];
    if let Some(rule) = &train.stop_epoch {
        let metric = if rule.last { format!("last({})", rule.metric) } else { rule.metric.clone() };
        rows.push(row(["epochs end", &format!("where {metric} > {}", rule.above)]));
    }
    rows
}

/// A row a task, a column a size or setting.
fn tasks(model: &ModelView) -> Vec<Vec<String>> {
    let settings = |task: &Task| -> Vec<(String, String)> {
        let dims = task.dims.iter().map(|(name, value)| (name.clone(), value.to_string()));
        dims.chain(task.settings.iter().map(|(name, value)| (name.clone(), setting(value)))).collect()
    };
    let mut names: Vec<String> = Vec::new();
    for (name, _) in model.tasks.iter().flat_map(settings) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let cell = |given: &[(String, String)], name: &String| {
        given.iter().find(|(n, _)| n == name).map(|(n, value)| format!("{n} = {value}")).unwrap_or_default()
    };
    let rows = model.tasks.iter().map(|task| {
        let given = settings(task);
        [vec![task.protocol.clone(), task.name.clone()], names.iter().map(|name| cell(&given, name)).collect()].concat()
    });
    rows.collect()
}

fn setting(value: &Setting) -> String {
    match value {
        Setting::Number(value) => number(*value),
        Setting::Flag(value) => value.to_string(),
        Setting::Text(text) => format!("\"{text}\""),
        Setting::List(items) => format!("[{}]", items.iter().map(setting).collect::<Vec<_>>().join(", ")),
    }
}

fn entry_points(model: &ModelView) -> Vec<Vec<String>> {
    let cost = |e: &EntryPoint| match (e.memory, e.flops) {
        (Some(memory), Some(flops)) => format!("{}, {}flop", bytes(memory), count(flops)),
        _ => String::new(),
    };
    let known = model.entry_points.iter().any(|e| e.memory.is_some());
    let with_cost = |e: &EntryPoint| row([e.name, &cost(e), &e.gives.join(", ")]);
    let without = |e: &EntryPoint| row([e.name, &e.gives.join(", ")]);
    model.entry_points.iter().map(|e| if known { with_cost(e) } else { without(e) }).collect()
}

fn parameters(model: &ModelView) -> Vec<Vec<String>> {
    let mut rows = vec![row(["path", "axes as stored, the last contiguous", "count", "drawn from"])];
    rows.extend(model.params.iter().map(|param| {
        let draws = model.draws.iter().filter(|d| starts(param, d)).map(noise).collect::<Vec<_>>().join(", ");
        row([&param.path, &shape(&param.axes), &size(&param.count), &draws])
    }));
    rows.push(row(["all", "", &size(&model.parameters), ""]));
    rows
}

/// Draws for initial values are named after their parameter, further ones with a number behind it.
fn starts(param: &Param, draw: &Draw) -> bool {
    draw.name
        .strip_prefix(&param.path)
        .is_some_and(|rest| rest.is_empty() || rest.strip_prefix('.').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit())))
}

fn noise(draw: &Draw) -> String {
    draw.of.map_or_else(|| draw.noise.to_string(), |of| format!("{} of {of}", draw.noise))
}

/// All draws but those that make initial values: the table of parameters has them.
fn draws(model: &ModelView) -> Vec<Vec<String>> {
    let draw = |draw: &Draw| {
        let indices: Vec<String> = draw.indices.iter().map(|i| format!("{} in {}..{}", i.name, i.from, i.to)).collect();
        let sample = if draw.per_sample { "per sample" } else { "one for all" };
        let indices = if indices.is_empty() { String::new() } else { format!("for {}", indices.join(", ")) };
        row([&draw.name, &noise(draw), &shape(&draw.axes), sample, &indices])
    };
    model.draws.iter().filter(|d| !model.params.iter().any(|p| starts(p, d))).map(draw).collect()
}

/// A call in lines of bearable length, broken behind commas.
fn wrapped(call: &str) -> Vec<String> {
    const WIDTH: usize = 100;
    // Settings stand below the first one.
    let indent = call.find(" = ").and_then(|at| call[at..].find('(').map(|open| at + open + 1)).unwrap_or(2);
    let mut lines = vec![String::new()];
    for piece in call.split_inclusive(", ") {
        let mut line = lines.pop().unwrap_or_default();
        if line.len() + piece.trim_end().len() > WIDTH && line.len() > indent {
            lines.push(line.trim_end().to_string());
            line = " ".repeat(indent);
        }
        lines.push(line + piece);
    }
    lines
}

/// `1 step`, `1,000 steps`.
fn plural(count: u64, what: &str) -> String {
    format!("{} {what}{}", counts::group(&count.to_string()), if count == 1 { "" } else { "s" })
}

/// At most six digits, without zeros that say nothing.
fn number(value: f64) -> String {
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    if rounded != 0.0 && !(1e-4..1e9).contains(&rounded.abs()) { format!("{rounded:e}") } else { rounded.to_string() }
}

fn percent(fraction: f64) -> String {
    format!("{}%", number(100.0 * fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(0.1 + 0.2), "0.3");
        assert_eq!(number(1e-5), "1e-5");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(100_000.0), "100000");
        assert_eq!(percent(0.3), "30%");
    }
}
