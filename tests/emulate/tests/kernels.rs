//! Small kernels with known numbers and known faults.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use wmc_emulate::{Build, Finding, Kernel, Kind, Options, Outcome, Program, build};

static PLAIN: LazyLock<Program> = LazyLock::new(|| program(false));
static WATCHED: LazyLock<Program> = LazyLock::new(|| program(true));

/// All cases in one program: compiling takes longer than running.
fn program(watched: bool) -> Program {
    let read = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
        std::fs::read_to_string(path).unwrap()
    };
    let kernel = |name: &str, source: String| Kernel { name: name.to_string(), source };
    let recurrent = read("kernels/recurrent.cu");
    let warps = read("kernels/warps.cu");
    let mut kernels = vec![
        kernel("shuffled", warps.replace("__syncwarp();", "__shfl_xor_sync(-1, l_1, 1);")),
        kernel("warps", warps),
        kernel("faults", read("kernels/faults.cu")),
        kernel("small", read("kernels/small.cu")),
    ];
    let recurrent = kernel("recurrent", recurrent);
    kernels.push(Kernel { name: "changed".to_string(), ..recurrent.mutable().0 });
    kernels.push(recurrent);
    // All kernels name their functions alike; a program has each C name once.
    for k in &mut kernels {
        k.source = k.source.replace("extern \"C\" __global__", "__global__");
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(if watched { "watched" } else { "plain" });
    build(&kernels, &read("host.cpp"), &Build { folder, watched }).unwrap_or_else(|e| panic!("{e}"))
}

fn plain(case: &str, options: Options) -> Outcome {
    PLAIN.run(&options, &[case]).unwrap_or_else(|e| panic!("{e}"))
}

fn watched(case: &str) -> Vec<Finding> {
    let options = Options { uninitialised: true, ..Options::default() };
    WATCHED.run(&options, &[case]).unwrap_or_else(|e| panic!("{e}")).findings
}

fn numbers(outcome: &Outcome) -> Vec<f64> {
    outcome.output.lines().map(|l| l.parse().unwrap()).collect()
}

fn input(count: usize, scale: f64) -> Vec<f64> {
    (0..count).map(|i| scale * ((i % 7) as f64 - 3.0)).collect()
}

#[test]
fn numbers_of_a_recurrence_in_any_order() {
    let (x, w) = (input(128, 0.25), input(64 * 64, 0.1f32 as f64));
    let mut expected = Vec::new();
    for cube in 0..2 {
        let mut state = x[cube * 64..][..64].to_vec();
        for _ in 0..3 {
            state = (0..64).map(|j| (0..64).map(|k| state[k] * w[k * 64 + j]).sum::<f64>().tanh()).collect();
        }
        expected.extend(state.into_iter().rev());
    }
    for order in [0, 1, 2, 3] {
        let outcome = plain("recurrent::recurrent", Options { order, poison: true, ..Options::default() });
        assert_eq!(outcome.findings, []);
        for (have, want) in numbers(&outcome).iter().zip(&expected) {
            assert!((have - want).abs() < 1e-6, "{have} {want}");
        }
    }
    assert_eq!(watched("recurrent::recurrent"), []);
}

#[test]
fn every_missing_barrier_is_a_race() {
    let without = |which: Option<usize>| {
        let options = Options { without: which, ..Options::default() };
        WATCHED.run(&options, &["changed::recurrent"]).unwrap_or_else(|e| panic!("{e}")).findings
    };
    assert_eq!(without(None), []);
    for which in 0..3 {
        let findings = without(Some(which));
        assert!(findings.iter().any(|f| f.kind == Kind::Race), "{which}: {findings:?}");
    }
    // The first barrier lies between the store in line 15 and the loads in line 21.
    let findings = without(Some(0));
    let between = |f: &Finding| f.text.contains("writes at changed.cu:15") && f.text.contains("reads at changed.cu:21");
    assert!(findings.iter().any(|f| f.text.starts_with("in `recurrent` on byte") && between(f)), "{findings:?}");
}

#[test]
fn warps_reduce_shift_vote_and_synchronise() {
    let x = input(40, 0.25);
    let outcome = plain("warps::warps", Options { order: 5, ..Options::default() });
    for (thread, have) in numbers(&outcome).chunks(4).take(40).enumerate() {
        let warp = thread / 32 * 32;
        let all: Vec<f64> = x[warp..(warp + 32).min(40)].to_vec();
        // The second warp has 8 lanes: those that are not there add their reader's own.
        let sum = if warp == 0 { all.iter().sum() } else { all.iter().sum::<f64>() * 4.0 };
        let next = if thread % 32 == 31 || thread == 39 { x[thread] } else { x[thread + 1] };
        let votes = all.iter().filter(|v| **v > 2.5).count() as f64;
        assert_eq!(have, [sum, next, votes, x[thread ^ 1]], "thread {thread}");
    }
    assert_eq!(watched("warps::warps"), []);
}

