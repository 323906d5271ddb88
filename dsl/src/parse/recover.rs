//! Parsing with recovery: the whole text first; where that fails, piece by piece.

use pest::Parser;
use pest::error::{ErrorVariant, InputLocation};

use super::build::Build;
use super::expected::{expected, listed};
use super::{Grammar, Rule};
use crate::ast;
use crate::diagnostics::{Code, Diagnostic, closest};
use crate::lex::{self, Kind, Token};
use crate::source::{FileId, Span};

pub(super) fn file(file: FileId, text: &str, diagnostics: &mut Vec<Diagnostic>) -> ast::File {
    match Grammar::parse(Rule::file, text) {
        Ok(mut pairs) => {
            let pair = pairs.next().expect("a file");
            Build { file, base: 0, diagnostics }.file(pair)
        }
        Err(_) => Recovery { file, text, diagnostics }.file(),
    }
}

struct Recovery<'a> {
    file: FileId,
    text: &'a str,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Recovery<'_> {
    fn file(&mut self) -> ast::File {
        let tokens: Vec<Token> = lex::tokens(self.text).into_iter().filter(|t| t.kind != Kind::Comment).collect();
        let mut tree = ast::File::default();
        if !self.characters(&tokens) || !self.brackets(&tokens) {
            return tree;
        }
        let before = self.diagnostics.len();
        for piece in cut(self.text, &tokens, &lex::ITEM_WORDS, false) {
            tree.items.extend(self.item(piece));
        }
        if self.diagnostics.len() == before {
            // The pieces parse and the whole does not: the cut hid the mistake.
            if let Err(error) = Grammar::parse(Rule::file, self.text) {
                self.report(error, 0, self.text, &[]);
            }
        }
        tree
    }

    /// Characters and texts that are no tokens.
    fn characters(&mut self, tokens: &[Token]) -> bool {
        let before = self.diagnostics.len();
        for (i, token) in tokens.iter().enumerate() {
            let span = Span::new(self.file, token.lo, token.hi);
            let diagnostic = match token.kind {
                Kind::Number => match tokens.get(i + 1) {
                    Some(next) if next.kind == Kind::Word && next.lo == token.hi => self.glued(*token, *next),
                    _ => continue,
                },
                Kind::Bad => {
                    let shown = token.text(self.text);
                    let d = Diagnostic::new(
                        Code::BadCharacter,
                        span,
                        format!("`{}` is not part of the language", shown.escape_debug()),
                    );
                    match shown {
                        "#" => d.help("a comment starts with `//`"),
                        ";" => d.help("statements need nothing between them"),
                        "'" => d.help("name the next value, or write `next x` for a carry"),
                        "|" => d.help("`or` is written `||`"),
                        "&" => d.help("`and` is written `&&`"),
                        _ => d,
                    }
                }
                Kind::UnclosedText => Diagnostic::new(Code::UnclosedString, span, "this text has no closing quote")
                    .help("close it with `\"` on the same line"),
                _ => continue,
            };
            self.diagnostics.push(diagnostic);
            if self.diagnostics.len() - before >= 20 {
                break;
            }
        }
        self.diagnostics.len() == before
    }

    /// `20k`: a number with letters right behind it.
    fn glued(&self, number: Token, letters: Token) -> Diagnostic {
        let (digits, suffix) = (number.text(self.text), letters.text(self.text));
        let span = Span::new(self.file, number.lo, letters.hi);
        let d = Diagnostic::new(Code::BadNumber, span, format!("`{digits}{suffix}` is not a number"));
        match (suffix, digits) {
            ("k" | "K", _) => d.help(format!("write `{digits}_000`")),
            ("m" | "M", _) => d.help(format!("write `{digits}_000_000`")),
            ("f" | "f32" | "f64", _) => d.help(format!("write `{digits}`")),
            (_, "0") => d.help("numbers are written in base ten"),
            _ => d.help(format!("a product needs its sign: `{digits} * {suffix}`; a name starts with a letter")),
        }
    }

    /// Brackets that have no partner. Without partners nothing can be cut into pieces.
    fn brackets(&mut self, tokens: &[Token]) -> bool {
        let before = self.diagnostics.len();
        let partner = |c: &str| match c {
            "(" => ")",
            "[" => "]",
            _ => "}",
        };
        let mut open: Vec<Token> = Vec::new();
        // A `{` whose `}` stands further left than its own line: most likely the one that is not closed.
        let mut suspect: Option<Token> = None;
        for token in tokens.iter().filter(|t| t.kind == Kind::Punct) {
            let shown = token.text(self.text);
            let span = Span::new(self.file, token.lo, token.hi);
            match shown {
                "(" | "[" | "{" => open.push(*token),
                ")" | "]" | "}" => match open.iter().rposition(|o| partner(o.text(self.text)) == shown) {
                    Some(at) => {
                        // What was opened in between is never closed.
                        for opening in open.drain(at + 1..) {
                            let want = partner(opening.text(self.text));
                            self.diagnostics.push(
                                Diagnostic::new(
                                    Code::Unclosed,
                                    Span::new(self.file, opening.lo, opening.hi),
                                    "this bracket is never closed",
                                )
                                .here(format!("needs a `{want}`"))
                                .label(span, format!("this `{shown}` belongs to a bracket before it")),
                            );
                        }
                        if let Some(opening) = open.pop()
                            && shown == "}"
                            && self.indent(token.lo) < self.indent(opening.lo)
                        {
                            suspect.get_or_insert(opening);
                        }
                    }
                    None => self.diagnostics.push(
                        Diagnostic::new(Code::StrayClosing, span, format!("`{shown}` closes nothing"))
                            .help("remove it, or open it before"),
                    ),
                },
                _ => {}
            }
            if self.diagnostics.len() - before >= 20 {
                return false;
            }
        }
        if let Some(opening) = suspect.filter(|_| !open.is_empty()).or(open.first().copied()) {
            let want = partner(opening.text(self.text));
            self.diagnostics.push(
                Diagnostic::new(Code::Unclosed, Span::new(self.file, opening.lo, opening.hi), "this bracket is never closed")
                    .here(format!("needs a `{want}`")),
            );
        }
        self.diagnostics.len() == before
    }

    /// White space before the line that a place is on.
    fn indent(&self, at: usize) -> usize {
        let line = self.text[..at].rfind('\n').map_or(0, |i| i + 1);
        self.text[line..].bytes().take_while(|b| *b == b' ' || *b == b'\t').count()
    }

    fn item(&mut self, piece: Piece) -> Option<ast::Item> {
        let slice = &self.text[piece.lo..piece.hi];
        let error = match Grammar::parse(Rule::only_item, slice) {
            Ok(mut pairs) => {
                let inner = pairs.next().expect("an item").into_inner().next().expect("an item");
                return Build { file: self.file, base: piece.lo, diagnostics: self.diagnostics }.item(inner);
            }
            Err(error) => error,
        };
        let tokens: Vec<Token> = lex::tokens(slice).into_iter().filter(|t| t.kind != Kind::Comment).collect();
        let braces = (
            tokens.iter().find(|t| t.text(slice) == "{").map(|t| t.lo),
            tokens.last().filter(|t| t.text(slice) == "}").map(|t| t.lo),
        );
        let (Some(open), Some(close)) = braces else {
            self.report(error, piece.lo, slice, &lex::ITEM_WORDS);
            return None;
        };
        if tokens.first().is_none_or(|t| t.text(slice) != "model") || open >= close {
            self.report(error, piece.lo, slice, &lex::ITEM_WORDS);
            return None;
        }
        let head = match Grammar::parse(Rule::only_model_head, &slice[..open]) {
            Ok(mut pairs) => {
                let inner = pairs.next().expect("a head").into_inner().next().expect("a head");
                Some(Build { file: self.file, base: piece.lo, diagnostics: self.diagnostics }.model_head(inner))
            }
            Err(error) => {
                self.report(error, piece.lo, &slice[..open], &[]);
                None
            }
        };
        let inside = &slice[open + 1..close];
        let base = piece.lo + open + 1;
        let tokens: Vec<Token> = lex::tokens(inside).into_iter().filter(|t| t.kind != Kind::Comment).collect();
        let mut members = Vec::new();
        for piece in cut(inside, &tokens, &lex::MEMBER_WORDS, true) {
            let slice = &inside[piece.lo..piece.hi];
            match Grammar::parse(Rule::only_member, slice) {
                Ok(mut pairs) => {
                    let pair = pairs.next().expect("members");
                    let mut build = Build { file: self.file, base: base + piece.lo, diagnostics: self.diagnostics };
                    members.extend(pair.into_inner().filter(|p| p.as_rule() != Rule::EOI).map(|p| build.member(p)));
                }
                Err(error) => self.report(error, base + piece.lo, slice, &lex::MEMBER_WORDS),
            }
        }
        let (name, extends) = head?;
        let span = Span::new(self.file, piece.lo, piece.lo + slice.trim_end().len());
        Some(ast::Item::Model(ast::Model { name, extends, members, span }))
    }

    /// Says what was expected where the grammar stopped, in words.
    fn report(&mut self, error: pest::error::Error<Rule>, base: usize, slice: &str, words: &[&str]) {
        let at = match error.location {
            InputLocation::Pos(at) | InputLocation::Span((at, _)) => at,
        };
        let expected = match &error.variant {
            ErrorVariant::ParsingError { positives, .. } => expected(positives),
            ErrorVariant::CustomError { .. } => Vec::new(),
        };
        let tokens: Vec<Token> = lex::tokens(slice).into_iter().filter(|t| t.kind != Kind::Comment).collect();
        let span = |token: &Token| Span::new(self.file, base + token.lo, base + token.hi);
        let (found, before) = (tokens.iter().find(|t| t.lo >= at), tokens.iter().rev().find(|t| t.lo < at));

        // A line that starts with a slip of the hand: `nett f(z)`.
        if let Some(first) = tokens.first()
            && first.kind == Kind::Word
            && !words.contains(&first.text(slice))
            && !lex::RESERVED.contains(&first.text(slice))
            && found.is_none_or(|f| f.lo == first.lo || tokens.get(1).is_some_and(|t| t.lo == f.lo))
            && let Some(best) = closest(first.text(slice), words.iter().copied())
        {
            let message = format!("no declaration starts with `{}`", first.text(slice));
            let d = Diagnostic::new(Code::Syntax, span(first), message).help(format!("did you mean `{best}`?"));
            self.diagnostics.push(d);
            return;
        }
        // `next(z)`: the word before was meant as a name.
        let words = [found, before.filter(|t| t.text(slice) == "next")];
        for token in words.into_iter().flatten().filter(|_| expected.contains(&"a name")) {
            let word = token.text(slice);
            if token.kind == Kind::Word && lex::RESERVED.contains(&word) {
                let d = Diagnostic::new(
                    Code::ReservedWord,
                    span(token),
                    format!("`{word}` is a word of the language and cannot be a name"),
                )
                .help(format!("call it `{word}_` or something else"));
                // Where it is used, the same is not told again.
                if !self.diagnostics.iter().any(|told| told.code == d.code && told.message == d.message) {
                    self.diagnostics.push(d);
                }
                return;
            }
        }
        let diagnostic = match (found, before) {
            (Some(found), _) => {
                let shown = found.text(slice);
                let d = Diagnostic::new(Code::Syntax, span(found), format!("did not expect `{shown}` here"));
                if tokens.get(1).zip(before).is_some_and(|(name, b)| name.lo == b.lo && tokens[0].text(slice) == "loss") {
                    let d = d.here("expected a weight").help("every loss has one: `loss dyn 1.0 = ..`");
                    self.diagnostics.push(d);
                    return;
                }
                let d = if expected.is_empty() { d } else { d.here(format!("expected {}", listed(&expected))) };
                let after = tokens.iter().find(|t| t.lo > found.lo).map(|t| t.text(slice));
                match hint(before.map(|t| t.text(slice)), shown, after, &expected) {
                    Some(hint) => d.help(hint),
                    None => d,
                }
            }
            (None, Some(last)) => {
                let d = Diagnostic::new(Code::Syntax, span(last), "this is not finished");
                if expected.is_empty() { d } else { d.here(format!("expected {} behind this", listed(&expected))) }
            }
            (None, None) => Diagnostic::new(Code::Syntax, Span::new(self.file, base, base), "something is missing here"),
        };
        self.diagnostics.push(diagnostic);
    }
}

