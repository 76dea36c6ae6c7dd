//! Writing to stdout and stderr without falling over a reader that went away.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// The first result that could not be written, unless its reader had gone.
static FAULT: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints a result. A closed pipe (`| head`) ends the output, not the program; any other fault is kept for
/// the end of the program: what should have been measured or stored was so all the same.
pub fn result(text: impl Display) {
    let mut out = io::stdout().lock();
    keep(writeln!(out, "{text}").and_then(|()| out.flush()));
}

/// Shows a screen in the place of the one before; where nobody watches, below it.
pub fn screen(text: &str) {
    let clear = match io::stdout().is_terminal() {
        // Cursor to the corner, everything behind it away.
        true => "\x1b[H\x1b[J",
        false => "",
    };
    let mut out = io::stdout().lock();
    keep(writeln!(out, "{clear}{text}").and_then(|()| out.flush()));
}

/// Prints a result as it is, without a line end of ours.
pub fn raw(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    keep(out.write_all(bytes).and_then(|()| out.flush()));
}

fn keep(written: io::Result<()>) {
    if let Err(why) = written
        && why.kind() != io::ErrorKind::BrokenPipe
    {
        let mut fault = FAULT.lock().unwrap_or_else(PoisonError::into_inner);
        fault.get_or_insert(why);
    }
}

/// Why a result is not whole where it was printed to.
pub fn fault() -> Option<io::Error> {
    FAULT.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Prints a result as JSON.
pub fn json(value: &Value) {
    result(format_args!("{value:#}"));
}

/// Says something about the work; never part of a result.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether a person sees what goes to stderr.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether there is somebody to ask.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question on a terminal; anywhere else the answer is no.
pub fn confirm(question: &str) -> bool {
    if !can_ask() {
        return false;
    }
    let _ = write!(io::stderr().lock(), "{question} [y/N] ");
    let mut line = String::new();
    let read = io::stdin().read_line(&mut line);
    read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}

/// Standard output for an export of one file.
pub fn stream() -> Box<dyn Write + Send> {
    Box::new(io::stdout())
}
