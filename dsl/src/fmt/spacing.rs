//! Spaces between neighbours on a line.

use super::outline::{Frame, Outline, Role, Shape, Unit};
use crate::lex::Kind;

pub(super) fn space(outline: &mut Outline<'_>) {
    for at in 1..outline.units.len() {
        let (prev, next) = (&outline.units[at - 1], &outline.units[at]);
        let gap = gap(&outline.frames, prev, next);
        let fused = gap == 0 && fuses(prev, next);
        outline.units[at].gap = if fused { 1 } else { gap };
    }
}

fn gap(frames: &[Frame], prev: &Unit<'_>, next: &Unit<'_>) -> usize {
    let shape = |frame: usize| frames[frame].shape;
    match (prev.role, next.role) {
        (Role::Stray, _) | (_, Role::Stray) => usize::from(next.spaced),
        (Role::Open(frame), Role::Close(_)) if shape(frame).is_brace() => 0,
        (Role::Open(frame), _) | (_, Role::Close(frame)) => usize::from(shape(frame).is_brace()),
        (_, Role::Comma | Role::Colon | Role::Postfix | Role::Dot) | (Role::Dot, _) => 0,
        // A second statement on a line stands apart from the first.
        _ if next.starts && prev.role != Role::Comma && matches!(shape(next.frame), Shape::Block | Shape::Settings) => 2,
        (_, Role::Open(frame)) if matches!(shape(frame), Shape::Args | Shape::Index) => 0,
        (Role::Unary | Role::Tight, _) | (_, Role::Tight) => 0,
        _ => 1,
    }
}

/// Whether the two would read as something else if nothing stood between them.
fn fuses(prev: &Unit<'_>, next: &Unit<'_>) -> bool {
    let wordy = |kind: Kind| matches!(kind, Kind::Word | Kind::Number);
    if wordy(prev.kind) && wordy(next.kind) {
        return true;
    }
    match prev.text {
        "." => next.kind == Kind::Number || next.text.starts_with('.'),
        ".." | "!" | "<" | ">" | "=" => next.text.starts_with('='),
        "-" => next.text.starts_with('>'),
        ":" => next.text.starts_with(':'),
        "/" => next.text.starts_with('/'),
        "&" => next.text.starts_with('&'),
        "|" => next.text.starts_with('|'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::outline;
    use super::fuses;
    use crate::lex;

    /// Wherever the lexer would read two neighbours as something else, [`fuses`] says so.
    #[test]
    fn fuses_what_the_lexer_would() {
        let tokens = "a 1 \"t\" ( ) [ ] { } , . .. ..= : :: = == ! != < <= > >= ~ + - -> * / @ % ^ & && | || #";
        for a in tokens.split(' ') {
            for b in tokens.split(' ') {
                let (apart, glued) = (format!("{a} {b}"), format!("{a}{b}"));
                let read: Vec<&str> = lex::tokens(&glued).iter().map(|t| t.text(&glued)).collect();
                let units = outline::read(&apart).units;
                assert!(read == [a, b] || fuses(&units[0], &units[1]), "`{a}` and `{b}`");
            }
        }
    }
}
