//! Parses with error recovery: the whole text first, then, on failure, item by item.

use pest::Parser;

use super::build::Build;
use super::expected::{Stop, listed, stop};
use super::pack::{Packed, Piece};
use super::told::Told;
use super::{Grammar, Rule};
use crate::ast;
use crate::diagnostics::{Code, Diagnostic, closest};
use crate::lex::{self, Kind};
use crate::source::Span;

pub(super) fn file(packed: &Packed<'_>, told: &mut Told) -> ast::File {
    let mut recovery = Recovery { packed, told };
    if !recovery.characters() {
        return ast::File::default();
    }
    recovery.told.grammar();
    match Grammar::parse(Rule::file, &packed.text) {
        Ok(mut pairs) => recovery.build(0).file(pairs.next().expect("a file")),
        Err(_) => recovery.file(),
    }
}

struct Recovery<'a> {
    packed: &'a Packed<'a>,
    told: &'a mut Told,
}

impl Recovery<'_> {
    /// Builds what was parsed from a slice that starts at `base` of the packed text.
    fn build(&mut self, base: usize) -> Build<'_> {
        Build { packed: self.packed, base, told: self.told }
    }

    fn file(&mut self) -> ast::File {
        let mut tree = ast::File::default();
        if !self.brackets() {
            return tree;
        }
        let before = self.told.len();
        for piece in cut(self.packed, self.packed.whole(), &lex::ITEM_WORDS, false) {
            tree.items.extend(self.item(piece));
        }
        if self.told.len() == before {
            // The pieces parse and the whole does not: the cut hid the mistake.
            self.report(Rule::file, self.packed.whole(), &[]);
        }
        tree
    }

    /// Characters and texts that are no tokens.
    fn characters(&mut self) -> bool {
        let before = self.told.len();
        for (i, token) in self.packed.tokens.iter().enumerate() {
            let wrong = match token.kind {
                Kind::Number => self.packed.tokens.get(i + 1).is_some_and(|n| n.kind == Kind::Word && n.lo == token.hi),
                Kind::Bad | Kind::UnclosedText => true,
                Kind::Word | Kind::Text | Kind::Punct | Kind::Comment => false,
            };
            if !wrong || !self.told.room() {
                continue;
            }
            let span = self.packed.token_span(i);
            let diagnostic = match token.kind {
                Kind::Number => self.glued(i),
                Kind::Bad => {
                    let shown = self.packed.shown(i);
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
                _ => Diagnostic::new(Code::UnclosedString, span, "this text has no closing quote")
                    .help("close it with `\"` on the same line"),
            };
            self.told.push(diagnostic);
        }
        self.told.len() == before
    }

    /// `20k`: a number with letters right behind it.
    fn glued(&self, number: usize) -> Diagnostic {
        let (digits, suffix) = (self.packed.shown(number), self.packed.shown(number + 1));
        let span = self.packed.token_span(number).to(self.packed.token_span(number + 1));
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
    fn brackets(&mut self) -> bool {
        let before = self.told.len();
        let packed = self.packed;
        let partner = |i: usize| match packed.shown(i) {
            "(" => ")",
            "[" => "]",
            _ => "}",
        };
        let mut open: Vec<usize> = Vec::new();
        // A `{` whose `}` stands further left than its own line: most likely the one that is not closed.
        let mut suspect: Option<usize> = None;
        for (i, token) in packed.tokens.iter().enumerate().filter(|(_, t)| t.kind == Kind::Punct) {
            let shown = token.text(packed.source);
            match shown {
                "(" | "[" | "{" => open.push(i),
                ")" | "]" | "}" => match open.iter().rposition(|o| partner(*o) == shown) {
                    Some(at) => {
                        // What was opened in between is never closed.
                        for opening in open.drain(at + 1..) {
                            self.told.push(
                                Diagnostic::new(Code::Unclosed, packed.token_span(opening), "this bracket is never closed")
                                    .here(format!("needs a `{}`", partner(opening)))
                                    .label(packed.token_span(i), format!("this `{shown}` belongs to a bracket before it")),
                            );
                        }
                        if let Some(opening) = open.pop()
                            && shown == "}"
                            && suspect.is_none()
                            && self.indent(i) < self.indent(opening)
                        {
                            suspect = Some(opening);
                        }
                    }
                    None => self.told.push(
                        Diagnostic::new(Code::StrayClosing, packed.token_span(i), format!("`{shown}` closes nothing"))
                            .help("remove it, or open it before"),
                    ),
                },
                _ => {}
            }
            // Openings that nothing closes pile up, and every closing looks through them.
            if self.told.enough() {
                return false;
            }
        }
        if let Some(opening) = suspect.filter(|_| !open.is_empty()).or(open.first().copied()) {
            self.told.push(
                Diagnostic::new(Code::Unclosed, packed.token_span(opening), "this bracket is never closed")
                    .here(format!("needs a `{}`", partner(opening))),
            );
        }
        self.told.len() == before
    }

    /// White space before the line that a token is on; none for a line too long to be anybody's.
    fn indent(&self, token: usize) -> usize {
        const LONG: usize = 1_000;
        let (source, at) = (self.packed.source.as_bytes(), self.packed.tokens[token].lo);
        let near = &source[at.saturating_sub(LONG)..at];
        let line = near.iter().rposition(|b| *b == b'\n').map_or(near, |i| &near[i + 1..]);
        if line.len() == LONG { 0 } else { line.iter().take_while(|b| **b == b' ' || **b == b'\t').count() }
    }

    fn item(&mut self, piece: Piece) -> Option<ast::Item> {
        let packed = self.packed;
        let (slice, base) = packed.slice(piece);
        if let Ok(mut pairs) = Grammar::parse(Rule::only_item, slice) {
            let inner = pairs.next().expect("an item").into_inner().next().expect("an item");
            return self.build(base).item(inner);
        }
        let open = (piece.lo..piece.hi).find(|i| packed.shown(*i) == "{");
        let close = (piece.lo..piece.hi).next_back().filter(|i| packed.shown(*i) == "}");
        let (Some(open), Some(close)) = (open, close) else {
            self.report(Rule::only_item, piece, &lex::ITEM_WORDS);
            return None;
        };
        if packed.shown(piece.lo) != "model" || open >= close {
            self.report(Rule::only_item, piece, &lex::ITEM_WORDS);
            return None;
        }
        let head_piece = Piece { lo: piece.lo, hi: open };
        let head = match Grammar::parse(Rule::only_model_head, packed.slice(head_piece).0) {
            Ok(mut pairs) => {
                let inner = pairs.next().expect("a head").into_inner().next().expect("a head");
                Some(self.build(base).model_head(inner))
            }
            Err(_) => {
                self.report(Rule::only_model_head, head_piece, &[]);
                None
            }
        };
        let mut members = Vec::new();
        for piece in cut(packed, Piece { lo: open + 1, hi: close }, &lex::MEMBER_WORDS, true) {
            let (slice, base) = packed.slice(piece);
            match Grammar::parse(Rule::only_member, slice) {
                Ok(mut pairs) => {
                    let pair = pairs.next().expect("members");
                    let mut build = self.build(base);
                    members.extend(pair.into_inner().filter(|p| p.as_rule() != Rule::EOI).map(|p| build.member(p)));
                }
                Err(_) => self.report(Rule::only_member, piece, &lex::MEMBER_WORDS),
            }
        }
        let (name, extends) = head?;
        let span = packed.token_span(piece.lo).to(packed.token_span(close));
        Some(ast::Item::Model(ast::Model { name, extends, members, span }))
    }

    /// Says what was expected where the grammar stopped, in words. `starts` are the words that a piece starts with.
    fn report(&mut self, rule: Rule, piece: Piece, starts: &[&str]) {
        if !self.told.room() {
            return;
        }
        let packed = self.packed;
        let (slice, base) = packed.slice(piece);
        let Stop { at, expected } = stop(rule, slice);
        let found = packed.token(base + at).filter(|i| *i < piece.hi);
        let before = found.unwrap_or(piece.hi).checked_sub(1).filter(|i| *i >= piece.lo);
        let word = |i: usize| Some(packed.shown(i)).filter(|_| packed.tokens[i].kind == Kind::Word);

        // A line that starts with a slip of the hand: `nett f(z)`.
        if let Some(first) = (piece.lo < piece.hi).then_some(piece.lo).and_then(word)
            && !starts.contains(&first)
            && !lex::is_reserved(first)
            && found.is_none_or(|i| i <= piece.lo + 1)
            && let Some(best) = closest(first, starts.iter().copied())
        {
            let message = format!("no declaration starts with `{first}`");
            let d = Diagnostic::new(Code::Syntax, packed.token_span(piece.lo), message).help(format!("did you mean `{best}`?"));
            self.told.push(d);
            return;
        }
        // A word of the language where a name is wanted; in `next(z)` and `carry[t]` it is the word before.
        let wants_name = expected.iter().any(|e| e == "a name")
            || found.is_some_and(|i| self.is_used_as_name(i, piece, expected.iter().any(|e| e == "an expression")));
        let indexed = found.is_some_and(|i| packed.shown(i) == "[");
        let words = [found, before.filter(|i| packed.shown(*i) == "next" || indexed)];
        let reserved = words.into_iter().flatten().filter(|_| wants_name || indexed);
        if let Some((token, word)) = reserved.filter_map(|i| Some((i, word(i)?))).find(|(_, w)| lex::is_reserved(w)) {
            let message = format!("`{word}` is a word of the language and cannot be a name");
            let d = Diagnostic::new(Code::ReservedWord, packed.token_span(token), message)
                .help(format!("call it `{word}_` or something else"));
            // Where it is used, the same is not told again.
            if !self.told.iter().any(|told| told.code == d.code && told.message == d.message) {
                self.told.push(d);
            }
            return;
        }
        let diagnostic = match (found, before) {
            (Some(found), before) => {
                let d = Diagnostic::new(
                    Code::Syntax,
                    packed.token_span(found),
                    format!("did not expect `{}` here", packed.shown(found)),
                );
                if found == piece.lo + 2 && packed.shown(piece.lo) == "loss" {
                    d.here("expected a weight").help("every loss has one: `loss dyn 1.0 = ..`")
                } else {
                    let d = if expected.is_empty() { d } else { d.here(format!("expected {}", listed(&expected))) };
                    let after = (found + 1 < piece.hi).then(|| packed.shown(found + 1));
                    match hint(before.map(|i| packed.shown(i)), packed.shown(found), after, &expected) {
                        Some(hint) => d.help(hint),
                        None => d,
                    }
                }
            }
            (None, Some(last)) => {
                let d = Diagnostic::new(Code::Syntax, packed.token_span(last), "this is not finished");
                if expected.is_empty() { d } else { d.here(format!("expected {} behind this", listed(&expected))) }
            }
            (None, None) => {
                let place = packed.span(base, base);
                Diagnostic::new(Code::Syntax, Span { hi: place.lo, ..place }, "something is missing here")
            }
        };
        self.told.push(diagnostic);
    }

    /// Whether a word stands where only a name can: `carry[t]`, `slot = ..`, and in an expression what starts no clause.
    fn is_used_as_name(&self, token: usize, piece: Piece, in_expression: bool) -> bool {
        let next = (token + 1 < piece.hi).then(|| self.packed.shown(token + 1));
        let structural = ["with", "for", "in", "where", "reset", "if", "else", "let", "return"];
        matches!(next, Some("[" | "=" | "~")) || in_expression && !structural.contains(&self.packed.shown(token))
    }
}

/// Common mistakes and habits from other languages, with the right spelling.
fn hint(before: Option<&str>, found: &str, after: Option<&str>, expected: &[String]) -> Option<String> {
    let wanted = |what: &str| expected.iter().any(|e| e == what);
    let text = match (before, found, after) {
        (Some("*"), "*", _) => "a power is written `x^2`",
        (_, "==", _) if expected.is_empty() || wanted("`=`") => "an equation has one `=`",
        (_, "+" | "-" | "*" | "/", Some("=")) => "nothing is changed in place: write the whole value, as in `x[t] = x[t-1] + ..`",
        (Some("and"), ..) | (_, "and", _) => "`and` is written `&&`",
        (Some("or"), ..) | (_, "or", _) => "`or` is written `||`",
        (Some("not"), ..) | (_, "not", _) => "`not` is written `!`",
        (_, "for", _) if wanted("a statement") => "a loop in a body is written `stack i in 0..3 { .. }`",
        (Some("["), size, Some("]")) if wanted("a name") && size.bytes().all(|b| b.is_ascii_digit()) => {
            return Some(format!("an axis has a name: `[S = {size}]`"));
        }
        (_, "let", _) => "`let` stands inside functions; a model has `const`, `schedule` and equations",
        (_, "return", _) => "`return` stands inside functions; a model has equations",
        (_, "~", _) if wanted("`=`") => "only an equation draws: write `x[t] ~ ..` there, and use `x[t]` here",
        (_, ":", _) if wanted("`->`") => "what it gives comes behind `->`",
        (Some("if"), ..) => "a condition stands in `( )`",
        (_, "}", _) if expected == ["`=`"] => "a body ends with `return ..`",
        (_, found, _) if wanted("a statement") && !lex::is_reserved(found) => "a body ends with `return ..`",
        (_, word, _) if lex::MEMBER_WORDS.contains(&word) && expected.iter().any(|e| e.starts_with("an item")) => {
            return Some(format!("`{word}` stands inside a model: `model NAME {{ {word} .. }}`"));
        }
        _ if wanted("a percentage") => "moments of the training are percentages: `30%..60%`",
        _ if expected.iter().any(|e| e.starts_with("what to drop")) => {
            let kinds = lex::MEMBER_WORDS.iter().copied().chain(["equation"]);
            return closest(found, kinds).map(|best| format!("did you mean `{best}`?"));
        }
        _ => return None,
    };
    Some(text.to_string())
}

/// Cuts a piece at depth 0 before each word that starts a smaller one. Members must stand first on their line
/// (many of their words are labels elsewhere); there, an equation starts a piece too.
fn cut(packed: &Packed<'_>, piece: Piece, words: &[&str], members: bool) -> Vec<Piece> {
    let mut starts = Vec::new();
    let mut depth = 0usize;
    for i in piece.lo..piece.hi {
        let shown = packed.shown(i);
        match shown {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        let token = packed.tokens[i];
        if i == piece.lo {
            starts.push(i);
            continue;
        }
        if depth > 0 || token.kind != Kind::Word {
            continue;
        }
        let before = packed.tokens[i - 1];
        let first_on_line = packed.source[before.hi..token.lo].contains('\n');
        // `use tasks::dmc`: a word of a path starts nothing.
        let in_path = matches!(before.text(packed.source), "use" | "::");
        let starts_item = words.contains(&shown) && !in_path && (!members || first_on_line);
        let new = first_on_line && !lex::is_reserved(shown);
        let rest = Piece { lo: i, hi: piece.hi };
        let starts_equation = members && new && is_equation(packed, rest);
        // Between items there is nothing but items.
        let between = !members && before.text(packed.source) == "}";
        let starts_unknown = new && (between || is_misspelt(packed, rest, words));
        if starts_item || starts_equation || starts_unknown {
            starts.push(i);
        }
    }
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([piece.hi]).collect();
    starts.into_iter().zip(ends).map(|(lo, hi)| Piece { lo, hi }).collect()
}

/// `x =`, `x ~`, or `x[..] =`.
fn is_equation(packed: &Packed<'_>, piece: Piece) -> bool {
    let mut depth = 0usize;
    for i in piece.lo + 1..piece.hi {
        match packed.shown(i) {
            "[" => depth += 1,
            "]" => depth = depth.saturating_sub(1),
            "=" | "~" | "==" if depth == 0 => return true,
            // `x += 1`: nothing of the kind, but meant as an equation.
            "+" | "-" | "*" | "/" if depth == 0 => return i + 1 < piece.hi && packed.shown(i + 1) == "=",
            _ if depth > 0 => {}
            _ => return false,
        }
    }
    false
}

/// `nett f(..)`, `trian {`: a word close to one that starts a piece, with a word or a brace behind it.
fn is_misspelt(packed: &Packed<'_>, piece: Piece, words: &[&str]) -> bool {
    let (first, second, third) = (piece.lo, piece.lo + 1, piece.lo + 2);
    // Two letters are too near to `fn`: `on all` goes on with what was there before.
    if second >= piece.hi || packed.shown(first).len() < 3 {
        return false;
    }
    let fold = third < piece.hi && packed.shown(third) == "in";
    let word = packed.tokens[second].kind == Kind::Word && !fold;
    (word || packed.shown(second) == "{") && closest(packed.shown(first), words.iter().copied()).is_some()
}
