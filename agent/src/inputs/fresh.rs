//! Values never used before, written into the bound buffers between two trials.

use edgedyno_shared::case::Generator;
use edgedyno_shared::wire::failure::Failure;

use super::sets::stream;
use super::{DType, InputSets, generate};

/// Refills inputs; what a trial gets depends on the seed and the trial's number only.
#[derive(Debug, Clone)]
pub struct Fresh {
    generator: Generator,
    seed: u64,
}

impl Fresh {
    pub fn new(inputs: &InputSets) -> Self {
        Self {
            generator: inputs.generator.clone(),
            seed: inputs.seed,
        }
    }

    /// Draws the values of input `input` in trial `trial`. Allocates nothing.
    ///
    /// # Errors
    /// As [`generate::fill`], which has already succeeded once for the first set.
    pub fn fill(
        &self,
        out: &mut [u8],
        dtype: DType,
        input: usize,
        trial: u64,
    ) -> Result<(), Failure> {
        generate::fill(out, dtype, &self.generator, self.seed, stream(trial, input))
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::case::InputPolicy;

    use super::*;

    fn fresh(seed: u64) -> Fresh {
        let generator = Generator::Uniform;
        Fresh::new(&InputSets {
            sets: Vec::new(),
            policy: InputPolicy::Fresh,
            seed,
            generator,
        })
    }

    fn draw(fresh: &Fresh, input: usize, trial: u64) -> [u8; 64] {
        let mut out = [0; 64];
        fresh.fill(&mut out, DType::F32, input, trial).unwrap();
        out
    }

    #[test]
    fn each_trial_and_input_gets_its_own_values_again_and_again() {
        let one = draw(&fresh(5), 0, 9);
        assert_eq!(draw(&fresh(5), 0, 9), one);
        for other in [
            draw(&fresh(5), 0, 10),
            draw(&fresh(5), 1, 9),
            draw(&fresh(6), 0, 9),
        ] {
            assert_ne!(other, one);
        }
    }
}
