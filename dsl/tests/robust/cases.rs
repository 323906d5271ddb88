//! Texts that grow in one way, and files that lie where they should not. Each is answered, and soon.

use std::fs;
use std::path::PathBuf;

use wmc_dsl::diagnostics::{Code, Diagnostic, render};
use wmc_dsl::folders::{Folders, read_text};
use wmc_dsl::{Checked, LoadError, Loader, MapLoader, NoLoader, Options};

use crate::{LIMIT, cpu_time, on_small_stack};

fn check_with(text: &str, loader: &(dyn Loader + Sync)) -> Checked {
    let (checked, time) = on_small_stack(|| {
        let start = cpu_time();
        let checked = wmc_dsl::check("case.wm", text, loader, &Options::default());
        for d in &checked.diagnostics {
            render(&checked.sources, d, false);
        }
        (checked, cpu_time() - start)
    });
    let head: String = text.chars().take(60).collect();
    assert!(time < LIMIT, "{time:?} for {} bytes: {head}", text.len());
    checked
}

fn check(text: &str) -> Checked {
    check_with(text, &NoLoader)
}

/// Checks a text that must be refused for one reason among others.
fn refused(text: &str, code: Code) -> Diagnostic {
    let checked = check(text);
    let found = checked.diagnostics.iter().find(|d| d.code == code).cloned();
    found.unwrap_or_else(|| {
        let head: String = text.chars().take(200).collect();
        panic!("no {code:?} for {head}\n{:?}", checked.diagnostics.first())
    })
}

/// A small model with more declarations, equations and losses.
fn model(declarations: &str, equations: &str, losses: &str) -> String {
    format!(
        "model Case {{
  input obs: [O], r: [], first: bool
  action a: [A] in -1..1
  dim Q = 4
  latent z {{ q: [Q] }}
  net encoder(obs) -> z = mlp([4], silu)
  net prior(z) -> a via tanh = mlp([4], silu)
{declarations}
  source replay(capacity = 10_000) over [B = 16, T = 8]
  z[t] = encoder(obs[t])
{equations}
  loss policy 1.0 = sq(prior(z[t]) - a[t])
{losses}
  act {{ train = prior(z[t])  eval = prior(z[t]) }}
  optimizer main = adam(lr = 1e-3) on all
  train {{ steps = 1_000, seed_steps = 100, every = 1, updates = 1, eval_every = 500, eval_episodes = 1, seeds = [1] }}
  tasks one {{ task(O = 3, A = 1, repeat = 1, length = 100) }}
}}
"
    )
}

fn lines(n: usize, line: impl Fn(usize) -> String) -> String {
    (0..n).map(|i| line(i) + "\n").collect()
}

#[test]
fn the_case_itself_is_a_model() {
    let checked = check(&model("", "", ""));
    assert!(checked.diagnostics.is_empty(), "{:?}", checked.diagnostics);
}

#[test]
fn ten_megabytes() {
    for piece in ["a", " ", "(", "\n", "x[t] = 1\n", "é", "\"", "// ", "model M { input obs: [O] }\n", "\0"] {
        refused(&piece.repeat(10_000_000 / piece.len()), Code::FileTooLarge);
    }
}

#[test]
fn two_megabytes_of_the_same() {
    for piece in
        ["a", "a ", "1", "1 ", " ", "(", ")", "{}", "\n", "x[t] = 1\n", "é", "\"", "/", "-", "!", "^", "a.", "a,", "use a\n"]
    {
        let all = piece.repeat(((2 << 20) - 100) / piece.len());
        assert!(check(&all).has_errors(), "{piece:?}");
        assert!(check(&format!("model M {{\n{all}\n}}")).has_errors(), "{piece:?} in a model");
        wmc_dsl::fmt::format(&all);
    }
}

