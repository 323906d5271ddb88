//! The outline of a text for the formatter: tokens with their roles, brackets, and the statements that start in them.
//!
//! Comments are no part of it; they follow the code next to them.

use super::lead::{Column, Lead, Needs};
use super::scan;
use crate::lex::{self, Kind, Token};

/// The content of a bracket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The file, or statements in braces.
    Block,
    /// `name = value` in braces, the commas optional.
    Settings,
    /// Items in braces between commas.
    Record,
    /// One expression in braces: a branch or the body of a fold.
    Branch,
    /// Arguments or parameters.
    Args,
    /// An expression in parentheses.
    Group,
    Index,
    /// A list or a shape.
    List,
}

impl Shape {
    pub(super) fn is_brace(self) -> bool {
        matches!(self, Shape::Block | Shape::Settings | Shape::Record | Shape::Branch)
    }
}

/// How a token reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Name,
    Keyword,
    Value,
    /// An operator between operands.
    Binary,
    /// The same without spaces: `^`, ranges, and sums in subscripts and ranges.
    Tight,
    Unary,
    /// `%`, and the dots of `X..`.
    Postfix,
    /// `=` or `~`.
    Define,
    Colon,
    Comma,
    /// `.` or `::`.
    Dot,
    Arrow,
    /// A bracket and the frame it opens or closes.
    Open(usize),
    Close(usize),
    /// Not part of the language, or a bracket without a partner.
    Stray,
}

/// A token of code.
#[derive(Debug)]
pub(super) struct Unit<'a> {
    pub text: &'a str,
    /// In characters.
    pub width: usize,
    pub kind: Kind,
    pub role: Role,
    /// The line it stands on, counted in lines that have code.
    pub line: usize,
    /// It stands first on its line.
    pub breaks: bool,
    /// A blank line stands before it, or before the comments above it.
    pub parted: bool,
    /// White space stands before it.
    pub spaced: bool,
    /// The frame it stands in; for a bracket, the frame around it.
    pub frame: usize,
    /// It starts a statement or an item.
    pub starts: bool,
    /// Spaces before it where it does not stand first on its line.
    pub gap: usize,
}

/// A bracket, or the file.
#[derive(Debug)]
pub(super) struct Frame {
    pub shape: Shape,
    /// The opening bracket ends its line.
    pub hanging: bool,
    /// The brace is the body of the statement around it, not part of an expression.
    pub body: bool,
    pub close: Option<usize>,
    /// What starts in it, in order, where that may form columns.
    pub entries: Vec<Entry>,
}

impl Frame {
    /// Only what hangs below its bracket has lines of its own to align.
    pub(super) fn keep(&mut self, entry: Option<Entry>) {
        if self.hanging {
            self.entries.extend(entry);
        }
    }
}

/// A statement or an item; places are indices of units.
#[derive(Debug)]
pub(super) struct Entry {
    pub lead: &'static Lead,
    pub first: usize,
    pub arrow: Option<usize>,
    pub extra: Option<usize>,
    pub define: Option<usize>,
    /// How many `=` there are.
    pub defines: usize,
    pub clauses: Vec<usize>,
    pub body: Option<usize>,
    /// How many of the lead's tail words were met.
    pub tails: usize,
}

impl Entry {
    pub(super) fn column(&self, column: Column) -> Option<usize> {
        match column {
            Column::Rest => Some(self.first + 1),
            Column::Arrow => self.arrow,
            Column::Weight => Some(self.first + 2),
            Column::Extra => self.extra,
            Column::Define => self.define,
            Column::Clause => self.clauses.first().copied(),
            Column::Body => self.body,
        }
    }

    /// Whether another statement may start behind it.
    pub(super) fn complete(&self) -> bool {
        match self.lead.needs {
            Needs::Nothing => true,
            Needs::Define => self.define.is_some(),
            Needs::Body => self.body.is_some(),
            Needs::DefineOrBody => self.define.is_some() || self.body.is_some(),
        }
    }
}

/// A text as the formatter sees it.
#[derive(Debug)]
pub(super) struct Outline<'a> {
    pub source: &'a str,
    pub tokens: Vec<Token>,
    /// The tokens without the comments.
    pub units: Vec<Unit<'a>>,
    /// The file first, then brackets as they open.
    pub frames: Vec<Frame>,
}

pub(super) fn read(source: &str) -> Outline<'_> {
    let tokens = lex::tokens(source);
    let (units, frames) = scan::scan(units(source, &tokens));
    Outline { source, tokens, units, frames }
}

/// Line breaks before a token: none, one, or more.
pub(super) fn breaks_before(source: &str, tokens: &[Token], at: usize) -> usize {
    let lo = if at == 0 { 0 } else { tokens[at - 1].hi };
    source.as_bytes()[lo..tokens[at].lo].iter().filter(|&&b| b == b'\n').count()
}

fn units<'a>(source: &'a str, tokens: &[Token]) -> Vec<Unit<'a>> {
    let mut units: Vec<Unit<'a>> = Vec::with_capacity(tokens.len());
    let (mut line, mut parted, mut breaks) = (0, false, false);
    for (at, token) in tokens.iter().enumerate() {
        let before = breaks_before(source, tokens, at);
        breaks |= before > 0;
        parted |= before > 1;
        if token.kind == Kind::Comment {
            continue;
        }
        breaks |= units.is_empty();
        line += usize::from(breaks);
        let text = token.text(source);
        units.push(Unit {
            text,
            width: text.chars().count(),
            kind: token.kind,
            role: Role::Stray,
            line,
            breaks,
            parted,
            spaced: at > 0 && tokens[at - 1].hi < token.lo,
            frame: 0,
            starts: false,
            gap: 0,
        });
        (parted, breaks) = (false, false);
    }
    units
}
