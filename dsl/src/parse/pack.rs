//! The canonical spelling of a text that the grammar reads.
//!
//! Comments and white space go; behind every word and every number stands one space, before every reserved word a `'`.
//! All other tokens stand as they are, with a space between two of them that would otherwise read as one. Every byte
//! knows its token, so places in the packed text are places in the source.

use std::ops::Range;

use crate::lex::{self, Kind, Token};
use crate::source::{FileId, Span};

/// A text and its tokens, comments apart.
#[derive(Debug)]
pub(super) struct Packed<'a> {
    pub file: FileId,
    pub source: &'a str,
    pub tokens: Vec<Token>,
    pub text: String,
    /// By token: where it starts in the packed text; one more for the end.
    starts: Vec<u32>,
    /// By byte of the packed text: its token.
    token_at: Vec<u32>,
}

/// A range of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub lo: usize,
    pub hi: usize,
}

impl<'a> Packed<'a> {
    /// Packs a range of a text.
    pub(super) fn new(file: FileId, source: &'a str, range: Range<usize>) -> Packed<'a> {
        let mut tokens = lex::tokens(&source[range.clone()]);
        tokens.retain(|t| t.kind != Kind::Comment);
        for token in &mut tokens {
            token.lo += range.start;
            token.hi += range.start;
        }
        let mut text = String::with_capacity(range.len());
        let mut starts = Vec::with_capacity(tokens.len() + 1);
        let mut token_at = Vec::with_capacity(range.len());
        for (i, token) in tokens.iter().enumerate() {
            starts.push(text.len() as u32);
            let shown = token.text(source);
            let next = tokens.get(i + 1);
            if token.kind == Kind::Word && lex::is_reserved(shown) {
                text.push('\'');
            }
            text.push_str(shown);
            let space = match token.kind {
                Kind::Word => true,
                // `12abc` is no number, and stays none.
                Kind::Number => next.is_none_or(|n| n.kind != Kind::Word || n.lo > token.hi),
                Kind::Punct | Kind::Text | Kind::UnclosedText | Kind::Comment | Kind::Bad => false,
            };
            if space {
                text.push(' ');
            }
            token_at.resize(text.len(), i as u32);
            // `- >` is no arrow. No rule reads this space, so whoever stops at it stops before the next token.
            if token.kind == Kind::Punct && next.is_some_and(|n| n.lo > token.hi && lex::joins(shown, n.text(source))) {
                text.push(' ');
                token_at.push(i as u32 + 1);
            }
        }
        starts.push(text.len() as u32);
        Packed { file, source, tokens, text, starts, token_at }
    }

    /// All of it.
    pub(super) fn whole(&self) -> Piece {
        Piece { lo: 0, hi: self.tokens.len() }
    }

    /// What the grammar reads for a piece, and where that starts in the packed text.
    pub(super) fn slice(&self, piece: Piece) -> (&str, usize) {
        let (lo, hi) = (self.starts[piece.lo] as usize, self.starts[piece.hi] as usize);
        (&self.text[lo..hi], lo)
    }

    pub(super) fn shown(&self, token: usize) -> &'a str {
        self.tokens[token].text(self.source)
    }

    /// The token that a byte of the packed text belongs to; none at the end.
    pub(super) fn token(&self, at: usize) -> Option<usize> {
        self.token_at.get(at).map(|i| *i as usize)
    }

    pub(super) fn token_span(&self, token: usize) -> Span {
        let token = self.tokens[token];
        Span::new(self.file, token.lo, token.hi)
    }

    /// Where a range of the packed text stands in the source.
    pub(super) fn span(&self, lo: usize, hi: usize) -> Span {
        match (self.token(lo), hi.checked_sub(1).and_then(|last| self.token(last))) {
            (Some(first), Some(last)) if lo < hi => self.token_span(first).to(self.token_span(last)),
            // Nothing was read there: the place before the next token.
            (Some(first), _) => Span::new(self.file, self.tokens[first].lo, self.tokens[first].lo),
            (None, _) => Span::new(self.file, self.source.len(), self.source.len()),
        }
    }
}
