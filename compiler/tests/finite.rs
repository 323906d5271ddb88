//! `finite` replaces NaN and infinities on every level, and no gradient passes there.

mod support;

use support::{difference, made_up, model, project};
use wmc_compiler::backend::Device;
use wmc_compiler::kernel::fuse::Level;
use wmc_compiler::lower::Entry;
use wmc_compiler::run::{Call, Kernels, Tensors, call};

#[test]
fn every_level_replaces_the_same_numbers() {
    let model = model(&project("compiler/tests/finite.wm"), &[("O", 5), ("A", 1)]);
    let run = Call { entry: Entry::TrainStep, observe: true, double: true, ..Call::default() };
    let given: Tensors = made_up(&model, &run);
    let exact = call(&model, &run, &given).unwrap_or_else(|e| panic!("{e}"));
    let (x, log, huge) = (&exact["value.x"].data, &exact["value.near"].data, &exact["value.far"].data);
    assert!(x.iter().any(|x| *x < 0.0) && x.iter().any(|x| *x > 0.0), "{x:?}");
    for ((x, log), huge) in x.iter().zip(log).zip(huge) {
        assert_eq!((*log, *huge), if *x < 0.0 { (0.25, -7.0) } else { (x.ln(), 7.0) });
    }
    assert!(exact.iter().filter(|(name, _)| name.starts_with("grad.")).any(|(_, g)| g.data.iter().any(|x| *x != 0.0)));
    for level in Level::ALL {
        let run = Call { double: false, kernels: Some(Kernels { level, threads: 1, device: Device::Cpu }), ..run };
        let found = call(&model, &run, &given).unwrap_or_else(|e| panic!("{level:?}: {e}"));
        for (name, wanted) in exact.iter().filter(|(name, _)| !name.starts_with("next.")) {
            let apart = difference(&found[name], wanted);
            assert!(apart < 1e-5, "{level:?}: {name} is off by {apart:e}");
        }
    }
}
