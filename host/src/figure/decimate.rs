//! Very many points as few, with every extreme kept.

/// Points of a line, at most `most` of them: the first, lowest, highest and last of each stretch, in their
/// order. What sticks out of the line is still there; what lies between is not, and the figure says so.
pub(super) fn min_max(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let mut thin = Thin::new(points.len(), most);
    points.iter().for_each(|point| thin.push(*point));
    thin.finish()
}

/// The same for points that come one after the other and are not all held.
#[derive(Debug, Clone)]
pub(crate) struct Thin {
    /// Points of one stretch; 1 keeps every one.
    stretch: usize,
    seen: usize,
    /// First, lowest, highest and last of the stretch under way, with their numbers.
    part: Option<[(usize, (f64, f64)); 4]>,
    kept: Vec<(f64, f64)>,
}

impl Thin {
    /// `count` points are expected; where more come, more than `most` are kept.
    pub(crate) fn new(count: usize, most: usize) -> Self {
        let stretch = match count <= most.max(4) {
            true => 1,
            false => count.div_ceil((most / 4).max(1)),
        };
        Self {
            stretch,
            seen: 0,
            part: None,
            kept: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, point: (f64, f64)) {
        if self.stretch == 1 {
            self.kept.push(point);
            return;
        }
        let here = (self.seen, point);
        self.part = Some(match self.part {
            None => [here; 4],
            Some([first, low, high, _]) => [
                first,
                if point.1 < low.1.1 { here } else { low },
                if point.1 > high.1.1 { here } else { high },
                here,
            ],
        });
        self.seen += 1;
        if self.seen.is_multiple_of(self.stretch) {
            self.end_stretch();
        }
    }

    fn end_stretch(&mut self) {
        let Some(mut part) = self.part.take() else {
            return;
        };
        part.sort_unstable_by_key(|(number, _)| *number);
        let mut last = None;
        for (number, point) in part {
            if last != Some(number) {
                self.kept.push(point);
                last = Some(number);
            }
        }
    }

    pub(crate) fn finish(mut self) -> Vec<(f64, f64)> {
        self.end_stretch();
        self.kept
    }
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
