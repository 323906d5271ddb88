//! Numbers about series along episodes. `docs/guide/diagnose.md` defines each of them.

/// None where there are no numbers.
pub fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.fold((0.0, 0u64), |(sum, count), x| (sum + x, count + 1));
    (count > 0).then(|| sum / count as f64)
}

/// The variance of all numbers, not of a sample.
fn variance(numbers: &[f64]) -> Option<f64> {
    let centre = mean(numbers.iter().copied())?;
    mean(numbers.iter().map(|x| (x - centre).powi(2)))
}

/// The standard deviation of all numbers, not of a sample.
pub fn deviation(numbers: &[f64]) -> Option<f64> {
    variance(numbers).map(f64::sqrt)
}

/// Pearson's correlation; none where one side does not vary.
pub fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let (of_a, of_b) = (mean(a.iter().copied())?, mean(b.iter().copied())?);
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        ab += (x - of_a) * (y - of_b);
        aa += (x - of_a).powi(2);
        bb += (y - of_b).powi(2);
    }
    (aa > 0.0 && bb > 0.0).then(|| ab / (aa * bb).sqrt())
}

/// The quantile of numbers in rising order, by straight lines between them.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let (below, part) = (place.floor() as usize, place.fract());
    let (low, high) = (sorted[below], sorted[(below + 1).min(sorted.len() - 1)]);
    Some(if part < 0.5 { low + (high - low) * part } else { high - (high - low) * (1.0 - part) })
}

fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = numbers.collect();
    all.sort_by(f64::total_cmp);
    all
}

/// How much of a series' spread is left within single episodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// The root of the mean over episodes of the variance within each.
    pub within: f64,
    /// The standard deviation over all states of other episodes.
    pub overall: f64,
    /// The first divided by the second: neither a constant nor a factor of the series changes it.
    pub ratio: f64,
}

/// None where there are no numbers, or where the other episodes' do not vary.
pub fn drift(along: &[Vec<f64>], against: &[Vec<f64>]) -> Option<Drift> {
    let within = mean(along.iter().filter_map(|e| variance(e)))?.sqrt();
    let overall = deviation(&against.concat())?;
    (overall > 0.0).then(|| Drift { within, overall, ratio: within / overall })
}

/// How far a series goes from where its episode started: the mean of |x(t) - x(0)|.
pub fn departure(episodes: &[Vec<f64>]) -> Option<f64> {
    mean(episodes.iter().flat_map(|e| e.iter().skip(1).map(move |x| (x - e[0]).abs())))
}

/// A series of errors by step, of one episode: each start has the steps that end within the episode.
///
/// The mean over an episode's starts, then over episodes; None where no start has that step.
pub fn horizon(episodes: &[Vec<Vec<f64>>], step: usize) -> Option<f64> {
    mean(episodes.iter().filter_map(|starts| mean(starts.iter().filter_map(|steps| steps.get(step).copied()))))
}

/// What crossings are counted of, at one decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// The two arrays that a slice takes one coordinate of each from.
    pub place: [Vec<f64>; 2],
    /// The gradient of the function by each of them.
    pub normal: [Vec<f64>; 2],
    /// What drives the state.
    pub by: f64,
}

/// How often steps cross the level lines of a function in the slice of one coordinate and another.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct Pair {
    /// The coordinates: an entry of the first array and one of the second.
    pub pair: [usize; 2],
    /// How much the slice shows: 0.35 coverage + 0.30 swirl + 0.20 speed + 0.15 occupancy, each divided by its largest.
    pub score: f64,
    /// The product of both coordinates' spans, from the 5 % quantile to the 95 % quantile.
    pub coverage: f64,
    /// The mean of |offset x flow| / (|offset| |flow|), with offsets from the medians.
    pub swirl: f64,
    /// The mean length of the flow, which is the gradient turned by a right angle.
    pub speed: f64,
    /// The entropy of a histogram of 20 x 20, divided by log 400.
    pub occupancy: f64,
    /// Quantiles of the crossings.
    pub threshold: Vec<f64>,
    /// The share of steps with at least that crossing, of those that are strongly driven and of the others.
    pub rate_strong: Vec<f64>,
    pub rate_weak: Vec<f64>,
    /// The mean of the differences of both rates over the thresholds.
    pub lift_auc: f64,
    /// The largest difference, and the quantile that it is at.
    pub best_lift: f64,
    pub best_quantile: f64,
    /// The mean over thresholds of the correlation of crossing with what drives.
    pub binary_corr_auc: f64,
    /// The mean of the crossing divided by the lengths of move and gradient.
    pub mean_ratio: f64,
    /// The correlation of the crossing with what drives.
    pub corr_cross_drive: f64,
}

