//! A chart as an HTML page that pans and zooms, with a tooltip for every operation.

use super::chart::Chart;
use super::document::Document;
use super::svg::{Choice, image};
use super::text::{bytes, count};
use crate::figures::escaped;

const PAGE: &str = include_str!("page.html");

pub(crate) fn page(document: &Document, chart: &Chart) -> String {
    let title = format!("{}, level {}", document.model, document.level);
    let totals: String = document
        .entries
        .iter()
        .map(|entry| {
            let steps = &entry.steps;
            let words = format!(
                "{}: {} launches, {} kernels, {}flop, {} transcendental, {} of memory",
                entry.entry,
                steps.launches,
                steps.kernels,
                count(steps.cost.flops),
                count(steps.cost.transcendental).trim_end(),
                bytes(entry.memory)
            );
            format!("<p>{}</p>\n", escaped(&words))
        })
        .collect();
    PAGE.replace("{{title}}", &escaped(&title))
        .replace("{{totals}}", totals.trim_end())
        .replace("{{image}}", &image(chart, Choice::Page))
}
