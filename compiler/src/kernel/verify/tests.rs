//! A program that passes, and one change for each rule that makes it fail.

use super::verify;
use crate::kernel::text::parse;
use crate::testing::random_kernels;

/// 20 rows, 32 with those that fill the last tile up.
const SAMPLE: &str = "program p

buffer %0 x: input 120
buffer %1 w: input 42
buffer %2 packed: kept 72
buffer %3 stored: temp 224
buffer %4 next: temp 224
buffer %5 y: output 140
buffer %6 sums: output 7
buffer %7 numbers: const 2 [1, 2]

draw noise

input %0, %1
output %5, %6

prepare {
  launch {
    pack w n 7 k [2, 3]: %2 = %1[6, 3, 1] splat
  }
}

steps {
  launch {
    tile first rows [4, 5] arena 26 {
      local $0: 6 @ 0
      local $1: 7 @ 6
      local $2: 7 @ 13
      local $3: 6 @ 20
      local $4: 2 @ 0
      copy [6]: $0[1] = %0[1] rows [30, 6]
      gemm n 7 k 6: $1[1] = $0[1] * %2[] splat + %7[0] splat
      sort [] n 6: $3[1] = $0[1]
      for t0 in 7 {
        map [] {
          r0 = load $1[]{t0: 1}
          r1 = const 2
          r2 = muladd r0, r1, r0
          store %3[]{t0: 32} = r2
          store $1[]{t0: 1} = r2
        }
      }
      map [7] {
        r0 = load $1[1]
        r1 = load %3[32]
        r2 = add r0, r1
        store $2[1] = r2
      }
      scatter [7] size 6 stride 1: $3[0] += $2[1] at %7[0] splat
      gather [2] size 3 stride 2: $4[1] = $3[1] at %7[1] splat
    }
  }
  for t1 in 4 {
    launch {
      tile second rows [20] arena 0 {
        map [7] {
          r0 = load %3[32]
          store %4[32] = r0
        }
      }
    }
    swap %3, %4
  }
  launch {
    tile last rows [20] arena 0 {
      copy [7]: %5[20] = %3[32]
    }
    contract sums rows 20 n [7]: %6[1] splat = %3[32]
  }
}
";

