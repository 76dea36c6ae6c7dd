//! Seeded series for the tests of this room: the same numbers on every machine.

use std::f64::consts::TAU;

/// SplitMix64 (Steele, Lea, Flood 2014): small, seeded, good enough to draw samples from.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform on (0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Standard normal (Box and Muller 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (TAU * self.uniform()).cos()
    }
}

/// `n` independent standard normals.
pub(crate) fn white(n: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::seeded(seed);
    (0..n).map(|_| random.normal()).collect()
}

/// `n` values of x_i = phi x_(i-1) + e_i, started in its stationary law (unit variance).
pub(crate) fn ar1(n: usize, phi: f64, seed: u64) -> Vec<f64> {
    let mut random = Random::seeded(seed);
    let innovation = (1.0 - phi * phi).sqrt();
    let mut state = random.normal();
    (0..n)
        .map(|_| {
            state = phi * state + innovation * random.normal();
            state
        })
        .collect()
}

/// `n` log-normal latencies around `median` nanoseconds with log standard deviation `sigma`.
pub(crate) fn latencies(n: usize, median: f64, sigma: f64, seed: u64) -> Vec<i64> {
    white(n, seed)
        .iter()
        .map(|z| (median * (sigma * z).exp()) as i64)
        .collect()
}
