//! Tokens as a text that the grammar of `.wm` reads, with the way back from its bytes to the tokens' spans.
//!
//! Invariants
//! - The text has the tokens of the stream and no others: what was joined stays joined (`..=`), what was apart stays
//!   apart. Doc comments, which arrive as `#[doc = ".."]`, become `//` comments.
//! - Every byte that is not white space lies in exactly one mark.
//! - Lines of the source stay lines, because the parser's recovery cuts a broken model at the starts of lines.
//!   Tokens without a place of their own (made by another macro) are broken before what starts a declaration.

use std::ops::Range;

use proc_macro2::{Delimiter, Group, Spacing, Span, TokenStream, TokenTree};
use syn::parse::{ParseStream, Parser};
use wmc_dsl::lex;

/// Widest run of spaces that is kept; a wider one only makes the text larger.
const MAX_SPACES: usize = 120;

#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) text: String,
    /// In the order of the text.
    marks: Vec<Mark>,
}

/// The bytes of one token.
#[derive(Debug)]
struct Mark {
    lo: usize,
    hi: usize,
    span: Span,
}

pub(crate) fn print(tokens: TokenStream) -> Printed {
    lay_out(&flatten(tokens))
}

impl Printed {
    /// Spans of the first and the last token of a range of bytes; for an empty range the token before it.
    /// `None` where the text has no tokens at all.
    pub(crate) fn tokens(&self, bytes: Range<usize>) -> Option<(Span, Span)> {
        let first = self.marks.partition_point(|m| m.hi <= bytes.start);
        let end = self.marks.partition_point(|m| m.lo < bytes.end);
        if first < end {
            return Some((self.marks[first].span, self.marks[end - 1].span));
        }
        let near = self.marks.get(first.saturating_sub(1))?;
        Some((near.span, near.span))
    }

    /// The token `word` where it follows the token `before`: `Tiny` in `model Tiny`.
    pub(crate) fn following(&self, before: &str, word: &str) -> Option<Span> {
        let text = |mark: &Mark| &self.text[mark.lo..mark.hi];
        self.marks.windows(2).find(|pair| text(&pair[0]) == before && text(&pair[1]) == word).map(|pair| pair[1].span)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A word, a number or a text in quotes: two of them never touch.
    Word,
    Punct {
        joint: bool,
    },
    Bracket,
    Comment,
}

/// A token as it will be printed.
#[derive(Debug)]
struct Piece {
    text: String,
    kind: Kind,
    span: Span,
}

/// The tokens of one group that are still to come, and the bracket that ends it.
struct Frame {
    trees: std::vec::IntoIter<TokenTree>,
    close: Option<Piece>,
}

impl Frame {
    fn new(tokens: TokenStream, close: Option<Piece>) -> Frame {
        Frame { trees: tokens.into_iter().collect::<Vec<_>>().into_iter(), close }
    }
}

/// Groups opened up, in order. Not recursive: nesting is the user's, and the parser reports where it is too deep.
fn flatten(tokens: TokenStream) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut frames = vec![Frame::new(tokens, None)];
    while let Some(frame) = frames.last_mut() {
        if let Some((text, length)) = doc_comment(frame.trees.as_slice()) {
            let span = frame.trees.by_ref().take(length).last().map_or_else(Span::call_site, |t| t.span());
            pieces.push(Piece { text, kind: Kind::Comment, span });
            continue;
        }
        match frame.trees.next() {
            None => {
                pieces.extend(frames.pop().and_then(|f| f.close));
            }
            Some(TokenTree::Group(group)) => {
                let (open, close) = brackets(&group).unzip();
                pieces.extend(open);
                frames.push(Frame::new(group.stream(), close));
            }
            Some(TokenTree::Punct(punct)) => pieces.push(Piece {
                text: punct.as_char().to_string(),
                kind: Kind::Punct { joint: punct.spacing() == Spacing::Joint },
                span: punct.span(),
            }),
            Some(word) => pieces.push(Piece { text: word.to_string(), kind: Kind::Word, span: word.span() }),
        }
    }
    pieces
}

fn brackets(group: &Group) -> Option<(Piece, Piece)> {
    let (open, close) = match group.delimiter() {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::Brace => ("{", "}"),
        // An expression that a `macro_rules!` passed on: what binds inside must not come apart outside.
        Delimiter::None if is_operation(group.stream()) => ("(", ")"),
        Delimiter::None => return None,
    };
    let piece = |text: &str, span| Piece { text: text.to_string(), kind: Kind::Bracket, span };
    Some((piece(open, group.span_open()), piece(close, group.span_close())))
}

