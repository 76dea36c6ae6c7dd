//! Idle time between two trials: what a clock that went to sleep meanwhile costs the next one.

use edgedyno_shared::case::Case;
use edgedyno_shared::units::Nanos;

/// The parameter of a case that asks for it.
pub const NAME: &str = "gap";

/// A longer gap would pass for a worker that hangs.
const LONGEST: Nanos = Nanos::from_secs(5);

/// The gap of a case, zero where none is asked for; none when it is no gap: `10ms`, `2s`, `1500us`.
pub fn of(case: &Case) -> Option<Nanos> {
    let Some((_, text)) = case.parameters.iter().find(|(name, _)| name == NAME) else {
        return Some(Nanos::ZERO);
    };
    let units = [("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let gap = units.into_iter().find_map(|(unit, nanos)| {
        let number: i64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(nanos)
    });
    gap.map(Nanos)
        .filter(|gap| (Nanos::ZERO..=LONGEST).contains(gap))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::testing;

    #[test]
    fn a_gap_is_a_time_of_five_seconds_at_most() {
        let gap = |text: &str| {
            let mut case = testing::job().order.case;
            case.parameters = vec![(NAME.into(), text.into())];
            of(&case)
        };
        assert_eq!(of(&testing::job().order.case), Some(Nanos::ZERO));
        assert_eq!(gap("10ms"), Some(Nanos::from_millis(10)));
        assert_eq!(gap("2s"), Some(Nanos::from_secs(2)));
        assert_eq!(gap("1500us"), Some(Nanos(1_500_000)));
        for wrong in ["", "10", "6s", "-1s", "soon"] {
            assert_eq!(gap(wrong), None, "{wrong}");
        }
    }
}
