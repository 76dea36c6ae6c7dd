//! The line that shows how a run goes on: on a terminal only.

use std::time::Duration;

use edgedyno_shared::repeat::Stage;
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::event;
use edgedyno_shared::wire::failure::Failure;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{print, units};
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
}

impl ProgressLine {
    pub fn new(total: usize, window: Nanos) -> Self {
        let target = match print::stderr_is_terminal() {
            true => ProgressDrawTarget::stderr_with_hz(4),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        Self {
            bar,
            total,
            done: 0,
            window,
            waiting: None,
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
            DriveEvent::Started(_) => self.show("started".into()),
            DriveEvent::Progress(progress) => self.show(describe(progress, self.window)),
            DriveEvent::Stored { key, how, failure } => {
                self.done += usize::from(*how != Ended::Lost);
                if let Some((stage, failure)) = failure {
                    let (repeat, stage) = (key.repeat, stage.name());
                    self.say(&format!("repeat {repeat} failed in {stage}: {failure}"));
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
        let total = self.total;
        self.bar
            .set_message(format!("repeat {repeat} of {total} · {what}"));
        self.bar.tick();
    }

    fn say(&self, text: &str) {
        self.bar.suspend(|| print::note(text));
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
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
    fn other_stages_say_how_long_they_took() {
        let text = describe(&progress(Stage::Load, 0, None), Nanos::from_secs(5));
        assert_eq!(text, "load · 2 s");
    }
}
