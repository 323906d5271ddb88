//! Tokens of the text forms of graph and kernel programs.

use std::iter::Peekable;
use std::str::CharIndices;

use super::names::{continues_word, starts_word};
use super::read::ParseError;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// A word, quoted or not.
    Word(String),
    /// `%12`
    Value(u32),
    /// `#7`
    Hash(u32),
    /// `$3`, in kernel programs
    Local(u32),
    /// Digits, not looked at any closer.
    Number(String),
    /// `->`
    Arrow,
    Mark(char),
    /// The end of a line that has tokens.
    End,
}

impl Token {
    pub(crate) fn describe(&self) -> String {
        match self {
            Token::Word(w) => format!("`{w}`"),
            Token::Value(n) => format!("`%{n}`"),
            Token::Hash(n) => format!("`#{n}`"),
            Token::Local(n) => format!("`${n}`"),
            Token::Number(n) => format!("`{n}`"),
            Token::Arrow => "`->`".to_string(),
            Token::Mark(c) => format!("`{c}`"),
            Token::End => "the end of the line".to_string(),
        }
    }
}

/// All tokens, each with its line.
pub(super) fn lex(text: &str) -> Result<Vec<(Token, usize)>, ParseError> {
    let mut tokens = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let before = tokens.len();
        let mut lexer = Lexer { text: line, chars: line.char_indices().peekable() };
        while let Some(token) = lexer.token().map_err(|message| ParseError { line: i + 1, message })? {
            tokens.push((token, i + 1));
        }
        if tokens.len() > before {
            tokens.push((Token::End, i + 1));
        }
    }
    Ok(tokens)
}

struct Lexer<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
}

impl Lexer<'_> {
    fn token(&mut self) -> Result<Option<Token>, String> {
        while self.chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
        let Some((start, c)) = self.chars.next() else { return Ok(None) };
        let token = match c {
            ';' => return Ok(None),
            '"' => Token::Word(self.quoted()?),
            '%' => Token::Value(self.index(start)?),
            '#' => Token::Hash(self.index(start)?),
            '$' => Token::Local(self.index(start)?),
            '-' if self.chars.next_if(|(_, c)| *c == '>').is_some() => Token::Arrow,
            '[' | ']' | '(' | ')' | '{' | '}' | '=' | ',' | ':' | '@' | '+' | '*' => Token::Mark(c),
            c if starts_word(c) => Token::Word(self.run(start, |_, c| continues_word(c)).to_string()),
            c if c.is_ascii_digit() || c == '-' => {
                let digits =
                    |before: char, c: char| c.is_ascii_alphanumeric() || c == '.' || ("eE".contains(before) && "+-".contains(c));
                Token::Number(self.run(start, digits).to_string())
            }
            c => return Err(format!("`{}` has no meaning here", c.escape_debug())),
        };
        Ok(Some(token))
    }

    /// The text from `start` on while `goes_on` holds of a character and the one before it.
    fn run(&mut self, start: usize, goes_on: impl Fn(char, char) -> bool) -> &str {
        let mut before = self.text[start..].chars().next().unwrap_or_default();
        while let Some((_, c)) = self.chars.next_if(|(_, c)| goes_on(before, *c)) {
            before = c;
        }
        let end = self.chars.peek().map_or(self.text.len(), |(i, _)| *i);
        &self.text[start..end]
    }

    fn index(&mut self, start: usize) -> Result<u32, String> {
        let text = self.run(start, |_, c| c.is_ascii_digit());
        text[1..].parse().map_err(|_| format!("`{text}` needs a number after it, below 2^32"))
    }

    /// After the first quote, to the closing one; escapes as Rust writes them.
    fn quoted(&mut self) -> Result<String, String> {
        const OPEN: &str = "a quoted name does not end";
        let mut name = String::new();
        loop {
            let (_, c) = self.chars.next().ok_or(OPEN)?;
            match c {
                '"' => return Ok(name),
                '\\' => {
                    let (_, c) = self.chars.next().ok_or(OPEN)?;
                    name.push(match c {
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        '0' => '\0',
                        'u' => self.unicode()?,
                        '"' | '\'' | '\\' => c,
                        _ => return Err(format!("`\\{c}` is no escape")),
                    });
                }
                c => name.push(c),
            }
        }
    }

    /// `{1f600}` of a `\u{1f600}`.
    fn unicode(&mut self) -> Result<char, String> {
        let digits: String = self.chars.by_ref().map(|(_, c)| c).take_while(|c| *c != '}').collect();
        let code = digits.strip_prefix('{').and_then(|d| u32::from_str_radix(d, 16).ok());
        code.and_then(char::from_u32).ok_or_else(|| format!("`\\u{digits}` is no character"))
    }
}
