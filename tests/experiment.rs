//! `wmc experiment` and `wmc report`, as built: runs that fail, that are stopped and go on, figures over seeds, a page that opens.

mod command;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use command::{ends, refuses, text, wmc};
use serde_json::Value;

fn results(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join(format!("{name}.json"))).unwrap()).unwrap()
}

/// Two methods, one of which cannot work, on one task with two seeds.
fn small(folder: &Path) -> std::path::PathBuf {
    let root = env!("CARGO_MANIFEST_DIR");
    let file = folder.join("small.toml");
    let text = format!(
        "name = 'small'\ntasks = ['pendulum_swingup']\nseeds = [1, 2]\nood = true\n\
         set = {{ steps = 60, seed_steps = 50, eval_every = 30, length = 30 }}\ndim = {{ S = 4, H = 3, B = 4, T = 4 }}\n\
         [[method]]\nname = 'Starter & Co'\nfile = '{root}/src/starter.wm'\n\
         published = {{ return = {{ pendulum_swingup = 12.5 }}, ood = {{ 'mass=0.7' = {{ pendulum_swingup = {{ mean = 7.5, std = 0.25 }} }} }} }}\n\
         [[method]]\nname = 'Broken'\nfile = '{root}/src/starter.wm'\nset = {{ reward_scale = 1e300 }}\n"
    );
    fs::write(&file, text).unwrap();
    file
}

#[test]
fn a_run_that_fails_is_told_and_the_others_are_measured() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (small(folder.path()), folder.path().join("runs"));
    let mut command = wmc(&["experiment", "--jobs", "2", "--out"]);
    command.arg(&out).arg(&file);
    let output = ends(&mut command, 2);
    let told = text(&output.stderr);
    assert!(told.contains("Broken on pendulum_swingup, seed 2 failed") && told.contains("as reward at step"), "{told}");
    assert!(told.contains("done      Starter & Co on pendulum_swingup, seed 1"), "{told}");
    let said = text(&output.stdout);
    assert!(said.contains("Starter & Co") && said.contains("12.5") && said.contains("mass=0.7"), "{said}");

    let results = results(&out, "small");
    assert_eq!(results["failed"].as_array().unwrap().len(), 2);
    let rows = results["rows"].as_array().unwrap();
    let row = rows.iter().find(|r| r["method"] == "Starter & Co").unwrap();
    let runs: Vec<&Value> = results["runs"].as_array().unwrap().iter().filter(|r| r["method"] == "Starter & Co").collect();
    assert_eq!((row["seeds"].to_string(), row["steps"].as_u64(), runs.len()), ("[1,2]".into(), Some(60), 2));
    // A mean over seeds of the last evaluations, and retention seed by seed.
    let number = |v: &Value| v.as_f64().unwrap();
    let mean = runs.iter().map(|r| number(&r["evaluations"].as_array().unwrap().last().unwrap()["return"])).sum::<f64>() / 2.0;
    assert!((number(&row["return"]["mean"]) - mean).abs() < 1e-12);
    let change = |run: &Value, name: &str| {
        let all = run["tested"]["changes"].as_array().unwrap().clone();
        number(&all.iter().find(|c| c["change"] == name).unwrap()["mean"])
    };
    let kept = runs.iter().map(|r| change(r, "mass=0.7") / change(r, "nominal")).sum::<f64>() / 2.0;
    let told = row["changes"].as_array().unwrap().iter().find(|c| c["change"] == "mass=0.7").unwrap();
    assert!((number(&told["retention"]["mean"]) - kept).abs() < 1e-12, "{told}");

    // Again: what was done is not done again.
    let before = fs::metadata(out.join("starter___co-pendulum_swingup-1/log.jsonl")).unwrap().modified().unwrap();
    let output = ends(&mut command, 2);
    assert!(text(&output.stderr).contains("was done  Starter & Co on pendulum_swingup, seed 1"), "{}", text(&output.stderr));
    assert_eq!(before, fs::metadata(out.join("starter___co-pendulum_swingup-1/log.jsonl")).unwrap().modified().unwrap());

    // A report of all of it.
    let (page, figures) = (folder.path().join("report.html"), folder.path().join("figures"));
    ends(wmc(&["report"]).arg(&out).arg("-o").arg(&page).arg("--figures").arg(&figures), 0);
    let html = fs::read_to_string(&page).unwrap();
    for part in [
        "Starter &amp; Co",
        "mass=0.7",
        "12.5",
        "7.50 ± 0.25",
        "<figure id=\"learning-pendulum_swingup-first\">",
        "changes-pendulum_swingup-first",
        "train_step",
        "planner plan",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("http://") || html.matches("http").count() == html.matches("http://www.w3.org/2000/svg").count());
    for name in
        ["learning-pendulum_swingup-first.svg", "learning-pendulum_swingup-first.png", "changes-pendulum_swingup-first.png"]
    {
        assert!(fs::metadata(figures.join(name)).unwrap().len() > 500, "{name}");
    }
    opens(&page);
    let nothing = folder.path().join("nothing");
    fs::create_dir(&nothing).unwrap();
    refuses(wmc(&["report"]).arg(&nothing), &["there are no runs"]);
}

