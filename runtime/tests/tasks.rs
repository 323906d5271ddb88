//! Tasks against trajectories of the DeepMind Control Suite.

use std::path::Path;

use dsl::hir::Setting;
use safetensors::SafeTensors;
use wmc_runtime::tasks::cartpole::Cartpole;
use wmc_runtime::tasks::mujoco::{Dmc, Installed, Start, described, install};
use wmc_runtime::tasks::reacher::Reacher;
use wmc_runtime::tasks::scene::{Part, Shape};
use wmc_runtime::tasks::suite::{self, TASKS};
use wmc_runtime::tasks::{Environment, Length, Perturbation, Settings, Task, TaskError};

/// Trajectories of one task.
struct Golden(Vec<u8>);

impl Golden {
    fn read(task: &str) -> Golden {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/golden/dmc/{task}.safetensors"));
        Golden(std::fs::read(path).unwrap())
    }

    /// The rows of one trajectory.
    fn rows(&self, name: &str, trajectory: usize) -> Vec<Vec<f64>> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap();
        let numbers: Vec<f64> = tensor.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect();
        let shape = tensor.shape();
        let one = numbers.len() / shape[0];
        let width = if shape.len() > 2 || name.ends_with('0') || name == "target_xy" { shape[shape.len() - 1] } else { 1 };
        numbers[trajectory * one..(trajectory + 1) * one].chunks(width).map(<[f64]>::to_vec).collect()
    }
}

/// The largest difference of observations and rewards along a trajectory.
fn worst(task: &mut dyn Task, golden: &Golden, trajectory: usize) -> f64 {
    let (seen, rewards) = (golden.rows("obs", trajectory), golden.rows("rewards", trajectory));
    let mut observation = vec![0.0; task.spec().observation];
    let mut worst: f64 = 0.0;
    let mut compare = |a: &[f64], b: &[f64]| {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b).for_each(|(a, b)| worst = worst.max((a - b).abs()));
    };
    for (t, action) in golden.rows("actions", trajectory).iter().enumerate() {
        task.observe(&mut observation);
        compare(&observation, &seen[t]);
        let outcome = task.step(action).unwrap();
        compare(&[outcome.reward], &rewards[t]);
    }
    task.observe(&mut observation);
    compare(&observation, &seen[seen.len() - 1]);
    worst
}

#[test]
fn embedded_tasks_agree_with_the_suite() {
    for (name, mut task) in
        [("cartpole_swingup", Box::new(Cartpole::default()) as Box<dyn Task>), ("reacher_easy", Box::new(Reacher::default()))]
    {
        let golden = Golden::read(name);
        for trajectory in 0..3 {
            let start = |field| golden.rows(field, trajectory).concat();
            let mut state = [start("qpos0"), start("qvel0")].concat();
            if name == "reacher_easy" {
                state.extend(start("target_xy"));
            }
            task.restore(&state).unwrap();
            let worst = worst(&mut *task, &golden, trajectory);
            assert!(worst < 1e-6, "{name} {trajectory}: {worst:e}");
        }
    }
}

/// MuJoCo, which is fetched where it is missing. None, said aloud, where it cannot be.
fn mujoco() -> Option<Installed> {
    install::install(|_| {}).inspect_err(|error| eprintln!("SKIPPED, no MuJoCo: {error}")).ok()
}

