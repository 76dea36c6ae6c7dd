//! Driving a plan: orders go to a board's agent, finished repeats come back and are committed.

mod arrival;
mod away;
mod batches;
mod delivery;
mod driver;
mod figures;
pub mod interrupts;
pub mod parallel;
mod session;
#[cfg(test)]
mod tests;
mod upload;

use edgedyno_shared::order::OrderKey;
use edgedyno_shared::repeat::Stage;
use edgedyno_shared::wire::event::Progress;
use edgedyno_shared::wire::failure::Failure;

use crate::board::ConnectError;
use crate::board::link::LinkError;
use crate::documents::utc;
use crate::exit::{CommandError, Exit};
use crate::plan::Ended;
use crate::store::StoreError;

pub use driver::{Driver, LeaseWish, Plan, recall};
pub use figures::of as figures_of;

/// What happens meanwhile, for whoever shows it.
#[derive(Debug, Clone, PartialEq)]
pub enum DriveEvent {
    /// The agent took the repeat from its queue.
    Started(OrderKey),
    Progress(Progress),
    /// A repeat is in the store.
    Stored {
        key: OrderKey,
        how: Ended,
        failure: Option<(Stage, Failure)>,
    },
    /// A file is on its way to the board, in bytes.
    Sending {
        name: String,
        done: u64,
        total: u64,
    },
    /// A repeat takes its time to arrive: bytes, and of how many where that is known.
    Receiving {
        done: u64,
        total: Option<u64>,
    },
    /// A repeat of another run of this store was brought along.
    StoredOther(OrderKey),
    /// The agent starts nothing for the time being, or cannot put a repeat away, and why.
    Waiting(Failure),
    /// A repeat of a run that is no longer in the store was thrown away.
    Dropped(OrderKey),
    /// The connection was lost, and why.
    Reconnecting(String),
    /// The user wants to stop: after the running repeat, or at once.
    Stopping {
        now: bool,
    },
}

/// How driving ended when nothing went wrong with the driving itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveEnd {
    /// Everything planned has its row.
    Complete,
    Interrupted,
}

/// Why a plan could not be driven to its end. What was stored stays stored.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    #[error("board {board} cannot be reached")]
    Connect { board: String, source: ConnectError },
    /// It was reached in this run.
    #[error("board {board} cannot be reached any more")]
    Gone { board: String, source: ConnectError },
    #[error("the connection to board {board} is lost again and again")]
    Lost { board: String, source: LinkError },
    #[error("what is to be sent to board {board} is too large")]
    TooLarge { board: String, source: LinkError },
    #[error("the agent on board {board} says what makes no sense, again and again")]
    Nonsense { board: String, source: LinkError },
    #[error("the agent on board {board} cannot go on")]
    Stuck { board: String, source: Failure },
    #[error("the agent on board {board} does not do as asked")]
    Agent { board: String, source: Failure },
    #[error("board {board} is in use")]
    Held {
        board: String,
        holder: String,
        since_unix_ns: i64,
    },
    #[error("board {board} was taken by {to}")]
    Taken { board: String, to: String },
    #[error("`{}` cannot be read any more", .path.display())]
    Content {
        path: std::path::PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<DriveError> for CommandError {
    fn from(error: DriveError) -> Self {
        let text = error.to_string();
        match error {
            DriveError::Connect { source, board } => {
                let exit = match &source {
                    _ if source.is_incompatible() => Exit::INCOMPATIBLE,
                    _ => Exit::BOARD,
                };
                let hint = source.hint(&board);
                Self::new(exit, text).because(source).hint_if(hint)
            }
            DriveError::Gone { source, board } => {
                let exit = match &source {
                    _ if source.is_incompatible() => Exit::INCOMPATIBLE,
                    _ => Exit::BOARD,
                };
                let mend = source.hint(&board).map(|hint| hint + "; ");
                Self::new(exit, text).because(source).hint(format!(
                    "{}finished repeats are stored, go on with `--resume last`",
                    mend.unwrap_or_default()
                ))
            }
            DriveError::Lost { source, .. } => Self::new(Exit::BOARD, text)
                .because(source)
                .hint("finished repeats are stored; go on with `--resume last`"),
            DriveError::TooLarge { source, .. } => Self::usage(text).because(source).hint(
                "use fewer input files in a case, or fewer files beside a model; what was measured is stored",
            ),
            DriveError::Nonsense { source, board } => {
                let mend = match board.as_str() {
                    crate::board::local::NAME => "install host and agent of one build".into(),
                    board => format!("`edgedyno board update {board}` brings this build's agent"),
                };
                Self::new(Exit::BOARD, text).because(source).hint(format!(
                    "{mend}; finished repeats are stored, go on with `--resume last`"
                ))
            }
            DriveError::Stuck { source, .. } => {
                let free = source.hint.clone().unwrap_or_default();
                Self::new(Exit::BOARD, text).because(source).hint(format!(
                    "{free}{}what was measured waits on the board; go on with `--resume last`",
                    if free.is_empty() { "" } else { "; " }
                ))
            }
            DriveError::Agent { source, .. } => {
                let hint = source.hint.clone();
                Self::new(Exit::BOARD, text).because(source).hint_if(hint)
            }
            DriveError::Held {
                holder,
                since_unix_ns,
                ..
            } => {
                let since = utc(since_unix_ns).unwrap_or_default();
                Self::new(Exit::BOARD, text)
                    .cause(format!("{holder} has measured on it since {since}"))
                    .hint(
                        "`run` and `sweep` take --wait, which waits until it is free, and --steal, which takes it as an admin of the board",
                    )
            }
            DriveError::Taken { .. } => Self::new(Exit::BOARD, text).hint(
                "what was measured is kept; go on with `--resume last`, with --wait or --steal",
            ),
            DriveError::Content { source, .. } => Self::usage(text).because(source),
            DriveError::Store(source) => source.into(),
        }
    }
}