/// Opens a page in a headless Chromium as narrow as a phone. None where there is no Chromium and none is required; otherwise the
/// title that the page ends up with, and what its console was told.
fn browse(page: &Path) -> Option<(String, Vec<String>)> {
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]);
    command.args(["--disable-component-update", "--disable-sync", "--enable-logging=stderr"]);
    command.args(["--window-size=390,844", "--virtual-time-budget=2000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", profile.path().display())).arg(format!("file://{}", page.display()));
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if std::env::var_os("REQUIRE_CHROMIUM").is_some() => panic!("chromium: {error}"),
        Err(_) => {
            eprintln!("SKIPPED, there is no chromium");
            return None;
        }
    };
    let dom = text(&output.stdout);
    let title = dom.split("<title>").nth(1).and_then(|t| t.split("</title>").next()).unwrap_or("no page");
    let told = text(&output.stderr);
    Some((title.to_string(), told.lines().filter(|l| l.contains(":CONSOLE")).map(String::from).collect()))
}

/// A page opens: tables and figures are there and visible, it is no wider than the window, and nothing complains.
fn opens(page: &Path) {
    let probe = page.with_extension("probe.html");
    let script = "<script>addEventListener('load', () => { const seen = e => e.getBoundingClientRect().width > 100;\
        document.title = [...document.querySelectorAll('table')].filter(seen).length + ' tables ' +\
        [...document.querySelectorAll('figure > svg')].filter(seen).length + ' figures ' +\
        (document.documentElement.scrollWidth <= innerWidth ? 'fits' : 'too wide'); });</script>";
    let html = fs::read_to_string(page).unwrap();
    fs::write(&probe, html.replace("</title>", &format!("</title>{script}"))).unwrap();
    let Some((title, told)) = browse(&probe) else { return };
    let (tables, figures) = (html.matches("<table>").count(), html.matches("<figure").count());
    assert!(tables > 0 && figures > 0);
    assert_eq!(title, format!("{tables} tables {figures} figures fits"));
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn a_page_that_complains_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    for (name, script) in [("told", "console.error('told')"), ("thrown", "throw Error('thrown')"), ("missing", "missing()")] {
        let page = folder.path().join(format!("{name}.html"));
        fs::write(&page, format!("<!doctype html><title>{name}</title><script>{script}</script>")).unwrap();
        let Some((title, told)) = browse(&page) else { return };
        assert!(title == name && told.len() == 1 && told[0].contains(name), "{title}: {told:?}");
    }
}

