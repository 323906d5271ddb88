//! Grammar-aware mutations: tokens become others of their kind, and whole members are added that read what the model has.

use dsl::hir::Model;
use dsl::lex::{self, Kind, Token};
use wmc_compiler::testing::Rng;

const FUNCTIONS: [&str; 12] =
    ["tanh", "sigmoid", "silu", "relu", "softplus", "abs", "sin", "cos", "exp", "floor", "sign", "symlog"];
const OPERATORS: [&str; 3] = ["+", "-", "*"];
const NUMBERS: [&str; 12] = ["0", "1", "2", "3", "5", "7", "0.5", "0.1", "1e-3", "99", "-1", "1.5"];
const SUBSCRIPTS: [&str; 5] = ["t", "t+1", "t-1", "0", "t+2"];

/// One to three mutations of a text whose models are known.
pub(crate) fn mutate(rng: &mut Rng, text: &str, models: &[Model]) -> String {
    let mut text = text.to_string();
    for i in 0..1 + rng.below(3) {
        text = match rng.below(8) {
            0 => replace(rng, &text, |t, s| t.kind == Kind::Word && FUNCTIONS.contains(&s), &FUNCTIONS),
            1 => replace(rng, &text, |t, s| t.kind == Kind::Punct && OPERATORS.contains(&s), &OPERATORS),
            2 => replace(rng, &text, |t, _| t.kind == Kind::Number, &NUMBERS),
            3 => subscript(rng, &text),
            4 => drop_member(rng, &text),
            _ if models.is_empty() => text,
            _ => {
                let model = &models[rng.below(models.len())];
                add_member(rng, &text, model, i)
            }
        };
    }
    text
}

/// Sizes at which vector widths, tiles and counters turn, and some that no machine holds.
const SIZES: [u64; 24] =
    [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 257, 1000, 65_537, 1 << 24, (1 << 31) - 1, 1 << 31, 1 << 40];

/// Every fifth mutant has another size for one dim of its model.
pub(crate) fn size(rng: &mut Rng, models: &[Model]) -> Option<(String, u64)> {
    let dims: Vec<&str> = models.iter().flat_map(|m| &m.dims).map(|d| d.name.as_str()).collect();
    let chosen = rng.one_in(5) && !dims.is_empty();
    chosen.then(|| (dims[rng.below(dims.len())].to_string(), rng.pick(&SIZES)))
}

/// One of the tokens that fit becomes one of the words.
fn replace(rng: &mut Rng, text: &str, fits: impl Fn(&Token, &str) -> bool, words: &[&str]) -> String {
    let tokens: Vec<Token> = lex::tokens(text).into_iter().filter(|t| fits(t, t.text(text))).collect();
    if tokens.is_empty() {
        return text.to_string();
    }
    let token = tokens[rng.below(tokens.len())];
    format!("{}{}{}", &text[..token.lo], rng.pick(words), &text[token.hi..])
}

/// `x[t]` becomes `x[t+1]` and the like.
fn subscript(rng: &mut Rng, text: &str) -> String {
    let tokens = lex::tokens(text);
    let is = |i: usize, s: &str| tokens.get(i).is_some_and(|t: &Token| t.text(text) == s);
    let places: Vec<usize> = (1..tokens.len()).filter(|i| is(i - 1, "[") && is(*i, "t") && is(i + 1, "]")).collect();
    if places.is_empty() {
        return text.to_string();
    }
    let token = tokens[places[rng.below(places.len())]];
    format!("{}{}{}", &text[..token.lo], rng.pick(&SUBSCRIPTS), &text[token.hi..])
}

fn drop_member(rng: &mut Rng, text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let members: Vec<usize> =
        (0..lines.len()).filter(|i| ["  loss ", "  metric "].iter().any(|m| lines[*i].starts_with(m))).collect();
    if members.len() < 2 {
        return text.to_string();
    }
    let gone = members[rng.below(members.len())];
    lines.iter().enumerate().filter(|(i, _)| *i != gone).map(|(_, l)| format!("{l}\n")).collect()
}

