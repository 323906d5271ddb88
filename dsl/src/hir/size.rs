//! Sizes: whole numbers, or polynomials in the sizes that a task binds.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A polynomial with whole coefficients over named sizes: `8*A + 48`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Size {
    /// Sorted names (with repetition for powers) to coefficient; no coefficient is zero.
    terms: Vec<(Vec<String>, i64)>,
}

impl Size {
    pub fn known(value: i64) -> Size {
        Size { terms: if value == 0 { Vec::new() } else { vec![(Vec::new(), value)] } }
    }

    pub fn symbol(name: &str) -> Size {
        Size { terms: vec![(vec![name.to_string()], 1)] }
    }

    /// The number, where no symbol is left.
    pub fn value(&self) -> Option<i64> {
        match self.terms.as_slice() {
            [] => Some(0),
            [(names, value)] if names.is_empty() => Some(*value),
            _ => None,
        }
    }

    /// The symbols in it.
    pub fn symbols(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.terms.iter().flat_map(|(n, _)| n.iter().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub fn add(&self, other: &Size) -> Size {
        if let (Some(a), Some(b)) = (self.value(), other.value()) {
            return Size::known(a.saturating_add(b));
        }
        Size::collect(self.terms.iter().chain(&other.terms).cloned())
    }

    pub fn sub(&self, other: &Size) -> Size {
        self.add(&other.mul(&Size::known(-1)))
    }

    pub fn mul(&self, other: &Size) -> Size {
        if let (Some(a), Some(b)) = (self.value(), other.value()) {
            return Size::known(a.saturating_mul(b));
        }
        let mut terms = Vec::new();
        for (a, x) in &self.terms {
            for (b, y) in &other.terms {
                let mut names: Vec<String> = a.iter().chain(b).cloned().collect();
                names.sort_unstable();
                terms.push((names, x.saturating_mul(*y)));
            }
        }
        Size::collect(terms)
    }

    /// Exact division by a known number.
    pub fn div(&self, by: i64) -> Option<Size> {
        if by == 0 || self.terms.iter().any(|(_, c)| c % by != 0) {
            return None;
        }
        Some(Size { terms: self.terms.iter().map(|(n, c)| (n.clone(), c / by)).collect() })
    }

    /// Puts numbers in for symbols.
    pub fn bind(&self, sizes: &dyn Fn(&str) -> Option<i64>) -> Size {
        Size::collect(self.terms.iter().map(|(names, c)| {
            let mut left = Vec::new();
            let mut factor = *c;
            for name in names {
                match sizes(name) {
                    Some(value) => factor = factor.saturating_mul(value),
                    None => left.push(name.clone()),
                }
            }
            (left, factor)
        }))
    }

    fn collect(terms: impl IntoIterator<Item = (Vec<String>, i64)>) -> Size {
        let mut terms: Vec<(Vec<String>, i64)> = terms.into_iter().collect();
        // Stable: terms of the same names are added in the order in which they came.
        terms.sort_by(|(a, _), (b, _)| a.cmp(b));
        terms.dedup_by(|(names, c), (kept, sum)| {
            let same = names == kept;
            if same {
                *sum = sum.saturating_add(*c);
            }
            same
        });
        terms.retain(|(_, c)| *c != 0);
        Size { terms }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return write!(f, "0");
        }
        // Symbols first, the plain number last.
        for (i, (names, c)) in self.terms.iter().rev().enumerate() {
            let sign = if *c < 0 { "-" } else { "+" };
            match (i, sign) {
                (0, "-") => write!(f, "-")?,
                (0, _) => {}
                _ => write!(f, " {sign} ")?,
            }
            let magnitude = c.unsigned_abs();
            if names.is_empty() {
                write!(f, "{magnitude}")?;
            } else if magnitude == 1 {
                write!(f, "{}", names.join("*"))?;
            } else {
                write!(f, "{magnitude}*{}", names.join("*"))?;
            }
        }
        Ok(())
    }
}
