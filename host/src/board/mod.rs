//! Boards: how the host reaches an agent. Carriers differ, the [`link::Link`] above them does not.

pub mod content;
pub mod link;
pub mod local;
#[cfg(test)]
pub(crate) mod script;

use edgedyno_shared::ids::StoreId;

use link::{Link, LinkError};

/// One machine with an agent.
pub trait Board {
    /// The name by which plans and errors call it.
    fn name(&self) -> &str;

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
    #[error(transparent)]
    Link(#[from] LinkError),
}

impl ConnectError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<String> {
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
            Self::Link(LinkError::Incompatible { .. }) => {
                Some("host and agent must be of the same build: `board update`".into())
            }
            Self::Start { .. } => Some("EDGEDYNO_AGENT names the program that is started".into()),
            Self::Socket { .. } => Some(
                "see that the folder can be used, or set EDGEDYNO_AGENT_STATE to another".into(),
            ),
            Self::Link(_) => Some("agent.log in the agent's state folder may say more".into()),
        }
    }
}
