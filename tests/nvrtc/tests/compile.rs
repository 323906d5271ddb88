//! NVIDIA's compiler on texts that are known.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use wmc_nvrtc::{ARCHS, Error, Text, available, compile, over_budget, resident};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn skipped() -> bool {
    !available().unwrap_or_else(|e| panic!("{e}"))
}

fn text(name: &str, source: &str, threads: usize, shared: usize) -> Text {
    Text { name: name.to_string(), source: source.to_string(), threads, shared }
}

#[test]
fn figures_of_a_kernel() {
    if skipped() {
        return;
    }
    let source = include_str!("../../emulate/tests/kernels/recurrent.cu");
    let recurrent = text("recurrent.cu", source, 64, 256);
    let figures = compile(std::slice::from_ref(&recurrent), &ARCHS, &folder("figures")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(figures.len(), ARCHS.len());
    for (f, arch) in figures.iter().zip(&ARCHS) {
        assert_eq!((f.name.as_str(), f.arch.as_str()), ("recurrent.cu", arch.name));
        assert!(f.registers >= 16 && f.ms > 0 && f.ptx_bytes > 1000, "{f:?}");
        assert_eq!(over_budget(&recurrent, f, arch), Vec::<String>::new());
        // 64 threads with fewer than 96 registers each.
        assert!(resident(&recurrent, f, arch) >= 10, "{f:?}");
    }
    // The same for a cube that asks for too much.
    assert_eq!(resident(&Text { shared: 40 << 10, ..recurrent.clone() }, &figures[1], &ARCHS[1]), 2);
    let greedy = Text { shared: 120 << 10, threads: 1024, ..recurrent };
    let reasons = over_budget(&greedy, &figures[1], &ARCHS[1]);
    assert!(reasons[0].contains("122880 bytes of shared memory"), "{reasons:?}");
}

#[test]
fn spills_are_seen() {
    if skipped() {
        return;
    }
    // 64 registers a thread, and more values that live at the same time.
    let mut source = "extern \"C\" __global__ void __launch_bounds__(1024) spilling(float* x) {\n".to_string();
    for i in 0..150 {
        writeln!(source, "float v{i} = x[threadIdx.x + {}];", i * 1024).unwrap();
    }
    source += "__syncthreads();\n";
    for i in 0..150 {
        writeln!(source, "x[threadIdx.x + {}] = v{i} * v{};", i * 1024, (i * 7 + 1) % 150).unwrap();
    }
    source += "}\n";
    let spilling = text("spilling.cu", &source, 1024, 0);
    let figures = compile(std::slice::from_ref(&spilling), &ARCHS[1..2], &folder("spills")).unwrap_or_else(|e| panic!("{e}"));
    let reasons = over_budget(&spilling, &figures[0], &ARCHS[1]);
    assert!(reasons[0].contains("are spilled"), "{reasons:?} {figures:?}");
}

#[test]
fn text_that_does_not_compile() {
    if skipped() {
        return;
    }
    let broken = text("broken.cu", "extern \"C\" __global__ void broken() { float x = y; }", 32, 0);
    let error = compile(&[broken], &ARCHS[..1], &folder("broken")).unwrap_err();
    assert!(matches!(&error, Error::Refused { name, .. } if name == "broken.cu"), "{error}");
    assert!(error.to_string().contains("identifier \"y\" is undefined"), "{error}");
}
