//! Training and planning on a device, as on the processor. Mesa's driver in software will do (`.ci/vulkan`); where there is no
//! driver the tests say that they were skipped, and `REQUIRE_VULKAN=1` makes that a failure.

#![cfg(feature = "vulkan")]

mod common;

use common::{ppo, starter};
use wmc_runtime::device::{Device, Wanted};
use wmc_runtime::policy::Policy;
use wmc_runtime::program::State;
use wmc_runtime::train::{Config, Snapshot, Trainer};

/// A Vulkan device, one in software if there is one.
fn vulkan() -> Option<Device> {
    let found = (0..compiler::backend::count_vulkan()).map(Device::Vulkan);
    let software = |device: &Device| compiler::backend::probe(*device).is_ok_and(|found| found.software);
    let device = found.clone().find(software).or(found.clone().next());
    if device.is_none() {
        assert!(std::env::var("REQUIRE_VULKAN").is_err(), "there is no Vulkan device; .ci/vulkan installs one in software");
        eprintln!("SKIPPED: there is no Vulkan device; .ci/vulkan installs one in software");
    }
    device
}

fn on(config: &Config, device: Device) -> Trainer {
    let mut config = config.clone();
    config.compute.device = device;
    Trainer::new(config).unwrap()
}

fn train(trainer: &mut Trainer, until: u64) -> Snapshot {
    while trainer.step() < until {
        trainer.advance().unwrap();
    }
    trainer.save().unwrap()
}

/// The largest difference of two states, relative to the largest number of a tensor.
fn distance(a: &State, b: &State) -> (f32, String) {
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    let mut worst = (0.0, String::new());
    for (name, x) in a {
        let y = &b[name];
        let largest = y.data.iter().fold(1e-6f32, |m, v| m.max(v.abs()));
        for (p, q) in x.data.iter().zip(&y.data) {
            let d = (p - q).abs() / largest;
            if d > worst.0 || d.is_nan() {
                worst = (d, name.clone());
            }
        }
    }
    worst
}

/// Updates on the same data: actions of the seed steps are drawn, whoever computes.
#[test]
fn updates_agree_with_the_processor() {
    let Some(device) = vulkan() else { return };
    for mut config in [starter(), ppo()] {
        // What was drawn is learnt from; the model's own decisions come at the very end.
        let until = if config.train.seed_steps > 0 { config.train.seed_steps + 3 } else { 34 };
        config.train.eval_every = 1000;
        let (mut one, mut other) = (on(&config, Device::Cpu), on(&config, device));
        let (cpu, vulkan) = (train(&mut one, until), train(&mut other, until));
        assert!(cpu.counters.updates > 0 && cpu.counters.updates == vulkan.counters.updates, "{:?}", cpu.counters);
        for ((name, x), (_, y)) in one.losses().zip(other.losses()) {
            assert!((x - y).abs() <= 1e-3 * x.abs().max(1.0), "{}: {name} is {y} for {x}", config.model.name);
        }
        let (d, name) = distance(&vulkan.learnt, &cpu.learnt);
        assert!(d < 3e-2, "{}: `{name}` differs by {d}", config.model.name);
        assert!(distance(&vulkan.memory, &cpu.memory).0 < 1e-2);
        // The device has a name of its own, and memory.
        assert_ne!(one.computes_with(), other.computes_with());
        assert!(other.bytes().0 > 0);
    }
}

/// What is downloaded for a checkpoint is all that there is: a run goes on from it to the same bits.
#[test]
fn a_run_on_a_device_goes_on_to_the_same_bits() {
    let Some(device) = vulkan() else { return };
    let config = starter();
    let whole = train(&mut on(&config, device), 50);
    assert!(!whole.counters.evaluations.is_empty());
    let half = train(&mut on(&config, device), 33);
    let mut again = on(&config, device);
    train(&mut again, 25);
    again.restore(&half).unwrap();
    assert_eq!(train(&mut again, 50), whole);
}

#[test]
fn plans_agree_with_the_processor() {
    let Some(device) = vulkan() else { return };
    let config = starter();
    let learnt = train(&mut on(&config, Device::Cpu), 40).learnt;
    let policy = |device| {
        let mut compute = config.compute;
        compute.device = device;
        Policy::new(&config.model, &learnt, 0.5, 3, compute).unwrap()
    };
    let (mut one, mut other) = (policy(Device::Cpu), policy(device));
    for step in 0..12 {
        if step == 7 {
            one.reset().unwrap();
            other.reset().unwrap();
        }
        let angle = f64::from(step) * 0.3;
        let seen = [angle.cos(), angle.sin(), 0.1 * f64::from(step)];
        let (a, b) = (one.plan(&seen).unwrap(), other.plan(&seen).unwrap());
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 2e-3), "step {step}: {b:?} for {a:?}");
    }
}

#[test]
fn devices_that_are_not_there() {
    let error = Wanted::This(Device::Vulkan(1000)).choose().unwrap_err().to_string();
    assert!(error.contains("Vulkan device 1000"), "{error}");
    let mut config = starter();
    config.compute.device = Device::Vulkan(1000);
    assert!(Trainer::new(config).unwrap_err().to_string().contains("Vulkan device 1000"));
    // Software is no better than the processor itself.
    if Device::Vulkan(0) == vulkan().unwrap_or_default() && compiler::backend::count_vulkan() == 1 {
        assert_eq!(Wanted::Auto.choose(), Ok(Device::Cpu));
    }
}
