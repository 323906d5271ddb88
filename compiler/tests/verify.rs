//! One broken program for each rule of the verifier, and what it says of it.

use wmc_compiler::ir::text::parse;
use wmc_compiler::ir::verify::verify;

/// Declarations that every case starts with.
const HEADER: &str = "program p
axis B = 4
axis t = 3
axis k = 6
axis two = 2
axis three = 3
axis four = 4
draw noise
input x: data [B, t]
input w: param [t, k]
input h: carry [B]
";

#[track_caller]
fn broken(nodes: &str, message: &str) {
    let text = format!("{HEADER}{nodes}\n");
    let program = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    match verify(&program) {
        Ok(()) => panic!("passes, but should fail with: {message}\n{nodes}"),
        Err(error) => assert!(error.to_string().contains(message), "{error}\ndoes not say: {message}\n{nodes}"),
    }
}

#[track_caller]
fn sound(nodes: &str) {
    let text = format!("{HEADER}{nodes}\n");
    let program = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify(&program).unwrap_or_else(|e| panic!("{e}\n{nodes}"));
}

#[test]
fn operands() {
    broken("%0: [] = exp %1\n%1: [] = const 1", "%0 (exp): its operand %1 does not come before it");
    broken("%0: [] = exp %0", "its operand %0 does not come before it");
    broken("%0: [] = exp %7", "its operand %7 does not exist");
    broken("%0: [] = scan t forward init() xs() consts() {\nresults\n}\n%1: [] = exp %0", "its operand %0 is a scan");
}

#[test]
fn results() {
    broken("result %0", "the result %0 does not exist");
    broken("%0: [] = scan t forward init() xs() consts() {\nresults\n}\nresult %0", "the result %0 is a scan");
    broken("%0: [] = const 1\nresult %0", "the graph has 1 results, the program 0 outputs");
    broken("output y", "the graph has 0 results, the program 1 outputs");
    broken("%0: [] = const 1\noutput y = %0 updates #9", "output `y` updates input 9; there are 3");
    broken("%0: [t] = iota t\noutput y = %0 updates h", "output `y` has the axes [t#1], `h`, which it updates, [B#0]");
}

#[test]
fn names() {
    broken("input x: data []", "two inputs are called `x`");
    broken("draw noise", "two draws are called `noise`");
    broken("%0: [] = const 1\noutput y = %0\noutput y = %0", "two outputs are called `y`");
}

#[test]
fn axes() {
    broken("input y: data [#99]", "input `y`: axis 99 is not declared");
    broken("input y: data [B, B]", "input `y`: the axis `B#0` is there twice");
    broken("%0: [#99] = iota #99", "axis 99 is not declared");
    broken("%0: [] = const 1\n%1: [B, B] = expand %0", "the axis `B#0` is there twice");
    let huge = format!("axis huge = {}\n", usize::MAX);
    broken(&format!("{huge}%0: [] = const 1\n%1: [B, huge] = expand %0"), "more entries than can be counted");
}

#[test]
fn leaves() {
    sound(
        "%0: [B, t] = input x\n%1: [] = const 1\n%2: [t] = iota t\n%3: [B] = random noise uniform\n%4: [two] = random noise subset 2",
    );
    broken("%0: [t, B] = input x", "its axes are [t#1, B#0], not [B#0, t#1]: those of input `x`");
    broken("%0: [] = input #9", "there is no input 9");
    broken(
        "%0: [] = scan t forward init() xs() consts() {\n%0: [B] = input h\nresults %0\n}",
        "in scan %0: %0 (input): an input stands only at the top",
    );
    broken("%0: [] = param 0", "a parameter stands only in the body of a scan");
    broken("%0: [B] = const 1", "its axes are [B#0], not []: none");
    broken("%0: [t] = iota B", "its axes are [t#1], not [B#0]");
    broken("%0: [t] = random #3 uniform", "there is no draw 3");
    broken("%0: [] = random noise subset 3", "a subset lies along its last axis");
    broken("%0: [B] = random noise subset 3", "a subset of 3 cannot have 4 entries");
}

