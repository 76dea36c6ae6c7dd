//! Random numbers that are the same on every machine.
//!
//! Only integer arithmetic and the operations that IEEE 754 defines to the last bit (+ − × ÷ √) are
//! used: a logarithm of the C library would differ between boards.

/// xoshiro256++ 1.0 by Blackman and Vigna, seeded through SplitMix64 as its authors advise
/// (<https://prng.di.unimi.it/>, public domain).
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: [u64; 4],
    /// The second of a pair of normal values.
    spare: Option<f64>,
}

impl Random {
    /// The generator of one stream: same seed and stream, same numbers.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut mix = SplitMix64(seed);
        let mut mix = SplitMix64(mix.next() ^ stream);
        Self {
            state: std::array::from_fn(|_| mix.next()),
            spare: None,
        }
    }

    pub(crate) fn next(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// From 0 up to 1, in steps of 2^-53.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Mean 0, standard deviation 1: Marsaglia's polar method (SIAM Review 6, 1964).
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(value) = self.spare.take() {
            return value;
        }
        loop {
            let (u, v) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let s = u * u + v * v;
            if s < 1.0 && s > 0.0 {
                let scale = (-2.0 * logarithm(s) / s).sqrt();
                self.spare = Some(v * scale);
                return u * scale;
            }
        }
    }

    /// A whole number from `low` to `high`, both included: Lemire's multiply-shift, without the
    /// rejection step, whose bias is below 2^-32 for ranges of 32 bits.
    pub(crate) fn whole(&mut self, low: i128, high: i128) -> i128 {
        let width = (high - low) as u128 + 1;
        // A width of 2^64 would overflow the product by nothing: the number itself is the draw.
        let draw = match width > u128::from(u64::MAX) {
            true => u128::from(self.next()),
            false => (u128::from(self.next()) * width) >> 64,
        };
        low + draw as i128
    }
}

/// SplitMix64 by Steele, Lea and Flood (OOPSLA 2014), in the form of Vigna's reference code.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The natural logarithm of a positive normal number: exponent apart, then 2 artanh((m-1)/(m+1)) as
/// a series for m in [√½, √2], whose terms fall by 34 each (Abramowitz and Stegun 4.1.27).
fn logarithm(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let z = (m - 1.0) / (m + 1.0);
    let square = z * z;
    let series = (0..10)
        .rev()
        .fold(0.0, |sum, k| sum * square + 1.0 / f64::from(2 * k + 1));
    2.0 * z * series + exponent as f64 * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_the_numbers_of_its_reference_code() {
        // Seed 1234567: the vector published with the algorithm (Rosetta Code, "Pseudo-random
        // numbers/Splitmix64").
        let mut mix = SplitMix64(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| mix.next()).collect();
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn xoshiro_gives_the_numbers_of_its_reference_code() {
        // State 1, 2, 3, 4: the vector of the crate rand_xoshiro, made with the C reference.
        let mut random = Random {
            state: [1, 2, 3, 4],
            spare: None,
        };
        let numbers: Vec<u64> = (0..4).map(|_| random.next()).collect();
        assert_eq!(
            numbers,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386
            ]
        );
    }

    #[test]
    fn the_logarithm_is_right_to_the_last_digits() {
        for x in [
            1e-300, 1e-9, 0.1, 0.5, 0.707, 0.999_999, 1.0, 1.5, 2.0, 1e10,
        ] {
            let error = (logarithm(x) - f64::ln(x)).abs();
            assert!(error <= 4e-16 * f64::ln(x).abs().max(1.0), "{x}: {error:e}");
        }
    }

    #[test]
    fn normal_values_have_the_moments_of_the_distribution() {
        let mut random = Random::new(7, 0);
        let n = 200_000;
        let values: Vec<f64> = (0..n).map(|_| random.normal()).collect();
        let moment = |k| values.iter().map(|v| v.powi(k)).sum::<f64>() / f64::from(n);
        // Five standard errors: sqrt(1/n), sqrt(2/n), sqrt(96/n).
        assert!(moment(1).abs() < 0.0112, "mean {}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.0159, "variance {}", moment(2));
        assert!((moment(4) - 3.0).abs() < 0.11, "fourth {}", moment(4));
    }

    #[test]
    fn whole_numbers_reach_both_ends_and_nothing_else() {
        let mut random = Random::new(1, 2);
        let draws: Vec<i128> = (0..1000).map(|_| random.whole(-2, 2)).collect();
        assert_eq!(draws.iter().min(), Some(&-2));
        assert_eq!(draws.iter().max(), Some(&2));
        assert_eq!(random.whole(5, 5), 5);
        let full = random.whole(i64::MIN.into(), i64::MAX.into());
        assert!(i64::try_from(full).is_ok());
    }

    #[test]
    fn streams_of_one_seed_differ() {
        let first = |seed, stream| Random::new(seed, stream).next();
        assert_ne!(first(1, 0), first(1, 1));
        assert_ne!(first(1, 0), first(2, 0));
        assert_eq!(first(1, 1), first(1, 1));
    }
}
