//! Another memory is another line: HaM-World with every memory of the prelude and with blocks of the user's own file,
//! all else untouched, checks and lowers at every entry point.

mod support;

use support::{of_text, project};
use wmc_compiler::ir::verify::verify;
use wmc_compiler::lower::{Entry, LowerError, Options, lower};

/// The line of `models/hamworld_s6.wm`.
const LINE: &str = "memory m(z, a) -> [M] = s6(layers = 2, width = 128, state = 16) reset first";

/// Blocks of the user's own: two carries, one of them a matrix; and a memory that stacks another of the file.
const OWN: &str = "
block lstm(x: [I], width = 32) carry h: [D = width] = zeros([D]), c: [D] = zeros([D]) -> [D] {
  let f = linear(x) -> [D]
  let g = linear(h) -> [D]
  let w = linear(x) -> [D]
  next c = sigmoid(f + 1) * c + sigmoid(g) * tanh(w)
  next h = sigmoid(f) * tanh(next c)
  return next h
}

block outer_product(x: [I], width = 6) carry s: [D = width, E = width] = zeros([D, E]) -> [M = width] {
  let k = linear(x) -> [D]
  let v = linear(x) -> [E]
  next s = 0.9 * s + outer(k, v)
  return rename(next s @ tanh(v), D -> M)
}

block two_deep(x: [I], width = 16) -> [M = width] {
  let low = lstm(x, width = width) -> [M]
  let high = lstm(low, width = width) -> [M]
  return low + high
}
";

/// The memories of the prelude by name, as short as they can be.
const PRELUDE: [&str; 7] = [
    "none()",
    "s6(layers = 1, width = 12, state = 3)",
    "ssd()",
    "mamba(layers = 1, width = 12, state = 3)",
    "mamba2(width = 32, state = 5, channels = 16)",
    "ssm(layers = 3)",
    "gru(width = 20)",
];

fn swapped(memory: &str) {
    let text = std::fs::read_to_string(project("models/hamworld_s6.wm")).expect("a model");
    assert_eq!(text.matches(LINE).count(), 1, "the line of the memory");
    let text = text.replace(LINE, &format!("memory m(z, a) -> [M] = {memory} reset first")) + OWN;
    let model = of_text(&text, &[("O", 5), ("A", 1)]);
    let mut entries = 0;
    for entry in Entry::ALL {
        let program = match lower(&model, entry, Options { observe: true, ..Options::default() }) {
            Ok(program) => program,
            Err(LowerError::NoEntry { .. }) => continue,
            Err(error) => panic!("{memory}, {}: {error}", entry.name()),
        };
        verify(&program).unwrap_or_else(|e| panic!("{memory}, {}: {e}", entry.name()));
        entries += 1;
    }
    assert_eq!(entries, Entry::ALL.len() - 2, "all but `record` and `context`");
}

#[test]
fn every_memory_of_the_prelude_fits() {
    PRELUDE.iter().for_each(|memory| swapped(memory));
}

#[test]
fn memories_of_the_users_own_fit() {
    ["lstm()", "outer_product(width = 5)", "two_deep()"].iter().for_each(|memory| swapped(memory));
}

/// A memory that the prelude gains later has to stand in the list: a layer with a carry belongs to one.
#[test]
fn the_list_is_whole() {
    let text = std::fs::read_to_string(project("dsl/src/prelude/layers.wm")).expect("the prelude");
    let heads = text.split("\nblock ").skip(1).filter_map(|block| block.split_once('{')).map(|(head, _)| head);
    let carrying: Vec<&str> = heads.filter(|head| head.contains("carry ")).filter_map(|head| head.split('(').next()).collect();
    assert!(carrying.len() >= 4, "{carrying:?}");
    // A convolution is a part of Mamba's layers.
    for layer in carrying.into_iter().filter(|layer| *layer != "conv_layer") {
        let memory = layer.trim_end_matches("_layer");
        assert!(PRELUDE.iter().any(|m| m.starts_with(&format!("{memory}("))), "`{layer}` belongs to no memory of the list");
    }
}
