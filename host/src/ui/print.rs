//! Writing to stdout and stderr without falling over a reader that went away.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use console::Term;
use serde_json::Value;

/// The first result that could not be written, unless its reader had gone.
static FAULT: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints a result. A closed pipe (`| head`) ends the output, not the program; any other fault is kept for
/// the end of the program: what should have been measured or stored was so all the same.
pub fn result(text: impl Display) {
    let mut out = io::stdout().lock();
    keep(writeln!(out, "{text}").and_then(|()| out.flush()));
}

/// Rows and columns of the terminal that is written to; none where it is no terminal, or one that only
/// goes on line by line.
pub fn size() -> Option<(usize, usize)> {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    let size = Term::stdout().size_checked().filter(|_| !is_dumb)?;
    Some((usize::from(size.0), usize::from(size.1)))
}

/// Shows a screen in the place of the one before; where there is no terminal to do that on, below it.
pub fn frame(text: &str) {
    let mut out = io::stdout().lock();
    let written = match size() {
        // Cursor to the corner; each line to its end, and all below the last, is made empty (ECMA-48, EL
        // and ED): nothing flickers, as it would if all were cleared first.
        Some(_) => {
            let lines = text.replace('\n', "\x1b[K\n");
            write!(out, "\x1b[H{lines}\x1b[J")
        }
        None => writeln!(out, "{text}\n"),
    };
    keep(written.and_then(|()| out.flush()));
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
