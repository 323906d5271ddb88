//! Text to syntax tree. Never fails: it returns the tree of what could be read, and diagnostics.
//!
//! A text is cut into tokens, spelled canonically (`pack`) and parsed whole by the pest grammar. Where that fails,
//! `recover` cuts it into items and members by brackets and leading words, parses each alone and reports each that is
//! wrong, so that one mistake does not hide the next. `build` and `operators` make the tree.

mod build;
mod expected;
mod limits;
mod operators;
mod pack;
mod recover;
mod told;

use std::ops::Range;

use crate::ast;
use crate::diagnostics::{Code, Diagnostic};
use crate::source::{FileId, Span};

/// Largest text that is read; a model of 10,000 equations has about half a mebibyte.
pub const MAX_BYTES: usize = 2 << 20;

#[derive(pest_derive::Parser)]
#[grammar = "grammar.pest"]
pub(crate) struct Grammar;

/// Parses one file.
pub fn parse(file: FileId, text: &str) -> (ast::File, Vec<Diagnostic>) {
    if text.len() > MAX_BYTES {
        let megabytes = text.len() as f64 / f64::from(1 << 20);
        let diagnostic = Diagnostic::new(Code::FileTooLarge, Span::new(file, 0, 0), format!("this file has {megabytes:.1} MiB"))
            .help(format!("a `.wm` file may have at most {} MiB; split the model with `use`", MAX_BYTES >> 20));
        return (ast::File::default(), vec![diagnostic]);
    }
    part(file, text, 0..text.len())
}

/// Parses a part of a file: whole items.
pub(crate) fn part(file: FileId, text: &str, range: Range<usize>) -> (ast::File, Vec<Diagnostic>) {
    let packed = pack::Packed::new(file, text, range);
    if let Err(diagnostic) = limits::check(&packed) {
        return (ast::File::default(), vec![*diagnostic]);
    }
    let mut told = told::Told::characters();
    // The generated parser recurses with the nesting that `limits` allows.
    let tree = stacker::maybe_grow(1 << 20, 16 << 20, || recover::file(&packed, &mut told));
    (tree, told.finish())
}

/// Bytes of a file that is not UTF-8: the diagnostic for it, at the first bad byte.
pub fn not_utf8(file: FileId, valid_up_to: usize) -> Diagnostic {
    Diagnostic::new(Code::NotUtf8, Span::new(file, valid_up_to, valid_up_to), "this file is not UTF-8 text")
        .note(format!("the first byte that is not text stands at offset {valid_up_to}"))
        .help("save the file as UTF-8")
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::ast::{BinaryOp, Expr, ExprKind, Item, MemberKind, UnaryOp};
    use crate::lex;
    use crate::source::FileId;

    /// The marked words of the grammar are the reserved ones.
    #[test]
    fn grammar_knows_the_reserved_words() {
        let grammar = include_str!("../grammar.pest");
        for word in lex::RESERVED {
            assert!(grammar.contains(&format!("\"'{word} \"")), "`{word}` is reserved, and the grammar has no use for it");
        }
        for word in grammar.split("\"'").skip(1).filter_map(|rest| rest.split_once(" \"")).map(|(word, _)| word) {
            assert!(word.contains('"') || lex::is_reserved(word), "`{word}` is marked in the grammar and not reserved");
        }
    }

    /// Every operator in brackets, as it was grouped.
    fn grouped(e: &Expr) -> String {
        match &e.kind {
            ExprKind::Name(name) => name.text.clone(),
            ExprKind::Unary(UnaryOp::Neg, e) => format!("(-{})", grouped(e)),
            ExprKind::Unary(UnaryOp::Not, e) => format!("(!{})", grouped(e)),
            ExprKind::Range { lo, hi, .. } => format!("({}..{})", grouped(lo), grouped(hi)),
            ExprKind::If { cond, then, other } => format!("(if {} {} {})", grouped(cond), grouped(then), grouped(other)),
            ExprKind::Binary(op, l, r) => {
                let sign = match op {
                    BinaryOp::Or => "|",
                    BinaryOp::And => "&",
                    BinaryOp::Lt => "<",
                    BinaryOp::Add => "+",
                    BinaryOp::Sub => "-",
                    BinaryOp::Mul => "*",
                    BinaryOp::Pow => "^",
                    other => panic!("{other:?}"),
                };
                format!("({}{sign}{})", grouped(l), grouped(r))
            }
            other => panic!("{other:?}"),
        }
    }

    fn expression(text: &str) -> Result<String, String> {
        let (file, diagnostics) = parse(FileId(0), &format!("model M {{ x = {text} }}"));
        if let Some(d) = diagnostics.first() {
            return Err(d.message.clone());
        }
        let [Item::Model(model)] = file.items.as_slice() else { panic!("one model") };
        let MemberKind::Equation(equation) = &model.members[0].kind else { panic!("an equation") };
        Ok(grouped(&equation.value))
    }

    #[test]
    fn operators_group() {
        for (text, tree) in [
            ("a + b * c - d", "((a+(b*c))-d)"),
            ("a || b && c < d + e", "(a|(b&(c<(d+e))))"),
            ("a < b && c < d || e", "(((a<b)&(c<d))|e)"),
            ("-a^b", "(-(a^b))"),
            ("a^-b^c * d", "((a^(-(b^c)))*d)"),
            ("a^b^c", "(a^(b^c))"),
            ("-a * -b", "((-a)*(-b))"),
            ("!a && !!b", "((!a)&(!(!b)))"),
            ("a..b + c", "(a..(b+c))"),
            ("a..b < c", "((a..b)<c)"),
            ("(a + b) * c", "((a+b)*c)"),
            ("a - b - c", "((a-b)-c)"),
            ("if (a) { b } else if (c) { d } else { e }", "(if a b (if c d e))"),
        ] {
            assert_eq!(expression(text).as_deref(), Ok(tree), "{text}");
        }
    }

    #[test]
    fn comparisons_and_ranges_do_not_chain() {
        for text in ["a < b < c", "a..b..c", "a < b + c < d && e"] {
            assert!(expression(text).is_err_and(|message| message.starts_with("did not expect")), "{text}");
        }
    }

    /// Mistakes beyond those that are told are counted, or said not to have been looked for.
    #[test]
    fn what_is_left_out_is_said() {
        let last = |text: String| parse(FileId(0), &text).1.pop().map(|d| d.notes).unwrap_or_default();
        assert_eq!(last("#".repeat(25)), ["and 5 more, which are left out"]);
        assert_eq!(last("#".repeat(20)), [""; 0]);
        assert_eq!(last(")".repeat(125)), ["the text behind this was not looked at"]);
        assert_eq!(last(format!("model M {{\n{}}}", "loss x\n".repeat(130))), ["and 30 more, which are left out"]);
    }

    /// Signs that would read as one another stay apart, as the author wrote them.
    #[test]
    fn signs_are_not_glued() {
        for text in ["a - > b", "a < = b", "a = = b", "a . . b", "a ! = b", "12abc"] {
            assert!(expression(text).is_err(), "{text}");
        }
        assert_eq!(expression("a<-b").as_deref(), Ok("(a<(-b))"));
    }
}
