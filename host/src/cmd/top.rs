//! `top`: what a board does now.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use edgedyno_shared::telemetry::{ChannelKind, ChannelNow, Watched};
use edgedyno_shared::units::Nanos;

use super::run::inventory::{Inquiry, find_board};
use crate::cli::Global;
use crate::cmd::block_on;
use crate::documents;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::options::parse;
use crate::ui::{print, top as text};

const EXAMPLES: &str = "\
examples:
  edgedyno top
  edgedyno top --board s100 --for 60s
  edgedyno top --once --json";

/// Values that a channel remembers, one for each round.
const HISTORY: usize = 32;

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct TopArgs {
    /// Board to look at
    #[arg(long, value_name = "NAME", default_value = crate::board::local::NAME)]
    pub board: String,
    /// Show it once, over one round, and stop
    #[arg(long)]
    pub once: bool,
    /// Stop after this long instead of at Ctrl-C
    #[arg(long = "for", value_name = "TIME", value_parser = parse::positive_span)]
    pub span: Option<Nanos>,
    /// Between two rounds
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse::positive_span)]
    pub every: Nanos,
}

pub fn run(args: &TopArgs, global: &Global) -> CommandResult {
    let board = find_board(&args.board)?;
    let every = args.every.as_duration().max(Duration::from_millis(200));
    let once = args.once || global.json;
    block_on(async {
        let mut inquiry = Inquiry::open(&board).await?;
        let mut seen = Seen::default();
        let rounds = match (once, args.span) {
            (true, _) => 2,
            (false, Some(span)) => 1 + (span.as_duration().as_nanos() / every.as_nanos()) as u64,
            (false, None) => u64::MAX,
        };
        for round in 0..rounds {
            let watched = inquiry.watched().await?;
            seen.take(watched);
            // A share needs two looks.
            if !once && round > 0 {
                print::screen(&text::screen(&args.board, &seen));
            }
            if round + 1 < rounds {
                tokio::time::sleep(every).await;
            }
        }
        match global.json {
            true => print::json(&documents::top(&args.board, &seen)),
            false if once => print::result(text::screen(&args.board, &seen)),
            false => {}
        }
        Ok::<(), CommandError>(())
    })?;
    Ok(Exit::GOOD)
}

/// What was seen so far.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub latest: Option<Watched>,
    pub history: BTreeMap<String, History>,
}

/// Newest values of one channel: as they are, or of a counter its growth in a second.
#[derive(Debug, Clone, Default)]
pub struct History {
    before: Option<(Nanos, i64)>,
    pub values: Vec<f64>,
}

impl Seen {
    fn take(&mut self, watched: Watched) {
        for now in &watched.channels {
            let history = self.history.entry(now.channel.name.clone()).or_default();
            history.take(now);
        }
        self.latest = Some(watched);
    }
}

impl History {
    fn take(&mut self, now: &ChannelNow) {
        let (Some(at), Some(value)) = (now.at, now.value) else {
            self.before = None;
            return;
        };
        let shown = match (now.channel.kind, self.before.replace((at, value))) {
            (ChannelKind::Counter, Some((then, before))) if at > then && value >= before => {
                Some((value - before) as f64 / (at - then).as_secs_f64())
            }
            (ChannelKind::Counter, _) => None,
            _ => Some(value as f64),
        };
        self.values.extend(shown);
        let surplus = self.values.len().saturating_sub(HISTORY);
        self.values.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::device::Reading;
    use edgedyno_shared::telemetry::{Channel, Fidelity};

    use super::*;

    fn now(kind: ChannelKind, at_s: i64, value: Option<i64>) -> ChannelNow {
        ChannelNow {
            channel: Channel {
                id: 0,
                name: "x".into(),
                unit: "ns".into(),
                kind,
                source: String::new(),
                native_period: None,
                fidelity: Fidelity::Measured,
                period: None,
                probe: Reading::Ok(String::new()),
            },
            at: Some(Nanos::from_secs(at_s)),
            value,
        }
    }

    #[test]
    fn a_counter_is_its_growth_and_a_fall_is_no_value() {
        let mut history = History::default();
        for (at, value) in [(0, 10), (2, 30), (3, 5), (4, 8)] {
            history.take(&now(ChannelKind::Counter, at, Some(value)));
        }
        assert_eq!(history.values, [10.0, 3.0]);
    }

    #[test]
    fn a_gauge_is_its_value_and_what_is_lost_leaves_a_gap() {
        let mut history = History::default();
        for (at, value) in [(0, Some(1)), (1, None), (2, Some(3))] {
            history.take(&now(ChannelKind::Gauge, at, value));
        }
        assert_eq!(history.values, [1.0, 3.0]);
    }
}
