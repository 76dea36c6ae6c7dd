//! A seeded order: the same seed gives the same order on every machine.

/// Puts `items` into an order that only `seed` decides (Fisher–Yates over SplitMix64).
pub(super) fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    for i in (1..items.len()).rev() {
        // The bias of a remainder of 64 random bits does not matter for the length of a plan.
        let other = split_mix(&mut state) % (i as u64 + 1);
        items.swap(i, other as usize);
    }
}

/// Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_seeds_give_known_numbers() {
        // First outputs for seed 0 of the reference implementation (prng.di.unimi.it/splitmix64.c).
        let mut state = 0;
        assert_eq!(split_mix(&mut state), 0xe220_a839_7b1d_cdaf);
        assert_eq!(split_mix(&mut state), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..50).collect();
        shuffle(&mut items, 7);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
