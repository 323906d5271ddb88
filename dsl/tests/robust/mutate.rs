//! Texts to break the front end with: models and the prelude, damaged in the ways that hands and machines damage them.

use std::path::Path;

use wmc_dsl::lex::{self, Kind, Token};

use crate::generate::{self, Hand, Rng};

/// What inputs are made from.
pub(crate) struct Corpus {
    /// Files of some hundred lines.
    whole: Vec<String>,
    /// Models of a page, so that a check takes no time.
    small: Vec<String>,
    /// Members and items of all files.
    chunks: Vec<String>,
    /// Groups in brackets.
    groups: Vec<String>,
    /// Tokens as they are written.
    tokens: Vec<String>,
}

const NUMBERS: [&str; 28] = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "64",
    "1000",
    "65536",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "1e6",
    "1e9",
    "1e12",
    "1e18",
    "1e19",
    "1e300",
    "1e308",
    "1e999",
    "1e-320",
    "0.5",
    "1.5",
    "0.1",
    "100%",
    "150%",
    "1e20%",
];

const SIGNS: [&str; 30] = [
    "(", ")", "[", "]", "{", "}", ",", ".", "..", "..=", ":", "::", "=", "==", "!=", "<", "<=", ">", ">=", "~", "+", "-", "*",
    "/", "@", "%", "^", "!", "->", "&&",
];

/// What no keyboard of the language has.
const ODD: [&str; 14] = ["#", ";", "'", "\"", "\\", "|", "&", "$", "\u{0}", "\r", "\u{a0}", "é", "→", "\u{1F980}"];