#[test]
fn mujoco_tasks_agree_with_the_suite() {
    let Some(installed) = mujoco() else { return };
    for (name, bound) in [("cartpole_swingup", 1e-9), ("reacher_easy", 1e-9), ("cheetah_run", 1e-9), ("finger_spin", 1e-6)] {
        let golden = Golden::read(name);
        let mut task = Dmc::open(name, &installed).unwrap();
        for trajectory in 0..3 {
            let start = |field| golden.rows(field, trajectory).concat();
            let (position, velocity, warm_start) = (start("qpos0"), start("qvel0"), start("qacc_warmstart0"));
            let target = start("target_xy").try_into().unwrap();
            task.start(Start { position: &position, velocity: &velocity, warm_start: &warm_start, target });
            let worst = worst(&mut task, &golden, trajectory);
            assert!(worst <= bound, "{name} {trajectory}: {worst:e}");
            for (field, found) in [("qpos", task.position()), ("qvel", task.velocity())] {
                let last = golden.rows(field, trajectory).pop().unwrap();
                let error = found.iter().zip(&last).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(error <= bound, "{name} {trajectory} {field}: {error:e}");
            }
        }
    }
}

#[test]
fn the_cheetah_settles_as_in_the_suite() {
    let Some(installed) = mujoco() else { return };
    let golden = Golden::read("cheetah_run");
    let mut task = Dmc::open("cheetah_run", &installed).unwrap();
    for trajectory in 0..3 {
        task.settle(&golden.rows("qpos_prestab", trajectory).concat());
        for (field, found) in [("qpos0", task.position()), ("qvel0", task.velocity())] {
            let wanted = golden.rows(field, trajectory).concat();
            let error = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(error < 1e-9, "{field} {trajectory}: {error:e}");
        }
    }
}

/// Embedded tasks, and MuJoCo's where it is there.
fn all() -> Vec<(String, Settings)> {
    let settings = |physics: &str| Settings {
        physics: Some(physics.into()),
        repeat: 2,
        length: Length::Decisions(40),
        ..Settings::default()
    };
    let mujoco = mujoco().is_some();
    let mut all = Vec::new();
    for task in TASKS {
        all.extend(task.embedded.then(|| (task.name.to_string(), settings("embedded"))));
        all.extend((task.mujoco && mujoco).then(|| (task.name.to_string(), settings("mujoco"))));
    }
    all
}

fn action(task: &Environment, i: u32) -> Vec<f64> {
    (0..task.spec().action).map(|k| (f64::from(i) * 0.7 + k as f64).sin()).collect()
}

#[test]
fn an_episode_is_a_function_of_its_seed() {
    for (name, settings) in all() {
        let make = |seed| Environment::new(suite::task(&name, &settings).unwrap(), settings.clone(), seed).unwrap();
        let (mut a, mut b, c) = (make(3), make(4), make(4));
        assert_ne!(a.observation(), b.observation(), "{name}");
        assert_eq!(b.observation(), c.observation(), "{name}");
        // After another episode, too.
        (0..5).for_each(|i| _ = b.step(action(&b, i)).unwrap());
        b.reset(3).unwrap();
        for i in 0..30 {
            assert_eq!(a.step(action(&a, i)).unwrap(), b.step(action(&b, i)).unwrap(), "{name} at {i}");
            assert_eq!(a.observation(), b.observation(), "{name} at {i}");
        }
    }
}

#[test]
fn every_task_goes_on_from_a_saved_state_to_the_same_bits() {
    for (name, settings) in all() {
        let make = |seed| Environment::new(suite::task(&name, &settings).unwrap(), settings.clone(), seed).unwrap();
        let (mut one, mut other) = (make(3), make(99));
        for i in 0..17 {
            one.step(action(&one, i)).unwrap();
        }
        other.restore(&one.save()).unwrap();
        for i in 17..40 {
            assert_eq!(one.observation(), other.observation(), "{name} at {i}");
            assert_eq!(one.step(action(&one, i)).unwrap(), other.step(action(&other, i)).unwrap(), "{name} at {i}");
        }
        assert!(other.restore(&one.save()[1..]).is_err(), "{name}");
    }
}

