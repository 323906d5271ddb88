//! The canonical form of a text: the author's line breaks, our spaces.
//!
//! The line: `outline` (tokens to brackets and entries), `spacing` (spaces between neighbours), `align`
//! (columns of neighbouring lines), `layout` (indentation, blank lines, comments). All of it works on tokens,
//! so any text can be formatted, and every comment survives.
//!
//! Invariants: the tokens of the result are the tokens of the text, in order, and stand on the same lines as far
//! as they did (only blank lines go). Every decision depends on tokens and line breaks alone, so formatting twice is
//! formatting once. Padding and indentation are bounded, so the result is linear in the text, and so is the time (but
//! for the sorting of one column's widths).

mod align;
mod layout;
mod lead;
mod outline;
mod scan;
mod spacing;

/// Puts a text into canonical form. A text that does not parse comes out with the same tokens, too.
pub fn format(text: &str) -> String {
    let mut outline = outline::read(text);
    spacing::space(&mut outline);
    align::align(&mut outline);
    layout::print(&outline)
}
