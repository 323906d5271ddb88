//! Parsing with recovery: the whole text first; where that fails, piece by piece.

use pest::Parser;
use pest::error::{ErrorVariant, InputLocation};

use super::build::{Build, MAX_DIAGNOSTICS};
use super::pack::{Packed, Piece};
use super::{Grammar, Rule};
use crate::ast;
use crate::diagnostics::{Code, Diagnostic};
use crate::lex::{self, Kind};
use crate::source::Span;

pub(super) fn file(packed: &Packed<'_>, diagnostics: &mut Vec<Diagnostic>) -> ast::File {
    let mut recovery = Recovery { packed, diagnostics };
    if !recovery.characters() {
        return ast::File::default();
    }
    match Grammar::parse(Rule::file, &packed.text) {
        Ok(mut pairs) => recovery.build(0).file(pairs.next().expect("a file")),
        Err(error) => recovery.file(error),
    }
}

struct Recovery<'a> {
    packed: &'a Packed<'a>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Recovery<'_> {
    /// Builds what was parsed from a slice that starts at `base` of the packed text.
    fn build(&mut self, base: usize) -> Build<'_> {
        Build { packed: self.packed, base, diagnostics: self.diagnostics }
    }

    fn file(&mut self, error: pest::error::Error<Rule>) -> ast::File {
        let mut tree = ast::File::default();
        if !self.brackets() {
            return tree;
        }
        let before = self.diagnostics.len();
        for piece in cut(self.packed, self.packed.whole(), &lex::ITEM_WORDS, false) {
            tree.items.extend(self.item(piece));
        }
        if self.diagnostics.len() == before {
            // The pieces parse and the whole does not: the cut hid the mistake.
            self.report(error, self.packed.whole());
        }
        tree
    }

    /// Characters and texts that are no tokens.
    fn characters(&mut self) -> bool {
        let before = self.diagnostics.len();
        for (i, token) in self.packed.tokens.iter().enumerate() {
            let span = self.packed.token_span(i);
            let diagnostic = match token.kind {
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

    fn brackets(&mut self) -> bool {
        let packed = self.packed;
        let mut open: Vec<usize> = Vec::new();
        let partner = |i: usize| match packed.shown(i) {
            "(" => ")",
            "[" => "]",
            _ => "}",
        };
        for (i, token) in packed.tokens.iter().enumerate().filter(|(_, t)| t.kind == Kind::Punct) {
            let shown = token.text(packed.source);
            match shown {
                "(" | "[" | "{" => open.push(i),
                ")" | "]" | "}" => match open.pop() {
                    Some(opening) if partner(opening) == shown => {}
                    Some(opening) => {
                        self.diagnostics.push(
                            Diagnostic::new(Code::Unclosed, packed.token_span(opening), "this bracket is never closed")
                                .here(format!("opened here, needs `{}`", partner(opening)))
                                .label(packed.token_span(i), format!("`{shown}` closes something else")),
                        );
                        return false;
                    }
                    None => {
                        self.diagnostics.push(
                            Diagnostic::new(Code::StrayClosing, packed.token_span(i), format!("`{shown}` closes nothing"))
                                .help("remove it, or open it before"),
                        );
                        return false;
                    }
                },
                _ => {}
            }
        }
        if let Some(&opening) = open.first() {
            self.diagnostics.push(
                Diagnostic::new(Code::Unclosed, packed.token_span(opening), "this bracket is never closed")
                    .help(format!("add the missing `{}`", partner(opening))),
            );
            return false;
        }
        true
    }

    fn item(&mut self, piece: Piece) -> Option<ast::Item> {
        let packed = self.packed;
        let (slice, base) = packed.slice(piece);
        let error = match Grammar::parse(Rule::only_item, slice) {
            Ok(mut pairs) => {
                let inner = pairs.next().expect("an item").into_inner().next().expect("an item");
                return self.build(base).item(inner);
            }
            Err(error) => error,
        };
        let open = (piece.lo..piece.hi).find(|i| packed.shown(*i) == "{");
        let close = (piece.lo..piece.hi).next_back().filter(|i| packed.shown(*i) == "}");
        let (Some(open), Some(close)) = (open, close) else {
            self.report(error, piece);
            return None;
        };
        if packed.shown(piece.lo) != "model" || open >= close {
            self.report(error, piece);
            return None;
        }
        let head_piece = Piece { lo: piece.lo, hi: open };
        let head = match Grammar::parse(Rule::only_model_head, packed.slice(head_piece).0) {
            Ok(mut pairs) => {
                let inner = pairs.next().expect("a head").into_inner().next().expect("a head");
                Some(self.build(base).model_head(inner))
            }
            Err(error) => {
                self.report(error, head_piece);
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
                Err(error) => self.report(error, piece),
            }
        }
        let (name, extends) = head?;
        let span = packed.token_span(piece.lo).to(packed.token_span(close));
        Some(ast::Item::Model(ast::Model { name, extends, members, span }))
    }

    /// Says what was expected where the grammar stopped, in words.
    fn report(&mut self, error: pest::error::Error<Rule>, piece: Piece) {
        if self.diagnostics.len() >= MAX_DIAGNOSTICS {
            return;
        }
        let packed = self.packed;
        let at = match error.location {
            InputLocation::Pos(at) | InputLocation::Span((at, _)) => at,
        };
        let expected = match &error.variant {
            ErrorVariant::ParsingError { positives, .. } => expected(positives),
            ErrorVariant::CustomError { .. } => Vec::new(),
        };
        let found = packed.token(packed.slice(piece).1 + at).filter(|i| *i < piece.hi);
        let (span, what) = match found {
            Some(token) => (packed.token_span(token), format!("`{}`", packed.shown(token))),
            None => {
                // The end of the piece: point behind its last token.
                let end = piece.hi.checked_sub(1).map_or(0, |last| packed.tokens[last].hi);
                let what = if piece.hi == packed.tokens.len() { "the end of the text" } else { "what follows" };
                (Span::new(packed.file, end.saturating_sub(1), end), what.to_string())
            }
        };
        let wants_name = expected.contains(&"a name");
        let word = found.filter(|i| packed.tokens[*i].kind == Kind::Word).map(|i| packed.shown(i));
        if let Some(word) = word.filter(|w| wants_name && lex::RESERVED.contains(w)) {
            self.diagnostics.push(
                Diagnostic::new(Code::ReservedWord, span, format!("`{word}` is a word of the language and cannot be a name"))
                    .help(format!("call it `{word}_` or something else")),
            );
            return;
        }
        let mut diagnostic = Diagnostic::new(Code::Syntax, span, format!("did not expect {what} here"));
        if !expected.is_empty() {
            diagnostic = diagnostic.here(format!("expected {}", list(&expected)));
        }
        if let Some(word) = word {
            diagnostic = diagnostic.suggest(word, lex::MEMBER_WORDS.into_iter().chain(lex::ITEM_WORDS));
        }
        self.diagnostics.push(diagnostic);
    }
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
        let starts_equation =
            members && first_on_line && !lex::is_reserved(shown) && is_equation(packed, Piece { lo: i, hi: piece.hi });
        if starts_item || starts_equation {
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
            "=" | "~" if depth == 0 => return true,
            _ if depth > 0 => {}
            _ => return false,
        }
    }
    false
}

fn list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_string(),
        [init @ .., last] => format!("{} or {last}", init.join(", ")),
    }
}

