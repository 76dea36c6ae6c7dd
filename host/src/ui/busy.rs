//! A line that says what is being waited for: on a terminal only, gone when it is done.

use std::time::Duration;

use edgedyno_shared::printable;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::print;

/// Redrawn this often; a wait that is shorter is never seen.
const TICK: Duration = Duration::from_millis(250);

/// Shown as long as it lives.
pub struct Busy(ProgressBar);

impl Busy {
    pub fn with(what: impl Into<String>) -> Self {
        let target = match print::stderr_is_terminal() {
            true => ProgressDrawTarget::stderr_with_hz(4),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(plain(what));
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// Says something else from now on.
    pub fn say(&self, what: impl Into<String>) {
        self.0.set_message(plain(what));
    }
}

fn plain(what: impl Into<String>) -> String {
    printable::text(&what.into())
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
