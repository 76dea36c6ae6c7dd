//! Series made by a known law, for the proofs of this room: what a statistic claims is held against
//! what the law says.

use super::random::Random;

/// `n` independent standard normals.
pub fn white(n: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::seeded(seed);
    (0..n).map(|_| random.normal()).collect()
}

/// `n` values of x_i = phi x_(i-1) + e_i, started in its stationary law (unit variance).
pub fn ar1(n: usize, phi: f64, seed: u64) -> Vec<f64> {
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
pub fn latencies(n: usize, median: f64, sigma: f64, seed: u64) -> Vec<i64> {
    white(n, seed)
        .iter()
        .map(|z| (median * (sigma * z).exp()) as i64)
        .collect()
}
