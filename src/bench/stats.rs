//! Medians, quartiles and ratios of interleaved measurements.

use serde::Serialize;

/// The middle of a list of numbers and its quartiles.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    pub(crate) fn of(numbers: &[f64]) -> Spread {
        Spread { median: quantile(numbers, 0.5), low: quantile(numbers, 0.25), high: quantile(numbers, 0.75) }
    }
}

pub(crate) fn median(numbers: &[f64]) -> f64 {
    quantile(numbers, 0.5)
}

/// Between two numbers of the sorted list, by a straight line; of nothing, zero.
fn quantile(numbers: &[f64], part: f64) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = part * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64)
}

/// The median over the rounds of the one divided by the other: what slows a whole round down does not count.
pub(crate) fn ratio(of: &[f64], to: &[f64]) -> f64 {
    median(&of.iter().zip(to).map(|(a, b)| a / b).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles() {
        assert_eq!(Spread::of(&[5.0, 1.0, 3.0, 2.0, 4.0]), Spread { median: 3.0, low: 2.0, high: 4.0 });
        assert_eq!(median(&[1.0, 2.0]), 1.5);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn a_slow_round_does_not_change_a_ratio() {
        assert_eq!(ratio(&[2.0, 20.0, 2.0], &[1.0, 10.0, 1.0]), 2.0);
    }
}
