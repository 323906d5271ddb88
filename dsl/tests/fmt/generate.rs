//! Random programs that parse, and random damage to texts. Seeded: every run sees the same cases.

/// xorshift64*.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % n.max(1)
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// How a program is written down.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hand {
    /// One statement a line, bodies on lines of their own; any spaces, no comments.
    Tidy,
    /// Line breaks, blank lines and comments anywhere.
    Wild,
}

pub(crate) struct Program {
    pub(crate) text: String,
    /// Of a tidy program: how many bodies each line stands in.
    pub(crate) depths: Vec<usize>,
}

pub(crate) fn program(seed: u64, hand: Hand) -> Program {
    let mut g = Generator { rng: Rng::new(seed), hand, text: String::new(), depths: vec![0], depth: 0 };
    for _ in 0..1 + g.rng.below(3) {
        g.item();
        g.line();
    }
    g.depths.pop();
    Program { text: g.text, depths: g.depths }
}

/// Names, some of which are words of the language elsewhere.
const NAMES: [&str; 16] =
    ["x", "y", "z", "obs", "enc_2", "init", "over", "on", "scale", "act", "train", "via", "of", "warmup", "sum", "K"];
const LABELS: [&str; 8] = ["q", "next", "slow", "loss", "for", "model", "tau", "if"];
const SPACES: [&str; 6] = ["", " ", " ", "  ", "\t", "      "];
const BREAKS: [&str; 6] = ["\n", "\n", "\n\n\n", "\r\n", "  // note  \n", "\n// own line\n"];

struct Generator {
    rng: Rng,
    hand: Hand,
    text: String,
    depths: Vec<usize>,
    depth: usize,
}

impl Generator {
    fn put(&mut self, token: &str) {
        let space = if self.hand == Hand::Wild && self.rng.one_in(12) { self.rng.pick(&BREAKS) } else { self.rng.pick(&SPACES) };
        self.text.push_str(space);
        let (last, first) = (self.text.chars().last(), token.chars().next());
        let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let loose = |c: Option<char>| c.is_some_and(|c| ".=-<>!/:&|".contains(c));
        if word(last) && word(first) || loose(last) || loose(first) {
            self.text.push(' ');
        }
        self.text.push_str(token);
    }

    fn all(&mut self, tokens: &[&str]) {
        tokens.iter().for_each(|t| self.put(t));
    }

    /// Ends a statement.
    fn line(&mut self) {
        if self.hand == Hand::Tidy {
            self.text.push('\n');
            self.depths.push(self.depth);
        }
    }

    fn body(&mut self, most: usize, mut statement: impl FnMut(&mut Generator)) {
        self.put("{");
        self.depth += 1;
        for _ in 0..1 + self.rng.below(most) {
            self.line();
            statement(self);
        }
        self.depth -= 1;
        self.line();
        self.put("}");
    }

    fn name(&mut self) {
        let name = self.rng.pick(&NAMES);
        self.put(name);
    }

    fn label(&mut self) {
        let label = if self.rng.one_in(2) { self.rng.pick(&LABELS) } else { self.rng.pick(&NAMES) };
        self.put(label);
    }

    fn list(&mut self, most: usize, mut item: impl FnMut(&mut Generator)) {
        item(self);
        for _ in 0..self.rng.below(most) {
            self.put(",");
            item(self);
        }
    }

    fn item(&mut self) {
        match self.rng.below(7) {
            0 => {
                self.put("use");
                self.label();
                self.put("::");
                self.label();
            }
            1 => {
                self.put("block");
                self.name();
                self.params();
                if self.rng.one_in(2) {
                    self.put("carry");
                    self.list(2, |g| {
                        g.name();
                        g.put(":");
                        g.shape();
                        g.put("=");
                        g.put("zeros");
                        g.args(1);
                    });
                }
                self.put("->");
                self.shape();
                self.body(5, Generator::stmt);
            }
            2 => self.function(),
            3 => {
                self.put("dist");
                self.name();
                self.params();
                self.put("of");
                self.shape();
                self.body(4, |g| if g.rng.one_in(2) { g.function() } else { g.local("let") });
            }
            4 => {
                self.put("tasks");
                self.name();
                self.body(4, |g| {
                    g.name();
                    g.args(1);
                });
            }
            _ => {
                self.all(&["model", "M"]);
                if self.rng.one_in(3) {
                    self.all(&["extends", "N"]);
                }
                self.body(12, Generator::member);
            }
        }
    }

    fn function(&mut self) {
        self.put("fn");
        self.name();
        self.params();
        self.body(4, Generator::stmt);
    }

    fn local(&mut self, lead: &str) {
        self.put(lead);
        self.name();
        self.put("=");
        self.expr(3);
    }