#[test]
#[cfg(unix)]
fn an_experiment_that_is_stopped_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("runs");
    let file = folder.path().join("long.toml");
    let root = env!("CARGO_MANIFEST_DIR");
    let text_of = format!(
        "name = 'long'\ntasks = ['pendulum_swingup']\nseeds = [1, 2]\nset = {{ steps = 3000, seed_steps = 50, eval_every = 3000, length = 30 }}\n\
         dim = {{ S = 4, H = 3, B = 4, T = 4 }}\n[[method]]\nname = 'S'\nfile = '{root}/src/starter.wm'\n"
    );
    fs::write(&file, text_of).unwrap();
    let mut command = wmc(&["experiment", "--out"]);
    let child =
        command.arg(&out).arg(&file).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let log = out.join("s-pendulum_swingup-1/log.jsonl");
    while fs::metadata(&log).map_or(0, |m| m.len()) < 300 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("the same command goes on"), "{}", text(&output.stderr));
    // It saved, and the second seed was never started.
    assert_eq!(fs::read_dir(out.join("s-pendulum_swingup-1/checkpoints")).unwrap().count(), 1);
    assert!(!out.join("s-pendulum_swingup-2").exists());
    ends(&mut command, 0);
    assert_eq!(results(&out, "long")["rows"][0]["seeds"].to_string(), "[1,2]");
}

#[test]
fn an_experiment_is_run_to_a_decision_and_goes_on_later() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (small(folder.path()), folder.path().join("runs"));
    let run = |more: &[&str]| {
        ends(wmc(&["experiment", "--method", "Starter & Co"]).args(more).arg("--out").arg(&out).arg(&file), 0);
    };
    run(&["--until", "30"]);
    let first = results(&out, "small")["rows"][0].clone();
    assert_eq!((first["seeds"].to_string(), first["steps"].as_u64()), ("[1,2]".into(), Some(30)));
    // The task as it is, four changes, their mean, of what was learnt by then.
    assert_eq!(first["changes"].as_array().unwrap().len(), 6);
    // One of them goes on to its end: a row of its own, tested again, and the other is where it was.
    run(&["--seed", "1"]);
    let page = folder.path().join("results.md");
    ends(wmc(&["report", "--markdown"]).arg(&page).arg(&out), 0);
    let told = fs::read_to_string(&page).unwrap();
    for (seeds, steps) in [("1", 60), ("1, 2", 30)] {
        let row = format!("| {seeds} | {steps} |");
        assert!(told.lines().any(|l| l.contains("| 12.5 |") && l.contains(&row)), "{told}");
        let tested = format!("| pendulum_swingup | Starter & Co | {steps} | mass=0.7 | 7.50 ± 0.25 |");
        assert!(told.contains(&tested), "{told}");
    }
    assert!(
        told.contains("--protocol first --seed 2 --dim") && told.contains("--until 30    # Starter & Co: 30 of 60"),
        "{told}"
    );
    // After the same decisions: both seeds at 30, one at 60.
    let equal = told.split("## At equal decisions").nth(1).unwrap();
    assert!(equal.contains("| task | method | 30 | 60 |"), "{told}");
    let line = equal.lines().find(|l| l.starts_with("| pendulum_swingup | Starter & Co |")).unwrap();
    let cells: Vec<&str> = line.split(" | ").collect();
    assert!(cells[2].contains(" ± ") && cells[2].ends_with(" (2)") && cells[3].ends_with(" (1) |"), "{line}");
    let returns = told.lines().find(|l| l.contains("| 1, 2 | 30 |")).unwrap();
    let mean = returns.split(" | ").nth(4).and_then(|cell| cell.split(" ±").next()).unwrap();
    assert!(cells[2].starts_with(mean), "{told}");
    run(&[]);
    let both = results(&out, "small")["rows"].clone();
    assert_eq!((both.as_array().unwrap().len(), both[0]["steps"].as_u64()), (1, Some(60)));

    // Another experiment with the same runs adds what was published about them, and runs nothing.
    let other = folder.path().join("other.toml");
    fs::write(
        &other,
        fs::read_to_string(&file).unwrap().replace(
            "'mass=0.7' = { pendulum_swingup = { mean = 7.5, std = 0.25 } }",
            "'mass=1.3' = { pendulum_swingup = 6.25 }",
        ),
    )
    .unwrap();
    let output = ends(wmc(&["experiment", "--method", "Starter & Co", "--out"]).arg(&out).arg(&other), 0);
    assert!(text(&output.stderr).contains("was done  Starter & Co on pendulum_swingup, seed 2"), "{}", text(&output.stderr));
    ends(wmc(&["report", "--markdown"]).arg(&page).arg(&out), 0);
    let told = fs::read_to_string(&page).unwrap();
    assert!(
        told.contains("| 60 | mass=0.7 | 7.50 ± 0.25 |")
            && !told.contains("equal decisions")
            && told.contains("| 60 | mass=1.3 | 6.25 |"),
        "{told}"
    );
}

