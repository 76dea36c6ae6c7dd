//! What a command asks of a board before it orders anything.

use std::path::Path;

use edgedyno_shared::device::{DeviceInfo, RuntimeFound};
use edgedyno_shared::ids::StoreId;
use edgedyno_shared::telemetry::Watched;
use edgedyno_shared::wire::request::{LeaseState, Reply, Request, WaitingResults};

use crate::board::Board;
use crate::board::any::AnyBoard;
use crate::board::link::{Link, LinkError};
use crate::drive::DriveError;
use crate::exit::{CommandError, Exit};

/// The board of that name.
pub(crate) fn find_board(name: &str) -> Result<AnyBoard, CommandError> {
    AnyBoard::find(name)
}

/// A session that only asks.
pub(crate) struct Inquiry {
    board: String,
    link: Link,
}

impl Inquiry {
    pub(crate) async fn open(board: &impl Board) -> Result<Self, CommandError> {
        let name = board.name().to_owned();
        match board.connect(StoreId::NONE).await {
            Ok(link) => Ok(Self { board: name, link }),
            Err(source) => Err(DriveError::Connect {
                board: name,
                source,
            }
            .into()),
        }
    }

    /// What the board says of itself.
    pub(crate) async fn device(&mut self) -> Result<DeviceInfo, CommandError> {
        match self.ask(Request::Info).await? {
            Reply::Info(info) => Ok(*info),
            _ => Err(self.failed(LinkError::Unexpected("something else than about itself"))),
        }
    }

    /// Who measures on the board.
    pub(crate) async fn lease(&mut self) -> Result<LeaseState, CommandError> {
        match self.ask(Request::Lease).await? {
            Reply::Lease(state) => Ok(state),
            _ => Err(self.failed(LinkError::Unexpected("something else than who holds it"))),
        }
    }

    /// Whose results wait on the board.
    pub(crate) async fn waiting(&mut self) -> Result<Vec<WaitingResults>, CommandError> {
        match self.ask(Request::Waiting).await? {
            Reply::Waiting(waiting) => Ok(waiting),
            _ => Err(self.failed(LinkError::Unexpected("something else than what waits"))),
        }
    }

    /// Throws away what waits on the board for a store.
    pub(crate) async fn drop_results(&mut self, store: StoreId) -> Result<(), CommandError> {
        match self.ask(Request::DropResults { store }).await? {
            Reply::Done => Ok(()),
            _ => Err(self.failed(LinkError::Unexpected("something else than that it is done"))),
        }
    }

    /// What the board does now.
    pub(crate) async fn watched(&mut self) -> Result<Watched, CommandError> {
        match self.ask(Request::Watch).await? {
            Reply::Watched(watched) => Ok(watched),
            _ => Err(self.failed(LinkError::Unexpected("something else than what it does"))),
        }
    }

    /// What the board says of one library file.
    pub(crate) async fn probe(
        &mut self,
        backend: &str,
        path: &Path,
    ) -> Result<RuntimeFound, CommandError> {
        let path = path.to_str().ok_or_else(|| {
            CommandError::usage(format!("`{}` is not text", path.display())).hint("rename the file")
        })?;
        let request = Request::ProbeRuntime {
            backend: backend.to_owned(),
            path: path.to_owned(),
        };
        match self.ask(request).await? {
            Reply::Runtime(found) => Ok(found),
            _ => Err(self.failed(LinkError::Unexpected("something else than about a library"))),
        }
    }

    async fn ask(&mut self, request: Request) -> Result<Reply, CommandError> {
        let answer = self.link.ask(request).await;
        answer.map_err(|why| self.failed(why))
    }

    fn failed(&self, why: LinkError) -> CommandError {
        let what = format!(
            "the agent on board {} does not answer as it should",
            self.board
        );
        let hint = match &why {
            LinkError::Refused(failure) => failure.hint.clone(),
            _ => None,
        };
        CommandError::new(Exit::BOARD, what)
            .because(why)
            .hint_if(hint)
    }
}
