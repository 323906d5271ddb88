//! The cases of a benchmark.
//!
//! Plan and train step are entry points of the user's model; the others are small models under `benches/`.

use compiler::ir::Program;
use compiler::lower::Entry;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    Plan,
    Train,
    /// A selective scan over this many steps, forward.
    Scan(usize),
    /// Likewise, forward and backward.
    ScanBack(usize),
    Hgrad,
    Elite,
}

/// Steps of a scan where none are said.
const STEPS: [usize; 3] = [8, 64, 512];

/// Words that name cases.
pub(crate) const WORDS: [&str; 6] = ["plan", "train", "scan", "scanback", "hgrad", "elite"];

impl Case {
    /// The cases of a word: `scan` is several, forward and backward, `scan512` one.
    pub(crate) fn parse(word: &str) -> Option<Vec<Case>> {
        let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
        let steps = match &word[name.len()..] {
            "" => None,
            digits => Some(digits.parse::<usize>().ok().filter(|n| *n > 0)?),
        };
        let each = |of: fn(usize) -> Case| STEPS.into_iter().map(of).collect::<Vec<Case>>();
        Some(match (name, steps) {
            ("plan", None) => vec![Case::Plan],
            ("train", None) => vec![Case::Train],
            ("scan", None) => [each(Case::Scan), each(Case::ScanBack)].concat(),
            ("scanback", None) => each(Case::ScanBack),
            ("scan", Some(n)) => vec![Case::Scan(n)],
            ("scanback", Some(n)) => vec![Case::ScanBack(n)],
            ("hgrad", None) => vec![Case::Hgrad],
            ("elite", None) => vec![Case::Elite],
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> String {
        match self {
            Case::Plan => "plan".into(),
            Case::Train => "train".into(),
            Case::Scan(n) => format!("scan{n}"),
            Case::ScanBack(n) => format!("scanback{n}"),
            Case::Hgrad => "hgrad".into(),
            Case::Elite => "elite".into(),
        }
    }

    /// The name and the text of the model, where it is not the user's.
    pub(crate) fn text(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Case::Plan | Case::Train => return None,
            Case::Scan(_) | Case::ScanBack(_) => ("scan.wm", include_str!("../../benches/scan.wm")),
            Case::Hgrad => ("hgrad.wm", include_str!("../../benches/hgrad.wm")),
            Case::Elite => ("elite.wm", include_str!("../../benches/elite.wm")),
        })
    }

    /// Sizes that the case itself says.
    pub(crate) fn dims(self) -> Vec<(String, u64)> {
        match self {
            Case::Scan(n) | Case::ScanBack(n) => vec![("T".into(), n as u64)],
            Case::Plan | Case::Train | Case::Hgrad | Case::Elite => Vec::new(),
        }
    }

    /// The same over this many steps, where it has steps.
    pub(crate) fn over(self, steps: usize) -> Case {
        match self {
            Case::Scan(_) => Case::Scan(steps),
            Case::ScanBack(_) => Case::ScanBack(steps),
            other => other,
        }
    }

    pub(crate) fn entry(self) -> Entry {
        match self {
            Case::Plan => Entry::Plan,
            Case::Train | Case::ScanBack(_) => Entry::TrainStep,
            Case::Scan(_) | Case::Hgrad | Case::Elite => Entry::Evaluate,
        }
    }

    /// Whether a call goes on from where the last one came to, as training does.
    pub(crate) fn advances(self) -> bool {
        self == Case::Train
    }

    /// The outputs whose first numbers tell whether two programs compute the same.
    pub(crate) fn telling(self, program: &Program) -> Vec<usize> {
        let starts: &[&str] = match self {
            Case::Plan => &["action"],
            Case::Train => &["objective."],
            Case::Scan(_) => &["diagnose.y"],
            Case::ScanBack(_) => &["loss.", "next.param."],
            Case::Hgrad | Case::Elite => &["diagnose."],
        };
        let first = |start: &&str| program.outputs.iter().position(|o| o.name.starts_with(start));
        starts.iter().filter_map(first).collect()
    }

    /// The first numbers of what is computed, the same for every program that computes it, from those of the telling outputs.
    pub(crate) fn value(self, program: &Program, telling: &[Vec<f32>]) -> Vec<f64> {
        const FIRST: usize = 6;
        let numbers: Vec<f32> = match self {
            Case::Scan(steps) => {
                // The first channel of the first sample over time.
                let y = telling.concat();
                let channels = y.len() / (steps * batch(program)).max(1);
                y.iter().step_by(channels.max(1)).take(steps).copied().collect()
            }
            _ => telling.concat(),
        };
        numbers.into_iter().take(FIRST).map(f64::from).collect()
    }
}

/// Samples in the batch of a program.
fn batch(program: &Program) -> usize {
    program.axes.iter().find(|a| a.name == "B").map_or(1, |a| a.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(Case::parse("plan"), Some(vec![Case::Plan]));
        assert_eq!(Case::parse("scan512"), Some(vec![Case::Scan(512)]));
        assert_eq!(Case::parse("scan").map(|c| c.len()), Some(6));
        for wrong in ["", "scan0", "plan8", "sc", "512"] {
            assert_eq!(Case::parse(wrong), None, "{wrong}");
        }
        for word in WORDS {
            for case in Case::parse(word).unwrap() {
                assert_eq!(Case::parse(&case.name()), Some(vec![case]), "{word}");
            }
        }
    }

    #[test]
    fn models_of_the_cases_check() {
        for case in WORDS.into_iter().flat_map(|w| Case::parse(w).unwrap()) {
            let Some((name, text)) = case.text() else { continue };
            let options = dsl::Options { dims: case.dims(), ..dsl::Options::default() };
            let checked = dsl::check(name, text, &dsl::NoLoader, &options);
            assert!(!checked.has_errors(), "{name}: {:?}", checked.diagnostics);
            assert_eq!(checked.models.len(), 1, "{name}");
            assert_eq!(dsl::fmt::format(text), text, "{name}");
        }
    }
}
