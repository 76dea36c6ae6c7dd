//! The line that shows how a download goes on: on a terminal only.

use edgedyno_shared::printable;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{print, units};
use crate::runtime::Spec;
use crate::runtime::error::RuntimeError;
use crate::runtime::install::{Installer, Outcome, Step};
use crate::runtime::offer::Conversation;

/// One line on stderr that changes; nothing where nobody watches.
pub struct Line {
    bar: ProgressBar,
}

impl Line {
    pub fn start() -> Self {
        let target = match print::stderr_is_terminal() {
            true => ProgressDrawTarget::stderr_with_hz(4),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        Self { bar }
    }

    pub fn show(&self, what: String) {
        self.bar.set_message(printable::text(&what));
        self.bar.tick();
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.end();
    }
}

/// What pip does; what is fetched is said on a line of its own, terminal or not.
pub struct FetchLine {
    line: Line,
    /// The file that pip fetches, once it has said so, and its size in pip's words.
    file: Option<(String, String)>,
}

impl FetchLine {
    pub fn start() -> Self {
        Self {
            line: Line::start(),
            file: None,
        }
    }

    /// Shows a step.
    pub fn tell(&mut self, step: &Step) {
        match step {
            Step::Downloading(spec) => self.line.show(format!("pip looks for {spec}")),
            Step::Found { file, size } => {
                self.line
                    .bar
                    .suspend(|| print::note(format_args!("fetching {file} ({size}) with pip")));
                self.file = Some((file.clone(), size.clone()));
            }
            Step::Received(bytes) => {
                if let Some((file, size)) = self.file.as_ref().filter(|_| *bytes > 0) {
                    let so_far = units::bytes(*bytes as f64);
                    self.line.show(format!("{file}: {so_far} of {size}"));
                }
            }
            Step::Copying(file) => self.line.show(format!("unpacking {file}")),
        }
    }
}

/// The user at the terminal, or the lack of one.
pub struct Terminal;

impl Conversation for Terminal {
    fn asks(&mut self, question: &str) -> bool {
        print::confirm(question)
    }

    fn fetches(&mut self, installer: &Installer, spec: &Spec) -> Result<Outcome, RuntimeError> {
        let mut line = FetchLine::start();
        installer.install(spec, &mut |step| line.tell(&step))
    }
}
