//! What was measured, as a document and as tables.

use compiler::kernel::cost::Cost;
use serde::Serialize;

use super::peak::Peak;
use super::stats::{Spread, ratio};

/// A whole run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Document {
    pub(crate) instruction_set: String,
    pub(crate) rounds: u32,
    /// Load averages of the machine before and after, where it tells them: what else was running.
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
    /// Exponentials of a call, in millions.
    pub(crate) mexp: f64,
    /// What the machine could do, for each number of threads, between the same rounds.
    pub(crate) limits: Vec<Limits>,
    pub(crate) variants: Vec<Variant>,
    /// Peers that could not be measured, and why.
    pub(crate) failed: Vec<(String, String)>,
}

/// Rates in billions a second.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Limits {
    pub(crate) threads: usize,
    pub(crate) fma: Spread,
    pub(crate) sgemm: Spread,
    pub(crate) exp: Spread,
}

impl Limits {
    pub(crate) fn of(threads: usize, peaks: &[Peak]) -> Limits {
        let all = |f: fn(&Peak) -> f64| Spread::of(&peaks.iter().map(f).collect::<Vec<f64>>());
        Limits { threads, fma: all(|p| p.fma), sgemm: all(|p| p.sgemm), exp: all(|p| p.exp) }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) own: bool,
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
            let comparable = variant.value.len() == value.len() && !value.is_empty();
            variant.differs = comparable.then(|| difference(&variant.value, &value));
        }
    }

    fn rates(&self, variant: &Variant) -> String {
        let Some(cost) = variant.cost else { return "| | | | |".into() };
        let seconds = variant.ms.median / 1e3;
        let [flops, exps] = [cost.products, cost.transcendental].map(|n| n as f64 / seconds / 1e9);
        let limit = self.limits.iter().find(|l| l.threads == variant.threads);
        let part = |f: fn(&Limits) -> f64| limit.map_or(String::new(), |l| format!("{:.0} %", 100.0 * flops / f(l)));
        let (sgemm, fma) = match cost.products > 0 {
            true => (part(|l| l.sgemm.median), part(|l| l.fma.median)),
            false => (String::new(), String::new()),
        };
        format!("| {flops:.1} | {sgemm} | {fma} | {exps:.2} |")
    }

    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{} ({}): {:.3} GFLOP of matrix products, {:.2} M exponentials\n",
            self.case, self.model, self.gflop, self.mexp
        );
        for l in &self.limits {
            let plural = if l.threads == 1 { "" } else { "s" };
            text += &format!(
                "{} thread{plural}: FMA {:.0} GFLOP/s, sgemm {:.0} GFLOP/s, exp {:.2} G/s\n",
                l.threads, l.fma.median, l.sgemm.median, l.exp.median
            );
        }
        text += "\n| variant | ms | quartiles | ratio | GFLOP/s | of sgemm | of FMA | Gexp/s | ready in s | differs by |\n";
        text += "|---|---|---|---|---|---|---|---|---|---|\n";
        for v in &self.variants {
            let differs = v.differs.map_or(String::new(), |d| format!("{d:.0e}"));
            let Spread { median, low, high } = v.ms;
            let (median, low, high) = (digits(median), digits(low), digits(high));
            text += &format!(
                "| {} | {median} | {low}..{high} | {:.2} {} {:.2} | {differs} |\n",
                v.name,
                v.ratio,
                self.rates(v),
                v.first_s
            );
        }
        for (name, why) in &self.failed {
            text += &format!("| {name} | not measured: {why} | | | | | | | | |\n");
        }
        text
    }
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

    fn variant(name: &str, samples: &[f64], value: &[f64]) -> Variant {
        Variant {
            name: name.into(),
            own: true,
            threads: 2,
            first_s: 0.5,
            ms: Spread::of(samples),
            ratio: 0.0,
            differs: None,
            samples: samples.to_vec(),
            value: value.to_vec(),
            cost: Some(Cost { products: 4_000_000_000, transcendental: 2_000_000, ..Cost::default() }),
        }
    }

    #[test]
    fn a_table_says_how_they_compare() {
        let peak = Peak { fma: 200.0, sgemm: 160.0, exp: 3.0 };
        let mut measured = Measured {
            case: "plan".into(),
            model: "M".into(),
            gflop: 4.0,
            mexp: 2.0,
            limits: vec![Limits::of(2, &[peak])],
            variants: vec![variant("mega", &[40.0, 50.0], &[1.0, 2.0]), variant("eager", &[80.0, 100.0], &[1.0, 2.002])],
            failed: vec![("jax".into(), "it ended without an answer".into())],
        };
        measured.compare(0);
        let table = measured.table();
        let row = "| eager | 90.0 | 85.0..95.0 | 2.00 | 44.4 | 28 % | 22 % | 0.02 | 0.50 | 1e-3 |";
        assert!(table.contains(row), "{table}");
        assert!(table.contains("| jax | not measured: it ended without an answer |"), "{table}");
    }
}
