//! Numbers about an energy along episodes. The definitions are those of docs/experiments.md.

use serde::Serialize;

/// How far an energy strays from where an episode started.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Drift {
    /// The mean of |H(t) - H(0)|.
    pub(crate) absolute: f64,
    /// The same as a part of the mean of |H(0)|; none where that is 0, as a kinetic energy at rest.
    pub(crate) relative: Option<f64>,
}

/// None where there are no numbers.
pub(crate) fn drift(episodes: &[Vec<f64>]) -> Option<Drift> {
    let strays = episodes.iter().flat_map(|e| e.iter().skip(1).map(move |h| (h - e[0]).abs()));
    let absolute = mean(strays)?;
    let start = mean(episodes.iter().filter_map(|e| e.first()).map(|h| h.abs()))?;
    Some(Drift { absolute, relative: (start > 0.0).then(|| absolute / start) })
}

pub(crate) fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.fold((0.0, 0u64), |(sum, count), x| (sum + x, count + 1));
    (count > 0).then(|| sum / count as f64)
}

/// Pearson's correlation; none where one side does not vary.
pub(crate) fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let a = mean(pairs.iter().map(|p| p.0))?;
    let b = mean(pairs.iter().map(|p| p.1))?;
    let moment = |f: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(f).sum::<f64>();
    let (ab, aa, bb) =
        (moment(&|p| (p.0 - a) * (p.1 - b)), moment(&|p| (p.0 - a) * (p.0 - a)), moment(&|p| (p.1 - b) * (p.1 - b)));
    (aa > 0.0 && bb > 0.0).then(|| ab / (aa * bb).sqrt())
}

/// A step of an episode: the energy before and after it, and the push of the action.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pushed {
    pub(crate) before: f64,
    pub(crate) after: f64,
    pub(crate) push: f64,
}

impl Pushed {
    fn change(&self) -> f64 {
        self.after - self.before
    }
}

/// What pushes have to do with changes of the energy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Coupling {
    /// Correlation of the sign of the change with the push.
    pub(crate) sign: Option<f64>,
    /// Correlation of the sizes of both.
    pub(crate) size: Option<f64>,
    /// How often contours are crossed, over a sweep of their distances.
    pub(crate) crossings: Vec<Crossing>,
    /// The mean over the sweep of the difference between the two rates.
    pub(crate) lift_area: Option<f64>,
    /// The largest difference.
    pub(crate) best_lift: Option<f64>,
}

/// How many steps change the energy by more than a threshold, of those with strong pushes and of those with weak ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Crossing {
    pub(crate) threshold: f64,
    pub(crate) strong: f64,
    pub(crate) weak: f64,
}

impl Crossing {
    fn lift(&self) -> f64 {
        self.strong - self.weak
    }
}

/// Steps of the sweep.
const SWEEP: usize = 50;

/// Thresholds from zero to what 95 % of the changes stay below, evenly; pushes are strong from the median of their sizes on.
pub(crate) fn coupling(steps: &[Pushed]) -> Coupling {
    let sign = correlation(&steps.iter().map(|s| (s.change().signum(), s.push)).collect::<Vec<_>>());
    let size = correlation(&steps.iter().map(|s| (s.change().abs(), s.push.abs())).collect::<Vec<_>>());
    let sorted = |f: &dyn Fn(&Pushed) -> f64| {
        let mut all: Vec<f64> = steps.iter().map(f).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let (changes, pushes) = (sorted(&|s| s.change().abs()), sorted(&|s| s.push.abs()));
    let (Some(most), Some(median)) = (changes.get(changes.len() * 95 / 100), pushes.get(pushes.len() / 2)) else {
        return Coupling { sign, size, crossings: Vec::new(), lift_area: None, best_lift: None };
    };
    let (strong, weak): (Vec<&Pushed>, Vec<&Pushed>) = steps.iter().partition(|s| s.push.abs() >= *median);
    let crossing = |i: usize| {
        let threshold = most * i as f64 / SWEEP as f64;
        let crosses = |s: &&&Pushed| s.change().abs() > threshold;
        let rate = |group: &[&Pushed]| group.iter().filter(crosses).count() as f64 / group.len().max(1) as f64;
        Crossing { threshold, strong: rate(&strong), weak: rate(&weak) }
    };
    let crossings: Vec<Crossing> = (0..=SWEEP).map(crossing).collect();
    Coupling {
        sign,
        size,
        lift_area: mean(crossings.windows(2).map(|w| (w[0].lift() + w[1].lift()) / 2.0)),
        best_lift: crossings.iter().map(Crossing::lift).max_by(f64::total_cmp),
        crossings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drifts_are_measured_from_the_start_of_each_episode() {
        let found = drift(&[vec![2.0, 2.5, 1.5], vec![-4.0, -4.0, -5.0]]).unwrap();
        assert_eq!((found.absolute, found.relative), (0.5, Some(0.5 / 3.0)));
        assert_eq!(drift(&[vec![0.0, 2.0]]), Some(Drift { absolute: 2.0, relative: None }));
        assert_eq!(drift(&[]), None);
        assert_eq!(drift(&[vec![1.0]]), None);
    }

    #[test]
    fn correlations_of_lines_are_one() {
        let line = |a: f64| (0..9).map(|i| (f64::from(i), a * f64::from(i) + 1.0)).collect::<Vec<_>>();
        assert!((correlation(&line(0.5)).unwrap() - 1.0).abs() < 1e-12);
        assert!((correlation(&line(-2.0)).unwrap() + 1.0).abs() < 1e-12);
        assert_eq!(correlation(&line(0.0)), None);
    }

    #[test]
    fn strong_pushes_cross_contours_that_weak_ones_do_not() {
        // Changes that are the pushes themselves: half of them 10, half of them 1.
        let steps: Vec<Pushed> = (0..1000)
            .map(|i| {
                let before = f64::from(i % 100);
                let push = if i % 2 == 0 { 10.0 } else { 1.0 } * if i % 3 == 0 { -1.0 } else { 1.0 };
                Pushed { before, after: before + push, push }
            })
            .collect();
        let found = coupling(&steps);
        assert!(found.size.unwrap() > 0.999 && found.sign.unwrap() > 0.7, "{found:?}");
        assert_eq!(found.crossings.len(), SWEEP + 1);
        // Weak ones stop to cross at a tenth of the sweep, strong ones at its end.
        assert_eq!((found.crossings[0].lift(), found.crossings[10].lift(), found.best_lift), (0.0, 1.0, Some(1.0)));
        assert!((found.lift_area.unwrap() - 0.9).abs() < 0.02, "{found:?}");
        assert_eq!(coupling(&[]).lift_area, None);
    }
}
