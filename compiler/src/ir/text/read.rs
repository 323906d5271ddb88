//! What readers of text forms share: a cursor in the tokens, and errors that name the line.

use std::str::FromStr;

use super::lex::{Token, lex};

/// Why a text is no program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// Counted from 1.
    pub line: usize,
    pub message: String,
}

pub(crate) type Result<T, E = ParseError> = std::result::Result<T, E>;

/// The tokens of a text, and the next one.
pub(crate) struct Cursor {
    tokens: Vec<(Token, usize)>,
    at: usize,
}

impl Cursor {
    pub(crate) fn new(text: &str) -> Result<Cursor> {
        Ok(Cursor { tokens: lex(text)?, at: 0 })
    }
}

/// A parser: it has a cursor, and reads words, numbers and marks with it.
pub(crate) trait Reader {
    fn cursor(&self) -> &Cursor;
    fn cursor_mut(&mut self) -> &mut Cursor;

    fn list<T>(&mut self, open: char, close: char, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.mark(open)?;
        let mut items = Vec::new();
        while !self.next_is(&Token::Mark(close)) {
            if !items.is_empty() {
                self.mark(',')?;
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn number<N: FromStr>(&mut self) -> Result<N> {
        let number = match self.peek() {
            Token::Number(n) => n.parse().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| self.expected("a whole number"))?;
        self.skip();
        Ok(number)
    }

    /// `1.5`, `-inf`, `nan`, `nan(0x7ff8000000000001)`; `nan` makes a number of bits.
    fn float<F: FromStr + PartialOrd>(&mut self, nan: impl Fn(u64) -> Option<F>) -> Result<F> {
        let number = match self.peek() {
            Token::Number(n) | Token::Word(n) => n.parse::<F>().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| self.expected("a number"))?;
        self.skip();
        let is_nan = number.partial_cmp(&number).is_none();
        if !is_nan || !self.next_is(&Token::Mark('(')) {
            return Ok(number);
        }
        let bits = match self.peek() {
            Token::Number(n) => n.strip_prefix("0x").and_then(|d| u64::from_str_radix(d, 16).ok()),
            _ => None,
        };
        let number = bits.and_then(nan).ok_or_else(|| self.expected("the bits of a NaN in hexadecimal"))?;
        self.skip();
        self.mark(')')?;
        Ok(number)
    }

    fn word(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Token::Word(w) => {
                let w = w.clone();
                self.skip();
                Ok(w)
            }
            _ => Err(self.expected(what)),
        }
    }

    fn keyword(&mut self, word: &str) -> Result<()> {
        match self.next_is_word(word) {
            true => Ok(()),
            false => Err(self.expected(&format!("`{word}`"))),
        }
    }

    fn mark(&mut self, c: char) -> Result<()> {
        match self.next_is(&Token::Mark(c)) {
            true => Ok(()),
            false => Err(self.expected(&format!("`{c}`"))),
        }
    }

    fn arrow(&mut self) -> Result<()> {
        match self.next_is(&Token::Arrow) {
            true => Ok(()),
            false => Err(self.expected("`->`")),
        }
    }

    fn end(&mut self) -> Result<()> {
        match self.next_is(&Token::End) {
            true => Ok(()),
            false => Err(self.expected("the end of the line")),
        }
    }

    /// Takes the next token if it is this one.
    fn next_is(&mut self, token: &Token) -> bool {
        let is = self.peek() == token && !self.is_done();
        self.cursor_mut().at += usize::from(is);
        is
    }

    fn next_is_word(&mut self, word: &str) -> bool {
        self.next_is(&Token::Word(word.to_string()))
    }

    fn skip(&mut self) {
        self.cursor_mut().at += 1;
    }

    fn is_done(&self) -> bool {
        self.cursor().at >= self.cursor().tokens.len()
    }

    /// The next token; after the last one, the end of a line.
    fn peek(&self) -> &Token {
        let Cursor { tokens, at } = self.cursor();
        tokens.get(*at).map_or(&Token::End, |(token, _)| token)
    }

    fn expected(&self, what: &str) -> ParseError {
        match self.is_done() {
            false => self.error(format!("expected {what}, found {}", self.peek().describe())),
            true => self.error(format!("expected {what}, found the end of the text")),
        }
    }

    fn error(&self, message: String) -> ParseError {
        let Cursor { tokens, at } = self.cursor();
        let line = tokens.get(*at).or(tokens.last()).map_or(1, |(_, line)| *line);
        ParseError { line, message }
    }

    /// An error about the token just taken.
    fn error_before(&self, message: String) -> ParseError {
        let Cursor { tokens, at } = self.cursor();
        let line = tokens.get(at.saturating_sub(1)).map_or(1, |(_, line)| *line);
        ParseError { line, message }
    }
}
