//! Diagnostics against numbers that the authors of HaM-World computed, and against one long pass over an episode.

mod common;

use std::path::{Path, PathBuf};

use common::config;
use safetensors::{Dtype, SafeTensors};
use wmc_runtime::diagnose::measure::{self, Moment, Pair};
use wmc_runtime::diagnose::{Diagnostics, Trace};
use wmc_runtime::experience::{Experience, Layout};
use wmc_runtime::program::{State, Tensor, initial};
use wmc_runtime::tasks::Transition;
use wmc_runtime::train::Config;

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(path)
}

/// Tensors of a file, in double precision.
struct Tensors(Vec<u8>);

impl Tensors {
    fn load(path: &str) -> Tensors {
        Tensors(std::fs::read(golden(path)).unwrap())
    }

    fn get(&self, name: &str) -> (Vec<usize>, Vec<f64>) {
        let all = SafeTensors::deserialize(&self.0).unwrap();
        let t = all.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let data = match t.dtype() {
            Dtype::F32 => t.data().chunks(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect(),
            Dtype::F64 => t.data().chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
            other => panic!("{name}: {other:?}"),
        };
        (t.shape().to_vec(), data)
    }
}

fn close(what: &str, have: f64, want: f64, bound: f64) {
    assert!((have - want).abs() <= bound * want.abs().max(1.0), "{what}: {have} instead of {want}");
}

/// The authors' traces are single precision, and so are some of their sums.
const SINGLE: f64 = 1e-6;

#[test]
fn crossings_and_correlations_are_the_authors() {
    let file = Tensors::load("diagnostics/crossing.safetensors");
    let (shape, valid) = file.get("trace.valid");
    let [q, p, dh_dq, dh_dp, control] = ["q", "p", "dH_dq", "dH_dp", "control"].map(|name| file.get(&format!("trace.{name}")).1);
    let height = file.get("trace.H").1;
    let (mut episodes, mut changes, mut pushes) = (Vec::new(), Vec::new(), Vec::new());
    for episode in 0..shape[0] {
        let decisions: Vec<usize> = (episode * shape[1]..(episode + 1) * shape[1]).take_while(|t| valid[*t] > 0.5).collect();
        let row = |of: &[f64], t: usize| of[8 * t..8 * (t + 1)].to_vec();
        let moment = |t: &usize| {
            let by = row(&dh_dp, *t).iter().zip(row(&control, *t)).map(|(a, b)| a * b).sum();
            Moment { place: [row(&q, *t), row(&p, *t)], normal: [row(&dh_dq, *t), row(&dh_dp, *t)], by }
        };
        let moments: Vec<Moment> = decisions.iter().map(moment).collect();
        changes.extend(decisions.windows(2).map(|t| height[t[1]] - height[t[0]]));
        pushes.extend(moments[..moments.len() - 1].iter().map(|m| m.by));
        episodes.push(moments);
    }
    let (delta_h, push) = (file.get("delta_h").1, file.get("push").1);
    assert_eq!((changes.len(), pushes.len()), (delta_h.len(), push.len()));
    changes.iter().zip(delta_h).for_each(|(have, want)| close("delta_h", *have, want, SINGLE));
    pushes.iter().zip(push).for_each(|(have, want)| close("push", *have, want, SINGLE));
    let sizes = |all: &[f64]| all.iter().map(|x| x.abs()).collect::<Vec<f64>>();
    close("signed", measure::correlation(&changes, &pushes).unwrap(), file.get("corr_signed").1[0], SINGLE);
    close("absolute", measure::correlation(&sizes(&changes), &sizes(&pushes)).unwrap(), file.get("corr_abs").1[0], SINGLE);
    let signs: Vec<f64> = changes.iter().map(|x| x.signum()).collect();
    close("signs", measure::correlation(&signs, &pushes).unwrap(), file.get("corr_sign_of_delta_h").1[0], SINGLE);

    let pairs = measure::crossings(&episodes, &measure::QUANTILES).unwrap();
    assert_eq!(pairs.len(), 64);
    type Of = fn(&Pair) -> f64;
    let numbers: [(&str, Of, f64); 11] = [
        ("score", |p| p.score, SINGLE),
        ("coverage", |p| p.coverage, 1e-12),
        ("swirl", |p| p.swirl, SINGLE),
        ("speed", |p| p.speed, SINGLE),
        ("occupancy", |p| p.occupancy, 1e-12),
        ("lift_auc", |p| p.lift_auc, 1e-12),
        ("best_lift", |p| p.best_lift, 1e-12),
        ("best_quantile", |p| p.best_quantile, 1e-12),
        ("binary_corr_auc", |p| p.binary_corr_auc, SINGLE),
        ("mean_ratio", |p| p.mean_ratio, 1e-12),
        ("corr_cross_push", |p| p.corr_cross_drive, SINGLE),
    ];
    for (name, of, bound) in numbers {
        let want = file.get(&format!("pair.{name}")).1;
        pairs.iter().zip(want).for_each(|(pair, want)| close(&format!("{name} of {:?}", pair.pair), of(pair), want, bound));
    }
    for (name, of) in [
        ("threshold", (|p| &p.threshold) as fn(&Pair) -> &Vec<f64>),
        ("rate_strong", |p| &p.rate_strong),
        ("rate_weak", |p| &p.rate_weak),
    ] {
        let want = file.get(&format!("pair.{name}")).1;
        for (have, want) in pairs.iter().flat_map(of).zip(want) {
            close(name, *have, want, 1e-12);
        }
    }
}

/// The published model with the authors' parameters.
fn published(task: &str, name: &str, (obs, act): (u64, u64)) -> (Config, State) {
    let text = std::fs::read_to_string(golden("../../models/hamworld.wm")).unwrap();
    let config = config(&text, name, &[("O", obs), ("A", act), ("B", 6)], &[]);
    let mut state = initial(&config.model, 1).unwrap();
    let theirs = Tensors::load(&format!("published_{task}/params_f32.safetensors"));
    let names: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&std::fs::read_to_string(golden("published_names.json")).unwrap()).unwrap();
    for (ours, name) in names {
        let (shape, data) = theirs.get(name.as_str().unwrap());
        let place = state.get_mut(&ours).unwrap_or_else(|| panic!("{ours}"));
        assert_eq!(place.data.len(), data.len(), "{ours}");
        *place = Tensor {
            shape: if place.shape.is_empty() { shape } else { place.shape.clone() },
            data: data.iter().map(|x| *x as f32).collect(),
        };
    }
    (config, state)
}