/// Habits from other languages and slips of the hand, and what is written here instead.
fn hint(before: Option<&str>, found: &str, after: Option<&str>, expected: &[&str]) -> Option<String> {
    let text = match (before, found, after) {
        (Some("*"), "*", _) => "a power is written `x^2`",
        (_, "==", _) if expected.contains(&"`=`") => "an equation has one `=`",
        (_, "+" | "-" | "*" | "/", Some("=")) => "nothing is changed in place: write the whole value, as in `x[t] = x[t-1] + ..`",
        (Some("and"), ..) | (_, "and", _) => "`and` is written `&&`",
        (Some("or"), ..) | (_, "or", _) => "`or` is written `||`",
        (Some("not"), ..) | (_, "not", _) => "`not` is written `!`",
        (_, "let", _) => "`let` stands inside functions; a model has `const`, `schedule` and equations",
        (_, "return", _) => "`return` stands inside functions; a model has equations",
        (_, "~", _) if expected.contains(&"`=`") => "only an equation draws: write `x[t] ~ ..` there, and use `x[t]` here",
        (_, ":", _) if expected.contains(&"`->`") => "what it gives comes behind `->`",
        (Some("if"), ..) => "a condition stands in `( )`",
        (_, "}", _) if expected == ["`=`"] => "a body ends with `return ..`",
        (_, found, _) if expected.contains(&"a statement") && !lex::RESERVED.contains(&found) => "a body ends with `return ..`",
        (_, word, _) if lex::MEMBER_WORDS.contains(&word) && expected.iter().any(|e| e.starts_with("an item")) => {
            return Some(format!("`{word}` stands inside a model: `model NAME {{ {word} .. }}`"));
        }
        _ if expected == ["a percentage"] => "moments of the training are percentages: `30%..60%`",
        _ => {
            let kinds = lex::MEMBER_WORDS.iter().copied().chain(["equation"]);
            return match expected {
                ["what to drop (`net`, `loss`, `fn`, ..)"] => closest(found, kinds).map(|best| format!("did you mean `{best}`?")),
                _ => None,
            };
        }
    };
    Some(text.to_string())
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    lo: usize,
    hi: usize,
}