#[test]
fn nesting() {
    for n in [65, 1_000, 50_000] {
        for (open, close) in [("(", ")"), ("[", "]"), ("tanh(", ")"), ("{ a = ", " }"), ("if (1) { ", " } else { 1 }")] {
            let value = format!("{}1{}", open.repeat(n), close.repeat(n));
            refused(&model("", &format!("  x[t] = {value}"), ""), Code::TooDeep);
        }
    }
}

#[test]
fn long_chains() {
    for n in [500, 5_000, 50_000] {
        for (first, link) in
            [("1", " + 1"), ("1", " ^ 1"), ("1", " < 1"), ("1", " && 1"), ("z", ".q"), ("z", "[t]"), ("z", "(1)"), ("1", " @ 1")]
        {
            let text = model("", &format!("  x[t] = {first}{}", link.repeat(n)), "");
            assert!(check(&text).has_errors(), "{n} times `{link}`");
        }
        for link in ["-", "!", "if (1) { 1 } else "] {
            let text = model("", &format!("  x[t] = {}{{ 1 }}", link.repeat(n)), "");
            assert!(check(&text).has_errors(), "{n} times `{link}`");
        }
    }
}

#[test]
fn calls_that_double() {
    let fns = lines(40, |i| format!("fn f{}(x) {{ return f{i}(x + 1) * f{i}(x + 2) }}", i + 1));
    let text = format!("fn f0(x) {{ return x }}\n{fns}{}", model("", "", "  loss l 1.0 = sum(f40(z[t].q))"));
    let d = refused(&text, Code::TooLarge);
    assert!(d.notes.iter().any(|n| n.contains("operations")), "{d:?}");
}

#[test]
fn records_that_double() {
    let lets = lines(48, |i| format!("    let r{} = {{ a = r{i}, b = r{i} }}", i + 1));
    let f = format!("  fn f(x) {{\n    let r0 = x\n{lets}    return r48\n  }}");
    assert!(check(&model(&f, "  y[t] = f(z[t].q)", "  loss l 1.0 = sq(y[t])")).has_errors());
    assert!(check(&model(&f, "", "  loss l 1.0 = sq(f(z[t].q))")).has_errors());
    assert!(check(&model(&f, "  y[t] = f(z[t]) + f(z[t])", "  loss l 1.0 = sq(sg(y[t]))")).has_errors());
}

#[test]
fn lists_that_double() {
    let consts = lines(48, |i| format!("  const l{} = [l{i}, l{i}]", i + 1));
    for end in ["len(l48)", "l48", "sum(l48)", "l48 + l48"] {
        check(&model(&format!("  const l0 = [1, 2]\n{consts}"), "", &format!("  loss l 1.0 = {end}")));
    }
}

#[test]
fn huge_sizes() {
    for n in ["1e9", "4294967296", "9223372036854775807", "1e18", "1e19", "1e300", "-1", "0", "0.5"] {
        check(&model(&format!("  dim D = {n}\n  param p: [D, D, D, D] = zeros([D, D, D, D])"), "", "  loss l 1.0 = sum(p)"));
        check(&model(&format!("  net f(z) -> [Q] = mlp([{n}, {n}])"), "", "  loss l 1.0 = sum(f(z[t]))"));
        check(&model(
            &format!("  memory m(z) -> [M] = gru(layers = {n}, width = 4)"),
            "  m[t] = memory(z[t], m[t-1])",
            "  loss l 1.0 = sum(m[t])",
        ));
        check(&model("", &format!("  x[t, k] = z[t].q * k   for k in 0..{n}"), "  loss l 1.0 = sum k in 0..3 { sum(x[t, k]) }"));
        check(&model("", &format!("  x[t] = z[t-{n}].q"), "  loss l 1.0 = sum(x[t])"));
        check(&model("", "", &format!("  loss l 1.0 = sum(sum k in 0..{n} {{ z[t].q }})")));
        check(&model(
            &format!("  fn f(x) {{ let y = x stack i in 0..{n} {{ y = tanh(y) }} return y }}"),
            "",
            "  loss l 1.0 = sum(f(z[t].q))",
        ));
        check(&model("", "", "  loss l 1.0 = sq(z[t].q)").replace("T = 8", &format!("T = {n}")));
        check(&model("", "", &format!("  metric d[k] = sum(z[k].q) for k in [{n}]")));
        check(&model(&format!("  schedule s = ramp({n}, {n}, from = 0%, to = {n}%)"), "", "  loss l 1.0 = s"));
    }
}

