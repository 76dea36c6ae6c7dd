//! The line that shows how a board is set up: on a terminal only.

use crate::board::setup::Step;
use crate::ui::fetch::Line;
use crate::ui::units;

/// One line that changes.
pub(super) struct Steps {
    line: Line,
}

impl Steps {
    pub(super) fn start() -> Self {
        Self {
            line: Line::start(),
        }
    }

    pub(super) fn tell(&self, step: &Step) {
        let text = match step {
            Step::Looking => "looking at the board".into(),
            Step::Found(probe) => format!("found {} with Linux {}", probe.machine, probe.kernel),
            Step::Sending(done, all) => {
                format!(
                    "sending the agent: {} of {}",
                    units::bytes(*done as f64),
                    units::bytes(*all as f64)
                )
            }
            Step::Starting => "starting the agent".into(),
            Step::Knocking => "trying the network".into(),
        };
        self.line.show(text);
    }

    pub(super) fn end(&self) {
        self.line.end();
    }
}