    fn stmt(&mut self) {
        match self.rng.below(7) {
            0..3 => self.local("let"),
            3 => self.local("next"),
            4 => {
                self.put("return");
                self.expr(3);
            }
            5 => {
                self.all(&["require", "("]);
                self.expr(1);
                self.all(&[",", "\"a message\"", ")"]);
            }
            _ => {
                self.all(&["stack", "l", "in"]);
                self.range();
                self.body(2, |g| {
                    g.put("y");
                    g.put("=");
                    g.expr(2);
                });
            }
        }
    }

    fn member(&mut self) {
        match self.rng.below(20) {
            0 => {
                self.put("input");
                self.list(3, Generator::typed);
            }
            1 => {
                let word = self.rng.pick(&["dim", "const"]);
                self.put(word);
                self.list(3, Generator::bind);
            }
            2 => {
                self.all(&["action", "a", ":", "[", "A", "]", "in", "-", "1", "..", "1"]);
            }
            3..6 => {
                let word = self.rng.pick(&["net", "head"]);
                self.put(word);
                self.name();
                self.params();
                self.put("->");
                if self.rng.one_in(2) {
                    self.shape();
                } else {
                    self.put("{");
                    self.list(3, Generator::typed);
                    self.put("}");
                }
                if self.rng.one_in(3) {
                    self.all(&["via", "tanh"]);
                }
                self.put("=");
                self.name();
                self.args(1);
            }
            6 => {
                self.all(&["memory", "m"]);
                self.params();
                self.put("->");
                self.shape();
                self.put("=");
                self.name();
                self.args(1);
                self.all(&["reset", "first"]);
            }
            7 => {
                self.all(&["slow", "x", ",", "y", "with"]);
                self.bind();
            }
            8 => {
                self.all(&["source", "replay"]);
                self.args(1);
                self.all(&["over", "["]);
                self.list(2, Generator::bind);
                self.put("]");
            }
            9..12 => self.loss(),
            12 => {
                let word = self.rng.pick(&["metric", "record"]);
                self.put(word);
                self.equation(2, word == "record");
            }
            13 => {
                self.put("running");
                self.name();
                self.put("=");
                self.expr(2);
                self.put("init");
                self.expr(1);
            }
            14 => {
                self.put("optimizer");
                self.label();
                self.put("=");
                self.name();
                self.args(1);
                self.all(&["on", "x", ",", "y"]);
                if self.rng.one_in(2) {
                    self.all(&["except", "z", "scale", "{"]);
                    self.list(2, Generator::bind);
                    self.put("}");
                }
            }
            15 => {
                let kind = self.rng.pick(&["net", "loss", "equation"]);
                self.all(&["drop", kind]);
                self.list(3, Generator::label);
            }
            16 => {
                // No comment may stand between these words and their brace.
                let word = self.rng.pick(&[" train {", " evaluate {", " diagnose {"]);
                self.text.push_str(word);
                self.list(3, Generator::bind);
                self.put("}");
            }
            17 => self.function(),
            _ => self.equation(3, true),
        }
    }

    fn loss(&mut self) {
        self.put("loss");
        self.label();
        match self.rng.below(4) {
            0 => self.all(&["-", "1.5"]),
            1 => self.all(&["(", "x", "+", "1", ")"]),
            _ => self.put("0.5"),
        }
        if self.rng.one_in(3) {
            self.all(&["warmup", "30", "%", "..", "60", "%"]);
        }
        if self.rng.one_in(4) {
            self.put("for");
            self.put("main");
        }
        if self.rng.one_in(4) {
            self.put("{");
            self.list(3, Generator::bind);
            self.put("}");
        } else {
            self.put("=");
            self.expr(3);
        }
        self.clauses();
    }

    fn equation(&mut self, depth: usize, draws: bool) {
        let name = self.rng.pick(&["x", "y", "init", "over", "scale"]);
        self.put(name);
        if self.rng.one_in(2) {
            self.all(&["[", "t", "+", "1", ",", "k", "]"]);
        }
        let draws = draws && self.rng.one_in(3);
        self.put(if draws { "~" } else { "=" });
        self.expr(depth);
        self.clauses();
    }

    fn clauses(&mut self) {
        if self.rng.one_in(4) {
            self.all(&["with", "x", "[", "-", "1", "]", "="]);
            self.expr(1);
        }
        if self.rng.one_in(3) {
            self.all(&["for", "t", "in"]);
            self.range();
        }
        if self.rng.one_in(4) {
            self.put("where");
            self.expr(1);
        }
    }

    fn range(&mut self) {
        self.all(&["0", "..", "T", "-", "1"]);
    }

