//! Kernels that are no tiles.

use super::super::access::indices;
use super::super::{Base, BufferId, Contract, PANEL, Pack, Random, View, packed_len};
use super::{Machine, Numbers, Ran};
use crate::interp::Real;
use crate::ir::Noise;
use crate::random::Stream;

impl<T: Real> Machine<'_, T> {
    pub(super) fn contract(&mut self, contract: &Contract) -> Ran<()> {
        let Contract { rows, batch, n, i, k, a, b, dst } = contract;
        for batch in indices(batch) {
            for n in indices(n) {
                for i in indices(i) {
                    let mut sum = 0.0;
                    for k in indices(k) {
                        let at_a = self.place(a, &[&batch[..], &n, &k].concat());
                        let at_b = b.as_ref().map(|b| (b, self.place(b, &[&batch[..], &i, &k].concat())));
                        for row in 0..*rows {
                            let x = self.number(buffer(a), at_a + row)?.to_f64();
                            let y = at_b.map_or(Ok(1.0), |(b, at)| self.number(buffer(b), at + row).map(T::to_f64))?;
                            sum += x * y;
                        }
                    }
                    let at = self.place(dst, &[&batch[..], &n, &i].concat());
                    self.set_number(buffer(dst), at, T::from_f64(sum));
                }
            }
        }
        Ok(())
    }

    pub(super) fn pack(&mut self, pack: &Pack) -> Ran<()> {
        let k_len: usize = pack.k.iter().product();
        let size = packed_len(pack.n, k_len);
        let mut packed = vec![T::ZERO; pack.len()];
        for (b, batch) in indices(&pack.batch).enumerate() {
            for n in 0..pack.n {
                for (k, index) in indices(&pack.k).enumerate() {
                    let at = self.place(&pack.from, &[&batch[..], &[n], &index].concat());
                    packed[b * size + packed_place(n, k, k_len)] = self.number(buffer(&pack.from), at)?;
                }
            }
        }
        self.buffers[pack.to.0 as usize] = Numbers::known(packed);
        Ok(())
    }

    pub(super) fn random(&mut self, random: &Random) -> Ran<()> {
        let name = &self.program.draws[random.draw as usize];
        let len = self.program.buffers[random.to.0 as usize].len;
        let data = match self.draws.get(name) {
            Some(given) => {
                let found = given.len();
                if found != len {
                    return Err(format!("the draw `{name}` has {found} numbers, but {len} are needed"));
                }
                given.clone()
            }
            None => {
                let stream = Stream::new(name, self.clock.seed, &self.program.name, self.clock.step);
                let counters = 0..len as u64;
                match random.noise {
                    Noise::Uniform => counters.map(|i| T::from_f64(stream.uniform(i))).collect(),
                    Noise::Gaussian => counters.map(|i| T::from_f64(stream.gaussian(i))).collect(),
                    Noise::Subset { of } => {
                        let rows = counters.step_by(random.last);
                        let places = rows.flat_map(|first| stream.subset(first, random.last, of));
                        places.map(|place| T::from_f64(f64::from(place))).collect()
                    }
                }
            }
        };
        self.buffers[random.to.0 as usize] = Numbers::known(data);
        Ok(())
    }
}

/// Where a packed weight has output `n` of the sum's entry `k`.
pub(super) fn packed_place(n: usize, k: usize, k_len: usize) -> usize {
    (n / PANEL * k_len + k) * PANEL + n % PANEL
}

fn buffer(view: &View) -> BufferId {
    match view.base {
        Base::Buffer(id) => id,
        Base::Local(_) => unreachable!("the verifier lets only buffers pass"),
    }
}
