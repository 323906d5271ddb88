//! Tokens of a text, comments included. The formatter and error recovery read these; the grammar
//! proper does not need them.

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Word,
    Number,
    Text,
    /// A text whose closing quote is missing on its line.
    UnclosedText,
    Punct,
    /// `// ..` up to the end of its line.
    Comment,
    /// A character the language does not have.
    Bad,
}

/// A token and its byte range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub lo: usize,
    pub hi: usize,
}

impl Token {
    pub fn text(self, source: &str) -> &str {
        &source[self.lo..self.hi]
    }
}

const LONG: [&str; 10] = ["..=", "::", "->", "..", "==", "!=", "<=", ">=", "&&", "||"];
const SHORT: &str = "()[]{},.:=~+-*/@%^!<>";

/// The length of the long sign that starts here.
fn long(bytes: &[u8]) -> Option<usize> {
    let second = bytes.get(1).filter(|b| matches!(b, b'.' | b':' | b'>' | b'=' | b'&' | b'|'))?;
    let found = LONG.iter().find(|long| long.as_bytes()[1] == *second && bytes.starts_with(long.as_bytes()));
    found.map(|long| long.len())
}

/// Whether a word cannot be a name.
pub fn is_reserved(word: &str) -> bool {
    // By first letter and length most words are settled.
    RESERVED.iter().any(|r| r.len() == word.len() && r.as_bytes()[0] == word.as_bytes()[0] && *r == word)
}

/// Whether two signs that follow each other would read as a longer one: `-` and `>`.
pub(crate) fn joins(first: &str, second: &str) -> bool {
    LONG.iter().any(|long| long.strip_prefix(first).is_some_and(|rest| !rest.is_empty() && second.starts_with(&rest[..1])))
}

/// Words that start an item of a file.
pub const ITEM_WORDS: [&str; 8] = ["use", "model", "block", "fn", "dist", "planner", "optimizer", "tasks"];

/// Words that start a member of a model.
pub const MEMBER_WORDS: [&str; 25] = [
    "input",
    "action",
    "dim",
    "const",
    "latent",
    "schedule",
    "memory",
    "net",
    "head",
    "param",
    "slow",
    "running",
    "fn",
    "source",
    "loss",
    "metric",
    "record",
    "planner",
    "act",
    "optimizer",
    "train",
    "evaluate",
    "diagnose",
    "tasks",
    "drop",
];

/// Words that cannot be names.
pub const RESERVED: [&str; 41] = [
    "use",
    "model",
    "extends",
    "block",
    "fn",
    "dist",
    "let",
    "next",
    "return",
    "stack",
    "if",
    "else",
    "input",
    "action",
    "dim",
    "const",
    "latent",
    "schedule",
    "memory",
    "net",
    "head",
    "param",
    "slow",
    "running",
    "source",
    "loss",
    "metric",
    "planner",
    "optimizer",
    "drop",
    "record",
    "tasks",
    "with",
    "for",
    "in",
    "where",
    "carry",
    "slot",
    "reset",
    "require",
    "rollout",
];

/// Letters, digits and underscores, no digit first: a name, if it is not reserved.
pub fn is_word(text: &str) -> bool {
    let first = text.bytes().next();
    first.is_some_and(|b| !b.is_ascii_digit()) && text.bytes().all(is_word_byte)
}

fn is_word_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// Cuts a text into tokens. Never fails: what is not a token is [`Kind::Bad`].
pub fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let lo = at;
        let c = bytes[at];
        let kind = if c.is_ascii_whitespace() {
            at += 1;
            continue;
        } else if c.is_ascii_digit() {
            at = number_end(bytes, at);
            Kind::Number
        } else if is_word_byte(c) {
            while at < bytes.len() && is_word_byte(bytes[at]) {
                at += 1;
            }
            Kind::Word
        } else if bytes[at..].starts_with(b"//") {
            let rest = &text[at..];
            at += rest.find('\n').unwrap_or(rest.len());
            Kind::Comment
        } else if c == b'"' {
            let rest = &text[at..];
            match rest[1..].find(['"', '\n']) {
                Some(end) if bytes[at + 1 + end] == b'"' => {
                    at += end + 2;
                    Kind::Text
                }
                end => {
                    at += end.map_or(rest.len(), |e| e + 1);
                    Kind::UnclosedText
                }
            }
        } else if let Some(long) = long(&bytes[at..]) {
            at += long;
            Kind::Punct
        } else if SHORT.as_bytes().contains(&c) {
            at += 1;
            Kind::Punct
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
            Kind::Bad
        };
        tokens.push(Token { kind, lo, hi: at });
    }
    tokens
}

/// The end of the number that starts at `at`: `100_000`, `0.5`, `1e-4`; not the dots of `0..T`.
fn number_end(bytes: &[u8], mut at: usize) -> usize {
    let digits = |mut at: usize| {
        while at < bytes.len() && (bytes[at].is_ascii_digit() || bytes[at] == b'_') {
            at += 1;
        }
        at
    };
    let is_digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    at = digits(at);
    if bytes.get(at) == Some(&b'.') && is_digit(at + 1) {
        at = digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
        if is_digit(at + 1 + sign) {
            at = digits(at + 1 + sign);
        }
    }
    at
}