    fn bind(&mut self) {
        self.label();
        self.put("=");
        self.expr(1);
    }

    fn typed(&mut self) {
        self.label();
        self.put(":");
        if self.rng.one_in(4) { self.put("bool") } else { self.shape() }
    }

    fn shape(&mut self) {
        self.put("[");
        match self.rng.below(4) {
            0 => {}
            1 => self.all(&["X", ".."]),
            2 => self.all(&["N", "=", "16", "*", "K", ",", "Q"]),
            _ => self.put("Q"),
        }
        self.put("]");
    }

    fn params(&mut self) {
        self.put("(");
        if !self.rng.one_in(4) {
            self.list(3, |g| {
                g.label();
                if g.rng.one_in(2) {
                    g.put(":");
                    g.shape();
                }
                if g.rng.one_in(3) {
                    g.put("=");
                    g.expr(1);
                }
            });
        }
        self.put(")");
    }

    fn args(&mut self, depth: usize) {
        self.put("(");
        if !self.rng.one_in(5) {
            self.list(3, |g| match g.rng.below(5) {
                0 => g.all(&["Q", "->", "Q2"]),
                1 => {
                    g.label();
                    g.put("=");
                    g.expr(depth);
                }
                _ => g.expr(depth),
            });
        }
        self.put(")");
    }

    fn expr(&mut self, depth: usize) {
        if depth == 0 || self.rng.one_in(4) {
            return match self.rng.below(5) {
                0 => self.put("1e-4"),
                1 => self.all(&["30", "%"]),
                2 => self.put("\"zeros\""),
                3 => self.all(&["next", "h"]),
                _ => self.put("w"),
            };
        }
        let less = depth - 1;
        match self.rng.below(15) {
            0..3 => {
                self.expr(less);
                let op = self.rng.pick(&["+", "-", "*", "/", "@", "^", "==", "<", "&&", ".."]);
                // A comparison and a range take no second one beside them.
                let op = if matches!(op, "==" | "<" | ".." | "&&") && depth < 3 { "+" } else { op };
                self.put(op);
                self.all(&["v"]);
            }
            3 => {
                let op = self.rng.pick(&["-", "!"]);
                self.put(op);
                self.put("v");
            }
            4 => {
                self.put("(");
                self.expr(less);
                self.put(")");
            }
            5..8 => {
                self.put("f");
                self.args(less);
            }
            8 => {
                self.all(&["x", "[", "t", "+", "1", ",", "(", "k", "-", "1", ")", "*", "2", "]"]);
            }
            9 => {
                self.all(&["s", "."]);
                self.label();
            }
            10 => {
                self.all(&["sum", "k", "in"]);
                self.range();
                self.put("{");
                self.expr(less);
                self.put("}");
            }
            11 => {
                self.all(&["if", "("]);
                self.expr(less);
                self.all(&[")", "{"]);
                self.expr(less);
                self.all(&["}", "else", "{"]);
                self.expr(less);
                self.put("}");
            }
            12 => {
                self.all(&["z", "{"]);
                self.list(3, |g| {
                    g.label();
                    g.put("=");
                    g.expr(less);
                });
                self.put("}");
            }
            13 => {
                self.all(&["rollout", "{", "u", "[", "k", "]", "="]);
                self.expr(less);
                self.put("}");
            }
            _ => {
                self.all(&["[", "N", "=", "4", ",", "X", "..", "]"]);
            }
        }
    }
}

/// A stretch of lines of a text, damaged in a few places.
pub(crate) fn damage(rng: &mut Rng, text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let start = rng.below(lines.len());
    let mut text = lines[start..(start + 1 + rng.below(8)).min(lines.len())].join("\n");
    const BITS: [&str; 40] = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "\n",
        "\n\n\n",
        " ",
        ",",
        ".",
        "..",
        "..=",
        "=",
        "==",
        "~",
        "-",
        "->",
        ">",
        "!",
        ":",
        "::",
        "//",
        "/",
        "// é\u{a0}\n",
        "\"",
        "#",
        "&",
        "|",
        "é",
        "1",
        ".5",
        "e5",
        "loss",
        "fn",
        "for",
        "in",
        "\r\n",
        "\t",
        "let",
    ];
    for _ in 0..rng.below(6) {
        let mut at = rng.below(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        match rng.below(3) {
            0 => text.insert_str(at, rng.pick(&BITS)),
            1 => {
                text.pop();
                at = at.min(text.len());
                while !text.is_char_boundary(at) {
                    at -= 1;
                }
                if at < text.len() {
                    text.remove(at);
                }
            }
            _ => {
                let tail = text.split_off(at);
                text = format!("{tail}{text}");
            }
        }
    }
    text
}
