//! Numbers by hand for every statement and kernel, and mistakes that only a run can see.

use std::collections::BTreeMap;

use super::{RunError, run};
use crate::interp::Clock;
use crate::kernel::text::{parse, print};
use crate::random::Stream;
use crate::testing::{kernel_inputs, random_kernels};

/// Runs the steps on inputs %0, %1 ..; the outputs come after the inputs, and other buffers after them.
fn outcome(inputs: &[&[f64]], outputs: &[usize], others: &str, steps: &str) -> Result<Vec<Vec<f64>>, RunError> {
    let mut text = "program p\n".to_string();
    let mut list = |kind: &str, lens: Vec<usize>| {
        for len in lens {
            let id = text.matches("buffer").count();
            text += &format!("buffer %{id} b: {kind} {len}\n{kind} %{id}\n");
        }
    };
    list("input", inputs.iter().map(|data| data.len()).collect());
    list("output", outputs.to_vec());
    text += &format!("{others}\nsteps {{\n{steps}\n}}\n");
    let program = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    run(&program, &inputs.iter().map(|data| data.to_vec()).collect::<Vec<_>>(), &BTreeMap::new(), Clock::default())
}

fn numbers(inputs: &[&[f64]], outputs: &[usize], others: &str, steps: &str) -> Vec<Vec<f64>> {
    outcome(inputs, outputs, others, steps).unwrap()
}

/// A launch of one tile.
fn tile(rows: &str, arena: usize, body: &str) -> String {
    format!("launch {{\ntile a rows {rows} arena {arena} {{\n{body}\n}}\n}}")
}

#[test]
fn instructions() {
    type Meaning = fn(f64, f64, f64) -> f64;
    let cases: [(&str, Meaning); 19] = [
        ("neg r0", |a, _, _| -a),
        ("exp r0", |a, _, _| a.exp()),
        ("log r0", |a, _, _| a.ln()),
        ("sin r0", |a, _, _| a.sin()),
        ("sqrt r0", |a, _, _| a.sqrt()),
        ("recip r0", |a, _, _| 1.0 / a),
        ("floor r0", |a, _, _| a.floor()),
        ("tanh r0", |a, _, _| a.tanh()),
        ("sigmoid r0", |a, _, _| 1.0 / (1.0 + (-a).exp())),
        ("softplus r0", |a, _, _| (1.0 + a.exp()).ln()),
        ("abs r0", |a, _, _| a.abs()),
        ("sign r0", |a, _, _| if a == 0.0 { 0.0 } else { a.signum() }),
        ("silu r0", |a, _, _| a / (1.0 + (-a).exp())),
        ("add r0, r1", |a, b, _| a + b),
        ("sub r0, r1", |a, b, _| a - b),
        ("mul r0, r1", |a, b, _| a * b),
        ("less r0, r1", |a, b, _| f64::from(u8::from(a < b))),
        ("muladd r0, r1, r2", |a, b, c| a * b + c),
        ("select r0, r1, r2", |a, b, c| if a != 0.0 { b } else { c }),
    ];
    let (a, b) = ([1.5, -0.5, 0.0, 3.25], [0.75, 2.0, -1.0, 3.25]);
    for (instr, expected) in cases {
        let body = format!("map [] {{\nr0 = load %0[]\nr1 = load %1[]\nr2 = const 0.125\nr3 = {instr}\nstore %2[] = r3\n}}");
        let out = numbers(&[&a, &b], &[4], "", &tile("[2, 2]", 0, &body));
        for (i, x) in out[0].iter().enumerate() {
            let y = expected(a[i], b[i], 0.125);
            assert!(*x == y || (x - y).abs() < 1e-14 || (x.is_nan() && y.is_nan()), "{instr} of {} {}: {x} {y}", a[i], b[i]);
        }
    }
    let body = "map [] {\nr0 = load %0[]\nr1 = load %1[]\nr2 = max r0, r1\nstore %2[] = r2\n}";
    let out = numbers(&[&[1.0, f64::NAN, 2.0], &[3.0, 0.0, f64::NAN]], &[3], "", &tile("[3]", 0, body));
    assert!(out[0][0] == 3.0 && out[0][1].is_nan() && out[0][2].is_nan(), "{out:?}");
}

