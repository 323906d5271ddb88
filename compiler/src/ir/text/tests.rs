//! What is printed reads back to the same program, and what is no program is an error with its line.

use dsl::source::{Sources, Span};

use super::super::*;
use super::{parse, print};

const SAMPLE: &str = r#"program train_step

axis B = 4
axis t = 3
axis k = 6
axis one#3 = 1
axis one#4 = 1
axis "odd name" = 2
axis three = 3

draw z.noise
draw pick

input obs: data [B, t, k]
input core.0.weight: param [k]
input main.m.core.0.weight: slot [k]

%0: [B, t, k] = input obs
%1: [k] = input core.0.weight
%2: [] = const -0.1
%3: [t] = iota t
%4: [B, t] = random z.noise gaussian
%5: ["odd name"] = random pick subset 5
%6: [k] = exp %1
%7: [B, t, k] = add %0, %6
%8: [B, t, k] = where %7, %0, %2
%9: [B, t, k] = softmax %8, k
%10: [B, t] = logsumexp %8, k
%11: [B, t, k, one#3] = expand %9
%12: [B, three] = rename %10, t -> three
%13: [B, k] = reduce_max %9, [t]
%14: [B, t] = dot %0, %1, [k]
%15: ["odd name", three] = split %1, k -> ["odd name", three]
%16: [k] = join %15, ["odd name", three] -> k
%17: [one#4] = slice %1, k at 3 -> one#4
%18: [k] = pad %17, one#4 at 5 -> k
%19: [k] = concat [%15, %15], [three, three] -> k
%20: [B, t] = gather %0, k at %3
%21: [k] = scatter %3, [t] at %3 -> k
%22: [k] = argsort %1, k
%23: [] = scan t backward init(%2) xs(%3) consts() {
  %0: [] = param 0
  %1: [] = param 1
  %2: [] = scan one#3 forward init() xs() consts() {
    results
  }
  %3: [] = mul %0, %1
  results %3, %0
}
%24: [t] = out %23, 1
%25: [] = stop %2
%26: [] = id %25

output loss.dyn = %26
output param.core.0.weight = %22 updates core.0.weight
"#;

#[test]
fn a_sample_of_everything() {
    let program = parse(SAMPLE).unwrap();
    assert_eq!(print(&program, None), SAMPLE);
    assert_eq!(program.axes[4], Axis { name: "one".to_string(), size: 1 });
    assert_eq!(program.outputs[1].updates, Some(1));
    assert_eq!(program.graph.node(ValueId(4)).op, Op::Random { draw: 0, noise: Noise::Gaussian });
}

#[test]
fn places_are_comments() {
    let mut sources = Sources::default();
    let file = sources.add("ham.wm", "one\ntwo three", false);
    let mut program = Program { name: "act".to_string(), ..Program::default() };
    let c = program.graph.constant(1.5, Span::new(file, 8, 13));
    program.graph.results.push(c);
    let text = print(&program, Some(&sources));
    assert_eq!(text, "program act\n\n%0: [] = const 1.5  ; ham.wm:2:5\n\nresult %0\n");
    assert_eq!(print(&parse(&text).unwrap(), None), print(&program, None));
}

#[test]
fn floats_keep_their_bits() {
    let odd_nan = f64::from_bits(0xfff8_0000_0000_0123);
    for c in
        [0.0, -0.0, 0.1, -1.0 / 3.0, 1e-308, 5e-324, f64::MAX, 1e15, 1e16, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, odd_nan]
    {
        let mut program = Program { name: "act".to_string(), ..Program::default() };
        program.graph.constant(c, Span::default());
        let text = print(&program, None);
        let Op::Const(back) = parse(&text).unwrap().graph.nodes[0].op else { panic!("{text}") };
        assert_eq!(back.to_bits(), c.to_bits(), "{text}");
    }
}

#[test]
fn generated_programs_round_trip() {
    for seed in 0..500 {
        let program = Random(seed).program();
        let text = print(&program, None);
        match parse(&text) {
            Ok(back) => assert_eq!(back, program, "{text}"),
            Err(e) => panic!("{e}\n{text}"),
        }
    }
}

#[test]
fn errors_have_lines() {
    let cases = [
        ("", 1, "expected `program`"),
        ("program p\naxis B = x", 2, "expected a whole number, found `x`"),
        ("program p\naxis B#2 = 3", 2, "`B` is number 0, not 2"),
        ("program p\n\n%0: [] = const 1\n%2: [] = const 1", 4, "its place, %1, not %2"),
        ("program p\n%0: [B] = const 1", 2, "no axis is called `B`"),
        ("program p\naxis a = 1\naxis a = 1\n%0: [a] = iota a", 4, "more than one axis is called `a`"),
        ("program p\naxis a = 1\n%0: [a#3] = iota a", 3, "axis 3 is not called `a`"),
        ("program p\n%0: [] = frob %1", 2, "`frob` is no operation"),
        ("program p\n%0: [] = add %1", 2, "expected `,`, found the end of the line"),
        ("program p\n%0: [] = add %1, %99999999999", 2, "below 2^32"),
        ("program p\ninput x: dat []", 2, "`dat` is no role"),
        (
            "program p\naxis t = 2\n%0: [] = scan t forward init() xs() consts() {\n",
            3,
            "expected `results`, found the end of the text",
        ),
        ("program p\naxis t = 2\n%0: [] = scan t sideways", 3, "not `sideways`"),
        ("program p\n%0: [] = const 1 2", 2, "expected the end of the line, found `2`"),
        ("program \"p", 1, "a quoted name does not end"),
        ("program \"\\q\"", 1, "is no escape"),
        ("program p\n!", 2, "`!` has no meaning here"),
        ("program p\naxis B = 99999999999999999999999", 2, "expected a whole number"),
        ("program p\n%0: [] = random x gaussian", 2, "no draw is called `x`"),
    ];
    for (text, line, message) in cases {
        let error = parse(text).unwrap_err();
        assert_eq!(error.line, line, "{text}\n{error}");
        assert!(error.message.contains(message), "{text}\n{error}");
    }
}

#[test]
fn damaged_texts_never_panic() {
    let mut random = Random(1);
    let chars: Vec<char> = SAMPLE.chars().collect();
    for _ in 0..3000 {
        let mut damaged = chars.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(damaged.len());
            match random.below(3) {
                0 => damaged.truncate(at.max(1)),
                1 => damaged[at] = chars[random.below(chars.len())],
                _ => _ = damaged.remove(at),
            }
            if damaged.is_empty() {
                break;
            }
        }
        let text: String = damaged.into_iter().collect();
        if let Ok(program) = parse(&text) {
            assert_eq!(parse(&print(&program, None)).unwrap(), program);
            // What it says of a program that makes no sense is an error, not a panic.
            let _ = crate::ir::verify::verify(&program);
        }
    }
    let deep = format!("program p\naxis t = 1\n{}", "%0: [] = scan t forward init() xs() consts() {\n".repeat(100_000));
    assert!(parse(&deep).unwrap_err().message.contains("deep"));
}

