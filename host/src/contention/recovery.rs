//! Whether the board at the end of an experiment was that of its rounds.

use edgedyno_shared::ids::Sha256;
use serde::Serialize;
use serde_json::Value;

use super::measured::Measured;
use super::report::{METRICS, OfRepeat};
use crate::compare::metric;
use crate::plan::fixed;
use crate::stats::ratio::LogRatio;
use crate::view::RepeatView;

/// A recovery that differs by less is none worth a word.
const LEAST_DRIFT: f64 = 0.01;

/// How far p50 at the end may surely be from before for the board to be called the same: what two runs must
/// differ by to be told apart.
const SAME: f64 = 0.03;

/// Repeats of a plan that only look whether the board is what it was: those of one case from a number on,
/// whether they came to be measured or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looks {
    case: Sha256,
    from: u32,
}

impl Looks {
    pub fn new(case: Sha256, from: u32) -> Self {
        Self { case, from }
    }

    /// What a plan says; none where it has no recovery.
    pub fn of_plan(plan: &Value) -> Option<Self> {
        let recovery = &plan["recovery"];
        let case = recovery["case"].as_str()?.parse().ok()?;
        let from = recovery["from"].as_u64().or_else(|| laid_out(plan));
        Some(Self {
            case,
            from: u32::try_from(from?).ok()?,
        })
    }

    pub(super) fn has(&self, case: Sha256, repeat: u32) -> bool {
        self.case == case && repeat >= self.from
    }
}

/// Plans of before do not say where their recovery begins; that of one board is laid out again.
fn laid_out(plan: &Value) -> Option<u64> {
    let boards = plan["boards"].as_array()?;
    let cases = plan["cases_count"].as_u64().filter(|_| boards.len() == 1)?;
    let most = plan["max_repeats"].as_u64().unwrap_or(0);
    let rounds = plan["repeats"].as_u64()?.max(most);
    let sentinel = &plan["sentinel"];
    let is_same = sentinel["case"] == plan["recovery"]["case"];
    let every = sentinel["every"].as_u64().filter(|_| is_same);
    let from = fixed::recovery_from(
        usize::try_from(cases).ok()?,
        u32::try_from(rounds).ok()?,
        every.and_then(|every| u32::try_from(every).ok()),
    );
    Some(u64::from(from))
}

/// The board at the end against that of the experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recovery {
    /// p50 of the last repeats over that of those between the loads; none with fewer than two valid ones on
    /// either side.
    pub ratio: Option<f64>,
    pub ci95: Option<(f64, f64)>,
    /// That were measured.
    pub repeats: usize,
    pub valid_repeats: usize,
    pub board: Board,
    pub marks: Vec<OfRepeat>,
}

/// What is said of the board.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Board {
    /// p50 is surely within 3 % of before.
    Same,
    /// A change is shown.
    Other,
    /// Neither is, or too few valid repeats were measured.
    Undecided,
}

impl Board {
    fn of(point: f64, half: Option<f64>) -> Self {
        let Some(half) = half else {
            return Self::Undecided;
        };
        let (low, high) = ((point - half).exp(), (point + half).exp());
        match point.abs() > half.max(LEAST_DRIFT) {
            true => Self::Other,
            false if 1.0 - SAME <= low && high <= 1.0 + SAME => Self::Same,
            false => Self::Undecided,
        }
    }
}