/// Two rows; entries [[1, 2, 3], [4, 5, 6]] and ten times that. Sums along either dimension and both, a maximum, in place.
#[test]
fn maps_reduce_and_work_in_place() {
    let x = [1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 4.0, 40.0, 5.0, 50.0, 6.0, 60.0];
    let body = "
        local $0: 6 @ 0
        local $1: 3 @ 6
        local $2: 2 @ 9
        local $3: 1 @ 11
        copy [6]: $0[1] = %0[2]
        map [2, 3] {
          r0 = load $0[3, 1]
          r1 = load %1[0, 1] splat
          r2 = mul r0, r1
          store $0[3, 1] = r2
          sum $1[0, 1] = r0
          max $2[1, 0] = r2
          sum $3[0, 0] = r0
        }
        copy [6]: %2[1] rows [6] = $0[1]
        copy [3]: %3[1] rows [3] = $1[1]
        copy [2]: %4[1] rows [2] = $2[1]
        copy []: %5[] = $3[]";
    let out = numbers(&[&x, &[1.0, -1.0, 0.5]], &[12, 6, 4, 2], "", &tile("[2]", 12, body));
    assert_eq!(out[0], [1.0, -2.0, 1.5, 4.0, -5.0, 3.0, 10.0, -20.0, 15.0, 40.0, -50.0, 30.0]);
    assert_eq!(out[1], [5.0, 7.0, 9.0, 50.0, 70.0, 90.0]);
    assert_eq!(out[2], [1.5, 4.0, 15.0, 40.0]);
    assert_eq!(out[3], [21.0, 210.0]);
}

/// Over no entries a sum is 0, a maximum minus infinity.
#[test]
fn reductions_of_nothing() {
    let body = "
        local $0: 1 @ 0
        local $1: 2 @ 1
        map [2, 0] {
          r0 = const 1
          sum $0[0, 0] = r0
          max $1[1, 0] = r0
        }
        copy []: %0[] = $0[]
        copy [2]: %1[1] = $1[1]";
    let out = numbers(&[], &[1, 2], "", &tile("[1]", 3, body));
    assert_eq!(out, [vec![0.0], vec![f64::NEG_INFINITY; 2]]);
}

