//! Very many points as few, with every extreme kept.

/// Points of a line, at most `most` of them: the first, lowest, highest and last of each stretch, in their
/// order. What sticks out of the line is still there; what lies between is not, and the figure says so.
pub(super) fn min_max(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most.max(4) {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil((most / 4).max(1));
    let mut out = Vec::with_capacity(most);
    for part in points.chunks(stretch) {
        let at = |better: fn(f64, f64) -> bool| {
            (0..part.len()).fold(0, |best, i| {
                if better(part[i].1, part[best].1) {
                    i
                } else {
                    best
                }
            })
        };
        let mut kept = [0, at(|a, b| a < b), at(|a, b| a > b), part.len() - 1];
        kept.sort_unstable();
        let mut last = usize::MAX;
        for i in kept {
            if i != last {
                out.push(part[i]);
                last = i;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn extremes_and_order_are_kept(values in prop::collection::vec(-1e6_f64..1e6, 1..3000), most in 8_usize..200) {
            let points: Vec<(f64, f64)> = values.iter().zip(0..).map(|(y, x)| (f64::from(x), *y)).collect();
            let kept = min_max(&points, most);
            prop_assert!(kept.len() <= most.max(points.len().min(4)));
            prop_assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
            let extreme = |of: &[(f64, f64)]| {
                let ys = of.iter().map(|(_, y)| *y);
                (ys.clone().fold(f64::MAX, f64::min), ys.fold(f64::MIN, f64::max))
            };
            prop_assert_eq!(extreme(&kept), extreme(&points));
            prop_assert_eq!(kept.first(), points.first());
            prop_assert_eq!(kept.last(), points.last());
        }
    }
}