/// Two methods in two stages; the second method is compared with the first, and the first with published figures.
fn staged(folder: &Path) -> std::path::PathBuf {
    let root = env!("CARGO_MANIFEST_DIR");
    let file = folder.join("staged.toml");
    let text = format!(
        "name = 'staged'\ntasks = ['pendulum_swingup']\nseeds = [1, 2]\nood = ['mass=0.7']\nood_episodes = 4\n\
         set = {{ steps = 60, seed_steps = 50, eval_every = 30, length = 30 }}\ndim = {{ S = 4, H = 3, B = 4, T = 4 }}\n\
         [published]\nlabel = 'theirs'\nseeds = [3, 4, 5]\nsteps = 60\nagree = ['return']\n\
         [[stage]]\nname = 'short'\nmethods = ['One']\nuntil = 30\nood = false\n\
         [[stage]]\nname = 'whole'\n\
         [[method]]\nname = 'One'\nfile = '{root}/src/starter.wm'\n\
         [method.published]\nreturn = {{ pendulum_swingup = [1000.0, 1001.0, 1002.0] }}\n\
         [[method]]\nname = 'Other'\nfile = '{root}/src/starter.wm'\nset = {{ seed_steps = 40 }}\nagainst = 'One'\n"
    );
    fs::write(&file, text).unwrap();
    file
}

#[test]
fn stages_go_on_with_runs_and_a_report_compares_them() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (staged(folder.path()), folder.path().join("runs"));
    let run = |more: &[&str]| ends(wmc(&["experiment", "--out"]).arg(&out).arg(&file).args(more), 0);
    run(&["--stage", "short"]);
    let rows = results(&out, "staged")["rows"].clone();
    let short = |row: &Value| (row["method"].as_str().unwrap().to_string(), row["steps"].as_u64().unwrap());
    assert_eq!(rows.as_array().unwrap().iter().map(short).collect::<Vec<_>>(), [("One".to_string(), 30)]);
    assert_eq!(rows[0]["changes"].as_array().unwrap().len(), 0);
    let told = text(&run(&[]).stderr);
    assert!(told.contains("was done  One on pendulum_swingup, seed 1") && told.contains("done      One on"), "{told}");
    let found = results(&out, "staged");
    assert_eq!(found["runs"].as_array().unwrap().len(), 4);
    for run in found["runs"].as_array().unwrap() {
        for change in run["tested"]["changes"].as_array().unwrap() {
            assert_eq!(change["returns"].as_array().unwrap().len(), 4, "{run}");
        }
    }
    let told = text(&run(&[]).stderr);
    assert!(!told.contains("done      "), "{told}");

    let page = folder.path().join("results.md");
    ends(wmc(&["report", "--markdown"]).arg(&page).arg(&out), 0);
    let told = fs::read_to_string(&page).unwrap();
    assert!(told.contains("| task | method | theirs, per seed | theirs | ours, per seed | ours | agreement |"), "{told}");
    assert!(told.contains("| 1000.0 / 1001.0 / 1002.0 | 1001.0 ± 0.8 |") && told.contains("| no: "), "{told}");
    assert!(told.contains("0 of 1 do") && told.contains("(divisor n), as published"), "{told}");
    let against = told.split("## Against One").nth(1).unwrap().split("##").next().unwrap();
    assert!(against.contains("| pendulum_swingup | Other | 60 | 1, 2 |") && against.contains("(divisor n - 1)"), "{against}");
    assert!(
        against.lines().any(|l| l.contains("Other") && ["none", "higher", "lower"].iter().any(|w| l.contains(w))),
        "{against}"
    );
    assert!(told.contains("4 episodes for each change and seed") && told.contains("`delay` counts decisions"), "{told}");
}