/// The rules the parser would have taken, as a few words; no rule's own name is ever shown.
fn expected(rules: &[Rule]) -> Vec<&'static str> {
    let mut words: Vec<&'static str> = rules.iter().filter_map(|r| word(*r)).collect();
    words.sort_unstable();
    words.dedup();
    if words.contains(&"an expression") {
        words.retain(|w| !matches!(*w, "a name" | "a number" | "a statement" | "a text in quotes" | "`if`" | "`rollout`"));
    }
    if words.contains(&"a declaration") || words.len() > 6 {
        // After an expression nearly anything may follow; a list of it all helps nobody.
        words.retain(|w| !w.starts_with("an operator") && !w.starts_with('`'));
    }
    words
}

fn word(rule: Rule) -> Option<&'static str> {
    use Rule::*;
    Some(match rule {
        EOI => "the end of the file",
        letter | percent_sign => return None,
        file | only_item | item | use_decl | model | block | function | dist | planner_def | optimizer_def | tasks | kw_use
        | kw_model | kw_block | kw_fn | kw_dist => "an item (`model`, `block`, `fn`, `dist`, `use`)",
        only_member | member | input | action | dims | consts | latent | schedule | memory | net | head | param | slow
        | running | source | loss | metric | record | planner | act | optimizer | train | evaluate | diagnose | tasks_use
        | drop | kw_input | kw_action | kw_dim | kw_const | kw_latent | kw_schedule | kw_memory | kw_net | kw_head | kw_param
        | kw_slow | kw_running | kw_source | kw_loss | kw_metric | kw_planner | kw_act | kw_optimizer | kw_train
        | kw_evaluate | kw_diagnose | kw_tasks | kw_drop | kw_record => "a declaration",
        only_model_head | model_head => "`model NAME`",
        kw_extends => "`extends`",
        equation | place | init => "an equation",
        clause | with_init | for_range | where_cond | reset_on | kw_with | kw_for | kw_where | kw_reset => {
            "a clause (`with`, `for`, `where`, `reset`)"
        }
        kw_in => "`in`",
        kw_over => "`over`",
        kw_via => "`via`",
        kw_warmup | warmup => "`warmup`",
        kw_on => "`on`",
        kw_except => "`except`",
        kw_scale => "`scale`",
        kw_init => "`init`",
        kw_carry | carries | planner_carry => "`carry`",
        carry => "a carry, as in `h: [D] = zeros`",
        kw_slot | slots => "`slot`",
        kw_of => "`of`",
        kw_let | kw_next | kw_return | kw_stack | kw_require | let_stmt | next_stmt | return_stmt | stack_stmt | require_stmt
        | stmt | assign => "a statement",
        kw_if | conditional | branch => "`if`",
        kw_else => "`else`",
        kw_rollout | rollout => "`rollout`",
        body => "a body in `{ }`",
        params | param_decl => "parameters in `( )`",
        args | arg | renaming => "arguments in `( )`",
        typed => "a name with its type",
        ty | shape | rest | axis => "a shape such as `[Q, A]`",
        out_type | fields => "an output type",
        bind => "a setting `name = value`",
        settings => "settings in `{ }`",
        part => "a named part",
        call | callee | task => "a call",
        source_call => "a source (`replay(..)` or `rollout(..)`)",
        ensemble => "an ensemble axis",
        drop_kind => "what to drop (`net`, `loss`, `fn`, ..)",
        label | name => "a name",
        number | percent => "a number",
        string => "a text in quotes",
        weight => "a weight",
        iter | domain | bound_range => "a range such as `0..T`",
        bound | bound_operand | expr | size | operand | primary | group | list | list_item | list_axis | list_rest
        | record_lit | rec_item | fields_of | fold_tail | next_ref | callee_word | minus | not => "an expression",
        index => "a subscript",
        field => "a field",
        update => "`{`",
        arrow => "`->`",
        op_eq => "`=`",
        op_draw => "`~`",
        infix | size_infix | bound_infix => "an operator",
        op_range => "`..`",
    })
}
