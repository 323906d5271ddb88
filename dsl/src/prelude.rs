//! The prelude: items written in the language itself, which every file can see.
//!
//! A model uses a few of them, so each is parsed when it is first wanted, and then once for the whole process. The
//! texts keep to two rules, which a test holds them to: an item starts at the first column, and nothing else does but
//! comments and closing brackets.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::ast::Item;
use crate::lex;
use crate::parse;
use crate::source::FileId;

/// Names and texts, in the order of their file ids.
pub(crate) const FILES: [(&str, &str); 5] = [
    ("prelude/math.wm", include_str!("prelude/math.wm")),
    ("prelude/layers.wm", include_str!("prelude/layers.wm")),
    ("prelude/distributions.wm", include_str!("prelude/distributions.wm")),
    ("prelude/planners.wm", include_str!("prelude/planners.wm")),
    ("prelude/optimizers.wm", include_str!("prelude/optimizers.wm")),
];

/// An item's place, and the item once it was wanted.
struct Entry {
    file: FileId,
    lo: usize,
    hi: usize,
    item: OnceLock<Option<Item>>,
}

/// Whether a file is part of the prelude.
pub(crate) fn holds(file: FileId) -> bool {
    (file.0 as usize) < FILES.len()
}

pub(crate) fn find(name: &str) -> Option<&'static Item> {
    let entry = index().get(name)?;
    let text = FILES[entry.file.0 as usize].1;
    entry.item.get_or_init(|| parse::part(entry.file, text, entry.lo..entry.hi).0.items.pop()).as_ref()
}

/// The names of all items.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    index().keys().copied()
}

fn index() -> &'static BTreeMap<&'static str, Entry> {
    static INDEX: OnceLock<BTreeMap<&'static str, Entry>> = OnceLock::new();
    INDEX.get_or_init(|| {
        let mut index = BTreeMap::new();
        for (file, (_, text)) in FILES.iter().enumerate() {
            let mut end = text.len();
            for (lo, name) in heads(text).into_iter().rev() {
                index.insert(name, Entry { file: FileId(file as u32), lo, hi: end, item: OnceLock::new() });
                end = lo;
            }
        }
        index
    })
}

/// Where items start, and their names.
fn heads(text: &'static str) -> Vec<(usize, &'static str)> {
    let mut heads = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some((word, rest)) = line.split_once(' ')
            && lex::ITEM_WORDS.contains(&word)
        {
            let end = rest.find('(').unwrap_or(rest.len());
            heads.push((at, rest[..end].trim()));
        }
        at += line.len();
    }
    heads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::name_of;

    /// What is found item by item is what the files hold.
    #[test]
    fn items_are_those_of_the_files() {
        let mut count = 0;
        for (file, (name, text)) in FILES.iter().enumerate() {
            let (tree, diagnostics) = parse::parse(FileId(file as u32), text);
            assert!(diagnostics.is_empty(), "{name}: {diagnostics:?}");
            for item in &tree.items {
                let ident = name_of(item).expect("the prelude has no `use`");
                assert_eq!(find(&ident.text), Some(item), "{name}: `{}`", ident.text);
                count += 1;
            }
        }
        assert_eq!(names().count(), count, "an item is defined twice");
    }
}