impl Corpus {
    pub(crate) fn new() -> Corpus {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let read = |folder: &str| {
            let mut files: Vec<_> = std::fs::read_dir(root.join(folder)).unwrap().map(|e| e.unwrap().path()).collect();
            files.retain(|f| f.extension().is_some_and(|e| e == "wm"));
            files.sort();
            files.into_iter().map(|f| std::fs::read_to_string(f).unwrap()).collect::<Vec<String>>()
        };
        let whole = [read("../models"), read("src/prelude"), read("tests/wm")].concat();
        let small = read("tests/robust/seeds");
        assert!(!whole.is_empty() && !small.is_empty());
        let (mut chunks, mut groups, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
        for text in whole.iter().chain(&small) {
            let found = lex::tokens(text);
            chunks.extend(starts(text, &found).windows(2).map(|w| text[w[0]..w[1]].to_string()).filter(|c| c.len() < 600));
            groups.extend(brackets(text, &found).into_iter().map(|(lo, hi)| text[lo..hi].to_string()).filter(|g| g.len() < 200));
            tokens.extend(found.iter().map(|t| t.text(text).to_string()));
        }
        Corpus { whole, small, chunks, groups, tokens }
    }

    /// The input of a number: always the same text for the same number.
    pub(crate) fn input(&self, number: u64) -> String {
        let rng = &mut Rng::new(number + 1);
        let mut text = match number % 16 {
            // A whole file costs as much as a hundred small ones.
            0 if number.is_multiple_of(256) => any(rng, &self.whole).to_string(),
            1..=3 => generate::program(number, if rng.one_in(2) { Hand::Tidy } else { Hand::Wild }).text,
            4..=6 => self.patchwork(rng),
            _ => any(rng, &self.small).to_string(),
        };
        let mut edits = 1;
        while edits < 8 && rng.one_in(2) {
            edits += 1;
        }
        for _ in 0..edits {
            text = self.edit(rng, &text);
        }
        text
    }

    /// A model of members from anywhere.
    fn patchwork(&self, rng: &mut Rng) -> String {
        let members: String = (0..1 + rng.below(8)).map(|_| any(rng, &self.chunks)).collect();
        if rng.one_in(3) { members } else { format!("model Patchwork {{\n{members}\n}}\n") }
    }

    fn edit(&self, rng: &mut Rng, text: &str) -> String {
        let tokens = lex::tokens(text);
        if tokens.is_empty() {
            return any(rng, &self.chunks).to_string();
        }
        let at = rng.below(tokens.len());
        let token = tokens[at];
        let shown = token.text(text);
        match rng.below(20) {
            0 => character(rng, text),
            1 => replace(text, token.lo, token.hi, ""),
            2 => replace(text, token.hi, token.hi, &format!(" {shown}")),
            3 => swap(text, (token.lo, token.hi), nth(&tokens, at + 1)),
            4 => swap(text, (token.lo, token.hi), nth(&tokens, rng.below(tokens.len()))),
            5 => replace(text, token.lo, token.hi, self.token(rng)),
            6 => replace(text, token.lo, token.lo, &format!("{} ", self.token(rng))),
            7 | 8 => self.chunk(rng, text, &tokens),
            9 | 10 => self.rename(rng, text, &tokens, at),
            11..=13 => number(rng, text, &tokens, at),
            14 => nest(rng, text, token),
            15 | 16 => self.group(rng, text, &tokens),
            17 => {
                let end = (at + 1 + rng.below(12)).min(tokens.len()) - 1;
                replace(text, token.lo, tokens[end].hi, "")
            }
            18 => replace(text, if rng.one_in(2) { token.lo } else { token.hi }, text.len(), ""),
            _ => {
                let file = rng.pick(&["tasks", "hamworld_s6", "other", "itself", "sac", "nothing"]);
                let item = rng.pick(&["", "::dmc", "::HamWorldS6", "::Seed", "::x::y"]);
                format!("use {file}{item}\n{text}")
            }
        }
    }

    fn token(&self, rng: &mut Rng) -> &str {
        match rng.below(6) {
            0 => rng.pick(&SIGNS),
            1 => rng.pick(&lex::RESERVED),
            2 => rng.pick(&ODD),
            _ => any(rng, &self.tokens),
        }
    }

    /// Takes out, repeats, moves or brings in a member or an item.
    fn chunk(&self, rng: &mut Rng, text: &str, tokens: &[Token]) -> String {
        let starts = starts(text, tokens);
        let pick = |rng: &mut Rng| {
            let i = rng.below(starts.len() - 1);
            (starts[i], starts[i + 1])
        };
        let (lo, hi) = pick(rng);
        match rng.below(5) {
            0 => replace(text, lo, hi, ""),
            1 => replace(text, hi, hi, &text[lo..hi]),
            2 => swap(text, (lo, hi), pick(rng)),
            3 => replace(text, lo, hi, any(rng, &self.chunks)),
            _ => replace(text, hi, hi, any(rng, &self.chunks)),
        }
    }

    /// Gives a name another everywhere: one of the same text, of another, or none that may be.
    fn rename(&self, rng: &mut Rng, text: &str, tokens: &[Token], at: usize) -> String {
        let words: Vec<Token> = tokens.iter().copied().filter(|t| t.kind == Kind::Word).collect();
        if words.is_empty() {
            return text.to_string();
        }
        let old = words[at % words.len()].text(text);
        let new = match rng.below(4) {
            0 => "fresh",
            1 => self.token(rng),
            _ => words[rng.below(words.len())].text(text),
        };
        let everywhere = rng.one_in(2);
        let mut out = String::with_capacity(text.len());
        let mut last = 0;
        for t in words.iter().filter(|t| t.text(text) == old && (everywhere || rng.one_in(2))) {
            out.push_str(&text[last..t.lo]);
            out.push_str(new);
            last = t.hi;
        }
        out + &text[last..]
    }

    /// Puts another group in brackets in the place of one.
    fn group(&self, rng: &mut Rng, text: &str, tokens: &[Token]) -> String {
        let groups = brackets(text, tokens);
        if groups.is_empty() {
            return text.to_string();
        }
        let (lo, hi) = groups[rng.below(groups.len())];
        if rng.one_in(4) { replace(text, lo, hi, &text[lo + 1..hi - 1]) } else { replace(text, lo, hi, any(rng, &self.groups)) }
    }
}

fn any<'a>(rng: &mut Rng, from: &'a [String]) -> &'a str {
    &from[rng.below(from.len())]
}