/// Seven outputs take two panels; the weight of batch b, output n, entry k is 100 b + 10 n + k.
#[test]
fn packs_and_gemms() {
    let weight = |b: usize, n: usize, k: usize| (100 * b + 10 * n + k) as f64;
    let all = (0..2).flat_map(|b| (0..7).flat_map(move |n| (0..2).map(move |k| weight(b, n, k))));
    let weights: Vec<f64> = all.collect();
    let pack = "launch {\npack w batch [2] n 7 k [2]: %5 = %0[14, 2, 1] splat\n}\n";

    let (others, copy) = ("buffer %5 b: temp 48", "copy [48]: %4[1] = %5[1] splat");
    let out = numbers(&[&weights, &[0.0], &[0.0], &[0.0]], &[48], others, &format!("{pack}{}", tile("[1]", 0, copy)));
    assert_eq!(out[0][..12], [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 1.0, 11.0, 21.0, 31.0, 41.0, 51.0]);
    assert_eq!(out[0][12..24], [60.0, 0.0, 0.0, 0.0, 0.0, 0.0, 61.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(out[0][24], 100.0);

    // src[b, m, k] of one row, and what was in dst.
    let src: Vec<f64> = (0..12).map(|i| f64::from(i) - 4.0).collect();
    let bias: Vec<f64> = (0..14).map(f64::from).collect();
    for (sign, with_bias) in [("=", false), ("=", true), ("+=", true)] {
        let plus = if with_bias { " + %2[7, 1] splat" } else { "" };
        let body = format!(
            "local $0: 12 @ 0
            local $1: 42 @ 12
            copy [12]: $0[1] = %1[1] splat
            copy [42]: $1[1] = %3[0] splat
            gemm batch [2] m [3] n 7 k 2: $1[21, 7, 1] {sign} $0[6, 2, 1] * %5[24] splat{plus}
            copy [42]: %4[1] = $1[1]"
        );
        let steps = format!("{pack}{}", tile("[1]", 54, &body));
        let out = numbers(&[&weights, &src, &bias, &[1000.0]], &[42], others, &steps);
        for (at, x) in out[0].iter().enumerate() {
            let (b, m, n) = (at / 21, at / 7 % 3, at % 7);
            let sum: f64 = (0..2).map(|k| src[b * 6 + m * 2 + k] * weight(b, n, k)).sum();
            let start = if sign == "+=" { 1000.0 } else { 0.0 };
            assert_eq!(*x, sum + start + if with_bias { bias[b * 7 + n] } else { 0.0 });
        }
    }
}

/// Rows of two axes, the second outermost in the source; rows past the last come as zeros into a local.
#[test]
fn copies_between_layouts() {
    let x: Vec<f64> = (0..12).map(f64::from).collect();
    let body = "
        local $0: 2 @ 0
        copy [2]: $0[1] = %0@1[3] rows [1, 6]
        copy [2]: %1[1] rows [4, 2] = $0[1]";
    // Row (i, j), entry d: 1 + 3 d + i + 6 j.
    let out = numbers(&[&x], &[8], "", &tile("[2, 2]", 2, body));
    assert_eq!(out[0], [1.0, 4.0, 7.0, 10.0, 2.0, 5.0, 8.0, 11.0]);
}

#[test]
fn sorts_with_ties_and_nan() {
    let x = [2.0, 1.0, f64::NAN, 1.0, -1.0, 0.0];
    let body = "
        local $0: 6 @ 0
        local $1: 6 @ 6
        copy [6]: $0[1] = %0[1] splat
        sort [] n 6: $1[1] = $0[1]
        copy [6]: %1[1] = $1[1]";
    let out = numbers(&[&x], &[6], "", &tile("[1]", 12, body));
    assert_eq!(out[0], [4.0, 5.0, 1.0, 3.0, 0.0, 2.0]);
}

/// Each row has places of its own.
#[test]
fn gathers_and_scatters() {
    let places = [2.0, 0.0, 1.0, 1.0, 2.0, 2.0];
    let body = "
        local $0: 3 @ 0
        local $1: 3 @ 3
        local $2: 4 @ 6
        copy [3]: $0[1] = %1[1] rows [3]
        gather [3] size 3 stride 2: $1[1] = %0@1[0] rows [6] at $0[1]
        map [4] {
          r0 = const 0.5
          store $2[1] = r0
        }
        scatter [3] size 3 stride 1: $2@1[0] += $1[1] at $0[1]
        copy [3]: %2[1] rows [3] = $1[1]
        copy [4]: %3[1] rows [4] = $2[1]";
    let x: Vec<f64> = (0..12).map(f64::from).collect();
    let steps = tile("[2]", 10, body);
    let out = numbers(&[&x, &places], &[6, 8], "", &steps);
    assert_eq!(out[0], [5.0, 1.0, 3.0, 9.0, 11.0, 11.0]);
    assert_eq!(out[1], [0.5, 1.5, 3.5, 5.5, 0.5, 0.5, 9.5, 22.5]);
    for wrong in [3.0, -1.0, 2.5, f64::NAN] {
        let out = numbers(&[&x, &[wrong; 6]], &[6, 8], "", &steps);
        assert!(out[0].iter().all(|x| x.is_nan()), "{:?}", out[0]);
        assert_eq!(out[1], [0.5; 8]);
    }
}

/// `carry = 2 carry + x[t]`, forward and backward, in a tile's loop and in a loop of steps with a swap.
#[test]
fn loops_and_swaps() {
    let x = [1.0, 10.0, 100.0];
    for (reverse, expected) in [("", [1.0, 12.0, 124.0]), (" reverse", [421.0, 210.0, 100.0])] {
        let step = |from: &str, to: &str| {
            format!(
                "map [] {{\nr0 = load {from}\nr1 = load %0[]{{t0: 1}} splat\nr2 = const 2\nr3 = muladd r0, r2, r1\nstore {to} = r3\n}}"
            )
        };
        let zero = |to: &str| format!("map [] {{\nr0 = const 0\nstore {to} = r0\n}}");
        let body = format!(
            "local $0: 1 @ 0\n{}\nfor t0 in 3{reverse} {{\n{}\ncopy []: %1[]{{t0: 1}} rows [3] = $0[]\n}}",
            zero("$0[]"),
            step("$0[]", "$0[]")
        );
        let out = numbers(&[&x], &[3], "", &tile("[1]", 1, &body));
        assert_eq!(out[0], expected);

        let keep = "copy []: %1[]{t0: 1} = %3[]";
        let steps = format!(
            "{}\nfor t0 in 3{reverse} {{\n{}\n{}\nswap %2, %3\n}}",
            tile("[1]", 0, &zero("%2[]")),
            tile("[1]", 0, &step("%2[]", "%3[]")),
            tile("[1]", 0, keep),
        );
        let out = numbers(&[&x], &[3], "buffer %2 b: temp 1\nbuffer %3 b: temp 1", &steps);
        assert_eq!(out[0], expected);
    }
}

#[test]
fn contracts() {
    // a[n, k, row] with 2, 2 and 3 entries, b[i, k, row] with 1.
    let a: Vec<f64> = (0..12).map(f64::from).collect();
    let b = [1.0, 2.0, 3.0, -1.0, -2.0, -3.0];
    let steps = "launch {
        contract c rows 3 n [2] i [1] k [2]: %2[1, 0] splat = %0[6, 3] * %1[0, 3]
        contract s rows 3 n [2] k [2]: %3[1] splat = %0[6, 3]
    }";
    let out = numbers(&[&a, &b], &[2, 2], "", steps);
    assert_eq!(out, [vec![-18.0, -18.0], vec![15.0, 51.0]]);
}

#[test]
fn random_numbers() {
    let text = "program act\nbuffer %0 g: output 5\nbuffer %1 u: output 5\nbuffer %2 s: output 6\noutput %0, %1, %2
        draw \"a.b\"\ndraw other\nsteps {\nlaunch {
        random g draw 0 gaussian: %0\nrandom u draw 1 uniform: %1\nrandom s draw 0 subset 7 last 3: %2\n}\n}";
    let program = parse(text).unwrap();
    let clock = Clock { seed: 3, step: 8 };
    let out: Vec<Vec<f64>> = run(&program, &[], &BTreeMap::new(), clock).unwrap();
    let stream = |name| Stream::new(name, 3, "act", 8);
    assert_eq!(out[0], (0..5).map(|i| stream("a.b").gaussian(i)).collect::<Vec<_>>());
    assert_eq!(out[1], (0..5).map(|i| stream("other").uniform(i)).collect::<Vec<_>>());
    let subsets = [stream("a.b").subset(0, 3, 7), stream("a.b").subset(3, 3, 7)].concat();
    assert_eq!(out[2], subsets.into_iter().map(f64::from).collect::<Vec<_>>());

    let given = |name: &str, len| BTreeMap::from([(name.to_string(), vec![0.5; len])]);
    assert_eq!(run(&program, &[], &given("other", 5), clock).unwrap()[1], [0.5; 5]);
    assert!(matches!(run(&program, &[], &given("other", 4), clock), Err(RunError::Kernel { .. })));
    assert!(matches!(run(&program, &[], &given("none", 4), clock), Err(RunError::UnknownDraw { .. })));
    assert!(matches!(run(&program, &[vec![0.5]], &given("other", 5), clock), Err(RunError::Inputs { .. })));
}