/// The verifier's words about the sample with one change.
fn refused(from: &str, to: &str) -> String {
    assert_eq!(SAMPLE.matches(from).count(), 1, "`{from}` is not one place of the sample");
    let program = parse(&SAMPLE.replace(from, to)).unwrap_or_else(|e| panic!("{e}: {to}"));
    match verify(&program) {
        Ok(()) => "it passes".to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_sample_passes() {
    assert_eq!(verify(&parse(SAMPLE).unwrap()), Ok(()));
}

#[test]
fn random_programs_pass() {
    for seed in 0..300 {
        assert_eq!(verify(&random_kernels(seed)), Ok(()), "seed {seed}");
    }
}

#[test]
fn one_change_for_each_rule() {
    let copy_x = "copy [6]: $0[1] = %0[1] rows [30, 6]";
    let gemm = "gemm n 7 k 6: $1[1] = $0[1] * %2[] splat + %7[0] splat";
    let store = "store %3[]{t0: 32} = r2";
    let in_place = "store $1[]{t0: 1} = r2";
    let sort = "sort [] n 6: $3[1] = $0[1]";
    let gather = "gather [2] size 3 stride 2: $4[1] = $3[1] at %7[1] splat";
    let scatter = "scatter [7] size 6 stride 1: $3[0] += $2[1] at %7[0] splat";
    let output = "copy [7]: %5[20] = %3[32]";
    let contract = "contract sums rows 20 n [7]: %6[1] splat = %3[32]";
    let pack = "pack w n 7 k [2, 3]: %2 = %1[6, 3, 1] splat";
    let cases = [
        // the interface
        ("const 2 [1, 2]", "const 2 [1]", "has 1 numbers for 2 places"),
        ("input %0, %1\n", "input %0\n", "%1 is not among the inputs"),
        ("input %0, %1\n", "input %0, %1, %0\n", "%0 is given as an input twice"),
        ("input %0, %1\n", "input %0, %1, %3\n", "the input %3 is of another kind"),
        ("output %5, %6", "output %5, %3", "the output %3 is of another kind"),
        ("output %5, %6", "output %5, %9", "there is no buffer %9"),
        // views
        (copy_x, "copy [6]: $0[1, 1] = %0[1] rows [30, 6]", "it has 2 strides for 1 dimensions"),
        (copy_x, "copy [7]: $0[1] = %0[1] rows [30, 6]", "from: it goes to place 120 of 120"),
        (copy_x, "copy [6]: $0[1] = %0@1[1] rows [30, 6]", "from: it goes to place 120 of 120"),
        (copy_x, "copy [6]: $0@1[1] = %0[1] rows [30, 6]", "to: it goes to place 6 of 6"),
        (copy_x, "copy [6]: $9[1] = %0[1] rows [30, 6]", "there is no local $9"),
        (copy_x, "copy [6]: $0[1] = %9[1] rows [30, 6]", "there is no buffer %9"),
        (copy_x, "copy [6]: $0[1] = %0[1] rows [6]", "it has 1 strides for 2 axes of rows"),
        (copy_x, "copy [6]: $0[1]{t0: 0} = %0[1] rows [30, 6]", "there is no loop t0 around"),
        ("r0 = load $1[]{t0: 1}", "r0 = load $1[]{t0: 1, t0: 0}", "loop t0 moves it twice"),
        (store, "store %3[]{t0: 64} = r2", "store 0: it goes to place 403 of 224"),
        ("r1 = load %3[32]", "r1 = load %3[35]", "load 1: it goes to place 229 of 224"),
        ("for t1 in 4", "for t0 in 4", "there are two loops t0"),
        ("local $3: 6 @ 20", "local $3: 6 @ 21", "local $3 ends past the arena of 26"),
        // lanes
        ("r1 = load %3[32]", "r1 = load %3[32] rows [5, 1]", "load 1: its lanes are"),
        (store, "store %3[]{t0: 32} splat = r2", "store 0: its lanes are"),
        (gemm, "gemm n 7 k 6: $1[1] = $0[1] * %2[] + %7[0] splat", "weight: its lanes are"),
        (gemm, "gemm n 7 k 6: $1[1] = $0[1] * %2[] splat + %7[0]", "bias: its lanes are"),
        (gemm, "gemm n 7 k 6: $1[1] = %0[1] splat * %2[] splat", "src: its lanes are"),
        (sort, "sort [] n 6: $3[1] = $0[1] splat", "from: its lanes are"),
        (contract, "contract sums rows 20 n [7]: %6[1] = %3[32]", "dst: its lanes are"),
        (contract, "contract sums rows 20 n [7]: %6[1] splat = %3[32] splat", "a: its lanes are"),
        (gather, "gather [2] size 3 stride 2: $4[1] = $3[1] splat at %7[1] splat", "the lanes of a local are side by side"),
        // whole vectors
        (store, "store %3[]{t0: 20} = r2", "20 rows are written whole, 32 at a time, and 20 is no multiple"),
        (store, "store %3@8[]{t0: 32} = r2", "and 8 is no multiple"),
        ("store %4[32] = r0", "store %4[30] = r0", "and 30 is no multiple"),
        // written once, and apart
        (copy_x, "copy [6]: $0[0] = %0[1] rows [30, 6]", "to: a place is written twice"),
        (output, "copy [7]: %5[19] = %3[32]", "to: a place is written twice"),
        (output, "copy [7]: %5[1] rows [6] = %3[32]", "to: a place is written twice"),
        ("store $2[1] = r2", "store $2[0] = r2", "store 0: a place is written twice"),
        (contract, "contract sums rows 20 n [7]: %6[0] splat = %3[32]", "dst: a place is written twice"),
        (in_place, "store $1[] = r2", "load 0 and store 1 meet"),
        (in_place, "sum $1[]{t0: 1} = r2", "load 0 and store 1 meet"),
        (in_place, "store $2[] = r2\nstore $2[]{t0: 1} = r2", "store 1 and store 2 meet"),
        (gemm, "gemm n 7 k 6: $1[1] = $1[1] * %2[] splat", "src and dst meet"),
        (sort, "sort [] n 6: $0[1] = $0[1]", "from and to meet"),
        (gather, "gather [2] size 3 stride 2: $3[1] = $3[1] at %7[1] splat", "from and to meet"),
        (scatter, "scatter [7] size 6 stride 1: $2[0] += $2[1] at %7[0] splat", "from and to meet"),
        (copy_x, "copy [6]: $0[1] = %0[1] rows [30, 6]\ncopy [3]: $0[1] = $0@1[1]", "from and to meet"),
        (
            "store $2[1] = r2",
            "store $2[1] = r2\n}\nmap [8, 0] {\nr0 = const 1\nsum $2[1, 0] = r0",
            "store 0: it goes to place 7 of 7",
        ),
        // places along an axis
        (gather, "gather [2] size 4 stride 2: $4[1] = $3[1] at %7[1] splat", "from: it goes to place 7 of 6"),
        (scatter, "scatter [7] size 7 stride 1: $3[0] += $2[1] at %7[0] splat", "to: it goes to place 6 of 6"),
        (gather, "gather [2] size 0 stride 2: $4[1] = $3[1] at %7[1] splat", "an axis of size 0 has no place to take"),
        (scatter, "scatter [7] size 0 stride 1: $3[0] += $2[1] at %7[0] splat", "an axis of size 0 has no place to take"),
        // limits
        ("temp 224\nbuffer %4", "temp 1000000000000000\nbuffer %4", "its buffers have more than 1099511627776 numbers"),
        ("for t1 in 4", "for t1 in 1000000000000000", "operations, more than 100000000000000"),
        ("for t1 in 4", "for t4294967295 in 4", "loop t4294967295: numbers of loops are below 1048576"),
        ("rows [4, 5]", "rows [1099511627776, 5]", "operations, more than 100000000000000"),
        ("arena 26", "arena 1099511627776", "its arena is larger than can be counted"),
        ("r1 = load %3[32]", "r1 = load %3[1099511627776]", "steps of 1099511627776 are more than can be counted"),
        (gemm, "gemm n 7 k 300000000000: $1[1] = $0[1] * %2[] splat", "its weight is larger than can be counted"),
        (contract, "random n draw 0 subset 4294967295 last 7: %6", "a subset of 4294967295: a place is a number up to 16777216"),
        (
            contract,
            "contract sums rows 20 n [16777217]: %6[1] splat = %3[32]",
            "the dimensions n have more than 16777216 entries",
        ),
        // code
        ("r2 = muladd r0, r1, r0", "r2 = muladd r0, r2, r0", "register r2 is used for r2, before it is computed"),
        ("r2 = muladd r0, r1, r0", "r2 = load 3", "there is no load 3; there are 1"),
        ("store $2[1] = r2", "store $2[1] = r3", "store 0: there is no register r3; there are 3"),
        // weights
        (gemm, "gemm n 7 k 6: $1[1] = $0[1] * %3[] splat", "weight: nothing packs %3"),
        (gemm, "gemm n 7 k 5: $1[1] = $0[1] * %2[] splat", "weight: %2 is packed for sums of 6, not 5"),
        (gemm, "gemm n 6 k 6: $1[1] = $0[1] * %2@30[] splat", "weight: 30 is not the start of a panel of 36"),
        (gemm, "gemm n 7 k 6: $1[1] = $0[1] * %2@36[] splat", "weight: it goes to place 107 of 72"),
        (pack, "pack w n 5 k [2, 3]: %2 = %1[6, 3, 1] splat", "%2 has 72 numbers, the packed weight 36"),
        (pack, "pack w n 7 k [2, 3]: %2 = %1[7, 3, 1] splat", "from: it goes to place 47 of 42"),
        (pack, "pack w n 7 k [2, 3]: %2 = %2[6, 3, 1] splat", "from: it is not another buffer"),
        (pack, "pack w n 7 k [2, 3]: %2 = %1[6, 3, 1] splat\npack v n 12 k [6]: %2 = %1[0, 0] splat", "packed in two ways"),
        // sums over rows, random numbers
        (contract, "contract sums rows 20 n [7] i [1]: %6[1, 0] splat = %3[32]", "there is no b for the dimensions i"),
        (contract, "contract sums rows 40 n [7]: %6[1] splat = %3[32]", "a: it goes to place 231 of 224"),
        (contract, "random n draw 1 gaussian: %6", "there is no draw 1; there are 1"),
        (contract, "random n draw 0 subset 3 last 7: %6", "a subset of 3 cannot have 7 entries"),
        (contract, "random n draw 0 subset 3 last 2: %6", "7 numbers are no permutations of 2"),
        // locals
        (sort, "sort [] n 6: $3[1] = $2[1]", "local $2 is read before it is written"),
        (gather, "gather [2] size 3 stride 2: $4[1] = $0[1] at %7[1] splat", "locals $0 and $4 live at the same time"),
        ("local $2: 7 @ 13", "local $2: 7 @ 12", "locals $1 and $2 live at the same time"),
        // rows
        ("r1 = load %3[32]", "r1 = load %3[0] splat", "rows meet in %3: map's store 0 and map's load 1"),
        ("r1 = load %3[32]", "r1 = load %3@1[32]", "rows meet in %3"),
        (output, "copy [7]: %5[20] = %3[32]\ncopy [3]: %4[32] = %4@1[32]", "from and to meet"),
        (
            store,
            "store %3[]{t0: 32} = r2\n}\ncopy []: $2[] = %3@24[]\nmap [] {\nr0 = const 2\nr1 = const 2\nr2 = const 2",
            "rows meet in %3",
        ),
        // launches
        (contract, "contract sums rows 20 n [7]: %6[1] splat = %5[20]", "`last` and `sums` of one launch meet in %5"),
        (contract, "contract sums rows 20: %6[] splat = %3[]\nrandom n draw 0 uniform: %3", "of one launch meet in %3"),
        // what is written, and when
        (output, "copy [6]: %0[20] = %3[32]", "%0 is an input and may not be written"),
        (output, "copy [1]: %7[0] = %3[32]", "%7 is constant and may not be written"),
        (output, "copy [7]: %4[32] = %3[32]", "nothing writes the output %5"),
        ("r1 = load %3[32]", "r1 = load %4[32]", "%4 is read before it is written"),
        (pack, "random p draw 0 uniform: %4", "weight: nothing packs %2"),
        ("store %4[32] = r0", "store %3[32] = r0", "%3 is read before it is written"),
        ("swap %3, %4", "swap %3, %5", "are swapped, but have 224 and 140 numbers"),
        ("swap %3, %4", "swap %0, %0", "%0 is swapped, but may not be written"),
        ("buffer %4 next: temp 224", "buffer %4 next: kept 224", "only one of them is kept"),
    ];
    for (from, to, message) in cases {
        let said = refused(from, to);
        assert!(said.contains(message), "`{to}`\n  said: {said}\n  not:  {message}");
    }
}

/// What looks alike and is right.
#[test]
fn what_is_allowed() {
    let cases = [
        // Parts of rows, interleaved: no place in common.
        ("copy [7]: %5[20] = %3[32]", "copy [7]: %5[20] = %3[32]\ncopy [3]: %4@32[64] = %4[64]"),
        // A copy writes no row past the last and needs no room.
        ("copy [7]: %5[20] = %3[32]", "copy [7]: %5[1] rows [7] = %3[32]"),
        // Two kernels of a launch write parts of a buffer.
        (
            "copy [7]: %5[20] = %3[32]",
            "copy [4]: %5[20] = %3[32]\n}\ntile more rows [20] arena 0 {\ncopy [3]: %5@80[20] = %3@128[32]",
        ),
        // A second panel.
        ("gemm n 7 k 6: $1[1] = $0[1] * %2[] splat", "gemm n 6 k 6: $1[1] = $0[1] * %2@36[] splat"),
    ];
    for (from, to) in cases {
        assert_eq!(refused(from, to), "it passes", "{to}");
    }
}

/// Loops and operands of hundreds: the verifier says no before it has compared for minutes.
#[test]
fn comparing_comes_to_an_end() {
    let spans = "program p
buffer %0 x: temp 10000000000
steps { launch { tile t rows [16] arena 0 {
map [300000000] {
r0 = const 1
store %0[32] = r0
store %0@16[32] = r0
} } } }"
        .replace("{ ", "{\n")
        .replace("} ", "}\n");
    let said = verify(&parse(&spans).unwrap_or_else(|e| panic!("{e}"))).unwrap_err().to_string();
    assert!(said.contains("too interleaved to be told apart"), "{said}");

    // Swaps that permute 80 buffers in cycles of many lengths.
    let buffers: String = (0..80).map(|i| format!("buffer %{i} b{i}: temp 16\n")).collect();
    let mut swaps = String::new();
    let mut first = 0;
    for cycle in [2, 3, 5, 7, 11, 13, 17, 19] {
        (first..first + cycle - 1).for_each(|i| swaps += &format!("swap %{i}, %{}\n", i + 1));
        first += cycle;
    }
    let set: String = [0, 2, 5, 10, 17, 28, 41, 58].map(|i| format!("random r draw 0 uniform: %{i}\n")).concat();
    let text = format!("program p\n{buffers}draw n\nsteps {{\nlaunch {{\n{set}}}\nfor t0 in 100000000000 {{\n{swaps}}}\n}}\n");
    let said = verify(&parse(&text).unwrap_or_else(|e| panic!("{e}"))).unwrap_err().to_string();
    assert!(said.contains("too many rounds to repeat"), "{said}");
}
