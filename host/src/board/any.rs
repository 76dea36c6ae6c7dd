//! A board by its name: this machine, or one that the user's list knows.

use edgedyno_shared::ids::StoreId;

use super::known::{KnownBoard, KnownBoards};
use super::link::Link;
use super::local::{self, Local};
use super::quic::Quic;
use super::settings::Settings;
use super::ssh::Ssh;
use super::{Board, ConnectError};
use crate::drive::DriveError;
use crate::exit::CommandError;
use crate::near;

/// One of the carriers, or two of which the first that answers is used.
#[derive(Debug, Clone)]
pub enum AnyBoard {
    Local(Local),
    Quic(Quic),
    Ssh(Ssh),
    /// The network where it answers, else ssh.
    Both {
        quic: Quic,
        ssh: Ssh,
    },
}

impl AnyBoard {
    /// # Errors
    /// When no board has that name, or what is needed to reach it cannot be read.
    pub fn find(name: &str) -> Result<Self, CommandError> {
        if name == local::NAME {
            return Local::from_env()
                .map(Self::Local)
                .map_err(|why| unreachable(name, why));
        }
        let settings = Settings::from_env().map_err(|why| unreachable(name, why.into()))?;
        let boards = KnownBoards::read(&settings)?;
        let Some(board) = boards.get(name) else {
            let names = boards.iter().map(|(name, _)| name).chain([local::NAME]);
            return Err(unknown(name, names));
        };
        Self::of(name, board, &settings)
    }

    /// A board of the list.
    pub fn of(name: &str, board: &KnownBoard, settings: &Settings) -> Result<Self, CommandError> {
        let ssh = board
            .ssh
            .as_ref()
            .map(|route| Ssh::new(name, route.clone()));
        let quic = match board.key {
            Some(key) if ssh.is_none() || !board.addresses.is_empty() => {
                let identity = settings.identity();
                let identity = identity.map_err(|why| unreachable(name, why.into()))?;
                Some(Quic::new(name, board.addresses.clone(), key, identity))
            }
            _ => None,
        };
        match (quic, ssh) {
            (Some(quic), Some(ssh)) => Ok(Self::Both { quic, ssh }),
            (Some(quic), None) => Ok(Self::Quic(quic)),
            (None, Some(ssh)) => Ok(Self::Ssh(ssh)),
            (None, None) => Err(unreachable(name, ConnectError::NoAddress)),
        }
    }
}

fn unreachable(name: &str, source: ConnectError) -> CommandError {
    let board = name.to_owned();
    DriveError::Connect { board, source }.into()
}

/// The error for a name that no board has.
pub fn unknown<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> CommandError {
    let hint = match near::matches(name, names).first() {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`edgedyno board list` shows those that are known; `local` is this machine".into(),
    };
    CommandError::usage(format!("there is no board `{name}`")).hint(hint)
}

impl Board for AnyBoard {
    fn name(&self) -> &str {
        match self {
            Self::Local(board) => board.name(),
            Self::Quic(board) => board.name(),
            Self::Ssh(board) | Self::Both { ssh: board, .. } => board.name(),
        }
    }

    fn is_remote(&self) -> bool {
        !matches!(self, Self::Local(_))
    }

    async fn connect(&self, store: StoreId) -> Result<Link, ConnectError> {
        match self {
            Self::Local(board) => board.connect(store).await,
            Self::Quic(board) => board.connect(store).await,
            Self::Ssh(board) => board.connect(store).await,
            Self::Both { quic, ssh } => match quic.connect(store).await {
                // An agent that somebody started anew may listen no more, or not yet know this host there.
                Err(why @ (ConnectError::Unreachable { .. } | ConnectError::NotKnown { .. })) => {
                    tracing::info!("by ssh, for on the network {why}");
                    ssh.connect(store).await
                }
                result => result,
            },
        }
    }
}
