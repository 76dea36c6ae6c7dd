//! Keys of a terminal, as they are pressed.

use std::io::{self, IsTerminal, Read};
use std::thread;

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Quit,
    Record,
    Pause,
    Up,
    Down,
}

/// A terminal that gives each key at once. Dropped, it is what it was before.
pub struct Keys {
    before: Option<Termios>,
    pressed: mpsc::Receiver<Key>,
    /// Kept where no terminal gives keys, so that waiting for one never ends.
    _none: Option<mpsc::Sender<Key>>,
}

impl Keys {
    /// Where input is no terminal, no key ever comes. Ctrl-C stays the signal that it is.
    pub fn open() -> Self {
        let (give, pressed) = mpsc::channel(16);
        let before = raw().filter(|_| io::stdout().is_terminal());
        let (none, give) = match before {
            Some(_) => (None, Some(give)),
            None => (Some(give), None),
        };
        if let Some(give) = give {
            // It ends with the program: a read of a terminal cannot be taken back.
            thread::spawn(move || listen(&give));
        }
        Self {
            before,
            pressed,
            _none: none,
        }
    }

    /// The next key; a terminal that went away is one that quits.
    pub async fn next(&mut self) -> Key {
        self.pressed.recv().await.unwrap_or(Key::Quit)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, before);
        }
    }
}

/// Takes lines and echo away, and gives what was there before; none where it is no terminal.
fn raw() -> Option<Termios> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return None;
    }
    let before = tcgetattr(&stdin).ok()?;
    let mut raw = before.clone();
    raw.local_flags
        .remove(LocalFlags::ICANON | LocalFlags::ECHO);
    tcsetattr(&stdin, SetArg::TCSANOW, &raw).ok()?;
    Some(before)
}

fn listen(give: &mpsc::Sender<Key>) {
    let mut bytes = [0; 64];
    while let Ok(count @ 1..) = io::stdin().lock().read(&mut bytes) {
        for key in keys(&bytes[..count]) {
            if give.blocking_send(key).is_err() {
                return;
            }
        }
    }
}

/// Keys in what a terminal sent at once; an arrow is three bytes (ECMA-48, CUU and CUD).
fn keys(bytes: &[u8]) -> Vec<Key> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let (key, used) = match (first, after) {
            (0x1b, [b'[' | b'O', b'A', ..]) => (Some(Key::Up), 3),
            (0x1b, [b'[' | b'O', b'B', ..]) => (Some(Key::Down), 3),
            (b'q' | b'Q' | 0x04, _) => (Some(Key::Quit), 1),
            (b'r' | b'R', _) => (Some(Key::Record), 1),
            (b' ', _) => (Some(Key::Pause), 1),
            (b'k', _) => (Some(Key::Up), 1),
            (b'j', _) => (Some(Key::Down), 1),
            _ => (None, 1),
        };
        out.extend(key);
        rest = &rest[used.min(rest.len())..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_arrows_are_keys_and_the_rest_is_not() {
        assert_eq!(keys(b"\x1b[A\x1bOBjx"), [Key::Up, Key::Down, Key::Down]);
        assert_eq!(keys(b"r q"), [Key::Record, Key::Pause, Key::Quit]);
        assert_eq!(keys(b"\x1b"), []);
    }
}
