//! Seeded weights, the same on every machine.

use std::io::{self, Write};

/// A weight of the network: what it is called, its dims and what fills it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Weight {
    pub(super) name: String,
    pub(super) dims: Vec<u64>,
    pub(super) fill: Fill,
}

impl Weight {
    /// A scalar.
    pub(super) fn constant(name: &str, value: f32) -> Self {
        Self {
            name: name.to_owned(),
            dims: Vec::new(),
            fill: Fill::Constant(value),
        }
    }

    pub(super) fn elements(&self) -> u64 {
        self.dims
            .iter()
            .fold(1, |product: u64, dim| product.saturating_mul(*dim))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.elements().saturating_mul(size_of::<f32>() as u64)
    }

    /// Writes the values, little-endian.
    pub(super) fn write(&self, random: &mut SplitMix64, sink: &mut impl Write) -> io::Result<()> {
        const CHUNK: u64 = 16 * 1024;
        let mut left = self.elements();
        let mut bytes = Vec::with_capacity(CHUNK.min(left) as usize * size_of::<f32>());
        while left > 0 {
            let n = left.min(CHUNK);
            bytes.clear();
            bytes.extend((0..n).flat_map(|_| self.fill.draw(random).to_le_bytes()));
            sink.write_all(&bytes)?;
            left -= n;
        }
        Ok(())
    }
}

/// What the values of a weight are drawn from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fill {
    Constant(f32),
    /// Evenly between the two.
    Uniform {
        low: f64,
        high: f64,
    },
}

impl Fill {
    /// Small and positive, so that no rectified layer falls silent.
    pub(super) const BIAS: Self = Self::Uniform {
        low: 0.0,
        high: 0.1,
    };

    /// Variance 2 / fan-in, which keeps the size of rectified activations from layer to layer
    /// (He et al. 2015, "Delving Deep into Rectifiers", eq. 10). Even over ±sqrt(6 / fan-in) and not
    /// normal: this needs no logarithm and no sine, whose last bit differs between C libraries.
    pub(super) fn he(fan_in: u64, gain: f64) -> Self {
        let bound = gain * (6.0 / fan_in as f64).sqrt();
        Self::Uniform {
            low: -bound,
            high: bound,
        }
    }

    fn draw(self, random: &mut SplitMix64) -> f32 {
        match self {
            Self::Constant(value) => value,
            Self::Uniform { low, high } => (low + (high - low) * random.unit()) as f32,
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"), with the
/// constants of Vigna's public domain `splitmix64.c`.
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly in 0..1, from the upper 53 bits.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_published_sequence() {
        // First values for the seed 1234567, as published with several implementations.
        let mut random = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn weights_have_the_variance_of_their_fan_in() {
        let weight = Weight {
            name: "w".into(),
            dims: vec![100, 1000],
            fill: Fill::he(50, 1.0),
        };
        let mut bytes = Vec::new();
        weight.write(&mut SplitMix64::new(7), &mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, weight.bytes());
        let values = bytes
            .chunks_exact(4)
            .map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap())));
        let mean_square = values.map(|v| v * v).sum::<f64>() / 100_000.0;
        // 2 / 50, within five standard errors: sqrt(4 / 5 / 100 000) = 0.28 %.
        assert!((mean_square / 0.04 - 1.0).abs() < 0.014, "{mean_square}");
    }
}
