//! `wmc report`: the results of runs, as a page.

use std::path::{Path, PathBuf};

use crate::cli::ReportPage;
use crate::commands::help_for;
use crate::figures::picture;
use crate::output::{Exit, Output};
use crate::results::figures::Figure;
use crate::results::{Results, markdown, page};

pub(crate) fn run(arguments: &ReportPage, out: &mut Output) -> Exit {
    let results = match Results::read(&arguments.runs) {
        Ok(results) => results,
        Err(error) => {
            out.error(&error.to_string(), &help_for(&error, &dsl::source::Sources::default()));
            return Exit::Bad;
        }
    };
    results.iter().flat_map(|r| &r.warnings).for_each(|warning| out.tell(format!("warning: {warning}\n")));
    if results.iter().all(|r| r.runs.is_empty()) {
        out.error("there are no runs", "name folders of runs, or a folder that has runs in it");
        return Exit::Bad;
    }
    let wanted = match (&arguments.out, &arguments.markdown) {
        (None, None) => Some(PathBuf::from("report.html")),
        (out, _) => out.clone(),
    };
    let written = wanted.map_or(Ok(()), |place| html(&results, &place, arguments.figures.as_deref(), out));
    let written = written.and_then(|()| arguments.markdown.as_ref().map_or(Ok(()), |place| repository(&results, place, out)));
    if let Err(error) = written {
        out.error(&error, "choose another place");
        return Exit::Bad;
    }
    Exit::Fine
}

fn html(results: &[Results], place: &Path, folder: Option<&Path>, out: &mut Output) -> Result<(), String> {
    let (page, figures) = page::page(results);
    put(place, &page)?;
    folder.map_or(Ok(()), |folder| draw(folder, &figures))?;
    out.say(format!("{}\n", place.display()));
    Ok(())
}

/// A page of Markdown and the folder beside it.
fn repository(results: &[Results], place: &Path, out: &mut Output) -> Result<(), String> {
    let folder = place.with_extension("");
    std::fs::create_dir_all(&folder).map_err(|e| format!("cannot make `{}`: {e}", folder.display()))?;
    let (page, figures) = markdown::page(results, place);
    for figure in &figures {
        put(&folder.join(format!("{}.svg", figure.name.replace(['/', ':'], "_"))), &figure.svg)?;
    }
    put(&folder.join("results.json"), &Results::kept(results))?;
    put(place, &page)?;
    out.say(format!("{}\n", place.display()));
    Ok(())
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("cannot write `{}`: {e}", path.display()))
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
