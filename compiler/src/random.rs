//! Counter-based random numbers: entry `i` of a draw is a function of the draw's key and of `i`, and of nothing else.
//!
//! The key is a hash of the draw's name, the seed, the program's name and the step; the counter is the place of the
//! entry among all the draw's entries in storage order. So the bits do not depend on the order in which entries or
//! draws are computed, and a draw that is added changes no other. The generator is Philox 4x32 with ten rounds
//! (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011), one counter an entry.
//!
//! Every number is made of 24 random bits at a time, so that single precision holds the same uniform numbers as double
//! precision, and normal numbers that differ by rounding alone.

/// The random numbers of one draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    key: [u32; 2],
}

impl Stream {
    pub fn new(draw: &str, seed: u64, program: &str, step: u64) -> Stream {
        let key = key(draw, seed, program, step);
        Stream { key: [key as u32, (key >> 32) as u32] }
    }

    /// Uniform in [0, 1): a multiple of 2^-24.
    pub fn uniform(&self, index: u64) -> f64 {
        fraction(self.words(index)[0])
    }

    /// Standard normal, by Box and Muller: `sqrt(-2 log u) cos(2 pi v)` with u in (0, 1] and v in [0, 1). At most 5.77.
    pub fn gaussian(&self, index: u64) -> f64 {
        let [u, v, ..] = self.words(index);
        let u = fraction(u) + UNIT;
        let v = fraction(v);
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// The first `count` entries of a random permutation of `0..of`: the first steps of Fisher and Yates's shuffle, the
    /// step for entry `i` drawn at the counter `first + i`.
    pub fn subset(&self, first: u64, count: usize, of: u32) -> Vec<u32> {
        let mut places = vec![0; of as usize];
        self.shuffle(first, count, &mut places);
        places.truncate(count);
        places
    }

    /// Likewise of all the places there are, where they are; only the first `count` are shuffled.
    pub fn shuffle(&self, first: u64, count: usize, places: &mut [u32]) {
        places.iter_mut().zip(0..).for_each(|(place, i)| *place = i);
        for i in 0..count.min(places.len()) {
            let left = (places.len() - i) as u64;
            let chosen = (u64::from(self.words(first + i as u64)[0]) * left) >> 32;
            places.swap(i, i + chosen as usize);
        }
    }

    /// The four words of a counter.
    pub fn words(&self, index: u64) -> [u32; 4] {
        philox([index as u32, (index >> 32) as u32, 0, 0], self.key)
    }
}

/// 2^-24.
const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// The upper 24 bits as a number in [0, 1).
fn fraction(word: u32) -> f64 {
    f64::from(word >> 8) * UNIT
}

/// A hash that will never change: FNV-1a of the names, each ended by a byte that no text has, and of the numbers; then
/// the finaliser of SplitMix64, so that steps that differ by one have keys that differ in half of their bits.
pub fn key(draw: &str, seed: u64, program: &str, step: u64) -> u64 {
    let parts = [draw.as_bytes(), &[0xff], program.as_bytes(), &[0xff], &seed.to_le_bytes(), &step.to_le_bytes()];
    let hash = parts
        .into_iter()
        .flatten()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    mix(hash)
}

/// The finaliser of SplitMix64.
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Philox 4x32-10. A round multiplies two of the words by constants and mixes the halves of the products with the other
/// two words and the key; the key grows by a constant each round.
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let halves = |a: u32, b: u32| {
        let product = u64::from(a) * u64::from(b);
        ((product >> 32) as u32, product as u32)
    };
    let (mut c, mut k) = (counter, key);
    for _ in 0..10 {
        let (high_0, low_0) = halves(0xd251_1f53, c[0]);
        let (high_1, low_1) = halves(0xcd9e_8d57, c[2]);
        c = [high_1 ^ c[1] ^ k[0], low_1, high_0 ^ c[3] ^ k[1], low_0];
        k = [k[0].wrapping_add(0x9e37_79b9), k[1].wrapping_add(0xbb67_ae85)];
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u64 = 200_000;

    fn stream() -> Stream {
        Stream::new("plan.noise", 7, "plan", 3)
    }

    fn mean_and_variance(numbers: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
        let n = numbers.clone().count() as f64;
        let mean = numbers.clone().sum::<f64>() / n;
        (mean, numbers.map(|x| (x - mean).powi(2)).sum::<f64>() / n)
    }

    fn correlation(a: &[f64], b: &[f64]) -> f64 {
        let (ma, va) = mean_and_variance(a.iter().copied());
        let (mb, vb) = mean_and_variance(b.iter().copied());
        let covariance = a.iter().zip(b).map(|(x, y)| (x - ma) * (y - mb)).sum::<f64>() / a.len() as f64;
        covariance / (va * vb).sqrt()
    }

    /// The known answers published with Random123 (`tests/kat_vectors`, philox4x32 with 10 rounds).
    #[test]
    fn known_answers() {
        let all = u32::MAX;
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([all; 4], [all; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, words) in cases {
            assert_eq!(philox(counter, key), words);
        }
    }

    /// A resumed run relies on it that keys never change. (Computed by other code, from the description.)
    #[test]
    fn keys_stay() {
        assert_eq!(key("", 0, "", 0), 0xb783_ab6f_edeb_19c4);
        assert_eq!(key("plan.noise", 7, "plan", 3), 0x3a24_7d38_7291_4fca);
    }

    #[test]
    fn keys_tell_everything_apart() {
        let mut keys = std::collections::BTreeSet::new();
        let mut count = 0;
        for draw in ["", "a", "b", "ab"] {
            for program in ["", "a", "b", "ab"] {
                for seed in 0..20 {
                    for step in 0..20 {
                        keys.insert(key(draw, seed, program, step));
                        count += 1;
                    }
                }
            }
        }
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn uniform_is_uniform_and_exact_in_single_precision() {
        let stream = stream();
        let mut bins = [0_u32; 64];
        for i in 0..COUNT {
            let x = stream.uniform(i);
            assert!((0.0..1.0).contains(&x));
            assert_eq!(f64::from(x as f32), x);
            assert!((x as f32) < 1.0);
            bins[(x * 64.0) as usize] += 1;
        }
        let expected = COUNT as f64 / 64.0;
        let chi2: f64 = bins.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
        // 63 degrees of freedom: 0.1% lies above 103.4.
        assert!(chi2 < 103.4, "{chi2}");
        let (mean, variance) = mean_and_variance((0..COUNT).map(|i| stream.uniform(i)));
        assert!((mean - 0.5).abs() < 0.003 && (variance - 1.0 / 12.0).abs() < 0.001);
    }

    #[test]
    fn gaussian_is_normal() {
        let stream = stream();
        let numbers: Vec<f64> = (0..COUNT).map(|i| stream.gaussian(i)).collect();
        let (mean, variance) = mean_and_variance(numbers.iter().copied());
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((variance - 1.0).abs() < 0.02, "{variance}");
        let moment = |p: i32| numbers.iter().map(|x| x.powi(p)).sum::<f64>() / COUNT as f64;
        assert!(moment(3).abs() < 0.03, "{}", moment(3));
        assert!((moment(4) - 3.0).abs() < 0.1, "{}", moment(4));
        for (limit, share) in [(1.0, 0.317_31), (2.0, 0.045_50), (3.0, 0.002_70)] {
            let beyond = numbers.iter().filter(|x| x.abs() > limit).count() as f64 / COUNT as f64;
            assert!((beyond - share).abs() < 4.0 * (share / COUNT as f64).sqrt(), "beyond {limit}: {beyond}");
        }
        assert!(numbers.iter().all(|x| x.is_finite() && x.abs() < 5.78));
    }

    #[test]
    fn neighbours_draws_steps_and_programs_are_independent() {
        let list = |s: Stream, first: u64| (first..first + 50_000).map(|i| s.gaussian(i)).collect::<Vec<_>>();
        let base = list(stream(), 0);
        let others = [
            list(stream(), 1),
            list(Stream::new("plan.noisf", 7, "plan", 3), 0),
            list(Stream::new("plan.noise", 8, "plan", 3), 0),
            list(Stream::new("plan.noise", 7, "train", 3), 0),
            list(Stream::new("plan.noise", 7, "plan", 4), 0),
        ];
        for other in others {
            assert!(correlation(&base, &other).abs() < 0.02);
        }
    }

    #[test]
    fn large_counters_do_not_repeat_small_ones() {
        let stream = stream();
        assert_ne!(stream.words(0), stream.words(1 << 32));
        assert_ne!(stream.words(5), stream.words(5 + (7 << 32)));
    }

    #[test]
    fn subsets_are_distinct_places_each_as_likely() {
        let stream = stream();
        let (count, of, rows) = (3, 7, 20_000);
        let mut at = [[0_u32; 7]; 3];
        for row in 0..rows {
            let places = stream.subset(row * count as u64, count, of);
            assert_eq!(places.len(), count);
            let distinct: std::collections::BTreeSet<_> = places.iter().collect();
            assert_eq!(distinct.len(), count);
            places.iter().enumerate().for_each(|(i, p)| at[i][*p as usize] += 1);
        }
        let expected = rows as f64 / f64::from(of);
        for entry in at {
            let chi2: f64 = entry.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
            // 6 degrees of freedom: 0.1% lies above 22.5.
            assert!(chi2 < 22.5, "{chi2}");
        }
        let mut all = stream.subset(0, 7, 7);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5, 6]);
        assert!(stream.subset(0, 0, 7).is_empty());
        assert!(stream.subset(0, 0, 0).is_empty());
    }
}
