//! Caps the number of diagnostics per file and counts the rest.

use crate::diagnostics::Diagnostic;

/// Mistakes of a whole text.
const MOST: usize = 100;
/// Characters that are no tokens: many of them mean a text of another kind.
const MOST_CHARACTERS: usize = 20;

#[derive(Debug)]
pub(super) struct Told {
    diagnostics: Vec<Diagnostic>,
    most: usize,
    left_out: usize,
    /// The text behind the last diagnostic was not looked at.
    ended: bool,
}

impl Told {
    pub(super) fn characters() -> Told {
        Told { diagnostics: Vec::new(), most: MOST_CHARACTERS, left_out: 0, ended: false }
    }

    /// All tokens are well: the mistakes of the grammar come next.
    pub(super) fn grammar(&mut self) {
        self.most = MOST;
    }

    /// Whether there is room for one more; where there is none, it counts as left out.
    pub(super) fn room(&mut self) -> bool {
        let room = self.diagnostics.len() < self.most;
        self.left_out += usize::from(!room);
        room
    }

    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        if self.room() {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Whether nobody wants to know more; then what follows is not looked at.
    pub(super) fn enough(&mut self) -> bool {
        self.ended = self.diagnostics.len() >= self.most;
        self.ended
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.diagnostics.len()
    }

    /// All of it, the last one with a note of what is not among them.
    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        if let Some(last) = self.diagnostics.last_mut() {
            if self.left_out > 0 {
                last.notes.push(format!("and {} more, which are left out", self.left_out));
            }
            if self.ended {
                last.notes.push("the text behind this was not looked at".to_string());
            }
        }
        self.diagnostics
    }
}