/// The quantiles that thresholds are taken at, where nobody says others.
pub const QUANTILES: [f64; 6] = [0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// A step is strongly driven from this quantile of |by| on, and weakly up to the other.
const STRONG: f64 = 0.75;
const WEAK: f64 = 0.25;
/// Bins of each coordinate's histogram.
const BINS: usize = 20;
/// Lengths are at least this where something is divided by them.
const SHORTEST: f64 = 1e-8;

/// All pairs of coordinates, by the first one. A step goes from one decision of an episode to the next: its crossing is the
/// size of (move . gradient) in the slice. None where there are no steps.
pub fn crossings(episodes: &[Vec<Moment>], quantiles: &[f64]) -> Option<Vec<Pair>> {
    let steps: Vec<(&Moment, &Moment)> = episodes.iter().flat_map(|e| e.windows(2).map(|w| (&w[0], &w[1]))).collect();
    let points: Vec<&Moment> = episodes.iter().flatten().collect();
    let drives: Vec<f64> = steps.iter().map(|(now, _)| now.by.abs()).collect();
    let order = sorted(drives.iter().copied());
    let (high, low) = (quantile(&order, STRONG)?, quantile(&order, WEAK)?);
    let [rows, columns] = [0, 1].map(|side| points[0].place[side].len());
    let mut pairs = Vec::with_capacity(rows * columns);
    for pair in (0..rows).flat_map(|i| (0..columns).map(move |j| [i, j])) {
        let mut found = seen(&points, pair)?;
        let (crossed, ratios): (Vec<f64>, Vec<f64>) = steps.iter().map(|(now, next)| crossing(now, next, pair)).unzip();
        let order = sorted(crossed.iter().copied());
        let mut binary = Vec::new();
        for share in quantiles {
            let threshold = quantile(&order, *share)?;
            let rate = |chosen: &dyn Fn(f64) -> bool| {
                let own = crossed.iter().zip(&drives).filter(|(_, drive)| chosen(**drive));
                mean(own.map(|(c, _)| f64::from(u8::from(*c >= threshold))))
            };
            found.threshold.push(threshold);
            found.rate_strong.push(rate(&|drive| drive >= high)?);
            found.rate_weak.push(rate(&|drive| drive <= low)?);
            let crosses: Vec<f64> = crossed.iter().map(|c| f64::from(u8::from(*c >= threshold))).collect();
            binary.push(correlation(&crosses, &drives).unwrap_or(0.0));
        }
        let lifts: Vec<f64> = found.rate_strong.iter().zip(&found.rate_weak).map(|(a, b)| a - b).collect();
        found.lift_auc = mean(lifts.iter().copied())?;
        (found.best_quantile, found.best_lift) =
            quantiles.iter().copied().zip(lifts).reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        found.binary_corr_auc = mean(binary.into_iter())?;
        found.mean_ratio = mean(ratios.into_iter())?;
        found.corr_cross_drive = correlation(&crossed, &drives).unwrap_or(0.0);
        pairs.push(found);
    }
    score(&mut pairs);
    Some(pairs)
}

/// The crossing of a step in a slice, and the same divided by the lengths of move and gradient.
fn crossing(now: &Moment, next: &Moment, pair: [usize; 2]) -> (f64, f64) {
    let step = [0, 1].map(|side| next.place[side][pair[side]] - now.place[side][pair[side]]);
    let normal = [0, 1].map(|side| now.normal[side][pair[side]]);
    let crossed = (step[0] * normal[0] + step[1] * normal[1]).abs();
    (crossed, crossed / (step[0].hypot(step[1]) * normal[0].hypot(normal[1])).max(SHORTEST))
}

/// What there is to see in a slice, but its score.
fn seen(points: &[&Moment], [i, j]: [usize; 2]) -> Option<Pair> {
    let along = |side: usize, at: usize| points.iter().map(move |m| m.place[side][at]);
    let (across, up) = (sorted(along(0, i)), sorted(along(1, j)));
    let span = |all: &[f64]| Some(quantile(all, 0.95)? - quantile(all, 0.05)?);
    let (x, y) = (quantile(&across, 0.5)?, quantile(&up, 0.5)?);
    let flow = |m: &Moment| (m.normal[1][i], -m.normal[0][j]);
    let turn = |m: &&Moment| {
        let ((a, b), (u, v)) = ((m.place[0][i] - x, m.place[1][j] - y), flow(m));
        (a * v - b * u).abs() / (a.hypot(b) * u.hypot(v)).max(SHORTEST)
    };
    Some(Pair {
        pair: [i, j],
        coverage: span(&across)? * span(&up)?,
        swirl: mean(points.iter().map(turn))?,
        speed: mean(points.iter().map(|m| flow(m).0.hypot(flow(m).1)))?,
        occupancy: entropy(along(0, i).zip(along(1, j)), (&across, &up)),
        ..Pair::default()
    })
}

/// Of a histogram, divided by that of one that is even.
fn entropy(points: impl Iterator<Item = (f64, f64)>, (across, up): (&[f64], &[f64])) -> f64 {
    let bin = |x: f64, all: &[f64]| {
        let (low, high) = (all[0], all[all.len() - 1]);
        let part = if high > low { (x - low) / (high - low) } else { 0.5 };
        ((part * BINS as f64) as usize).min(BINS - 1)
    };
    let mut counts = vec![0.0; BINS * BINS];
    points.for_each(|(x, y)| counts[bin(x, across) * BINS + bin(y, up)] += 1.0);
    let all: f64 = counts.iter().sum();
    let parts = counts.iter().filter(|n| **n > 0.0).map(|n| n / all);
    -parts.map(|p| p * p.ln()).sum::<f64>() / ((BINS * BINS) as f64).ln()
}

/// A part of the score, and its weight.
type Weighted = (fn(&Pair) -> f64, f64);

fn score(pairs: &mut [Pair]) {
    let parts: [Weighted; 4] = [(|p| p.coverage, 0.35), (|p| p.swirl, 0.30), (|p| p.speed, 0.20), (|p| p.occupancy, 0.15)];
    for (part, weight) in parts {
        let largest = pairs.iter().map(part).fold(0.0, f64::max);
        if largest > 0.0 {
            pairs.iter_mut().for_each(|pair| pair.score += weight * part(pair) / largest);
        }
    }
}

/// The pair that is worth drawing among some: the largest 0.35 score + 0.35 lift_auc + 0.10 binary_corr_auc, each scaled to
/// 0..1 over them.
pub fn chosen<'p>(pairs: &[&'p Pair]) -> Option<&'p Pair> {
    let scaled = |part: fn(&Pair) -> f64| {
        let (low, high) = pairs.iter().map(|p| part(p)).fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(x), b.max(x)));
        move |pair: &Pair| if high > low { (part(pair) - low) / (high - low) } else { 0.0 }
    };
    let (score, lift, binary) = (scaled(|p| p.score), scaled(|p| p.lift_auc), scaled(|p| p.binary_corr_auc));
    let worth = |pair: &Pair| 0.35 * score(pair) + 0.35 * lift(pair) + 0.10 * binary(pair);
    pairs.iter().copied().max_by(|a, b| worth(a).total_cmp(&worth(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_of_lines_are_one() {
        let line = |a: f64| (0..9).map(|i| a * f64::from(i) + 1.0).collect::<Vec<_>>();
        let steps: Vec<f64> = (0..9).map(f64::from).collect();
        assert!((correlation(&steps, &line(0.5)).unwrap() - 1.0).abs() < 1e-12);
        assert!((correlation(&steps, &line(-2.0)).unwrap() + 1.0).abs() < 1e-12);
        assert_eq!(correlation(&steps, &line(0.0)), None);
        assert_eq!(correlation(&[], &[]), None);
    }

    #[test]
    fn quantiles_lie_on_lines_between_the_numbers() {
        let numbers = [1.0, 2.0, 4.0, 8.0];
        let found = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&numbers, share).unwrap());
        assert_eq!(found, [1.0, 1.75, 3.0, 5.0, 8.0]);
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn a_drift_has_no_units_and_no_zero() {
        let along = [vec![1.0, 3.0], vec![10.0, 10.0]];
        let against = [vec![0.0, 4.0], vec![8.0, 12.0]];
        let found = drift(&along, &against).unwrap();
        assert_eq!((found.within, found.overall), (0.5f64.sqrt(), 20f64.sqrt()));
        assert_eq!(found.ratio, found.within / found.overall);
        let other = |all: &[Vec<f64>]| all.iter().map(|e| e.iter().map(|x| 7.0 - 3.0 * x).collect()).collect::<Vec<_>>();
        let same = drift(&other(&along), &other(&against)).unwrap();
        assert!((same.ratio - found.ratio).abs() < 1e-15);
        // What is kept along each episode does not drift, wherever episodes start.
        assert_eq!(drift(&[vec![1.0; 5], vec![9.0; 5]], &against).unwrap().ratio, 0.0);
        assert_eq!(drift(&along, &[vec![2.0; 3]]), None);
        assert_eq!(drift(&[], &against), None);
    }

    #[test]
    fn departures_are_measured_from_the_start_of_each_episode() {
        assert_eq!(departure(&[vec![2.0, 2.5, 1.5], vec![-4.0, -4.0, -5.0]]), Some(0.5));
        assert_eq!(departure(&[vec![1.0]]), None);
    }

    #[test]
    fn a_pair_is_chosen_by_what_it_shows() {
        let pair = |i: usize, score, lift_auc, binary_corr_auc| Pair {
            pair: [i, i],
            score,
            lift_auc,
            binary_corr_auc,
            ..Pair::default()
        };
        let all = [pair(0, 0.2, 0.5, 0.9), pair(1, 0.9, 0.4, 0.0), pair(2, 0.1, 0.1, 1.0)];
        assert_eq!(chosen(&all.iter().collect::<Vec<_>>()).unwrap().pair, [1, 1]);
        assert_eq!(chosen(&[&all[2]]).unwrap().pair, [2, 2]);
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn strong_steps_cross_what_weak_ones_do_not() {
        // Level lines are x = const, and x grows where something drives.
        let mut x = 0.0;
        let moment = |t: u32| {
            let by = f64::from(t % 2);
            let moment = Moment { place: [vec![x], vec![f64::from(t).sin()]], normal: [vec![1.0], vec![0.0]], by };
            x += by + 0.01;
            moment
        };
        let pairs = crossings(&[(0..40).map(moment).collect()], &QUANTILES).unwrap();
        assert_eq!((pairs.len(), pairs[0].best_lift), (1, 1.0));
        assert!(pairs[0].lift_auc > 0.6 && pairs[0].corr_cross_drive > 0.999, "{pairs:?}");
        assert_eq!(crossings(&[], &QUANTILES), None);
    }

    #[test]
    fn errors_are_averaged_over_starts_and_then_over_episodes() {
        let long = vec![vec![1.0, 5.0], vec![2.0, 7.0], vec![3.0]];
        let short = vec![vec![8.0]];
        assert_eq!(horizon(&[long.clone(), short.clone()], 0), Some(5.0));
        assert_eq!(horizon(&[long, short.clone()], 1), Some(6.0));
        assert_eq!(horizon(&[short], 1), None);
    }
}