#[test]
fn perturbations_change_what_happens() {
    for (name, settings) in all() {
        let make = || Environment::new(suite::task(&name, &settings).unwrap(), settings.clone(), 3).unwrap();
        let course = |mut task: Environment| -> Vec<f64> {
            task.reset(5).unwrap();
            (0..40)
                .flat_map(|i| {
                    task.step(action(&task, i)).unwrap();
                    task.observation().to_vec()
                })
                .collect()
        };
        let nominal = course(make());
        for change in Perturbation::of_task(&name) {
            let mut task = make();
            task.perturb(change).unwrap();
            let changed = course(task);
            let moved = nominal.iter().zip(&changed).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            // Finger's friction counts only while it touches the spinner.
            let needs_contact = matches!(change, Perturbation::Friction(_));
            assert!(moved > 1e-9 || needs_contact, "{name}: {change} changed nothing");
        }
        let mut task = make();
        task.perturb(Perturbation::Kick(5.0)).unwrap();
        task.reset(5).unwrap();
        let mut calm = make();
        calm.reset(5).unwrap();
        assert_ne!(task.observation(), calm.observation(), "{name}: kick");
    }
    assert!(Perturbation::parse("mass=0").is_err() && Perturbation::parse("mask=2").is_err());
    assert!(Perturbation::parse("wind=1").is_err() && Perturbation::parse("mass").is_err());
    assert_eq!(Perturbation::parse("delay=2"), Ok(Perturbation::Delay(2)));
}

/// A reset of Finger sets the damping of its hinge.
#[test]
fn damping_is_changed_also_where_a_reset_sets_it() {
    let Some(installed) = mujoco() else { return };
    let spin = |changes: &[Perturbation]| {
        let mut task = Dmc::open("finger_spin", &installed).unwrap();
        changes.iter().for_each(|change| task.perturb(*change).unwrap());
        task.reset(5).unwrap();
        let before = task.velocity()[2];
        (0..5).for_each(|_| _ = task.step(&[0.0; 2]).unwrap());
        (before, task.velocity()[2])
    };
    let kicked = Perturbation::Kick(5.0);
    let ((a, damped), (b, free)) = (spin(&[kicked]), spin(&[kicked, Perturbation::Damping(0.0)]));
    assert!(a == b && a != 0.0);
    assert!(free.abs() > damped.abs(), "{a} {damped} {free}");
}

#[test]
fn every_task_can_be_seen() {
    for (name, settings) in all() {
        let mut task = Environment::new(suite::task(&name, &settings).unwrap(), settings.clone(), 3).unwrap();
        let before = task.scene().unwrap();
        (0..5).for_each(|i| _ = task.step(action(&task, i)).unwrap());
        let after = task.scene().unwrap();
        assert_ne!(before, after, "{name}");
        for shape in before.shapes.iter().chain(&after.shapes) {
            let (low, high) = shape.form.bounds();
            assert!(
                [low, high].concat().iter().all(|x| x.abs() < 100.0) && low[0] < high[0] && low[1] < high[1],
                "{name}: {shape:?}"
            );
        }
    }
}

/// The embedded reacher and MuJoCo's look the same.
#[test]
fn a_scene_of_mujoco_is_where_its_bodies_are() {
    let Some(installed) = mujoco() else { return };
    let mut task = Dmc::open("reacher_easy", &installed).unwrap();
    task.start(Start { position: &[0.3, -0.8], velocity: &[0.0; 2], warm_start: &[0.0; 2], target: [0.1, -0.05] });
    let mut own = Reacher::default();
    own.restore(&[0.3, -0.8, 0.0, 0.0, 0.1, -0.05]).unwrap();
    let (theirs, ours) = (task.scene().unwrap(), own.scene().unwrap());
    // Target, arm, hand and finger.
    for shape in ours.shapes.iter().filter(|s| s.part != Part::World) {
        let near = |other: &&Shape| {
            let ((a, b), (c, d)) = (shape.form.bounds(), other.form.bounds());
            [a, b].concat().iter().zip([c, d].concat()).all(|(x, y)| (x - y).abs() < 1e-6)
        };
        assert!(theirs.shapes.iter().any(|other| near(&other)), "{shape:?} {theirs:?}");
    }
    assert!(theirs.shapes.iter().any(|s| s.part == Part::Target));
}