/// A new equation, loss or metric at the end of a model, on values that it has.
fn add_member(rng: &mut Rng, text: &str, model: &Model, number: usize) -> String {
    let Some(head) = text.find(&format!("model {}", model.name)) else { return text.to_string() };
    let Some(end) = text[head..].find("\n}") else { return text.to_string() };
    let end = head + end;
    let name = format!("fuzz{number}");
    let value = scalar(rng, model, 2);
    let member = match rng.below(8) {
        0 => format!("  {name}[t] = {value}\n  loss {name}_loss 0.1 = {name}[t]^2"),
        1 => format!("  {name}[t] = 0.5 * {name}[t-1] + {value} with {name}[-1] = 0\n  loss {name}_loss 0.1 = {name}[t]"),
        2 => format!("  {name}[t] = {value} + 0.5 * {name}[t+1] with {name}[T] = 0\n  loss {name}_loss 0.1 = {name}[t]"),
        3 => format!("  metric {name} = {value}"),
        4 => format!("  loss {name} 0.1 = {value} where r[t] > 0"),
        5 => format!("  record {name}[t] = {value}\n  loss {name}_loss 0.1 = sg({name}[t]) + {value}"),
        6 => format!("  running {name} = lerp({name}, mean({value}, over = [B, t]), 0.1) init 1\n  metric {name}_now = {name}"),
        _ => format!("  loss {name} 0.1 = {value}"),
    };
    format!("{}\n{member}{}", &text[..end], &text[end..])
}

/// An array of the model at a step, with the names of its axes.
fn array(rng: &mut Rng, model: &Model) -> (String, Vec<String>) {
    let axes = |axes: &[dsl::hir::AxisId]| axes.iter().map(|a| model.axis(*a).name.clone()).collect::<Vec<_>>();
    let mut found: Vec<(String, Vec<String>)> = model
        .inputs
        .iter()
        .filter(|i| i.dtype == dsl::hir::Dtype::Real)
        .map(|i| (format!("{}[t]", i.name), axes(&i.axes)))
        .collect();
    for family in model.train.families.iter().filter(|f| f.arity == 1 && f.name.chars().all(|c| c.is_alphanumeric())) {
        for leaf in family.leaves.iter().filter(|l| l.dtype == dsl::hir::Dtype::Real && !l.path.contains("carry")) {
            let field = if leaf.path.is_empty() { String::new() } else { format!(".{}", leaf.path) };
            found.push((format!("{}[t]{field}", family.name), axes(&leaf.axes)));
        }
    }
    found[rng.below(found.len())].clone()
}

fn scalar(rng: &mut Rng, model: &Model, depth: usize) -> String {
    if depth > 0 && rng.one_in(3) {
        let (a, b) = (scalar(rng, model, depth - 1), scalar(rng, model, depth - 1));
        return match rng.below(6) {
            0 => format!("({a} + {b})"),
            1 => format!("({a} * {b})"),
            2 => format!("select({a} > {b}, {a}, 0.5)"),
            3 => format!("max({a}, {b})"),
            4 => format!("{}({a})", rng.pick(&FUNCTIONS)),
            _ => format!("sg({a})"),
        };
    }
    let (x, axes) = array(rng, model);
    let Some(axis) = axes.first() else { return format!("tanh({x})") };
    let index = scalar_index(rng, model);
    match rng.below(18) {
        0 => format!("sum(take({x}, {index}, over = {axis}))"),
        1 => format!("sum(grad(sum(tanh({x})^2), {x}))"),
        2 => format!("sum(sort({x}, over = {axis})[0])"),
        3 => format!("sum(softmax({x}, over = {axis}) * {x})"),
        4 => format!("sum(logsumexp({x}, over = {axis}))"),
        5 => format!("sum(argmax({x}, over = {axis}))"),
        6 => format!("max({x})"),
        7 => format!("sum(mean({x}, over = {axis}))"),
        8 => format!("sum(each i in {axis} {{ sum({x}[i]) * i }})"),
        9 => format!("(sum i in 0..3 {{ sum({x}) * i }})"),
        10 => format!("sum(percentile({x}, {}, over = {axis}))", rng.pick(&["0", "0.5", "1", "2"])),
        11 => format!("sum(standardize({x}, over = {axis}))"),
        12 => format!("sum(dropout({x}, {}))", rng.pick(&["0", "0.3", "1"])),
        13 => format!("mean({x} * gaussian([{}]))", axes.join(", ")),
        14 => format!("sum({x} - mean({x}, over = [B, t]))"),
        15 => format!("sum(collect({x}, over = B)[{}])", rng.pick(&["0", "1", "2", "4"])),
        16 => format!("sum(logsumexp(collect({x}, over = [B, t])))"),
        _ => format!("sq({x} - sg({x}) + 0.5)"),
    }
}

fn scalar_index(rng: &mut Rng, model: &Model) -> String {
    match rng.below(5) {
        0 => rng.pick(&["0", "1", "99", "0 - 1"]).to_string(),
        1 => "t".to_string(),
        2 => "floor(3 * r[t])".to_string(),
        3 => "2 * t + 1".to_string(),
        _ => format!("sum({})", array(rng, model).0),
    }
}
