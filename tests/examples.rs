//! The programs of `examples/`, run. The one in C is compiled and run by `runtime/c/tests/abi.rs`.

#[path = "../examples/evaluate.rs"]
#[allow(dead_code, reason = "its own main")]
mod evaluate;
#[path = "../examples/load_and_plan.rs"]
#[allow(dead_code, reason = "its own main")]
mod load_and_plan;
#[path = "../examples/own_loop.rs"]
#[allow(dead_code, reason = "its own main")]
mod own_loop;
#[path = "../examples/train_own_world.rs"]
#[allow(dead_code, reason = "its own main")]
mod train_own_world;

use wmc::{Model, Run, Trainer};

#[test]
fn a_world_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("cart");
    train_own_world::run(&folder).unwrap();
    let run = Run::open(&folder).unwrap();
    let before = run.evaluations().unwrap();
    assert_eq!(before.iter().map(|e| e.step).collect::<Vec<_>>(), [200, 400]);
    // A second start has nothing to do.
    train_own_world::run(&folder).unwrap();
    assert_eq!(run.evaluations().unwrap(), before);
    // The command knows what it is, and that it cannot make this world.
    let told = Trainer::options(&Model::open("examples/small.wm").unwrap()).open(&folder).unwrap_err().to_string();
    assert!(told.contains("own:cart") && told.contains("this program has no such world"), "{told}");
}

#[test]
fn an_artefact() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let model = Model::open("examples/small.wm").unwrap();
    let mut trainer = Trainer::options(&model).seed(1).set("steps", 120).set("length", 10).open(&run).unwrap();
    trainer.run().unwrap();
    let build = folder.path().join("build");
    let words = ["wmc", "compile", "examples/small.wm", "--task", "pendulum_swingup", "-o"];
    let exit = wmc::command(words.map(String::from).into_iter().chain([build.display().to_string()]));
    assert_eq!(format!("{exit:?}"), format!("{:?}", std::process::ExitCode::SUCCESS));
    let checkpoint = run.join("checkpoints/best");
    let action = load_and_plan::run(&build.join("small-pendulum_swingup.wmx"), &checkpoint).unwrap();
    // The run's folder acts alike.
    let mut policy = Run::open(&checkpoint).unwrap().policy().unwrap();
    assert_eq!(policy.act(&[-1.0, 0.0, 0.0]).unwrap().len(), action.len());
}

#[test]
fn tensors_of_ones_own() {
    let loss = evaluate::run().unwrap();
    assert!((loss - 0.25).abs() < 1e-6, "{loss}");
}

#[test]
fn a_loop_of_ones_own() {
    assert!(own_loop::run(150).unwrap() > 0);
}
