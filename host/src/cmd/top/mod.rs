//! `top`: what a board does now.

mod recording;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use edgedyno_shared::telemetry::{ChannelKind, ChannelNow, Watched};
use edgedyno_shared::units::Nanos;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use self::recording::Recording;
use super::run::inventory::{Inquiry, find_board};
use crate::cli::Global;
use crate::cmd::block_on;
use crate::documents;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::options::parse;
use crate::ui::keys::{Key, Keys};
use crate::ui::print;
use crate::ui::top::{self as text, View};

const EXAMPLES: &str = "\
examples:
  edgedyno top
  edgedyno top --board s100 --for 60s
  edgedyno top --once --json

keys: q quits, r begins and ends a recording in the store, space holds the view, arrows or j and k move it";

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
    let is_once = args.once || global.json;
    let seen = block_on(async {
        let mut inquiry = Inquiry::open(&board).await?;
        let mut seen = Seen::default();
        match is_once {
            true => {
                // A share needs two looks.
                seen.take(inquiry.watched().await?);
                tokio::time::sleep(every).await;
                seen.take(inquiry.watched().await?);
            }
            false => live(args, global, every, &mut inquiry, &mut seen).await?,
        }
        Ok::<Seen, CommandError>(seen)
    })?;
    match global.json {
        true => print::json(&documents::top(&args.board, &seen)),
        false if is_once => print::result(text::whole(&args.board, &seen)),
        false => {}
    }
    Ok(Exit::GOOD)
}

/// Looks again and again until a key, a signal or the time says to stop.
async fn live(
    args: &TopArgs,
    global: &Global,
    every: Duration,
    inquiry: &mut Inquiry,
    seen: &mut Seen,
) -> Result<(), CommandError> {
    let mut keys = Keys::open();
    let mut resized = signal(SignalKind::window_change()).map_err(anyhow::Error::from)?;
    let mut recording: Option<Recording> = None;
    let mut view = View::default();
    let end = args.span.map(|span| Instant::now() + span.as_duration());
    let mut next = Instant::now();
    loop {
        let over = async {
            match end {
                Some(end) => sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            key = keys.next() => Happening::Key(key),
            () = sleep_until(next) => Happening::Round,
            _ = resized.recv() => Happening::Resized,
            _ = tokio::signal::ctrl_c() => Happening::Key(Key::Quit),
            () = over => Happening::Key(Key::Quit),
        };
        match event {
            Happening::Key(Key::Quit) => break,
            Happening::Key(Key::Record) => {
                recording = match recording.take() {
                    Some(running) => {
                        view.said = Some(format!("recorded as run {}", running.finish()?));
                        None
                    }
                    None => {
                        let device = inquiry.device().await?;
                        Some(Recording::begin(&args.board, &device, every, global)?)
                    }
                };
            }
            Happening::Key(Key::Pause) => view.is_paused = !view.is_paused,
            Happening::Key(Key::Down) => view.offset = view.offset.saturating_add(1),
            Happening::Key(Key::Up) => view.offset = view.offset.saturating_sub(1),
            Happening::Resized => {}
            Happening::Round => {
                // Rounds that a slow link missed are left out.
                next = (next + every).max(Instant::now());
                let watched = inquiry.watched().await?;
                if let Some(recording) = &mut recording {
                    recording.take(&watched)?;
                }
                if view.is_paused {
                    continue;
                }
                seen.take(watched);
            }
        }
        view.recording = recording.as_ref().map(Recording::state);
        print::frame(&text::screen(&args.board, seen, &mut view, print::size()));
    }
    drop(keys);
    if let Some(running) = recording {
        let run = running.finish()?;
        print::note(format_args!(
            "recorded as run {run}: `edgedyno samples {run}`"
        ));
    }
    Ok(())
}

enum Happening {
    Key(Key),
    Round,
    Resized,
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
    pub(crate) fn take(&mut self, watched: Watched) {
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
            fault: None,
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