/// Cuts a text at depth 0 before each word that starts a piece. Members must stand first on their line
/// (many of their words are labels elsewhere); there, an equation starts a piece too.
fn cut(text: &str, tokens: &[Token], words: &[&str], members: bool) -> Vec<Piece> {
    let mut starts = Vec::new();
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate() {
        let shown = token.text(text);
        match shown {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > 0 || token.kind != Kind::Word {
            continue;
        }
        let first_on_line = i == 0 || text[tokens[i - 1].hi..token.lo].contains('\n');
        // `use tasks::dmc`: a word of a path starts nothing.
        let in_path = i > 0 && matches!(tokens[i - 1].text(text), "use" | "::");
        let starts_item = words.contains(&shown) && !in_path && (!members || first_on_line);
        let new = first_on_line && !lex::RESERVED.contains(&shown);
        let starts_equation = members && new && is_equation(text, &tokens[i..]);
        // Between items there is nothing but items.
        let between = !members && i > 0 && tokens[i - 1].text(text) == "}";
        let starts_unknown = new && (between || is_misspelt(text, &tokens[i..], words));
        if i == 0 || starts_item || starts_equation || starts_unknown {
            starts.push(token.lo);
        }
    }
    if starts.is_empty() && !tokens.is_empty() {
        starts.push(tokens[0].lo);
    }
    if let (Some(first), Some(token)) = (starts.first_mut(), tokens.first()) {
        *first = token.lo;
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]).collect::<Vec<_>>();
    starts.into_iter().zip(ends).map(|(lo, hi)| Piece { lo, hi }).collect()
}