fn nth(tokens: &[Token], i: usize) -> (usize, usize) {
    let t = tokens[i.min(tokens.len() - 1)];
    (t.lo, t.hi)
}

fn replace(text: &str, lo: usize, hi: usize, with: &str) -> String {
    [&text[..lo], with, &text[hi..]].concat()
}

fn swap(text: &str, a: (usize, usize), b: (usize, usize)) -> String {
    let (a, b) = if a.0 <= b.0 { (a, b) } else { (b, a) };
    if a.1 > b.0 {
        return text.to_string();
    }
    [&text[..a.0], &text[b.0..b.1], &text[a.1..b.0], &text[a.0..a.1], &text[b.1..]].concat()
}

fn character(rng: &mut Rng, text: &str) -> String {
    let places: Vec<usize> = text.char_indices().map(|(i, _)| i).chain([text.len()]).collect();
    let i = rng.below(places.len() - 1);
    let new = if rng.one_in(2) { rng.pick(&ODD) } else { rng.pick(&SIGNS) };
    match rng.below(3) {
        0 => replace(text, places[i], places[i], new),
        1 => replace(text, places[i], places[i + 1], new),
        _ => replace(text, places[i], places[i + 1], ""),
    }
}

fn number(rng: &mut Rng, text: &str, tokens: &[Token], at: usize) -> String {
    let numbers: Vec<Token> = tokens.iter().copied().filter(|t| t.kind == Kind::Number).collect();
    let Some(t) = numbers.get(at % numbers.len().max(1)) else { return text.to_string() };
    let new = rng.pick(&NUMBERS);
    let sign = if rng.one_in(6) { "-" } else { "" };
    replace(text, t.lo, t.hi, &format!("{sign}{new}"))
}

/// Brackets, signs, powers, calls or branches around a token, often more than are allowed.
fn nest(rng: &mut Rng, text: &str, token: Token) -> String {
    let shown = token.text(text);
    let n = [2, 3, 10, 31, 62, 70, 300][rng.below(7)];
    let new = match rng.below(9) {
        0 => format!("{}{shown}{}", "(".repeat(n), ")".repeat(n)),
        1 => format!("{}{shown}{}", "[".repeat(n), "]".repeat(n)),
        2 => format!("{}{shown}", "-".repeat(n)),
        3 => format!("{}{shown}", "!".repeat(n)),
        4 => vec![shown; n].join(" ^ "),
        5 => vec![shown; n].join(rng.pick(&[" + ", " * ", ", ", " < ", " && ", ".."])),
        6 => format!("{}{shown}{}", "tanh(".repeat(n), ")".repeat(n)),
        7 => format!("{}{{ {shown} }}", format!("if ({shown}) {{ {shown} }} else ").repeat(n)),
        _ => format!("{shown}{}", ["[t]", ".q", "(x)", "{ q = 1 }", " -> [Q]"][rng.below(5)].repeat(n)),
    };
    replace(text, token.lo, token.hi, &new)
}

/// Where members and items start, and the end of the last.
fn starts(text: &str, tokens: &[Token]) -> Vec<usize> {
    let mut starts = Vec::new();
    let (mut depth, mut end) = (0usize, 0);
    for t in tokens {
        let first = starts.is_empty() || text[end..t.lo].contains('\n');
        if depth <= 1 && first && t.text(text) != "}" {
            starts.push(t.lo);
        }
        match t.text(text) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        end = t.hi;
    }
    starts.push(end.max(starts.last().copied().unwrap_or(0)));
    if starts.len() < 2 {
        starts.push(text.len());
    }
    starts
}

/// Groups in brackets, brackets included.
fn brackets(text: &str, tokens: &[Token]) -> Vec<(usize, usize)> {
    let (mut open, mut groups) = (Vec::new(), Vec::new());
    for t in tokens {
        match t.text(text) {
            "(" | "[" | "{" => open.push(t.lo),
            ")" | "]" | "}" => groups.extend(open.pop().map(|lo| (lo, t.hi))),
            _ => {}
        }
    }
    groups
}
