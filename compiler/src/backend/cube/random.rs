//! Random draws: the same counters, keys and bits as [`crate::random`]; logarithm and cosine are the device's.

use crate::ir::Noise;
use crate::kernel::Random;

use super::builder::{Code, Fun, Val, index, number};
use super::emitted::Scalar;
use super::plan::Buffers;
use super::tile::start;

/// Numbers that a unit draws.
const EACH: usize = 4;

#[derive(Debug, Clone)]
pub(super) struct RandomPlan {
    random: Random,
    len: usize,
    units: usize,
}

impl RandomPlan {
    pub(super) fn new(random: &Random, len: usize, units: usize) -> RandomPlan {
        RandomPlan { random: random.clone(), len, units }
    }

    pub(super) fn cubes(&self) -> usize {
        self.len.div_ceil(EACH * self.units)
    }

    pub(super) fn emit(&self, code: &mut Code, cube: Val, buffers: &Buffers) {
        let draw = self.random.draw;
        let key = [0, 1].map(|half| code.scalar(Scalar::Key { draw, half }));
        let given = code.scalar(Scalar::Given { draw });
        let generated = code.equal(given, index(0));
        let (list, offset) = start(code, buffers, self.random.to);
        let first = code.mul(cube, index(EACH * self.units));
        code.when(generated, |code| {
            code.items(EACH * self.units, |code, item| {
                let counter = code.add(first, item);
                let there = code.less(counter, index(self.len));
                code.when(there, |code| {
                    let x = match self.random.noise {
                        Noise::Uniform => {
                            let [u, _] = philox(code, counter, key);
                            fraction(code, u)
                        }
                        Noise::Gaussian => gaussian(code, counter, key),
                        Noise::Subset { of } => self.shuffled(code, counter, key, of as usize),
                    };
                    let to = code.add(counter, offset);
                    code.store(list, to, x);
                });
            });
        });
    }

    /// An entry of a shuffled list. Step s of the shuffle exchanges the places s and `chosen(s)`, never to touch s again; so
    /// what ends up at i is found by going back from where step i took it.
    fn shuffled(&self, code: &mut Code, counter: Val, key: [Val; 2], of: usize) -> Val {
        let last = self.random.last.max(1);
        let i = code.rem(counter, index(last));
        let first = code.sub(counter, i);
        let chosen = |code: &mut Code, step: Val| {
            let at = code.add(first, step);
            let [word, _] = philox(code, at, key);
            let left = code.sub(index(of), step);
            let further = code.mul_high(word, left);
            code.add(step, further)
        };
        let taken = chosen(code, i);
        let place = code.var(taken);
        code.range(index(0), i, 1, |code, back| {
            let step = code.sub(i, back);
            let step = code.sub(step, index(1));
            let other = chosen(code, step);
            let now = code.get(place);
            let same = code.equal(other, now);
            let next = code.select(same, step, now);
            code.set(place, next);
        });
        let place = code.get(place);
        code.number_of(place)
    }
}

/// The first two words of Philox 4x32-10 at a counter.
fn philox(code: &mut Code, counter: Val, key: [Val; 2]) -> [Val; 2] {
    let c = [counter, index(0), index(0), index(0)].map(|word| code.var(word));
    let k = key.map(|word| code.var(word));
    code.range(index(0), index(10), 1, |code, _| {
        let now = c.map(|word| code.get(word));
        let keys = k.map(|word| code.get(word));
        let mut halves = |a: usize, b: Val| (code.mul_high(index(a), b), code.mul(index(a), b));
        let (high_0, low_0) = halves(0xd251_1f53, now[0]);
        let (high_1, low_1) = halves(0xcd9e_8d57, now[2]);
        let mut mixed = |a: Val, b: Val, c: Val| {
            let x = code.xor(a, b);
            code.xor(x, c)
        };
        let first = mixed(high_1, now[1], keys[0]);
        let third = mixed(high_0, now[3], keys[1]);
        c.into_iter().zip([first, low_1, third, low_0]).for_each(|(word, value)| code.set(word, value));
        let grown = [code.add(keys[0], index(0x9e37_79b9)), code.add(keys[1], index(0xbb67_ae85))];
        k.into_iter().zip(grown).for_each(|(word, value)| code.set(word, value));
    });
    [code.get(c[0]), code.get(c[1])]
}

/// 2^-24.
const UNIT: f32 = 1.0 / (1 << 24) as f32;

/// The upper 24 bits as a number in [0, 1).
fn fraction(code: &mut Code, word: Val) -> Val {
    let bits = code.shift_right(word, 8);
    let x = code.number_of(bits);
    code.mul(x, number(UNIT))
}

/// Box and Muller, as in [`crate::random::Stream::gaussian`].
fn gaussian(code: &mut Code, counter: Val, key: [Val; 2]) -> Val {
    let [u, v] = philox(code, counter, key);
    let u = fraction(code, u);
    let u = code.add(u, number(UNIT));
    let v = fraction(code, v);
    let log = code.fun(Fun::Log, u);
    let square = code.mul(log, number(-2.0));
    let radius = code.fun(Fun::Sqrt, square);
    let angle = code.mul(v, number(std::f32::consts::TAU));
    let cos = code.fun(Fun::Cos, angle);
    code.mul(radius, cos)
}
