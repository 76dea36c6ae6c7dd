//! Arithmetic without memory: what another busy core costs by its share of power, clock and front end.

use super::{arch, mixed};

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// Shifts, exclusive ors and multiplications, one after the other.
    Integer,
    /// The same with a branch that no predictor gets right.
    Branchy,
    /// Multiply-and-add over the widest vectors there are a kernel for.
    Simd,
}

/// A computation that goes on.
#[derive(Debug)]
pub struct Burn {
    mix: Mix,
    state: u64,
    taken: u64,
}

impl Burn {
    pub fn new(mix: Mix) -> Self {
        Self {
            mix,
            state: 0x9e37_79b9_7f4a_7c15,
            taken: 0,
        }
    }

    /// Computes on; returns the operations done: numbers drawn, or vectors multiplied and added.
    pub fn step(&mut self, operations: u64) -> u64 {
        let mut done = 0;
        match self.mix {
            Mix::Integer => {
                while done < operations {
                    mixed(&mut self.state);
                    done += 1;
                }
            }
            Mix::Branchy => {
                while done < operations {
                    if std::hint::black_box(mixed(&mut self.state)) >> 63 == 0 {
                        self.taken = std::hint::black_box(self.taken.wrapping_add(1));
                    } else {
                        self.state = std::hint::black_box(self.state.rotate_left(7));
                    }
                    done += 1;
                }
            }
            Mix::Simd => {
                let (count, sum) = arch::multiply_add(operations);
                done = count;
                self.state = self.state.wrapping_add(sum);
            }
        }
        std::hint::black_box(self.state);
        done
    }

    /// What came out so far.
    pub fn checksum(&self) -> u64 {
        self.state.wrapping_add(self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mix_does_what_it_is_told_and_its_result_changes() {
        for mix in [Mix::Integer, Mix::Branchy, Mix::Simd] {
            let mut burn = Burn::new(mix);
            let before = burn.checksum();
            let done = burn.step(1000);
            assert!((1000..1016).contains(&done), "{mix:?} {done}");
            assert_ne!(burn.checksum(), before, "{mix:?}");
        }
    }

    #[test]
    fn a_branch_goes_both_ways_about_equally_often() {
        let mut burn = Burn::new(Mix::Branchy);
        burn.step(100_000);
        assert!((45_000..55_000).contains(&burn.taken), "{}", burn.taken);
    }
}