/// `x =`, `x ~`, or `x[..] =`.
fn is_equation(text: &str, tokens: &[Token]) -> bool {
    let mut depth = 0usize;
    for (i, token) in tokens[1..].iter().enumerate() {
        match token.text(text) {
            "[" => depth += 1,
            "]" => depth = depth.saturating_sub(1),
            "=" | "~" | "==" if depth == 0 => return true,
            // `x += 1`: nothing of the kind, but meant as an equation.
            "+" | "-" | "*" | "/" if depth == 0 => return tokens.get(i + 2).is_some_and(|t| t.text(text) == "="),
            _ if depth > 0 => {}
            _ => return false,
        }
    }
    false
}

/// `nett f(..)`, `trian {`: a word close to one that starts a piece, with a word or a brace behind it.
fn is_misspelt(text: &str, tokens: &[Token], words: &[&str]) -> bool {
    let [first, second, rest @ ..] = tokens else { return false };
    // Two letters are too near to `fn`: `on all` goes on with what was there before.
    if first.hi - first.lo < 3 || first.kind != Kind::Word {
        return false;
    }
    let shown = second.text(text);
    let fold = rest.first().is_some_and(|t| t.text(text) == "in");
    (second.kind == Kind::Word && !fold || shown == "{") && closest(first.text(text), words.iter().copied()).is_some()
}
