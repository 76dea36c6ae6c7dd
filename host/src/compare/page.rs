//! The constants of `docs/statistics.md`, taken from where they are used.

use crate::findings::CORRELATED;
use crate::stats::discovery::FALSE_DISCOVERIES;
use crate::stats::judge::{MIN_EFFECT_INTERLEAVED, MIN_EFFECT_SEPARATE};
use crate::stats::power::{MOST_REPEATS, POWER};
use crate::stats::quantile::LEVELS;
use crate::stats::session::{FEWEST_SESSIONS, UNKNOWN_SPREAD};
use crate::stats::{bootstrap, bound, outlier};

use super::sessions::MOST_SESSIONS;

/// The table, one line each.
pub fn constants() -> String {
    let percent = |share: f64| format!("{} %", (share * 1e6).round() / 1e4);
    let level = |p: f64| format!("p{}", (p * 1e6).round() / 1e4);
    let minimum = LEVELS.map(|p| {
        let count = bound::minimum_count(p).map_or_else(String::new, |n| n.to_string());
        (format!("independent trials that {} needs", level(p)), count)
    });
    let rows = [
        (
            "minimum effect, arms that took turns",
            percent(MIN_EFFECT_INTERLEAVED),
        ),
        (
            "minimum effect, separate runs",
            percent(MIN_EFFECT_SEPARATE),
        ),
        (
            "false verdicts accepted among those of one comparison",
            percent(FALSE_DISCOVERIES),
        ),
        (
            "level of an interval that does not stand out",
            percent(1.0 - FALSE_DISCOVERIES),
        ),
        (
            "session spread where it is not known",
            percent(UNKNOWN_SPREAD),
        ),
        ("sessions that tell a spread", FEWEST_SESSIONS.to_string()),
        (
            "newest sessions that are looked at",
            MOST_SESSIONS.to_string(),
        ),
        (
            "chance with which planned repeats find a difference",
            percent(POWER),
        ),
        (
            "most repeats that are ever planned",
            MOST_REPEATS.to_string(),
        ),
        (
            "fewest repeats for a bootstrap",
            bootstrap::FEWEST.to_string(),
        ),
        (
            "chance that a true percentile lies above its bound",
            percent(bound::MISS),
        ),
        ("certainty of a bound", percent(1.0 - bound::MISS)),
        ("modified z-score of an outlier", outlier::LIMIT.to_string()),
        (
            "autocorrelation time beyond which a case is marked `correlated`",
            CORRELATED.to_string(),
        ),
    ];
    let rows = rows
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    let lines: Vec<String> = rows
        .chain(minimum)
        .map(|(name, value)| format!("| {name} | {value} |\n"))
        .collect();
    format!("| constant | value |\n|---|--:|\n{}", lines.concat())
}
