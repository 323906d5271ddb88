//! Lines: indentation, blank lines, and comments in their places.
//!
//! A bracket that ends its line indents what it holds by one level; inside a bracket that does not, lines stand
//! below the first token behind it. A line that goes on with a statement or an item is one level deeper than
//! its start. A line that starts with a closing bracket returns to the line of the opening one.

use super::align;
use super::outline::{Outline, Role, Shape, breaks_before};
use crate::lex::Kind;

const INDENT: usize = 2;
/// Deeper levels are not shown, so that no text grows out of proportion.
const MAX_INDENT: usize = 128;
/// Lines are not put below a token that stands further to the right.
const MAX_COLUMN: usize = 80;
/// Spaces before a comment behind code, at least.
const COMMENT_GAP: usize = 2;

pub(super) fn print(outline: &Outline<'_>) -> String {
    let mut page = Page { outline, lines: Vec::new(), levels: Vec::new(), waiting: Vec::new(), column: 0 };
    page.levels.resize(outline.frames.len(), Level::default());
    let mut unit = 0;
    for (at, token) in outline.tokens.iter().enumerate() {
        let breaks = breaks_before(outline.source, &outline.tokens, at);
        if token.kind == Kind::Comment {
            page.comment(token.text(outline.source).trim_ascii_end(), breaks, at == 0);
        } else {
            page.unit(unit, breaks);
            unit += 1;
        }
    }
    let end = outline.units.last().map_or(0, |last| match last.role {
        Role::Open(frame) => page.levels[frame].inner,
        _ => page.levels[last.frame].inner,
    });
    page.flush(end);
    page.finish()
}

/// Where the lines of a frame start.
#[derive(Debug, Clone, Copy, Default)]
struct Level {
    /// The line that a closing bracket returns to.
    base: usize,
    /// Entries that start a line.
    inner: usize,
    /// The last line that started in this frame, or the line on which it was opened.
    anchor: usize,
    /// The statement that is being read.
    statement: usize,
}

/// One line of the result. Its code is empty where it has only a comment.
#[derive(Debug, Default)]
struct Line<'a> {
    blank_before: bool,
    indent: usize,
    code: String,
    /// Columns up to the end of the code.
    width: usize,
    comment: Option<&'a str>,
    /// The code ends with an opening bracket.
    opens: bool,
}

struct Page<'a> {
    outline: &'a Outline<'a>,
    lines: Vec<Line<'a>>,
    /// By frame.
    levels: Vec<Level>,
    /// Lines of comment that will be indented like the next line of code; whether a blank line goes before each.
    waiting: Vec<(&'a str, bool)>,
    column: usize,
}

impl<'a> Page<'a> {
    fn comment(&mut self, text: &'a str, breaks: usize, first: bool) {
        match self.lines.last_mut() {
            Some(line) if breaks == 0 && !first => line.comment = Some(text),
            _ => self.waiting.push((text, breaks > 1)),
        }
    }

    fn unit(&mut self, at: usize, breaks: usize) {
        let outline = self.outline;
        let unit = &outline.units[at];
        if unit.breaks {
            let indent = self.indent(at);
            let closes = matches!(unit.role, Role::Close(_));
            let comments = match unit.role {
                Role::Close(frame) => self.levels[frame].inner,
                _ => indent,
            };
            self.flush(comments);
            let blank_before = breaks > 1 && !closes && self.may_part();
            self.lines.push(Line { blank_before, indent, ..Line::default() });
            self.column = indent;
            let frame = self.remaining(at);
            self.levels[frame].anchor = indent;
        }
        let level = &mut self.levels[unit.frame];
        if unit.starts {
            level.statement = level.anchor;
        }
        let gap = if unit.breaks { 0 } else { unit.gap };
        self.column += gap + unit.width;
        if let Some(line) = self.lines.last_mut() {
            line.code.extend(std::iter::repeat_n(' ', gap));
            line.code.push_str(unit.text);
            line.width = self.column;
            line.opens = matches!(unit.role, Role::Open(_));
        }
        if let Role::Open(frame) = unit.role {
            self.levels[frame] = self.level(at, frame);
        }
    }

    /// Whether a blank line may stand here: not at the start of the text or of a bracket.
    fn may_part(&self) -> bool {
        self.lines.last().is_some_and(|line| !line.opens)
    }

    fn flush(&mut self, indent: usize) {
        for (text, blank) in std::mem::take(&mut self.waiting) {
            let blank_before = blank && self.may_part();
            self.lines.push(Line { blank_before, indent, width: indent, comment: Some(text), ..Line::default() });
        }
    }

    /// The level of the frame that the bracket at this unit opens.
    fn level(&self, at: usize, frame: usize) -> Level {
        let around = self.levels[self.outline.units[at].frame];
        let opened = &self.outline.frames[frame];
        let base = if opened.body { around.statement } else { around.anchor };
        let below = self.outline.units.get(at + 1).map_or(self.column, |next| self.column + next.gap);
        let deeper = (base + INDENT).min(MAX_INDENT);
        let inner = if opened.hanging || below > MAX_COLUMN { deeper } else { below };
        Level { base, inner, anchor: base, statement: base }
    }

    /// The indentation of the line that starts with this unit.
    fn indent(&self, at: usize) -> usize {
        let unit = &self.outline.units[at];
        if let Role::Close(first) = unit.role {
            let hanging = |frame: &usize| self.outline.frames[*frame].hanging;
            let last = self.closing(at).filter(hanging).last();
            return self.levels[last.unwrap_or(first)].base;
        }
        let one_expression = matches!(self.outline.frames[unit.frame].shape, Shape::Group | Shape::Branch);
        let goes_on = !unit.starts && !one_expression;
        self.levels[unit.frame].inner + if goes_on { INDENT } else { 0 }
    }

    /// The frames that the line starting with this unit closes before anything else.
    fn closing(&self, at: usize) -> impl Iterator<Item = usize> {
        let units = &self.outline.units;
        (at..units.len()).take_while(move |&i| i == at || !units[i].breaks).map_while(move |i| match units[i].role {
            Role::Close(frame) => Some(frame),
            _ => None,
        })
    }

    /// The frame that the line starting with this unit stands in, behind its closing brackets.
    fn remaining(&self, at: usize) -> usize {
        let closing = self.closing(at).count();
        let last = if closing == 0 { at } else { at + closing - 1 };
        self.outline.units[last].frame
    }

    fn finish(mut self) -> String {
        self.align_comments();
        let mut text = String::new();
        for line in &self.lines {
            if line.blank_before {
                text.push('\n');
            }
            text.extend(std::iter::repeat_n(' ', line.indent));
            text.push_str(&line.code);
            text.push_str(line.comment.unwrap_or(""));
            text.push('\n');
        }
        text
    }

    /// Comments behind code on neighbouring lines of one level form a column.
    fn align_comments(&mut self) {
        let commented = |line: &Line<'_>| line.comment.is_some() && !line.code.is_empty();
        let together = |a: &Line<'_>, b: &Line<'_>| commented(a) && commented(b) && !b.blank_before && a.indent == b.indent;
        for lines in self.lines.chunk_by_mut(together).filter(|lines| commented(&lines[0])) {
            let widths: Vec<usize> = lines.iter().map(|line| line.width).collect();
            for (line, common) in lines.iter_mut().zip(align::common_widths(&widths, align::MAX_PADDING)) {
                line.code.extend(std::iter::repeat_n(' ', common - line.width + COMMENT_GAP));
            }
        }
    }
}
