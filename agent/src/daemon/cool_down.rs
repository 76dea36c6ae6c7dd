//! Waiting until the board is cool enough, before a worker starts.

use std::sync::Arc;
use std::time::Duration;

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
    let wish = queued.order.preparation.cool_down.clone()?;
    let begun = Monotonic.now();
    let mut told = None;
    let mut first: Option<i64> = None;
    loop {
        let waited = Monotonic.now() - begun;
        let Some((sensor, now)) = look(daemon, &queued.order, &wish, waited).await else {
            let wanted = wish.sensor.as_deref().unwrap_or("of any kind");
            let text = format!("no sensor {wanted} shows a temperature");
            return Some(event("cool_down_no_sensor", text));
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
        if waited >= wish.at_most || *cancel.borrow() != Cancel::No {
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
        let left = wish.at_most - waited;
        sleep(PERIOD.min(left.as_duration())).await;
    }
}

/// The sensor named, or the hottest there is.
async fn look(
    daemon: &Daemon,
    order: &RepeatOrder,
    wish: &CoolDown,
    waited: Nanos,
) -> Option<Shown> {
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
            exec: None,
        })
    };
    let all = tokio::task::spawn_blocking(read).await.unwrap_or_default();
    pick(all, wish.sensor.as_deref())
}

fn pick(all: Vec<Shown>, sensor: Option<&str>) -> Option<Shown> {
    let fits = |name: &str| match sensor {
        None => true,
        Some(wanted) => name == wanted || name.starts_with(&format!("{wanted}.")),
    };
    all.into_iter()
        .filter(|(name, _)| fits(name))
        .max_by_key(|(_, value)| *value)
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
    fn the_sensor_named_counts_and_without_a_name_the_hottest() {
        let all = || {
            vec![
                ("therm.cpu.temp".to_owned(), 50_000),
                ("therm.gpu.temp".to_owned(), 60_000),
            ]
        };
        assert_eq!(pick(all(), None).unwrap().1, 60_000);
        assert_eq!(pick(all(), Some("therm.cpu")).unwrap().1, 50_000);
        assert_eq!(pick(all(), Some("therm.c")), None);
        assert_eq!(pick(Vec::new(), None), None);
    }

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
