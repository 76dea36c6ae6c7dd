//! A board by its name: this machine, or one that the user's list knows.

use edgedyno_shared::ids::StoreId;

use super::known::KnownBoards;
use super::link::Link;
use super::local::{self, Local};
use super::quic::Quic;
use super::settings::Settings;
use super::{Board, ConnectError};
use crate::drive::DriveError;
use crate::exit::CommandError;
use crate::near;

/// One of the carriers.
#[derive(Debug, Clone)]
pub enum AnyBoard {
    Local(Local),
    Quic(Quic),
}

impl AnyBoard {
    /// # Errors
    /// When no board has that name, or what is needed to reach it cannot be read.
    pub fn find(name: &str) -> Result<Self, CommandError> {
        let connect = |source: ConnectError| {
            let board = name.to_owned();
            CommandError::from(DriveError::Connect { board, source })
        };
        if name == local::NAME {
            return Local::from_env().map(Self::Local).map_err(connect);
        }
        let settings = Settings::from_env().map_err(|why| connect(why.into()))?;
        let boards = KnownBoards::read(&settings)?;
        let Some(board) = boards.get(name) else {
            let names = boards.iter().map(|(name, _)| name).chain([local::NAME]);
            let hint = match near::matches(name, names).first() {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`edgedyno board list` shows those that are known; `local` is this machine"
                    .into(),
            };
            return Err(CommandError::usage(format!("there is no board `{name}`")).hint(hint));
        };
        let identity = settings.identity().map_err(|why| connect(why.into()))?;
        Ok(Self::Quic(Quic::new(name, board.clone(), identity)))
    }
}

impl Board for AnyBoard {
    fn name(&self) -> &str {
        match self {
            Self::Local(board) => board.name(),
            Self::Quic(board) => board.name(),
        }
    }

    fn is_remote(&self) -> bool {
        match self {
            Self::Local(board) => board.is_remote(),
            Self::Quic(board) => board.is_remote(),
        }
    }

    async fn connect(&self, store: StoreId) -> Result<Link, ConnectError> {
        match self {
            Self::Local(board) => board.connect(store).await,
            Self::Quic(board) => board.connect(store).await,
        }
    }
}