/// Programs of every form, most of which make no sense.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn name(&mut self) -> String {
        self.pick(&["B", "t", "one", "z.q", "core.0.weight", "h'", "two words", "#5", "", "ä\"\n\\", "7up", "at", "updates"])
            .to_string()
    }

    fn axes(&mut self) -> Vec<AxisId> {
        (0..self.below(4)).map(|_| self.axis()).collect()
    }

    fn axis(&mut self) -> AxisId {
        AxisId(self.below(8) as u32)
    }

    fn value(&mut self) -> ValueId {
        ValueId(self.below(9) as u32)
    }

    fn values(&mut self) -> Vec<ValueId> {
        (0..self.below(3)).map(|_| self.value()).collect()
    }

    fn program(&mut self) -> Program {
        let axes = (0..self.below(9)).map(|_| Axis { name: self.name(), size: self.below(5) }).collect();
        let roles = [Role::Data, Role::Slow, Role::Running, Role::Record, Role::Schedule, Role::Clock, Role::Draw, Role::Carry];
        let inputs =
            (0..self.below(4)).map(|_| Input { name: self.name(), role: self.pick(&roles), axes: self.axes() }).collect();
        let draws = (0..self.below(3)).map(|_| self.name()).collect();
        let graph = self.graph(0);
        let count = match self.below(4) {
            0 => self.below(3),
            _ => graph.results.len(),
        };
        let outputs = (0..count).map(|_| Output { name: self.name(), updates: (self.below(2) == 0).then(|| self.below(4)) });
        Program { name: "p".to_string(), axes, inputs, outputs: outputs.collect(), graph, draws }
    }

    fn graph(&mut self, depth: usize) -> Graph {
        let nodes = (0..self.below(8)).map(|_| Node { op: self.op(depth), axes: self.axes(), span: Span::default() }).collect();
        Graph { nodes, results: self.values() }
    }

    fn op(&mut self, depth: usize) -> Op {
        let unary = [Unary::Exp, Unary::Log, Unary::Sin, Unary::Sqrt, Unary::Recip, Unary::Floor];
        let named = [Composite::Tanh, Composite::Sigmoid, Composite::Softplus, Composite::Abs, Composite::Sign];
        let index = self.below(6) as u32;
        let start = self.below(7);
        let (a, b, c, axis) = (self.value(), self.value(), self.value(), self.axis());
        match self.below(27) {
            0 => Op::Input(index),
            1 => Op::Param(index),
            2 => Op::Const(f64::from_bits(self.below(usize::MAX) as u64 & !(1 << 62))),
            3 => Op::Iota(axis),
            4 => Op::Random { draw: index, noise: self.pick(&[Noise::Gaussian, Noise::Uniform, Noise::Subset { of: 7 }]) },
            5 => Op::Unary(self.pick(&unary), a),
            6 => Op::Add(a, b),
            7 => Op::Mul(a, b),
            8 => Op::Max(a, b),
            9 => Op::Less(a, b),
            10 => Op::Where(a, b, c),
            11 => Op::Composite(self.pick(&named), a),
            12 => {
                Op::Composite(self.pick(&[Composite::Softmax(axis), Composite::LogSoftmax(axis), Composite::LogSumExp(axis)]), a)
            }
            13 => Op::Expand(a),
            14 => Op::Rename { of: a, from: axis, to: self.axis() },
            15 => Op::Reduce { op: self.pick(&[Reduction::Sum, Reduction::Max]), of: a, over: self.axes() },
            16 => Op::Dot { a, b, over: self.axes() },
            17 => Op::Split { of: a, axis, into: self.axes() },
            18 => Op::Join { of: a, axes: self.axes(), into: axis },
            19 => Op::Slice { of: a, axis, start, into: self.axis() },
            20 => Op::Pad { of: a, axis, start, into: self.axis() },
            21 => Op::Concat { parts: self.values(), along: self.axes(), into: axis },
            22 => Op::Gather { of: a, axis, at: b },
            23 => Op::Scatter { of: a, at: b, over: self.axes(), into: axis },
            24 => Op::Argsort { of: a, axis },
            25 => match self.below(4) {
                0 => Op::Stop(a),
                1 => Op::Id(a),
                2 => Op::Out { scan: a, index },
                _ if depth < 3 => {
                    let direction = self.pick(&[Direction::Forward, Direction::Backward]);
                    let (init, xs, consts) = (self.values(), self.values(), self.values());
                    Op::Scan(Box::new(Scan { axis, direction, init, xs, consts, body: self.graph(depth + 1) }))
                }
                _ => Op::Stop(b),
            },
            _ => Op::Id(b),
        }
    }
}
