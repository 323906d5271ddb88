//! Simplification keeps numbers: random programs, their gradients, and gradients of simplified programs.

use wmc_compiler::grad::gradients;
use wmc_compiler::interp::Array;
use wmc_compiler::ir::text::{parse, print};
use wmc_compiler::ir::verify::verify;
use wmc_compiler::ir::{Graph, Node, Op, Output, Program, Role, ValueId};
use wmc_compiler::kernel::fuse::Level;
use wmc_compiler::lower::{Entry, Options, lower};
use wmc_compiler::pass::Context;
use wmc_compiler::prepare::kernel_passes;
use wmc_compiler::simplify::{self, SIMPLIFY, simplify};
use wmc_compiler::testing::{Rng, random_program, random_scalar_program};

#[path = "support/agree.rs"]
mod agree;
mod support;
use agree::agree;

fn all_agree(seeds: std::ops::Range<u64>, check: impl Fn(u64) -> Result<(), String>) {
    let failed: Vec<String> = seeds.filter_map(|seed| check(seed).err().map(|e| format!("seed {seed}: {e}"))).collect();
    assert!(failed.is_empty(), "{} failed\n{}", failed.len(), failed[..failed.len().min(20)].join("\n"));
}

/// What went wrong, with the programs.
fn explain(error: String, before: &Program, after: &Program) -> String {
    format!("{error}\n--- before\n{}\n--- after\n{}", print(before, None), print(after, None))
}

fn same(before: &Program, after: &Program, inputs: &[Array<f64>]) -> Result<(), String> {
    verify(after).map_err(|e| explain(e.to_string(), before, after))?;
    agree(before, after, inputs).map_err(|e| explain(e, before, after))
}

/// The program with the gradients of its one result by all parameters.
fn with_gradients(program: &Program) -> Program {
    let mut program = program.clone();
    let wrt: Vec<ValueId> = program
        .graph
        .ids()
        .filter(|v| matches!(program.graph.node(*v).op, Op::Input(i) if program.inputs[i as usize].role == Role::Param))
        .collect();
    let of = program.graph.results[0];
    let found = gradients(&mut program.axes, &mut program.graph, of, &wrt);
    for (i, (g, w)) in found.into_iter().zip(wrt).enumerate() {
        let axes = program.graph.axes(w).to_vec();
        let g = program.graph.push(Op::Expand(g), axes, wmc_compiler::testing::NOWHERE);
        program.graph.results.push(g);
        program.outputs.push(Output { name: format!("grad.{i}"), updates: None });
    }
    program
}

#[test]
fn random_programs_are_sound_and_print() {
    all_agree(0..500, |seed| {
        let (program, _) = random_program(seed);
        verify(&program).map_err(|e| format!("{e}\n{}", print(&program, None)))?;
        let text = print(&program, None);
        let back = parse(&text).map_err(|e| e.to_string())?;
        if print(&back, None) == text { Ok(()) } else { Err(text) }
    });
}

#[test]
fn simplified() {
    all_agree(0..1500, |seed| {
        let (program, inputs) = random_program(seed);
        let after = simplify(program.clone().into());
        same(&program, &after, &inputs)
    });
}

#[test]
fn each_pass_alone() {
    all_agree(2000..2300, |seed| {
        let (program, inputs) = random_program(seed);
        let mut context = Context::default();
        for pass in SIMPLIFY.iter().chain(&kernel_passes(&context.target, Level::Mega)) {
            let mut after = program.clone();
            pass.run(&mut after, &mut context).map_err(|e| e.to_string())?;
            same(&program, &after, &inputs).map_err(|e| format!("{}: {e}", pass.name))?;
        }
        Ok(())
    });
}

#[test]
fn simplified_gradients() {
    all_agree(3000..3500, |seed| {
        let (program, inputs) = random_scalar_program(seed);
        let program = with_gradients(&program);
        let mut after = simplify(program.clone().into()).into_program();
        simplify::strip_stops(&mut after);
        let after = simplify(after.into());
        same(&program, &after, &inputs)
    });
}

#[test]
fn gradients_of_what_is_simplified() {
    all_agree(4000..4300, |seed| {
        let (program, inputs) = random_scalar_program(seed);
        let simple = simplify(program.clone().into()).into_program();
        // Parameters that the program does not depend on may be gone from its nodes; both sides keep all inputs.
        for p in [&program, &simple] {
            verify(p).map_err(|e| e.to_string())?;
        }
        let after = with_gradients(&all_inputs(&simple));
        let before = with_gradients(&all_inputs(&program));
        same(&before, &after, &inputs)
    });
}