/// What the verifier cannot see: parts that nobody wrote, rows that are spoilt.
#[test]
fn reads_of_what_is_not_there() {
    let fails = |rows: &str, others: &str, body: &str, message: &str| {
        let error = outcome(&[], &[4], others, &tile(rows, 4, body)).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    };
    let part = "local $0: 4 @ 0\nmap [3] {\nr0 = const 1\nstore $0[1] = r0\n}\ncopy [4]: %0[1] = $0[1]";
    fails("[1]", "", part, "the vector at 3 of $0, which has not been written");
    fails("[1]", "", "map [] {\nr0 = const 1\nstore %0[] = r0\n}", "the number at place 1 of output 0 is not written");

    let later = "map [] {\nr0 = const 1\nstore %1[] = r0\n}\ncopy [2]: %0[2] = %1[17]";
    fails("[2]", "buffer %1 b: temp 32", later, "the number at 17 of %1, which has not been written");
    // 20 rows of one entry, 15 more are spoilt: a launch that wrote there first has lost it.
    let other = tile("[1]", 0, "copy []: %1@20[] = %2[] splat");
    let spoil = tile("[20]", 0, "map [] {\nr0 = const 1\nstore %1[] = r0\n}");
    let read = tile("[1]", 0, "copy [4]: %0[1] = %1@20[0]");
    let others = "buffer %1 b: temp 40\nbuffer %2 b: const 1 [3]";
    assert_eq!(outcome(&[], &[4], others, &format!("{spoil}\n{other}\n{read}")).unwrap()[0], [3.0; 4]);
    let error = outcome(&[], &[4], others, &format!("{other}\n{spoil}\n{read}")).unwrap_err();
    assert!(error.to_string().contains("the number at 20 of %1"), "{error}");
}

