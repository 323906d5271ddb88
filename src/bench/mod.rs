//! `wmc bench`: how fast a model runs here, at each level, beside the machine's limits and beside other programs.
//!
//! | file | subject |
//! |---|---|
//! | [`case`] | what is measured |
//! | [`ready`] | a case compiled, with inputs |
//! | [`peak`] | what the machine can do |
//! | [`mod@peers`], [`worker`] | other programs beside ours, ours beside another harness |
//! | [`subject`] | the model of a case and its inputs |
//! | [`rounds`] | turns, round by round |
//! | [`others`] | what else the machine does |
//! | [`stats`], [`report`], [`plot`] | what is told |
//! | [`train_loop`] | `wmc bench train-loop`: where a decision's time goes |

mod case;
mod others;
mod peak;
mod peers;
mod plot;
mod ready;
mod report;
mod rounds;
mod stats;
mod subject;
mod train_loop;
mod worker;

use std::io;

use compiler::kernel::fuse::Level;
use dsl::diagnostics::closest;
use runtime::program::Compute;

use self::case::{Case, WORDS};
pub(crate) use self::ready::completed;
use self::report::Document;
use self::subject::Subject;
use crate::cli::{Bench, BenchCommand};
use crate::output::{Exit, Output};

pub(crate) fn run(arguments: &Bench, out: &mut Output) -> Exit {
    match (&arguments.command, &arguments.worker) {
        (Some(BenchCommand::TrainLoop(arguments)), _) => train_loop::run(arguments, out),
        (None, Some(word)) => work(arguments, word, out),
        (None, None) => measure(arguments, out),
    }
}

/// Numbers of threads, fewest first; as many as there are processors where nobody says how many.
fn threads(arguments: &Bench) -> Vec<usize> {
    let mut counts: Vec<usize> = arguments.threads.iter().map(|n| usize::from(*n)).collect();
    if counts.is_empty() {
        counts.push(std::thread::available_parallelism().map_or(1, usize::from));
    }
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Levels to be measured, those that `--compare` names among them.
fn levels(arguments: &Bench) -> Vec<Level> {
    let compared = |level: &Level| arguments.compare.iter().any(|name| name == level.name());
    Level::ALL.into_iter().filter(|level| arguments.levels.contains(level) || compared(level)).collect()
}

/// Other programs among those that `--compare` names.
fn peers(arguments: &Bench) -> Vec<String> {
    let ours = |name: &String| Level::ALL.iter().any(|level| level.name() == name);
    arguments.compare.iter().filter(|name| !ours(name)).cloned().collect()
}

/// The most that was asked for: what peers get, and what others are compared with.
fn most(arguments: &Bench) -> (Level, usize) {
    let level = arguments.levels.iter().copied().max_by_key(|l| Level::ALL.iter().position(|m| m == l));
    (level.unwrap_or_default(), threads(arguments).last().copied().unwrap_or(1))
}

/// One case for another program.
fn work(arguments: &Bench, word: &str, out: &mut Output) -> Exit {
    let Some(case) = cases(word, out).and_then(|cases| cases.first().copied()) else { return Exit::Bad };
    let Some(mut subject) = Subject::new(case, arguments, out) else { return Exit::Bad };
    if let Some(path) = &arguments.params {
        // The steps of `scan` are those of the file.
        let exact = case.name() == word;
        match subject.with_inputs(path, arguments.map.as_deref(), exact, out) {
            Some(with) => subject = with,
            None => return Exit::Bad,
        }
    }
    let (level, threads) = most(arguments);
    let Some(device) = arguments.place.choose(out) else { return Exit::Bad };
    let compute = Compute { level, threads, device };
    match ready::ready(subject.case, &subject.model, arguments.batch, subject.given.as_ref(), compute) {
        Ok((ready, first)) => match worker::serve(ready, &first, io::stdin().lock(), io::stdout().lock()) {
            Ok(()) => Exit::Fine,
            // Who asked has gone away.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Fine,
            Err(error) => {
                out.error(&error.to_string(), "write one number of calls a line");
                Exit::Bad
            }
        },
        Err(error) => {
            out.error(&format!("{}: {error}", subject.case.name()), "see `wmc show FILE --params` for the names of all tensors");
            Exit::Bad
        }
    }
}

/// The cases of a word; returns `None` after reporting the error.
fn cases(word: &str, out: &mut Output) -> Option<Vec<Case>> {
    let found = Case::parse(word);
    if found.is_none() {
        let help = match closest(word, WORDS) {
            Some(best) => format!("did you mean `{best}`?"),
            None => format!("the cases are {}", WORDS.join(", ")),
        };
        out.error(&format!("there is no case `{word}`"), &help);
    }
    found
}

fn measure(arguments: &Bench, out: &mut Output) -> Exit {
    let mut chosen: Vec<Case> = Vec::new();
    let all = ["plan", "train", "scan", "hgrad", "elite"];
    let words: Vec<&str> = match arguments.cases.is_empty() {
        true => all.into_iter().skip(if arguments.file.is_some() { 0 } else { 2 }).collect(),
        false => arguments.cases.iter().map(String::as_str).collect(),
    };
    for word in words {
        let Some(cases) = cases(word, out) else { return Exit::Bad };
        chosen.extend(cases.into_iter().filter(|c| !chosen.contains(c)).collect::<Vec<_>>());
    }
    if let (Some(peer), None) = (peers(arguments).first(), &arguments.python) {
        out.error(
            &format!("`{peer}` needs a Python"),
            "name one with `--python`; benches/peers/README.md says what it must have",
        );
        return Exit::Bad;
    }
    let Some(device) = arguments.place.choose(out) else { return Exit::Bad };
    let mut document = Document { rounds: arguments.rounds, load: [load(), None], ..Document::default() };
    for (i, case) in chosen.iter().enumerate() {
        out.tell(format!("[{}/{}] {}\n", i + 1, chosen.len(), case.name()));
        let Some(subject) = Subject::new(*case, arguments, out) else { return Exit::Bad };
        let Some((measured, computes_with)) = rounds::measure(subject, arguments, device, out) else { return Exit::Bad };
        document.instruction_set = computes_with;
        if !arguments.json {
            out.say(format!("{}\n", measured.table()));
        }
        document.cases.push(measured);
    }
    document.load[1] = load();
    if arguments.json {
        // A record of texts and numbers always has a JSON form.
        out.say(serde_json::to_string_pretty(&document).expect("a document as JSON") + "\n");
    } else {
        out.say(caveat(&document));
    }
    if let Some(path) = &arguments.plot
        && let Err(error) = std::fs::write(path, plot::svg(&document))
    {
        out.error(&format!("cannot write `{}`: {error}", path.display()), "choose another place for `--plot`");
        return Exit::Bad;
    }
    Exit::Fine
}

/// How far the figures can be trusted.
fn caveat(document: &Document) -> String {
    let number = |x: Option<f64>| x.map_or("unknown".to_string(), |x| format!("{x:.1}"));
    format!(
        "{}; medians over rounds, ratios within rounds; load average {} before, {} after\n",
        document.instruction_set,
        number(document.load[0]),
        number(document.load[1])
    )
}

/// How many processes wanted to run in the last minute, where the system says it.
fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}