#[test]
fn a_run_goes_on_with_the_build_that_started_it() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (staged(folder.path()), folder.path().join("runs"));
    let command = |more: &[&str]| {
        let mut command = wmc(&["experiment", "--method", "One", "--seed", "1", "--out"]);
        command.arg(&out).arg(&file).args(more);
        command
    };
    ends(&mut command(&["--stage", "short"]), 0);
    let builds: Vec<_> = fs::read_dir(out.join("builds")).unwrap().map(|e| e.unwrap().path()).collect();
    let [kept] = &builds[..] else { panic!("{builds:?}") };
    let started = out.join("one-pendulum_swingup-1/run.json");
    let commit = |path: &Path| {
        let run: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        run["starts"].as_array().unwrap().last().unwrap()["commit"].as_str().unwrap().to_string()
    };
    let own = commit(&started);
    assert!(kept.ends_with(format!("wmc-{}", own.chars().take(12).collect::<String>())), "{kept:?}");
    let other = "feedc0ffee0123456789";
    fs::write(&started, fs::read_to_string(&started).unwrap().replace(&own, other)).unwrap();
    refuses(&mut command(&[]), &[other, "put that build at", "wmc-feedc0ffee01", "--new-build"]);
    // That build is used where it is there.
    fs::copy(kept, out.join("builds/wmc-feedc0ffee01")).unwrap();
    ends(&mut command(&[]), 0);
    // A copy that is not this program is not run as if it were.
    fs::OpenOptions::new().append(true).open(kept).unwrap().write_all(b"x").unwrap();
    let mut seed = wmc(&["experiment", "--method", "One", "--seed", "2", "--stage", "short", "--out"]);
    refuses(seed.arg(&out).arg(&file), &["another build of the same commit", "--new-build"]);
    ends(seed.arg("--new-build"), 0);
}

