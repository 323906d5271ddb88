//! The loop on small models: the same bits again, after a pause, on any number of threads; what goes wrong is said.

mod common;

use std::path::Path;

use common::{STARTER, checked, config, ppo, starter};
use wmc_runtime::actor::Actor;
use wmc_runtime::checkpoint;
use wmc_runtime::learner::Learner;
use wmc_runtime::policy::Policy;
use wmc_runtime::run::{Identity, Run, Texts};
use wmc_runtime::tasks::TaskError;
use wmc_runtime::train::{Config, Evaluator, Snapshot, Trainer};
use wmc_runtime::{Error, program::Compute};

fn train(trainer: &mut Trainer, until: u64) -> Snapshot {
    while trainer.step() < until {
        trainer.advance().unwrap();
    }
    trainer.save().unwrap()
}

#[test]
fn a_run_that_is_interrupted_goes_on_to_the_same_bits() {
    for config in [starter(), ppo()] {
        let steps = config.train.steps;
        let whole = train(&mut Trainer::new(config.clone()).unwrap(), steps);
        assert!(whole.counters.updates > 4, "{:?}", whole.counters);
        // In the middle of an episode, at its end, in seed steps, right after an update.
        for pause in [7, 15, 33, 40, 61] {
            let half = train(&mut Trainer::new(config.clone()).unwrap(), pause);
            let mut again = Trainer::new(config.clone()).unwrap();
            // Another past must leave no trace.
            train(&mut again, 5);
            again.restore(&half).unwrap();
            assert_eq!(train(&mut again, steps), whole, "{} paused at {pause}", config.model.name);
        }
    }
}

#[test]
fn threads_change_no_bit_and_seeds_change_all() {
    let run = |threads, seed| {
        let mut config = starter();
        config.compute.threads = threads;
        config.seed = seed;
        train(&mut Trainer::new(config).unwrap(), 60)
    };
    assert_eq!(run(1, 7), run(3, 7));
    assert_ne!(run(1, 7).learnt, run(1, 8).learnt);
}

#[test]
fn evaluations_leave_no_trace_in_the_training() {
    let run = |every: &str| {
        let mut config = starter();
        config.set("eval_every", every).unwrap();
        train(&mut Trainer::new(config).unwrap(), 60)
    };
    let (often, seldom) = (run("10"), run("1000"));
    assert_eq!((often.learnt, often.memory, often.experience), (seldom.learnt, seldom.memory, seldom.experience));
    assert_eq!((often.counters.evaluations.len(), seldom.counters.evaluations.len()), (6, 0));
}

#[test]
fn training_lowers_the_losses_and_updates_come_when_they_are_due() {
    let mut trainer = Trainer::new(starter()).unwrap();
    let loss = |t: &Trainer| t.losses().find(|(n, _)| *n == "loss.recon").unwrap().1;
    train(&mut trainer, 21);
    // After the seed steps, one after each decision.
    assert_eq!(trainer.updates(), 1);
    let before = loss(&trainer);
    train(&mut trainer, 80);
    assert_eq!(trainer.updates(), 60);
    assert!(loss(&trainer) < before, "{before} {}", loss(&trainer));
}

#[test]
fn what_goes_wrong_is_said() {
    let error = |config: Config| -> Error {
        let mut trainer = match Trainer::new(config) {
            Ok(trainer) => trainer,
            Err(error) => return error,
        };
        loop {
            match trainer.advance() {
                Err(error) => return error,
                Ok(_) => assert!(!trainer.done(), "it went well"),
            }
        }
    };
    // Episodes that are shorter than a segment.
    let mut short = starter();
    short.set("length", "1").unwrap();
    short.set("steps", "1000").unwrap();
    assert!(matches!(error(short), Error::NoSegment { time: 4, .. }));
    // A task of another size.
    let mut other = starter();
    other.task = "cartpole_swingup".into();
    assert!(matches!(error(other), Error::Task(TaskError::Size { found: 5, wanted: 3, .. })));
    // A loss that explodes names the place in the text.
    let text = STARTER
        .replace("loss dyn    1.0 = sq(", "loss dyn    1.0 = log(-1 - sq(")
        .replace("z[t+1]))\n  loss reward", "z[t+1])))\n  loss reward");
    let config = config(&text, "pendulum_swingup", &[("B", 4)], &[("seed_steps", "20"), ("steps", "80")]);
    let Error::NotFinite { what, span: Some(span), .. } = error(config) else { panic!("another error") };
    assert_eq!(what, "loss.dyn");
    let sources = checked(&text, "pendulum_swingup", &[]).sources;
    let line = sources.line_col(span.file, span.lo).line as usize;
    assert!(text.lines().nth(line - 1).unwrap().contains("log(-1"), "line {line}");
    // Settings.
    let mut config = starter();
    for (name, value) in [("stepps", "5"), ("steps", "0"), ("steps", "many"), ("repeat", "0"), ("reward", "best"), ("mask", "2")]
    {
        assert!(config.set(name, value).is_err(), "{name}={value}");
    }
    assert_eq!(config.set("repeat", "3").unwrap().from, "2");
}

