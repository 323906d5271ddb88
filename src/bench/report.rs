//! The measurements, as a document and as tables.

use compiler::kernel::cost::Cost;
use serde::Serialize;

use super::stats::{Spread, ratio};

/// A whole run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Document {
    pub(crate) instruction_set: String,
    pub(crate) rounds: u32,
    /// Load averages of the machine before and after, where it tells them.
    pub(crate) load: [Option<f64>; 2],
    pub(crate) cases: Vec<Measured>,
}

/// A case with its variants.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) case: String,
    pub(crate) model: String,
    /// Operations of matrix products of a call, in billions.
    pub(crate) gflop: f64,
    /// Exponentials and the like of a call, in millions.
    pub(crate) mexp: f64,
    /// Rounds that count.
    pub(crate) rounds: usize,
    /// Processors that other programs kept busy in them, where the system says it.
    pub(crate) others: Option<f64>,
    /// What the machine could do, for each number of threads, between the same rounds.
    pub(crate) limits: Vec<Limits>,
    pub(crate) variants: Vec<Variant>,
    /// Peers that could not be measured, and why.
    pub(crate) failed: Vec<(String, String)>,
}

/// Rates in billions a second.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Limits {
    pub(crate) threads: usize,
    pub(crate) fma: Spread,
    pub(crate) sgemm: Spread,
    /// The product of the peers' library, where it is measured.
    pub(crate) library: Option<Spread>,
    pub(crate) exp: Spread,
    /// Of the loop of multiply-adds, a number for each round.
    #[serde(skip)]
    pub(crate) fma_samples: Vec<f64>,
}

impl Limits {
    /// The best matrix product that is known.
    fn product(&self) -> f64 {
        self.library.map_or(self.sgemm.median, |l| l.median.max(self.sgemm.median))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// One of our levels.
    Own,
    /// The highest level at a larger size.
    Larger,
    Peer,
}

#[derive(Debug, Serialize)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) threads: usize,
    /// Seconds from the text to the end of the first call.
    pub(crate) first_s: f64,
    /// Milliseconds of a call.
    pub(crate) ms: Spread,
    /// How many times as long as the base takes it takes: the median over the rounds.
    pub(crate) ratio: f64,
    /// How far its first numbers are from the base's, relative to the largest.
    pub(crate) differs: Option<f64>,
    /// Medians of the rounds.
    pub(crate) samples: Vec<f64>,
    pub(crate) value: Vec<f64>,
    /// What it computes, where that is known.
    #[serde(skip)]
    pub(crate) cost: Option<Cost>,
}

impl Measured {
    /// Ratios and differences to the variant that the others are compared with.
    pub(crate) fn compare(&mut self, base: usize) {
        let Some(base) = self.variants.get(base) else { return };
        let (samples, value) = (base.samples.clone(), base.value.clone());
        for variant in &mut self.variants {
            variant.ratio = ratio(&variant.samples, &samples);
            let comparable = variant.kind != Kind::Larger && variant.value.len() == value.len() && !value.is_empty();
            variant.differs = comparable.then(|| difference(&variant.value, &value));
        }
    }

    fn limits(&self, threads: usize) -> Option<&Limits> {
        self.limits.iter().find(|l| l.threads == threads)
    }

