//! The line that shows how a run goes on: on a terminal only.

use std::time::Duration;

use edgedyno_shared::printable;
use edgedyno_shared::repeat::Stage;
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::event;
use edgedyno_shared::wire::failure::Failure;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{print, units};
use crate::clock;
use crate::drive::DriveEvent;
use crate::plan::Ended;

/// One line on stderr, drawn anew as events come.
pub struct ProgressLine {
    bar: ProgressBar,
    total: usize,
    done: usize,
    /// Length of a window, zero where trials are counted.
    window: Nanos,
    waiting: Said<Failure>,
    reconnecting: Said<String>,
    /// The board, where there are several.
    board: String,
    /// A failure is told with its case, since there are many.
    names_cases: bool,
    /// By the host's clock, and how many repeats were done by then.
    began: (i64, usize),
}

/// What is waited for: said once, not each second, and again now and then as long as it lasts.
struct Said<T> {
    what: Option<T>,
    /// When it was said last, and since when it is waited, by a steady clock.
    at_ns: i64,
    since_ns: i64,
}

/// How long a wait goes on before it is said again.
const SAY_AGAIN_NS: i64 = 60_000_000_000;

impl<T> Default for Said<T> {
    fn default() -> Self {
        Self {
            what: None,
            at_ns: 0,
            since_ns: 0,
        }
    }
}

impl<T: Clone + PartialEq> Said<T> {
    /// Whether it is to be said now; after how long, when it is the same wait that goes on.
    fn say(&mut self, what: &T, now_ns: i64) -> Option<Option<Duration>> {
        let is_first = self.what.is_none();
        if is_first {
            self.since_ns = now_ns;
        }
        let is_same = self.what.as_ref() == Some(what);
        if is_same && now_ns - self.at_ns < SAY_AGAIN_NS {
            return None;
        }
        let waited = (now_ns - self.since_ns).max(0);
        self.what = Some(what.clone());
        self.at_ns = now_ns;
        let long = waited >= SAY_AGAIN_NS;
        Some(long.then(|| Duration::from_nanos(waited as u64)))
    }

    /// It is over: the next one is said at once.
    fn end(&mut self) {
        self.what = None;
    }
}

/// ` for 2 min`, where it has taken long.
fn for_long(waited: Option<Duration>) -> String {
    let text = |waited: Duration| format!(" for {}", duration(waited.as_secs_f64()));
    waited.map(text).unwrap_or_default()
}

/// One line for each board of a sweep.
pub struct ProgressLines {
    lines: Vec<ProgressLine>,
}

impl ProgressLines {
    /// Boards with the repeats planned and done by now.
    pub fn new<'a>(
        boards: impl IntoIterator<Item = (&'a str, usize, usize)>,
        window: Nanos,
    ) -> Self {
        let target = target();
        let all = MultiProgress::with_draw_target(target);
        let boards: Vec<_> = boards.into_iter().collect();
        let several = boards.len() > 1;
        let line = |(board, total, done): (&str, usize, usize)| {
            let mut line = ProgressLine::drawn_by(all.add(ProgressBar::no_length()), total, window);
            if several {
                line.board = format!("{board} · ");
            }
            line.names_cases = true;
            line.done = done;
            line.began.1 = done;
            line
        };
        Self {
            lines: boards.into_iter().map(line).collect(),
        }
    }

    pub fn tell(&mut self, board: usize, event: &DriveEvent) {
        if let Some(line) = self.lines.get_mut(board) {
            line.tell(event);
        }
    }
}

fn target() -> ProgressDrawTarget {
    match print::stderr_is_terminal() {
        true => ProgressDrawTarget::stderr_with_hz(4),
        false => ProgressDrawTarget::hidden(),
    }
}

impl ProgressLine {
    pub fn new(total: usize, window: Nanos) -> Self {
        let bar = ProgressBar::with_draw_target(None, target());
        Self::drawn_by(bar, total, window)
    }

    fn drawn_by(bar: ProgressBar, total: usize, window: Nanos) -> Self {
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        Self {
            bar,
            total,
            done: 0,
            window,
            waiting: Said::default(),
            board: String::new(),
            names_cases: false,
            began: (clock::unix_ns(), 0),
            reconnecting: Said::default(),
        }
    }

    /// Shows an event; what a user must know is said on a line of its own, terminal or not.
    pub fn tell(&mut self, event: &DriveEvent) {
        if !matches!(
            event,
            DriveEvent::Reconnecting(_) | DriveEvent::Stopping { .. }
        ) {
            self.reconnecting.end();
        }
        // Another repeat of this store may run while orders wait.
        if matches!(event, DriveEvent::Stored { .. }) {
            self.waiting.end();
        }
        match event {
            DriveEvent::Sending { name, done, total } => {
                let (done, total) = (units::bytes(*done as f64), units::bytes(*total as f64));
                self.show(format!("sending {name} · {done} of {total}"));
            }
            DriveEvent::Receiving { done, total } => {
                let done = units::bytes(*done as f64);
                self.show(match total {
                    Some(total) => {
                        let total = units::bytes(*total as f64);
                        format!("receiving outputs · {done} of {total}")
                    }
                    None => format!("receiving a repeat · {done}"),
                });
            }
            DriveEvent::Started(_) => self.show("started".into()),
            DriveEvent::Progress(progress) => self.show(describe(progress, self.window)),
            DriveEvent::Stored { key, how, failure } => {
                self.done += usize::from(*how != Ended::Lost);
                if let Some((stage, failure)) = failure {
                    let (repeat, stage) = (key.repeat, stage.name());
                    let case = match self.names_cases {
                        true => format!("case {}, ", &key.case.to_string()[..8]),
                        false => String::new(),
                    };
                    self.say(&format!(
                        "{case}repeat {repeat} failed in {stage}: {failure}"
                    ));
                }
            }
            DriveEvent::StoredOther(key) => {
                self.say(&format!("a repeat of run {} was stored too", key.run));
            }
            DriveEvent::Waiting(why) => {
                if let Some(waited) = self.waiting.say(why, clock::monotonic_ns()) {
                    self.say(&format!("waiting{}: {}", for_long(waited), why.detail));
                    if let Some(hint) = &why.hint {
                        self.say(&format!("hint: {hint}"));
                    }
                }
            }
            DriveEvent::Dropped(key) => self.say(&format!(
                "a repeat of run {} was dropped: the run is no longer in the store",
                key.run
            )),
            DriveEvent::Reconnecting(why) => {
                if let Some(waited) = self.reconnecting.say(why, clock::monotonic_ns()) {
                    self.say(&format!("connecting again{}: {why}", for_long(waited)));
                }
            }
            DriveEvent::Stopping { now: false } => {
                self.say("stopping after this repeat; Ctrl-C again kills it");
            }
            DriveEvent::Stopping { now: true } => self.say("killing the repeat"),
        }
    }