/// A run in a folder, with checkpoints at these steps.
fn run_with(folder: &Path, steps: &[u64]) -> (Run, Vec<Snapshot>) {
    let config = starter();
    let dims = [("S", 4), ("H", 3), ("B", 4), ("T", 4)].map(|(n, s)| (n.to_string(), s)).to_vec();
    let set = vec![("steps".to_string(), "80".to_string()), ("seed_steps".to_string(), "20".to_string())];
    let texts = Texts { file: "starter.wm".into(), text: STARTER.into(), imports: Vec::new() };
    let run = Run::create(folder, &Identity::new("starter.wm", &config, dims, set), &texts).unwrap();
    let mut trainer = Trainer::new(run.config.clone()).unwrap();
    let snapshots = steps.iter().map(|step| {
        let snapshot = train(&mut trainer, *step);
        let manifest = checkpoint::manifest(&snapshot, &run.fingerprint, trainer.computes_with(), 0);
        checkpoint::write(&run.checkpoints(), &manifest, &snapshot, 2).unwrap();
        snapshot
    });
    let snapshots = snapshots.collect();
    (run, snapshots)
}

#[test]
fn checkpoints_come_back_whole_or_the_one_before_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let (run, snapshots) = run_with(folder.path(), &[10, 30, 50]);
    let names = |run: &Run| -> Vec<String> {
        checkpoint::list(&run.checkpoints()).iter().map(|p| p.file_name().unwrap().to_string_lossy().into()).collect()
    };
    assert_eq!(names(&run), ["000000000030", "000000000050"]);
    let (place, _, newest, unused) = run.newest().unwrap();
    assert_eq!((&newest, unused.len()), (&snapshots[2], 0));
    for (file, harm) in [
        ("learnt.safetensors", "cut"),
        ("world.safetensors", "flip"),
        ("manifest.json", "flip"),
        ("SHA256SUMS", "cut"),
        ("world.safetensors", "remove"),
    ] {
        let path = place.join(file);
        let good = std::fs::read(&path).unwrap();
        let mut bad = good.clone();
        match harm {
            "cut" => bad.truncate(good.len() / 2),
            "flip" => bad[good.len() / 2] ^= 1,
            _ => {}
        }
        if harm == "remove" {
            std::fs::remove_file(&path).unwrap()
        } else {
            std::fs::write(&path, bad).unwrap()
        }
        let (_, _, used, reasons) = run.newest().unwrap();
        assert_eq!(used, snapshots[1], "{file} {harm}");
        assert!(reasons.len() == 1 && reasons[0].contains("000000000050"), "{reasons:?}");
        std::fs::write(&path, good).unwrap();
    }
    assert_eq!(run.newest().unwrap().2, snapshots[2]);
    // What a killed run left behind is no checkpoint.
    let draft = run.checkpoints().join(".draft-1");
    std::fs::create_dir(&draft).unwrap();
    assert_eq!(run.newest().unwrap().2, snapshots[2]);
    wmc_runtime::disk::discard_drafts(&run.checkpoints());
    assert!(!draft.exists());
}

#[test]
fn a_checkpoint_of_another_model_or_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (run, snapshots) = run_with(folder.path(), &[10]);
    let place = checkpoint::list(&run.checkpoints()).pop().unwrap();
    let told = checkpoint::read(&place, "another").unwrap_err().to_string();
    assert!(told.contains("another model"), "{told}");
    let mut manifest = checkpoint::manifest(&snapshots[0], &run.fingerprint, "avx2", 0);
    (manifest.format, manifest.version) = (3, "9.1".into());
    std::fs::remove_dir_all(&place).unwrap();
    // What cannot be read back is not kept.
    let told = checkpoint::write(&run.checkpoints(), &manifest, &snapshots[0], 2).unwrap_err().to_string();
    assert_eq!(checkpoint::list(&run.checkpoints()), Vec::<std::path::PathBuf>::new());
    assert!(told.contains("wmc 9.1 wrote it: its format is 3, and this program reads 1 to 2"), "{told}");
    // An edited model is another model.
    let file = folder.path().join("model/starter.wm");
    std::fs::write(&file, STARTER.replace("gamma = 0.97", "gamma = 0.98")).unwrap();
    assert_ne!(Run::open(folder.path()).unwrap().fingerprint, run.fingerprint);
}

