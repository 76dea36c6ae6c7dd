//! Warm-up, measurement and repeats.

use std::num::{NonZeroU32, NonZeroU64};

use clap::Args;
use edgedyno_shared::order::{Rules, StopRule, WarmupRule};
use edgedyno_shared::units::Nanos;

use super::parse;

/// Trials below which not even a median is claimed.
const MIN_TRIALS: u64 = 11;

/// Trials above which a window tells nothing more.
const MAX_TRIALS: u64 = 200_000;

/// Warm-up takes this long at most.
const MAX_WARMUP: Nanos = Nanos::from_secs(10);

/// Longer than any warm-up, and short enough to be added to a clock.
const NEVER: Nanos = Nanos::from_secs(7 * 86_400);

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Rules")]
pub struct RuleOptions {
    /// `steady` (at most 10 s), `steady:2s` (at most 2 s), trials such as 20, a time such as 2s, `none`
    #[arg(long, value_name = "RULE", default_value = "steady", value_parser = warmup)]
    pub warmup: WarmupRule,
    /// Measures exactly so many trials
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    pub trials: Option<NonZeroU64>,
    /// Measures this long, and at least 11 and at most 200000 trials
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse::positive_span)]
    pub duration: Nanos,
    /// Fresh processes in which each case is measured
    #[arg(long, value_name = "N", default_value = "3")]
    pub repeat: NonZeroU32,
}

impl RuleOptions {
    /// What holds where nothing is asked for.
    pub fn usual() -> Self {
        Self {
            warmup: until_steady(MAX_WARMUP),
            trials: None,
            duration: Nanos::from_secs(5),
            repeat: NonZeroU32::MIN.saturating_add(2),
        }
    }

    pub fn rules(&self) -> Rules {
        Rules {
            warmup: self.warmup.clone(),
            measure: match self.trials {
                Some(trials) => exactly(trials.get()),
                None => for_at_least(self.duration),
            },
        }
    }
}

fn exactly(trials: u64) -> StopRule {
    StopRule {
        duration: Nanos::ZERO,
        min_trials: trials,
        max_trials: trials,
    }
}

/// A window of this length, within the usual numbers of trials.
pub fn for_at_least(duration: Nanos) -> StopRule {
    StopRule {
        duration,
        min_trials: MIN_TRIALS,
        max_trials: MAX_TRIALS,
    }
}

/// One window of this length after a few trials: a board that is warm already has no first minute to show.
pub fn soak(duration: Nanos) -> Rules {
    const UNBOUNDED: u64 = 1 << 40;
    Rules {
        warmup: WarmupRule {
            min_trials: 3,
            min_time: Nanos::ZERO,
            max_time: NEVER,
            until_steady: false,
        },
        measure: StopRule {
            duration,
            min_trials: MIN_TRIALS,
            max_trials: UNBOUNDED,
        },
    }
}

/// How long a board is watched after a soak: a tenth of it, a second at least, two minutes at most.
pub fn recovery(soak: Nanos) -> Nanos {
    Nanos(soak.0 / 10).clamp(Nanos::from_secs(1), Nanos::from_secs(120))
}

/// Warm-up until steady, for so long at most.
pub fn until_steady(max_time: Nanos) -> WarmupRule {
    WarmupRule {
        min_trials: 5,
        min_time: Nanos::from_millis(500).min(max_time),
        max_time,
        until_steady: true,
    }
}

/// A rule as the command line writes it.
pub fn warmup(text: &str) -> Result<WarmupRule, String> {
    let fixed = |min_trials, min_time, max_time| WarmupRule {
        min_trials,
        min_time,
        max_time,
        until_steady: false,
    };
    if text == "none" {
        return Ok(fixed(0, Nanos::ZERO, Nanos::ZERO));
    }
    if let Some(most) = text.strip_prefix("steady") {
        let most = match most.strip_prefix(':') {
            Some(most) => parse::positive_span(most)?,
            None if most.is_empty() => MAX_WARMUP,
            None => return Err("`steady` or `steady:2s` is needed".into()),
        };
        return Ok(until_steady(most));
    }
    // A bare number counts trials: a time has a unit here.
    if let Ok(trials) = text.parse::<u64>() {
        return Ok(fixed(trials, Nanos::ZERO, NEVER));
    }
    let time = parse::span(text)
        .map_err(|_| "`steady`, `steady:2s`, 20, 2s or `none` is needed".to_owned())?;
    Ok(fixed(0, time, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_is_a_rule() {
        assert_eq!(warmup("steady").unwrap(), until_steady(MAX_WARMUP));
        assert_eq!(warmup("steady:2s").unwrap().max_time, Nanos::from_secs(2));
        let short = warmup("steady:100ms").unwrap();
        assert_eq!(short.min_time, Nanos::from_millis(100));
        assert_eq!(warmup("20").unwrap().min_trials, 20);
        assert_eq!(warmup("2s").unwrap().min_time, Nanos::from_secs(2));
        assert_eq!(warmup("none").unwrap().max_time, Nanos::ZERO);
        for wrong in ["", "steadily", "steady:", "soon", "-1"] {
            assert!(warmup(wrong).is_err(), "{wrong}");
        }
    }
}
