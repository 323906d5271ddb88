//! What is printed reads back to the same program, and what is no program is an error with its line.

use dsl::source::Span;

use super::super::{Buffer, BufferKind, Kernel, Notes, Program, Step};
use super::{parse, print};
use crate::testing::{Rng, random_kernels};

const SAMPLE: &str = r#"program plan

buffer %0 x: input 1728
buffer %1 "two words": const 4 [1, -0.1, inf, nan(0x7fc00001)]
buffer %2 w.packed: kept 7776
buffer %3 noise: temp 96
buffer %4 y: output 24576

draw plan.noise
draw pick

input %0
output %4, %4

prepare {
  launch {
    pack w batch [2, 3] n 128 k [6, 9]: %2 = %0@5[54, 9, 1, 1, 0] splat
  }
}

steps {
  launch {
    random noise draw 0 gaussian: %3
    random noise2 draw 1 subset 7 last 3: %3
    random noise3 draw 1 uniform: %3
  }
  for t0 in 6 reverse {
    launch {
      tile rollout rows [1, 160] arena 300 {
        local $0: 54 @ 0
        local $1: 128 @ 54
        copy [54]: $0[1] = %0[1]{t0: 54} rows [54, 0]
        for t1 in 3 {
          map [2, 27] {
            r0 = load $0[27, 1]
            r1 = const 0.5
            load $0@1[0, 1]
            r2 = load %1@3[0, 0] splat
            r3 = load 0
            r4 = less r0, r2
            r5 = select r4, r0, r3
            r6 = muladd r5, r5, r1
            r7 = silu r6
            load $1[0, 0]
            store $0[27, 1] = r7
            sum $1[0, 1] = r6
            max $1@100[1, 0] = r7
          }
          gemm n 128 k 54: $1[1] = $0[1] * %2[] splat
          gemm batch [5] m [2, 3] n 6 k 7: $1[1, 2, 3, 4] += $0[5, 6, 7, 8]{t1: 3, t0: 4} * %2[42] splat + %1[0, 1] splat
          sort [2] n 8: $1[8, 1] = $0[8, 1]
          gather [3] size 160 stride 54: $1[1] = %4[1] rows [54] at $0[0]
          scatter [] size 8 stride 1: $1[] += $0[] at %1[] splat
        }
      }
      tile none arena 0 {
      }
    }
    swap %3, %4
  }
  launch {
    contract gw rows 160 batch [2] n [128] i [54] k [6]: %4[1, 2, 3] splat = %3[1, 2, 3] * %0[1, 2, 3]
    contract gb rows 160: %4[] splat = %3[]
  }
}
"#;

#[test]
fn a_sample_of_everything() {
    let program = parse(SAMPLE).unwrap();
    assert_eq!(print(&program), SAMPLE);
    assert_eq!(program.steps.len(), 3);
}

#[test]
fn notes_are_comments() {
    let mut program = parse(SAMPLE).unwrap();
    let Step::Launch(kernels) = &mut program.prepare[0] else { panic!() };
    let ops = ["dot", "add", "add", "tanh"].map(|op| (op.to_string(), Span::default())).to_vec();
    kernels[0].notes = Notes { ops, reason: "rows are\nsummed".to_string() };
    let text = print(&program);
    assert!(text.contains("    ; dot, 2 add, tanh\n    ; ends: rows are summed\n    pack w"), "{text}");
    assert_eq!(print(&parse(&text).unwrap()), SAMPLE);
}

#[test]
fn floats_keep_their_bits() {
    let data = [0.0, -0.0, 0.1, -1.0 / 3.0, 1e-45, f32::MAX, 9_999_999.0, 1e7, 16_777_217.0, f32::NEG_INFINITY, f32::NAN];
    let data: Vec<f32> = data.into_iter().chain([f32::from_bits(0xffc0_0123)]).collect();
    let buffer = Buffer { name: String::new(), len: 3, kind: BufferKind::Const(data.clone()) };
    let text = print(&Program { name: "p".to_string(), buffers: vec![buffer], ..Program::default() });
    let BufferKind::Const(back) = &parse(&text).unwrap().buffers[0].kind else { panic!("{text}") };
    let bits = |list: &[f32]| list.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(back), bits(&data), "{text}");
}

