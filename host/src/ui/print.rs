//! Writing to stdout and stderr without falling over a reader that went away.
//!
//! The one place where words of others become plain: names, reasons and whatever else a board, a bundle or a
//! model says is shown, and never obeyed by a terminal.

use std::fmt::{self, Display};
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use console::Term;
use edgedyno_shared::printable;
use serde_json::Value;

/// The first result that could not be written, unless its reader had gone.
static FAULT: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints a result. A closed pipe (`| head`) ends the output, not the program; any other fault is kept for
/// the end of the program: what should have been measured or stored was so all the same.
pub fn result(text: impl Display) {
    line(&printable::text(&text.to_string()));
}

fn line(text: &str) {
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
    let text = printable::text(text);
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

/// Prints a result as it is, without a line end of ours; on a terminal it is plain.
pub fn raw(bytes: &[u8]) {
    let mut out = stream();
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
    line(&json_text(value));
}

/// What a terminal would obey stands in strings only, and JSON has a way to write it there that loses nothing.
fn json_text(value: &Value) -> String {
    let mut out = String::new();
    for letter in format!("{value:#}").chars() {
        match letter == '\n' || printable::is_plain(letter) {
            true => out.push(letter),
            // None of them lies beyond U+FFFF.
            false => {
                let _ =
                    fmt::Write::write_fmt(&mut out, format_args!("\\u{:04x}", u32::from(letter)));
            }
        }
    }
    out
}

/// Says something about the work; never part of a result.
pub fn note(text: impl Display) {
    let text = printable::text(&text.to_string());
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
    let question = printable::text(question);
    let _ = write!(io::stderr().lock(), "{question} [y/N] ");
    let mut line = String::new();
    let read = io::stdin().read_line(&mut line);
    read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}

/// Standard output for an export of one file; on a terminal it is plain.
pub fn stream() -> Box<dyn Write + Send> {
    match io::stdout().is_terminal() {
        true => Box::new(Plain {
            to: io::stdout(),
            begun: Vec::new(),
        }),
        false => Box::new(io::stdout()),
    }
}

/// Makes what goes through it plain.
struct Plain<W> {
    to: W,
    /// The first bytes of a letter whose rest did not come yet.
    begun: Vec<u8>,
}

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend(bytes);
        let whole = match std::str::from_utf8(&self.begun) {
            Ok(_) => self.begun.len(),
            Err(why) if why.error_len().is_none() => why.valid_up_to(),
            // No text at all: marks stand for what is none.
            Err(_) => self.begun.len(),
        };
        let rest = self.begun.split_off(whole);
        let text = String::from_utf8_lossy(&self.begun);
        let written = self.to.write_all(printable::text(&text).as_bytes());
        self.begun = rest;
        written.map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_keeps_every_letter_and_shows_none_to_a_terminal() {
        let said = json!({ "board\u{9b}": ["a\u{1b}[2J\u{7f}\u{85}\u{202e}\u{2028}", "µ 日"] });
        let text = json_text(&said);
        assert!(
            text.chars().all(|c| c == '\n' || printable::is_plain(c)),
            "{text}"
        );
        assert!(text.contains("\\u202e") && text.contains("µ 日"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), said);
    }

    #[test]
    fn a_stream_is_plain_however_it_is_cut() {
        let text = "a\u{1b}[2Jµ\u{9b}1m日\n".as_bytes();
        for cut in 0..=text.len() {
            let mut plain = Plain {
                to: Vec::new(),
                begun: Vec::new(),
            };
            plain.write_all(&text[..cut]).unwrap();
            plain.write_all(&text[cut..]).unwrap();
            let shown = String::from_utf8(plain.to).unwrap();
            assert_eq!(shown, "a\u{fffd}[2Jµ\u{fffd}1m日\n", "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_text_is_marks() {
        let mut plain = Plain {
            to: Vec::new(),
            begun: Vec::new(),
        };
        plain.write_all(b"PAR1\xff\x1b\x00").unwrap();
        let shown = String::from_utf8(plain.to).unwrap();
        assert_eq!(shown, "PAR1\u{fffd}\u{fffd}\u{fffd}");
    }
}
