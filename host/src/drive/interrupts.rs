//! Ctrl-C: once finishes the running repeat, twice kills it, three times leaves at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::exit::Exit;

/// Wishes of the user to stop, one by one.
#[derive(Debug)]
pub struct Interrupts(mpsc::UnboundedReceiver<()>);

impl Interrupts {
    /// Takes over Ctrl-C and a polite kill for the rest of the program.
    pub fn listen() -> std::io::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (send, receive) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for count in 1.. {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if count > 2 {
                    // The agent does not answer; what it finishes waits in its spool.
                    std::process::exit(Exit::INTERRUPTED.code().into());
                }
                let _ = send.send(());
            }
        });
        Ok(Self(receive))
    }

    /// For a driver that nobody can interrupt.
    pub fn none() -> Self {
        Self(mpsc::unbounded_channel().1)
    }

    /// Never interrupts unless told to through the sender.
    #[cfg(test)]
    pub(crate) fn by_hand() -> (mpsc::UnboundedSender<()>, Self) {
        let (send, receive) = mpsc::unbounded_channel();
        (send, Self(receive))
    }

    /// The next wish to stop. Cancel-safe.
    pub(super) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
