//! Parsing with recovery: the whole text first; where that fails, piece by piece.

use pest::Parser;
use pest::error::{ErrorVariant, InputLocation};

use super::build::Build;
use super::{Grammar, Rule};
use crate::ast;
use crate::diagnostics::{Code, Diagnostic};
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
                self.report(error, 0, self.text);
            }
        }
        tree
    }

    /// Characters and texts that are no tokens.
    fn characters(&mut self, tokens: &[Token]) -> bool {
        let before = self.diagnostics.len();
        for token in tokens {
            let span = Span::new(self.file, token.lo, token.hi);
            let diagnostic = match token.kind {
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

    fn brackets(&mut self, tokens: &[Token]) -> bool {
        let mut open: Vec<Token> = Vec::new();
        let partner = |c: &str| match c {
            "(" => ")",
            "[" => "]",
            _ => "}",
        };
        for token in tokens.iter().filter(|t| t.kind == Kind::Punct) {
            let shown = token.text(self.text);
            let span = Span::new(self.file, token.lo, token.hi);
            match shown {
                "(" | "[" | "{" => open.push(*token),
                ")" | "]" | "}" => match open.pop() {
                    Some(opening) if partner(opening.text(self.text)) == shown => {}
                    Some(opening) => {
                        let want = partner(opening.text(self.text));
                        self.diagnostics.push(
                            Diagnostic::new(
                                Code::Unclosed,
                                Span::new(self.file, opening.lo, opening.hi),
                                "this bracket is never closed",
                            )
                            .here(format!("opened here, needs `{want}`"))
                            .label(span, format!("`{shown}` closes something else")),
                        );
                        return false;
                    }
                    None => {
                        self.diagnostics.push(
                            Diagnostic::new(Code::StrayClosing, span, format!("`{shown}` closes nothing"))
                                .help("remove it, or open it before"),
                        );
                        return false;
                    }
                },
                _ => {}
            }
        }
        if let Some(opening) = open.first() {
            let want = partner(opening.text(self.text));
            self.diagnostics.push(
                Diagnostic::new(Code::Unclosed, Span::new(self.file, opening.lo, opening.hi), "this bracket is never closed")
                    .help(format!("add the missing `{want}`")),
            );
            return false;
        }
        true
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
            self.report(error, piece.lo, slice);
            return None;
        };
        if tokens.first().is_none_or(|t| t.text(slice) != "model") || open >= close {
            self.report(error, piece.lo, slice);
            return None;
        }
        let head = match Grammar::parse(Rule::only_model_head, &slice[..open]) {
            Ok(mut pairs) => {
                let inner = pairs.next().expect("a head").into_inner().next().expect("a head");
                Some(Build { file: self.file, base: piece.lo, diagnostics: self.diagnostics }.model_head(inner))
            }
            Err(error) => {
                self.report(error, piece.lo, &slice[..open]);
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
                Err(error) => self.report(error, base + piece.lo, slice),
            }
        }
        let (name, extends) = head?;
        let span = Span::new(self.file, piece.lo, piece.lo + slice.trim_end().len());
        Some(ast::Item::Model(ast::Model { name, extends, members, span }))
    }

    /// Says what was expected where the grammar stopped, in words.
    fn report(&mut self, error: pest::error::Error<Rule>, base: usize, slice: &str) {
        let at = match error.location {
            InputLocation::Pos(at) | InputLocation::Span((at, _)) => at,
        };
        let expected = match &error.variant {
            ErrorVariant::ParsingError { positives, .. } => expected(positives),
            ErrorVariant::CustomError { .. } => Vec::new(),
        };
        let found = lex::tokens(slice).into_iter().find(|t| t.lo >= at && t.kind != Kind::Comment);
        let (span, what) = match found {
            Some(token) => (Span::new(self.file, base + token.lo, base + token.hi), format!("`{}`", token.text(slice))),
            None => {
                // The end of the piece: point behind its last token.
                let end = slice.trim_end().len();
                let next = self.text[base + end..].trim_start();
                let what = if next.is_empty() { "the end of the text".to_string() } else { "what follows".to_string() };
                (Span::new(self.file, base + end.saturating_sub(1), base + end), what)
            }
        };
        let wants_name = expected.contains(&"a name");
        let word = found.filter(|t| t.kind == Kind::Word).map(|t| t.text(slice));
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
        let starts_equation = members && first_on_line && !lex::RESERVED.contains(&shown) && is_equation(text, &tokens[i..]);
        if i == 0 || starts_item || starts_equation {
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
    for token in &tokens[1..] {
        match token.text(text) {
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
        WHITESPACE | COMMENT | w | keyword => return None,
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
        kw_if | conditional => "`if`",
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
        iter | domain | bound_range | range => "a range such as `0..T`",
        bound | bound_prod | bound_unary | bound_post | bound_atom | expr | and | cmp | sum | prod | unary | power | postfix
        | primary | list | list_item | record_lit | rec_item | fields_of | fold | next_ref | callee_word => "an expression",
        index => "a subscript",
        field => "a field",
        update => "`{`",
        arrow => "`->`",
        op_eq => "`=`",
        op_draw => "`~`",
        op_or | op_and | op_cmp | op_add | op_sub | op_mul | op_div | op_dot | op_pow => "an operator",
        op_range | op_range_eq => "`..`",
        op_not => "an expression",
    })
}
