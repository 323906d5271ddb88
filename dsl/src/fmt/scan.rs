//! Assigns roles to tokens, frames and entries in one scan with a stack.
//!
//! It is no parse: it is exact on a text that parses (but takes a record that a carry starts from, which no check lets
//! pass, for the block's body), and gives every token of any other text some role.

use super::lead::{self, Needs};
use super::outline::{Entry, Frame, Role, Shape, Unit};
use crate::lex::Kind;

pub(super) fn scan(units: Vec<Unit<'_>>) -> (Vec<Unit<'_>>, Vec<Frame>) {
    let mut scan = Scan { units, frames: Vec::new(), open: Vec::new(), ends: false };
    scan.push(Shape::Block, true, false);
    for at in 0..scan.units.len() {
        scan.unit(at);
    }
    for open in scan.open {
        scan.frames[open.frame].keep(open.entry);
    }
    (scan.units, scan.frames)
}

/// A frame that is not closed yet.
struct Open {
    frame: usize,
    bracket: &'static str,
    /// The construct at the cursor.
    entry: Option<Entry>,
    /// Nothing stands behind its bracket or its last comma.
    fresh: bool,
    /// What the next brace holds: `if`, `else`, a fold or `rollout` went before.
    pending: Option<Shape>,
    /// Sums here are written without spaces.
    tight: bool,
    /// A range's dots were met, and nothing since that ends the range.
    range: bool,
    /// Operators since the last token that no range can contain.
    operators: Vec<usize>,
}

struct Scan<'a> {
    units: Vec<Unit<'a>>,
    frames: Vec<Frame>,
    open: Vec<Open>,
    /// The last token may end an expression.
    ends: bool,
}

