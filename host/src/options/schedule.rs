//! How repeats follow each other and what ends a sweep early.

use std::num::NonZeroU32;

use clap::Args;
use edgedyno_shared::units::Nanos;

use super::parse;
use crate::plan::goal::Goal;
use crate::plan::schedule::Order;
use crate::plan::sweep::file::MAX_ATTEMPTS;

/// Repeats at most where a stop rule decides.
pub const MAX_REPEATS: u32 = 20;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Order")]
pub struct ScheduleOptions {
    /// interleaved: round by round, shuffled within each; random; blocked: case after case
    #[arg(long, value_name = "ORDER", default_value = "interleaved", value_parser = order)]
    pub order: Order,
    /// Decides the order: the same seed gives the same one
    #[arg(long, value_name = "N", default_value = "1")]
    pub order_seed: u64,
    /// Adds repeats until the 95 % interval of p50 is within so much of it, such as 2%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub p50_within: Option<f64>,
    /// Most repeats of a case with --p50-within [default: 20]
    #[arg(long, value_name = "N", requires = "p50_within")]
    pub max_repeats: Option<NonZeroU32>,
    /// Looks for the best case instead of measuring all, such as "max rate where p99 <= 33ms"
    #[arg(long, value_name = "GOAL", value_parser = Goal::parse)]
    pub optimize: Option<Goal>,
    /// A case that failed so often is not tried again
    #[arg(long, value_name = "N", default_value_t = MAX_ATTEMPTS, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_attempts: u32,
    /// Begins no repeat after this time
    #[arg(long, value_name = "TIME", value_parser = parse::positive_span)]
    pub time_budget: Option<Nanos>,
    /// Measures nothing larger along this axis once memory ran out; may be repeated
    #[arg(long, value_name = "AXIS")]
    pub stop_on_oom: Vec<String>,
    /// Measures the first case again after every so many repeats, to see the board drift
    #[arg(long, value_name = "N")]
    pub sentinel_every: Option<NonZeroU32>,
}

/// What a search decides by itself cannot be asked for beside it.
pub fn no_search_beside(order: Order, within: bool, sentinel: bool) -> Result<(), String> {
    let taken = [
        ("order", order != Order::default()),
        ("p50_within", within),
        ("sentinel", sentinel),
    ];
    match taken.iter().find(|(_, is_asked)| *is_asked) {
        Some((what, _)) => Err(format!(
            "a search takes no {what}: what is measured next follows from what was measured"
        )),
        None => Ok(()),
    }
}

/// An order by name.
pub fn order(text: &str) -> Result<Order, String> {
    let names = Order::ALL.map(Order::name).join(", ");
    Order::from_name(text).ok_or_else(|| format!("one of {names} is needed"))
}

/// A share: `2%` or 0.02.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, whole) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 100.0),
        None => (text, 1.0),
    };
    let share = number.parse::<f64>().ok().map(|number| number / whole);
    let share = share.filter(|share| *share > 0.0 && *share < 1.0);
    share.ok_or_else(|| "a share between 0% and 100% is needed, such as 2%".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage_or_a_fraction() {
        assert_eq!(share("2%"), Ok(0.02));
        assert_eq!(share("0.5 %"), Ok(0.005));
        assert_eq!(share("0.1"), Ok(0.1));
        for wrong in ["", "0", "100%", "2", "-1%", "nan"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