#[test]
fn random_programs_round_trip() {
    for seed in 0..200 {
        let program = random_kernels(seed);
        let text = print(&program);
        match parse(&text) {
            Ok(back) => assert_eq!(back, program, "{text}"),
            Err(e) => panic!("{e}\n{text}"),
        }
    }
}

#[test]
fn errors_have_lines() {
    let tile = |body: &str| format!("program p\nsteps {{\n  launch {{\n    tile a arena 1 {{\n{body}\n}}");
    let cases = [
        (String::new(), 1, "expected `program`"),
        ("program p\nbuffer %1 x: temp 3".to_string(), 2, "its place, %0, not %1"),
        ("program p\nbuffer %0 x: tmp 3".to_string(), 2, "`tmp` is no kind of buffer"),
        ("program p\nbuffer %0 x: const 1 [x]".to_string(), 2, "expected a number, found `x`"),
        ("program p\nbufer".to_string(), 2, "found `bufer`"),
        ("program p\n\nsteps {\n  run".to_string(), 4, "`run` is no step"),
        ("program p\nsteps {\n  for x in 3 {".to_string(), 3, "expected a loop like `t0`, found `x`"),
        ("program p\nsteps {\n  launch {\n    tiel a {".to_string(), 4, "`tiel` is no kernel"),
        ("program p\nsteps {\n  launch {\n".to_string(), 3, "expected a kernel, found the end of the text"),
        (tile("local $1: 3 @ 0"), 5, "expected `$0`, the next local, found `$1`"),
        (tile("mpa [3]"), 5, "`mpa` is no statement"),
        (tile("copy [3]: $0[1] = 5"), 5, "expected a view"),
        (tile("map [3] {\nr1 = const 0"), 6, "expected `r0`, `load`, `store`, `sum` or `max`, found `r1`"),
        (tile("map [3] {\nr0 = frob r1"), 6, "`frob` is no instruction"),
        (tile("map [3] {\nr0 = add r1"), 6, "expected `,`, found the end of the line"),
        (tile("scatter [3] size 1 stride 1: $0[1] = $1[1] at $2[1]"), 5, "expected `+`, found `=`"),
        (tile(&"for t0 in 1 {\n".repeat(100_000)), 66, "deep"),
    ];
    for (text, line, message) in cases {
        let error = parse(&text).unwrap_err();
        let shown = &text[..text.len().min(200)];
        assert_eq!(error.line, line, "{shown}\n{error}");
        assert!(error.message.contains(message), "{shown}\n{error}");
    }
}

#[test]
fn damaged_texts_never_panic() {
    let mut rng = Rng::new(1);
    let samples: Vec<Vec<char>> = (0..20).map(|seed| print(&random_kernels(seed)).chars().collect()).collect();
    let samples: Vec<Vec<char>> = samples.into_iter().chain([SAMPLE.chars().collect()]).collect();
    let mut read = 0;
    for _ in 0..3000 {
        let sample = &samples[rng.below(samples.len())];
        let mut damaged = sample.clone();
        for _ in 0..1 + rng.below(3) {
            let at = rng.below(damaged.len());
            match rng.below(8) {
                0 => damaged.truncate(at.max(1)),
                1..5 => damaged[at] = sample[rng.below(sample.len())],
                _ if damaged.len() > 1 => _ = damaged.remove(at),
                _ => {}
            }
        }
        let text: String = damaged.into_iter().collect();
        let Ok(program) = parse(&text) else { continue };
        read += 1;
        assert_eq!(print(&parse(&print(&program)).unwrap()), print(&program));
        // What it says of a program that makes no sense is an error, not a panic.
        let _ = super::super::verify::verify(&program);
    }
    assert!(read > 300, "{read}");
}

#[test]
fn names_are_quoted_where_they_must_be() {
    for name in ["", "at", "7up", "a b", "ä\"\n\\;", "%3", "rows"] {
        let kernel = Kernel { name: name.to_string(), ..parse_kernel("tile a arena 0 {\n}") };
        let program = Program { name: name.to_string(), steps: vec![Step::Launch(vec![kernel])], ..Program::default() };
        assert_eq!(parse(&print(&program)).unwrap(), program);
    }
}

fn parse_kernel(text: &str) -> Kernel {
    let program = parse(&format!("program p\nsteps {{\nlaunch {{\n{text}\n}}\n}}")).unwrap();
    let Step::Launch(kernels) = &program.steps[0] else { panic!() };
    kernels[0].clone()
}