fn is_operation(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|t| matches!(t, TokenTree::Punct(p) if "+-*/@^<>=&|!".contains(p.as_char())))
}

/// `#[doc = ".."]` or `#![doc = ".."]` at the front: the comment, and how many tokens it takes.
fn doc_comment(trees: &[TokenTree]) -> Option<(String, usize)> {
    let is = |tree: &TokenTree, c| matches!(tree, TokenTree::Punct(p) if p.as_char() == c);
    let (group, length) = match trees {
        [hash, TokenTree::Group(group), ..] if is(hash, '#') => (group, 2),
        [hash, bang, TokenTree::Group(group), ..] if is(hash, '#') && is(bang, '!') => (group, 3),
        _ => return None,
    };
    let text = |input: ParseStream| {
        let name: syn::Ident = input.parse()?;
        input.parse::<syn::Token![=]>()?;
        let text: syn::LitStr = input.parse()?;
        if name == "doc" { Ok(text.value()) } else { Err(input.error("not a doc comment")) }
    };
    let text = text.parse2(group.stream()).ok().filter(|_| group.delimiter() == Delimiter::Bracket)?;
    let lines: Vec<String> = text.split('\n').map(|line| format!("//{}", line.trim_end())).collect();
    Some((lines.join("\n"), length))
}

/// What stands between two tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gap {
    Spaces(usize),
    Lines { count: usize, column: usize },
}

fn lay_out(pieces: &[Piece]) -> Printed {
    let gaps: Vec<Gap> = (0..pieces.len()).map(|i| gap(&pieces[..i], &pieces[i..])).collect();
    let columns = gaps.iter().filter_map(|g| if let Gap::Lines { column, .. } = g { Some(*column) } else { None });
    let margin = columns.min().unwrap_or(0);
    let mut text = String::new();
    let mut marks = Vec::new();
    for (piece, gap) in pieces.iter().zip(gaps) {
        let spaces = match gap {
            Gap::Spaces(spaces) => spaces,
            Gap::Lines { count, column } => {
                text.extend(std::iter::repeat_n('\n', count));
                column - margin
            }
        };
        text.extend(std::iter::repeat_n(' ', spaces.min(MAX_SPACES)));
        let lo = text.len();
        text.push_str(&piece.text);
        marks.push(Mark { lo, hi: text.len(), span: piece.span });
    }
    text.push('\n');
    Printed { text, marks }
}

fn gap(before: &[Piece], rest: &[Piece]) -> Gap {
    let (Some(previous), Some(piece)) = (before.last(), rest.first()) else {
        return Gap::Spaces(0);
    };
    let both_puncts = matches!((previous.kind, piece.kind), (Kind::Punct { .. }, Kind::Punct { .. }));
    if both_puncts && previous.kind == (Kind::Punct { joint: true }) {
        return Gap::Spaces(0);
    }
    let needed = usize::from(both_puncts || (previous.kind == Kind::Word && piece.kind == Kind::Word));
    let (end, start) = (previous.span.end(), piece.span.start());
    let placed = is_placed(previous.span) && is_placed(piece.span) && start >= end;
    let lines = if placed { start.line - end.line } else { usize::from(breaks(previous, rest)) };
    if lines > 0 || previous.kind == Kind::Comment {
        // One empty line is as good as many.
        return Gap::Lines { count: lines.clamp(1, 2), column: if placed { start.column } else { 0 } };
    }
    if placed { Gap::Spaces((start.column - end.column).max(needed)) } else { Gap::Spaces(1) }
}

/// Whether a span says where its token stood.
fn is_placed(span: Span) -> bool {
    span.start().line > 0 && span.start() < span.end()
}

/// Whether a line should start here, for tokens that do not say where they stood.
fn breaks(previous: &Piece, rest: &[Piece]) -> bool {
    let piece = &rest[0];
    let starts = || lex::MEMBER_WORDS.contains(&piece.text.as_str()) || lex::ITEM_WORDS.contains(&piece.text.as_str());
    // `slow.f(..)` and `memory(..)` are values; `drop net core` and `loss value 1` name what they are about.
    let declares = || rest.get(1).is_some_and(|next| next.kind == Kind::Word || next.text == "{");
    let names = || matches!(previous.text.as_str(), "drop" | "loss");
    match piece.kind {
        Kind::Comment => true,
        Kind::Word => previous.text == "}" || (starts() && declares() && !names()),
        Kind::Punct { .. } | Kind::Bracket => false,
    }
}
