//! `wmc help`: the page of a code, the list of codes, the model of the examples, or the help of a subcommand.

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use dsl::diagnostics::{CODES, Code, Severity, TINY, closest};

use crate::cli::{Cli, Help};
use crate::output::{Exit, Output};

pub(crate) fn run(arguments: &Help, out: &mut Output) -> Exit {
    let colour = out.colour_out();
    let text = match arguments.topic.as_deref() {
        None => usage(None, colour),
        Some("codes") => Some(list(colour)),
        Some("tiny") => Some(TINY.to_string()),
        Some(topic) => match Code::parse(topic) {
            Some(code) => Some(page(code.explanation().page, colour)),
            None => usage(Some(topic), colour),
        },
    };
    match (text, arguments.topic.as_deref()) {
        (Some(text), _) => {
            out.say(text);
            Exit::Fine
        }
        (None, topic) => {
            let topic = topic.unwrap_or_default();
            out.error(&format!("there is no code and no subcommand `{topic}`"), &suggestion(topic));
            Exit::Bad
        }
    }
}

/// clap's own help of the command or of one subcommand: what `--help` prints.
fn usage(subcommand: Option<&str>, colour: bool) -> Option<String> {
    let words = ["wmc"].into_iter().chain(subcommand).chain(["--help"]);
    let help = Cli::try_parse_from(words).err().filter(|e| e.kind() == ErrorKind::DisplayHelp)?.render();
    Some(if colour { help.ansi().to_string() } else { help.to_string() })
}

fn suggestion(topic: &str) -> String {
    let command = Cli::command();
    let words = command.get_subcommands().map(|c| c.get_name()).chain(["codes", "tiny"]).chain(CODES.iter().map(|c| c.id()));
    match closest(topic, words) {
        Some(best) => format!("did you mean `wmc help {best}`? `wmc help codes` lists all codes"),
        None => "`wmc help codes` lists all codes, `wmc help` all subcommands".into(),
    }
}

fn list(colour: bool) -> String {
    let mut text = String::new();
    for code in CODES {
        let paint = match code.severity() {
            Severity::Error => RED,
            Severity::Warning => YELLOW,
        };
        text += &format!("{}  {}\n", painted(code.id(), paint, colour), code.title());
    }
    text
}

const BOLD: &str = "1";
const RED: &str = "1;31";
const GREEN: &str = "1;32";
const YELLOW: &str = "1;33";
const WIDTH: usize = 96;

/// A Markdown page for a terminal: headings without their marks, models indented under `wrong:` and `right:`,
/// long lines broken.
fn page(markdown: &str, colour: bool) -> String {
    let mut text = String::new();
    let mut fenced = false;
    for line in markdown.lines() {
        if let Some(fence) = line.trim_start().strip_prefix("```") {
            fenced = !fenced;
            match fence.split_whitespace().last() {
                Some("wrong") => text += &format!("{}\n", painted("wrong:", RED, colour)),
                Some("right") => text += &format!("{}\n", painted("right:", GREEN, colour)),
                _ => {}
            }
        } else if fenced {
            text += format!("    {line}").trim_end();
            text.push('\n');
        } else if line.starts_with('#') {
            text += &format!("{}\n", painted(line.trim_start_matches('#').trim(), BOLD, colour));
        } else {
            wrap(line, &mut text);
        }
    }
    if markdown.contains("use tiny::") {
        text.push_str("\n`Tiny` is a small complete model; `wmc help tiny` prints it.\n");
    }
    text
}

/// Breaks a line at spaces; the rest of a list item stays under its text.
fn wrap(line: &str, text: &mut String) {
    let hang = if line.starts_with("- ") { "  " } else { "" };
    let mut column = 0;
    for word in line.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > WIDTH {
            text.push('\n');
            text.push_str(hang);
            column = hang.len();
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += width;
    }
    text.push('\n');
}

fn painted(text: &str, paint: &str, colour: bool) -> String {
    if colour { format!("\x1b[{paint}m{text}\x1b[0m") } else { text.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# E0203: axes\n\nSome `x` words.\n\n```wm wrong\nmodel A {\n}\n```\n```wm right\nmodel B {}\n```\n";

    #[test]
    fn a_page_reads_well_without_colour() {
        let expected = "E0203: axes\n\nSome `x` words.\n\nwrong:\n    model A {\n    }\nright:\n    model B {}\n";
        assert_eq!(page(PAGE, false), expected);
        assert!(page(PAGE, true).contains("\x1b[1;31mwrong:\x1b[0m"));
    }

    #[test]
    fn long_lines_break_at_spaces() {
        let mut text = String::new();
        wrap(&format!("- {}", "word ".repeat(40).trim_end()), &mut text);
        assert!(text.lines().all(|l| l.len() <= WIDTH) && text.lines().skip(1).all(|l| l.starts_with("  word")), "{text}");
    }

    #[test]
    fn every_code_has_a_page() {
        for code in CODES {
            assert!(page(code.explanation().page, false).contains(code.id()), "{}", code.id());
        }
    }
}