#[test]
fn errors_on_the_replay_are_the_authors() {
    for (task, name, sizes) in [("reacher", "reacher_easy", (6, 2)), ("cheetah", "cheetah_run", (17, 6))] {
        let file = Tensors::load(&format!("published_{task}/mse.safetensors"));
        let (config, state) = published(task, name, sizes);
        let ((shape, observations), (_, actions)) = (file.get("observations"), file.get("actions"));
        let [episodes, rows, obs] = shape[..] else { panic!("{shape:?}") };
        let mut seen = Experience::new(Layout::of(&config.model).unwrap(), 1000, 9, false);
        let act = actions.len() / (episodes * (rows - 1));
        for episode in 0..episodes {
            for t in 0..rows {
                seen.observe(&observations[(episode * rows + t) * obs..][..obs], t == 0);
                if t + 1 < rows {
                    let action: Vec<f32> = actions[(episode * (rows - 1) + t) * act..][..act].iter().map(|x| *x as f32).collect();
                    seen.follow(&action, &Transition::new(0.0, false, false));
                }
            }
        }
        // The next episode has begun: the last one is known to be whole.
        seen.observe(&vec![0.0; obs], true);
        let mut diagnostics = Diagnostics::new(&config, &state, 1.0).unwrap();
        let stored = diagnostics.episodes("stored", None, Some(&seen.store())).unwrap();
        assert_eq!(stored.len(), episodes);
        let traces = diagnostics.follow(&stored, &["error".to_string()]).unwrap();
        let starts: Vec<Vec<Vec<f64>>> = traces.iter().map(|trace| trace.values["error"].clone()).collect();
        assert!(starts.iter().all(|starts| starts.len() == 24 && starts[23].len() == 1 && starts[9].len() == 15));
        assert_eq!(diagnostics.first_step("error").unwrap(), 1);
        for (step, want) in file.get("mse").1.into_iter().enumerate() {
            close(&format!("{task}, {} steps", step + 1), measure::horizon(&starts, step).unwrap(), want, 2e-4);
        }
        let (shape, each) = file.get("mse_per_episode");
        assert_eq!(shape, [15, 4]);
        for (at, want) in each.into_iter().enumerate() {
            let (step, episode) = (at / 4, at % 4);
            close("one episode", measure::horizon(&starts[episode..=episode], step).unwrap(), want, 2e-4);
        }
    }
}