#[test]
fn friction_of_both_sides_changes_a_spin() {
    let Some(installed) = mujoco() else { return };
    let golden = Golden::read("finger_spin");
    let course = |change: Option<Perturbation>| {
        let mut task = Dmc::open("finger_spin", &installed).unwrap();
        if let Some(change) = change {
            task.perturb(change).unwrap();
        }
        let start = |field| golden.rows(field, 1).concat();
        task.start(Start {
            position: &start("qpos0"),
            velocity: &start("qvel0"),
            warm_start: &start("qacc_warmstart0"),
            target: [0.0; 2],
        });
        golden.rows("actions", 1).iter().for_each(|a| _ = task.step(a).unwrap());
        task.position().to_vec()
    };
    let nominal = course(None);
    for factor in [0.5, 1.5] {
        assert_ne!(nominal, course(Some(Perturbation::Friction(factor))), "{factor}");
    }
}

/// A mass of 1 kg that a motor of 2 N moves along a line.
const SLIDER: &str = r#"<mujoco><worldbody><body><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/><site name="s"/></body></worldbody>
    <actuator><motor joint="x" gear="2" ctrllimited="true" ctrlrange="-1 1"/></actuator>
    <sensor><jointpos name="place" joint="x"/><jointvel name="speed" joint="x"/></sensor></mujoco>"#;

#[test]
fn any_mjcf_model_is_a_task() {
    let Some(_) = mujoco() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("slider.xml");
    std::fs::write(&file, SLIDER).unwrap();
    let text = |t: &str| Setting::Text(t.into());
    let settings = |rewards: &str| {
        Settings::of(&dsl::hir::Task {
            name: "slider".into(),
            protocol: "mine".into(),
            dims: Vec::new(),
            settings: vec![
                ("rewards".into(), Setting::List(vec![text(rewards)])),
                ("ends_below".into(), Setting::List(vec![text("place -0.05")])),
                ("control_cost".into(), Setting::Number(0.5)),
                ("substeps".into(), Setting::Number(5.0)),
                ("mjcf".into(), text(&file.display().to_string())),
            ],
        })
        .unwrap()
    };
    let rules = settings("speed 3");
    let mut task = Environment::new(suite::task("slider", &rules).unwrap(), rules, 1).unwrap();
    assert_eq!((task.spec().observation, task.spec().action), (4, 1));
    let outcome = task.step([0.5]).unwrap();
    // Five steps of 2 ms at 1 m/s^2.
    assert!((task.observation()[1] - 0.01).abs() < 1e-12, "{:?}", task.observation());
    assert!((outcome.reward - (3.0 * 0.01 - 0.5 * 0.25)).abs() < 1e-12 && !outcome.terminal, "{outcome:?}");
    let ended = (0..200).find(|_| task.step([-1.0]).unwrap().terminal);
    assert!(ended.is_some() && task.observation()[0] < -0.05);
    let rules = settings("height 1");
    let told = suite::task("slider", &rules).unwrap_err().to_string();
    assert!(told.contains("no sensor `height`"), "{told}");
    std::fs::write(&file, "<mujoco").unwrap();
    assert!(suite::task("slider", &rules).unwrap_err().to_string().contains("cannot read the model"));
    let without = dsl::hir::Task {
        name: "slider".into(),
        protocol: "mine".into(),
        dims: Vec::new(),
        settings: vec![("noise".into(), Setting::Number(1.0))],
    };
    assert!(Settings::of(&without).is_err());
}