#[test]
fn elementwise() {
    sound("%0: [B, t] = input x\n%1: [t, k] = input w\n%2: [k, t, B] = add %0, %1");
    broken("%0: [B, t] = input x\n%1: [t] = exp %0", "%1 (exp): its axes are [t#1], not [B#0, t#1]: its operand's");
    broken("%0: [B, t] = input x\n%1: [B] = stop %0", "its operand's");
    broken("%0: [B, t] = input x\n%1: [B] = id %0", "its operand's");
    for op in ["add", "mul", "max", "less"] {
        broken(&format!("%0: [B, t] = input x\n%1: [t, k] = input w\n%2: [B, t] = {op} %0, %1"), "the union of its operands'");
    }
    broken("%0: [B, t] = input x\n%1: [] = const 1\n%2: [] = where %0, %1, %1", "the union of its operands'");
    broken("%0: [B, t] = input x\n%1: [B] = tanh %0", "its operand's");
    broken("%0: [B, t] = input x\n%1: [B, t] = softmax %0, k", "an operand with the axes [B#0, t#1] lacks [k#2]");
    broken("%0: [B, t] = input x\n%1: [B] = log_softmax %0, t", "its operand's");
    broken("%0: [B, t] = input x\n%1: [B, t] = logsumexp %0, t", "without the one summed over");
    broken("%0: [B, t] = input x\n%1: [B] = logsumexp %0, k", "lacks [k#2]");
}

#[test]
fn axis_operations() {
    sound("%0: [B, t] = input x\n%1: [t, k, B] = expand %0\n%2: [t, B] = expand %0");
    broken("%0: [B, t] = input x\n%1: [B, k] = expand %0", "the value lacks its operand's axes [t#1]");
    broken("%0: [B, t] = input x\n%1: [B, k] = rename %0, t -> k", "`t#1` has 3 entries, `k#2` has 6");
    broken("%0: [B, t] = input x\n%1: [B, t] = rename %0, three -> t", "lacks [three#4]");
    broken("%0: [B, t] = input x\n%1: [three] = rename %0, t -> three", "its operand's, renamed");
    broken("%0: [B, t] = input x\n%1: [four, B, t] = expand %0\n%2: [B, t] = rename %1, four -> B", "not [B#0, B#0, t#1]");
    broken("%0: [B, t] = input x\n%1: [B] = sum %0, [k]", "lacks [k#2]");
    broken("%0: [B, t] = input x\n%1: [B] = sum %0, [t, t]", "the axis `t#1` is there twice");
    broken("%0: [B, t] = input x\n%1: [B, t] = reduce_max %0, [t]", "without those reduced");
    broken("%0: [B, t] = input x\n%1: [t, k] = input w\n%2: [t, k] = dot %0, %1, [B]", "lacks [B#0]");
    broken("%0: [B, t] = input x\n%1: [t, k] = input w\n%2: [B, t, k] = dot %0, %1, [t]", "without the contracted ones");
}

#[test]
fn splitting_and_joining() {
    sound("%0: [t, k] = input w\n%1: [t, two, three] = split %0, k -> [two, three]\n%2: [t, k] = join %1, [three, two] -> k");
    broken("%0: [t, k] = input w\n%1: [t, two, four] = split %0, k -> [two, four]", "`k#2` has 6 entries");
    broken("%0: [t, k] = input w\n%1: [t, three] = split %0, k -> [two, three]", "in place of the whole");
    broken("%0: [t, k] = input w\n%1: [t] = split %0, B -> []", "lacks [B#0]");
    broken("%0: [t, k] = input w\n%1: [k] = join %0, [t, k] -> B", "do not multiply to it");
    broken("%0: [t, k] = input w\n%1: [t, k] = join %0, [] -> two", "do not multiply to it");
    broken("axis u = 1\n%0: [t, k] = input w\n%1: [t, k, u] = join %0, [] -> u", "it joins no axes");
    broken("axis all = 18\n%0: [t, k] = input w\n%1: [all, k] = join %0, [t, k] -> all", "in place of the first part");
}

#[test]
fn parts_of_an_axis() {
    sound("%0: [t, k] = input w\n%1: [t, two] = slice %0, k at 4 -> two\n%2: [t, four] = pad %1, two at 2 -> four");
    broken("%0: [t, k] = input w\n%1: [t, two] = slice %0, k at 5 -> two", "2 entries from 5 on do not fit into the 6 of `k#2`");
    broken("%0: [t, k] = input w\n%1: [two] = slice %0, k at 0 -> two", "with the slice in place of the whole");
    broken("%0: [t, k] = input w\n%1: [t, two] = slice %0, B at 0 -> two", "lacks [B#0]");
    broken("%0: [B] = input h\n%1: [k] = pad %0, B at 3 -> k", "4 entries from 3 on do not fit into the 6 of `k#2`");
    broken("%0: [B] = input h\n%1: [k, B] = pad %0, B at 0 -> k", "with the whole in place of the part");
}