    /// Rates, and what part of the machine's they are.
    fn rates(&self, variant: &Variant) -> String {
        let Some(cost) = variant.cost else { return "| | | |".into() };
        let seconds = variant.ms.median / 1e3;
        let [flops, exps] = [cost.products, cost.transcendental].map(|n| n as f64 / seconds / 1e9);
        let limits = self.limits(variant.threads);
        // Of a device the limits are not known.
        let part =
            |rate: f64, limit: fn(&Limits) -> f64| limits.map_or(String::new(), |l| format!("{:.0} %", 100.0 * rate / limit(l)));
        let products = match cost.products {
            0 => "| | |".to_string(),
            _ => format!("{flops:.1} | {} | {} |", part(flops, Limits::product), part(flops, |l| l.fma.median)),
        };
        let of_exps = part(exps, |l| l.exp.median);
        if of_exps.is_empty() { format!("{products} {exps:.2} |") } else { format!("{products} {exps:.2} ({of_exps}) |") }
    }

    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "**{}** ({}): {:.3} GFLOP of matrix products, {:.2} M exponentials\n\n",
            self.case, self.model, self.gflop, self.mexp
        );
        text += "| variant | ms | quartiles | ratio | GFLOP/s | of sgemm | of FMA | Gexp/s | ready in s | differs by |\n";
        text += "|---|---|---|---|---|---|---|---|---|---|\n";
        for v in self.variants.iter().filter(|v| v.kind != Kind::Larger) {
            let differs = v.differs.map_or(String::new(), |d| if d == 0.0 { "0".into() } else { format!("{d:.0e}") });
            let (ms, rates) = (times(&v.ms), self.rates(v));
            text += &format!("| {} | {ms} | {:.2} | {rates} {:.2} | {differs} |\n", v.name, v.ratio, v.first_s);
        }
        for (name, why) in &self.failed {
            text += &format!("| {name} | not measured: {why} | | | | | | | | |\n");
        }
        text + &self.doublings() + &self.notes()
    }

    /// How time grows where work does.
    fn doublings(&self) -> String {
        let larger: Vec<&Variant> = self.variants.iter().filter(|v| v.kind == Kind::Larger).collect();
        let Some(base) = self.base().filter(|_| !larger.is_empty()) else { return String::new() };
        let mut text = "\n| size | ms | quartiles | work x | time x | time for work |\n|---|---|---|---|---|---|\n".to_string();
        for v in larger {
            let work = work(v) / work(base);
            text += &format!("| {} | {} | {work:.2} | {:.2} | {:.2} |\n", v.name, times(&v.ms), v.ratio, v.ratio / work);
        }
        text
    }

    fn notes(&self) -> String {
        let mut text = "\n".to_string();
        for l in &self.limits {
            let library = l.library.map_or(String::new(), |s| format!(" ({:.0} by the peers' library)", s.median));
            text += &format!(
                "{}: FMA {:.0} GFLOP/s, sgemm {:.0}{library}, exp {:.2} G/s. ",
                plural(l.threads, "thread"),
                l.fma.median,
                l.sgemm.median,
                l.exp.median
            );
        }
        let others = self.others.map_or(String::new(), |o| format!(", other programs on {o:.2} processors"));
        text += &format!("{}{others}.\n", plural(self.rounds, "round"));
        text + &self.scaling()
    }

    /// What more threads give, beside what they give a loop of multiply-adds.
    fn scaling(&self) -> String {
        let own = |threads: usize| self.variants.iter().filter(move |v| v.kind == Kind::Own && v.threads == threads);
        let Some((one, more)) = self.limits.split_first() else { return String::new() };
        let mut text = String::new();
        for limits in more {
            let fma = ratio(&limits.fma_samples, &one.fma_samples);
            for (a, b) in own(one.threads).zip(own(limits.threads)) {
                let gain = ratio(&a.samples, &b.samples);
                text += &format!(
                    "From {} to {}: {gain:.2} x as fast ({}), multiply-adds {fma:.2} x: {:.0} %.\n",
                    one.threads,
                    plural(limits.threads, "thread"),
                    b.name,
                    100.0 * gain / fma
                );
            }
        }
        text
    }

    /// What others are compared with: the last of our own.
    fn base(&self) -> Option<&Variant> {
        self.variants.iter().rfind(|v| v.kind == Kind::Own)
    }
}

/// Matrix products where there are any, all operations otherwise.
fn work(variant: &Variant) -> f64 {
    let cost = variant.cost.unwrap_or_default();
    (if cost.products > 0 { cost.products } else { cost.flops + cost.transcendental }) as f64
}

fn times(ms: &Spread) -> String {
    format!("{} | {}..{}", digits(ms.median), digits(ms.low), digits(ms.high))
}

