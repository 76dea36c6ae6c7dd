//! The data behind the figures, embedded in the page: every field of every case, and trials.

use serde_json::{Value, json};

use super::gather::{Chapter, Part};
use crate::summary::case_json;

/// Names the form of the embedded document.
pub(super) const DOCUMENT: &str = "edgedyno/report-data/1";

/// Latencies of one repeat as they are embedded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trials {
    pub repeat: u32,
    /// Measured trials there were.
    pub count: usize,
    /// In nanoseconds, in the order they ran; of very many the lowest and highest of each stretch.
    pub nanoseconds: Vec<i64>,
}

impl Trials {
    /// At most `most` of the latencies, with every extreme kept.
    pub(super) fn of(repeat: u32, measured: &[i64], most: usize) -> Self {
        let stretch = measured.len().div_ceil((most / 2).max(1)).max(1);
        let nanoseconds = match measured.len() <= most {
            true => measured.to_vec(),
            false => measured.chunks(stretch).flat_map(extremes).collect(),
        };
        Self {
            repeat,
            count: measured.len(),
            nanoseconds,
        }
    }

    fn is_decimated(&self) -> bool {
        self.nanoseconds.len() < self.count
    }

    fn to_json(&self) -> Value {
        json!({
            "repeat": self.repeat,
            "trials_count": self.count,
            "decimated": self.is_decimated(),
            "latency_ns": self.nanoseconds,
        })
    }
}

/// The lowest and the highest of a stretch, in their order.
fn extremes(stretch: &[i64]) -> Vec<i64> {
    let at = |better: fn(i64, i64) -> bool| {
        (0..stretch.len()).fold(0, |best, i| {
            if better(stretch[i], stretch[best]) {
                i
            } else {
                best
            }
        })
    };
    let (low, high) = (at(|a, b| a < b), at(|a, b| a > b));
    match low.cmp(&high) {
        std::cmp::Ordering::Equal => vec![stretch[low]],
        std::cmp::Ordering::Less => vec![stretch[low], stretch[high]],
        std::cmp::Ordering::Greater => vec![stretch[high], stretch[low]],
    }
}

/// All of it as one JSON document that may stand within HTML.
pub(super) fn embedded(chapters: &[Chapter]) -> String {
    let case = |part: &Part| {
        json!({
            "label": part.label,
            "summary": case_json(&part.summary),
            "trials": part.trials.iter().map(Trials::to_json).collect::<Vec<_>>(),
        })
    };
    let run = |chapter: &Chapter| {
        json!({
            "run": chapter.run.id.0,
            "tags": chapter.run.tags,
            "plan": chapter.run.plan,
            "cases": chapter.parts.iter().map(case).collect::<Vec<_>>(),
        })
    };
    let document = json!({
        "document": DOCUMENT,
        "runs": chapters.iter().map(run).collect::<Vec<_>>(),
    });
    // `</script>` within a string would end the element.
    document.to_string().replace('<', "\\u003c")
}

/// Whether some repeat has more trials than are embedded.
pub(super) fn is_decimated(chapters: &[Chapter]) -> bool {
    let parts = chapters.iter().flat_map(|chapter| &chapter.parts);
    let mut trials = parts.flat_map(|part| &part.trials);
    trials.any(Trials::is_decimated)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn few_trials_are_all_there_and_many_keep_their_extremes(
            measured in prop::collection::vec(1_i64..1_000_000, 0..500), most in 10_usize..300,
        ) {
            let kept = Trials::of(0, &measured, most);
            if measured.len() <= most {
                prop_assert_eq!(&kept.nanoseconds, &measured);
                prop_assert!(!kept.is_decimated());
            }
            prop_assert!(kept.nanoseconds.len() <= most.max(measured.len().min(most)));
            prop_assert_eq!(kept.nanoseconds.iter().max(), measured.iter().max());
            prop_assert_eq!(kept.nanoseconds.iter().min(), measured.iter().min());
        }
    }
}
