//! What a machine has for training and planning.

use crate::tasks::mujoco::{self, install};

/// Something that was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub what: &'static str,
    pub found: String,
    /// What to do, where something is missing.
    pub advice: Option<String>,
}

pub fn examine() -> Vec<Finding> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let fine = |what, found: String| Finding { what, found, advice: None };
    let mut all = vec![
        fine("wmc", env!("CARGO_PKG_VERSION").into()),
        fine("system", format!("{} on {}", std::env::consts::OS, std::env::consts::ARCH)),
        fine("processor", format!("{threads} threads; kernels use {}", instruction_set())),
    ];
    for (what, names) in [
        ("CUDA driver", &["libcuda.so.1", "nvcuda.dll"][..]),
        ("CUDA compiler", &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]),
        ("Vulkan", &["libvulkan.so.1", "vulkan-1.dll", "libvulkan.1.dylib"]),
    ] {
        let found = names.iter().find(|name| opens(name));
        all.push(match found {
            Some(name) => fine(what, format!("{name} (kernels of this version run on the processor)")),
            None => fine(what, "not found; not needed, kernels of this version run on the processor".into()),
        });
    }
    all.push(match mujoco::installed() {
        Ok(places) => match mujoco::version(&places) {
            Ok(version) => fine("MuJoCo", format!("{version} in {}", places.library.display())),
            Err(error) => Finding { what: "MuJoCo", found: error.to_string(), advice: Some(advice()) },
        },
        Err(error) => Finding { what: "MuJoCo", found: error.to_string(), advice: Some(advice()) },
    });
    all
}

fn advice() -> String {
    format!("`wmc tasks install` fetches {}; the embedded tasks need nothing", install::VERSION)
}

/// What kernels are made of here: the smallest program there is tells.
fn instruction_set() -> &'static str {
    let program = compiler::ir::Program::default();
    let instance = compiler::kernel::fuse::fuse(&program, compiler::kernel::fuse::Level::Mega)
        .ok()
        .and_then(|kernels| compiler::backend::cpu::Instance::new(&kernels, 1).ok());
    instance.map_or("unknown", |i| i.instruction_set())
}

fn opens(name: &str) -> bool {
    // SAFETY: libraries of drivers, whose initialisers have no conditions.
    unsafe { libloading::Library::new(name) }.is_ok()
}