#[test]
fn the_smoke_experiment_ends_in_a_report_with_a_diagnosis() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("runs");
    ends(wmc(&["experiment", "models/experiments/smoke.toml", "--jobs", "2", "--out"]).arg(&out), 0);
    let results = results(&out, "smoke");
    assert_eq!(results["failed"].as_array().unwrap().len(), 0);
    let rows = results["rows"].as_array().unwrap();
    let row = |method: &str| rows.iter().find(|r| r["method"] == method).unwrap();
    // A world model has errors in its own latent, also divided by the variance; a model without a world has none.
    let world = row("HaM-World (small)");
    for metric in ["mse[3]", "mse[5]", "mse[7]"] {
        let (error, spread) =
            (world["metrics"][metric]["mean"].as_f64().unwrap(), world["metrics"]["spread"]["mean"].as_f64().unwrap());
        assert!(error > 0.0 && spread > 0.0 && world["relative"][metric]["mean"].as_f64().unwrap() > 0.0, "{world}");
    }
    assert!(world["metrics"]["mse6"]["mean"].as_f64().unwrap() > 0.0);
    assert_eq!(row("SAC")["metrics"].as_object().unwrap().len(), 0);
    // The task as it is, six changes, their mean.
    assert_eq!(world["changes"].as_array().unwrap().len(), 8);

    let run = out.join("ham_world__small_-cartpole_swingup-7");
    // The same run again, for its energy alone.
    let energy = folder.path().join("energy.toml");
    let smoke = fs::read_to_string("models/experiments/smoke.toml").unwrap();
    let first = smoke.split("[[method]]").take(2).collect::<Vec<_>>().join("[[method]]");
    let file = format!("{}/models/hamworld_small.wm", env!("CARGO_MANIFEST_DIR"));
    let first = first.replace("../hamworld_small.wm", &file).replace("seeds = [7, 8]", "seeds = [7]\ndiagnose = true");
    fs::write(&energy, first.replace("name = \"smoke\"", "name = \"energy\"")).unwrap();
    ends(wmc(&["experiment", "--out"]).arg(&out).arg(&energy), 0);
    let said = fs::read_to_string(run.join("diagnosis/diagnosis.json")).unwrap();
    let diagnosis: Value = serde_json::from_str(&said).unwrap();
    let told = text(&ends(wmc(&["diagnose", "--episodes", "1", "--out"]).arg(folder.path().join("other")).arg(&run), 0).stdout);
    assert!(told.contains("corr(dH, push)") && told.contains("no action") && told.contains("lift_auc"), "{told}");
    assert_eq!(diagnosis["left_out"].as_object().unwrap().len(), 0, "{said}");
    let show = |name: &str| diagnosis["shows"].as_array().unwrap().iter().find(|s| s["name"] == name).unwrap();
    let number = |name: &str, row: &str, column: &str| {
        let columns = show(name)["columns"].as_array().unwrap();
        let at = columns.iter().position(|c| c == column).unwrap();
        let rows = show(name)["rows"].as_array().unwrap();
        rows.iter().find(|r| r["label"].as_str().unwrap().starts_with(row)).unwrap()["values"][at].as_f64().unwrap()
    };
    let drift = ["drift", "within episodes", "over all states"].map(|column| number("drift", "no action", column));
    assert!(drift[0] > 0.0 && (drift[0] - drift[1] / drift[2]).abs() < 1e-12, "{drift:?}");
    assert!(number("signed", "policy", "correlation").abs() <= 1.0 && number("sizes", "policy", "correlation").abs() <= 1.0);
    // All pairs of the eight positions and momenta, each with six thresholds that rise and rates that fall.
    let pairs = show("crossing")["detail"]["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 64);
    for pair in pairs {
        let numbers = |name: &str| pair[name].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect::<Vec<f64>>();
        assert!(numbers("threshold").windows(2).all(|w| w[0] <= w[1]), "{pair}");
        assert!(numbers("rate_strong").windows(2).all(|w| w[0] >= w[1]), "{pair}");
    }
    // The terms of a step add up, but for what is of third order; and a step has a derivative.
    for row in ["no action", "policy"] {
        let term = |name: &str| number("balance", row, name);
        assert!(term("change") > 0.0 && term("rest") < 0.2 * (term("push") + term("leak") + term("curvature")), "{said}");
        let factor = |name: &str| number("stretch", row, name);
        assert!(factor("at most") >= factor("at most, on average"), "{said}");
        assert!(factor("at most, on average") >= factor("along the episode") && factor("along the episode") > 0.0, "{said}");
    }
    // Without action nothing is pushed.
    assert_eq!(number("balance", "no action", "push"), 0.0);
    assert!(number("calm", "replay", "fraction") < 1.0 && number("calm", "replay", "decisions") > 100.0, "{said}");
    assert!(number("horizon", "replay", "7") > 0.0, "{said}");
    for name in [
        "runs.svg",
        "departures.svg",
        "simulated.png",
        "portrait.svg",
        "portrait-other.png",
        "crossing.svg",
        "balance.svg",
        "stretch.svg",
    ] {
        assert!(run.join("diagnosis").join(name).is_file(), "{name}");
    }
    // A model that declares nothing to show says so, and how.
    let told = ["`Sac` shows nothing in `diagnose { .. }`", "probe trained = policy()"];
    refuses(wmc(&["diagnose"]).arg(out.join("sac-cartpole_swingup-7")), &told);

    let page = folder.path().join("report.html");
    ends(wmc(&["report"]).arg(&out).arg("-o").arg(&page), 0);
    let html = fs::read_to_string(&page).unwrap();
    for part in [
        "Imagined against real",
        "Diagnosis of HaM-World (small)",
        "rollouts-cartpole_swingup-long",
        "lift_auc",
        "curvature",
        "Expansion of a step",
        "episode-sac-cartpole_swingup-long",
    ] {
        assert!(html.contains(part), "{part}");
    }
    opens(&page);

    // The same for a repository, and once more from what that keeps.
    let place = folder.path().join("results.md");
    ends(wmc(&["report", "--markdown"]).arg(&place).arg(&out), 0);
    let first = fs::read_to_string(&place).unwrap();
    for part in [
        "| task | method | ours, per seed | ours |",
        "`mse[3]`",
        "mass=0.7",
        "### corr(dH, push)",
        "results/learning-cartpole_swingup-long.svg",
        "wmc train models/sac.wm",
    ] {
        assert!(first.contains(part), "{part}: {first}");
    }
    for figure in first.split("](results/").skip(1).map(|rest| rest.split(')').next().unwrap()) {
        assert!(folder.path().join("results").join(figure).is_file(), "{figure}");
    }
    fs::write(folder.path().join("results/account.md"), "What people say.").unwrap();
    ends(wmc(&["report", "--markdown"]).arg(&place).arg(folder.path().join("results/results.json")), 0);
    let again = fs::read_to_string(&place).unwrap();
    assert!(again.contains("What people say.") && again.contains("portrait.svg"), "{again}");
    assert!(again.contains("results/episode-sac-cartpole_swingup-long.svg"), "{again}");
    let tables = |text: &str| text.lines().filter(|l| l.starts_with('|')).map(String::from).collect::<Vec<_>>();
    assert_eq!(tables(&first), tables(&again));
    // A run that is given twice counts once.
    let both = [folder.path().join("results/results.json"), out];
    ends(wmc(&["report", "--markdown"]).arg(&place).args(both), 0);
    assert_eq!(tables(&first), tables(&fs::read_to_string(&place).unwrap()));
}

