//! `board remove`: taking the agent off a board again.

use clap::Args;
use edgedyno_shared::ids::StoreId;
use edgedyno_shared::wire::hello::DaemonStatus;

use super::add::{by_hand, failed, is_still};
use crate::board::known::{KnownBoards, SshRoute};
use crate::board::settings::Settings;
use crate::board::setup::{self, SetupError};
use crate::board::ssh::clear::{self, Own, Removed};
use crate::board::ssh::deploy::DeployError;
use crate::board::ssh::{Fault, Shell, Ssh, SshError};
use crate::board::{ConnectError, any, local};
use crate::cmd::block_on;
use crate::documents;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::ui::{self, print};

pub(super) const EXAMPLES: &str = "\
examples:
  edgedyno board remove x5
  edgedyno board remove x5 --force       also with results that nobody has fetched
  edgedyno board forget x5               off the list only; nothing on the board changes";

#[derive(Debug, Clone, Args)]
pub(super) struct RemoveArgs {
    /// The board
    name: String,
    /// Also when it measures, or has results that nobody has fetched: they are lost
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &RemoveArgs, settings: &Settings, json: bool) -> CommandResult {
    let name = &args.name;
    let boards = KnownBoards::read(settings)?;
    let Some(known) = boards.get(name).cloned() else {
        if name == local::NAME {
            return Err(CommandError::usage(
                "`local` is this machine, where nothing was brought to",
            ));
        }
        let names = boards.iter().map(|(name, _)| name);
        return Err(any::unknown(name, names));
    };
    let Some(route) = &known.ssh else {
        return Err(by_hand(name, "cleared"));
    };
    let removed = block_on(async {
        let removed = clear(name, route, args.force).await;
        removed.map_err(|why| why.told(name))
    })?;
    KnownBoards::change(settings, |boards| {
        // Whoever set it up anew elsewhere meanwhile keeps it.
        if is_still(boards, name, route) {
            boards.forget(name);
        }
        Ok::<_, CommandError>(())
    })?;
    match json {
        true => print::json(&documents::board_removed(name, &removed)),
        false => print::result(ui::board::removed(name, &removed)),
    }
    Ok(Exit::GOOD)
}

enum Refusal {
    /// ssh did not come to the board's shell.
    Unreached(SshError),
    Setup(SetupError),
    /// It measures, or keeps what somebody may want.
    Busy(DaemonStatus),
}

impl From<SetupError> for Refusal {
    fn from(why: SetupError) -> Self {
        Self::Setup(why)
    }
}

impl From<ConnectError> for Refusal {
    fn from(why: ConnectError) -> Self {
        Self::Setup(why.into())
    }
}

impl From<SshError> for Refusal {
    fn from(why: SshError) -> Self {
        Self::Setup(why.into())
    }
}

impl From<DeployError> for Refusal {
    fn from(why: DeployError) -> Self {
        Self::Setup(why.into())
    }
}

impl Refusal {
    /// Why there was no answer to the first word.
    fn of_greeting(why: ConnectError) -> Self {
        match why {
            ConnectError::Ssh(why) if why.is_outside() => Self::Unreached(why),
            why => why.into(),
        }
    }

    fn told(self, name: &str) -> CommandError {
        let what = format!("board {name} is not cleared");
        match self {
            Self::Unreached(why) => {
                let what = format!("board {name} cannot be reached, so nothing on it was cleared");
                let error = failed(name, &what, why.into());
                let hint = error.hint.clone().unwrap_or_default();
                error.hint(format!(
                    "{hint}; `edgedyno board forget {name}` only takes it off the list"
                ))
            }
            Self::Setup(why) => failed(name, &what, why),
            Self::Busy(status) => {
                let running = if status.running {
                    "a repeat is running; "
                } else {
                    ""
                };
                let (queued, spooled) = (status.queued, status.spooled);
                CommandError::new(Exit::BOARD, what)
                    .cause(format!("{running}{queued} orders wait there, and {spooled} results that nobody has fetched"))
                    .hint("fetch them where they were ordered (`edgedyno run --resume last`, or sweep), or give them up with --force")
            }
        }
    }
}

async fn clear(name: &str, route: &SshRoute, force: bool) -> Result<Removed, Refusal> {
    let shell = Shell::new(route.destination.clone());
    let ssh = Ssh::new(name, route.clone());
    match ssh.greet(StoreId::NONE).await {
        Ok(mut greeted) => {
            let status = greeted.status().await.map_err(ConnectError::from)?;
            let is_busy = status.running || status.queued > 0 || status.spooled > 0;
            if is_busy && !force {
                greeted.leave().await;
                return Err(Refusal::Busy(status));
            }
            let status = setup::retire(&ssh, &shell, greeted).await?;
            if status.running {
                // Its workers end with it.
                shell
                    .run(&format!("kill -9 {}\nsleep 1", status.process))
                    .await?;
            }
        }
        // Nothing runs that could be asked; what is left is files.
        Err(ConnectError::Ssh(SshError {
            fault: Fault::AgentMissing | Fault::AgentUnusable,
            ..
        })) => {}
        Err(why) => return Err(Refusal::of_greeting(why)),
    }
    let Some(base) = route.base() else {
        return Ok(Removed::default());
    };
    Ok(clear::remove(&shell, base, route, &Own::read()).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(fault: Fault, said: &str) -> CommandError {
        let shell = Shell::new("ssh://u@h:2222".parse().unwrap());
        Refusal::of_greeting(SshError::new(&shell, fault, said).into()).told("x5")
    }

    /// Whatever ends the way before the board's shell, no agent was started.
    #[test]
    fn a_board_that_is_not_reached_is_not_said_to_have_an_agent() {
        // Behind the shell, an agent may well run.
        let is_behind = |fault: &Fault| {
            use Fault::{AgentMissing, AgentUnusable, Other, Shell};
            matches!(fault, Shell | AgentMissing | AgentUnusable | Other)
        };
        let (behind, before): (Vec<Fault>, Vec<Fault>) =
            Fault::ALL.into_iter().partition(is_behind);
        for fault in before {
            let error = told(fault, "Connection refused");
            assert_eq!(error.exit, Exit::BOARD);
            let what = "board x5 cannot be reached, so nothing on it was cleared";
            assert_eq!(error.what, what, "{fault:?}");
            let cause = &error.causes[0];
            assert!(cause.ends_with(": Connection refused"), "{cause}");
            assert!(!cause.contains("agent"), "{fault:?}: {cause}");
            let hint = error.hint.unwrap();
            assert!(hint.ends_with("`edgedyno board forget x5` only takes it off the list"));
        }
        for fault in behind {
            assert_eq!(told(fault, "").what, "board x5 is not cleared");
        }
    }
}
