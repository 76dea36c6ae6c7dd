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
    /// What is waited for is said once, not each second.
    waiting: Option<Failure>,
    reconnecting: Option<String>,
    /// The board, where there are several.
    board: String,
    /// A failure is told with its case, since there are many.
    names_cases: bool,
    /// By the host's clock, and how many repeats were done by then.
    began: (i64, usize),
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
            waiting: None,
            board: String::new(),
            names_cases: false,
            began: (clock::unix_ns(), 0),
            reconnecting: None,
        }
    }

    /// Shows an event; what a user must know is said on a line of its own, terminal or not.
    pub fn tell(&mut self, event: &DriveEvent) {
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
            DriveEvent::Waiting(why) if self.waiting.as_ref() == Some(why) => {}
            DriveEvent::Waiting(why) => {
                self.say(&format!("waiting: {}", why.detail));
                if let Some(hint) = &why.hint {
                    self.say(&format!("hint: {hint}"));
                }
                self.waiting = Some(why.clone());
            }
            DriveEvent::Dropped(key) => self.say(&format!(
                "a repeat of run {} was dropped: the run is no longer in the store",
                key.run
            )),
            DriveEvent::Reconnecting(why) if self.reconnecting.as_ref() == Some(why) => {}
            DriveEvent::Reconnecting(why) => {
                self.reconnecting = Some(why.clone());
                self.say(&format!("connecting again: {why}"));
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
