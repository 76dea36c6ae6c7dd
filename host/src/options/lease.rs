//! What to do where another host measures on the board.

use clap::Args;

use crate::drive::LeaseWish;

#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Board")]
pub struct LeaseOptions {
    /// Wait while another host measures on the board
    #[arg(long)]
    pub wait: bool,
    /// Take the board from another host, as an admin of it; what runs is finished first
    #[arg(long)]
    pub steal: bool,
}

impl LeaseOptions {
    pub fn wish(self) -> LeaseWish {
        LeaseWish {
            wait: self.wait,
            steal: self.steal,
            ..LeaseWish::plain()
        }
    }
}
