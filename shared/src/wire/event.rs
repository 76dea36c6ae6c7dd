//! What an agent says unasked while a repeat runs. Events are never stored and may be missed.

use serde::{Deserialize, Serialize};

use crate::order::OrderKey;
use crate::repeat::Stage;
use crate::units::Nanos;
use crate::wire::failure::Failure;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A repeat left the queue.
    Started(OrderKey),
    Progress(Progress),
    /// The agent starts no repeat for the time being, or cannot put one away, and why.
    Waiting(Failure),
    /// Another host took the board; what was queued is dropped, what runs is finished.
    LeaseLost {
        to: String,
    },
}

/// Sent at most twice a second, 64 bytes at most as a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub stage: Stage,
    pub in_stage: Nanos,
    /// Trials of the stage so far.
    pub trials: u64,
    /// Median of the latest trials; none before the first.
    pub recent_p50: Option<Nanos>,
}
