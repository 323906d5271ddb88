//! `wmc report`: what runs showed, as a page.

use std::path::Path;

use crate::cli::ReportPage;
use crate::commands::help_for;
use crate::figures::picture;
use crate::output::{Exit, Output};
use crate::results::figures::Figure;
use crate::results::{Results, page};

pub(crate) fn run(arguments: &ReportPage, out: &mut Output) -> Exit {
    let results = match Results::read(&arguments.runs) {
        Ok(results) => results,
        Err(error) => {
            out.error(&error.to_string(), &help_for(&error, &dsl::source::Sources::default()));
            return Exit::Bad;
        }
    };
    if results.runs.is_empty() {
        out.error("there are no runs", "name folders of runs, or a folder that has runs in it");
        return Exit::Bad;
    }
    let (page, figures) = page::page(&results);
    let written = std::fs::write(&arguments.out, page).map_err(|e| format!("cannot write `{}`: {e}", arguments.out.display()));
    let drawn = written.and_then(|()| arguments.figures.as_ref().map_or(Ok(()), |folder| draw(folder, &figures)));
    if let Err(error) = drawn {
        out.error(&error, "choose another place");
        return Exit::Bad;
    }
    out.say(format!("{}\n", arguments.out.display()));
    Exit::Fine
}

/// Each figure as SVG and as PNG.
pub(super) fn draw(folder: &Path, figures: &[Figure]) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("cannot make `{}`: {e}", folder.display()))?;
    for (figure, kind) in figures.iter().flat_map(|f| ["svg", "png"].map(|kind| (f, kind))) {
        let path = folder.join(format!("{}.{kind}", figure.name.replace(['/', ':'], "_")));
        picture::write(&path, &figure.svg).map_err(|e| format!("cannot write `{}`: {e}", path.display()))?;
    }
    Ok(())
}