#[test]
fn bad_programs_and_inputs_are_errors() {
    let body = "copy [2]: %1[1] = %0[1] splat";
    let bad = "copy [3]: %1[1] = %0[1] splat";
    assert_eq!(numbers(&[&[1.0, 2.0]], &[2], "", &tile("[1]", 0, body)), [[1.0, 2.0]]);
    assert!(matches!(outcome(&[&[1.0, 2.0]], &[2], "", &tile("[1]", 0, bad)), Err(RunError::Invalid(_))));
    let program = parse("program p\nbuffer %0 b: input 2\ninput %0").unwrap();
    assert!(matches!(run(&program, &[vec![1.0_f32]], &BTreeMap::new(), Clock::default()), Err(RunError::Length { .. })));
}

/// Random programs run in both precisions, agree, and make finite numbers.
#[test]
fn random_programs_run() {
    for seed in 0..100 {
        let program = random_kernels(seed);
        let inputs = kernel_inputs(&program, seed);
        let wide: Vec<Vec<f64>> = inputs.iter().map(|list| list.iter().map(|x| f64::from(*x)).collect()).collect();
        let clock = Clock { seed, step: 1 };
        let single =
            run(&program, &inputs, &BTreeMap::new(), clock).unwrap_or_else(|e| panic!("{seed}: {e}\n{}", print(&program)));
        let double = run(&program, &wide, &BTreeMap::new(), clock).unwrap();
        for (output, (a, b)) in single.iter().zip(&double).enumerate() {
            let scale = b.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
            for (x, y) in a.iter().zip(b) {
                assert!((f64::from(*x) - y).abs() < 1e-4 * scale, "seed {seed}, output {output}: {x} {y}\n{}", print(&program));
            }
        }
    }
}
