//! `board add` and `board update`: bringing the agent to a board by ssh.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::steps::Steps;
use crate::board::known::{KnownBoards, SshRoute, Start};
use crate::board::settings::Settings;
use crate::board::setup::{self, PORT, Ready, SetupError, Wishes};
use crate::board::ssh::Destination;
use crate::board::{any, local};
use crate::cmd::block_on;
use crate::documents;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::ui::{self, print};

pub(super) const ADD_EXAMPLES: &str = "\
examples:
  edgedyno board add ssh://sunrise@192.168.7.5 --name x5
  edgedyno board add ssh://s100                      a name of your ssh configuration, jump hosts and all
  edgedyno board add ssh://root@10.0.0.7:2222 --name rk --folder /userdata/edgedyno
  edgedyno board add ssh://lab-3 --service --listen 0.0.0.0
  edgedyno board add ssh://lab-3 --agent edgedyno-agent-0.1.0-aarch64.tar.gz";

pub(super) const UPDATE_EXAMPLES: &str = "\
examples:
  edgedyno board update x5
  edgedyno board update x5 --agent target/cross/agents/aarch64/edgedyno-agent";

#[derive(Debug, Clone, Args)]
pub(super) struct AddArgs {
    /// Where ssh goes: ssh://USER@HOST or ssh://USER@HOST:PORT
    place: String,
    /// What to call the board [default: the host's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The agent for it, a program or a package [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
    /// Where to put it on the board [default: ~/.local/lib/edgedyno, else /opt or /var/tmp]
    #[arg(long, value_name = "PATH")]
    folder: Option<String>,
    /// Let systemd start it, also after a restart of the board
    #[arg(long)]
    service: bool,
    /// Let it listen on the network (UDP) too, which is used when it answers
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    /// Root may measure for hosts on the network
    #[arg(long)]
    as_root: bool,
    /// Let it send its packets one by one: for a network driver that takes batches and loses them
    #[arg(long, requires = "listen")]
    no_segmentation_offload: bool,
    /// Replace a board of that name
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Args)]
pub(super) struct UpdateArgs {
    /// The board
    name: String,
    /// The agent for it, a program or a package [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let alone = || text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
    let parsed = text.parse::<SocketAddr>().or_else(|_| alone());
    parsed.map_err(|_| {
        "an IP address of the board is needed, with or without a port; 0.0.0.0 is all".into()
    })
}

pub(super) fn add(args: &AddArgs, settings: &Settings, json: bool) -> CommandResult {
    let destination: Destination = args.place.parse().map_err(|why| {
        CommandError::usage(format!("{why}"))
            .hint("such as ssh://root@192.168.7.5, or ssh://NAME of your ssh configuration")
    })?;
    let name = args
        .name
        .as_deref()
        .unwrap_or(destination.short_name())
        .to_owned();
    KnownBoards::check_name(&name)
        .map_err(|why| CommandError::from(why).hint("choose one with --name NAME"))?;
    check_free(&KnownBoards::read(settings)?, &name, args.force)?;
    let start = match (args.service, args.listen) {
        (true, _) => Start::Service,
        (false, Some(_)) => Start::Detached,
        (false, None) => Start::OnDemand,
    };
    let wishes = Wishes {
        agent: args.agent.clone(),
        folder: args
            .folder
            .as_ref()
            .map(|folder| folder.trim_end_matches('/').to_owned()),
        start,
        listen: args.listen,
        as_root: args.as_root,
        offload: !args.no_segmentation_offload,
    };
    let identity = settings.identity()?;
    let steps = Steps::start();
    let ready = block_on(async {
        let mut tell = |step| steps.tell(&step);
        let added = setup::add(&name, destination, &wishes, &identity, &mut tell).await;
        added.map_err(|why| failed(&name, &format!("board {name} cannot be added"), why))
    })?;
    steps.end();
    KnownBoards::change(settings, |boards| {
        // Another command may have taken the name while this one worked.
        check_free(boards, &name, args.force)?;
        Ok::<_, CommandError>(boards.add(&name, ready.board.clone())?)
    })?;
    show(&name, &ready, json)
}

