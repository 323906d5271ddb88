//! Mutations of kernel text.

use compiler::testing::Rng;

/// Numbers at which arithmetic turns.
const ODD: [u64; 16] =
    [0, 0, 1, 2, 15, 16, 17, 31, 33, 64, 1 << 24, 1 << 29, (1 << 31) - 1, (1 << 32) - 1, 1_000_000_000_000_000, u64::MAX];

/// Another number in place of one.
pub(crate) fn number(rng: &mut Rng, was: u64) -> u64 {
    match rng.below(8) {
        0 => was.wrapping_add(1),
        1 => was.wrapping_sub(1),
        2 => was.wrapping_mul(2),
        3 => was / 2,
        4 => was.wrapping_mul(16),
        _ => rng.pick(&ODD),
    }
}

/// A run of digits, and the word or mark that it stands behind.
struct Digits<'a> {
    place: std::ops::Range<usize>,
    behind: &'a str,
}

fn digits(text: &str) -> Vec<Digits<'_>> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && bytes[at].is_ascii_digit() {
            at += 1;
        }
        let before = text[..start].trim_end_matches([' ', '[', '@']);
        let word = before.rfind(|c: char| !c.is_ascii_alphabetic()).map_or(0, |i| i + 1);
        let behind = if word < before.len() { &before[word..] } else { &before[before.len().saturating_sub(1)..] };
        found.push(Digits { place: start..at, behind: if behind.is_ascii() { behind } else { "" } });
    }
    found
}

/// A text with one change.
pub(crate) fn mutated(rng: &mut Rng, text: &str) -> String {
    match rng.below(10) {
        // Lines.
        0 => {
            let mut lines: Vec<&str> = text.lines().collect();
            let (a, b) = (rng.below(lines.len()), rng.below(lines.len()));
            match rng.below(3) {
                0 => drop(lines.remove(a)),
                1 => lines.insert(b, lines[a]),
                _ => lines.swap(a, b),
            }
            lines.join("\n") + "\n"
        }
        1 => {
            let words =
                [(" splat", ""), (" reverse", ""), ("sum ", "store "), ("store ", "max "), ("gather", "scatter"), (" +=", " =")];
            let (from, to) = rng.pick(&words);
            let (from, to) = if rng.one_in(2) { (from, to) } else { (to, from) };
            let places: Vec<usize> = text.match_indices(from).map(|(at, _)| at).collect();
            match places.is_empty() || from.is_empty() {
                true => text.to_string(),
                false => {
                    let at = rng.pick(&places);
                    [&text[..at], to, &text[at + from.len()..]].concat()
                }
            }
        }
        // A number: of any kind with the same chance, since sizes are few and strides are many.
        _ => {
            let all = digits(text);
            let mut kinds: Vec<&str> = all.iter().map(|d| d.behind).collect();
            kinds.sort_unstable();
            kinds.dedup();
            let kind = rng.below(kinds.len().max(1));
            let of_kind: Vec<&Digits<'_>> = all.iter().filter(|d| Some(&d.behind) == kinds.get(kind)).collect();
            let Some(chosen) = of_kind.get(rng.below(of_kind.len().max(1))) else { return text.to_string() };
            let was = text[chosen.place.clone()].parse().unwrap_or(0);
            [&text[..chosen.place.start], &number(rng, was).to_string(), &text[chosen.place.end..]].concat()
        }
    }
}
