//! The bound on nesting, checked before the recursive parser sees the text.
//!
//! The grammar recurses on brackets alone: chains of operators, signs and `else if` are loops in it. Chains nest in the
//! tree, where [`crate::ast::MAX_DEPTH`] bounds them. So no input can exhaust the stack.

use super::pack::Packed;
use crate::diagnostics::{Code, Diagnostic};
use crate::lex::Kind;

const MAX_NESTING: usize = 64;

pub(super) fn check(packed: &Packed<'_>) -> Result<(), Box<Diagnostic>> {
    let mut depth = 0usize;
    for (i, token) in packed.tokens.iter().enumerate().filter(|(_, t)| t.kind == Kind::Punct) {
        match packed.source.as_bytes()[token.lo] {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return Err(Box::new(
                Diagnostic::new(Code::TooDeep, packed.token_span(i), "brackets are nested too deep to read")
                    .help("name a part of it with `let` or an equation of its own"),
            ));
        }
    }
    Ok(())
}