fn check_free(boards: &KnownBoards, name: &str, force: bool) -> Result<(), CommandError> {
    match boards.get(name) {
        Some(_) if !force => Err(
            CommandError::usage(format!("there is a board `{name}` already")).hint(format!(
                "choose another name with --name, replace it with --force, or bring it a newer agent with \
                 `edgedyno board update {name}`"
            )),
        ),
        _ => Ok(()),
    }
}

pub(super) fn update(args: &UpdateArgs, settings: &Settings, json: bool) -> CommandResult {
    let name = &args.name;
    let boards = KnownBoards::read(settings)?;
    let Some(known) = boards.get(name).cloned() else {
        if name == local::NAME {
            return Err(CommandError::usage(
                "`local` is this machine, whose agent is part of this program",
            )
            .hint("install a newer edgedyno"));
        }
        let names = boards.iter().map(|(name, _)| name);
        return Err(any::unknown(name, names));
    };
    let Some(route) = &known.ssh else {
        return Err(by_hand(name, "brought a newer agent"));
    };
    let identity = settings.identity()?;
    let steps = Steps::start();
    let mut ready = block_on(async {
        let mut tell = |step| steps.tell(&step);
        let updated = setup::update(name, route, args.agent.as_deref(), &identity, &mut tell).await;
        updated.map_err(|why| failed(name, &format!("board {name} cannot be updated"), why))
    })?;
    steps.end();
    // A board that was paired by hand stays so.
    if ready.network.is_none() {
        ready.board.addresses.clone_from(&known.addresses);
    }
    ready.board.key = ready.board.key.or(known.key);
    KnownBoards::change(settings, |boards| {
        match is_still(boards, name, route) {
        true => Ok(boards.add(name, ready.board.clone())?),
        false => Err(CommandError::new(
            Exit::BOARD,
            format!("the newer agent is on the board, but {name} was taken off the list or set up anew meanwhile"),
        )
        .hint("`edgedyno board list` shows what is known now")),
    }
    })?;
    show(name, &ready, json)
}

/// Whether a board is still where it was when a command began.
pub(super) fn is_still(boards: &KnownBoards, name: &str, route: &SshRoute) -> bool {
    let now = boards.get(name).and_then(|board| board.ssh.as_ref());
    now.is_some_and(|now| now.destination == route.destination)
}

/// Boards without ssh are looked after by whoever set them up.
pub(super) fn by_hand(name: &str, what: &str) -> CommandError {
    CommandError::usage(format!(
        "board {name} is not reached by ssh, so it cannot be {what} from here"
    ))
    .hint(format!(
        "`edgedyno board add ssh://USER@HOST --name {name} --force` makes it so"
    ))
}

fn show(name: &str, ready: &Ready, json: bool) -> CommandResult {
    match json {
        true => print::json(&documents::board_ready(name, ready)),
        false => print::result(ui::board::ready(name, ready)),
    }
    Ok(Exit::GOOD)
}

/// What a command ends with when a board could not be set up.
pub(in crate::cmd) fn failed(board: &str, what: &str, why: SetupError) -> CommandError {
    let exit = match &why {
        SetupError::Agent(_) | SetupError::Wish { .. } => Exit::USAGE,
        SetupError::Connect(why) if why.is_incompatible() => Exit::INCOMPATIBLE,
        SetupError::Temporary(_) => Exit::UNEXPECTED,
        _ => Exit::BOARD,
    };
    let hint = why.hint(board);
    let hint = Some(hint).filter(|hint| !hint.is_empty());
    CommandError::new(exit, what).because(why).hint_if(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_alone_gets_the_usual_port() {
        assert_eq!(
            listen_address("0.0.0.0"),
            Ok("0.0.0.0:7447".parse().unwrap())
        );
        assert_eq!(listen_address("[::]:9"), Ok("[::]:9".parse().unwrap()));
        assert!(listen_address("eth0").is_err());
    }
}