impl Recovery {
    /// The last valid repeats of the idle board against those between the loads; none where none of the last
    /// was measured.
    pub(super) fn of(idle: &Measured<'_>) -> Option<Self> {
        if idle.looks.is_empty() {
            return None;
        }
        let p50 = metric::find(METRICS[0]).ok()?;
        let last = idle.valid_of(&idle.looks);
        let values = |repeats: &[&RepeatView]| -> Vec<f64> {
            let values = repeats.iter().filter_map(|repeat| (p50.of)(repeat));
            values.collect()
        };
        let ratio = LogRatio::welch(&values(&idle.valid()), &values(&last));
        let half = ratio.and_then(|ratio| ratio.half_width(0.95));
        let end = |side: f64| Some((ratio?.point + side * half?).exp());
        Some(Self {
            ratio: ratio.map(|ratio| ratio.point.exp()),
            ci95: end(-1.0).zip(end(1.0)),
            repeats: idle.looks.len(),
            valid_repeats: last.len(),
            board: ratio.map_or(Board::Undecided, |ratio| Board::of(ratio.point, half)),
            marks: idle.marks_of(&idle.looks),
        })
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::case::{Case, Condition};
    use serde_json::json;

    use super::super::report::{self, Ask, Experiment};
    use super::super::testing::{read, store, take};
    use super::*;
    use crate::plan::axes::case_key;
    use crate::store::sample::{self, MS};

    #[test]
    fn a_plan_says_where_its_recovery_begins_or_is_laid_out_again() {
        let case = Sha256([7; 32]).to_string();
        let said = json!({"recovery": {"case": case, "repeats": 3, "from": 9}});
        assert_eq!(Looks::of_plan(&said), Some(Looks::new(Sha256([7; 32]), 9)));
        // 17 cases in 5 rounds are 85 repeats with 10 looks between them: the last three are 15 to 17.
        let mut before = json!({
            "boards": ["local"],
            "cases_count": 17,
            "repeats": 5,
            "max_repeats": null,
            "sentinel": {"case": case, "every": 8},
            "recovery": {"case": case, "repeats": 3},
        });
        let from = |plan: &Value| Looks::of_plan(plan).map(|looks| looks.from);
        assert_eq!(from(&before), Some(15));
        before["sentinel"] = Value::Null;
        assert_eq!(from(&before), Some(5));
        before["boards"] = json!(["a", "b"]);
        assert_eq!(
            from(&before),
            None,
            "which cases were on which is not known"
        );
        assert_eq!(from(&json!({"recovery": null})), None);
    }

    #[test]
    fn nothing_is_decided_where_the_interval_does_not_say() {
        assert_eq!(Board::of(0.0, Some(0.01)), Board::Same);
        assert_eq!(Board::of(0.02, Some(0.015)), Board::Other);
        assert_eq!(Board::of(0.02, Some(0.05)), Board::Undecided);
        assert_eq!(
            Board::of(0.0, None),
            Board::Undecided,
            "unknown is not same"
        );
        assert_eq!(Board::of(0.5, None), Board::Undecided);
        // Shown, and of no size.
        assert_eq!(Board::of(0.005, Some(0.001)), Board::Same);
    }

    /// Idle repeats by number, each of its p50 in ms, beside three rounds of a load; the plan has its
    /// recovery from number 4 on.
    fn experiment(idle: &[(u32, i64)]) -> Experiment {
        let (_dir, mut store) = store();
        let loaded = Case {
            condition: Condition("mem_read:cpu1".into()),
            ..sample::case()
        };
        let repeats = |of: &[(u32, i64)]| -> Vec<(u32, Vec<i64>)> {
            of.iter().map(|(n, ms)| (*n, vec![ms * MS; 40])).collect()
        };
        let loaded = take(
            &mut store,
            &loaded,
            &repeats(&[(0, 30), (1, 30), (2, 30)]),
            &[],
        );
        let idle = take(&mut store, &sample::case(), &repeats(idle), &[]);
        let ask = Ask {
            recovery: Some(Looks::new(case_key(&sample::case()), 4)),
            ..Ask::default()
        };
        report::experiments(&[read(loaded), read(idle)], &ask).remove(0)
    }

    #[test]
    fn the_recovery_is_found_by_number_and_not_by_count() {
        let found = experiment(&[(0, 20), (1, 20), (2, 20), (3, 20), (4, 26), (5, 26)]);
        assert_eq!(found.baseline.repeats, 4);
        let recovery = found.recovery.unwrap();
        assert_eq!((recovery.repeats, recovery.board), (2, Board::Other));
        assert!((recovery.ratio.unwrap() - 1.3).abs() < 1e-9);
    }

    #[test]
    fn a_run_that_was_interrupted_keeps_its_baseline_and_has_no_recovery() {
        // As by Ctrl-C before the end: three repeats between the loads, which are no recovery.
        let found = experiment(&[(0, 20), (1, 20), (2, 20)]);
        assert_eq!(found.baseline.repeats, 3);
        assert!(found.baseline.valid && found.recovery.is_none());
        assert_eq!(found.points[0].slowdown["latency_p50_ms"].rounds, 3);
        // Interrupted within it: what was measured decides nothing.
        let found = experiment(&[(0, 20), (1, 20), (2, 20), (4, 20)]);
        let recovery = found.recovery.unwrap();
        assert_eq!(found.baseline.repeats, 3);
        assert_eq!((recovery.repeats, recovery.board), (1, Board::Undecided));
        assert_eq!((recovery.ratio, recovery.ci95), (None, None));
        // One of the rounds failed and is not there: still three of the end are the end.
        let found = experiment(&[(0, 20), (2, 20), (4, 20), (5, 20), (6, 20)]);
        assert_eq!(found.baseline.repeats, 2);
        assert_eq!(found.recovery.unwrap().board, Board::Same);
    }
}