impl Scan<'_> {
    fn push(&mut self, shape: Shape, hanging: bool, body: bool) {
        let bracket = match shape {
            Shape::Args | Shape::Group => ")",
            Shape::Index | Shape::List => "]",
            _ => "}",
        };
        let inherited = shape == Shape::Group && self.open.last().is_some_and(|o| o.tight);
        let tight = shape == Shape::Index || inherited;
        let frame = self.frames.len();
        self.frames.push(Frame { shape, hanging, body, close: None, entries: Vec::new() });
        self.open.push(Open {
            frame,
            bracket,
            entry: None,
            fresh: true,
            pending: None,
            tight,
            range: false,
            operators: Vec::new(),
        });
        self.ends = false;
    }

    /// The innermost open frame; the file is never closed.
    fn top(&mut self) -> &mut Open {
        self.open.last_mut().expect("the file is open")
    }

    fn shape(&self) -> Shape {
        self.open.last().map_or(Shape::Block, |o| self.frames[o.frame].shape)
    }

    fn entry(&self) -> Option<&Entry> {
        self.open.last()?.entry.as_ref()
    }

    fn entry_mut(&mut self) -> Option<&mut Entry> {
        self.open.last_mut()?.entry.as_mut()
    }

    fn text(&self, at: usize) -> &str {
        self.units.get(at).map_or("", |u| u.text)
    }

    fn behind_dot(&self, at: usize) -> bool {
        at > 0 && self.units[at - 1].role == Role::Dot
    }

    /// What stands here can be part of no range that went before.
    fn cut_range(&mut self) {
        let top = self.top();
        top.range = false;
        top.operators.clear();
    }

    fn unit(&mut self, at: usize) {
        self.units[at].frame = self.top().frame;
        if !self.closes(at) && self.starts(at) {
            self.begin(at);
        }
        self.units[at].role = match self.units[at].kind {
            Kind::Word => self.word(at),
            Kind::Punct => self.punct(at),
            Kind::Number | Kind::Text | Kind::UnclosedText => {
                self.ends = true;
                Role::Value
            }
            Kind::Comment | Kind::Bad => {
                self.ends = true;
                Role::Stray
            }
        };
    }

    /// Whether this closes the innermost bracket.
    fn closes(&self, at: usize) -> bool {
        let unit = &self.units[at];
        let partner = self.open.last().is_some_and(|open| open.bracket == unit.text);
        self.open.len() > 1 && unit.kind == Kind::Punct && partner
    }

    /// Whether a statement or an item starts here.
    fn starts(&self, at: usize) -> bool {
        let unit = &self.units[at];
        if self.behind_dot(at) {
            return false;
        }
        let fresh = self.open.last().is_some_and(|o| o.fresh);
        let Some(entry) = self.entry() else {
            return true;
        };
        match self.shape() {
            Shape::Block => {
                let infix = matches!(unit.text, "with" | "for" | "where" | "reset" | "in" | "else");
                unit.kind == Kind::Word
                    && self.ends
                    && !infix
                    && entry.complete()
                    && self.tail(at).is_none()
                    && !self.is_fold_variable(at)
            }
            Shape::Settings => {
                let declared = at > 0 && self.declares(at - 1);
                fresh || unit.kind == Kind::Word && self.ends && !declared && (self.declares(at) || self.defines(at))
            }
            _ => fresh,
        }
    }

    /// Whether this is `probe` or `show` before the name that it declares.
    fn declares(&self, at: usize) -> bool {
        let named = self.units.get(at + 1).is_some_and(|next| next.kind == Kind::Word);
        named && self.text(at + 2) == "=" && lead::DECLARES.contains(&self.text(at))
    }

    /// Whether a name is followed by `=`, or by its subscripts and `=`.
    fn defines(&self, at: usize) -> bool {
        if self.text(at + 1) != "[" {
            return self.text(at + 1) == "=";
        }
        // Subscripts of a series are names.
        let close = (at + 2..at + 8).find(|i| self.text(*i) == "]");
        close.is_some_and(|close| self.text(close + 1) == "=")
    }

    fn begin(&mut self, at: usize) {
        let lead = match self.shape() {
            Shape::Block => lead::of(self.text(at), self.text(at + 1)),
            _ => &lead::ITEM,
        };
        self.cut_range();
        let top = self.top();
        top.fresh = false;
        top.pending = None;
        let (arrow, extra, define, body) = (None, None, None, None);
        let entry = Entry { lead, first: at, arrow, extra, define, defines: 0, clauses: Vec::new(), body, tails: 0 };
        let (frame, before) = (top.frame, top.entry.replace(entry));
        self.frames[frame].keep(before);
        self.units[at].starts = true;
        self.ends = false;
    }

    /// The position of this word among the tail words that the statement may still have. Where the statement can
    /// do without it, it may be the name of the next equation.
    fn tail(&self, at: usize) -> Option<usize> {
        let next = self.text(at + 1);
        let defined = matches!(next, "=" | "~") || next == "[" && matches!(self.text(at), "except" | "scale" | "after" | "only");
        let entry = self.entry().filter(|_| self.ends && !defined)?;
        let rest = entry.lead.tails.get(entry.tails..)?;
        rest.iter().position(|w| *w == self.text(at)).map(|p| entry.tails + p)
    }

    /// `k` in `sum k in ..`.
    fn is_fold_variable(&self, at: usize) -> bool {
        let behind_name = at > 0 && self.units[at - 1].role == Role::Name && !self.behind_dot(at - 1);
        behind_name && self.text(at + 1) == "in"
    }

    fn word(&mut self, at: usize) -> Role {
        let role = self.read_word(at);
        if role == Role::Keyword {
            self.cut_range();
        }
        self.ends = role == Role::Name;
        // The name of a loss is followed by its weight, which may start with `-` or `(`.
        if self.entry().is_some_and(|e| e.lead.word == "loss" && at == e.first + 1) {
            self.ends = false;
        }
        role
    }

    fn read_word(&mut self, at: usize) -> Role {
        if self.behind_dot(at) {
            return Role::Name;
        }
        let Some((lead, first)) = self.entry().map(|e| (e.lead, e.first)) else {
            return Role::Name;
        };
        if at == first && self.shape() == Shape::Settings && self.declares(at) {
            return Role::Keyword;
        }
        if at == first {
            let called = lead.word == "require";
            if lead.word.is_empty() {
                self.expression_word(at)
            } else if called {
                Role::Name
            } else {
                Role::Keyword
            }
        } else if matches!((lead.word, at - first), ("use" | "loss", 1)) {
            Role::Name
        } else if lead.word == "drop" {
            if at == first + 1 { Role::Keyword } else { Role::Name }
        } else if let Some(position) = self.tail(at) {
            let entry = self.entry_mut().expect("a tail has its statement");
            entry.tails = position + 1;
            if lead.word == "loss" {
                entry.extra = entry.extra.or(Some(at));
            }
            Role::Keyword
        } else if self.ends {
            self.infix_word(at)
        } else {
            self.expression_word(at)
        }
    }

    /// A word behind an expression.
    fn infix_word(&mut self, at: usize) -> Role {
        match self.text(at) {
            "with" | "for" | "where" | "reset" => {
                if let Some(entry) = self.entry_mut() {
                    if entry.lead.needs != Needs::Nothing && !entry.complete() {
                        entry.extra = entry.extra.or(Some(at));
                    } else {
                        entry.clauses.push(at);
                    }
                }
                Role::Keyword
            }
            "in" => {
                let named = |at: usize| self.units[at].role == Role::Name;
                if at >= 2 && named(at - 1) && named(at - 2) {
                    self.top().pending = Some(Shape::Branch);
                }
                Role::Keyword
            }
            "else" => {
                self.top().pending = Some(Shape::Branch);
                Role::Keyword
            }
            _ => Role::Name,
        }
    }

    /// A word where an expression may start.
    fn expression_word(&mut self, at: usize) -> Role {
        let label = matches!(self.text(at + 1), "=" | ":");
        match self.text(at) {
            _ if label => Role::Name,
            "if" => {
                self.top().pending = Some(Shape::Branch);
                Role::Keyword
            }
            "rollout" => {
                self.top().pending = Some(Shape::Block);
                Role::Name
            }
            "next" => Role::Keyword,
            _ => Role::Name,
        }
    }

    fn punct(&mut self, at: usize) -> Role {
        let role = match self.units[at].text {
            "(" => self.open(at, if self.ends { Shape::Args } else { Shape::Group }, false),
            "[" => self.open(at, if self.ends { Shape::Index } else { Shape::List }, false),
            "{" => {
                let (shape, body) = self.brace(at);
                self.cut_range();
                self.open(at, shape, body)
            }
            ")" | "]" | "}" => return self.close(at),
            "%" => {
                self.ends = true;
                return Role::Postfix;
            }
            ".." if matches!(self.text(at + 1), "," | "]") => {
                self.ends = true;
                return Role::Postfix;
            }
            ".." | "..=" => {
                for operator in std::mem::take(&mut self.top().operators) {
                    self.units[operator].role = Role::Tight;
                }
                self.top().range = true;
                Role::Tight
            }
            "^" => Role::Tight,
            "!" => Role::Unary,
            "+" | "-" if !self.ends => Role::Unary,
            "+" | "-" | "*" | "/" => {
                let top = self.top();
                if top.tight || top.range {
                    Role::Tight
                } else {
                    top.operators.push(at);
                    Role::Binary
                }
            }
            "@" => Role::Binary,
            "." | "::" => Role::Dot,
            ":" => Role::Colon,
            "," => {
                let block = self.shape() == Shape::Block;
                self.cut_range();
                let top = self.top();
                top.fresh = !block;
                top.pending = None;
                Role::Comma
            }
            "=" | "~" => {
                self.cut_range();
                if let Some(entry) = self.entry_mut() {
                    entry.define = entry.define.or(Some(at));
                    entry.defines += 1;
                }
                Role::Define
            }
            "->" => {
                self.cut_range();
                if let Some(entry) = self.entry_mut().filter(|e| e.define.is_none()) {
                    entry.arrow = entry.arrow.or(Some(at));
                }
                Role::Arrow
            }
            _ => {
                self.cut_range();
                Role::Binary
            }
        };
        self.ends = false;
        role
    }

    /// What a brace holds, and whether it is its statement's body.
    fn brace(&mut self, at: usize) -> (Shape, bool) {
        if let Some(shape) = self.top().pending.take() {
            return (shape, false);
        }
        if self.shape() != Shape::Block {
            return (Shape::Record, false);
        }
        match self.entry_mut() {
            Some(entry) if entry.body.is_none() && (entry.define.is_none() || entry.lead.needs == Needs::Body) => {
                let Some(shape) = entry.lead.body else {
                    return (Shape::Record, false);
                };
                // `-> { .. }` is a type.
                if entry.arrow.is_some_and(|arrow| arrow + 1 == at) {
                    return (Shape::Record, false);
                }
                entry.body = Some(at);
                (shape, true)
            }
            _ => (Shape::Record, false),
        }
    }

    fn open(&mut self, at: usize, shape: Shape, body: bool) -> Role {
        let hanging = self.units.get(at + 1).is_none_or(|next| next.breaks);
        let frame = self.frames.len();
        self.push(shape, hanging, body);
        Role::Open(frame)
    }

    fn close(&mut self, at: usize) -> Role {
        let closes = self.closes(at);
        self.ends = true;
        if !closes {
            return Role::Stray;
        }
        let Some(Open { frame, entry, .. }) = self.open.pop() else {
            return Role::Stray;
        };
        self.frames[frame].keep(entry);
        self.frames[frame].close = Some(at);
        self.units[at].frame = self.top().frame;
        Role::Close(frame)
    }
}