/// A shuffle moves values; it does not order accesses to memory.
#[test]
fn shuffles_are_no_barriers() {
    assert!(watched("shuffled::warps").iter().any(|f| f.kind == Kind::Race));
}

#[test]
fn barriers_that_not_all_reach() {
    let outcome = plain("faults::divergent", Options::default());
    assert_eq!(outcome.findings[0].kind, Kind::Divergence);
    assert!(outcome.findings[0].text.contains("16 have ended, 16 wait for the cube at faults.cu:7"), "{outcome:?}");
    let outcome = plain("faults::branches", Options::default());
    assert!(outcome.findings[0].text.contains("faults.cu:14 and some at that of faults.cu:17"), "{outcome:?}");
}

#[test]
fn bounds() {
    for outcome in [plain("faults::beyond", Options::default()), WATCHED.run(&Options::default(), &["faults::beyond"]).unwrap()] {
        let found = outcome.findings.iter().find(|f| f.kind == Kind::OutOfBounds).unwrap();
        assert!(found.text.contains("thread 31 of cube 0") && found.text.contains("`sum` at byte 128 of 128"), "{found:?}");
        assert!(found.text.contains("faults.cu:23"), "{found:?}");
    }
    assert_eq!(plain("faults::beyond_shared", Options::default()).findings[0].kind, Kind::OutOfBounds);
    assert!(watched("faults::beyond_shared")[0].text.contains("shared memory at byte 128 and has 128, at faults.cu:29"));
}

#[test]
fn shared_memory_that_nobody_wrote() {
    let findings = watched("faults::unwritten");
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].kind, Kind::Uninitialised);
    let poisoned = Options { poison: true, ..Options::default() };
    let outcome = PLAIN.run(&poisoned, &["faults::unwritten"]).unwrap();
    // Thread 1 reads what thread 0 did not write.
    let finite: Vec<bool> = numbers(&outcome).iter().take(32).map(|x| x.is_finite()).collect();
    assert!(!finite[1] && finite.iter().filter(|f| !**f).count() == 1, "{finite:?}");
}

#[test]
fn cubes_of_a_launch_are_not_ordered() {
    assert!(
        watched("faults::cubes")[0].text.contains("of cube 0 writes")
            || watched("faults::cubes")[0].text.contains("of cube 0 reads")
    );
    assert_eq!(watched("faults::atomic"), []);
    assert_eq!(plain("faults::atomic", Options::default()).output, "64\n");
    assert_eq!(plain("faults::atomic", Options { cubes: Some(1), ..Options::default() }).output, "32\n");
}

#[test]
fn races_in_global_memory() {
    assert!(watched("faults::workspace").iter().any(|f| f.kind == Kind::Race && f.text.contains("of y")));
}

#[test]
fn small_floats_round_to_nearest() {
    let expected: [[f64; 3]; 8] = [
        [1.0, 1.0, 1.0],
        [0.0999755859375, 0.10009765625, 0.0999755859375],
        [65504.0, 65536.0, 65504.0],
        [f64::INFINITY, 65536.0, 65536.0],
        [2f64.powi(-24), 6.007030606269836e-08, 6.00121e-8],
        [0.0, 1.0011717677116394e-08, 1.00008e-8],
        [-3.140625, -3.140625, -3.1414062],
        [f64::INFINITY, 226.0 * 2f64.powi(120), 3.0007322e38],
    ];
    let outcome = plain("floats", Options::default());
    for (have, want) in numbers(&outcome).chunks(3).zip(expected) {
        for (h, w) in have.iter().zip(want) {
            assert!(*h == w || (h / w - 1.0).abs() < 2e-3, "{have:?} {want:?}");
        }
    }
}

#[test]
fn tensor_cores() {
    let (a, b) = (input(256, 0.25), input(256, 0.1f32 as f64));
    let outcome = plain("small::tensor", Options { order: 9, ..Options::default() });
    for (place, have) in numbers(&outcome).iter().take(160).enumerate() {
        let (row, column) = (place / 16, place % 16);
        let want = 0.5 + (0..16).map(|k| a[row * 16 + k] * b[column * 16 + k]).sum::<f64>();
        assert!((have - want).abs() < 2e-3, "{have} {want}");
    }
    assert_eq!(watched("small::tensor"), []);
}

#[test]
fn text_that_is_no_kernel() {
    let kernel = Kernel { name: "broken".to_string(), source: "float f( {".to_string() };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("broken");
    let error = build(&[kernel], "", &Build { folder, watched: false }).unwrap_err().to_string();
    assert!(error.contains("g++ refuses the text") && error.contains("broken.cu:1"), "{error}");
}