    fn show(&self, what: String) {
        let repeat = (self.done + 1).min(self.total);
        let (board, total) = (&self.board, self.total);
        let left = self.time_left();
        let line = format!("{board}repeat {repeat} of {total}{left} · {what}");
        self.bar.set_message(printable::text(&line));
        self.bar.tick();
    }

    fn say(&self, text: &str) {
        let board = &self.board;
        self.bar
            .suspend(|| print::note(format_args!("{board}{text}")));
    }

    /// From the mean time of the repeats so far; nothing while there are none or none is left.
    fn time_left(&self) -> String {
        let (since, before) = self.began;
        let elapsed = (clock::unix_ns() - since).max(0) as f64;
        match seconds_left(
            elapsed,
            self.done - before,
            self.total - self.done.min(self.total),
        ) {
            Some(seconds) => format!(" · {} left", duration(seconds)),
            None => String::new(),
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Seconds for `left` repeats at the pace of those done; several are needed to tell anything.
fn seconds_left(elapsed_ns: f64, done: usize, left: usize) -> Option<f64> {
    (done > 0 && left > 0).then(|| elapsed_ns / 1e9 / done as f64 * left as f64)
}

/// A length of time for people: `45 s`, `12 min`, `3 h 20 min`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match (whole / 3600, whole / 60 % 60) {
        (0, 0) => format!("{whole} s"),
        (0, minutes) if whole < 600 => format!("{minutes} min {} s", whole % 60),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// Stage, trials, median and time left of one repeat.
fn describe(progress: &event::Progress, window: Nanos) -> String {
    let mut parts = vec![progress.stage.name().to_owned()];
    if progress.trials > 0 {
        parts.push(format!("{} trials", units::count(progress.trials)));
    }
    if let Some(median) = progress.recent_p50 {
        parts.push(format!("p50 {}", units::nanoseconds(median.0 as f64)));
    }
    match left(progress, window) {
        Some(left) => parts.push(format!("{} s left", left.as_secs())),
        None => parts.push(format!("{} s", progress.in_stage.as_duration().as_secs())),
    }
    parts.join(" · ")
}

fn left(progress: &event::Progress, window: Nanos) -> Option<Duration> {
    let measuring = progress.stage == Stage::Measure && window > Nanos::ZERO;
    measuring.then(|| (window - progress.in_stage).as_duration())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(stage: Stage, trials: u64, recent_p50: Option<Nanos>) -> event::Progress {
        event::Progress {
            stage,
            in_stage: Nanos::from_secs(2),
            trials,
            recent_p50,
        }
    }

    #[test]
    fn a_wait_is_said_once_and_again_each_minute_with_its_reason_as_it_is_then() {
        let mut said = Said::default();
        let mut at = |second: i64, why: &str| {
            let waited = said.say(&why.to_owned(), second * 1_000_000_000);
            waited.map(|waited| for_long(waited) + ": " + why)
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(at(100, "no route"), text(": no route"));
        assert_eq!(at(101, "no route"), None);
        assert_eq!(at(130, "refused"), text(": refused"));
        assert_eq!(at(189, "refused"), None);
        assert_eq!(at(190, "refused"), text(" for 1 min 30 s: refused"));
        assert_eq!(at(249, "refused"), None);
        assert_eq!(at(251, "refused"), text(" for 2 min 31 s: refused"));
        said.end();
        let again = said.say(&"refused".to_owned(), 252_000_000_000);
        assert_eq!(again, Some(None), "another wait");
    }

    #[test]
    fn a_window_says_how_long_it_still_takes() {
        let text = describe(
            &progress(Stage::Measure, 1234, Some(Nanos::from_millis(2))),
            Nanos::from_secs(5),
        );
        assert!(text.starts_with("measure · "), "{text}");
        assert!(text.contains("trials · p50 2"), "{text}");
        assert!(text.ends_with("3 s left"), "{text}");
    }

    #[test]
    fn the_time_left_is_that_of_repeats_like_those_before() {
        assert_eq!(seconds_left(10e9, 4, 8), Some(20.0));
        assert_eq!(seconds_left(10e9, 0, 8), None);
        assert_eq!(seconds_left(10e9, 4, 0), None);
        let text = [0.4, 45.0, 125.0, 725.0, 12_000.0].map(duration);
        assert_eq!(text, ["0 s", "45 s", "2 min 5 s", "12 min", "3 h 20 min"]);
    }

    #[test]
    fn other_stages_say_how_long_they_took() {
        let text = describe(&progress(Stage::Load, 0, None), Nanos::from_secs(5));
        assert_eq!(text, "load · 2 s");
    }
}