#[test]
fn a_description_beside_an_mjcf_model_is_a_task() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let (xml, toml) = (folder.path().join("slider.xml"), folder.path().join("slider.toml"));
    let rules = "length = 30\nsubsteps = 5\ncontrol_cost = 0.5\nobserve = ['speed', 'push', 'positions']\nrewards = { speed = 3 }\nends_below = { place = -0.05 }\n";
    let told = |text: &str| {
        put("slider.toml", text);
        described::settings("mine", &toml).unwrap_err().to_string()
    };
    assert!(told("length = 30").contains("it has no `rewards`"));
    assert!(told("lenght = 30").contains("no setting `lenght`"));
    assert!(told("length = ").contains("slider.toml"));
    assert!(told("rewards = { speed = 'much' }").contains("`rewards`"));
    assert!(told("model = 3").contains("`model`"));
    put("slider.toml", rules);
    let settings = described::settings("mine", &xml).unwrap();
    assert_eq!(settings, described::settings("mine", &toml).unwrap());
    assert_eq!((settings.decisions(), &settings.mjcf.as_ref().unwrap().file), (30, &xml.display().to_string()));
    let Some(_) = mujoco() else { return };
    put("slider.xml", &SLIDER.replace("</sensor>", "<accelerometer name=\"push\" site=\"s\"/></sensor>"));
    let mut task = Environment::new(suite::task("mine", &settings).unwrap(), settings, 1).unwrap();
    // One number of the speed, three of the accelerometer, one position.
    assert_eq!((task.spec().observation, task.spec().action), (5, 1));
    task.step([0.5]).unwrap();
    let seen = task.observation();
    assert!((seen[0] - 0.01).abs() < 1e-12 && (seen[1] - 1.0).abs() < 1e-9, "{seen:?}");
    assert!(seen[4] > 0.0 && seen[4] < 1e-4, "{seen:?}");
    let texts = described::texts("mine", &xml).unwrap();
    assert!(texts[0] == rules && texts[1].contains("accelerometer"));
}

#[test]
fn a_kicked_cartpole_without_damping_keeps_its_energy() {
    let mut task = Cartpole::default();
    task.perturb(Perturbation::Damping(0.0)).unwrap();
    task.perturb(Perturbation::Kick(0.5)).unwrap();
    task.reset(1).unwrap();
    let before = task.energy().unwrap();
    (0..100).for_each(|_| _ = task.step(&[0.0]).unwrap());
    assert!((task.energy().unwrap() - before).abs() < 1e-6, "{before} {:?}", task.energy());
}

/// MuJoCo sets the state back where numbers are bad, so that observations stay finite; its warnings tell.
#[test]
fn an_mjcf_model_that_diverges_ends_the_episode_with_an_error() {
    let Some(_) = mujoco() else { return };
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str, model: &str| {
        let file = folder.path().join(format!("{name}.xml"));
        std::fs::write(&file, model).unwrap();
        std::fs::write(file.with_extension("toml"), "length = 30\nrewards = { speed = 1.0 }\n").unwrap();
        let task = format!("mjcf:{}", file.display());
        let settings = described::settings(&task, &file).unwrap();
        suite::task(&task, &settings).unwrap()
    };
    let steps = |task: &mut dyn Task, action: f64| -> Result<(), TaskError> {
        task.reset(1)?;
        (0..20).try_for_each(|_| task.step(&[action]).map(|_| ()))
    };
    for (name, from, to) in
        [("gear", "gear=\"2\"", "gear=\"1e30\""), ("timestep", "<mujoco>", "<mujoco><option timestep=\"nan\"/>")]
    {
        assert!(SLIDER.contains(from), "{from}");
        let mut task = open(name, &SLIDER.replacen(from, to, 1));
        for _ in 0..2 {
            let told = steps(task.as_mut(), 1.0).unwrap_err();
            assert!(matches!(&told, TaskError::Diverged { .. }), "{name}: {told}");
        }
    }
    // Without a force it stays where it is, after a divergence too.
    let mut task = open("still", &SLIDER.replacen("gear=\"2\"", "gear=\"1e30\"", 1));
    steps(task.as_mut(), 1.0).unwrap_err();
    steps(task.as_mut(), 0.0).unwrap();
}
