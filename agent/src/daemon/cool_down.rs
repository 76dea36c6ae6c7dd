//! Waiting until the board is cool enough, before a worker starts.

use std::sync::Arc;
use std::time::Duration;

use edgedyno_shared::device::{Fact, Reading};
use edgedyno_shared::order::{CoolDown, RepeatOrder};
use edgedyno_shared::repeat::TextEvent;
use edgedyno_shared::telemetry::TelemetryMode;
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::event::Event;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use tokio::sync::watch;
use tokio::time::sleep;

use super::queue::Queued;
use super::state::{Daemon, News};
use crate::clock::{Clock, Monotonic};
use crate::sampler::{Board, temperatures};
use crate::worker::supervise::Cancel;

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(500);

/// Hosts are told this often.
const TOLD_EVERY: Nanos = Nanos::from_secs(5);

/// A sensor's name and what it shows, in thousandths of a degree.
type Shown = (String, i64);

/// Waits as the order says; what came of it is an event of the repeat.
pub(super) async fn wait(
    daemon: &Daemon,
    queued: &Queued,
    cancel: &watch::Receiver<Cancel>,
) -> Option<TextEvent> {
    let wish = queued.order.cool_down?;
    let begun = Monotonic.now();
    let mut told = None;
    let mut first: Option<i64> = None;
    loop {
        let waited = Monotonic.now() - begun;
        let Some((sensor, now)) = look(daemon, &queued.order, waited).await else {
            return Some(event(
                "cool_down_no_sensor",
                "no sensor shows a temperature".into(),
            ));
        };
        let from = *first.get_or_insert(now);
        let text = format!(
            "{sensor} went from {} to {} in {:.1} s, {} was asked for",
            celsius(from),
            celsius(now),
            waited.as_secs_f64(),
            celsius(wish.below_millicelsius)
        );
        if now < wish.below_millicelsius {
            return Some(event("cooled_down", text));
        }
        if waited >= wish.limit || *cancel.borrow() != Cancel::No {
            return Some(event("cool_down_timed_out", text));
        }
        if told.is_none_or(|at| Monotonic.now() - at >= TOLD_EVERY) {
            told = Some(Monotonic.now());
            let text = format!(
                "the board cools down: {sensor} shows {}, {} is asked for",
                celsius(now),
                celsius(wish.below_millicelsius)
            );
            let why = Failure::new(FailureCode::Busy, text);
            daemon.tell(queued.store, News::Event(Event::Waiting(why)));
        }
        let left = wish.limit - waited;
        sleep(PERIOD.min(left.as_duration())).await;
    }
}

/// The hottest sensor.
async fn look(daemon: &Daemon, order: &RepeatOrder, waited: Nanos) -> Option<Shown> {
    if let Some(simulated) = simulated(order, waited) {
        return Some(simulated);
    }
    let files = Arc::clone(&daemon.files);
    // A sensor behind a bus or a firmware takes longer than a session may wait.
    let read = move || {
        temperatures(&Board {
            files,
            worker: None,
            mode: TelemetryMode::Normal,
        })
    };
    let all = tokio::task::spawn_blocking(read).await.unwrap_or_default();
    hottest(all)
}

fn hottest(all: Vec<Shown>) -> Option<Shown> {
    all.into_iter().max_by_key(|(_, shown)| *shown)
}

/// What a host reads before it orders a cool-down: the sensor that would be waited for.
pub(super) fn fact(daemon: &Daemon) -> Fact {
    let all = temperatures(&Board {
        files: Arc::clone(&daemon.files),
        worker: None,
        mode: TelemetryMode::Normal,
    });
    let value = match hottest(all) {
        Some((name, _)) => Reading::Ok(name),
        None => Reading::Absent("no thermal zone shows a temperature".into()),
    };
    Fact {
        name: CoolDown::FACT.into(),
        value,
    }
}

/// What the fake backend says its board shows: it begins at `temperature_c` and falls by
/// `cooling_c_per_s`.
fn simulated(order: &RepeatOrder, waited: Nanos) -> Option<Shown> {
    if order.case.backend != "fake" {
        return None;
    }
    let option = |key: &str| {
        let found = order.case.options.iter().find(|(name, _)| name == key);
        found.and_then(|(_, value)| value.parse::<f64>().ok())
    };
    let fallen = option("cooling_c_per_s").unwrap_or(10.0) * waited.as_secs_f64();
    let now = option("temperature_c")? - fallen;
    Some(("therm.fake.temp".into(), (now * 1e3) as i64))
}

fn celsius(thousandths: i64) -> String {
    format!("{:.1} °C", thousandths as f64 / 1e3)
}

fn event(code: &str, text: String) -> TextEvent {
    TextEvent {
        lane: 0,
        trial: None,
        code: code.into(),
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::testing;

    #[test]
    fn the_fake_board_cools_as_its_options_say() {
        let mut order = testing::job().order;
        order.case.backend = "fake".into();
        assert_eq!(simulated(&order, Nanos::ZERO), None);
        order.case.options = vec![
            ("temperature_c".into(), "80".into()),
            ("cooling_c_per_s".into(), "40".into()),
        ];
        let shown = simulated(&order, Nanos::from_millis(500)).unwrap();
        assert_eq!(shown.1, 60_000);
    }
}