/// The starter model with the reward of the step before beside the observation.
fn with_last_reward() -> String {
    let text = STARTER.replace("encoder(obs)  ->", "encoder(obs, prev: []) ->");
    text.replace("z[t]    = encoder(obs[t])", "z[t]    = encoder(obs[t], r[t-1])   with r[-1] = 0   for t in 0..T")
}

#[test]
fn acting_may_read_the_reward_of_the_step_before() {
    let dims = [("S", 4), ("H", 3), ("B", 4), ("T", 4)];
    let set = [("seed_steps", "20"), ("steps", "80"), ("length", "15"), ("eval_every", "40")];
    let config = config(&with_last_reward(), "pendulum_swingup", &dims, &set);
    let whole = train(&mut Trainer::new(config.clone()).unwrap(), 80);
    // It is remembered, and a pause changes nothing about it.
    let half = train(&mut Trainer::new(config.clone()).unwrap(), 33);
    let last =
        half.experience.rows.chunks(half.experience.rows.len() / half.experience.places.len()).rev().nth(1).unwrap().to_vec();
    assert_eq!(half.memory["carry.r"].data[0], last[3], "{last:?}");
    let mut again = Trainer::new(config.clone()).unwrap();
    again.restore(&half).unwrap();
    assert_eq!(train(&mut again, 80), whole);
    // A policy is told what followed, and what it is told counts.
    let decide = |reward: Option<f64>| {
        let mut policy = Policy::new(&config.model, &whole.learnt, 1.0, 7, Compute::default()).unwrap();
        policy.plan(&[0.6, -0.8, 0.5]).unwrap();
        reward.into_iter().for_each(|r| policy.outcome(r, false).unwrap());
        policy.plan(&[0.6, -0.8, 0.5])
    };
    assert_ne!(decide(Some(0.0)).unwrap(), decide(Some(1.0)).unwrap());
    assert!(decide(None).unwrap_err().to_string().contains("was not told"));
}

/// Segments with a past: other updates than without it, the same after a pause.
#[test]
fn training_may_start_segments_with_what_came_before_them() {
    let dims = [("S", 4), ("H", 3), ("B", 4), ("T", 4)];
    let set = [("seed_steps", "20"), ("steps", "80"), ("length", "15"), ("eval_every", "40")];
    let with = |context: u32| {
        let text = STARTER.replace("replay(capacity = 10_000)", &format!("replay(capacity = 10_000, context = {context})"));
        config(&text, "pendulum_swingup", &dims, &set)
    };
    let whole = train(&mut Trainer::new(with(3)).unwrap(), 80);
    let half = train(&mut Trainer::new(with(3)).unwrap(), 33);
    let mut again = Trainer::new(with(3)).unwrap();
    again.restore(&half).unwrap();
    assert_eq!(train(&mut again, 80), whole);
    let without = train(&mut Trainer::new(with(0)).unwrap(), 80);
    assert_ne!(whole.learnt["param.move.0.weight"], without.learnt["param.move.0.weight"]);
}

#[test]
fn a_run_is_trained_by_one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let (run, _) = run_with(folder.path(), &[10]);
    let held = run.hold().unwrap();
    assert!(matches!(run.hold(), Err(Error::Busy { .. })));
    // Reading is no training.
    run.newest().unwrap();
    // The file of the lock is gone, and the run is still held.
    #[cfg(unix)]
    {
        std::fs::remove_file(folder.path().join("lock")).unwrap();
        assert!(matches!(run.hold(), Err(Error::Busy { .. })));
    }
    drop(held);
    run.hold().unwrap();
}

