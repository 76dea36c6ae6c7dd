//! Boards: how the host reaches an agent. Carriers differ, the [`link::Link`] above them does not.

pub mod agents;
pub mod any;
pub mod content;
pub mod known;
pub mod link;
pub mod local;
pub mod quic;
#[cfg(test)]
pub(crate) mod script;
pub mod settings;
pub mod setup;
pub mod ssh;

use std::net::SocketAddr;

use edgedyno_shared::ids::StoreId;

use link::{Link, LinkError};

/// One machine with an agent.
pub trait Board {
    /// The name by which plans and errors call it.
    fn name(&self) -> &str;

    /// Whether its agent runs on another machine: it sees none of this machine's files, and goes on alone
    /// while the network is away.
    fn is_remote(&self) -> bool {
        false
    }

    /// Opens a session for a store; [`StoreId::NONE`] asks only.
    fn connect(&self, store: StoreId) -> impl Future<Output = Result<Link, ConnectError>>;
}

/// Why a board could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot work out where the agent keeps its state")]
    Folders(#[from] edgedyno_shared::folders::NoStateFolder),
    #[error("cannot start the agent `{program}`")]
    Start {
        program: String,
        source: std::io::Error,
    },
    #[error("the agent was started but does not answer (it may take {seconds} s)")]
    NoAnswer {
        seconds: u64,
        /// Where the agent says why.
        log: std::path::PathBuf,
        source: std::io::Error,
    },
    #[error("an agent of another build is still finishing a repeat")]
    StillRetiring,
    #[error("cannot reach the agent's socket `{}`", .path.display())]
    Socket {
        path: std::path::PathBuf,
        source: std::io::Error,
    },
    #[error("nothing answers at {address}")]
    Unreachable {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("the board has no address")]
    NoAddress,
    #[error("the agent at {address} does not know this host, or no longer")]
    NotKnown { address: SocketAddr },
    #[error("the agent at {address} has another key than the one that is known for this board")]
    WrongKey { address: SocketAddr },
    #[error("the agent at {address} speaks another version of the protocol")]
    OtherProtocol { address: SocketAddr },
    #[error("the agent does not accept the ticket: {0}")]
    TicketRefused(String),
    #[error(transparent)]
    Ssh(#[from] ssh::SshError),
    #[error(transparent)]
    Settings(#[from] settings::SettingsError),
    #[error(transparent)]
    Link(#[from] LinkError),
}

impl ConnectError {
    /// Whether the two sides are of versions that cannot work together.
    pub fn is_incompatible(&self) -> bool {
        matches!(
            self,
            Self::OtherProtocol { .. } | Self::Link(LinkError::Incompatible { .. })
        )
    }

    /// Whether the board may only be away for a while.
    pub fn is_away(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Ssh(why) => why.is_away(),
            _ => false,
        }
    }

    /// What the user may do about it, where the board has that name.
    pub fn hint(&self, board: &str) -> Option<String> {
        match self {
            Self::Folders(_) => Some("set HOME, or EDGEDYNO_AGENT_STATE to a folder".into()),
            Self::NoAnswer { log, .. } if log.exists() => {
                Some(format!("its log is `{}`", log.display()))
            }
            Self::NoAnswer { log, .. } => Some(format!(
                "it could not even begin its log `{}`: see that the folder can be written, or set \
                 EDGEDYNO_AGENT_STATE to another",
                log.display()
            )),
            Self::StillRetiring => Some("run the command again when it has ended".into()),
            Self::Start { .. } => Some("EDGEDYNO_AGENT names the program that is started".into()),
            Self::Socket { .. } => Some(
                "see that the folder can be used, or set EDGEDYNO_AGENT_STATE to another".into(),
            ),
            Self::Unreachable { .. } => Some(
                "see that `edgedyno-agent serve --listen` runs there and UDP can pass".into(),
            ),
            Self::NoAddress => Some("give it an address in boards.toml, or pair again".into()),
            Self::NotKnown { .. } | Self::TicketRefused(_) => {
                Some("`edgedyno-agent pair` on the board gives a new ticket".into())
            }
            Self::WrongKey { .. } => Some(
                "if the agent was set up anew, forget the board and pair again; otherwise it is another".into(),
            ),
            Self::OtherProtocol { .. } | Self::Link(LinkError::Incompatible { .. }) => {
                Some(match board {
                    local::NAME => "install host and agent of one build".into(),
                    board => format!(
                        "host and agent must be of the same build: `edgedyno board update {board}`"
                    ),
                })
            }
            Self::Ssh(why) => Some(why.hint(board)),
            Self::Settings(_) => Some("EDGEDYNO_CONFIG names another folder".into()),
            Self::Link(_) => Some("agent.log in the agent's state folder may say more".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_of_another_build_is_updated_on_the_board_that_has_it() {
        let address = "10.0.0.7:7447".parse().unwrap();
        let agent = edgedyno_shared::ids::BuildId("old".into());
        for error in [
            ConnectError::OtherProtocol { address },
            LinkError::Incompatible { agent }.into(),
        ] {
            let hint = error.hint("x5").unwrap();
            assert!(hint.contains("`edgedyno board update x5`"), "{hint}");
            let here = error.hint(local::NAME).unwrap();
            assert!(!here.contains("board update"), "{here}");
        }
    }
}