#[test]
fn a_memory_of_many_layers() {
    let with = |layers: usize| {
        model(
            &format!("  memory m(z) -> [M] = ssm(layers = {layers}, width = 8)"),
            "  m[t] = memory(z[t], m[t-1])",
            "  loss l 1.0 = sq(m[t])",
        )
    };
    assert!(!check(&with(200)).has_errors());
    let d = refused(&with(9_000), Code::TooLarge);
    assert!(d.notes.iter().any(|n| n.contains("1,000,000 operations")), "{d:?}");
}

#[test]
fn a_search_for_every_equation() {
    // Each gradient looks through all equations before its own.
    let step = |i: usize| format!("  x{}[t] = x{i}[t] + grad(sum(x{i}[t]), z[t].q)", i + 1);
    let text = model("", &format!("  x0[t] = z[t].q\n{}", lines(9_000, step)), "  loss l 1.0 = sq(x9000[t])");
    refused(&text, Code::TooLarge);
}

#[test]
fn many_names() {
    let d = refused(&model(&lines(5_000, |i| format!("  param p{i}: [Q] = zeros([Q])")), "", ""), Code::TooLarge);
    assert!(d.notes.iter().any(|n| n.contains("4,000")), "{d:?}");
}

#[test]
fn extends_may_be_deep_but_not_deeper() {
    let chain = |n: usize| {
        let children = lines(n, |i| {
            format!("model M{} extends {} {{ dim D{i} = 1 }}", i + 1, if i == 0 { "Case".into() } else { format!("M{i}") })
        });
        model("", "", "") + &children
    };
    assert!(!check(&chain(64)).has_errors());
    let d = refused(&chain(65), Code::TooLarge);
    assert_eq!(d.message, "`M65` inherits through more than 64 models");
    let errors = check(&chain(65)).diagnostics.into_iter().filter(Diagnostic::is_error).count();
    assert_eq!(errors, 1, "the others are fine");
    refused("model A extends B { }\nmodel B extends A { }", Code::ExtendsCycle);
    let circle = lines(100, |i| format!("model M{i} extends M{} {{ }}", (i + 1) % 100));
    refused(&circle, Code::TooLarge);
}

#[test]
fn more_mistakes_than_anyone_reads() {
    let checked = check(&lines(5_000, |i| format!("model M{i} {{ input obs: [O]  x[t] = y[t] }}")));
    assert_eq!(checked.diagnostics.iter().filter(|d| d.is_error()).count(), 100);
    let last = checked.diagnostics.last().unwrap();
    assert!(last.notes.iter().any(|n| n.contains("models were not looked at")), "{last:?}");

    let checked = check(&model("", &lines(5_000, |i| format!("  x{i}[t] = wrong{i}(z[t].q)")), ""));
    assert_eq!(checked.diagnostics.len(), 100);
    let last = checked.diagnostics.last().unwrap();
    assert!(last.notes.iter().any(|n| n.contains("left out")), "{last:?}");
}

#[test]
fn warnings_leave_room_for_errors() {
    // A hundred warnings come first, and one error at the end.
    let text = model(&lines(200, |i| format!("  const c{i} = 1")), "", "").replace("eval = prior(z[t])", "eval = prior(z[t+1])");
    let checked = check(&text);
    assert!(checked.has_errors() && checked.models.is_empty());
}

// ---- files