#[test]
fn folders_that_are_no_runs_are_told_from_runs() {
    let folder = tempfile::tempdir().unwrap();
    let told = |path: &Path| Run::open(path).unwrap_err().to_string();
    assert!(told(&folder.path().join("nowhere")).contains("it is not there"));
    assert!(told(folder.path()).contains("no run.json"));
    let (run, _) = run_with(&folder.path().join("run"), &[10]);
    assert_eq!(Run::open(&checkpoint::list(&run.checkpoints())[0]).unwrap().folder, run.folder);
    std::fs::write(run.folder.join("run.json"), "{").unwrap();
    assert!(told(&run.folder).contains("run.json"));
}

#[test]
fn a_policy_plans_from_what_was_learnt_and_remembers() {
    let folder = tempfile::tempdir().unwrap();
    let (run, snapshots) = run_with(folder.path(), &[30]);
    let mut policy = run.policy().unwrap();
    let observation = [0.6, -0.8, 0.5];
    let (first, second) = (policy.plan(&observation).unwrap(), policy.plan(&observation).unwrap());
    assert!(first.len() == 1 && first[0].abs() <= 1.0);
    assert_ne!(first, second, "the memory and the draws have moved on");
    let model = &run.config.model;
    let mut same = Policy::new(model, &snapshots[0].learnt, 30.0 / 80.0, 7, Compute::default()).unwrap();
    assert_eq!((same.plan(&observation).unwrap(), same.plan(&observation).unwrap()), (first, second));
    assert!(matches!(policy.plan(&[1.0]), Err(Error::Observation { found: 1, wanted: 3 })));
    assert!(matches!(policy.plan(&[1.0, f64::NAN, 0.0]), Err(Error::ObservationNotFinite(1))));
}

/// Metrics are those of what was learnt, whether a learner hands it on or a checkpoint does.
#[test]
fn an_evaluation_from_a_checkpoint_is_the_learners() {
    let mut config = starter();
    config.train.eval_episodes = 2;
    config.set("length", "30").unwrap();
    let learnt = train(&mut Trainer::new(config.clone()).unwrap(), 60).learnt;
    let state = wmc_runtime::program::acting(&config.model, &learnt).unwrap();
    let mut of_checkpoint = Evaluator::new(&config, &state).unwrap();
    let mut followed = Evaluator::new(&config, &wmc_runtime::program::initial(&config.model, 99).unwrap()).unwrap();
    followed.follow(&mut Learner::new(&config.model, &learnt, config.compute).unwrap()).unwrap();
    let (one, other) = (of_checkpoint.run(0, 60, 0.5).unwrap(), followed.run(0, 60, 0.5).unwrap());
    assert!(!one.metrics.is_empty());
    assert_eq!(one, other);
}

/// The programs themselves go back to the start where `first` says so, before the planner reads what is remembered.
#[test]
fn first_resets_memory_and_planner_before_planning() {
    let model = starter().model;
    let learnt = Trainer::new(starter()).unwrap().save().unwrap().learnt;
    let state = wmc_runtime::program::acting(&model, &learnt).unwrap();
    for training in [false, true] {
        let act = |past: &[f64; 3], first: bool| {
            let mut actor = Actor::new(&model, training, 1, &state, Compute::default()).unwrap();
            actor.show(0, past, true).unwrap();
            actor.decide(7, 0).unwrap();
            actor.show(0, &[0.6, -0.8, 0.5], first).unwrap();
            actor.decide(7, 1).unwrap();
            (actor.action(0).to_vec(), actor.memory().unwrap())
        };
        let pasts = [[1.0, 0.0, -4.0], [-0.6, 0.8, 4.0]];
        assert_eq!(act(&pasts[0], true), act(&pasts[1], true));
        assert_ne!(act(&pasts[0], false), act(&pasts[1], false), "the past does not matter");
    }
}

/// An observation that gives no action is as if it had not been there.
#[test]
fn a_plan_that_fails_leaves_the_memory() {
    let model = starter().model;
    let learnt = Trainer::new(starter()).unwrap().save().unwrap().learnt;
    let policy = || Policy::new(&model, &learnt, 0.0, 7, Compute::default()).unwrap();
    let (mut whole, mut disturbed) = (policy(), policy());
    for seen in [[1.0, 0.0, -4.0], [-0.6, 0.8, 4.0], [0.0, 1.0, 0.0]] {
        for broken in [&[f64::NAN, 0.0, 0.0][..], &[0.0, 1e300, 0.0], &[0.0, 1.0], &[3e38, 3e38, 3e38]] {
            assert!(disturbed.plan(broken).is_err(), "{broken:?}");
        }
        assert_eq!(disturbed.plan(&seen).unwrap(), whole.plan(&seen).unwrap());
    }
}
