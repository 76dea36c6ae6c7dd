//! Point quantiles: linear interpolation between order statistics, on sorted data or by selection.

use super::value::Value;

/// The quantiles that every summary shows.
pub const LEVELS: [f64; 6] = [0.50, 0.90, 0.95, 0.99, 0.999, 0.9999];

/// Type-7 quantile of an ascending slice: h = (n − 1)p, x₍⌊h⌋₎ + (h − ⌊h⌋)(x₍⌊h⌋₊₁₎ − x₍⌊h⌋₎), ranks
/// from 0.
///
/// Hyndman and Fan, *Sample Quantiles in Statistical Packages* (1996), definition 7: the default
/// of R and NumPy. `None` when empty or when `p` is outside 0..=1.
pub fn of_sorted<V: Value>(sorted: &[V], p: f64) -> Option<f64> {
    let place = Place::of(p, sorted.len())?;
    Some(place.interpolate(sorted))
}

/// Type-7 quantile of a slice in any order; copies it. For several quantiles use [`select`].
pub fn of<V: Value>(values: &[V], p: f64) -> Option<f64> {
    select(&mut values.to_vec(), [p]).map(|[quantile]| quantile)
}

/// Several type-7 quantiles of one slice by selection, without sorting it; reorders the slice.
///
/// Partitions once for each order statistic, each time only the part that still holds one (Hoare's
/// *Find*, 1961, with several targets): O(n log k) in the mean for k quantiles.
pub fn select<V: Value, const K: usize>(values: &mut [V], levels: [f64; K]) -> Option<[f64; K]> {
    let n = values.len();
    let places: Vec<Place> = levels.iter().map_while(|&p| Place::of(p, n)).collect();
    let places: [Place; K] = places.try_into().ok()?;
    let ranks = places.iter().flat_map(|place| [place.below, place.above]);
    put_in_place(values, ranks.collect());
    Some(places.map(|place| place.interpolate(values)))
}

/// Reorders `values` so that each of `ranks` (from 0) holds the value it would hold if sorted.
pub fn put_in_place<V: Value>(values: &mut [V], mut ranks: Vec<usize>) {
    ranks.sort_unstable();
    ranks.dedup();
    partition(values, 0, &ranks);
}

/// Places ascending `ranks`, counted from `offset` before the slice, by recursive partition.
fn partition<V: Value>(values: &mut [V], offset: usize, ranks: &[usize]) {
    // The rank nearest the middle first: both sides then shrink fastest.
    let middle = offset + values.len() / 2;
    let nearest = (0..ranks.len()).min_by_key(|&i| ranks[i].abs_diff(middle));
    let Some(chosen) = nearest else { return };
    let at = ranks[chosen] - offset;
    let (below, _, above) = values.select_nth_unstable_by(at, V::order);
    partition(below, offset, &ranks[..chosen]);
    partition(above, offset + at + 1, &ranks[chosen + 1..]);
}

/// Where a quantile lies: between two neighbouring order statistics.
struct Place {
    below: usize,
    above: usize,
    fraction: f64,
}

impl Place {
    fn of(p: f64, n: usize) -> Option<Self> {
        if n == 0 || !(0.0..=1.0).contains(&p) {
            return None;
        }
        let h = (n - 1) as f64 * p;
        let below = h.floor() as usize;
        Some(Self {
            below,
            above: (below + 1).min(n - 1),
            fraction: h - h.floor(),
        })
    }

    fn interpolate<V: Value>(&self, placed: &[V]) -> f64 {
        let (low, high) = (placed[self.below].to_f64(), placed[self.above].to_f64());
        low + self.fraction * (high - low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn matches_r_type_7() {
        // R: quantile(c(2, 4, 7, 11, 16, 22), c(.1, .25, .5, .75, .9), type = 7)
        let sorted = [2_i64, 4, 7, 11, 16, 22];
        let expected = [
            (0.1, 3.0),
            (0.25, 4.75),
            (0.5, 9.0),
            (0.75, 14.75),
            (0.9, 19.0),
        ];
        for (p, value) in expected {
            assert!(
                (of_sorted(&sorted, p).unwrap() - value).abs() < 1e-12,
                "p = {p}"
            );
        }
        // R: quantile(1:10, .95) is 9.55, quantile(1:4, .5) is 2.5
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert!((of_sorted(&ten, 0.95).unwrap() - 9.55).abs() < 1e-12);
        assert_eq!(of(&[4_i64, 1, 3, 2], 0.5), Some(2.5));
    }

    #[test]
    fn ends_are_minimum_and_maximum() {
        assert_eq!(select(&mut [9_i64, 1, 5], [0.0, 1.0]), Some([1.0, 9.0]));
        assert_eq!(of(&[7_i64], 0.99), Some(7.0));
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(of::<i64>(&[], 0.5), None);
        assert_eq!(of(&[1_i64], 1.5), None);
        assert_eq!(select(&mut [1_i64], [0.5, f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn selection_equals_sorting(mut values in prop::collection::vec(-1000_i64..1000, 1..400)) {
            let selected = select(&mut values, LEVELS).unwrap();
            values.sort_unstable();
            let sorted = LEVELS.map(|p| of_sorted(&values, p).unwrap());
            prop_assert_eq!(selected, sorted);
        }

        #[test]
        fn every_rank_is_in_its_place(
            mut values in prop::collection::vec(any::<i64>(), 1..200),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let ranks: Vec<usize> = picks.iter().map(|pick| pick.index(sorted.len())).collect();
            put_in_place(&mut values, ranks.clone());
            for rank in ranks {
                prop_assert_eq!(values[rank], sorted[rank]);
            }
        }

        #[test]
        fn grows_with_p(values in prop::collection::vec(-1e6_f64..1e6, 1..200), a in 0.0..1.0, b in 0.0..1.0) {
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            prop_assert!(of(&values, low).unwrap() <= of(&values, high).unwrap() + 1e-6);
        }
    }
}