/// A model with a memory, whose segments are shorter than its episodes.
fn watched(time: u64, more: &str) -> Config {
    let text = common::STARTER.replace("capacity = 10_000", "capacity = 40").replace(
        "evaluate { T = 16 }",
        &format!(
            "evaluate {{ T = {time} }}
             diagnose {{
               m = m[t].out, x = z[t].s, calm = norm(a[t]) < 0.5, level = task(\"energy\"), none = task(\"colour\")
               {more}
               probe free   = passive(length = 12)
               probe wild   = random(length = 12, episodes = 2, mass = 1.1)
               probe best   = policy(length = 12, episodes = 1)
               probe stored = replay()
               show map = components(m, along = free)
             }}"
        ),
    );
    config(&text, "pendulum_swingup", &[("S", 4), ("H", 3), ("B", 4), ("T", 4)], &[("length", "15")])
}

fn follow(config: &Config, probe: &str, names: &[&str]) -> Vec<Trace> {
    let state = initial(&config.model, 5).unwrap();
    let mut diagnostics = Diagnostics::new(config, &state, 0.5).unwrap();
    let episodes = diagnostics.episodes(probe, Some(3), None).unwrap();
    let names: Vec<String> = names.iter().map(|n| n.to_string()).collect();
    diagnostics.follow(&episodes, &names).unwrap()
}

#[test]
fn a_series_does_not_depend_on_where_segments_start() {
    for probe in ["free", "wild", "best"] {
        let short = follow(&watched(4, ""), probe, &["m", "x", "calm", "level", "none"]);
        let long = follow(&watched(13, ""), probe, &["m", "x", "calm", "level", "none"]);
        assert_eq!((short.len(), long.len()), (3, 3));
        for (a, b) in short.iter().zip(&long) {
            assert!(!a.values.contains_key("none") && a.values["level"].len() == 12);
            for name in ["m", "x", "calm", "level"] {
                let (a, b) = (&a.values[name], &b.values[name]);
                assert_eq!((a.len(), b.len()), (12, 12), "{name}");
                for (a, b) in a.iter().zip(b) {
                    assert!(!a.is_empty() && a.len() == b.len(), "{name}");
                    assert!(a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-5), "{probe} {name}: {a:?} {b:?}");
                }
            }
        }
        let calm = |trace: &Trace| trace.single("calm").iter().sum::<f64>();
        match probe {
            "free" => assert!(short.iter().all(|trace| calm(trace) == 12.0)),
            "wild" => assert!(short.iter().any(|trace| (1.0..12.0).contains(&calm(trace)))),
            _ => {}
        }
    }
}

#[test]
fn a_series_that_reads_behind_its_step_is_refused() {
    let far =
        "ahead[i, k] = sq(z[i+k] - z[i]) for i in 0..3, k in 1..3  beyond[i, k] = sq(z[i+k+1] - z[i]) for i in 0..2, k in 1..3";
    let config = watched(6, far);
    let good = follow(&config, "wild", &["ahead"]);
    let lengths: Vec<usize> = good[0].values["ahead"].iter().map(Vec::len).collect();
    assert_eq!(lengths, [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
    let state = initial(&config.model, 5).unwrap();
    let mut diagnostics = Diagnostics::new(&config, &state, 0.5).unwrap();
    let episodes = diagnostics.episodes("wild", None, None).unwrap();
    assert_eq!(episodes.len(), 2);
    let told = diagnostics.follow(&episodes, &["beyond".to_string()]).unwrap_err().to_string();
    assert!(told.contains("`beyond` reads observations behind the step"), "{told}");
    let told = diagnostics.episodes("stored", None, None).unwrap_err().to_string();
    assert!(told.contains("`stored` needs the training's replay"), "{told}");
}

#[test]
fn an_episode_may_be_shorter_than_a_segment() {
    // Of its decisions only the last cannot be told: it reads the next observation's successor.
    let config = watched(20, "near = sq(z[t+1].s - z[t].s), far = sq(z[t+2].s - z[t].s)");
    let found = follow(&config, "wild", &["m", "near", "far"]);
    let long = follow(&watched(4, "near = sq(z[t+1].s - z[t].s), far = sq(z[t+2].s - z[t].s)"), "wild", &["m", "near", "far"]);
    for (a, b) in found.iter().zip(&long) {
        for (name, there) in [("m", 12), ("near", 12), ("far", 11)] {
            let values = |trace: &Trace| trace.single(name);
            assert_eq!((values(a).len(), values(b).len()), (there, there), "{name}");
            assert!(values(a).iter().zip(values(b)).all(|(x, y)| (x - y).abs() < 1e-5), "{name}");
        }
    }
}

#[test]
fn only_whole_episodes_of_a_replay_count() {
    let config = watched(4, "");
    let state = initial(&config.model, 5).unwrap();
    let mut diagnostics = Diagnostics::new(&config, &state, 0.5).unwrap();
    // A replay that has forgotten the first episode's start, and whose last one goes on.
    let mut seen = Experience::new(Layout::of(&config.model).unwrap(), 40, 4, false);
    for length in [20, 16, 16, 5] {
        for t in 0..length {
            seen.observe(&[1.0, 0.0, 0.1 * f64::from(t)], t == 0);
            seen.follow(&[0.1], &Transition::new(0.0, false, false));
        }
    }
    let found = diagnostics.episodes("stored", None, Some(&seen.store())).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(diagnostics.episodes("stored", Some(1), Some(&seen.store())).unwrap().len(), 1);
    let traces = diagnostics.follow(&found, &["x".to_string()]).unwrap();
    assert!(traces.iter().all(|t| t.values["x"].len() == 15 && t.values["x"].iter().all(|x| !x.is_empty())));
}