#[test]
fn concatenation() {
    sound("%0: [B] = input h\n%1: [two] = iota two\n%2: [k] = concat [%0, %1], [B, two] -> k");
    broken("%0: [k] = concat [], [] -> k", "it has no parts");
    broken("%0: [B] = input h\n%1: [k] = concat [%0], [B, B] -> k", "1 parts lie along 2 axes");
    broken("%0: [B] = input h\n%1: [k] = concat [%0, %0], [B, B] -> k", "`k#2` has 6 entries, its parts have 8");
    broken("%0: [B] = input h\n%1: [k] = concat [%0, %0], [B, t] -> k", "lacks [t#1]");
    broken(
        "%0: [B] = input h\n%1: [two, t] = random noise uniform\n%2: [k] = concat [%0, %1], [B, two] -> k",
        "its parts differ in their other axes: %0 has [], %1 has [t#1]",
    );
    broken("%0: [B] = input h\n%1: [two] = iota two\n%2: [k, B] = concat [%0, %1], [B, two] -> k", "in place of the part");
}

#[test]
fn places() {
    sound("%0: [B, t] = input x\n%1: [k, B] = random noise uniform\n%2: [B, k] = gather %0, t at %1\n%3: [B, k] = argsort %2, k");
    sound("%0: [B, t] = input x\n%1: [four, t] = scatter %0, [B] at %0 -> four\n%2: [B, four, t] = scatter %0, [] at %0 -> four");
    broken("%0: [B, t] = input x\n%1: [B, k] = random noise uniform\n%2: [B, k] = gather %0, k at %1", "lacks [k#2]");
    broken("%0: [B, t] = input x\n%1: [B, t] = gather %0, t at %0", "the places have the axis `t#1` that they pick from");
    broken("%0: [B, t] = input x\n%1: [k] = iota k\n%2: [k] = gather %0, t at %1", "without the one picked from");
    broken("%0: [B, t] = input x\n%1: [B, t] = scatter %0, [k] at %0 -> four", "lacks [k#2]");
    broken("%0: [B, t] = input x\n%1: [B, t] = scatter %0, [] at %0 -> t", "`t#1` is there already");
    broken("%0: [B, t] = input x\n%1: [B, k] = scatter %0, [t] at %0 -> four", "and the new one");
    broken("%0: [B, t] = input x\n%1: [B, t] = argsort %0, k", "lacks [k#2]");
    broken("%0: [B, t] = input x\n%1: [t] = argsort %0, t", "its operand's");
}

#[test]
fn scans() {
    let scan = |operands: &str, body: &str, after: &str| {
        format!("%0: [B, t] = input x\n%1: [B] = input h\n%2: [] = scan t forward {operands} {{\n{body}\n}}\n{after}")
    };
    let all = "init(%1) xs(%0) consts(%1)";
    let body = "%0: [B] = param 0\n%1: [B] = param 1\n%2: [B] = add %0, %1\nresults %2, %0";
    sound(&scan(all, body, "%3: [B] = out %2, 0\n%4: [t, B] = out %2, 1"));
    broken(&scan("init() xs(%1) consts()", "results", ""), "%2 (scan): %1, which it steps along, has no axis `t#1`");
    sound(&scan("init(%0) xs() consts()", "%0: [B, t] = param 0\nresults %0", ""));
    broken(&scan(all, "%0: [B] = param 3\nresults %0", ""), "in scan %2: %0 (param): there is no parameter 3; the scan gives 3");
    broken(&scan(all, "%0: [B, t] = param 1\nresults %0", ""), "what the scan gives as parameter 1");
    broken(&scan(all, "results", ""), "in scan %2: the body has 0 results for 1 carries");
    broken(&scan(all, "%0: [] = const 1\nresults %0", ""), "carry 0 starts with the axes [B#0] and goes on with []");
    broken(&scan(all, "%0: [B] = param 0\nresults %0, %4", ""), "in scan %2: the result %4 does not exist");
    broken(&scan(all, "%0: [B] = param 0\n%1: [t] = iota t\nresults %0, %1", ""), "result 1 has the scan's own axis `t#1`");
    broken(&scan(all, body, "%3: [B] = out %1, 0"), "%1 is no scan");
    broken(&scan(all, body, "%3: [B] = out %2, 2"), "the scan has no value 2; it has 2");
    broken(&scan(all, body, "%3: [t] = out %2, 0"), "those of the carry");
    sound(&scan(all, body, "%3: [B, t] = out %2, 1"));
    broken(&scan(all, body, "%3: [t, k] = out %2, 1"), "the scan's axis and those of the body's result");
    broken("%0: [t] = scan t forward init() xs() consts() {\nresults\n}", "its values are taken by `out`");
    broken("%0: [] = scan #99 forward init() xs() consts() {\nresults\n}", "axis 99 is not declared");
    let nested =
        "%0: [B] = param 0\n%1: [] = scan k backward init() xs() consts(%0) {\n%0: [k] = param 0\nresults\n}\nresults %0";
    broken(&scan(all, nested, ""), "in scan %2: in scan %1: %0 (param): its axes are [k#2], not [B#0]");
}