#[test]
fn a_simulator_that_diverges_costs_a_diagnosis_no_more_than_its_episodes() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let settings = ["steps=60", "seed_steps=60", "eval_every=60", "length=30"].map(|s| ["--set", s]).concat();
    ends(
        wmc(&["train", "models/hamworld_s6.wm", "--task", "reacher-easy", "--dim", "B=4"]).args(settings).arg("--out").arg(&run),
        0,
    );
    // Without damping, random actions drive the arm faster than its steps can follow.
    let told = text(&ends(wmc(&["diagnose", "--episodes", "3"]).arg(&run), 0).stdout);
    assert!(
        told.contains("left out")
            && told.contains("shaken: the task `reacher_easy` gave ")
            && told.contains(" as entry 0 of the observation"),
        "{told}"
    );
    let said = fs::read_to_string(run.join("diagnosis/diagnosis.json")).unwrap();
    let diagnosis: Value = serde_json::from_str(&said).unwrap();
    let shows = diagnosis["shows"].as_array().unwrap();
    let rows = |name: &str| shows.iter().find(|s| s["name"] == name).unwrap()["rows"].as_array().unwrap().clone();
    // What can be said of the other probes is said; what needs both is left out, with the reason.
    let labels: Vec<Value> = rows("strays").iter().map(|row| row["label"].clone()).collect();
    assert_eq!(labels, ["no action", "policy"], "{said}");
    assert!(rows("strays").iter().chain(&rows("apart")).all(|row| row["values"][0].as_f64().unwrap() > 0.0), "{said}");
    for name in ["traces.svg", "map.svg"] {
        assert!(run.join("diagnosis").join(name).is_file(), "{name}");
    }
    assert!(shows.iter().all(|show| show["name"] != "drift"), "{said}");
    assert!(diagnosis["left_out"]["drift"].as_str().unwrap().contains("no episodes of shaken"), "{said}");
}

#[test]
fn the_experiments_that_are_ready_can_be_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/experiments");
    let mut names: Vec<String> =
        fs::read_dir(&folder).unwrap().flatten().map(|e| e.file_name().to_string_lossy().into()).collect();
    names.sort();
    assert_eq!(
        names,
        ["ablations.toml", "main.toml", "mechanism.toml", "ood.toml", "paper_free.toml", "published.toml", "smoke.toml"]
    );
    for name in names {
        let text: toml::Table = fs::read_to_string(folder.join(&name)).unwrap().parse().unwrap();
        for method in text["method"].as_array().unwrap() {
            let file = folder.join(method["file"].as_str().unwrap()).display().to_string();
            let protocol = text.get("protocol").map(|name| ["--protocol", name.as_str().unwrap()]);
            for task in text["tasks"].as_array().unwrap() {
                let variant = method.get("task").and_then(|all| all.get(task.as_str().unwrap())?.get("file")?.as_str());
                let file = variant.map_or(file.clone(), |file| folder.join(file).display().to_string());
                let check = ["check", &file, "--task", task.as_str().unwrap()];
                ends(&mut wmc(&[&check[..], protocol.as_ref().map_or(&[], |p| &p[..])].concat()), 0);
            }
        }
    }
    refuses(&mut wmc(&["experiment", "models/tasks.wm"]), &["models/tasks.wm"]);
}