fn plural(n: usize, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

/// Three digits that mean something.
pub(crate) fn digits(ms: f64) -> String {
    match ms {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms if ms >= 1.0 => format!("{ms:.2}"),
        ms => format!("{ms:.4}"),
    }
}

fn difference(a: &[f64], b: &[f64]) -> f64 {
    let largest = b.iter().fold(f64::MIN_POSITIVE, |m, x| m.max(x.abs()));
    a.iter().zip(b).fold(0.0, |m: f64, (x, y)| m.max((x - y).abs())) / largest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(name: &str, kind: Kind, threads: usize, samples: &[f64], value: &[f64]) -> Variant {
        Variant {
            name: name.into(),
            kind,
            threads,
            first_s: 0.5,
            ms: Spread::of(samples),
            ratio: 0.0,
            differs: None,
            samples: samples.to_vec(),
            value: value.to_vec(),
            cost: Some(Cost { products: 4_000_000_000, transcendental: 30_000_000, ..Cost::default() }),
        }
    }

    fn limits(threads: usize, fma: f64) -> Limits {
        let fixed = |x: f64| Spread::of(&[x]);
        Limits { threads, fma: fixed(fma), sgemm: fixed(160.0), library: None, exp: fixed(3.0), fma_samples: vec![fma, fma] }
    }

    fn measured(limits: Vec<Limits>, variants: Vec<Variant>, base: usize) -> String {
        let mut measured = Measured {
            case: "plan".into(),
            model: "M".into(),
            gflop: 4.0,
            mexp: 2.0,
            rounds: 2,
            others: Some(0.1),
            limits,
            variants,
            failed: vec![("jax".into(), "it ended without an answer".into())],
        };
        measured.compare(base);
        measured.table()
    }

    #[test]
    fn a_table_says_how_they_compare() {
        let mega = variant("mega", Kind::Own, 2, &[40.0, 50.0], &[1.0, 2.0]);
        let eager = variant("eager", Kind::Own, 2, &[80.0, 100.0], &[1.0, 2.002]);
        let mut scan = variant("scan", Kind::Own, 2, &[40.0, 50.0], &[1.0, 2.0]);
        scan.cost = Some(Cost { transcendental: 30_000_000, ..Cost::default() });
        let torch = Variant { cost: None, ..variant("torch", Kind::Peer, 2, &[80.0, 100.0], &[1.0, 2.0]) };
        let table = measured(vec![limits(2, 200.0)], vec![mega, eager, scan, torch], 0);
        let mut columns = table.lines().filter(|l| l.starts_with('|')).map(|l| l.matches('|').count());
        assert!(columns.all(|n| n == 11), "{table}");
        let row = "| eager | 90.0 | 85.0..95.0 | 2.00 | 44.4 | 28 % | 22 % | 0.33 (11 %) | 0.50 | 1e-3 |";
        assert!(table.contains(row), "{table}");
        assert!(table.contains("| jax | not measured: it ended without an answer |"), "{table}");
        assert!(table.contains("2 rounds, other programs on 0.10 processors"), "{table}");
    }

    #[test]
    fn the_best_product_is_the_limit() {
        let library = Limits { library: Some(Spread::of(&[320.0])), ..limits(2, 200.0) };
        let table = measured(vec![library], vec![variant("mega", Kind::Own, 2, &[25.0], &[])], 0);
        assert!(table.contains("| 160.0 | 50 % | 80 % |"), "{table}");
    }

    #[test]
    fn larger_sizes_have_a_table_of_their_own() {
        let base = variant("mega", Kind::Own, 2, &[40.0, 50.0], &[1.0]);
        let mut twice = variant("B = 256", Kind::Larger, 2, &[84.0, 105.0], &[1.0]);
        twice.cost = Some(Cost { products: 8_000_000_000, ..Cost::default() });
        let table = measured(vec![limits(2, 200.0)], vec![base, twice], 0);
        assert!(table.contains("| B = 256 | 94.5 | 89.2..99.8 | 2.00 | 2.10 | 1.05 |"), "{table}");
    }

    #[test]
    fn threads_are_compared_with_multiply_adds() {
        let one = variant("mega x1", Kind::Own, 1, &[80.0, 90.0], &[1.0]);
        let two = variant("mega x2", Kind::Own, 2, &[50.0, 56.25], &[1.0]);
        let table = measured(vec![limits(1, 100.0), limits(2, 160.0)], vec![one, two], 1);
        assert!(table.contains("From 1 to 2 threads: 1.60 x as fast (mega x2), multiply-adds 1.60 x: 100 %."), "{table}");
    }
}