/// An empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("robust").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn bytes_that_are_no_text() {
    let folder = folder("bytes");
    for (i, bytes) in [&b"model \xff"[..], b"\xc3", b"\xf0\x9f\xa6", b"\xed\xa0\x80", b"ok\x80"].into_iter().enumerate() {
        let module = format!("bad{i}");
        let path = folder.join(format!("{module}.wm"));
        fs::write(&path, bytes).unwrap();
        let Err(LoadError::NotUtf8 { .. }) = read_text(&path, "bad.wm") else { panic!("{bytes:?}") };
        let mut folders = Folders::default();
        folders.add(&folder, "given").unwrap();
        let checked = wmc_dsl::check("case.wm", &format!("use {module}"), &folders, &Options::default());
        assert!(checked.diagnostics.iter().any(|d| d.code == Code::NotUtf8), "{:?}", checked.diagnostics);
    }
}

#[test]
fn imports_in_a_circle() {
    let mut loader = MapLoader::default();
    for i in 0..5 {
        loader.0.insert(format!("m{i}"), format!("use m{}\nfn f{i}(x) {{ return x }}", (i + 1) % 5));
    }
    loader.0.insert("own".into(), "use own".into());
    loader.0.insert("back".into(), "use case".into());
    loader.0.insert("case".into(), String::new());
    for module in ["m0", "own", "back", "case"] {
        let checked = check_with(&format!("use {module}"), &loader);
        assert!(checked.diagnostics.iter().any(|d| d.code == Code::ImportCycle), "{module}: {:?}", checked.diagnostics);
    }
}

#[test]
fn imports_without_end() {
    struct Endless;
    impl Loader for Endless {
        fn load(&self, module: &str) -> Result<wmc_dsl::Loaded, LoadError> {
            Ok(wmc_dsl::Loaded { name: format!("{module}.wm"), text: format!("use {module}x") })
        }
    }
    assert!(check_with("use a", &Endless).has_errors());
}

#[test]
fn use_stays_in_the_given_folders() {
    let (given, outside) = (folder("given"), folder("outside"));
    fs::write(outside.join("secret.wm"), "fn secret(x) { return x }").unwrap();
    fs::create_dir(given.join("inner")).unwrap();
    fs::write(given.join("inner/hidden.wm"), "fn hidden(x) { return x }").unwrap();
    fs::create_dir(given.join("folder.wm")).unwrap();
    let mut folders = Folders::default();
    folders.add(&given, "given").unwrap();
    for path in [
        "../outside/secret",
        "..::outside::secret",
        "/etc/passwd",
        "inner/hidden",
        "inner::hidden",
        "secret",
        "folder",
        "\"../outside/secret\"",
        "./secret",
    ] {
        let checked = wmc_dsl::check("case.wm", &format!("use {path}\n"), &folders, &Options::default());
        assert!(checked.has_errors(), "{path}");
    }
    for module in ["../outside/secret", "..", ".", "", "/etc/passwd", "inner/hidden", "a\0b"] {
        assert!(matches!(folders.load(module), Err(LoadError::NotFound { .. })), "{module:?}");
    }
    assert!(folders.into_imports().is_empty());
}

#[cfg(unix)]
#[test]
fn links_do_not_lead_out() {
    use std::os::unix::fs::symlink;
    let (given, outside) = (folder("links"), folder("linked"));
    fs::write(outside.join("secret.wm"), "fn secret(x) { return x }").unwrap();
    symlink(outside.join("secret.wm"), given.join("leak.wm")).unwrap();
    symlink(given.join("loop.wm"), given.join("loop.wm")).unwrap();
    symlink("/dev/zero", given.join("endless.wm")).unwrap();
    let mut folders = Folders::default();
    folders.add(&given, "given").unwrap();
    for (module, code) in [("leak", Code::ImportOutside), ("endless", Code::ImportOutside), ("loop", Code::ImportNotFound)] {
        let checked = wmc_dsl::check("case.wm", &format!("use {module}"), &folders, &Options::default());
        assert!(checked.diagnostics.iter().any(|d| d.code == code), "{module}: {:?}", checked.diagnostics);
    }
}