/// The program with one node for each of its inputs, in front.
fn all_inputs(program: &Program) -> Program {
    let mut graph = Graph::default();
    for (i, input) in program.inputs.iter().enumerate() {
        graph.push(Op::Input(i as u32), input.axes.clone(), wmc_compiler::testing::NOWHERE);
    }
    let mut new_of: Vec<ValueId> = Vec::new();
    for node in &program.graph.nodes {
        new_of.push(match node.op {
            Op::Input(i) => ValueId(i),
            ref op => graph.push(op.clone().map_operands(|v| new_of[v.0 as usize]), node.axes.clone(), node.span),
        });
    }
    graph.results = program.graph.results.iter().map(|v| new_of[v.0 as usize]).collect();
    Program { graph, ..program.clone() }
}

#[test]
fn the_order_of_nodes_does_not_matter() {
    all_agree(5000..5300, |seed| {
        let (program, inputs) = random_program(seed);
        let shuffled = Program { graph: shuffled(&program.graph, &mut Rng::new(seed)), ..program.clone() };
        verify(&shuffled).map_err(|e| e.to_string())?;
        let [after, shuffled] = [program, shuffled].map(|program| simplify(program.into()));
        if after.counts() != shuffled.counts() {
            let error = format!("{:?} instead of {:?}", shuffled.counts(), after.counts());
            return Err(explain(error, &after, &shuffled));
        }
        same(&after, &shuffled, &inputs)
    });
}

/// The same graph with its nodes in another order.
fn shuffled(graph: &Graph, rng: &mut Rng) -> Graph {
    let mut left: Vec<ValueId> = graph.ids().collect();
    let mut new_of: Vec<Option<ValueId>> = vec![None; graph.nodes.len()];
    let mut shuffled_graph = Graph::default();
    while !left.is_empty() {
        let ready = |v: &ValueId| {
            let mut ready = true;
            graph.node(*v).op.operands(|x| ready &= new_of[x.0 as usize].is_some());
            ready
        };
        let places: Vec<usize> = (0..left.len()).filter(|i| ready(&left[*i])).collect();
        let v = left.remove(rng.pick(&places));
        let Node { op, axes, span } = graph.node(v).clone();
        let mut op = op.map_operands(|x| new_of[x.0 as usize].unwrap_or(x));
        if let Op::Scan(scan) = &mut op {
            scan.body = shuffled(&scan.body, rng);
        }
        new_of[v.0 as usize] = Some(shuffled_graph.push(op, axes, span));
    }
    shuffled_graph.results = graph.results.iter().filter_map(|v| new_of[v.0 as usize]).collect();
    shuffled_graph
}

/// Programs of models shrink and come to rest.
#[test]
fn models() {
    for file in ["models/hamworld_s6.wm", "dsl/tests/wm/lstm.wm", "models/tdmpc2.wm"] {
        let model = support::model(&support::project(file), &[("O", 17), ("A", 6)]);
        for entry in [Entry::TrainStep, Entry::Plan] {
            let program = lower(&model, entry, Options::default()).expect(file);
            let count = |p: &Program| p.counts().values().sum::<usize>();
            let before = count(&program);
            let program = simplify(program);
            assert!(count(&program) < before, "{file} {}: {before} nodes become {}", entry.name(), count(&program));
            let text = print(&program, None);
            let program = simplify(program.into_program().into());
            assert!(print(&program, None) == text, "{file} {} does not come to rest", entry.name());
        }
    }
}

/// The passes that change loops are met by random programs.
#[test]
fn loops_change() {
    let mut changed = [0; 3];
    for seed in 3000..3500 {
        let mut program = with_gradients(&random_scalar_program(seed).0);
        for (name, pass) in [("rewrite", simplify::rewrite as fn(&mut Program)), ("cse", simplify::cse), ("dce", simplify::dce)] {
            pass(&mut program);
            verify(&program).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        for (count, pass) in changed.iter_mut().zip([simplify::unroll as fn(&mut Program), simplify::licm, simplify::sink]) {
            let mut after = program.clone();
            pass(&mut after);
            *count += usize::from(after != program);
        }
    }
    assert!(changed.iter().all(|n| *n >= 5), "programs that unroll, hoist and sink change: {changed:?}");
}
